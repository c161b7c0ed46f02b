/* A mounted file system: libfuse's low-level interface for one that only reads. Knows nothing of URLs.
 *
 * A node is one file or directory, named by a number; 1 is the root. A file's node never changes its bytes, so the
 * kernel may keep what it knows of one. */
#ifndef XH_FUSE_H
#define XH_FUSE_H

#include <stddef.h>
#include <stdint.h>

#include "../../cache/base/err.h"
#include "listing.h"

#define XH_FUSE_ROOT       1u
#define XH_FUSE_READ_BYTES (1u << 20) /* longest read that the kernel asks for: 256 pages, its own limit */

struct xh_fuse_attr {
    uint64_t node;
    int directory;
    uint64_t size;
    long long changed_s; /* seconds since 1970 */
};

/* The file system. Its functions are called on several threads at once and may block for long. Those that return a
 * number return 0 or a positive errno. */
struct xh_fuse_served {
    /* Each success counts one more reference of the kernel's to the node, which forget takes back. */
    int (*lookup)(void *fs, uint64_t directory, const char *name, struct xh_fuse_attr *out);
    void (*forget)(void *fs, uint64_t node, uint64_t times);
    int (*attr)(void *fs, uint64_t node, struct xh_fuse_attr *out);
    /* A file; each success is followed by release. |*direct|: what a program asks for comes as it is; else by the
     * kernel's pages, which it keeps. */
    int (*open)(void *fs, uint64_t node, int *direct);
    void (*release)(void *fs, uint64_t node);
    int (*read)(void *fs, uint64_t node, uint64_t off, void *buf, size_t *len); /* |*len| becomes less at the end */
    int (*list)(void *fs, uint64_t node, struct xh_entries *out);
};

struct xh_fuse;

/* Mounts |served| with |fs| at |dir|, an absolute path: by the system where this process may, else by fusermount3.
 * |source| is what mount(8) shows of it; made plain. Nothing is served yet. Returns 0 or XH_E_SYS. Owns: |*out| lives
 * until the process ends, as its threads may wait in the kernel or in |served|. Blocks for fusermount3. */
int xh_fuse_mount(const char *dir, const char *source, const struct xh_fuse_served *served, void *fs,
                  struct xh_fuse **out, struct xh_err *err);

/* Begins to serve, on threads of its own. Returns 0, or XH_E_SYS without threads. */
int xh_fuse_serve(struct xh_fuse *f, struct xh_err *err);

/* To be called every second or so: frees programs that were killed while they wait for an answer. Returns 1 while it
 * is mounted, as far as is known, and 0 once it is not. */
int xh_fuse_tick(struct xh_fuse *f);

/* Unmounts it. Programs that have files of it open keep them until they or this process end. Never fails. */
void xh_fuse_unmount(struct xh_fuse *f);

#endif
