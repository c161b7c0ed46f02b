/* The rounds of a read, over the pages that it still has to have.
 *
 * A round: sort the pages into ready / ours / in flight elsewhere -> fetch ours -> copy the ready ones meanwhile
 * -> wait for ours -> wait for the others'; again, until nothing is left. Own fetches are always waited for before
 * others', so that two readers never wait for each other. */
#include "rounds.h"

#include <stdlib.h>
#include <time.h>

#include "ahead/ahead.h"
#include "ahead/predict.h"
#include "base/now.h"
#include "file.h"
#include "pages/fetch.h"
#include "source/compressed.h"
#include "watch/trace.h"

#define HURRY_EVERY_MS 100
/* What another process has claimed and does not come to soon a read fetches itself, where it wants little of what
 * comes before
 * that. It would get half of the link: then the other one's bytes are four times as long under way as its own. Below
 * SOON_NS none of it is worth bytes that cross the link twice, nor below LATE_LEAST_PAGES a request. */
#define LATE_TIMES 8u
#define LATE_LEAST_PAGES 256u
#define SOON_NS 300000000u
/* Who walks for all is left so many round trips to ask for what a process without a connection wants, which needs four. */
#define LEFT_ROUND_TRIPS 2
#define LEFT_MOST_NS 100000000u
#define LEFT_LOOKS 8
#define LEFT_MOST_BYTES 65536u

/* How the pages of one round turned out; all ascending. */
struct sorted {
    struct xh_runs ready, mine, busy, bypass;
};

static void sorted_free(struct sorted *s)
{
    free(s->ready.at);
    free(s->mine.at);
    free(s->busy.at);
    free(s->bypass.at);
    *s = (struct sorted){0};
}

static int sort_page(struct xh_read_op *op, uint64_t p, struct sorted *s)
{
    int rc;
    struct xh_shadow *shadow = op->f->shadow;
    int meta = op->kind == XH_KIND_META;
    enum xh_claim claim = op->keep ? xh_shadow_claim_later(shadow, p, meta, op->take, &op->f->counters)
                                   : xh_shadow_peek(shadow, p);
    /* EMPTY, and to stay so */
    if (!op->keep && (claim == XH_CLAIM_MINE || (op->take && xh_shadow_is_later(shadow, p))))
        claim = XH_CLAIM_NONE;
    switch (claim) {
    case XH_CLAIM_READY: return xh_runs_add(&s->ready, p);
    case XH_CLAIM_BUSY: return xh_runs_add(&s->busy, p);
    case XH_CLAIM_MINE:
        rc = xh_runs_add(&s->mine, p);
        if (rc)
            xh_shadow_forgo(shadow, p, 1);
        return rc;
    default: return xh_runs_add(&s->bypass, p);
    }
}

static int sort_pages(struct xh_read_op *op, const struct xh_runs *todo, struct sorted *s)
{
    for (size_t i = 0; i < todo->n; i++)
        for (uint64_t k = 0; k < todo->at[i].count; k++)
            if (sort_page(op, todo->at[i].first + k, s))
                return XH_E_NOMEM;
    return 0;
}

/* A metadata miss takes its neighbourhood along, as far as nobody has it. Only whole
 * runs that touch the miss's own pages stay one request. */
