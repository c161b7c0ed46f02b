/* What comes from the origin goes to the disk: into blocks of memory, and from there by one thread of the process.
 *
 * A block is a run of bytes that begins at a page and ends at BLOCK_BYTES' next multiple. It is open while it waits
 * for the bytes that follow, then queued with whole pages, then written. Where transfers meet within a page, what came
 * of it waits apart (struct piece). Blocks that nothing was added to for a while are queued as they are, and so is the
 * oldest of too many: a connection that is ahead of the others leaves one behind each stripe.
 *
 * Invariants
 * 1. An engine thread that brings bytes copies them and takes the lock, no more. All that may wait for the disk is done
 *    by the writing thread: its claims too.
 * 2. Blocks have room for MEMORY_BYTES at most. When the link is faster than the disk, data is passed over by
 *    regions of the file, and counted: each hole is a request to the next reader, and many small ones, beside what the
 *    disk has, cost more than the disk saves. Regions that begin while there is little room are passed over as a whole,
 *    until there is much again. What finds no room all the same is passed over as it comes.
 * 3. A block has a reference to its struct xh_disk, so the file may be closed before it is written.
 * 4. A fork's child has no blocks: they are its parent's to write.
 *
 * Lock: |lock|, of this file; no other is taken under it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/table.h"
#include "base/thread.h"
#include "base/waits.h"
#include "disk.h"
#include "impl.h"
#include "watch/trace.h"

#define MEMORY_BYTES (UINT64_C(64) << 20) /* of all blocks of the process */
#define CLOSE_MS 5000u           /* longest wait of a file that is closed */
#define BLOCK_BYTES (64u << 10)  /* one write; 64 KiB to 1 MiB take the same of the processor (docs/decisions.md) */
#define OPEN_MOST 128u           /* open blocks: more than connections bring side by side; 8 MiB */
#define PIECES_MOST 256u         /* some for each connection; they are replaced in turn */
#define REGION_BYTES (16u << 20) /* passed over as a whole */
#define REGIONS 64u              /* that are remembered: more than a stream's connections are in at a time */
#define FULL_BYTES (MEMORY_BYTES / 4 * 3) /* from so much on that waits, regions that begin are passed over */
#define FREE_BYTES (MEMORY_BYTES / 4)     /* until it is so much */
#define BUSY_MS 100              /* a page that another process writes for longer counts as passed over */
/* After so long without more bytes an open block is written as it is; and a slow link's region is not passed over for
 * longer, as there may be room again. */
#define STALE_NS 1000000000u

struct block {
    struct block *next, *prev;
    struct xh_disk *d;
    uint64_t from, end; /* [from, end) is here */
    uint64_t touched_ns;
    int meta;
    uint32_t room_bytes; /* BLOCK_BYTES; less once it is queued with little in it */
    uint8_t bytes[];
};

/* A piece of a page, where two transfers meet in it: its end, before its beginning has come; or its beginning, once its
 * block is queued. */
struct piece {
    struct xh_disk *d; /* NULL: none */
    uint64_t from, end;
};

