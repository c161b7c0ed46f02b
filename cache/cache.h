/* The latency-hiding read cache: all that vfd/ sees.
 *
 * One xh_file is one open of one remote object. Its bytes are those of one version
 * of the origin from open to close: a change is XH_E_CHANGED, never a mixture.
 * Threads: any function, any thread, any number at once, except that close must be
 * the last call. Fork: a child may read and close what its parent opened. */
#ifndef XH_CACHE_H
#define XH_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"
#include "base/options.h"
#include "watch/stats.h"

struct xh_file;

/* What the extents are, for eviction only; never for correctness. */
enum xh_kind { XH_KIND_RAW, XH_KIND_META };

/* 1 when |name| is a URL that the cache reads: "http://", "https://" or "s3://", any case. */
int xh_cache_is_url(const char *name);

/* 1 when two URLs have one server, as it is decided for credentials: scheme, host and port. */
int xh_cache_have_one_server(const char *url, const char *other);

/* What |url| names, as what is kept of it is named: without signatures, and at Amazon's S3 whatever its region's host.
 * NULL without memory. Owns: the caller frees it. May read small files. Threads: the program's own. */
char *xh_cache_object(const char *url, const struct xh_options *o);

/* |url| has another version by now: the one that was opened last is not to be read offline any more, and what was
 * opened ahead is not handed over. Threads: the program's own. */
void xh_cache_forget(const char *url, const struct xh_options *o);

/* Fills |child| for what the file at |url|, opened with |o|, names: credentials may go on to |url|'s server when they
 * might go there for |url| itself, and to no other. */
void xh_cache_names(const char *url, const struct xh_options *o, struct xh_namer *child);

/* Opens |url|. One request to the origin when the shadow of the same version is
 * there already, else the first brings head, size and validator.
 * Returns 0 or a negative code with |err| set (NOENT, ACCES, NET, TLS, TIMEOUT,
 * PROTO, STATUS, INVAL, NOMEM). Owns: the caller closes |*out|. Blocks. */
int xh_cache_open(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err);

/* Most files that are opened ahead, or said to be opened next. */
#define XH_EXPECTED_MOST 16

/* |url| will likely be opened next with |o|, behind the others of its family that were expected. Once that is near, as
 * xh_cache_expect_soon says or as the one before it is read to its end, it is opened ahead, on a thread of its own.
 * xh_cache_open takes it over if it asks for the same with the same credentials. What fails is asked for anew by then.
 * A few at once; more, and what cannot be told to be the same reader's, are left alone. Returns 1 when it is expected.
 * Never fails. Waits for no server; looks for credentials. */
int xh_cache_expect(const char *url, const struct xh_options *o);

/* The next |n| files that are expected for |family| are about to be opened: that begins now. Never fails. Does not
 * block. */
void xh_cache_expect_soon(uint64_t family, size_t n);

/* xh_cache_expect, and all that are expected for its family are opened at once. */
int xh_cache_expect_now(const char *url, const struct xh_options *o);

/* The program is about to open a file of |family|, the first of those that are expected. If it has opened others and
 * read nothing of them yet, it wants several for one read: all that are expected are opened now. Never fails. Does not
 * block. */
void xh_cache_expect_beside(uint64_t family);

/* Nothing that was expected for the family (o->namer.family) will be opened: it is closed. Does not block. */
void xh_cache_expect_none(uint64_t family);

/* What the open of |f| learned, for the other processes of its job: version, dialect and head of the file,
 * or all of a file that comes whole. No secrets. Returns 0 and sets |*told| and |*len|, or a negative code
 * (as a read, or NOMEM). Owns: the caller frees |*told|. Threads: before any other call on |f|. Blocks until the head
 * is there and proved. */
int xh_cache_tell(struct xh_file *f, void **told, size_t *len, struct xh_err *err);

/* What another process of the same user and job told. */
struct xh_told {
    const void *bytes; /* as xh_cache_tell gave them */
    size_t len;
    int data_only; /* 1: metadata is read there, and here little more than chunk indexes: no walk */
    int by_us;     /* 1: |bytes| are those of a hint alone, and what is read of it is not given to the program as it
                    * is */
};

/* Opens |url| by what another process has just told: sends nothing, if that process is the same reader to the origin
 * (the same token, certificate and trust). Else the origin is asked whether this reader may read the version, in one
 * burst. Both files then know that others read their shares. Returns as xh_cache_open; CHANGED when there is another
 * version by then; INVAL when |told| is nothing of that kind. |told| is copied. */
