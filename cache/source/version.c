/* A file's time, from its validator: see version.h. */
#include "version.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Days from 1970-01-01 to the first of |month| (1 to 12) of |year|: years begin in March here, so that the leap day is
 * last. */
static int64_t days_to(int64_t year, int month)
{
    int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 - 719468;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7; the two older forms are not sent any more). Not by curl_getdate:
 * that takes a date without seconds or zone too, and here it is compared with a file's time. */
static int http_date(const char *text, int64_t *out)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char name[4];
    int day, year, h, m, s, n = 0;
    if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &day, name, &year, &h, &m, &s, &n) != 6 ||
        n == 0)
        return 0;
    const char *at = strlen(name) == 3 ? strstr(months, name) : NULL;
    if (!at || (at - months) % 3 || year < 1601 || day < 1 || day > 31 || h < 0 || h > 23 || m < 0 || m > 59 || s < 0 ||
        s > 60)
        return 0;
    *out = ((days_to(year, (int)(at - months) / 3 + 1) + day - 1) * 24 + h) * 3600 + m * 60 + s;
    return 1;
}

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
    if (strncmp(validator, "mtime:", 6) == 0)
        return http_date(validator + 6, mtime_s);
    return strncmp(validator, "etag:", 5) == 0 && etag_time(validator + 5, size, mtime_s);
}
