/* All chunk indexes of an object: see chunkindex.h. Bytes that arrive go to the index that waits for them, or begin a
 * new one. A raw read advances the order of its index, which proposes what follows.
 *
 * The cost of guesses: when an order's guess fails, |wasted| grows by what was proposed and not read. One allowance of
 * the object, a first window and a quarter of |asked|, pays for the proposals of unproven orders, and for those of a
 * proven order behind a step that has not come true yet. What the streak has read pays for all other proposals. */
#include "chunkindex.h"

#include <stdlib.h>
#include <string.h>

#include "base/hdf5.h"
#include "base/table.h"
#include "index.h"

#define INDEXES_MAX 256
/* The first window: this many chunks, but at least what makes a request worthwhile, and at most what a wrong guess may
 * cost. */
#define FIRST_CHUNKS 8
#define FIRST_LEAST_BYTES (64u << 10)
#define FIRST_MOST_BYTES (8u << 20)
/* Most chunks that may be proposed at a time, however small they are. More could need more nodes than fit into
 * memory. */
#define AHEAD_CHUNKS 8192
/* Most chunks that may be passed by for each that is read, however fast the link: what comes in vain is somebody's. */
#define PASSES_MOST 4
/* Where so many chunks were read in part, one after another, the next ones are too. HDF5 reads parts of chunks without
 * a filter that are larger than its chunk cache, as a row of each: all of them may be a thousand times as much. */
#define PARTS_SURE 2
#define PARTS_DOUBT 16 /* so many more it takes where the reader came back for another part */
/* A stretch may have this much between its chunks, and a sixteenth of its length. */
#define GAPS_BYTES (64u << 10)
#define GAPS_SHARE 16
/* Wanted nodes lie within this many segments, and this many chunks, of the reader. */
#define WANTED_SEGS 64
#define WANTED_CHUNKS (2 * AHEAD_CHUNKS)
/* Nodes may cost this much more than the chunks that were read. HDF5 itself would read most of them. */
#define NODES_FREE_BYTES (256u << 10)
/* Of a walk through an index: so many times what it has gone through lies ahead of it, so that it takes few round
 * trips. A node takes some five times as much memory once it was seen; less than half of the memory may lie ahead. */
#define WALK_TIMES 4
#define WALK_MOST_BYTES (XH_CHUNKINDEX_BYTES / 16)

struct xh_chunkindex {
    struct xh_chunkmap map;
    struct xh_format fmt; /* O, L and base of the object */
    struct xh_index *indexes;
    size_t nindexes;
    struct xh_index *now; /* of the last raw read that hit; may be NULL */
    struct xh_index *walk; /* that HDF5 goes through; may be NULL */
    int strayed;          /* see xh_chunkindex_strayed */
    int moved;            /* see xh_chunkindex_moved */
    uint64_t lo, hi;      /* the part of the last chunk that was read, relative to its address */
    uint64_t clock;
    uint64_t thread, flight_bytes; /* see xh_chunkindex_reader */
    uint64_t asked, wasted; /* bytes read from chunks; bytes proposed and not read */
    uint64_t node_bytes;    /* of nodes that were wanted */
};

struct xh_chunkindex *xh_chunkindex_new(uint64_t object_size)
{
    struct xh_chunkindex *ci = calloc(1, sizeof *ci);
    if (ci) {
        ci->map.size = object_size;
        ci->fmt.O = ci->fmt.L = 8;
        ci->map.bytes = sizeof *ci;
        ci->map.most_bytes = XH_CHUNKINDEX_BYTES;
    }
    return ci;
}

static void drop(struct xh_chunkindex *ci, struct xh_index *ix)
{
    LL_DELETE(ci->indexes, ix);
    ci->nindexes--;
    ci->wasted += ix->ahead_bytes;
    if (ci->walk == ix)
        ci->walk = NULL;
    if (ci->now == ix) {
        ci->now = NULL;
        ci->map.at = NULL;
    }
    xh_index_free(ix);
}

