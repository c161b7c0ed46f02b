/* Requests: their states, and what each asks for. See request.h. */
#include "request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"

static const char *const state_names[] = {"new", "queued", "bound", "running", "delayed", "over"};

void xh_request_enter(struct xh_request *r, enum xh_request_state state)
{
    static const unsigned char allowed[] = {
        [XH_REQ_NEW] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_BOUND | 1u << XH_REQ_OVER,
        [XH_REQ_QUEUED] = 1u << XH_REQ_BOUND | 1u << XH_REQ_OVER,
        [XH_REQ_BOUND] = 1u << XH_REQ_RUNNING | 1u << XH_REQ_OVER,
        [XH_REQ_RUNNING] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_DELAYED | 1u << XH_REQ_OVER,
        [XH_REQ_DELAYED] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_OVER,
        [XH_REQ_OVER] = 0,
    };
    assert(allowed[r->state] & 1u << state);
    xh_trace(XH_T_ORIGIN, "request", "id=%p from=%s to=%s ask=%d speculative=%d slice=%zu-%zu", (void *)r,
             state_names[r->state], state_names[state], (int)r->job->ask, r->job->speculative, r->first, r->end);
    r->state = state;
    if (state == XH_REQ_QUEUED)
        r->queued_ns = xh_timeline_on() ? xh_now_ns() : 0;
}

/* How many ranges |r| may have in one HTTP request now, where the server bears |l|. */
static struct xh_limits limits_of(const struct xh_request *r, struct xh_limits *l)
{
    struct xh_limits mine;
    xh_limits_look(l, xh_now_ns());
    mine = *l;
    if (!r->job->origin->options.multirange || r->job->origin->url->region) /* S3 sends all of an object then */
        mine.max_ranges = 1;
    else if (r->tries.most_ranges && r->tries.most_ranges < mine.max_ranges)
        mine.max_ranges = r->tries.most_ranges;
    return mine;
}

/* How many bytes |p| asks for: no more than usual where an answer broke off, and it begins anew. */
static size_t wants(const struct xh_probe *p)
{
    return p->len ? xh_min64(p->want_bytes, p->usual_bytes) : p->want_bytes;
}

void xh_request_weigh(struct xh_request *r, struct xh_limits *limits)
{
    const struct xh_job *j = r->job;
    unsigned max = limits_of(r, limits).max_ranges;
    uint64_t ranges = 0;
    r->queued_bytes = j->probe ? wants(j->probe) : 0;
    if (j->transfer)
        for (size_t i = r->first; i < r->end; i++)
            if (j->got[i] < j->transfer->ranges[i].len) {
                r->queued_bytes += j->transfer->ranges[i].len - j->got[i];
                ranges++;
            }
    r->queued_requests = ranges ? (ranges + max - 1) / max : 1;
}

struct xh_url *xh_request_url(const struct xh_request *r)
{
    const struct xh_origin *o = r->job->origin;
    if (r->url)
        return r->url;
    /* PROPFIND too: the date is to be of the copy that is read. A target that is good for GET alone refuses it, and
     * the original URL is asked, from then on at once. */
    if (r->job->ask == XH_ASK_STAT && o->dates_at_first)
        return o->url;
    /* By a target that another one found since it goes once: it may be good for the other alone. */
    int anew = r->tries.from_original && (r->targets == o->targets || r->tries.returns > 1);
    return anew || !o->target ? o->url : o->target;
}

/* 1 when another request asks the original URL, where |r| is to go too, for a target that serves both. If none does,
 * |r| is the one. The second of a pair goes there beside its first. Lock held. */
static int waits_for_target(const struct xh_request *r)
{
    struct xh_origin *o = r->job->origin;
    if (r->job->ask != XH_ASK_RANGES || r->url || r->tries.returns > 1 || xh_request_url(r) != o->url ||
        !o->sought_ns || xh_now_ns() - o->sought_ns > XH_SEEKING_MOST_NS)
        return 0;
    if (!o->seeks)
        o->seeks = r;
    return o->seeks != r && o->seeks != r->twin;
}

