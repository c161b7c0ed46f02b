/* The driver class, and for each callback the choice between a URL and a path.
 *
 * Invariants 1. A file is remote or local from open to close, never both.
 * 2. The addresses that HDF5 gave out (|eoa|) and the end of the file are separate numbers, as in sec2.
 * 3. Only HDF5's threads run code of this folder; the cache's threads do not call HDF5.
 * 4. One class serves every libhdf5 in the process. Only what belongs to a file belongs to one libhdf5. So terminate()
 * frees nothing else.
 *
 * Source: H5FDdevelop.h, class struct version 1, the same from HDF5 1.14 to 2.x. */
#include "driver.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cache/watch/trace.h"
#include "elink.h"
#include "family.h"
#include "fapl.h"
#include "h5err.h"
#include "literal.h"
#include "local.h"
#include "mapping.h"
#include "parallel.h"
#include "python.h"
#include "remote.h"
#include "selection.h"
#include "sources.h"
#include "uncancelled.h"
#include "whose.h"

struct xh_vfd_file {
    H5FD_t pub; /* HDF5's part: first, and filled by HDF5 */

    /* Constant while open. */
    struct xh_h5 *h5;
    struct xh_remote *remote; /* either this or |local| is set */
    struct xh_local *local;
    struct xh_fapl_info *names; /* the block for the files that this file names: its own settings, and its name */
    struct xh_parallel *parallel; /* NULL: no other process shares the file */
    uint64_t family; /* see family.h */
    uint64_t by;     /* the number of the file that named it (xh_sources_file); 0: the program did */
    int pages;       /* 1: HDF5 reads whole pages */

    /* For files that a file named: see heed(). */
    int forgives; /* 1: HDF5 is older than 2.0 */
    const void *opened_in, *failed_in; /* calls of HDF5 (see xh_h5_entry), or NULL */
    int joined;                        /* 1: HDF5 also uses it for a second opening */

    haddr_t eoa; /* HDF5 serialises changes and reads of one file */
    struct xh_mapping_seen heap;
};

static herr_t terminate(void)
{
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    if (h5)
        xh_h5_forget_ids(h5);
    return 0;
}

/* Notes what heed() needs to know of a file that was just opened. */
static void watch(struct xh_vfd_file *f, hid_t fapl)
{
    unsigned major = 0, minor, release, kept = 0;
    f->h5->H5get_libversion(&major, &minor, &release);
    f->forgives = major < 2;
    __typeof__(H5Pget_elink_file_cache_size) *get =
        f->forgives ? xh_h5_find(f->h5, "H5Pget_elink_file_cache_size") : NULL;
    if (get && get(fapl, &kept) >= 0 && kept == 0) /* else another call may close the file */
        f->opened_in = xh_h5_entry(f->h5);
}

/* What a file at a URL named, and HDF5 has just tried as a local path on this thread; "": nothing. HDF5 then tries a
 * file of that name beside the URL, and the user sees that failure. */
static _Thread_local char tried[PATH_MAX]; /* a longer path cannot be opened */

/* The first of those with the same last part that was refused and exists; "": none. HDF5 puts directories that the user
 * has set before the name. */
static _Thread_local char refused[PATH_MAX];

static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static void forget_tried(void)
{
    *tried = *refused = '\0';
}

static int ends_alike(const char *path, const char *name)
{
    return strcmp(last_part(path), last_part(name)) == 0;
}

/* Notes the local path |name|, unless HDF5 has made it of the parent's URL, or of the end of a path that it has tried
 * before. |opens|: it is not refused. */
static void note_tried(const char *name, int opens)
{
    if (strstr(name, "/https://") || strstr(name, "/http://") || strstr(name, "/s3://") ||
        (*tried == '/' && strcmp(last_part(tried), name) == 0))
        return;
    const char *kept = strlen(name) < sizeof tried ? name : "";
    if (!*refused || !ends_alike(refused, name))
        snprintf(refused, sizeof refused, "%s", opens || access(kept, F_OK) ? "" : kept);
    snprintf(tried, sizeof tried, "%s", opens && *name == '/' ? "" : kept);
}

/* Returns the path |name| without secrets. A path that HDF5 made from a parent's URL may contain that URL's password or
 * token. */
static const char *path_shown(const char *name, char *out, size_t size)
{
    return strstr(name, "://") ? xh_url_shown(name, out, size) : name;
}

