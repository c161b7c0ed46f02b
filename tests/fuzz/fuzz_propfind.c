/* PROPFIND's XML. */
#include <string.h>

#include "fuzz.h"
#include "origin/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    char date[64];
    uint64_t length = 0;
    memset(date, 'x', sizeof date);
    const struct xh_xml all = {(const char *)p, size};
    struct xh_xml rest = all, path, of;
    int both = xh_propfind_parse(all, date, sizeof date, &length);
    hold(memchr(date, '\0', sizeof date) != NULL, "a date without an end");
    hold(!both || (date[0] && length <= INT64_MAX), "found what is not there");
    xh_propfind_is_directory(all);
    while (xh_propfind_next(&rest, &path, &of))
        hold(of.len <= size && path.at >= of.at && path.at + path.len <= of.at + of.len, "a path beside its resource");
    if (date[0])
        xh_http_date(date);
    return 0;
}
