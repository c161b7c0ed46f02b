/* Mounting: see mountpoint.h. Source: fusermount3(1), and how libfuse talks to it: the descriptor comes back over a
 * socket that _FUSE_COMMFD names. */
#include "mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cache/base/files.h"
#include "fuse.h"
#include "tool.h"

#define FUSERMOUNT "fusermount3"
#define COMMFD     "_FUSE_COMMFD"

extern char **environ;

/* The descriptor that fusermount3 sends, or -1. */
static int receive(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(__alignof__(struct cmsghdr)))) = {0};
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (xh_retry(recvmsg(socket, &m, MSG_CMSG_CLOEXEC)) <= 0)
        return -1;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* Starts fusermount3 with |words|. |socket| is the number that it finds its end under; -1: none. Returns 0 or an
 * errno. */
static int begin(char *const words[], int socket, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    char name[32];
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int rc = 0;
    if (socket >= 0) {
        snprintf(name, sizeof name, "%d", socket);
        rc = setenv(COMMFD, name, 1) ? ENOMEM : posix_spawn_file_actions_adddup2(&actions, socket, socket);
    }
    rc = rc ? rc : posix_spawnp(child, FUSERMOUNT, &actions, NULL, words, environ);
    unsetenv(COMMFD);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Waits for |child|. Returns 1 when it ended well. */
static int ends_well(pid_t child)
{
    int status;
    return xh_retry(waitpid(child, &status, 0)) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int mount_by_helper(const char *dir, const char *source, struct xh_err *err)
{
    char options[256];
    pid_t child;
    int ends[2], fd = -1;
    snprintf(options, sizeof options, "ro,nosuid,nodev,noatime,default_permissions,subtype=xhdf5,max_read=%u,fsname=%s",
             XH_FUSE_READ_BYTES, source);
    char *const words[] = {FUSERMOUNT, "-o", options, "--", (char *)dir, NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return xh_err_set(err, XH_E_SYS, 0, "socketpair: %s", strerror(errno));
    int rc = begin(words, ends[1], &child);
    close(ends[1]);
    if (rc == 0) {
        fd = receive(ends[0]);
        if (!ends_well(child) && fd >= 0) {
            close(fd);
            fd = -1;
        }
    }
    close(ends[0]);
    if (fd >= 0)
        return fd;
    if (rc == ENOENT)
        return xh_err_set(err, XH_E_SYS, 0,
                          "%.300s cannot be mounted: only root may do it without " FUSERMOUNT
                          ", and that is not installed (package fuse3)",
                          dir);
    return xh_err_set(err, XH_E_SYS, 0, "%.300s cannot be mounted: " FUSERMOUNT " %s%s", dir,
                      rc ? "cannot be started: " : "refuses it", rc ? strerror(rc) : ", and says why above");
}

int xh_mount(const char *dir, const char *source, struct xh_err *err)
{
    char options[128], plain[128];
    size_t n = 0;
    /* Of these no helper and no table of mounts takes anything for more than a character. */
    for (; source[n] && n + 1 < sizeof plain; n++)
        plain[n] = strchr("/:.-_~%+=@", source[n]) || (source[n] >= '0' && source[n] <= '9') ||
                           ((source[n] | 0x20) >= 'a' && (source[n] | 0x20) <= 'z')
                       ? source[n]
                       : '_';
    plain[n] = '\0';
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return xh_err_set(err, XH_E_SYS, 0,
                          "%.300s cannot be mounted: /dev/fuse: %s. The kernel has no FUSE, or this container was not "
                          "given the device",
                          dir, strerror(errno));
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,max_read=%u", fd,
             geteuid(), getegid(), XH_FUSE_READ_BYTES);
    if (mount(plain, dir, "fuse.xhdf5", MS_NOSUID | MS_NODEV | MS_NOATIME | MS_RDONLY, options) == 0)
        return fd;
    int bad = errno;
    close(fd);
    if (bad == EPERM || bad == EACCES)
        return mount_by_helper(dir, plain, err);
    return xh_err_set(err, XH_E_SYS, 0, "%.300s cannot be mounted: %s", dir, strerror(bad));
}

void xh_unmount(const char *dir)
{
    char *const words[] = {FUSERMOUNT, "-u", "-q", "-z", "--", (char *)dir, NULL};
    pid_t child;
    if (umount2(dir, MNT_DETACH) == 0 || (errno != EPERM && errno != EACCES))
        return;
    if (begin(words, -1, &child) == 0)
        ends_well(child);
}
