/* The new file's bytes: the overlay over the version below. See compose.h.
 *
 * Invariants:
 *  1. A byte of the file is the overlay's where |have| has it, else that of the version below, up to |base_limit|, else
 *     zero.
 *  2. Metadata that was read from the version below is in |base| as it was read; a merge relies on that. */
#include "compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/process.h"

/* A read of raw data up to this size is kept for merges: partly changed chunks need it. */
#define KEPT_RAW_BYTES (4u << 20)
#define HEADER_SPECULATION 512u   /* HDF5 first reads this much of an object header or a local heap */

static uint64_t le(const unsigned char *p, unsigned n)
{
    uint64_t x = 0;
    while (n--)
        x = x << 8 | p[n];
    return x;
}

/* Returns how much of a read of metadata is that metadata. HDF5 reads 512 bytes of object headers and local heaps
 * before it knows their size, and the bytes behind may be other data. Source: HDF5 File Format Specification 3.0,
 * III.D, IV.A.1. */
static uint64_t own_length(enum xh_edit_kind kind, uint64_t off, const unsigned char *p, uint64_t len)
{
    uint64_t need = len;
    if (len > HEADER_SPECULATION || len < 32)
        return len;
    if (memcmp(p, "OHDR", 4) == 0 && p[4] == 2) {
        unsigned at = 6u + (p[5] & 0x20 ? 16u : 0) + (p[5] & 0x10 ? 4u : 0), width = 1u << (p[5] & 3);
        need = at + width + 4 <= len ? at + width + 4 + le(p + at, width) : len;
    } else if (memcmp(p, "HEAP", 4) == 0 && p[4] == 0) {
        need = le(p + 24, 8) == off + 32 ? 32 + le(p + 8, 8) : 32;
    } else if (kind == XH_EDIT_HEADER && p[0] == 1 && p[1] == 0) {
        uint64_t messages = le(p + 2, 2), size = le(p + 8, 4), links = le(p + 4, 4);
        if (messages && messages * 8 <= size && links && links < 65536)
            need = 16 + size;
    }
    return need < len ? need : len;
}

/* Notes bytes of the version below, for merges. Returns 0 or a negative code. */
static int note(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len,
                struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    /* the global heap comes as raw data */
    int raw = kind == XH_EDIT_RAW && !(len >= 5 && memcmp(buf, "GCOL\1", 5) == 0);
    uint64_t to, end = off + (raw ? len : own_length(kind, off, buf, len));
    int was;
    for (uint64_t at = off; at < end; at = to) {
        int seen = xh_extents_next(&v->seen, at, end, &to, &was);
        if (seen && (raw || was == XH_SEEN_META))
            continue;
        int as = !raw ? XH_SEEN_META : len <= KEPT_RAW_BYTES ? XH_SEEN_RAW : XH_SEEN_UNKEPT;
        int rc = as == XH_SEEN_UNKEPT ? 0 : xh_overlay_see(v, at, (const char *)buf + (at - off), to - at, err);
        if (rc)
            return rc;
        if (xh_extents_put(&v->seen, at, to, as))
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read");
    }
    return 0;
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

static int add_below(struct below *b, uint64_t off, uint64_t len, void *buf, struct xh_err *err)
{
    if (b->n == b->room) {
        size_t room = b->room ? 2 * b->room : 16;
        struct xh_extent *at = realloc(b->at, room * sizeof *at);
        if (!at)
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read");
        b->at = at;
        b->room = room;
    }
    b->at[b->n++] = (struct xh_extent){off, len, buf};
    return 0;
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
        uint64_t there = off < v->base_limit ? v->base_limit - off : 0;
        if (there > to - off)
            there = to - off;
        memset(buf + there, 0, (size_t)(to - off - there));
        if (there && !e->file)
            rc = xh_err_set(err, XH_E_CHANGED, 0, "%.200s: the version that was changed is gone from the server",
                            xh_dav_shown(e->dav));
        else if (there)
            rc = add_below(b, off, there, buf, err);
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
    for (size_t i = 0; i < b.n && rc == 0; i++)
        rc = note(e, kind, b.at[i].off, b.at[i].buf, b.at[i].len, err);
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
