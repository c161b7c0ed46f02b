/* The new file's bytes: the overlay over the version below. See compose.h.
 *
 * Invariants:
 *  1. A byte of the file is the overlay's where |have| has it, else that of the version below, up to |base_limit|, else
 *     zero.
 *  2. Metadata that was read from the version below is in |base| as it was read; a merge relies on that. */
#include "compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/extent.h"
#include "base/hdf5.h"
#include "base/process.h"
#include "base/table.h"

/* A read of raw data up to this size is kept for merges: partly changed chunks need it. What is kept takes no more of
 * the disk than may be written. */
#define KEPT_RAW_BYTES (4u << 20)

/* Returns how much of a read of metadata is that metadata. HDF5 reads 512 bytes of object headers and local heaps
 * before it knows their size, and the bytes behind may be other data. Source: HDF5 File Format Specification 3.0,
 * III.D, IV.A.1. */
static uint64_t own_length(enum xh_edit_kind kind, uint64_t off, const unsigned char *p, uint64_t len)
{
    uint64_t need = len;
    if (len > XH_HDF5_SPECULATION_BYTES || len < 32)
        return len;
    if (memcmp(p, "OHDR", 4) == 0 && p[4] == 2) {
        unsigned at = 6u + (p[5] & 0x20 ? 16u : 0) + (p[5] & 0x10 ? 4u : 0), width = 1u << (p[5] & 3);
        need = at + width + 4 <= len ? at + width + 4 + xh_le(p + at, width) : len;
    } else if (memcmp(p, "HEAP", 4) == 0 && p[4] == 0) {
        need = xh_le(p + 24, 8) == off + 32 ? 32 + xh_le(p + 8, 8) : 32;
    } else if (kind == XH_EDIT_HEADER && p[0] == 1 && p[1] == 0) {
        uint64_t messages = xh_le(p + 2, 2), size = xh_le(p + 8, 4), links = xh_le(p + 4, 4);
        if (messages && messages * 8 <= size && links && links < 65536)
            need = 16 + size;
    }
    return need < len ? need : len;
}

int xh_edit_is_heap(const struct xh_edit *e, const void *buf, uint64_t len)
{
    static const char signature[] = "GCOL\1";
    size_t n = sizeof signature - 1;
    return e->pages ? memmem(buf, (size_t)len, signature, n) != NULL : len >= n && memcmp(buf, signature, n) == 0;
}

struct fresh { /* stretches that are seen for the first time, ascending and apart */
    struct xh_stretch *at;
    size_t n, room;
};

static int out_of_memory(struct xh_err *err)
{
    return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read");
}

/* Adds the stretches of |f| to the set, and empties |f|. Returns 0 or XH_E_NOMEM. */
static int put_fresh(struct xh_edit *e, struct fresh *f, struct xh_err *err)
{
    int rc = xh_extents_put_all(&e->overlay->seen, f->at, f->n) ? out_of_memory(err) : 0;
    f->n = 0;
    return rc;
}

/* Notes bytes of the version below, for merges: in |f|, sorted by the caller. Returns 0 or a negative code. */
static int note(struct xh_edit *e, enum xh_edit_kind kind, const struct xh_extent *x, struct fresh *f,
                struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    int raw = kind == XH_EDIT_RAW && !xh_edit_is_heap(e, x->buf, x->len);
    /* HDF5 uses all of a page */
    uint64_t to, at = x->off, end = at + (raw || e->pages ? x->len : own_length(kind, at, x->buf, x->len));
    uint64_t noted = f->n ? f->at[f->n - 1].end : 0;
    int was, rc = 0;
    if (at < noted && !raw) /* data may be metadata, too */
        rc = put_fresh(e, f, err);
    else if (at < noted)
        at = noted;
    for (; at < end && rc == 0; at = to) {
        int seen = xh_extents_next(&v->seen, at, end, &to, &was);
        if (seen && (raw || was == XH_SEEN_META))
            continue;
        int kept = !raw || (x->len <= KEPT_RAW_BYTES && v->kept_bytes < v->budget);
        if (kept)
            rc = xh_overlay_put_base(v, at, (const char *)x->buf + (at - x->off), to - at, err);
        if (raw && rc == XH_E_NOSPACE) /* without a merge it is not needed */
            kept = rc = 0;
        v->kept_bytes += kept ? to - at : 0;
        int as = !raw ? XH_SEEN_META : kept ? XH_SEEN_RAW : XH_SEEN_UNKEPT;
        if (rc == 0 && xh_append(f, (struct xh_stretch){at, to, as}))
            rc = out_of_memory(err);
    }
    return rc;
}

