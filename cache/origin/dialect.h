/* The dialect: what is known of one object at one server, and its one-line text. Pure. */
#ifndef XH_DIALECT_H
#define XH_DIALECT_H

#include <stddef.h>
#include <stdint.h>

#define XH_VALIDATOR_BYTES 256 /* longest ETag or date kept, with its NUL */

/* What proves that the object has not changed. */
enum xh_proof {
    XH_BY_SIZE,      /* nothing but the size in each Content-Range */
    XH_BY_ETAG,      /* strong ETag: sent as If-Match, compared in each reply */
    XH_BY_WEAK_ETAG, /* W/"…": compared in each reply, never sent as If-Match */
    XH_BY_DATE,      /* Last-Modified: compared in each reply */
    XH_BY_PROPFIND,  /* XRootD: getlastmodified, asked for from time to time */
};

struct xh_dialect {
    enum xh_proof proof;
    char value[XH_VALIDATOR_BYTES]; /* ETag or date as the server wrote it; "" for XH_BY_SIZE */
    uint64_t size;                  /* bytes of the object */
    unsigned max_ranges;            /* most ranges in one request; 1: no multi-range */
    size_t max_range_header;        /* most bytes of the Range header's value */
};

#define XH_RANGES_AT_FIRST 200u        /* Apache's default limit; nginx and XRootD take more */
#define XH_RANGE_HEADER_AT_FIRST 3900u /* safe on every server known (davix's choice) */

/* Nothing known yet but where to start. */
void xh_dialect_init(struct xh_dialect *d, int multirange);

/* Sets proof and value when |value| is printable and short enough. Returns 1 if it was. */
int xh_dialect_set_proof(struct xh_dialect *d, enum xh_proof proof, const char *value);

/* A multi-range request of |nranges| in |header_bytes| was refused for its size: halves
 * what is asked next. Down to 1 it goes in a few steps. */
void xh_dialect_halve(struct xh_dialect *d, unsigned nranges, size_t header_bytes);

/* Printable, never empty: "etag:…", "mtime:…;size:…", "size:…". Returns its length, or 0. */
size_t xh_dialect_validator(const struct xh_dialect *d, char *buf, size_t size);

/* One line for a later opening. No secrets. Returns its length, or 0 when it does not fit. */
size_t xh_dialect_hint(const struct xh_dialect *d, char *buf, size_t size);

/* Reads such a line, which anyone may have written. Returns 0, or -1 and |d| untouched. */
int xh_dialect_from_hint(struct xh_dialect *d, const char *text);

#endif
