/* Dates: see date.h. */
#include "date.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "letters.h"

int64_t xh_http_date(const char *text)
{
    static const char form[XH_DATE_BYTES] = "aaa, 00 aaa 0000 00:00:00 GMT";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct tm tm = {0};
    char month[4];
    for (size_t i = 0; i < sizeof form; i++) {
        unsigned char c = (unsigned char)text[i];
        if (form[i] == 'a' ? !xh_isalpha(c) : form[i] == '0' ? !isdigit(c) : text[i] != form[i])
            return -1;
    }
    sscanf(text + 5, "%d %3s %d %d:%d:%d", &tm.tm_mday, month, &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec);
    const char *at = strstr(months, month);
    if (!at || (at - months) % 3 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 ||
        tm.tm_sec > 60)
        return -1;
    tm.tm_mon = (int)(at - months) / 3;
    tm.tm_year -= 1900;
    return (int64_t)timegm(&tm);
}

long long xh_iso_date(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest && *rest == '.')
        rest += 1 + strspn(rest + 1, XH_DIGITS);
    if (!rest || (*rest && !strptime(rest, "%z", &tm)))
        return 0;
    long east = tm.tm_gmtoff; /* timegm takes it away */
    return (long long)timegm(&tm) - east;
}

#define SECONDS_A_DAY 86400
#define DAYS_MOST 10000000 /* more than four digits of years have; so gmtime_r is not asked for what it cannot say */

int64_t xh_date_days(long long yyyymmdd)
{
    if (yyyymmdd < 10000101 || yyyymmdd > 99991231)
        return XH_NO_DAY;
    struct tm tm = {.tm_year = (int)(yyyymmdd / 10000) - 1900,
                    .tm_mon = (int)(yyyymmdd / 100 % 100) - 1,
                    .tm_mday = (int)(yyyymmdd % 100)};
    int64_t days = (int64_t)timegm(&tm) / SECONDS_A_DAY; /* at midnight: exact */
    return xh_days_date(days) == yyyymmdd ? days : XH_NO_DAY; /* timegm takes 31 February for 2 March */
}

long long xh_days_date(int64_t days)
{
    struct tm tm;
    if (days < -DAYS_MOST || days > DAYS_MOST)
        return -1;
    time_t when = (time_t)(days * SECONDS_A_DAY);
    if (!gmtime_r(&when, &tm) || tm.tm_year < 1000 - 1900 || tm.tm_year > 9999 - 1900)
        return -1;
    return (tm.tm_year + 1900LL) * 10000 + (tm.tm_mon + 1) * 100 + tm.tm_mday;
}

const char *xh_date_text(int64_t seconds, char out[XH_DATE_TEXT_BYTES])
{
    time_t when = (time_t)seconds;
    struct tm tm;
    snprintf(out, XH_DATE_TEXT_BYTES, "?");
    if (gmtime_r(&when, &tm))
        snprintf(out, XH_DATE_TEXT_BYTES, "%04d-%02d-%02d %02d:%02d:%02d UTC", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return out;
}
