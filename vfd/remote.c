/* Files at URLs: see remote.h. Of the network this file knows only cache.h. */
#include "remote.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cache/base/letters.h"
#include "../cache/base/now.h"
#include "../cache/base/table.h"
#include "../cache/watch/trace.h"
#include "chunkmap.h"
#include "external.h"
#include "family.h"
#include "fapl.h"
#include "h5err.h"
#include "lost.h"
#include "unsigned.h"

struct piece {
    uint64_t at;
    size_t len;
};

/* Constant while open, except |committing|, |flushed|, |headers|, |said_joined|, |is_part|, |elsewhere|, the fields
 * about failures, and those of the list of files that are written (h5->written). The libhdf5's own lock protects these:
 * every caller in the driver holds it. As the process ends, the list is walked without it; see enter_written(). */
struct xh_remote {
    struct xh_h5 *h5;
    struct xh_file *file; /* either this or |edit| is set, or |unopened| */
    struct xh_edit *edit;
    /* why the file could not be opened; for a file that a file named and that must not count as missing */
    struct xh_err *unopened;
    uint64_t size; /* of |file| */
    char shown[512]; /* the URL without secrets */
    /* without user info and fragment; identifies the file. |shown| does not: it may be cut, and lacks the query */
    char *url;
    struct xh_namer names; /* how the file names other files */
    atomic_int said_part; /* 1: it is a part of another driver's, and a refusal was printed */
    int said_joined; /* 1: a message about an opening with other options was printed */
    int committing;  /* 1: what is flushed is about to be sent */
    int made;        /* 1: it was opened to be made, or made anew */
    int flushed;     /* 1: HDF5 has flushed it, as it does at the latest when it closes a file */
    struct piece *headers; /* what was written and may name external files, by place, each once; NULL: nothing */
    size_t n_headers, headers_room;
    struct xh_remote *next; /* in the list h5->written */
    /* for a stand-in: the file that it stands for, and whose |edit| it has while that is open */
    struct xh_remote *of;
    int stands_in;
    int local_sources; /* 1: it may name local files */
    int is_part;       /* of a file of another driver of HDF5, see external.h; below 0: not known */
    int pages;         /* 1: HDF5 reads whole pages, so metadata may come together with data, and be read as data */
    unsigned places; /* that HDF5 has looked at for its signature; see unsigned.h */
    /* Set once, by any thread: HDF5 takes heaps from an image of its metadata cache, not from the place of their
     * addresses. */
    atomic_int elsewhere;
    /* Where the rest of a block of driver information follows that HDF5 has begun to read; 0: nowhere. Relaxed: it is
     * the thread that began which reads on. */
    _Atomic uint64_t names_at;
    _Atomic(struct xh_chunkmap *) chunks; /* of the last hint; any thread takes it, and gives it back */

    /* For a file that another file named. The failure of the last read also answers the next reads for a while, even
     * when the file is closed and opened for each of them; see family.h. */
    char *named; /* the family's key of the URL, or NULL */
    uint64_t family;
    _Atomic uint64_t failed_until_ns; /* 0: it did not fail; relaxed: |lock| orders |failed| */
    pthread_mutex_t lock;             /* guards |failed|; a leaf */
    struct xh_err failed;
};

/* The size that HDF5 gets for a file that was not opened. HDF5 reads the signature at 0 first, whatever the size; but
 * it would create an empty file anew. */
#define UNOPENED_BYTES 2048u

/* Guards the lists of files that are written beside the libhdf5s' own locks, of which one may be held for as long as a
 * transfer takes when the process ends. What is in a list is not closed meanwhile. A leaf. */
static pthread_mutex_t written_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t written_once = PTHREAD_ONCE_INIT;

static void take_written(void)
{
    pthread_mutex_lock(&written_lock);
}

static void give_written(void)
{
    pthread_mutex_unlock(&written_lock);
}

static void survive_forks(void)
{
    pthread_atfork(take_written, give_written, give_written);
}

static void enter_written(void)
{
    pthread_once(&written_once, survive_forks);
    take_written();
}

int xh_remote_is_url(const char *name)
{
    return xh_cache_is_url(name);
}

static int refuse(const char *url, const char *what, const char *or_else, struct xh_err *err)
{
    char shown[512];
    return xh_err_set(err, XH_E_READONLY, 0,
                      "cannot %s: URLs are read-only, open %s for reading only (h5py: mode 'r')%s", what,
                      xh_url_shown(url, shown, sizeof shown), or_else);
}

