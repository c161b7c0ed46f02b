/* The last step of a commit, where a server takes two requests as one piece. */
#ifndef XH_REPLACE_H
#define XH_REPLACE_H

#include "aside.h"

/* LOST: others came between, and nothing of theirs is gone; NOT: nothing was done. */
enum { XH_REPLACE_DONE, XH_REPLACE_LOST, XH_REPLACE_NOT };

/* Opens its connection, beside what else is done. Returns 1: the caller ends |s| before xh_replace; 0: there is nothing
 * to end. */
int xh_replace_begin(struct xh_edit *e, struct xh_aside *s);

/* Puts |data|, which is |fresh|, in the place of the file, which should be |old|. DONE: |shown| is what the server
 * shows, and the old one lies at xh_replace_name(|own|, 'w'), to be removed. Returns one of the above, or a negative
 * code. Blocks. */
int xh_replace(struct xh_edit *e, const char *own, const char *data, const struct xh_dav_stat *old,
               const struct xh_dav_stat *fresh, struct xh_dav_stat *shown, struct xh_err *err);

/* The name of the file that goes aside in the attempt whose directory is |own|. */
int xh_replace_name(char *out, size_t size, const char *own, char letter);

/* What lies |aside| goes back to the file's name if that is free, and is removed if it is not. Returns 1 when that is
 * done. */
int xh_replace_undo(struct xh_edit *e, const char *aside);

/* The file is not there. If a server was stopped in the midst of a last step: puts back what lies beside it. Returns 1
 * when it is there now. */
int xh_replace_find(struct xh_edit *e);

#endif
