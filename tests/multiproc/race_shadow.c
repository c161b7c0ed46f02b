/* Nobody ever gets a byte that the origin does not have at that place, and no page stays stuck:
 * processes claim, fill, publish, abandon, wait, read, evict and reopen at random while they are
 * killed at random moments and replaced.
 *
 *   race_shadow PROCESSES THREADS ROUNDS [SEED [damage]]
 *
 * A round is one process's life: it dies by SIGKILL at a random moment, from before its first
 * open on, or at a random step (steps.h). ROUNDS 0: nobody is killed, every process ends after some
 * thousand operations. Some are suspended for a while, and wake later. The model: a byte is a function of URL,
 * version and offset, so that one of another file, version or place is seen. Besides bytes it is checked that no page
 * is claimed by two living processes at once.
 * With "damage" the parent also truncates, scribbles over, replaces and removes files while they are
 * mapped and filled; then a process may lose a claim, but nobody gets a wrong byte, or dies of it.
 * Ends with 0 when all holds. Plain main(), for ThreadSanitizer. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shadow/clock.h"
#include "shadow/impl.h"
#include "shadow/store.h"
#include "steps.h"

enum { PAGES_MAX = 1500, VERSIONS = 4, PROCESSES_MAX = 64, CALM_OPS = 4000, STEPS_MAX = 6000 };
static const uint64_t pages[VERSIONS] = {PAGES_MAX, 40, 600, 600}; /* 40: everybody at the same pages */
static const char *const url[VERSIONS] = {"https://h/f.h5", "https://h/f.h5", "https://h/f.h5", "https://h/g.h5"};
static const char *const validator[VERSIONS] = {"v0", "v1", "v2", "v2"};
#define PAGE XH_PAGE_BYTES
#define BUDGET_BYTES (4u << 20) /* less than one version: eviction, dropping, everything at once */
#define LIFE_MAX_NS 30000000

/* Shared by all processes. */
struct shared {
    _Atomic uint64_t reads, bytes, claims, none, takeovers, evicted, privates, damages, wrong;
    _Atomic uint64_t holder[VERSIONS][PAGES_MAX]; /* see mark() */
};
static struct shared *sh;
static struct xh_options opt;
static char dir[64];
static uint32_t serial; /* of this process */
static int calm, damage;

#ifdef __SANITIZE_THREAD__
/* Its look-up tables are guarded by its own locks, which cannot be seen. Visible, or the runtime does not find it. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libcrypto.so\nrace:libcrypto.so\n";
}
#endif

static uint8_t truth(int version, uint64_t off)
{
    uint64_t x = ((off >> 3) + (uint64_t)version * 1000003) * 0x9e3779b97f4a7c15ull + 1;
    return (uint8_t)((x ^ x >> 29) >> (off & 7) * 8) | 1;
}

static uint32_t rnd(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33);
}

static void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "race_shadow: process %u: ", serial);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    atomic_fetch_add(&sh->wrong, 1);
}

static uint64_t size_of(int version)
{
    return pages[version] * PAGE - 1000 * (uint64_t)(version % 3);
}

static struct xh_shadow *open_version(int v)
{
    struct xh_shadow *s = NULL;
    if (xh_shadow_open(url[v], validator[v], size_of(v), &opt, &s, NULL) < 0)
        abort();
    if (xh_shadow_private(s))
        atomic_fetch_add(&sh->privates, 1);
    return s;
}

/* Who holds a page of which file. */
static uint64_t mark(struct xh_shadow *s, int held)
{
    struct stat st;
    fstat(s->fd, &st);
    return (uint64_t)st.st_ino << 24 | (uint64_t)serial << 1 | (uint64_t)held;
}

static void hold(struct xh_shadow *s, int v, uint64_t idx)
{
    if (!xh_shadow_private(s))
        atomic_store(&sh->holder[v][idx], mark(s, 1));
}

