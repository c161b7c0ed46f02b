/* The background: see background.h. */
#include "background.h"

#include <string.h>

#include "arrive.h"
#include "base/now.h"
#include "disk/disk.h"
#include "limits.h"
#include "object.h"
#include "watch/trace.h"

void xh_background_init(struct xh_file *f)
{
    *f->background = (struct xh_background){.f = f};
    pthread_mutex_init(&f->background->lock, NULL);
}

uint64_t xh_background_gap(const struct xh_file *f)
{
    return xh_max64(f->spare_bytes, XH_BULK_BYTES);
}

/* |page| is here. Returns 0 where it cannot be kept. */
static int keep(struct xh_background *b, uint64_t page, const uint8_t *data)
{
    enum xh_claim c = xh_shadow_claim(b->f->shadow, page, 0, &b->f->counters);
    b->here = c == XH_CLAIM_MINE ? 0 : b->here + XH_PAGE_BYTES;
    return c != XH_CLAIM_NONE && (c != XH_CLAIM_MINE || xh_arrive_pages(b->f, page, 1, data) == 0);
}

/* The next bytes, no more than |len|, all of one page. Returns how many these are. */
static size_t take(struct xh_background *b, uint64_t off, const uint8_t *data, size_t len)
{
    uint64_t page = off / XH_PAGE_BYTES, from = page * XH_PAGE_BYTES, end = xh_min64(from + XH_PAGE_BYTES, b->f->size);
    size_t n = (size_t)xh_min64(end - off, len);
    int kept = 1;
    if (off == from && off + n == end) {
        kept = keep(b, page, data);
    } else {
        memcpy(b->part + (off - from), data, n); /* behind what came of it before: the range begins with a page */
        kept = off + n < end || keep(b, page, b->part);
    }
    if (!kept) {
        b->failed = 1;
        xh_replicas_cancel(b->f->origin, &b->t);
    }
    return n;
}

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct xh_background *b = t->ctx;
    xh_disk_keep(b->f->disk, off, data, len, 0);
    pthread_mutex_lock(&b->lock);
    b->pace.bytes += len;
    b->pos = off + len;
    for (size_t n; len > 0 && !b->failed; off += n, data += n, len -= n)
        n = take(b, off, data, len);
    pthread_mutex_unlock(&b->lock);
}

/* It never stands still; a transfer of this kind has a connection of its own. Where others bring the same, or nobody
 * reads there any more, it ends. */
static int full(struct xh_transfer *t)
{
    struct xh_background *b = t->ctx;
    uint64_t now = xh_now_ns();
    pthread_mutex_lock(&b->lock);
    if (xh_pace_look(&b->pace, now, 0))
        b->fastest = xh_max64(b->fastest, b->pace.rate);
    if (b->here > xh_background_gap(b->f) || now > atomic_load_explicit(&b->until_ns, memory_order_relaxed))
        xh_replicas_cancel(b->f->origin, t);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct xh_background *b = t->ctx;
    struct xh_file *f = b->f;
    pthread_mutex_lock(&b->lock);
    uint64_t off = b->r.off;
    b->failed |= err && err->code != XH_E_CANCELLED;
    b->runs = 0;
    b->pace.since_ns = 0;
    pthread_mutex_unlock(&b->lock);
    xh_trace(XH_T_READ, "background-over", "off=%llu code=%s", (unsigned long long)off,
             err ? xh_err_name(err->code) : "OK");
    xh_limits_share_link(f);
    if (!err)
        f->above->arrived(f);
}

/* The lock is held, so that it does not end meanwhile. */
static void end(struct xh_background *b)
{
    b->ends = b->runs;
    if (b->runs && !b->submitting)
        xh_replicas_cancel(b->f->origin, &b->t);
}

void xh_background_begin(struct xh_file *f, struct xh_range r)
{
    struct xh_background *b = f->background;
    struct xh_transfer *t = &b->t;
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    if (info.streams == 0)
        return;
    pthread_mutex_lock(&b->lock);
    int begins = !b->runs && !b->submitting && !b->failed && r.len > 0;
    if (begins) {
        b->runs = b->submitting = b->began = 1;
        b->ends = 0;
        b->r = r;
        b->pos = r.off;
        b->here = 0;
        b->t = (struct xh_transfer){.ranges = &b->r, .nranges = 1, .speculative = 1, .ctx = b, .bytes = on_bytes,
                                    .done = on_done, .full = full};
    }
    pthread_mutex_unlock(&b->lock);
    if (!begins)
        return;
    xh_trace(XH_T_READ, "background", "off=%llu len=%llu", (unsigned long long)r.off, (unsigned long long)r.len);
    xh_limits_share_link(f);
    int fails = xh_replicas_submit(f->origin, &t, 1, NULL);
    pthread_mutex_lock(&b->lock);
    b->submitting = 0;
    if (fails) {
        b->runs = 0;
        b->failed = 1;
    } else if (b->ends) {
        end(b);
    }
    pthread_mutex_unlock(&b->lock);
}

void xh_background_wanted(struct xh_file *f, uint64_t until_ns)
{
    atomic_store_explicit(&f->background->until_ns, until_ns, memory_order_relaxed);
}

void xh_background_end(struct xh_file *f)
{
    struct xh_background *b = f->background;
    pthread_mutex_lock(&b->lock);
    end(b);
    pthread_mutex_unlock(&b->lock);
}

int xh_background_leave(struct xh_file *f, struct xh_range r)
{
    struct xh_background *b = f->background;
    pthread_mutex_lock(&b->lock);
    int ends = b->runs && b->pos < r.off + r.len && r.off < b->r.off + b->r.len;
    if (ends)
        end(b);
    pthread_mutex_unlock(&b->lock);
    return ends;
}

void xh_background_look(struct xh_file *f, struct xh_background_state *out)
{
    struct xh_background *b = f->background;
    pthread_mutex_lock(&b->lock);
    *out = (struct xh_background_state){.runs = b->runs, .began = b->began, .failed = b->failed,
                                         .came = b->pace.bytes, .second_bytes = b->fastest};
    pthread_mutex_unlock(&b->lock);
}
