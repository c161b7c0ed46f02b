/* A report of steps, each printed as soon as it is known: a line of text, or an object of JSON. */
#ifndef XH_REPORT_H
#define XH_REPORT_H

#include <stdint.h>

#include <jansson.h>

enum xh_state { XH_STATE_OK, XH_STATE_NOTE, XH_STATE_FAILED, XH_STATE_UNTRIED };

struct xh_report {
    int json, colour;
    unsigned steps, notes, failures;
    json_t *facts; /* of the current step; NULL: none yet */
    char text[2048], advice[2048]; /* of the current step; only for text */
    char untried[512];             /* only for text: names of untried steps without a message, printed at the end */
};

void xh_report_begin(struct xh_report *r, const char *url_shown, int json);
void xh_report_end(struct xh_report *r);

/* Adds a piece to the text |to| of |size| bytes, made safe to print. Pieces are joined by "; ". */
void xh_report_add(char *to, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Add to the current step. */
#define xh_report_say(r, ...) xh_report_add((r)->text, sizeof (r)->text, __VA_ARGS__)
#define xh_report_as(r, state, ...) (xh_report_say(r, __VA_ARGS__), (state)) /* Returns |state|. */
#define xh_report_advise(r, ...) xh_report_add((r)->advice, sizeof (r)->advice, __VA_ARGS__)
void xh_report_text(struct xh_report *r, const char *name, const char *value);
void xh_report_number(struct xh_report *r, const char *name, double value);
void xh_report_count(struct xh_report *r, const char *name, uint64_t value);

/* Prints the current step and begins the next one. As text, a step that was not tried and has no message is listed at
 * the end. A step that is OK but has advice counts as NOTE. */
void xh_report_step(struct xh_report *r, const char *name, enum xh_state state);

#endif
