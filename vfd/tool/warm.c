/* xhdf5 cache warm: brings a file into the shadow before it is needed.
 *
 * Everything fetched is kept as long as no raw data counts as a stream, so stream_bytes gets its largest value. HDF5
 * walks through the metadata (survey.h). Raw data is read here, without HDF5 and its filters. Two threads take batches
 * of pages in turn, so that the link stays busy while one of them starts its next batch. At the end the pages in the
 * shadow are counted: a full shadow drops pages silently. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/shadow/image.h"
#include "progress.h"
#include "survey.h"
#include "tool.h"
#include "verbs.h"

/* With --metadata-only a file comes whole only where that is hardly more than what it was asked for. */
#define METADATA_WHOLE_BYTES (4u << 20)
#define BATCH_EXTENTS (XH_BATCH_BYTES / XH_PAGE_BYTES)

static const char help[] =
    "xhdf5 cache warm URL [--dataset PATH]... [--metadata-only]\n"
    "\n"
    "Fetches the file at URL into the shadow, so that programs that open it later send one or two requests:\n"
    "all its metadata, chunk indexes included, and the raw data of all its datasets.\n"
    "\n"
    "  --dataset PATH    raw data of this dataset alone, or of the datasets below this group; may be repeated\n"
    "  --metadata-only   no raw data\n"
    "\n"
    "Raw data that is larger than the shadow's budget (option shadow_budget_bytes) is not fetched.\n"
    "\n"
    "Exit codes: 0 all that was asked for is in the shadow; 1 not all found room; 2 wrong usage; 3 it could not\n"
    "be fetched, or cannot be shared.\n";

struct wish {
    const char *url;
    char shown[1024];
    const char **paths;
    size_t npaths;
    int metadata_only;
};

/* ---- raw data ------------------------------------------------------------------------------- */

struct fetching {
    struct xh_file *f;
    const struct xh_range *raw; /* within the file */
    size_t n;

    pthread_mutex_t lock; /* guards the rest */
    size_t at;            /* the next range, of which |taken| bytes are taken */
    uint64_t taken, done;
    struct xh_err err; /* the first error */
    struct xh_progress progress;
};

/* Takes the next batch into |ext|, with buffers in |buf|. Returns the number of extents, or 0 when there are no
 * more. */
static size_t take(struct fetching *g, struct xh_extent *ext, uint8_t *buf)
{
    size_t n = 0;
    uint64_t room = XH_BATCH_BYTES;
    while (g->err.code == 0 && g->at < g->n && n < BATCH_EXTENTS && room) {
        const struct xh_range *r = &g->raw[g->at];
        uint64_t len = r->len - g->taken < room ? r->len - g->taken : room;
        ext[n++] = (struct xh_extent){.off = r->off + g->taken, .len = len, .buf = buf + (XH_BATCH_BYTES - room)};
        room -= len;
        g->taken += len;
        if (g->taken == r->len) {
            g->at++;
            g->taken = 0;
        }
    }
    return n;
}

static void *fetch(void *ctx)
{
    struct fetching *g = ctx;
    struct xh_err err = {0};
    struct xh_extent *ext = malloc(BATCH_EXTENTS * sizeof *ext);
    uint8_t *buf = malloc(XH_BATCH_BYTES);
    int ready = ext && buf, rc = ready ? 0 : xh_err_set(&err, XH_E_NOMEM, 0, "out of memory");
    pthread_mutex_lock(&g->lock);
    for (size_t n; ready && rc == 0 && (n = take(g, ext, buf)) > 0;) {
        pthread_mutex_unlock(&g->lock);
        rc = xh_cache_read(g->f, XH_KIND_RAW, ext, n, &err);
        pthread_mutex_lock(&g->lock);
        for (size_t i = 0; rc == 0 && i < n; i++)
            g->done += ext[i].len;
        xh_progress_at(&g->progress, g->done);
    }
    if (rc && g->err.code == 0)
        g->err = err;
    pthread_mutex_unlock(&g->lock);
    free(ext);
    free(buf);
    return NULL;
}

