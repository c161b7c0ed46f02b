/* Opening, closing and telling apart: see cache.h. The way of a read is in read.c. */
#include "cache.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ahead/ahead.h"
#include "ahead/hints.h"
#include "ahead/predict.h"
#include "ahead/schedule.h"
#include "ahead/siblings.h"
#include "ahead/walk.h"
#include "base/env.h"
#include "base/now.h"
#include "base/process.h"
#include "expected.h"
#include "file.h"
#include "format/chunkindex/chunkindex.h"
#include "format/contiguous.h"
#include "opening.h"
#include "read/read.h"
#include "source/compressed.h"
#include "source/metadata_image.h"
#include "source/other_files.h"
#include "source/unverified_head.h"
#include "stream/segment.h"
#include "stream/stage.h"
#include "watch/trace.h"

/* Files of up to so many bytes come whole as soon as they are opened: 34 ms at 1 Gbit/s. To learn what of one is
 * wanted takes a chain of ten round trips and more. */
#define WHOLE_AT_ONCE_BYTES (4u << 20)
#define READER "reader=" /* how what is told begins: who told it */
#define SPARE_BYTES_A_MS 15625.0
#define SPARE_MOST_MS 200.0

/* An open file, with what file.h has pointers to. */
struct whole_file {
    struct xh_file f; /* the first: it is freed by its address */
    struct xh_predict_seq seq;
    struct xh_predict_wide wide;
    struct xh_unverified_head unverified;
    struct xh_walk walk;
    struct xh_hints hints;
    struct xh_stage stage;
    struct xh_sibling sibling;
};

int xh_cache_is_url(const char *name)
{
    return name && (strncasecmp(name, "http://", 7) == 0 || strncasecmp(name, "https://", 8) == 0);
}

void xh_cache_names(const char *url, const struct xh_options *o, struct xh_namer *child)
{
    memset(child, 0, sizeof *child);
    child->by_file = child->remote = 1;
    xh_url_shown(url, child->parent, sizeof child->parent);
    xh_origin_trusted(url, o, child->server, sizeof child->server);
}

static uint64_t hits(struct xh_file *f)
{
    return atomic_load_explicit(&f->counters.bytes_hit, memory_order_relaxed);
}

/* Nothing is on its way any more, and all counters are what they will be. */
static void end_transfers(struct xh_file *f)
{
    if (f->origin)
        xh_replicas_close(f->origin);
    xh_stage_free(f->stage);
}

/* After end_transfers. */
static void file_free(struct xh_file *f)
{
    xh_siblings_part(f);
    xh_hints_free(f->hints);
    xh_unverified_free(f);
    xh_metadata_image_close(f->image);
    xh_compressed_close(f->compressed);
    xh_walk_end(f);
    if (f->shadow) {
        xh_shadow_tell_hits(f->shadow, hits(f) - f->hits_before);
        xh_shadow_close(f->shadow);
    }
    xh_chunkindex_free(f->chunks);
    xh_contiguous_free(f->contiguous);
    pthread_mutex_destroy(&f->chunk_lock);
    pthread_mutex_destroy(&f->guess_lock);
    pthread_mutex_destroy(&f->flying_lock);
    free(f->url);
    free(f->url_shown);
    free(f->validator);
    xh_env_release(&f->opt);
    free(f);
}

/* Puts the head that the first request brought into the shadow. */
static void keep_head(struct xh_file *f, const struct xh_origin_head *head)
{
    uint64_t pages = head->len == f->size ? xh_pages_end(f) : head->len / XH_PAGE_BYTES;
    for (uint64_t p = 0; p < pages; p++) {
        uint64_t off = p * XH_PAGE_BYTES;
        uint64_t len = f->size - off < XH_PAGE_BYTES ? f->size - off : XH_PAGE_BYTES;
        if (xh_shadow_claim(f->shadow, p, 1, &f->counters) != XH_CLAIM_MINE)
            continue;
        if (xh_shadow_fill(f->shadow, off, head->bytes + off, len)) {
            xh_shadow_abandon(f->shadow, p, 1);
            return;
        }
        xh_shadow_publish(f->shadow, p, 1, &f->counters);
    }
}

