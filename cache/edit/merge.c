/* What a commit compares, and the merge with a version that others made meanwhile: see merge.h.
 *
 * A program that reads the same metadata writes the same bytes at the same places. So the overlay may be put over
 * another version when
 *  1. all metadata that was read from the old version is the same in the new one,
 *  2. this writer changed no metadata,
 *  3. both versions and the overlay have the same size.
 * Then only raw data is left. Bytes that were read before they were written (a chunk that was changed in part) are
 * applied where they differ from what was read; an element that both writers changed is a conflict, as it would get
 * bytes of two numbers. How long elements are is known from metadata that was read. So is a chunk with filters in which
 * both changed bytes a conflict: parts of two encodings make none (a checksum covers the whole chunk). Bytes that were
 * written unread are applied as they are.
 *
 * HDF5 keeps raw data in memory (its chunk cache), and writes whole chunks. After a merge it may have older bytes
 * than the version that was merged. Written again, they would undo the others' changes. So the set |stale| has all
 * bytes that HDF5 was given or has written and that are different now. If HDF5 writes other bytes there, the file is
 * not sent, and must be opened again. */
#include "merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "format/messages.h"
#include "watch/trace.h"
#include "compose.h"
#include "super.h"

static int conflict(struct xh_edit *e, struct xh_err *err, const char *what)
{
    return xh_edit_fail(e, err, XH_E_CHANGED,
                        "somebody else changed the file on the server since it was opened, and %s: this is a "
                        "conflict", what);
}

static int read_version(struct xh_file *f, uint64_t off, void *buf, uint64_t len, struct xh_err *err)
{
    struct xh_extent x = {off, len, buf};
    return xh_cache_read(f, XH_KIND_RAW, &x, 1, err);
}

/* Turns the code of a read of the new version: when that version was replaced meanwhile, the read is worth nothing,
 * and is no conflict. */
static int of_new(int rc, struct xh_err *err)
{
    return rc == XH_E_CHANGED ? xh_err_set(err, XH_E_CANCELLED, 0, "changed again") : rc;
}

/* Allocates two buffers of XH_EDIT_PIECE bytes in one block. Owns: the caller frees two[0]. */
static int two_pieces(char *two[2], struct xh_err *err)
{
    two[0] = malloc(2 * (size_t)XH_EDIT_PIECE);
    two[1] = two[0] ? two[0] + XH_EDIT_PIECE : NULL;
    return two[0] ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
}

static uint64_t piece_end(uint64_t off, uint64_t end)
{
    return end - off < XH_EDIT_PIECE ? end : off + XH_EDIT_PIECE;
}

/* ---- against the version below */

/* Sets |buf| to the bytes of some version at |off|. Returns 0; 1: it has none there; or a negative code. */
typedef int read_other(struct xh_edit *e, uint64_t off, char *buf, uint64_t len, struct xh_err *err);

/* Compares what was written, of |kind| or of any (0), with what |read| finds at its place. Returns 1 where it differs,
 * 0, or a negative code. */
static int differs(struct xh_edit *e, int kind, read_other *read, struct xh_err *err)
{
    const struct xh_extents *d = &e->overlay->dirty;
    char *two[2];
    int rc = two_pieces(two, err);
    for (size_t i = 0; i < d->n && rc == 0; i++) {
        uint64_t off = d->at[i].off, end = kind && d->at[i].kind != kind ? off : d->at[i].end;
        for (uint64_t to; off < end && rc == 0; off = to) {
            to = piece_end(off, end);
            rc = xh_edit_compose(e, off, two[0], (size_t)(to - off), err);
            rc = rc ? rc : read(e, off, two[1], to - off, err);
            rc = rc ? rc : memcmp(two[0], two[1], (size_t)(to - off)) != 0;
        }
    }
    free(two[0]);
    return rc;
}

static int read_below(struct xh_edit *e, uint64_t off, char *buf, uint64_t len, struct xh_err *err)
{
    if (off + len > e->overlay->base_size)
        return 1;
    int rc = read_version(e->file, off, buf, len, err);
    if (rc == 0)
        xh_edit_plain(e, off, buf, len);
    return rc;
}

static int read_server(struct xh_edit *e, uint64_t off, char *buf, uint64_t len, struct xh_err *err)
{
    return xh_dav_get_range(e->dav, "", off, buf, (size_t)len, err);
}

int xh_edit_differs(struct xh_edit *e, struct xh_err *err)
{
    const struct xh_overlay *v = e->overlay;
    if (v->mode != XH_OVERLAY_EDIT || v->size != v->base_size || v->base_limit != v->base_size)
        return 1;
    if (!e->file)
        return v->dirty.n != 0;
    int rc = differs(e, XH_WRITTEN_META, read_below, err);
    return rc ? rc : differs(e, XH_WRITTEN_RAW, read_below, err);
}

