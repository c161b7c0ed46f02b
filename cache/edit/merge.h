/* What a commit compares, and the merge with a version that others made meanwhile. */
#ifndef XH_EDIT_MERGE_H
#define XH_EDIT_MERGE_H

#include "impl.h"

/* Returns 1 when the overlay differs from the version below, 0 when not, or a negative code. Blocks. */
int xh_edit_differs(struct xh_edit *e, struct xh_err *err);

/* Merges: puts the overlay over the server's present version |now| instead of the one below, where that is sound.
 * Returns 0; XH_E_CHANGED: a conflict, and nothing is changed; XH_E_CANCELLED: |now| is no longer the present
 * version, ask again; or another code. Blocks. */
int xh_edit_rebase(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err);

/* Returns 1 when the server's file has every byte that was written, 0 when not, or a negative code. Blocks. */
int xh_edit_is_there(struct xh_edit *e, struct xh_err *err);

#endif