/* Opens the shadow of the version that the origin has now. */
static int attach_shadow(struct xh_file *f, const struct xh_origin_head *head, struct xh_opening *op, struct xh_err *err)
{
    if (f->size == 0)
        return 0;
    /* Two openings that were told the same may have seen two versions: nothing to share, in this process neither. */
    static _Atomic uint64_t openings;
    char *alone = NULL;
    if (f->fleeting) {
        f->opt.shadow = 0;
        uint64_t which = atomic_fetch_add_explicit(&openings, 1, memory_order_relaxed);
        if (asprintf(&alone, "%s\n%llu", f->validator, (unsigned long long)which) < 0)
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", f->url_shown);
    }
    int rc = xh_shadow_open(f->url, alone ? alone : f->validator, f->size, &f->opt, &f->shadow, err);
    free(alone);
    if (rc)
        return rc;
    if (head->bytes)
        keep_head(f, head);
    xh_opening_save(op, f->origin, f->shadow);
    return 0;
}

/* What may be fetched in vain: what a link of 1 Gbit/s carries in an eighth of a round trip. */
static uint64_t spare_bytes(const struct xh_file *f)
{
    struct xh_origin_rates rates;
    xh_replicas_get_rates(f->origin, &rates);
    return (uint64_t)((rates.rtt_ms < SPARE_MOST_MS ? rates.rtt_ms : SPARE_MOST_MS) * SPARE_BYTES_A_MS);
}

/* Fetches the head from |from| on, or a small file whole. */
static void fetch_head(struct xh_file *f, uint64_t from)
{
    int more = f->opt.readahead && !xh_metadata_image_is_used(f->image, 0);
    uint64_t end = f->whole ? f->size : more ? f->opt.head_bytes : f->unverified->len;
    end = end < f->size ? end : f->size;
    if (f->shadow && from < end) {
        struct xh_range rest = {from, end - from};
        xh_schedule(f, &rest, 1, XH_KIND_META);
    }
}

static int comes_whole(const struct xh_file *f)
{
    return f->opt.readahead && f->shadow && f->size <= WHOLE_AT_ONCE_BYTES && f->size <= f->opt.whole_file_bytes &&
           f->size <= xh_ahead_most(f);
}

/* Asks for what the early head has, in the version that is open. */
static void ask_for_head(struct xh_file *f)
{
    struct xh_range head = {0, f->unverified->len};
    if (f->unverified->len && f->shadow)
        xh_schedule(f, &head, 1, XH_KIND_META);
}

/* A file that nobody has opened before: what the root leads to, and the rest of the head; a
 * small file whole. */
static void begin(struct xh_file *f, uint64_t head_len)
{
    int imaged = xh_metadata_image_is_used(f->image, 0);
    f->spare_bytes = spare_bytes(f);
    f->whole |= !imaged && comes_whole(f);
    int proof = xh_unverified_stands(f);
    if (proof) /* first, and in one request with the rest: the reader waits for it, and wants a connection */
        fetch_head(f, 0);
    if (!f->whole && !imaged)
        xh_walk_begin(f);
    if (!proof)
        fetch_head(f, f->unverified->len ? f->unverified->len : head_len);
    if (f->opt.sums)
        ask_for_head(f); /* last: the other processes will want it */
}

/* 1 when who told |*hint| is to the origin the reader that we are: then what it may read we may. Moves past its word. */
static int is_same_reader(const struct xh_file *f, const char **hint)
{
    char theirs[XH_READER_BYTES], ours[XH_READER_BYTES];
    int n = 0;
    if (sscanf(*hint, READER "%64[0-9a-f-] %n", theirs, &n) != 1 || n == 0)
        return 0;
    *hint += n;
    return xh_origin_reader(f->url, &f->opt, ours) && strcmp(ours, theirs) == 0;
}

/* Asks whether this reader may have the version that |hint| tells of. */
static int open_proving(struct xh_file *f, const char *hint, struct xh_err *err)
{
    struct xh_origin_head own = {0};
    int rc = xh_replicas_open(f->url, &f->opt, hint, 0, &f->counters, &f->origin, &own, err);
    if (rc == 0 && !own.confirmed)
        rc = xh_err_set(err, XH_E_CHANGED, 0,
                        "%.200s: the file was changed on the server since another process of the job opened it. "
                        "Close and open it again", f->url_shown);
    free(own.bytes);
    return rc;
}

