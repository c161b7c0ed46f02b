/* Jobs: what the origin was asked for, from queueing until its owner is told. See request.h.
 *
 * Invariants: a job is in its origin's ring from queueing until its owner was told; a job without requests is in some
 * thread's finished ring, or is just being told. */
#ifndef XH_JOB_H
#define XH_JOB_H

#include "engine.h"
#include "request.h"

/* Fills a new job (calloc'd or zeroed) with its one request. No lock. Returns 0 or -1. */
int xh_job_init(struct xh_job *j, struct xh_origin *o, enum xh_ask ask, struct xh_transfer *t, struct xh_probe *p);

/* Queues |j|. Lock held. Returns 0, or -1 without memory: it was not queued. */
int xh_job_queue(struct xh_job *j);

/* Fails |j| with |err| (only the first failure counts) and ends its requests, those that
 * run by their threads. Lock held. */
void xh_job_fail(struct xh_job *j, const struct xh_err *err);

/* Takes |r|, which is in no ring and on no wire, off its job; a job without requests goes
 * to |t|'s finished ring (NULL: any thread's). Lock held. */
void xh_job_retire(struct xh_request *r, struct xh_thread *t);

/* From now on every transfer of |o| fails with |err|. Lock held. */
void xh_job_poison(struct xh_origin *o, const struct xh_err *err);

/* Queues a probe, whose end |over| tells, and starts it if it may start. Lock held. NULL: no memory. */
struct xh_job *xh_job_probe(struct xh_origin *o, enum xh_ask ask, struct xh_probe *p, void (*over)(struct xh_job *j));

#endif
