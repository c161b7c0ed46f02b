/* Worlds: see world.h. */
#include "world.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "baton.h"

#define HOST "http://sim.test:8000"
#define OTHER "http://other.test:8000"
#define PATH "/data/file.h5"
#define TAKES_MOST (4 * 3600 * SIM_S)
#define BUFFER_BYTES (16u << 20)
#define PIECES_MOST 256
#define MB UINT64_C(1000000)

static const char *const reading_names[SIM_READINGS] = {"stream", "steps", "random", "scattered", "strides", "meta", "hinted"};
static const char *const h5_names[SIM_H5S] = {"",     "images", "stream", "chunks", "rows",
                                               "walk", "small",  "after",  "beside", "many"};
static const char *const dialect_names[SIM_DIALECTS] = {"nginx", "xrootd", "whole"};
static const char *const control_names[SIM_CONTROLS] = {"reno", "cubic", "bbr"};

/* ---- made of a seed */

static uint64_t seed_state;

/* Not the world's dice, which are thrown while it runs. */
static uint64_t below(uint64_t n)
{
    uint64_t z = seed_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

#define ONE_OF(...) ((double[]){__VA_ARGS__}[below(sizeof(double[]){__VA_ARGS__} / sizeof(double))])

static void make_link(struct sim_link *l)
{
    *l = (struct sim_link){
        .rtt_ns = (uint64_t)(ONE_OF(0.2, 1, 5, 10, 20, 50, 160) * 1e6),
        .rate = ONE_OF(1.1, 1.1, 0.125, 0.0125, 0.002),
        .loss = ONE_OF(0, 0, 0, 0.0001, 0.001, 0.01),
        .segments = 10,
        .control = (enum sim_control)below(SIM_CONTROLS),
        .receive_most = (uint64_t)ONE_OF(3, 3, 64) * MB,
        .send_most = (uint64_t)ONE_OF(3, 3, 64) * MB,
        .connection_rate = ONE_OF(0, 0, 0, 0.025, 0.001),
    };
    l->queue_bytes = (uint64_t)(ONE_OF(0.25, 1, 2) * l->rate * (double)l->rtt_ns) + 100000;
    if (l->rate < 0.1) /* large packets would take long to pass */
        l->segments = l->rate < 0.01 ? 1 : 4;
    l->jitter_ns = below(4) ? 0 : l->rtt_ns / 10;
}

static void make_faults(struct sim_server *s)
{
    s->shuffles = below(8) == 0;
    unsigned kinds = below(5) < 2 ? 0 : 1 + (unsigned)below(3);
    double p = ONE_OF(0.02, 0.1, 0.5);
    s->faults_left = kinds ? (unsigned)ONE_OF(1, 2, 3, 6, 12, 40) : 0;
    while (kinds--)
        s->fault[below(SIM_FAULTS)] = p;
    if (s->dialect == SIM_XROOTD) /* its replies do not tell */
        s->fault[SIM_F_CHANGED] = 0;
}

static void make_h5(struct sim_world *w, uint64_t most)
{
    uint64_t rows;
    w->h5 = (enum sim_h5)(1 + below(SIM_H5S - 1));
    w->latest = (int)below(2);
    w->grows = (int)below(3);
    w->readers = 1;
    w->shared = 0;
    w->sources = 0;
    switch (w->h5) {
    case SIM_H5_IMAGES:
        w->set_bytes = (uint64_t)ONE_OF(100000, 1 << 20, 4 << 20);
        w->sets = (unsigned)(most / w->set_bytes) + 1;
        w->sets = w->sets < 100 ? w->sets : 100;
        break;
    case SIM_H5_STREAM:
    case SIM_H5_CHUNKS:
        w->sets = 1;
        w->set_bytes = most / 4096 * 4096; /* whole rows */
        w->read_bytes = (uint64_t)ONE_OF(10000, 200000, 4 << 20);
        break;
    case SIM_H5_AFTER:
    case SIM_H5_BESIDE:
        w->sources = 2 + (unsigned)below(9);
        w->set_bytes = (most / w->sources / SIM_SOURCE_ROW + 1) * SIM_SOURCE_ROW;
        w->read_bytes = (1 + below(64)) * w->sources * SIM_SOURCE_ROW;
        break;
    case SIM_H5_MANY:
        w->kinds = 1 + (unsigned)below(2);
        w->depth = below(2) ? 0 : (unsigned)below(4);
        w->walks = (int)below(2);
        w->reads_all = below(4) != 0;
        w->sources = 5 + (unsigned)below(30);
        rows = most / w->sources / SIM_SOURCE_ROW;
        w->set_bytes = (1 + below(rows < 64 ? rows : 64)) * SIM_SOURCE_ROW;
        w->read_bytes = below(2) ? w->set_bytes : SIM_SOURCE_ROW;
        break;
    case SIM_H5_ROWS:
        w->sets = 1;
        w->set_bytes = 50 * MB;
        w->read_bytes = (uint64_t)ONE_OF(100, 10000, 100000);
        w->reads = 200;
        break;
    default:
        w->set_bytes = (uint64_t)ONE_OF(64, 4000, 12000);
        w->sets = (unsigned)ONE_OF(10, 300, 1500);
        w->reads = w->sets / (1 + (unsigned)below(4));
    }
}

void sim_world_of(struct sim_world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    seed_state = w->seed = seed;
    for (int i = 0; i < 4; i++)
        below(2);
    make_link(&w->link);
    w->object = (struct sim_object){.path = PATH, .version = 1,
                                   .size = (uint64_t)(ONE_OF(0.0001, 0.05, 0.3, 2, 20, 60, 200) * 1e6) + below(100000)};
    w->server = (struct sim_server){
        .name = HOST, .other = OTHER, .objects = 1,
        .dialect = (enum sim_dialect)(below(10) < 6 ? SIM_NGINX : below(8) ? SIM_XROOTD : SIM_WHOLE),
        .think_ns = below(3) ? 100000 : below(50) * SIM_MS,
        .accept_ns = below(3) ? 300000 : 5 * SIM_MS,
    };
    make_faults(&w->server);
    struct xh_options *o = &w->options;
    xh_options_defaults(o);
    o->engine_threads = 1 + below(2);
    o->connections = (uint64_t)ONE_OF(1, 2, 4, 16, 16, 16, 64);
    o->readahead = below(6) != 0;
    o->multirange = below(8) != 0;
    o->shadow = below(4) != 0;
    if (below(3) == 0)
        o->stream_bytes = (uint64_t)ONE_OF(0, 1, 8) << 20;
    if (below(3) == 0)
        o->readahead_bytes = (uint64_t)ONE_OF(1, 8, 32) << 20;
    if (below(4) == 0)
        o->head_bytes = (uint64_t)ONE_OF(4096, 16384, 1 << 20);
    if (below(4) == 0)
        o->revalidate_ms = (uint64_t)ONE_OF(0, 1000, 5000);
    w->readers = below(2) ? 1 : 1 + (unsigned)below(SIM_READERS_MOST);
    w->shared = below(2) != 0;
    w->switches = below(2) ? 0 : 1 + (unsigned)below(64);
    /* What the link brings in a minute or two, and not so much that a run takes long. */
    uint64_t most = w->link.rate > 0.1 ? 40 * MB : w->link.rate > 0.01 ? 10 * MB : 2 * MB;
    if (w->link.loss >= 0.01 || w->link.connection_rate == 0.001)
        most = 2 * MB;
    if (below(3) == 0)
        make_h5(w, most);
    for (unsigned i = 0; i < w->readers; i++) {
        w->reading[i] = (enum sim_reading)below(SIM_READINGS);
        w->piece[i] = w->reading[i] == SIM_STREAM ? (uint64_t)ONE_OF(1, 4, 8) << 20 : (uint64_t)ONE_OF(16, 512, 4096, 12000, 65536);
        w->bytes[i] = most / w->readers;
        if (w->bytes[i] / w->piece[i] > 2000)
            w->bytes[i] = 2000 * w->piece[i];
    }
    if (below(10) == 0)
        w->link.dies_ns = sim_now() + below(3000) * SIM_MS + 1;
}

void sim_world_of_fault(struct sim_world *w, enum sim_fault fault, unsigned from, int forever, enum sim_dialect dialect,
                        enum sim_reading reading, enum sim_h5 h5)
{
    memset(w, 0, sizeof *w);
    seed_state = w->seed = (uint64_t)fault * 1000 + from;
    w->link = (struct sim_link){.rtt_ns = 20 * SIM_MS, .rate = 0.125, .queue_bytes = 2500000, .segments = 10, .control = SIM_CUBIC,
                                .receive_most = 3 * MB, .send_most = 3 * MB};
    w->object = (struct sim_object){.path = PATH, .size = 20 * MB, .version = 1};
    w->server = (struct sim_server){.name = HOST, .other = OTHER, .objects = 1, .dialect = dialect, .think_ns = 100000,
                                    .accept_ns = 300000, .faults_left = forever ? UINT_MAX : 1, .faults_from = from};
    w->server.fault[fault] = 1;
    xh_options_defaults(&w->options);
    w->options.engine_threads = 1 + from % 2;
    struct xh_options *o = &w->options;
    if (h5 != SIM_H5_NONE)
        make_h5(w, 8 * MB);
    w->h5 = h5;
    w->sources = w->kinds = w->depth = 0;
    w->walks = 0;
    if (h5 == SIM_H5_MANY) {
        w->sources = 24;
        w->set_bytes = w->read_bytes = 40 * SIM_SOURCE_ROW;
        w->reads_all = 1;
        w->server.faults_from = 6 * from; /* with 6 no file comes with its opening yet, with 30 they do */
    } else if (h5 == SIM_H5_AFTER || h5 == SIM_H5_BESIDE) {
        w->sources = 4;
        w->set_bytes = 2 << 20;
        w->read_bytes = 1 << 20;
    } else if (h5 == SIM_H5_IMAGES || h5 == SIM_H5_STREAM || h5 == SIM_H5_CHUNKS || h5 == SIM_H5_ROWS) {
        w->sets = h5 == SIM_H5_IMAGES ? 8 : 1;
        w->set_bytes = h5 == SIM_H5_IMAGES ? 1 << 20 : 8 << 20;
        w->read_bytes = 1 << 20;
        w->reads = 20;
    } else if (h5) {
        w->sets = 300;
        w->set_bytes = 4000;
        w->reads = 100;
    }
    w->readers = 1;
    w->reading[0] = reading;
    w->piece[0] = reading == SIM_STREAM ? 1 << 20 : 8192;
    w->bytes[0] = reading == SIM_STREAM || reading == SIM_SCATTERED ? 8 * MB : 200 * 8192;
    /* docs/faults.md: each attempt has time to connect and twice the stall time-out; between them it waits, at most
     * as long as the longest back-off or what Retry-After says here. A read may have waited for what was fetched
     * ahead before it fetches itself: that makes two of each. */
    uint64_t pause_ms = 10000, attempts = o->retries + 1;
    w->call_most_ns = 2 * attempts * (o->connect_timeout_ms + 2 * o->stall_timeout_ms + pause_ms) * SIM_MS;
}

void sim_world_print(const struct sim_world *w)
{
    const struct sim_link *l = &w->link;
    const struct xh_options *o = &w->options;
    printf("seed %" PRIu64 ": rtt=%gms rate=%gMB/s queue=%gMB loss=%g%% %s receive=%gMB send=%gMB jitter=%gms cap=%gMB/s; %s think=%gms "
           "size=%" PRIu64 " faults=%u", w->seed, (double)l->rtt_ns / 1e6, l->rate * 1e3, (double)l->queue_bytes / 1e6, l->loss * 100,
           control_names[l->control], (double)l->receive_most / 1e6, (double)l->send_most / 1e6, (double)l->jitter_ns / 1e6,
           l->connection_rate * 1e3, dialect_names[w->server.dialect], (double)w->server.think_ns / 1e6, w->object.size,
           w->server.faults_left);
    for (int i = 0; i < SIM_FAULTS; i++)
        if (w->server.fault[i] > 0)
            printf(" %s:%g", sim_fault_names[i], w->server.fault[i]);
    if (l->dies_ns)
        printf(" dies=%gs", (double)l->dies_ns / 1e9 - 1000);
    printf("; connections=%" PRIu64 " threads=%" PRIu64 " readahead=%" PRIu64 " shadow=%" PRIu64 " switches=%u;", o->connections,
           o->engine_threads, o->readahead, o->shadow, w->switches);
    if (w->h5)
        printf(" HDF5 %s, %s%s, %u x %" PRIu64 " bytes, reads=%u of %" PRIu64 "\n", h5_names[w->h5], w->latest ? "latest" : "earliest",
               w->grows ? ", can grow" : "", w->sources ? w->sources : w->sets, w->set_bytes, w->reads, w->read_bytes);
    if (w->h5 == SIM_H5_MANY)
        printf(" files of %u kinds, %u groups deep%s, %s\n", w->kinds > 1 ? w->kinds : 1, w->depth,
               w->walks ? ", walked" : "", w->reads_all ? "all of each" : "its shape");
    for (unsigned i = 0; i < w->readers && !w->h5; i++)
        printf(" %s/%" PRIu64 "/%" PRIu64, reading_names[w->reading[i]], w->piece[i], w->bytes[i]);
    if (!w->h5)
        printf("%s\n", w->readers > 1 ? w->shared ? " in one file" : " each in its own" : "");
    fflush(stdout);
}

/* ---- reading */

struct reader {
    struct sim_world *world;
    unsigned index;
    struct xh_file *file;
    pthread_t thread;
    uint64_t dice;
    uint64_t place;   /* of the last read at random */
    unsigned version; /* of the bytes so far; 0: none */
    uint8_t *buf;
    struct sim_result *out;
};

static const struct sim_world *running;

static void wrong(struct sim_result *out, const char *what, const struct reader *r, uint64_t off, const char *more)
{
    if (!out->wrong[0])
        snprintf(out->wrong, sizeof out->wrong, "%s: reader %u at %" PRIu64 " %s", what, r->index, off, more);
}

/* An error is right if a fault was there that leads to it. */
static int is_due(const struct sim_server *s, int code)
{
    const unsigned *n = s->struck;
    switch (code) {
    case XH_E_NET:
        return n[SIM_F_REFUSED] || n[SIM_F_DROPPED] || n[SIM_F_CUT];
    case XH_E_TIMEOUT:
        return n[SIM_F_SILENT] || n[SIM_F_STALL] || n[SIM_F_TRICKLE] || running->link.dies_ns;
    case XH_E_STATUS:
        return n[SIM_F_503] || n[SIM_F_429] || n[SIM_F_500];
    case XH_E_CHANGED:
        return n[SIM_F_CHANGED] || n[SIM_F_TOTAL];
    case XH_E_PROTO:
        return n[SIM_F_TOTAL] || s->dialect == SIM_WHOLE;
    }
    return 0;
}

/* No failure is borne less often than |retries| allows: two faults in all never fail a read. */
static int is_borne(const struct sim_world *w)
{
    unsigned all = w->link.dies_ns != 0;
    for (int i = 0; i < SIM_FAULTS; i++)
        all += w->server.struck[i];
    return all <= 2 && !w->server.struck[SIM_F_CHANGED] && !w->server.struck[SIM_F_TOTAL] && w->server.dialect != SIM_WHOLE;
}

static void failed(struct reader *r, const char *what, uint64_t off, const struct xh_err *err)
{
    r->out->code = err->code;
    sim_trace("reader %u: %s: %s: %s", r->index, what, xh_err_name(err->code), err->text);
    if (!is_due(&running->server, err->code) || is_borne(running)) {
        char more[420];
        snprintf(more, sizeof more, "%s: %s: %.300s", what, xh_err_name(err->code), err->text);
        wrong(r->out, "an error that should not be", r, off, more);
    }
}

static int read_some(struct reader *r, enum xh_kind kind, struct xh_extent *e, size_t n)
{
    struct xh_err err = {0};
    uint64_t begun = sim_now();
    for (size_t i = 0; i < n; i++)
        memset(e[i].buf, 0xee, e[i].len < 64 ? e[i].len : 64);
    int rc = xh_cache_read(r->file, kind, e, n, &err);
    sim_note((uint64_t)rc ^ e->off);
    sim_trace("reader %u: read off=%" PRIu64 " len=%" PRIu64 " n=%zu took=%.3fms rc=%d", r->index, e->off, e->len, n,
              (double)(sim_now() - begun) / 1e6, rc);
    if (running->call_most_ns && sim_now() - begun > running->call_most_ns)
        wrong(r->out, "a read that takes too long", r, e->off, "");
    if (rc != 0) {
        failed(r, "read", e->off, &err);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = sim_content_wrong(&running->object, &r->version, e[i].off, e[i].buf, e[i].len);
        if (at != e[i].len) {
            wrong(r->out, "wrong bytes", r, e[i].off + at, "");
            return -1;
        }
        r->out->bytes += e[i].len;
    }
    return 0;
}

static uint64_t throw_(struct reader *r, uint64_t n)
{
    uint64_t z = r->dice += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 27)) % n;
}

