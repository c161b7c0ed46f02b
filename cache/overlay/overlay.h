/* Overlays: what was written to a remote file and is not at its server yet, in local files.
 *
 * An overlay is a directory of the user's (0700) in the option overlay_dir, with files (0600):
 *   data    the written bytes, at their offsets in the remote file; sparse
 *   base    metadata as it was read from the server, at its offsets; sparse. What a merge is judged by
 *   record  text: URL, version, size, which bytes of data and base count, what became of the file, and the last error.
 *           Written when the file is opened, flushed, closed or committed
 *   alive   locked by the process that has it open
 * Knows neither HTTP nor HDF5. Threads: one at a time. */
#ifndef XH_OVERLAY_H
#define XH_OVERLAY_H

#include "base/err.h"
#include "base/options.h"
#include "extents.h"

#define XH_OVERLAY_ID 17 /* 16 hexadecimal digits and a NUL */
#define XH_OVERLAY_VERSION 400

enum xh_overlay_kind { XH_WRITTEN_RAW = 1, XH_WRITTEN_META = 2 };

/* How the file was opened. */
enum xh_overlay_mode {
    XH_OVERLAY_EDIT,   /* changes the version |base_version| */
    XH_OVERLAY_CREATE, /* there was none, and there must be none */
    XH_OVERLAY_REPLACE /* |base_version|, or none, is replaced whole */
};

/* What the record says of the file. */
enum xh_overlay_state {
    XH_OVERLAY_OPENED,   /* it never was whole; or nothing has been flushed since the last commit */
    XH_OVERLAY_FLUSHED,  /* HDF5 has flushed it; what was written behind that is in it or not, as in a local file */
    XH_OVERLAY_CLOSED,   /* it is whole, and was to be sent */
    XH_OVERLAY_WITHHELD, /* it is whole; the program did not want it to be sent */
};

struct xh_overlay {
    /* Constant: */
    char id[XH_OVERLAY_ID];
    char *path; /* the directory */
    int dir, data, base, alive; /* descriptors */
    uint64_t budget; /* most bytes of |data| */
    /* The record: */
    char *url; /* without user name and password */
    enum xh_overlay_mode mode;
    char base_version[XH_OVERLAY_VERSION]; /* the server's validator; "": there was no file */
    uint64_t base_size;  /* of that version */
    uint64_t base_limit; /* up to here it shows through where |have| has nothing */
    uint64_t size;       /* of the file as it is now */
    struct xh_extents have;  /* bytes of |data| that count */
    struct xh_extents dirty; /* of them, those that were written since the last commit, by enum xh_overlay_kind */
    struct xh_extents seen;  /* bytes of |base| that count */
    int broken;         /* a write was lost: it is no whole file, and must not be sent */
    int behind;         /* it would undo what others have changed: it must not be sent, but is whole */
    enum xh_overlay_state state; /* as the last record has it */
    long long since_s;  /* when it became that, seconds since 1970 */
    int readable;       /* there is a record of a dead process, and it makes sense */
    int saved;          /* the last save has put its record in place, also where it failed then */
    int synced;         /* the directory's own name is on the disk */
    char why[600];      /* the last error, or "" */
    char left[200];     /* names beside the file that a commit made at the server, separated by blanks */
};

/* Makes a new one. Returns 0, or XH_E_SYS, XH_E_ACCES (the directory is not ours alone), XH_E_NOMEM.
 * Owns: the caller closes it. */
int xh_overlay_new(const struct xh_options *o, const char *url, struct xh_overlay **out, struct xh_err *err);

/* Opens the one of that |id| (one's first digits will do, if they are enough) that no process has open.
 * Returns 0, or XH_E_NOENT, XH_E_INVAL (a process has it, or several begin so), or as above. */
int xh_overlay_open(const struct xh_options *o, const char *id, struct xh_overlay **out, struct xh_err *err);

/* Writes into |data|. Returns 0, or XH_E_NOSPACE (the budget; the disk) or XH_E_SYS. */
int xh_overlay_write(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, enum xh_overlay_kind kind,
                     struct xh_err *err);

/* Reads bytes that |have| has. */
int xh_overlay_read(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err);

/* Keeps metadata as the server has it, and reads it again. */
int xh_overlay_see(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, struct xh_err *err);
int xh_overlay_seen(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err);

/* The file ends at |size| now. */
int xh_overlay_truncate(struct xh_overlay *v, uint64_t size, struct xh_err *err);

/* Writes the record; |durable|: and waits until all is on the disk, in an order in which a record never speaks of bytes that a
 * failing machine could lose. Returns 0, XH_E_SYS or XH_E_NOSPACE; the record is then the one before, or with |saved| this one, of
 * which a failing machine may lose the name. */
int xh_overlay_save(struct xh_overlay *v, enum xh_overlay_state state, int durable, struct xh_err *err);

/* There is nothing to recover any more. */
void xh_overlay_unsave(struct xh_overlay *v);

/* Removes its files, and frees what they took; |v| can only be closed then. */
void xh_overlay_clear(struct xh_overlay *v);

/* Closes it; |keep|: it stays to be recovered. NULL allowed. */
void xh_overlay_close(struct xh_overlay *v, int keep);

/* The child of a fork lets it go: neither its files nor its lock are its own. */
void xh_overlay_forsake(struct xh_overlay *v);

/* What list shows of one: |busy| when a process has it open (then only |v|'s id is set). Returns other than 0 to stop. */
typedef int xh_overlay_visit(void *ctx, const struct xh_overlay *v, int busy);
int xh_overlay_each(const struct xh_options *o, xh_overlay_visit *visit, void *ctx, struct xh_err *err);

#endif
