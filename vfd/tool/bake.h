/* One file's metadata image: made, checked, removed. docs/sidecar.md is the format. */
#ifndef XH_BAKE_H
#define XH_BAKE_H

#include <stddef.h>
#include <stdint.h>

#include "../../cache/options.h"

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

/* Makes the image of |path| beside it, unless one of this version is there already (|dry|: makes it, and writes nothing).
 * It appears complete or not at all. Calls HDF5. Blocks. */
void xh_bake(const char *path, const struct xh_options *o, int dry, struct xh_baked *out);

/* Compares the image of |path| with the file, all of it. Removes it. Neither calls HDF5. */
void xh_bake_check(const char *path, struct xh_baked *out);
void xh_bake_remove(const char *path, struct xh_baked *out);

#endif
