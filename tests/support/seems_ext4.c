/* Preloaded: every file system says that it is ext4, so that the disk cache accepts the one of failing_disk.c. */
#undef _FILE_OFFSET_BITS /* both names of the call are defined here; 64-bit systems */
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#pragma GCC visibility push(default)
int fstatfs(int fd, struct statfs *fs);
int fstatfs64(int fd, struct statfs64 *fs);

int fstatfs(int fd, struct statfs *fs)
{
    int rc = (int)syscall(SYS_fstatfs, fd, fs);
    fs->f_type = EXT4_SUPER_MAGIC;
    return rc;
}

int fstatfs64(int fd, struct statfs64 *fs)
{
    return fstatfs(fd, (struct statfs *)fs);
}
