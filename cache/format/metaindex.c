/* Which metadata will be needed next: see metaindex.h.
 *
 * A node is a known structure. Its states: WAITING -requested-> ASKED -its bytes are there-> PARSED; or WAITING -its
 * bytes are there-> PARSED. The nodes form a list in the order in which a walk through the whole file needs them: what
 * a node names follows it directly. So the nodes to request are those that wait behind the reader's position in the
 * list.
 *
 * Invariants 1. A place of the file is at most one node, so no loop in the file is followed twice.
 * 2. A node is parsed at most once.
 * 3. Every node is in the list. An ASKED node is also in |asked|.
 * 4. A finished node stays finished, and usually nothing is inserted behind it any more. Runs of such nodes are skipped
 * (|skip|). */
#include "metaindex.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "metaparse.h"

#define PAGE_BYTES 4096u /* unit in which requested and used bytes are counted */
#define NODES_MAX (1u << 17)
#define TABLE_FIRST 1024u /* entries; doubled when half full */
/* Most pages that are requested and not used yet. WINDOW_FIRST is what a program that opens one dataset may waste:
 * 384 KiB, 3 ms on a link of 1 Gbit/s, or the caller's spare bytes. The window grows by many pages for each page that
 * was used: a reader that follows a chain uses few at a time, although it will use all. */
#define WINDOW_FIRST 96u
#define WINDOW_GROWTH 32u
#define WINDOW_MAX 4096u
/* This many structures behind the reader's position are requested even when the window is full: requests made before
 * they were known must not delay them. */
#define NEXT_NODES 48u
/* The window is too small when the reader comes to a known structure before it is requested. Then the window grows, and
 * doubles if at least a quarter of the requested pages are used. */
#define LATE_GROWTH 32u
#define LATE_DOUBLES 64u
#define USED_QUARTER 4u
/* If structures usually lie this close behind the one that names them, this much is fetched with each. A header's
 * continuation, its values and its siblings then cost no extra round trip. */
#define TAIL_BYTES 16384u
#define TAIL_MEMORY 256u /* places that the estimate of "usually" is based on */
/* After DATA_READS small datasets are read, the others' data is requested too, like values. The window may then be
 * larger, because each of them would cost a round trip. */
#define DATA_READS 3u
#define DATA_MOST_BYTES 65536u
#define DATA_WINDOW_MAX 16384u
/* If a file has at most this many small datasets, of at most DATA_MOST_BYTES together, they are requested before the
 * first one is read. One example: the readers of a netCDF file read its coordinates one by one when they open it. */
#define DATA_FEW 16u
/* Chunk indexes are requested before the first chunk is read if they have at most this many nodes together. A program
 * that lists a file of many datasets does not read them, and a large index is fetched as it is read (ahead.c). */
#define INDEX_FEW 16u
#define INDEX_KNOWN_MAX 64u /* more nodes are not counted */
#define NONE UINT32_MAX
#define STRUCTURE_MAX (1u << 20) /* longer structures are not requested */
#define PARSES_MAX 256u /* bounds the time of one call, because other threads may wait for it */

enum state { WAITING, ASKED, PARSED };

struct node {
    uint64_t off, detail;
    uint32_t len, next; /* next in the list; NONE: it is the last */
    uint32_t skip;      /* valid if |era| is current and this node is finished: the first node behind it that was not */
    uint16_t era;
    uint8_t kind, state;
};

struct queue { /* of node indexes */
    uint32_t *at;
    size_t n, room;
};

struct table { /* open addressing; key 0 is an empty slot */
    uint64_t *key;
    uint32_t *value;
    size_t n, room; /* room is a power of two */
};

enum page_state { PAGE_ASKED = 1, PAGE_USED = 2 };

