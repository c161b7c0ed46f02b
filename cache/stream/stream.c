/* Streams: long loads that stand still while their reader has enough. See stage.h. */
#include "stream.h"

#include <stdlib.h>

#include "base/links.h"
#include "base/now.h"
#include "disk/disk.h"
#include "ending.h"
#include "pages/limits.h"
#include "policy.h"
#include "relief.h"
#include "segment.h"
#include "share.h"
#include "watch/trace.h"

/* What a stream's loads take in turns, together. A large read then waits for all of them at once, and what they bring
 * goes straight to it. */
#define ROUND_BYTES (8u << 20)
/* Ranges of one load, and what one takes of the header. */
#define ROUNDS_MOST 256
#define RANGE_HEADER_BYTES 26
/* A stream is short that has fewer connections than it might, as others have them: the next one may have more. It has so
 * many turns at most, and the fewer, the fewer connections it has, as these bring less. What would be two of them is
 * one. */
#define SHORT_ROUNDS 8
/* A run of which the disk has so much is looked at again when that is read. */
#define HERE_BYTES (64u << 20)
/* How far ahead a stream of a slow link runs, in seconds of what comes. */
#define SOON_S 4

/* A stream notices within so long that others read the file too, also while its own reader waits for it: some 10 ms
 * after these have opened the file they ask for as much as they may. To look costs a system call, 1 us. As often its
 * loads are told how far they may come. */
#define LOOK_NS 5000000u

void xh_stream_go_on(struct xh_prefetch *l)
{
    if (l->stands && !l->over) /* it stands, so the origin has it, even while its thread still submits it */
        xh_replicas_resume(l->f->origin, &l->t);
    l->stands = 0;
}

/* Loads that stand still go on as far as they may, but |busy|, which does not stand. */
static void go_on(struct xh_file *f, const struct xh_prefetch *busy)
{
    struct xh_stage *s = f->stage;
    int room = s->stream[0] && xh_room_left(&s->place, f->opt.readahead_bytes) > 0;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        if (s->stream[i] != busy && s->stream[i]->pos < s->reach && (s->stream[i]->takers || room))
            xh_stream_go_on(s->stream[i]);
}

/* While a reader waits, how far the others may come follows the load that is farthest behind, step by step; |l| has
 * brought something. Were it told to them at his next read alone, the servers would send all of that at once: on a full
 * link the queue then drops what slow connections send, and they stay slow. */
static void follow(struct xh_prefetch *l)
{
    struct xh_stage *s = l->f->stage;
    uint64_t least = s->read_end;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        least = xh_min64(least, s->stream[i]->pos);
    if (s->ahead == 0 || least + s->ahead <= s->reach)
        return;
    s->reach = least + s->ahead;
    go_on(l->f, l);
}

/* Whether a stream's load is to stand still. Takes the lock. Now and then a load that holds up
 * all others is relieved. */
static int full(struct xh_transfer *t)
{
    struct xh_prefetch *l = t->ctx;
    struct xh_stage *s = l->f->stage;
    uint64_t now = xh_now_ns();
    pthread_mutex_lock(&s->lock);
    int looks = !l->cut && now - s->looked_ns > LOOK_NS;
    s->looked_ns = looks ? now : s->looked_ns;
    if (looks)
        follow(l);
    int far = l->pos >= s->reach && l->pos >= l->first;
    int is = l->stands = !l->takers && (far || xh_room_left(&s->place, l->f->opt.readahead_bytes) == 0);
    int over = l->cut && l->pos >= l->cut; /* what comes until it is over is for nobody */
    l->course.stood |= is;
    xh_pace_look(&l->course.pace, now, is);
    if (looks)
        xh_relief_straggler(l->f, s->read_end);
    pthread_mutex_unlock(&s->lock);
    if (looks && xh_shadow_shared(l->f->shadow)) { /* what comes from now on comes for them, too */
        xh_stage_end(l->f);
        xh_stage_share(l->f);
    }
    return is || over;
}

/* How a stream is dealt to its loads: stripe by stripe in turns. The first |warm| of them wait for connections that are
 * there. */
