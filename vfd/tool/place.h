/* Files that publish puts beside a file. Each appears complete or not at all.
 *
 * It is written under a temporary name and locked meanwhile. The next publisher takes over the temporary file of a
 * killed one, and two publishers never write one file. Threads: each has its own struct xh_place. */
#ifndef XH_PLACE_H
#define XH_PLACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "baked.h"

/* Names in the original's directory: "f.h5.xhmeta", and ".f.h5.xhmeta.part" while it is written. */
struct xh_place {
    char *dir, *sidecar, *part;
};

/* Opens the original, and sets the names of what lies beside it with |suffix|. Returns a descriptor, or -1 with |out|
 * set.
 * Owns: xh_place_free, in any case. */
int xh_place_of(const char *path, const char *suffix, struct xh_place *n, struct stat *st, struct xh_baked *out);
void xh_place_free(struct xh_place *n);

/* Opens the sidecar and reads its first |len| bytes. Returns a descriptor and sets |*bytes| to the file's length, or -1
 * with |out| set: NONE, FAILED, or STALE where there are no such bytes. */
int xh_place_sidecar(const struct xh_place *n, void *head, size_t len, uint64_t *bytes, struct xh_baked *out);

/* Sets |out| to STALE, as |wrong| says or as the sidecar is of another version than |st|; else to FRESH. */
void xh_place_judge(const char *wrong, uint64_t file_bytes, int64_t mtime_s, uint32_t mtime_ns, const struct stat *st,
                    struct xh_baked *out);

/* Waits until the second of the file's last change is over by the file system's clock, a second mostly, and sets |*st|
 * anew: readers see dates to the second, so a change within that second would not show. A file whose date lies far
 * ahead is not waited for. Returns 0, or -1 with |out| set: it changes on and on. */
int xh_place_settle(const struct xh_place *n, int fd, struct stat *st, struct xh_baked *out);

/* Returns 1 when |path| is no longer the file |was|. */
int xh_place_is_changed(const char *path, const struct stat *was);

/* Opens the temporary file, empty and locked. Returns a descriptor, or -1 with |out| set. */
int xh_place_part(const struct xh_place *n, struct xh_baked *out);

/* Ends writing. |wrote|: gives the file its final name and the rights of the original, which |from| has open: mode,
 * group and list, by root the owner, too; else removes it. Closes |fd|. Returns 0, or -1 with |out| set. */
int xh_place_done(const struct xh_place *n, int fd, int from, const struct stat *original, int wrote,
                  struct xh_baked *out);

/* Removes the sidecar of |path|, and what a killed publisher left. */
void xh_place_remove(const char *path, const char *suffix, struct xh_baked *out);

#endif
