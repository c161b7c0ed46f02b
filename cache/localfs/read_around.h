/* Reads of a file on a slow file system, and how many bytes around a missing one a read brings (its reach).
 *
 * A read costs a latency, so it brings what lies around too: twice as much where a later read found something of it in
 * memory, half as much where none did. There is one object for each file. Threads: the caller serialises. */
#ifndef XH_READ_AROUND_H
#define XH_READ_AROUND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes. A reach of 16 KiB costs no more than a single page; 1 MiB is what such file systems move in one operation. */
#define XH_READ_AROUND_LEAST 16384u
#define XH_READ_AROUND_FIRST 65536u
#define XH_READ_AROUND_MOST 1048576u
/* holds any read of less than XH_READ_AROUND_MOST bytes and what comes around it */
#define XH_READ_AROUND_BUFFER (2 * XH_READ_AROUND_MOST)

struct xh_read_around {
    int fd;         /* constant; belongs to the caller */
    uint64_t bytes; /* the reach: a power of two from LEAST to MOST */
    unsigned hits;  /* reads served from memory since the last read of the file */
    unsigned vain;  /* successive reads of the file that no hit followed */
    uint64_t reads, read_bytes; /* of the file, and their bytes: for the trace */
};

/* Starts with the first reach. A file of at most XH_READ_AROUND_MOST bytes comes whole with its first read. */
void xh_read_around_begin(struct xh_read_around *r, int fd, uint64_t file_bytes);

/* Returns 1 for a read or write that goes straight to the file: raw data from XH_READ_AROUND_FIRST bytes on, all from
 * XH_READ_AROUND_MOST on. */
int xh_read_around_is_bulk(int raw, size_t size);

/* Reads [off, off+len) as far as the file has it. Returns the number of bytes, or -1 with errno. Blocks. */
ssize_t xh_read_around_file(struct xh_read_around *r, uint64_t off, size_t len, void *buf);

/* Notes a read that found all its bytes in memory. */
void xh_read_around_hit(struct xh_read_around *r);

/* Sets [*lo, *hi) to the range to read when [off, off+len) is wanted. The range is aligned to the reach, ends at
 * |end|, the file's size, at most, and contains all of [off, off+len) that lies below |end|. */
void xh_read_around_around(const struct xh_read_around *r, uint64_t off, uint64_t len, uint64_t end, uint64_t *lo,
                           uint64_t *hi);

/* Notes that such a range was read, and adapts the reach. */
void xh_read_around_learn(struct xh_read_around *r);

#endif
