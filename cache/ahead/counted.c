/* Names that count: see counted.h. */
#include "counted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"

#define DIGITS_MOST 17 /* of a number: sums of two fit */
#define STEPS_LEAST 2u /* one step may be by chance */

enum unit { ONES, MONTHS, DAYS };

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
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
    if (len == 6 && is_month(n)) {
        *unit = MONTHS;
        return n / 100 * 12 + n % 100 - 1;
    }
    int64_t days = len == 8 && is_month(n / 100) ? xh_date_days(n) : XH_NO_DAY;
    *unit = days == XH_NO_DAY ? ONES : DAYS;
    return days == XH_NO_DAY ? n : days;
}

/* Below 0: there is no such number. */
static long long number_of(long long value, enum unit unit)
{
    return unit == DAYS ? xh_days_date(value) : unit == MONTHS ? value / 12 * 100 + value % 12 + 1 : value;
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
    long long value = value_of(c->last + c->at, c->len, &unit);
    long long number = number_of(value + c->step * (long long)k, unit);
    if (number < 0)
        return 0;
    int width = c->last[c->at] == '0' ? (int)c->len : 1;
    int n = snprintf(out, XH_COUNTED_BYTES, "%.*s%0*lld%s", (int)c->at, c->last, width, number,
                     c->last + c->at + c->len);
    return n > 0 && n < XH_COUNTED_BYTES;
}
