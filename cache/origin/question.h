/* Questions: probes that an opener asks and waits for. One whose answer is stuck is asked again, once, as hedges
 * are. */
#ifndef XH_QUESTION_H
#define XH_QUESTION_H

#include "origin_object.h"
#include "request.h"

struct xh_beside; /* a probe under way */

struct xh_question {
    enum xh_ask what;
    struct xh_beside *tries[2]; /* both NULL: it was not asked, or is left */
    uint64_t asked_ns;
    int again; /* it was asked again */
};

/* Asks for what the prober set in |like|. Lock held. Returns 0 or XH_E_NOMEM. */
int xh_question_ask(struct xh_origin *o, struct xh_question *q, enum xh_ask what, const struct xh_probe *like);

/* Waits for the answer to |q| and moves it to |p|. Lock held. Returns 0 or the failure. */
int xh_question_wait(struct xh_origin *o, struct xh_question *q, struct xh_probe *p, struct xh_err *err);

/* The answer to |q| is not waited for any more. Lock held. */
void xh_question_leave(struct xh_origin *o, struct xh_question *q);

/* Asks for what is set in |p| and waits for the answer. Takes the lock. Returns 0 or the failure. */
int xh_question_put(struct xh_origin *o, enum xh_ask what, struct xh_probe *p, struct xh_err *err);

#endif
