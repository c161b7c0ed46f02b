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
    int n = 0, hours = 0, minutes = 0;
    char sign = '+';
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &n) != 6 || n == 0)
        return 0;
    text += n;
    if (*text == '.')
        text += 1 + strspn(text + 1, XH_DIGITS);
    if (*text != 'Z' && *text && sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) != 3)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    long long at = (long long)timegm(&tm), off = hours * 3600LL + minutes * 60LL;
    return sign == '-' ? at + off : at - off;
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
