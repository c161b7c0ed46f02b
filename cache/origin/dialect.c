/* The dialect: see dialect.h. Pure; a hint is untrusted text, so every field of it is
 * checked against the bounds that the prober itself would keep. */
#include "dialect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HINT_WORD "xhdf5-origin-1"

static const char *const proof_names[] = {
    [XH_BY_SIZE] = "size", [XH_BY_ETAG] = "etag",         [XH_BY_WEAK_ETAG] = "weak",
    [XH_BY_DATE] = "date", [XH_BY_PROPFIND] = "propfind",
};

void xh_dialect_init(struct xh_dialect *d, int multirange)
{
    memset(d, 0, sizeof *d);
    d->proof = XH_BY_SIZE;
    d->max_ranges = multirange ? XH_RANGES_AT_FIRST : 1;
    d->max_range_header = XH_RANGE_HEADER_AT_FIRST;
}

static int printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            return 0;
    return 1;
}

/* An entity tag as RFC 9110, 8.8.3 has it: quoted, without a quote inside. */
static int is_etag(const char *s)
{
    size_t n = strlen(s);
    return n >= 2 && s[0] == '"' && s[n - 1] == '"' && memchr(s + 1, '"', n - 2) == NULL;
}

int xh_dialect_set_proof(struct xh_dialect *d, enum xh_proof proof, const char *value)
{
    size_t n = strlen(value);
    if (n >= sizeof d->value || !printable(value) || (n == 0) != (proof == XH_BY_SIZE))
        return 0;
    if (proof == XH_BY_ETAG && !is_etag(value))
        return 0;
    if (proof == XH_BY_WEAK_ETAG && (strncmp(value, "W/", 2) != 0 || !is_etag(value + 2)))
        return 0;
    d->proof = proof;
    memcpy(d->value, value, n + 1);
    return 1;
}

void xh_dialect_halve(struct xh_dialect *d, unsigned nranges, size_t header_bytes)
{
    unsigned half = nranges / 2 ? nranges / 2 : 1;
    if (half < d->max_ranges)
        d->max_ranges = half;
    if (header_bytes / 2 < d->max_range_header && header_bytes / 2 >= 64)
        d->max_range_header = header_bytes / 2;
}

size_t xh_dialect_validator(const struct xh_dialect *d, char *buf, size_t size)
{
    int n;
    switch (d->proof) {
    case XH_BY_ETAG:
    case XH_BY_WEAK_ETAG:
        n = snprintf(buf, size, "etag:%s;size:%" PRIu64, d->value, d->size);
        break;
    case XH_BY_DATE:
    case XH_BY_PROPFIND:
        n = snprintf(buf, size, "mtime:%s;size:%" PRIu64, d->value, d->size);
        break;
    default:
        n = snprintf(buf, size, "size:%" PRIu64, d->size);
    }
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

size_t xh_dialect_hint(const struct xh_dialect *d, char *buf, size_t size)
{
    /* The value comes last: it may hold spaces. */
    int n = snprintf(buf, size, HINT_WORD " size=%" PRIu64 " ranges=%u header=%zu proof=%s value=%s", d->size,
                     d->max_ranges, d->max_range_header, proof_names[d->proof], d->value);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* Reads |key| and a number in [min, max] at |*p|; moves |*p| past it. */
static int number_field(const char **p, const char *key, uint64_t min, uint64_t max, uint64_t *out)
{
    size_t n = strlen(key);
    if (strncmp(*p, key, n) != 0 || (*p)[n] < '0' || (*p)[n] > '9')
        return -1;
    char *end;
    errno = 0;
    uint64_t v = strtoull(*p + n, &end, 10);
    if (errno || v < min || v > max)
        return -1;
    *p = end;
    *out = v;
    return 0;
}

int xh_dialect_from_hint(struct xh_dialect *d, const char *text)
{
    struct xh_dialect new;
    uint64_t ranges, header;
    const char *p = text;
    xh_dialect_init(&new, 1);
    if (strncmp(p, HINT_WORD, strlen(HINT_WORD)) != 0)
        return -1;
    p += strlen(HINT_WORD);
    if (number_field(&p, " size=", 0, INT64_MAX, &new.size) ||
        number_field(&p, " ranges=", 1, XH_RANGES_AT_FIRST, &ranges) ||
        number_field(&p, " header=", 64, XH_RANGE_HEADER_AT_FIRST, &header))
        return -1;
    new.max_ranges = (unsigned)ranges;
    new.max_range_header = header;
    if (strncmp(p, " proof=", 7) != 0)
        return -1;
    p += 7;
    for (size_t i = 0; i < sizeof proof_names / sizeof *proof_names; i++) {
        size_t n = strlen(proof_names[i]);
        if (strncmp(p, proof_names[i], n) == 0 && strncmp(p + n, " value=", 7) == 0) {
            if (!xh_dialect_set_proof(&new, (enum xh_proof)i, p + n + 7))
                return -1;
            *d = new;
            return 0;
        }
    }
    return -1;
}
