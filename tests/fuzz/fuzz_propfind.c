/* PROPFIND's XML. */
#include <string.h>

#include "fuzz.h"
#include "origin/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    char date[64];
    uint64_t length = 0;
    memset(date, 'x', sizeof date);
    int both = xh_propfind_parse((const char *)p, size, date, sizeof date, &length);
    hold(memchr(date, '\0', sizeof date) != NULL, "a date without an end");
    hold(!both || (date[0] && length <= INT64_MAX), "found what is not there");
    xh_propfind_is_directory((const char *)p, size);
    if (date[0])
        xh_http_date(date);
    return 0;
}
