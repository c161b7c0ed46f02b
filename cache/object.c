/* An open file: see object.h. */
#include "object.h"

#include <sched.h>
#include <stdio.h>

#include "base/process.h"

void xh_file_after_fork(struct xh_file *f)
{
    uint64_t this = xh_process(), was = atomic_load_explicit(&f->process, memory_order_acquire);
    /* The child may have several threads by now. One of them does it, and says so by a number one less; the others
     * wait for it. A number that is neither is a parent's, also where that one's own thread was just at this. */
    while (was != this) {
        if (was == this - 1) {
            sched_yield();
            was = atomic_load_explicit(&f->process, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(&f->process, &was, this - 1, memory_order_acquire,
                                                         memory_order_acquire)) {
            f->above->become_child(f);
            atomic_store_explicit(&f->process, this, memory_order_release);
            was = this;
        }
    }
}

int xh_file_is_announced(const struct xh_file *f)
{
    return f->opt.asked_as && !f->opt.namer.by_file && !f->opt.guessed;
}

char *xh_file_kept_as(const struct xh_file *f)
{
    char *name = NULL;
    return asprintf(&name, "%s%s", f->validator, f->unsettled ? XH_KEPT_UNSETTLED : "") < 0 ? NULL : name;
}
