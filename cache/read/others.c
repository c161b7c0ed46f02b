/* Other processes, and other reads of this one, as a source: waits for the pages that they have claimed. Own fetches
 * are always waited for before others', so that two readers never wait for each other. */
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/now.h"
#include "base/waits.h"
#include "disk/disk.h"
#include "object.h"
#include "pages/fetch.h"
#include "policy.h"
#include "sources.h"
#include "watch/trace.h"

#define HURRY_EVERY_MS 100
/* A process without a connection leaves the walking process so many round trips to ask for what both want. Asking by
 * itself would take four. */
#define LEFT_ROUND_TRIPS 2
#define LEFT_MOST_NS 100000000u
#define LEFT_LOOKS 8
#define LEFT_MOST_BYTES 65536u

/* What comes before a page that another process has claimed for later, as it was seen. */
struct coming {
    uint64_t page, at_ns; /* at_ns 0: not seen yet */
    struct xh_later later;
};

/* How many of |busy| are claimed for later, and what fetching them here would take. */
static uint64_t later_in(const struct xh_file *f, const struct xh_runs *busy)
{
    uint64_t n = 0;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t k = 0; k < busy->at[i].count; k++)
            n += (uint64_t)xh_shadow_is_later(f->shadow, busy->at[i].first + k);
    return n;
}

/* 1 when another process comes to |p|, of |busy|, so late that the read should fetch those of them that were not begun.
 * Known from how far that process came since the last look. */
static int comes_late(const struct xh_file *f, const struct xh_runs *busy, uint64_t p, struct coming *c)
{
    struct coming was = *c;
    if (!xh_shadow_is_later(f->shadow, p) || !xh_shadow_elsewhere(f->shadow, p))
        return 0;
    *c = (struct coming){.page = p, .at_ns = xh_now_ns()};
    xh_shadow_look_later(f->shadow, p, &c->later);
    if (was.at_ns == 0 || was.page != p || c->later.all == 0)
        return 0;
    struct xh_coming now = {.wanted = later_in(f, busy), .before = p - c->later.first, .ns = c->at_ns - was.at_ns};
    now.came = was.later.all > c->later.all ? was.later.all - c->later.all : 0;
    now.nearer = c->later.first > was.later.first ? c->later.first - was.later.first : 0;
    int late = xh_policy_comes_late(&now);
    xh_trace(XH_T_READ, "late", "page=%llu before=%llu nearer=%llu came=%llu wanted=%llu late=%d",
             (unsigned long long)p, (unsigned long long)now.before, (unsigned long long)now.nearer,
             (unsigned long long)now.came, (unsigned long long)now.wanted, late);
    return late;
}

/* Waits while |p|, of |busy|, is in flight, for as long as a server may be silent. Returns 1 when it still is. Sets
 * |op->take| and returns 0 when the read should fetch it; or |op->interrupted|. */
static int wait_in_flight(struct xh_read_op *op, const struct xh_runs *busy, uint64_t p)
{
    struct xh_file *f = op->f;
    struct coming coming = {0};
    int left_ms = (int)f->opt.stall_timeout_ms, in_vain = 0;
    struct xh_wait w = {0};
    for (; !in_vain && left_ms > 0 && xh_shadow_peek(f->shadow, p) == XH_CLAIM_BUSY; left_ms -= HURRY_EVERY_MS) {
        op->take = op->kind == XH_KIND_RAW && comes_late(f, busy, p, &coming);
        if (op->take)
            return 0;
        if (xh_interrupted(&w)) {
            op->interrupted = 1;
            return 0;
        }
        xh_fetch_promote(f, p); /* again: what fetches it may have been claimed, but not begun, the last time */
        int last = left_ms <= HURRY_EVERY_MS, ms = last ? left_ms : HURRY_EVERY_MS;
        uint64_t begun = xh_now_ns();
        if ((last ? xh_shadow_wait : xh_shadow_doze)(f->shadow, p, ms, &f->counters) != XH_E_TIMEOUT)
            return 0;
        in_vain = xh_now_ns() - begun < (uint64_t)ms * 1000000; /* it was no wait: its owner was waited for already */
    }
    if (!in_vain && left_ms > 0)
        return 0;
    xh_trace(XH_T_READ, "stuck", "page=%llu", (unsigned long long)p);
    return 1;
}

