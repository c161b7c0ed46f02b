/* Files that are read alike, one after another: see alike.h. */
#include "alike.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "object.h"
#include "schedule.h"
#include "source/compressed.h"
#include "watch/trace.h"

#define ROWS_MOST 8 /* a loop over files reads a few kinds of them in turns: data, and what belongs to it */
/* So many reads are looked at, each for some 50 ns: metadata comes in some ten pieces a page. A reader that goes on is
 * known by other means. */
#define READS_MOST (16 * XH_LIKENESS_PLACES)

/* One of the next files is opened ahead, and so many more for each that was and came to use: where the row ends, few
 * are asked for that may not be there. 50 and 60 files (M1, M2, M5; 40 ms and 300 Mbit/s, 160 ms): with 1 for each 1.07
 * of the time. */
#define HITS_TIMES 2
/* So many at most. A row of files that are read through has XH_ALIKE_AHEAD once so many of it were open in time, one
 * behind the other: where it ends, hardly more was asked for that is not there (404) than the row has files. Simulated,
 * 60 ms, stock: 50 files, each with a few reads (M2), take 7.0 s without, and 4.1, 3.3, 2.9, 2.4 and 2.3 s with 1, 2,
 * 4, 8 and 16. */
#define USUAL_AHEAD 8u
/* A row of which so many files, one behind the other, were read through is taken for one whose files all are. */
#define THROUGH_LEAST 2
/* A row of which so many, one behind the other, were to be opened ahead in vain is not followed any more: its program
 * takes so long for each file that it wants what is there then, or the files cannot be opened. */
#define LATE_MOST 2

/* A row of files. */
static struct row {
    uint64_t name; /* 0: none */
    uint64_t turn; /* when it was last seen */
    struct xh_likeness last;
    struct xh_counted names; /* of those that the program opened */
    int alike;               /* its last two files were read alike */
    unsigned through;        /* so many one behind the other were small, and were read through */
    uint64_t size;           /* of the last of these; 0: it was read through a copy */
    uint64_t most;           /* so much may be ahead of its reader */
    unsigned asked;          /* so many behind the last one are to be opened ahead, or were */
    unsigned hits;           /* so many one behind the other were open already */
    unsigned late;           /* so many were to be, and were not */
} rows[ROWS_MOST];
static uint64_t turns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these two */

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The parent may have been changing them. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    memset(rows, 0, sizeof rows);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void xh_alike_init(struct xh_alike *a)
{
    memset(a, 0, sizeof *a);
    pthread_mutex_init(&a->lock, NULL);
}

/* What names of a row have in common: all but the query and the digits, decimal ones or of hexadecimal names. */
static uint64_t row_of(const char *url)
{
    char one[2] = "";
    uint64_t h = XH_HASH_START;
    for (; *url && *url != '?' && *url != '#'; url++)
        if (!strchr("0123456789abcdefABCDEF", *url)) {
            one[0] = *url;
            h = xh_hash_text(h, one);
        }
    return h ? h : 1;
}

/* The lock is held. NULL: it is not known. */
static struct row *find(uint64_t name)
{
    for (size_t i = 0; i < ROWS_MOST; i++)
        if (rows[i].name == name)
            return &rows[i];
    return NULL;
}

/* The row of that name, seen now; a new one takes the place of the one that was not seen for longest. The lock is
 * held. */
static struct row *row_for(uint64_t name)
{
    struct row *row = find(name), *oldest = rows;
    for (size_t i = 1; i < ROWS_MOST && !row; i++)
        oldest = rows[i].turn < oldest->turn ? &rows[i] : oldest;
    if (!row)
        *(row = oldest) = (struct row){.name = name};
    row->turn = ++turns;
    return row;
}

/* 1 when |f|, which need not be open yet, may be one of a row. */
static int will_be(const struct xh_file *f)
{
    return f->opt.readahead && !f->opt.may_lack && !f->opt.namer.by_file && !f->opened_jointly;
}

/* The same of one that is open. */
static int may_be(const struct xh_file *f)
{
    return will_be(f) && f->shadow;
}

/* 1 when |f| will most likely be read through, as those before it were. The lock is held. */
static int is_read_through(const struct row *row, const struct xh_file *f)
{
    return row && row->through >= THROUGH_LEAST && f->size <= f->opt.whole_file_bytes;
}

int xh_alike_comes_whole(const struct xh_file *f)
{
    if (!may_be(f) || !f->opt.guessed)
        return 0;
    pthread_mutex_lock(&lock);
    int comes = is_read_through(find(row_of(f->url)), f);
    pthread_mutex_unlock(&lock);
    return comes;
}

uint64_t xh_alike_opening_bytes(const struct xh_file *f, uint64_t *room)
{
    uint64_t bytes = 0;
    *room = 0;
    if (!will_be(f) || !(f->opt.guessed || xh_file_is_announced(f)))
        return 0;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    const struct row *row = find(row_of(f->url));
    if (row && row->through >= THROUGH_LEAST) {
        bytes = row->size;
        *room = row->most / XH_EXPECTED_MOST; /* so many may be opened side by side */
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

int xh_alike_begin(struct xh_file *f, uint64_t head)
{
    struct xh_alike *a = f->alike;
    if (!may_be(f))
        return 0;
    pthread_once(&once, watch_forks);
    a->own.size = f->size;
    a->most = f->spare_bytes;
    a->row = row_of(f->url);
    pthread_mutex_lock(&lock);
    struct row *row = find(a->row);
    if (row) {
        row->turn = ++turns;
        a->before = row->last;
        a->n = row->alike && !is_read_through(row, f) ? xh_likeness_expect(&row->last, f->size, a->expected) : 0;
    }
    pthread_mutex_unlock(&lock);
    a->head = head;
    if (a->n == 0)
        return 0;
    xh_trace(XH_T_PREDICT, "alike", "ranges=%zu bytes=%llu", a->n,
             (unsigned long long)xh_ranges_bytes(a->expected, a->n));
    a->n = xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = a->expected, .n = a->n});
    return a->n > 0 && !a->before.full;
}