struct dealing {
    size_t nloads, warm;
    size_t rounds; /* of turns, at most: so many ranges fit one request. 1: a stripe is long, as each is a request */
    size_t most;   /* of turns, unless the stream ends by twice as many */
    int in_parts;  /* no stripes: each load has one part */
    int last;      /* those that wait may have the last connection */
    uint64_t bytes; /* of stripes, at most, but for the end of a round */
};

static void next_part(struct xh_file *f, const struct xh_course *course);

/* The part of |r| that load |which| gets, in pieces where it may be cut. Returns how many; 0: none is left for it. */
static size_t deal_part(const struct dealing *d, struct xh_range r, size_t which, struct xh_range *out, uint64_t *len)
{
    uint64_t part = r.len / d->nloads, off;
    part += XH_PAGE_BYTES - part % XH_PAGE_BYTES;
    off = which * part;
    *len = r.len;
    size_t n = 0;
    uint64_t end = off + part < r.len ? off + part : r.len, piece = part / ROUNDS_MOST + 1;
    for (piece = piece > ROUND_BYTES ? piece : ROUND_BYTES; off < end; off += piece)
        out[n++] = (struct xh_range){r.off + off, end - off < piece ? end - off : piece};
    return n;
}

/* The stripes of |r| that load |which| gets. Returns how many were written; |*len| of |r| is dealt in all. */
static size_t deal(const struct dealing *d, struct xh_range r, size_t which, struct xh_range *out, uint64_t *len)
{
    size_t n = 0, turn = 0, ranges = 0;
    uint64_t stripe = d->rounds == 1 ? ROUND_BYTES : ROUND_BYTES / d->nloads, at = 0;
    for (size_t rounds = 0; at < r.len && (turn || at < d->bytes) && rounds < d->most && ranges < d->rounds;) {
        uint64_t mine = r.len - at < stripe ? r.len - at : stripe;
        if (turn == which)
            out[n++] = (struct xh_range){r.off + at, mine};
        at += mine;
        if (++turn < d->nloads)
            continue;
        turn = 0;
        rounds++;
        ranges += d->nloads > 1; /* stripes that touch are one range */
    }
    *len = at;
    return n;
}

/* The loads of a stream of |r|. Returns how many were made. */
static size_t add_stream(struct xh_file *f, const struct dealing *d, struct xh_range r, struct xh_transfer **ts,
                         uint64_t *len)
{
    struct xh_range mine[ROUNDS_MOST];
    size_t made = 0;
    for (; made < d->nloads; made++) {
        size_t n = (d->in_parts ? deal_part : deal)(d, r, made, mine, len);
        struct xh_prefetch *l = n ? xh_prefetch_add(f, mine, n, d->in_parts ? 1 : (unsigned)d->nloads, full) : NULL;
        if (!l)
            break;
        l->then = d->in_parts ? NULL : next_part;
        l->t.patient = made < d->warm;
        l->t.last = l->course.last = l->t.patient && d->last;
        l->in_parts = d->in_parts;
        f->stage->stream[xh_stage_loads(f->stage)] = l;
        ts[made] = &l->t;
    }
    return made;
}

/* What is under way on a fast link. */
static uint64_t fast_link_holds(const struct xh_origin_info *info)
{
    uint64_t bytes = (uint64_t)((double)info->rtt_ns * XH_LINK_FAST_BYTES_PER_NS);
    return bytes > ROUND_BYTES ? bytes : ROUND_BYTES;
}

/* Bytes per second that are known to come; 0: nothing is known. */
static uint64_t known_rate(const struct xh_stage *s, const struct xh_origin_info *info)
{
    return s->rate > info->second_bytes ? s->rate : info->second_bytes;
}

/* How many loads a stream has now, where |busy| of earlier ones are not over, which it |follows| or not; 0: there is no
 * connection for it. |*all|: how many it might have. */
static size_t loads_now(const struct xh_stage *s, const struct xh_origin_info *info, size_t busy, int follows,
                        unsigned turns, size_t *all)
{
    size_t n = info->streaming;
    size_t may = info->streams + s->leaving + (follows ? busy : 0);
    if (turns > 1) { /* equally many each, as all are wanted in each turn: so is the last connection */
        n = info->far ? (n + 1) / turns : 0;
        may++;
    }
    n = n < XH_STREAM_LOADS_MAX ? n : XH_STREAM_LOADS_MAX;
    *all = n;
    if (n > may)
        n = busy == 0 || follows ? may : 0; /* there will be room soon */
    return busy + n > XH_STREAMS_MAX ? 0 : n;
}

