/* Names and connections: see connect.h. */
#include "connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../cache/base/now.h"
#include "../../cache/base/waits.h"
#include "dial.h"

/* Shared by the caller and the resolver's thread. The one that leaves last frees it. */
struct look_up {
    pthread_mutex_t lock; /* guards what follows |port| */
    pthread_cond_t done;
    char *host, *port;
    int over, left, rc;
    struct addrinfo *found;
};

static void look_up_free(struct look_up *l)
{
    if (l->found)
        freeaddrinfo(l->found);
    free(l->host);
    free(l->port);
    free(l);
}

static void *resolve(void *ctx)
{
    struct look_up *l = ctx;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(l->host, l->port, &hints, &found);
    pthread_mutex_lock(&l->lock);
    l->rc = rc;
    l->found = rc == 0 ? found : NULL;
    l->over = 1;
    int left = l->left;
    pthread_cond_signal(&l->done);
    pthread_mutex_unlock(&l->lock);
    if (left)
        look_up_free(l);
    return NULL;
}

static int note_addresses(const struct addrinfo *a, struct xh_connected out[XH_CONNECT_MOST])
{
    unsigned n = 0;
    for (; a && n < XH_CONNECT_MOST; a = a->ai_next)
        if (getnameinfo(a->ai_addr, a->ai_addrlen, out[n].text, sizeof out[n].text, NULL, 0, NI_NUMERICHOST) == 0)
            n++;
    return (int)n;
}

int xh_connect_resolve(const char *host, const char *port, struct xh_connected out[XH_CONNECT_MOST], double *took_ms,
                       struct xh_err *err)
{
    pthread_t thread;
    uint64_t began = xh_now_ns();
    struct look_up *l = calloc(1, sizeof *l);
    if (!l)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    pthread_mutex_init(&l->lock, NULL);
    xh_cond_init(&l->done);
    l->host = strdup(host);
    l->port = strdup(port);
    if (!l->host || !l->port || pthread_create(&thread, NULL, resolve, l) != 0) {
        look_up_free(l);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory or threads");
    }
    pthread_detach(thread);
    pthread_mutex_lock(&l->lock);
    for (int waits = 1; !l->over && waits;)
        waits = xh_cond_wait_until(&l->done, &l->lock, began + (XH_DIAL_MOST_MS / 1000 + 1) * UINT64_C(1000000000));
    l->left = !l->over;
    int over = l->over;
    pthread_mutex_unlock(&l->lock);
    *took_ms = (double)(xh_now_ns() - began) / 1e6;
    if (!over)
        return xh_err_set(err, XH_E_TIMEOUT, 0, "no answer within %u s", XH_DIAL_MOST_MS / 1000);
    int n = l->rc ? xh_err_set(err, XH_E_NET, 0, "%s", gai_strerror(l->rc)) : note_addresses(l->found, out);
    look_up_free(l);
    return n ? n : xh_err_set(err, XH_E_NET, 0, "the name has no address");
}

/* Begins to connect. Returns the socket, or -1 with the result in |r|. */
static int begin(struct xh_connected *r, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *a = NULL;
    int fd = -1;
    r->error = EINVAL;
    r->connect_ms = -1;
    if (getaddrinfo(r->text, port, &hints, &a) != 0)
        return -1;
    fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    r->error = 0;
    if (fd < 0 || (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)) {
        r->error = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(a);
    return fd;
}

static void settle(struct xh_connected *r, struct pollfd *p, uint64_t took_ns)
{
    socklen_t len = sizeof r->error;
    if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &r->error, &len) != 0)
        r->error = errno;
    if (r->error == 0)
        r->connect_ms = (double)took_ns / 1e6;
    close(p->fd);
    p->fd = -1;
}

unsigned xh_connect_connect(struct xh_connected *r, unsigned n, const char *port)
{
    struct pollfd p[XH_CONNECT_MOST];
    uint64_t began = xh_now_ns(), now = began, until = began + XH_DIAL_MOST_MS * UINT64_C(1000000);
    unsigned waiting = 0, answered = 0;
    for (unsigned i = 0; i < n; i++) {
        p[i] = (struct pollfd){.fd = begin(&r[i], port), .events = POLLOUT};
        waiting += p[i].fd >= 0;
    }
    while (waiting && now < until) {
        int ready = poll(p, n, (int)((until - now) / 1000000 + 1));
        now = xh_now_ns();
        for (unsigned i = 0; ready > 0 && i < n; i++)
            if (p[i].fd >= 0 && p[i].revents) {
                settle(&r[i], &p[i], now - began);
                waiting--;
            }
    }
    for (unsigned i = 0; i < n; i++) {
        if (p[i].fd >= 0) {
            r[i].error = ETIMEDOUT;
            close(p[i].fd);
        }
        answered += r[i].connect_ms >= 0;
    }
    return answered;
}
