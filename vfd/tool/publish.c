/* xhdf5 publish: puts metadata images and compressed copies beside files, for remote readers.
 *
 * HDF5 does one thing at a time in a process, and a broken file may crash it. So several worker processes share the
 * files, and send each result through a pipe. The number of the next file is in shared memory. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cache/base/extent.h"
#include "../../cache/base/hdf5.h"
#include "../../cache/base/number.h"
#include "../../cache/base/table.h"
#include "../../cache/cache.h"
#include "../../cache/source/metaimage.h"
#include "bake.h"
#include "pack.h"
#include "place.h"
#include "tool.h"

#define WORKERS_MOST 16
#define USER_BLOCK_MOST (UINT64_C(1) << 30)

static const char help[] =
    "xhdf5 publish [--body[=auto|zstd|lz4]] [--check | --remove | --dry-run] [--jobs N] FILE|DIR...\n"
    "\n"
    "Makes a metadata image beside each HDF5 file, FILE" XH_METAIMAGE_SUFFIX ": all that is not raw data, packed.\n"
    "Readers with the xhdf5 driver fetch it when they open the file, and then need no further request for\n"
    "metadata. Run it where the files lie; of a directory all HDF5 files below it are published.\n"
    "\n"
    "  --body       makes a compressed copy, too, FILE" XH_PACKED_SUFFIX ": the whole file in frames\n"
    "               of zstd or lz4 (zstd -d or lz4 -d gives the original back). Readers behind a link that is\n"
    "               slower than unpacking fetch that instead. How it is packed is tried on samples of the file:\n"
    "               lz4 where it packs nearly as much and readers on fast links save time, else zstd; --body=zstd\n"
    "               and --body=lz4 decide that. A file that its own filters have packed gets none\n"
    "  --check      makes nothing: compares the images and copies that are there with their files; with --body, a\n"
    "               file without a copy is told, too\n"
    "  --remove     removes images and copies; with --body, the copies alone\n"
    "  --dry-run    makes nothing: says what would be made, and what readers would gain\n"
    "  --jobs N     files, or parts of one, at once; as many as there are processors\n"
    "\n"
    "What is there already, and of the file's present version, stays. A run that was interrupted can be\n"
    "repeated. Files that change are to be published again; until then readers do not use what lies beside them.\n"
    "\n"
    "Exit codes: 0 done; 1 done, and the answer is no (--check: something is missing, stale or damaged); 2 wrong "
    "usage;\n"
    "3 a file could not be published.\n";

enum verb { MAKE, CHECK, REMOVE, DRY };

struct work {
    enum verb verb;
    const struct xh_options *o;
    int jobs, body, codec; /* body: --body was given; codec: for xh_pack */
    struct file {
        char *path; /* malloc'd */
        uint64_t bytes; /* 0: it is not read whole */
    } *file;
    size_t n, room;
    uint64_t bytes; /* of all files; progress counts them, or the files where none is read whole */
    struct shared *shared;
};

struct shared { /* by all workers */
    _Atomic size_t next;   /* number of the next file */
    _Atomic uint64_t came; /* of what progress counts: what was processed */
};

/* ---- which files -------------------------------------------------------------------------------- */

/* 1 when an HDF5 superblock begins at 0, or behind a user block. */
static int is_hdf5(const char *path, uint64_t size)
{
    char buf[XH_HDF5_SIGNATURE_BYTES];
    int found = 0, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (uint64_t at = 0; fd >= 0 && !found && at < size && at < USER_BLOCK_MOST; at = at ? 2 * at : 512)
        found = pread(fd, buf, sizeof buf, (off_t)at) == sizeof buf && xh_hdf5_is_signed(buf);
    if (fd >= 0)
        close(fd);
    return found;
}

/* 1 when all of the file |path| is read: for its compressed copy, or to compare it with that. An image takes metadata
 * alone. */
static int is_read_whole(const struct work *w, const char *path)
{
    char copy[PATH_MAX];
    if (w->verb != CHECK)
        return w->body && w->verb != REMOVE;
    return snprintf(copy, sizeof copy, "%s%s", path, XH_PACKED_SUFFIX) < (int)sizeof copy && access(copy, F_OK) == 0;
}