/* Opens the origin as |told|, with the head that came along: who told it and the origin's hint, a NUL, the sidecar's,
 * a NUL, the head. */
static int open_told(struct xh_file *f, const struct xh_told *told, struct xh_origin_head *head, struct xh_err *err)
{
    const char *hint = told->bytes, *side = memchr(told->bytes, 0, told->len);
    size_t left = side ? told->len - (size_t)(++side - (const char *)told->bytes) : 0, n = side ? strnlen(side, left) : 0;
    if (n == left)
        return xh_err_set(err, XH_E_INVAL, 0, "%.200s: what another process told of it has no end", f->url_shown);
    f->opened_jointly = 1;
    head->confirmed = 1; /* whoever told it fetches ahead already */
    head->len = left - n - 1;
    if (head->len && !(head->bytes = malloc(head->len)))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", f->url_shown);
    if (head->len)
        memcpy(head->bytes, side + n + 1, head->len);
    int believed = told->by_us || is_same_reader(f, &hint);
    if (!told->data_only)
        xh_metadata_image_begin_told(f->url, &f->opt, side, f->above->files, &f->image);
    return believed ? xh_replicas_open_told(f->url, &f->opt, hint, &f->counters, &f->origin, err)
                    : open_proving(f, hint, err);
}

static int open_asking(struct xh_file *f, struct xh_opening *op, struct xh_origin_head *head, struct xh_err *err)
{
    xh_opening_begin(op, f->url, &f->opt, f->account);
    xh_origin_crowd(xh_shadow_crowd);
    xh_shadow_crowd(&f->opt); /* so that the others count this one */
    uint64_t entered = xh_account_enter(f->account, XH_NETWORK);
    int rc = xh_replicas_open(f->url, &f->opt, op->hint, op->vouched, &f->counters, &f->origin, head, err);
    xh_account_leave(f->account, XH_NETWORK, entered);
    return rc;
}

/* Its metadata image, if there is one, was looked for since the opening began. */
static int settle_beside(struct xh_file *f, const struct xh_origin_head *head, struct xh_err *err)
{
    struct xh_metadata_image_of of = {.validator = f->validator, .size = f->size, .head = head->bytes, .head_len = head->len};
    if (!f->image || f->size == 0)
        return 0;
    if (f->unverified->len) {
        of.head = f->unverified->bytes;
        of.head_len = f->unverified->len;
    }
    int rc = xh_metadata_image_settle(f->image, &of, err);
    return rc < 0 ? rc : 0;
}

static int file_open(struct xh_file *f, const char *url, const struct xh_told *told, struct xh_err *err)
{
    char shown[1024];
    struct xh_opening op = {.turn = {.fd = -1}};
    struct xh_origin_head head = {0};
    struct xh_origin_info info;
    f->url = strdup(url);
    f->url_shown = strdup(xh_url_shown(url, shown, sizeof shown));
    if (!f->url || !f->url_shown)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", shown);
    int rc = xh_origin_ready(&f->opt, err);
    if (rc == 0 && !told)
        rc = xh_metadata_image_begin(url, &f->opt, f->above->files, &f->image, err);
    if (rc)
        return rc;
    rc = told ? open_told(f, told, &head, err) : open_asking(f, &op, &head, err);
    if (rc) {
        xh_opening_end(&op);
        free(head.bytes);
        return rc;
    }
    xh_replicas_get_info(f->origin, &info);
    f->size = info.size;
    head.len = head.len < f->size ? head.len : f->size; /* told ones may be anything */
    f->fleeting = info.fleeting;
    f->validator = strdup(info.validator);
    xh_unverified_take(f, &head);
    if (!f->validator)
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", shown);
    else
        rc = attach_shadow(f, &head, &op, err);
    f->others_wait = op.awaited;
    f->opened_jointly |= op.awaited || op.vouched;
    xh_opening_end(&op);
    xh_walk_init(f, !told || !told->data_only); /* before anything is fetched ahead, as it counts that */
    if (f->opt.sums)
        xh_unverified_waive(f);
    if (rc == 0 && xh_metadata_image_is_doubtful(f->image))
        ask_for_head(f); /* its proof comes while that is waited for */
    rc = rc ? rc : settle_beside(f, &head, err);
    if (rc == 0 && xh_metadata_image_is_used(f->image, 0))
        xh_unverified_drop(f); /* the image has it, and is of the version */
    if (rc == 0 && f->size > f->opt.head_bytes)
        f->compressed = xh_compressed_new(url, &f->opt, f->above->files);
    xh_compressed_begin(f);
    xh_trace(XH_T_READ, "open", "url=%s size=%llu validator=%s confirmed=%d private=%d", f->url_shown,
             (unsigned long long)f->size, info.validator, head.confirmed,
             f->shadow ? xh_shadow_private(f->shadow) != 0 : 1);
    free(head.bytes);
    f->whole = info.whole;
    if (rc == 0 && !head.confirmed)
        begin(f, head.len);
    else if (rc == 0 && f->whole) /* what the shadow lacks of it, by one request */
        fetch_head(f, 0);
    return rc;
}

