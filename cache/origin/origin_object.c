/* The origin object: see object.h. */
#include "origin_object.h"

#include "base/now.h"
#include "engine.h"

void xh_origin_object_adopt(struct xh_origin *o)
{
    if (o->era == xh_engine_era())
        return;
    o->era = xh_engine_era();
    xh_ring_init(&o->jobs); /* the parent's: leaked */
    o->checking = 0;
    o->sought_ns = 0;
    o->seeks = NULL;
}

/* ---- credentials */

enum xh_again xh_origin_object_renew_token(struct xh_origin *o, const struct xh_token *old, uint64_t since_ns)
{
    struct xh_token *found;
    enum xh_again again = xh_caller_renew(old, since_ns, &found);
    struct xh_token *drop = found;
    if (again == XH_AGAIN_SOON)
        return again;
    xh_engine_lock();
    o->token_ns = xh_now_ns();
    if (found) {
        drop = o->caller.token;
        o->caller.token = found;
    }
    xh_engine_unlock();
    xh_token_unref(drop);
    return again;
}

void xh_origin_object_take_token(struct xh_origin *o, struct xh_exchange *x)
{
    xh_engine_lock();
    struct xh_token *drop = x->token;
    x->token = xh_token_ref(o->caller.token);
    xh_engine_unlock();
    xh_token_unref(drop);
}
