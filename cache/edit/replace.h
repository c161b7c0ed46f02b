/* The last step of a commit, where a server takes two requests in one piece. */
#ifndef XH_REPLACE_H
#define XH_REPLACE_H

#include "aside.h"

/* LOST: other writers came between, and nothing of theirs is gone; NOT: nothing was done; HIDDEN: as LOST, and the
 * server has shown another file than the one that lay there. */
enum { XH_REPLACE_DONE, XH_REPLACE_LOST, XH_REPLACE_NOT, XH_REPLACE_HIDDEN };

/* Opens the connection for xh_replace, beside other work. Returns 1: the caller ends |s| before xh_replace; 0: there
 * is nothing to end. */
int xh_replace_begin(struct xh_edit *e, struct xh_aside *s);

/* Puts |data|, which is |fresh|, in the place of the file, which should be |old|. Returns one of the values above,
 * or a negative code; XH_E_NET and XH_E_TIMEOUT: it may be done, or half. DONE: |shown| is what the server shows, and
 * the old file is at xh_replace_name(|own|, 'w'), to be removed. Blocks. */
int xh_replace(struct xh_edit *e, const char *own, const char *data, const struct xh_dav_stat *old,
               const struct xh_dav_stat *fresh, struct xh_dav_stat *shown, struct xh_err *err);

/* Makes the name of the file that is put aside in the attempt with the directory |own|. */
void xh_replace_name(char *out, size_t size, const char *own, char letter);

/* Sees to the file |name|, if it is one that an earlier attempt of this writer put aside: moves it back if there is no
 * file. Else removes it, if it is the version below. Blocks. */
void xh_replace_tidy(struct xh_edit *e, const char *name);

/* Called when the file may not exist: if a server was stopped in the middle of a last step, puts back the file beside
 * it. The lock leads to it, so that is done before the lock is taken away from a dead owner. Where that step was done,
 * the file was removed since, and stays so. Returns 1 when it was put back, or another file is there; 0 when nothing
 * lies beside it; -1 with |err| set when that is not known, or it could not be put back. Blocks. */
int xh_replace_find(struct xh_edit *e, struct xh_err *err);

#endif
