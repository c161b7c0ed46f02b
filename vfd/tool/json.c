/* JSON: see json.h. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

json_t *xh_json_text(const char *text)
{
    json_t *value = text ? json_string(text) : json_null();
    char *utf8 = value || !text ? NULL : malloc(2 * strlen(text) + 1), *to = utf8;
    if (!utf8)
        return value;
    for (; *text; text++) /* it is no UTF-8: U+0080 to U+00FF for the bytes above 0x7f */
        if ((unsigned char)*text < 0x80) {
            *to++ = *text;
        } else {
            *to++ = (char)(0xc0 | (unsigned char)*text >> 6);
            *to++ = (char)(0x80 | (*text & 0x3f));
        }
    *to = '\0';
    value = json_string(utf8);
    free(utf8);
    return value;
}

json_t *xh_json_number(double value)
{
    return isfinite(value) ? json_real(round(value * 1e3) / 1e3) : json_null();
}

json_t *xh_json_counts(const uint64_t *value, unsigned n)
{
    json_t *all = json_array();
    for (unsigned i = 0; i < n; i++)
        if (json_array_append_new(all, value[i] == UINT64_MAX ? json_null() : json_integer((json_int_t)value[i])))
            return NULL;
    return all;
}

void xh_json_print(const char *before, json_t *value)
{
    if (!value)
        exit(xh_tool_fail(XH_EXIT_FAILED, "out of memory"));
    fputs(before, stdout); /* what is lost of it, xh_tool_end tells */
    json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    json_decref(value);
}
