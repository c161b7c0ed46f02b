/* One read, whole: look up, claim, fetch what is ours, wait for what others fetch.
 *
 * The way of a read is xh_cache_read: a hit is a copy from the shadow; else rounds of
 * (sort the pages into ready / ours / in flight elsewhere -> fetch ours -> copy the ready
 * ones meanwhile -> wait for ours -> wait for the others') until nothing is left. Own fetches
 * are always waited for before others', so that two readers never wait for each other. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "trace.h"

/* Raw reads of at least this much stream: see keeps(). */
#define BULK_BYTES (256u << 10)
#define HURRY_EVERY_MS 100

int xh_runs_add_run(struct xh_runs *r, struct xh_run run)
{
    struct xh_run *last = r->n ? &r->at[r->n - 1] : NULL;
    if (last && run.first >= last->first && run.first <= last->first + last->count) {
        uint64_t end = run.first + run.count;
        if (end > last->first + last->count)
            last->count = end - last->first;
        return 0;
    }
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct xh_run *at = realloc(r->at, room * sizeof *at);
        if (!at)
            return XH_E_NOMEM;
        r->at = at;
        r->room = room;
    }
    r->at[r->n++] = run;
    return 0;
}

int xh_runs_add(struct xh_runs *r, uint64_t idx)
{
    return xh_runs_add_run(r, (struct xh_run){idx, 1});
}

static int by_first(const void *a, const void *b)
{
    const struct xh_run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void xh_runs_sort(struct xh_runs *r)
{
    if (r->n > 1)
        qsort(r->at, r->n, sizeof *r->at, by_first);
}

/* ---- extents ---------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const struct xh_extent *x = a, *y = b;
    return (x->off > y->off) - (x->off < y->off);
}

/* Checks and sorts the caller's extents into |op|; |copy| is what the op then owns. */
static int op_take_extents(struct xh_read_op *op, const struct xh_extent *ext, size_t n,
                           struct xh_extent **copy, struct xh_err *err)
{
    uint64_t size = op->f->size;
    size_t m = 0;
    struct xh_extent *e = malloc(n * sizeof *e);
    if (!e)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read of %zu extents of %s", n,
                          op->f->url_shown);
    for (size_t i = 0; i < n; i++)
        if (ext[i].len)
            e[m++] = ext[i];
    for (size_t i = 1; i < m; i++)
        if (e[i].off < e[i - 1].off) {
            qsort(e, m, sizeof *e, by_offset);
            break;
        }
    int overlaps = 0;
    for (size_t i = 1; i < m; i++)
        overlaps |= e[i].off < e[i - 1].off + e[i - 1].len;
    if (overlaps) {
        op->reach = malloc(m * sizeof *op->reach);
        if (!op->reach) {
            free(e);
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read of %zu extents of %s", n,
                              op->f->url_shown);
        }
        for (size_t i = 0; i < m; i++) {
            uint64_t end = e[i].off + e[i].len;
            op->reach[i] = i && op->reach[i - 1] > end ? op->reach[i - 1] : end;
        }
    }
    op->ext = *copy = e;
    op->n = m;
    assert(m == 0 || e[m - 1].off < size);
    return 0;
}

static int check_extents(const struct xh_file *f, const struct xh_extent *ext, size_t n, uint64_t *bytes,
                         struct xh_err *err)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (ext[i].len > f->size || ext[i].off > f->size - ext[i].len)
            return xh_err_set(err, XH_E_RANGE, 0,
                              "a read of %llu bytes at %llu was asked of %s, which has %llu bytes",
                              (unsigned long long)ext[i].len, (unsigned long long)ext[i].off, f->url_shown,
                              (unsigned long long)f->size);
        sum += ext[i].len;
    }
    *bytes = sum;
    return 0;
}

