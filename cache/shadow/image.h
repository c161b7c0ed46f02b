/* Images: the shadows of a directory seen from outside, for tools. Nothing here opens a shadow as
 * a reader does: no lock is held, no word is mapped or written, no memory is taken.
 *
 * The directory is the world: a file there may be truncated, scribbled over, a symlink, another
 * user's, or go away at any moment. What is wrong with one is its |flaw|; every number of a sound one
 * is a snapshot. Threads: any, on distinct objects. Processes: any. */
#ifndef XH_IMAGE_H
#define XH_IMAGE_H

#include <time.h>

#include "shadow.h"

#define XH_IMAGE_NAME_BYTES 96 /* "s-", 64 hex digits, NUL; before it where that is, of another layout */

struct xh_image_info {
    char name[XH_IMAGE_NAME_BYTES];
    const char *flaw; /* NULL, or why no process will use the file: then what follows is 0 but |taken_bytes| and |used| */
    char url_shown[1024]; /* NUL-terminated; whoever wrote the file chose the bytes */
    char validator[1024]; /* likewise; cut */
    char url_hex[65];
    uint64_t origin_bytes;
    uint64_t meta_pages, raw_pages; /* that are READY */
    uint64_t meta_bytes, raw_bytes; /* of the origin, in them */
    uint64_t taken_bytes;           /* of the file system */
    uint64_t hit_bytes;             /* that readers asked for and found there; told when they close */
    unsigned readers;               /* processes that have it open now; at least so many without /proc */
    time_t used;                    /* last opened or closed */
};

/* Calls |each| for every shadow of the directory that |o| names until it returns other than 0. No
 * directory: no shadow. Returns 0, or XH_E_SYS / XH_E_NOMEM with |err| set: the directory is not
 * one that shadows are put into. */
int xh_image_each(const struct xh_options *o, int (*each)(void *ctx, const struct xh_image_info *i), void *ctx,
                  struct xh_err *err);

/* 1 when |i| is of |url|: the whole URL, or as it is shown. */
int xh_image_is_of(const struct xh_image_info *i, const char *url);

/* Removes it, and the hint that speaks of it, when nobody has it open. Returns 0, XH_E_INVAL (in use)
 * or XH_E_SYS, with |err| set. */
int xh_image_remove(const struct xh_options *o, const struct xh_image_info *i, struct xh_err *err);

/* The budget of the directory's shadows and what they take now; 0 and 0 without a directory. */
void xh_image_room(const struct xh_options *o, uint64_t *budget_bytes, uint64_t *taken_bytes);

/* ---- one image */

struct xh_image;

/* A run of READY pages, all of them metadata or none. */
struct xh_image_run {
    uint64_t first, count;
    int meta;
};
#define XH_IMAGE_RUN_PAGES 256u

/* Opens the image of (|url|, |validator|, |size|). NULL: there is none that is sound. Owns: close it. */
struct xh_image *xh_image_open(const struct xh_options *o, const char *url, const char *validator, uint64_t size);
void xh_image_close(struct xh_image *m);

/* The next run, upwards; at most XH_IMAGE_RUN_PAGES long. Returns 0 at the end. */
int xh_image_next(struct xh_image *m, struct xh_image_run *out);

/* Copies the pages of |run| to |buf|, each to its place. |good[i]|: page i was there all the while. */
void xh_image_read(struct xh_image *m, const struct xh_image_run *run, uint8_t *buf, uint8_t *good);

#endif
