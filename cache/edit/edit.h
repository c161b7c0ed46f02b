/* Writing remote files: an open file whose bytes may change. What vfd/ sees of it.
 *
 * What is written stays in an overlay (overlay/) until the file is closed, or a program asks for it; then the whole new
 * file goes to the server beside the old one and takes its place, in one step of the server's. docs/commit.md has
 * the protocol.
 * Threads: one at a time for each file; HDF5 sees to that. Fork: a child may read and close; it commits nothing. */
#ifndef XH_EDIT_H
#define XH_EDIT_H

#include "cache.h"

struct xh_edit;

enum xh_edit_how {
    XH_EDIT_CHANGE,  /* it is there, and will be changed */
    XH_EDIT_CREATE,  /* it must not be there */
    XH_EDIT_REPLACE, /* made anew, whether it is there or not */
};

/* What is read, for the judging of merges. */
enum xh_edit_kind {
    XH_EDIT_META,   /* metadata of exactly this length */
    XH_EDIT_RAW,
    XH_EDIT_HEADER, /* an object header, which HDF5 reads with what follows it */
};

/* Opens |url|. Returns 0 or a negative code with |err| set: as xh_cache_open; INVAL, sys_errno EEXIST (CREATE, and it is
 * there); INVAL (no https, a query); as xh_overlay_new. Owns: the caller closes |*out|. Blocks. */
int xh_edit_open(const char *url, const struct xh_options *o, enum xh_edit_how how, struct xh_edit **out, struct xh_err *err);

uint64_t xh_edit_size(const struct xh_edit *e); /* as written so far */
const char *xh_edit_url(const struct xh_edit *e);
void xh_edit_stats(struct xh_edit *e, struct xh_stats *out); /* reading and writing, opening and commits included */

/* Reads |n| extents that lie in the file. Returns as xh_cache_read, or XH_E_SYS for local files. Blocks. */
int xh_edit_read(struct xh_edit *e, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err);

/* Writes. Returns 0, or XH_E_NOSPACE, XH_E_SYS, XH_E_NOMEM; the file is then not committed any more. */
int xh_edit_write(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len, struct xh_err *err);

int xh_edit_truncate(struct xh_edit *e, uint64_t size, struct xh_err *err);

/* What was written so far is whole: if the process is killed, "xhdf5 recover export" makes a file of it. A machine that fails may lose it,
 * as a local file's. Sends nothing. Returns 0, XH_E_SYS or XH_E_NOSPACE. */
int xh_edit_flush(struct xh_edit *e, struct xh_err *err);

/* Brings what was written to the server; goes on with the new version. Nothing was changed: sends nothing.
 * Returns 0, or: XH_E_CHANGED (a conflict: somebody else changed the file otherwise), XH_E_ACCES, XH_E_NOSPACE, XH_E_NET, … All that
 * was written stays. Blocks. */
int xh_edit_commit(struct xh_edit *e, struct xh_err *err);

/* 1 when commits have taken over what others had changed of data that was read or written here. HDF5 may have older bytes of it in
 * memory: when it writes such data otherwise than it is, the file is not committed any more (XH_E_CHANGED). */
int xh_edit_is_behind(const struct xh_edit *e);

enum xh_edit_discard {
    XH_EDIT_DISCARD_NOT,
    XH_EDIT_DISCARD_KEEP, /* it stays on this machine, to be sent by "xhdf5 recover retry"; a later commit sends it, too */
    XH_EDIT_DISCARD_ALL,  /* it is removed; the file cannot be committed any more */
};

/* What was written since the last commit, and is written from now on, is not sent when the file is closed. Sends nothing. */
void xh_edit_discard(struct xh_edit *e, enum xh_edit_discard how);

/* The last commit, and the end of |e| in any case. Returns as commit; then the overlay stays to be recovered, and |err|
 * says so. 0 with a text in |err|: nothing was sent, as that was wanted, and what was written is kept. */
int xh_edit_close(struct xh_edit *e, struct xh_err *err);

/* ---- what was left by a failed commit, or by a process that was killed */

struct xh_left {
    const char *id;
    enum {
        XH_LEFT_BUSY,     /* a process has it open: nothing else is known */
        XH_LEFT_UNKNOWN,  /* its record cannot be read */
        XH_LEFT_OPENED,   /* it was never closed nor flushed: there is no file to be had */
        XH_LEFT_FLUSHED,  /* it was never closed; "export" makes a file of what was flushed */
        XH_LEFT_CLOSED,   /* it is to be sent */
        XH_LEFT_WITHHELD, /* its program did not want it to be sent; "retry" sends it */
        XH_LEFT_CONFLICT, /* it would undo what somebody else has changed: "export" makes a file of it; it is never sent */
        XH_LEFT_BROKEN,   /* a write was lost: there is none */
    } state;
    const char *url, *why;
    uint64_t size, written_bytes;
    long long since_s; /* seconds since 1970; 0: not known */
};

/* Calls |visit| for each, until it returns other than 0. */
int xh_edit_each_left(const struct xh_options *o, int (*visit)(void *ctx, const struct xh_left *l), void *ctx, struct xh_err *err);

/* Commits it and removes it. |*url|, which the caller frees, is where it went. Returns as commit; XH_E_NOENT, XH_E_INVAL. */
int xh_edit_retry(const struct xh_options *o, const char *id, char **url, struct xh_err *err);

/* Writes the file to |path|, which must not exist. Returns 0; 1: the version that it was made of is gone, and zeros are where
 * it was neither read nor written; or a negative code. The overlay stays. */
int xh_edit_export(const struct xh_options *o, const char *id, const char *path, struct xh_err *err);

/* Removes it. */
int xh_edit_drop(const struct xh_options *o, const char *id, struct xh_err *err);

#endif
