/* Reads ranges of a URL through the origin alone and compares every byte with a local copy:
 * single ranges, many ranges, speculation mixed with demand, cancelled transfers, a second
 * opening with the first one's hint, a fork, an exit with transfers under way.
 *
 * origin_read URL LOCALFILE [SEED [ROUNDS]]     the test
 * origin_read --rate URL SECONDS [PART_BYTES [DEPTH]]   bytes per second, nothing compared
 * origin_read --parts URL LOCALFILE RANGES LEN [close|cancel|exit]
 *                                               the whole file in demands of RANGES ranges of LEN bytes and
 *                                               as large gaps, and the gaps; all at once, twice. Or ends so
 *                                               as soon as one was hedged
 * origin_read --open URL [HINT]                 one opening: facts or the error
 * origin_read --until-changed URL               says "reading", reads until it fails, says how */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "origin/origin.h"
#include "watch/trace.h"

#define RANGES_MAX 600

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t seed = 1;
static const uint8_t *local;
static uint64_t local_size;
static struct xh_counters counters;
static struct xh_options options;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    _exit(1);
}

static uint64_t dice(uint64_t n) /* splitmix64 */
{
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return n ? (z ^ z >> 31) % n : 0;
}

/* One transfer under test: next[i] is the offset that range i's next byte must have. */
struct job {
    struct xh_transfer t;
    struct xh_range ranges[RANGES_MAX];
    uint64_t next[RANGES_MAX];
    int done; /* under the lock */
    struct xh_err err;
};

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct job *j = t->ctx;
    size_t low = 0, high = t->nranges;
    while (low + 1 < high) {
        size_t mid = (low + high) / 2;
        if (j->ranges[mid].off <= off)
            low = mid;
        else
            high = mid;
    }
    if (j->done)
        die("bytes after done");
    if (off != j->next[low] || len > j->ranges[low].off + j->ranges[low].len - off)
        die("bytes at %" PRIu64 "+%zu, expected at %" PRIu64, off, len, j->next[low]);
    if (local && memcmp(data, local + off, len) != 0)
        die("wrong bytes at %" PRIu64 "+%zu", off, len);
    j->next[low] += len;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct job *j = t->ctx;
    pthread_mutex_lock(&lock);
    if (j->done)
        die("done twice");
    if (err)
        j->err = *err;
    else
        for (size_t i = 0; i < t->nranges; i++)
            if (j->next[i] != j->ranges[i].off + j->ranges[i].len)
                die("done without the bytes from %" PRIu64, j->next[i]);
    j->done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int by_offset(const void *a, const void *b)
{
    const struct xh_range *x = a, *y = b;
    return x->off < y->off ? -1 : x->off > y->off;
}

/* Fills |j| with up to |n| random ranges, sorted and disjoint. */
static void random_job(struct job *j, size_t n, uint64_t longest)
{
    memset(j, 0, sizeof *j);
    for (size_t i = 0; i < n; i++) {
        j->ranges[i].off = dice(local_size);
        j->ranges[i].len = 1 + dice(longest);
    }
    qsort(j->ranges, n, sizeof *j->ranges, by_offset);
    size_t kept = 0;
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        struct xh_range r = j->ranges[i];
        if (r.off < end)
            continue;
        if (r.len > local_size - r.off)
            r.len = local_size - r.off;
        end = r.off + r.len;
        j->ranges[kept] = r;
        j->next[kept++] = r.off;
    }
    j->t = (struct xh_transfer){.ranges = j->ranges, .nranges = kept, .ctx = j, .bytes = on_bytes, .done = on_done};
}

