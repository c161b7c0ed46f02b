/* What stays of a file that was not sent, on this machine and at the server; and the end of one. */
#ifndef XH_EDIT_KEEP_H
#define XH_EDIT_KEEP_H

#include "impl.h"

/* Says that older data was written over what others had changed. Returns XH_E_CHANGED. */
int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err);

/* A commit failed with |err|: writes the overlay's record, so that it can be recovered, and adds to |err| how. */
void xh_edit_keep(struct xh_edit *e, struct xh_err *err);

/* The program did not want it to be sent. Returns 1 when there is something that stays; |err| says what, or why it does
 * not. */
int xh_edit_withhold(struct xh_edit *e, struct xh_err *err);

/* Removes directories beside the file that this writer made and did not come to remove. */
void xh_edit_tidy(struct xh_edit *e);

/* Closes and frees it; |keep|: what was written stays on this machine. Sends nothing. */
void xh_edit_free(struct xh_edit *e, int keep);

#endif
