/* Limits of a fetch: see limits.h. */
#include "limits.h"

#include <string.h>

#include "base/links.h"
#include "base/now.h"
#include "object.h"
#include "flow.h"
#include "policy.h"
#include "watch/trace.h"

/* New connections are limited by slow start: so many of those that are open share a demand, even where fewer would be
 * enough later. */
#define YOUNG_PARTS 8u
/* Whatever the round trip, a part that the link brings in less than so small a part of a second is too short. */
#define SOON_IN_A_SECOND 4
/* Bytes are dealt only where each connection gets so much, and what it brings in XH_LEAST_TRIPS. */
#define DEALT_LEAST_BYTES (128u << 10)
/* Connections are opened for a long run where those that are there would take so many round trips for it: a new one is
 * there after two or three, and then begins with little. */
#define WIDE_TRIPS 6
/* Metadata is not joined across more than so many times gap_bytes: a walk that reads all that lies between burdens the
 * server, and a slow link. */
#define GAPS_MOST 4u
/* How often the readers of a file are counted. */
#define SHARE_EVERY_NS 20000000u

void xh_limits_share_link(struct xh_file *f)
{
    uint64_t now = xh_now_ns(), last = atomic_load_explicit(&f->sharing->counted_ns, memory_order_relaxed);
    if (now - last < SHARE_EVERY_NS ||
        !atomic_compare_exchange_strong_explicit(&f->sharing->counted_ns, &last, now, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    unsigned readers = xh_shadow_readers(f->shadow), busy = xh_shadow_busy(f->shadow);
    unsigned sharers = readers > busy ? readers : busy;
    int walks = readers > 1 && f->above->walks(f);
    int yields = readers > 1 && !walks && xh_shadow_other_waits(f->shadow);
    if (walks) /* the others wait for what it brings */
        sharers -= readers - 1;
    xh_replicas_share(f->origin, sharers, yields);
    xh_trace(XH_T_PLAN, "share", "readers=%u busy=%u walks=%d yields=%d", readers, busy, walks, yields);
}

/* 1 where a request has one range. */
static int is_single(const struct xh_file *f, const struct xh_origin_info *info)
{
    return !f->opt.multirange || info->max_ranges <= 1;
}

int xh_limits_are_single(const struct xh_file *f)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    return is_single(f, &info);
}

uint64_t xh_limits_meta_gap(const struct xh_file *f)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    /* What a connection brings is not known before a reply was long enough to tell, which joined ones are. */
    uint64_t gap = info.trip_bytes && info.trip_bytes < info.flight_bytes ? info.trip_bytes : info.flight_bytes;
    uint64_t usual = f->opt.gap_bytes, most = GAPS_MOST * usual;
    gap = gap < most ? gap : most;
    return is_single(f, &info) && gap > usual ? gap : usual;
}

uint64_t xh_limits_flight(const struct xh_file *f)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    double rate = info.second_bytes ? (double)info.second_bytes / 1e9 : XH_LINK_FAST_BYTES_PER_NS;
    return (uint64_t)(rate * (double)info.rtt_ns);
}

uint64_t xh_limits_most_part(const struct xh_origin_info *info)
{
    uint64_t most = XH_PART_TRIPS * info->trip_bytes; /* longer ones, side by side, delay what the reader wants first */
    uint64_t soon = info->second_bytes ? info->second_bytes / SOON_IN_A_SECOND : XH_GROUP_BYTES;
    if (most == 0)
        return UINT64_MAX;
    soon = soon < XH_GROUP_BYTES ? soon : XH_GROUP_BYTES;
    return most < soon ? soon : most;
}

/* 1 for a small file that is probably one of many which the program has announced, or which are opened ahead: each is
 * one part, and not dealt, as the others come side by side. */
static int is_one_of_many(const struct xh_file *f)
{
    return (xh_file_is_announced(f) || f->opt.guessed) && f->size <= f->opt.whole_file_bytes;
}

/* Young connections are limited by slow start, so a demand is divided among many of them. */
static uint64_t least_part(const struct xh_file *f, const struct xh_origin_info *info, int ahead)
{
    if (info->young)
        return ahead ? f->opt.part_bytes : XH_REQUEST_LEAST_BYTES;
    return ahead ? xh_policy_least_ahead(f->opt.part_bytes, info->trip_bytes, !is_one_of_many(f)) : f->opt.part_bytes;
}