int xh_remote_refuse(struct xh_h5 *h5, const char *url, const char *what)
{
    struct xh_err err;
    refuse(url, what, "", &err);
    return xh_fail_cache(h5, &err);
}

int xh_remote_refuse_flags(const char *url, unsigned flags, struct xh_err *err)
{
    if (flags & (XH_ACC_CREAT | XH_ACC_TRUNC | XH_ACC_EXCL))
        return refuse(url, "create or overwrite a file at a URL", "", err);
    if (flags & (XH_ACC_RDWR | XH_ACC_SWMR_WRITE))
        return refuse(url, "open a URL for writing", "", err);
    if (flags & XH_ACC_SWMR_READ) {
        char shown[512];
        xh_err_set(err, XH_E_READONLY, 0,
                   "cannot follow a writer over https (SWMR): open %s without SWMR, once its writer has closed it",
                   xh_url_shown(url, shown, sizeof shown));
        err->sys_errno = EOPNOTSUPP;
        return err->code;
    }
    return 0;
}

/* Returns |url| without user info and fragment, or NULL when out of memory. */
static char *plain_url(const char *url)
{
    const char *host = strstr(url, "://"), *from = host ? host + 3 : url;
    const char *at = memrchr(from, '@', strcspn(from, "/?#")), *rest = at ? at + 1 : from;
    char *out = NULL;
    return asprintf(&out, "%.*s%.*s", (int)(from - url), url, (int)strcspn(rest, "#"), rest) < 0 ? NULL : out;
}

static struct xh_remote *make(struct xh_h5 *h5, const char *url)
{
    struct xh_remote *r = calloc(1, sizeof *r);
    if (!r || !(r->url = plain_url(url))) {
        free(r);
        return NULL;
    }
    r->h5 = h5;
    r->is_part = -1;
    pthread_mutex_init(&r->lock, NULL);
    xh_url_shown(url, r->shown, sizeof r->shown);
    return r;
}

static void unmake(struct xh_remote *r)
{
    pthread_mutex_destroy(&r->lock);
    xh_chunkmap_free(r->chunks);
    free(r->unopened);
    free(r->headers);
    free(r->named);
    free(r->url);
    free(r);
}

struct xh_remote *xh_remote_unopened(struct xh_h5 *h5, const char *url, const struct xh_err *err)
{
    struct xh_remote *r = make(h5, url);
    if (r && !(r->unopened = malloc(sizeof *err))) {
        unmake(r);
        return NULL;
    }
    if (r)
        *r->unopened = *err;
    return r;
}

/* Sets what follows from URL and options, for reading and for writing. */
static void settle(struct xh_remote *r, const char *url, hid_t fapl, const struct xh_options *o)
{
    xh_cache_names(url, o, &r->names);
    /* NULL when out of memory: then nothing is remembered */
    r->named = o->namer.by_file ? xh_family_key(&o->namer, url) : NULL;
    r->family = o->namer.family;
    r->local_sources = o->local_sources != 0;
    r->pages = xh_fapl_has_pages(r->h5, fapl);
    atomic_init(&r->elsewhere, 0);
}

/* Sets |o| for |url|. Where they say no sense, the option stats prints the reason, as it does where a file cannot be
 * opened: HDF5's tools drop it. */
static int options_of(const char *url, struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err)
{
    char shown[512];
    int rc = xh_fapl_options(h5, fapl, o, err);
    if (rc && o->stats)
        xh_say("%s: not opened: %s", xh_url_shown(url, shown, sizeof shown), err->text);
    return rc;
}

static int open_with(const char *url, hid_t fapl, const struct xh_told *told, struct xh_remote *r, struct xh_options *o,
                     struct xh_err *err)
{
    int rc = options_of(url, r->h5, fapl, o, err);
    if (rc == 0 && o->namer.by_file)
        o->followers = xh_family_behind(o->namer.family, url);
    if (rc == 0)
        rc = told ? xh_cache_open_told(url, o, told, &r->file, err) : xh_cache_open(url, o, &r->file, err);
    if (rc)
        return rc;
    r->size = xh_cache_size(r->file);
    settle(r, url, fapl, o);
    return 0;
}

