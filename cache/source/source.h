/* Sources of a read's bytes. read/ asks an ordered table of them (read/read.c):
 *
 *   unverified head, metadata image, shadow (peek)
 *   stream, shadow, compressed copy, origin, other processes (serve and finish, in rounds)
 *
 * A read that no source answers at once becomes a struct xh_read_op, with a list of what it still has to have: first
 * its extents, then their pages. In each round every source in turn takes off the list what it brings, and begins to
 * bring it; then each in turn ends what it began. What did not come goes to op->again, for the next round.
 *
 * Each function is NULL where the source has nothing to do. */
#ifndef XH_SOURCE_H
#define XH_SOURCE_H

#include "pages/op.h"

struct xh_source {
    /* Copies all |n| extents. Returns 1; or 0: not all are here, and the buffers' contents are undefined; or a negative
     * code. Never asks the origin; the metadata image alone waits, for what is coming to it already. */
    int (*peek)(struct xh_file *f, const struct xh_extent *ext, size_t n, struct xh_err *err);
    /* Takes what it brings off |op|'s list. Does not wait for the network. Returns 0 or an error; then it has given up
     * what it took. */
    int (*serve)(struct xh_read_op *op, struct xh_err *err);
    /* Waits until what it took has come, or takes it to op->again. |rc|: what went wrong in the round so far; it is
     * called all the same, and begins nothing then. Returns |rc|, or where that is 0 its own error. */
    int (*finish)(struct xh_read_op *op, int rc, struct xh_err *err);
};

extern const struct xh_source xh_unverified_source, xh_metadata_image_source, xh_compressed_source;

#endif
