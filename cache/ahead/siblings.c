/* Siblings: see siblings.h. */
#include "siblings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "open/expected.h"
#include "base/table.h"
#include "object.h"
#include "pages/flow.h"
#include "schedule.h"
#include "stream/room.h"
#include "stream/stage.h"
#include "watch/trace.h"

/* Of what may be fetched ahead, three quarters are for first reads. The rest is for what follows in the file that is
 * read. */
#define FIRST_READS(most) ((most) / 4 * 3)

/* A family, with its open files. */
struct xh_kin {
    struct xh_kin *next;
    uint64_t family;
    unsigned files;
    struct xh_weave weave;
    struct xh_row row;                  /* rest 0: none */
    uint64_t row_size, row_followers;   /* of the file that it is in */
    struct xh_room_group group;         /* by the room's rules */
    _Atomic unsigned width; /* of it. Changed under the lock, read without it as an estimate */
    struct xh_flow flow;    /* by its own rules */
};

static struct {
    pthread_mutex_t lock;
    struct xh_kin *families;
    struct xh_file *first, **last; /* files of which no raw data was read, in the order in which they were asked for */
    uint64_t newest;               /* the highest number that any of them had */
    unsigned era;                  /* rises with each fork */
    uint64_t family;               /* the last first read: its family, its places */
    struct xh_range at[XH_SIBLING_RANGES];
    size_t n;
    int alike;      /* 1: the first read before it was in the same places */
    uint64_t ahead; /* bytes that were fetched ahead for first reads to come */
} kin = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &kin.first};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The parent may have been changing its list: it is not looked at. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    kin.lock = fresh;
    kin.era++;
    kin.families = NULL;
    kin.first = NULL;
    kin.last = &kin.first;
    kin.n = 0;
    kin.ahead = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* Returns 1 when it was there. The lock is held. */
static int take_off(struct xh_file *f)
{
    struct xh_sibling *s = f->sibling;
    int waits = atomic_exchange_explicit(&s->waits, 0, memory_order_relaxed);
    if (!waits || s->era != kin.era)
        return 0;
    *s->link = s->next;
    if (s->next)
        s->next->sibling->link = s->link;
    else
        kin.last = s->link;
    kin.ahead -= s->asked;
    return 1;
}

/* Sets |out| to the places of |ext|; those that touch become one. Returns their number; 0: they are too many, or not in
 * order. */
static size_t places(const struct xh_extent *ext, size_t n, struct xh_range *out)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        struct xh_range *r = k ? &out[k - 1] : NULL;
        if (ext[i].len == 0)
            continue;
        if (r && r->off + r->len == ext[i].off) {
            r->len += ext[i].len;
            continue;
        }
        if (k == XH_SIBLING_RANGES || (r && ext[i].off < r->off + r->len))
            return 0;
        out[k++] = (struct xh_range){ext[i].off, ext[i].len};
    }
    return k;
}

/* Fetches the places of the last first read of |g|, which was not read yet. Returns the bytes. The lock is held, so |g|
 * is not closed meanwhile. */
static uint64_t fetch_of(struct xh_file *g)
{
    const struct xh_range *last = &kin.at[kin.n - 1];
    uint64_t bytes = xh_ranges_bytes(kin.at, kin.n);
    if (g->sibling->asked || g->opt.namer.family != kin.family || g->size < last->off + last->len ||
        kin.ahead + bytes > FIRST_READS(g->opt.readahead_bytes))
        return 0;
    xh_schedule(g, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = kin.at, .n = kin.n});
    g->sibling->asked = bytes;
    kin.ahead += bytes;
    return bytes;
}