/* Notes |n| extents, and sorts them. The set is changed once for all of them: one by one, each would move what lies
 * behind it, in a time that grows with the square of their number. Returns 0 or a negative code. */
static int note_all(struct xh_edit *e, enum xh_edit_kind kind, struct xh_extent *x, size_t n, struct xh_err *err)
{
    struct fresh f = {0};
    int rc = 0;
    if (n > 1)
        qsort(x, n, sizeof *x, xh_range_order);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = note(e, kind, &x[i], &f, err);
    int put = put_fresh(e, &f, err);
    free(f.at);
    return rc ? rc : put;
}

struct below { /* pieces of a read that the version below serves */
    struct xh_extent *at;
    size_t n, room;
};

uint64_t xh_copying_begin(struct xh_edit *e)
{
    /* A forked child prints no account, and a thread of the parent may hold the lock. */
    return e->process == xh_process() ? xh_account_enter(&e->account, XH_COPYING) : 0;
}

void xh_copying_end(struct xh_edit *e, uint64_t begun)
{
    xh_account_leave(&e->account, XH_COPYING, begun);
}

/* Reads one extent: from the overlay, or zeros; pieces of the version below go to |b|. Returns 0 or a negative code. */
static int read_one(struct xh_edit *e, const struct xh_extent *x, struct below *b, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    uint64_t end = x->off + x->len, to;
    int rc = 0;
    for (uint64_t off = x->off; off < end && rc == 0; off = to) {
        char *buf = (char *)x->buf + (off - x->off);
        if (xh_extents_next(&v->have, off, end, &to, NULL)) {
            rc = xh_overlay_read(v, off, buf, to - off, err);
            continue;
        }
        uint64_t there = off < v->base_limit ? xh_min64(v->base_limit - off, to - off) : 0;
        memset(buf + there, 0, (size_t)(to - off - there));
        if (there && !e->file)
            rc = xh_edit_fail(e, err, XH_E_CHANGED, "the version that was changed is gone from the server");
        else if (there && xh_append(b, (struct xh_extent){off, there, buf}))
            rc = out_of_memory(err);
    }
    return rc;
}

int xh_edit_read(struct xh_edit *e, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    struct below b = {0};
    int rc = 0;
    uint64_t begun = xh_copying_begin(e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_one(e, &ext[i], &b, err);
    xh_copying_end(e, begun);
    if (rc == 0 && b.n)
        rc = xh_cache_read(e->file, kind == XH_EDIT_RAW ? XH_KIND_RAW : XH_KIND_META, b.at, b.n, err);
    begun = xh_copying_begin(e);
    /* |base| is a file that a fork's child shares with its parent, which may have a later version below by now. */
    if (rc == 0 && e->process == xh_process())
        rc = note_all(e, kind, b.at, b.n, err);
    free(b.at);
    xh_copying_end(e, begun);
    return rc;
}

int xh_edit_compose(struct xh_edit *e, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    struct below b = {0};
    struct xh_extent x = {off, len, buf};
    uint64_t begun = xh_copying_begin(e);
    int rc = read_one(e, &x, &b, err);
    xh_copying_end(e, begun);
    if (rc == 0 && b.n)
        rc = xh_cache_read(e->file, XH_KIND_RAW, b.at, b.n, err);
    free(b.at);
    if (rc)
        return rc;
    for (size_t i = 0; i < e->super_len; i++)
        if (e->super_off + i >= off && e->super_off + i - off < len)
            buf[e->super_off + i - off] = (char)e->super[i];
    return 0;
}