/* Whether the region |index| of a file is passed over. */
struct region {
    const struct xh_disk *d; /* NULL: none */
    uint64_t index, until_ns;
    int passed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work, done; /* there is something to write; a block was written, or given up */
static struct block *opened, *queue;
static struct block *writing; /* NULL: none */
static unsigned nopened;
static uint64_t held_bytes;   /* room of all blocks */
static int running;           /* the thread is there */
static int stands;            /* a file was closed in vain, and nothing was written since: the next ones do not wait */
static struct piece pieces[PIECES_MOST];
static uint8_t (*piece_bytes)[XH_PAGE_BYTES]; /* as many; apart, as all pieces are looked through. NULL: none yet */
static unsigned next_piece;   /* which is replaced next */
static int full;              /* regions that begin are passed over */
static struct region regions[REGIONS]; /* each has its place, and replaces what is there */

/* ---- blocks. The lock is held. */

static struct block *block_new(struct xh_disk *d, uint64_t from, int meta)
{
    struct block *b = held_bytes + BLOCK_BYTES <= MEMORY_BYTES ? malloc(sizeof *b + BLOCK_BYTES) : NULL;
    if (!b)
        return NULL;
    b->room_bytes = BLOCK_BYTES;
    b->d = d;
    b->from = b->end = from;
    b->touched_ns = xh_now_ns();
    b->meta = meta;
    d->refs++;
    d->blocks++;
    held_bytes += BLOCK_BYTES;
    DL_APPEND(opened, b);
    if (nopened++ == 0)
        pthread_cond_signal(&work); /* the thread looks after open blocks from now on */
    return b;
}

/* |b| is in no list. Pages that come one by one would take a whole block each while they wait for the disk: returns a
 * small one with what is in |b|, which is freed; or |b|, where that does not pay, or without memory. */
static struct block *block_shrink(struct block *b)
{
    uint64_t len = b->end - b->from;
    struct block *small = len <= BLOCK_BYTES / 2 ? malloc(sizeof *b + len) : NULL;
    if (!small)
        return b;
    memcpy(small, b, sizeof *b + len);
    small->room_bytes = (uint32_t)len;
    held_bytes -= BLOCK_BYTES - len;
    free(b);
    return small;
}

/* |b| is in no list any more. Returns its disk cache if that is to be freed now, without the lock. */
static struct xh_disk *block_free(struct block *b)
{
    struct xh_disk *d = b->d;
    held_bytes -= b->room_bytes;
    d->blocks--;
    free(b);
    pthread_cond_broadcast(&done);
    return --d->refs == 0 ? d : NULL;
}

static void disk_free(struct xh_disk *d)
{
    if (!d)
        return;
    xh_shadow_close(d->store);
    free(d);
}

static void passed_over(struct xh_disk *d, uint64_t bytes)
{
    atomic_fetch_add_explicit(&d->passed, bytes, memory_order_relaxed);
}

/* Where the last whole page before |end| ends. */
static uint64_t whole(const struct xh_disk *d, uint64_t end)
{
    return end == d->size ? end : end / XH_PAGE_BYTES * XH_PAGE_BYTES;
}

/* The open block that has |off|, or goes on there; NULL: none. */
static struct block *block_at(const struct xh_disk *d, uint64_t off)
{
    struct block *b;
    DL_FOREACH (opened, b)
        if (b->d == d && b->from <= off && off <= b->end)
            return b;
    return NULL;
}

/* The piece that has |off|, or with |goes_on| goes on there in the same page; NULL: none. */
static struct piece *piece_at(const struct xh_disk *d, uint64_t off, int goes_on)
{
    uint64_t least_end = off + !(goes_on && off % XH_PAGE_BYTES);
    for (struct piece *p = pieces; p < pieces + PIECES_MOST; p++)
        if (p->d == d && p->from <= off && p->end >= least_end)
            return p;
    return NULL;
}

static uint8_t *bytes_of(const struct piece *p)
{
    return piece_bytes[p - pieces];
}

/* A piece to be filled, or NULL without memory. Replaces one where none is free: when blocks had no room, or a transfer
 * ended early, the rest of some never comes. */
static struct piece *piece_new(void)
{
    if (!piece_bytes && !(piece_bytes = malloc(PIECES_MOST * sizeof *piece_bytes)))
        return NULL;
    struct piece *p = pieces;
    while (p < pieces + PIECES_MOST && p->d)
        p++;
    if (p == pieces + PIECES_MOST) {
        p = &pieces[next_piece++ % PIECES_MOST];
        passed_over(p->d, p->end - p->from);
    }
    return p;
}

static void queue_up(struct block *b)
{
    DL_DELETE(opened, b);
    nopened--;
    b = block_shrink(b);
    DL_APPEND(queue, b);
    pthread_cond_signal(&work);
}

/* All of its page has come to the piece |p|. */
static void queue_piece(struct piece *p, int meta)
{
    struct block *b = block_new(p->d, p->from, meta);
    if (b) {
        memcpy(b->bytes, bytes_of(p), (size_t)(p->end - p->from));
        b->end = p->end;
        queue_up(b);
    } else {
        passed_over(p->d, p->end - p->from);
    }
    p->d = NULL;
}

/* Keeps [off, off + len), of one page, until the rest of that page comes. */
static void keep_piece(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta)
{
    struct piece *p = piece_at(d, off, 1), *next;
    if (!p) {
        if (!(p = piece_new())) {
            passed_over(d, len);
            return;
        }
        *p = (struct piece){d, off, off};
    }
    if (off + len <= p->end)
        return; /* it has come before */
    memcpy(bytes_of(p) + off % XH_PAGE_BYTES, data, len);
    p->end = off + len;
    while (p->end % XH_PAGE_BYTES && (next = piece_at(d, p->end, 0)) != NULL) {
        memcpy(bytes_of(p) + p->end % XH_PAGE_BYTES, bytes_of(next) + p->end % XH_PAGE_BYTES,
               (size_t)(next->end - p->end));
        p->end = next->end;
        next->d = NULL;
    }
    if (p->from % XH_PAGE_BYTES == 0 && whole(d, p->end) == p->end)
        queue_piece(p, meta);
}

/* Queues the open block |b|. What it has of one more page becomes a piece. */
static void put_in_queue(struct block *b)
{
    uint64_t to = whole(b->d, b->end);
    if (to < b->end)
        keep_piece(b->d, to, b->bytes + (to - b->from), (size_t)(b->end - to), b->meta);
    b->end = to;
    queue_up(b);
}

/* Whether the region of |off| is passed over: as was decided when it began. */
static int is_passed(const struct xh_disk *d, uint64_t off)
{
    uint64_t index = off / REGION_BYTES, now = xh_now_ns();
    struct region *r = &regions[(index + (uintptr_t)d / sizeof *d) % REGIONS]; /* files begin at different places */
    if (r->d != d || r->index != index || now >= r->until_ns) {
        full = held_bytes > (full ? FREE_BYTES : FULL_BYTES);
        *r = (struct region){d, index, now + STALE_NS, full};
    }
    return r->passed;
}

/* A file is closed: forgets its regions, as another one may come to lie at |d|, and moves its pieces to |out|, of
 * PIECES_MOST. Returns how many. */
static size_t take_pieces(const struct xh_disk *d, struct piece *out)
{
    size_t n = 0;
    for (struct region *r = regions; r < regions + REGIONS; r++)
        r->d = r->d == d ? NULL : r->d;
    for (struct piece *p = pieces; p < pieces + PIECES_MOST; p++)
        if (p->d == d) {
            out[n++] = *p;
            p->d = NULL;
        }
    return n;
}

/* [off, off + len) lies in one block. */
static void keep(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta)
{
    struct block *b = block_at(d, off);
    struct piece *p;
    int met = 0;
    if (!b) { /* from the next page on: of this one the beginning is missing */
        size_t skip = (size_t)(-off % XH_PAGE_BYTES);
        if (skip)
            keep_piece(d, off, data, skip < len ? skip : len, meta);
        if (skip >= len)
            return;
        if (nopened >= OPEN_MOST)
            put_in_queue(opened); /* the oldest */
        off += skip;
        data += skip;
        len -= skip;
        b = block_new(d, off, meta);
    }
    if (!b) {
        passed_over(d, len);
        return;
    }
    if (off + len <= b->end)
        return; /* it has come before */
    memcpy(b->bytes + (off - b->from), data, len);
    b->end = off + len;
    b->touched_ns = xh_now_ns();
    while (b->end % XH_PAGE_BYTES && (p = piece_at(d, b->end, 0)) != NULL) {
        memcpy(b->bytes + (b->end - b->from), bytes_of(p) + b->end % XH_PAGE_BYTES, (size_t)(p->end - b->end));
        b->end = p->end;
        p->d = NULL;
        met = 1;
    }
    /* Behind a piece, what follows has come already, to another block. */
    if (b->end % BLOCK_BYTES == 0 || b->end == d->size || (met && b->end % XH_PAGE_BYTES == 0))
        put_in_queue(b);
}

/* ---- the thread */

/* Counts a part of a page that is not written. Another transfer may have brought all of the page. Without the lock. */
static void part_lost(struct xh_disk *d, uint64_t from, uint64_t end)
{
    if (xh_shadow_peek(d->store, from / XH_PAGE_BYTES) == XH_CLAIM_READY)
        return;
    xh_trace(XH_T_SHADOW, "disk-part", "off=%llu bytes=%llu", (unsigned long long)from,
             (unsigned long long)(end - from));
    passed_over(d, end - from);
}

/* Claims page |p|. A claim that a process left which has died, perhaps in another boot, is taken over. For others
 * |wait_ms| at most: another process is writing the page, or it is being evicted. */
static enum xh_claim claim(struct xh_shadow *s, uint64_t p, int meta, int wait_ms)
{
    enum xh_claim c = xh_shadow_claim(s, p, meta, NULL);
    if (c == XH_CLAIM_BUSY && xh_shadow_doze(s, p, wait_ms, NULL) == 0)
        c = xh_shadow_claim(s, p, meta, NULL);
    return c;
}

/* Writes the pages of [from, to) that the disk lacks, and that nobody else writes. Both are at a page's beginning, or
 * |to| is the end of the file. Without the lock. */
static void write_pages(struct xh_disk *d, uint64_t from, uint64_t to, const uint8_t *data, int meta)
{
    struct xh_shadow *s = d->store;
    uint64_t end = xh_page_up(to), n;
    for (uint64_t p = from / XH_PAGE_BYTES; p < end; p += n + (n == 0)) {
        uint64_t off = p * XH_PAGE_BYTES, bytes;
        enum xh_claim c = XH_CLAIM_MINE;
        /* Who has claims waits for nobody: else two processes might wait for each other. */
        for (n = 0; p + n < end && (c = claim(s, p + n, meta, n ? 0 : BUSY_MS)) == XH_CLAIM_MINE;)
            n++;
        bytes = (p + n) * XH_PAGE_BYTES < to ? n * XH_PAGE_BYTES : to - off;
        if (n == 0 && (c == XH_CLAIM_NONE || c == XH_CLAIM_BUSY)) {
            xh_trace(XH_T_SHADOW, "disk-unclaimed", "off=%llu claim=%d", (unsigned long long)off, (int)c);
            passed_over(d, off + XH_PAGE_BYTES < to ? XH_PAGE_BYTES : to - off);
        } else if (n && xh_shadow_fill(s, off, data + (off - from), (size_t)bytes)) {
            xh_shadow_abandon(s, p, n);
            passed_over(d, bytes);
        } else if (n) {
            xh_shadow_publish(s, p, n, NULL);
            atomic_fetch_add_explicit(&d->stored, bytes, memory_order_relaxed);
        }
    }
}

/* Queues the open blocks that wait in vain. The lock is held. */
static void queue_stale(void)
{
    struct block *b, *next;
    uint64_t now = xh_now_ns();
    DL_FOREACH_SAFE (opened, b, next)
        if (now - b->touched_ns >= STALE_NS)
            put_in_queue(b);
}

static void *run(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!queue) {
            if (!opened)
                pthread_cond_wait(&work, &lock);
            else if (!xh_cond_wait_until(&work, &lock, xh_now_ns() + STALE_NS))
                queue_stale();
        }
        struct block *b = writing = queue;
        DL_DELETE(queue, b);
        pthread_mutex_unlock(&lock);
        write_pages(b->d, b->from, b->end, b->bytes, b->meta);
        pthread_mutex_lock(&lock);
        writing = NULL;
        stands = 0;
        struct xh_disk *last = block_free(b);
        if (last) {
            pthread_mutex_unlock(&lock);
            disk_free(last);
            pthread_mutex_lock(&lock);
        }
    }
    return NULL;
}