int xh_remote_open(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_told *told, struct xh_remote **out,
                   struct xh_err *err)
{
    struct xh_options *o = malloc(sizeof *o); /* a thread's stack may be small */
    struct xh_remote *r = o ? make(h5, url) : NULL;
    int rc = r ? open_with(url, fapl, told, r, o, err) : xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    free(o);
    if (rc) {
        if (r)
            unmake(r);
        return rc;
    }
    xh_trace(XH_T_VFD, "open", "url=%s size=%llu", r->shown, (unsigned long long)r->size);
    *out = r;
    return 0;
}

int xh_remote_wants_writing(unsigned flags)
{
    return (flags & (XH_ACC_CREAT | XH_ACC_TRUNC | XH_ACC_EXCL | XH_ACC_RDWR)) &&
           !(flags & (XH_ACC_SWMR_WRITE | XH_ACC_SWMR_READ));
}

static int edit_with(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, struct xh_options *o,
                     struct xh_remote **out, struct xh_err *err)
{
    enum xh_edit_how how = flags & XH_ACC_EXCL     ? XH_EDIT_CREATE
                           : !(flags & XH_ACC_TRUNC) ? XH_EDIT_CHANGE
                           : flags & XH_ACC_CREAT    ? XH_EDIT_REPLACE
                                                     : XH_EDIT_EMPTY; /* the family driver looks for parts so */
    int rc = options_of(url, h5, fapl, o, err);
    if (rc)
        return rc;
    if (xh_strncasecmp(url, "s3://", 5) == 0) {
        char shown[512];
        return xh_err_set(err, XH_E_READONLY, 0,
                          "cannot %s %s: objects of S3 are read, and not written. Open it for reading only (h5py: mode "
                          "'r'); write a local file, and copy it there (aws s3 cp)",
                          how == XH_EDIT_CHANGE ? "open for writing" : "create or overwrite",
                          xh_url_shown(url, shown, sizeof shown));
    }
    if (!o->writable)
        return refuse(url, how == XH_EDIT_CHANGE ? "open a URL for writing" : "create or overwrite a file at a URL",
                      ", or set XHDF5_WRITABLE=on, where the server takes writes", err);
    struct xh_remote *r = make(h5, url);
    if (!r)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    if ((rc = xh_edit_open(url, o, how, &r->edit, err))) {
        unmake(r);
        return rc;
    }
    settle(r, url, fapl, o);
    r->made = how != XH_EDIT_CHANGE;
    if (r->pages)
        xh_edit_has_pages(r->edit);
    enter_written();
    LL_PREPEND(h5->written, r);
    give_written();
    *out = r;
    return 0;
}

int xh_remote_edit(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, struct xh_remote **out,
                   struct xh_err *err)
{
    struct xh_options *o = malloc(sizeof *o); /* a thread's stack may be small */
    int rc = o ? edit_with(h5, url, flags, fapl, o, out, err) : xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    free(o);
    return rc;
}

const struct xh_namer *xh_remote_namer(const struct xh_remote *r)
{
    return &r->names;
}

int xh_remote_again(struct xh_h5 *h5, const char *url, struct xh_remote **out)
{
    struct xh_remote *of = h5->written, *r = of ? make(h5, url) : NULL;
    while (r && of && (of->stands_in || strcmp(of->url, r->url) != 0))
        of = of->next;
    if (r && !of)
        unmake(r);
    if (!r || !of)
        return 0;
    r->edit = of->edit;
    r->of = of;
    r->stands_in = 1;
    r->names = of->names;
    r->local_sources = of->local_sources;
    r->pages = of->pages;
    enter_written();
    LL_PREPEND(h5->written, r);
    give_written();
    *out = r;
    return 1;
}

/* Removes |r| from the list. Its stand-ins lose their |edit|. */
static void forget(struct xh_remote *r)
{
    struct xh_remote *other;
    if (!r->h5->written)
        return;
    enter_written();
    LL_DELETE(r->h5->written, r);
    give_written();
    LL_FOREACH (r->h5->written, other)
        if (other->of == r) {
            other->of = NULL;
            other->edit = NULL;
        }
}

int xh_remote_has_pages(const struct xh_remote *r)
{
    return r->pages;
}

int xh_remote_is_written(const struct xh_remote *r)
{
    return r->edit != NULL;
}

int xh_remote_may_read_more(const struct xh_remote *r)
{
    return !r->edit && !(r->file && xh_cache_is_hinted(r->file));
}