struct xh_metaindex {
    struct xh_meta_format format;
    int started, blind; /* started: the superblock was parsed; blind: none was found */
    struct node *node;
    size_t nodes, room;
    struct table known, pages;
    struct queue asked;
    uint32_t place; /* the node of the reader's latest position; NONE: before all */
    uint32_t first; /* first of the list */
    uint32_t parsing; /* the node whose structure is being parsed; NONE: the superblock */
    uint32_t after; /* new nodes are inserted behind this one; NONE: at the front */
    int fresh;      /* 1: nodes were added since the last look behind |place| */
    uint16_t era;   /* changes when a finished node may be unfinished, or may have something new behind it */
    uint64_t ahead, used; /* pages requested and not used; pages used */
    /* places found within TAIL_BYTES behind the structure that names them; places found elsewhere */
    unsigned near, far;
    unsigned data_reads;  /* small datasets that were read; counts up to DATA_READS */
    unsigned data_known;  /* small datasets known */
    uint64_t data_bytes;  /* their bytes in total */
    unsigned index_known; /* known nodes of chunk indexes */
    uint64_t late;        /* pages that the window grew by because the reader came first */
    uint8_t buf[XH_META_PARSE_MAX];
};

/* ---- tables and queues */

/* Returns the slot of |key|, or the empty slot for it. */
static size_t slot_of(const struct table *t, uint64_t key)
{
    size_t i = (size_t)((key + 1) * 0x9e3779b97f4a7c15u >> 32) & (t->room - 1);
    while (t->key[i] && t->key[i] != key + 1)
        i = (i + 1) & (t->room - 1);
    return i;
}

static int table_grow(struct table *t)
{
    struct table big = {.n = t->n, .room = t->room ? 2 * t->room : TABLE_FIRST};
    big.key = calloc(big.room, sizeof *big.key);
    big.value = malloc(big.room * sizeof *big.value);
    if (!big.key || !big.value) {
        free(big.key);
        free(big.value);
        return -1;
    }
    assert(!t->room || (t->key && t->value));
    for (size_t i = 0; i < t->room; i++)
        if (t->key[i]) {
            size_t k = slot_of(&big, t->key[i] - 1);
            big.key[k] = t->key[i];
            big.value[k] = t->value[i];
        }
    free(t->key);
    free(t->value);
    *t = big;
    return 0;
}

static uint32_t *table_get(const struct table *t, uint64_t key)
{
    size_t i = t->room ? slot_of(t, key) : 0;
    return t->room && t->key[i] ? &t->value[i] : NULL;
}

/* Returns the value of |key|, and adds it as |value| if it is new; NULL when out of memory. */
static uint32_t *table_put(struct table *t, uint64_t key, uint32_t value, int *new)
{
    uint32_t *there = table_get(t, key);
    *new = there == NULL;
    if (there)
        return there;
    if (2 * t->n >= t->room && table_grow(t))
        return NULL;
    assert(t->key && t->value);
    size_t i = slot_of(t, key);
    t->n++;
    t->key[i] = key + 1;
    t->value[i] = value;
    return &t->value[i];
}

static void table_clear(struct table *t)
{
    if (t->n)
        memset(t->key, 0, t->room * sizeof *t->key);
    t->n = 0;
}

static void queue_push(struct queue *q, uint32_t v)
{
    if (q->n == q->room) {
        size_t room = q->room ? 2 * q->room : 256;
        uint32_t *at = room > NODES_MAX ? NULL : realloc(q->at, room * sizeof *at);
        if (!at)
            return; /* then one structure is not tracked */
        q->at = at;
        q->room = room;
    }
    q->at[q->n++] = v;
}

struct xh_metaindex *xh_metaindex_new(uint64_t size)
{
    struct xh_metaindex *m = calloc(1, sizeof *m);
    if (m) {
        m->format.size = size;
        m->place = m->first = NONE;
        m->near = 1; /* the beginning of a file is usually dense */
    }
    return m;
}

void xh_metaindex_free(struct xh_metaindex *m)
{
    if (!m)
        return;
    free(m->node);
    free(m->known.key);
    free(m->known.value);
    free(m->pages.key);
    free(m->pages.value);
    free(m->asked.at);
    free(m);
}

/* ---- what is known */

static void forget(struct xh_metaindex *m)
{
    m->nodes = 0;
    table_clear(&m->known);
    table_clear(&m->pages);
    m->asked.n = 0;
    m->ahead = 0;
    m->place = m->first = NONE;
}

