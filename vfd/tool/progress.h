/* Shows the progress of a long operation on standard error: a bar on a terminal, else a line for each tenth.
 * Threads: the caller serialises. */
#ifndef XH_PROGRESS_H
#define XH_PROGRESS_H

#include <stdint.h>

#define XH_DRAW_EVERY_MS 100 /* often enough to look alive */

struct xh_progress {
    const char *what;
    uint64_t total; /* 0: unknown; |unit| is counted instead */
    uint64_t from;  /* done before the start; not counted in the rate */
    const char *unit;
    int terminal;
    uint64_t began_ns, drawn_ns;
    unsigned tenth;
};

void xh_progress_begin(struct xh_progress *p, const char *what, uint64_t total_bytes, const char *unit);
void xh_progress_at(struct xh_progress *p, uint64_t done);
/* Removes the bar from the terminal. */
void xh_progress_clear(struct xh_progress *p);
/* Prints the result. */
void xh_progress_end(struct xh_progress *p, uint64_t done);

#endif