void xh_chunkindex_free(struct xh_chunkindex *ci)
{
    if (!ci)
        return;
    while (ci->indexes)
        drop(ci, ci->indexes);
    free(ci);
}

/* ---- metadata that HDF5 reads ------------------------------------------------------------------- */

static int begins_index(const uint8_t *p, size_t len)
{
    return len >= 8 && (memcmp(p, "TREE\1", 5) == 0 || memcmp(p, "BTHD", 4) == 0 || memcmp(p, "FAHD", 4) == 0 ||
                        memcmp(p, "EAHD", 4) == 0);
}

static int begins_object(uint64_t off, const uint8_t *p, size_t len)
{
    /* At 0, 512, 1024, 2048 … */
    return len >= 24 && (off == 0 || (off >= 512 && (off & (off - 1)) == 0)) && xh_hdf5_is_signed(p);
}

static struct xh_node *awaited(const struct xh_chunkindex *ci, uint64_t off)
{
    struct xh_node *node = xh_node_at(&ci->map, off);
    return node && node->seg && node->seg->unseen ? node : NULL;
}

int xh_chunkindex_cares(const struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len)
{
    return begins_index(p, len) || begins_object(off, p, len) || awaited(ci, off) != NULL;
}

/* Sets the sizes of addresses and lengths, and the base: addresses are relative to the superblock. */
static void see_superblock(struct xh_chunkindex *ci, uint64_t off, const uint8_t *p)
{
    uint8_t O = p[8] < 2 ? p[13] : p[9], L = p[8] < 2 ? p[14] : p[10];
    if (p[8] > 3 || O < 2 || O > 8 || L < 2 || L > 8)
        return;
    ci->fmt.base = off;
    ci->fmt.O = O;
    ci->fmt.L = L;
}

/* Returns the least recently used index; the current one only if there is no other. */
static struct xh_index *oldest(const struct xh_chunkindex *ci)
{
    struct xh_index *old = NULL;
    for (struct xh_index *ix = ci->indexes; ix; ix = ix->next)
        if (ix != ci->now && (!old || ix->used < old->used))
            old = ix;
    return old ? old : ci->indexes;
}

static void make_room(struct xh_chunkindex *ci)
{
    /* Frees a little more than needed, so that this does not happen for every node; not much more, because it takes
     * time. */
    size_t most = ci->map.most_bytes;
    if (ci->map.bytes > most)
        while (ci->map.bytes > most - most / 64 && !xh_index_forget(oldest(ci), most - most / 64))
            drop(ci, oldest(ci));
}

void xh_chunkindex_see(struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len)
{
    struct xh_node *node = awaited(ci, off);
    if (node) {
        node->ix->used = ++ci->clock;
        xh_index_unfold(node, p, len);
    } else if (begins_object(off, p, len)) {
        see_superblock(ci, off, p);
    } else if (begins_index(p, len) && !xh_node_at(&ci->map, off)) {
        if (ci->nindexes >= INDEXES_MAX)
            drop(ci, oldest(ci));
        struct xh_index *ix = xh_index_new(&ci->map, ci->fmt, off, p, len);
        if (!ix)
            return;
        ix->used = ++ci->clock;
        LL_PREPEND(ci->indexes, ix);
        ci->nindexes++;
    }
    make_room(ci);
}

/* ---- raw reads --------------------------------------------------------------------------------- */

/* Notes how much was read of the last chunk, where the reader is at |to| now. */
static void leave(struct xh_chunkindex *ci, const struct xh_chunk *to)
{
    const struct xh_chunk *at = ci->map.at;
    struct xh_index *ix = to->seg->ix;
    if (!at || at == to || at->seg->ix != ix || !at->size)
        return;
    int is_part = ci->hi - ci->lo < at->size / 2;
    ix->parts = !is_part ? 0 : ix->parts + (ix->parts < PARTS_SURE);
    ix->left[ix->nleft++ % XH_CHUNKS_LEFT] = at->addr;
    for (unsigned i = 0; i < XH_CHUNKS_LEFT && i < ix->nleft; i++)
        if (ix->left[i] == to->addr)
            ix->parts = -PARTS_DOUBT;
}