/* Chooses the ranges of this exchange: unfinished ones from the front of the slice, as
 * many as the dialect allows. */
static void choose_ranges(struct xh_request *r, struct xh_exchange *x, struct xh_limits lim)
{
    const struct xh_job *j = r->job;
    const struct xh_range *ranges = j->transfer->ranges;
    size_t bytes = strlen("bytes=");
    size_t i = r->first;
    for (; i < r->end; i++) {
        uint64_t from = ranges[i].off + j->got[i], to = ranges[i].off + ranges[i].len;
        if (from == to)
            continue;
        size_t more = xh_range_header_bytes((struct xh_range){from, to - from});
        if (x->asked > 0 && (x->asked == lim.max_ranges || bytes + more > lim.max_range_header))
            break;
        if (x->asked++ == 0) {
            x->asked_first = i;
            x->from = from;
        }
        x->to = to;
        x->asked_bytes += to - from;
        bytes += more;
        x->asked_end = i + 1;
    }
    x->range_bytes = bytes;
    x->cursor = x->open = x->asked_first;
    assert(x->asked > 0); /* a verdict sends nothing again of which nothing is missing */
}

int xh_job_lacks(const struct xh_job *j, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (j->got[i] < j->transfer->ranges[i].len)
            return 1;
    return 0;
}

void xh_request_prepare(struct xh_request *r, struct xh_exchange *x, struct xh_limits *limits, struct xh_request **rest)
{
    struct xh_job *j = r->job;
    struct xh_origin *o = j->origin;
    *rest = NULL;
    x->request = r;
    x->job = j;
    x->ask = j->ask;
    x->transfer = j->transfer;
    x->got = j->got;
    x->probe = j->probe;
    x->options = &o->options;
    x->counters = o->counters;
    x->speculative = &j->speculative;
    x->whole_seen = r->tries.whole_seen;
    x->doubled = r->hedge ? 2 : r->hedged;
    x->url = xh_url_ref(xh_request_url(r));
    x->waits = waits_for_target(r);
    r->targets = o->targets;
    x->token = xh_token_ref(o->caller.token);
    x->at_login = r->url && j->ask != XH_ASK_STAT && xh_caller_login(&o->caller, r->url) != NULL;
    x->finds = j->ask != XH_ASK_STAT && !x->at_login && (r->url || o->seeks == r || o->found_ns);
    x->login_turn = XH_LOGIN_GO;
    x->proxy = xh_proxy_for(&o->caller.proxies, x->url);
    x->turn = XH_PROXY_FREE;
    x->cert_sent = !o->no_cert;
    x->key_spoilt = o->no_key[0] != '\0';
    x->dialect = o->dialect;
    x->asked_first = x->asked_end = x->cursor = x->open = r->first;
    xh_reply_init(&x->reply);
    if (j->probe) {
        j->probe->want_bytes = wants(j->probe);
        j->probe->len = 0;
        return;
    }
    choose_ranges(r, x, limits_of(r, limits));
    if (r->twin || !xh_job_lacks(j, x->asked_end, r->end)) /* a pair's slice stays on its thread */
        return;
    struct xh_request *more = calloc(1, sizeof *more);
    if (!more) /* no matter: this request comes back for them */
        return;
    more->job = j;
    more->first = x->asked_end;
    more->end = r->end;
    more->tries.most_ranges = r->tries.most_ranges;
    more->tries.failed_ranges = r->tries.failed_ranges;
    xh_ring_init(&more->link);
    xh_ring_put_last(&j->requests, &more->in_job);
    r->end = x->asked_end;
    *rest = more;
}

const char *xh_request_kind(const struct xh_request *r)
{
    const struct xh_job *j = r->job;
    return j->ask == XH_ASK_STAT                                         ? "date"
           : j->ask == XH_ASK_HEAD                                       ? "head"
           : j->transfer->full                                           ? "stream"
           : j->hint                                                     ? "hint"
           : atomic_load_explicit(&j->speculative, memory_order_relaxed) ? "ahead"
                                                                         : "demand";
}