/* Of how many turns a load's stripes may be, as each is a range of its request. */
static size_t rounds_of(const struct xh_origin_info *info)
{
    return xh_min64(info->max_ranges, info->max_range_header / RANGE_HEADER_BYTES);
}

/* How a stream from |off| on is dealt, with |busy| loads of earlier ones not over; nloads 0: there is no connection
 * for it now. One that follows another is dealt to its connections, each as it becomes free. */
static struct dealing dealing_of(const struct xh_file *f, const struct xh_origin_info *info, uint64_t off, size_t busy,
                                 unsigned turns)
{
    const struct xh_stage *s = f->stage;
    int follows = busy && off >= s->stream_end && off - s->stream_end < XH_STREAM_LEAST_BYTES;
    size_t all;
    struct dealing d = {.rounds = rounds_of(info), .most = ROUNDS_MOST};
    d.nloads = loads_now(s, info, busy, follows, turns, &all);
    d.bytes = d.nloads > 1 ? XH_STREAM_DEALT_BYTES : UINT64_MAX;
    if (d.nloads < all)
        d.most = SHORT_ROUNDS * d.nloads / all + 1;
    if (follows || info->warm >= d.nloads)
        d.warm = !follows || busy > d.nloads ? d.nloads : busy;
    if (turns > 1 && info->streams == 0) { /* the last connection: it waits for it, as others may have it for now */
        d.warm = d.nloads;
        d.last = 1;
    }
    return d;
}

/* How |len| bytes are dealt that the reader wants after |after| bytes of other files. Parts wait in the queue, in the
 * order in which they are wanted; where there are not as many connections yet as streams use, the last ones open them.
 * With several sites, as long as no stream is to begin, there is none. */
static struct dealing dealing_after(const struct xh_file *f, const struct xh_origin_info *info, uint64_t len,
                                    size_t busy, uint64_t after)
{
    const struct xh_following next = {.len = len, .after = after, .behind = xh_followed_by(f),
                                      .most = info->young ? 0 : xh_limits_most_part(info),
                                      .connections = info->streaming ? info->streaming : 1};
    struct dealing d = {.in_parts = 1, .nloads = xh_policy_parts(&next)};
    d.nloads = d.nloads < XH_STREAM_LOADS_MAX ? d.nloads : XH_STREAM_LOADS_MAX;
    if (busy + d.nloads > XH_STREAMS_MAX || (info->streams == 0 && xh_replicas_are_several(f->origin)))
        d.nloads = 0;
    size_t opens = info->open < info->streaming ? info->streaming - info->open : 0;
    opens = opens < info->streams ? opens : info->streams;
    d.warm = d.nloads > opens ? d.nloads - opens : 0;
    return d;
}

/* The first of |want|, with what follows it behind holes of at most |gap| bytes that no parcel fills: of chunked data,
 * index nodes that the shadow has. len 0: none. |*next|: where the next that is wanted begins, or |end|. */
static struct xh_range first_stretch(const struct xh_stage *s, uint64_t gap, const struct xh_range_list *want,
                                     uint64_t end, uint64_t *next)
{
    struct xh_range r = want->n ? want->at[0] : (struct xh_range){end, 0};
    size_t i = 1;
    for (; i < want->n; i++) {
        uint64_t to = r.off + r.len;
        size_t p = xh_segment_at(s, to);
        if (want->at[i].off - to > gap || (p < s->n && s->at[p]->off < want->at[i].off))
            break;
        r.len = want->at[i].off + want->at[i].len - r.off;
    }
    *next = i < want->n ? want->at[i].off : end;
    return r;
}

int xh_stage_streams_to(struct xh_file *f, uint64_t off)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    int does = s->stream[0] && off >= s->stream_end && off - s->stream_end < XH_STREAM_LEAST_BYTES;
    pthread_mutex_unlock(&s->lock);
    return does;
}