/* How much is read of a chunk in one go; 0: it is not stored, or HDF5 reads parts. */
static uint64_t likely_size(const struct xh_chunk *c)
{
    return c->seg->ix->parts < PARTS_SURE ? c->size : 0;
}

static enum xh_order_event note(struct xh_chunkindex *ci, struct xh_chunk *c, struct xh_range r, int alone)
{
    struct xh_index *ix = c->seg->ix;
    int64_t rank = (int64_t)(c->seg->first + (uint64_t)(c - c->seg->chunks));
    ix->walked = NULL; /* xh_chunkindex_wanted sees to the nodes of a reader */
    ci->walk = ci->walk == ix ? NULL : ci->walk;
    uint64_t lo = r.off - c->addr;
    leave(ci, c);
    int proposed = ix->order.ahead > 0, proven = ix->order.streak >= XH_ORDER_SURE;
    uint64_t len = likely_size(c) ? c->size : r.len;
    ix->order.passes = (unsigned)xh_min64(ci->flight_bytes / (len ? len : 1), PASSES_MOST);
    ix->order.alone = alone;
    ix->order.thread = ci->thread;
    enum xh_order_event event = xh_order_read(&ix->order, rank, xh_index_look, ix);
    ci->asked += r.len;
    if (lo == 0 && len == r.len) {
        ix->each_bytes = ix->each_bytes && ix->each_bytes != len ? UINT64_MAX : len;
        ix->whole_bytes += len;
    }
    switch (event) {
    case XH_ORDER_HIT:
        ix->streak_bytes += r.len;
        ix->run_bytes += r.len;
        if (proposed)
            ix->ahead_bytes = ix->order.ahead && len < ix->ahead_bytes ? ix->ahead_bytes - len : 0;
        if (!ix->order.front.unsure)
            ix->risk_bytes = 0;
        ix->risk_bytes = ix->risk_bytes < ix->ahead_bytes ? ix->risk_bytes : ix->ahead_bytes;
        break;
    case XH_ORDER_LATE:
        ix->ahead_bytes = len < ix->ahead_bytes ? ix->ahead_bytes - len : 0;
        ix->streak_bytes += r.len;
        ix->run_bytes += r.len;
        break;
    case XH_ORDER_AGAIN:
        ix->streak_bytes += r.len;
        ix->run_bytes += r.len;
        break;
    default:
        if (proven && alone && ix->took && !ix->order.threads) {
            ci->moved = 1;
            ix->took = 0;
        }
        if (!proven) {
            ci->wasted += ix->ahead_bytes;
        } else { /* a proven order was free to propose them, and may read them yet */
            ci->wasted += ix->risk_bytes;
            ci->strayed = proposed;
        }
        /* The link was full before the turn and must be full again at once. Wrong proposals reduce the streak. */
        if (event != XH_ORDER_TURN || ix->order.before < XH_ORDER_SURE || ix->streak_bytes < ix->ahead_bytes)
            ix->streak_bytes = 0;
        else
            ix->streak_bytes -= ix->ahead_bytes;
        ix->ahead_bytes = ix->risk_bytes = ix->retry_bytes = 0;
        ix->streak_bytes += r.len;
        ix->run_bytes = r.len;
    }
    if (event != XH_ORDER_AGAIN || ci->now != ix) {
        ci->lo = lo;
        ci->hi = lo + r.len;
    }
    ci->lo = lo < ci->lo ? lo : ci->lo;
    ci->hi = lo + r.len > ci->hi ? lo + r.len : ci->hi;
    ci->now = ix;
    ci->map.at = c;
    ix->used = ++ci->clock;
    return event;
}

int xh_chunkindex_begun(const struct xh_chunkindex *ci, struct xh_range r)
{
    const struct xh_chunk *c = xh_chunk_at(&ci->map, r.off);
    return c && c->seg->ix->order.begun;
}

void xh_chunkindex_reader(struct xh_chunkindex *ci, uint64_t thread, uint64_t flight_bytes)
{
    ci->thread = thread;
    ci->flight_bytes = flight_bytes;
}

