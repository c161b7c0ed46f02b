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
