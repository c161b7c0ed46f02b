/* Flow: see flow.h. */
#include "flow.h"

#include <stddef.h>

#include "object.h"

static uint64_t get(const _Atomic uint64_t *bytes)
{
    return atomic_load_explicit(bytes, memory_order_relaxed);
}

static void add(_Atomic uint64_t *bytes, int64_t more)
{
    atomic_fetch_add_explicit(bytes, (uint64_t)more, memory_order_relaxed);
}

static const struct xh_flow *together(const struct xh_file *f)
{
    return f->flows->family ? f->flows->family : &f->flows->own;
}

void xh_flow_join(struct xh_file *f, struct xh_flow *family)
{
    f->flows->family = family;
}

void xh_flow_after_fork(struct xh_file *f)
{
    atomic_store_explicit(&f->flows->own.flying, 0, memory_order_relaxed);
    f->flows->family = NULL;
}

uint64_t xh_flow_streamed(const struct xh_file *f)
{
    return get(&together(f)->streamed);
}

uint64_t xh_flow_own_streamed(const struct xh_file *f)
{
    return get(&f->flows->own.streamed);
}

uint64_t xh_flow_flying(const struct xh_file *f)
{
    return get(&together(f)->flying);
}

int xh_flow_has_family(const struct xh_file *f)
{
    return f->flows->family != NULL;
}

void xh_flow_stream(struct xh_file *f, int64_t bytes)
{
    add(&f->flows->own.streamed, bytes);
    if (f->flows->family)
        add(&f->flows->family->streamed, bytes);
}

void xh_flow_fly(struct xh_file *f, int64_t bytes)
{
    add(&f->flows->own.flying, bytes);
    if (f->flows->family)
        add(&f->flows->family->flying, bytes);
}
