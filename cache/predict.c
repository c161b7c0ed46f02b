/* Prediction: see predict.h. */
#include "predict.h"

/* A read this close after the last one's end continues it: chunked data has headers and
 * index nodes in between. */
#define SEQ_SLACK_BYTES (256u << 10)
/* Whoever begins with a read this large most likely goes on: a wrong guess costs as much again,
 * once a file. */
#define SEQ_SURE_BYTES (1u << 20)
/* First window of a run, unless the reads themselves are larger. */
#define SEQ_FIRST_BYTES (512u << 10)
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

struct xh_range xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, uint64_t max_window,
                               uint64_t size)
{
    struct xh_range none = {0, 0};
    uint64_t end = r.off + r.len;
    int continues = p->next != 0 ? r.off >= p->next && r.off - p->next <= SEQ_SLACK_BYTES : r.len >= SEQ_SURE_BYTES;
    p->next = end;
    if (!continues || max_window == 0) {
        p->window = 0;
        p->ahead = end;
        return none;
    }
    uint64_t twice = r.len > max_window / 2 ? max_window : 2 * r.len;
    if (p->window == 0)
        p->window = max64(SEQ_FIRST_BYTES, twice);
    else
        p->window = p->window > max_window / 4 ? max_window : max64(4 * p->window, twice);
    p->window = min64(p->window, max_window);
    if (p->ahead < end)
        p->ahead = end;
    uint64_t to = end > size || p->window > size - end ? size : end + p->window;
    /* Refill when an eighth of the window is used up: requests stay large, and there is always work. */
    if (to <= p->ahead || (to < size && p->ahead - end > p->window - p->window / 8))
        return none;
    struct xh_range want = {p->ahead, to - p->ahead};
    p->ahead = to;
    return want;
}

static int holds(struct xh_range r, uint64_t off)
{
    return off >= r.off && off - r.off < r.len;
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
