/* Prediction: see predict.h. */
#include "predict.h"

/* A read this close to the last one's end, and no farther than either is long, continues it:
 * chunked data has headers and index nodes in between. */
#define SLACK_BYTES (256u << 10)
/* Whoever begins with a read this large most likely goes on: a wrong guess costs twice as much again,
 * once a file. Runs that have read so much in two reads or more are let further ahead, as a long link takes more than
 * they read. */
#define SURE_BYTES (1u << 20)
/* A run that begins in the midst of a dataset may be one slice, and then the file is closed: so little is fetched
 * behind its first read, and no stream begins. An image of a large dataset at 10, 50, 160 ms (`sim --workload S1`):
 * 0.9, 3.2, 0.5 MB came in vain; 15.2 MB at 10 ms with a stream. */
#define SINGLE_BYTES (3u << 20)
/* A run of fewer reads is young. */
#define SOON_READS 8
/* A run looks so many times as far ahead as it has read; the second where that is SURE_BYTES in two reads or more, and
 * not less than what others had read that ended. */
#define UNSURE_TIMES 2
#define SURE_TIMES 16
/* What is passed by counts, until it is read, so much of its bytes against what was read: a run that leaves more than
 * four of five ends. 1,500 pieces of 64 KiB at 50 ms, of which seven of ten are left out by chance: 2.5 s; 21, 50 where
 * a half or all of it counts, 2.6 with an eighth. Eight of ten: 73 s, and 24, 394 MB instead of 157, with an eighth. */
#define PASSED_PART 4

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
    return r.off == whole.off && r.len >= SURE_BYTES && r.len < whole.len / 2;
}

/* A request of so much is worth its round trip. */
#define REFILL_BYTES (4u << 20)

/* How often in a row the distance was that of |r|. */
static unsigned same_with(const struct xh_predict_seq *p, struct xh_range r)
{
    if (!p->last.len || !similar(p->last.len, r.len))
        return 0;
    return p->same && r.off - p->last.off == p->step ? p->same + (p->same < SOON_READS) : 1;
}

int xh_predict_is_young(const struct xh_predict_seq *p)
{
    return p->bytes / SOON_READS < p->last.len;
}

/* 1 when |r| is read before pieces that other threads of the same reader have taken: |r| was asked for ahead, and no
 * more is passed by at a time than was read. */
static int is_early(const struct xh_predict_seq *p, struct xh_range r)
{
    uint64_t end = p->last.off + p->last.len;
    return p->kind == XH_RUN_UP && p->bytes > p->last.len && r.off > end && r.off + r.len <= p->ahead &&
           r.off - end <= p->bytes && (r.off - end) / XH_HOLES_MOST < r.len && similar(p->last.len, r.len);
}

/* 1 when |r| keeps the distance of the reads before it: of a run that may go on as it does, of so many as show that it
 * does not. */
static int is_stride(const struct xh_predict_seq *p, struct xh_range r)
{
    unsigned least = is_early(p, r) && !xh_predict_is_young(p) ? SOON_READS : 2;
    return same_with(p, r) >= least && p->amiss <= 1;
}

/* How |r|, which lies in no hole, follows p->last. */
static enum xh_run_kind follows(const struct xh_predict_seq *p, struct xh_range r)
{
    const struct xh_range l = p->last;
    if (p->kind != XH_RUN_NONE && is_up(r.off - l.off) != is_up(p->step))
        return XH_RUN_NONE;
    uint64_t end = r.off + r.len, last_end = l.off + l.len;
    uint64_t slack = xh_min64(SLACK_BYTES, xh_min64(l.len, r.len));
    int up = r.off > l.off && end > last_end, down = r.off < l.off && end < last_end;
    uint64_t gap = up && r.off > last_end ? r.off - last_end : down && l.off > end ? l.off - end : 0;
    if (l.len == 0)
        return r.len >= SURE_BYTES || (p->kind == XH_RUN_UP && r.off == p->first) ? XH_RUN_UP : XH_RUN_NONE;
    if (is_stride(p, r) && (down || (gap > 0 && r.off - l.off >= r.len)))
        return XH_RUN_STRIDE;
    return (up && gap <= slack) || is_early(p, r) ? XH_RUN_UP : XH_RUN_NONE;
}

static void earn(struct xh_predict_seq *p, uint64_t len)
{
    uint64_t most = UINT64_MAX / 8;
    p->bytes = p->bytes > most || len > most - p->bytes ? most : p->bytes + len;
}