/* ---- over another version */

/* Checks that no metadata differs from what was read. Returns 0, XH_E_CHANGED or another code. */
static int metadata_kept(struct xh_edit *e, char *two[2], struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    for (size_t i = 0; i < v->dirty.n; i++) {
        const struct xh_stretch *s = &v->dirty.at[i];
        uint64_t to;
        for (uint64_t off = s->off; s->kind == XH_WRITTEN_META && off < s->end; off = to) {
            int kind, seen = xh_extents_next(&v->seen, off, piece_end(off, s->end), &to, &kind);
            if (!seen || kind == XH_SEEN_UNKEPT)
                return conflict(e, err, "metadata was written here");
            int rc = xh_edit_compose(e, off, two[0], (size_t)(to - off), err);
            rc = rc ? rc : xh_overlay_seen(v, off, two[1], to - off, err);
            if (rc)
                return rc;
            xh_edit_plain(e, off, two[1], to - off);
            if (memcmp(two[0], two[1], (size_t)(to - off)) != 0)
                return conflict(
                    e, err,
                    "metadata was changed here too (an object, an attribute, a chunk's place or the file's size)");
        }
    }
    return 0;
}

/* ---- what HDF5 was given, against the new version: many extents are read at once */

struct comparison {
    struct xh_edit *e;
    struct xh_file *now;
    char **two;
    int of_metadata;
    struct xh_extent x[512]; /* they point into two[0] */
    size_t n;
    uint64_t used;
};

/* Reads the bytes of the extent |x| that HDF5 has into two[1]. Bytes that were written and sent are in the overlay. */
static int read_known(struct comparison *c, const struct xh_extent *x, struct xh_err *err)
{
    struct xh_overlay *v = c->e->overlay;
    return !c->of_metadata && xh_extents_covers(&v->have, x->off, x->off + x->len)
               ? xh_overlay_read(v, x->off, c->two[1], x->len, err)
               : xh_overlay_seen(v, x->off, c->two[1], x->len, err);
}

/* Adds the bytes of |n| at |off| that differ to |stale|, with equal bytes between them. */
static int put_stale(struct xh_edit *e, uint64_t off, const void *a, const void *b, uint64_t n, struct xh_err *err)
{
    const char *one = a, *two = b;
    uint64_t first = 0, last = n;
    while (first < n && one[first] == two[first])
        first++;
    while (last > first && one[last - 1] == two[last - 1])
        last--;
    if (first < last && xh_extents_put(&e->stale, off + first, off + last, 1))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    return 0;
}

/* Compares the extents that compare_later() gathered. */
static int compare(struct comparison *c, struct xh_err *err)
{
    int rc =
        c->n ? of_new(xh_cache_read(c->now, c->of_metadata ? XH_KIND_META : XH_KIND_RAW, c->x, c->n, err), err) : 0;
    for (size_t k = 0; k < c->n && rc == 0; k++) {
        const struct xh_extent *x = &c->x[k];
        if ((rc = read_known(c, x, err)) != 0)
            break;
        if (!c->of_metadata) {
            rc = put_stale(c->e, x->off, x->buf, c->two[1], x->len, err);
            continue;
        }
        xh_edit_plain(c->e, x->off, x->buf, x->len);
        xh_edit_plain(c->e, x->off, c->two[1], x->len);
        if (memcmp(x->buf, c->two[1], (size_t)x->len) != 0)
            rc = conflict(c->e, err, "metadata that was read here is another there");
    }
    c->n = 0;
    c->used = 0;
    return rc;
}