static void widen(struct xh_read_op *op, struct sorted *s)
{
    struct xh_file *f = op->f;
    if (op->kind != XH_KIND_META || s->mine.n == 0 || !f->opt.readahead)
        return;
    const struct xh_run *last = &s->mine.at[s->mine.n - 1];
    struct xh_range miss = {s->mine.at[0].first * XH_PAGE_BYTES, 0};
    uint64_t end = (last->first + last->count) * XH_PAGE_BYTES;
    miss.len = (end < f->size ? end : f->size) - miss.off;
    if (pthread_mutex_trylock(&f->guess_lock))
        return;
    struct xh_range w = xh_predict_widen(f->wide, miss, f->size);
    pthread_mutex_unlock(&f->guess_lock);
    struct xh_runs wide = {0};
    uint64_t from = w.off / XH_PAGE_BYTES, miss_first = s->mine.at[0].first;
    uint64_t to = (w.off + w.len + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES;
    uint64_t miss_end = last->first + last->count;
    /* Downwards from the miss until somebody has it, then the miss, then upwards. */
    uint64_t p = miss_first;
    while (p > from && xh_shadow_claim_later(f->shadow, p - 1, 1, 0, &f->counters) == XH_CLAIM_MINE)
        p--;
    int rc = 0;
    if (p < miss_first)
        rc = xh_runs_add_run(&wide, (struct xh_run){p, miss_first - p});
    if (rc) {
        xh_shadow_forgo(f->shadow, p, miss_first - p);
        free(wide.at);
        return;
    }
    for (size_t i = 0; i < s->mine.n && !rc; i++)
        rc = xh_runs_add_run(&wide, s->mine.at[i]);
    if (rc) { /* keep the plain miss */
        if (p < miss_first)
            xh_shadow_forgo(f->shadow, p, miss_first - p);
        free(wide.at);
        return;
    }
    for (p = miss_end; p < to && xh_shadow_claim_later(f->shadow, p, 1, 0, &f->counters) == XH_CLAIM_MINE; p++)
        if (xh_runs_add(&wide, p)) {
            xh_shadow_forgo(f->shadow, p, 1);
            break;
        }
    free(s->mine.at);
    s->mine = wide;
}

/* Copies the ready runs out; runs that were evicted meanwhile go to |again|. */
static int copy_ready(struct xh_read_op *op, const struct xh_runs *ready, struct xh_runs *again)
{
    for (size_t i = 0; i < ready->n; i++) {
        uint64_t off = ready->at[i].first * XH_PAGE_BYTES;
        if (!xh_op_copy_ready(op, off, ready->at[i].count * XH_PAGE_BYTES) &&
            xh_runs_add_run(again, ready->at[i]))
            return XH_E_NOMEM;
    }
    return 0;
}

/* What comes before a page that another process has claimed for later, as it was seen. */
struct coming {
    uint64_t page, at_ns; /* at_ns 0: not seen yet */
    struct xh_later later;
};

/* How many of |busy| are claimed for later: what it would take to fetch them here. */
static uint64_t later_in(const struct xh_file *f, const struct xh_runs *busy)
{
    uint64_t n = 0;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t k = 0; k < busy->at[i].count; k++)
            n += (uint64_t)xh_shadow_is_later(f->shadow, busy->at[i].first + k);
    return n;
}

/* 1 when another process comes to |p|, of |busy|, so late that the read had better fetch what of them was not begun.
 * Known
 * from how far it came since the last look: as it fetches several stretches at once, what the link brings
 * before |p| is what lies before |p| in its stretch, as many times as all of them together came farther than that
 * one. Where
 * nothing came at all it is not the order in which things come that keeps the read waiting. */
static int comes_late(const struct xh_file *f, const struct xh_runs *busy, uint64_t p, struct coming *c)
{
    struct coming was = *c;
    if (!xh_shadow_is_later(f->shadow, p) || !xh_shadow_elsewhere(f->shadow, p))
        return 0;
    *c = (struct coming){.page = p, .at_ns = xh_now_ns()};
    xh_shadow_look_later(f->shadow, p, &c->later);
    if (was.at_ns == 0 || was.page != p || c->later.all == 0)
        return 0;
    uint64_t came = was.later.all > c->later.all ? was.later.all - c->later.all : 0;
    uint64_t nearer = c->later.first > was.later.first ? c->later.first - was.later.first : 0;
    came = came > nearer ? came : nearer; /* as more may have been claimed meanwhile */
    nearer += nearer == 0;
    if (came == 0)
        return 0;
    uint64_t wanted = later_in(f, busy), before = p - c->later.first;
    before = before > wanted ? before - wanted : 0;
    double times = came > nearer ? (double)came / (double)nearer : 1, link_pages = (double)before * times;
    double wait_ns = link_pages / (double)came * (double)(c->at_ns - was.at_ns);
    xh_trace(XH_T_READ, "late", "page=%llu before=%llu nearer=%llu came=%llu wanted=%llu wait_ms=%.0f",
             (unsigned long long)p, (unsigned long long)before, (unsigned long long)nearer, (unsigned long long)came,
             (unsigned long long)wanted, wait_ns / 1e6);
    return link_pages >= (double)(LATE_TIMES * wanted + LATE_LEAST_PAGES) && wait_ns >= SOON_NS;
}

/* Waits while |p|, of |busy|, is in flight, for as long as a server may be silent. Returns 1 when it still is. Sets
 * |op->take| and returns 0 when it had better be fetched here. */