/* The |i|-th read of |r|. Returns 0, or -1: it failed, or that was all. */
static int next_read(struct reader *r, uint64_t i, uint64_t piece, uint64_t size, uint64_t *left)
{
    struct xh_extent e[PIECES_MOST] = {{.buf = r->buf}};
    enum xh_kind kind = XH_KIND_RAW;
    size_t n = 1;
    uint64_t last = size - piece, goes_on = running->row > 1 ? (running->row - 1) * piece : 0;
    switch (running->reading[r->index]) {
    case SIM_STREAM:
    case SIM_STEPS:
        e[0].off = i * piece;
        if (e[0].off >= size)
            return -1;
        break;
    case SIM_RANDOM:
    case SIM_HINTED:
        e[0].off = running->row > 1 && i % running->row ? r->place + piece : throw_(r, last - goes_on + 1);
        r->place = e[0].off;
        if (running->reading[r->index] == SIM_HINTED) {
            struct xh_range ahead[8];
            for (int k = 0; k < 8; k++)
                ahead[k] = (struct xh_range){throw_(r, last + 1), piece};
            xh_cache_prefetch(r->file, XH_KIND_RAW, ahead, 8);
            e[0].off = ahead[throw_(r, 8)].off;
        }
        break;
    case SIM_SCATTERED:
        n = 2 + throw_(r, PIECES_MOST - 2);
        if (n * piece > BUFFER_BYTES)
            n = BUFFER_BYTES / piece;
        for (size_t k = 0; k < n; k++)
            e[k] = (struct xh_extent){throw_(r, last + 1), piece, r->buf + k * piece};
        break;
    case SIM_STRIDES:
        e[0].off = i * piece * 3;
        if (e[0].off >= size)
            return -1;
        break;
    case SIM_META:
    case SIM_READINGS:
        kind = XH_KIND_META;
        e[0].off = (size / 3 + i * piece * 2 + throw_(r, 4 * piece)) % (last + 1);
        break;
    }
    for (size_t k = 0; k < n; k++)
        e[k].len = size - e[k].off < piece ? size - e[k].off : piece;
    *left -= n * piece < *left ? n * piece : *left;
    return read_some(r, kind, e, n);
}