static void stats_of(struct xh_file *f, struct xh_stats *out)
{
    xh_counters_snapshot(&f->counters, out);
    xh_metadata_image_stats(f->image, out);
    xh_compressed_stats(f->compressed, out);
}

static void print_unopened(struct xh_file *f, const struct xh_stats *counted, const struct xh_err *err)
{
    xh_account_print_unopened(f->account, f->url_shown, counted, err->text, STDERR_FILENO);
}

/* What the parent had under way, what it held in private memory and what its threads may have been changing at the moment
 * of the fork is leaked: its state cannot be told from sound. */
static void become_child(struct xh_file *f)
{
    struct xh_stats so_far;
    pthread_mutex_init(&f->guess_lock, NULL);
    if (f->origin)
        xh_replicas_after_fork(f->origin);
    xh_metadata_image_after_fork(f->image);
    xh_compressed_after_fork(f->compressed);
    stats_of(f, &so_far); /* behind those two: it takes their locks */
    xh_account_forked(f->account, &so_far);
    xh_walk_init(f, f->walk->index != NULL);
    if (pthread_mutex_trylock(&f->chunk_lock)) { /* a thread of the parent was at work on the indexes */
        f->chunks = NULL;
        f->contiguous = NULL;
    }
    pthread_mutex_init(&f->chunk_lock, NULL);
    *f->seq = (struct xh_predict_seq){0};
    *f->wide = (struct xh_predict_wide){0};
    xh_stage_forget(f->stage);
    pthread_mutex_init(&f->flying_lock, NULL);
    f->flying = NULL;
    f->hits_before = hits(f); /* the parent tells of its own */
    xh_hints_init(f->hints);
    atomic_store_explicit(&f->flow.flying, 0, memory_order_relaxed);
    xh_siblings_forget(f);
}

static void waits(struct xh_read_op *op)
{
    xh_compressed_note(op, 0);
}

static const struct xh_other_files other_files = {
    .open = xh_cache_open,
    .open_told = xh_cache_open_told,
    .close = xh_cache_close,
    .stats = xh_cache_stats,
    .read = xh_cache_read,
    .prefetch = xh_cache_prefetch,
    .schedule = xh_schedule,
    .stretch = xh_schedule_stretch,
    .lead = xh_schedule_lead,
};

static const struct xh_above above = {
    .arrived = xh_walk_arrived,
    .walks = xh_walk_is_ours,
    .again = xh_ahead_again,
    .watches = xh_compressed_watches,
    .waits = waits,
    .read = xh_read_pages,
    .become_child = become_child,
    .files = &other_files,
};

static struct xh_file *file_new(void)
{
    struct whole_file *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->f.above = &above;
    w->f.seq = &w->seq;
    w->f.wide = &w->wide;
    w->f.unverified = &w->unverified;
    w->f.walk = &w->walk;
    w->f.hints = &w->hints;
    w->f.stage = &w->stage;
    w->f.sibling = &w->sibling;
    return &w->f;
}

