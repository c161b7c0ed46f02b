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

#endif