/* A file at a URL must not choose which local files are read. It could do so by a path that it names, or by a name that
 * HDF5 looks for in the current directory before it looks beside the URL. Returns 0, or -1, error pushed. */
static int may_be_local(struct xh_vfd_file *f, const char *name, hid_t fapl)
{
    const struct xh_namer *by = &f->names->namer;
    struct xh_err err = {0};
    char room[512];
    if (by->by_file)
        xh_source_prefix_cut(name);
    if (!by->by_file || !by->remote) {
        forget_tried();
        return 0;
    }
    struct xh_options *o = xh_fapl_options_new(f->h5, fapl, &err);
    if (!o)
        return xh_fail_cache(f->h5, &err);
    int may = o->local_sources != 0;
    free(o);
    note_tried(name, may);
    if (may)
        return 0;
    const char *shown = path_shown(name, room, sizeof room);
    xh_trace(XH_T_VFD, "refused", "path=%s by=%s", shown, by->parent);
    return xh_fail(f->h5, XH_E_ACCES,
                   "%.300s names the local file %.300s: files at URLs may not name local files, but with the option "
                   "local_sources, errno = %d, error message = '%s'",
                   by->parent, shown, EACCES, strerror(EACCES));
}

/* |asked|: what HDF5 asks for; |url|: what that stands for at the server. */
static int open_url(struct xh_vfd_file *f, const char *asked, const char *url, unsigned flags, hid_t fapl)
{
    struct xh_err err = {0};
    /* not what is in the current directory: HDF5 tries that for each name */
    const char *path = ends_alike(refused, asked) && (*refused == '/' || strcmp(refused, tried) != 0) ? refused : "";
    if (!f->parallel && !(flags & ~(unsigned)XH_ACC_RDWR) && xh_remote_again(f->h5, url, &f->remote))
        return 0;
    if (f->by && !f->parallel) {
        if (xh_source_open(f->h5, asked, url, flags, fapl, &f->names->namer, path, &f->remote))
            return -1;
        watch(f, fapl);
        return 0;
    }
    if (f->by && xh_source_is_afterthought(asked, &f->names->namer))
        return xh_fail(f->h5, XH_E_NOENT, "there is no such file");
    int rc = xh_remote_wants_writing(flags) && !f->parallel ? xh_remote_edit(f->h5, url, flags, fapl, &f->remote, &err)
                                                            : xh_remote_refuse_flags(url, flags, &err);
    if (rc == 0 && f->parallel)
        rc = xh_parallel_open_url(f->parallel, f->h5, url, fapl, f->by ? &f->names->namer : NULL, &f->remote, &err);
    else if (rc == 0 && !f->remote)
        rc = xh_remote_open(f->h5, url, fapl, NULL, &f->remote, &err);
    /* With a communicator opening fails at once. Otherwise HDF5 would read on one rank while the others wait for it. */
    char *key = rc && f->by ? xh_family_key(&f->names->namer, asked) : NULL;
    if (key)
        xh_family_note(f->family, key, XH_KIN_MISSING, &err, 0);
    free(key);
    if (rc && f->by && xh_parallel_first(f->parallel)) /* HDF5 does not report the reason */
        xh_source_say(url, &err);
    return rc ? xh_fail_cache(f->h5, &err) : 0;
}

static int open_remote(struct xh_vfd_file *f, const char *url, unsigned flags, hid_t fapl)
{
    struct xh_err err = {0};
    char *beside = NULL, *literal = NULL;
    const char *relative = *tried == '/' ? last_part(tried) : tried;
    int rc = f->by ? xh_source_beside(&f->names->namer, relative, url, &beside, &err) : 0;
    const char *asked = beside ? beside : url;
    if (rc == 0 && f->by && !(literal = xh_literal_url(asked, xh_source_name_at(relative, asked))))
        rc = xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a URL");
    rc = rc ? xh_fail_cache(f->h5, &err) : open_url(f, asked, literal ? literal : asked, flags, fapl);
    forget_tried();
    free(literal);
    free(beside);
    return rc;
}