/* First extent that may reach past |off|. */
static size_t first_extent(const struct xh_read_op *op, uint64_t off)
{
    size_t lo = 0, hi = op->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        uint64_t end = op->reach ? op->reach[mid] : op->ext[mid].off + op->ext[mid].len;
        if (end <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int xh_op_copy_out(struct xh_read_op *op, uint64_t off, uint64_t len, const uint8_t *data)
{
    uint64_t end = off + len;
    for (size_t i = first_extent(op, off); i < op->n && op->ext[i].off < end; i++) {
        const struct xh_extent *e = &op->ext[i];
        uint64_t a = e->off > off ? e->off : off;
        uint64_t b = e->off + e->len < end ? e->off + e->len : end;
        if (a >= b)
            continue;
        uint8_t *to = (uint8_t *)e->buf + (a - e->off);
        if (data)
            memcpy(to, data + (a - off), b - a);
        else if (xh_shadow_read(op->f->shadow, a, to, b - a) != b - a)
            return 0;
    }
    return 1;
}

static int op_pages(const struct xh_read_op *op, struct xh_runs *out)
{
    for (size_t i = 0; i < op->n; i++) {
        uint64_t first = op->ext[i].off / XH_PAGE_BYTES;
        uint64_t last = (op->ext[i].off + op->ext[i].len - 1) / XH_PAGE_BYTES;
        if (xh_runs_add_run(out, (struct xh_run){first, last - first + 1}))
            return XH_E_NOMEM;
    }
    return 0;
}

/* Asked bytes that lie in a page run. */
static uint64_t asked_in(const struct xh_read_op *op, const struct xh_runs *runs)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < runs->n; k++) {
        uint64_t off = runs->at[k].first * XH_PAGE_BYTES, end = off + runs->at[k].count * XH_PAGE_BYTES;
        for (size_t i = first_extent(op, off); i < op->n && op->ext[i].off < end; i++) {
            const struct xh_extent *e = &op->ext[i];
            uint64_t a = e->off > off ? e->off : off;
            uint64_t b = e->off + e->len < end ? e->off + e->len : end;
            sum += b > a ? b - a : 0;
        }
    }
    return sum;
}

int xh_op_wait(struct xh_read_op *op)
{
    pthread_mutex_lock(&op->lock);
    while (op->pending)
        pthread_cond_wait(&op->idle, &op->lock);
    pthread_mutex_unlock(&op->lock);
    return op->err.code;
}

