/* Replicas: one file that several servers (sites) have, read as one origin.
 *
 * The functions mean the same as those of origin.h. With one site they only call them. With several, each transfer
 * goes to the site where it is expected to end first. Bytes that a site fails to bring, or brings far too slowly,
 * are asked for at another: docs/origin.md. Callers do not learn which site brought what. Replicas know of HTTP only
 * what origin.h shows, and nothing of pages or shadows. */
#ifndef XH_REPLICAS_H
#define XH_REPLICAS_H

#include "origin/origin.h"

struct xh_replicas;

/* As xh_origin_open. If the option endpoints lists |url|'s server and others, the first site that answers is opened,
 * |url|'s own before the others. A thread opens and compares the others meanwhile; no caller waits for it. */
int xh_replicas_open(const char *url, const struct xh_options *o, const char *hint, int vouched,
                     struct xh_counters *counters, struct xh_replicas **out, struct xh_origin_head *head,
                     struct xh_err *err);

/* As xh_origin_open_told, with a hint of xh_replicas_hint. */
int xh_replicas_open_told(const char *url, const struct xh_options *o, const char *hint,
                          struct xh_counters *counters, struct xh_replicas **out, struct xh_err *err);

/* Opens |url| without its server: of the version |validator| and |size|, which is what there was when it was last
 * opened, and the hint of that opening, or "". Sends nothing, and whatever is submitted is an error that names the
 * option offline. Returns 0 or NOMEM. */
int xh_replicas_open_offline(const char *url, const struct xh_options *o, const char *validator, uint64_t size,
                             const char *hint, struct xh_replicas **out, struct xh_err *err);

/* As xh_origin_get_info. With several sites the numbers are their sums, and there are no streams: a transfer that is
 * cut in parts can follow the speed of each site. */
void xh_replicas_get_info(struct xh_replicas *r, struct xh_origin_info *out);

/* As the functions of origin.h of the same names; xh_replicas_share applies to each site. */
void xh_replicas_share(struct xh_replicas *r, unsigned processes, int yields);
void xh_replicas_beside(struct xh_replicas *r, unsigned files);
void xh_replicas_came_in_vain(struct xh_replicas *r, int vain);
size_t xh_replicas_hint(struct xh_replicas *r, char *buf, size_t size);
int xh_replicas_submit(struct xh_replicas *r, struct xh_transfer *const *ts, size_t n, struct xh_err *err);
void xh_replicas_cancel(struct xh_replicas *r, struct xh_transfer *t);
int xh_replicas_withdraw(struct xh_replicas *r, struct xh_transfer *t);
void xh_replicas_promote(struct xh_replicas *r, struct xh_transfer *t);
void xh_replicas_resume(struct xh_replicas *r, struct xh_transfer *t);
void xh_replicas_close(struct xh_replicas *r);

/* Returns 1 when several sites are live: streams come from one, parts from all. */
int xh_replicas_are_several(struct xh_replicas *r);

/* Called in a forked child before any other function: forgets the transfers of the parent. */
void xh_replicas_after_fork(struct xh_replicas *r);

#endif