int xh_cache_open_told(const char *url, const struct xh_options *o, const struct xh_told *told, struct xh_file **out,
                       struct xh_err *err);

struct xh_account;

/* As xh_cache_open, for a file that is part of something which has the account |whole|: what the file takes is charged
 * to that, and closing it adds its counters there and prints nothing. |whole| must outlive the file. */
int xh_cache_open_part(const char *url, const struct xh_options *o, struct xh_account *whole, struct xh_file **out,
                       struct xh_err *err);

uint64_t xh_cache_size(const struct xh_file *f);

/* When the file was changed, by the server's word, in seconds since 1970; -1: it did not say. */
long long xh_cache_changed(const struct xh_file *f);

/* What names the version that is open. Owns: the file, until it is closed. */
const char *xh_cache_validator(const struct xh_file *f);

/* 1 when another opening's same validator does not prove the same bytes: a bare size, a weak ETag, a date that was just
 * made. */
int xh_cache_is_fleeting(const struct xh_file *f);

/* What follows the validator in the name of a shadow with bytes of a young file: they are for readers alone. */
#define XH_KEPT_UNSETTLED ";young"

/* Under which version |f|'s shadow is kept, if it is not fleeting: the validator, with XH_KEPT_UNSETTLED or not. Owns:
 * the caller frees it. Returns NULL without memory. */
char *xh_cache_kept_as(const struct xh_file *f);

/* Reads |n| extents (any order, may touch or overlap, len 0 allowed, n 0 allowed) into
 * their buffers. All of every extent must lie in the file: XH_E_RANGE otherwise.
 * Returns 0 when every byte is there; on an error the buffers' contents are undefined
 * but nothing writes to them any more. Blocks until done. */
int xh_cache_read(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                  struct xh_err *err);

/* Reads |n| extents of raw data when all of them are in the shadow, as a part of a read that is counted with its last
 * part: that is xh_cache_read's. Returns 1; or 0, and the buffers' contents are undefined: xh_cache_read brings them,
 * or says what is wrong. Does not block on the network. */
int xh_cache_hit(struct xh_file *f, const struct xh_extent *ext, size_t n);

/* Ranges of hints that may wait: 16 MiB of them. */
#define XH_HINTS_MAX (1u << 20)

/* Takes |n| ranges, in the order in which they will be wanted, to fetch ahead of the reads: as much
 * as there is room for at once (three quarters of readahead_bytes), the rest as the reads go on.
 * Returns how many were taken, from the first on: fewer than |n| when XH_HINTS_MAX wait already, and
 * at a range that leaves the file. Never fails. Does not block on the network. */
size_t xh_cache_prefetch(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n);

/* Returns 1 while ranges of a hint wait, or are ahead of their read: then just these are fetched ahead, and a read of
 * what lies between them would fetch more. An estimate where other threads read. */
int xh_cache_is_hinted(const struct xh_file *f);

/* The options that it was opened with; the file's. */
const struct xh_options *xh_cache_options(const struct xh_file *f);

/* Orders files by (URL, validator) without network: <0, 0 (same object), >0. */
int xh_cache_cmp(const struct xh_file *a, const struct xh_file *b);

void xh_cache_stats(struct xh_file *f, struct xh_stats *out);

/* Waits until all that was read of |f| is proved to be of its version, and so is in the shadow: bytes that came before
 * the version was known (XRootD) answer reads while they are fetched again. Returns 0, or a negative code with |err|
 * set: XH_E_CHANGED, or the error of the fetch. */
int xh_cache_prove(struct xh_file *f, struct xh_err *err);

/* Waits until what was fetched of |f| is on the disk cache, if there is one, for as long as closing it would. With the
 * option to_disk copies there what the shadow has, too. */
void xh_cache_settle(struct xh_file *f);

/* Tells the account of the other files that |f| names (virtual datasets, links), which its user has not open otherwise:
 * how many openings of them failed, how many files were not there, how long the network took for both. Before the
 * close. */
void xh_cache_lost(struct xh_file *f, uint64_t failures, uint64_t missing, uint64_t network_ns);

/* Ends speculation, leaves the shadow for the next reader. NULL allowed. Never fails, never blocks on the network. */
void xh_cache_close(struct xh_file *f);

/* The same, for the program's files: one that another file names may be kept, with what it has on its way, for when the
 * program opens it again (open/expected.h). xh_cache_expect_none closes it. */
void xh_cache_leave(struct xh_file *f);

#endif
