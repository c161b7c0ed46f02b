/* Sequences: see sequence.h. A run goes to the end of its dataset where that is known. */
#include "sequence.h"

#include <string.h>

#include "object.h"
#include "hints.h"
#include "layouts.h"
#include "schedule.h"
#include "siblings.h"

void xh_sequence_init(struct xh_sequence *s)
{
    *s = (struct xh_sequence){0};
    pthread_mutex_init(&s->lock, NULL);
}

/* ---- several runs in turns. Lock held. */

/* A read of a run that was read so few reads ago may be an excursion from that: it shows no end of it. */
#define EXCURSION_READS 4
/* Of two that are read in turns, the second one comes back so many reads after the first at most. */
#define BOTH_BACK_READS 2
/* So many reads ago is lately: all runs that are told apart have had their turn twice by then. */
#define LATELY_READS (2 * XH_RUNS_MOST)
/* Runs are alike where one reads no more than so many times as much at a time as the other. What goes on in two places
 * that are fewer reads apart is one run, of several threads that are not quite in order. */
#define ALIKE_TIMES 16

/* The run whose trust a new one has: the last that was not proved, so that none is trusted anew for what another one
 * has read meanwhile. */
static const struct xh_run_read *doubted(const struct xh_run_read *run)
{
    for (size_t i = 0; i < XH_RUNS_MOST && run[i].seq.last.len; i++)
        if (xh_predict_is_young(&run[i].seq))
            return &run[i];
    return run;
}

