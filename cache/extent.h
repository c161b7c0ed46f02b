/* Ranges and extents: half-open, in bytes of the origin. */
#ifndef XH_EXTENT_H
#define XH_EXTENT_H

#include <stdint.h>

struct xh_range { /* [off, off+len) */
    uint64_t off, len;
};

struct xh_extent { /* a range that the caller asked for, and where it shall land */
    uint64_t off, len;
    void *buf;
};

#endif
