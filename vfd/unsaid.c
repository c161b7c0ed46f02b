/* What a read likely is: see unsaid.h. */
#include "unsaid.h"

#define META_BYTES (16u << 10) /* a shorter read is taken for one of metadata */

enum xh_kind xh_unsaid_kind(struct xh_unsaid *u, const struct xh_extent *ext, size_t n)
{
    uint64_t longest = 0;
    unsigned at = 0;
    for (size_t i = 0; i < n; i++)
        longest = ext[i].len > longest ? ext[i].len : longest;
    while (at < XH_UNSAID_ENDS &&
           (ext[0].off == 0 || atomic_load_explicit(&u->raw_ends[at], memory_order_relaxed) != ext[0].off))
        at++;
    if (at == XH_UNSAID_ENDS && longest < META_BYTES)
        return XH_KIND_META;
    if (at == XH_UNSAID_ENDS)
        at = atomic_fetch_add_explicit(&u->next, 1, memory_order_relaxed) % XH_UNSAID_ENDS;
    atomic_store_explicit(&u->raw_ends[at], ext[n - 1].off + ext[n - 1].len, memory_order_relaxed);
    return XH_KIND_RAW;
}