/* ---- one round --------------------------------------------------------------------- */

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
    enum xh_claim claim = op->keep ? xh_shadow_claim(shadow, p, op->kind == XH_KIND_META, &op->f->counters)
                                   : xh_shadow_peek(shadow, p);
    if (!op->keep && claim == XH_CLAIM_MINE) /* EMPTY, and to stay so */
        claim = XH_CLAIM_NONE;
    switch (claim) {
    case XH_CLAIM_READY: return xh_runs_add(&s->ready, p);
    case XH_CLAIM_BUSY: return xh_runs_add(&s->busy, p);
    case XH_CLAIM_MINE:
        rc = xh_runs_add(&s->mine, p);
        if (rc)
            xh_shadow_abandon(shadow, p, 1);
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
    struct xh_range w = xh_predict_widen(&f->wide, miss, f->size);
    pthread_mutex_unlock(&f->guess_lock);
    struct xh_runs wide = {0};
    uint64_t from = w.off / XH_PAGE_BYTES, miss_first = s->mine.at[0].first;
    uint64_t to = (w.off + w.len + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES;
    uint64_t miss_end = last->first + last->count;
    /* Downwards from the miss until somebody has it, then the miss, then upwards. */
    uint64_t p = miss_first;
    while (p > from && xh_shadow_claim(f->shadow, p - 1, 1, &f->counters) == XH_CLAIM_MINE)
        p--;
    int rc = 0;
    if (p < miss_first)
        rc = xh_runs_add_run(&wide, (struct xh_run){p, miss_first - p});
    if (rc) {
        xh_shadow_abandon(f->shadow, p, miss_first - p);
        free(wide.at);
        return;
    }
    for (size_t i = 0; i < s->mine.n && !rc; i++)
        rc = xh_runs_add_run(&wide, s->mine.at[i]);
    if (rc) { /* keep the plain miss */
        if (p < miss_first)
            xh_shadow_abandon(f->shadow, p, miss_first - p);
        free(wide.at);
        return;
    }
    for (p = miss_end; p < to && xh_shadow_claim(f->shadow, p, 1, &f->counters) == XH_CLAIM_MINE; p++)
        if (xh_runs_add(&wide, p)) {
            xh_shadow_abandon(f->shadow, p, 1);
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
        if (!xh_op_copy_out(op, off, ready->at[i].count * XH_PAGE_BYTES, NULL) &&
            xh_runs_add_run(again, ready->at[i]))
            return XH_E_NOMEM;
    }
    return 0;
}

/* Waits while |p| is in flight, for as long as a server may be silent. Returns 1 when it still is. */
static int wait_page(struct xh_file *f, uint64_t p)
{
    int left_ms = (int)f->opt.stall_timeout_ms;
    for (; left_ms > 0 && xh_shadow_peek(f->shadow, p) == XH_CLAIM_BUSY; left_ms -= HURRY_EVERY_MS) {
        xh_fetch_hurry(f, p); /* again: what fetches it may have been claimed, but not begun, the last time */
        int last = left_ms <= HURRY_EVERY_MS, ms = last ? left_ms : HURRY_EVERY_MS;
        if ((last ? xh_shadow_wait : xh_shadow_doze)(f->shadow, p, ms, &f->counters) != XH_E_TIMEOUT)
            return 0;
    }
    if (left_ms > 0)
        return 0;
    xh_trace(XH_T_READ, "stuck", "page=%llu", (unsigned long long)p);
    return 1;
}

/* Waits until nobody has the pages in flight any more: they go to |again|, except those
 * whose owner neither finishes nor can be proved dead: they go to |bypass|. The last page first: mostly the others
 * are there by then, and whoever publishes them has nobody to wake each time. */
static int wait_busy(struct xh_read_op *op, const struct xh_runs *busy, struct xh_runs *again,
                     struct xh_runs *bypass)
{
    struct xh_file *f = op->f;
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t p = busy->at[i].first, end = p + busy->at[i].count; p < end;)
            p = xh_fetch_hurry(f, p);
    int moves = 1;
    for (size_t i = busy->n; moves && i-- > 0;)
        for (uint64_t k = busy->at[i].count; moves && k-- > 0;)
            moves = !wait_page(f, busy->at[i].first + k);
    for (size_t i = 0; i < busy->n; i++)
        for (uint64_t k = 0; k < busy->at[i].count; k++) {
            uint64_t p = busy->at[i].first + k;
            if (xh_runs_add(wait_page(f, p) ? bypass : again, p))
                return XH_E_NOMEM;
        }
    return 0;
}

static int nomem(struct xh_read_op *op, struct xh_err *err)
{
    return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while reading %s", op->f->url_shown);
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
    if (rc) {
        for (size_t i = 0; i < s.mine.n; i++)
            xh_shadow_abandon(f->shadow, s.mine.at[i].first, s.mine.at[i].count);
        nomem(op, err);
        goto out;
    }
    xh_count(&f->counters, bytes_demand, asked_in(op, &s.mine));
    xh_count(&f->counters, bytes_bypass, asked_in(op, &s.bypass));
    if (first) {
        xh_count(&f->counters, bytes_hit, asked_in(op, &s.ready));
        xh_count(&f->counters, bytes_waited, asked_in(op, &s.busy));
    }
    widen(op, &s);
    rc = xh_fetch_start(f, op, &s.mine, 1, err);
    if (rc == 0)
        rc = xh_fetch_start(f, op, &s.bypass, 0, err);
    int guesses = first && op->kind == XH_KIND_RAW && !op->led;
    if (rc == 0 && guesses && !op->late) /* behind the demand, before it has come: the link stays busy */
        xh_ahead_raw(f, op->asked, op->nasked);
    if (rc == 0 && copy_ready(op, &s.ready, again))
        rc = nomem(op, err);
    int failed = xh_op_wait(op);
    if (rc == 0 && failed) {
        rc = failed;
        if (err)
            *err = op->err;
    }
    if (rc == 0 && wait_busy(op, &s.busy, again, &stuck))
        rc = nomem(op, err);
    if (rc == 0 && guesses && op->late)
        xh_ahead_raw(f, op->asked, op->nasked);
    if (rc == 0 && stuck.n) {
        xh_count(&f->counters, bytes_bypass, asked_in(op, &stuck));
        rc = xh_fetch_start(f, op, &stuck, 0, err);
        failed = xh_op_wait(op);
        if (rc == 0 && failed) {
            rc = failed;
            if (err)
                *err = op->err;
        }
    }
out:
    free(stuck.at);
    sorted_free(&s);
    return rc;
}

