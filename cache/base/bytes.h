/* Little-endian numbers, in HDF5's files and in sidecars. */
#ifndef XH_BYTES_H
#define XH_BYTES_H

#include <stdint.h>

/* The number of |n| bytes at |p|, at most 8. */
static inline uint64_t xh_le(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

static inline void xh_put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static inline void xh_put64(uint8_t *p, uint64_t v)
{
    xh_put32(p, (uint32_t)v);
    xh_put32(p + 4, (uint32_t)(v >> 32));
}

#endif