uint64_t xh_chunkindex_raw(struct xh_chunkindex *ci, struct xh_range r, int alone)
{
    /* fast exit: a strided read has a million extents */
    struct xh_chunk *c = ci->map.chunks ? xh_chunk_at(&ci->map, r.off) : NULL;
    if (!c || r.len == 0)
        return 0;
    int late = note(ci, c, r, alone) == XH_ORDER_LATE;
    int64_t rank = ci->now->order.now.rank;
    if (!late || xh_index_look(ci->now, rank) != XH_PLACE_CHUNK)
        return r.off + r.len;
    const struct xh_chunk *far = xh_index_chunk(ci->now, (uint64_t)rank);
    return far->addr + (far->size ? far->size : r.len);
}

int xh_chunkindex_strayed(struct xh_chunkindex *ci)
{
    int strayed = ci->strayed;
    ci->strayed = 0;
    return strayed;
}

int xh_chunkindex_moved(struct xh_chunkindex *ci)
{
    int moved = ci->moved;
    ci->moved = 0;
    return moved;
}

/* Returns what will be read of |c|: all of it, or, if its size is not stored, or parts are read, the same part as of
 * the last chunk. */
static struct xh_range part_of(const struct xh_chunkindex *ci, const struct xh_chunk *c)
{
    struct xh_range r = {c->addr, likely_size(c)};
    if (r.len == 0) {
        r.len = ci->hi - ci->lo;
        if (ci->lo >= ci->map.size - c->addr)
            return (struct xh_range){0, 0};
        r.off += ci->lo;
    }
    r.len = xh_min64(r.len, ci->map.size - r.off);
    return r;
}

/* Returns how many bytes unproven orders may still propose. */
static uint64_t allowance(const struct xh_chunkindex *ci, uint64_t first)
{
    uint64_t most = first + ci->asked / 4, out = ci->wasted;
    for (const struct xh_index *ix = ci->indexes; ix; ix = ix->next)
        if (ix != ci->now)
            out += ix->order.streak < XH_ORDER_SURE ? ix->ahead_bytes : ix->risk_bytes;
    return most > out ? most - out : 0;
}

static uint64_t first_window(uint64_t chunk_bytes)
{
    uint64_t first = xh_max64(xh_min64(FIRST_CHUNKS * chunk_bytes, FIRST_MOST_BYTES), FIRST_LEAST_BYTES);
    return xh_max64(first, chunk_bytes);
}

/* Returns how far ahead of the reader proposals go. Sets |*open| to the same for proposals that a turn may
 * contradict. */
static uint64_t window_of(const struct xh_chunkindex *ci, uint64_t chunk_bytes, uint64_t most, uint64_t *open)
{
    const struct xh_order *o = &ci->now->order;
    uint64_t first = first_window(chunk_bytes), read = ci->now->streak_bytes;
    uint64_t w = first + 4 * read; /* a long link is full after a few reads */
    if (o->streak < XH_ORDER_SURE) {
        uint64_t may = allowance(ci, first);
        /* After a miss in random reads, nothing. After one in a regular walk, what may be wasted. */
        if (o->streak == 0 && o->misses && o->before < XH_ORDER_SURE && (o->wrong || !o->loop[0].sure))
            may = 0;
        w = w < may ? w : may;
    }
    w = w < most ? w : most;
    *open = first + 2 * ci->now->run_bytes;
    *open = w < *open ? w : *open;
    return w;
}

/* Returns how many bytes may be proposed behind a step that has not come true yet; 0 if the last such step was
 * wrong. */
static uint64_t risk_of(const struct xh_chunkindex *ci, uint64_t chunk_bytes)
{
    return ci->now->order.wrong ? 0 : allowance(ci, first_window(chunk_bytes));
}