/* Takes note of |r|: its distance, the run that it continues or begins, what that is worth. */
static void note(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole)
{
    unsigned late = xh_holes_find(&p->holes, r);
    if (late < XH_HOLES_MOST) {
        xh_holes_fill(&p->holes, late, r, r.len / 2); /* the headers of chunks are no holes */
        p->amiss = XH_HOLES_MOST;
        earn(p, r.len + r.len / PASSED_PART);
        return;
    }
    enum xh_run_kind kind = follows(p, r);
    uint64_t end = p->last.off + p->last.len;
    int elsewhere = p->last.len == 0 && r.off < p->first; /* the run that was expected is not this one */
    p->same = same_with(p, r);
    p->step = r.off - p->last.off;
    p->amiss -= p->amiss > 0;
    if (kind == XH_RUN_NONE) {
        p->bytes = 0;
    } else {
        if (kind == XH_RUN_UP && p->last.len && r.off > end && r.off - end >= r.len / 2) {
            p->bytes -= xh_min64(p->bytes, (r.off - end) / PASSED_PART);
            xh_holes_push(&p->holes, (struct xh_range){end, r.off - end});
        }
        if (p->kind == XH_RUN_NONE)
            p->bytes = p->last.len;
    }
    earn(p, r.len);
    if (kind != XH_RUN_UP)
        p->holes.n = p->amiss = 0;
    if (kind == XH_RUN_STRIDE)
        p->ahead = p->kind == kind && p->ahead ? p->ahead - 1 : 0;
    else
        p->ahead = p->kind == kind && !elsewhere ? xh_max64(p->ahead, r.off + r.len) : r.off + r.len;
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
    int is_over = end >= p->end; /* also where |last| is of another dataset than what was read late */
    uint64_t to = is_over || window > p->end - end ? p->end : end + window;
    uint64_t used = most < 8 * REFILL_BYTES ? xh_min64(window / 4 * 3, REFILL_BYTES) : window / 8;
    if (p->takes_turns && window >= most && most < 2 * p->last.len) {
        /* Less than a read ahead is worth nothing: its reader waits a round trip all the same. So a whole one is asked
         * for; where the room is too small for one of each file, some files have theirs, and the others wait. */
        to = xh_min64(end + p->last.len, p->end);
        used = 0;
        window = p->last.len;
    }
    if (to <= p->ahead || (to < p->end && p->ahead - end > window - used))
        return 0;
    *out = (struct xh_range){p->ahead, to - p->ahead};
    p->ahead = to;
    return 1;
}

/* Refills when half of the window is used up. */
static size_t ahead_by_steps(struct xh_predict_seq *p, uint64_t window, uint64_t least, struct xh_range *out)
{
    int up = is_up(p->step);
    uint64_t len = xh_min64(xh_min64(p->last.len, window), up ? p->step : -p->step);
    uint64_t most = xh_min64(window / len, XH_PREDICT_RANGES);
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

enum xh_run_kind xh_predict_goes_on(const struct xh_predict_seq *p, struct xh_range r)
{
    return xh_holes_find(&p->holes, r) < XH_HOLES_MOST ? XH_RUN_UP : follows(p, r);
}

int xh_predict_is_met(const struct xh_predict_seq *p, struct xh_range r)
{
    return r.off == p->last.off + (p->kind == XH_RUN_STRIDE ? p->step : p->last.len) ||
           xh_holes_find(&p->holes, r) < XH_HOLES_MOST;
}

void xh_predict_join(struct xh_predict_seq *p, const struct xh_cover *c, struct xh_range r)
{
    *p = (struct xh_predict_seq){.kind = XH_RUN_UP, .last = {c->to - r.len, r.len}, .step = r.len, .first = c->from,
                                 .bytes = c->bytes - r.len, .ahead = c->to, .holes = c->holes};
    xh_holes_push(&p->holes, r);
}

void xh_predict_expect(struct xh_predict_seq *p, uint64_t off, uint64_t bytes)
{
    *p = (struct xh_predict_seq){.kind = XH_RUN_UP, .first = off, .ahead = off, .bytes = bytes};
}

/* How far ahead a run may look, |sure|: it has read much in several reads. Where others ended, it goes on as far as the
 * longest of them; behind that what it has read there counts alone, until it has read half as much as all of them. */
static uint64_t window_of(const struct xh_predict_seq *p, int sure)
{
    uint64_t bytes = p->bytes, behind = bytes > p->past.longest ? bytes - p->past.longest : 0;
    uint64_t grows = (sure ? SURE_TIMES : UNSURE_TIMES) * bytes;
    int is_long = bytes >= p->past.all / 2;
    if (p->kind == XH_RUN_STRIDE)
        return (is_long ? grows : UNSURE_TIMES * bytes) >> p->past.doubt;
    if (behind)
        return (is_long ? grows : UNSURE_TIMES * behind) >> p->past.doubt;
    uint64_t sure_of = p->past.shortest > bytes ? p->past.shortest - bytes : 0;
    return xh_max64(sure_of, xh_min64(p->past.longest - bytes, grows >> p->past.doubt));
}

size_t xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole, uint64_t max_window,
                      uint64_t size, struct xh_range out[XH_PREDICT_RANGES])
{
    note(p, r, whole);
    if (p->kind == XH_RUN_NONE && p->past.shortest > r.len) { /* it goes on most likely, as the others did */
        p->kind = XH_RUN_UP;
        p->step = r.len;
        p->ahead = r.off + r.len; /* not where a read farther up ended, with which none went on */
    }
    int within = holds(whole, p->first);
    uint64_t least = within ? whole.off : 0;
    int sure = p->bytes >= SURE_BYTES && p->bytes > r.len;
    int jumps = p->past.large && p->past.shortest > r.len; /* it begins a long run most likely: see turns.c */
    int single = p->bytes <= r.len && whole.len && r.off > whole.off && !jumps;
    uint64_t most = single ? xh_min64(max_window, SINGLE_BYTES) : max_window;
    uint64_t window = xh_min64(most, window_of(p, sure));
    p->end = within ? whole.off + whole.len : size;
    p->window = p->kind == XH_RUN_NONE ? 0 : window;
    if (p->kind == XH_RUN_NONE || window == 0 || window < xh_min64(most, r.len))
        return 0;
    return p->kind == XH_RUN_UP ? ahead_up(p, window, max_window, out) : ahead_by_steps(p, window, least, out);
}
