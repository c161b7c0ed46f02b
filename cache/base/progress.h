/* Shows the progress of a long operation on standard error: a bar on a terminal, else a line for each tenth. Only the
 * bar has control characters.
 * Threads: the caller serialises. */
#ifndef XH_PROGRESS_H
#define XH_PROGRESS_H

#include <stdint.h>

#include "err.h"

#define XH_DRAW_EVERY_MS 100 /* often enough to look alive */

/* Writes "12.3 MiB"; whole bytes below 1 KiB. Returns |buf|. */
#define XH_SIZE_TEXT 16
const char *xh_size_text(uint64_t bytes, char buf[XH_SIZE_TEXT]);
/* The same in a buffer that lasts as long as the block it stands in. */
#define xh_size(bytes) xh_size_text(bytes, (char[XH_SIZE_TEXT]){0})

/* What the option progress says. */
enum xh_progress_mode { XH_PROGRESS_AUTO, XH_PROGRESS_ON, XH_PROGRESS_OFF };

/* Returns 0 and sets |*out|, or XH_E_INVAL with |err|: |option| says something else. */
int xh_progress_by(const char *option, enum xh_progress_mode *out, struct xh_err *err);

/* 1 when |option|, which xh_progress_by takes, wants to see what is shown only where somebody looks, or on demand. */
int xh_progress_wanted(const char *option);

/* From now on nothing is shown, in a program that is ours. */
void xh_progress_silence(void);

struct xh_progress {
    const char *what;
    uint64_t total; /* 0: unknown; |unit| is counted instead */
    uint64_t from;  /* done before the start; not counted in the rate */
    const char *unit;
    int terminal;
    int quiet;         /* 1: nothing is shown */
    uint64_t after_ns; /* of a short operation nothing is shown on a terminal */
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