/* Adds a place behind node |m->after|, unless it is known. Returns its node's index, or NONE when there is no room. */
static uint32_t add(struct xh_metaindex *m, const struct xh_meta_place *p, int *new)
{
    *new = 0;
    if (m->nodes == m->room) {
        size_t room = m->room ? 2 * m->room : 1024;
        struct node *node = room > NODES_MAX ? NULL : realloc(m->node, room * sizeof *node);
        if (!node)
            return NONE;
        m->node = node;
        m->room = room;
    }
    uint32_t *at = table_put(&m->known, p->off, (uint32_t)m->nodes, new);
    if (!at || !*new)
        return at ? *at : NONE;
    uint32_t *link = m->after == NONE ? &m->first : &m->node[m->after].next;
    m->node[m->nodes] =
        (struct node){p->off, p->detail, p->len, *link, NONE, (uint16_t)(m->era - 1), (uint8_t)p->kind, WAITING};
    *link = m->after = (uint32_t)m->nodes++;
    m->fresh = 1;
    return *link;
}

static int on_found(void *ctx, const struct xh_meta_place *p)
{
    struct xh_metaindex *m = ctx;
    struct xh_meta_place data = *p;
    int new;
    if (p->kind == XH_META_DATA) {
        if (p->detail == 0 || p->detail > DATA_MOST_BYTES || p->detail > m->format.size - p->off)
            return 0;
        data.len = (uint32_t)p->detail;
        if (add(m, &data, &new) == NONE)
            return 1;
        m->data_known += new != 0;
        m->data_bytes += new ? data.len : 0;
        return 0;
    }
    if (p->kind == XH_META_INDEX) {
        if (m->index_known >= INDEX_KNOWN_MAX)
            return 0;
        if (add(m, p, &new) == NONE)
            return 1;
        m->index_known += new != 0;
        return 0;
    }
    if (add(m, p, &new) == NONE)
        return 1;
    if (new && m->parsing != NONE) {
        uint64_t from = m->node[m->parsing].off;
        if (p->off > from && p->off - from < TAIL_BYTES)
            m->near++;
        else
            m->far++;
        if (m->near + m->far > TAIL_MEMORY) {
            m->near /= 2;
            m->far /= 2;
        }
    }
    return 0;
}

static void parse(struct xh_metaindex *m, uint32_t i, const uint8_t *p)
{
    struct node n = m->node[i];
    struct xh_meta_place place = {n.off, n.len, (enum xh_meta_kind)n.kind, n.detail};
    m->node[i].state = PARSED;
    m->after = m->parsing = i;
    xh_meta_parse(&m->format, &place, p, n.len, on_found, m);
}

/* Parses node |i| if its bytes are there. Returns 1 then, else 0. */
static int try_parse(struct xh_metaindex *m, uint32_t i, xh_meta_look *look, void *ctx)
{
    const struct node *n = &m->node[i];
    if (n->len > sizeof m->buf || n->kind == XH_META_BYTES || n->kind == XH_META_DATA) {
        uint8_t last; /* names nothing: it is fetched, not parsed */
        if (!look(ctx, n->off, &last, 1) || !look(ctx, n->off + n->len - 1, &last, 1))
            return 0;
        m->node[i].state = PARSED;
        return 1;
    }
    if (!look(ctx, n->off, m->buf, n->len))
        return 0;
    parse(m, i, m->buf);
    return 1;
}

static void start(struct xh_metaindex *m, xh_meta_look *look, void *ctx)
{
    uint8_t head[128];
    for (uint64_t at = 0; at < m->format.size && at <= 1u << 20; at = at ? 2 * at : 512) {
        uint64_t left = m->format.size - at;
        size_t len = left < sizeof head ? (size_t)left : sizeof head;
        if (!look(ctx, at, head, len))
            return; /* its bytes are not there yet */
        m->after = m->parsing = NONE;
        if (xh_meta_superblock(head, len, at, m->format.size, &m->format, on_found, m)) {
            m->started = 1;
            return;
        }
    }
    m->blind = 1;
}

/* ---- where the reader is */