static int open_local(struct xh_vfd_file *f, const char *name, unsigned flags, hid_t fapl)
{
    hbool_t use = 1, ignore = 0;
    char shown[512];
    size_t at;
    xh_trace(XH_T_VFD, "path", "name=%s flags=%x", path_shown(name, shown, sizeof shown), flags);
    char *below = f->by ? xh_source_below(&f->names->namer, name, &at) : NULL;
    if (below) {
        snprintf(tried, sizeof tried, "%s", below + at);
        int rc = open_remote(f, below, flags, fapl);
        free(below);
        return rc;
    }
    if (may_be_local(f, name, fapl))
        return -1;
    if (f->parallel && (flags & (XH_ACC_CREAT | XH_ACC_TRUNC | XH_ACC_RDWR)))
        return xh_fail(f->h5, XH_E_READONLY,
                       "several processes write one file by MPI-IO: open %s with H5Pset_fapl_mpio", name);
    if (f->h5->H5Pget_file_locking(fapl, &use, &ignore) < 0)
        ignore = 0;
    struct xh_options *o = NULL;
    struct xh_err err = {0};
    int mentioned = !f->parallel && xh_fapl_mentions(f->h5, fapl, f->names, XH_OPT_ID_local_shadow);
    if (mentioned && !(o = xh_fapl_options_new(f->h5, fapl, &err)))
        return xh_fail_cache(f->h5, &err);
    int rc = xh_local_open(f->h5, name, flags, ignore, o && o->local_shadow ? o : NULL, &f->local);
    free(o);
    if (rc == 0)
        forget_tried();
    if (!f->parallel || xh_parallel_agree(f->parallel, rc == 0) || rc)
        return rc;
    xh_local_close(f->local);
    return xh_fail(f->h5, XH_E_SYS, "another process of the communicator cannot open %s",
                   path_shown(name, shown, sizeof shown));
}

static H5FD_t *open_file(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    XH_UNCANCELLED;
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    if (!h5)
        return NULL; /* without HDF5's functions there is no stack; standard error has the reason */
    if (!name || !*name) {
        xh_fail(h5, XH_E_INVAL, "invalid file name");
        return NULL;
    }
    if (maxaddr == 0 || maxaddr > INT64_MAX) {
        xh_fail(h5, XH_E_INVAL, "bogus maxaddr");
        return NULL;
    }
    struct xh_vfd_file *f = calloc(1, sizeof *f);
    if (!f) {
        xh_fail(h5, XH_E_NOMEM, "unable to allocate file struct");
        return NULL;
    }
    f->h5 = h5;
    xh_python_begin();
    xh_elink_watch(h5); /* before anything that may push: these clear the stack */
    f->names = xh_fapl_info_of(h5, fapl);
    if (f->names && !f->names->namer.by_file)
        xh_elink_namer(h5, &f->names->namer);
    f->by = f->names && f->names->namer.by_file ? xh_sources_file(&f->names->namer) : 0;
    if (f->by)
        xh_trace(XH_T_VFD, "named", "by=%s server=%s", f->names->namer.parent, f->names->namer.server);
    f->family = f->by ? f->names->namer.family : xh_family_new();
    int rc = f->names ? xh_parallel_of(h5, fapl, &f->parallel)
                      : xh_fail(h5, XH_E_NOMEM, "out of memory for a file's settings");
    if (rc == 0)
        rc = xh_remote_is_url(name) ? open_remote(f, name, flags, fapl) : open_local(f, name, flags, fapl);
    if (rc) {
        xh_parallel_close(f->parallel);
        free(f->names);
        free(f);
        return NULL;
    }
    f->pages = f->remote ? xh_remote_has_pages(f->remote) : xh_fapl_has_pages(h5, fapl);
    if (f->remote)
        f->names->namer = *xh_remote_namer(f->remote);
    else
        xh_local_names(f->local, &f->names->namer);
    f->names->namer.family = f->family;
    xh_family_enter(f->family);
    xh_sources_opened(xh_sources_file(&f->names->namer));
    return &f->pub;
}

static herr_t close_file(H5FD_t *file)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    struct xh_h5 *h5 = f->h5;
    struct xh_err err;
    uint64_t self = xh_sources_file(&f->names->namer);
    int rc = 0, heeded = f->failed_in && f->failed_in == f->opened_in && !f->joined &&
                         f->failed_in == xh_h5_entry(h5) && xh_remote_failed(f->remote, &err);
    if (!heeded && f->by && xh_sources_heed(h5, self, &err)) {
        heeded = 1;
        xh_sources_failed(h5, f->by, &err); /* its own dataset may be behind a link too */
    }
    if (f->remote && !f->by)
        xh_remote_lost(f->remote, f->family);
    if (f->remote)
        rc = xh_remote_close(f->remote);
    else
        rc = xh_local_close(f->local);
    if (xh_family_leave(f->family))
        xh_sources_forget(f->family);
    xh_parallel_close(f->parallel);
    free(f->heap.p);
    free(f->names);
    free(f);
    return heeded ? xh_fail_cache(h5, &err) : rc;
}

