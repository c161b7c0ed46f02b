/* The simulator's program: one world of a seed, a search through seeds, or one of the bench's workloads over a link
 * that the command line describes. Each world runs in a process of its own. See docs/simulator.md. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "watch/trace.h"
#include "world.h"

#define IMAGE_BYTES (2048u * 2048 * 2)
#define SOURCE_READ_BYTES UINT64_C(1048576)
#define V1_ONE "V1-one"
#define V1_AFTER "V1-after"
#define V1_BESIDE "V1-beside"
#define GZIP "W2-gzip"
#define GZIP_CHUNK_BYTES (512u << 10)
#define GZIP_PART 0.69      /* of a chunk's bytes are stored */
#define GZIP_NS_BYTE 10.7   /* h5py's own time for a stored byte: 69 MB in 0.74 s on the machine of docs/bench.md */
#define V2_ALONE "V2-alone"
#define V2_SECOND "V2-second"
#define PLAIN_MOST 16
#define MANY_FILES 50u
#define WALKED_FILES 12u
#define WALKED_DEPTH 30u
#define WHOLE_FILES 8u
#define WHOLE_BYTES (UINT64_C(4) << 20)
#define WHOLE_PIECE 262144u
#define SLABS_LEAST_BYTES 8000000u
#define SLABS_MOST_BYTES 64000000u
#define SLABS_MOST 1500u
#define SMALL_FILES 60u
#define SMALL_BYTES (UINT64_C(430) << 10)
#define MANY_BYTES (158 * UINT64_C(8192)) /* whole rows */
/* A file that the cache reads without HDF5, and a piece of it. */
#define READ_FILE_BYTES UINT64_C(1000000000)
#define READ_PIECE_BYTES 10000u
#define MB 1e6
#define ASKS_TRIPS 3 /* a connection takes so many round trips to be opened, and to ask for the file's size */
/* Of an untuned Linux: what the receiver's 6 MiB let be under way (ss shows snd_wnd 2.75 MB, and the sender held up by it
 * 88 % of the time), and the sender's 4 MiB. */
#define STOCK_RECEIVE_BYTES 2750000u
#define STOCK_SEND_BYTES 4000000u
#define MACHINE_RATE 0.67 /* bytes per ns that a link without a rate carries on the machine with two cores whose figures
                           * docs/simulator.md compares: W1 of 839 MB, 10 ms, 8 and 16 connections have 0.62; of 336 MB,
                           * 1 ms, one connection has 0.65 */

