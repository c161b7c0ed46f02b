/* Texts that anyone may have written: a config string, an environment, and a shadow's hint of what a server is like. */
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/options.h"
#include "origin/dialect.h"

#define VARIABLES_MOST 50u

static void within_bounds(const struct xh_options *o)
{
    for (unsigned i = 0; i < XH_OPT_COUNT; i++) {
        const struct xh_opt_row *row = &xh_opt_rows[i];
        uint64_t v = 0;
        if (row->type == XH_OPT_STR)
            v = strlen((const char *)o + row->offset);
        else
            memcpy(&v, (const char *)o + row->offset, sizeof v);
        hold(v >= row->min && v <= row->max, "an option out of its bounds");
    }
}

/* |rc| and |err| of setting |o|. */
static void check(int rc, const struct xh_options *o, const struct xh_err *err)
{
    if (rc)
        hold(err->code != 0 && err->text[0], "refused without a word");
    else
        within_bounds(o);
}

/* Each line of |text| is a variable; changes it. */
static void from_env(struct xh_options *o, char *text)
{
    char *variables[VARIABLES_MOST + 1], **was = environ, *at = text;
    struct xh_err err = {0};
    size_t n = 0;
    for (char *line; n < VARIABLES_MOST && (line = strsep(&at, "\n"));)
        variables[n++] = line;
    variables[n] = NULL;
    environ = variables;
    int rc = xh_options_from_env(o, &err);
    environ = was;
    check(rc, o, &err);
}

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
    check(xh_options_from_string(&o, s, "fuzz", &err), &o, &err);
    xh_dialect_init(&d);
    if (xh_dialect_from_hint(&d, s) == 0) {
        hold(strlen(d.value) < sizeof d.value && !strpbrk(d.value, "\r\n"), "a value that ends a header");
        hold(xh_dialect_hint(&d, hint, sizeof hint) != 0, "its own hint cannot be written");
        xh_dialect_init(&again);
        hold(xh_dialect_from_hint(&again, hint) == 0 && xh_dialect_hint(&again, back, sizeof back) &&
                 !strcmp(hint, back),
             "its own hint is read as another");
    }
    xh_options_defaults(&o);
    from_env(&o, s);
    free(s);
    return 0;
}
