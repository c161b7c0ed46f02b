/* Sequences: see sequence.h. A run goes to the end of its dataset where that is known. */
#include "sequence.h"

#include "base/thread.h"
#include "object.h"
#include "hints.h"
#include "layouts.h"
#include "policy.h"
#include "schedule.h"
#include "siblings.h"

void xh_sequence_init(struct xh_sequence *s)
{
    *s = (struct xh_sequence){0};
    pthread_mutex_init(&s->lock, NULL);
}

/* How far a stream may be ahead of the run |p|: no farther than it has come, as what was ahead and was read pays for
 * what is. */
static uint64_t reach(const struct xh_predict_seq *p)
{
    return xh_min64(p->window, xh_max64(p->bytes + p->last.len, XH_STREAM_LEAST_BYTES));
}

/* A run upwards: fetches what lies before the reader, or lets it stream. Lock held. */
static void ahead_up(struct xh_file *f, const struct xh_range *want)
{
    struct xh_turns *s = &f->sequence->turns;
    struct xh_predict_seq *p = &s->run[0].seq;
    uint64_t end = p->last.off + p->last.len;
    unsigned leaves = xh_turns_is_excursion(s), beside = s->n ? s->n : leaves;
    if (want)
        p->ahead = xh_schedule_run(f, &(struct xh_proposal){.r = want, .n = 1, .window = p->window,
                                                            .run_end = beside > 1 ? 0 : p->end,
                                                            .beside = beside,
                                                            .turns = xh_siblings_width(f)});
    if (!leaves && f->sequence->began != p->first) {
        f->sequence->began = p->first;
        xh_schedule_begins(f, p->first);
    }
    if (!leaves && xh_schedule_reach(f, end, reach(p)))
        xh_turns_forget_ahead(s);
}

void xh_sequence_again(struct xh_file *f)
{
    struct xh_predict_seq *p = &f->sequence->turns.run[0].seq;
    if (pthread_mutex_trylock(&f->sequence->lock))
        return;
    uint64_t end = p->last.off + p->last.len;
    if (p->kind == XH_RUN_UP && p->window && end < p->end) {
        struct xh_range want = {end, p->end - end < p->window ? p->end - end : p->window};
        xh_schedule_reach(f, end, reach(p)); /* told at once that the streams end */
        xh_turns_forget_ahead(&f->sequence->turns);
        ahead_up(f, &want);
    }
    pthread_mutex_unlock(&f->sequence->lock);
}

/* What is known of a read of |r|, which is of |whole|. */
static struct xh_turns_read read_of(struct xh_file *f, struct xh_range r, struct xh_range whole)
{
    return (struct xh_turns_read){.r = r, .whole = whole, .size = f->size, .window = xh_guess_window(f),
                                  .joint = f->opened_jointly,
                                  .shared = f->opened_jointly && whole.len && xh_file_shared(f),
                                  .takes_turns = xh_siblings_width(f) > 1,
                                  .large = r.len >= XH_STREAM_LEAST_BYTES / 2};
}

/* The calling thread makes a long read. The lock is held. */
static void note_thread(struct xh_sequence *s)
{
    uint64_t now = xh_thread_number();
    s->thread = s->thread ? s->thread : now;
    s->threads |= s->thread != now;
}

static void forget_strays(struct xh_sequence *s)
{
    s->strays = 0;
    s->astray = 0;
}

/* |s| has seen a read of |r|. Where that lies among the last ones, or near them, and several threads read, these may
 * take the next piece each: streams go on. So they do where the server is not |far|, as a read waits little there, and
 * behind a run that went on for long, to which its reader may come back. */
static void note_stray(struct xh_file *f, struct xh_range r, const struct xh_turns *s, int far)
{
    const struct xh_predict_seq *p = &s->run[0].seq;
    int is = p->kind == XH_RUN_NONE || p->first == r.off;
    int lone = far && !f->sequence->threads && xh_predict_is_young(&f->sequence->turns.run[0].seq);
    f->sequence->strays = is ? f->sequence->strays + 1 : 0;
    f->sequence->astray = xh_policy_is_astray(f->sequence->strays, lone && p->kind == XH_RUN_NONE);
    if (f->sequence->astray && (s->cover.reads == 1 || lone))
        xh_schedule_begins(f, r.off);
}