/* The same, on the account of the process that fetches it. */
static int wait_page(struct xh_read_op *op, const struct xh_runs *busy, uint64_t p)
{
    struct xh_file *f = op->f;
    if (xh_shadow_peek(f->shadow, p) != XH_CLAIM_BUSY)
        return 0;
    enum xh_doing d = xh_shadow_elsewhere(f->shadow, p) ? XH_OTHERS : XH_NETWORK;
    uint64_t entered = xh_account_enter(f->account, d);
    int stuck = wait_in_flight(op, busy, p);
    uint64_t waited = xh_account_leave(f->account, d, entered);
    op->served.waited_ns += d == XH_NETWORK ? waited : 0;
    return stuck;
}

/* Waits until none of the pages is in flight any more, or the read should fetch some: these go to the next round. Pages
 * whose owner neither finishes nor can be proved dead go to |stuck|. The last page is waited for first: mostly the
 * others are there by then, and their publisher wakes the reader once. */
static int wait_busy(struct xh_read_op *op, struct xh_runs *stuck)
{
    struct xh_file *f = op->f;
    const struct xh_runs *busy = &op->busy;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t p = busy->at[i].first, end = p + busy->at[i].count; p < end;)
            p = xh_fetch_promote(f, p);
    int moves = 1;
    for (size_t i = busy->n; moves && i-- > 0;)
        for (uint64_t k = busy->at[i].count; moves && k-- > 0;)
            moves = !op->interrupted && !wait_page(op, busy, busy->at[i].first + k) && !op->take;
    if (op->interrupted)
        return XH_E_INTR;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t k = 0; k < busy->at[i].count; k++) {
            uint64_t p = busy->at[i].first + k;
            if (xh_runs_add(!op->take && wait_page(op, busy, p) ? stuck : &op->again, p))
                return XH_E_NOMEM;
            if (op->interrupted)
                return XH_E_INTR;
        }
    return 0;
}

void xh_others_fetched_after_all(struct xh_read_op *op, uint64_t bytes)
{
    uint64_t waited = bytes < op->waited_bytes ? bytes : op->waited_bytes, hit = bytes - waited;
    op->waited_bytes -= waited;
    op->served.elsewhere -= waited;
    op->hit_bytes -= hit < op->hit_bytes ? hit : op->hit_bytes;
}

static int finish(struct xh_read_op *op, int rc, struct xh_err *err)
{
    struct xh_runs stuck = {0};
    int lacks = rc == 0 ? wait_busy(op, &stuck) : 0;
    if (lacks)
        rc = lacks == XH_E_INTR ? xh_interrupt_error(err, op->f->url_shown) : xh_op_nomem(op, err);
    if (rc == 0 && stuck.n) {
        uint64_t bytes = xh_op_asked_in(op, &stuck);
        xh_count(&op->f->counters, bytes_bypass, bytes);
        xh_others_fetched_after_all(op, bytes);
        rc = xh_fetch_start(op->f, op, &stuck, 0, err);
        rc = xh_op_wait(op, rc, err);
    }
    free(stuck.at);
    return rc;
}

const struct xh_source xh_others_source = {.finish = finish};

/* ---- what is left to another process */

/* 1 when a page of |todo| is neither there nor on its way. */
static int lacks(struct xh_read_op *op, const struct xh_runs *todo)
{
    for (size_t i = 0; i < todo->n; i++)
        for (uint64_t k = 0; k < todo->at[i].count; k++)
            if (xh_shadow_peek(op->f->shadow, todo->at[i].first + k) == XH_CLAIM_MINE &&
                !xh_disk_has(op->f->disk, todo->at[i].first + k))
                return 1;
    return 0;
}

void xh_others_leave_it(struct xh_read_op *op)
{
    struct xh_file *f = op->f;
    const struct xh_runs *todo = &op->todo;
    struct xh_origin_info info;
    if (!f->opened_jointly || !op->keep || op->bytes > LEFT_MOST_BYTES || !xh_shadow_other_walks(f->shadow))
        return;
    xh_replicas_get_info(f->origin, &info);
    uint64_t begun = xh_now_ns(), most = LEFT_ROUND_TRIPS * info.rtt_ns, now;
    most = most < LEFT_MOST_NS ? most : LEFT_MOST_NS;
    if (info.open || most == 0 || !lacks(op, todo))
        return;
    uint64_t entered = xh_account_enter(f->account, XH_OTHERS);
    do {
        xh_pause_ns(most / LEFT_LOOKS);
        now = xh_now_ns();
    } while (now - begun < most && lacks(op, todo) && xh_shadow_other_walks(f->shadow));
    xh_account_leave(f->account, XH_OTHERS, entered);
    xh_trace(XH_T_READ, "left", "page=%llu waited_us=%llu", (unsigned long long)todo->at[0].first,
             (unsigned long long)(now - begun) / 1000);
}
