/* Which metadata will be needed next: see metaindex.h.
 *
 * A node is a known structure. Its states: WAITING -requested-> ASKED -its bytes are there-> PARSED; or WAITING -its
 * bytes are there-> PARSED. The nodes form a list in the order in which a walk through the whole file needs them: what
 * a node names follows it directly. So the nodes to request are those that wait behind the reader's position in the
 * list.
 *
 * Invariants 1. A place of the file is at most one node, so no loop in the file is followed twice.
 * 2. A node is parsed at most once; one of a chunk index once more when the indexes become wanted.
 * 3. Every node is in the list. An ASKED node is also in |asked|.
 * 4. A finished node stays finished, and usually nothing is inserted behind it any more. Runs of such nodes are skipped
 * (|skip|). */
#include "metaindex.h"

#include <stdlib.h>

#include "base/table.h"
#include "metaparse.h"

#define NODES_MAX (1u << 17)
/* Most pages that are requested and not used yet. WINDOW_FIRST is what a program that opens one dataset may waste:
 * 384 KiB, 3 ms on a link of 1 Gbit/s, or the caller's spare bytes. The window grows by many pages for each page that
 * was used: a reader that follows a chain uses few at a time, although it will use all. */
#define WINDOW_FIRST 96u
#define WINDOW_GROWTH 32u
#define WINDOW_MAX 4096u
/* This many structures behind the reader's position are requested even when the window is full: requests made before
 * they were known must not delay them. */
#define NEXT_NODES 48u
/* A reader that has read so many small datasets, or nodes of chunk indexes, most likely reads the others too, in any
 * order. They are requested then, many at once, as each of them would cost a round trip. */
#define READS_SURE 3u
/* So few small datasets, or nodes of chunk indexes, are requested before the first one is read. The readers of a netCDF
 * file, for example, read its coordinates one by one when they open it. A program that lists a file of many datasets
 * reads no chunk; a large index is fetched as it is read (layouts.c). */
#define FEW 16u
/* A reader that reads the same few objects in each group, as one signal of 25, will hardly read the others in the next
 * groups. It shows that by as many groups in which it read nothing new, if that is at most half of what they hold. */
#define GROUPS_SURE 2u
#define LINKS_MOST 32u  /* names of objects that are read in each group: a reader of more reads all */
#define DEPTH_MOST 16u  /* groups in groups; of what lies deeper nothing is left out */
#define DATA_MOST_BYTES 65536u  /* of a small dataset; of all of them, where they are requested before a read */
#define DATA_WINDOW_MAX 16384u  /* pages: as WINDOW_MAX, while the reader reads small datasets */
#define INDEX_KNOWN_MAX 64u     /* more nodes of chunk indexes are not kept before READS_SURE of them were read */
#define STRUCTURE_MAX (1u << 20) /* longer structures are not requested */
#define PARSES_MAX 256u /* bounds the time of one call, because other threads may wait for it */

enum state { WAITING, ASKED, PARSED };

struct node {
    uint64_t off, detail;
    struct node *next; /* in the list; NULL: it is the last */
    struct node *skip; /* valid if |era| is current and this node is finished: the first node behind it that was not */
    struct node *prev_asked, *next_asked; /* in |asked| */
    struct node *header; /* of a header: that of its group; of others: that which they belong to; NULL: not known */
    uint32_t len, link;  /* link: of a header: stands for its name in its group */
    uint16_t era;
    uint8_t kind, state;
    uint8_t depth; /* of a header: groups above it */
    UT_hash_handle hh; /* by |off| */
};

/* What is read of the groups at one depth. */
struct habit {
    const struct node *group, *known_in; /* those that were last read in, and in which something became known */
    unsigned groups, fresh;              /* groups that were read in; so many at the last object of a new name */
    unsigned n;                          /* names of what was read; above LINKS_MOST: many */
    uint32_t links[LINKS_MOST];          /* they */
    uint64_t known, known_groups;        /* objects that are known, read or not, and in how many groups */
    int only;                            /* 1: only what has one of these names is wanted */
};
enum { HEADERS, DATA, WHATS };

