/* The image of a local file that is being written: bytes that are held back until a flush, and bytes that were read.
 * docs/local-shadow.md says what is held back, and what is written again to join two writes.
 *
 * The image consists of blocks of 64 KiB in this process's memory. Each byte has a state: absent (only the file has
 * it), clean (equal to the file's), raw or metadata (written, and not yet in the file). The settled end is the file's
 * end after the last complete write-back.
 *
 * Order of writing back:
 *  1. all bytes behind the settled end: nothing in the file refers to them yet;
 *  2. the file gets its final length;
 *  3. raw data before the settled end;
 *  4. metadata before the settled end;
 *  5. the superblock. (Its mark that the file is being written goes to the file at once, when HDF5 sets it.)
 * Each step ascends, and joins neighbours in one system call.
 * When the dirty bytes behind the settled end reach a quarter of the budget, they are written as in step 1 already.
 * When the image exceeds the budget, clean blocks are dropped. When that is not enough, all is written back; HDF5 too
 * may evict metadata at any time.
 *
 * Errors: -1 with errno; bytes that were not written stay dirty. Threads: the caller serialises. Calls block. */
#ifndef XH_WRITE_BUFFER_H
#define XH_WRITE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "read_around.h"

struct xh_write_buffer_block;

struct xh_write_buffer {
    uint64_t budget_bytes; /* constant */
    int alone;             /* an exclusive lock is held: clean bytes between dirty ones may be written again */
    int marked;            /* the file's superblock says that the file is being written */
    int through;           /* SWMR: nothing is held back any more */
    uint64_t disk;         /* the file's size on disk */
    uint64_t eof;          /* the file's size as its user sees it */
    uint64_t settled;      /* the settled end: the file's size after the last complete write-back */
    /* bytes written behind |settled| since they were last written back; at least as many as are dirty there */
    uint64_t fresh_bytes;
    uint64_t super_at;     /* offset of the superblock; UINT64_MAX: not seen yet */
    struct xh_write_buffer_block **block; /* ascending */
    size_t n, room;
    uint8_t *buf; /* buffer for one read: XH_READ_AROUND_BUFFER bytes, or NULL */
    struct xh_read_around reach;
    uint64_t writes, written_bytes; /* system calls and their bytes, for the trace */
};

void xh_write_buffer_begin(struct xh_write_buffer *h, int fd, uint64_t size, uint64_t budget_bytes);
void xh_write_buffer_end(struct xh_write_buffer *h);

int xh_write_buffer_read(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, void *buf);
int xh_write_buffer_write(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf);
/* Writes into the image alone: the bytes never reach the file. Returns 0, or -1 without memory. */
int xh_write_buffer_keep(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf);
int xh_write_buffer_write_back(struct xh_write_buffer *h);
int xh_write_buffer_truncate(struct xh_write_buffer *h, uint64_t size);

#endif