/* Does so for all open files, or with |asked| for those that the program asked for. The lock is held. */
static void fetch(int asked)
{
    uint64_t bytes = 0;
    unsigned files = 0;
    for (struct xh_file *g = kin.first; g; g = g->sibling->next) {
        uint64_t more = asked && g->sibling->ahead ? 0 : fetch_of(g);
        bytes += more;
        files += more != 0;
    }
    if (files)
        xh_trace(XH_T_PREDICT, "siblings", "files=%u ranges=%zu bytes=%llu", files, kin.n, (unsigned long long)bytes);
}

void xh_siblings_join(struct xh_file *f)
{
    if (!f->opt.namer.by_file || f->opt.may_lack || !f->opt.readahead)
        return;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&kin.lock);
    struct xh_kin *k;
    LL_SEARCH_SCALAR(kin.families, k, family, f->opt.namer.family);
    if (!k && (k = calloc(1, sizeof *k))) { /* without memory it has none */
        k->family = f->opt.namer.family;
        LL_PREPEND(kin.families, k);
    }
    if (k)
        k->files++;
    pthread_mutex_unlock(&kin.lock);
    f->sibling->kin = k;
    xh_flow_join(f, k ? &k->flow : NULL);
    xh_stage_join(f->stage, k ? &k->group : NULL);
}

void xh_siblings_part(struct xh_file *f)
{
    struct xh_kin *k = f->sibling->kin;
    if (!k)
        return;
    pthread_mutex_lock(&kin.lock);
    if (--k->files == 0) {
        LL_DELETE(kin.families, k);
        free(k);
    }
    pthread_mutex_unlock(&kin.lock);
}

void xh_siblings_forget(struct xh_file *f)
{
    f->sibling->kin = NULL; /* leaked: which thread of the parent was changing what cannot be told here */
}

/* Puts |f| in its place in the list: mostly the last. The lock is held. */
static void put_on(struct xh_file *f)
{
    struct xh_sibling *s = f->sibling;
    struct xh_file **at = s->number > kin.newest ? kin.last : &kin.first;
    while (*at && (*at)->sibling->number < s->number)
        at = &(*at)->sibling->next;
    s->link = at;
    s->next = *at;
    *at = f;
    if (s->next)
        s->next->sibling->link = &s->next;
    else
        kin.last = &s->next;
    kin.newest = s->number > kin.newest ? s->number : kin.newest;
    s->era = kin.era;
    atomic_store_explicit(&s->waits, 1, memory_order_relaxed);
}

/* Fetches what follows of the row. The lock is held, so none of its files is closed meanwhile. */
static void follow(struct xh_kin *k)
{
    uint64_t rest = k->row.rest, after = k->row.before;
    for (struct xh_file *g = kin.first; g && rest; g = g->sibling->next) {
        if (g->sibling->kin != k || g->size != k->row_size || g->opt.followers >= k->row_followers)
            continue;
        uint64_t len = rest < k->row.at.len ? rest : k->row.at.len;
        k->row.begin(g, &k->row, after, len);
        after += k->row.at.len;
        rest -= len;
    }
}

void xh_siblings_follow(struct xh_file *f, const struct xh_row *row)
{
    struct xh_kin *k = f->sibling->kin;
    pthread_mutex_lock(&kin.lock);
    k->row = *row;
    k->row_size = f->size;
    k->row_followers = f->opt.followers;
    follow(k);
    pthread_mutex_unlock(&kin.lock);
}

int xh_siblings_has(const struct xh_file *f)
{
    return f->sibling->kin != NULL;
}

void xh_siblings_asked(struct xh_file *f)
{
    pthread_mutex_lock(&kin.lock);
    f->sibling->ahead = 0;
    pthread_mutex_unlock(&kin.lock);
}

/* 1 when |g| of the list follows |f|, and was asked for. The lock is held. */
static int awaits_with(const struct xh_file *g, const struct xh_file *f)
{
    return g->sibling->kin == f->sibling->kin && !g->sibling->ahead && g->opt.followers < f->opt.followers;
}

