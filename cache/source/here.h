/* What is already here of a file: in its shadow, its unverified head, its metadata image or the disk cache. */
#ifndef XH_HERE_H
#define XH_HERE_H

#include <stddef.h>
#include <stdint.h>

/* Copies [off, off + len) of the file |ctx|, a struct xh_file, if all of it is here. Returns 1 or 0. The bytes may be
 * those of an unverified head, so they serve for guesses, and where sums prove them. Blocks on nothing but the local
 * disk. An xh_meta_look. */
int xh_here_look(void *ctx, uint64_t off, void *buf, size_t len);

#endif