/* |quiet|: nobody has asked for it yet. */
static int cache_open(const char *url, const struct xh_options *o, const struct xh_told *told, struct xh_account *whole,
                      int quiet, struct xh_file **out, struct xh_err *err)
{
    struct xh_file *f = file_new();
    if (!f)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening a URL");
    f->opt = *o;
    xh_env_hold(&f->opt); /* on the program's own thread, or from whoever opens a part */
    atomic_init(&f->process, xh_process());
    pthread_mutex_init(&f->guess_lock, NULL);
    xh_stage_init(f->stage);
    pthread_mutex_init(&f->flying_lock, NULL);
    pthread_mutex_init(&f->chunk_lock, NULL);
    xh_hints_init(f->hints);
    xh_trace_enable(o->log);
    xh_timeline_start(o->trace);
    f->account = whole ? whole : &f->own;
    if (!whole)
        xh_account_init(f->account, o->stats != 0);
    xh_siblings_join(f);
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int rc = file_open(f, url, told, err);
    if (rc) {
        end_transfers(f);
        struct xh_stats counted;
        stats_of(f, &counted);
        xh_account_leave(f->account, XH_COPYING, entered);
        if (whole)
            xh_account_add(whole, &counted, NULL);
        else if (o->stats && !o->may_lack && !quiet && f->url_shown && err)
            print_unopened(f, &counted, err);
        file_free(f);
        return rc;
    }
    if (f->opt.readahead && f->size) { /* without memory for them: no guesses */
        f->chunks = xh_chunkindex_new(f->size);
        f->contiguous = xh_contiguous_new(f->size);
    }
    xh_siblings_enter(f);
    if (!whole)
        xh_account_opened(f->account);
    if (entered && xh_timeline_on()) {
        xh_timeline_slice(0, "open", entered, xh_now_ns(), "url=%s size=%llu", f->url_shown, (unsigned long long)f->size);
        xh_timeline_write(1);
    }
    xh_account_leave(f->account, XH_COPYING, entered);
    *out = f;
    return 0;
}

static int open_quietly(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err)
{
    return cache_open(url, o, NULL, NULL, 1, out, err);
}

void xh_cache_expect(const char *url, const struct xh_options *o)
{
    static const struct xh_expected_how how = {open_quietly, xh_cache_close};
    xh_expected_open(url, o, &how);
}

void xh_cache_expect_none(uint64_t family)
{
    xh_expected_forget(family);
}

/* An opening ahead that failed while it was waited for has its account as others have. */
static int failed_ahead(const char *url, const struct xh_options *o, uint64_t waited_ns, const struct xh_err *err)
{
    struct xh_account a = {0};
    struct xh_stats none = {0};
    char shown[1024];
    if (o->stats) {
        xh_account_init(&a, 1);
        xh_account_handed_over(&a, waited_ns);
        xh_account_print_unopened(&a, xh_url_shown(url, shown, sizeof shown), &none, err->text, STDERR_FILENO);
    }
    return err->code;
}

int xh_cache_open(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err)
{
    uint64_t waited_ns;
    struct xh_err failed;
    int rc = xh_expected_take(url, o, out, &waited_ns, &failed);
    if (rc == 0)
        return cache_open(url, o, NULL, NULL, 0, out, err);
    if (rc > 0) {
        xh_account_handed_over((*out)->account, waited_ns);
        return 0;
    }
    if (err)
        *err = failed;
    return failed_ahead(url, o, waited_ns, &failed);
}

int xh_cache_open_part(const char *url, const struct xh_options *o, struct xh_account *whole, struct xh_file **out, struct xh_err *err)
{
    return cache_open(url, o, NULL, whole, 0, out, err);
}

int xh_cache_open_told(const char *url, const struct xh_options *o, const struct xh_told *told, struct xh_file **out,
                       struct xh_err *err)
{
    return cache_open(url, o, told, NULL, 0, out, err);
}

/* How much of the file's head is told: what the others would come to want. With an image that is little, and only what is here. */
static uint64_t told_head(struct xh_file *f)
{
    uint64_t most = f->whole || comes_whole(f) ? f->size : f->opt.head_bytes, pages = 0;
    most = most < f->size ? most : f->size;
    if (!xh_metadata_image_is_used(f->image, 0) || !f->shadow)
        return most;
    while (pages * XH_PAGE_BYTES < most && xh_shadow_peek(f->shadow, pages) == XH_CLAIM_READY)
        pages++;
    return pages * XH_PAGE_BYTES < most ? pages * XH_PAGE_BYTES : most;
}

