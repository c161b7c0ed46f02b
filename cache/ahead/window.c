/* How far ahead: collects the facts for policy.h. */
#include "window.h"

#include "object.h"
#include "hints.h"
#include "siblings.h"
#include "stream/room.h"

uint64_t xh_guess_window(const struct xh_file *f)
{
    struct xh_window w = {.most = xh_ahead_most(f),
                          .room = xh_room_share(f->opt.readahead_bytes),
                          .hinted = atomic_load_explicit(&f->hints->ahead_bytes, memory_order_relaxed),
                          .width = xh_siblings_width(f)};
    return xh_policy_guess_window(&w);
}