/* 1 when what |op| fetches is to stay in the shadow. A long stream that passes through one process
 * for the first time is not worth the tmpfs, which costs more than the network's own work; what is
 * read again, or may be by others, is. Its beginning is kept: others may be about to start. */
static int keeps(struct xh_read_op *op, const struct xh_runs *pages)
{
    struct xh_file *f = op->f;
    uint64_t n = 0, again = 0, empty;
    if (op->kind == XH_KIND_META)
        return 1;
    uint64_t before = atomic_fetch_add_explicit(&f->streamed, op->bytes, memory_order_relaxed);
    int shared = xh_fetch_shared(f);
    op->late = f->divided && before == 0;
    if (shared) /* what streams towards this process alone the others would fetch once more */
        xh_stage_end(f);
    if (before < f->opt.stream_bytes || shared)
        return 1;
    for (size_t i = 0; i < pages->n; i++) {
        again += xh_shadow_touch(f->shadow, pages->at[i].first, pages->at[i].count, &empty);
        n += empty;
    }
    if (n) /* else all of it is there or on its way, which says nothing */
        atomic_store_explicit(&f->again, again > n / 2, memory_order_relaxed);
    return op->bytes < BULK_BYTES || again > n / 2;
}

/* Takes what the stage has, in private memory or on its way there. |copy| owns op->ext. */
static void take_staged(struct xh_read_op *op, struct xh_extent **copy)
{
    struct xh_extent *pieces = NULL;
    uint64_t coming, here;
    if (op->kind != XH_KIND_RAW || op->reach)
        return;
    here = xh_stage_take(op->f, op, &pieces, &coming);
    xh_count(&op->f->counters, bytes_staged, here + coming);
    if (pieces) {
        free(*copy);
        *copy = pieces;
    }
}

/* Claims the whole pages of a read that its stream brings: behind what the stage left to fetch. Without a claim, or
 * memory, a page is not kept. */