/* ---- fork and start */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void disown(struct block *list)
{
    for (struct block *b = list; b; b = b->next) {
        b->d->refs--;
        b->d->blocks--;
    }
}

/* The blocks' memory is left alone: only async-signal-safe calls are made here. */
static void after_fork_child(void)
{
    disown(opened);
    disown(queue);
    if (writing) {
        writing->d->refs--;
        writing->d->blocks--;
    }
    opened = queue = writing = NULL;
    memset(pieces, 0, sizeof pieces);
    memset(regions, 0, sizeof regions);
    full = 0;
    nopened = 0;
    held_bytes = 0;
    running = stands = 0;
    xh_cond_init(&work);
    xh_cond_init(&done);
    pthread_mutex_unlock(&lock);
}

static void start_once(void)
{
    xh_cond_init(&work);
    xh_cond_init(&done);
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void xh_disk_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_once);
}

/* ---- for the file */

void xh_disk_keep(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta)
{
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    running = running || xh_thread_start(NULL, run, NULL) == 0;
    while (running && len) {
        uint64_t left = BLOCK_BYTES - off % BLOCK_BYTES;
        size_t n = left < len ? (size_t)left : len;
        if (!meta && is_passed(d, off)) /* metadata is little, and nothing is read without it */
            passed_over(d, n);
        else
            keep(d, off, data, n, meta);
        off += n;
        data += n;
        len -= n;
    }
    if (!running)
        passed_over(d, len);
    pthread_mutex_unlock(&lock);
}

