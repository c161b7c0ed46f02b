/* Mounting and unmounting a FUSE file system: by the system where this process may, else by fusermount3. */
#ifndef XH_MOUNTPOINT_H
#define XH_MOUNTPOINT_H

#include "../../cache/base/err.h"

/* Mounts at |dir|, an absolute path. |source| is what mount(8) shows of it; made plain. Returns the descriptor of its
 * device, or a negative code with |err| set (XH_E_SYS). Blocks for fusermount3. */
int xh_mount(const char *dir, const char *source, struct xh_err *err);

/* Unmounts |dir|. Programs that have files of it open keep them until they or this process end. Never fails. */
void xh_unmount(const char *dir);

#endif
