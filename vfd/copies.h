/* Two copies of the driver in a process, perhaps of two versions, know nothing of each other's files and lists: a call
 * of one with a file of the other would do nothing, and say nothing. Threads: any that may call HDF5. */
#ifndef XH_COPIES_H
#define XH_COPIES_H

#include "h5bind.h"

/* No version's block of a list's settings is longer: another copy's class copies so much of one that it is shown. */
#define XH_COPIES_BLOCK_BYTES (1u << 17)

/* Returns 1 when HDF5 knows a driver of our name. */
int xh_copies_is_loaded(struct xh_h5 *h5);

/* Returns that driver's ID, or -1; HDF5 has pushed the reason. Sets |*ours| to 1 when it is this copy, to 0 when it is
 * another one, and to -1 when that is not known: out of memory, or HDF5 has pushed the reason. */
hid_t xh_copies_loaded_id(struct xh_h5 *h5, int *ours);

/* To be called by this copy's class whenever HDF5 copies the block |info| of a list by it. */
void xh_copies_came(const void *info);

/* Returns 1 when another copy has |file| open, by the name that HDF5 knows it by. */
int xh_copies_has(struct xh_h5 *h5, hid_t file);

/* Pushes and prints the error of a call for a file or a list of another copy. Returns -1. */
int xh_copies_refuse(struct xh_h5 *h5);

#endif
