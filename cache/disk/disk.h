/* The disk cache of an open file: what was read of this version stays on a local disk. It is a shadow (shadow/) in
 * another directory, which outlives the machine's memory. It is read as a shadow is; what comes from the origin is put
 * into it by a thread of its own, behind the readers' back (write_behind.c).
 *
 * All functions take NULL for a file without it. Threads: any. Processes: any of the same user. */
#ifndef XH_DISK_H
#define XH_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "base/options.h"
#include "watch/stats.h"

struct xh_disk;
struct xh_shadow;

/* Opens what the disk has of (|url|, |validator|, |size|), as xh_shadow_open. Returns NULL where there is to be none,
 * or none can be had: then reading goes on without it, and standard error tells why, once. Owns: the caller closes
 * it. */
struct xh_disk *xh_disk_open(const char *url, const char *validator, uint64_t size, const struct xh_options *o);

/* Waits until what was kept of the file is on its way to the disk, five seconds at most; gives up the rest. */
void xh_disk_flush(struct xh_disk *d);

/* Ends the use of |d|. Blocks no longer than flush. */
void xh_disk_close(struct xh_disk *d);

/* Returns 1 when page |idx| is there. Makes no system call, but may read a page state from the disk. */
int xh_disk_has(struct xh_disk *d, uint64_t idx);

/* Returns 1 when all of [off, end) is there; 0 for a file without it. */
int xh_disk_has_all(struct xh_disk *d, uint64_t off, uint64_t end);

/* Copies |n| extents if all of them are there. Returns 1; or 0: the buffers' contents are undefined. */
int xh_disk_read(struct xh_disk *d, const struct xh_extent *ext, size_t n);

/* The bytes [off, off + len) have come from the origin, and are to be kept, |meta| as metadata. Copies them to memory,
 * of which the process uses 64 MiB at most for this; what does not fit is passed over. Whole pages are kept, of
 * whichever pieces they came. Does not block on the disk. */
void xh_disk_keep(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta);

/* Copies to the disk what |from|, the shadow of the same version, has and the disk lacks. Blocks. */
void xh_disk_copy(struct xh_disk *d, struct xh_shadow *from);

/* Saves |text| as what is known of the file's URL (xh_shadow_hint_save). */
void xh_disk_hint_save(struct xh_disk *d, const char *text);

/* Adds bytes_disk_stored and bytes_disk_passed to |out|. */
void xh_disk_stats(const struct xh_disk *d, struct xh_stats *out);

#endif
