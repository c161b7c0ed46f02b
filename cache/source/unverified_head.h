/* The unverified head: bytes that the opening brought before it was known of which version they are.
 *
 * Some servers (XRootD) tell a file's version apart from its bytes. There only what is fetched after the version was
 * told is proved by it. To fetch the head again before HDF5 sees it would cost a round trip. So HDF5 reads the
 * unverified head at once, and the head is fetched again along with the first bytes that it lacks: in one request,
 * where the server takes several ranges. Until both have been compared,
 *
 * 1. a read is answered by the unverified head alone, or does not return: a program never sees bytes of two replies;
 * 2. nothing of the unverified head is in the shadow: all pages there were fetched after the version was told.
 *
 * If both are the same, the unverified bytes are those of the version, whenever they were sent. If not, the file was
 * changed while it was opened, and from then on every read says so.
 *
 * The proof is not needed where the unverified head is not read: a metadata image in use has its bytes
 * (xh_unverified_drop). A sidecar's reader has sums for all that it takes from it (xh_unverified_waive). */
#ifndef XH_UNVERIFIED_HEAD_H
#define XH_UNVERIFIED_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"

struct xh_file;
struct xh_origin_head;
struct xh_runs;

enum xh_unverified_state {
    XH_UNVERIFIED_NONE,  /* there is none, or it is dropped, or proved: the shadow has its bytes */
    XH_UNVERIFIED_STANDS,
    XH_UNVERIFIED_WAIVED, /* it is for guesses alone, and nobody waits for its proof */
    XH_UNVERIFIED_WRONG, /* of another version */
};

struct xh_unverified_head {
    uint8_t *bytes; /* [0, len) of the object; constant once opened, freed with the file */
    size_t len;
    _Atomic int state; /* STANDS to one of the others, once */
};

/* If |head| came before the version was known, takes its bytes and leaves it empty. While the file is being opened. */
void xh_unverified_take(struct xh_file *f, struct xh_origin_head *head);
void xh_unverified_free(struct xh_file *f);

/* 1 while it answers reads, and they wait for its proof. */
int xh_unverified_stands(const struct xh_file *f);

/* Nothing was read of it so far, and its bytes will be read elsewhere. While the file is being opened. */
void xh_unverified_drop(struct xh_file *f);

/* From now on it answers guesses alone: the file's reader proves its bytes itself. While the file is being opened. */
void xh_unverified_waive(struct xh_file *f);

/* While it stands, claims those of its pages that nobody has or brings, and adds them to |mine|, which is fetched next
 * and stays sorted: they prove it. Without memory, or room in the shadow, xh_unverified_prove fetches them. */
void xh_unverified_claim(struct xh_file *f, struct xh_runs *mine);

/* As the source's peek, for a guess, which need not be right. Returns 1 or 0. */
int xh_unverified_look(const struct xh_file *f, uint64_t off, void *buf, size_t len);

/* Settles whether the unverified head is of the version; free once that is done. Returns 0, XH_E_CHANGED, or the error
 * of the fetch: then the next read tries again. Threads: any. Blocks until the bytes are there. */
int xh_unverified_prove(struct xh_file *f, struct xh_err *err);

#endif