static void *fapl_get(H5FD_t *file)
{
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    return xh_fapl_give(f->names);
}

/* HDF5 copies a list with our settings. This comes before the list can be given to H5Pset_elink_fapl. */
static void *fapl_copy(const void *info)
{
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    if (h5)
        xh_elink_watch(h5);
    return xh_fapl_copy(info);
}

static int cmp(const H5FD_t *file1, const H5FD_t *file2)
{
    const struct xh_vfd_file *a = (const struct xh_vfd_file *)file1, *b = (const struct xh_vfd_file *)file2;
    int c = a->remote ? 1 : -1;
    if (a->remote && b->remote)
        c = xh_remote_cmp(a->remote, b->remote);
    else if (a->local && b->local)
        c = xh_local_cmp(a->local, b->local);
    if (c != 0)
        return c;
    /* HDF5 will use one of them for both */
    if (a->remote) {
        ((struct xh_vfd_file *)file1)->joined = ((struct xh_vfd_file *)file2)->joined = 1;
        xh_remote_joined(a->remote, b->remote);
    }
    if (a->by || b->by)
        xh_sources_kept(a->h5, xh_sources_file(&a->names->namer), xh_sources_file(&b->names->namer));
    return 0;
}

/* Without a file HDF5 asks what the driver supports in general; the answer is for paths. */
static herr_t query(const H5FD_t *file, unsigned long *flags)
{
    const struct xh_vfd_file *f = (const struct xh_vfd_file *)file;
    if (!flags)
        return 0;
    /* the file gets exactly what the program wrote: no sieve, no accumulator */
    if (f && f->remote && xh_remote_is_written(f->remote))
        *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
    else if (f && f->remote)
        *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_SUPPORTS_SWMR_IO; /* H5Fget_eoa asks for it; open refuses SWMR */
    else
        *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
                 H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE |
                 H5FD_FEAT_SUPPORTS_SWMR_IO | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    if (f && f->parallel)
        *flags |= H5FD_FEAT_HAS_MPI;
    return 0;
}

static haddr_t get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    return ((const struct xh_vfd_file *)file)->eoa;
}

static herr_t set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t addr)
{
    ((struct xh_vfd_file *)file)->eoa = addr;
    return 0;
}

static haddr_t get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    const struct xh_vfd_file *f = (const struct xh_vfd_file *)file;
    return f->remote ? xh_remote_size(f->remote) : xh_local_eof(f->local);
}

static herr_t get_handle(H5FD_t *file, hid_t fapl, void **handle)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    if (!handle)
        return xh_fail(f->h5, XH_E_INVAL, "file handle not valid");
    if (xh_whose_answer(f->remote, &f->names->namer))
        return 0;
    if (f->remote)
        return xh_fail(f->h5, XH_E_INVAL, "a URL has no file descriptor");
    *handle = xh_local_fd(f->local);
    return 0;
}

static enum xh_edit_kind kind_of(H5FD_mem_t type)
{
    return type == H5FD_MEM_DRAW ? XH_EDIT_RAW : type == H5FD_MEM_OHDR ? XH_EDIT_HEADER : XH_EDIT_META;
}

/* Handles the end of a read of a file that another file named.
 *
 * HDF5 before 2.0 takes a source whose dataset cannot be opened, for any reason, for a source without that dataset, and
 * gives fill values. But it closes the file in the same call, and it heeds what closing returns. So closing fails too,
 * if the file is closed in the call that opened it, its last read failed, and no raw data was read of it. Where the
 * file is also in use otherwise, that is not possible; then a line on standard error says what failed. */
static int heed(struct xh_vfd_file *f, enum xh_edit_kind kind, int rc)
{
    struct xh_err err;
    if (f->by && rc && kind != XH_EDIT_RAW && xh_remote_why(f->remote, &err))
        xh_sources_failed(f->h5, f->by, &err);
    if (!f->by || !f->forgives)
        return rc;
    if (kind == XH_EDIT_RAW)
        f->opened_in = NULL;
    f->failed_in = rc ? xh_h5_entry(f->h5) : NULL;
    if (rc && kind != XH_EDIT_RAW && (f->joined || !f->opened_in) && xh_remote_failed(f->remote, &err))
        xh_source_say(err.text, &err);
    return rc;
}