static int open_file(struct reader *r)
{
    struct xh_err err = {0};
    uint64_t begun = sim_now();
    int rc = xh_cache_open(HOST PATH, &running->options, &r->file, &err);
    if (running->call_most_ns && sim_now() - begun > running->call_most_ns)
        wrong(r->out, "an opening that takes too long", r, 0, "");
    sim_trace("reader %u: open rc=%d", r->index, rc);
    if (rc != 0)
        failed(r, "open", 0, &err);
    return rc;
}

static void *read_all(void *arg)
{
    struct reader *r = arg;
    int own = r->file == NULL;
    if (own && open_file(r) != 0)
        return NULL;
    uint64_t size = xh_cache_size(r->file), piece = running->piece[r->index], left = running->bytes[r->index];
    int late = r->index && running->late_ns;
    if (late)
        sim_wait(r, sim_now() + running->late_ns);
    uint64_t begun = sim_now();
    piece = piece < size ? piece : size;
    if (size != running->object.size && !running->server.struck[SIM_F_TOTAL]) /* else it was told so */
        wrong(r->out, "wrong size", r, size, "");
    else if (size == running->object.size)
        for (uint64_t i = 0; left >= piece && piece && next_read(r, i, piece, size, &left) == 0;)
            i++;
    if (late)
        r->out->second_ns = sim_now() - begun;
    if (own)
        xh_cache_close(r->file);
    return NULL;
}

