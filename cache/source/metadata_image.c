/* The sidecar of an open file: see metadata_image.h.
 *
 * States, under the lock; all moves are the look's:
 *   LOOKING -> COMING        a sidecar is open; its index is on its way, and what it is to be compared with
 *   COMING  -> THERE         it is of the version that was opened: |used| is set
 *   COMING  -> LOOKING       what an earlier process left of it is of another version: the server is asked
 *   LOOKING, COMING -> NONE  there is none, or it is not to be used
 * From THERE on readers take no lock: all but the unpacked blocks is constant. */
#include "metadata_image.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "object.h"
#include "unverified_head.h"
#include "base/now.h"
#include "base/thread.h"
#include "disk/disk.h"
#include "open/opening.h"
#include "watch/trace.h"
#include "base/waits.h"
#include "known.h"
#include "metaimage.h"
#include "other_files.h"
#include "source.h"
#include "version.h"

/* The reader waits for a sidecar that is coming, as it saves more than the wait. It waits for one that may not be there
 * for this part of the opening's time at most; where there was one before, for all of that time. */
#define WAIT_PART 4
#define WAIT_LEAST_NS 2000000u
#define WAIT_COMING_NS UINT64_C(10000000000)
#define TURN_MOST_MS 2000
/* All of the sidecar is wanted at once, over new connections: a part is what one brings in a round trip or two. */
#define PART_BYTES (16u << 10)

enum state { LOOKING, COMING, THERE, NONE };

struct xh_metadata_image {
    /* Constant. */
    char *url;  /* the sidecar's */
    char *told; /* how another process of the job opened it; NULL: nobody told */
    struct xh_options opt;
    const struct xh_other_files *files;
    int required, likely; /* likely: it, or another one there, was found before */
    uint64_t begun_ns;

    pthread_mutex_t lock; /* guards the next ones; never held over a wait for the network */
    pthread_cond_t news;
    enum state state;
    int holders;     /* the file, and the look while it runs; the last one frees */
    const char *why; /* in the state NONE: what is wrong with the sidecar; NULL: there is none */
    int opened;      /* |size|, |dated|, |mtime_s| and |head| are those of what was opened, and constant */

    int dated;
    uint64_t size;
    int64_t mtime_s;
    uint8_t *head;
    size_t head_len;

    /* Until THERE only the look uses them; from then on they are constant. */
    struct xh_err err;
    struct xh_file *file;
    struct xh_metaimage image;
    _Atomic(uint8_t *) *block; /* unpacked blocks; NULL: not unpacked yet. Set once; release pairs with acquire */
    _Atomic int used; /* release pairs with the readers' acquire */
    _Atomic uint64_t come; /* the sidecar's bytes up to here are in its shadow; a hint */
};

/* ---- blocks ------------------------------------------------------------------------------------- */

/* Gives up the image, which is not trusted or cannot be fetched: readers go to the original. */
static void give_up(struct xh_metadata_image *b, const char *why)
{
    atomic_store_explicit(&b->used, 0, memory_order_release);
    xh_known_warn(b->url, why);
}

/* Reads [off, off + len) of the sidecar. Without |waits| only if all of it is here already. The unverified head is used
 * too, as sums prove the bytes. */
static int get(struct xh_metadata_image *b, uint64_t off, uint64_t len, uint8_t *buf, int waits, struct xh_err *err)
{
    struct xh_file *f = b->file;
    uint64_t n = off < f->unverified->len ? f->unverified->len - off : 0;
    n = n < len ? n : len;
    if (!n || !xh_unverified_look(f, off, buf, n))
        n = 0;
    struct xh_extent e = {off + n, len - n, buf + n};
    if (e.len == 0 || xh_shadow_read(f->shadow, e.off, e.buf, e.len) == e.len ||
        xh_unverified_look(f, e.off, e.buf, e.len) || xh_disk_read(f->disk, &e, 1))
        return 0;
    return waits ? b->files->read(f, XH_KIND_RAW, &e, 1, err) : XH_E_NOENT;
}

