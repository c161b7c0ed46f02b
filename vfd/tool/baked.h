/* What publish made beside a file, or why it did not: one answer, as each of its workers gives it. */
#ifndef XH_BAKED_H
#define XH_BAKED_H

#include <stdint.h>

/* What came of a file; small enough to pass a pipe at once. */
enum xh_baked_as {
    XH_BAKED_LOST,    /* nothing: who was at it has died */
    XH_BAKED_MADE,    /* made; or what would be made. |text|: how, of a body */
    XH_BAKED_FRESH,   /* it is there, and of this file */
    XH_BAKED_SKIPPED, /* not worth it: |text| says why */
    XH_BAKED_GONE,    /* removed */
    XH_BAKED_NONE,    /* there is none */
    XH_BAKED_STALE,   /* of another version, or damaged: |text| */
    XH_BAKED_FAILED,  /* |text| */
};

struct xh_baked {
    uint64_t file; /* its number, for the caller */
    int body;      /* 1: the compressed body is meant, 0: the metadata image */
    int last;      /* 1: nothing more is told of this file */
    enum xh_baked_as as;
    uint64_t file_bytes, image_bytes, sidecar_bytes, extents;
    char text[600];
};

/* Sets |out|'s |as| and text. */
void xh_baked_tell(struct xh_baked *out, enum xh_baked_as as, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same as a value: -1. */
#define xh_baked_say(out, ...) (xh_baked_tell(out, __VA_ARGS__), -1)

#endif
