/* Opening, closing and telling apart: see cache.h. An open file is put together here; version.c finds out of which
 * version it is. The way of a read is in read.c. */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#include "ahead/alike.h"
#include "ahead/around.h"
#include "ahead/heaps.h"
#include "ahead/hints.h"
#include "ahead/layouts.h"
#include "ahead/planes.h"
#include "ahead/repeats.h"
#include "ahead/schedule.h"
#include "ahead/sequence.h"
#include "ahead/siblings.h"
#include "ahead/walk.h"
#include "ahead/whole.h"
#include "base/env.h"
#include "base/letters.h"
#include "base/now.h"
#include "base/process.h"
#include "disk/disk.h"
#include "expected.h"
#include "object.h"
#include "opening.h"
#include "pages/background.h"
#include "pages/fetch.h"
#include "pages/flow.h"
#include "pages/keep.h"
#include "pages/limits.h"
#include "read/read.h"
#include "source/compressed.h"
#include "source/metadata_image.h"
#include "source/other_files.h"
#include "source/unverified_head.h"
#include "stream/segment.h"
#include "stream/stage.h"
#include "version_open.h"
#include "watch/trace.h"

/* An open file, with what object.h has pointers to. */
struct whole_file {
    struct xh_file f; /* the first: it is freed by its address */
    struct xh_layouts layouts;
    struct xh_heaps heaps;
    struct xh_repeats repeats;
    struct xh_planes planes;
    struct xh_around around;
    struct xh_alike alike;
    struct xh_sequence sequence;
    struct xh_unverified_head unverified;
    struct xh_walk walk;
    struct xh_whole whole;
    struct xh_hints hints;
    struct xh_background background;
    struct xh_flows flows;
    struct xh_flights flights;
    struct xh_sharing sharing;
    struct xh_keep keep;
    struct xh_stage stage;
    struct xh_sibling sibling;
};

int xh_cache_is_url(const char *name)
{
    return name && (xh_strncasecmp(name, "http://", 7) == 0 || xh_strncasecmp(name, "https://", 8) == 0 ||
                    xh_strncasecmp(name, "s3://", 5) == 0);
}

int xh_cache_have_one_server(const char *url, const char *other)
{
    return xh_origin_have_one_server(url, other);
}

char *xh_cache_object(const char *url, const struct xh_options *o)
{
    return xh_origin_object(url, o);
}

void xh_cache_forget(const char *url, const struct xh_options *o)
{
    char *object = xh_origin_object(url, o);
    xh_opening_forget(url, o, 1, 1);
    xh_expected_outdated(object);
    free(object);
}

void xh_cache_names(const char *url, const struct xh_options *o, struct xh_namer *child)
{
    memset(child, 0, sizeof *child);
    child->by_file = child->remote = 1;
    xh_url_shown(url, child->parent, sizeof child->parent);
    xh_origin_trusted(url, o, child->server, sizeof child->server);
}

/* Bytes that were found in the shadow. */
static uint64_t hits(struct xh_file *f)
{
    return atomic_load_explicit(&f->counters.bytes_hit, memory_order_relaxed) -
           atomic_load_explicit(&f->counters.bytes_disk, memory_order_relaxed);
}

/* Nothing is on its way any more, and all counters are what they will be. */
static void end_transfers(struct xh_file *f)
{
    if (f->origin)
        xh_replicas_close(f->origin);
    xh_cache_settle(f);
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
    xh_disk_close(f->disk);
    xh_layouts_free(f->layouts);
    xh_heaps_free(f->heaps);
    xh_planes_free(f->planes);
    xh_flights_free(f->flights);
    free(f->url);
    free(f->url_shown);
    free(f->validator);
    xh_env_release(&f->opt);
    free(f);
}

static void stats_of(struct xh_file *f, struct xh_stats *out)
{
    xh_counters_snapshot(&f->counters, out);
    xh_disk_stats(f->disk, out);
    xh_metadata_image_stats(f->image, out);
    xh_compressed_stats(f->compressed, out);
}

/* What the parent had under way, what it held in private memory and what its threads may have been changing at the
 * moment of the fork is leaked: its state cannot be told from sound. */
static void become_child(struct xh_file *f)
{
    struct xh_stats so_far;
    if (f->origin)
        xh_replicas_after_fork(f->origin);
    xh_metadata_image_after_fork(f->image);
    xh_compressed_after_fork(f->compressed);
    stats_of(f, &so_far); /* behind those two: it takes their locks */
    xh_account_forked(f->account, &so_far);
    xh_walk_init(f, f->walk->index != NULL);
    xh_whole_init(f->whole);
    xh_layouts_after_fork(f->layouts);
    xh_heaps_after_fork(f->heaps);
    xh_repeats_init(f->repeats);
    xh_planes_forget(f->planes);
    xh_around_init(f->around);
    xh_background_init(f);
    xh_alike_init(f->alike);
    xh_sequence_init(f->sequence);
    xh_stage_forget(f->stage);
    xh_flights_init(f->flights);
    f->hits_before = hits(f); /* the parent tells of its own */
    xh_hints_init(f->hints);
    xh_flow_after_fork(f);
    xh_siblings_forget(f);
}