/* Returns block |i|, unpacked; NULL when it cannot be had. */
static const uint8_t *block_of(struct xh_metadata_image *b, size_t i, int waits)
{
    const struct xh_metaimage_block *k = &b->image.block[i];
    uint8_t *raw = atomic_load_explicit(&b->block[i], memory_order_acquire), *was = NULL;
    if (raw)
        return raw;
    uint8_t *buf = malloc(k->len);
    raw = malloc(k->raw_len);
    int here = buf && raw && get(b, k->off, k->len, buf, waits, NULL) == 0;
    int good = here && xh_metaimage_unpack(&b->image, i, buf, raw) == 0;
    free(buf);
    if (good && atomic_compare_exchange_strong_explicit(&b->block[i], &was, raw, memory_order_acq_rel,
                                                        memory_order_acquire))
        return raw;
    free(raw); /* or another reader was faster */
    if (here && !good)
        give_up(b, "its blocks are damaged. `xhdf5 publish` makes it anew");
    else if (!here && waits)
        give_up(b, "it could not be fetched whole");
    return was;
}

/* Copies |len| bytes that begin at |at| in the image. Returns 1, or 0 when they cannot be had. */
static int copy(struct xh_metadata_image *b, uint64_t at, uint8_t *out, uint64_t len, int waits)
{
    uint64_t size = b->image.head.block_bytes;
    while (len) {
        uint64_t skip = at % size, n = size - skip < len ? size - skip : len;
        const uint8_t *raw = block_of(b, at / size, waits);
        if (!raw)
            return 0;
        memcpy(out, raw + skip, n);
        out += n;
        at += n;
        len -= n;
    }
    return 1;
}

/* ---- is it of what was opened? ------------------------------------------------------------------ */

/* Returns 1 when the image has the same bytes as the head that came with the opening, where it has those at all. */
static int head_is_same(struct xh_metadata_image *b)
{
    const struct xh_metaimage *m = &b->image;
    int same = 1;
    for (uint32_t i = 0; same && i < m->head.extents && m->piece[i].off < b->head_len; i++) {
        uint64_t off = m->piece[i].off, len = m->piece[i + 1].at - m->piece[i].at;
        len = len < b->head_len - off ? len : b->head_len - off;
        uint8_t *buf = malloc(len);
        same = buf && copy(b, m->piece[i].at, buf, len, 1) && memcmp(buf, b->head + off, len) == 0;
        free(buf);
    }
    return same;
}

/* Returns NULL when |h| is of the version that is open, as far as it tells, else why not. */
static const char *compare_head(const struct xh_metadata_image *b, const struct xh_metaimage_head *h)
{
    if (h->file_bytes != b->size || (b->dated && h->mtime_s != b->mtime_s))
        return "the file is newer or older than it. `xhdf5 publish` makes it anew";
    return b->dated ? NULL
                    : "the server does not tell when the file was changed, so it might be of another version";
}

/* ---- the look ----------------------------------------------------------------------------------- */

static void become(struct xh_metadata_image *b, enum state state, const char *why)
{
    pthread_mutex_lock(&b->lock);
    b->state = state;
    b->why = why;
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock);
}

/* Waits until the file is open. Returns 1; or 0 when it was closed meanwhile. */
static int wait_for_opening(struct xh_metadata_image *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->opened && b->holders == 2)
        pthread_cond_wait(&b->news, &b->lock);
    int open = b->holders == 2;
    pthread_mutex_unlock(&b->lock);
    return open;
}

static int is_closed(struct xh_metadata_image *b)
{
    pthread_mutex_lock(&b->lock);
    int closed = b->holders < 2;
    pthread_mutex_unlock(&b->lock);
    return closed;
}

static int fetch(struct xh_metadata_image *b, uint64_t off, uint64_t len, uint8_t *buf, struct xh_err *err)
{
    if (off > b->file->size || len > b->file->size - off)
        return xh_err_set(err, XH_E_RANGE, 0, "it is cut");
    return get(b, off, len, buf, 1, err);
}

static const char closed[] = "the file was closed"; /* known by its address */

/* Reads header and index, and has the rest fetched. Returns NULL, or what is wrong. The index is unpacked once the file
 * is open: the file's size bounds the memory that it takes, and what the header says of it may be a lie. */