static void wait_for(struct job *j)
{
    pthread_mutex_lock(&lock);
    while (!j->done)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void submit(struct xh_origin *o, struct job **jobs, size_t n)
{
    struct xh_transfer *ts[64];
    struct xh_err err;
    assert(n <= 64);
    for (size_t i = 0; i < n; i++)
        ts[i] = &jobs[i]->t;
    if (xh_origin_submit(o, ts, n, &err) != 0)
        die("submit: %s", err.text);
}

static struct xh_origin *open_origin(const char *url, const char *hint, struct xh_origin_head *head)
{
    struct xh_origin *o;
    struct xh_err err;
    if (xh_origin_open(url, &options, hint, 0, &counters, NULL, &o, head, &err) != 0)
        die("open: %s: %s", xh_err_name(err.code), err.text);
    return o;
}

static void expect_success(struct job *j)
{
    wait_for(j);
    if (j->err.code)
        die("transfer: %s: %s", xh_err_name(j->err.code), j->err.text);
}

/* One round: several transfers at once, some speculative, some of them cancelled. */
static void round_of(struct xh_origin *o)
{
    struct job *jobs[16];
    int cancelled[16] = {0};
    size_t n = 1 + dice(16);
    for (size_t i = 0; i < n; i++) {
        if (!(jobs[i] = malloc(sizeof *jobs[i])))
            die("out of memory");
        uint64_t kind = dice(4);
        random_job(jobs[i], kind == 0 ? 1 : kind == 1 ? 1 + dice(8) : 1 + dice(RANGES_MAX),
                   kind == 0 ? 2000000 : kind == 1 ? 100000 : 3000);
        jobs[i]->t.speculative = (int)dice(2);
    }
    submit(o, jobs, n);
    for (size_t i = 0; i < n; i++)
        if (dice(6) == 0) {
            pthread_mutex_lock(&lock);
            if (!jobs[i]->done) { /* done() cannot come while we hold the lock: it takes it */
                xh_origin_cancel(o, &jobs[i]->t);
                cancelled[i] = 1;
            }
            pthread_mutex_unlock(&lock);
        }
    for (size_t i = 0; i < n; i++) {
        wait_for(jobs[i]);
        if (jobs[i]->err.code && !(cancelled[i] && jobs[i]->err.code == XH_E_CANCELLED))
            die("transfer: %s: %s", xh_err_name(jobs[i]->err.code), jobs[i]->err.text);
        free(jobs[i]);
    }
}

static void check_head(const struct xh_origin_head *head)
{
    uint64_t most = local_size < options.head_bytes ? local_size : options.head_bytes;
    /* A server may send less than it was asked for, but not nothing; or all of the file. */
    if ((head->len > most && head->len != local_size) ||
        (most && (head->len == 0 || memcmp(head->bytes, local, head->len) != 0)))
        die("the head has %zu bytes or wrong ones", head->len);
}

/* Runs after the engine's exit handler. What a child inherited is leaked on purpose, so a
 * leak checker must not come after it. */
static int is_child;
static void leave(void)
{
    if (is_child)
        _exit(0);
}

/* A fork's child reads by itself, with the parent's origin and with one of its own. */
static void check_fork(struct xh_origin *o, const char *url)
{
    struct job *under_way = malloc(sizeof *under_way), *j = malloc(sizeof *j);
    if (!under_way || !j)
        die("out of memory");
    random_job(under_way, 200, 20000);
    submit(o, &under_way, 1);
    pid_t pid = fork();
    if (pid == 0) {
        struct xh_origin_head head;
        is_child = 1;
        alarm(200); /* a hang is a failure */
        random_job(j, 50, 10000);
        submit(o, &j, 1);
        expect_success(j);
        struct xh_origin *own = open_origin(url, NULL, &head);
        free(head.bytes);
        round_of(own);
        xh_origin_close(own);
        xh_origin_close(o);
        exit(0);
    }
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        die("the child failed: %d", status);
    expect_success(under_way);
    free(under_way);
    free(j);
}

static void map_local(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0)
        die("%s: %s", path, strerror(errno));
    local_size = (uint64_t)st.st_size;
    local = local_size ? mmap(NULL, local_size, PROT_READ, MAP_PRIVATE, fd, 0) : (const uint8_t *)"";
}

