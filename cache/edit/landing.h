/* Whether this writer's new file came to its name, where the last step of a commit had no answer, or its process ended
 * in it. It is noted beside the record before that step; docs/commit.md has the reasons. */
#ifndef XH_EDIT_LANDING_H
#define XH_EDIT_LANDING_H

#include "lock.h"
#include "impl.h"

/* The last step of the attempt |t| comes next: |fresh| is its new file, |old| should be the one that it replaces. */
void xh_landing_note(struct xh_edit *e, const struct xh_turn *t, const struct xh_dav_stat *old,
                     const struct xh_dav_stat *fresh);

/* The step was not done, and never will be. */
void xh_landing_forget(struct xh_edit *e);

/* For a step without an answer, where another file is at the name. Returns 1 when it is known not to have been done,
 * and is forgotten: that file may be merged with. 0: it may have been done, and others have come behind it. Blocks. */
int xh_landing_is_undone(struct xh_edit *e);

/* For what another process has left. Forgets the step where the new file still is where it was before, or somebody who
 * took the lock away has found it there. Where it was done and another's version went aside in it, which nobody has
 * seen, puts that one back. Returns 0, or a negative code; XH_E_CHANGED: that version cannot be put back any more.
 * Blocks. */
int xh_landing_settle(struct xh_edit *e, struct xh_err *err);

/* Returns 1 when the step was done, and |now| is its version with all that is written here: nothing need be sent. What
 * that version replaced is seen to as in xh_landing_settle. Blocks. */
int xh_landing_is_done(struct xh_edit *e, struct xh_dav_stat *now);

/* Judges the version |now|, which is not the one below. Returns 0: it has nothing to do with a step of this writer; 1:
 * it is this writer's own, and is below now; XH_E_CHANGED: it came behind this writer's own, as far as is known, so
 * that sending it again could undo others' changes; XH_E_CANCELLED: it was replaced meanwhile; or another code.
 * Blocks. */
int xh_landing_accept(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err);

#endif