static int add(struct work *w, const char *path, uint64_t bytes)
{
    if (xh_grow(w->file, w->room, w->n + 1) || !(w->file[w->n].path = strdup(path)))
        return -1;
    w->file[w->n].bytes = is_read_whole(w, path) ? bytes : 0;
    w->bytes += w->file[w->n++].bytes;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Collects the files. A file that the user names is always tried; one that is found in a directory must look like HDF5.
 * Returns 0 or an exit code. */
static int collect(struct work *w, char **named)
{
    FTS *fts = fts_open(named, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    int code = fts ? 0 : xh_tool_fail(XH_EXIT_FAILED, "the files cannot be listed: %s", strerror(errno));
    for (FTSENT *e; fts && (e = fts_read(fts));) {
        uint64_t size = e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
        if (e->fts_info == FTS_D && e->fts_level > 0 && e->fts_name[0] == '.')
            fts_set(fts, e, FTS_SKIP);
        else if (e->fts_info == FTS_NS && e->fts_level == 0 && xh_cache_is_url(e->fts_path))
            code = xh_tool_fail(XH_EXIT_FAILED, "%s: files are published where they lie, by their paths",
                                xh_shown(e->fts_path, 512));
        else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS || e->fts_info == FTS_SLNONE)
            code = xh_tool_fail(XH_EXIT_FAILED, "%s: %s", e->fts_path, strerror(e->fts_errno ? e->fts_errno : ENOENT));
        else if (e->fts_info == FTS_F && (e->fts_level == 0 || (e->fts_name[0] != '.' && is_hdf5(e->fts_path, size))) &&
                 add(w, e->fts_path, size) != 0)
            code = xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    }
    if (fts)
        fts_close(fts);
    return code;
}

/* ---- workers ------------------------------------------------------------------------------------ */

static int tell(const struct xh_baked *b, int to)
{
    _Static_assert(sizeof *b <= 4096, "a pipe takes it in one piece");
    return write(to, b, sizeof *b) == (ssize_t)sizeof *b;
}

/* Does what is to be done with the image of file |i|, or its compressed copy if |body|; |last|: the last of both. */
static int see_to(const struct work *w, size_t i, int body, int last, int to)
{
    const char *path = w->file[i].path;
    struct xh_baked b = {.file = i, .body = body, .last = last};
    int threads = w->jobs / (w->n < (size_t)w->jobs ? (int)w->n : w->jobs);
    if (w->verb == REMOVE)
        xh_place_remove(path, body ? XH_PACKED_SUFFIX : XH_METAIMAGE_SUFFIX, &b);
    else if (body)
        xh_pack(path, w->verb == CHECK, w->codec, w->verb == DRY, threads, &w->shared->came, &b);
    else if (w->verb == CHECK)
        xh_bake_check(path, &b);
    else
        xh_bake(path, w->o, w->verb == DRY, &b);
    int counted = body && b.as == (w->verb == CHECK ? XH_BAKED_FRESH : XH_BAKED_MADE) && w->verb != DRY;
    if (last && !counted)
        atomic_fetch_add_explicit(&w->shared->came, w->bytes ? w->file[i].bytes : 1, memory_order_relaxed);
    return tell(&b, to);
}

/* In a worker process: processes files until there are no more. */
static void work_on(const struct work *w, int to)
{
    int bodies = w->body || w->verb == CHECK || w->verb == REMOVE, images = !(w->verb == REMOVE && w->body);
    for (size_t i; (i = atomic_fetch_add_explicit(&w->shared->next, 1, memory_order_relaxed)) < w->n;)
        if ((images && !see_to(w, i, 0, !bodies, to)) || (bodies && !see_to(w, i, 1, 1, to)))
            break;
}

/* Starts workers that write to |to|. Returns their number. */
static int start(const struct work *w, int from, int to)
{
    int began = 0, most = w->jobs;
    most = (size_t)most > w->n ? (int)w->n : most;
    fflush(NULL);
    while (began < most) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            close(from);
            work_on(w, to);
            _exit(0);
        }
        began++;
    }
    return began;
}