static void waits(struct xh_read_op *op)
{
    xh_compressed_note(op, 0);
}

static void interrupt(struct xh_read_op *op)
{
    xh_fetch_interrupt(op);
    xh_stage_interrupt(op);
}

static const struct xh_other_files other_files = {
    .open = xh_cache_open,
    .open_told = xh_cache_open_told,
    .close = xh_cache_close,
    .stats = xh_cache_stats,
    .read = xh_read_beside,
    .prefetch = xh_cache_prefetch,
};

static const struct xh_above above = {
    .arrived = xh_walk_arrived,
    .lost = xh_schedule_lost,
    .walks = xh_walk_is_ours,
    .is_whole = xh_schedule_is_whole,
    .again = xh_sequence_again,
    .watches = xh_compressed_watches,
    .waits = waits,
    .interrupt = interrupt,
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
    w->f.layouts = &w->layouts;
    w->f.heaps = &w->heaps;
    w->f.repeats = &w->repeats;
    w->f.planes = &w->planes;
    w->f.around = &w->around;
    w->f.alike = &w->alike;
    w->f.sequence = &w->sequence;
    w->f.unverified = &w->unverified;
    w->f.walk = &w->walk;
    w->f.whole = &w->whole;
    w->f.hints = &w->hints;
    w->f.background = &w->background;
    w->f.flows = &w->flows;
    w->f.flights = &w->flights;
    w->f.sharing = &w->sharing;
    w->f.keep = &w->keep;
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
    f->opt.readahead &= !f->opt.offline; /* what is not here does not come */
    xh_env_hold(&f->opt); /* on the program's own thread, or from whoever opens a part */
    atomic_init(&f->process, xh_process());
    xh_layouts_init(f->layouts);
    xh_heaps_init(f->heaps);
    xh_repeats_init(f->repeats);
    xh_planes_init(f->planes);
    xh_around_init(f->around);
    xh_background_init(f);
    xh_alike_init(f->alike);
    xh_sequence_init(f->sequence);
    xh_stage_init(f->stage);
    xh_flights_init(f->flights);
    xh_hints_init(f->hints);
    xh_whole_init(f->whole);
    xh_trace_enable(o->log);
    xh_timeline_start(o->trace);
    f->account = whole ? whole : &f->own;
    if (!whole)
        xh_account_init(f->account, o->stats != 0);
    xh_siblings_join(f);
    if (o->namer.by_file)
        xh_origin_reader(url, &f->opt, f->reader);
    f->asked_ns = xh_now_ns();
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int rc = xh_version_open(f, url, told, err);
    if (rc) {
        end_transfers(f);
        struct xh_stats counted;
        stats_of(f, &counted);
        xh_account_leave(f->account, XH_COPYING, entered);
        if (whole)
            xh_account_add(whole, &counted, NULL);
        else if (o->stats && !o->may_lack && !quiet && f->url_shown && err)
            xh_account_print_unopened(f->account, f->url_shown, &counted, err->text);
        file_free(f);
        return rc;
    }
    f->answered_ns = xh_now_ns();
    xh_layouts_begin(f);
    xh_heaps_begin(f);
    xh_siblings_enter(f, quiet);
    if (!whole)
        xh_account_opened(f->account);
    if (entered && xh_timeline_on()) {
        xh_timeline_slice(0, "open", entered, xh_now_ns(), "url=%s size=%llu", f->url_shown,
                          (unsigned long long)f->size);
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

/* One that was opened quietly. Of a guess that the program never came to nothing is told. */
static void close_quietly(struct xh_file *f)
{
    if (f->opt.guessed)
        f->opt.stats = 0;
    xh_cache_close(f);
}

static const struct xh_expected_how ahead = {open_quietly, close_quietly, xh_version_is_current,
                                              xh_version_is_settled};

int xh_cache_expect(const char *url, const struct xh_options *o)
{
    return xh_expected_note(url, o, &ahead);
}

void xh_cache_expect_soon(uint64_t family, size_t n)
{
    xh_expected_open(family, n);
}

int xh_cache_expect_now(const char *url, const struct xh_options *o)
{
    int will = xh_cache_expect(url, o);
    xh_expected_open(o->namer.family, XH_EXPECTED_MOST);
    return will;
}

void xh_cache_expect_beside(uint64_t family)
{
    unsigned awaited = xh_siblings_awaited(family);
    if (awaited)
        xh_expected_open_beside(family, awaited);
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
    if (o->stats) {
        xh_account_init(&a, 1);
        xh_account_handed_over(&a, waited_ns);
        xh_account_print_unopened(&a, xh_shown(url, 1024), &none, err->text);
    }
    return err->code;
}

/* 1 when nothing has shown that the origin has another version by now. */
static int is_sound(struct xh_file *f)
{
    struct xh_origin_info info;
    if (atomic_load_explicit(&f->failed, memory_order_relaxed) || !f->origin)
        return 0;
    xh_replicas_get_info(f->origin, &info);
    return !info.changed;
}

/* The program has opened |f| with |o|; |was|: it was opened ahead. Opens those ahead that it will open next, unless it
 * says that itself. Where one of them could not be, the row has ended. */
static void open_next(const struct xh_file *f, const struct xh_options *o, int was)
{
    struct xh_alike_next next;
    unsigned i = 0;
    xh_alike_opened(f, was, xh_file_is_announced(f) || xh_expected_are_announced(), &next);
    while (i < next.asked && xh_expected_is(next.name[i]))
        i++;
    struct xh_options *guess = i >= next.asked && i < next.n ? malloc(sizeof *guess) : NULL;
    if (guess) {
        *guess = *o;
        guess->guessed = 1;
    }
    for (; guess && i < next.n; i++)
        xh_cache_expect_now(next.name[i], guess);
    free(guess);
    if (!xh_version_is_settled(f))
        xh_expected_doubt(o->namer.family);
}

int xh_cache_open(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err)
{
    struct xh_handed how;
    struct xh_err failed;
    int rc = xh_expected_take(url, o, out, &how, &failed);
    if (rc > 0 && how.kept && !is_sound(*out)) {
        xh_cache_close(*out);
        rc = 0;
    }
    if (rc == 0) {
        rc = cache_open(url, o, NULL, NULL, 0, out, err);
        if (rc == 0)
            open_next(*out, o, 0);
        return rc;
    }
    if (rc > 0) {
        open_next(*out, o, !how.kept);
        (*out)->asked_ns = how.asked_ns;
        (*out)->answered_ns = how.opened_ns;
        xh_siblings_asked(*out);
        if (how.kept)
            xh_account_waited((*out)->account, how.waited_ns);
        else
            xh_account_handed_over((*out)->account, how.waited_ns);
        return 0;
    }
    if (err)
        *err = failed;
    return failed_ahead(url, o, how.waited_ns, &failed);
}

int xh_cache_open_part(const char *url, const struct xh_options *o, struct xh_account *whole, struct xh_file **out,
                       struct xh_err *err)
{
    return cache_open(url, o, NULL, whole, 0, out, err);
}

int xh_cache_open_told(const char *url, const struct xh_options *o, const struct xh_told *told, struct xh_file **out,
                       struct xh_err *err)
{
    return cache_open(url, o, told, NULL, 0, out, err);
}

uint64_t xh_cache_size(const struct xh_file *f)
{
    return f->size;
}

const char *xh_cache_validator(const struct xh_file *f)
{
    return f->validator;
}

long long xh_cache_changed(const struct xh_file *f)
{
    return f->changed_s;
}

int xh_cache_is_fleeting(const struct xh_file *f)
{
    return f->fleeting;
}

char *xh_cache_kept_as(const struct xh_file *f)
{
    return xh_file_kept_as(f);
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

int xh_cache_prove(struct xh_file *f, struct xh_err *err)
{
    xh_file_after_fork(f);
    return f->size ? xh_unverified_prove(f, err) : 0;
}

void xh_cache_settle(struct xh_file *f)
{
    xh_disk_flush(f->disk);
    if (f->opt.to_disk)
        xh_disk_copy(f->disk, f->shadow);
    f->opt.to_disk = 0; /* once: closing it settles it again */
}

void xh_cache_lost(struct xh_file *f, uint64_t failures, uint64_t missing, uint64_t network_ns)
{
    xh_account_lost(f->account, failures, missing, network_ns);
}

/* What the account does not know. While the origin is there. */
static void state_facts(struct xh_file *f, struct xh_facts *facts)
{
    struct xh_origin_info info;
    struct xh_chunkindex_plain plain = xh_layouts_plain(f);
    xh_replicas_get_info(f->origin, &info);
    *facts = (struct xh_facts){
        .rtt_ns = info.rtt_ns,
        .size = f->size,
        .plain_bytes = plain.bytes,
        .plain_chunk_bytes = plain.chunk_bytes,
        .connections = info.allowed,
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
        xh_account_print(f->account, f->url_shown, &counted, &facts);
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
    xh_whole_end(f);
    xh_around_end(f);
    xh_alike_end(f);
    end_aloud(f);
    file_free(f);
}

void xh_cache_leave(struct xh_file *f)
{
    if (!f)
        return;
    xh_file_after_fork(f);
    xh_siblings_leave(f);
    if (!f->opt.namer.by_file || f->account != &f->own || !is_sound(f) ||
        !xh_expected_keep(f, f->url, &f->opt, f->reader, &ahead, f->asked_ns, f->answered_ns))
        xh_cache_close(f);
}
