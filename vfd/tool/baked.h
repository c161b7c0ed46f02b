/* The result of publish for one file, as a worker process sends it: what was made beside the file, or why not. */
#ifndef XH_BAKED_H
#define XH_BAKED_H

#include <stdint.h>

/* The result for one file. Small enough for one write to a pipe. */
enum xh_baked_as {
    XH_BAKED_LOST,    /* nothing: the worker process died */
    XH_BAKED_MADE,    /* made, or would be made; |text| describes a compressed copy */
    XH_BAKED_FRESH,   /* there, and of this version of the file */
    XH_BAKED_SKIPPED, /* not worth it; |text| says why */
    XH_BAKED_GONE,    /* removed */
    XH_BAKED_NONE,    /* there is none */
    XH_BAKED_STALE,   /* of another version, or damaged; |text| says which */
    XH_BAKED_FAILED,  /* |text| says why */
};

struct xh_baked {
    uint64_t file; /* the file's number, for the caller */
    int body;      /* 1: the compressed copy, 0: the metadata image */
    int last;      /* 1: the last result for this file */
    enum xh_baked_as as;
    uint64_t file_bytes, image_bytes, sidecar_bytes, extents;
    char text[600];
};

/* Sets |out|'s |as| and |text|. */
void xh_baked_tell(struct xh_baked *out, enum xh_baked_as as, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same as an expression; its value is -1. */
#define xh_baked_say(out, ...) (xh_baked_tell(out, __VA_ARGS__), -1)

#endif
