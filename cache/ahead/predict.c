/* Prediction: see predict.h. */
#include "predict.h"

/* A read this close to the last one's end, and no farther than either is long, continues it:
 * chunked data has headers and index nodes in between. */
#define SLACK_BYTES (256u << 10)
/* Whoever begins with a read this large most likely goes on: a wrong guess costs twice as much again,
 * once a file. Runs of such reads are let further ahead, as a long link takes more than they read. */
#define SURE_BYTES (1u << 20)
/* Such a read at the beginning of a dataset this large begins a run of its own. */
#define LARGE_BYTES (32u << 20)
/* A run that ends soon costs as much trust as three reads that were foreseen earn: reads that come
 * in pairs, or at random in a small place, propose nothing before long. */
#define SOON_READS 8
#define DOUBT_STEP 3
#define DOUBT_MOST 8
/* Widening: a lone miss fetches the first (about what one more round trip of 1 ms is worth
 * at 100 MB/s), less where metadata lies thin, and a walk through metadata up to the most. */
#define WIDE_LEAST_BYTES (8u << 10)
#define WIDE_FIRST_BYTES (16u << 10)
#define WIDE_MOST_BYTES (1u << 20)
/* Metadata is dense where reads cover a quarter of what is fetched. */
#define WIDE_DENSE 4
/* From this width on a walk is certain enough to fetch the next piece before it is missed. */
#define WIDE_WALK_BYTES (64u << 10)
/* A miss this many widths from the last fetch is still the same walk. */
#define WIDE_NEAR 8

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int similar(uint64_t a, uint64_t b)
{
    return a / 2 <= b && b / 2 <= a;
}

static int is_up(uint64_t step)
{
    return step <= UINT64_MAX / 2;
}

static int holds(struct xh_range r, uint64_t off)
{
    return off >= r.off && off - r.off < r.len;
}

/* |r| begins a reading of |whole|, and leaves most of it. */
static int begins(struct xh_range whole, struct xh_range r)
{
    return whole.len >= LARGE_BYTES && r.off == whole.off && r.len >= SURE_BYTES && r.len < whole.len / 2;
}

/* A request of so much is worth its round trip. */
#define REFILL_BYTES (4u << 20)

/* How |r| follows p->last. */
static enum xh_run_kind follows(const struct xh_predict_seq *p, struct xh_range r)
{
    const struct xh_range l = p->last;
    uint64_t end = r.off + r.len, last_end = l.off + l.len;
    uint64_t slack = min64(SLACK_BYTES, min64(l.len, r.len));
    int up = r.off > l.off && end > last_end, down = r.off < l.off && end < last_end;
    uint64_t gap = up && r.off > last_end ? r.off - last_end : down && l.off > end ? l.off - end : 0;
    if (l.len == 0)
        return r.len >= SURE_BYTES ? XH_RUN_UP : XH_RUN_NONE;
    if (p->same >= 2 && gap > 0 && (down || r.off - l.off >= r.len))
        return XH_RUN_STRIDE;
    if (gap <= slack && (up || down))
        return up ? XH_RUN_UP : XH_RUN_DOWN;
    return XH_RUN_NONE;
}

/* Takes note of |r|: its distance, the run that it continues or begins, what that is worth. */
static void note(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole)
{
    uint64_t step = r.off - p->last.off;
    int turns = is_up(step) != is_up(p->step);
    int steady = p->last.len && similar(p->last.len, r.len);
    p->same = !steady ? 0 : p->same && step == p->step ? p->same + (p->same < 2) : 1;
    p->step = step;
    enum xh_run_kind kind = p->kind != XH_RUN_NONE && turns ? XH_RUN_NONE : follows(p, r);
    if (kind == XH_RUN_NONE) {
        if (p->bytes > p->last.len && p->kind != XH_RUN_NONE && p->bytes / SOON_READS < p->last.len)
            p->doubt = p->doubt + DOUBT_STEP < DOUBT_MOST ? p->doubt + DOUBT_STEP : DOUBT_MOST;
        p->bytes = 0;
    } else {
        p->doubt -= p->doubt > 0;
        if (p->kind == XH_RUN_NONE)
            p->bytes = p->last.len;
    }
    p->bytes = r.len > UINT64_MAX / 8 - p->bytes ? UINT64_MAX / 8 : p->bytes + r.len;
    if (kind == XH_RUN_STRIDE)
        p->ahead = p->kind == kind && p->ahead ? p->ahead - 1 : 0;
    else if (kind == XH_RUN_UP)
        p->ahead = p->kind == kind ? max64(p->ahead, r.off + r.len) : r.off + r.len;
    else
        p->ahead = p->kind == kind ? min64(p->ahead, r.off) : r.off;
    if (kind == XH_RUN_NONE || p->last.len == 0 || begins(whole, r))
        p->first = r.off;
    p->kind = kind;
    p->last = r;
}

