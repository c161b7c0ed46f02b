/* Openings of one URL by many processes at once: one asks the origin for all of them.
 *
 * An opening must ask with the reader's own authorisation: a reader that may not read the origin now must not read the
 * shadow. But an answer to a question that was asked after this opening began, by a process with the same credentials,
 * is as good as an own one. So processes take turns. The first one asks. When it leaves, it leaves a hint: when it
 * asked, and which reader it is to the origin. Those that had begun before find the hint when their turn comes, and ask
 * nothing. A process that comes while the first waits for its answer began too late for it. It is the next to ask, for
 * all behind it. */
#ifndef XH_OPENING_H
#define XH_OPENING_H

#include <stdint.h>

#include "watch/account.h"
#include "base/options.h"
#include "replicas/replicas.h"
#include "shadow/shadow.h"

struct xh_disk;

struct xh_opening {
    struct xh_turn turn;
    uint64_t begun_ns, asked_ns;
    char reader[XH_READER_BYTES]; /* "": not to be told apart from others, so no turns */
    char hint[XH_HINT_BYTES];     /* the origin's, "": none */
    int vouched;                  /* 1: what the hint says was asked for on this reader's behalf */
    int awaited;                  /* 1: others want to open it too, and wait for this one */
};

/* Waits a short time for the turn to open |url|, on the account |a|, and looks for what is known of it. The caller gives
 * op->turn to the next process (xh_shadow_turn_over), also after an opening that failed. */
void xh_opening_begin(struct xh_opening *op, const char *url, const struct xh_options *o, struct xh_account *a);

/* Leaves what |origin| knows of |url| now with the shadow |s|, for the processes that wait; and with |disk|, NULL:
 * none. Where nothing can be left, nothing is left of another version either: offline it would be taken for this
 * one. */
void xh_opening_save(struct xh_opening *op, const char *url, const struct xh_options *o, struct xh_replicas *origin,
                     struct xh_shadow *s, struct xh_disk *disk);

/* Forgets what openings left of |url| with its shadow, on the disk: its version is another one by now, or is to be kept
 * nowhere. */
void xh_opening_forget(const char *url, const struct xh_options *o, int shadows, int disks);

/* The origin's part of what an opening of |url| left. Returns its length; 0: nothing. */
size_t xh_opening_left(const char *url, const struct xh_options *o, char out[XH_HINT_BYTES]);

/* Finds the version of |url| that was opened last, with what the origin left of it as its hint: on the disk, else in
 * the shadow. Returns 1 or 0. */
int xh_opening_last(const char *url, const struct xh_options *o, struct xh_shadow_version *out);

#endif
