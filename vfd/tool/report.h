/* A report of steps, each printed as soon as it is known: a line for people, or an object of JSON. */
#ifndef XH_REPORT_H
#define XH_REPORT_H

#include <stdint.h>
#include <stdio.h>

enum xh_state { XH_STATE_OK, XH_STATE_NOTE, XH_STATE_FAILED, XH_STATE_UNTRIED };

struct xh_report {
    int json, colour;
    unsigned steps, notes, failures;
    FILE *facts; /* of the step at hand, in memory */
    char *facts_text;
    size_t facts_bytes;
    char text[2048], advice[2048]; /* likewise; for people */
    char untried[512];             /* for people: the names of steps that had nothing to say; the end has them */
};

/* Returns 0, or -1 without memory. */
int xh_report_begin(struct xh_report *r, const char *url_shown, int json);
void xh_report_end(struct xh_report *r);

/* Add to the step at hand. What came from a server is made safe to print. Text pieces are joined by "; ", as is advice. */
void xh_report_say(struct xh_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void xh_report_advise(struct xh_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void xh_report_text(struct xh_report *r, const char *name, const char *value);
void xh_report_number(struct xh_report *r, const char *name, double value);
void xh_report_count(struct xh_report *r, const char *name, uint64_t value);

/* Prints it, and makes room for the next; to people a step that was not tried and says nothing is told of at the end. A step with advice that is OK counts as NOTE. */
void xh_report_step(struct xh_report *r, const char *name, enum xh_state state);

#endif
