/* Waits that are interrupted: see interrupt.h. */
#include "interrupt.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "now.h"

static int (*_Atomic by)(int first); /* release by xh_interrupt_by, acquire by those who ask */

void xh_interrupt_by(int (*asks)(int first))
{
    atomic_store_explicit(&by, asks, memory_order_release);
}

int xh_interrupt_may(void)
{
    return atomic_load_explicit(&by, memory_order_acquire) &&
           syscall(SYS_gettid) == getpid(); /* gettid() needs glibc 2.30 */
}

int xh_interrupted(struct xh_wait *w)
{
    uint64_t now = xh_now_ns();
    if (!w->next_ns)
        w->next_ns = now + XH_INTERRUPT_LOOK_NS;
    if (now < w->next_ns || !xh_interrupt_may())
        return 0;
    int first = !w->asked;
    w->asked = 1;
    w->next_ns = now + XH_INTERRUPT_LOOK_NS;
    return atomic_load_explicit(&by, memory_order_acquire)(first);
}

int xh_interrupt_error(struct xh_err *err, const char *shown)
{
    return xh_err_set(err, XH_E_INTR, 0, "%.200s: interrupted", shown);
}