static void hung(const char *why)
{
    printf("HANGS: %s, after %.3f s of its time\n", why, (double)sim_now() / 1e9 - 1000);
    sim_world_print(running);
    fflush(stdout);
    _exit(1);
}

static void change_rate(void *ctx, uint64_t arg)
{
    struct sim_site *s = ctx;
    (void)arg;
    s->link.rate = s->then;
}

/* The other servers are as the first one is, but for their links; the option endpoints names all of them. */
static void add_sites(struct sim_world *w)
{
    static struct sim_server all[1 + SIM_SITES_MOST];
    static char name[SIM_SITES_MOST][32];
    size_t len = (size_t)snprintf(w->options.endpoints, sizeof w->options.endpoints, "%s", HOST);
    all[0] = w->server;
    for (unsigned i = 0; i < w->sites; i++) {
        snprintf(name[i], sizeof name[i], "http://site%u.test:8000", i + 1);
        len += (size_t)snprintf(w->options.endpoints + len, sizeof w->options.endpoints - len, ",%s", name[i]);
        all[i + 1] = w->server;
        all[i + 1].name = all[i + 1].other = name[i];
        all[i + 1].link = &w->site[i].link;
        if (w->site[i].changes_ns)
            sim_at(sim_now() + w->site[i].changes_ns, change_rate, &w->site[i], 0);
    }
    sim_net.server = all;
    sim_net.servers = w->sites + 1;
}