static int compare_later(struct comparison *c, uint64_t off, uint64_t end, struct xh_err *err)
{
    for (uint64_t to; off < end; off = to) {
        uint64_t room = XH_EDIT_PIECE - c->used;
        to = end - off < room ? end : off + room;
        c->x[c->n++] = (struct xh_extent){off, to - off, c->two[0] + c->used};
        c->used += to - off;
        int rc = c->n == sizeof c->x / sizeof *c->x || c->used == XH_EDIT_PIECE ? compare(c, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* Compares the raw data of [off, end) that was not written since the last commit. Written data is handled by the
 * merge. */
static int compare_data(struct comparison *c, uint64_t off, uint64_t end, int kind, struct xh_err *err)
{
    struct xh_overlay *v = c->e->overlay;
    int rc = 0;
    for (uint64_t clean, to; off < end && rc == 0; off = clean) {
        if (xh_extents_next(&v->dirty, off, end, &clean, NULL))
            continue;
        for (; off < clean && rc == 0; off = to) {
            int had = xh_extents_next(&v->have, off, clean, &to, NULL);
            if (had || kind == XH_SEEN_RAW)
                rc = compare_later(c, off, to, err);
            else if (xh_extents_put(&c->e->stale, off, to, 1)) /* the bytes that HDF5 was given are not known */
                rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
        }
    }
    return rc;
}

/* Compares metadata: what the program read of the file's structure must be the same in |now|. Or compares data: what
 * HDF5 has may be stale. */
static int compare_seen(struct xh_edit *e, struct xh_file *now, int of_metadata, char *two[2], struct xh_err *err)
{
    const struct xh_extents *s = &e->overlay->seen;
    struct comparison *c = malloc(sizeof *c);
    int rc = 0;
    if (!c)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    *c = (struct comparison){.e = e, .now = now, .two = two, .of_metadata = of_metadata};
    for (size_t i = 0; i < s->n && rc == 0; i++)
        if ((s->at[i].kind == XH_SEEN_META) == of_metadata)
            rc = of_metadata ? compare_later(c, s->at[i].off, s->at[i].end, err)
                             : compare_data(c, s->at[i].off, s->at[i].end, s->at[i].kind, err);
    rc = rc ? rc : compare(c, err);
    free(c);
    return rc;
}

enum { OURS = 1, THEIRS = 2, DIFFER = 4 };

/* Merges one piece of raw data that was read before it was written; the result is in |ours|. Returns -1 on a conflict,
 * else which writers have changed bytes that the other has not. */
static int merge_bytes(unsigned char *ours, const unsigned char *was, const unsigned char *theirs, size_t n)
{
    int changed = 0;
    for (size_t i = 0; i < n; i++) {
        if (ours[i] == theirs[i])
            continue;
        if (ours[i] != was[i] && theirs[i] != was[i])
            return -1;
        changed |= ours[i] == was[i] ? THEIRS : OURS;
        if (ours[i] == was[i])
            ours[i] = theirs[i];
    }
    return changed;
}

/* Calls |look| with all metadata that was read, piece by piece, each a message's length before the end of the one
 * before, until it returns another value than 0. Returns that, 0, or a negative code. */
static int look_at_metadata(struct xh_edit *e, int (*look)(const uint8_t *p, size_t len, void *ctx), void *ctx,
                            struct xh_err *err)
{
    const struct xh_extents *s = &e->overlay->seen;
    char *buf = malloc(XH_EDIT_PIECE);
    int rc = buf ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        uint64_t off = s->at[i].off, end = s->at[i].kind == XH_SEEN_META ? s->at[i].end : off;
        for (uint64_t to; off < end && rc == 0; off = to < end ? to - XH_MESSAGE_MAX : end) {
            to = piece_end(off, end);
            rc = xh_overlay_seen(e->overlay, off, buf, to - off, err);
            rc = rc ? rc : look((const uint8_t *)buf, (size_t)(to - off), ctx);
        }
    }
    free(buf);
    return rc;
}

/* 1 when metadata names filters. Which data they belong to is not known. */
static int look_for_filters(const uint8_t *p, size_t len, void *ctx)
{
    return xh_filters_named(p, len);
}

/* ---- elements: a number that both writers changed must not become one of the bytes of both */

/* An element of each length that the file's datasets may have: the last one in which a byte was changed. Where elements
 * may begin anywhere (HDF5's page buffer): one past the last byte that was changed here, changed there, is another. */
struct torn {
    struct xh_elements lengths;
    int anywhere;
    uint64_t ours, theirs, differ;
    struct {
        uint64_t at;
        int changed;
    } last[XH_ELEMENTS_MOST];
};

static int look_for_elements(const uint8_t *p, size_t len, void *ctx)
{
    xh_elements_named(p, len, ctx);
    return 0;
}

/* Where the lengths are not known, all that HDF5 wrote at once counts as one element. */
static int learn_elements(struct xh_edit *e, struct torn *t, struct xh_err *err)
{
    *t = (struct torn){.lengths.n = 0};
    int rc = look_at_metadata(e, look_for_elements, &t->lengths, err);
    t->anywhere = e->pages && !t->lengths.unknown && t->lengths.n;
    if (t->lengths.unknown || t->lengths.n == 0)
        t->lengths = (struct xh_elements){.n = 1, .bytes = {UINT32_MAX}};
    for (unsigned i = 0; i < XH_ELEMENTS_MOST; i++)
        t->last[i].at = UINT64_MAX;
    return rc;
}

/* Returns 1 when both writers have changed bytes of one element of the |n| at |off|, and not to the same. They belong
 * to a write of HDF5's that began at |from|. */
static int is_torn(struct torn *t, uint64_t from, uint64_t off, const unsigned char *ours, const unsigned char *was,
                   const unsigned char *theirs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int changed = (ours[i] != was[i] ? OURS : 0) | (theirs[i] != was[i] ? THEIRS : 0) |
                      (ours[i] != theirs[i] ? DIFFER : 0);
        for (unsigned k = 0; changed && k < t->lengths.n; k++) {
            uint64_t at = off + i - (off + i - from) % t->lengths.bytes[k];
            t->last[k].changed = t->last[k].at == at ? t->last[k].changed | changed : changed;
            t->last[k].at = at;
            if (t->last[k].changed == (OURS | THEIRS | DIFFER))
                return 1;
        }
    }
    return 0;
}

/* The same for elements that begin anywhere: such an element may lie around changed bytes that are closer together than
 * the longest one is long. */
static int may_be_torn(struct torn *t, uint64_t off, const unsigned char *ours, const unsigned char *was,
                       const unsigned char *theirs, size_t n)
{
    uint32_t longest = 0;
    for (unsigned k = 0; k < t->lengths.n; k++)
        longest = t->lengths.bytes[k] > longest ? t->lengths.bytes[k] : longest;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = off + i + 1, first = end;
        t->ours = ours[i] != was[i] ? end : t->ours;
        t->theirs = theirs[i] != was[i] ? end : t->theirs;
        t->differ = ours[i] != theirs[i] ? end : t->differ;
        first = t->ours < first ? t->ours : first;
        first = t->theirs < first ? t->theirs : first;
        first = t->differ < first ? t->differ : first;
        if (first && end - first < longest)
            return 1;
    }
    return 0;
}

