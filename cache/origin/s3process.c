/* A credential_process: see s3process.h. */
#include "s3process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auth.h"
#include "base/now.h"
#include "base/wipe.h"
#include "profile.h"

#define WORDS_MOST 64

/* Reads all of |fd| until |until_ns|. Returns how many bytes, or -1: it took too long, or was too much. */
static ssize_t read_all(int fd, char *out, size_t size, uint64_t until_ns)
{
    size_t n = 0;
    for (;;) {
        uint64_t now = xh_now_ns();
        struct pollfd p = {fd, POLLIN, 0};
        if (now >= until_ns)
            return -1;
        if (poll(&p, 1, (int)((until_ns - now) / 1000000u) + 1) <= 0) /* it took too long; or a signal came */
            continue;
        ssize_t got = read(fd, out + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || n + (size_t)got == size)
            return -1;
        if (got == 0)
            return (ssize_t)n;
        n += (size_t)got;
    }
}

/* Where the program |name| lies by PATH of |env|: not by that of now, which the program's threads may be changing.
 * Returns |path|, or NULL. */
static const char *program(const char *name, char *const *env, char *path, size_t size)
{
    if (strchr(name, '/'))
        return name;
    while (*env && strncmp(*env, "PATH=", 5) != 0)
        env++;
    for (const char *p = *env ? *env + 5 : "/usr/local/bin:/usr/bin:/bin"; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        int len = snprintf(path, size, "%.*s/%s", (int)n, p, name);
        p += n;
        if (n && len > 0 && (size_t)len < size && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

/* Starts |words| with its standard output in |fd|. Returns its number, or -1. */
static pid_t start(char **words, char *const *env, int fd)
{
    pid_t pid = -1;
    char path[XH_AUTH_PATH_BYTES];
    const char *file = program(words[0], env, path, sizeof path);
    sigset_t none, usual;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    if (!file || posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -1;
    }
    sigemptyset(&none); /* our threads block signals, the program need not */
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    int bad = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
              posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO) ||
              posix_spawnattr_setsigmask(&attr, &none) || posix_spawnattr_setsigdefault(&attr, &usual) ||
              posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (bad || posix_spawn(&pid, file, &actions, &attr, words, env) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return pid;
}

/* Waits for |pid|; the program that we are in may have taken its status. Returns 1 when it ended well, as far as is
 * known. */
static int ended_well(pid_t pid, uint64_t until_ns)
{
    int status = 0;
    for (;;) {
        pid_t rc = waitpid(pid, &status, WNOHANG);
        if (rc == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (rc < 0 && errno != EINTR)
            return 1;
        if (rc == 0 && xh_now_ns() >= until_ns) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
            return 0;
        }
        if (rc == 0)
            poll(NULL, 0, 5);
    }
}

char *xh_s3_process_run(char *command, char *const *env, unsigned most_ms, const char **why)
{
    char *words[WORDS_MOST];
    int fds[2];
    uint64_t until = xh_now_ns() + most_ms * UINT64_C(1000000);
    *why = "cannot be run";
    if (xh_profile_words(command, words, WORDS_MOST) < 1 || pipe2(fds, O_CLOEXEC) != 0)
        return NULL;
    char *out = calloc(1, XH_S3_PRINTED_BYTES + 1);
    pid_t pid = out ? start(words, env, fds[1]) : -1;
    close(fds[1]);
    ssize_t n = pid > 0 ? read_all(fds[0], out, XH_S3_PRINTED_BYTES, until) : -1;
    close(fds[0]);
    if (pid > 0 && !ended_well(pid, n < 0 ? 0 : until)) {
        *why = n < 0 ? "took too long, or printed too much" : "failed; it says why itself";
        n = -1;
    }
    if (n >= 0 && strlen(out) == (size_t)n)
        return out;
    xh_wipe_bytes(out, XH_S3_PRINTED_BYTES);
    return NULL;
}