void sim_world_begin(struct sim_world *w)
{
    running = w;
    w->server.object = &w->object;
    if (w->sources) { /* the sources, and the file that names them */
        w->server.object = w->source;
        w->server.objects = w->sources + 1;
        w->source[w->sources] = w->object;
    }
    w->server.link = &w->link;
    sim_net.server = &w->server;
    sim_net.servers = 1;
    sim_begin(w->seed, TAKES_MOST, w->switches, hung);
    if (w->sites)
        add_sites(w);
}

/* HDF5 tells what failed in words, and not always which. */
static void run_h5(struct sim_world *w, struct sim_result *out)
{
    char why[400];
    unsigned struck = 0;
    if (sim_h5_read(w, HOST PATH, w->seed, out, why, sizeof why) == 0)
        return;
    for (int i = 0; i < SIM_FAULTS; i++)
        struck += w->server.struck[i];
    out->code = XH_E_SYS;
    sim_trace("HDF5 fails: %s", why);
    if ((struck == 0 && w->server.dialect != SIM_WHOLE) || (struck && is_borne(w)))
        snprintf(out->wrong, sizeof out->wrong, "an error that should not be: %.400s", why);
}

void sim_world_run(struct sim_world *w, struct sim_result *out)
{
    static struct reader r[SIM_READERS_MOST];
    struct reader first = {.world = w, .out = out};
    memset(out, 0, sizeof *out);
    sim_world_begin(w);
    uint64_t begun = sim_now();
    if (w->h5) {
        run_h5(w, out);
    } else if (!w->shared || open_file(&first) == 0) {
        for (unsigned i = 0; i < w->readers; i++) {
            r[i] = (struct reader){.world = w, .index = i, .file = first.file, .dice = w->seed + i, .out = out};
            size_t bytes = w->piece[i] * (w->reading[i] == SIM_SCATTERED ? PIECES_MOST : 1);
            r[i].buf = malloc(bytes < BUFFER_BYTES ? bytes : BUFFER_BYTES); /* MALLOC_PERTURB_ writes all of it */
            if (!r[i].buf || pthread_create(&r[i].thread, NULL, read_all, &r[i]) != 0)
                abort();
        }
        for (unsigned i = 0; i < w->readers; i++)
            pthread_join(r[i].thread, NULL);
        xh_cache_close(first.file);
    }
    out->ns = sim_now() - begun;
    out->digest = sim_digest();
}

