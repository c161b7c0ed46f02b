/* The threads that use OpenSSL are counted, and exit() waits until there are none: see crypto.h. */
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
static _Atomic int over;
static _Atomic unsigned users; /* each of the two is written before the other is read: sequentially consistent */
static _Atomic uint64_t process; /* whose users these are: a fork that runs no handlers inherits their number */

static void at_exit(void)
{
    atomic_store(&over, 1);
    for (int ms = 0; atomic_load(&users) && process == xh_process() && ms < LINGER_MS; ms++)
        xh_pause_ns(1000000);
}

/* The other threads stayed with the parent. */
static void after_fork_in_child(void)
{
    atomic_store(&users, 0);
    process = xh_process();
}

/* The handler is registered after OpenSSL's, so it runs before. Without memory for it exit() does not wait. */
static void begin(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_ADD_ALL_DIGESTS, NULL); /* with no option it would register nothing yet */
    process = xh_process();
    if (atexit(at_exit) == 0)
        pthread_atfork(NULL, NULL, after_fork_in_child);
}

int xh_crypto_enter(void)
{
    pthread_once(&once, begin);
    atomic_fetch_add(&users, 1);
    if (!atomic_load(&over))
        return 1;
    xh_crypto_leave();
    return 0;
}

void xh_crypto_leave(void)
{
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
