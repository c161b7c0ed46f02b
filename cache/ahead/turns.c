/* Turns: see turns.h. */
#include "turns.h"

#include <string.h>

#include "policy.h"

/* A read of a run that was read so few reads ago may be an excursion from that: it shows no end of it. */
#define EXCURSION_READS 4
/* Of two that are read in turns, the second one comes back so many reads after the first at most. */
#define BOTH_BACK_READS 2
/* So many reads ago is lately: all runs that are told apart have had their turn twice by then. */
#define LATELY_READS (2 * XH_RUNS_MOST)
/* Runs are alike where one reads no more than so many times as much at a time as the other. What goes on in two places
 * that are fewer reads apart is one run, of several threads that are not quite in order. */
#define ALIKE_TIMES 16
/* So many reads lie behind all that were read before: of 32 threads, within 37 reads in the mean. Of 64 pieces in any
 * order, as in shuffled blocks, 4.7 do, and 8 or more once in fifteen times. */
#define UPS_LEAST 8
/* A run that ends soon costs as much trust as three reads that were foreseen earn: reads that come in pairs, or at
 * random in a small place, propose nothing before long. Which run has ended is known once eight others were read. */
#define DOUBT_STEP 3
#define DOUBT_MOST 8

/* 1 when the reader has come back to |run| from another one within the last |within| reads. */
static int came_back(const struct xh_turns *s, const struct xh_run_read *run, uint64_t within)
{
    return run->back && s->reads - run->back < within;
}

/* Sets |*out| to the one of |run| of which |r| is the third of equal steps, whatever was read between them. */
static void find_step(const struct xh_run_read *run, struct xh_range r, struct xh_run_read *out)
{
    for (size_t i = 0; i < XH_RUNS_MOST; i++)
        for (size_t k = i + 1; k < XH_RUNS_MOST; k++) {
            struct xh_range l = run[i].seq.last, before = run[k].seq.last;
            if (l.len != r.len || before.len != r.len || l.off == before.off || r.off - l.off != l.off - before.off)
                continue;
            *out = run[i];
            out->back = 0;
            out->seq.step = r.off - l.off;
            out->seq.same = 1;
            return;
        }
}

/* Returns which run a read of |r| goes on with, one that it meets exactly before others; XH_RUNS_MOST: none. */
static size_t find(const struct xh_run_read *run, struct xh_range r, enum xh_run_kind *kind)
{
    for (int exactly = 1; exactly >= 0; exactly--)
        for (size_t i = 0; i < XH_RUNS_MOST; i++) {
            const struct xh_predict_seq *p = &run[i].seq;
            if ((i > 0 && p->last.len == 0) || (exactly && !xh_predict_is_met(p, r)))
                continue;
            if ((*kind = xh_predict_goes_on(p, r)) != XH_RUN_NONE)
                return i;
        }
    return XH_RUNS_MOST;
}

/* 1 when a read of |r|, which goes on with the |i|th run as |kind| says, comes back to it from another one like it. */
static int comes_back(const struct xh_run_read *run, size_t i, struct xh_range r, enum xh_run_kind kind)
{
    for (size_t k = 0; k < i; k++) {
        const struct xh_predict_seq *p = &run[k].seq;
        uint64_t apart = p->last.off > r.off ? p->last.off - r.off : r.off - p->last.off;
        int one = kind == XH_RUN_UP && p->kind != XH_RUN_STRIDE && apart / ALIKE_TIMES < r.len;
        if (!one && p->last.len / ALIKE_TIMES <= r.len && r.len / ALIKE_TIMES <= p->last.len)
            return 1;
    }
    return 0;
}

/* 1 when the last reads, of about |len| bytes each, are about a run: of threads that take the next piece each, or with
 * pieces left out. There are as many as might be threads, none twice: where fewer will do, rows of a small dataset that
 * are read in any order are taken for one (4 MB, each row three times, came as 26 to 39 MB). */