/* ---- the plain client */

struct plain {
    struct sim_world *world;
    struct sim_conn *conn;
    uint64_t left;
    int *busy, there, ready;
};

static void plain_ask(void *ctx, uint64_t arg)
{
    struct plain *p = ctx;
    sim_conn_write(p->conn, p->left, 0);
}

static void plain_arrived(void *ctx)
{
    struct plain *p = ctx;
    int ended;
    if (!p->there) {
        p->there = 1;
        sim_hello(&p->world->server, p->conn);
        return;
    }
    if (!p->ready) {
        p->ready = sim_hello_is_over(p->conn);
        if (p->ready)
            sim_at(sim_link_up(&p->world->link) + p->world->server.think_ns, plain_ask, p, 0);
        return;
    }
    uint64_t n = sim_conn_readable(p->conn, &ended);
    sim_conn_read(p->conn, n);
    p->left -= n < p->left ? n : p->left;
    if (n && p->left == 0 && --*p->busy == 0)
        sim_wake(p->busy);
}

uint64_t sim_world_fetch(struct sim_world *w, unsigned n, uint64_t bytes)
{
    struct plain *p = calloc(n, sizeof *p);
    int busy = (int)n;
    if (!p)
        abort();
    sim_world_begin(w);
    uint64_t begun = sim_now();
    for (unsigned i = 0; i < n; i++) {
        p[i] = (struct plain){.world = w, .left = bytes / n, .busy = &busy};
        p[i].conn = sim_conn_open(&w->link, &(struct sim_conn_events){plain_arrived, &p[i]});
    }
    while (busy)
        sim_wait(&busy, SIM_NEVER);
    return sim_now() - begun;
}