static int read_pieces(struct xh_vfd_file *f, enum xh_edit_kind kind, const struct xh_extent *p, size_t n)
{
    return f->local ? xh_local_readv(f->local, kind == XH_EDIT_RAW, p, n)
                    : heed(f, kind, xh_remote_readv(f->remote, kind, p, n));
}

/* Reads a process's share of a collective read. Returns 0, -1, or XH_PARALLEL_PLAIN when the read is not collective. */
static int read_view(struct xh_vfd_file *f, hid_t dxpl, haddr_t addr, size_t count, void *buf)
{
    struct xh_extent *p = NULL;
    ptrdiff_t n = xh_parallel_view(f->parallel, dxpl, addr, count, buf, &p);
    int rc = n > 0 ? read_pieces(f, XH_EDIT_RAW, p, (size_t)n) : (int)n;
    free(p);
    return rc;
}

/* The global heap holds the file names of a virtual dataset. HDF5 reads it before it opens these files. */
static void look_for_names(struct xh_vfd_file *f, haddr_t addr, const void *buf, size_t size)
{
    const uint8_t *heap;
    size_t from = 0, bytes;
    while ((heap = xh_mapping_saw(&f->heap, addr, buf, size, f->pages, &from, &bytes)))
        xh_family_saw(f->family, heap, bytes);
}

static herr_t read_one(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, void *buf)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    if (f->parallel && type == H5FD_MEM_DRAW) {
        int rc = read_view(f, dxpl, addr, size, buf);
        if (rc != XH_PARALLEL_PLAIN)
            return rc;
    }
    struct xh_extent piece = {.off = addr, .len = size, .buf = buf};
    int rc = f->local ? xh_local_read(f->local, type == H5FD_MEM_DRAW, addr, size, buf)
                      : read_pieces(f, kind_of(type), &piece, 1);
    if (rc == 0)
        look_for_names(f, addr, buf, size);
    return rc;
}

/* Fills |p| with the pieces of a vector read. HDF5 shortens the arrays: behind the first entry, a size of 0, or a type
 * of H5FD_MEM_NOLIST, means that the entry before it holds for all the rest. Sets |*raw| when any piece is raw data,
 * and |*headers| when any piece is an object header. */
static void unfold(uint32_t count, const H5FD_mem_t types[], const haddr_t addrs[], const size_t sizes[],
                   void *const bufs[], struct xh_extent *p, int *raw, int *headers)
{
    int same_size = 0, same_type = 0;
    size_t size = 0;
    *raw = *headers = 0;
    for (uint32_t i = 0; i < count; i++) {
        same_size = same_size || (i > 0 && sizes[i] == 0);
        same_type = same_type || (i > 0 && types[i] == H5FD_MEM_NOLIST);
        if (!same_size)
            size = sizes[i];
        if (!same_type && types[i] == H5FD_MEM_DRAW)
            *raw = 1;
        if (!same_type && types[i] == H5FD_MEM_OHDR)
            *headers = 1;
        p[i] = (struct xh_extent){.off = addrs[i], .len = size, .buf = bufs[i]};
    }
}

static herr_t read_vector(H5FD_t *file, hid_t dxpl, uint32_t count, H5FD_mem_t types[], haddr_t addrs[],
                          size_t sizes[], void *bufs[])
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    struct xh_extent few[16];
    struct xh_extent *p = count <= sizeof few / sizeof *few ? few : malloc(count * sizeof *p);
    int raw, headers;
    if (count == 0)
        return 0;
    if (!p)
        return xh_fail(f->h5, XH_E_NOMEM, "out of memory for a read of %u pieces", count);
    unfold(count, types, addrs, sizes, bufs, p, &raw, &headers);
    int rc = 0;
    if (f->remote && headers) /* HDF5 reads headers one by one; here each piece is checked as a header in any case */
        for (uint32_t i = 0; rc == 0 && i < count; i++)
            rc = read_pieces(f, XH_EDIT_HEADER, &p[i], 1);
    else
        rc = read_pieces(f, raw ? XH_EDIT_RAW : XH_EDIT_META, p, count);
    if (p != few)
        free(p);
    return rc;
}

struct part {
    struct xh_vfd_file *f;
    enum xh_edit_kind kind;
};

static int read_part(void *ctx, const struct xh_extent *p, size_t n)
{
    const struct part *part = ctx;
    return read_pieces(part->f, part->kind, p, n);
}

