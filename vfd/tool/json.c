/* JSON: see json.h. */
#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "../../cache/base/err.h"

void xh_json_string(FILE *to, const char *text)
{
    putc('"', to);
    while (*text) {
        unsigned char c = (unsigned char)*text;
        size_t n = xh_utf8_length(text);
        if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (n)
            fwrite(text, 1, n, to);
        else
            fprintf(to, "\\u%04x", c);
        text += n ? n : 1;
    }
    putc('"', to);
}

void xh_json_text(FILE *to, const char *name, const char *text)
{
    fprintf(to, "\"%s\": ", name);
    if (text)
        xh_json_string(to, text);
    else
        fputs("null", to);
}

void xh_json_number(FILE *to, const char *name, double value)
{
    if (isfinite(value))
        fprintf(to, "\"%s\": %.3f", name, value);
    else
        fprintf(to, "\"%s\": null", name);
}

void xh_json_count(FILE *to, const char *name, uint64_t value)
{
    fprintf(to, "\"%s\": %" PRIu64, name, value);
}

void xh_json_counts(FILE *to, const char *name, const uint64_t *value, unsigned n)
{
    fprintf(to, "\"%s\": [", name);
    for (unsigned i = 0; i < n; i++) {
        if (value[i] == UINT64_MAX)
            fprintf(to, "%snull", i ? ", " : "");
        else
            fprintf(to, "%s%" PRIu64, i ? ", " : "", value[i]);
    }
    putc(']', to);
}