int xh_cache_tell(struct xh_file *f, void **told, size_t *len, struct xh_err *err)
{
    char hint[sizeof READER + XH_READER_BYTES + 2 * XH_HINT_BYTES], reader[XH_READER_BYTES];
    size_t who = (size_t)sprintf(hint, READER "%s ", xh_origin_reader(f->url, &f->opt, reader) ? reader : "-");
    size_t known = xh_replicas_hint(f->origin, hint + who, XH_HINT_BYTES), own = who + known + 1;
    size_t n = own + xh_metadata_image_tell(f->image, hint + own, XH_HINT_BYTES) + 1;
    struct xh_served served;
    xh_file_after_fork(f);
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int rc = f->size ? xh_unverified_prove(f, err) : 0;
    uint64_t head = told_head(f);
    char *text = rc ? NULL : malloc(n + head);
    if (rc == 0 && (known == 0 || !text))
        rc = xh_err_set(err, XH_E_NOMEM, 0, "no memory to tell what is known of %s", f->url_shown);
    if (rc == 0 && head) {
        struct xh_extent e = {0, head, text + n};
        rc = xh_read_pages(f, XH_KIND_META, &e, 1, &served, err);
    }
    xh_account_leave(f->account, XH_COPYING, entered);
    if (rc) {
        free(text);
        return rc;
    }
    assert(text); /* else rc says so */
    memcpy(text, hint, n);
    f->opened_jointly = 1; /* before it reads: no other thread has it yet */
    *told = text;
    *len = n + head;
    return 0;
}

uint64_t xh_cache_size(const struct xh_file *f)
{
    return f->size;
}

const char *xh_cache_validator(const struct xh_file *f)
{
    return f->validator;
}

int xh_cache_is_fleeting(const struct xh_file *f)
{
    return f->fleeting;
}

const struct xh_options *xh_cache_options(const struct xh_file *f)
{
    return &f->opt;
}

int xh_cache_cmp(const struct xh_file *a, const struct xh_file *b)
{
    int c = strcmp(a->url, b->url);
    return c ? c : strcmp(a->validator, b->validator);
}

void xh_cache_stats(struct xh_file *f, struct xh_stats *out)
{
    xh_file_after_fork(f); /* else it might wait for a lock that a thread of the parent had */
    stats_of(f, out);
}

void xh_cache_lost(struct xh_file *f, uint64_t failures, uint64_t missing, uint64_t network_ns)
{
    xh_account_lost(f->account, failures, missing, network_ns);
}

/* What the account does not know. While the origin is there. */
static void state_facts(struct xh_file *f, struct xh_facts *facts)
{
    struct xh_origin_info info;
    struct xh_chunkindex_plain plain = {0};
    xh_replicas_get_info(f->origin, &info);
    pthread_mutex_lock(&f->chunk_lock);
    if (f->chunks)
        plain = xh_chunkindex_plain(f->chunks);
    pthread_mutex_unlock(&f->chunk_lock);
    *facts = (struct xh_facts){
        .rtt_ns = info.rtt_ns,
        .size = f->size,
        .plain_bytes = plain.bytes,
        .plain_chunk_bytes = plain.chunk_bytes,
        .connections = (unsigned)f->opt.connections,
        .paying = info.paying,
        .readahead = f->opt.readahead != 0,
        .shadow = f->opt.shadow != 0,
        .fleeting = f->fleeting,
        .private_ = f->shadow ? xh_shadow_private(f->shadow) : 0,
    };
}

/* Ends the transfers on the account of the network, and tells of the file what is wanted. */
static void end_aloud(struct xh_file *f)
{
    struct xh_stats counted;
    struct xh_facts facts;
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    state_facts(f, &facts);
    uint64_t waits = xh_account_enter(f->account, XH_NETWORK);
    end_transfers(f);
    xh_account_leave(f->account, XH_NETWORK, waits);
    xh_cache_stats(f, &counted);
    if (f->account != &f->own)
        xh_account_add(f->account, &counted, &facts);
    else
        xh_stats_trace(&counted, f->url_shown);
    if (f->account == &f->own && f->opt.stats)
        xh_account_print(f->account, f->url_shown, &counted, &facts, STDERR_FILENO);
    if (xh_timeline_on()) {
        xh_timeline_slice(0, "close", entered, xh_now_ns(), "url=%s", f->url_shown);
        xh_timeline_write(1);
    }
}

void xh_cache_close(struct xh_file *f)
{
    if (!f)
        return;
    xh_file_after_fork(f); /* what the parent has in flight does not end here */
    xh_siblings_leave(f);
    end_aloud(f);
    file_free(f);
}