size_t xh_chunkindex_next(struct xh_chunkindex *ci, uint64_t window_bytes, struct xh_range *out, size_t max)
{
    struct xh_index *ix = ci->now;
    if (!ix || !ci->map.at)
        return 0;
    uint64_t chunk_bytes = part_of(ci, ci->map.at).len;
    uint64_t open, window = window_of(ci, chunk_bytes, window_bytes, &open), risk = risk_of(ci, chunk_bytes);
    size_t n = 0;
    if (ix->ahead_bytes > window / 2)
        return 0;
    if (ix->ahead_bytes > open / 2)
        open = 0;
    if (ix->risk_bytes > risk / 2)
        risk = 0;
    while (n < max && ix->order.ahead < AHEAD_CHUNKS) {
        struct xh_order_spot next;
        if (xh_order_peek(&ix->order, &next, xh_index_look, ix) != XH_PLACE_CHUNK)
            break;
        struct xh_range r = part_of(ci, xh_index_chunk(ix, (uint64_t)next.rank));
        uint64_t most = next.open ? open : window;
        if (r.len == 0 || ix->ahead_bytes > most || r.len > most - ix->ahead_bytes)
            break;
        if (next.unsure && (ix->risk_bytes > risk || r.len > risk - ix->risk_bytes))
            break;
        xh_order_take(&ix->order, &next);
        ix->ahead_bytes += r.len;
        ix->risk_bytes += next.unsure ? r.len : 0;
        out[n++] = r;
    }
    return n;
}

/* ---- stretches ---------------------------------------------------------------------------------- */

/* Extends |r|, which may be empty, by what will be read after it. Returns 0 when that lies elsewhere. */
static int extend(struct xh_range *r, struct xh_range next, uint64_t *gaps)
{
    uint64_t end = r->off + r->len, gap = next.off - end;
    if (r->len == 0) {
        *r = next;
        return next.len != 0;
    }
    if (next.len == 0 || next.off < end || *gaps + gap > GAPS_BYTES + r->len / GAPS_SHARE)
        return 0;
    *gaps += gap;
    r->len += gap + next.len;
    return 1;
}

/* Returns what lies ahead of the frontier in one piece. */
static struct xh_range stretch(const struct xh_chunkindex *ci, uint64_t most, enum xh_order_place *place)
{
    const struct xh_index *ix = ci->now;
    struct xh_order o = ix->order; /* a copy, which is walked ahead */
    struct xh_order_spot next;
    struct xh_range r = {0, 0};
    uint64_t gaps = 0;
    while ((*place = xh_order_peek(&o, &next, xh_index_look, ix)) == XH_PLACE_CHUNK && o.ahead < AHEAD_CHUNKS) {
        struct xh_range longer = r;
        if (next.unsure || next.open || !extend(&longer, part_of(ci, xh_index_chunk(ix, (uint64_t)next.rank)), &gaps) ||
            longer.len > most)
            break;
        r = longer;
        xh_order_take(&o, &next);
    }
    return r;
}

struct xh_range xh_chunkindex_stretch(struct xh_chunkindex *ci, uint64_t window_bytes, uint64_t least, uint64_t most,
                                      uint64_t *window)
{
    struct xh_index *ix = ci->now;
    const struct xh_range none = {0, 0};
    enum xh_order_place place;
    uint64_t open;
    *window = 0;
    if (!ix || !ci->map.at || ix->order.streak < XH_ORDER_SURE)
        return none;
    uint64_t chunk_bytes = part_of(ci, ci->map.at).len;
    if (chunk_bytes == 0 || xh_order_run(&ix->order) < 2 * least / chunk_bytes)
        return none; /* the reader turns too soon */
    *window = window_of(ci, chunk_bytes, window_bytes, &open);
    if (*window < least || ix->ahead_bytes > *window / 2 || ix->streak_bytes < ix->retry_bytes)
        return none;
    ix->retry_bytes = ix->streak_bytes + least / 4; /* looking takes long, so it is not tried again at each read */
    struct xh_range r = stretch(ci, most, &place);
    return r.len < (place == XH_PLACE_UNKNOWN ? 4 * least : least) ? none : r;
}