static int is_about_a_run(const struct xh_turns *s, uint64_t len)
{
    const struct xh_cover *c = &s->cover;
    uint64_t piece = c->reads ? c->bytes / c->reads : 0;
    return c->reads >= XH_HOLES_MOST && c->ups >= UPS_LEAST && piece / 2 <= len && len / 2 <= piece &&
           xh_cover_is_upwards(c, 1);
}

/* A read goes on with a run as |kind| says, or with none. Of steps that shows at once that they have ended. */
static void note_trust(struct xh_turns *s, enum xh_run_kind kind)
{
    const struct xh_predict_seq *last = &s->run[0].seq, *gone = &s->run[XH_RUNS_MOST - 1].seq;
    int steps = last->kind == XH_RUN_STRIDE && xh_predict_is_young(last);
    int soon = gone->kind != XH_RUN_NONE && gone->bytes > gone->last.len && xh_predict_is_young(gone);
    if (kind != XH_RUN_NONE)
        s->doubt -= s->doubt > 0;
    else if (steps || soon)
        s->doubt = s->doubt + DOUBT_STEP < DOUBT_MOST ? s->doubt + DOUBT_STEP : DOUBT_MOST;
}

/* The run that a read of |r| goes on with, first in its order from now on; or a new one, in the place of that which was
 * not read for longest. What a step leaves may be the beginning of another run, as datasets that are read in turns may
 * lie in equal distances. So it stays, as one that has not gone on yet. */
static struct xh_run_read *run_of(struct xh_turns *s, struct xh_range r)
{
    struct xh_run_read *run = s->run, was;
    enum xh_run_kind kind = XH_RUN_NONE;
    size_t i = find(run, r, &kind);
    s->reads++;
    xh_cover_note(&s->cover, r, r.len, 1);
    if (run->seq.last.len == 0 || (i == 0 && kind == XH_RUN_UP)) {
        note_trust(s, kind);
        run->at = s->reads;
        return run;
    }
    was = run[i < XH_RUNS_MOST ? i : 0];
    if (kind == XH_RUN_NONE) {
        was.back = 0;
        if (is_about_a_run(s, r.len))
            xh_predict_join(&was.seq, &s->cover, r);
        else
            find_step(run, r, &was);
    } else if (comes_back(run, i, r, kind)) {
        was.back = s->reads;
    }
    note_trust(s, kind);
    memmove(&run[1], &run[0], (kind == XH_RUN_UP ? i : XH_RUNS_MOST - 1) * sizeof *run);
    if (kind == XH_RUN_STRIDE && i + 1 < XH_RUNS_MOST) {
        run[i + 1].seq.kind = XH_RUN_NONE;
        run[i + 1].back = 0;
    }
    was.at = s->reads;
    run[0] = was;
    return run;
}

int xh_turns_jumped(const struct xh_turns *s, struct xh_range whole)
{
    const struct xh_predict_seq *p = &s->run[0].seq, *left = &s->run[1].seq;
    return p->kind == XH_RUN_UP && p->first == p->last.off && p->past.shortest > p->last.len && left->last.len &&
           left->last.off >= whole.off && left->last.off - whole.off < whole.len;
}

unsigned xh_turns_is_excursion(const struct xh_turns *s)
{
    for (size_t i = 1; i < XH_RUNS_MOST; i++) {
        const struct xh_predict_seq *p = &s->run[i].seq;
        if (p->kind == XH_RUN_UP && s->reads - s->run[i].at < EXCURSION_READS && p->bytes > s->run[0].seq.bytes &&
            p->last.off + p->last.len < p->end)
            return 1;
    }
    return 0;
}

void xh_turns_forget_ahead(struct xh_turns *s)
{
    for (size_t i = 0; i < XH_RUNS_MOST; i++)
        if (s->run[i].seq.kind == XH_RUN_UP)
            s->run[i].seq.ahead = s->run[i].seq.last.off + s->run[i].seq.last.len;
}

