/* The image of a local file that is being written: what is held back until a flush, and what was read of it.
 *
 * Blocks of 64 KiB in this process's memory, with a byte of state for each byte: absent (the file has it), clean (as in
 * the file), raw or metadata that the file does not have yet. So the bytes that were written are written back;
 * others as they are, to join two writes into one, only where no other process can have changed them: behind the file's end as it was
 * after the last time, and elsewhere under an exclusive lock that the file system gave. It is process memory and no tmpfs file, as nobody else may see it before it is in the file.
 *
 * Once a superblock says that readers follow the writer (SWMR), all is written back, and nothing is held any more.
 *
 * Order of writing back
 *  1. all that lies behind the file's end as it was after the last time: nothing in the file names it yet;
 *  2. the file is made as long as it shall be;
 *  3. raw data within what the file had;
 *  4. metadata within what the file had;
 *  5. the superblock. (Its mark that the file is being written goes to the file at once, when HDF5 sets it.)
 * Each ascending, neighbours in one system call. Killed before 3, the file is as it was before. 3 and 4 replace bytes that
 * are in use, one after the other, as HDF5's own writing by sec2 does.
 * What is new and dirty is written as in 1 already when it comes to a quarter of the budget. Where the image is larger than the budget,
 * clean blocks are dropped, and when that is not enough, all is written back, as HDF5 evicts metadata at any time.
 *
 * Errors: -1 with errno; what was not written stays dirty. Threads: the caller serialises. */
#ifndef XH_WRITE_BUFFER_H
#define XH_WRITE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "read_around.h"

struct xh_write_buffer_block;

struct xh_write_buffer {
    int fd;                /* constant; the caller's */
    uint64_t budget_bytes; /* constant */
    int alone;             /* under an exclusive lock: between what changed, bytes as they are may be written again */
    int marked;            /* the file says that it is being written */
    int through;           /* SWMR: nothing is held any more */
    uint64_t disk;         /* the file's size */
    uint64_t eof;          /* what its user takes for it */
    uint64_t settled;      /* the file's size when all was written back the last time */
    uint64_t fresh_bytes;  /* written behind |settled| and not written back yet: no less than is dirty there */
    uint64_t super_at;     /* where the superblock is; UINT64_MAX: not seen */
    struct xh_write_buffer_block **block; /* ascending */
    size_t n, room;
    uint8_t *buf; /* for one read; XH_READ_AROUND_BUFFER bytes or NULL */
    struct xh_read_around reach;
    uint64_t reads, read_bytes, writes, written_bytes; /* system calls, for the trace */
};

void xh_write_buffer_begin(struct xh_write_buffer *h, int fd, uint64_t size, uint64_t budget_bytes);
void xh_write_buffer_end(struct xh_write_buffer *h);

int xh_write_buffer_read(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, void *buf);
int xh_write_buffer_write(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf);
/* Into the image alone: it never reaches the file. -1: no memory. */
int xh_write_buffer_keep(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf);
int xh_write_buffer_write_back(struct xh_write_buffer *h);
int xh_write_buffer_truncate(struct xh_write_buffer *h, uint64_t size);

#endif