/* Sets |*out| to the one of |run| of which |r| is the third of equal steps, whatever was read between them. */
static void find_step(const struct xh_run_read *run, struct xh_range r, struct xh_run_read *out)
{
    for (size_t i = 0; i < XH_RUNS_MOST; i++)
        for (size_t k = i + 1; k < XH_RUNS_MOST; k++) {
            struct xh_range l = run[i].seq.last, before = run[k].seq.last;
            if (l.len != r.len || before.len != r.len || l.off == before.off || r.off - l.off != l.off - before.off)
                continue;
            unsigned doubt = out->seq.doubt;
            *out = run[i];
            out->back = 0;
            out->seq.step = r.off - l.off;
            out->seq.same = 1;
            out->seq.doubt = doubt;
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

/* The run that a read of |r| goes on with, first in its order from now on; or a new one, in the place of that which was
 * not read for longest. What a step leaves may be the beginning of another run, as datasets that are read in turns may
 * lie in equal distances. So it stays, as one that has not gone on yet. */
static struct xh_run_read *run_of(struct xh_sequence *s, struct xh_range r)
{
    struct xh_run_read *run = s->run, was;
    enum xh_run_kind kind = XH_RUN_NONE;
    size_t i = find(run, r, &kind);
    s->reads++;
    if (run->seq.last.len == 0 || (i == 0 && kind == XH_RUN_UP)) {
        run->at = s->reads;
        return run;
    }
    const struct xh_run_read *young = doubted(run);
    was = i < XH_RUNS_MOST ? run[i] : *young;
    if (kind == XH_RUN_NONE) {
        was.back = 0;
        find_step(run, r, &was);
    } else if (comes_back(run, i, r, kind)) {
        was.back = s->reads;
    }
    if (xh_predict_is_young(&was.seq) && young->seq.doubt > was.seq.doubt)
        was.seq.doubt = young->seq.doubt;
    memmove(&run[1], &run[0], (kind == XH_RUN_UP ? i : XH_RUNS_MOST - 1) * sizeof *run);
    if (kind == XH_RUN_STRIDE && i + 1 < XH_RUNS_MOST) {
        run[i + 1].seq.kind = XH_RUN_NONE;
        run[i + 1].back = 0;
    }
    was.at = s->reads;
    run[0] = was;
    return run;
}

/* 1 when the last read may be an excursion from a run that has read more, and is not through: that one's streams go
 * on. */
static unsigned is_excursion(const struct xh_sequence *s)
{
    for (size_t i = 1; i < XH_RUNS_MOST; i++) {
        const struct xh_predict_seq *p = &s->run[i].seq;
        if (p->kind == XH_RUN_UP && s->reads - s->run[i].at < EXCURSION_READS && p->bytes > s->run[0].seq.bytes &&
            p->last.off + p->last.len < p->end)
            return 1;
    }
    return 0;
}

/* What was proposed of runs is so no longer. */
static void forget_ahead(struct xh_sequence *s)
{
    for (size_t i = 0; i < XH_RUNS_MOST; i++)
        if (s->run[i].seq.kind == XH_RUN_UP)
            s->run[i].seq.ahead = s->run[i].seq.last.off + s->run[i].seq.last.len;
}

/* 1 when the reader has come back to |run| from another one within the last |within| reads. */
static int came_back(const struct xh_sequence *s, const struct xh_run_read *run, uint64_t within)
{
    return run->back && s->reads - run->back < within;
}

/* How many runs are read in turns, as far as can be seen: of two, one comes back first. A stream is of one run: where
 * two have come back it ends, and no other begins. */
static unsigned in_turns(struct xh_file *f)
{
    struct xh_sequence *s = f->sequence;
    unsigned n = 0, were = s->turns;
    int lately = 0;
    for (size_t i = 0; i < XH_RUNS_MOST; i++) {
        n += (unsigned)came_back(s, &s->run[i], LATELY_READS);
        lately |= came_back(s, &s->run[i], BOTH_BACK_READS);
    }
    s->turns = n > 1 || lately ? n : 0;
    if (were <= 1 && n > 1) {
        xh_schedule_leave(f);
        forget_ahead(s);
    }
    return s->turns == 1 ? 2 : s->turns ? n : 1;
}

/* Returns where a run at |at| is to end, |end| or sooner: where another one began, if its reader came back to that one
 * lately, as it has been read from there on. */
static uint64_t bound(const struct xh_sequence *s, uint64_t at, uint64_t end)
{
    for (size_t i = 1; i < XH_RUNS_MOST; i++) {
        const struct xh_predict_seq *p = &s->run[i].seq;
        if (came_back(s, &s->run[i], LATELY_READS) && p->kind == XH_RUN_UP && p->first > at && p->first < end)
            end = p->first;
    }
    return end;
}

/* A run upwards: fetches what lies before the reader, or lets it stream. Lock held. */
static void ahead_up(struct xh_file *f, const struct xh_range *want)
{
    struct xh_predict_seq *p = &f->sequence->run[0].seq;
    uint64_t end = p->last.off + p->last.len;
    unsigned leaves = is_excursion(f->sequence), beside = f->sequence->turns ? f->sequence->turns : leaves;
    if (want)
        p->ahead = xh_schedule_run(f, &(struct xh_proposal){.r = want, .n = 1, .window = p->window,
                                                            .run_end = beside > 1 ? 0 : p->end,
                                                            .beside = beside,
                                                            .turns = xh_siblings_width(f)});
    if (!leaves && xh_schedule_reach(f, end, p->window))
        forget_ahead(f->sequence);
}

void xh_sequence_again(struct xh_file *f)
{
    struct xh_predict_seq *p = &f->sequence->run[0].seq;
    if (pthread_mutex_trylock(&f->sequence->lock))
        return;
    uint64_t end = p->last.off + p->last.len;
    if (p->kind == XH_RUN_UP && p->window && end < p->end) {
        struct xh_range want = {end, p->end - end < p->window ? p->end - end : p->window};
        xh_schedule_reach(f, end, p->window); /* told at once that the streams end */
        forget_ahead(f->sequence);
        ahead_up(f, &want);
    }
    pthread_mutex_unlock(&f->sequence->lock);
}

int xh_sequence_lead(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range want[XH_PREDICT_RANGES], r = xh_extents_in_a_row(ext, n);
    struct xh_origin_info info;
    int led = 0;
    if (r.len == 0 || !f->opt.readahead)
        return 0;
    int large = r.len >= XH_STREAM_LEAST_BYTES / 2;
    if (!large && !xh_siblings_unread(f))
        return 0;
    struct xh_range whole = xh_layouts_dataset(f, r);
    unsigned turns = xh_siblings_opened_for(f);
    if (!large && turns == 1)
        return 0;
    xh_replicas_get_info(f->origin, &info);
    struct xh_leading lead = {.len = turns * r.len, .files = turns, .begins = r.off == whole.off,
                              .dataset = whole.len, .joint = f->opened_jointly, .young = info.young,
                              .hinted = xh_hints_any(f->hints)};
    if (!xh_policy_leads(&lead) || pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    struct xh_predict_seq seq = f->sequence->run[0].seq;
    uint64_t most = xh_guess_window(f), least = turns > 1 && lead.begins ? XH_STREAM_LEAST_BYTES / turns : 0;
    if (xh_predict_seq(&seq, r, whole, most, f->size, want) && seq.kind == XH_RUN_UP) {
        seq.window = seq.window < least && least <= most ? least : seq.window;
        seq.ahead = xh_schedule_run(f, &(struct xh_proposal){.r = &r, .n = 1, .window = seq.window, .run_end = seq.end,
                                                             .more = xh_followed_by(f), .leads = 1, .turns = turns});
        led = seq.ahead >= r.off + r.len;
    }
    if (led) {
        f->sequence->run[0].seq = seq;
        xh_schedule_reach(f, r.off + r.len, seq.window);
    }
    pthread_mutex_unlock(&f->sequence->lock);
    return led;
}

void xh_sequence_begin(struct xh_file *f, const struct xh_row *row, uint64_t after, uint64_t len)
{
    struct xh_predict_seq *p = &f->sequence->run[0].seq;
    uint64_t end = row->at.off + len;
    if (pthread_mutex_trylock(&f->sequence->lock))
        return;
    if (p->kind == XH_RUN_NONE)
        xh_predict_expect(p, row->at.off, row->bytes);
    struct xh_range want = {p->ahead, end - p->ahead};
    if (end > p->ahead) {
        xh_schedule_trace("follows", &want, 1);
        p->ahead = xh_schedule_run(f, &(struct xh_proposal){.r = &want, .n = 1, .window = row->window, .after = after,
                                                            .run_end = row->at.off + row->at.len, .turns = row->turns});
    }
    if (xh_schedule_reach(f, row->at.off, len))
        p->ahead = row->at.off;
    pthread_mutex_unlock(&f->sequence->lock);
}

int xh_sequence_look(struct xh_file *f, struct xh_predict_seq *out)
{
    if (pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    *out = f->sequence->run[0].seq;
    pthread_mutex_unlock(&f->sequence->lock);
    return 1;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_range want[XH_PREDICT_RANGES];
    uint64_t lo = UINT64_MAX, hi = 0, bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct xh_extent *e = &s->ext[i];
        if (e->len == 0)
            continue;
        lo = e->off < lo ? e->off : lo;
        hi = e->off + e->len > hi ? e->off + e->len : hi;
        bytes += e->len;
    }
    if (bytes == 0 || hi - lo > 2 * bytes)
        return 0; /* scattered: not a sequence */
    struct xh_range r = {lo, hi - lo}, whole = xh_layouts_dataset(f, r);
    if (pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    struct xh_predict_seq *p = &run_of(f->sequence, r)->seq;
    uint64_t window = xh_guess_window(f) / in_turns(f);
    if (f->opened_jointly)
        window = xh_policy_joint_window(window, p->bytes, whole.len && xh_file_shared(f) ? r.len : 0);
    p->takes_turns = xh_siblings_width(f) > 1;
    uint64_t end = bound(f->sequence, r.off + r.len - 1, f->size);
    whole.len = whole.off < end ? xh_min64(whole.len, end - whole.off) : whole.len;
    size_t k = xh_predict_seq(p, r, whole, window, end, want);
    xh_schedule_trace("ahead", want, k);
    if (k && p->kind == XH_RUN_STRIDE && xh_policy_leaves(p->step, r.len, XH_PREDICT_RANGES * r.len))
        xh_schedule_leave(f);
    if (p->kind == XH_RUN_UP)
        ahead_up(f, k ? want : NULL);
    else if (k)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = want, .n = k});
    pthread_mutex_unlock(&f->sequence->lock);
    return 0;
}

const struct xh_observer xh_sequence_observer = {"sequence", {[XH_KIND_RAW] = XH_ASKED}, saw};