static int test(const char *url, const char *path, unsigned rounds)
{
    struct xh_origin_head head;
    struct xh_origin_info info;
    char hint[1024];
    map_local(path);
    struct xh_origin *o = open_origin(url, NULL, &head);
    xh_origin_get_info(o, &info);
    if (info.size != local_size)
        die("size %" PRIu64 " instead of %" PRIu64, info.size, local_size);
    check_head(&head);
    free(head.bytes);
    for (unsigned i = 0; i < rounds && local_size; i++)
        round_of(o);
    if (local_size)
        check_fork(o, url);
    if (xh_origin_hint(o, hint, sizeof hint) == 0)
        die("no hint");
    struct xh_origin *again = open_origin(url, hint, &head);
    if (!head.confirmed || head.bytes)
        die("the hint was not confirmed: %s", hint);
    xh_origin_close(again);
    again = open_origin(url, "rtt_us=20 xhdf5-origin-3 size=7 whole=0 young=0 changed=-1 tag= proof=etag "
                             "value=\"other\"", &head);
    if (head.confirmed)
        die("a wrong hint was confirmed");
    check_head(&head);
    free(head.bytes);
    xh_origin_close(again);
    xh_origin_get_info(o, &info);
    printf("ok: %s max_ranges=%u rtt_ms=%.2f MB/s=%.0f connections=%u\n", info.validator, info.max_ranges,
           (double)info.rtt_ns / 1e6, (double)info.second_bytes / 1e6, info.open);
    if (!local_size) {
        xh_origin_close(o);
        return 0;
    }
    /* Closing with transfers under way. */
    struct job *j = malloc(sizeof *j);
    if (!j)
        die("out of memory");
    random_job(j, 300, 100000);
    submit(o, &j, 1);
    xh_origin_close(o);
    if (!j->done)
        die("close returned before done");
    /* An exit with transfers under way: they stay reachable, and so does the origin. */
    static struct xh_origin *left;
    static struct job *abandoned;
    left = open_origin(url, NULL, &head);
    free(head.bytes);
    random_job(j, 300, 100000);
    abandoned = j;
    submit(left, &abandoned, 1);
    return 0;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Keeps |depth| transfers of |part| bytes under way for |for_s| seconds. */
static int rate(const char *url, double for_s, uint64_t part, size_t depth)
{
    struct xh_origin_head head;
    struct xh_origin_info info;
    struct rusage use;
    struct job **jobs = calloc(depth, sizeof *jobs);
    struct xh_origin *o = open_origin(url, NULL, &head);
    free(head.bytes);
    xh_origin_get_info(o, &info);
    uint64_t off = 0, bytes = 0;
    double begin = seconds();
    size_t under_way = 0;
    for (size_t i = 0;; i = (i + 1) % depth) {
        int ends = seconds() - begin > for_s;
        if (jobs[i]) {
            expect_success(jobs[i]);
            bytes += jobs[i]->ranges[0].len;
            free(jobs[i]);
            jobs[i] = NULL;
            under_way--;
        }
        if (ends && under_way == 0)
            break;
        if (ends)
            continue;
        if (off + part > info.size)
            off = 0;
        jobs[i] = calloc(1, sizeof *jobs[i]);
        jobs[i]->ranges[0] = (struct xh_range){off, part};
        jobs[i]->next[0] = off;
        jobs[i]->t = (struct xh_transfer){
            .ranges = jobs[i]->ranges, .nranges = 1, .ctx = jobs[i], .bytes = on_bytes, .done = on_done};
        submit(o, &jobs[i], 1);
        under_way++;
        off += part;
    }
    double took = seconds() - begin;
    struct xh_stats stats;
    xh_origin_get_info(o, &info);
    xh_counters_snapshot(&counters, &stats);
    getrusage(RUSAGE_SELF, &use);
    double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
    printf("%.0f MB/s, %.3f CPU s/GB, %" PRIu64 " requests, %" PRIu64
           " connections opened, rtt %.2f ms, estimate %.0f MB/s\n",
           (double)bytes / took / 1e6, cpu / ((double)bytes / 1e9), stats.requests, stats.connections,
           (double)info.rtt_ns / 1e6, (double)info.second_bytes / 1e6);
    xh_origin_close(o);
    free(jobs);
    return 0;
}

/* Ends |n| jobs while one of them is under way twice: each is told of once. The server never ends either. */
static void end_hedged(struct xh_origin *o, struct job *jobs, size_t n, const char *how)
{
    double begin = seconds();
    while (atomic_load(&counters.hedged) == 0) {
        if (seconds() - begin > 50)
            die("nothing was hedged");
        usleep(1000); /* no gate is there: it is the engine's own decision */
    }
    if (strcmp(how, "exit") == 0)
        exit(0);
    for (size_t i = 0; i < n && strcmp(how, "cancel") == 0; i++) {
        pthread_mutex_lock(&lock);
        if (!jobs[i].done)
            xh_origin_cancel(o, &jobs[i].t);
        pthread_mutex_unlock(&lock);
        wait_for(&jobs[i]);
    }
    xh_origin_close(o);
    size_t cancelled = 0;
    for (size_t i = 0; i < n; i++) {
        if (!jobs[i].done || (jobs[i].err.code && jobs[i].err.code != XH_E_CANCELLED))
            die("%zu: done=%d %s", i, jobs[i].done, jobs[i].err.text);
        cancelled += jobs[i].err.code != 0;
    }
    if (cancelled == 0)
        die("none was cancelled");
    free(jobs);
    exit(0);
}

/* Demands every byte at once, so that transfers are peers; prints what the slower of two rounds took. */
static int parts(const char *url, size_t nranges, uint64_t len, const char *how)
{
    struct xh_origin_head head;
    struct xh_stats stats;
    struct xh_origin *o = open_origin(url, NULL, &head);
    uint64_t block = 2 * nranges * len;
    size_t n = 2 * (size_t)(local_size / block);
    static struct job *jobs; /* reachable when the process exits */
    jobs = calloc(n, sizeof *jobs);
    double slowest = 0;
    if (!jobs || nranges == 0 || nranges > RANGES_MAX || n == 0)
        die("no such parts");
    free(head.bytes);
    for (int round = 0; round < 2; round++) {
        double begin = seconds();
        for (size_t i = 0; i < n; i++) {
            struct job *j = &jobs[i], *list[] = {j};
            memset(j, 0, sizeof *j);
            for (size_t k = 0; k < nranges; k++) {
                j->next[k] = i / 2 * block + (2 * k + i % 2) * len;
                j->ranges[k] = (struct xh_range){j->next[k], len};
            }
            j->t = (struct xh_transfer){
                .ranges = j->ranges, .nranges = nranges, .ctx = j, .bytes = on_bytes, .done = on_done};
            submit(o, list, 1);
        }
        if (how)
            end_hedged(o, jobs, n, how);
        for (size_t i = 0; i < n; i++)
            expect_success(&jobs[i]);
        if (seconds() - begin > slowest)
            slowest = seconds() - begin;
    }
    xh_origin_close(o);
    xh_counters_snapshot(&counters, &stats);
    printf("transfers=%zu slowest_ms=%.0f requests=%" PRIu64 " hedged=%" PRIu64 " retries=%" PRIu64 " bytes=%" PRIu64
           " multirange=%" PRIu64 "\n", 2 * n, slowest * 1e3, stats.requests, stats.hedged, stats.retries,
           stats.bytes_fetched, stats.multirange_requests);
    free(jobs);
    return 0;
}

static int open_only(const char *url, const char *hint)
{
    struct xh_origin_head head;
    struct xh_origin_info info;
    struct xh_origin *o;
    struct xh_err err;
    char text[1024];
    int rc = xh_origin_open(url, &options, hint, 0, &counters, NULL, &o, &head, &err);
    if (rc != 0) {
        printf("%s %d %s\n", xh_err_name(rc), err.status, err.text);
        return 3;
    }
    xh_origin_get_info(o, &info);
    printf("size=%" PRIu64 " validator=%s head=%zu confirmed=%d unverified=%d\n", info.size, info.validator, head.len,
           head.confirmed, head.unverified);
    if (xh_origin_hint(o, text, sizeof text))
        printf("%s\n", text);
    free(head.bytes);
    xh_origin_close(o);
    return 0;
}

/* Reads one range after another until the origin notices that it was changed. */
static int until_changed(const char *url)
{
    struct xh_origin_head head;
    struct xh_origin_info info;
    struct xh_origin *o = open_origin(url, NULL, &head);
    struct job *j = malloc(sizeof *j);
    free(head.bytes);
    xh_origin_get_info(o, &info);
    local_size = info.size;
    puts("reading");
    fflush(stdout);
    do {
        random_job(j, 4, 1000);
        submit(o, &j, 1);
        wait_for(j);
    } while (j->err.code == 0);
    printf("%s: %s\n", xh_err_name(j->err.code), j->err.text);
    /* Whoever comes later gets the same answer. */
    int code = j->err.code;
    random_job(j, 4, 1000);
    submit(o, &j, 1);
    wait_for(j);
    if (j->err.code != code)
        die("then: %s", xh_err_name(j->err.code));
    xh_origin_close(o);
    free(j);
    return 0;
}

int main(int argc, char **argv)
{
    struct xh_err err;
    xh_options_defaults(&options);
    if (xh_options_from_env(&options, &err) != 0)
        die("%s", err.text);
    xh_trace_enable(options.log);
    atexit(leave);
    if (argc >= 4 && strcmp(argv[1], "--rate") == 0)
        return rate(argv[2], atof(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : 1 << 20,
                    argc > 5 ? strtoull(argv[5], NULL, 10) : 32);
    if (argc >= 6 && strcmp(argv[1], "--parts") == 0) {
        map_local(argv[3]);
        return parts(argv[2], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10), argc > 6 ? argv[6] : NULL);
    }
    if (argc >= 3 && strcmp(argv[1], "--open") == 0)
        return open_only(argv[2], argc > 3 ? argv[3] : NULL);
    if (argc == 3 && strcmp(argv[1], "--until-changed") == 0)
        return until_changed(argv[2]);
    if (argc < 3)
        die("usage: origin_read URL LOCALFILE [SEED [ROUNDS]]");
    seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    return test(argv[1], argv[2], argc > 4 ? (unsigned)atoi(argv[4]) : 30);
}
