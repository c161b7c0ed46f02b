/* Guards: if a shadow's file shrinks under its mapping, the process loses the shadow and lives on. If its disk cannot
 * read a page of it, that page is lost.
 *
 * A touch of a mapped page beyond the file's end raises SIGBUS. The handler replaces the mapping by zeros of this
 * process, where page states say EMPTY. It breaks the guard, so that nothing is claimed or believed there any more.
 * Then the touch is repeated. A fault elsewhere goes to the handler that was there before, or has the effect that it
 * would have had. A program that installs its own handler later replaces this one: then the process dies, as it would
 * without guards.
 *
 * On a disk a touch raises SIGBUS also where a sector cannot be read. Zeros are written over that page of page states
 * or sums, once: what they told of is EMPTY, or does not match, and is fetched again; the disk has another sector for
 * them. If the touch faults there again, the guard breaks.
 *
 * Guards are never freed, as a handler may be looking at any of them. Dropped guards are used again, for mappings of
 * the same size. The handler makes only async-signal-safe calls. Threads: any. */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/extent.h"
#include "base/files.h"

struct xh_guard {
    _Atomic uintptr_t from; /* 0: unused. Release pairs with the handler's acquire. */
    _Atomic int broken;
    _Atomic uintptr_t mended; /* the page that was last written over; relaxed, as only its own value counts */
    size_t bytes;          /* constant, as the next: so that the handler never sees a mapping with another one's size */
    struct xh_guard *next;
    /* Written before |from|. */
    struct xh_own file; /* where a page may be written over; else none */
    size_t fixed_bytes, unit_bytes; /* the part before that page states and sums begin; what is written over */
};

static struct xh_guard *_Atomic guards; /* written under xh_shadow_lock; read without */
static struct sigaction before;         /* constant once installed */

static int mend(struct xh_guard *g, size_t at)
{
    static const char zeros[XH_PAGE_BYTES];
    struct stat st;
    at -= at % g->unit_bytes;
    if (!xh_own_is_there(&g->file) || at < g->fixed_bytes || fstat(g->file.fd, &st) < 0 ||
        (uint64_t)st.st_size < at + g->unit_bytes ||
        atomic_load_explicit(&g->mended, memory_order_relaxed) == at)
        return 0;
    size_t done = 0;
    while (done < g->unit_bytes && pwrite(g->file.fd, zeros, sizeof zeros, (off_t)(at + done)) == (ssize_t)sizeof zeros)
        done += sizeof zeros;
    /* Behind the zeros, of which several threads may write the same. */
    atomic_store_explicit(&g->mended, at, memory_order_relaxed);
    return done == g->unit_bytes;
}

static int replace(uintptr_t at)
{
    for (struct xh_guard *g = atomic_load_explicit(&guards, memory_order_acquire); g; g = g->next) {
        uintptr_t from = atomic_load_explicit(&g->from, memory_order_acquire);
        if (from == 0 || at < from || at - from >= g->bytes)
            continue;
        if (mend(g, at - from))
            return 1;
        atomic_store_explicit(&g->broken, 1, memory_order_release); /* before any thread sees the first zero */
        return mmap((void *)from, g->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == (void *)from;
    }
    return 0;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    /* else a program sent the signal, and there is no address */
    if (info->si_code > 0 && replace((uintptr_t)info->si_addr)) {
        errno = saved;
        return;
    }
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(sig, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(sig);
    else if (before.sa_handler == SIG_DFL || info->si_code > 0) {
        sigaction(sig, &before, NULL); /* the fault comes again, and ends the process as it would have without guards */
        if (info->si_code <= 0)
            raise(sig);
    }
    errno = saved;
}

void xh_guard_install(void)
{
    struct sigaction ours = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, &before);
}

struct xh_guard *xh_guard_add(void *map, size_t bytes, int fd, size_t fixed_bytes, size_t unit_bytes)
{
    struct xh_guard *first = atomic_load_explicit(&guards, memory_order_relaxed), *g = first;
    while (g && (g->bytes != bytes || atomic_load_explicit(&g->from, memory_order_relaxed)))
        g = g->next;
    if (!g) {
        if (!(g = calloc(1, sizeof *g)))
            return NULL;
        g->bytes = bytes;
        g->next = first;
        atomic_store_explicit(&guards, g, memory_order_release);
    }
    g->file = xh_own(fd);
    g->fixed_bytes = fixed_bytes;
    g->unit_bytes = unit_bytes;
    atomic_store_explicit(&g->mended, 0, memory_order_relaxed);
    atomic_store_explicit(&g->broken, 0, memory_order_relaxed);
    atomic_store_explicit(&g->from, (uintptr_t)map, memory_order_release);
    return g;
}

void xh_guard_drop(struct xh_guard *g)
{
    if (g)
        atomic_store_explicit(&g->from, 0, memory_order_release);
}

int xh_guard_broken(const struct xh_guard *g)
{
    return !g || atomic_load_explicit(&g->broken, memory_order_relaxed);
}