/* Reads |n| extents of the file. Returns 0 or a negative code. */
static int read_extents(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n,
                        struct xh_err *err)
{
    return r->edit ? xh_edit_read(r->edit, kind, ext, n, err)
                   : xh_cache_read(r->file, kind == XH_EDIT_RAW ? XH_KIND_RAW : XH_KIND_META, ext, n, err);
}

struct looker {
    struct xh_remote *r;
    int rc; /* the first failed look, with |err|; 0: none failed */
    struct xh_err err;
};

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    struct looker *l = ctx;
    struct xh_extent ext = {.off = off, .len = len, .buf = buf};
    struct xh_err err = {0};
    uint64_t size = xh_remote_size(l->r);
    if (len > size || off > size - len)
        return -1;
    int rc = len ? read_extents(l->r, XH_EDIT_META, &ext, 1, &err) : 0;
    if (rc && !l->rc) {
        l->rc = rc;
        l->err = err;
    }
    return rc;
}

/* Notes an image of HDF5's metadata cache. Without a page buffer HDF5 reads and writes all of it at once. */
static void note_image(struct xh_remote *r, const void *buf, size_t len)
{
    if (r->pages || xh_external_has_heap(buf, len))
        atomic_store_explicit(&r->elsewhere, 1, memory_order_relaxed);
}

/* Notes a piece that may name external files. Whether it does is known when all of the metadata is written. Returns 0
 * or XH_E_NOMEM. */
static int note_header(struct xh_remote *r, uint64_t addr, size_t size, const void *buf, struct xh_err *err)
{
    if (memmem(buf, size, "MDCI", 4))
        note_image(r, buf, size);
    if (!xh_external_may_hold(buf, size))
        return 0;
    size_t at = xh_count_before(i, r->n_headers, r->headers[i].at < addr);
    if (at < r->n_headers && r->headers[at].at == addr) {
        r->headers[at].len = size > r->headers[at].len ? size : r->headers[at].len;
        return 0;
    }
    if (xh_grow(r->headers, r->headers_room, r->n_headers + 1))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a write to %.200s", r->shown);
    memmove(r->headers + at + 1, r->headers + at, (r->n_headers - at) * sizeof *r->headers);
    r->headers[at] = (struct piece){addr, size};
    r->n_headers++;
    return 0;
}

int xh_remote_write(struct xh_remote *r, enum xh_edit_kind kind, uint64_t addr, size_t size, const void *buf)
{
    struct xh_err err = {0};
    if (r->unopened)
        return xh_fail_cache(r->h5, r->unopened);
    if (!r->edit || r->stands_in)
        return xh_remote_refuse(r->h5, r->shown, "write to a URL");
    int rc = xh_edit_write(r->edit, kind, addr, buf, size, &err);
    if (rc == 0 && !r->local_sources && (kind != XH_EDIT_RAW || r->pages))
        rc = note_header(r, addr, size, buf, &err);
    return rc ? xh_fail_cache(r->h5, &err) : 0;
}

int xh_remote_truncate(struct xh_remote *r, uint64_t eoa)
{
    struct xh_err err = {0};
    return r->edit && !r->stands_in && xh_edit_truncate(r->edit, eoa, &err) ? xh_fail_cache(r->h5, &err) : 0;
}

int xh_remote_flush(struct xh_remote *r, int closing)
{
    struct xh_err err = {0};
    r->flushed = 1;
    return r->edit && !closing && !r->committing && xh_edit_flush(r->edit, &err) ? xh_fail_cache(r->h5, &err) : 0;
}

/* Sets how far |e| can tell what the |len| bytes at |p| hold: the file may be a part, whose other parts bring what its
 * metadata names. Whether it is one is looked for only where it matters, as that may take some requests. What is
 * written may become one, or be none any more. */
static void note_part(struct xh_remote *r, struct xh_external *e, const void *p, size_t len)
{
    int may = (r->is_part != 0 || r->edit) && xh_external_may_hold(p, len);
    if (may && (r->is_part < 0 || r->edit))
        r->is_part = xh_external_is_part(e);
    e->part = may && r->is_part != 0;
    e->sure = !e->part && !atomic_load_explicit(&r->elsewhere, memory_order_relaxed);
}

/* HDF5 has written the raw data of a dataset with external files to the local disk, past the driver, and nobody can
 * read it at the URL: a file with such a dataset is not sent. Looks at what was noted since the last commit. */
