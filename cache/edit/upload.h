/* Sending a new version to the server, in the place of the old one. Both functions block. */
#ifndef XH_UPLOAD_H
#define XH_UPLOAD_H

#include "impl.h"

/* Takes a turn: writers that change one file send it one after the other. Only speed depends on it: a writer that gets
 * no turn sends without it. Returns 0, or the code of a refused directory, as all other requests would be refused too.
 * Owns: the caller ends e->turn, which is |turn| if it was had. */
int xh_upload_turn(struct xh_edit *e, struct xh_turn *turn, struct xh_err *err);

/* Sends the new version, and merges with the versions that others put there meanwhile. Repeats attempts until one
 * succeeds, or another would be useless. Returns 0 and sets |*fresh|, or a negative code. */
int xh_upload(struct xh_edit *e, struct xh_dav_stat *fresh, struct xh_err *err);

#endif
