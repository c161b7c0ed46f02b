/* A process that forks while threads of the driver's are in OpenSSL, or begin the engine: the child can use both. A
 * thread that is called back from there, and waits for a lock that a fork's handler holds, is no hindrance. A plain
 * program, as race_exit.c. */
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/now.h"
#include "base/options.h"
#include "base/thread.h"
#include "origin/loop.h"

#define FORKS 200
#define THREADS 4
#define BEGINS 100
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS 0 /* its allocator's locks stay taken in the child if another thread allocates at the fork */
#else
#define ROUNDS BEGINS
#endif
#define BEGIN_US 4000 /* about what it takes to begin libcurl and OpenSSL */
#define SOON_NS 60000000000u /* for all forks: some ms each; one that waits in vain takes a second */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held across a fork, as the engine's is */
static _Atomic unsigned made;
static _Atomic int forks, in, left, exits;

static void take(void)
{
    pthread_mutex_lock(&lock);
}

static void give(void)
{
    pthread_mutex_unlock(&lock);
}

static void begins(void)
{
    atomic_store(&forks, 1);
}

/* Is in until a fork or the exit has begun, and a little longer. */
static void *stay(void *unused)
{
    xh_crypto_hold();
    atomic_store(&in, 1);
    while (!atomic_load(&forks) && !xh_crypto_is_over())
        usleep(50);
    usleep(20000);
    atomic_store(&left, 1);
    xh_crypto_leave();
    return NULL;
}

static void let_one_stay(void)
{
    forks = in = left = 0;
    if (xh_thread_start(NULL, stay, NULL) != 0)
        abort();
    while (!atomic_load(&in))
        usleep(50);
}

static void check(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "race_fork.c: does not hold: %s\n", what);
        _exit(1);
    }
}

/* Registered before the driver's handlers, so it comes last. */
static void at_exit(void)
{
    check(!exits || left, "exit() waits for a thread that is in");
}

static void a_fork_waits(const char *whose)
{
    int status = 0;
    let_one_stay();
    pid_t p = fork();
    int waited = left;
    if (p == 0)
        _exit(0);
    check(p > 0 && waitpid(p, &status, 0) == p && status == 0 && waited, whose);
}

/* So do the forks of a fork's child, and its exit. */
static void a_child_waits_too(void)
{
    int status = 0;
    pid_t p = fork();
    if (p == 0) {
        a_fork_waits("a child's fork waits for a thread that is in");
        let_one_stay();
        exits = 1;
        exit(0);
    }
    check(p > 0 && waitpid(p, &status, 0) == p && status == 0, "a child waits too");
}

/* What libcurl does for a new connection. */
static void make(void)
{
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c)
        abort();
    SSL_CTX_free(c);
}

static void begin_engine(void)
{
    struct xh_options o;
    xh_options_defaults(&o);
    if (xh_loop_enter(&o, NULL) != 0)
        abort();
    xh_engine_unlock();
}

static void *begin(void *unused)
{
    begin_engine();
    return NULL;
}

/* The first file is opened by another thread, and by the child. This process itself uses no engine, so that each round
 * begins it anew. */
static void a_fork_while_the_engine_begins(int round)
{
    int status = 0;
    pid_t p = fork();
    if (p == 0) {
        if (xh_thread_start(NULL, begin, NULL) != 0)
            abort();
        usleep((useconds_t)(round * BEGIN_US / BEGINS));
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            begin_engine();
            make();
            _exit(0);
        }
        _exit(child < 0 || waitpid(child, &status, 0) != child || status);
    }
    check(p > 0 && waitpid(p, &status, 0) == p && status == 0,
          "a child of a fork amid the engine's beginning begins it");
}

static void *run(void *unused)
{
    for (;;) {
        xh_crypto_hold();
        make();
        xh_crypto_leave(); /* called back */
        take();
        atomic_fetch_add(&made, 1);
        give();
        xh_crypto_hold();
        make();
        xh_crypto_leave();
        take(); /* under a lock that a handler takes, as sums of what the engine's lock guards */
        xh_crypto_hold();
        make();
        xh_crypto_leave();
        give();
    }
    return NULL;
}

int main(void)
{
    for (int i = 0; i < ROUNDS; i++)
        a_fork_while_the_engine_begins(i);
    atexit(at_exit);
    pthread_atfork(begins, NULL, NULL);
    a_fork_waits("a fork waits for a thread that is in");
    a_child_waits_too();
    uint64_t begun = xh_now_ns();
    pthread_atfork(take, give, give);
    for (int i = 0; i < THREADS; i++)
        if (xh_thread_start(NULL, run, NULL) != 0)
            abort();
    for (int i = 0; i < FORKS; i++) {
        int status = 0;
        for (unsigned before = atomic_load(&made); atomic_load(&made) == before;)
            usleep(50);
        pid_t p = fork();
        if (p == 0) {
            alarm(20);
            make();
            xh_crypto_hold();
            make();
            xh_crypto_leave();
            _exit(0);
        }
        if (p < 0 || waitpid(p, &status, 0) != p)
            abort();
        if (status || xh_now_ns() - begun > SOON_NS) {
            fprintf(stderr, "race_fork.c: fork %d: wait status %#x after %.1f s\n", i, (unsigned)status,
                    (double)(xh_now_ns() - begun) / 1e9);
            return 1;
        }
    }
    puts("ok");
    _exit(0);
}
