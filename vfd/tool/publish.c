/* xhdf5 publish: puts metadata images beside files, for readers far away.
 *
 * HDF5 does one thing at a time in a process, and a broken file may take it down: so files are dealt to several processes,
 * which tell what came of each through a pipe. The next file's number is in memory that they share. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cache/sidecar/metaimage.h"
#include "bake.h"
#include "progress.h"
#include "tool.h"

#define WORKERS_MOST 16
#define USER_BLOCK_MOST (UINT64_C(1) << 30)

static const char help[] =
    "xhdf5 publish [--check | --remove | --dry-run] [--jobs N] FILE|DIR...\n"
    "\n"
    "Makes a metadata image beside each HDF5 file, FILE" XH_METAIMAGE_SUFFIX ": a small compressed copy of all that is not raw\n"
    "data. Readers with the xhdf5 driver fetch it when they open the file, and then need no further request for\n"
    "metadata. Run it where the files lie; of a directory all HDF5 files below it are published.\n"
    "\n"
    "  --check      makes nothing: compares the images that are there with their files\n"
    "  --remove     removes the images\n"
    "  --dry-run    makes nothing: says what would be made, and what readers would gain\n"
    "  --jobs N     files at once; as many as there are processors\n"
    "\n"
    "An image that is there already, and of the file's present version, stays. A run that was interrupted can be\n"
    "repeated. Files that change are to be published again; until then readers do not use the image.\n"
    "\n"
    "Exit codes: 0 done; 1 done, and the answer is no (--check: an image is missing, stale or damaged); 2 wrong usage;\n"
    "3 a file could not be published.\n";

enum verb { MAKE, CHECK, REMOVE, DRY };

struct work {
    enum verb verb;
    const struct xh_options *o;
    int jobs;
    char **path; /* malloc'd each */
    uint64_t *bytes;
    size_t n, room;
    uint64_t all_bytes;
    _Atomic size_t *next; /* shared by the processes */
};

/* ---- which files -------------------------------------------------------------------------------- */

