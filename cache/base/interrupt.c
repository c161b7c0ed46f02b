/* Waits that are interrupted: see interrupt.h. */
#include "interrupt.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "now.h"
#include "waits.h"

static int (*_Atomic by)(int first); /* release by xh_interrupt_by, acquire by those who ask */

void xh_interrupt_by(int (*asks)(int first))
{
    atomic_store_explicit(&by, asks, memory_order_release);
}

/* 1 when a wait of this thread might be interrupted, and so has to wake up now and then. */
static int may_be(void)
{
    return atomic_load_explicit(&by, memory_order_acquire) &&
           syscall(SYS_gettid) == getpid(); /* gettid() needs glibc 2.30 */
}

int xh_interrupted(struct xh_wait *w)
{
    uint64_t now = xh_now_ns();
    if (!w->next_ns)
        w->next_ns = now + XH_INTERRUPT_LOOK_NS;
    if (now < w->next_ns || !may_be())
        return 0;
    int first = !w->asked;
    w->asked = 1;
    w->next_ns = now + XH_INTERRUPT_LOOK_NS;
    return atomic_load_explicit(&by, memory_order_acquire)(first);
}

int xh_interrupt_wait(struct xh_wait *w, pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns)
{
    int asks = may_be();
    uint64_t look_ns = asks ? xh_now_ns() + XH_INTERRUPT_LOOK_NS : XH_NO_END;
    if (asks || until_ns != XH_NO_END)
        xh_cond_wait_until(c, lock, until_ns < look_ns ? until_ns : look_ns);
    else
        pthread_cond_wait(c, lock);
    if (!asks)
        return 0;
    pthread_mutex_unlock(lock);
    int ends = xh_interrupted(w);
    pthread_mutex_lock(lock);
    return ends;
}

int xh_interrupt_error(struct xh_err *err, const char *shown)
{
    return xh_err_set(err, XH_E_INTR, 0, "%.200s: interrupted", shown);
}