/* ---- results ------------------------------------------------------------------------------------ */

static void report_made(const struct work *w, const struct xh_baked *b, const char *path)
{
    const char *size = xh_size(b->sidecar_bytes);
    if (b->body) {
        printf("%s: its %s in %s (%s), %.2f times less\n", path, xh_size(b->file_bytes), size, b->text,
               (double)b->file_bytes / (double)b->sidecar_bytes);
        if (w->verb == DRY)
            printf("  where the link is what readers wait for, they would read it in %.0f %% of the time\n",
                   100.0 * (double)b->sidecar_bytes / (double)b->file_bytes);
        return;
    }
    printf("%s: %s of metadata in %s, %.2f %% of the file\n", path, xh_size(b->image_bytes), size,
           100.0 * (double)b->sidecar_bytes / (double)b->file_bytes);
    if (w->verb == DRY)
        printf("  it lies in %" PRIu64 " pieces; a reader who wants all of it would ask for one\n", b->extents);
}

/* 1 when the missing sidecar counts as a fault. A compressed copy counts only with --body. */
static int is_missed(const struct work *w, const struct xh_baked *b)
{
    return b->as == XH_BAKED_NONE && (!b->body || w->body);
}

static void report(const struct work *w, const struct xh_baked *b, int terminal)
{
    char path[1024];
    const char *what = b->body ? "the compressed copy" : "the image";
    xh_tool_name(w->file[b->file].path, path, sizeof path);
    if (terminal)
        fputs("\r\033[K", stderr);
    switch (b->as) {
    case XH_BAKED_MADE: report_made(w, b, path); break;
    case XH_BAKED_FRESH: printf("%s: %s is up to date (%s)\n", path, what, xh_size(b->sidecar_bytes)); break;
    case XH_BAKED_GONE: printf("%s: %s is removed\n", path, what); break;
    case XH_BAKED_NONE:
        if (is_missed(w, b))
            printf("%s: there is no %s\n", path, what + strlen("the "));
        break;
    case XH_BAKED_SKIPPED: printf("%s: %s: %s\n", path, b->body ? "no compressed copy" : "skipped", b->text); break;
    case XH_BAKED_STALE: printf("%s: %s is not usable: %s\n", path, what, b->text); break;
    default:
        xh_tool_fail(0, "%s: %s", path, b->as == XH_BAKED_LOST ? "HDF5 crashed on it" : b->text);
    }
    fflush(stdout);
}

static int code_of(const struct work *w, const struct xh_baked *b)
{
    if (b->as == XH_BAKED_FAILED || b->as == XH_BAKED_LOST)
        return XH_EXIT_FAILED;
    return w->verb == CHECK && (b->as == XH_BAKED_STALE || is_missed(w, b)) ? XH_EXIT_NO : XH_EXIT_OK;
}

/* Waits for the next result, and draws the progress meanwhile. */
static void wait_for_word(const struct work *w, int from, struct xh_progress *p)
{
    struct pollfd f = {.fd = from, .events = POLLIN};
    const uint64_t all = w->bytes ? w->bytes : w->n;
    int n;
    do {
        uint64_t came = atomic_load_explicit(&w->shared->came, memory_order_relaxed);
        xh_progress_at(p, came < all ? came : all);
    } while ((n = poll(&f, 1, XH_DRAW_EVERY_MS)) == 0 || (n < 0 && errno == EINTR));
}