/* 1 when the stream before |off| has not begun everywhere, and ends far before the reader. */
static int is_soon_enough(const struct xh_stage *s, uint64_t off)
{
    int waits = 0;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        waits |= s->stream[i]->pos == s->stream[i]->parcels[0].off;
    return waits && off == s->stream_end && off - s->here > XH_STREAM_LEAST_BYTES && s->here < off;
}

/* What xh_stage_stream returns while a stream is not dealt to its end. 0: there is none, or it is elsewhere. */
static uint64_t seen_to(const struct xh_stage *s, uint64_t off, uint64_t to)
{
    if (!xh_stage_will_deal(s, s->dealt))
        return 0;
    if (off < s->stream_end)
        return off < s->dealt ? off : xh_min64(to, s->stream_end);
    return off - s->stream_end < XH_STREAM_LEAST_BYTES ? XH_STREAM_LATER : 0;
}

uint64_t xh_stage_stream(struct xh_file *f, uint64_t off, uint64_t end, unsigned turns, uint64_t after)
{
    struct xh_stage *s = f->stage;
    struct xh_origin_info info;
    struct xh_transfer *ts[XH_STREAM_LOADS_MAX];
    struct xh_range_list want = {0};
    uint64_t to = end - off < XH_STREAM_MOST_BYTES ? end : off + XH_STREAM_MOST_BYTES, seen = off;
    uint64_t near = to - off < HERE_BYTES ? to : off + HERE_BYTES;
    if (xh_disk_has_all(f->disk, off, near)) /* else each read would look through all that is to come */
        return near;
    if (!after)
        xh_replicas_beside(f->origin, turns);
    xh_replicas_get_info(f->origin, &info);
    xh_room_make(&s->place, XH_STREAM_LEAST_BYTES, f->opt.readahead_bytes);
    pthread_mutex_lock(&s->lock);
    xh_stream_pass_far(s, off);
    size_t busy = xh_stage_loads(s);
    uint64_t will = is_soon_enough(s, off) ? XH_STREAM_LATER : seen_to(s, off, to);
    if (will) {
        pthread_mutex_unlock(&s->lock);
        return will;
    }
    struct dealing d = after ? dealing_after(f, &info, to - off, busy, after) : dealing_of(f, &info, off, busy, turns);
    struct xh_range whole = xh_segment_whole(f, (struct xh_range){off, to - off});
    if (d.nloads && xh_segment_missing(f, whole, 0, &want)) {
        uint64_t next;
        struct xh_range r = first_stretch(s, f->opt.gap_bytes, &want, whole.off + whole.len, &next);
        if (r.len <= 2 * d.most * ROUND_BYTES)
            d.most = ROUNDS_MOST;
        if (r.len >= XH_STREAM_LEAST_BYTES) {
            uint64_t len = 0;
            xh_stream_deal_no_more(s); /* of an earlier one: this one brings it, or it is asked for again */
            size_t made = add_stream(f, &d, r, ts, &len);
            xh_trace(XH_T_READ, "stream", "off=%llu len=%llu loads=%zu warm=%zu", (unsigned long long)r.off,
                     (unsigned long long)len, made, d.warm);
            s->dealt = s->stream_end = xh_min64(r.off + len, to);
            if (!after && d.most == ROUNDS_MOST && len < r.len && len >= d.bytes) {
                s->stream_end = xh_min64(r.off + r.len, to);
                len = r.len;
            }
            if (busy == 0) {
                s->begun_ns = s->grown_ns = 0;
                s->whole = 0;
                s->begun_bytes = s->pace.bytes;
            }
            if (after)
                s->granted = s->reach = s->stream_end; /* as far as there is room */
            xh_prefetch_hand_over(f, ts, made);
            seen = len == r.len ? next : r.off + len; /* what lies between is here: not to be asked for again */
            seen = seen < to ? seen : to;
        }
    }
    pthread_mutex_unlock(&s->lock);
    free(want.at);
    return seen;
}

static void reckon_rate(struct xh_stage *s)
{
    if (xh_pace_look(&s->pace, xh_now_ns(), 0))
        s->rate = xh_max64(s->pace.rate, s->rate / 4 * 3);
}

