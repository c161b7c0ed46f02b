/* The early head: what the opening brought before the version was known that it is of.
 *
 * Where a server tells a file's version apart from its bytes (XRootD), only what is fetched after the
 * version is proved by it. To fetch the head anew before HDF5 sees it would cost a round trip; so it is read
 * from at once, and fetched anew meanwhile. Until both have been compared
 *
 * 1. a read is answered by the early head alone, or does not return: what a program has seen is of one reply;
 * 2. nothing of the early head is in the shadow, whose pages were all fetched after the version was told.
 *
 * The same bytes in both: the early ones are those of the version, whenever they were sent. Others: the
 * file was changed while it was opened, and from then on every read says so.
 *
 * Nothing needs that proof where nobody reads from the early head: a metadata image in use has its bytes
 * (xh_unverified_drop). And a sidecar's reader has sums for all that he takes from it (xh_unverified_waive). */
#ifndef XH_UNVERIFIED_HEAD_H
#define XH_UNVERIFIED_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"

struct xh_file;
struct xh_origin_head;

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

/* Takes |head|'s bytes, and leaves it empty, when they came early. While the file is being opened. */
void xh_unverified_take(struct xh_file *f, struct xh_origin_head *head);
void xh_unverified_free(struct xh_file *f);

/* 1 while it answers reads, and they wait for its proof. */
int xh_unverified_stands(const struct xh_file *f);

/* Nothing was read of it so far, and what it has is to be read elsewhere. While the file is being opened. */
void xh_unverified_drop(struct xh_file *f);

/* From now on it answers guesses alone: who reads the file proves what he reads. While the file is being opened. */
void xh_unverified_waive(struct xh_file *f);

/* As the source's peek, for a guess, which need not be right. Returns 1 or 0. */
int xh_unverified_look(const struct xh_file *f, uint64_t off, void *buf, size_t len);

/* Settles whether the early head is the version's; free once that is done. Returns 0, XH_E_CHANGED, or what
 * kept its bytes from being fetched: then the next read tries again. Threads: any. Blocks until they are there. */
int xh_unverified_prove(struct xh_file *f, struct xh_err *err);

#endif
