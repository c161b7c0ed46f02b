/* The disk cache of an open file, for the files of this room alone. */
#ifndef XH_DISK_IMPL_H
#define XH_DISK_IMPL_H

#include "shadow/shadow.h"

struct xh_disk {
    struct xh_shadow *store; /* constant */
    uint64_t size;           /* constant: of the file */
    _Atomic uint64_t stored, passed; /* bytes; relaxed */
    unsigned refs;   /* the file's, and one a block. Under the lock of write_behind.c, as the next */
    unsigned blocks; /* that hold bytes of it */
};

/* Called once a process or more, after a shadow was opened, before anything is kept. */
void xh_disk_start(void);

/* Writes the whole pages of [off, off + len), which begins at a page. |d| is there. Blocks on the disk. */
void xh_disk_write(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta);

#endif
