/* Files: whole reads and writes, whatever interrupts them. */
#ifndef XH_FILES_H
#define XH_FILES_H

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Seconds by which the clocks of machines that share a file system may differ: half a minute where nothing set one for
 * two weeks (20 ppm). */
#define XH_CLOCKS_APART_S 30

/* Makes a system call again as long as a signal interrupts it. Returns what it returns. */
#define xh_retry(call)                                                            \
    ({                                                                            \
        long rc_;                                                                 \
        do                                                                        \
            rc_ = (long)(call);                                                   \
        while (rc_ < 0 && errno == EINTR);                                        \
        rc_;                                                                      \
    })

/* A descriptor of ours. The program may close it, as daemons do with all that they have open, and its number may then
 * be that of a file of the program's own. */
struct xh_own {
    int fd; /* -1: none */
    dev_t dev;
    ino_t ino;
};

/* Moves |fd|, or -1, to a number of 32 or more. A daemon closes the descriptors that it does not know; the files that
 * it opens then get low numbers, and must not be taken for ours. The number stays in the kernel's first table (below
 * 64) if that has room: enlarging it takes some 7 ms in a process with threads. Returns the number, |fd| where there is
 * no other. */
int xh_move_up(int fd);

/* Notes which file |fd| is; -1 is allowed. Not for what has no inode of its own: an eventfd, epoll. */
struct xh_own xh_own(int fd);

/* Returns 1 while |o| is still the file that it was. Another thread may close it right after that. */
int xh_own_is_there(const struct xh_own *o);

/* Closes |o| if it is still ours, and makes it none. */
void xh_own_close(struct xh_own *o);

/* Reads [off, off + len) of |fd| as far as the file has it. Returns the number of bytes, or -1 with errno. */
ssize_t xh_read_at(int fd, void *buf, size_t len, uint64_t off);

/* Reads |len| bytes at |off|. Returns 0, or -1 with errno, EIO where the file ends before. */
int xh_read_full(int fd, void *buf, size_t len, uint64_t off);

/* Writes |len| bytes at |off|. Returns 0, or -1 with errno. */
int xh_write_at(int fd, const void *buf, size_t len, uint64_t off);

/* Writes |len| bytes where |fd| stands. Returns 0, or -1 with errno. */
int xh_write(int fd, const void *buf, size_t len);

/* |path| from the root on, so that it names the same file when the process has another directory. What cannot be told
 * stays as it is. NULL without memory. Owns: free(). */
char *xh_path_from_root(const char *path);

/* Returns 0, and sets errno to EFBIG, when this process may write no file of |bytes| (RLIMIT_FSIZE): ftruncate and
 * write would kill it (SIGXFSZ). */
int xh_may_write(uint64_t bytes);

/* Gives the file |from| the name |to|, which nothing may have yet. Where the file system can do that neither in one
 * step nor by a link, an empty file has the name for a moment. Returns 0, or -1 with errno. */
int xh_rename_new(const char *from, const char *to);

/* Makes the directory |name| below |at| for this user alone, unless it is there. What a umask took of the user's own
 * rights is given back; so it is to one that was there and that nobody can enter, if it is the user's and closed to
 * others. Returns 0, or -1 with errno. */
int xh_make_own_dir(int at, const char *name);

/* Opens the file |name| below |at|, for this user alone where it is made. |flags|: O_CREAT and others. What a umask
 * took of the user's own rights is given back: the next process wants them. Returns a descriptor, or -1 with errno. */
int xh_open_own(int at, const char *name, int flags);

/* 1 when |error| is what flock() says on a file system that has no locks (Lustre without the option flock, some FUSE,
 * NFS without its lock daemon). */
int xh_has_no_locks(int error);

/* Opens and locks |part|, which is to become a file by another name; makes it, with |mode|, where it is not there. One
 * that was there, and is of another user or has another name beside it, is replaced: what is written there would be
 * somebody else's. (What is made here may have another owner, too: some file systems have one for all files.) |flags|:
 * O_RDWR or O_WRONLY. Returns a descriptor, or -1 with errno. Of its own: EWOULDBLOCK: another process has it locked;
 * ESTALE: another one has given it its other name since it was opened; EEXIST: what is there is no file that can be
 * replaced. Where there are no locks (xh_has_no_locks), what is made here is taken for ours, and one that was there is
 * that error: somebody may be writing it. */
int xh_open_part(const char *part, int flags, mode_t mode);

/* Lists the directory |fd|; -1 is allowed. Returns NULL when it cannot be listed. Owns: |fd|; the caller closes the
 * result with closedir. */
DIR *xh_list(int fd);

/* Returns the descriptor of a listing, which stays its own. */
int xh_list_fd(DIR *d);

/* Returns how many bytes the user may still write in the file system of |fd|; UINT64_MAX: it has no limit, or |fd| is
 * below 0, or that cannot be told. */
uint64_t xh_free_bytes(int fd);

#endif
