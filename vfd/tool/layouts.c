/* Checking layouts: see layouts.h. */
#include "layouts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cache/base/files.h"
#include "../../cache/base/now.h"
#include "report.h"
#include "tool.h"

#define OBJECTS_MOST 50000u
#define LOOK_MOST_MS 20000u
#define SOURCES_MOST_MS 15000u
#define ALL_MOST_MS (LOOK_MOST_MS + SOURCES_MOST_MS + 5000u) /* HDF5 may need time between two objects */

#define LARGE_BYTES (4u << 20)        /* smaller datasets are not slow, whatever their layout */
/* HDF5 needs about 20 us for a chunk; a fast link brings this much in that time */
#define CHUNK_LEAST_BYTES (64u << 10)
#define CHUNK_GOOD_BYTES (512u << 10)
#define CHUNKS_MANY 1000u
#define CHUNK_CACHE_BYTES (1u << 20)  /* of HDF5 1.14; 2.0 has 8 MiB */
#define INFLATE_BYTES_PER_S 200e6     /* rate at which one core unpacks gzip */
#define INDIRECT_MANY 10000u

struct judge {
    struct xh_layouts *out;
    double fast;
    struct xh_names names;
};

/* ---- what is slow, and why ------------------------------------------------------------------ */

static uint64_t elements(const struct xh_object *o)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < o->rank; i++)
        n = o->dims[i] && n > UINT64_MAX / o->dims[i] ? UINT64_MAX : n * o->dims[i];
    return n;
}

#define WHAT(...) xh_report_add(f->what, sizeof f->what, __VA_ARGS__)
#define ADVICE(...) xh_report_add(f->advice, sizeof f->advice, __VA_ARGS__)

/* Returns a shape for chunks of at least CHUNK_GOOD_BYTES, in h5repack's syntax. It is the shape of |o|'s chunks with
 * longer sides; the sides that vary fastest are made longer first. */
static const char *larger(const struct xh_object *o, char *out, size_t size)
{
    uint64_t bytes = o->chunk_bytes, side[XH_HDF5_RANK_MOST];
    size_t used = 0;
    memcpy(side, o->chunk, sizeof side);
    for (unsigned i = o->rank; bytes && i-- > 0;)
        while (side[i] < o->dims[i] && bytes < CHUNK_GOOD_BYTES) {
            side[i] = side[i] < o->dims[i] / 2 ? 2 * side[i] : o->dims[i];
            bytes *= 2;
        }
    out[0] = '\0';
    for (unsigned i = 0; i < o->rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? "x" : "", side[i]);
    return out;
}

static void judge_chunks(const struct xh_object *o, double fast, struct xh_flaw *f)
{
    char shape[200];
    uint64_t stored = o->chunks ? o->stored_bytes / o->chunks : o->chunk_bytes;
    if (o->chunks >= CHUNKS_MANY && o->chunk_bytes < CHUNK_LEAST_BYTES) {
        WHAT("%" PRIu64 " chunks of %s: HDF5 reads them one by one, which takes longer than the link does", o->chunks,
             xh_size(stored));
        ADVICE("chunks of 256 KiB to some MiB: h5repack -l %s:CHUNK=%s old.h5 new.h5", f->path,
               larger(o, shape, sizeof shape));
    }
    if (o->filtered && o->chunk_bytes > CHUNK_CACHE_BYTES && o->chunks > 1) {
        WHAT("chunks %s of %s are larger than HDF5's chunk cache (1 MiB; 8 MiB from 2.0): who reads a part of one "
             "fetches and decompresses all of it, each time",
             xh_look_shape(o->chunk, o->rank, shape, sizeof shape), xh_size(o->chunk_bytes));
        ADVICE("read whole chunks, or raise the cache: h5py.File(..., rdcc_nbytes=%" PRIu64 ")", 4 * o->chunk_bytes);
    }
    if (o->gzip && fast > INFLATE_BYTES_PER_S) {
        WHAT("gzip: one core inflates some 200 MB/s, the link brings more");
        ADVICE("read by several processes, or compress with zstd or lz4");
    }
}

/* Describes in |f| what is wrong with |o|. Returns 1 when something is. */
static int judge(const struct xh_object *o, double fast, struct xh_flaw *f)
{
    *f = (struct xh_flaw){.bytes = o->stored_bytes > o->bytes ? o->stored_bytes : o->bytes};
    xh_tool_name(o->path, f->path, sizeof f->path);
    if (o->kind == XH_OBJ_UNREAD) {
        char why[sizeof o->type];
        WHAT("%s", xh_tool_name(o->type, why, sizeof why));
    }
    if (o->kind != XH_OBJ_DATASET)
        return f->what[0] != '\0';
    if (o->missing) {
        WHAT("filter that this HDF5 lacks: %s", o->filters);
        ADVICE("install its plugin (pip install hdf5plugin, or HDF5_PLUGIN_PATH)");
    }
    if (o->layout == XH_LAYOUT_VIRTUAL || o->layout == XH_LAYOUT_EXTERNAL) {
        WHAT("%s: its data lies in other files", xh_layout_name(o->layout));
        if (o->layout == XH_LAYOUT_VIRTUAL)
            ADVICE("each source file is opened by itself, some round trips each: a copy of the data reads faster");
        else
            ADVICE("HDF5 reads external storage from local disks alone: copy the data into the file");
    }
    if (o->indirect && elements(o) >= INDIRECT_MANY) {
        WHAT("%" PRIu64 " values of variable length lie in heaps: HDF5 fetches heap by heap", elements(o));
        ADVICE("strings of fixed length, or offsets beside one long array");
    }
    if (o->layout == XH_LAYOUT_CHUNKED && f->bytes >= LARGE_BYTES)
        judge_chunks(o, fast, f);
    return f->what[0] != '\0';
}