/* Reads the workers' results until all workers have ended. |done|: the files that have a result. */
static void hear(const struct work *w, int from, char *done, struct xh_progress *p, int *code)
{
    struct xh_baked b;
    size_t got = 0;
    for (ssize_t n; wait_for_word(w, from, p), (n = read(from, (char *)&b + got, sizeof b - got)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        got += (size_t)n;
        if (got < sizeof b)
            continue;
        got = 0;
        done[b.file] = (char)b.last;
        report(w, &b, p->terminal);
        *code = code_of(w, &b) > *code ? code_of(w, &b) : *code;
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

/* A worker that crashes loses the file that it works on; new workers continue behind that file. */
static int run(struct work *w)
{
    struct xh_progress p;
    char unit[40];
    int ends[2], code = XH_EXIT_OK;
    char *done = calloc(w->n, 1);
    w->shared = mmap(NULL, sizeof *w->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!done || w->shared == MAP_FAILED) {
        free(done);
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    }
    atomic_init(&w->shared->next, 0);
    atomic_init(&w->shared->came, 0);
    snprintf(unit, sizeof unit, "of %zu file%s", w->n, XH_S(w->n));
    xh_progress_begin(&p,
                      w->verb == CHECK    ? "checking"
                      : w->verb == REMOVE ? "removing"
                                          : "publishing",
                      w->bytes, unit);
    while (atomic_load_explicit(&w->shared->next, memory_order_relaxed) < w->n) {
        if (pipe2(ends, O_CLOEXEC) != 0 || start(w, ends[0], ends[1]) == 0) {
            code = xh_tool_fail(XH_EXIT_FAILED, "no process for it can be started: %s", strerror(errno));
            break;
        }
        close(ends[1]);
        hear(w, ends[0], done, &p, &code);
        close(ends[0]);
    }
    for (size_t i = 0; i < w->n; i++)
        if (!done[i]) {
            report(w, &(struct xh_baked){.file = i}, p.terminal);
            code = XH_EXIT_FAILED;
        }
    xh_progress_end(&p, w->bytes ? w->bytes : w->n);
    munmap(w->shared, sizeof *w->shared);
    free(done);
    return code;
}

/* ---- the command -------------------------------------------------------------------------------- */

static int codec_of(const char *name, int *out)
{
    if (!name || strcmp(name, "auto") == 0)
        *out = XH_PACK_AUTO;
    else if (strcmp(name, "zstd") == 0)
        *out = XH_PACKED_ZSTD;
    else if (strcmp(name, "lz4") == 0)
        *out = XH_PACKED_LZ4;
    else
        return -1;
    return 0;
}

static int run_command(int argc, char **argv, const struct xh_options *o)
{
    struct work w = {.verb = MAKE, .o = o, .codec = XH_PACK_AUTO};
    int check = 0, removes = 0, dry = 0;
    const char *jobs = NULL, *codec = NULL;
    const struct xh_tool_option options[] = {{"check", .flag = &check}, {"remove", .flag = &removes},
                                             {"dry-run", .flag = &dry}, {"jobs", 'j', .value = &jobs},
                                             {"body", .flag = &w.body, .value = &codec}};
    XH_TOOL_OPTIONS(argc, argv, options);
    if (codec_of(codec, &w.codec) != 0)
        return xh_tool_usage("--body is packed with zstd or lz4, or as suits the file (auto)");
    if (check + removes + dry > 1)
        return xh_tool_usage("--check, --remove and --dry-run exclude each other");
    if (optind == argc)
        return xh_tool_usage("a file or directory is missing");
    uint64_t n = 0;
    if (jobs && xh_whole_number(jobs, 1, UINT64_MAX, &n))
        return xh_tool_usage("--jobs takes a whole number, 1 or more");
    w.jobs = jobs ? (int)xh_min64(n, WORKERS_MOST) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    w.verb = check ? CHECK : removes ? REMOVE : dry ? DRY : MAKE;
    w.jobs = w.jobs < 1 ? 1 : w.jobs > WORKERS_MOST ? WORKERS_MOST : w.jobs;
    int code = collect(&w, argv + optind);
    if (w.n) {
        int rc = run(&w);
        code = rc > code ? rc : code;
    } else if (code == 0) {
        code = xh_tool_fail(XH_EXIT_FAILED, "there is no HDF5 file");
    }
    for (size_t i = 0; i < w.n; i++)
        free(w.file[i].path);
    free(w.file);
    return code;
}

const struct xh_verb xh_tool_publish = {"publish", help, run_command};
