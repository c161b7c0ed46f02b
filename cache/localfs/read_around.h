/* How far around a missing byte one read of a slow file system goes. Pure.
 *
 * A read costs a latency and then so much a byte: it may well bring what lies around, as long as that does not make
 * it much longer, and as long as what earlier reads brought along is used. Neither is known beforehand; both are
 * measured. One object a file; the caller serialises. */
#ifndef XH_READ_AROUND_H
#define XH_READ_AROUND_H

#include <stdint.h>

#define XH_READ_AROUND_LEAST 16384u
#define XH_READ_AROUND_FIRST 65536u
#define XH_READ_AROUND_MOST 1048576u
#define XH_READ_AROUND_BUFFER (2 * XH_READ_AROUND_MOST) /* enough for what goes around less than XH_READ_AROUND_MOST bytes */

struct xh_read_around {
    uint64_t bytes;    /* a power of two from LEAST to MOST */
    uint64_t least_ns; /* the shortest read seen */
    unsigned hits;     /* reads that needed none, since the last one that did */
    unsigned vain;     /* reads one after another that were followed by no hit */
    unsigned quick;    /* reads of late that took no longer than copying; a slow one takes half of them away */
};

/* A file of at most XH_READ_AROUND_MOST bytes comes with its first read. */
void xh_read_around_begin(struct xh_read_around *r, uint64_t file_bytes);

/* A read found all that it wanted. */
void xh_read_around_hit(struct xh_read_around *r);

/* What to read when [off, off+len) is wanted: aligned to the reach, at most up to |end|, the file's size, and no less
 * than what of [off, off+len) is below it. */
void xh_read_around_around(const struct xh_read_around *r, uint64_t off, uint64_t len, uint64_t end, uint64_t *lo, uint64_t *hi);

/* A read of |bytes| took |ns|. */
void xh_read_around_learn(struct xh_read_around *r, uint64_t bytes, uint64_t ns);

/* 1 when reads take no longer than copying, of late: the kernel has the file in memory, and there is nothing to gain. Who then
 * reads without reaching far says how long it took (xh_read_around_plain); slow ones end it. */
int xh_read_around_needless(const struct xh_read_around *r);
void xh_read_around_plain(struct xh_read_around *r, uint64_t bytes, uint64_t ns);

#endif
