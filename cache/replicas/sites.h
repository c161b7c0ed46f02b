/* Inside replicas/: what is known of a file's sites and of its routed transfers, and the states of both. No other room
 * includes this.
 *
 * A routed transfer is one transfer of the cache on its way through the sites. Its states, under the lock:
 *
 *   QUEUED  waits for a site with room                  -> BOUND (xh_routed_dispatch) | TOLD (cancel)
 *   BOUND   a site's origin has it                      -> QUEUED (that site failed, or is too slow) | OVER
 *   TOLD    has ended; the keeper will notify its owner -> OVER
 *   OVER    its owner is being notified; then it is freed
 *
 * A site's states:
 *
 *   NEW     the keeper will open it                     -> LIVE | DEAD | REFUSED
 *   LIVE    proved to have the same version             -> DEAD (it failed) | REFUSED (it has another version now)
 *   DEAD    the keeper looks at it again at |due_ns|    -> LIVE | DEAD | REFUSED
 *   REFUSED for as long as the file is open
 *
 * Invariants:
 *  1. The lock is held while a site's origin is called (which never blocks), and never while the cache is called. The
 *     cache may hold its stage's lock when it calls. So the order of locks is: stage, replicas, engine.
 *  2. While the lock is held, the job of a BOUND transfer exists: its done() takes the lock first.
 *  3. A site's origin, once there, stays until the file is closed.
 *  4. Only a site that was LIVE once is ever asked for the cache's transfers, even if all others fail.
 *
 * The keeper (keeper.h) is one thread for each file with several sites. */
#ifndef XH_SITES_H
#define XH_SITES_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "origin/origin.h"
#include "choice.h"
#include "list.h"

/* Blocking looks of the keeper are interrupted at this interval for urgent work. */
#define XH_TICK_NS 50000000u
#define XH_SAMPLES 10u
#define XH_SAMPLE_BYTES 4096u

enum xh_routed_state { XH_ROUTED_QUEUED, XH_ROUTED_BOUND, XH_ROUTED_TOLD, XH_ROUTED_OVER };

struct xh_routed {
    struct xh_transfer t;      /* what the site's origin sees; t.ctx is this struct */
    struct xh_transfer *asked; /* the cache's transfer; its origin_private is this struct */
    struct xh_replicas *r;
    uint64_t total;
    /* Used by the engine thread that delivers the range, or under the lock while none does: */
    uint64_t *got;            /* bytes of each range that came */
    _Atomic uint64_t came;    /* sum of |got|; relaxed, as the next two */
    _Atomic uint64_t last_ns; /* when something was last heard of it */
    _Atomic int stands;       /* 1: a stream that stands still */
    /* Under the lock: */
    TAILQ_ENTRY(xh_routed) link; /* in the list that the state names */
    enum xh_routed_state state;
    struct xh_site *site;   /* while BOUND */
    struct xh_range *rest;  /* ranges that are left to ask for, from the second site on */
    int demand, cancelled;
    int urgent;             /* constant: a stream that waits neither for a connection nor for a site with room */
    int moving;             /* cancelled at its site, to go to another */
    unsigned tries, lasts;  /* failures without progress; and those among them where no other site was left */
    uint64_t bound_came;    /* |came| when its site got it */
    unsigned moves;         /* how often it was moved for slowness */
    struct xh_site *leaves; /* the site that it is being moved away from; it does not go back there at once */
    uint64_t bound_ns;      /* when its site got it */
    uint64_t seen_ns, seen; /* when it was last measured, and |came| then */
    double speed;           /* bytes per ns, smoothed */
    struct xh_err err;      /* while TOLD; code 0: none */
};

TAILQ_HEAD(xh_routed_queue, xh_routed);

enum xh_site_state { XH_SITE_NEW, XH_SITE_LIVE, XH_SITE_DEAD, XH_SITE_REFUSED };

struct xh_site {
    char *url;        /* constant */
    char server[XH_SERVER_BYTES]; /* constant */
    char shown[256];  /* constant */
    /* Under the lock: */
    enum xh_site_state state;
    struct xh_origin *origin; /* NULL: not opened yet */
    int proved;               /* it was LIVE once */
    uint64_t due_ns, looked_ns; /* of a DEAD one: when it is looked at next; when it last failed */
    unsigned legs;
    double rate;              /* as in struct xh_choice; forgotten when the site is not used for a while */
    double lasting_rate;      /* the same, smoothed over about a second */
    uint64_t rtt_ns, used_ns;
    uint64_t seen, seen_owed; /* |arrived| and |owed| at the last measurement */
    /* Relaxed; they order nothing: */
    _Atomic uint64_t arrived, owed, heard_ns;
};

struct xh_samples { /* some ranges of the file, and their bytes at a proved site. Only the keeper uses them */
    struct xh_range at[XH_SAMPLES];
    size_t n, bytes;
    uint8_t *of_main; /* NULL: not fetched yet */
};

struct xh_replicas {
    /* Constant once the file is open: */
    size_t n;            /* number of sites */
    int alone;           /* all calls go straight to the main site */
    size_t main;         /* the site that was opened first: its version is the file's */
    struct xh_options options;
    struct xh_counters *counters;
    uint64_t process;    /* the process that the keeper's thread belongs to */
    char *offline;       /* the version's validator: no site is ever asked; NULL: sites are there */
    uint64_t offline_size;
    long long offline_changed_s;

    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t news;  /* wakes the keeper */
    struct xh_site site[XH_SITES_MAX];
    struct xh_routed_queue queue[2]; /* of demand and urgent transfers; of speculative ones */
    struct xh_routed_queue bound, told;
    _Atomic int queued; /* transfers in the queues; a hint outside the lock, relaxed */
    pthread_t keeper;
    int kept;           /* the keeper runs */
    int closing;
    int changed;        /* the main site has another version now: reads fail */
    uint64_t ticked_ns, busy_ns; /* when the keeper last measured, and last saw a transfer on its way */
    int rests;                   /* the keeper measures nothing until it is woken */
    struct xh_samples samples;
};

/* All functions: the lock is held. */

unsigned xh_sites_live(const struct xh_replicas *r);

/* Returns 1 when another site may bring what |s| fails to bring. */
int xh_site_has_others(const struct xh_replicas *r, const struct xh_site *s);

/* |s| has failed: its transfers move to other sites, and it is looked at again later. */
void xh_site_failed(struct xh_replicas *r, struct xh_site *s, const char *why);

/* |s| was proved to be live: the transfers of dead sites move. */
void xh_site_lives(struct xh_replicas *r, struct xh_site *s);

/* |s| is not used any more, for the reason in |err|. */
void xh_site_refuse(struct xh_replicas *r, struct xh_site *s, const struct xh_err *err);

/* What |err| of |s| means: the reader must get it; another site may do better for now; |s| is refused for good. */
enum xh_fate { XH_FATE_UP, XH_FATE_ELSEWHERE, XH_FATE_REFUSED };
enum xh_fate xh_site_fate(const struct xh_replicas *r, const struct xh_site *s, const struct xh_err *err);

#endif
