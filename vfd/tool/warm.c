/* xhdf5 cache warm: brings files into the shadow before they are needed.
 *
 * Of several files the next ones are opened ahead (H5FDxhdf5_expect), so that all take the round trips of a few. HDF5
 * walks through their metadata one after the other (survey.h). A small file comes whole, with the opening that HDF5 has
 * of it.
 *
 * Everything fetched is kept as long as no raw data counts as a stream, so stream_bytes gets its largest value. Raw
 * data is read here, without HDF5 and its filters. Two threads take batches of pages in turn, so that the link stays
 * busy while one of them starts its next batch. At the end the pages in the shadow are counted: a full shadow drops
 * pages silently. Where the metadata lies only HDF5 knows, so it walks through it once more, without the server. */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/base/table.h"
#include "../../cache/open/mistaken.h"
#include "../../cache/shadow/image.h"
#include "h5open.h"
#include "json.h"
#include "survey.h"
#include "tool.h"

/* A file of at most so many bytes is kept whole, also with --metadata-only: to leave its data out would hardly save
 * anything. */
#define SMALL_BYTES (4u << 20)
#define LIST_MOST 1000000u /* URLs of a list */

static const char help[] =
    "xhdf5 cache warm URL... | - [--dataset PATH]... [--metadata-only] [--json]\n"
    "\n"
    "Fetches the files at the URLs into the shadow, so that programs that open them later send one or two requests\n"
    "for each: all its metadata, chunk indexes included, and the raw data of all its datasets. With - the URLs\n"
    "are read from standard input, one a line; blank lines, and those that begin with #, are passed over. The next\n"
    "files are opened while one is fetched. If one file cannot be fetched, the others are all the same.\n"
    "\n"
    "  --dataset PATH    raw data of this dataset alone, or of the datasets below this group; may be repeated\n"
    "  --metadata-only   no raw data, except that of files of up to 4 MiB, which come whole\n"
    "  --json            one array\n"
    "\n"
    "Raw data that is larger than the shadow's budget (option shadow_budget_bytes) is not fetched.\n"
    "\n"
    "Exit codes: 0 all that was asked for is in the shadow; 1 not all found room; 2 wrong usage; 3 a file could\n"
    "not be fetched, or cannot be shared.\n";

/* What is wanted of each file. */
struct wish {
    const char **paths;
    size_t npaths;
    int metadata_only;
    int many;  /* 1: of several files */
    int shows; /* 1: progress within a file is shown, not how many of several are done */
};

/* What became of one. */
struct outcome {
    char shown[1024];
    int code;        /* an exit code */
    char why[1600];  /* "", or why not all is kept */
    const char *where; /* the shadow or the disk cache; unless it failed */
    uint64_t objects, datasets, elsewhere, unread, meta_bytes, raw_bytes;
};

static int fail(struct outcome *out, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns |code|. */
static int fail(struct outcome *out, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->why, sizeof out->why, fmt, ap);
    va_end(ap);
    return out->code = code;
}

/* ---- raw data ------------------------------------------------------------------------------- */

