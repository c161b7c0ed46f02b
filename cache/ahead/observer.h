/* Observers learn from the reads of an open file, and propose what to fetch ahead.
 *
 * read/ tells of each read, from one place: before what it lacks is asked for, where it lacks something (MISSED); when
 * that has been asked for, or at once where it lacks nothing (ASKED); and when its bytes are there (ANSWERED). Several
 * processes may have opened the file together: there a first read comes before all guesses, and MISSED is not told.
 * Each observer is told at one of these moments: an observer of the order of reads wants to propose while the read
 * still waits, so that the link stays busy; an observer of bytes needs them; one that brings what the read lacks itself
 * has to come first.
 *
 * An observer proposes to the scheduler (schedule.h), which alone turns proposals into fetches. It proposes within
 * |saw|, under its own lock where it has one: how much was seen to is part of what it knows. */
#ifndef XH_OBSERVER_H
#define XH_OBSERVER_H

#include "cache.h"

enum xh_moment { XH_NEVER, XH_MISSED, XH_ASKED, XH_ANSWERED };

struct xh_seen {
    enum xh_kind kind;
    const struct xh_extent *ext; /* with their bytes when it is ANSWERED */
    size_t n;                    /* at least 1 */
    int led;                     /* 1: a stream began with it (xh_sequence_lead): what follows is proposed already */
    int reread;                  /* from ASKED on: it lacked mostly what had been read before */
    int missed;                  /* not all of it was there: in the shadow, or a metadata image */
    int staged;                  /* from ASKED on: the stage brings all that was not there */
    int alone;                   /* from ASKED on: it had to fetch what nothing had foreseen */
    uint64_t begun_ns;           /* where it missed something: when it began */
};

struct xh_observer {
    enum xh_moment when[2]; /* it is told of reads of this xh_kind */
    /* Returns 1 when it knows what comes next: the observers behind it are not told. Never fails, does not block on the
     * network. Threads: any. */
    int (*saw)(struct xh_file *f, const struct xh_seen *seen);
};

/* Tells the observers, in their order. With readahead=off only the hints are told, as the program asked for them: an
 * observer need not look at the option. */
void xh_observers_tell(struct xh_file *f, const struct xh_seen *seen, enum xh_moment moment);

#endif