/* Whose claim was taken over is dead: so it is not this process's. And one name is one file for
 * as long as anybody has it open, as nothing damages files here. */
static void let_go(struct xh_shadow *s, int v, uint64_t idx)
{
    uint64_t mine = mark(s, 1), there = mine;
    if (damage || xh_shadow_private(s) || atomic_compare_exchange_strong(&sh->holder[v][idx], &there, mark(s, 0)))
        return;
    struct stat st;
    fstat(s->fd, &st);
    fail("page %llu of v%d: mark %llx became %llx; the file has %d names, the word is %llx, owner %x",
         (unsigned long long)idx, v, (unsigned long long)mine, (unsigned long long)there, (int)st.st_nlink,
         (unsigned long long)atomic_load(&s->words[idx]), atomic_load(&s->owner));
}

static size_t len_of(int v, uint64_t idx)
{
    uint64_t left = size_of(v) - idx * PAGE;
    return left < PAGE ? (size_t)left : PAGE;
}

static void fill(struct xh_shadow *s, int v, uint64_t idx, uint64_t *seed)
{
    uint8_t buf[PAGE];
    size_t len = len_of(v, idx);
    for (size_t i = 0; i < len; i++)
        buf[i] = truth(v, idx * PAGE + i);
    int bad = rnd(seed) % 16 == 0 || xh_shadow_fill(s, idx * PAGE, buf, len);
    let_go(s, v, idx); /* before the word says so: the next holder may be quick */
    if (bad)
        xh_shadow_abandon(s, idx, 1);
    else
        xh_shadow_publish(s, idx, 1, NULL);
}

static void claim_some(struct xh_shadow *s, int v, uint64_t *seed, struct xh_counters *c)
{
    uint64_t first = rnd(seed) % pages[v], n = 1 + rnd(seed) % 32, mine[32], got = 0;
    for (uint64_t i = first; i < first + n && i < pages[v]; i++) {
        switch (xh_shadow_claim(s, i, i % 16 == 0, c)) {
        case XH_CLAIM_MINE:
            mine[got++] = i;
            hold(s, v, i);
            break;
        case XH_CLAIM_BUSY: xh_shadow_wait(s, i, (int)(rnd(seed) % 20), c); break;
        case XH_CLAIM_NONE: atomic_fetch_add(&sh->none, 1); break;
        case XH_CLAIM_READY: break;
        }
    }
    for (uint64_t i = 0; i < got; i++)
        fill(s, v, mine[i], seed);
    atomic_fetch_add(&sh->claims, got);
}

/* The same for later: some are taken from others, some by others before they are begun. */
static void claim_some_later(struct xh_shadow *s, int v, uint64_t *seed, struct xh_counters *c)
{
    uint64_t first = rnd(seed) % pages[v], n = 1 + rnd(seed) % 32, mine[32], got = 0;
    int take = rnd(seed) % 2;
    for (uint64_t i = first; i < first + n && i < pages[v]; i++)
        if (xh_shadow_claim_later(s, i, i % 16 == 0, take, c) == XH_CLAIM_MINE)
            mine[got++] = i;
    if (rnd(seed) % 4 == 0)
        nanosleep(&(struct timespec){.tv_nsec = rnd(seed) % 300000}, NULL);
    for (uint64_t i = 0; i < got; i++) {
        if (rnd(seed) % 8 == 0) {
            xh_shadow_forgo(s, mine[i], 1);
        } else if (xh_shadow_begin(s, mine[i])) {
            hold(s, v, mine[i]);
            fill(s, v, mine[i], seed);
            atomic_fetch_add(&sh->claims, 1);
        }
    }
}

