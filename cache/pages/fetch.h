/* Fetching: claimed pages out, published pages and the bytes of a waiting read in. */
#ifndef XH_FETCH_H
#define XH_FETCH_H

#include "op.h"
#include "runs.h"
#include "shadow/shadow.h"

/* Requests for metadata ahead that are on their way at once: as many as connections mostly pay, but one
 * that stays free for demand. What gets known meanwhile waits for one to end, so that each carries much. */
#define XH_META_AT_ONCE 7u

struct xh_fetch;
struct xh_transfer;

/* What fetches ahead to the shadow, of an open file; changed by fetch.c alone. */
struct xh_flights {
    pthread_mutex_t lock;   /* guards the list; held while the origin's lock is taken */
    struct xh_fetch *first; /* on their way: for reads that wait, and for nobody yet */
    _Atomic unsigned wide;  /* transfers of what was dealt over all connections that are on their way */
    _Atomic unsigned meta;  /* transfers of metadata that are on their way */
    _Atomic uint64_t meta_asked; /* their bytes, and those of all before them */
};

/* When the file is opened, and in a fork's child; free: nothing is on its way. */
void xh_flights_init(struct xh_flights *fl);
void xh_flights_free(struct xh_flights *fl);

/* Transfers that were dealt over all connections, and are on their way. */
unsigned xh_fetch_wide_flying(const struct xh_file *f);

/* Transfers of metadata ahead that are on their way; and the bytes of all that were so far. */
unsigned xh_fetch_meta_flying(const struct xh_file *f);
uint64_t xh_fetch_meta_asked(const struct xh_file *f);

/* Claims |page| as LATER, and adds it to |mine| where the claim was had. Returns what became of the claim; without
 * memory it is given up, and that is XH_CLAIM_NONE. */
enum xh_claim xh_fetch_claim(struct xh_file *f, uint64_t page, int meta, struct xh_runs *mine);
/* Gives up |runs|, claimed so and not begun. */
void xh_fetch_forgo(struct xh_file *f, const struct xh_runs *runs);

/* Fetches |runs| (claimed as LATER by the caller, unless |claimed| is 0: then the pages stay out of
 * the shadow). Bytes go to the shadow, published page by page, and to |op|'s extents; with
 * |op| NULL the fetch is speculative and frees itself. Counts itself into op->pending.
 * Returns 0 or an error; on an error the claims have been abandoned, except those of fetches
 * already on their way, which complete. Does not block. */
int xh_fetch_start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed,
                   struct xh_err *err);

/* Cancels what is on its way for |op|. Threads: its own. Does not block. */
void xh_fetch_interrupt(struct xh_read_op *op);

/* Over which connections: those that are there mostly; as many as xh_limits_wide has; or as xh_limits_deal_whole has
 * it. Where the server allows it. */
enum xh_fetch_over { XH_OVER_THOSE_THERE, XH_OVER_ALL, XH_OVER_ALL_AT_ONCE };

/* The same for nobody yet: of |meta|data, or of raw data. All of |runs| is claimed; a failure abandons the claims, as
 * whoever wants the bytes asks for them again. */
void xh_fetch_for_later(struct xh_file *f, const struct xh_runs *runs, int meta, enum xh_fetch_over over);

/* |t|, which was dealt its share of what all connections bring, takes a connection as a stream does; |patient|: one that
 * is there. */
void xh_fetch_take_connection(struct xh_transfer *t, int patient);

/* A reader waits for the page: what fetches it ahead, if this process does, goes before all that nobody
 * waits for. Returns the first page behind those that the same is now true of. */
uint64_t xh_fetch_promote(struct xh_file *f, uint64_t page);

/* The reader has left the order in which raw data was fetched ahead: takes back what was not asked for yet. */
void xh_fetch_recall(struct xh_file *f);

/* What lies behind |off| comes another way from now on: ends what was asked for there ahead. A reader that waits for it
 * asks again. */
void xh_fetch_cut(struct xh_file *f, uint64_t off);

#endif
