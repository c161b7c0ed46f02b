/* Writing remote files: an open file whose bytes may change. This header is what vfd/ sees of it.
 *
 * Written bytes stay in an overlay (overlay/) until the file is closed, or a program commits. Then the whole new file
 * goes to the server beside the old one, and takes its place in one step of the server. docs/commit.md has the
 * protocol.
 * Threads: one at a time for each file; HDF5 ensures that. Fork: a child may read and close; it commits nothing. */
#ifndef XH_EDIT_H
#define XH_EDIT_H

#include "cache.h"

struct xh_edit;

enum xh_edit_how {
    XH_EDIT_CHANGE,  /* it exists, and will be changed */
    XH_EDIT_CREATE,  /* it must not exist */
    XH_EDIT_REPLACE, /* made anew, whether it exists or not */
    XH_EDIT_EMPTY,   /* it exists, and is made anew */
};

/* What is read. Merges treat the kinds differently. */
enum xh_edit_kind {
    XH_EDIT_META,   /* metadata of exactly this length */
    XH_EDIT_RAW,
    XH_EDIT_HEADER, /* an object header, which HDF5 reads with the bytes behind it */
};

/* Opens |url|. Returns 0 or a negative code with |err| set: those of xh_cache_open and xh_overlay_new; XH_E_INVAL
 * with sys_errno EEXIST (CREATE, and it exists); XH_E_NOENT (EMPTY, and it does not); XH_E_INVAL (no https, or a
 * query). Owns: the caller closes |*out|. Blocks. */
int xh_edit_open(const char *url, const struct xh_options *o, enum xh_edit_how how, struct xh_edit **out,
                 struct xh_err *err);

/* HDF5 has a page buffer, so what it reads and writes are whole pages: heaps, headers and elements may begin anywhere
 * in them. Called before the first read. */
void xh_edit_has_pages(struct xh_edit *e);

uint64_t xh_edit_size(const struct xh_edit *e); /* in bytes, as written so far */
void xh_edit_stats(struct xh_edit *e, struct xh_stats *out); /* counts reads and writes, with opening and commits */

/* Reads |n| extents that lie in the file. Returns as xh_cache_read, or XH_E_SYS for local files. Blocks. */
int xh_edit_read(struct xh_edit *e, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err);

/* Writes into the overlay. Returns 0, XH_E_NOSPACE, XH_E_SYS or XH_E_NOMEM: after a failure the file is never
 * committed. In a forked child: XH_E_READONLY for raw data, 0 without effect for metadata. Blocks, at times on the
 * network. */
int xh_edit_write(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len,
                  struct xh_err *err);

int xh_edit_truncate(struct xh_edit *e, uint64_t size, struct xh_err *err);

/* Notes that the bytes written so far make a whole file: if the process is killed, "xhdf5 recover export" makes a
 * file of them. A machine that fails may lose them, as those of a local file. Sends nothing. Returns 0, XH_E_SYS or
 * XH_E_NOSPACE. */
int xh_edit_flush(struct xh_edit *e, struct xh_err *err);

/* Sends the written bytes to the server as a new version, and continues with that version. If nothing was changed,
 * sends nothing. Returns 0, or XH_E_CHANGED (a conflict: another writer changed the file in a way that cannot be
 * merged), XH_E_ACCES, XH_E_NOSPACE, XH_E_NET, … After a failure all written bytes stay. Blocks. */
int xh_edit_commit(struct xh_edit *e, struct xh_err *err);

/* Returns 1 when commits have taken over others' changes of data that was read or written here. HDF5 may have older
 * bytes of that data in memory. If it writes them, and they differ from the present ones, the file is no longer
 * committed (XH_E_CHANGED). */
int xh_edit_is_behind(const struct xh_edit *e);

enum xh_edit_discard {
    XH_EDIT_DISCARD_NOT,
    XH_EDIT_DISCARD_KEEP, /* the bytes stay on this machine; "xhdf5 recover retry" or a later commit sends them */
    XH_EDIT_DISCARD_ALL,  /* the bytes are removed; the file can no longer be committed */
};

/* From now on nothing is sent: if something was changed, commits and closing fail with |why|, a sentence about the file,
 * and what was written is kept ("withheld"). */
void xh_edit_refuse(struct xh_edit *e, const char *why);

/* Bytes written since the last commit, and from now on, are not sent when the file is closed. Sends nothing. */
void xh_edit_discard(struct xh_edit *e, enum xh_edit_discard how);

/* Commits a last time, and frees |e| in any case. Returns as xh_edit_commit; after a failure the overlay stays for
 * recovery, and |err| says so. Returns 0 with a text in |err| when nothing was sent, as requested, and the bytes are
 * kept. Blocks. */
int xh_edit_close(struct xh_edit *e, struct xh_err *err);

/* The process ends, and |e| is open. Returns 1 with a text in |err| when something was written that was not sent; else
 * 0. Sends nothing. */
int xh_edit_unclosed(const struct xh_edit *e, struct xh_err *err);

/* ---- overlays left by failed commits and killed processes */

struct xh_left {
    const char *id;
    const char *state; /* in words: docs/writing.md has them */
    int is_whole;      /* "export" makes a file of it */
    int is_to_be_sent; /* else a retry has to name it, if it may be sent at all */
    const char *url, *why;
    uint64_t size, written_bytes;
    long long since_s; /* seconds since 1970; 0: not known */
};

/* Calls |visit| for each left overlay, until it returns other than 0. Returns as xh_overlay_each. */
int xh_edit_each_left(const struct xh_options *o, int (*visit)(void *ctx, const struct xh_left *l), void *ctx,
                      struct xh_err *err);

/* Commits the overlay |id| and removes it. Returns as xh_edit_commit, or XH_E_NOENT, XH_E_INVAL. Owns: on success
 * the caller frees |*url|, the file's URL. Blocks. */
int xh_edit_retry(const struct xh_options *o, const char *id, char **url, struct xh_err *err);

/* Writes the file of the overlay |id| to |path|, which must not exist. Returns 0; 1 when the version below is gone,
 * and zeros stand where the file was neither read nor written; or a negative code. The overlay stays. Blocks. */
int xh_edit_export(const struct xh_options *o, const char *id, const char *path, struct xh_err *err);

/* Removes the overlay |id|. Returns as xh_overlay_open. */
int xh_edit_drop(const struct xh_options *o, const char *id, struct xh_err *err);

#endif