static uint64_t sum(const struct xh_range *r, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += r[i].len;
    return bytes;
}

/* Cuts off what lies behind the end of the file. Returns the number of ranges left. */
static size_t clip(struct xh_range *r, size_t n, uint64_t size)
{
    while (n && r[n - 1].off >= size)
        n--;
    if (n && r[n - 1].len > size - r[n - 1].off)
        r[n - 1].len = size - r[n - 1].off;
    return n;
}

static int fetch_raw(struct xh_file *f, const struct xh_range *raw, size_t n, struct xh_err *err)
{
    struct fetching g = {.f = f, .raw = raw, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[2]; /* one is at its local work while the other waits */
    int began = 0;
    xh_progress_begin(&g.progress, "raw data", sum(raw, n), NULL);
    while (began < (int)(sizeof thread / sizeof *thread) && pthread_create(&thread[began], NULL, fetch, &g) == 0)
        began++;
    if (began == 0)
        fetch(&g);
    while (began)
        pthread_join(thread[--began], NULL);
    xh_progress_end(&g.progress, g.done);
    if (g.err.code)
        *err = g.err;
    return g.err.code;
}

/* ---- what stayed ---------------------------------------------------------------------------- */

struct stayed {
    uint64_t meta_bytes, raw_bytes; /* in the shadow */
    uint64_t wanted_bytes;          /* bytes of the ranges that are in the shadow */
};

/* Counts bytes in the shadow. Both the image's runs and the ranges ascend. */
static void count(struct xh_image *m, const struct xh_range *raw, size_t n, uint64_t size, struct stayed *s)
{
    struct xh_image_run run;
    size_t i = 0;
    *s = (struct stayed){0};
    while (xh_image_next(m, &run)) {
        uint64_t a = run.first * XH_PAGE_BYTES, b = a + run.count * XH_PAGE_BYTES;
        b = b < size ? b : size;
        *(run.meta ? &s->meta_bytes : &s->raw_bytes) += b - a;
        while (i < n && raw[i].off + raw[i].len <= a)
            i++;
        for (size_t k = i; k < n && raw[k].off < b; k++) {
            uint64_t from = raw[k].off > a ? raw[k].off : a, to = raw[k].off + raw[k].len;
            s->wanted_bytes += (to < b ? to : b) - from;
        }
    }
}

/* Prints what is in the shadow now. Returns the exit code. */
static int report(const struct wish *w, const struct xh_options *o, struct xh_file *f, const struct xh_survey *s,
                  int too_large)
{
    char a[XH_SIZE_TEXT], b[XH_SIZE_TEXT], c[XH_SIZE_TEXT];
    uint64_t wanted = sum(s->raw, s->nraw), budget, taken;
    struct stayed now;
    char *kept_as = xh_cache_kept_as(f), *object = xh_cache_object(w->url, o);
    struct xh_image *m = kept_as && object ? xh_image_open(o, object, kept_as, xh_cache_size(f)) : NULL;
    free(object);
    free(kept_as);
    if (!m)
        return xh_tool_fail(XH_EXIT_FAILED,
                            "%s: there is no shadow that other processes could use: the shadow's directory is not "
                            "usable (XHDF5_LOG=shadow says why), the option shadow is off, or the server names no "
                            "version of the file that proves its bytes (a weak ETag; or the file was changed within "
                            "the last minute: try again when that is over)",
                            w->shown);
    count(m, s->raw, s->nraw, xh_cache_size(f), &now);
    xh_image_close(m);
    printf("%s: %" PRIu64 " objects; the shadow holds %s of metadata, %s of raw data\n", w->shown, s->objects,
           xh_tool_size(now.meta_bytes, a), xh_tool_size(now.raw_bytes, b));
    if (s->elsewhere)
        printf("%" PRIu64 " of %" PRIu64 " datasets have their data in other files (virtual, external): warm those\n",
               s->elsewhere, s->datasets);
    if (s->unread)
        printf("%" PRIu64 " objects or values could not be read by HDF5 and were passed over\n", s->unread);
    xh_image_room(o, &budget, &taken);
    if (too_large)
        return xh_tool_fail(
            XH_EXIT_NO,
            "the raw data is %s, the shadow may hold %s: nothing of it was fetched. Name what is needed "
            "with --dataset, or raise XHDF5_SHADOW_BUDGET_BYTES",
            xh_tool_size(wanted, a), xh_tool_size(budget, b));
    if (now.wanted_bytes < wanted)
        return xh_tool_fail(XH_EXIT_NO,
                            "only %s of %s of raw data stayed: the shadow may hold %s. Name what is needed with "
                            "--dataset, or raise XHDF5_SHADOW_BUDGET_BYTES",
                            xh_tool_size(now.wanted_bytes, a), xh_tool_size(wanted, b), xh_tool_size(budget, c));
    return XH_EXIT_OK;
}

/* ---- the command ---------------------------------------------------------------------------- */

static void on_object(void *ctx, uint64_t objects)
{
    xh_progress_at(ctx, objects);
}

static int warm(const struct wish *w, const struct xh_options *given)
{
    struct xh_options o = *given, exact;
    struct xh_err err = {0};
    struct xh_progress p;
    struct xh_file *f = NULL;
    uint64_t budget, taken;
    int code = XH_EXIT_FAILED, too_large = 0;
    struct xh_survey s = {.paths = w->paths, .npaths = w->npaths, .all = !w->npaths && !w->metadata_only,
                          .progress = on_object, .ctx = &p};
    if (!o.shadow)
        return xh_tool_fail(code, "the option shadow is off: there is nothing to warm");
    o.stream_bytes = xh_opt_rows[XH_OPT_ID_stream_bytes].max;
    if (w->metadata_only && o.whole_file_bytes > METADATA_WHOLE_BYTES)
        o.whole_file_bytes = METADATA_WHOLE_BYTES;
    xh_progress_begin(&p, "metadata", 0, "objects");
    int rc = xh_survey_walk(&s, w->url, &o, &err);
    if (rc == 0)
        xh_progress_end(&p, s.objects);
    exact = o;
    exact.readahead = 0; /* all wanted ranges are known */
    if (rc == 0 && (rc = xh_cache_open(w->url, &exact, &f, &err)) == 0) {
        s.nraw = clip(s.raw, s.nraw, xh_cache_size(f));
        xh_image_room(&o, &budget, &taken);
        too_large = budget && sum(s.raw, s.nraw) > budget;
        if (s.nraw && !too_large)
            rc = fetch_raw(f, s.raw, s.nraw, &err);
    }
    if (rc)
        xh_tool_fail(code, strstr(err.text, w->shown) ? "%s" : "%s (%s)", err.text, w->shown);
    else
        code = report(w, &o, f, &s, too_large);
    if (f)
        xh_cache_close(f);
    xh_survey_free(&s);
    return code;
}

int xh_tool_warm(int argc, char **argv, const struct xh_options *o)
{
    static const char command[] = "xhdf5 cache warm";
    struct wish w = {0};
    if (!(w.paths = calloc((size_t)argc + 1, sizeof *w.paths)))
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    const struct xh_tool_option options[] = {{"dataset", .value = w.paths, .n = &w.npaths},
                                             {"metadata-only", .flag = &w.metadata_only}};
    int code = XH_TOOL_OPTIONS(command, help, argc, argv, options);
    if (code >= 0)
        goto out;
    code = XH_EXIT_USAGE;
    if (!(w.url = xh_tool_url(command, argc, argv, 1)))
        goto out;
    if (w.npaths && w.metadata_only)
        xh_tool_usage(command, "--dataset and --metadata-only exclude each other");
    else {
        xh_tool_shown(w.url, w.shown, sizeof w.shown);
        code = warm(&w, o);
    }
out:
    free(w.paths);
    return code;
}