/* How far a stream runs ahead: half of its file's share of the room, or twice what a fast link holds, if that is more.
 * Any of its connections may stand still for a lost packet, for 200 ms and more, and the reader behind it; the others go
 * on meanwhile. Where other files follow, the room is theirs. On a slow link, what it brings in some seconds: what comes
 * before its time, on connections that are faster than others, comes instead of what the reader waits for. What streams
 * bring lately tells that, which is more as soon as the window was too short for the link: it holds seconds, and a round
 * trip is less. */
static uint64_t stream_window(struct xh_file *f)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    reckon_rate(f->stage);
    uint64_t rate = known_rate(f->stage, &info), soon = SOON_S * rate;
    uint64_t holds = 2 * fast_link_holds(&info), half = xh_room_share(f->opt.readahead_bytes) / 2;
    uint64_t most = holds > half || xh_followed_by(f) ? holds : half;
    soon = soon > XH_STREAM_LEAST_BYTES ? soon : XH_STREAM_LEAST_BYTES;
    return rate && soon < most ? soon : most;
}

/* |n| rounded up to a multiple of |m|. */
static uint64_t up(uint64_t n, uint64_t m)
{
    return (n + m - 1) / m * m;
}

static uint64_t a_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* 1 when the reader leaves out much of what streams bring: the room is full of that, and the next read close behind
 * what comes. So it had better wait for all connections at once than for one. */
static int leaves_out(const struct xh_stage *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n && s->at[i]->end <= s->here; i++)
        bytes += s->at[i]->load->turns ? xh_segment_weight(s->at[i]) : 0;
    return bytes >= XH_STREAM_LEAST_BYTES;
}

/* All that is left of a stream, of which a load has come as |course| says, is dealt to all connections at once. */
static void deal_rest(struct xh_file *f, const struct xh_course *course, const struct xh_origin_info *info)
{
    struct xh_stage *s = f->stage;
    struct xh_transfer *ts[XH_STREAM_LOADS_MAX];
    struct xh_range_list want = {0};
    struct dealing d = {.nloads = course->loads, .warm = course->loads, .rounds = rounds_of(info),
                        .most = ROUNDS_MOST, .last = course->last, .bytes = UINT64_MAX};
    uint64_t len = 0, next = s->stream_end;
    size_t made = 0;
    int known = xh_segment_missing(f, (struct xh_range){s->dealt, s->stream_end - s->dealt}, 1, &want);
    if (known) {
        struct xh_range r = first_stretch(s, f->opt.gap_bytes, &want, s->stream_end, &next);
        made = add_stream(f, &d, r, ts, &len);
        next = len < r.len ? r.off + len : next;
    }
    free(want.at);
    s->dealt = next;
    s->lost |= !known || (made == 0 && want.n > 0);
    xh_prefetch_hand_over(f, ts, made);
}

/* The connection of a load that came as |course| says takes what is missing of the next |len| bytes. Returns 0 when
 * nothing is. */
static int deal_one(struct xh_file *f, const struct xh_course *course, const struct xh_origin_info *info, uint64_t len)
{
    struct xh_stage *s = f->stage;
    struct xh_range mine[ROUNDS_MOST];
    struct xh_range_list want = {0};
    uint64_t stripe = ROUND_BYTES / course->loads, end = s->dealt + len;
    size_t n = 0, ranges = 0;
    int fails = !xh_segment_missing(f, (struct xh_range){s->dealt, len}, 1, &want);
    for (; ranges < want.n && ranges < rounds_of(info); ranges++)
        for (uint64_t at = 0; at < want.at[ranges].len && n < ROUNDS_MOST; at += mine[n++].len)
            mine[n] = (struct xh_range){want.at[ranges].off + at, xh_min64(stripe, want.at[ranges].len - at)};
    s->dealt = ranges == want.n && n < ROUNDS_MOST ? end : n ? mine[n - 1].off + mine[n - 1].len : end;
    free(want.at);
    struct xh_prefetch *l = n ? xh_prefetch_add(f, mine, n, 1, full) : NULL;
    s->lost |= fails || (n && !l);
    if (!l)
        return n > 0;
    l->then = next_part;
    l->first = l->pos; /* the reader has enough before him */
    l->t.patient = 1;
    l->t.last = l->course.last = course->last;
    l->course.loads = course->loads;
    struct xh_transfer *t = &l->t;
    s->stream[xh_stage_loads(s)] = l;
    xh_prefetch_hand_over(f, &t, 1);
    return 1;
}

