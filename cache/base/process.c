/* This process: its number, see process.h, and its standard files.
 *
 * The number lies in a page that the kernel zeroes in a fork's child (MADV_WIPEONFORK, Linux 4.14), whatever called
 * fork or clone, and whether or not fork handlers run. A fork handler sets it to 0 as well: older kernels do not do it,
 * and some emulators of another machine say that they do it, and do not. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "now.h"

void xh_process_fill_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (got > STDERR_FILENO) /* another thread was faster */
            close(got);
    }
}

static _Atomic uint64_t here; /* used when there is no such page */
static _Atomic uint64_t *number = &here;

static void forget(void)
{
    atomic_store_explicit(number, 0, memory_order_relaxed);
}

static void begin(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED && madvise(page, (size_t)bytes, MADV_WIPEONFORK) == 0)
        number = page;
    pthread_atfork(NULL, NULL, forget);
}

uint64_t xh_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    uint64_t is = atomic_load_explicit(number, memory_order_relaxed), mine = 0;
    if (is)
        return is;
    if (getrandom(&mine, sizeof mine, GRND_NONBLOCK) != sizeof mine)
        mine = xh_now_ns() << 22 ^ (uint64_t)getpid();
    mine |= 3;
    /* If two threads come first, both use the number of one of them. */
    int first = atomic_compare_exchange_strong_explicit(number, &is, mine, memory_order_relaxed, memory_order_relaxed);
    return first ? mine : is;
}