static void note_pages(struct xh_metaindex *m, struct xh_range r)
{
    for (uint64_t p = r.off / PAGE_BYTES, n = 0; p <= (r.off + r.len - 1) / PAGE_BYTES && n < 64; p++, n++) {
        uint32_t *state = table_get(&m->pages, p);
        if (state && *state == PAGE_ASKED) {
            *state = PAGE_USED;
            m->ahead -= m->ahead > 0;
            m->used++;
        }
    }
}

/* Handles a read of a place that no node names: HDF5 reads whole pages of this file, or the nodes were forgotten. */
static void note_unknown(struct xh_metaindex *m, struct xh_range r, xh_meta_look *look, void *ctx)
{
    struct xh_meta_place place;
    size_t len = r.len < sizeof m->buf ? (size_t)r.len : sizeof m->buf;
    int new;
    if (!look(ctx, r.off, m->buf, len) || !xh_meta_recognise(&m->format, r.off, m->buf, len, &place))
        return;
    m->after = m->place;
    uint32_t i = add(m, &place, &new);
    if (i == NONE) {
        forget(m);
        return;
    }
    m->place = i;
    if (new) {
        m->era++;
        parse(m, i, m->buf);
    }
}

static void grow_window(struct xh_metaindex *m)
{
    if (m->used * USED_QUARTER >= m->used + m->ahead)
        m->late += m->late + LATE_DOUBLES;
    else
        m->late += LATE_GROWTH;
    if (m->late > DATA_WINDOW_MAX)
        m->late = DATA_WINDOW_MAX;
}

static int wants_index(const struct xh_metaindex *m)
{
    return m->index_known <= INDEX_FEW;
}

void xh_metaindex_note(struct xh_metaindex *m, struct xh_range r, int meta, xh_meta_look *look, void *ctx)
{
    if (r.len == 0 || m->blind)
        return;
    note_pages(m, r);
    if (!m->started)
        return;
    uint32_t *at = table_get(&m->known, r.off);
    if (!at) {
        if (meta)
            note_unknown(m, r, look, ctx);
        return;
    }
    const struct node *n = &m->node[*at];
    if (n->kind == XH_META_DATA && !meta && m->data_reads < DATA_READS && ++m->data_reads == DATA_READS) {
        m->fresh = 1;
        m->era++;
    }
    if (n->kind != XH_META_BYTES) /* values are shared between objects, so they do not tell the reader's position */
        m->place = *at;
    if (n->state == WAITING && (n->kind != XH_META_INDEX || wants_index(m)))
        grow_window(m);
    if (n->state != PARSED)
        try_parse(m, *at, look, ctx);
}

/* ---- what to fetch */

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int reads_data(const struct xh_metaindex *m)
{
    return m->data_reads == DATA_READS;
}

static int wants_data(const struct xh_metaindex *m)
{
    return reads_data(m) || (m->data_known <= DATA_FEW && m->data_bytes <= DATA_MOST_BYTES);
}

static uint64_t window(const struct xh_metaindex *m, const struct xh_meta_limits *lim)
{
    uint64_t spare = lim->spare_bytes / PAGE_BYTES;
    uint64_t w = (spare > WINDOW_FIRST ? spare : WINDOW_FIRST) + WINDOW_GROWTH * m->used + m->late;
    return min64(w, reads_data(m) ? DATA_WINDOW_MAX : WINDOW_MAX);
}

/* Returns the pages of a node. In a file with pages of its own, whole pages of the file. */
static struct xh_range pages_of(const struct xh_metaindex *m, const struct node *n)
{
    uint64_t page = m->format.page_bytes > PAGE_BYTES ? m->format.page_bytes : PAGE_BYTES;
    uint64_t base = page > PAGE_BYTES ? m->format.base % page : 0;
    uint64_t from = n->off - (n->off >= base ? (n->off - base) % page : n->off);
    uint64_t end = n->off + n->len;
    if (m->near > m->far && n->kind != XH_META_BYTES && n->kind != XH_META_DATA && n->kind != XH_META_INDEX)
        end = n->off + (n->len > TAIL_BYTES ? n->len : TAIL_BYTES);
    uint64_t over = (end - from) % page;
    if (over)
        end += page - over;
    return (struct xh_range){from, min64(end, m->format.size) - from};
}