static int hit_part(void *ctx, const struct xh_extent *p, size_t n)
{
    const struct part *part = ctx;
    return xh_remote_hit(part->f->remote, part->kind, p, n);
}

/* With read_vector alone HDF5 would first make a list of the selection's pieces. */
static herr_t read_selection(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, size_t count, hid_t memory[], hid_t spaces[],
                             haddr_t addrs[], size_t element_sizes[], void *bufs[])
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    struct part part = {f, kind_of(type)};
    struct xh_selection_ways ways = {&part, !f->remote || xh_remote_may_read_more(f->remote), read_part,
                                     f->local ? NULL : hit_part};
    return xh_selection_read(f->h5, &ways, count, memory, spaces, addrs, element_sizes, bufs);
}

static herr_t write_one(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, const void *buf)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    if (f->remote)
        return xh_remote_write(f->remote, kind_of(type), addr, size, buf);
    return xh_local_write(f->local, type == H5FD_MEM_DRAW, addr, size, buf);
}

static herr_t flush_file(H5FD_t *file, hid_t dxpl, hbool_t closing)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    if (f->remote)
        return xh_remote_flush(f->remote, closing);
    return xh_local_flush(f->local, closing);
}

static herr_t truncate_file(H5FD_t *file, hid_t dxpl, hbool_t closing)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    return f->remote ? xh_remote_truncate(f->remote, f->eoa) : xh_local_truncate(f->local, f->eoa);
}

static herr_t lock_file(H5FD_t *file, hbool_t rw)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    return f->remote ? 0 : xh_local_lock(f->local, rw);
}

static herr_t unlock_file(H5FD_t *file)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    return f->remote ? 0 : xh_local_unlock(f->local);
}

static herr_t delete_file(const char *name, hid_t fapl)
{
    XH_UNCANCELLED;
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    if (!h5)
        return -1;
    if (xh_remote_is_url(name))
        return xh_remote_refuse(h5, name, "delete a file at a URL");
    return xh_local_delete(h5, name);
}

/* A file that is not parallel supports no operation code, as in sec2. */
static herr_t ctl(H5FD_t *file, uint64_t op_code, uint64_t flags, const void *input, void **output)
{
    XH_UNCANCELLED;
    struct xh_vfd_file *f = (struct xh_vfd_file *)file;
    if (f->parallel && xh_parallel_ctl(f->parallel, op_code, output))
        return 0;
    if (flags & H5FD_CTL_FAIL_IF_UNKNOWN_FLAG)
        return xh_fail(f->h5, XH_E_INVAL, "unknown op_code and fail if unknown flag is set");
    return 0;
}

/* Without local_shadow flush does nothing, as in sec2: written data is in the kernel already. There is no write_vector,
 * so HDF5 writes piece by piece, as with sec2. */
const H5FD_class_t xh_driver_class = {
    .version = H5FD_CLASS_VERSION,
    .value = XH_DRIVER_VALUE,
    .name = XH_DRIVER_NAME,
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,
    .terminate = terminate,
    .fapl_size = sizeof(struct xh_fapl_info),
    .fapl_get = fapl_get,
    .fapl_copy = fapl_copy,
    .fapl_free = xh_fapl_free,
    .open = open_file,
    .close = close_file,
    .cmp = cmp,
    .query = query,
    .get_eoa = get_eoa,
    .set_eoa = set_eoa,
    .get_eof = get_eof,
    .get_handle = get_handle,
    .read = read_one,
    .write = write_one,
    .read_vector = read_vector,
    .read_selection = read_selection,
    .flush = flush_file,
    .truncate = truncate_file,
    .lock = lock_file,
    .unlock = unlock_file,
    .del = delete_file,
    .ctl = ctl,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* HDF5 asks these of a plugin, often and before anything is open. */
XHDF5_API int H5PLget_plugin_type(void);
XHDF5_API const void *H5PLget_plugin_info(void);

int H5PLget_plugin_type(void)
{
    return H5PL_TYPE_VFD;
}

/* HDF5 calls this when a program names the driver in a list. It also calls it while the library is being initialised
 * (HDF5_DRIVER); then the library is not ready. */
const void *H5PLget_plugin_info(void)
{
    struct xh_h5 *h5 = xh_h5_of_callback(__builtin_return_address(0));
    if (h5 && h5->default_fapl && *h5->default_fapl > 0)
        xh_elink_watch(h5);
    return &xh_driver_class;
}
