/* A process that exits while threads of the driver's, which nobody waits for, still hash or end, or while one begins
 * the engine: it ends well, and soon. Each round is a process of its own. A plain program, as the test is how the
 * process ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/now.h"
#include "base/options.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "origin/auth.h"
#include "origin/loop.h"
#include "origin/url.h"

#define ROUNDS 150
#define THREADS 3
#define BEGIN_US 4000 /* about what it takes to begin libcurl and OpenSSL */
#define SOON_NS 20000000000u /* a wrong wait is for ever, a right one is a hash long; between them a busy machine */

static _Atomic unsigned done; /* hashes, by all threads */

static void *hash(void *forever)
{
    static const char url[] = "https://host/file.h5.xhmeta";
    uint8_t sha[32];
    char hex[65];
    struct xh_url *u = NULL;
    struct xh_cert none = {.path = ""};
    struct xh_trust trust = {.file = ""};
    if (xh_url_parse(url, &u, NULL) != 0)
        abort();
    do {
        int told = xh_sha256(url, sizeof url, sha) + xh_auth_reader(u, NULL, &none, NULL, &trust, 0, hex);
        if (told != 2 && !xh_crypto_is_over())
            abort();
        atomic_fetch_add(&done, 1);
    } while (forever);
    xh_url_unref(u);
    return NULL;
}

/* Threads that begin and end all the time. */
static void *come_and_go(void *unused)
{
    while (!xh_crypto_is_over()) {
        unsigned before = atomic_load(&done);
        if (xh_thread_start(NULL, hash, NULL) != 0)
            abort();
        while (atomic_load(&done) == before && !xh_crypto_is_over())
            usleep(50);
    }
    return NULL;
}

static void live_and_exit(void)
{
    for (int i = 0; i < THREADS; i++)
        if (xh_thread_start(NULL, i ? hash : come_and_go, &done) != 0)
            abort();
    while (atomic_load(&done) < 100)
        usleep(100);
    exit(0);
}

static void *begin(void *unused)
{
    struct xh_options o;
    xh_options_defaults(&o);
    if (xh_loop_enter(&o, NULL) == 0)
        xh_engine_unlock();
    return NULL;
}

/* The first file is opened by another thread. */
static void begin_and_exit(int round)
{
    if (xh_thread_start(NULL, begin, NULL) != 0)
        abort();
    usleep((useconds_t)(round * BEGIN_US / ROUNDS));
    exit(0);
}

int main(void)
{
    for (int i = 0; i < 2 * ROUNDS; i++) {
        int status = 0;
        uint64_t begun = xh_now_ns();
        pid_t p = fork(); /* this process itself hashes nothing, so each child begins OpenSSL anew */
        if (p == 0 && i >= ROUNDS)
            begin_and_exit(i - ROUNDS);
        if (p == 0)
            live_and_exit();
        if (p < 0 || waitpid(p, &status, 0) != p)
            abort();
        if (status || xh_now_ns() - begun > SOON_NS) {
            fprintf(stderr, "race_exit.c: round %d: wait status %#x after %.1f s\n", i, (unsigned)status,
                    (double)(xh_now_ns() - begun) / 1e9);
            return 1;
        }
    }
    return 0;
}