static char shadow_dir[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static void new_shadow(void)
{
    snprintf(shadow_dir, sizeof shadow_dir, "/dev/shm/xhdf5-sim-XXXXXX");
    if (!mkdtemp(shadow_dir)) {
        perror(shadow_dir);
        exit(2);
    }
}

static void use_shadow(struct xh_options *o)
{
    snprintf(o->shadow_dir, sizeof o->shadow_dir, "%s", shadow_dir);
    o->shadow_budget_bytes = UINT64_C(1) << 30; /* not by what memory this machine has left */
}

static void end_shadow(void)
{
    nftw(shadow_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* One thread runs at a time: to wake it on this processor is cheaper. */
static void one_processor(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here);
}

/* Runs |run| in a child; what it gives is read from a pipe. Returns the child's status, 0: all is well. */
static int in_child(void (*run)(void *ctx, FILE *out), void *ctx, char *said, size_t size)
{
    int ends[2];
    size_t n = 0;
    fflush(NULL);
    if (pipe(ends) != 0)
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        FILE *out = fdopen(ends[1], "w");
        close(ends[0]);
        if (!sim_tracing && !freopen("/dev/null", "w", stderr)) /* the driver's advice to its user */
            exit(2);
        one_processor();
        run(ctx, out);
        fflush(NULL);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; child > 0 && (got = read(ends[0], said + n, size - 1 - n)) != 0;)
        n += got > 0 ? (size_t)got : 0;
    said[n] = '\0';
    close(ends[0]);
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* ---- worlds of seeds */

static void run_world(void *ctx, FILE *out)
{
    struct sim_result result;
    struct sim_world *w = ctx;
    if (w->h5)
        sim_h5_make(w, shadow_dir);
    sim_world_run(w, &result);
    fprintf(out, "%016" PRIx64 " %s t=%.3fs bytes=%" PRIu64 " requests=%" PRIu64 " connections=%" PRIu64 " code=%d dropped=%" PRIu64
            " lost=%" PRIu64 "%s%s", result.digest, result.wrong[0] ? "WRONG" : "right", (double)result.ns / 1e9, result.bytes,
            sim_sums.requests, sim_sums.connections, result.code, w->link.dropped, w->link.lost, result.wrong[0] ? ": " : "",
            result.wrong);
}

/* Runs |w|. Returns 0 when it is as it should be. */
static int try_world(struct sim_world *w, char *said, size_t size)
{
    new_shadow();
    use_shadow(&w->options);
    int status = in_child(run_world, w, said, size);
    end_shadow();
    if (status != 0)
        printf("status %d%s\n", status, WIFSIGNALED(status) ? ", a signal" : "");
    return status != 0 || strstr(said, "WRONG");
}

/* Each fault, once and for ever, early and late, with each kind of reading. Returns 0 when all was as it should be. */
static int try_faults(void)
{
    static const unsigned from[] = {1, 5};
    unsigned tried = 0, bad = 0, errors = 0;
    char said[1024];
    struct sim_world w;
    for (int f = 0; f < SIM_FAULTS; f++)
        for (int r = 0; r < SIM_READINGS + SIM_H5S - 1; r++)
            for (unsigned k = 0; k < 2 * 2 * 2; k++) {
                enum sim_dialect dialect = k % 2 ? SIM_XROOTD : SIM_NGINX;
                int forever = k / 2 % 2;
                if (dialect == SIM_XROOTD && (f == SIM_F_CHANGED || from[k / 4] == 1)) /* what it says is as nginx's there */
                    continue;
                sim_world_of_fault(&w, (enum sim_fault)f, from[k / 4], forever, dialect,
                                   r < SIM_READINGS ? (enum sim_reading)r : SIM_STREAM,
                                   r < SIM_READINGS ? SIM_H5_NONE : (enum sim_h5)(r - SIM_READINGS + 1));
                tried++;
                int is_bad = try_world(&w, said, sizeof said);
                errors += !strstr(said, "code=0");
                if (!is_bad)
                    continue;
                bad++;
                printf("%s from request %u on, %s:\n", sim_fault_names[f], from[k / 4], forever ? "for ever" : "once");
                sim_world_print(&w);
                printf("  %s\n", said);
            }
    printf("%u faults and readings, %u of them with the error that they should have; %u failed\n", tried, errors - bad, bad);
    return bad != 0;
}

/* ---- advice */

static const struct situation {
    const char *name, *advice[2]; /* words of it, in their order */
    enum sim_h5 h5;
    unsigned reads, sets, readahead, connections, rtt_ms;
} situations[] = {
    {"small reads anywhere", {"reads of 3 KB waited for the link one after another", "ms each: say before"}, SIM_H5_ROWS, 40, 1, 1, 16, 20},
    {"no reading ahead", {"XHDF5_READAHEAD=on", ""}, SIM_H5_IMAGES, 0, 12, 0, 16, 20},
    {"one connection", {"1 connection limits the rate at a round trip of ", "XHDF5_CONNECTIONS="}, SIM_H5_STREAM, 0, 1, 1, 1, 60},
};

static void run_situation(void *ctx, FILE *out)
{
    const struct situation *s = ctx;
    struct sim_result result;
    struct sim_world w = {.seed = 1, .h5 = s->h5, .sets = s->sets, .reads = s->reads, .readers = 1};
    w.link = (struct sim_link){.rtt_ns = s->rtt_ms * SIM_MS, .rate = 1.0, .queue_bytes = 64u << 20, .segments = 10, .control = SIM_BBR,
                               .receive_most = 3700000, .send_most = 3700000};
    w.server = (struct sim_server){.name = "http://sim.test:8000", .other = "http://other.test:8000", .objects = 1,
                                   .dialect = SIM_NGINX, .think_ns = 100000, .accept_ns = 300000};
    w.object = (struct sim_object){.path = "/data/file.h5", .size = 1, .version = 1};
    w.set_bytes = s->h5 == SIM_H5_STREAM ? 400u << 20 : s->h5 == SIM_H5_ROWS ? 50u << 20 : 1u << 20;
    w.read_bytes = s->h5 == SIM_H5_ROWS ? 3000 : 4u << 20;
    xh_options_defaults(&w.options);
    w.options.stats = 1;
    w.options.readahead = s->readahead;
    w.options.connections = s->connections;
    new_shadow();
    use_shadow(&w.options);
    sim_h5_make(&w, shadow_dir);
    dup2(fileno(out), STDERR_FILENO); /* where the driver tells it */
    sim_world_run(&w, &result);
    end_shadow();
    fprintf(out, "%s", result.wrong[0] ? " WRONG: " : "");
    fprintf(out, "%s", result.wrong);
}

/* What a user is told who reads so. Prints TAP. Returns 0 when it is what helps. */
static int try_situations(void)
{
    unsigned n = sizeof situations / sizeof *situations, bad = 0;
    char said[4096];
    printf("1..%u\n", n);
    for (unsigned i = 0; i < n; i++) {
        struct situation s = situations[i];
        int status = in_child(run_situation, &s, said, sizeof said);
        const char *advice = strstr(said, "  advice    "), *first = advice ? strstr(advice, s.advice[0]) : NULL;
        int good = status == 0 && first && strstr(first, s.advice[1]) && !strstr(said, "WRONG");
        bad += !good;
        printf("%s %u - %s: the advice is right\n# %s\n", good ? "ok" : "not ok", i + 1, s.name, advice ? advice + 2 : said);
    }
    return bad != 0;
}

/* ---- cases that a table names */

static const struct cases {
    unsigned (*count)(void);
    const char *(*name)(unsigned i);
    void (*run)(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size);
    const char *claim;
} stragglers = {sim_straggler_ways, sim_straggler_name, sim_straggler_run,
                "the bytes are right, in time, and no more is asked than must be"},
  renewals = {sim_renewals, sim_renewal_name, sim_renewal_run, "one asks for all, and nobody waits for long"},
  losses = {sim_losses, sim_loss_name, sim_loss_run, "it is repaired in its time"},
  growths = {sim_growths, sim_growth_name, sim_growth_run, "it grows as Linux's does"};

struct one_case {
    const struct cases *of;
    unsigned i;
};

static void run_case(void *ctx, FILE *out)
{
    const struct one_case *one = ctx;
    char seen[256] = "", wrong[600] = "";
    one->of->run(one->i, seen, sizeof seen, wrong, sizeof wrong);
    fprintf(out, "%s%s%s", seen, wrong[0] ? " WRONG: " : "", wrong);
}

/* Runs each of |c| in a child. Prints TAP. Returns 0 when all was as it should be. */
static int try_cases(const struct cases *c)
{
    unsigned bad = 0, n = c->count();
    char said[1024];
    printf("1..%u\n", n);
    for (struct one_case one = {c, 0}; one.i < n; one.i++) {
        int is_bad = in_child(run_case, &one, said, sizeof said) != 0 || strstr(said, "WRONG") != NULL;
        bad += (unsigned)is_bad;
        printf("%s %u - %s: %s\n# %s\n", is_bad ? "not ok" : "ok", one.i + 1, c->name(one.i), c->claim, said);
    }
    return bad != 0;
}

/* Returns 0 when |seed|'s world is as it should be. */
static int try_seed(uint64_t seed, int again, int tells)
{
    char said[2][1024] = {"", ""};
    int bad = 0;
    struct sim_world w;
    for (int i = 0; i <= again && !bad; i++) {
        sim_world_of(&w, seed);
        bad = try_world(&w, said[i], sizeof said[i]);
    }
    if (again && !bad && strcmp(said[0], said[1]) != 0) {
        printf("two runs of one seed differ:\n  %s\n  %s\n", said[0], said[1]);
        bad = 1;
    }
    if (bad || tells) {
        sim_world_print(&w);
        printf("  %s\n", said[0]);
    }
    if (bad)
        printf("again, with a trace: containers/box sim --seed %" PRIu64 " --trace\n", seed);
    return bad;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Tries seeds from |first| on, |count| of them or for |seconds|; each tenth twice. */
static int search(double seconds, uint64_t count, uint64_t first, unsigned most_bad)
{
    double until = seconds_now() + seconds;
    uint64_t seed = first;
    unsigned bad = 0;
    for (; (count ? seed - first < count : seconds_now() < until) && bad < most_bad; seed++)
        bad += try_seed(seed, seed % 10 == 0, 0) != 0;
    printf("%" PRIu64 " seeds from %" PRIu64 " on, %u failed\n", seed - first, first, bad);
    return bad != 0;
}

/* ---- workloads of the bench */

struct bench {
    const char *name;
    double rtt_ms, rate_mbit, loss, cap_mb, client_ns_byte;
    enum sim_control control;
    int stock, alone; /* alone: without the plain client */
    int single;       /* one range in a request, as with S3 */
    int shuffles;     /* a reply's parts come in another order than they were asked for */
    int again;        /* another process reads it then, in the same shadow */
    enum sim_dialect dialect;
    unsigned images, reads, plain, sources, connections; /* connections 0: as by default */
    double dies_s;  /* so many seconds after the beginning all connections die; 0: never */
    double back_s;  /* and for so long none can be made */
    double pauses_s; /* each reply stands still for so long in its midst; 0: none does */
    unsigned takes, serves; /* connections that the server takes at once; requests that it answers at once; 0: any */
    unsigned stall; /* of connections and requests, the one whose reply stands still; 0: none */
    uint64_t readahead_bytes; /* likewise */
    uint64_t piece_bytes; /* read at a time; 0: an image */
    uint64_t fetched;     /* the plain client's: bytes */
    uint64_t source_bytes, file_bytes, seed; /* |file_bytes| 0: as the workload has it */
    unsigned sites, readers, threads; /* of an order by threads, at most 64 */
    unsigned kept;                    /* of ten, where some are left out */
    double most_mb;                   /* more that comes is a failure; 0: any amount may */
    unsigned most_requests;           /* more of them are a failure; 0: any number may be */
    unsigned pieces, row, each;           /* as in a world */
    struct site {
        double rtt_ms, rate_mbit, loss, seconds, then_mbit; /* from |seconds| on it has that rate; 0: it stays */
    } site[SIM_SITES_MOST];
    double megabytes; /* of packed chunks */
    double unpack_ns_byte;
};

/* As the bench has it: a virtual dataset over sources, or the same data in one file; 1 MiB of each source in a read
 * where they lie side by side. */
static void virtual_world(const struct bench *b, struct sim_world *w)
{
    w->read_bytes = b->sources * SOURCE_READ_BYTES;
    w->set_bytes = b->source_bytes;
    w->latest = 1;
    if (strcmp(b->name, V1_ONE) == 0) {
        w->h5 = SIM_H5_STREAM;
        w->sets = 1;
        w->set_bytes *= b->sources;
        w->object.size = w->set_bytes; /* for the plain client, which does without HDF5's file */
        return;
    }
    w->h5 = strcmp(b->name, V1_AFTER) == 0    ? SIM_H5_AFTER
            : strcmp(b->name, V2_ALONE) == 0  ? SIM_H5_ALONE
            : strcmp(b->name, V2_SECOND) == 0 ? SIM_H5_SECOND
                                              : SIM_H5_BESIDE;
    w->sources = b->sources;
    if (b->name[1] == '2') {
        w->sources = 2;
        w->set_bytes = (uint64_t)b->images * IMAGE_BYTES / SIM_SOURCE_ROW * SIM_SOURCE_ROW;
        w->read_bytes = IMAGE_BYTES;
    }
}

/* As the bench's of these names: files of so many bytes, most of it metadata, or a fourth of it. */
static const struct small_file {
    const char *name;
    unsigned sets;
    uint64_t set_bytes, bytes;
    int tree;
} small_files[] = {{"W4-4M", 1750, 1700, 4000000, 0}, {"W4-10M", 4350, 1700, 10000000, 0},
                   {"W4-40M", 4350, 8600, 40000000, 0}, {"W4-tree", 5000, 7100, 40000000, 1},
                   {"W4-dense", 13100, 2300, 40000000, 1}};

static const struct small_file *small_file(const char *name)
{
    for (size_t i = 0; i < sizeof small_files / sizeof *small_files; i++)
        if (strncmp(name, small_files[i].name, strlen(small_files[i].name)) == 0)
            return &small_files[i];
    return NULL;
}

/* Planes across an array of 419 MB. */
static const struct sim_slabs planes = {.all = {400, 512, 2048}, .block = {400, 1, 2048}, .axis = {0, 1, 2}};

static uint64_t below(uint64_t *z, uint64_t n)
{
    return sim_roll(z) % n;
}

/* The blocks of an array that |seed| stands for: at most SLABS_MOST, of 8 to 64 MB in all. */
static struct sim_slabs slabs_of(uint64_t seed)
{
    struct sim_slabs s = {.axis = {0, 1, 2}};
    uint64_t bytes = 0, blocks = 0, z = seed;
    while (bytes < SLABS_LEAST_BYTES || bytes > SLABS_MOST_BYTES || blocks > SLABS_MOST) {
        bytes = blocks = 1;
        for (int a = 0; a < 3; a++) {
            uint64_t most = a == 2 ? 8000 : 400, kind = below(&z, 4);
            bytes *= s.all[a] = 1 + below(&z, most);
            s.block[a] = kind == 0 ? 1 : kind == 1 ? s.all[a] : 1 + below(&z, kind == 2 ? s.all[a] : 16);
            s.block[a] = s.block[a] < s.all[a] ? s.block[a] : s.all[a];
            blocks *= (s.all[a] + s.block[a] - 1) / s.block[a];
            s.down[a] = below(&z, 6) == 0;
        }
    }
    for (unsigned a = 2, swaps = (unsigned)below(&z, 2); swaps && a > 0; a--) {
        unsigned k = (unsigned)below(&z, a + 1), was = s.axis[a];
        s.axis[a] = s.axis[k];
        s.axis[k] = was;
    }
    s.shuffled = below(&z, 4) == 0;
    return s;
}

static struct sim_slabs slabs_in(const struct bench *b)
{
    return b->name[1] == '1' ? slabs_of(b->seed) : planes;
}

/* Reads of the cache itself, by one reader or several in one open file: |reads| pieces each. Returns 0: |b| names
 * none. */
static int is_of_cache(const struct bench *b, struct sim_world *w)
{
    static const struct {
        const char *name;
        enum sim_reading reading;
    } readings[] = {{"R-stream", SIM_STREAM}, {"R-steps", SIM_STEPS}, {"R-random", SIM_RANDOM},
                    {"R-scattered", SIM_SCATTERED}, {"R-strides", SIM_STRIDES}, {"R-announced", SIM_HINTED}};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        if (strcmp(b->name, readings[i].name) == 0) {
            w->object.size = b->megabytes > 0 ? (uint64_t)(b->megabytes * MB) : READ_FILE_BYTES;
            w->readers = b->readers < SIM_READERS_MOST ? b->readers : SIM_READERS_MOST;
            w->shared = 1;
            for (unsigned k = 0; k < w->readers; k++) {
                w->reading[k] = readings[i].reading;
                w->piece[k] = b->piece_bytes ? b->piece_bytes : READ_PIECE_BYTES;
                w->bytes[k] = b->reads * w->piece[k];
            }
            return 1;
        }
    if (strcmp(b->name, "R-beside") != 0)
        return 0;
    w->object.size = READ_FILE_BYTES;
    w->shared = 1;
    w->readers = 2;
    w->reading[0] = SIM_STREAM;
    w->piece[0] = IMAGE_BYTES;
    w->bytes[0] = (uint64_t)b->images * IMAGE_BYTES;
    w->reading[1] = SIM_META;
    w->piece[1] = 1000;
    w->bytes[1] = b->reads * w->piece[1];
    w->late_ns = 3 * SIM_S;
    return 1;
}

static struct sim_link link_of(const struct bench *b, double rtt_ms, double rate_mbit, double loss)
{
    struct sim_link l = {
        .rtt_ns = (uint64_t)(rtt_ms * 1e6), .rate = rate_mbit > 0 ? rate_mbit / 8e3 : MACHINE_RATE, .loss = loss,
        .segments = 10, .control = b->control, .connection_rate = b->cap_mb / 1e3,
        .receive_most = b->stock ? STOCK_RECEIVE_BYTES : 64u << 20,
        .send_most = b->stock ? STOCK_SEND_BYTES : 64u << 20,
    };
    l.queue_bytes = (uint64_t)(l.rate * (double)(l.rtt_ns > 5 * SIM_MS ? l.rtt_ns : 5 * SIM_MS)) + 98304;
    if (rate_mbit <= 0)
        l.queue_bytes = 512u << 20;
    return l;
}

static uint64_t pause_ns;

static struct sim_lie pauses(const char *path, const char *range)
{
    (void)range;
    return (struct sim_lie){.fault = SIM_FAULTS, .halts = 1, .pause_ns = pause_ns};
}

static void bench_world(const struct bench *b, struct sim_world *w)
{
    const struct small_file *small = small_file(b->name);
    memset(w, 0, sizeof *w);
    w->seed = b->seed;
    w->threads = b->threads;
    w->kept = b->kept;
    w->pieces = b->pieces;
    w->row = b->row;
    w->each = b->each;
    w->link = link_of(b, b->rtt_ms, b->rate_mbit, b->loss);
    w->sites = b->sites;
    for (unsigned i = 0; i < b->sites; i++)
        w->site[i] = (struct sim_site){.link = link_of(b, b->site[i].rtt_ms, b->site[i].rate_mbit, b->site[i].loss),
                                       .changes_ns = (uint64_t)(b->site[i].seconds * 1e9),
                                       .then = b->site[i].then_mbit / 8e3};
    w->object = (struct sim_object){.path = "/data/file.h5", .size = (uint64_t)b->images * IMAGE_BYTES, .version = 1};
    w->server = (struct sim_server){.name = "http://sim.test:8000", .other = "http://other.test:8000", .objects = 1, .dialect = b->dialect,
                                    .think_ns = 100000, .accept_ns = 400000};
    xh_options_defaults(&w->options);
    w->options.engine_threads = 2;
    if (b->connections)
        w->options.connections = b->connections;
    w->server.shuffles = b->shuffles;
    if (b->single)
        w->options.multirange = 0;
    if (b->readahead_bytes)
        w->options.readahead_bytes = b->readahead_bytes;
    if (b->stall && !b->plain) {
        w->server.fault[SIM_F_STALL] = 1;
        w->server.faults_left = 1;
        w->server.faults_from = b->stall;
    }
    w->server.takes = b->plain ? 0 : b->takes;
    w->server.serves = b->plain ? 0 : b->serves;
    pause_ns = b->plain ? 0 : (uint64_t)(b->pauses_s * 1e9);
    w->server.lies = pause_ns ? pauses : NULL;
    w->server.lie = (struct sim_lie){.fault = SIM_FAULTS}; /* none at connecting */
    w->link.dies_ns = b->dies_s > 0 && !b->plain ? sim_now() + (uint64_t)(b->dies_s * 1e9) : 0;
    w->link.back_ns = w->link.dies_ns + (uint64_t)(b->back_s * 1e9);
    w->options.readahead = !strstr(b->name, "-off");
    w->readers = 1;
    sim_net.client_ns_byte = b->client_ns_byte;
    if (is_of_cache(b, w))
        return;
    if (b->name[0] == 'V') {
        virtual_world(b, w);
        return;
    }
    if (b->name[0] == 'A') {
        w->h5 = SIM_H5_SLABS;
        w->sets = 1;
        w->slabs = slabs_in(b);
        w->pieces = b->pieces;
        w->set_bytes = w->slabs.all[0] * w->slabs.all[1] * w->slabs.all[2];
        return;
    }
    if (b->name[0] == 'M') {
        w->h5 = SIM_H5_MANY;
        w->sources = b->name[1] == '3' ? WALKED_FILES : MANY_FILES;
        w->set_bytes = MANY_BYTES;
        w->read_bytes = SOURCE_READ_BYTES;
        w->latest = b->name[1] == '1';
        w->depth = b->name[1] == '2' ? 3 : b->name[1] == '3' ? WALKED_DEPTH : 0;
        w->walks = b->name[1] == '3';
        if (b->name[1] == '4') {
            w->sources = WHOLE_FILES;
            w->set_bytes = b->file_bytes ? b->file_bytes : WHOLE_BYTES;
            w->read_bytes = b->piece_bytes ? b->piece_bytes : WHOLE_PIECE;
            w->reads_all = 1;
        } else if (b->name[1] == '5') {
            w->sources = SMALL_FILES;
            w->set_bytes = b->file_bytes ? b->file_bytes : SMALL_BYTES;
            w->read_bytes = b->piece_bytes ? b->piece_bytes : w->set_bytes;
            w->reads_all = 1;
            w->kinds = strcmp(b->name + 2, "-turns") == 0 ? 2 : 1;
            w->sources *= w->kinds;
        }
        return;
    }
    int is_sets = strncmp(b->name + 2, "-sets", 5) == 0, in_turns = strncmp(b->name + 2, "-turns", 6) == 0;
    switch (b->name[1]) {
    case '1':
        if (b->name[0] == 'S') { /* one image, somewhere */
            w->h5 = SIM_H5_ROWS;
            w->sets = w->reads = 1;
            w->set_bytes = (uint64_t)b->images * IMAGE_BYTES;
            w->read_bytes = IMAGE_BYTES;
            break;
        }
        w->h5 = is_sets ? SIM_H5_IMAGES : SIM_H5_STREAM;
        w->sets = is_sets ? b->images : 1;
        w->set_bytes = is_sets ? IMAGE_BYTES : (uint64_t)b->images * IMAGE_BYTES;
        w->read_bytes = IMAGE_BYTES;
        if (in_turns) {
            w->h5 = SIM_H5_TURNS;
            w->sets = b->sources;
            w->set_bytes /= w->sets;
        }
        break;
    case '2':
        w->h5 = SIM_H5_CHUNKS;
        w->sets = 1;
        w->set_bytes = (uint64_t)b->images * IMAGE_BYTES;
        w->read_bytes = IMAGE_BYTES;
        if (strcmp(b->name, GZIP) == 0) {
            uint64_t chunks = (uint64_t)(b->megabytes * MB / GZIP_PART / GZIP_CHUNK_BYTES + 0.5);
            w->set_bytes = (chunks ? chunks : 1) * GZIP_CHUNK_BYTES;
            w->read_bytes = w->set_bytes < IMAGE_BYTES ? w->set_bytes : IMAGE_BYTES;
            w->object.size = (uint64_t)(b->megabytes * MB);
            w->unpack_ns_byte = b->unpack_ns_byte;
        }
        break;
    case '3':
        w->h5 = SIM_H5_ROWS;
        w->sets = 1;
        w->set_bytes = b->row > 1 ? (uint64_t)b->images * IMAGE_BYTES : 256000000;
        w->read_bytes = b->piece_bytes ? b->piece_bytes : 10000;
        w->reads = b->reads;
        break;
    default:
        w->h5 = strcmp(b->name + 2, "-data") == 0 ? SIM_H5_SMALL : SIM_H5_WALK;
        w->sets = 5000;
        w->set_bytes = 1200;
        w->latest = 1;
        if (small) {
            w->sets = small->sets;
            w->set_bytes = small->set_bytes;
            w->tree = small->tree;
            w->latest = 0;
            w->object.size = small->bytes; /* for the plain client */
            if (strcmp(b->name + strlen(small->name), "-one") == 0) {
                w->h5 = SIM_H5_SMALL;
                w->reads = 1;
            } else if (strstr(b->name, "-data")) {
                w->h5 = SIM_H5_SMALL;
            }
        }
    }
    w->order = strstr(b->name, "-down")     ? SIM_ORDER_DOWN
               : strstr(b->name, "-steps")  ? SIM_ORDER_STEPS
               : strstr(b->name, "-period") ? SIM_ORDER_PERIOD
               : strstr(b->name, "-then")   ? SIM_ORDER_THEN
               : strstr(b->name, "-jumps")  ? SIM_ORDER_JUMPS
               : strstr(b->name, "-back")   ? SIM_ORDER_BACK
               : strstr(b->name, "-fro")    ? SIM_ORDER_FRO
               : strstr(b->name, "-blocks") ? SIM_ORDER_BLOCKS
               : strstr(b->name, "-any")    ? SIM_ORDER_ANY
               : strstr(b->name, "-aside")  ? SIM_ORDER_ASIDE
               : strstr(b->name, "-twice")  ? SIM_ORDER_TWICE
               : strstr(b->name, "-pool")   ? SIM_ORDER_POOL
               : strstr(b->name, "-some")   ? SIM_ORDER_SOME
                                            : SIM_ORDER_UP;
    w->large_chunks = strstr(b->name, "-large") != NULL;
    if (b->piece_bytes)
        w->read_bytes = b->piece_bytes;
}

static void run_bench(void *ctx, FILE *out)
{
    const struct bench *b = ctx;
    struct sim_world w;
    struct sim_result r;
    bench_world(b, &w);
    if (!b->again)
        new_shadow();
    use_shadow(&w.options);
    if (b->plain) {
        uint64_t ns = sim_world_fetch(&w, b->plain, w.object.size);
        fprintf(out, "%.6f", (double)w.object.size / MB / ((double)ns / 1e9));
    } else {
        if (w.h5)
            sim_h5_make(&w, shadow_dir);
        sim_world_run(&w, &r);
        uint64_t bytes = r.second_ns ? w.set_bytes : r.bytes, ns = r.second_ns ? r.second_ns : r.ns;
        fprintf(out, "%.6f %" PRIu64 " %" PRIu64 " %.3f %s; %.1f MB came, the file has %.1f; %" PRIu64 " refused; "
                "longest read %.3f s; %.1f MB were read",
                (double)bytes / MB / ((double)ns / 1e9), sim_sums.connections, sim_sums.requests, (double)ns / 1e9,
                r.wrong[0] ? r.wrong : "right", (double)sim_sums.bytes / MB, (double)w.object.size / MB,
                sim_sums.refused, (double)sim_sums.longest_ns / 1e9, (double)r.bytes / MB);
    }
    if (!b->again)
        end_shadow();
}

/* A workload beside a plain client over the same link. */
struct measured {
    double rate, best, plain[5]; /* MB/s; the plain client's best, and with 1, 2, 4, 8 and 16 connections */
    unsigned best_n;
    char more[320];              /* connections, requests, seconds, whether the bytes were right */
};

/* 1 when more bytes came than may, or more was asked for. */
static int came_too_many(const struct bench *b, const struct measured *m)
{
    double came = 0;
    unsigned requests = 0;
    if (b->most_requests > 0 && (sscanf(m->more, "%*u %u", &requests) != 1 || requests > b->most_requests))
        return 1;
    return b->most_mb > 0 && (sscanf(m->more, "%*u %*u %*f %*[a-z]; %lf", &came) != 1 || came > b->most_mb);
}

/* Returns 0, or -1: it failed, and |m|->more says how. */
static int measure(struct bench *b, struct measured *m)
{
    char said[1024], *more;
    memset(m, 0, sizeof *m);
    b->plain = 1;
    int plain = b->name[0] == 'V' ? strcmp(b->name, V1_ONE) == 0
                                  : b->name[0] == 'W' && b->name[1] < '3' && !small_file(b->name);
    for (int i = 0; i < 5 && plain && !b->alone; i++, b->plain *= 2) {
        if (in_child(run_bench, b, said, sizeof said) != 0)
            return -1;
        m->plain[i] = strtod(said, NULL);
        m->best_n = m->plain[i] > m->best ? b->plain : m->best_n;
        m->best = m->plain[i] > m->best ? m->plain[i] : m->best;
    }
    b->plain = 0;
    int status = in_child(run_bench, b, said, sizeof said);
    m->rate = strtod(said, &more);
    snprintf(m->more, sizeof m->more, "%.310s", status ? said : more);
    return status || !strstr(more, "right") ? -1 : 0;
}

/* Beside what others do with a small file: ROS3 asks for its size, then for its first 16 MiB, by one connection (here
 * for all of it); a download asks for the size by a connection of its own, to divide it among eight. Returns 0, or 1: it
 * fails. */
static int run_small_file(struct bench *b, uint64_t bytes, double least)
{
    double others[2], most = 0;
    struct measured m;
    char said[1024];
    for (int i = 0; i < 2; i++) {
        b->plain = i ? 8 : 1;
        if (in_child(run_bench, b, said, sizeof said) != 0)
            return 1;
        others[i] = (double)bytes / MB / strtod(said, NULL) + (i ? ASKS_TRIPS : 1) * b->rtt_ms / 1e3;
        most = most == 0 || others[i] < most ? others[i] : most;
    }
    b->plain = 0;
    int rc = measure(b, &m);
    double seconds = 0;
    sscanf(m.more, "%*u %*u %lf", &seconds);
    printf("%s at %g ms: %.3f s; one connection %.3f s, a download by eight %.3f s; by the faster %.2f; "
           "connections, requests, seconds, bytes:%s\n",
           b->name, b->rtt_ms, seconds, others[0], others[1], seconds / most, m.more);
    return rc != 0 || most < least * seconds || came_too_many(b, &m);
}

/* A second process reads what a first one has read: at most |most| MB come again. */
static int run_again(struct bench *b, double most)
{
    struct measured first, second;
    double came = 0;
    b->again = b->alone = 1;
    new_shadow();
    int rc = measure(b, &first);
    rc |= measure(b, &second);
    end_shadow();
    if (sscanf(second.more, "%*u %*u %*f %*[a-z]; %lf", &came) != 1)
        rc = -1;
    printf("%s: connections, requests, seconds, bytes:%s\nand again, by a second process:%s\n", b->name, first.more,
           second.more);
    return rc != 0 || came > most;
}

/* The reply to each request, and connection, in turn, or each |every|-th, stands still for ever: all is read, at most
 * |most| seconds later than without. */
static int run_stalls(struct bench *b, unsigned every, double most)
{
    struct measured m;
    double without = 0, seconds, worst = 0;
    unsigned requests = 0, connections = 0, at = 0;
    b->alone = 1;
    int bad = measure(b, &m) != 0 || sscanf(m.more, "%u %u %lf", &connections, &requests, &without) != 3;
    for (b->stall = 1; b->stall <= connections + requests; b->stall += every) {
        int rc = measure(b, &m);
        if (rc != 0 || sscanf(m.more, "%*u %*u %lf", &seconds) != 1) {
            printf("number %u: connections, requests, seconds, bytes:%s\n", b->stall, m.more);
            bad = 1;
        } else if (seconds - without > worst) {
            worst = seconds - without;
            at = b->stall;
        }
    }
    printf("%s: %.3f s with %u requests; at most %.3f s more where one reply stands still, that of number %u\n",
           b->name, without, requests, worst, at);
    return bad || requests == 0 || worst > most;
}

static int run_workload(struct bench *b, double least, double within)
{
    const struct small_file *small = small_file(b->name);
    if (small)
        return run_small_file(b, small->bytes, least);
    struct measured m;
    int rc = measure(b, &m);
    if (b->name[0] == 'A') {
        struct sim_slabs s = slabs_in(b);
        printf("blocks of %" PRIu64 " x %" PRIu64 " x %" PRIu64, s.block[0], s.block[1], s.block[2]);
        printf(" in %" PRIu64 " x %" PRIu64 " x %" PRIu64 ", axes", s.all[0], s.all[1], s.all[2]);
        for (int k = 0; k < 3; k++)
            printf(" %u%s", s.axis[k], s.down[s.axis[k]] ? " down" : "");
        printf("%s\n", s.shuffled ? ", in no order" : "");
    }
    for (int i = 0; i < 5 && m.best > 0; i++)
        printf("plain client, %2u connections: %.1f MB/s\n", 1u << i, m.plain[i]);
    printf("%s: %.1f MB/s; connections, requests, seconds, bytes:%s\n", b->name, m.rate, m.more);
    if (m.best > 0)
        printf("by the best plain client (%u connections): %.2f\n", m.best_n, m.rate / m.best);
    double seconds = 0;
    sscanf(m.more, "%*u %*u %lf", &seconds);
    return rc != 0 || m.rate < least * m.best || (within > 0 && seconds > within) || came_too_many(b, &m);
}

/* Many sources by one file. */
static int run_virtual(struct bench *b, double least, double beside)
{
    static const char *const names[] = {V1_ONE, V1_AFTER, V1_BESIDE};
    double one = 0;
    int bad = 0;
    for (int i = 0; i < 3; i++) {
        struct measured m;
        b->name = names[i];
        bad += measure(b, &m) != 0;
        one = i ? one : m.rate;
        if (i == 0 && !b->alone)
            printf("%s: the best plain client has %u connections, %.1f MB/s: %.2f of it\n", b->name, m.best_n, m.best,
                   m.rate / m.best);
        printf("%s: %.1f MB/s, %.2f of one file; connections, requests, seconds, bytes:%s\n", b->name, m.rate, m.rate / one, m.more);
        fflush(stdout);
        bad += m.rate < (i == 2 ? beside : least) * one;
    }
    return bad != 0;
}

/* Seconds that a download of |mb| MB takes: by one connection, or, once another one has asked for the size, by those
 * that are best of up to 16. */
static double download_seconds(const struct bench *b, const struct measured *m, double mb)
{
    double one = m->plain[0] > 0 ? mb / m->plain[0] : 0, many = 0;
    for (int i = 1; i < 5; i++)
        many = m->plain[i] > many ? m->plain[i] : many;
    many = many > 0 ? mb / many + ASKS_TRIPS * b->rtt_ms / 1e3 : one;
    return many < one ? many : one;
}

/* Packed chunks, which the reader unpacks one after another, beside who downloads the file and then opens it. */
static int run_gzip(struct bench *b, unsigned every, double least)
{
    static const double sizes[] = {1, 7, 69, 700}, rtts[] = {1, 10, 50, 160};
    double worst = 0;
    int bad = 0, all = b->megabytes <= 0;
    printf("%6s %5s | %7s %7s %7s | %7s %7s %7s | connections requests seconds\n", "MB", "ms", "best s",
           "local s", "xhdf5 s", "by late", "over", "by down");
    for (unsigned i = 0; i < (all ? 16 : 1); i += every) {
        struct measured m;
        b->megabytes = all ? sizes[i % 4] : b->megabytes;
        b->rtt_ms = all ? rtts[i / 4] : b->rtt_ms;
        int rc = measure(b, &m);
        bad += rc != 0;
        double best = m.best > 0 ? b->megabytes / m.best : 0, local = b->megabytes * b->unpack_ns_byte / 1e3;
        double took = m.rate > 0 ? b->megabytes / m.rate : 0, late = best > local ? best : local;
        double trips = (took - late) / (b->rtt_ms / 1e3);
        double down = download_seconds(b, &m, b->megabytes) + local;
        worst = took / down > worst ? took / down : worst;
        printf("%6g %5g | %7.3f %7.3f %7.3f | %7.2f %7.1f %7.2f |%s\n", b->megabytes, b->rtt_ms, best, local, took,
               took / late, trips, took / down, m.more);
        fflush(stdout);
    }
    printf("by late: time by the larger of the best plain client's and the local read's; over: round trips above it;\n"
           "by down: time by that of \"download, then open\", by one connection or, the size asked for, by up to 16;\n"
           "its worst is %.2f\n", worst);
    return bad != 0 || worst * least > 1;
}

/* A second file while the first one is open and its streams stand still, by the second one alone. */
static int run_second(struct bench *b, double least)
{
    struct measured alone, second;
    b->name = V2_ALONE;
    int rc = measure(b, &alone);
    b->name = V2_SECOND;
    rc |= measure(b, &second);
    printf("%s: %.1f MB/s; connections, requests, seconds, bytes:%s\n", V2_ALONE, alone.rate, alone.more);
    printf("%s: %.1f MB/s, %.2f of it alone; connections, requests, seconds, bytes:%s\n", V2_SECOND, second.rate,
           second.rate / alone.rate, second.more);
    if (second.rate < least * alone.rate)
        printf("that is less than %.2f: the first file's streams keep the second from its connections\n", least);
    return rc != 0 || second.rate < least * alone.rate;
}

static int in_order(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

/* The matrix of links, or each |every|-th cell of it: each one's ratio to the best plain client, and their worst, tenth
 * percentile and median. */
static int run_matrix(struct bench *b, unsigned every)
{
    static const double rtts[] = {1, 10, 50, 160}, rates[] = {0, 1000, 100}, losses[] = {0, 0.0001, 0.001}, caps[] = {0, 25};
    static const struct {
        enum sim_control control;
        const char *name;
    } controls[] = {{SIM_BBR, "bbr"}, {SIM_RENO, "reno"}, {SIM_CUBIC, "cubic"}};
    static double ratio[1024];
    size_t n = 0;
    unsigned cells = 0;
    int bad = 0;
    printf("%4s %5s %6s %6s %5s %4s %7s | %9s %9s %3s | ratio | connections requests seconds\n", "ms", "Mbit", "window", "contr.",
           "loss%", "cap", "server", "MB/s", "best", "by");
    for (unsigned i = 0; i < 4 * 3 * 2 * 3 * 3 * 2 * 2; i++) {
        struct measured m;
        unsigned k = i;
        b->dialect = k % 2 ? SIM_XROOTD : SIM_NGINX, k /= 2;
        b->cap_mb = caps[k % 2], k /= 2;
        b->loss = losses[k % 3], k /= 3;
        b->control = controls[k % 3].control;
        const char *control = controls[k % 3].name;
        k /= 3;
        b->stock = k % 2 == 0, k /= 2;
        b->rate_mbit = rates[k % 3], k /= 3;
        b->rtt_ms = rtts[k];
        if (b->cap_mb > 0 && b->rate_mbit > 0 && b->rate_mbit <= 100) /* the cap is above the link */
            continue;
        if (cells++ % every != 0)
            continue;
        int rc = measure(b, &m);
        bad += rc != 0;
        ratio[n] = m.best > 0 ? m.rate / m.best : 0;
        printf("%4g %5g %6s %6s %5g %4g %7s | %9.1f %9.1f %3u | %5.2f |%s\n", b->rtt_ms, b->rate_mbit, b->stock ? "stock" : "tuned",
               control, b->loss * 100, b->cap_mb, b->dialect == SIM_XROOTD ? "xrootd" : "nginx", m.rate, m.best, m.best_n, ratio[n], m.more);
        fflush(stdout);
        n++;
    }
    qsort(ratio, n, sizeof *ratio, in_order);
    printf("%zu cells, %d failed: worst %.2f, tenth percentile %.2f, median %.2f\n", n, bad, ratio[0], ratio[n / 10], ratio[n / 2]);
    return bad != 0;
}

/* Reads "64M" into bytes. Returns 1 where it is something else. */
static int mebibytes(const char *text, uint64_t *bytes)
{
    char *end;
    *bytes = strtoull(text, &end, 10) << 20;
    return end == text || strcmp(end, "M") != 0;
}

static void usage(void)
{
    printf("sim --seconds S [--seed FIRST] [--bad N]   tries seeds until S seconds are over or N have failed (1)\n"
           "sim --count N [--seed FIRST] [--bad N]     the same, with so many seeds\n"
           "sim --seed N [--trace [COMPONENTS]]        one seed; --trace: events of the network and the driver's log\n"
           "sim --faults                               each fault with each kind of reading, once and for ever\n"
           "sim --stragglers                           a reply that straggles, in each way, among many that do not\n"
           "sim --renewals                             the target of a redirect expires under many requests\n"
           "sim --losses                               how long the simulated TCP takes to repair them\n"
           "sim --growth                               how fast its connections grow, beside Linux's\n"
           "sim --advice                               what a user is told when a file is closed, in some situations\n"
           "sim --workload W1|W1-sets|W2|W3|W4 [--rtt MS] [--rate MBIT] [--loss PART] [--cap MB] [--control reno|cubic|bbr] [--stock]\n"
           "    [--piece BYTES] [--xrootd] [--images N] [--reads N] [--cpu NS] [--trace]   beside a plain client with 1 to 16 connections\n"
           "sim --workload … --stall N                 the reply to the N-th, connections counted, stands still\n"
           "sim --workload … --dies S              of connections there are after S seconds nothing comes any more\n"
           "sim --workload … --dies S --back B     and all that are made in the B seconds after that are refused\n"
           "sim --workload … --takes N | --serves N   the server refuses further connections, or answers\n"
           "    further requests with 429\n"
           "sim --workload … --pauses S            each reply stands still for S seconds in its midst\n"
           "sim --workload … --stalls S                that of each in turn, or each N-th (--every); more\n"
           "    than S seconds more are a failure\n"
           "sim --workload W1-down|W1-steps|W1-period|W1-then|W1-jumps|W1-back|W1-fro|W1-any|W1-aside|\n"
           "    W1-blocks|W2-blocks|W2-down|W2-large|W2-steps|W2-period|W4-data …   other orders; small datasets\n"
           "sim --workload W1-twice …                  each piece is read twice, one read after the other\n"
           "sim --workload W1-pool|W2-pool [--threads N] …   by so many threads (4), each of which takes the next\n"
           "    piece\n"
           "sim --workload W1-some|W2-some [--kept N] …      N of ten pieces (7), by chance, in order\n"
           "sim --workload W1-turns [--sources N] …    so many datasets in turns, a piece of each\n"
           "sim --workload W1-… --pieces N …           the first so many pieces of the order\n"
           "sim --workload W3 --row N [--threads N] …  so many reads from each place, one behind the other, by\n"
           "    so many threads (4), each from a place of its own; W3-pool: each takes the next\n"
           "sim --workload W1|W2 … [--single]          one range in a request, as with S3\n"
           "sim --workload W1|W2 … [--shuffled]        a reply's parts come in another order than they were asked for\n"
           "sim --workload W1 … [--least R] [--within S]   less than R of the best plain client, or more than S\n"
           "    seconds, are a failure\n"
           "sim --workload W1 … --most MB    more that comes is a failure; --requests N: more of them are\n"
           "sim --workload W1 … --again MB   a second process reads it, too; more than so much is a failure\n"
           "sim --workload S1 …                        one image of W1's dataset, somewhere\n"
           "sim --workload W4-4M|W4-10M|W4-40M|W4-tree|W4-dense[-one] … [--least R]   a walk in a file of that size, or one of its\n"
           "    datasets; W4-tree, W4-dense: 40 MB with nested groups, a sixth and most of it in the walk's way;\n"
           "    beside one connection and eight\n"
           "sim --workload W4…-data …                  small datasets are read as well; --each N: each N-th\n"
           "    of them; W4…-off: with readahead=off\n"
           "sim --workload W1|W2 --matrix [--every N] [--images N]   the same on each link of the\n"
           "    matrix, or each N-th\n"
           "sim --workload W2-gzip [--megabytes MB] [--unpack NS] [--least R]\n"
           "    packed chunks, a reader that takes NS for a byte;\n"
           "    beside download-then-open; without MB: 1 to 700 MB at 1 to 160 ms, or each N-th of these (--every)\n"
           "sim --workload R-stream|R-steps|R-random|R-scattered|R-strides|R-announced [--readers N] [--reads N]\n"
           "    [--piece BYTES] [--megabytes MB]   the cache without HDF5: so many pieces for each reader,\n"
           "    of a file of so many MB; scattered: many in a call\n"
           "sim --workload R-beside [--images N] [--reads N] [--within S]   a stream, and from its fourth second\n"
           "    on a reader of so many small pieces, which is timed\n"
           "sim --workload … --site RTT,MBIT,LOSS[,SECONDS,MBIT]   another server has the file too, behind a link of\n"
           "    its own, which may get another rate; up to four times\n"
           "sim --workload M1|M1-off …   50 files of 1.3 MB one after another: opened, looked at; -off: readahead=off\n"
           "sim --workload M2 …   the same, and a number that lies deep in each is read\n"
           "sim --workload M3 …   12 files, of each 600 datasets are opened, which lie up to 30 groups deep\n"
           "sim --workload M4 [--piece BYTES] [--file-bytes N] …   8 files of 4 MB, all of each is read in pieces\n"
           "sim --workload M5 [--piece BYTES] [--file-bytes N] …   60 files of 440 KB, all of each is read at\n"
           "    once, or in pieces; M5-turns: a file of each of two kinds in turn\n"
           "sim --workload A1 --seed N …   blocks of a contiguous array of three axes, 8 to 64 MB: the seed's\n"
           "sim --workload A2 [--pieces N] …   planes across an array of 419 MB, the first so many\n"
           "sim --workload V1 [--sources N] [--source-bytes NM] [--connections N] [--readahead-bytes NM] [--alone]\n"
           "    [--least R [--beside R]]   a virtual dataset over files, one after another and side by side, beside the\n"
           "    same data in one file; by that, where less than R is a failure\n"
           "sim --workload V2 [--images N] [--least R]   a file, while another one is open, of which a quarter\n"
           "    was read; by the file alone, where less than R is a failure\n");
}

/* Returns 0, or 1: |word| describes no site, or there are too many. */
static int add_site(struct bench *b, const char *word)
{
    struct site *s = &b->site[b->sites];
    if (b->sites == SIM_SITES_MOST ||
        sscanf(word, "%lf,%lf,%lf,%lf,%lf", &s->rtt_ms, &s->rate_mbit, &s->loss, &s->seconds, &s->then_mbit) < 3)
        return 1;
    b->sites++;
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", 1, NULL, 's'}, {"count", 1, NULL, 'C'}, {"seed", 1, NULL, 'n'}, {"bad", 1, NULL, 'b'}, {"trace", 2, NULL, 't'}, {"workload", 1, NULL, 'w'},
        {"rtt", 1, NULL, 'r'}, {"rate", 1, NULL, 'm'}, {"loss", 1, NULL, 'l'}, {"cap", 1, NULL, 'c'}, {"control", 1, NULL, 'k'},
        {"stock", 0, NULL, 'o'}, {"xrootd", 0, NULL, 'x'}, {"images", 1, NULL, 'i'}, {"cpu", 1, NULL, 'p'},
        {"reads", 1, NULL, 'R'}, {"piece", 1, NULL, 'P'}, {"matrix", 0, NULL, 'M'}, {"every", 1, NULL, 'e'},
        {"megabytes", 1, NULL, 'm' + 256}, {"unpack", 1, NULL, 'u'}, {"sources", 1, NULL, 'S'},
        {"source-bytes", 1, NULL, 'B'}, {"faults", 0, NULL, 'F'}, {"least", 1, NULL, 'L'},
        {"beside", 1, NULL, 'b' + 512}, {"file-bytes", 1, NULL, 'f' + 256},
        {"requests", 1, NULL, 'r' + 768},
        {"stragglers", 0, NULL, 'G'}, {"losses", 0, NULL, 'D'}, {"growth", 0, NULL, 'g'},
        {"renewals", 0, NULL, 'n' + 256},
        {"connections", 1, NULL, 'N'}, {"alone", 0, NULL, 'a'}, {"single", 0, NULL, '1'}, {"shuffled", 0, NULL, 'U'},
        {"again", 1, NULL, 'a' + 256},
        {"readahead-bytes", 1, NULL, 'b' + 256},
        {"stall", 1, NULL, 'l' + 256}, {"dies", 1, NULL, 'd'}, {"back", 1, NULL, 'b' + 768},
        {"pauses", 1, NULL, 'p' + 256},
        {"within", 1, NULL, 'W'}, {"stalls", 1, NULL, 'l' + 512},
        {"takes", 1, NULL, 't' + 256}, {"serves", 1, NULL, 's' + 512},
        {"advice", 0, NULL, 'A'}, {"readers", 1, NULL, 'r' + 256}, {"threads", 1, NULL, 't' + 512},
        {"kept", 1, NULL, 'k' + 256}, {"pieces", 1, NULL, 'p' + 512}, {"row", 1, NULL, 'r' + 512},
        {"each", 1, NULL, 'e' + 256}, {"most", 1, NULL, 'm' + 512}, {"site", 1, NULL, 's' + 256},
        {"help", 0, NULL, 'h'}, {0},
    };
    struct bench b = {.rtt_ms = 50, .control = SIM_BBR, .images = 100, .reads = 1000, .sources = 16,
                      .source_bytes = 64u << 20, .readers = 1, .threads = 4, .kept = 7, .seed = 1,
                      .unpack_ns_byte = GZIP_NS_BYTE};
    double seconds = 0, least = 0, beside = 0, again = -1, stalls = -1, within = 0;
    uint64_t seed = 0, count = 0;
    unsigned bad = 1, every = 1;
    int has_seed = 0, matrix = 0, bad_word = 0, c;
    clearenv(); /* credentials and options of the caller are not what is simulated */
    setenv("HOME", "/nonexistent", 1);
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 's': seconds = strtod(optarg, NULL); break;
        case 'C': count = strtoull(optarg, NULL, 10); break;
        case 'n': seed = b.seed = strtoull(optarg, NULL, 10); has_seed = 1; break;
        case 'b': bad = (unsigned)strtoul(optarg, NULL, 10); break;
        case 't': sim_tracing = 1; if (optarg) xh_trace_enable(optarg); break;
        case 'R': b.reads = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'M': matrix = 1; break;
        case 'e': every = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'P': b.piece_bytes = strtoull(optarg, NULL, 10); break;
        case 'F': return try_faults();
        case 'N': b.connections = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'b' + 256: bad_word |= mebibytes(optarg, &b.readahead_bytes); break;
        case 'L': least = strtod(optarg, NULL); break;
        case 'b' + 512: beside = strtod(optarg, NULL); break;
        case 'G': return try_cases(&stragglers);
        case 'n' + 256: return try_cases(&renewals);
        case 'D': return try_cases(&losses);
        case 'g': return try_cases(&growths);
        case 'A': return try_situations();
        case 'w': b.name = optarg; break;
        case 'W': within = strtod(optarg, NULL); break;
        case 'p' + 256: b.pauses_s = strtod(optarg, NULL); break;
        case 't' + 256: b.takes = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's' + 512: b.serves = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'd': b.dies_s = strtod(optarg, NULL); break;
        case 'b' + 768: b.back_s = strtod(optarg, NULL); break;
        case 'l' + 256: b.stall = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'l' + 512: stalls = strtod(optarg, NULL); break;
        case 'r': b.rtt_ms = strtod(optarg, NULL); break;
        case 'm': b.rate_mbit = strtod(optarg, NULL); break;
        case 'l': b.loss = strtod(optarg, NULL); break;
        case 'c': b.cap_mb = strtod(optarg, NULL); break;
        case 'k': b.control = *optarg == 'r' ? SIM_RENO : *optarg == 'c' ? SIM_CUBIC : SIM_BBR; break;
        case 'o': b.stock = 1; break;
        case 'a': b.alone = 1; break;
        case '1': b.single = 1; break;
        case 'U': b.shuffles = 1; break;
        case 'a' + 256: again = strtod(optarg, NULL); break;
        case 't' + 512:
            b.threads = (unsigned)strtoul(optarg, NULL, 10);
            bad_word |= b.threads < 1 || b.threads > 64;
            break;
        case 'k' + 256:
            b.kept = (unsigned)strtoul(optarg, NULL, 10);
            bad_word |= b.kept < 1 || b.kept > 10;
            break;
        case 'p' + 512: b.pieces = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'r' + 768: b.most_requests = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'm' + 512: b.most_mb = strtod(optarg, NULL); break;
        case 'e' + 256: b.each = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'r' + 512: b.row = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'r' + 256: b.readers = (unsigned)strtoul(optarg, NULL, 10); break;
        case 's' + 256: bad_word |= add_site(&b, optarg); break;
        case 'x': b.dialect = SIM_XROOTD; break;
        case 'm' + 256: b.megabytes = strtod(optarg, NULL); break;
        case 'u': b.unpack_ns_byte = strtod(optarg, NULL); break;
        case 'S': b.sources = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'f' + 256: b.file_bytes = strtoull(optarg, NULL, 10); break;
        case 'B': bad_word |= mebibytes(optarg, &b.source_bytes); break;
        case 'i': b.images = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'p': b.client_ns_byte = strtod(optarg, NULL); break;
        default: usage(); return c == 'h' ? 0 : 2;
        }
    }
    if (bad_word) {
        usage();
        return 2;
    }
    if (b.name && stalls >= 0)
        return run_stalls(&b, every ? every : 1, stalls);
    if (b.name && strcmp(b.name, GZIP) == 0)
        return run_gzip(&b, every ? every : 1, least);
    if (b.name && strcmp(b.name, "V1") == 0)
        return run_virtual(&b, least, beside > 0 ? beside : least);
    if (b.name && strcmp(b.name, "V2") == 0)
        return run_second(&b, least);
    if (b.name && again >= 0)
        return run_again(&b, again);
    if (b.name)
        return matrix ? run_matrix(&b, every ? every : 1) : run_workload(&b, least, within);
    if (seconds > 0 || count > 0)
        return search(seconds, count, seed, bad);
    if (has_seed)
        return try_seed(seed, !sim_tracing, 1);
    usage();
    return 2;
}