/* 1 when files of another row are to be opened ahead, too: there is room for XH_EXPECTED_MOST of all. The lock is
 * held. */
static int shares_room(const struct row *row)
{
    for (size_t i = 0; i < ROWS_MOST; i++)
        if (&rows[i] != row && rows[i].asked)
            return 1;
    return 0;
}

/* The program has opened |f|, which was opened |ahead| or not. Returns how many of the next ones are to be open; of
 * those that come whole, no more than may be ahead of a reader. The lock is held. */
static unsigned goes_on(struct row *row, const struct xh_file *f, int ahead)
{
    const char *url = f->url;
    char next[XH_COUNTED_BYTES];
    int is_next = xh_counted_next(&row->names, 1, next) && strcmp(next, url) == 0;
    row->late = ahead ? 0 : row->late + (is_next && row->asked);
    row->asked = is_next && row->asked ? row->asked - 1 : 0;
    row->hits = ahead ? row->hits + 1 : 0;
    xh_counted_saw(&row->names, url);
    int whole = is_read_through(row, f);
    if ((row->last.full && !whole) || row->late >= LATE_MOST) /* where much of each is read, its opening is the least */
        return 0;
    uint64_t proven = xh_min64(1 + HITS_TIMES * row->hits, USUAL_AHEAD);
    if (!whole)
        return (unsigned)proven;
    proven = row->hits < USUAL_AHEAD || shares_room(row) ? proven : XH_ALIKE_AHEAD;
    return (unsigned)xh_min64(proven, xh_ahead_most(f, 1) / xh_max64(f->size, 1));
}

void xh_alike_opened(const struct xh_file *f, int ahead, int tells, struct xh_alike_next *out)
{
    *out = (struct xh_alike_next){0};
    if (!may_be(f) || f->opt.is_written)
        return;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    struct row *row = row_for(row_of(f->url));
    unsigned most = goes_on(row, f, ahead);
    while (!tells && out->n < most && xh_counted_next(&row->names, out->n + 1, out->name[out->n]))
        out->n++;
    out->asked = (unsigned)xh_min64(row->asked, out->n);
    row->asked = (unsigned)xh_max64(row->asked, out->n);
    pthread_mutex_unlock(&lock);
}

/* 1 when the last one of its row was read for nothing else than |s|, and what else was expected: what follows it there
 * is not read. Not any more once this one was read otherwise, or what was expected is not there: its reader's order is
 * to be learnt then, from all of its reads. */
static int is_all(struct xh_alike *a, const struct xh_seen *s)
{
    if (a->n == 0 || a->before.more || atomic_load_explicit(&a->parted, memory_order_relaxed))
        return 0;
    int all = 1, parted = s->alone;
    for (size_t i = 0; i < s->n && all; i++) {
        all = xh_likeness_covers(a->expected, a->n, s->ext[i].off, s->ext[i].len);
        parted |= !all && s->ext[i].off + s->ext[i].len > a->head;
    }
    if (parted)
        atomic_store_explicit(&a->parted, 1, memory_order_relaxed);
    return all && !parted;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_alike *a = f->alike;
    if (!a->row || atomic_load_explicit(&a->full, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&a->lock);
    int full = a->reads++ == READS_MOST;
    a->own.more |= full;
    a->own.full |= full;
    for (size_t i = 0; i < s->n && !full; i++)
        if (s->ext[i].len && s->ext[i].off + s->ext[i].len > a->head &&
            xh_likeness_note(&a->own, s->ext[i].off, s->ext[i].len, s->kind == XH_KIND_RAW, a->most))
            full = 1;
    if (full)
        atomic_store_explicit(&a->full, 1, memory_order_relaxed);
    pthread_mutex_unlock(&a->lock);
    return s->kind == XH_KIND_RAW && is_all(a, s);
}

void xh_alike_end(struct xh_file *f)
{
    struct xh_alike *a = f->alike;
    uint64_t bytes = atomic_load_explicit(&f->counters.bytes_asked, memory_order_relaxed);
    if (!a->row || (f->opt.guessed && a->reads == 0)) /* it was opened ahead in vain */
        return;
    int through = f->size <= f->opt.whole_file_bytes && xh_policy_is_read_through(bytes, f->size);
    int known = a->own.n || a->n, alike = xh_likeness_find(&a->before, &a->own);
    pthread_mutex_lock(&lock);
    struct row *row = row_for(a->row);
    row->through = through ? row->through + 1 : 0;
    row->size = xh_compressed_file(f) ? 0 : f->size;
    row->most = xh_ahead_most(f, 1);
    row->alike = known ? alike : row->alike;
    if (a->own.n)
        row->last = a->own;
    pthread_mutex_unlock(&lock);
}

const struct xh_observer xh_alike_observer = {{[XH_KIND_RAW] = XH_ASKED, [XH_KIND_META] = XH_ASKED}, saw};