/* The same, by what HDF5 wrote at once. What another process wrote is not known so exactly. */
static int tears(struct xh_edit *e, struct torn *t, uint64_t off, const unsigned char *ours, const unsigned char *was,
                 const unsigned char *theirs, size_t n)
{
    const struct xh_extents *s = &e->pieces;
    uint64_t end = off + n, to;
    if (t->anywhere)
        return may_be_torn(t, off, ours, was, theirs, n);
    for (uint64_t at = off; at < end; at = to) {
        size_t i = xh_count_before(k, s->n, s->at[k].end <= at), skip = (size_t)(at - off);
        int known = i < s->n && s->at[i].off <= at;
        to = i == s->n ? end : known ? s->at[i].end : s->at[i].off;
        to = to < end ? to : end;
        struct torn whole = {.lengths = {.n = 1, .bytes = {UINT32_MAX}}, .last = {{.at = UINT64_MAX}}};
        if (is_torn(known ? t : &whole, known ? s->at[i].off : at, at, ours + skip, was + skip, theirs + skip,
                    (size_t)(to - at)))
            return 1;
    }
    return 0;
}

/* Merges raw data into the overlay; without |apply| only checks whether that is possible. If it breaks off, merged
 * data is relative to the version |now|, as |base| tells, and the rest to the one before: a later merge knows both. */
static int merge_raw(struct xh_edit *e, struct xh_file *now, int apply, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    unsigned char *three = malloc(3 * (size_t)XH_EDIT_PIECE);
    struct torn torn;
    int filters = -1; /* not known */
    int rc = three ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    rc = rc || apply ? rc : learn_elements(e, &torn, err);
    for (size_t i = 0; i < v->dirty.n && rc == 0; i++) {
        const struct xh_stretch s = v->dirty.at[i]; /* a copy, as xh_extents_put below may move the array */
        uint64_t to;
        int changed = 0;
        for (uint64_t off = s.off; s.kind == XH_WRITTEN_RAW && off < s.end && rc == 0; off = to) {
            int kind, merged, seen = xh_extents_next(&v->seen, off, piece_end(off, s.end), &to, &kind);
            size_t len = (size_t)(to - off);
            unsigned char *ours = three, *was = three + XH_EDIT_PIECE, *theirs = three + 2 * (size_t)XH_EDIT_PIECE;
            if (!seen)
                continue;
            if (kind != XH_SEEN_RAW) {
                rc = conflict(e, err, "data was changed here that cannot be told apart from what was changed there");
                break;
            }
            rc = xh_overlay_read(v, off, ours, len, err);
            rc = rc ? rc : xh_overlay_seen(v, off, was, len, err);
            rc = rc ? rc : of_new(read_version(now, off, theirs, len, err), err);
            if (rc == 0 && !apply && tears(e, &torn, off, ours, was, theirs, len))
                rc = conflict(e, err, "the same number, or other element, of a data set was changed here");
            else if (rc == 0 && (merged = merge_bytes(ours, was, theirs, len)) < 0)
                rc = conflict(e, err, "the same data was changed here");
            else if (rc == 0)
                changed |= merged;
            if (rc == 0 && apply) {
                rc = xh_overlay_read(v, off, was, len, err);
                rc = rc ? rc : put_stale(e, off, was, ours, len, err);
                rc = rc ? rc : xh_overlay_write(v, off, ours, len, XH_WRITTEN_RAW, err);
                rc = rc ? rc : xh_overlay_see(v, off, theirs, len, err);
                if (rc == 0 && xh_extents_put(&v->seen, off, to, XH_SEEN_RAW))
                    rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
                if (rc)
                    e->broken = 1;
            }
        }
        if (rc == 0 && !apply && changed == (OURS | THEIRS)) {
            if (filters < 0)
                filters = look_at_metadata(e, look_for_filters, NULL, err);
            rc = filters > 0
                     ? conflict(e, err, "the same chunk was changed here, and may have a filter, as others in the file")
                     : filters;
        }
    }
    free(three);
    return rc;
}