/* A load of a stream has come, as |course| says: its connection takes more of the stream, or of what the slowest load
 * lacks. */
static void next_part(struct xh_file *f, const struct xh_course *course)
{
    struct xh_stage *s = f->stage;
    struct xh_origin_info info;
    uint64_t now = xh_now_ns(), stripe = ROUND_BYTES / course->loads;
    if (s->dealt < s->stream_end && xh_stage_loads(s) >= course->loads)
        return;
    if (xh_replicas_are_several(f->origin)) /* parts come from all sites */
        xh_stream_deal_no_more(s);
    if (s->read_end > s->dealt && s->read_end < s->stream_end) { /* a read brings what it lacks */
        s->lost = 1;
        s->dealt = xh_segment_whole(f, (struct xh_range){s->read_end, 1}).off;
    }
    xh_replicas_get_info(f->origin, &info);
    uint64_t share = xh_room_share(f->opt.readahead_bytes), window = stream_window(f);
    struct xh_part p = {.room = xh_min64(share, window), .connections = course->loads,
                        .all_rate = a_second(s->pace.bytes - s->begun_bytes, now - s->begun_ns),
                        .rate = course->stood ? 0 : a_second(course->pace.bytes, now - course->begun_ns),
                        .rtt_ns = (double)info.rtt_ns};
    if (s->grown_ns)
        p.now_rate = a_second(s->pace.bytes - s->grown_bytes, now - s->grown_ns);
    /* On a slow link the stream runs ahead by some seconds, not by the room: parts would stand where that ends. */
    s->whole |= window < share / 2 || leaves_out(s);
    while (s->dealt < s->stream_end) {
        p.rest = s->stream_end - s->dealt;
        uint64_t len = s->whole ? 0 : xh_min64(up(xh_policy_part(&p), stripe), p.rest);
        s->whole |= len == 0;
        xh_trace(XH_T_READ, "stream-part", "off=%llu len=%llu rate=%llu of=%llu", (unsigned long long)s->dealt,
                 (unsigned long long)len, (unsigned long long)p.rate, (unsigned long long)p.all_rate);
        if (len && !deal_one(f, course, &info, len))
            continue;
        if (len == 0)
            deal_rest(f, course, &info);
        return;
    }
    xh_relief_last(f, course);
}

void xh_stage_tell(struct xh_file *f, uint64_t rate)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    s->rate = s->rate ? s->rate : rate;
    pthread_mutex_unlock(&s->lock);
}

/* A stream comes from one site. Where another one is live by now it ends, as parts come from both: behind what a fast
 * link holds, or a slow one brings in a second. */
static void leave_for_sites(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    struct xh_origin_info info;
    uint64_t pos = 0;
    if (!xh_replicas_are_several(f->origin))
        return;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        struct xh_prefetch *l = s->stream[i];
        if (l->stands || l->cut)
            return;
        pos = l->pos > pos ? l->pos : pos;
    }
    xh_replicas_get_info(f->origin, &info);
    uint64_t most = fast_link_holds(&info), rate = known_rate(s, &info);
    uint64_t off = pos + (rate && rate < most ? rate : most);
    if (off < s->stream_end && s->stream_end - off >= XH_STREAM_LEAST_BYTES)
        xh_stream_cut(s, off);
}

int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    if (s->stream[0])
        leave_for_sites(f);
    xh_relief_straggler(f, end);
    if (!s->stream[0])
        xh_stream_deal_no_more(s);
    int lost = s->lost;
    s->lost = 0;
    if (s->place.bytes)
        xh_room_touch(&s->place, 0);
    if (s->stream[0]) { /* else every small read of a run would take the engine's lock for nothing */
        uint64_t most = stream_window(f);
        s->reach = end + (window < most ? window : most);
        s->reach = s->reach > s->granted ? s->reach : s->granted;
        s->read_end = end;
        uint64_t waits = s->here < end ? xh_min64(end - s->here, s->here_span) : 0; /* |here| may be of another read */
        s->ahead = xh_min64(window, most) + waits;
        xh_stream_leave_stale(s);
        xh_stream_leave_passed(s);
    }
    go_on(f, NULL);
    pthread_mutex_unlock(&s->lock);
    return lost;
}