int xh_sequence_strays(struct xh_file *f)
{
    if (pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    int astray = f->sequence->astray;
    pthread_mutex_unlock(&f->sequence->lock);
    return astray;
}

int xh_sequence_lead(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range r = xh_extents_in_a_row(ext, n);
    struct xh_origin_info info;
    struct xh_turns_due due;
    int led = 0;
    if (r.len == 0 || !f->opt.readahead)
        return 0;
    int strays = xh_policy_is_worth_all(r.len);
    if (!strays && !xh_siblings_unread(f))
        return 0;
    struct xh_range whole = xh_layouts_dataset(f, r);
    unsigned turns = xh_siblings_opened_for(f);
    if ((!strays && turns == 1) || pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    if (whole.len == 0 || xh_hints_any(f->hints)) { /* these have orders of their own, and saw() is not told of them */
        forget_strays(f->sequence);
        pthread_mutex_unlock(&f->sequence->lock);
        return 0;
    }
    struct xh_turns seen = f->sequence->turns; /* what it becomes where the read is led */
    struct xh_turns_read read = read_of(f, r, whole);
    xh_turns_saw(&seen, &read, &due);
    struct xh_predict_seq *p = &seen.run[0].seq;
    xh_replicas_get_info(f->origin, &info);
    if (strays) {
        note_thread(f->sequence);
        note_stray(f, r, &seen, info.far);
    }
    struct xh_leading lead = {.len = turns * r.len, .files = turns, .begins = r.off == whole.off,
                              .dataset = whole.len, .joint = f->opened_jointly, .young = info.young,
                              .jumped = xh_turns_jumped(&seen, whole), .astray = f->sequence->astray,
                              .hinted = xh_hints_any(f->hints)};
    uint64_t least = turns > 1 && lead.begins ? XH_STREAM_LEAST_BYTES / turns : 0;
    if ((read.large || turns > 1) && xh_policy_leads(&lead) && due.n && !due.leaves && p->kind == XH_RUN_UP) {
        if (lead.jumped && p->end - r.off >= XH_STREAM_LEAST_BYTES)
            xh_schedule_begins(f, f->sequence->began = r.off);
        p->window = p->window < least && least <= read.window ? least : p->window;
        p->ahead = xh_schedule_run(f, &(struct xh_proposal){.r = &r, .n = 1, .window = p->window, .run_end = p->end,
                                                            .more = xh_followed_by(f), .leads = 1, .turns = turns});
        led = p->ahead >= r.off + r.len;
    }
    if (led) {
        uint64_t ahead = p->ahead;
        if (xh_schedule_reach(f, r.off + r.len, reach(p))) { /* of other runs, as theirs were left */
            xh_turns_forget_ahead(&seen);
            p->ahead = ahead;
        }
        f->sequence->turns = seen;
    }
    pthread_mutex_unlock(&f->sequence->lock);
    return led;
}

void xh_sequence_begin(struct xh_file *f, const struct xh_row *row, uint64_t after, uint64_t len)
{
    struct xh_predict_seq *p = &f->sequence->turns.run[0].seq;
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
    *out = f->sequence->turns.run[0].seq;
    pthread_mutex_unlock(&f->sequence->lock);
    return 1;
}

/* 1 when the last read went on with a run that may have a stream, however short its reads are: their reader takes an
 * order, and what he reads elsewhere is beside that. */
static int goes_on_for_long(const struct xh_predict_seq *p)
{
    return p->kind == XH_RUN_UP && p->first != p->last.off && p->bytes >= XH_STREAM_LEAST_BYTES;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_turns_due due;
    struct xh_range r = xh_extents_span(s->ext, s->n);
    if (r.len == 0 || xh_extents_are_scattered(s->ext, s->n))
        return 0; /* scattered: not a sequence */
    struct xh_range whole = xh_layouts_dataset(f, r);
    if (pthread_mutex_trylock(&f->sequence->lock))
        return 0;
    struct xh_turns_read read = read_of(f, r, whole);
    xh_turns_saw(&f->sequence->turns, &read, &due);
    if (goes_on_for_long(&f->sequence->turns.run[0].seq))
        forget_strays(f->sequence);
    xh_schedule_trace("ahead", due.want, due.n);
    if (due.leaves)
        xh_schedule_leave(f);
    if (f->sequence->turns.run[0].seq.kind == XH_RUN_UP)
        ahead_up(f, due.n ? due.want : NULL);
    else if (due.n)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = due.want, .n = due.n});
    pthread_mutex_unlock(&f->sequence->lock);
    return 0;
}

const struct xh_observer xh_sequence_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw};
