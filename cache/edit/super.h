/* The superblock of a file that is sent while it is still open. */
#ifndef XH_EDIT_SUPER_H
#define XH_EDIT_SUPER_H

#include "impl.h"

/* Finds the file's superblock. From then on xh_edit_compose returns it as it is when no writer has the file open. */
void xh_edit_super(struct xh_edit *e);

/* Returns 1 when the file is as long as its superblock says. HDF5 also flushes files that it has just begun to make. */
int xh_edit_is_whole(struct xh_edit *e);

/* If the superblock begins in |buf|, the file's |len| bytes at |off|, clears its flags there. */
void xh_edit_plain(const struct xh_edit *e, uint64_t off, void *buf, uint64_t len);

#endif
