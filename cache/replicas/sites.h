/* Inside replicas/: what is known of a file's sites and of the legs through them, and the states of sites. See
 * replicas.h; no other room includes this.
 *
 * A leg is one transfer of the cache's on its way through the sites. Its states, under the lock:
 *
 *   QUEUED  for a site with room                      -> BOUND (xh_routed_dispatch) | TOLD (cancel)
 *   BOUND   a site's origin has it                    -> QUEUED (that site failed, or is too slow) | OVER
 *   TOLD    over, its owner is to be told by the keeper -> OVER
 *   OVER    its owner is being told; then it is freed
 *
 * A site's states:
 *
 *   NEW     to be opened by the keeper                -> LIVE | DEAD | REFUSED
 *   LIVE    proved to have the same version           -> DEAD (it failed) | REFUSED (it has another version now)
 *   DEAD    the keeper looks at it again at |due_ns|  -> LIVE | DEAD | REFUSED
 *   REFUSED for as long as the file is open
 *   SPARE   a server offered it: asked for nothing until no other site is live -> NEW
 *
 * An offered site is in any of these; once another one is LIVE again it is SPARE, unless it is REFUSED.
 *
 * Invariants:
 *  1. The lock is held while a site's origin is asked for something (which never blocks), and never while the cache is
 *     called. The cache may hold its stage's lock when it calls. So: stage, replicas, engine.
 *  2. A BOUND leg's job exists as long as the lock is held: its done() takes the lock first.
 *  3. A site's origin, once there, stays until all is closed.
 *  4. Only a site that was LIVE is ever asked for what the cache wants, whatever befalls the others.
 *
 * The keeper is a thread for each file with several sites: it opens and compares sites, tells what is TOLD, and looks
 * at the speed of what is under way. */
#ifndef XH_SITES_H
#define XH_SITES_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "origin/origin.h"
#include "choice.h"
#include "list.h"

/* Blocking looks of the keeper are interrupted so often, for what cannot wait. */
#define XH_TICK_NS 50000000u
#define XH_SAMPLES 10u
#define XH_SAMPLE_BYTES 4096u
/* A file that is open for so long gets samples of the main site: when spares are needed it cannot be asked. */
#define XH_SAMPLE_AFTER_NS 1000000000u

enum xh_routed_state { XH_ROUTED_QUEUED, XH_ROUTED_BOUND, XH_ROUTED_TOLD, XH_ROUTED_OVER };

struct xh_routed {
    struct xh_transfer t;      /* what the site sees; t.ctx is the leg */
    struct xh_transfer *asked; /* the cache's, whose origin_private is the leg */
    struct xh_replicas *r;
    uint64_t total;
    /* Of the engine thread that delivers the range, and of whoever holds the lock while none does: */
    uint64_t *got;            /* bytes of each range that came */
    _Atomic uint64_t came;    /* in all; relaxed, as the next two */
    _Atomic uint64_t last_ns; /* when something was last heard of it */
    _Atomic int stands;       /* a stream that stands still */
    /* Under the lock: */
    TAILQ_ENTRY(xh_routed) link; /* in the list that the state names */
    enum xh_routed_state state;
    struct xh_site *site;   /* while BOUND */
    struct xh_range *rest;  /* what is left to ask for, from the second site on */
    int demand, cancelled;
    int urgent;             /* constant: a stream that does not wait for a connection, nor for a site with room */
    int moving;             /* cancelled at its site, to go to another */
    unsigned tries, lasts;  /* failures without progress; and those of them where no other site was left */
    uint64_t bound_came;    /* |came| when its site got it */
    unsigned moves;         /* for slowness */
    struct xh_site *leaves; /* the site that it is being moved from for it: not back there at once */
    uint64_t bound_ns;      /* when its site got it */
    uint64_t seen_ns, seen; /* when it was last looked at, and |came| then */
    double speed;           /* bytes per ns lately */
    struct xh_err err;      /* while TOLD; code 0: none */
};

TAILQ_HEAD(xh_routed_queue, xh_routed);

enum xh_site_state { XH_SITE_NEW, XH_SITE_LIVE, XH_SITE_DEAD, XH_SITE_REFUSED, XH_SITE_SPARE };

struct xh_site {
    char *url;        /* constant */
    char server[300]; /* constant */
    char shown[256];  /* constant */
    int offered;      /* constant: by a server, not listed by the user */
    /* Under the lock: */
    enum xh_site_state state;
    struct xh_origin *origin; /* NULL: not opened yet */
    int proved;               /* it was LIVE */
    uint64_t due_ns, looked_ns; /* DEAD: when it is looked at next; when it failed last */
    unsigned legs;
    double rate;              /* as struct xh_choice; forgotten when it was not used for a while */
    double lasting_rate;      /* the same over some second */
    uint64_t rtt_ns, used_ns;
    uint64_t seen, seen_owed; /* |arrived| and |owed| when it was last looked at */
    /* Relaxed, order nothing: */
    _Atomic uint64_t arrived, owed, heard_ns;
};

struct xh_samples { /* some ranges of the file, and their bytes as a proved site has them */
    struct xh_range at[XH_SAMPLES];
    size_t n, bytes;
    uint8_t *of_main; /* NULL: not fetched yet. The keeper's alone, as all of this */
};

struct xh_replicas {
    /* Constant once opened: */
    size_t n;            /* sites */
    int alone;           /* all goes straight to the main one */
    size_t main;         /* the one that was opened: what it says of the version goes for the file */
    struct xh_options options;
    struct xh_counters *counters;
    uint64_t process;    /* whose thread the keeper is */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t news;  /* for the keeper */
    struct xh_site site[XH_SITES_MAX];
    struct xh_routed_queue queue[2]; /* of demand and urgent ones, and of speculation */
    struct xh_routed_queue bound, told;
    _Atomic int queued; /* legs in the queues; a hint outside the lock, relaxed */
    pthread_t keeper;
    int kept;           /* there is one */
    int closing;
    int changed;        /* the main site's file is another now: nothing is read any more */
    uint64_t ticked_ns, busy_ns; /* when the keeper looked last, and when something was under way then */
    int rests;                   /* it does not look until it is told */
    uint64_t sample_ns;          /* when it fetches samples for the spares' sake; 0: not */
    struct xh_samples samples;
};

/* All functions: the lock is held. */

unsigned xh_sites_live(const struct xh_replicas *r);

/* 1 while there is a spare to be called. */
int xh_sites_spare(const struct xh_replicas *r);

/* 1 while a spare that was called is to be looked at. */
int xh_sites_come(const struct xh_replicas *r);

/* 1 when what |s| fails of can be had elsewhere. */
int xh_site_has_others(const struct xh_replicas *r, const struct xh_site *s);

/* |s| has failed: what it was asked for goes to others, and it is looked at again later. */
void xh_site_failed(struct xh_replicas *r, struct xh_site *s, const char *why);

/* |s| was proved to be live: what the dead owe goes there; spares stand down if it is none. */
void xh_site_lives(struct xh_replicas *r, struct xh_site *s);

/* |s| is not to be used any more, for what |err| says. */
void xh_site_refuse(struct xh_replicas *r, struct xh_site *s, const struct xh_err *err);

/* What |err| of |s| means: that the reader has to know; that another site may do better for now; or for good. */
enum xh_fate { XH_FATE_UP, XH_FATE_ELSEWHERE, XH_FATE_REFUSED };
enum xh_fate xh_site_fate(const struct xh_replicas *r, const struct xh_site *s, const struct xh_err *err);

#endif