static const char *read_index(struct xh_metadata_image *b)
{
    uint8_t raw[XH_METAIMAGE_HEADER], *index;
    struct xh_metaimage_head h;
    if (fetch(b, 0, sizeof raw, raw, &b->err))
        return b->err.text;
    const char *why = xh_metaimage_head(raw, sizeof raw, &h);
    if (why)
        return why;
    if (h.sidecar_bytes != b->file->size)
        return "it is cut, or has grown";
    b->files->prefetch(b->file, XH_KIND_META, &(struct xh_range){0, h.sidecar_bytes}, 1);
    if (!(index = malloc(h.index_bytes)))
        return "there is no memory for it";
    if (fetch(b, sizeof raw, h.index_bytes, index, &b->err))
        why = b->err.text;
    else
        why = wait_for_opening(b) ? compare_head(b, &h) : closed;
    why = why ? why : xh_metaimage_read(&h, index, &b->image);
    free(index);
    if (!why && !(b->block = calloc(h.blocks, sizeof *b->block))) {
        xh_metaimage_free(&b->image);
        why = "there is no memory for it";
    }
    return why;
}

/* Opens the image that this or another process left in its shadow, without asking the server for it again. That is
 * safe: the image is bound to a version of the original, for which the server is asked; and it holds nothing but bytes
 * of the original, which only a reader gets that may read the original. */
static int open_left(struct xh_metadata_image *b)
{
    char hint[XH_HINT_BYTES + 1] = ""; /* and of a sidecar's own sidecar nothing */
    size_t n = b->told ? (size_t)snprintf(hint, XH_HINT_BYTES, "%s", b->told) : xh_opening_left(b->url, &b->opt, hint);
    struct xh_told told = {.bytes = hint, .len = n + 2, .by_us = 1};
    if (n >= XH_HINT_BYTES)
        return XH_E_INVAL;
    hint[n + 1] = '\0';
    return n ? b->files->open_told(b->url, &b->opt, &told, &b->file, &b->err) : XH_E_NOENT;
}

/* Asks the server. If many files are opened at once in a directory that is not known yet, one asks for all of them. */
static int open_asking(struct xh_metadata_image *b)
{
    struct xh_turn turn = {.fd = -1};
    char *name = NULL;
    enum xh_known known = xh_known_of(b->url, &b->opt);
    if (known == XH_KNOWN_NOTHING && asprintf(&name, "beside %s", b->url) >= 0) {
        *strrchr(name, '/') = '\0';
        xh_shadow_turn(name, &b->opt, TURN_MOST_MS, &turn);
        free(name);
        known = xh_known_of(b->url, &b->opt);
    }
    int rc = XH_E_NOENT;
    if (known == XH_KNOWN_NONE && !b->required)
        xh_err_set(&b->err, rc, 404, "another process has just looked for it");
    else {
        rc = b->files->open(b->url, &b->opt, &b->file, &b->err);
        xh_known_opened(b->url, &b->opt, rc, b->err.status);
    }
    xh_shadow_turn_over(&turn);
    return rc;
}

/* Reads an open sidecar, and compares it with what was opened. Returns NULL when it is to be used. */
static const char *examine(struct xh_metadata_image *b)
{
    become(b, COMING, NULL);
    const char *why = read_index(b);
    if (!why && !head_is_same(b))
        why = "the file begins with other bytes. `xhdf5 publish` makes it anew";
    xh_trace(XH_T_READ, "sidecar", "used=%d bytes=%llu extents=%u blocks=%u%s%s", !why,
             (unsigned long long)b->image.head.image_bytes, b->image.head.extents, b->image.head.blocks,
             why ? " why=" : "", why ? why : "");
    return why;
}

static void forget(struct xh_metadata_image *b)
{
    for (size_t i = 0; b->block && i < b->image.head.blocks; i++)
        free(atomic_load_explicit(&b->block[i], memory_order_relaxed));
    free(b->block);
    b->block = NULL;
    xh_metaimage_free(&b->image);
    b->image.head = (struct xh_metaimage_head){0};
    b->files->close(b->file);
    b->file = NULL;
}

static void *look(void *ctx)
{
    struct xh_metadata_image *b = ctx;
    const char *why = NULL;
    int there = open_left(b) == 0;
    if (there && (why = examine(b))) {
        forget(b);
        become(b, LOOKING, NULL);
        there = 0;
    }
    if (!there && !b->told && why != closed && open_asking(b) == 0)
        there = !(why = examine(b));
    if (there)
        atomic_store_explicit(&b->used, 1, memory_order_release);
    else if (b->file && why != closed && !is_closed(b)) /* a process that ends may not be able to sum it up */
        xh_known_warn(b->url, why);
    else
        xh_trace(XH_T_READ, "sidecar", "used=0 why=%s", b->err.text);
    become(b, there ? THERE : NONE, b->file ? why : NULL);
    xh_metadata_image_close(b);
    return NULL;
}

