/* The threads that use OpenSSL are counted, and exit() and fork() wait until there are none: see crypto.h. */
#include "crypto.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "process.h"
#include "waits.h"

#define LINGER_MS 1000 /* hashes take milliseconds; a key on a dead file server holds no process for longer */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int over, forks;
static _Atomic unsigned users; /* one of them and this is written before the other is read: sequentially consistent */
static _Atomic uint64_t process; /* whose users these are: a fork that runs no handlers inherits their number */

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* held during a fork. Nothing is taken under it */
static _Thread_local unsigned depth; /* how often this thread has come in */

/* Waits until no other thread is in. */
static void linger(void)
{
    unsigned mine = depth > 0;
    for (int ms = 0; atomic_load(&users) > mine && process == xh_process() && ms < LINGER_MS; ms++)
        xh_pause_ns(1000000);
}

static void at_exit(void)
{
    atomic_store(&over, 1);
    linger();
}

static void before_fork(void)
{
    pthread_mutex_lock(&forking);
    atomic_store(&forks, 1);
    linger();
}

static void after_fork_in_parent(void)
{
    atomic_store(&forks, 0);
    pthread_mutex_unlock(&forking);
}

/* The other threads stayed with the parent. */
static void after_fork_in_child(void)
{
    atomic_store(&users, depth > 0);
    process = 0; /* its number may not be known before other handlers have run */
    atomic_store(&forks, 0);
    pthread_mutex_init(&forking, NULL);
}

/* Before all other handlers of the driver's, so that it comes last in a fork: a thread that waits here may hold a lock,
 * and no handler waits for that any more. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* OpenSSL registers no exit handler where the driver is the first to use it: it would take away what OpenSSL is still
 * being begun with, and the kernel frees all of it. Where another has begun it, ours is registered after that one, so
 * it runs before. Without memory for it exit() does not wait. */
static void begin(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_ADD_ALL_DIGESTS, NULL);
    (void)!atexit(at_exit);
}

/* Comes in, once no fork is under way. */
static void come_in(void)
{
    if (process == 0)
        process = xh_process();
    for (;;) {
        atomic_fetch_add(&users, 1);
        if (!atomic_load(&forks))
            return;
        atomic_fetch_sub(&users, 1);
        pthread_mutex_lock(&forking);
        pthread_mutex_unlock(&forking);
    }
}

void xh_crypto_hold(void)
{
    if (depth++ == 0)
        come_in();
    pthread_once(&once, begin); /* in there: a fork waits for that, too */
}

int xh_crypto_enter(void)
{
    xh_crypto_hold();
    if (!atomic_load(&over))
        return 1;
    xh_crypto_leave();
    return 0;
}

void xh_crypto_leave(void)
{
    if (--depth == 0)
        atomic_fetch_sub(&users, 1);
}

int xh_crypto_is_over(void)
{
    return atomic_load(&over);
}

void xh_crypto_end_thread(void)
{
    while (!xh_crypto_enter())
        pause();
    OPENSSL_thread_stop();
    xh_crypto_leave();
}
