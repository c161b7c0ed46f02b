/* A file's time, from its validator: see version.h. */
#include "version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/date.h"

/* nginx: "time-size" in seconds; Apache: "size-time" in microseconds; both hexadecimal. */
static int etag_time(const char *tag, uint64_t size, int64_t *out)
{
    uint64_t a, b;
    char end;
    if (strncmp(tag, "W/", 2) == 0)
        tag += 2;
    if (sscanf(tag, "\"%16" SCNx64 "-%16" SCNx64 "%c", &a, &b, &end) != 3 || end != '"')
        return 0;
    if (b == size && a < UINT64_C(1) << 40) {
        *out = (int64_t)a;
        return 1;
    }
    if (a != size || b > INT64_MAX)
        return 0;
    *out = (int64_t)(b / 1000000);
    return 1;
}

int xh_version_mtime(const char *validator, uint64_t size, int64_t *mtime_s)
{
    char date[XH_DATE_BYTES];
    if (strncmp(validator, "mtime:", 6) == 0) {
        snprintf(date, sizeof date, "%s", validator + 6); /* without what follows the date */
        int64_t t = xh_http_date(date);
        *mtime_s = t >= 0 ? t : *mtime_s;
        return t >= 0;
    }
    return strncmp(validator, "etag:", 5) == 0 && etag_time(validator + 5, size, mtime_s);
}