/* The number of parts that |bytes| are fetched in together. A connection idles for a round trip before each part, so
 * parts are to be long.
 * A demand has one part for each connection that waits for work: a new connection would take longer to open than the
 * parts take. What is fetched ahead has two, so that no connection idles until the slowest is done. It has one while
 * connections are young, as the pause before a second part is long for them, and in a file with siblings, as the next
 * sibling's bytes wait behind it. */
static uint64_t part_of(const struct xh_file *f, const struct xh_origin_info *info, uint64_t bytes, int ahead)
{
    unsigned young = ahead && info->young, n = ahead ? info->open : info->idle;
    unsigned most = young ? info->scattered - 1 : info->connections;
    if (!ahead && info->young && most < YOUNG_PARTS)
        most = YOUNG_PARTS;
    n = ahead && is_one_of_many(f) ? 1 : n < most ? n : most;
    uint64_t part = bytes / ((ahead && !young && !xh_flow_has_family(f) ? 2 : 1) * (n ? n : 1)) + XH_PAGE_BYTES - 1;
    uint64_t most_bytes = ahead ? xh_limits_most_part(info) : UINT64_MAX;
    part = part < most_bytes ? part : most_bytes;
    uint64_t least = least_part(f, info, ahead);
    part = part > least ? part : least;
    return part - part % XH_PAGE_BYTES;
}

/* 1 where what comes ahead may be dealt to several connections: they are young, and the server is far. */
static int may_deal(const struct xh_file *f, const struct xh_origin_info *info)
{
    return info->young && info->far && !is_one_of_many(f);
}

/* Over how many connections a small file comes whole where nothing can be dealt, as a request has one range, or
 * there is but one connection; 0: as other ranges do. Young connections of a far server get one long part each:
 * with shorter ones each stands idle for a round trip before the next, and a new connection takes three. In a
 * larger file, whose next reads are known while this stretch comes, long parts delay them. */
static unsigned shares(const struct xh_file *f, const struct xh_origin_info *info, uint64_t mean)
{
    int small = f->size <= f->opt.whole_file_bytes && mean >= XH_BULK_BYTES && !is_one_of_many(f);
    int undealt = is_single(f, info) || info->open == 1;
    return undealt && small && info->young && info->far ? info->open : 0;
}

/* To how many connections what comes ahead is dealt; 0: it is not. Young ones of a far server get stripes from
 * XH_REQUEST_LEAST_BYTES on, which each brings in some three round trips. They grow as slow start does: so it comes in
 * the order in which it is read, and each connection grows. A part of its own for each would come as late as the
 * slowest brings half a megabyte. */
static unsigned deals(const struct xh_file *f, const struct xh_origin_info *info)
{
    unsigned n = info->open < info->scattered - 1 ? info->open : info->scattered - 1;
    return may_deal(f, info) && !is_single(f, info) ? n : 0;
}

/* What xh_limits_wide returns, whether connections are young or not. */
static unsigned wide(const struct xh_file *f, const struct xh_origin_info *info, uint64_t opens, unsigned *there)
{
    if (info->whole || info->streaming < 2 || xh_replicas_are_several(f->origin))
        return 0;
    unsigned n = info->streaming, lacks = info->open < n ? n - info->open : 0;
    lacks = lacks < info->streams ? lacks : info->streams;
    if (there)
        *there = n - lacks;
    return lacks == 0 || opens / WIDE_TRIPS > info->open * info->flight_bytes ? n : 0;
}

unsigned xh_limits_wide(const struct xh_file *f, uint64_t opens, unsigned *there)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    return may_deal(f, &info) ? wide(f, &info, opens, there) : 0;
}

unsigned xh_limits_wide_now(const struct xh_file *f, uint64_t bytes, int strays, unsigned leaving, unsigned *there)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    leaving = leaving < info.open ? leaving : info.open;
    info.streams = (unsigned)xh_min64(info.streams + leaving, info.streaming); /* some may only have waited for one */
    info.open -= leaving;
    int may = info.streams == info.streaming && (may_deal(f, &info) || (strays && info.far));
    if (strays && info.trip_bytes) /* what lost packets brings less than it might by now */
        info.flight_bytes = xh_min64(info.flight_bytes, info.trip_bytes);
    unsigned n = may ? wide(f, &info, bytes, there) : 0;
    return n && *there < n ? n : 0;
}