static void refuse_made_external(struct xh_remote *r)
{
    struct looker l = {.r = r};
    struct xh_external e = {.size = xh_remote_size(r), .look = look, .ctx = &l};
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct piece *p = &r->headers[i];
        char why[512], *buf = p->at < e.size ? malloc(p->len) : NULL;
        size_t len = buf && p->len > e.size - p->at ? (size_t)(e.size - p->at) : p->len;
        int there = p->at < e.size, untold = there && (!buf || look(&l, p->at, buf, len) != 0);
        if (there && !untold)
            note_part(r, &e, buf, len);
        int made = there && !untold && xh_external_anywhere(&e, p->at, buf, len);
        free(buf);
        if (untold) {
            xh_edit_refuse(r->edit, "what was written cannot be read again, so it cannot be told whether it has a "
                                    "dataset whose data is in external files; the file is not sent");
            return;
        }
        if (!made)
            continue;
        snprintf(why, sizeof why,
                 "it has a dataset whose data is in the external file '%.150s', which HDF5 writes to the local disk: "
                 "at a URL nobody could read it, so the file is not sent. Make the dataset without H5Pset_external, or "
                 "allow that by the option local_sources",
                 *e.name ? e.name : "?");
        xh_edit_refuse(r->edit, why);
        return;
    }
    free(r->headers);
    r->headers = NULL;
    r->n_headers = r->headers_room = 0;
}

void xh_remote_commits(struct xh_remote *r, int now)
{
    r->committing = now;
}

int xh_remote_commit(struct xh_remote *r)
{
    struct xh_err err = {0};
    if (!r->edit)
        return 0;
    refuse_made_external(r);
    return xh_edit_commit(r->edit, &err) ? xh_fail_cache(r->h5, &err) : xh_edit_is_behind(r->edit);
}

struct xh_file *xh_remote_cache(const struct xh_remote *r)
{
    return r->file;
}

/* HDF5 has forgotten the file when it calls this. A failure to send is also printed on standard error, because many
 * programs do not check what H5Fclose returns. */
static int close_edit(struct xh_remote *r)
{
    struct xh_err err = {0};
    if (xh_lost_in_close(r->h5))
        xh_edit_refuse(r->edit,
                       "HDF5 could not write all of the file when it closed it, as its error tells, so the file is not "
                       "sent. Do it again on the file as it is at the server");
    refuse_made_external(r);
    if (r->made && !r->flushed) { /* H5Fcreate has failed: what it wrote until then is no file */
        xh_say("%s: closed before HDF5 had finished the new file, so nothing is sent", r->shown);
        xh_edit_discard(r->edit, XH_EDIT_DISCARD_ALL);
    }
    int rc = xh_edit_close(r->edit, &err);
    if (rc || err.text[0])
        xh_say("%s", err.text);
    return rc ? xh_fail_cache(r->h5, &err) : 0;
}

/* The process ends. HDF5's exit handler has closed the files, unless it counts an object as open that a failed call has
 * left, or the program has called H5dont_atexit. Other threads may still open and close some. */
__attribute__((destructor)) static void tell_unclosed(void)
{
    struct xh_h5 *h5;
    struct xh_remote *r;
    struct xh_err err;
    enter_written();
    for (size_t i = 0; (h5 = xh_h5_nth(i)); i++)
        LL_FOREACH (h5->written, r)
            if (!r->stands_in && xh_edit_unclosed(r->edit, &err))
                xh_say("%s", err.text);
    give_written();
}

void xh_remote_lost(struct xh_remote *r, uint64_t family)
{
    struct xh_family_lost lost = xh_family_lost(family);
    if (r->file && (lost.failures || lost.missing))
        xh_cache_lost(r->file, lost.failures, lost.missing, lost.network_ns);
}

int xh_remote_close(struct xh_remote *r)
{
    xh_trace(XH_T_VFD, "close", "url=%s", r->shown);
    forget(r);
    int rc = r->edit && !r->stands_in ? close_edit(r) : 0;
    xh_cache_leave(r->file);
    unmake(r);
    return rc;
}

int xh_remote_discard(struct xh_remote *r, int keep)
{
    if (!r->edit)
        return 1;
    xh_edit_discard(r->edit, keep ? XH_EDIT_DISCARD_KEEP : XH_EDIT_DISCARD_ALL);
    return 0;
}

int xh_remote_cmp(const struct xh_remote *a, const struct xh_remote *b)
{
    if (a->unopened || b->unopened) /* equal to no other file: else HDF5 would read the other one instead */
        return a < b ? -1 : a > b;
    if (a->file && b->file)
        return xh_cache_cmp(a->file, b->file);
    return strcmp(a->url, b->url);
}

