/* The account of an open file: where its wall time went, from open to close, and what reads waited for.
 *
 * The time is the file's, not its threads': each moment counts once. A thread in a call of cache.h is copying (or
 * planning: anything that is neither of the others), waits for the network, or waits for another process; when there
 * are several, the moment is the first of these that any of them is in. When there is none it belongs to those who
 * call: HDF5, with its filters, and the application. So the four sums are the wall time, to the nanosecond.
 *
 * Kept with the option stats alone; without it and without a time line a branch is all it costs. Threads: any. */
#ifndef XH_ACCOUNT_H
#define XH_ACCOUNT_H

#include <pthread.h>
#include <stdint.h>

#include "advice.h"
#include "stats.h"
#include "timeline.h"

enum xh_doing { XH_COPYING, XH_NETWORK, XH_OTHERS, XH_OUTSIDE, XH_DOINGS };

/* How a read came by its bytes. */
struct xh_served {
    int imaged;         /* all of it was in a metadata image */
    int missed;         /* not all of it was in the shadow */
    uint64_t ahead;     /* bytes that were fetched ahead, here or on their way */
    uint64_t elsewhere; /* bytes that another claim was fetching */
    uint64_t alone;     /* bytes that nobody had foreseen */
    uint64_t waited_ns; /* for the network */
};

struct xh_account {
    int on; /* constant */
    pthread_mutex_t lock; /* guards the rest; a leaf, held for additions alone */
    uint64_t opened_ns, since_ns;
    unsigned threads[XH_DOINGS]; /* that do it now; of XH_OUTSIDE none is counted */
    uint64_t spent_ns[XH_DOINGS];
    uint64_t opening_ns; /* of the network's: until the file was open */
    struct xh_unforeseen unforeseen[2];
    struct xh_stats before; /* a fork's child: what its parent had counted */
    struct xh_stats ended;  /* of files that were parts and are closed */
    struct xh_facts known;  /* of the last of them */
    uint64_t failures, missing, lost_ns; /* of files that this one names; the time was nobody's yet */
};

void xh_account_init(struct xh_account *a, int on);

/* The file was opened ahead, is its reader's from now on, and was waited for so long. Nobody has called for it yet. */
void xh_account_handed_over(struct xh_account *a, uint64_t waited_ns);

/* In a fork's child, before anything else of it: begins anew. |now| is what has been counted, besides what is in |ended|. */
void xh_account_forked(struct xh_account *a, const struct xh_stats *now);

/* The calling thread begins to do |d|, and ends it. The others are within XH_COPYING, and that is in none: it is what
 * a call of cache.h begins with. enter's result is for leave: the time, 0 when nobody wants to know. leave returns how
 * long it was, and draws what is not XH_COPYING on the time line. */
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

/* A read of |bytes| that asked for some of them only when it came; |kind| as enum xh_kind. */
void xh_account_unforeseen(struct xh_account *a, int kind, uint64_t bytes, uint64_t waited_ns);

/* A file that was part of this is closed, or could not be opened: what was counted of it, and what only it knew (NULL: nothing). */
void xh_account_add(struct xh_account *a, const struct xh_stats *c, const struct xh_facts *f);

/* Files that this one names: openings that failed, files that were not there, and what that took the network. */
void xh_account_lost(struct xh_account *a, uint64_t failures, uint64_t missing, uint64_t network_ns);

/* The file is open now. */
void xh_account_opened(struct xh_account *a);

/* Writes the account of the file |url_shown| to |fd|, in one piece. |c| is what has been counted; of |f| what only the
 * caller knows is filled in: from the round trip on. */
void xh_account_print(struct xh_account *a, const char *url_shown, const struct xh_stats *c, struct xh_facts *f, int fd);

/* The same of a file that was not opened: |why|, as the user is told. */
void xh_account_print_unopened(struct xh_account *a, const char *url_shown, const struct xh_stats *c, const char *why, int fd);

#endif