/* How many runs are read in turns, as far as can be seen: of two, one comes back first. A stream is of one run: where
 * two have come back it ends, and no other begins: |*leaves|. */
static unsigned in_turns(struct xh_turns *s, int *leaves)
{
    unsigned n = 0, were = s->n;
    int lately = 0;
    for (size_t i = 0; i < XH_RUNS_MOST; i++) {
        n += (unsigned)came_back(s, &s->run[i], LATELY_READS);
        lately |= came_back(s, &s->run[i], BOTH_BACK_READS);
    }
    s->n = n > 1 || lately ? n : 0;
    *leaves = were <= 1 && n > 1;
    if (*leaves)
        xh_turns_forget_ahead(s);
    return s->n == 1 ? 2 : s->n ? n : 1;
}

/* Returns where a run at |at| is to end, |end| or sooner: where another one began, if its reader came back to that one
 * lately, as it has been read from there on. */
static uint64_t bound(const struct xh_turns *s, uint64_t at, uint64_t end)
{
    for (size_t i = 1; i < XH_RUNS_MOST; i++) {
        const struct xh_predict_seq *p = &s->run[i].seq;
        if (came_back(s, &s->run[i], LATELY_READS) && p->kind == XH_RUN_UP && p->first > at && p->first < end)
            end = p->first;
    }
    return end;
}

/* What the runs besides the first had read, before one of |len| bytes. One that came to the end of what there was shows
 * no length; steps have none. A single read, however long, counts as one. Where one was read by far longer reads, a new
 * one need not be like it: a label between samples goes on nowhere. Of |large| reads one run that ended shows enough,
 * if it had gone on for long: each read that goes over one connection, and not by a stream, costs some round trips. */
static struct xh_predict_past past_of(const struct xh_turns *s, uint64_t len, int large)
{
    struct xh_predict_past past = {.shortest = UINT64_MAX, .doubt = s->doubt, .large = large};
    uint64_t in_turns = 0;
    unsigned ended = 0, needs = 2;
    for (size_t i = 1; i < XH_RUNS_MOST && s->run[i].seq.last.len; i++) {
        const struct xh_predict_seq *p = &s->run[i].seq;
        if (came_back(s, &s->run[i], LATELY_READS)) {
            in_turns = xh_max64(in_turns, p->bytes);
            continue;
        }
        if (p->last.off + p->last.len >= p->end)
            continue;
        past.all += p->bytes > p->last.len ? p->bytes : xh_min64(p->bytes, len);
        if (p->kind == XH_RUN_STRIDE)
            continue;
        ended++;
        needs = large && !xh_predict_is_young(p) ? 1 : needs;
        past.shortest = p->last.len / ALIKE_TIMES <= len ? xh_min64(past.shortest, p->bytes) : 0;
        past.longest = p->bytes > p->last.len ? xh_max64(past.longest, p->bytes) : past.longest;
    }
    past.all += in_turns;
    past.shortest = ended >= needs ? past.shortest : 0;
    return past;
}

void xh_turns_saw(struct xh_turns *s, const struct xh_turns_read *k, struct xh_turns_due *out)
{
    struct xh_range r = k->r, whole = k->whole;
    struct xh_predict_seq *p = &run_of(s, r)->seq;
    uint64_t window = k->window / in_turns(s, &out->leaves);
    if (k->joint)
        window = xh_policy_joint_window(window, p->bytes, k->shared ? r.len : 0);
    p->takes_turns = k->takes_turns;
    p->past = past_of(s, r.len, k->large);
    uint64_t end = bound(s, r.off + r.len - 1, k->size);
    whole.len = whole.off < end ? xh_min64(whole.len, end - whole.off) : whole.len;
    out->n = xh_predict_seq(p, r, whole, window, end, out->want);
    out->leaves |= out->n && p->kind == XH_RUN_STRIDE && xh_policy_leaves(p->step, r.len, XH_PREDICT_RANGES * r.len);
}
