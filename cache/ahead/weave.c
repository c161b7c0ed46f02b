/* See weave.h. */
#include "weave.h"

void xh_weave_read(struct xh_weave *w, struct xh_weave_thread *t, const void *reader, unsigned files)
{
    if (w->reader == reader) {
        if (++t->reads == XH_WEAVE_ALONE)
            w->width = 0;
        return;
    }
    w->reader = reader;
    w->switches++;
    uint64_t turns = w->switches - t->at;
    if (t->at)
        w->width = turns < files ? (unsigned)turns : files;
    t->at = w->switches;
    t->reads = 1;
}
