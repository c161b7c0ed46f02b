/* One hash of text, for keys that other processes or later runs compare. Not for those that look for collisions. */
#ifndef XH_HASH_H
#define XH_HASH_H

#include <stdint.h>

#define XH_HASH_START UINT64_C(14695981039346656037)

/* Continues |h|, at first XH_HASH_START, with |s|. Source: FNV-1a, 64 bits. */
static inline uint64_t xh_hash_text(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    return h;
}

#endif