/* Removes from the overlay what the new version has differently: metadata, which is the version's, and bytes that
 * earlier commits sent and others have changed since. The rest equals the version, and tells the next merge what
 * HDF5 has in memory. */
static int forget_old(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_extents data = {0};
    int bad = 0;
    for (size_t i = 0; i < v->dirty.n; i++)
        if (v->dirty.at[i].kind == XH_WRITTEN_RAW)
            bad |= xh_extents_put(&data, v->dirty.at[i].off, v->dirty.at[i].end, XH_WRITTEN_RAW);
    for (size_t i = 0; i < e->stale.n; i++) {
        const struct xh_stretch *s = &e->stale.at[i];
        for (uint64_t off = s->off, to; off < s->end; off = to)
            if (!xh_extents_next(&data, off, s->end, &to, NULL))
                bad |= xh_extents_cut(&v->have, off, to);
    }
    for (size_t i = 0; i < v->seen.n; i++) {
        const struct xh_stretch *s = &v->seen.at[i];
        for (uint64_t off = s->off, to; s->kind == XH_SEEN_META && off < s->end; off = to)
            if (!xh_extents_next(&data, off, s->end, &to, NULL))
                bad |= xh_extents_cut(&v->have, off, to);
    }
    if (bad) {
        xh_extents_free(&data);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    }
    xh_extents_free(&v->dirty);
    v->dirty = data;
    return 0;
}

int xh_edit_rebase(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_file *f = NULL;
    char *two[2] = {NULL, NULL};
    if (v->size != v->base_size || v->base_limit != v->base_size || now->size != v->base_size)
        return conflict(e, err, "its size was changed");
    int rc = of_new(xh_cache_open_part(e->url, &e->opt, &e->account, &f, err), err);
    if (rc == 0 && !xh_dav_is_same(xh_cache_validator(f), now->validator))
        rc = of_new(XH_E_CHANGED, err);
    rc = rc ? rc : two_pieces(two, err);
    rc = rc ? rc : metadata_kept(e, two, err);
    rc = rc ? rc : compare_seen(e, f, 1, two, err);
    rc = rc ? rc : merge_raw(e, f, 0, err);
    rc = rc ? rc : compare_seen(e, f, 0, two, err);
    rc = rc ? rc : merge_raw(e, f, 1, err);
    if (rc == 0 && (rc = forget_old(e, err)))
        e->broken = 1; /* |base| belongs to the new version already */
    free(two[0]);
    xh_trace(XH_T_VFD, "rebase", "url=%s to=%s rc=%d", xh_dav_shown(e->dav), now->validator, rc);
    if (rc) {
        xh_cache_close(f);
        return rc;
    }
    xh_cache_close(e->file);
    e->file = f;
    memcpy(v->base_version, now->validator, sizeof v->base_version);
    return 0;
}

int xh_edit_is_there(struct xh_edit *e, struct xh_err *err)
{
    struct xh_dav_stat st;
    int rc = xh_dav_stat(e->dav, "", &st, err);
    if (rc || !st.there || st.size != e->overlay->size)
        return rc;
    if (xh_dav_is_same(st.validator, e->overlay->base_version))
        return 0; /* it may differ where nothing was written, and the new file has zeros */
    rc = differs(e, 0, read_server, err);
    return rc < 0 ? rc : !rc;
}