static void on_named(void *ctx, const char *file)
{
    xh_names_add(&((struct judge *)ctx)->names, file);
}

/* Keeps the largest datasets that have flaws. */
static int on_object(void *ctx, const struct xh_object *o)
{
    struct judge *j = ctx;
    struct xh_flaw f;
    unsigned at = j->out->shown;
    if (!judge(o, j->fast, &f))
        return 0;
    j->out->flawed++;
    while (at && j->out->flaw[at - 1].bytes < f.bytes)
        at--;
    if (at == XH_FLAWS_SHOWN)
        return 0;
    j->out->shown += j->out->shown < XH_FLAWS_SHOWN;
    memmove(&j->out->flaw[at + 1], &j->out->flaw[at], (j->out->shown - 1 - at) * sizeof f);
    j->out->flaw[at] = f;
    return 0;
}

/* ---- where ---------------------------------------------------------------------------------- */

/* Counts the places between raw data, and how much of them lies in the head that is fetched at opening. They hold
 * metadata, heaps and unused space. */
static void place(const struct xh_look *l, uint64_t head_bytes, struct xh_layouts *out)
{
    const struct xh_range *raw = l->raw.at;
    const size_t n = l->raw.n;
    uint64_t at = 0;
    for (size_t i = 0; i <= n; i++) {
        uint64_t end = i < n && raw[i].off < l->size ? raw[i].off : l->size;
        if (end > at) {
            out->places++;
            out->between_bytes += end - at;
            out->head_bytes += at < head_bytes ? (end < head_bytes ? end : head_bytes) - at : 0;
        }
        if (i < n && raw[i].off + raw[i].len > at)
            at = raw[i].off + raw[i].len;
    }
    out->placed = 1;
}

/* ---- the process ---------------------------------------------------------------------------- */

static void look(const char *url, const struct xh_options *o, double fast, struct xh_layouts *out)
{
    struct judge j = {.out = out, .fast = fast};
    struct xh_options bare = *o;
    struct xh_err err = {0};
    bare.shadow = 0; /* the cost for a reader that has nothing cached */
    uint64_t began = xh_now_ns();
    struct xh_look l = {.storage = 1, .objects_most = OBJECTS_MOST,
                        .until_ns = began + LOOK_MOST_MS * UINT64_C(1000000),
                        .each = on_object, .named = on_named, .ctx = &j};
    out->code = xh_look(&l, url, &bare, &err);
    out->walked_ms = (double)(xh_now_ns() - began) / 1e6;
    out->opened_ms = l.opened_ns > began ? (double)(l.opened_ns - began) / 1e6 : 0;
    snprintf(out->text, sizeof out->text, "%s", err.text);
    out->seen = l.seen;
    if (out->code == 0 && !l.seen.cut && (l.raw.n || l.seen.data_bytes == 0))
        place(&l, o->head_bytes, out);
    xh_look_free(&l);
    xh_sources_try(&j.names, url, o, SOURCES_MOST_MS, &out->sources);
    xh_names_free(&j.names);
}

/* Reads what the child process sends. Returns 0, XH_E_TIMEOUT or XH_E_SYS. */
static int hear(int fd, struct xh_layouts *out)
{
    uint64_t until = xh_now_ns() + ALL_MOST_MS * UINT64_C(1000000);
    size_t got = 0;
    while (got < sizeof *out) {
        uint64_t now = xh_now_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = now < until ? poll(&p, 1, (int)((until - now) / 1000000 + 1)) : 0;
        if (ready == 0)
            return XH_E_TIMEOUT;
        ssize_t n = ready < 0 ? -1 : read(fd, (uint8_t *)out + got, sizeof *out - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return XH_E_SYS;
        got += (size_t)n;
    }
    return 0;
}

/* Sets |err| to the reason why |child|, which ended with |status|, sent nothing. Returns |rc|. */
static int no_word(int rc, pid_t child, int status, struct xh_err *err)
{
    if (child < 0)
        return xh_err_set(err, rc, 0, "no process: %s", strerror(errno));
    if (rc == XH_E_TIMEOUT)
        return xh_err_set(err, rc, 0, "HDF5 did not come to an end within %u s", ALL_MOST_MS / 1000);
    return xh_err_set(err, rc, 0, "HDF5 crashed on this file (signal %d)", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

int xh_layouts_look(const char *url, const struct xh_options *o, double fast, struct xh_layouts *out,
                    struct xh_err *err)
{
    int fd[2], status = 0;
    static struct xh_layouts found;
    memset(&found, 0, sizeof found);
    if (pipe2(fd, O_CLOEXEC) != 0)
        return xh_err_set(err, XH_E_SYS, 0, "no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fd[0]);
        look(url, o, fast, &found);
        xh_write(fd[1], &found, sizeof found);
        _exit(0);
    }
    close(fd[1]);
    int rc = child < 0 ? XH_E_SYS : hear(fd[0], &found);
    close(fd[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    if (rc)
        return no_word(rc, child, status, err);
    *out = found;
    return 0;
}