/* Marks the pages of |r| as requested. Returns 1 when one of them was not requested before. */
static int ask_pages(struct xh_metaindex *m, struct xh_range r)
{
    int any = 0, new;
    for (uint64_t p = r.off / PAGE_BYTES; p * PAGE_BYTES < r.off + r.len; p++) {
        uint32_t *state = table_put(&m->pages, p, PAGE_ASKED, &new);
        if (state && new) {
            any = 1;
            m->ahead++;
        }
    }
    return any;
}

/* Parses the requested nodes whose bytes are there. */
static void collect(struct xh_metaindex *m, xh_meta_look *look, void *ctx)
{
    size_t kept = 0, end = m->asked.n;
    for (size_t k = 0; k < end; k++) {
        uint32_t i = m->asked.at[k];
        if (m->node[i].state == ASKED && !try_parse(m, i, look, ctx))
            m->asked.at[kept++] = i;
    }
    m->asked.n = kept;
}

/* Returns 1 when node |i| needs no more work. */
static int is_done(const struct xh_metaindex *m, uint32_t i)
{
    const struct node *n = &m->node[i];
    return n->state == PARSED || (n->kind == XH_META_DATA && !wants_data(m)) ||
           (n->kind == XH_META_INDEX && !wants_index(m));
}

/* Returns the first unfinished node from |i| on; NONE: all are finished. */
static uint32_t skip_done(struct xh_metaindex *m, uint32_t i)
{
    uint32_t to = i, next;
    while (to != NONE && is_done(m, to))
        to = m->node[to].era == m->era ? m->node[to].skip : m->node[to].next;
    for (; i != to; i = next) { /* makes the next skip shorter */
        struct node *n = &m->node[i];
        next = n->era == m->era ? n->skip : n->next;
        n->skip = to;
        n->era = m->era;
    }
    return to;
}

/* Requests what waits behind the reader's position, until the window is full. */
static size_t take_behind(struct xh_metaindex *m, const struct xh_meta_limits *lim, xh_meta_look *look, void *ctx,
                          struct xh_range *out, size_t room)
{
    size_t n = 0, parses = 0;
    uint64_t most = min64(window(m, lim), m->ahead + lim->most_bytes / PAGE_BYTES);
    uint32_t i = m->place == NONE ? m->first : m->place;
    int around = reads_data(m) && m->place != NONE; /* a reader that picks datasets may also pick earlier ones */
    for (size_t far = 0; n < room && parses < PARSES_MAX; i = m->node[i].next) {
        int full = m->ahead >= most;
        i = full ? i : skip_done(m, i);
        if (i == NONE && around) {
            around = 0;
            i = full ? m->first : skip_done(m, m->first);
        }
        if (i == NONE || (full && (far >= NEXT_NODES || n >= NEXT_NODES)))
            break;
        if ((m->node[i].kind == XH_META_DATA && !wants_data(m)) ||
            (m->node[i].kind == XH_META_INDEX && !wants_index(m)))
            continue;
        far++;
        if (m->node[i].state != WAITING)
            continue;
        parses++;
        if (try_parse(m, i, look, ctx))
            continue; /* what it named comes next */
        m->node[i].state = ASKED;
        queue_push(&m->asked, i);
        struct xh_range r = pages_of(m, &m->node[i]);
        if (m->node[i].len <= STRUCTURE_MAX && ask_pages(m, r))
            out[n++] = r;
    }
    m->fresh = i != NONE && m->ahead < window(m, lim);
    return n;
}

size_t xh_metaindex_next(struct xh_metaindex *m, int arrived, const struct xh_meta_limits *lim, xh_meta_look *look,
                         void *ctx, struct xh_range *out, size_t room)
{
    if (!m->started && !m->blind)
        start(m, look, ctx);
    if (!m->started)
        return 0;
    if (arrived)
        collect(m, look, ctx);
    /* The window is refilled when a quarter of it is free, so that requests carry many ranges. */
    if (!m->fresh && !arrived && m->ahead + window(m, lim) / 4 > window(m, lim))
        return 0;
    return xh_ranges_join(out, take_behind(m, lim, look, ctx, out, room), lim->gap_bytes);
}
