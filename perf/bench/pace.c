/* Preloaded into a server: TCP sends no faster than BENCH_PACE_BYTES a second on each connection that it accepts, as
 * fq's maxrate does at a site, or a proxy that moves so much. What the program itself does stays as it is. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

static int paced(int fd)
{
    const char *text = getenv("BENCH_PACE_BYTES");
    unsigned rate = text ? (unsigned)strtoul(text, NULL, 10) : 0;
    if (fd >= 0 && rate > 0)
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    return fd;
}

int accept(int fd, struct sockaddr *restrict name, socklen_t *restrict len)
{
    static int (*next)(int, struct sockaddr *, socklen_t *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "accept");
    return paced(next(fd, name, len));
}

int accept4(int fd, struct sockaddr *restrict name, socklen_t *restrict len, int flags)
{
    static int (*next)(int, struct sockaddr *, socklen_t *, int);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "accept4");
    return paced(next(fd, name, len, flags));
}