void xh_chunkindex_took(struct xh_chunkindex *ci, struct xh_range r)
{
    struct xh_index *ix = ci->now;
    struct xh_order_spot next;
    uint64_t end = r.off + r.len;
    if (ix)
        ix->took = 1;
    while (ix && ci->map.at && ix->order.ahead < AHEAD_CHUNKS &&
           xh_order_peek(&ix->order, &next, xh_index_look, ix) == XH_PLACE_CHUNK) {
        struct xh_range c = part_of(ci, xh_index_chunk(ix, (uint64_t)next.rank));
        if (next.unsure || next.open || c.len == 0 || c.off < r.off || c.off >= end || c.len > end - c.off)
            break;
        xh_order_take(&ix->order, &next);
        ix->ahead_bytes += c.len;
        r.off = c.off + c.len;
    }
}

void xh_chunkindex_refused(struct xh_chunkindex *ci)
{
    if (ci->now) {
        ci->now->order.ahead = 0;
        ci->now->ahead_bytes = ci->now->risk_bytes = 0;
    }
}

/* ---- index nodes that will be needed ------------------------------------------------------------ */

/* Returns 1 when |s| is a node that may be requested, and sets |*out|. */
static int want(struct xh_chunkindex *ci, const struct xh_seg *s, struct xh_range *out)
{
    struct xh_node *node = s->node;
    if (!s->unseen)
        return 0;
    if (!node->asked) {
        if (ci->node_bytes > NODES_FREE_BYTES + ci->asked)
            return 0;
        ci->node_bytes += node->len;
        node->asked = 1;
    }
    *out = (struct xh_range){node->addr, node->len};
    return 1;
}

size_t xh_chunkindex_wanted(struct xh_chunkindex *ci, struct xh_range *out, size_t max)
{
    struct xh_index *ix = ci->now;
    size_t n = 0;
    if (!ix || ix->nsegs == 0 || max == 0)
        return 0;
    /* First the node where the order stops, which may be far away. */
    struct xh_order_spot next;
    size_t stop = SIZE_MAX;
    if (xh_order_peek(&ix->order, &next, xh_index_look, ix) == XH_PLACE_UNKNOWN) {
        stop = xh_index_seg(ix, (uint64_t)next.rank);
        n += (size_t)want(ci, ix->seg[stop], &out[n]);
    }
    size_t at = xh_index_seg(ix, (uint64_t)ix->order.now.rank);
    int up = xh_order_direction(&ix->order) > 0;
    uint64_t passed = 0;
    for (size_t i = 0; i < WANTED_SEGS && n < max && passed < WANTED_CHUNKS; i++) {
        if (at != stop)
            n += (size_t)want(ci, ix->seg[at], &out[n]);
        passed += i ? ix->seg[at]->count : 0;
        if (up ? ++at >= ix->nsegs : at-- == 0)
            break;
    }
    return n;
}

/* ---- a walk through an index ---------------------------------------------------------------------- */

/* Returns the first segment behind |s| that is a node's, or NULL. */
static struct xh_seg *next_node(const struct xh_index *ix, const struct xh_seg *s)
{
    for (size_t i = xh_index_seg(ix, s->first) + 1; i < ix->nsegs; i++)
        if (ix->seg[i]->node)
            return ix->seg[i];
    return NULL;
}

/* 1 when the bytes of |node| lead to other nodes, which cannot be proposed before they are here. */
static int is_parent(const struct xh_node *node)
{
    switch (node->kind) {
    case XH_NODE_BT1:
    case XH_NODE_BT2: return node->level > 0;
    case XH_NODE_FA_BLOCK:
    case XH_NODE_EA_INDEX:
    case XH_NODE_EA_SUPER: return 1;
    default: return 0;
    }
}

/* 1 when |s| is a node that a walk may ask for: it was not seen, and not asked for but as a parent. */
static int is_unwalked(const struct xh_seg *s)
{
    return s->unseen && (!s->node->asked || is_parent(s->node));
}