struct fetching {
    struct xh_file *f;
    const struct xh_range *raw; /* within the file */
    size_t n;
    enum xh_kind kind;
    int quiet;

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
    while (g->err.code == 0 && g->at < g->n && n < XH_BATCH_PAGES && room) {
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
    struct xh_extent *ext = malloc(XH_BATCH_PAGES * sizeof *ext);
    uint8_t *buf = malloc(XH_BATCH_BYTES);
    int ready = ext && buf, rc = ready ? 0 : xh_err_set(&err, XH_E_NOMEM, 0, "out of memory");
    pthread_mutex_lock(&g->lock);
    for (size_t n; ready && rc == 0 && (n = take(g, ext, buf)) > 0;) {
        pthread_mutex_unlock(&g->lock);
        rc = xh_cache_read(g->f, g->kind, ext, n, &err);
        pthread_mutex_lock(&g->lock);
        for (size_t i = 0; rc == 0 && i < n; i++)
            g->done += ext[i].len;
        if (!g->quiet)
            xh_progress_at(&g->progress, g->done);
    }
    if (rc && g->err.code == 0)
        g->err = err;
    pthread_mutex_unlock(&g->lock);
    free(ext);
    free(buf);
    return NULL;
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

/* Small and quiet: by the caller alone. */
static int fetch_raw(struct fetching *g, int quiet, struct xh_err *err)
{
    pthread_t thread[2]; /* one is at its local work while the other waits */
    const uint64_t bytes = xh_ranges_bytes(g->raw, g->n);
    int began = 0, most = bytes > SMALL_BYTES ? (int)(sizeof thread / sizeof *thread) : 0;
    pthread_mutex_init(&g->lock, NULL);
    g->quiet = quiet;
    if (!quiet)
        xh_progress_begin(&g->progress, "raw data", bytes, NULL);
    while (began < most && pthread_create(&thread[began], NULL, fetch, g) == 0)
        began++;
    if (began == 0)
        fetch(g);
    while (began)
        pthread_join(thread[--began], NULL);
    if (!quiet)
        xh_progress_end(&g->progress, g->done);
    if (g->err.code)
        *err = g->err;
    return g->err.code;
}

/* ---- what stayed ---------------------------------------------------------------------------- */

struct stayed {
    uint64_t meta_bytes, raw_bytes; /* in the shadow, or on the disk */
    uint64_t wanted_bytes;          /* bytes of the ranges that are there */
};

/* Counts the bytes in the image. Both its runs and the ranges ascend. */
static void count(struct xh_image *m, const struct xh_range *raw, size_t n, uint64_t size, struct stayed *s)
{
    struct xh_image_run run;
    size_t i = 0;
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

/* Where it is to stay: on the disk, if there is a disk cache. */
struct place {
    struct xh_options o;
    const char *name, *raise; /* raise: the option that gives it more */
};

static struct place place_of(const struct xh_options *o)
{
    struct place p;
    int disk = xh_shadow_on_disk(o, &p.o);
    if (!disk)
        p.o = *o;
    p.name = disk ? "disk cache" : "shadow";
    p.raise = disk ? "DISK_CACHE_BYTES" : "SHADOW_BUDGET_BYTES";
    return p;
}

/* Returns how many bytes it may hold. Looks at all files there. */
static uint64_t budget_of(const struct place *p)
{
    uint64_t budget, taken;
    xh_image_room(&p->o, &budget, &taken);
    return budget;
}

/* Says in |out| that no more than |what| stayed, how much the place may hold, and how much its file system has free
 * where that counts. |advice| ends before the option to raise. Returns the exit code. */
static int is_full(struct outcome *out, const struct place *p, const char *what, const char *advice)
{
    char room[XH_SIZE_TEXT + 40] = "";
    const char *cure;
    uint64_t left;
    xh_image_usable(&p->o, &left, &cure, XH_IGNORED);
    if (left != UINT64_MAX)
        snprintf(room, sizeof room, ", and its file system has %s free", xh_size(left));
    return fail(out, XH_EXIT_NO, "%s stayed: the %s may hold %s%s. %s XHDF5_%s%s", what, p->name,
                xh_size(budget_of(p)), room, advice, p->raise,
                p->o.on_disk ? "; if it is large enough, the disk was too slow: say it again" : "");
}

/* Says in |out| what is in the shadow, or on the disk, now. */
static int report(struct outcome *out, const char *url, const struct xh_options *o, struct xh_file *f,
                  const struct xh_survey *s, int too_large)
{
    char stayed[80];
    uint64_t wanted = xh_ranges_bytes(s->raw.at, s->raw.n), left;
    struct stayed now = {0};
    struct xh_err err;
    const char *cure;
    const struct place p = place_of(o);
    xh_cache_settle(f);
    char *kept_as = xh_cache_kept_as(f), *object = xh_cache_object(url, o);
    struct xh_image *m = kept_as && object ? xh_image_open(&p.o, object, kept_as, xh_cache_size(f)) : NULL;
    if (m)
        count(m, s->raw.at, s->raw.n, xh_cache_size(f), &now);
    free(object);
    free(kept_as);
    xh_image_close(m);
    if (!m && xh_image_usable(&p.o, &left, &cure, &err))
        return fail(out, XH_EXIT_FAILED, "%s: there is no %s that other processes could use: %s; %s", out->shown,
                    p.name, err.text, cure);
    if (!m && !xh_cache_is_fleeting(f))
        return fail(out, XH_EXIT_FAILED,
                    "%s: there is no %s that other processes could use: no file of its size could be made "
                    "(XHDF5_LOG=shadow says why; \"ulimit -f\" may be too low)",
                    out->shown, p.name);
    if (!m)
        return fail(out, XH_EXIT_FAILED,
                    "%s: there is no %s that other processes could use: the server names no version of the file that "
                    "proves its bytes (a weak ETag; or the file was changed within the last minute: try again when "
                    "that is over)",
                    out->shown, p.name);
    out->where = p.name;
    out->objects = s->objects;
    out->datasets = s->datasets;
    out->elsewhere = s->elsewhere;
    out->unread = s->unread;
    out->meta_bytes = now.meta_bytes;
    out->raw_bytes = now.raw_bytes;
    if (too_large)
        return fail(out, XH_EXIT_NO,
                    "the raw data is %s, the %s may hold %s: nothing of it was fetched. Name what is needed "
                    "with --dataset, or raise XHDF5_%s",
                    xh_size(wanted), p.name, xh_size(budget_of(&p)), p.raise);
    snprintf(stayed, sizeof stayed, "only %s of %s of raw data", xh_size(now.wanted_bytes), xh_size(wanted));
    if (now.wanted_bytes < wanted)
        return is_full(out, &p, stayed, "Name what is needed with --dataset, or raise");
    return out->code = XH_EXIT_OK;
}

/* All raw data that was wanted stayed. Walks through the metadata once more, offline: by what is there. Says in |out|
 * if it is not all there. */
static int report_metadata(struct outcome *out, const struct wish *w, const char *url, const struct xh_options *o,
                           const struct xh_survey *before)
{
    struct xh_options local = *o;
    const struct place p = place_of(o);
    struct xh_survey s = {.paths = w->paths, .npaths = w->npaths, .all = before->all};
    local.offline = 1;
    local.stats = 0;
    local.shadow = !p.o.on_disk; /* the shadow goes with the machine's memory */
    int walked = xh_survey_walk(&s, url, &local, XH_IGNORED) == 0;
    int lacks = !walked || s.objects < before->objects || s.unread > before->unread;
    xh_survey_free(&s);
    return lacks ? is_full(out, &p, "not all of the metadata", "Raise") : out->code;
}

/* ---- one file ------------------------------------------------------------------------------- */

struct warming {
    const struct wish *w;
    const char *url;
    const struct xh_options *o;
    struct outcome *out;
    struct xh_progress progress;
    int is_small; /* all of the file is wanted as raw data is */
    int is_done;
};

static void on_object(void *ctx, uint64_t objects)
{
    struct warming *g = ctx;
    if (g->w->shows)
        xh_progress_at(&g->progress, objects);
}

/* With the opening that HDF5 has: a small file's bytes are on their way through it, and if no raw data is wanted, there
 * is nothing left to do, but to copy it to the disk cache. */
static int walked(void *ctx, struct xh_survey *s, struct xh_file *f, struct xh_err *err)
{
    struct warming *g = ctx;
    const uint64_t size = xh_cache_size(f);
    int rc = 0, small = size > 0 && size <= SMALL_BYTES && !g->w->npaths;
    g->is_small = small;
    if (small) {
        xh_survey_free(s);
        if (xh_range_add(&s->raw, 0, size, 1))
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
        struct fetching all = {.f = f, .raw = s->raw.at, .n = 1, .kind = XH_KIND_META};
        rc = fetch_raw(&all, 1, err);
    }
    rc = rc ? rc : xh_cache_prove(f, err); /* else closing cancels that, and nothing of the head is kept */
    if (rc == 0 && (small || s->raw.n == 0) && !g->o->disk_cache_dir[0]) {
        report(g->out, g->url, g->o, f, s, 0);
        g->is_done = 1;
    }
    return rc;
}

static void options_for(const struct wish *w, const struct xh_options *given, struct xh_options *o)
{
    *o = *given;
    o->stream_bytes = xh_opt_rows[XH_OPT_ID_stream_bytes].max;
    if (w->metadata_only && o->whole_file_bytes > SMALL_BYTES)
        o->whole_file_bytes = SMALL_BYTES;
}

/* |o|: by options_for. */
static void warm(const struct wish *w, const char *url, const struct xh_options *o, struct outcome *out)
{
    struct xh_options exact = *o;
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    struct warming g = {.w = w, .url = url, .o = o, .out = out};
    struct xh_survey s = {.paths = w->paths, .npaths = w->npaths, .all = !w->npaths && !w->metadata_only,
                          .progress = on_object, .walked = walked, .ctx = &g};
    if (w->shows)
        xh_progress_begin(&g.progress, "metadata", 0, "objects");
    int rc = xh_survey_walk(&s, url, o, &err), too_large = 0;
    if (rc == 0 && w->shows)
        xh_progress_end(&g.progress, s.objects);
    exact.readahead = 0; /* all wanted ranges are known */
    exact.to_disk = 1;
    if (rc == 0 && !g.is_done && (rc = xh_cache_open(url, &exact, &f, &err)) == 0) {
        s.raw.n = clip(s.raw.at, s.raw.n, xh_cache_size(f));
        const struct place p = place_of(o);
        const uint64_t budget = budget_of(&p);
        too_large = budget && xh_ranges_bytes(s.raw.at, s.raw.n) > budget;
        struct fetching raw = {.f = f, .raw = s.raw.at, .n = s.raw.n, .kind = XH_KIND_RAW};
        if (s.raw.n && !too_large)
            rc = fetch_raw(&raw, !w->shows, &err);
        rc = rc ? rc : xh_cache_prove(f, &err);
        if (rc == 0)
            report(out, url, o, f, &s, too_large);
    }
    if (rc)
        fail(out, XH_EXIT_FAILED, strstr(err.text, out->shown) ? "%s" : "%s (%s)", err.text, out->shown);
    xh_cache_close(f);
    if (rc == 0 && out->code == XH_EXIT_OK && !g.is_small)
        report_metadata(out, w, url, o, &s);
    xh_survey_free(&s);
}

static void say(const struct wish *w, const struct outcome *out)
{
    if (out->code != XH_EXIT_FAILED) {
        printf("%s: %" PRIu64 " objects; the %s holds %s of metadata, %s of raw data\n", out->shown, out->objects,
               out->where, xh_size(out->meta_bytes), xh_size(out->raw_bytes));
        if (out->elsewhere)
            printf("%" PRIu64 " of %" PRIu64 " datasets have their data in other files (virtual, external): warm "
                   "those\n", out->elsewhere, out->datasets);
        if (out->unread)
            printf("%" PRIu64 " objects or values could not be read by HDF5 and were passed over\n", out->unread);
    }
    if (*out->why)
        xh_tool_fail(out->code, w->many && !strstr(out->why, out->shown) ? "%s (%s)" : "%s", out->why, out->shown);
}

static void say_json(const struct outcome *out, size_t before)
{
    static const char *const states[] = {[XH_EXIT_OK] = "kept", [XH_EXIT_NO] = "partly", [XH_EXIT_FAILED] = "failed"};
    json_t *of = json_pack("{so ss so sI sI sI}", "url", xh_json_text(out->shown), "state", states[out->code], "why",
                           xh_json_text(*out->why ? out->why : NULL), "objects", (json_int_t)out->objects,
                           "metadata_bytes", (json_int_t)out->meta_bytes, "raw_bytes", (json_int_t)out->raw_bytes);
    xh_json_print(before ? ",\n " : "[", of);
}

/* ---- the command ---------------------------------------------------------------------------- */

struct list {
    char **url;
    size_t n, room;
};

static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->url[i]);
    free(l->url);
}

static int list_add(struct list *l, const char *url)
{
    char *copy = l->n < LIST_MOST && xh_grow(l->url, l->room, l->n + 1) == 0 ? strdup(url) : NULL;
    if (!copy)
        return xh_tool_fail(XH_EXIT_FAILED, l->n < LIST_MOST ? "out of memory" : "the list has too many URLs");
    l->url[l->n++] = copy;
    return 0;
}

/* Returns 0 or the exit code. */
static int list_read(struct list *l, FILE *from)
{
    char *line = NULL;
    size_t room = 0;
    int code = 0;
    while (code == 0 && getline(&line, &room, from) >= 0) {
        char *url = line + strspn(line, " \t\r\n");
        size_t n = strlen(url);
        while (n && strchr(" \t\r\n", url[n - 1]))
            url[--n] = '\0';
        if (*url && *url != '#')
            code = list_add(l, url);
    }
    if (code == 0 && ferror(from))
        code = xh_tool_fail(XH_EXIT_FAILED, "standard input cannot be read");
    free(line);
    return code;
}

/* The URLs of the command line: all are looked at before the first one is fetched. */
static int list_take(struct list *l, int argc, char **argv)
{
    int code = 0, named = optind < argc;
    for (; code == 0 && optind < argc; optind++)
        if (strcmp(argv[optind], "-") == 0)
            code = list_read(l, stdin);
        else
            code = list_add(l, xh_tool_is_url(argv[optind]));
    return code == 0 && !named ? xh_tool_usage("a URL is wanted, or - for a list of them") : code;
}

static int warm_all(struct wish *w, const struct list *l, const struct xh_options *o, int json)
{
    struct xh_progress p;
    struct outcome *out = calloc(1, sizeof *out);
    char unit[40], why[XH_NO_URL_BYTES];
    size_t expected = 0, lacking = 0;
    int code = XH_EXIT_OK;
    if (!out)
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    w->many = l->n > 1;
    snprintf(unit, sizeof unit, "of %zu files", l->n);
    const int wanted = !json || xh_progress_wanted(o->progress), shows = wanted && w->many;
    w->shows = wanted && !w->many;
    if (shows)
        xh_progress_begin(&p, "warming", 0, unit);
    for (size_t i = 0; i < l->n; i++) {
        memset(out, 0, sizeof *out);
        xh_url_shown(l->url[i], out->shown, sizeof out->shown);
        expected = expected > i ? expected : i;
        while (w->many && expected < l->n &&
               (!xh_cache_is_url(l->url[expected]) || xh_h5_expect(l->url[expected], o)))
            expected++;
        if (xh_cache_is_url(l->url[i]))
            warm(w, l->url[i], o, out);
        else
            fail(out, XH_EXIT_FAILED, "%s", xh_mistaken_no_url(l->url[i], why));
        if (shows)
            xh_progress_clear(&p);
        if (json)
            say_json(out, i);
        else
            say(w, out);
        code = out->code > code ? out->code : code;
        lacking += out->code != XH_EXIT_OK;
        if (shows)
            xh_progress_at(&p, i + 1);
    }
    if (json)
        puts(l->n ? "]" : "[]");
    if (shows)
        xh_progress_end(&p, l->n);
    if (w->many && lacking && !json)
        xh_tool_fail(code, "of %zu files, %zu are not in the shadow as wanted: see above", l->n, lacking);
    free(out);
    return code;
}

static int run(int argc, char **argv, const struct xh_options *given)
{
    struct wish w = {0};
    struct list l = {0};
    struct xh_options o;
    int json = 0;
    if (!(w.paths = calloc((size_t)argc + 1, sizeof *w.paths)))
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    const struct xh_tool_option options[] = {{"dataset", .value = w.paths, .n = &w.npaths},
                                             {"metadata-only", .flag = &w.metadata_only},
                                             {"json", .flag = &json}};
    XH_TOOL_OPTIONS(argc, argv, options);
    int code = w.npaths && w.metadata_only ? xh_tool_usage("--dataset and --metadata-only exclude each other")
                                           : list_take(&l, argc, argv);
    options_for(&w, given, &o);
    if (code == 0)
        code = o.shadow ? warm_all(&w, &l, &o, json)
                        : xh_tool_fail(XH_EXIT_FAILED, "the option shadow is off: there is nothing to warm");
    list_free(&l);
    free(w.paths);
    return code;
}

const struct xh_verb xh_tool_warm = {"warm", help, run};
