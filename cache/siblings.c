/* Siblings: see siblings.h. */
#include "siblings.h"

#include <pthread.h>
#include <string.h>

#include "file.h"
#include "trace.h"

/* Of what reading ahead may hold, so much is for first reads: what follows them is wanted as soon. */
#define PART 2

static struct {
    pthread_mutex_t lock;
    struct xh_file *first, **last; /* those that nobody has read raw data of, as they were opened */
    unsigned era;                  /* rises with each fork */
    uint64_t family;               /* the last first read: whose, where */
    struct xh_range at[XH_SIBLING_RANGES];
    size_t n;
    uint64_t ahead; /* bytes that were fetched ahead for first reads to come */
} kin = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &kin.first};

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The parent's list may have been in the middle of a change: it is not looked at. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    kin.lock = fresh;
    kin.era++;
    kin.first = NULL;
    kin.last = &kin.first;
    kin.n = 0;
    kin.ahead = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void xh_siblings_enter(struct xh_file *f)
{
    if (!f->opt.namer.by_file || f->opt.may_lack || !f->opt.readahead || !f->shadow)
        return;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&kin.lock);
    f->sibling.link = kin.last;
    f->sibling.era = kin.era;
    atomic_store_explicit(&f->sibling.waits, 1, memory_order_relaxed);
    *kin.last = f;
    kin.last = &f->sibling.next;
    pthread_mutex_unlock(&kin.lock);
}

/* Returns 1 when it was there. The lock is held. */
static int take_off(struct xh_file *f)
{
    struct xh_sibling *s = &f->sibling;
    int waits = atomic_exchange_explicit(&s->waits, 0, memory_order_relaxed);
    if (!waits || s->era != kin.era)
        return 0;
    *s->link = s->next;
    if (s->next)
        s->next->sibling.link = s->link;
    else
        kin.last = s->link;
    kin.ahead -= s->asked;
    return 1;
}

void xh_siblings_leave(struct xh_file *f)
{
    if (!atomic_load_explicit(&f->sibling.waits, memory_order_relaxed))
        return;
    pthread_mutex_lock(&kin.lock);
    take_off(f);
    pthread_mutex_unlock(&kin.lock);
}

/* The places of |ext|, those that touch as one. Returns their number, 0: they are too many, or not in order. */
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

/* Fetches |r| of the siblings that nobody has read yet. The lock is held, so none of them is closed. */
static void fetch(const struct xh_file *f, const struct xh_range *r, size_t n)
{
    uint64_t bytes = 0, most = f->opt.readahead_bytes / PART;
    unsigned files = 0;
    for (size_t i = 0; i < n; i++)
        bytes += r[i].len;
    for (struct xh_file *g = kin.first; g && kin.ahead + bytes <= most; g = g->sibling.next) {
        if (g->sibling.asked || g->opt.namer.family != f->opt.namer.family || g->size < r[n - 1].off + r[n - 1].len)
            continue;
        xh_fetch_ahead(g, r, n, XH_KIND_RAW);
        g->sibling.asked = bytes;
        kin.ahead += bytes;
        files++;
    }
    if (files)
        xh_trace(XH_T_PREDICT, "siblings", "files=%u ranges=%zu bytes=%llu", files, n, (unsigned long long)bytes);
}

void xh_siblings_raw(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range r[XH_SIBLING_RANGES];
    if (!atomic_load_explicit(&f->sibling.waits, memory_order_relaxed))
        return;
    pthread_mutex_lock(&kin.lock);
    if (take_off(f)) { /* its first read */
        size_t k = places(ext, n, r);
        int alike = k && k == kin.n && kin.family == f->opt.namer.family && memcmp(r, kin.at, k * sizeof *r) == 0;
        memcpy(kin.at, r, k * sizeof *r);
        kin.n = k;
        kin.family = f->opt.namer.family;
        if (alike)
            fetch(f, r, k);
    }
    pthread_mutex_unlock(&kin.lock);
}
