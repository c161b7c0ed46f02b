/* A family is a file that the program opened, and all files that are opened because it, or another file of the family,
 * names them (virtual datasets, external links). The family remembers what became of the URLs that its files name, as
 * long as one of its files is open.
 *
 * An open file gives consistent answers. A URL that was missing stays missing for the family; a URL that was there and
 * is gone is an error. A failure is remembered as long as it took, and at least FAMILY_FORGETS_NS. So a reader that
 * asks for a thousand chunks of a silent server waits at most twice as long as one timeout, and a server that recovers
 * is asked again.
 *
 * Threads: any. Sends nothing, calls no HDF5. */
#ifndef XH_FAMILY_H
#define XH_FAMILY_H

#include <stdint.h>

#include "../cache/base/err.h"
#include "../cache/base/options.h"
#include "lineup.h"

enum xh_kin { XH_KIN_UNKNOWN, XH_KIN_OPENED, XH_KIN_MISSING, XH_KIN_FAILED };

/* Failures in a family; reported when its first file is closed. */
struct xh_family_lost {
    uint64_t failures, missing; /* openings that failed; URLs that were missing */
    uint64_t network_ns;        /* time that both took */
};

/* Returns the number of a new family. */
uint64_t xh_family_new(void);

/* A file of the family was opened, or is closed. When its last file is closed, the family is forgotten, and leave
 * returns 1. */
void xh_family_enter(uint64_t family);
int xh_family_leave(uint64_t family);

/* Returns the key under which a family knows |url|, which |by| names. The key includes the server whose credentials may
 * be sent, because the result depends on them. Returns NULL when out of memory. Owns: free(). */
char *xh_family_key(const struct xh_namer *by, const char *url);

/* Returns what is known of |url|, a key. While a failure is remembered, returns XH_KIN_FAILED and sets |*err|; after
 * that, what was known before. */
enum xh_kin xh_family_look(uint64_t family, const char *url, struct xh_err *err);

/* Stores what became of |url|, a key, when it was opened or read. |err| belongs to XH_KIN_FAILED. |took_ns| is the time
 * that it took to find out. */
void xh_family_note(uint64_t family, const char *url, enum xh_kin kin, const struct xh_err *err, uint64_t took_ns);

/* Counts an opening that did not succeed and took |took_ns|. |kin| is XH_KIN_MISSING or XH_KIN_FAILED. */
void xh_family_lose(uint64_t family, enum xh_kin kin, uint64_t took_ns);

/* Returns for how long a failure that took |took_ns| is remembered. */
uint64_t xh_family_remembers_ns(uint64_t took_ns);

struct xh_family_lost xh_family_lost(uint64_t family);

/* A file of the family has the global heap collection |p|, of |len| bytes. Remembers the file names in it. */
void xh_family_saw(uint64_t family, const void *p, size_t len);

/* |url| was opened, and nothing was known of it. HDF5 opens the files of a name with %b one after the other until one
 * is missing, so a server that has a file for each name would keep it at that for ever. Returns, once in many such
 * files, the URL of a file that cannot be there, to ask the server for: |url| with a number that no block has. Returns
 * NULL when there is no need to ask, or no memory. Owns: free(). */
char *xh_family_absurd(uint64_t family, const char *url);

/* The server has that file, so the last URL is not used. When it is opened again, the server is asked again. */
void xh_family_is_endless(uint64_t family);

/* Returns how many files follow |url| in a mapping of the family; 0 also when it is in none. */
size_t xh_family_behind(uint64_t id, const char *url);

/* What is expected after an opening. */
struct xh_foreseen {
    char *url[XH_EXPECTED_MOST]; /* to be opened next, nothing is known of them yet. Owns: the caller frees each */
    size_t name_at[XH_EXPECTED_MOST]; /* where in the URL a relative name begins; SIZE_MAX: the file has all of it */
    size_t n;
    size_t soon;   /* how many files are about to be opened, these or earlier ones */
    size_t behind; /* how many files follow the one that was opened */
    int anew;      /* 1: the order begins anew here; what was expected before is not */
};

/* |url|, which |by| names, was opened. Fills |out|. */
void xh_family_foresees(uint64_t family, const struct xh_namer *by, const char *url, struct xh_foreseen *out);

#endif