static int wait_in_flight(struct xh_read_op *op, const struct xh_runs *busy, uint64_t p)
{
    struct xh_file *f = op->f;
    struct coming coming = {0};
    int left_ms = (int)f->opt.stall_timeout_ms, in_vain = 0;
    for (; !in_vain && left_ms > 0 && xh_shadow_peek(f->shadow, p) == XH_CLAIM_BUSY; left_ms -= HURRY_EVERY_MS) {
        op->take = op->kind == XH_KIND_RAW && comes_late(f, busy, p, &coming);
        if (op->take)
            return 0;
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

/* The same, on the account of who fetches it. */
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

/* Waits until nobody has the pages in flight any more, or some had better be fetched here: they go to |again|, except
 * those
 * whose owner neither finishes nor can be proved dead: they go to |bypass|. The last page first: mostly the others
 * are there by then, and whoever publishes them has nobody to wake each time. */
static int wait_busy(struct xh_read_op *op, const struct xh_runs *busy, struct xh_runs *again,
                     struct xh_runs *bypass)
{
    struct xh_file *f = op->f;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t p = busy->at[i].first, end = p + busy->at[i].count; p < end;)
            p = xh_fetch_promote(f, p);
    int moves = 1;
    for (size_t i = busy->n; moves && i-- > 0;)
        for (uint64_t k = busy->at[i].count; moves && k-- > 0;)
            moves = !wait_page(op, busy, busy->at[i].first + k) && !op->take;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t k = 0; k < busy->at[i].count; k++) {
            uint64_t p = busy->at[i].first + k;
            if (xh_runs_add(!op->take && wait_page(op, busy, p) ? bypass : again, p))
                return XH_E_NOMEM;
        }
    return 0;
}

/* What the body brings of |s| is taken off. On an error the claims have been abandoned, or published. */
static int through_body(struct xh_read_op *op, struct sorted *s, struct xh_err *err)
{
    struct xh_runs mine = {0}, bypass = {0};
    int rc = xh_compressed_fetch(op, &s->mine, 1, &mine);
    rc = xh_compressed_fetch(op, &s->bypass, 0, &bypass) ? XH_E_NOMEM : rc;
    uint64_t all = xh_op_asked_in(op, &s->mine) + xh_op_asked_in(op, &s->bypass);
    uint64_t brought = all - xh_op_asked_in(op, &mine) - xh_op_asked_in(op, &bypass);
    op->served.alone -= brought; /* mostly it had been foreseen, there */
    op->served.ahead += brought;
    free(s->mine.at);
    free(s->bypass.at);
    s->mine = mine;
    s->bypass = bypass;
    if (rc == 0)
        return 0;
    for (size_t i = 0; i < mine.n; i++)
        xh_shadow_forgo(op->f->shadow, mine.at[i].first, mine.at[i].count);
    return xh_op_nomem(op, err);
}

/* |bytes| that were found ready, or on their way elsewhere, are fetched here: evicted meanwhile, abandoned, or too
 * late. */
static void fetched_after_all(struct xh_read_op *op, uint64_t bytes)
{
    uint64_t waited = bytes < op->waited_bytes ? bytes : op->waited_bytes, hit = bytes - waited;
    op->waited_bytes -= waited;
    op->served.elsewhere -= waited;
    op->hit_bytes -= hit < op->hit_bytes ? hit : op->hit_bytes;
}

/* One round over |todo|; what is left goes to |again|. Returns 0 or the error; nothing of
 * the op is in flight afterwards. */