void xh_remote_joined(struct xh_remote *a, struct xh_remote *b)
{
    char names[400] = "";
    size_t used = 0;
    if (!a->file || !b->file || a->said_joined || b->said_joined)
        return;
    const struct xh_options *x = xh_cache_options(a->file), *y = xh_cache_options(b->file);
    for (size_t i = 0; i < XH_OPT_COUNT && used < sizeof names; i++)
        if (!xh_options_agree(&xh_opt_rows[i], x, y))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", xh_opt_rows[i].name);
    if (!used)
        return;
    a->said_joined = b->said_joined = 1;
    xh_say("%s is open already, with other options (%s): those of its first opening hold until it is closed",
           a->shown, names);
}

uint64_t xh_remote_size(const struct xh_remote *r)
{
    return r->edit ? xh_edit_size(r->edit) : r->unopened ? UNOPENED_BYTES : r->size;
}

/* 1 when no piece is empty and all lie within the file. */
static int all_inside(uint64_t size, const struct xh_extent *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i].len - 1 < size && p[i].off <= size - p[i].len)
        i++;
    return i == n;
}

/* Fills |ext| with the parts of the pieces that lie within the file, and zeroes the rest. Returns the number of
 * parts. */
static size_t inside(uint64_t size, const struct xh_extent *p, size_t n, struct xh_extent *ext)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t there = p[i].off < size ? size - p[i].off : 0;
        uint64_t len = p[i].len < there ? p[i].len : there;
        if (len < p[i].len)
            memset((char *)p[i].buf + len, 0, (size_t)(p[i].len - len));
        if (len > 0)
            ext[k++] = (struct xh_extent){.off = p[i].off, .len = len, .buf = p[i].buf};
    }
    return k;
}

/* Looks at metadata that is no object header: a block of driver information, of which HDF5 reads the names after the
 * head. */
static int look_at_block(struct xh_remote *r, struct xh_external *e, const struct xh_extent *x)
{
    if (x->off && x->off == atomic_load_explicit(&r->names_at, memory_order_relaxed) &&
        xh_external_in_names(e, x->buf, x->len))
        return XH_EXTERNAL_PARTS;
    if (xh_external_is_block(x->buf, x->len))
        atomic_store_explicit(&r->names_at, x->off + x->len, memory_order_relaxed);
    return xh_external_in_block(e, x->off, x->buf, x->len);
}

/* HDF5's multi driver clears the error stack. Prints |err|, once for each open file. Returns its code. */
static int say_once(struct xh_remote *r, const struct xh_err *err)
{
    if (!atomic_exchange_explicit(&r->said_part, 1, memory_order_relaxed))
        xh_say("%s", err->text);
    return err->code;
}

/* HDF5 itself reads external raw data, from local files; a file at a URL must not choose which. Nor may its driver
 * information choose which local files, or URLs with the program's credentials, are opened as its parts. Returns 0, or
 * XH_E_ACCES with |err| when the |n| extents, of |kind|, name an external file, or such a part. If that cannot be told,
 * also returns an error: the server chooses its answers, so it could give HDF5 what was withheld here. */
static int refuse_external(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n,
                           struct xh_err *err)
{
    struct looker l = {.r = r};
    struct xh_external e = {.size = xh_remote_size(r), .look = look, .ctx = &l, .no_lists = r->local_sources,
                            .parts = r->local_sources ? XH_PARTS_LOCAL : XH_PARTS_BESIDE};
    for (size_t i = 0; i < n; i++) {
        const struct xh_extent *x = &ext[i];
        int image = !e.no_lists && (r->pages || kind == XH_EDIT_META) &&
                    xh_external_is_image(&e, x->off, x->buf, x->len);
        if (image)
            note_image(r, x->buf, x->len);
        if (!e.no_lists)
            note_part(r, &e, x->buf, x->len);
        int found = image || r->pages || e.part ? xh_external_anywhere(&e, x->off, x->buf, x->len)
                    : kind == XH_EDIT_HEADER    ? xh_external_in_header(&e, x->off, x->buf, x->len)
                                                : 0;
        if (!found && kind == XH_EDIT_META)
            found = look_at_block(r, &e, x);
        if (found == XH_EXTERNAL_PARTS) {
            xh_err_set(err, XH_E_ACCES, 0,
                       "%.200s is a part of a file of HDF5's multi driver, and names '%.200s' as another part: files "
                       "at URLs may name parts beside them alone (such as '%%s-r.h5'), and local files with the option "
                       "local_sources. Have it made with names that begin with %%s (H5Pset_fapl_multi)",
                       r->shown, e.name);
            return say_once(r, err);
        }
        if (found == XH_EXTERNAL_UNTOLD && !r->local_sources)
            return xh_err_set(
                err, XH_E_ACCES, 0,
                "whether %.200s names external files, which HDF5 would look for on the local disk, cannot be told, "
                "as %s: it is read with the option local_sources alone",
                r->shown, e.why);
        if (found == 1) {
            xh_err_set(
                err, XH_E_ACCES, 0,
                "%.200s has a dataset whose data is in the external file '%s', which HDF5 would look for on "
                "the local disk: files at URLs may not name local files, but with the option local_sources",
                r->shown, *e.name ? e.name : "?");
            return e.part ? say_once(r, err) : err->code;
        }
    }
    if (l.rc)
        *err = l.err;
    return l.rc;
}

