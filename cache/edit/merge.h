/* What a commit compares, and what it may do when the file was changed at the server meanwhile. */
#ifndef XH_EDIT_MERGE_H
#define XH_EDIT_MERGE_H

#include "impl.h"

/* 1 when the overlay differs from the version below, 0 when not, or a negative code. */
int xh_edit_differs(struct xh_edit *e, struct xh_err *err);

/* Lays the overlay over the server's present version |now| instead of the one below, where that is sound; else
 * XH_E_CHANGED, and nothing is changed. XH_E_CANCELLED: it is not the present one any more; ask again. */
int xh_edit_rebase(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err);

/* 1 when the server's file has every byte that was written, 0 when not, or a negative code. */
int xh_edit_is_there(struct xh_edit *e, struct xh_err *err);

#endif