static int round_of(struct xh_read_op *op, const struct xh_runs *todo, struct xh_runs *again, int first,
                    struct xh_err *err)
{
    struct xh_file *f = op->f;
    struct sorted s = {0};
    struct xh_runs stuck = {0};
    int rc = sort_pages(op, todo, &s);
    op->take = 0;
    if (rc) {
        for (size_t i = 0; i < s.mine.n; i++)
            xh_shadow_forgo(f->shadow, s.mine.at[i].first, s.mine.at[i].count);
        xh_op_nomem(op, err);
        goto out;
    }
    uint64_t mine = xh_op_asked_in(op, &s.mine), bypass = xh_op_asked_in(op, &s.bypass);
    xh_count(&f->counters, bytes_demand, mine);
    xh_count(&f->counters, bytes_bypass, bypass);
    op->served.alone += mine + bypass;
    if (first) {
        op->hit_bytes = xh_op_asked_in(op, &s.ready);
        op->waited_bytes = xh_op_asked_in(op, &s.busy);
        op->served.elsewhere += op->waited_bytes;
        if (op->kind == XH_KIND_RAW && !op->is_retry) /* it does not stream by */
            xh_flow_stream(f, -(int64_t)op->hit_bytes);
    } else {
        fetched_after_all(op, mine + bypass);
    }
    widen(op, &s);
    int guesses = first && op->kind == XH_KIND_RAW && !op->served_by_stream && !op->is_retry;
    if (op->kind == XH_KIND_RAW && xh_compressed_used(f->compressed)) {
        if (guesses && !op->defer_prefetch) /* before it: this does not return before the bytes are there */
            xh_ahead_raw(f, op->asked, op->nasked);
        guesses &= op->defer_prefetch;
        rc = through_body(op, &s, err);
    }
    if (rc == 0)
        rc = xh_fetch_start(f, op, &s.mine, 1, err);
    if (rc == 0)
        rc = xh_fetch_start(f, op, &s.bypass, 0, err);
    if (rc == 0 && guesses && !op->defer_prefetch) /* behind the demand, before it has come: the link stays busy */
        xh_ahead_raw(f, op->asked, op->nasked);
    if (rc == 0 && copy_ready(op, &s.ready, again))
        rc = xh_op_nomem(op, err);
    rc = xh_op_wait(op, rc, err);
    if (rc == 0 && wait_busy(op, &s.busy, again, &stuck))
        rc = xh_op_nomem(op, err);
    if (rc == 0 && guesses && op->defer_prefetch)
        xh_ahead_raw(f, op->asked, op->nasked);
    if (rc == 0 && stuck.n) {
        uint64_t bytes = xh_op_asked_in(op, &stuck);
        xh_count(&f->counters, bytes_bypass, bytes);
        fetched_after_all(op, bytes);
        rc = xh_fetch_start(f, op, &stuck, 0, err);
        rc = xh_op_wait(op, rc, err);
    }
out:
    free(stuck.at);
    sorted_free(&s);
    return rc;
}

/* 1 when a page of |todo| is neither there nor on its way. */
static int lacks(struct xh_read_op *op, const struct xh_runs *todo)
{
    for (size_t i = 0; i < todo->n; i++)
        for (uint64_t k = 0; k < todo->at[i].count; k++)
            if (xh_shadow_peek(op->f->shadow, todo->at[i].first + k) == XH_CLAIM_MINE)
                return 1;
    return 0;
}

/* Of those that open a file together one walks, and mostly wants the same as this one now. Who has no connection yet leaves it to
 * that one for a while: a connection of its own takes longer, and in a crowd the server has other things to do. */
static void leave_it(struct xh_read_op *op, const struct xh_runs *todo)
{
    struct xh_file *f = op->f;
    struct xh_origin_info info;
    if (!f->opened_jointly || !op->keep || op->bytes > LEFT_MOST_BYTES || !xh_shadow_other_walks(f->shadow))
        return;
    xh_replicas_get_info(f->origin, &info);
    uint64_t begun = xh_now_ns(), most = LEFT_ROUND_TRIPS * info.rtt_ns, now;
    most = most < LEFT_MOST_NS ? most : LEFT_MOST_NS;
    if (info.open || most == 0 || !lacks(op, todo))
        return;
    uint64_t entered = xh_account_enter(f->account, XH_OTHERS);
    const struct timespec look = {.tv_nsec = (long)(most / LEFT_LOOKS)};
    do {
        nanosleep(&look, NULL);
        now = xh_now_ns();
    } while (now - begun < most && lacks(op, todo) && xh_shadow_other_walks(f->shadow));
    xh_account_leave(f->account, XH_OTHERS, entered);
    xh_trace(XH_T_READ, "left", "page=%llu waited_us=%llu", (unsigned long long)todo->at[0].first, (unsigned long long)(now - begun) / 1000);
}

int xh_read_rounds(struct xh_read_op *op, struct xh_err *err)
{
    struct xh_runs todo = {0}, again = {0};
    int rc = xh_op_pages(op, &todo) ? xh_op_nomem(op, err) : 0;
    if (rc == 0)
        leave_it(op, &todo);
    for (int first = 1; rc == 0 && todo.n; first = 0) {
        again.n = 0;
        rc = round_of(op, &todo, &again, first, err);
        xh_runs_sort(&again);
        struct xh_runs t = todo;
        todo = again;
        again = t;
    }
    xh_count(&op->f->counters, bytes_hit, op->hit_bytes);
    xh_count(&op->f->counters, bytes_waited, op->waited_bytes);
    op->hit_bytes = op->waited_bytes = 0; /* what is lost of the read has rounds of its own */
    free(todo.at);
    free(again.at);
    return rc;
}
