/* The account of an open file: where its wall time went, from open to close, and what reads waited for.
 *
 * The time is the file's, not its threads': each moment counts once. A thread in a call of cache.h waits for the
 * network, waits for another process, or does anything else, which counts as copying. If several threads are in calls,
 * the moment counts as the first of copying, network, other processes that any of them does. If no thread is in a call,
 * the moment belongs to the callers: HDF5, with its filters, and the application; but to copying while a call of edit.h
 * is active, which calls cache.h. So the four sums are the wall time, to the nanosecond.
 *
 * Kept only with the option stats. Without it and without a time line it costs one branch. Threads: any. */
#ifndef XH_ACCOUNT_H
#define XH_ACCOUNT_H

#include <pthread.h>
#include <stdint.h>

#include "advice.h"
#include "stats.h"
#include "timeline.h"

enum xh_doing { XH_COPYING, XH_NETWORK, XH_OTHERS, XH_OUTSIDE, XH_DOINGS };

/* Where the bytes of a read came from. */
struct xh_served {
    int imaged;         /* 1: all of it was in a metadata image */
    int on_disk;        /* 1: it was in the disk cache, and not all of it in the shadow */
    int missed;         /* 1: not all of it was in the shadow */
    int reread;         /* 1: most of what the shadow lacked had been read before */
    uint64_t ahead;     /* bytes that were fetched ahead, and are here or on their way */
    uint64_t elsewhere; /* bytes that another claim was fetching */
    uint64_t alone;     /* bytes that nothing had fetched ahead */
    uint64_t waited_ns; /* wait for the network */
    uint64_t begun_ns;  /* where it missed something: when it began */
};

struct xh_account {
    int on; /* constant */
    pthread_mutex_t lock; /* guards the rest; a leaf, held only for additions */
    uint64_t opened_ns, since_ns;
    unsigned threads[XH_DOINGS]; /* threads that do it now; XH_OUTSIDE is not counted */
    unsigned edits; /* calls of edit.h that are active: xh_account_edits */
    uint64_t spent_ns[XH_DOINGS];
    uint64_t opening_ns; /* part of the network's time: until the file was open */
    struct xh_unforeseen unforeseen[2];
    struct xh_stats before; /* for a fork's child: what its parent had counted */
    struct xh_stats ended;  /* of closed files that were part of this one */
    struct xh_facts known;  /* of the last of these */
    uint64_t failures, missing, lost_ns; /* for files that this one names; that time is in no other sum yet */
};

void xh_account_init(struct xh_account *a, int on);

/* The file was opened ahead and now belongs to its reader, who waited |waited_ns| for it. No call was made on it
 * before. */
void xh_account_handed_over(struct xh_account *a, uint64_t waited_ns);

/* Its reader, in none of its calls, has just waited |waited_ns| for the network. */
void xh_account_waited(struct xh_account *a, uint64_t waited_ns);

/* In a fork's child, before other uses: begins a new account. |now| is what was counted, without |ended|. */
void xh_account_forked(struct xh_account *a, const struct xh_stats *now);

/* The calling thread begins or ends to do |d|. XH_COPYING begins each call of cache.h; the other states are entered
 * within it. enter returns a time for leave, or 0 when no account is kept. leave returns the duration, and draws states
 * other than XH_COPYING on the time line. */
uint64_t xh_account_entered(struct xh_account *a, enum xh_doing d);
uint64_t xh_account_left(struct xh_account *a, enum xh_doing d, uint64_t entered_ns);

static inline uint64_t xh_account_enter(struct xh_account *a, enum xh_doing d)
{
    return a->on || xh_timeline_on() ? xh_account_entered(a, d) : 0;
}

static inline uint64_t xh_account_leave(struct xh_account *a, enum xh_doing d, uint64_t entered_ns)
{
    return entered_ns ? xh_account_left(a, d, entered_ns) : 0;
}

/* The calling thread begins (|more| is 1) or ends (-1u) a call of edit.h. */
void xh_account_edits(struct xh_account *a, unsigned more);

/* A read of |bytes| that requested some of them only when it came. |kind| is an enum xh_kind. */
void xh_account_unforeseen(struct xh_account *a, int kind, uint64_t bytes, uint64_t waited_ns);

/* A file that was part of this one is closed, or could not be opened. |c| are its counters; |f| what only it knew, or
 * NULL. */
void xh_account_add(struct xh_account *a, const struct xh_stats *c, const struct xh_facts *f);

/* Files that this one names: openings that failed, missing files, and the network time that these took. */
void xh_account_lost(struct xh_account *a, uint64_t failures, uint64_t missing, uint64_t network_ns);

/* Call when the file is open. */
void xh_account_opened(struct xh_account *a);

/* Writes the account of the file |url_shown| to standard error, in one write. |c| are its counters. The caller fills in
 * what only it knows in |f|: |rtt_ns| and what follows. */
void xh_account_print(struct xh_account *a, const char *url_shown, const struct xh_stats *c, struct xh_facts *f);

/* The same for a file that was not opened. |why| is the message for the user. */
void xh_account_print_unopened(struct xh_account *a, const char *url_shown, const struct xh_stats *c, const char *why);

#endif
