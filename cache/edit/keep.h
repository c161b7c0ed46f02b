/* What stays, on this machine and at the server, of a file that was not sent; and the end of an open file. */
#ifndef XH_EDIT_KEEP_H
#define XH_EDIT_KEEP_H

#include "impl.h"

/* Sets |err|: older data was written over others' changes. Returns XH_E_CHANGED. */
int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err);

/* Writes the overlay's record, and waits until all is on the disk. Returns as xh_overlay_save. If only the names cannot
 * be synced, that is told where the overlay is kept in the end (xh_edit_keep, xh_edit_withhold), and traced. */
int xh_edit_save(struct xh_edit *e, enum xh_overlay_state state, struct xh_err *err);

/* A commit failed with |err|: writes the overlay's record for recovery, and adds to |err| how to recover. */
void xh_edit_keep(struct xh_edit *e, struct xh_err *err);

/* The program does not want the file sent: keeps it. Returns 1 when something is kept; |err| says what, or why not. */
int xh_edit_withhold(struct xh_edit *e, struct xh_err *err);

/* Removes directories and files beside the remote file that this writer made and could not remove before. */
void xh_edit_tidy(struct xh_edit *e);

/* Closes the version below. */
void xh_edit_close_below(struct xh_edit *e);

/* Closes and frees |e|. |keep|: the written bytes stay on this machine. Sends nothing. */
void xh_edit_free(struct xh_edit *e, int keep);

#endif