int xh_chunkindex_walked(struct xh_chunkindex *ci, uint64_t off)
{
    const struct xh_node *node = xh_node_at(&ci->map, off);
    if (!node || !node->seg) /* its children come next */
        return 0;
    struct xh_index *ix = node->ix;
    const struct xh_node *before = ix->walked;
    if (node == before)
        return 0;
    int follows = before && before->seg && next_node(ix, before->seg) == node->seg;
    ix->walk_bytes = follows ? ix->walk_bytes + before->len : 0;
    ix->walked = node;
    ci->walk = follows ? ix : NULL;
    return follows;
}

size_t xh_chunkindex_unwalked(struct xh_chunkindex *ci, struct xh_range *out, size_t max)
{
    const struct xh_index *ix = ci->walk;
    if (!ix || !ix->walked->seg)
        return 0;
    uint64_t most = WALK_TIMES * ix->walk_bytes, bytes = 0, near = UINT64_MAX;
    most = most < WALK_MOST_BYTES ? most : WALK_MOST_BYTES;
    size_t from = xh_index_seg(ix, ix->walked->seg->first) + 1, end = from, n = 0;
    for (; end < ix->nsegs; end++) {
        const struct xh_node *node = ix->seg[end]->node;
        if (node && (bytes += node->len) > most)
            break;
        if (is_unwalked(ix->seg[end]) && near > bytes)
            near = bytes;
    }
    if (near > most / 2)
        return 0;
    for (size_t i = from; i < end && n < max; i++)
        if (is_unwalked(ix->seg[i])) {
            struct xh_node *node = ix->seg[i]->node;
            node->asked = 1;
            out[n++] = (struct xh_range){node->addr, node->len};
        }
    return n;
}

struct xh_chunkindex_plain xh_chunkindex_plain(const struct xh_chunkindex *ci)
{
    struct xh_chunkindex_plain p = {0};
    uint64_t most = 0;
    for (const struct xh_index *ix = ci->indexes; ix; ix = ix->next)
        if (ix->each_bytes != UINT64_MAX) {
            p.bytes += ix->whole_bytes;
            p.chunk_bytes = ix->whole_bytes > most ? ix->each_bytes : p.chunk_bytes;
            most = ix->whole_bytes > most ? ix->whole_bytes : most;
        }
    return p;
}

/* ---- places in indexes ---------------------------------------------------------------------------- */

struct xh_chunkindex_spot xh_chunkindex_spot(const struct xh_chunkindex *ci, struct xh_range r)
{
    const struct xh_chunk *c = ci->map.chunks ? xh_chunk_at(&ci->map, r.off) : NULL;
    if (!c)
        return (struct xh_chunkindex_spot){0, 0};
    return (struct xh_chunkindex_spot){c->seg->ix->addr, c->seg->first + (uint64_t)(c - c->seg->chunks)};
}

struct xh_range xh_chunkindex_at(const struct xh_chunkindex *ci, struct xh_chunkindex_spot s)
{
    const struct xh_index *ix = ci->indexes;
    while (ix && ix->addr != s.index)
        ix = ix->next;
    if (!ix || s.rank > INT64_MAX || xh_index_look(ix, (int64_t)s.rank) != XH_PLACE_CHUNK)
        return (struct xh_range){0, 0};
    const struct xh_chunk *c = xh_index_chunk(ix, s.rank);
    uint64_t len = c->size ? c->size : ix->each_bytes == UINT64_MAX ? 0 : ix->each_bytes;
    return (struct xh_range){c->addr, xh_min64(len, ci->map.size - c->addr)};
}

/* ---- for tests ------------------------------------------------------------------------------------ */

struct xh_chunkindex_held xh_chunkindex_held(const struct xh_chunkindex *ci)
{
    return (struct xh_chunkindex_held){ci->map.bytes, ci->map.nchunks};
}

int xh_chunkindex_find(const struct xh_chunkindex *ci, uint64_t addr, uint64_t *size, uint64_t *rank)
{
    const struct xh_chunk *c = xh_chunk_at(&ci->map, addr);
    if (!c || c->addr != addr)
        return 0;
    *size = c->size;
    *rank = c->seg->first + (uint64_t)(c - c->seg->chunks);
    return 1;
}
