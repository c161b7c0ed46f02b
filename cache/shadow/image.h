/* Images: the shadows of a directory seen from outside, for tools. This code opens no shadow as a reader does: it holds
 * no lock on it, maps and writes no page state, and takes no memory of it.
 *
 * Nothing in the directory is trusted: a file may be truncated, overwritten, a symlink, another user's, or vanish at
 * any moment. An unsound one has a |flaw|; every number of a sound one is a snapshot. Threads: any, on distinct
 * objects. Processes: any. Calls block on the file system alone. */
#ifndef XH_IMAGE_H
#define XH_IMAGE_H

#include <time.h>

#include "shadow.h"

struct xh_image_info {
    char name[XH_NAME_BYTES];
    /* NULL, or why no process will use the file. Then the fields below are 0, except |taken_bytes| and |used| */
    const char *flaw;
    char url_shown[1024]; /* NUL-terminated; not trusted: the file's writer chose the bytes */
    char validator[1024]; /* likewise; may be cut */
    char url_hex[65];
    uint64_t origin_bytes;
    uint64_t meta_pages, raw_pages; /* pages that are READY */
    uint64_t meta_bytes, raw_bytes; /* the origin's bytes in them */
    uint64_t taken_bytes;           /* of the file system */
    uint64_t hit_bytes;             /* bytes that readers found there; each adds its own when it closes */
    unsigned readers;               /* processes that have it open now; without /proc 0 or 1 */
    time_t used;                    /* when it was last opened or closed */
};

/* Calls |each| for every shadow of the directory that |o| names, until it returns other than 0. Where there is no
 * directory there is no shadow. Returns 0, or, with |err| set, XH_E_SYS (the directory is not suitable for shadows)
 * or XH_E_NOMEM. */
int xh_image_each(const struct xh_options *o, int (*each)(void *ctx, const struct xh_image_info *i), void *ctx,
                  struct xh_err *err);

/* Sorts |n| of them in the order in which they give way: oldest use first. |used| becomes 0 where a wrong clock gave
 * it: see xh_evict_used. */
void xh_image_sort(struct xh_image_info *at, size_t n);

/* Returns 1 when |i| belongs to |url|: the whole URL, or the URL as it is shown. */
int xh_image_is_of(const struct xh_image_info *i, const char *url);

/* Removes the shadow |i| and its hint, unless a process has it open. Returns 0, XH_E_INVAL (in use) or XH_E_SYS,
 * with |err| set. */
int xh_image_remove(const struct xh_options *o, const struct xh_image_info *i, struct xh_err *err);

/* Sets the budget of the directory's shadows, and the bytes that they take now; 0 and 0 without a directory. */
void xh_image_room(const struct xh_options *o, uint64_t *budget_bytes, uint64_t *taken_bytes);

/* Tells whether shadows can be made in the directory that |o| names, which is made if need be: tries a file there. Sets
 * |*free_bytes| to what is free in its file system; UINT64_MAX: not known. Returns 0; or XH_E_SYS, with |err| set to
 * which directory and why, and |*cure| to what to do, a static text. */
int xh_image_usable(const struct xh_options *o, uint64_t *free_bytes, const char **cure, struct xh_err *err);

/* ---- one image */

struct xh_image;

/* A run of READY pages; either all are metadata, or none is. */
struct xh_image_run {
    uint64_t first, count;
    int meta;
};
#define XH_IMAGE_RUN_PAGES 256u

/* Opens the image of (|url|, |validator|, |size|). Returns NULL when there is no sound one. Owns: the caller closes
 * it. */
struct xh_image *xh_image_open(const struct xh_options *o, const char *url, const char *validator, uint64_t size);
void xh_image_close(struct xh_image *m);

/* Sets |*out| to the next run, ascending; it has XH_IMAGE_RUN_PAGES at most. Returns 1, or 0 at the end. */
int xh_image_next(struct xh_image *m, struct xh_image_run *out);

/* Copies the pages of |run| to |buf|, each to its place. |good[i]| becomes 1 if page i was READY all the time. */
void xh_image_read(struct xh_image *m, const struct xh_image_run *run, uint8_t *buf, uint8_t *good);

#endif