int xh_limits_get(struct xh_file *f, uint64_t bytes, uint64_t mean, int ahead, struct xh_plan_limits *lim)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    lim->gap_bytes = f->opt.gap_bytes;
    lim->align_bytes = XH_PAGE_BYTES;
    lim->part_bytes = part_of(f, &info, bytes, ahead);
    lim->group_bytes = lim->part_bytes > XH_GROUP_BYTES ? lim->part_bytes : XH_GROUP_BYTES;
    /* What is small waits for round trips; what is large, for connections to be used. */
    lim->spread_bytes = ahead && mean >= XH_BULK_BYTES ? lim->part_bytes : XH_REQUEST_LEAST_BYTES;
    lim->max_ranges = f->opt.multirange ? info.max_ranges : 1;
    lim->max_range_header = info.max_range_header - strlen("bytes=");
    lim->deal = ahead && mean >= XH_BULK_BYTES ? deals(f, &info) : 0;
    lim->even = 0;
    lim->late = lim->late_turns = 0;
    lim->stripe_bytes = XH_REQUEST_LEAST_BYTES;
    lim->dealt_bytes = XH_LEAST_TRIPS * info.trip_bytes;
    lim->dealt_bytes = lim->dealt_bytes > DEALT_LEAST_BYTES ? lim->dealt_bytes : DEALT_LEAST_BYTES;
    lim->connections = ahead && info.scattered > 1 ? info.scattered - 1 : info.scattered;
    lim->connections = ahead && is_one_of_many(f) ? 1 : lim->connections;
    unsigned shared = ahead ? shares(f, &info, mean) : 0;
    if (shared) {
        lim->connections = shared < lim->connections || !lim->connections ? shared : lim->connections;
        uint64_t part = (bytes + lim->gap_bytes) / lim->connections + XH_PAGE_BYTES - 1;
        part = part > f->opt.part_bytes ? part : f->opt.part_bytes;
        lim->part_bytes = part - part % XH_PAGE_BYTES;
    }
    /* More than a flight takes another round trip; a new connection takes three. */
    if (!(ahead && mean >= XH_BULK_BYTES) && lim->spread_bytes > info.flight_bytes) {
        unsigned idle = info.idle > 1 ? info.idle : 1;
        lim->spread_bytes = info.flight_bytes;
        lim->connections = lim->connections < idle ? lim->connections : idle;
    }
    if (info.whole) { /* each request brings all of the file: one for all that is wanted */
        lim->gap_bytes = f->size;
        lim->deal = 0;
        lim->part_bytes = f->size + XH_PAGE_BYTES - f->size % XH_PAGE_BYTES;
        lim->group_bytes = lim->part_bytes;
    }
    return !info.whole;
}

void xh_limits_deal(struct xh_plan_limits *lim, unsigned n, uint64_t bytes)
{
    if (n == 0)
        return;
    if (lim->max_ranges == 1) /* one range each, be the first one's end rounded down: see xh_plan_make */
        lim->stripe_bytes = (bytes / n / XH_PAGE_BYTES + 2) * XH_PAGE_BYTES;
    lim->deal = n;
    lim->dealt_bytes = DEALT_LEAST_BYTES; /* what those brought that are there says nothing of new ones */
    lim->even = 1;
}

unsigned xh_limits_deal_whole(const struct xh_file *f, uint64_t bytes, struct xh_plan_limits *lim)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    unsigned there = info.open < info.streaming ? info.open : info.streaming; /* 0, too, where there may be one alone */
    if (!may_deal(f, &info) || is_single(f, &info) || info.whole || there == 0 || xh_replicas_are_several(f->origin))
        return 0;
    unsigned more = info.streams < info.streaming - there ? info.streams : info.streaming - there;
    xh_plan_deal_at_once(lim, bytes, there, more, info.flight_bytes);
    return lim->deal - lim->late;
}
