/* Types of file systems (statfs.f_type) that linux/magic.h does not have. Source: the Linux kernel's and ZFS's. */
#ifndef XH_FILESYSTEMS_H
#define XH_FILESYSTEMS_H

#include <linux/magic.h>

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1

#endif