#define STRETCH_PAGES 64u
struct stretch { /* pages from number * STRETCH_PAGES on, a bit each */
    uint64_t number, asked, used; /* used: of those that were asked for */
    UT_hash_handle hh;            /* by |number| */
};

struct xh_metaindex {
    struct xh_meta_format format;
    int started, blind; /* started: the superblock was parsed; blind: none was found */
    struct node *known; /* all nodes, by their place */
    struct stretch *pages;
    struct node *asked;
    struct node *place;   /* the node of the reader's latest position; NULL: before all */
    struct node *first;   /* first of the list */
    struct node *after;   /* new nodes are inserted behind this one; NULL: at the front */
    struct node *from;    /* the node that is parsed; NULL: the superblock */
    struct node *child;   /* the header that it named last */
    struct habit habits[WHATS][DEPTH_MOST]; /* by the depth of a header */
    int fresh;      /* 1: nodes were added since the last look behind |place| */
    uint16_t era;   /* changes when a finished node may be unfinished, or may have something new behind it */
    uint64_t ahead, used; /* pages requested and not used; pages used */
    unsigned data_reads;  /* small datasets that were read; counts up to READS_SURE */
    unsigned data_known;  /* small datasets known */
    uint64_t data_bytes;  /* their bytes in total */
    unsigned index_known; /* known nodes of chunk indexes; counts up to INDEX_KNOWN_MAX while they are not wanted */
    unsigned index_reads; /* nodes of chunk indexes that were read; counts up to READS_SURE */
    uint8_t buf[XH_META_PARSE_MAX];
};

struct xh_metaindex *xh_metaindex_new(uint64_t size)
{
    struct xh_metaindex *m = calloc(1, sizeof *m);
    if (m) {
        m->format.size = size;
    }
    return m;
}

static void forget(struct xh_metaindex *m)
{
    struct node *n, *behind;
    struct stretch *s = m->pages, *next;
    HASH_CLEAR(hh, m->known);
    LL_FOREACH_SAFE (m->first, n, behind)
        free(n);
    HASH_CLEAR(hh, m->pages);
    for (; s; s = next) {
        next = s->hh.next;
        free(s);
    }
    m->asked = m->place = m->first = m->after = m->from = m->child = NULL;
    m->ahead = 0;
    for (unsigned i = 0; i < DEPTH_MOST; i++)
        for (unsigned what = 0; what < WHATS; what++)
            m->habits[what][i].group = m->habits[what][i].known_in = NULL;
}

void xh_metaindex_free(struct xh_metaindex *m)
{
    if (!m)
        return;
    forget(m);
    free(m);
}

/* ---- habits */

/* Returns the habit that |n| falls under, and sets |*header| to the header that it is or belongs to; NULL: none. */
static struct habit *habit_of(struct xh_metaindex *m, const struct node *n, const struct node **header)
{
    const struct node *h = n->kind == XH_META_DATA ? n->header : n;
    if ((n->kind != XH_META_DATA && n->kind != XH_META_HEADER) || !h || !h->header || h->depth >= DEPTH_MOST)
        return NULL;
    *header = h;
    return &m->habits[n->kind == XH_META_DATA ? DATA : HEADERS][h->depth];
}

static int has_link(const struct habit *b, uint32_t link)
{
    for (unsigned i = 0; i < b->n && i < LINKS_MOST; i++)
        if (b->links[i] == link)
            return 1;
    return 0;
}

static void note_known(struct xh_metaindex *m, const struct node *n)
{
    const struct node *h;
    struct habit *b = habit_of(m, n, &h);
    if (!b)
        return;
    b->known++;
    b->known_groups += b->known_in != h->header;
    b->known_in = h->header;
}

