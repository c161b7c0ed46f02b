/* Names that count: see counted.h. */
#include "counted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MOST 17 /* of a number: sums of two fit */
#define STEPS_LEAST 2u

enum unit { ONES, MONTHS, DAYS };

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Days from 1 January of the year 0 on, by the Gregorian calendar. */
static long long days_of(long long year, long long month, long long day)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int leaps = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    long long past = year - 1;
    return year * 365 + past / 4 - past / 100 + past / 400 + before[month - 1] + (leaps && month > 2) + day;
}

/* The date of |days|. */
static long long date_of(long long days)
{
    long long year = days / 366, month = 1;
    while (days_of(year + 1, 1, 1) <= days)
        year++;
    while (month < 12 && days_of(year, month + 1, 1) <= days)
        month++;
    return year * 10000 + month * 100 + days - days_of(year, month, 1) + 1;
}

static int is_month(long long yyyymm)
{
    return yyyymm >= 180000 && yyyymm < 220000 && yyyymm % 100 >= 1 && yyyymm % 100 <= 12;
}

/* What the |len| digits at |text| count, in what: 20240131 the 31st of a month. */
static long long value_of(const char *text, size_t len, enum unit *unit)
{
    char digits[DIGITS_MOST + 1] = "";
    memcpy(digits, text, len);
    long long n = atoll(digits);
    *unit = ONES;
    if (len == 6 && is_month(n)) {
        *unit = MONTHS;
        return n / 100 * 12 + n % 100 - 1;
    }
    if (len == 8 && is_month(n / 100) && n % 100 >= 1 &&
        date_of(days_of(n / 10000, n / 100 % 100, n % 100)) == n) {
        *unit = DAYS;
        return days_of(n / 10000, n / 100 % 100, n % 100);
    }
    return n;
}

static long long number_of(long long value, enum unit unit)
{
    return unit == DAYS ? date_of(value) : unit == MONTHS ? value / 12 * 100 + value % 12 + 1 : value;
}

/* Where the path of |url| begins. */
static size_t path_of(const char *url)
{
    const char *host = strstr(url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
    return path ? (size_t)(path - url) : strlen(url);
}

/* 1 where the character |i| of |url| is a digit that counts, and not one of %20. */
static int counts(const char *url, size_t i)
{
    int is_escape = (i >= 1 && url[i - 1] == '%') || (i >= 2 && url[i - 2] == '%');
    return is_digit(url[i]) && !is_escape;
}

/* Finds the one number in which |b| differs from |a|: where it begins in both, and how long it is in each. Returns 0
 * where they differ otherwise. */
static int find(const char *a, const char *b, size_t *at, size_t *alen, size_t *blen)
{
    size_t na = strlen(a), nb = strlen(b), from = 0, back = 0;
    while (a[from] && a[from] == b[from])
        from++;
    while (back < na - from && back < nb - from && a[na - back - 1] == b[nb - back - 1])
        back++;
    while (from > 0 && counts(a, from - 1))
        from--;
    while (back > 0 && is_digit(a[na - back]))
        back--;
    *at = from;
    *alen = na - back - from;
    *blen = nb - back - from;
    for (size_t i = from; i < na - back; i++)
        if (!counts(a, i))
            return 0;
    for (size_t i = from; i < nb - back; i++)
        if (!counts(b, i))
            return 0;
    return *alen > 0 && *blen > 0 && *alen <= DIGITS_MOST && *blen <= DIGITS_MOST;
}

void xh_counted_saw(struct xh_counted *c, const char *url)
{
    size_t at = 0, alen = 0, blen = 0;
    enum unit was, is;
    if (strlen(url) >= XH_COUNTED_BYTES || strpbrk(url, "?#")) {
        *c = (struct xh_counted){0};
        return;
    }
    if (strcmp(c->last, url) == 0) /* once more */
        return;
    long long step = 0;
    if (find(c->last, url, &at, &alen, &blen) && at > path_of(url)) {
        long long now = value_of(url + at, blen, &is), before = value_of(c->last + at, alen, &was);
        if (was != is) { /* 202412, 202413: no months */
            now = atoll(url + at);
            before = atoll(c->last + at);
        }
        step = now - before;
    }
    c->same = step && step == c->step && at == c->at ? c->same + 1 : step != 0;
    c->step = step;
    c->at = at;
    c->len = blen;
    memcpy(c->last, url, strlen(url) + 1);
}

int xh_counted_next(const struct xh_counted *c, unsigned k, char out[XH_COUNTED_BYTES])
{
    enum unit unit;
    if (c->same < STEPS_LEAST)
        return 0;
    long long value = value_of(c->last + c->at, c->len, &unit) + c->step * (long long)k;
    if (value < 0)
        return 0;
    int width = c->last[c->at] == '0' ? (int)c->len : 1;
    int n = snprintf(out, XH_COUNTED_BYTES, "%.*s%0*lld%s", (int)c->at, c->last, width, number_of(value, unit),
                     c->last + c->at + c->len);
    return n > 0 && n < XH_COUNTED_BYTES;
}