/* ---- from outside ------------------------------------------------------------------------------- */

/* The image's URL; NULL without memory, or when |url| is an image's itself, or has no path. */
static char *url_beside(const char *url)
{
    size_t n = strcspn(url, "?#"), suffix = strlen(XH_METAIMAGE_SUFFIX);
    int is_one = n >= suffix && strncmp(url + n - suffix, XH_METAIMAGE_SUFFIX, suffix) == 0;
    return is_one ? NULL : xh_known_url(url, XH_METAIMAGE_SUFFIX);
}

static void free_all(struct xh_metadata_image *b)
{
    forget(b);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->news);
    free(b->head);
    free(b->told);
    free(b->url);
    xh_env_release(&b->opt);
    free(b);
}

void xh_metadata_image_close(struct xh_metadata_image *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    int last = --b->holders == 0;
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock);
    if (last && !b->opened && b->err.code == XH_E_ACCES)
        xh_known_forget(b->url, &b->opt);
    if (last)
        free_all(b);
}

/* Returns NULL without memory or a thread: then there is no sidecar. */
static struct xh_metadata_image *new_look(const char *url, const struct xh_options *o, int required,
                                          enum xh_known known, const char *told, const struct xh_other_files *files)
{
    struct xh_metadata_image *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    xh_known_options(&b->opt, o);
    b->opt.readahead = 1;
    b->opt.part_bytes = PART_BYTES;
    b->opt.stream_bytes = xh_opt_rows[XH_OPT_ID_stream_bytes].max; /* all that comes stays */
    b->opt.may_lack = b->opt.sums = 1;
    b->files = files;
    b->required = required;
    b->likely = known == XH_KNOWN_SOME;
    b->opt.doubtful = !b->likely && !required;
    b->begun_ns = xh_now_ns();
    b->holders = 2;
    pthread_mutex_init(&b->lock, NULL);
    xh_cond_init(&b->news);
    b->url = url_beside(url);
    b->told = told ? strdup(told) : NULL;
    if (b->url && !told == !b->told && xh_thread_start(NULL, look, b) == 0)
        return b;
    free_all(b);
    return NULL;
}

int xh_metadata_image_begin(const char *url, const struct xh_options *o, const struct xh_other_files *files,
                            struct xh_metadata_image **out, struct xh_err *err)
{
    int required = strcmp(o->sidecar, "require") == 0;
    *out = NULL;
    if (required && !xh_url_directory_bytes(url))
        return xh_err_set(err, XH_E_NOENT, 0, "a URL without a path has no metadata image (option sidecar=require)");
    if (strcmp(o->sidecar, "off") == 0)
        return 0;
    enum xh_known known = xh_known_of(url, o);
    /* Offline no server is spared by what is known, and the file's metadata may be here in its image alone. */
    if (known != XH_KNOWN_NONE || required || o->offline)
        *out = new_look(url, o, required, known, NULL, files);
    return 0;
}

void xh_metadata_image_begin_told(const char *url, const struct xh_options *o, const char *told,
                                  const struct xh_other_files *files, struct xh_metadata_image **out)
{
    int wanted = *told && strcmp(o->sidecar, "off") != 0;
    *out = wanted ? new_look(url, o, strcmp(o->sidecar, "require") == 0, XH_KNOWN_SOME, told, files) : NULL;
}

size_t xh_metadata_image_tell(struct xh_metadata_image *b, char *out, size_t size)
{
    size_t n = xh_metadata_image_is_used(b, 0) ? xh_replicas_hint(b->file->origin, out, size) : 0;
    out[n] = '\0';
    return n;
}

static uint64_t patience(const struct xh_metadata_image *b, uint64_t opening_ns)
{
    if (b->required || b->told || b->opt.offline || b->state == COMING)
        return WAIT_COMING_NS;
    uint64_t ns = b->likely ? opening_ns : opening_ns / WAIT_PART;
    return ns > WAIT_LEAST_NS ? ns : WAIT_LEAST_NS;
}

/* Waits for news. Returns 0 when there is none by |until|. Lock held. */
static int wait_until(struct xh_metadata_image *b, uint64_t until)
{
    return xh_now_ns() < until && xh_cond_wait_until(&b->news, &b->lock, until);
}