/* 1 when an HDF5 superblock begins at 0, or behind a user block. */
static int is_hdf5(const char *path, uint64_t size)
{
    static const char signature[8] = "\211HDF\r\n\032\n";
    char buf[sizeof signature];
    int found = 0, fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (uint64_t at = 0; fd >= 0 && !found && at < size && at < USER_BLOCK_MOST; at = at ? 2 * at : 512)
        found = pread(fd, buf, sizeof buf, (off_t)at) == sizeof buf && memcmp(buf, signature, sizeof buf) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

static int add(struct work *w, const char *path, uint64_t bytes)
{
    if (w->n == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        char **paths = realloc(w->path, room * sizeof *paths);
        if (paths)
            w->path = paths;
        uint64_t *sizes = realloc(w->bytes, room * sizeof *sizes);
        if (sizes)
            w->bytes = sizes;
        if (!paths || !sizes)
            return -1;
        w->room = room;
    }
    if (!(w->path[w->n] = strdup(path)))
        return -1;
    w->bytes[w->n++] = bytes;
    w->all_bytes += bytes;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* What is named is tried; what is found must look like HDF5. Returns 0 or an exit code. */
static int collect(struct work *w, char **named)
{
    FTS *fts = fts_open(named, FTS_COMFOLLOW | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    int code = fts ? 0 : xh_tool_fail(XH_EXIT_FAILED, "the files cannot be listed: %s", strerror(errno));
    for (FTSENT *e; fts && (e = fts_read(fts));) {
        uint64_t size = e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
        if (e->fts_info == FTS_D && e->fts_level > 0 && e->fts_name[0] == '.')
            fts_set(fts, e, FTS_SKIP);
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

static void bake(const struct work *w, size_t i, struct xh_baked *out)
{
    *out = (struct xh_baked){.file = i};
    if (w->verb == CHECK)
        xh_bake_check(w->path[i], out);
    else if (w->verb == REMOVE)
        xh_bake_remove(w->path[i], out);
    else
        xh_bake(w->path[i], w->o, w->verb == DRY, out);
}

/* In a process of its own: does files until there are no more. */
static void work_on(const struct work *w, int to)
{
    struct xh_baked b;
    _Static_assert(sizeof b <= 4096, "a pipe takes it in one piece");
    for (size_t i; (i = atomic_fetch_add_explicit(w->next, 1, memory_order_relaxed)) < w->n;) {
        bake(w, i, &b);
        if (write(to, &b, sizeof b) != (ssize_t)sizeof b)
            break;
    }
}

/* Starts workers that write to |to|. Returns how many there are. */
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

/* ---- what came of it ---------------------------------------------------------------------------- */

static void report(const struct work *w, const struct xh_baked *b, int terminal)
{
    char path[1024], a[XH_SIZE_TEXT], c[XH_SIZE_TEXT];
    xh_tool_plain(w->path[b->file], path, sizeof path);
    if (terminal)
        fputs("\r\033[K", stderr);
    switch (b->as) {
    case XH_BAKED_MADE:
        printf("%s: %s of metadata in %s, %.2f %% of the file\n", path, xh_tool_size(b->image_bytes, a),
               xh_tool_size(b->sidecar_bytes, c), 100.0 * (double)b->sidecar_bytes / (double)b->file_bytes);
        if (w->verb == DRY)
            printf("  it lies in %" PRIu64 " pieces; a reader who wants all of it would ask for one\n", b->extents);
        break;
    case XH_BAKED_FRESH: printf("%s: the image is up to date (%s)\n", path, xh_tool_size(b->sidecar_bytes, a)); break;
    case XH_BAKED_GONE: printf("%s: the image is removed\n", path); break;
    case XH_BAKED_NONE: printf("%s: there is no image\n", path); break;
    case XH_BAKED_SKIPPED: printf("%s: skipped: %s\n", path, b->text); break;
    case XH_BAKED_STALE: printf("%s: the image is not usable: %s\n", path, b->text); break;
    default:
        xh_tool_fail(0, "%s: %s", path, b->as == XH_BAKED_LOST ? "HDF5 crashed on it" : b->text);
    }
    fflush(stdout);
}

static int code_of(const struct work *w, enum xh_baked_as as)
{
    if (as == XH_BAKED_FAILED || as == XH_BAKED_LOST)
        return XH_EXIT_FAILED;
    return w->verb == CHECK && (as == XH_BAKED_STALE || as == XH_BAKED_NONE) ? XH_EXIT_NO : XH_EXIT_OK;
}

/* Reads what workers tell until all have ended. |done|: which files were told of. */
static void hear(const struct work *w, int from, char *done, struct xh_progress *p, uint64_t *bytes, int *code)
{
    struct xh_baked b;
    size_t got = 0;
    for (ssize_t n; (n = read(from, (char *)&b + got, sizeof b - got)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        got += (size_t)n;
        if (got < sizeof b)
            continue;
        got = 0;
        done[b.file] = 1;
        report(w, &b, p->terminal);
        *bytes += w->bytes[b.file];
        xh_progress_at(p, *bytes);
        *code = code_of(w, b.as) > *code ? code_of(w, b.as) : *code;
    }
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

/* Workers die with the file that they are at; new ones go on behind it. */
static int run(struct work *w)
{
    struct xh_progress p;
    uint64_t bytes = 0;
    int ends[2], code = XH_EXIT_OK;
    char *done = calloc(w->n, 1);
    w->next = mmap(NULL, sizeof *w->next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!done || w->next == MAP_FAILED) {
        free(done);
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    }
    atomic_init(w->next, 0);
    xh_progress_begin(&p, w->verb == CHECK ? "checking" : w->verb == REMOVE ? "removing" : "publishing", w->all_bytes, "files");
    while (atomic_load_explicit(w->next, memory_order_relaxed) < w->n) {
        if (pipe2(ends, O_CLOEXEC) != 0 || start(w, ends[0], ends[1]) == 0) {
            code = xh_tool_fail(XH_EXIT_FAILED, "no process for it can be started: %s", strerror(errno));
            break;
        }
        close(ends[1]);
        hear(w, ends[0], done, &p, &bytes, &code);
        close(ends[0]);
    }
    for (size_t i = 0; i < w->n; i++)
        if (!done[i]) {
            report(w, &(struct xh_baked){.file = i}, p.terminal);
            code = XH_EXIT_FAILED;
        }
    if (w->all_bytes)
        xh_progress_end(&p, bytes);
    munmap(w->next, sizeof *w->next);
    free(done);
    return code;
}

/* ---- the command -------------------------------------------------------------------------------- */

int xh_tool_publish(int argc, char **argv, const struct xh_options *o)
{
    static const struct option longs[] = {{"check", no_argument, NULL, 'c'}, {"remove", no_argument, NULL, 'r'},
                                          {"dry-run", no_argument, NULL, 'n'}, {"jobs", required_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'}, {0}};
    static const char command[] = "xhdf5 publish";
    struct work w = {.verb = MAKE, .o = o, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    int verbs = 0, code;
    for (int c; (c = getopt_long(argc, argv, ":hj:", longs, NULL)) != -1;) {
        if (c == 'h')
            return fputs(help, stdout), XH_EXIT_OK;
        if (c == 'j')
            w.jobs = atoi(optarg);
        else if (c == '?' || c == ':')
            return xh_tool_bad_option(command, argv);
        else
            w.verb = c == 'c' ? CHECK : c == 'r' ? REMOVE : DRY;
        verbs += c != 'j';
    }
    if (verbs > 1)
        return xh_tool_usage(command, "--check, --remove and --dry-run exclude each other");
    if (optind == argc)
        return xh_tool_usage(command, "a file or directory is missing");
    w.jobs = w.jobs < 1 ? 1 : w.jobs > WORKERS_MOST ? WORKERS_MOST : w.jobs;
    code = collect(&w, argv + optind);
    if (w.n) {
        int rc = run(&w);
        code = rc > code ? rc : code;
    } else if (code == 0) {
        code = xh_tool_fail(XH_EXIT_FAILED, "there is no HDF5 file");
    }
    for (size_t i = 0; i < w.n; i++)
        free(w.path[i]);
    free(w.path);
    free(w.bytes);
    return code;
}
