/* A mounted file system: libfuse's low-level interface for a tree, which is only read. Knows nothing of URLs. */
#ifndef XH_FUSE_H
#define XH_FUSE_H

#include "../../cache/base/err.h"
#include "tree.h"

struct xh_fuse;

/* Mounts |tree| at |dir|, an absolute path: by the system where this process may, else by fusermount3.
 * |source| is what mount(8) shows of it; made plain. Nothing is served yet. Returns 0 or XH_E_SYS. Owns: |*out| lives
 * until the process ends, as its threads may wait in the kernel or in |tree|. Blocks for fusermount3. */
int xh_fuse_mount(const char *dir, const char *source, struct xh_tree *tree, struct xh_fuse **out, struct xh_err *err);

/* Begins to serve, on threads of its own. Returns 0, or XH_E_SYS without threads. */
int xh_fuse_serve(struct xh_fuse *f, struct xh_err *err);

/* To be called every second or so: frees programs that were killed while they wait for an answer. Returns 1 while it
 * is mounted, as far as is known, and 0 once it is not. */
int xh_fuse_tick(struct xh_fuse *f);

/* Unmounts it. Programs that have files of it open keep them until they or this process end. Never fails. */
void xh_fuse_unmount(struct xh_fuse *f);

#endif
