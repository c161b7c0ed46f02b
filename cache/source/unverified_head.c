/* The unverified head: see unverified_head.h. */
#include "unverified_head.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "disk/disk.h"
#include "object.h"
#include "pages/fetch.h"
#include "source.h"
#include "watch/trace.h"

/* Acquire pairs with settle(): a reader that sees NONE sees the shadow that proved it. */
static int state_of(const struct xh_file *f)
{
    return atomic_load_explicit(&f->unverified->state, memory_order_acquire);
}

void xh_unverified_take(struct xh_file *f, struct xh_origin_head *head)
{
    if (!head->unverified || head->len == 0)
        return;
    f->unverified->bytes = head->bytes;
    f->unverified->len = head->len;
    atomic_store_explicit(&f->unverified->state, XH_UNVERIFIED_STANDS, memory_order_relaxed);
    head->bytes = NULL;
    head->len = 0;
}

void xh_unverified_free(struct xh_file *f)
{
    free(f->unverified->bytes);
}

int xh_unverified_stands(const struct xh_file *f)
{
    return state_of(f) == XH_UNVERIFIED_STANDS;
}

void xh_unverified_drop(struct xh_file *f)
{
    atomic_store_explicit(&f->unverified->state, XH_UNVERIFIED_NONE, memory_order_relaxed);
}

void xh_unverified_waive(struct xh_file *f)
{
    if (xh_unverified_stands(f))
        atomic_store_explicit(&f->unverified->state, XH_UNVERIFIED_WAIVED, memory_order_relaxed);
}

static int changed(const struct xh_file *f, struct xh_err *err)
{
    return xh_err_set(err, XH_E_CHANGED, 0,
                      "%.200s: the file was changed on the server while it was being opened. Close and open it again",
                      f->url_shown);
}

static int holds(const struct xh_unverified_head *e, uint64_t off, uint64_t len)
{
    return len <= e->len && off <= e->len - len;
}

static int peek(struct xh_file *f, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    int state = state_of(f);
    if (state != XH_UNVERIFIED_STANDS)
        return state == XH_UNVERIFIED_WRONG ? changed(f, err) : 0;
    for (size_t i = 0; i < n; i++)
        if (!holds(f->unverified, ext[i].off, ext[i].len))
            return 0;
    for (size_t i = 0; i < n; i++)
        memcpy(ext[i].buf, f->unverified->bytes + ext[i].off, ext[i].len);
    return 1;
}

int xh_unverified_look(const struct xh_file *f, uint64_t off, void *buf, size_t len)
{
    int state = state_of(f);
    if ((state != XH_UNVERIFIED_STANDS && state != XH_UNVERIFIED_WAIVED) || !holds(f->unverified, off, len))
        return 0;
    memcpy(buf, f->unverified->bytes + off, len);
    return 1;
}

void xh_unverified_claim(struct xh_file *f, struct xh_runs *mine)
{
    uint64_t end = xh_unverified_stands(f) ? xh_page_up(f->unverified->len) : 0;
    size_t were = mine->n;
    for (uint64_t p = 0; p < end; p++)
        if (!xh_disk_has(f->disk, p))
            xh_fetch_claim(f, p, 1, mine);
    if (mine->n > were)
        xh_runs_sort(mine);
}

/* The first reader to know decides: two may have compared at once. */
static void settle(struct xh_file *f, int same)
{
    int was = XH_UNVERIFIED_STANDS;
    if (atomic_compare_exchange_strong_explicit(&f->unverified->state, &was,
                                                same ? XH_UNVERIFIED_NONE : XH_UNVERIFIED_WRONG, memory_order_acq_rel,
                                                memory_order_acquire))
        xh_trace(XH_T_READ, "early-head", "bytes=%zu same=%d", f->unverified->len, same);
}

int xh_unverified_prove(struct xh_file *f, struct xh_err *err)
{
    int state = state_of(f);
    if (state == XH_UNVERIFIED_NONE || state == XH_UNVERIFIED_WAIVED)
        return 0;
    uint8_t *now = malloc(f->unverified->len);
    struct xh_extent e = {0, f->unverified->len, now};
    if (!now)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while reading %s", f->url_shown);
    struct xh_served served;
    int rc = f->above->read(f, XH_KIND_META, &e, 1, &served, err);
    if (rc == 0)
        settle(f, memcmp(now, f->unverified->bytes, f->unverified->len) == 0);
    free(now);
    return rc == 0 && state_of(f) == XH_UNVERIFIED_WRONG ? changed(f, err) : rc;
}

const struct xh_source xh_unverified_source = {.peek = peek};
