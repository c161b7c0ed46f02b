/* Death at a step: calls of the shadow that the linker redirects here (--wrap, meson.build). Set |steps_left| and the
 * process kills itself before or after the call, or half way through the write, at which it comes to 0. Included
 * once. */
#ifndef XH_TEST_STEPS_H
#define XH_TEST_STEPS_H

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shadow/impl.h"
#include "shadow/owner.h"
#include "shadow/store.h"
#include "shadow/sum.h"
#include "shadow/page_state.h"

static _Atomic long steps_left = -1; /* below 1: nobody dies */

static void step(void)
{
    if (atomic_load_explicit(&steps_left, memory_order_relaxed) > 0 &&
        atomic_fetch_sub_explicit(&steps_left, 1, memory_order_relaxed) == 1)
        raise(SIGKILL);
}

#define WRAP(type, name, args, call) \
    type __real_##name args;         \
    type __wrap_##name args;         \
    type __wrap_##name args          \
    {                                \
        step();                      \
        type r = __real_##name call; \
        step();                      \
        return r;                    \
    }

WRAP(int, ftruncate, (int fd, off_t len), (fd, len))
WRAP(int, fallocate, (int fd, int mode, off_t off, off_t len), (fd, mode, off, len))
WRAP(int, renameat2, (int a, const char *f, int b, const char *t, unsigned fl), (a, f, b, t, fl))
WRAP(int, renameat, (int a, const char *f, int b, const char *t), (a, f, b, t))
WRAP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(void *, mmap, (void *p, size_t n, int pr, int fl, int fd, off_t o), (p, n, pr, fl, fd, o))
WRAP(int, xh_store_lock, (int fd, short type, uint64_t at), (fd, type, at))
WRAP(int, xh_page_change,
     (struct xh_shadow * s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state st, uint32_t ow,
      uint64_t fl, uint64_t keep),
     (s, idx, old, mask, st, ow, fl, keep))
WRAP(uint64_t, xh_sum_page, (uint64_t whose, uint64_t idx, const void *bytes, size_t len), (whose, idx, bytes, len))
WRAP(uint32_t, xh_owner_get, (struct xh_shadow * s), (s))

ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
    step();
    if (atomic_load_explicit(&steps_left, memory_order_relaxed) == 1) /* dies half way through */
        __real_pwrite(fd, buf, len / 2 + 1, off);
    step();
    ssize_t r = __real_pwrite(fd, buf, len, off);
    step();
    return r;
}

#endif