/* Waits for the look, as long as that is worth it. Lock held. */
static void wait_for_look(struct xh_metadata_image *b)
{
    uint64_t now = xh_now_ns(), opening_ns = now - b->begun_ns, from = now;
    while (b->state == LOOKING || b->state == COMING) {
        enum state was = b->state;
        if (!wait_until(b, from + patience(b, opening_ns)) && b->state == was)
            return;
    }
}

int xh_metadata_image_settle(struct xh_metadata_image *b, const struct xh_metadata_image_of *of, struct xh_err *err)
{
    uint8_t *head = of->head_len ? malloc(of->head_len) : NULL;
    if (head)
        memcpy(head, of->head, of->head_len);
    pthread_mutex_lock(&b->lock);
    b->size = of->size;
    b->dated = xh_version_mtime(of->validator, of->size, &b->mtime_s);
    b->head = head;
    b->head_len = head ? of->head_len : 0;
    b->opened = 1;
    pthread_cond_broadcast(&b->news);
    wait_for_look(b);
    const char *why = b->why;
    pthread_mutex_unlock(&b->lock);
    int used = xh_metadata_image_is_used(b, 0);
    if (!used && b->required)
        return xh_err_set(err, XH_E_NOENT, 0,
                          "there is no metadata image of this version to be used: %.500s%s%s (option sidecar=require)",
                          xh_shown(b->url, 1024), why ? ": " : "", why ? why : "");
    return used;
}

int xh_metadata_image_is_doubtful(struct xh_metadata_image *b)
{
    if (!b)
        return 0;
    pthread_mutex_lock(&b->lock);
    for (uint64_t until = xh_now_ns() + WAIT_LEAST_NS; b->state == LOOKING && wait_until(b, until);)
        ;
    int doubtful = b->state == LOOKING;
    pthread_mutex_unlock(&b->lock);
    return doubtful;
}

int xh_metadata_image_is_used(struct xh_metadata_image *b, int all)
{
    if (!b || !atomic_load_explicit(&b->used, memory_order_acquire))
        return 0;
    uint64_t come = atomic_load_explicit(&b->come, memory_order_relaxed), size = b->image.head.sidecar_bytes;
    for (; all && come < size && (xh_shadow_peek(b->file->shadow, come / XH_PAGE_BYTES) == XH_CLAIM_READY ||
                                  xh_disk_has(b->file->disk, come / XH_PAGE_BYTES));
         come += XH_PAGE_BYTES)
        ;
    if (all)
        atomic_store_explicit(&b->come, come, memory_order_relaxed);
    return !all || come >= size;
}

static int find(struct xh_metadata_image *b, uint64_t off, uint64_t len, uint64_t *at)
{
    return xh_metadata_image_is_used(b, 0) && xh_metaimage_find(&b->image, off, len, at);
}

static int peek(struct xh_file *f, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    struct xh_metadata_image *b = f->image;
    uint64_t at;
    for (size_t i = 0; i < n; i++)
        if (!find(b, ext[i].off, ext[i].len, &at))
            return 0;
    for (size_t i = 0; i < n; i++)
        if (!find(b, ext[i].off, ext[i].len, &at) || !copy(b, at, ext[i].buf, ext[i].len, 1))
            return 0;
    return 1;
}

int xh_metadata_image_look(struct xh_metadata_image *b, uint64_t off, void *buf, size_t len)
{
    uint64_t at;
    return find(b, off, len, &at) && copy(b, at, buf, len, 0);
}

int xh_metadata_image_has(struct xh_metadata_image *b, uint64_t off, uint64_t len)
{
    uint64_t at;
    return find(b, off, len, &at);
}

void xh_metadata_image_stats(struct xh_metadata_image *b, struct xh_stats *out)
{
    struct xh_stats s;
    if (!xh_metadata_image_is_used(b, 0)) /* else the look may be at work on |file| */
        return;
    b->files->stats(b->file, &s);
    xh_stats_add_requests(out, &s);
    out->pages_published += s.pages_published;
}

void xh_metadata_image_after_fork(struct xh_metadata_image *b)
{
    if (!b)
        return;
    pthread_mutex_init(&b->lock, NULL);
    xh_cond_init(&b->news);
    b->holders = 1; /* in this process: the parent's look holds the parent's copy */
    if (!xh_metadata_image_is_used(b, 0)) {
        b->state = NONE; /* what the look was at may be torn: leaked */
        b->file = NULL;
        b->block = NULL;
        b->image = (struct xh_metaimage){0};
    }
}

const struct xh_source xh_metadata_image_source = {.peek = peek};