/* Refills when an eighth of the window is used up: requests stay large, and there is always work. Where many share the
 * room, |most| is small, and that is so of three quarters. */
static size_t ahead_up(struct xh_predict_seq *p, uint64_t window, uint64_t most, struct xh_range *out)
{
    uint64_t end = p->last.off + p->last.len;
    uint64_t to = window > p->end - end ? p->end : end + window;
    uint64_t used = most < 8 * REFILL_BYTES ? min64(window / 4 * 3, REFILL_BYTES) : window / 8;
    if (to <= p->ahead || (to < p->end && p->ahead - end > window - used))
        return 0;
    *out = (struct xh_range){p->ahead, to - p->ahead};
    p->ahead = to;
    return 1;
}

/* This one and the next refill when half of the window is used up. */
static size_t ahead_down(struct xh_predict_seq *p, uint64_t window, uint64_t least, struct xh_range *out)
{
    uint64_t off = p->last.off, to = window > off - least ? least : off - window;
    if (to >= p->ahead || (to > least && off - p->ahead > window / 2))
        return 0;
    *out = (struct xh_range){to, p->ahead - to};
    p->ahead = to;
    return 1;
}

static size_t ahead_by_steps(struct xh_predict_seq *p, uint64_t window, uint64_t least, struct xh_range *out)
{
    int up = is_up(p->step);
    uint64_t len = min64(min64(p->last.len, window), up ? p->step : -p->step);
    uint64_t most = min64(window / len, XH_PREDICT_RANGES);
    size_t n = 0;
    if (p->ahead > most / 2)
        return 0;
    for (uint64_t off = p->last.off + p->step * p->ahead; p->ahead < most; p->ahead++) {
        uint64_t next = off + p->step;
        if ((up ? next < off : next > off) || next < least || next >= p->end || len > p->end - next)
            break;
        out[n++] = (struct xh_range){next, len};
        off = next;
    }
    return n;
}

size_t xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole, uint64_t max_window,
                      uint64_t size, struct xh_range out[XH_PREDICT_RANGES])
{
    note(p, r, whole);
    int within = holds(whole, p->first);
    uint64_t least = within ? whole.off : 0;
    uint64_t times = r.len >= SURE_BYTES && p->bytes > r.len ? 16 : 2;
    uint64_t window = min64(max_window, times * p->bytes) >> p->doubt;
    p->end = within ? whole.off + whole.len : size;
    p->window = p->kind == XH_RUN_NONE ? 0 : window;
    if (p->kind == XH_RUN_NONE || window == 0 || window < min64(max_window, r.len))
        return 0;
    if (p->kind == XH_RUN_STRIDE)
        return ahead_by_steps(p, window, least, out);
    return p->kind == XH_RUN_UP ? ahead_up(p, window, max_window, out) : ahead_down(p, window, least, out);
}

/* At least this much of a piece was read: it was worth fetching. */
static int dense(const struct xh_predict_wide *p)
{
    return p->used >= p->last.len / WIDE_DENSE;
}

struct xh_range xh_predict_widen(struct xh_predict_wide *p, struct xh_range miss, uint64_t size)
{
    uint64_t last_end = p->last.off + p->last.len;
    uint64_t reach = WIDE_NEAR * max64(p->width, WIDE_LEAST_BYTES);
    int near = p->width != 0 && miss.off <= last_end + reach && p->last.off <= miss.off + reach;
    if (!near)
        p->width = WIDE_FIRST_BYTES;
    else
        p->width = dense(p) ? min64(2 * p->width, WIDE_MOST_BYTES) : max64(p->width / 2, WIDE_LEAST_BYTES);
    struct xh_range w = miss;
    if (w.len < p->width) {
        /* Metadata is mostly walked upwards; a little below comes along for headers before it. */
        uint64_t below = min64(miss.off, (p->width - miss.len) / 8);
        w.off = miss.off - below;
        w.len = p->width;
    }
    w.len = min64(w.len, size - w.off);
    p->last = w;
    p->next.len = 0;
    p->used = 0;
    return w;
}

struct xh_range xh_predict_walk(struct xh_predict_wide *p, struct xh_range r, uint64_t size)
{
    struct xh_range none = {0, 0};
    if (holds(p->next, r.off)) { /* the walk has entered the piece that was fetched for it */
        p->last = p->next;
        p->next.len = 0;
        p->used = 0;
    }
    if (!holds(p->last, r.off))
        return none;
    p->used += r.len;
    uint64_t end = p->last.off + p->last.len;
    if (p->next.len || p->width < WIDE_WALK_BYTES || !dense(p) || end >= size)
        return none;
    p->width = min64(2 * p->width, WIDE_MOST_BYTES);
    p->next = (struct xh_range){end, min64(p->width, size - end)};
    return p->next;
}
