/* Writing, truncating and flushing a file that is written: see edit.h. A forked child changes nothing. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "base/process.h"
#include "watch/trace.h"
#include "compose.h"
#include "super.h"

/* When a forked child closes the file or ends, HDF5 flushes there what the parent has changed. That is no error, as
 * the parent does it too. Data, however, is the child's own. */
static int in_child(struct xh_edit *e, enum xh_edit_kind kind, struct xh_err *err)
{
    static const char text[] = "the child of a fork cannot write what its parent has open";
    if (kind == XH_EDIT_RAW)
        return xh_edit_fail(e, err, XH_E_READONLY, "%s", text);
    if (!e->told)
        xh_say("%s: %s", xh_dav_shown(e->dav), text);
    e->told = 1;
    return 0;
}

/* Reads metadata that is overwritten and was never read: a merge needs its former bytes. If they cannot be had (no
 * network; the version is gone; the disk is full) the write continues: should another writer change the file, the
 * unknown bytes are a conflict. They are not asked for again, as each try may last long. */
static void note_below(struct xh_edit *e, uint64_t off, uint64_t len)
{
    struct xh_overlay *v = e->overlay;
    uint64_t end = off + len < v->base_limit ? off + len : v->base_limit, to;
    int rc = 0, kind;
    struct xh_err why;
    for (; off < end && e->file && !e->blind; off = to) {
        int seen = xh_extents_next(&v->seen, off, end, &to, &kind);
        uint64_t until;
        if ((seen && kind == XH_SEEN_META) || xh_extents_next(&v->have, off, to, &until, NULL))
            continue; /* known, or written before */
        to = until < to ? until : to;
        char *buf = malloc((size_t)(to - off));
        struct xh_extent x = {off, to - off, buf};
        rc = buf ? xh_cache_read(e->file, XH_KIND_META, &x, 1, &why)
                 : xh_err_set(&why, XH_E_NOMEM, 0, "out of memory for a write");
        rc = rc ? rc : xh_overlay_see(v, off, buf, to - off, &why);
        free(buf);
        e->blind = rc != 0;
        if (rc)
            xh_trace(XH_T_VFD, "blind", "url=%s why=\"%s\"", xh_dav_shown(e->dav), why.text);
    }
}

/* Returns 1 when [off, off + len) holds data that others have changed since HDF5 was given it, and |buf| would undo
 * that. Also returns 1 when that is not known, as the version below is gone: a write that fails would leave nothing
 * to export. */
static int is_stale(struct xh_edit *e, uint64_t off, const char *buf, uint64_t len)
{
    uint64_t end = off + len, at, to;
    int differs = 0;
    if (!e->stale.n || (!xh_extents_next(&e->stale, off, end, &to, NULL) && to == end))
        return 0;
    char *there = malloc(XH_EDIT_PIECE);
    for (at = off; there && at < end && !differs; at = to) { /* HDF5 also writes bytes that it has not changed */
        to = end - at < XH_EDIT_PIECE ? end : at + XH_EDIT_PIECE;
        differs = xh_edit_compose(e, at, there, (size_t)(to - at), XH_IGNORED) ||
                  memcmp(there, buf + (at - off), (size_t)(to - at)) != 0;
    }
    free(there);
    return !there || differs;
}

/* Notes a write of raw data that was read before, for merges: it begins with an element, and what it overlaps of older
 * ones does so, too. Writes that touch stay apart: the kind tells them apart. Returns 0 or XH_E_NOMEM. */
static int note_piece(struct xh_edit *e, uint64_t off, uint64_t len, struct xh_err *err)
{
    uint64_t to;
    if (!xh_extents_next(&e->overlay->seen, off, off + len, &to, NULL) && to == off + len)
        return 0;
    return xh_extents_put(&e->pieces, off, off + len, (int)(off % INT_MAX))
               ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a write")
               : 0;
}

/* Notes that the file was whole: later writes and truncations may be in it or not, as in a local file. */
static void unsettle(struct xh_edit *e)
{
    e->unflushed = 1;
    int was_whole = e->overlay->state == XH_OVERLAY_CLOSED || e->overlay->state == XH_OVERLAY_WITHHELD;
    if (was_whole && xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, XH_IGNORED))
        xh_overlay_unsave(e->overlay);
}

int xh_edit_write(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len,
                  struct xh_err *err)
{
    int rc = 0;
    if (e->process != xh_process())
        return in_child(e, kind, err);
    if (len == 0)
        return 0;
    if (kind == XH_EDIT_RAW && xh_edit_is_heap(e, buf, len))
        kind = XH_EDIT_META; /* several datasets may share it */
    if (kind != XH_EDIT_RAW)
        note_below(e, off, len);
    else if (is_stale(e, off, buf, len))
        /* The commit reports it. If the write failed while HDF5 closes a dataset, its error would be lost, and some
         * versions of HDF5 would crash at the program's end. */
        e->overlay->behind = 1;
    unsettle(e);
    uint64_t begun = xh_copying_begin(e);
    rc = rc ? rc
            : xh_overlay_write(e->overlay, off, buf, len, kind == XH_EDIT_RAW ? XH_WRITTEN_RAW : XH_WRITTEN_META, err);
    if (rc == 0 && kind == XH_EDIT_RAW)
        rc = note_piece(e, off, len, err);
    if (rc && e->discard == XH_EDIT_DISCARD_ALL)
        rc = 0; /* HDF5 also writes when it closes a file; these bytes are discarded */
    else if (rc)
        e->broken = e->overlay->broken = 1;
    else
        xh_count(&e->counters, bytes_written, len);
    if (begun && xh_timeline_on())
        xh_timeline_slice(0, kind == XH_EDIT_RAW ? "write data" : "write metadata", begun, xh_now_ns(),
                          "first=%llu bytes=%llu", (unsigned long long)off, (unsigned long long)len);
    xh_copying_end(e, begun);
    return rc;
}

int xh_edit_truncate(struct xh_edit *e, uint64_t size, struct xh_err *err)
{
    if (size == e->overlay->size || e->process != xh_process())
        return 0;
    unsettle(e);
    uint64_t begun = xh_copying_begin(e);
    int cut = size < e->overlay->size && e->overlay->state == XH_OVERLAY_FLUSHED,
        rc = xh_overlay_truncate(e->overlay, size, err);
    if (rc == 0 && cut)
        rc = xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, err); /* the record names bytes that are gone */
    xh_copying_end(e, begun);
    if (rc)
        e->broken = e->overlay->broken = 1;
    return rc;
}

int xh_edit_flush(struct xh_edit *e, struct xh_err *err)
{
    if (!e->unflushed || e->process != xh_process() || !xh_edit_is_whole(e))
        return 0;
    uint64_t begun = xh_copying_begin(e);
    int rc = xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, err);
    xh_copying_end(e, begun);
    e->unflushed = rc != 0;
    return rc;
}