static void hold(struct xh_read_op *op, struct xh_runs *held)
{
    const struct xh_extent *e = op->asked, *last = op->n ? &op->ext[op->n - 1] : NULL;
    uint64_t off = last ? last->off + last->len : e->off;
    uint64_t end = (e->off + e->len) / XH_PAGE_BYTES;
    for (uint64_t p = (off + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES; op->keep && p < end; p++)
        if (xh_shadow_claim(op->f->shadow, p, 0, &op->f->counters) == XH_CLAIM_MINE && xh_runs_add(held, p)) {
            xh_shadow_abandon(op->f->shadow, p, 1);
            break;
        }
}

/* Publishes what was held, from the reader's own buffer, where the bytes came. */
static void settle(struct xh_read_op *op, const struct xh_runs *held, int came)
{
    const struct xh_extent *e = op->asked;
    struct xh_shadow *s = op->f->shadow;
    for (size_t i = 0; i < held->n; i++) {
        uint64_t first = held->at[i].first, n = held->at[i].count, off = first * XH_PAGE_BYTES;
        if (came && xh_shadow_fill(s, off, (uint8_t *)e->buf + (off - e->off), n * XH_PAGE_BYTES) == 0)
            xh_shadow_publish(s, first, n, &op->f->counters);
        else
            xh_shadow_abandon(s, first, n);
    }
}

static int read_in_rounds(struct xh_read_op *op, struct xh_extent **copy, struct xh_err *err)
{
    struct xh_runs todo = {0}, again = {0}, held = {0};
    int rc = op_pages(op, &todo) ? nomem(op, err) : 0;
    if (rc == 0) {
        op->keep = keeps(op, &todo);
        op->led = op->kind == XH_KIND_RAW && xh_ahead_lead(op->f, op->asked, op->nasked);
        take_staged(op, copy);
        if (op->led)
            hold(op, &held);
        todo.n = 0;
        rc = op_pages(op, &todo) ? nomem(op, err) : 0;
    }
    if (rc == 0 && todo.n == 0 && op->kind == XH_KIND_RAW && !op->led)
        xh_ahead_raw(op->f, op->asked, op->nasked);
    for (int round = 0; rc == 0 && todo.n; round++) {
        again.n = 0;
        rc = round_of(op, &todo, &again, round == 0, err);
        xh_runs_sort(&again);
        struct xh_runs t = todo;
        todo = again;
        again = t;
    }
    free(todo.at);
    free(again.at);
    int failed = xh_op_wait(op); /* for what the stage promised */
    if (rc == 0 && failed) {
        rc = failed;
        if (err)
            *err = op->err;
    }
    settle(op, &held, rc == 0);
    free(held.at);
    return rc;
}

size_t xh_cache_prefetch(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (r[i].len > f->size || r[i].off > f->size - r[i].len)
            n = i;
    xh_file_after_fork(f);
    return n && f->size ? xh_wanted_add(f, kind, r, n) : n;
}

/* ---- the read ------------------------------------------------------------------------ */

/* Tells those who learn from the bytes that a read is done; |missed| when it had to fetch. */
static void done(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, int missed)
{
    if (kind == XH_KIND_META)
        xh_ahead_meta(f, ext, n, missed);
    else
        xh_walk_note(f, kind, ext, n, missed);
}

/* The read needed nothing from the network. */
static void count_hit(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes)
{
    xh_count(&f->counters, bytes_asked, bytes);
    xh_count(&f->counters, bytes_hit, bytes);
    if (kind == XH_KIND_RAW)
        xh_ahead_raw(f, ext, n);
}

int xh_read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, int *missed,
                  struct xh_err *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += ext[i].len;
    *missed = 0;
    if (n == 1 && xh_shadow_read(f->shadow, ext->off, ext->buf, ext->len) == ext->len) {
        count_hit(f, kind, ext, n, bytes);
        return 0;
    }
    *missed = 1;
    xh_count(&f->counters, bytes_asked, bytes);
    struct xh_read_op op = {.f = f, .kind = kind, .asked = ext, .nasked = n, .bytes = bytes};
    struct xh_extent *copy = NULL;
    pthread_mutex_init(&op.lock, NULL);
    pthread_cond_init(&op.idle, NULL);
    int rc = op_take_extents(&op, ext, n, &copy, err);
    if (rc == 0)
        rc = read_in_rounds(&op, &copy, err);
    assert(op.pending == 0);
    free(copy);
    free(op.reach);
    pthread_mutex_destroy(&op.lock);
    pthread_cond_destroy(&op.idle);
    xh_trace(XH_T_READ, "read", "extents=%zu bytes=%llu off=%llu kind=%s result=%s", n,
             (unsigned long long)bytes, (unsigned long long)ext->off,
             kind == XH_KIND_META ? "meta" : "raw", xh_err_name(rc));
    return rc;
}

int xh_cache_read(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                  struct xh_err *err)
{
    uint64_t bytes = 0;
    int missed = 0, rc = check_extents(f, ext, n, &bytes, err);
    if (rc)
        return rc;
    xh_file_after_fork(f);
    xh_count(&f->counters, reads, 1);
    xh_count(&f->counters, extents, n);
    if (bytes == 0)
        return 0;
    int early = xh_early_read(f, ext, n, err);
    if (early < 0)
        return early;
    if (early)
        count_hit(f, kind, ext, n, bytes);
    else if ((rc = xh_read_pages(f, kind, ext, n, &missed, err)) == 0)
        rc = xh_early_prove(f, err);
    if (rc == 0)
        done(f, kind, ext, n, missed);
    return rc;
}