static void read_some(struct xh_shadow *s, int v, uint64_t *seed)
{
    static __thread uint8_t buf[40 * PAGE];
    uint64_t off = (uint64_t)rnd(seed) % size_of(v);
    size_t got = xh_shadow_read(s, off, buf, 1 + rnd(seed) % sizeof buf);
    for (size_t i = 0; i < got; i++)
        if (buf[i] != truth(v, off + i)) {
            fail("byte %llu of v%d is %02x, not %02x", (unsigned long long)(off + i), v, buf[i],
                 truth(v, off + i));
            break;
        }
    atomic_fetch_add(&sh->reads, 1);
    atomic_fetch_add(&sh->bytes, got);
}

static void *work(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    struct xh_counters c = {0};
    int v = (int)(rnd(&seed) % VERSIONS);
    struct xh_shadow *s = open_version(v);
    if (!calm && rnd(&seed) % 2)
        atomic_store(&steps_left, 1 + rnd(&seed) % STEPS_MAX);
    for (uint64_t op = 0; !calm || op < CALM_OPS; op++) {
        uint32_t what = rnd(&seed) % 100;
        if (what < 20)
            claim_some(s, v, &seed, &c);
        else if (what < 40)
            claim_some_later(s, v, &seed, &c);
        else if (what < 50)
            xh_clock_sweep(s, rnd(&seed) % 8 * 4 * PAGE, 0, &c);
        else if (what < 98)
            read_some(s, v, &seed);
        else if (what == 98)
            xh_shadow_hint_save(s, "a hint");
        else {
            xh_shadow_close(s);
            v = (int)(rnd(&seed) % VERSIONS);
            s = open_version(v);
        }
        if (op % 16 == 0) {
            atomic_fetch_add(&sh->takeovers, atomic_exchange(&c.claims_taken_over, 0));
            atomic_fetch_add(&sh->evicted, atomic_exchange(&c.pages_evicted, 0));
        }
    }
    xh_shadow_close(s);
    return NULL;
}

static void live(int threads, uint64_t seed)
{
    pthread_t t[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!calm) { /* the end comes from the kernel, wherever the threads are then */
        struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
        struct itimerspec when = {.it_value.tv_nsec = 1 + rnd(&seed) % LIFE_MAX_NS};
        timer_t timer;
        if (timer_create(CLOCK_MONOTONIC, &ev, &timer) < 0 || timer_settime(timer, 0, &when, NULL) < 0)
            abort();
    }
    /* Some fork on, in the middle: the grandchild works with inherited objects. */
    if (!calm && rnd(&seed) % 4 == 0) {
        struct xh_shadow *s = open_version(0);
        claim_some(s, 0, &seed, NULL);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (int i = 0; i < 200; i++)
                read_some(s, 0, &seed);
            _exit(0);
        }
    }
    for (int i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(seed + (uint64_t)i * 7919));
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
}

/* When all are dead, every page can be had, and what is READY is right. */
static void last_will(uint64_t seed)
{
    serial = 0;
    for (int v = 0; v < VERSIONS; v++) {
        struct xh_shadow *s = open_version(v);
        for (uint64_t i = 0; i < pages[v]; i++) {
            enum xh_claim cl;
            int tries = 0;
            while ((cl = xh_shadow_claim(s, i, 0, NULL)) == XH_CLAIM_BUSY && tries++ < 3)
                if (xh_shadow_wait(s, i, 1000, NULL) < 0)
                    fail("page %llu of v%d is stuck", (unsigned long long)i, v);
            if (cl == XH_CLAIM_MINE)
                xh_shadow_abandon(s, i, 1);
            read_some(s, v, &seed);
        }
        xh_shadow_close(s);
    }
}