static void note_habit(struct xh_metaindex *m, const struct node *n)
{
    const struct node *h;
    struct habit *b = habit_of(m, n, &h);
    if (!b)
        return;
    int was = b->only, new = !has_link(b, h->link);
    b->groups += b->group != h->header;
    b->group = h->header;
    if (new) {
        if (b->n < LINKS_MOST)
            b->links[b->n] = h->link;
        b->n += b->n <= LINKS_MOST;
        b->fresh = b->groups;
    }
    b->only = b->n <= LINKS_MOST && b->groups - b->fresh >= GROUPS_SURE && 2 * b->n * b->known_groups <= b->known;
    if (b->only != was || (was && new)) {
        m->fresh = 1;
        m->era++;
    }
}

/* Returns 1 when the reader leaves out what |n| is. */
static int is_left_out(struct xh_metaindex *m, const struct node *n)
{
    const struct node *h;
    const struct habit *b = habit_of(m, n, &h);
    return b && b->only && !has_link(b, h->link);
}

/* ---- what is known */

static struct node *node_at(const struct xh_metaindex *m, uint64_t off)
{
    struct node *n;
    HASH_FIND(hh, m->known, &off, sizeof off, n);
    return n;
}

/* Adds a place behind node |m->after|, unless it is known. Returns its node, or NULL when there is no room. */
static struct node *add(struct xh_metaindex *m, const struct xh_meta_place *p, int *new)
{
    struct node *n = node_at(m, p->off), **link = m->after ? &m->after->next : &m->first;
    *new = 0;
    if (n || HASH_COUNT(m->known) >= NODES_MAX || !(n = malloc(sizeof *n)))
        return n;
    struct node *from = p->linked && p->kind != XH_META_HEADER ? m->child : m->from;
    *n = (struct node){.off = p->off, .detail = p->detail, .next = *link, .len = p->len, .era = (uint16_t)(m->era - 1),
                       .kind = (uint8_t)p->kind, .state = WAITING, .link = p->link};
    n->header = from && from->kind != XH_META_HEADER ? from->header : from;
    n->depth = n->header ? (uint8_t)(n->header->depth + (n->header->depth < UINT8_MAX)) : 0;
    HASH_ADD(hh, m->known, off, sizeof n->off, n);
    if (!xh_in_table(n)) {
        free(n);
        return NULL;
    }
    *link = m->after = n;
    m->fresh = *new = 1;
    note_known(m, n);
    return n;
}

static int reads_index(const struct xh_metaindex *m)
{
    return m->index_reads == READS_SURE;
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
        if (!add(m, &data, &new))
            return 1;
        m->data_known += new != 0;
        m->data_bytes += new ? data.len : 0;
        return 0;
    }
    if (p->kind == XH_META_INDEX) {
        if (m->index_known >= INDEX_KNOWN_MAX && !reads_index(m))
            return 0;
        if (!add(m, p, &new))
            return 1;
        m->index_known += new != 0;
        return 0;
    }
    struct node *n = add(m, p, &new);
    m->child = n && p->kind == XH_META_HEADER ? n : m->child;
    return !n;
}

static void parse(struct xh_metaindex *m, struct node *n, const uint8_t *p)
{
    struct xh_meta_place place = {.off = n->off, .len = n->len, .kind = (enum xh_meta_kind)n->kind,
                                  .detail = n->detail};
    n->state = PARSED;
    m->after = m->from = n;
    m->child = NULL;
    xh_meta_parse(&m->format, &place, p, n->len, on_found, m);
    m->from = m->child = NULL;
}