/* How many files that follow |f| were asked for, and not read yet. The lock is held. */
static unsigned awaiting(const struct xh_file *f)
{
    unsigned n = 0;
    for (const struct xh_file *g = kin.first; g; g = g->sibling->next)
        n += (unsigned)awaits_with(g, f);
    return n;
}

unsigned xh_siblings_awaited(uint64_t family)
{
    unsigned n = 0;
    pthread_mutex_lock(&kin.lock);
    for (const struct xh_file *g = kin.first; g; g = g->sibling->next)
        n += g->opt.namer.family == family && !g->sibling->ahead;
    pthread_mutex_unlock(&kin.lock);
    return n;
}

void xh_siblings_enter(struct xh_file *f, int ahead)
{
    if (!f->sibling->kin || !f->shadow)
        return;
    pthread_mutex_lock(&kin.lock);
    f->sibling->number = f->opt.asked_as ? f->opt.asked_as : xh_expected_number();
    put_on(f);
    f->sibling->ahead = ahead;
    if (f->sibling->kin->row.rest)
        follow(f->sibling->kin);
    else if (kin.n && kin.alike)
        fetch(0);
    pthread_mutex_unlock(&kin.lock);
}

void xh_siblings_leave(struct xh_file *f)
{
    if (!atomic_load_explicit(&f->sibling->waits, memory_order_relaxed))
        return;
    pthread_mutex_lock(&kin.lock);
    take_off(f);
    pthread_mutex_unlock(&kin.lock);
}

int xh_siblings_unread(const struct xh_file *f)
{
    return f->sibling->kin && atomic_load_explicit(&f->sibling->waits, memory_order_relaxed);
}

unsigned xh_siblings_opened_for(struct xh_file *f)
{
    unsigned n = 1;
    if (!xh_siblings_unread(f))
        return n;
    pthread_mutex_lock(&kin.lock);
    if (kin.n == 0 || kin.family != f->opt.namer.family)
        n += awaiting(f);
    f->sibling->opened_for = n;
    pthread_mutex_unlock(&kin.lock);
    return n;
}

void xh_siblings_begin(struct xh_file *f, struct xh_row *row, uint64_t len)
{
    pthread_mutex_lock(&kin.lock);
    row->turns = f->sibling->opened_for;
    f->sibling->opened_for = 0;
    for (struct xh_file *g = row->turns > 1 ? kin.first : NULL; g; g = g->sibling->next)
        if (awaits_with(g, f) && g->size == f->size)
            row->begin(g, row, 0, len);
    pthread_mutex_unlock(&kin.lock);
}

unsigned xh_siblings_width(const struct xh_file *f)
{
    unsigned width = f->sibling->kin ? atomic_load_explicit(&f->sibling->kin->width, memory_order_relaxed) : 0;
    return width ? width : 1;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_range r[XH_SIBLING_RANGES];
    struct xh_kin *k = f->sibling->kin;
    if (!k && !atomic_load_explicit(&f->sibling->waits, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&kin.lock);
    int in_row = k && k->row.rest;
    if (k) {
        k->row.rest = 0; /* until the row says so again */
        xh_weave_read(&k->weave, &f->sibling->turn, f, k->files);
        atomic_store_explicit(&k->width, k->weave.width, memory_order_relaxed);
    }
    if (take_off(f)) { /* its first read */
        size_t many = places(s->ext, s->n, r);
        int alike =
            many && many == kin.n && kin.family == f->opt.namer.family && memcmp(r, kin.at, many * sizeof *r) == 0;
        memcpy(kin.at, r, many * sizeof *r);
        kin.n = many;
        kin.family = f->opt.namer.family;
        kin.alike = alike;
        int beside = k && many && awaiting(f);
        int streams = s->led && f->sibling->opened_for > 1; /* so do the others: xh_siblings_begin */
        if ((beside && !streams) || (alike && !in_row))
            fetch(!alike);
    }
    pthread_mutex_unlock(&kin.lock);
    return 0;
}

const struct xh_observer xh_siblings_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw};