/* Hurts a file of the directory in a way that leaves |seed| to say. */
static void hurt(uint64_t *seed)
{
    char name[VERSIONS][300], noise[700], path[80], real[300] = "";
    unsigned n = 0;
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR, dir);
    DIR *d = opendir(path);
    for (struct dirent *e; d && n < VERSIONS && (e = readdir(d));)
        if (xh_store_is_name(e->d_name, 's'))
            snprintf(name[n++], sizeof *name, "%s/" XH_LAYOUT_DIR "/%.80s", dir, e->d_name);
    if (d)
        closedir(d);
    int fd = n ? open(name[rnd(seed) % n], O_RDWR | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    (void)!readlink(path, real, sizeof real - 1);
    struct stat st;
    fstat(fd, &st);
    uint64_t size = (uint64_t)st.st_size, head = 32768,
             at = rnd(seed) % 2 || size < head ? rnd(seed) : rnd(seed) % head;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)rnd(seed);
    switch (rnd(seed) % 8) {
    case 0: (void)!ftruncate(fd, 0); break;
    case 1: /* words and sums stay, pages go */
    case 2: (void)!ftruncate(fd, (off_t)(size ? at % size : 0)); break;
    case 3: (void)!(ftruncate(fd, (off_t)(size ? at % size : 0)) | ftruncate(fd, (off_t)size)); break;
    case 4: unlink(real); break;
    case 5: fchmod(fd, 0644); break;
    default:
        for (int i = 0; i < 8 && size; i++)
            (void)!pwrite(fd, noise, 1 + rnd(seed) % sizeof noise, (off_t)(rnd(seed) % (i % 2 ? size : head)));
    }
    close(fd);
    atomic_fetch_add(&sh->damages, 1);
}

static pid_t spawn(int threads, uint64_t seed)
{
    serial++;
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        live(threads, seed);
        exit(0);
    }
    return pid;
}

/* Suspends one of the processes, and lets another go on. */
static void suspend(pid_t *pids, int n, uint64_t *seed)
{
    static pid_t stopped;
    if (stopped)
        kill(stopped, SIGCONT);
    stopped = pids[rnd(seed) % (unsigned)n];
    kill(stopped, SIGSTOP);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 4, threads = argc > 2 ? atoi(argv[2]) : 2;
    unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 300, done = 0, killed = 0;
    uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    pid_t pids[PROCESSES_MAX];
    int status, died;
    if (n < 1 || n > PROCESSES_MAX || threads < 1 || threads > 32 || rounds >= 1000000)
        return 2;
    calm = rounds == 0;
    damage = argc > 5 && strcmp(argv[5], "damage") == 0;
    sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(dir, sizeof dir, "/dev/shm/race-shadow-%d", (int)getpid());
    xh_options_defaults(&opt);
    strcpy(opt.shadow_dir, dir);
    opt.shadow_budget_bytes = BUDGET_BYTES;

    for (int i = 0; i < n; i++) {
        pids[i] = spawn(threads, seed + (uint64_t)i * 104729);
    }
    for (int alive = n; alive > 0;) {
        pid_t pid = waitpid(-1, &status, 0);
        for (died = 0; died < n && pids[died] != pid; died++)
            ;
        if (died == n)
            continue;
        if (damage && rnd(&seed) % 2)
            hurt(&seed);
        killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
            fail("a process ended with status %x", status);
        if (++done + (unsigned)(alive - 1) < rounds) {
            pids[died] = spawn(threads, seed + done * 15485863ull);
            if (rnd(&seed) % 4 == 0)
                suspend(pids, n, &seed);
        } else {
            alive--;
            for (int i = 0; i < n; i++)
                if (pids[i] != pid)
                    kill(pids[i], SIGCONT);
            pids[died] = 0x7fffffff; /* nobody */
        }
    }
    last_will(seed);
    printf("processes %u, killed %u, reads %llu, bytes verified %llu, claims %llu, none %llu, taken over %llu, "
           "evicted %llu, private opens %llu, damages %llu, WRONG %llu\n",
           done, killed, (unsigned long long)sh->reads, (unsigned long long)sh->bytes,
           (unsigned long long)sh->claims, (unsigned long long)sh->none, (unsigned long long)sh->takeovers,
           (unsigned long long)sh->evicted, (unsigned long long)sh->privates, (unsigned long long)sh->damages,
           (unsigned long long)sh->wrong);
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    (void)!system(cmd);
    return sh->wrong != 0;
}
