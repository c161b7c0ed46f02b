/* Turns: which of several runs a read goes on with, and what is to be done about it. A program reads several datasets
 * in turns, or several threads each a part of one. Pure: no I/O, no clock, no locks of its own. */
#ifndef XH_TURNS_H
#define XH_TURNS_H

#include "predict.h"

#define XH_RUNS_MOST 8 /* so many are told apart */

/* All zero at first. */
struct xh_turns {
    struct xh_run_read {
        struct xh_predict_seq seq;
        uint64_t at;   /* |reads| when it was read last */
        uint64_t back; /* |reads| when its reader last came back to it from another one like it; 0: never */
    } run[XH_RUNS_MOST]; /* the one that was read last comes first */
    struct xh_cover cover; /* of the last reads: by it runs are known of which no two reads follow each other */
    uint64_t reads;
    unsigned doubt; /* as in struct xh_predict_past */
    unsigned n; /* to so many of them the reader came back lately; 0 also where it was to one, and some reads ago */
};

struct xh_turns_read {
    struct xh_range r;     /* not empty, in the object */
    struct xh_range whole; /* as in xh_predict_seq */
    uint64_t size;         /* of the object */
    uint64_t window;       /* how far ahead all runs may be together */
    int joint;             /* several processes opened the file, each for its share */
    int shared;            /* others of them read |whole|, too */
    int takes_turns;       /* the file is read in turns with others */
    int large;             /* a stream may begin with it */
};

struct xh_turns_due {
    int leaves; /* first, streams end: of two runs, neither is a stream's; or they would bring what is skipped */
    struct xh_range want[XH_PREDICT_RANGES]; /* then |n| ranges are fetched ahead of run[0] */
    size_t n;
};

/* Takes note of a read. It goes on with run[0] then. */
void xh_turns_saw(struct xh_turns *s, const struct xh_turns_read *k, struct xh_turns_due *out);

/* 1 when a run began with the last read, in the dataset |whole|, which was read before in a run that was long. */
int xh_turns_jumped(const struct xh_turns *s, struct xh_range whole);

/* 1 when the last read may be an excursion from a run that has read more, and is not through: that one's streams go
 * on. */
unsigned xh_turns_is_excursion(const struct xh_turns *s);

/* What was proposed of runs upwards is so no longer. */
void xh_turns_forget_ahead(struct xh_turns *s);

#endif
