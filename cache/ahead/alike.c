/* Files that are read alike, one after another: see alike.h. */
#include "alike.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "object.h"
#include "schedule.h"
#include "watch/trace.h"

#define ROWS_MOST 8 /* a loop over files reads a few kinds of them in turns: data, and what belongs to it */
/* So many reads are looked at, each for some 50 ns: metadata comes in some ten pieces a page. A reader that goes on is
 * known by other means. */
#define READS_MOST (16 * XH_LIKENESS_PLACES)

/* A row of files. */
static struct row {
    uint64_t name;   /* 0: none */
    uint64_t turn;   /* when it was last seen */
    int alike;       /* its last two files were read alike */
    struct xh_likeness last;
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

/* The place for a new row: that of the one that was not seen for longest. The lock is held. */
static struct row *place_for(uint64_t name)
{
    struct row *oldest = rows;
    for (size_t i = 1; i < ROWS_MOST; i++)
        oldest = rows[i].turn < oldest->turn ? &rows[i] : oldest;
    *oldest = (struct row){.name = name};
    return oldest;
}

int xh_alike_begin(struct xh_file *f, uint64_t head)
{
    struct xh_alike *a = f->alike;
    if (!f->opt.readahead || !f->shadow || f->opt.may_lack || f->opt.namer.by_file || f->opened_jointly)
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
        a->n = row->alike ? xh_likeness_expect(&row->last, f->size, a->expected) : 0;
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
    if (!a->row || (a->own.n == 0 && a->n == 0))
        return;
    int alike = xh_likeness_find(&a->before, &a->own);
    pthread_mutex_lock(&lock);
    struct row *row = find(a->row);
    if (!row)
        row = place_for(a->row);
    row->turn = ++turns;
    row->alike = alike;
    if (a->own.n)
        row->last = a->own;
    pthread_mutex_unlock(&lock);
}

const struct xh_observer xh_alike_observer = {{[XH_KIND_RAW] = XH_ASKED, [XH_KIND_META] = XH_ASKED}, saw};
