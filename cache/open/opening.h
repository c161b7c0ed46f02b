/* Openings of one URL by many processes at once: one asks the origin for all of them.
 *
 * An opening must ask with the reader's own authorisation: who may not read the origin now is not to read the shadow.
 * But an answer that was asked for after this opening began, by a process with the same credentials, is as good as an
 * own one. So processes take turns: the first asks and leaves with its hint when it asked and who it was to the origin;
 * those that had begun before find that when their turn comes, and ask nothing. A process that comes while the first
 * waits for its answer began too late for it; it is the next to ask, for all behind it. */
#ifndef XH_OPENING_H
#define XH_OPENING_H

#include <stdint.h>

#include "watch/account.h"
#include "base/options.h"
#include "replicas/replicas.h"
#include "shadow/shadow.h"

struct xh_opening {
    struct xh_turn turn;
    uint64_t begun_ns, asked_ns;
    char reader[XH_READER_BYTES]; /* "": not to be told apart from others, so no turns */
    char hint[XH_HINT_BYTES];     /* the origin's, "": none */
    int vouched;                  /* 1: what the hint says was asked for on this reader's behalf */
    int awaited;                  /* 1: others want to open it too, and wait for this one */
};

/* Waits for the turn to open |url|, a short time and on the account |a|, and looks for what is known of it. */
void xh_opening_begin(struct xh_opening *op, const char *url, const struct xh_options *o, struct xh_account *a);

/* Leaves what |origin| knows now with the shadow |s|, for those who wait. */
void xh_opening_save(struct xh_opening *op, struct xh_replicas *origin, struct xh_shadow *s);

/* What an opening of |url| left, the origin's part alone. Returns its length, 0: nothing. */
size_t xh_opening_left(const char *url, const struct xh_options *o, char out[XH_HINT_BYTES]);

/* The next one's turn. Also when the opening failed. */
void xh_opening_end(struct xh_opening *op);

#endif
