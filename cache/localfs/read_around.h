/* Decides how many bytes around a missing byte one read of a slow file system brings (its reach). Pure.
 *
 * A read costs a latency and then some time for each byte. It may well bring the bytes around, as long as that does
 * not make it much longer, and as long as the extra bytes of earlier reads are used. Neither is known beforehand;
 * both are measured. There is one object for each file. Threads: the caller serialises. */
#ifndef XH_READ_AROUND_H
#define XH_READ_AROUND_H

#include <stdint.h>

#define XH_READ_AROUND_LEAST 16384u
#define XH_READ_AROUND_FIRST 65536u
#define XH_READ_AROUND_MOST 1048576u
/* holds any read of less than XH_READ_AROUND_MOST bytes and what comes around it */
#define XH_READ_AROUND_BUFFER (2 * XH_READ_AROUND_MOST)

struct xh_read_around {
    uint64_t bytes;    /* the reach: a power of two from LEAST to MOST */
    uint64_t least_ns; /* duration of the shortest read so far */
    unsigned hits;     /* reads served from memory since the last read of the file */
    unsigned vain;     /* successive reads of the file that no hit followed */
    unsigned quick;    /* recent reads that took no longer than copying; a slow read halves it */
};

/* Starts with the first reach. A file of at most XH_READ_AROUND_MOST bytes comes whole with its first read. */
void xh_read_around_begin(struct xh_read_around *r, uint64_t file_bytes);

/* Notes a read that found all its bytes in memory. */
void xh_read_around_hit(struct xh_read_around *r);

/* Sets [*lo, *hi) to the range to read when [off, off+len) is wanted. The range is aligned to the reach, ends at
 * |end|, the file's size, at most, and contains all of [off, off+len) that lies below |end|. */
void xh_read_around_around(const struct xh_read_around *r, uint64_t off, uint64_t len, uint64_t end, uint64_t *lo,
                           uint64_t *hi);

/* Notes that a read of |bytes| took |ns|, and adapts the reach. */
void xh_read_around_learn(struct xh_read_around *r, uint64_t bytes, uint64_t ns);

/* xh_read_around_needless returns 1 when recent reads took no longer than copying. Then the kernel has the file in
 * memory, and there is nothing to gain. The caller then reads only what is wanted and reports each read's duration
 * with xh_read_around_plain. Slow reads end this state. */
int xh_read_around_needless(const struct xh_read_around *r);
void xh_read_around_plain(struct xh_read_around *r, uint64_t bytes, uint64_t ns);

#endif