void xh_disk_write(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta)
{
    write_pages(d, off, whole(d, off + len), data, meta);
}

/* Gives up what is queued of |d|. The lock is held; a block that is being written has a reference besides. */
static void give_up(struct xh_disk *d)
{
    struct block *b, *next;
    DL_FOREACH_SAFE (queue, b, next)
        if (b->d == d) {
            DL_DELETE(queue, b);
            passed_over(d, b->end - b->from);
            block_free(b);
        }
    xh_trace(XH_T_SHADOW, "disk-gave-up", "bytes=%llu",
             (unsigned long long)atomic_load_explicit(&d->passed, memory_order_relaxed));
}

void xh_disk_flush(struct xh_disk *d)
{
    struct block *b, *next;
    struct piece left[PIECES_MOST];
    if (!d)
        return;
    pthread_mutex_lock(&lock);
    uint64_t until = xh_now_ns() + (stands ? 0 : CLOSE_MS * UINT64_C(1000000));
    DL_FOREACH_SAFE (opened, b, next)
        if (b->d == d)
            put_in_queue(b);
    while (d->blocks && xh_cond_wait_until(&done, &lock, until))
        ;
    if (d->blocks) {
        stands = 1;
        give_up(d);
    }
    size_t n = take_pieces(d, left);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < n; i++)
        part_lost(d, left[i].from, left[i].end);
}

void xh_disk_close(struct xh_disk *d)
{
    if (!d)
        return;
    xh_disk_flush(d);
    pthread_mutex_lock(&lock);
    int last = --d->refs == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        disk_free(d);
}
