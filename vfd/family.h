/* A family: a file that the program opened, and all files that are opened because it, or one of those, names them
 * (virtual data sets, external links). What became of the URLs that they name, for as long as one of them is open.
 *
 * One open file gives one answer: a URL that was not there stays away for the family, one that was there and is no longer
 * is an error. A failure is remembered as long as it took, FAMILY_FORGETS_NS at least: a reader who asks for a thousand
 * chunks of a silent server waits for at most twice as long as one time-out, a server that recovers is asked again.
 *
 * Threads: any. Sends nothing, calls no HDF5. */
#ifndef XH_FAMILY_H
#define XH_FAMILY_H

#include <stdint.h>

#include "../cache/base/err.h"
#include "../cache/base/options.h"
#include "lineup.h"

enum xh_kin { XH_KIN_UNKNOWN, XH_KIN_OPENED, XH_KIN_MISSING, XH_KIN_FAILED };

/* What failed in a family, to be told when its first file is closed. */
struct xh_family_lost {
    uint64_t failures, missing; /* openings that failed; URLs that were not there */
    uint64_t network_ns;        /* what both took */
};

/* The number of a new family. */
uint64_t xh_family_new(void);

/* A file of the family was opened, is closed: with the last one the family is forgotten. leave returns 1 then. */
void xh_family_enter(uint64_t family);
int xh_family_leave(uint64_t family);

/* By what a family knows |url|, which |by| names: what becomes of it depends on whether it is shown credentials, too. NULL
 * without memory. Owns: free(). */
char *xh_family_key(const struct xh_namer *by, const char *url);

/* What is known of |url|, a key. XH_KIN_FAILED, with |*err|, is known as long as it is remembered; then what was known before. */
enum xh_kin xh_family_look(uint64_t family, const char *url, struct xh_err *err);

/* What became of |url|, when it was opened or read: |err| of XH_KIN_FAILED, |took_ns|: how long it took to find out. */
void xh_family_note(uint64_t family, const char *url, enum xh_kin kin, const struct xh_err *err, uint64_t took_ns);

/* An opening was in vain, and took so long: XH_KIN_MISSING or XH_KIN_FAILED. */
void xh_family_lose(uint64_t family, enum xh_kin kin, uint64_t took_ns);

/* How long a failure that took so long is remembered. */
uint64_t xh_family_remembers_ns(uint64_t took_ns);

struct xh_family_lost xh_family_lost(uint64_t family);

/* A file of the family has the collection of the global heap |p|, of |len| bytes: the names in it are remembered. */
void xh_family_saw(uint64_t family, const void *p, size_t len);

/* |url|, which |by| names, was opened: fills |out| with the URLs that are expected to be opened next, of which nothing is known yet.
 * Returns how many. Owns: the caller frees each. */
size_t xh_family_foresees(uint64_t family, const struct xh_namer *by, const char *url, char *out[XH_LINEUP_AHEAD]);

#endif
