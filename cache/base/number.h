/* The one reader of whole numbers that a user or a file writes. strtoull alone takes blanks and signs, and -1 as
 * 2^64 - 1; a cast of what it returns wraps. Pure. */
#ifndef XH_NUMBER_H
#define XH_NUMBER_H

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

/* Reads digits, without a sign, and sets |end| behind them. Returns 0, or -1 when there are none, or too many. */
static inline int xh_digits(const char *text, char **end, uint64_t *out)
{
    if (!isdigit((unsigned char)*text))
        return -1;
    errno = 0;
    unsigned long long v = strtoull(text, end, 10);
    if (errno || v > UINT64_MAX)
        return -1;
    *out = v;
    return 0;
}

/* Reads a number that is all of |text|. Returns 0, or -1 when it is none from |min| to |max|. */
static inline int xh_whole_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    uint64_t v;
    if (xh_digits(text, &end, &v) || *end || v < min || v > max)
        return -1;
    *out = v;
    return 0;
}

#endif