int xh_remote_failed(struct xh_remote *r, struct xh_err *err)
{
    if (!atomic_load_explicit(&r->failed_until_ns, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&r->lock);
    *err = r->failed;
    pthread_mutex_unlock(&r->lock);
    return 1;
}

int xh_remote_why(struct xh_remote *r, struct xh_err *err)
{
    if (!r->unopened)
        return xh_remote_failed(r, err);
    *err = *r->unopened;
    return 1;
}

/* 1 when the last failure still answers the next read. */
static int still_fails(struct xh_remote *r, struct xh_err *err)
{
    return xh_now_ns() < atomic_load_explicit(&r->failed_until_ns, memory_order_relaxed) && xh_remote_failed(r, err);
}

/* Remembers the result of a read. |here|: 1 when the bytes of this very read were refused. Such a failure answers no
 * other read, nor does a read that was interrupted. */
static void remember(struct xh_remote *r, int rc, const struct xh_err *err, uint64_t began_ns, int here)
{
    uint64_t took_ns = xh_now_ns() - began_ns,
             until = rc && rc != XH_E_NOMEM ? began_ns + took_ns + xh_family_remembers_ns(took_ns) : 0;
    here |= rc == XH_E_INTR;
    if (until && here)
        until = 1; /* a time that has passed */
    if (!until && !atomic_load_explicit(&r->failed_until_ns, memory_order_relaxed))
        return;
    pthread_mutex_lock(&r->lock);
    if (until)
        r->failed = *err;
    atomic_store_explicit(&r->failed_until_ns, until, memory_order_relaxed);
    pthread_mutex_unlock(&r->lock);
    if (!here || !until)
        xh_family_note(r->family, r->named, until ? XH_KIN_FAILED : XH_KIN_OPENED, err, took_ns);
}

/* HDF5 opens the file and has read |x|, of |n| extents. Returns 0, or an error that says what the file is in place of
 * an HDF5 file: HDF5 itself says no more than that. Asks the server for nothing: what it looks at has come with the
 * first look. H5Fis_accessible and H5Fis_hdf5 want to know, and get their answer. */
static int refuse_unsigned(struct xh_remote *r, const struct xh_extent *x, size_t n, struct xh_err *err)
{
    unsigned char head[XH_UNSIGNED_HEAD];
    uint64_t size = xh_remote_size(r);
    struct xh_extent first = {.off = 0, .len = size < sizeof head ? size : sizeof head, .buf = head};
    struct xh_err ignored;
    if (n != 1)
        r->places = XH_SEEK_OVER;
    if (n != 1 || !xh_unsigned_look(&r->places, size, x->off, x->buf, (size_t)x->len))
        return 0;
    const char *call = xh_h5_entry_name(r->h5);
    if (!*call || strncmp(call, "H5Fis_", 6) == 0)
        return 0;
    if (first.len && read_extents(r, XH_EDIT_META, &first, 1, &ignored))
        return 0;
    int rc = xh_err_set(err, XH_E_INVAL, 0, "file signature not found: %.300s is no HDF5 file: %s", r->shown,
                        xh_unsigned_what(head, (size_t)first.len, size));
    err->sys_errno = 0; /* as of HDF5's own error */
    if (r->named)
        remember(r, rc, err, xh_now_ns(), 1);
    return rc;
}

static int read_inside(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *ext, size_t k,
                       struct xh_err *err)
{
    if (r->named && still_fails(r, err))
        return err->code;
    uint64_t began_ns = r->named ? xh_now_ns() : 0;
    int rc = read_extents(r, kind, ext, k, err), came = rc == 0;
    if (came && (kind != XH_EDIT_RAW || r->pages))
        rc = refuse_external(r, kind, ext, k, err);
    if (r->named)
        remember(r, rc, err, began_ns, came);
    return rc;
}

/* A read of a file that is written has failed with |err|. HDF5 may drop what it was to write: then nothing is sent. Raw
 * data is read for the program itself. */
static void doubt(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_err *err)
{
    char call[64], why[512];
    if (!r->edit || kind == XH_EDIT_RAW || !xh_lost_by_read(r->h5, call, sizeof call))
        return;
    snprintf(why, sizeof why,
             "a read failed in %s (%.160s). What HDF5 was to write then may be lost, so the file is not sent. Do it "
             "again on the file as it is at the server",
             *call ? call : "a call of HDF5", err->text);
    xh_edit_refuse(r->edit, why);
}

int xh_remote_readv(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *p, size_t n)
{
    uint64_t size = xh_remote_size(r);
    struct xh_extent few[16], *cut = NULL;
    struct xh_err err = {0};
    const struct xh_extent *ext = p;
    size_t k = n;
    if (r->unopened)
        return xh_fail_cache(r->h5, r->unopened);
    if (!r->edit && !r->file)
        return xh_fail(r->h5, XH_E_INVAL, "%s: the file that it was opened beside is closed", r->shown);
    if (!all_inside(size, p, n)) { /* the usual case; then even a million pieces need no copy */
        cut = n <= sizeof few / sizeof *few ? few : malloc(n * sizeof *cut);
        if (!cut)
            return xh_fail(r->h5, XH_E_NOMEM, "out of memory for a read of %zu pieces of %s", n, r->shown);
        k = inside(size, p, n, cut);
        ext = cut;
    }
    xh_trace(XH_T_VFD, "read", "kind=%s pieces=%zu first=%llu+%zu", kind == XH_EDIT_RAW ? "raw" : "meta", n,
             n ? (unsigned long long)p[0].off : 0, n ? (size_t)p[0].len : 0);
    int rc = k ? read_inside(r, kind, ext, k, &err) : 0;
    if (cut != few)
        free(cut);
    if (rc == 0 && r->places != XH_SEEK_OVER)
        rc = refuse_unsigned(r, p, n, &err);
    if (rc)
        doubt(r, kind, &err);
    return rc ? xh_fail_cache(r->h5, &err) : 0;
}

int xh_remote_hit(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *p, size_t n)
{
    return r->file && !r->pages && kind == XH_EDIT_RAW &&
           !atomic_load_explicit(&r->failed_until_ns, memory_order_relaxed) && xh_cache_hit(r->file, p, n);
}

void xh_remote_stats(struct xh_remote *r, struct xh_stats *out)
{
    if (r->edit)
        xh_edit_stats(r->edit, out);
    else if (r->file)
        xh_cache_stats(r->file, out);
    else
        memset(out, 0, sizeof *out);
}

struct xh_chunkmap *xh_remote_take_chunks(struct xh_remote *r)
{
    return atomic_exchange(&r->chunks, NULL);
}

void xh_remote_keep_chunks(struct xh_remote *r, struct xh_chunkmap *m)
{
    xh_chunkmap_free(atomic_exchange(&r->chunks, m));
}

void xh_remote_prefetch(struct xh_remote *r, const struct xh_range *ranges, size_t n)
{
    /* a file that is written is fetched as it is read */
    struct xh_range *in = r->file ? malloc((n ? n : 1) * sizeof *in) : NULL;
    size_t k = 0;
    for (size_t i = 0; in && i < n; i++) {
        uint64_t there = ranges[i].off < r->size ? r->size - ranges[i].off : 0;
        uint64_t len = ranges[i].len < there ? ranges[i].len : there;
        if (len > 0)
            in[k++] = (struct xh_range){ranges[i].off, len};
    }
    size_t taken = k ? xh_cache_prefetch(r->file, XH_KIND_RAW, in, k) : 0;
    xh_trace(XH_T_VFD, "prefetch", "ranges=%zu inside=%zu taken=%zu", n, k, taken);
    free(in);
}