/* Parses |n| if its bytes are there. Returns 1 then, else 0. */
static int try_parse(struct xh_metaindex *m, struct node *n, xh_meta_look *look, void *ctx)
{
    if (n->len > sizeof m->buf || n->kind == XH_META_BYTES || n->kind == XH_META_DATA) {
        uint8_t last; /* names nothing: it is fetched, not parsed */
        if (!look(ctx, n->off, &last, 1) || !look(ctx, n->off + n->len - 1, &last, 1))
            return 0;
        n->state = PARSED;
        return 1;
    }
    if (!look(ctx, n->off, m->buf, n->len))
        return 0;
    parse(m, n, m->buf);
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
        m->after = NULL;
        if (xh_meta_superblock(head, len, at, m->format.size, &m->format, on_found, m)) {
            m->started = 1;
            return;
        }
    }
    m->blind = 1;
}

/* ---- where the reader is */

static struct stretch *stretch_of(const struct xh_metaindex *m, uint64_t page)
{
    struct stretch *s;
    uint64_t number = page / STRETCH_PAGES;
    HASH_FIND(hh, m->pages, &number, sizeof number, s);
    return s;
}

static uint64_t bit_of(uint64_t page)
{
    return UINT64_C(1) << page % STRETCH_PAGES;
}

static void note_pages(struct xh_metaindex *m, struct xh_range r)
{
    for (uint64_t p = r.off / XH_PAGE_BYTES, n = 0; p <= (r.off + r.len - 1) / XH_PAGE_BYTES && n < 64; p++, n++) {
        struct stretch *s = stretch_of(m, p);
        if (s && s->asked & ~s->used & bit_of(p)) {
            s->used |= bit_of(p);
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
    struct node *n = add(m, &place, &new);
    if (!n) {
        forget(m);
        return;
    }
    m->place = n;
    if (new) {
        m->era++;
        parse(m, n, m->buf);
    }
}

static int wants_index(const struct xh_metaindex *m)
{
    return m->index_known <= FEW || reads_index(m);
}

/* Chunk indexes are wanted from now on. Their parsed nodes are parsed once more, as not all children were kept. */
static void want_index(struct xh_metaindex *m)
{
    struct node *n;
    LL_FOREACH (m->first, n)
        if (n->kind == XH_META_INDEX && n->state == PARSED)
            n->state = WAITING;
    m->fresh = 1;
    m->era++;
}

void xh_metaindex_note(struct xh_metaindex *m, struct xh_range r, int meta, xh_meta_look *look, void *ctx)
{
    if (r.len == 0 || m->blind)
        return;
    note_pages(m, r);
    if (!m->started)
        return;
    struct node *n = node_at(m, r.off);
    if (!n) {
        if (meta)
            note_unknown(m, r, look, ctx);
        return;
    }
    if (n->kind == XH_META_DATA && !meta && m->data_reads < READS_SURE && ++m->data_reads == READS_SURE) {
        m->fresh = 1;
        m->era++;
    }
    if (n->kind == XH_META_INDEX && meta && m->index_reads < READS_SURE && ++m->index_reads == READS_SURE)
        want_index(m);
    if (meta == (n->kind == XH_META_HEADER))
        note_habit(m, n);
    if (n->kind != XH_META_BYTES) /* values are shared between objects, so they do not tell the reader's position */
        m->place = n;
    if (n->state != PARSED)
        try_parse(m, n, look, ctx);
}

/* ---- what to fetch */

static int reads_data(const struct xh_metaindex *m)
{
    return m->data_reads == READS_SURE;
}

static int wants_data(const struct xh_metaindex *m)
{
    return reads_data(m) || (m->data_known <= FEW && m->data_bytes <= DATA_MOST_BYTES);
}

static uint64_t window(const struct xh_metaindex *m, const struct xh_meta_limits *lim)
{
    uint64_t spare = lim->spare_bytes / XH_PAGE_BYTES;
    uint64_t w = (spare > WINDOW_FIRST ? spare : WINDOW_FIRST) + WINDOW_GROWTH * m->used;
    return xh_min64(w, reads_data(m) ? DATA_WINDOW_MAX : WINDOW_MAX);
}

/* Returns the pages of a node. In a file with pages of its own, whole pages of the file. */
static struct xh_range pages_of(const struct xh_metaindex *m, const struct node *n)
{
    uint64_t page = m->format.page_bytes > XH_PAGE_BYTES ? m->format.page_bytes : XH_PAGE_BYTES;
    uint64_t base = page > XH_PAGE_BYTES ? m->format.base % page : 0;
    uint64_t from = n->off - (n->off >= base ? (n->off - base) % page : n->off);
    uint64_t end = n->off + n->len;
    uint64_t over = (end - from) % page;
    if (over)
        end += page - over;
    return (struct xh_range){from, xh_min64(end, m->format.size) - from};
}

/* Marks |page| as requested. Returns 1 when it was not before. */
static int ask_page(struct xh_metaindex *m, uint64_t page)
{
    struct stretch *s = stretch_of(m, page);
    if (!s && (s = calloc(1, sizeof *s))) {
        s->number = page / STRETCH_PAGES;
        HASH_ADD(hh, m->pages, number, sizeof s->number, s);
        if (!xh_in_table(s)) {
            free(s);
            return 0;
        }
    }
    if (!s || s->asked & bit_of(page))
        return 0;
    s->asked |= bit_of(page);
    m->ahead++;
    return 1;
}

/* Marks the pages of |r| as requested. Returns 1 when one of them was not requested before. */
static int ask_pages(struct xh_metaindex *m, struct xh_range r)
{
    int any = 0;
    for (uint64_t p = r.off / XH_PAGE_BYTES; p * XH_PAGE_BYTES < r.off + r.len; p++)
        any |= ask_page(m, p);
    return any;
}

/* Parses the requested nodes whose bytes are there. */
static void collect(struct xh_metaindex *m, xh_meta_look *look, void *ctx)
{
    struct node *n, *next;
    DL_FOREACH_SAFE2 (m->asked, n, next, next_asked)
        if (n->state != ASKED || try_parse(m, n, look, ctx))
            DL_DELETE2(m->asked, n, prev_asked, next_asked);
}

/* Returns 1 when |n| needs no more work. */
static int is_done(struct xh_metaindex *m, const struct node *n)
{
    return n->state == PARSED || (n->kind == XH_META_DATA && !wants_data(m)) ||
           (n->kind == XH_META_INDEX && !wants_index(m)) || is_left_out(m, n);
}

/* Returns the first unfinished node from |n| on; NULL: all are finished. */
static struct node *skip_done(struct xh_metaindex *m, struct node *n)
{
    struct node *to = n, *next;
    while (to && is_done(m, to))
        to = to->era == m->era ? to->skip : to->next;
    for (; n != to; n = next) { /* makes the next skip shorter */
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
    uint64_t most = xh_min64(window(m, lim), m->ahead + lim->most_bytes / XH_PAGE_BYTES);
    struct node *i = m->place ? m->place : m->first;
    /* A reader that picks datasets or chunks may also pick earlier ones. */
    int around = (reads_data(m) || reads_index(m)) && m->place;
    for (size_t far = 0; n < room && parses < PARSES_MAX; i = i->next) {
        int full = m->ahead >= most;
        i = full ? i : skip_done(m, i);
        if (!i && around) {
            around = 0;
            i = full ? m->first : skip_done(m, m->first);
        }
        if (!i || (full && (far >= NEXT_NODES || n >= NEXT_NODES)))
            break;
        if ((i->kind == XH_META_DATA && !wants_data(m)) || (i->kind == XH_META_INDEX && !wants_index(m)) ||
            is_left_out(m, i))
            continue;
        far++;
        if (i->state != WAITING)
            continue;
        parses++;
        if (try_parse(m, i, look, ctx))
            continue; /* what it named comes next */
        i->state = ASKED;
        DL_APPEND2(m->asked, i, prev_asked, next_asked);
        struct xh_range r = pages_of(m, i);
        if (i->len <= STRUCTURE_MAX && ask_pages(m, r))
            out[n++] = r;
    }
    m->fresh = i && m->ahead < window(m, lim);
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
