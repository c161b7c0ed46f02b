/* What of a file stays in the shadow: collects the facts for policy.h's decisions. */
#ifndef XH_KEEP_H
#define XH_KEEP_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/extent.h"

struct xh_file;
struct xh_keeping;
struct xh_read_op;
struct xh_announced;

/* Of an open file; changed here alone. All zero at first. */
struct xh_keep {
    _Atomic int again; /* what streams by is read again */
};

/* |op| is about to fetch what it lacks: counts its bytes among those that stream by, and marks their pages as read.
 * |shared|: as in xh_keeping. |told|: what it reads may have been told, and come past
 * the shadow. Returns 1 when what it fetches is to stay in the shadow. */
int xh_keep_begin(struct xh_read_op *op, int shared, int told);

/* What streams by |is| read again from now on, and kept. is_again: returns 1 while it is. */
void xh_keep_again(struct xh_file *f, int is);
int xh_keep_is_again(const struct xh_file *f);

/* Fills in what is known of the pages of |t|, which the program said that it will read. */
void xh_keep_told(struct xh_file *f, struct xh_announced *t);

/* Fills |k| for what is fetched ahead of |f|. Makes one system call. */
void xh_keep_ahead(struct xh_file *f, struct xh_keeping *k);

#endif
