/* How far something long has come, on standard error: a bar on a terminal, else a line for each tenth.
 * Threads: the caller serialises. */
#ifndef XH_PROGRESS_H
#define XH_PROGRESS_H

#include <stdint.h>

struct xh_progress {
    const char *what;
    uint64_t total; /* 0: unknown, and |unit| is counted */
    uint64_t from;  /* so much was there before: the rate does not count it */
    const char *unit;
    int terminal;
    uint64_t began_ns, drawn_ns;
    unsigned tenth;
};

void xh_progress_begin(struct xh_progress *p, const char *what, uint64_t total_bytes, const char *unit);
void xh_progress_at(struct xh_progress *p, uint64_t done);
/* Takes the bar off the terminal, without a word. */
void xh_progress_clear(struct xh_progress *p);
/* Says what came of it. */
void xh_progress_end(struct xh_progress *p, uint64_t done);

#endif
