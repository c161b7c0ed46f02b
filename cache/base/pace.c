/* See pace.h. */
#include "pace.h"

int xh_pace_look(struct xh_pace *p, uint64_t now_ns, int stands)
{
    uint64_t before = p->rate, ns = now_ns - p->since_ns;
    if (stands || !p->since_ns) {
        p->since_ns = stands ? 0 : now_ns;
        p->since_bytes = p->bytes;
        p->steady = 0;
    } else if (ns >= XH_PACE_NS) {
        p->rate = (uint64_t)((double)(p->bytes - p->since_bytes) * 1e9 / (double)ns);
        p->steady = before && p->rate <= before + before / 4;
        p->since_ns = now_ns;
        p->since_bytes = p->bytes;
        return 1;
    }
    return 0;
}
