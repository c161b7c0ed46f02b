/* Overlays: local files with the bytes that were written to a remote file and are not at its server yet.
 *
 * An overlay is a directory of the user's (0700) in the option overlay_dir. Its files (0600) are:
 *   data    the written bytes, at their offsets in the remote file; sparse
 *   base    metadata as it was read from the server, at its offsets; sparse. A merge compares with it
 *   record  text: URL, what named it, version, size, which bytes of data and base count, what became of the file, and
 *           the last error. It is written when the file is opened, flushed, closed or committed
 *   landing one line: the last step of a commit that was about to be done, and the version that it makes
 *   alive   locked by the process that has the overlay open
 * An overlay knows neither HTTP nor HDF5. Threads: one at a time. Calls block on the local disk alone. */
#ifndef XH_OVERLAY_H
#define XH_OVERLAY_H

#include "base/err.h"
#include "base/options.h"
#include "extents.h"

#define XH_OVERLAY_ID 17 /* 16 hexadecimal digits and a NUL */

enum xh_overlay_kind { XH_WRITTEN_RAW = 1, XH_WRITTEN_META = 2 };

/* How the file was opened. */
enum xh_overlay_mode {
    XH_OVERLAY_EDIT,   /* to change the version |base_version| */
    XH_OVERLAY_CREATE, /* as a new file: the server must have none */
    XH_OVERLAY_REPLACE /* to replace |base_version|, or no file, as a whole */
};

/* The file's state in the record. */
enum xh_overlay_state {
    XH_OVERLAY_OPENED,   /* it never was whole, or nothing has been flushed since the last commit */
    XH_OVERLAY_FLUSHED,  /* HDF5 has flushed it; later writes may be in it or not, as in a local file */
    XH_OVERLAY_CLOSED,   /* it is whole, and was to be committed */
    XH_OVERLAY_WITHHELD, /* it is whole; the program did not want it committed */
};

/* In place of the file that named a URL, where the record of an older version does not tell whether one did: it counts
 * as a file at a foreign server. */
#define XH_OVERLAY_NOT_NOTED "(an older xhdf5 did not note which)"

struct xh_overlay {
    /* Constant: */
    char id[XH_OVERLAY_ID];
    char *path; /* the directory */
    int dir, data, base, alive; /* descriptors */
    uint64_t budget; /* most bytes of |data| */
    /* The record: */
    char *url; /* without user name and password */
    struct xh_namer namer; /* what named the URL: its family is not kept */
    enum xh_overlay_mode mode;
    char base_version[400]; /* the server's validator; "": there was no file */
    uint64_t base_size;  /* bytes of that version */
    uint64_t base_limit; /* below this offset the base version shows through where |have| has nothing */
    uint64_t size;       /* bytes of the file as it is now */
    struct xh_extents have;  /* bytes of |data| that count */
    struct xh_extents dirty; /* of them, those written since the last commit; kinds of enum xh_overlay_kind */
    struct xh_extents seen;  /* bytes of |base| that count, and those that were read and are not in it */
    uint64_t kept_bytes;     /* that reads brought to |base| */
    int broken;         /* a write was lost: the file is not whole, and must not be committed */
    int behind;         /* a commit would undo changes of others: it must not be committed, but is whole */
    enum xh_overlay_state state; /* as in the last record */
    long long since_s;  /* when the state began, in seconds since 1970 */
    int readable;       /* a dead process's record was read, and it is sound */
    int synced;         /* the directory's own name is on the disk */
    int unsynced;       /* the error with which names could not be synced last; 0: they are on the disk */
    char why[600];      /* the last error, or "" */
    char landing[960];  /* the line in |landing|, or "" */
    char left[200];     /* names of files that a commit left beside the file at the server, separated by blanks */
};

/* Makes a new overlay for |url|, which o->namer named. Returns 0, XH_E_SYS, XH_E_NOSPACE, XH_E_ACCES (other users can
 * enter the directory) or XH_E_NOMEM. Owns: the caller closes |*out|. */
int xh_overlay_new(const struct xh_options *o, const char *url, struct xh_overlay **out, struct xh_err *err);

/* Opens the overlay |id|, if no process has it open. The first digits of an id suffice if only one id begins with them.
 * Returns 0, XH_E_NOENT, XH_E_INVAL (a process has it open, or several ids begin so), or a code of xh_overlay_new.
 * Owns: the caller closes |*out|. */
int xh_overlay_open(const struct xh_options *o, const char *id, struct xh_overlay **out, struct xh_err *err);

/* Writes into |data|. Returns 0, XH_E_NOSPACE (the budget or the disk), XH_E_RANGE, XH_E_NOMEM or XH_E_SYS. */
int xh_overlay_write(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, enum xh_overlay_kind kind,
                     struct xh_err *err);

/* Reads bytes that |have| contains. Returns 0 or XH_E_SYS. */
int xh_overlay_read(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err);

/* xh_overlay_see keeps metadata as the server has it; xh_overlay_seen reads it again. xh_overlay_put_base only stores
 * the bytes: they count once the caller adds them to |seen|. All return 0, or a code as xh_overlay_write. */
int xh_overlay_put_base(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, struct xh_err *err);
int xh_overlay_see(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, struct xh_err *err);
int xh_overlay_seen(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err);

/* Sets the file's size. Returns 0, XH_E_NOMEM, XH_E_NOSPACE or XH_E_SYS. */
int xh_overlay_truncate(struct xh_overlay *v, uint64_t size, struct xh_err *err);

/* Writes the record. |durable|: also waits until all is on the disk; the order ensures that a record never names
 * bytes that a failing machine could lose. Where directories cannot be synced, it could lose the record's name, and
 * |unsynced| says why. Returns 0, XH_E_SYS or XH_E_NOSPACE; after a failure the former record stands. */
int xh_overlay_save(struct xh_overlay *v, enum xh_overlay_state state, int durable, struct xh_err *err);

/* Writes |text| into |landing|; "" removes it. It is for a process that is killed: a machine that fails may lose it,
 * and nothing else with it, as a record that is written anew could be. Returns 0, or the error of the disk: then a
 * later process knows nothing of it. */
int xh_overlay_note_landing(struct xh_overlay *v, const char *text);

/* Notes that there is nothing to recover any more. */
void xh_overlay_unsave(struct xh_overlay *v);

/* Removes the files, and frees the space of |data|. Only xh_overlay_close may be called after it. */
void xh_overlay_clear(struct xh_overlay *v);

/* Closes |v|. |keep|: the files stay for recovery; else they are removed. |v| may be NULL. */
void xh_overlay_close(struct xh_overlay *v, int keep);

/* Closes |v| and lets its files be. In a forked child the lock stays the parent's. */
void xh_overlay_forsake(struct xh_overlay *v);

/* xh_overlay_each calls |visit| for each overlay, until it returns other than 0. |busy|: a process has it open.
 * Where it is busy or cannot be opened only the id of |v| is set. Returns 0, or an error of the directory. */
typedef int xh_overlay_visit(void *ctx, const struct xh_overlay *v, int busy);
int xh_overlay_each(const struct xh_options *o, xh_overlay_visit *visit, void *ctx, struct xh_err *err);

#endif
