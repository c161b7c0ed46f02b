/* Texts that anyone may have written: a config string, and a shadow's hint of what a server is like. */
#include <string.h>

#include "fuzz.h"
#include "options.h"
#include "origin/dialect.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    static struct xh_options o;
    struct xh_err err = {0};
    struct xh_dialect d, again;
    char hint[1024], back[1024];
    char *s = malloc(size + 1);
    hold(s != NULL, "out of memory");
    memcpy(s, p, size);
    s[size] = '\0';
    xh_options_defaults(&o);
    if (xh_options_from_string(&o, s, "fuzz", &err))
        hold(err.code != 0 && err.text[0], "refused without a word");
    else
        for (unsigned i = 0; i < XH_OPT_COUNT; i++) {
            const struct xh_opt_row *row = &xh_opt_rows[i];
            uint64_t v = 0;
            if (row->type == XH_OPT_STR)
                v = strlen((const char *)&o + row->offset);
            else
                memcpy(&v, (const char *)&o + row->offset, sizeof v);
            hold(v >= row->min && v <= row->max, "an option out of its bounds");
        }
    xh_dialect_init(&d, 1);
    if (xh_dialect_from_hint(&d, s) == 0) {
        hold(d.max_ranges >= 1 && d.max_range_header >= 64, "a dialect that cannot ask");
        hold(strlen(d.value) < sizeof d.value && !strpbrk(d.value, "\r\n"), "a value that ends a header");
        hold(xh_dialect_hint(&d, hint, sizeof hint) != 0, "its own hint cannot be written");
        xh_dialect_init(&again, 1);
        hold(xh_dialect_from_hint(&again, hint) == 0 && xh_dialect_hint(&again, back, sizeof back) && !strcmp(hint, back),
             "its own hint is read as another");
    }
    free(s);
    return 0;
}
