/* The wire: HTTP/1.1 over libcurl. See wire.h. With handle.c the one file that moves bytes with curl, and
 * the one that knows sockets. A wire is a curl multi; its lanes are easy handles, which are kept and used again.
 * Curl says which sockets and which time it waits for, and is called for those alone: curl_multi_perform looks at every
 * connection whenever one has something. The sockets are waited for by poll(), not by epoll: a fork's child keeps the
 * parent's sockets open, and an epoll would go on reporting those that the parent closed.
 *
 * Invariants: a lane is in |running| while its easy handle is in the multi, else in |idle|;
 * over is called once for each successful start, after the handle has left the multi, or the multi was forsaken;
 * curl ends no exchange for taking long: that is the exchange's business.
 *
 * A thread without sockets to watch waits on a condition; else poll() has a socket to wake it by, the bell. A program
 * may close all descriptors that it does not know, ours among them, and use their numbers. That is seen by the bell,
 * whenever a wait ends. Then nothing that curl has is touched any more: it would write the farewell of TLS into what
 * has these numbers now, and close that. Its multi is forsaken, and what was under way is asked for anew. What is not
 * seen: single descriptors that the program closes; and what it does while curl moves what has come, so that curl may
 * read from a socket of the program's that has such a number. So ours have high ones. */
#include "wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/crypto.h"
#include "base/files.h"
#include "base/now.h"
#include "base/table.h"
#include "base/waits.h"
#include "base/wipe.h"
#include "cookies.h"
#include "handle.h"
#include "libcurl.h"
#include "ring.h"

#define IDLE_CONNECTIONS_MAX 256L
#define IDLE_S 118 /* libcurl's own */
#define NAME_S 60  /* the same */
/* By this part curl's own time-out is longer than ours. That is to come first: curl would wait for a resolver that is
 * silent. Of its own curl gives half to a name's first address, half of the rest to the second one, and so on: with an
 * eighth more, three have their turn within ours. */
#define SPARE_PART 8
#define SOCKETS_A_LANE       4 /* an address of each family that is tried, the resolver's, one that is closing */
#define WATCH_MOST_MS        1000u /* poll() may wait for a stranger in place of the bell, or there is none */

struct xh_lane {
    struct xh_ring link;
    struct xh_wire *wire;
    CURL *easy;
    void *headers;         /* of xh_handle_set_up */
    struct xh_exchange *x; /* NULL while idle */
    char *cookies;         /* what it was sent with; NULL: none are kept */
    atomic_uint *sockets;  /* as in struct xh_send */
    struct xh_libcurl_sent on_sent;
    int foreign;     /* as in struct xh_send */
    int asked;       /* one address at least was to be connected to */
    int paused;      /* no byte is expected */
    int sent;        /* it was connected, and the request went out */
    enum xh_net cut; /* why a callback made curl stop; XH_NET_OK: none did */
    char error[CURL_ERROR_SIZE];
};

/* A socket that is open. */
struct own_socket {
    struct xh_own own;
    atomic_uint *count; /* as in struct xh_send */
};

struct xh_wire {
    CURLM *multi; /* NULL: there was no memory, and nothing can be started */
    const struct xh_wire_events *events;
    struct xh_ring running, idle;
    struct xh_ring forsaken; /* lanes in a multi that was forsaken: only so that they are not taken for lost memory */
    struct pollfd *waits; /* what is waited for, |waited| of them in room for |room|; the first is the bell */
    size_t waited, room;
    struct own_socket *sockets; /* curl's but for the resolver's, |nsockets| of them */
    size_t nsockets, sockets_room;
    unsigned lanes;
    pthread_mutex_t lock; /* guards what follows; the thread alone changes |bell|, and may read it without */
    pthread_cond_t woken;
    int rung;              /* somebody has called xh_wire_wake */
    int watches;           /* the thread is in poll() */
    struct xh_own bell[2]; /* what is sent to the second ends a poll() of the first; none: none was wanted yet */
    uint64_t due_ns; /* when curl wants to be called in any case; UINT64_MAX: never */
};

/* TLS sessions are shared by all threads: a later connection of another thread resumes. */
static CURLSH *share;
static pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];

static void share_lock(CURL *easy, curl_lock_data data, curl_lock_access access, void *ctx)
{
    pthread_mutex_lock(&share_locks[data]);
}

static void share_unlock(CURL *easy, curl_lock_data data, void *ctx)
{
    pthread_mutex_unlock(&share_locks[data]);
}

int xh_wire_global_init(void)
{
    xh_crypto_hold(); /* before the engine's exit handler is registered, which ends the threads */
    int rc = curl_global_init(CURL_GLOBAL_DEFAULT);
    xh_crypto_leave();
    if (rc != CURLE_OK)
        return -1;
    /* A fork's child comes here again: the parent's share and locks may be in any state. */
    for (size_t i = 0; i < CURL_LOCK_DATA_LAST; i++)
        pthread_mutex_init(&share_locks[i], NULL);
    share = curl_share_init();
    if (share) {
        curl_share_setopt(share, CURLSHOPT_LOCKFUNC, share_lock);
        curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, share_unlock);
        curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    }
    return 0;
}

/* Curl waits for |what| at |fd| from now on. */
static int on_waits(CURL *easy, curl_socket_t fd, int what, void *ctx, void *ctx_of_socket)
{
    struct xh_wire *w = ctx;
    size_t i = 1;
    while (i < w->waited && w->waits[i].fd != fd)
        i++;
    if (what == CURL_POLL_REMOVE) {
        if (i < w->waited)
            w->waits[i] = w->waits[--w->waited];
        return 0;
    }
    if (i == w->waited) {
        if (xh_grow(w->waits, w->room, i + 1))
            return -1;
        w->waits[i].fd = fd;
        w->waited++;
    }
    w->waits[i].events = (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0));
    w->waits[i].revents = 0;
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *ctx)
{
    struct xh_wire *w = ctx;
    w->due_ns = ms < 0 ? UINT64_MAX : xh_now_ns() + (uint64_t)ms * 1000000u;
    return 0;
}

/* A pair of sockets: each has an inode of its own, as eventfds have not, and what is sent to a file fails. Without one
 * there is none. Lock held. */
static void hang_bell(struct xh_wire *w)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) != 0)
        return;
    w->bell[0] = xh_own(xh_move_up(fd[0]));
    w->bell[1] = xh_own(xh_move_up(fd[1]));
    w->waits[0].fd = w->bell[0].fd;
}

static CURLM *multi_new(struct xh_wire *w)
{
    CURLM *m = curl_multi_init();
    curl_multi_setopt(m, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS_MAX);
    curl_multi_setopt(m, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(m, CURLMOPT_SOCKETFUNCTION, on_waits);
    curl_multi_setopt(m, CURLMOPT_SOCKETDATA, w);
    curl_multi_setopt(m, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(m, CURLMOPT_TIMERDATA, w);
    return m;
}

struct xh_wire *xh_wire_new(const struct xh_wire_events *events)
{
    struct xh_wire *w = calloc(1, sizeof *w);
    if (!w || xh_grow(w->waits, w->room, 1) || !(w->multi = multi_new(w))) {
        free(w ? w->waits : NULL);
        free(w);
        return NULL;
    }
    w->events = events;
    w->due_ns = UINT64_MAX;
    xh_ring_init(&w->running);
    xh_ring_init(&w->idle);
    xh_ring_init(&w->forsaken);
    pthread_mutex_init(&w->lock, NULL);
    xh_cond_init(&w->woken);
    w->bell[0].fd = w->bell[1].fd = -1;
    w->waits[0] = (struct pollfd){.fd = -1, .events = POLLIN};
    w->waited = 1;
    return w;
}

/* ---- callbacks of curl. Those that tell of an exchange are not in OpenSSL, whatever called curl: they take locks */

/* The connection may have been opened for a request that was not |foreign|: on_socket did not look at its address. */
static int on_sent(void *ctx, const char *address, unsigned port)
{
    struct xh_lane *l = ctx;
    if (l->foreign && xh_handle_says_near(address)) {
        l->cut = XH_NET_NEAR;
        return -1;
    }
    xh_crypto_leave();
    int rc = l->wire->events->sent(l->x, port);
    xh_crypto_hold();
    l->sent = rc == 0;
    if (rc)
        l->cut = XH_NET_CUT;
    return rc;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_lane *l = ctx;
    if (l->cut == XH_NET_NEAR) /* an older libcurl sent it */
        return 0;
    xh_crypto_leave();
    int rc = l->wire->events->line(l->x, p, size * n);
    xh_crypto_hold();
    if (rc == 0)
        return size * n;
    l->cut = XH_NET_CUT;
    return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_lane *l = ctx;
    xh_crypto_leave();
    int rc = l->wire->events->body(l->x, (const uint8_t *)p, size * n);
    xh_crypto_hold();
    if (rc == 0)
        return size * n;
    if (rc > 0) {
        l->paused = 1;
        return CURL_WRITEFUNC_PAUSE;
    }
    l->cut = XH_NET_CUT;
    return 0;
}

/* Where |fd| is among the open ones, or would be. */
static size_t place_of(const struct xh_wire *w, int fd)
{
    size_t i = 0;
    while (i < w->nsockets && w->sockets[i].own.fd != fd)
        i++;
    return i;
}

static void forget_socket(struct xh_wire *w, size_t i)
{
    atomic_fetch_sub_explicit(w->sockets[i].count, 1, memory_order_relaxed);
    w->sockets[i] = w->sockets[--w->nsockets];
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct xh_lane *l = ctx;
    struct xh_wire *w = l->wire;
    int near = l->foreign && xh_handle_is_near(&a->addr);
    l->cut = near && !l->asked ? XH_NET_NEAR : XH_NET_OK; /* another address may still be good */
    l->asked |= !near;
    int fd = near ? -1 : xh_handle_socket(a->family, a->socktype, a->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    size_t before = place_of(w, fd);
    if (before < w->nsockets) /* the program has closed that one */
        forget_socket(w, before);
    if (xh_grow(w->sockets, w->sockets_room, w->nsockets + 1)) {
        close(fd);
        return CURL_SOCKET_BAD;
    }
    w->sockets[w->nsockets++] = (struct own_socket){xh_own(fd), l->sockets};
    atomic_fetch_add_explicit(l->sockets, 1, memory_order_relaxed);
    return fd;
}

static int on_close(void *ctx, curl_socket_t fd)
{
    struct xh_wire *w = ctx;
    size_t i = place_of(w, fd);
    if (i == w->nsockets)
        return 0;
    struct xh_own own = w->sockets[i].own;
    forget_socket(w, i);
    xh_own_close(&own);
    return 0;
}

/* ---- lanes */

static struct xh_lane *lane_new(struct xh_wire *w)
{
    struct xh_lane *l = calloc(1, sizeof *l);
    size_t sockets = 1 + (size_t)(w->lanes + 1) * SOCKETS_A_LANE; /* curl gives up all exchanges if one finds no room */
    if (!l || xh_grow(w->waits, w->room, sockets) || !(l->easy = curl_easy_init())) {
        free(l);
        return NULL;
    }
    w->lanes++;
    l->wire = w;
    xh_ring_init(&l->link);
    CURL *e = l->easy;
    curl_easy_setopt(e, CURLOPT_PRIVATE, l);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, l->error);
    xh_handle_dress(e);
    if (share)
        curl_easy_setopt(e, CURLOPT_SHARE, share);
    l->on_sent = (struct xh_libcurl_sent){on_sent, l};
    xh_libcurl_on_sent(e, &l->on_sent);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, l);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, l);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, l);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, w);
    return l;
}

/* Back to |idle|; whatever was secret in the headers goes. */
static void lane_rest(struct xh_lane *l)
{
    xh_handle_rest(l->easy, l->headers);
    xh_wipe(l->cookies);
    l->headers = NULL;
    l->cookies = NULL;
    l->x = NULL;
    xh_ring_take(&l->link);
    xh_ring_put_first(&l->wire->idle, &l->link);
}

static void lane_free(struct xh_lane *l)
{
    xh_ring_take(&l->link);
    xh_crypto_hold();
    curl_easy_cleanup(l->easy);
    xh_crypto_leave();
    l->wire->lanes--;
    free(l);
}

struct xh_lane *xh_wire_start(struct xh_wire *w, struct xh_exchange *x, const struct xh_send *s)
{
    struct xh_lane *l = xh_ring_take_first(&w->idle, struct xh_lane, link);
    l = l ? l : lane_new(w);
    if (!l)
        return NULL;
    CURL *e = l->easy;
    l->x = x;
    l->sockets = s->sockets;
    l->foreign = s->foreign;
    l->cut = XH_NET_OK;
    l->paused = l->sent = l->asked = 0;
    l->error[0] = '\0';
    if (!(l->headers = xh_handle_set_up(e, s)) || (s->cookies && !(l->cookies = xh_handle_cookies(e)))) {
        lane_rest(l);
        return NULL;
    }
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(s->connect_timeout_ms + s->connect_timeout_ms / SPARE_PART));
    curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, (long)s->fresh);
    curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, s->idle_s && s->idle_s < IDLE_S ? (long)s->idle_s : (long)IDLE_S);
    curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, s->name_s && s->name_s < NAME_S ? (long)s->name_s : (long)NAME_S);
    xh_libcurl_leave_resolver(e, 0);
    if (curl_multi_add_handle(w->multi, e) != CURLM_OK) {
        lane_rest(l);
        return NULL;
    }
    xh_ring_put_last(&w->running, &l->link);
    return l;
}

/* Takes |l| off the multi and reports. */
static void finish(struct xh_lane *l, enum xh_net net, int code)
{
    struct xh_wire *w = l->wire;
    struct xh_exchange *x = l->x;
    struct xh_outcome out;
    int unsent = net != XH_NET_OK && !l->sent;
    xh_handle_outcome(l->easy, net, code, l->error, &out);
    char *now = l->cookies ? xh_handle_cookies(l->easy) : NULL, *changes = NULL;
    if (now)
        changes = xh_cookies_changes(l->cookies, now);
    xh_wipe(now);
    out.cookies = changes;
    xh_crypto_hold(); /* a connection may end with it */
    curl_multi_remove_handle(w->multi, l->easy);
    xh_crypto_leave();
    lane_rest(l);
    /* libcurl 8.14 forgets memory when it resolves again on such a handle, and keeps what it has made of an
     * authorisation for the host that it has not reached: the next request on the handle would carry it elsewhere.
     * Where a handle must stay, libcurl makes none: it does not sign there, and a login is a header of ours. */
    if (unsent && xh_libcurl_is(XH_LIBCURL_LETS_HANDLES_GO))
        lane_free(l);
    w->events->over(x, &out);
    xh_wipe(changes);
}

void xh_wire_cut(struct xh_lane *l, enum xh_net net)
{
    /* curl would wait here for a name that does not resolve, and hold up the whole thread. */
    xh_libcurl_leave_resolver(l->easy, 1);
    finish(l, net, CURLE_OK);
}

void xh_wire_resume(struct xh_lane *l)
{
    if (!l->paused)
        return;
    l->paused = 0;
    xh_crypto_hold();
    curl_easy_pause(l->easy, CURLPAUSE_CONT);
    xh_crypto_leave();
}

/* The program has closed descriptors of ours: begins anew, without them. */
static void forsake(struct xh_wire *w)
{
    struct xh_outcome out = {.net = XH_NET_BROKEN, .text = "the program has closed the driver's file descriptors"};
    struct xh_ring lost;
    struct xh_lane *l;
    pthread_mutex_lock(&w->lock);
    xh_own_close(&w->bell[0]);
    xh_own_close(&w->bell[1]);
    pthread_mutex_unlock(&w->lock);
    w->waits[0].fd = -1;
    w->waited = 1;
    w->due_ns = UINT64_MAX;
    while (w->nsockets) {
        xh_own_close(&w->sockets[0].own);
        forget_socket(w, 0);
    }
    w->multi = multi_new(w);
    xh_ring_init(&lost);
    xh_ring_move_all(&lost, &w->running);
    while ((l = xh_ring_take_first(&lost, struct xh_lane, link)) != NULL) {
        struct xh_exchange *x = l->x;
        xh_handle_rest(l->easy, l->headers);
        xh_wipe(l->cookies);
        xh_ring_put_last(&w->forsaken, &l->link);
        w->lanes--;
        w->events->over(x, &out);
    }
}

static void look_after(struct xh_wire *w)
{
    uint64_t now = xh_now_ns();
    xh_ring_each_leaving (struct xh_lane, l, link, &w->running) {
        enum xh_net why;
        if (now > w->events->deadline(l->x, &why))
            xh_wire_cut(l, why);
    }
}

/* Calls curl for each socket that poll() reported, and for its time. */
static void act(struct xh_wire *w)
{
    int running;
    xh_crypto_hold();
    /* From the last one on: curl may take some off meanwhile, and the last one takes the place of each. */
    for (size_t i = w->waited; i-- > 1;) {
        struct pollfd p = i < w->waited ? w->waits[i] : (struct pollfd){0};
        if (!p.revents)
            continue;
        w->waits[i].revents = 0;
        if (p.revents & POLLNVAL)
            w->waits[i] = w->waits[--w->waited]; /* it is closed: poll() would not wait any more */
        /* What is wrong, reading tells best. */
        int what = (p.revents & ~POLLOUT ? CURL_CSELECT_IN : 0) | (p.revents & POLLOUT ? CURL_CSELECT_OUT : 0);
        curl_multi_socket_action(w->multi, p.fd, what, &running);
    }
    if (xh_now_ns() >= w->due_ns) {
        w->due_ns = UINT64_MAX;
        curl_multi_socket_action(w->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    xh_crypto_leave();
}

void xh_wire_perform(struct xh_wire *w)
{
    int left;
    CURLMsg *msg;
    act(w);
    while ((msg = curl_multi_info_read(w->multi, &left)) != NULL) {
        struct xh_lane *l;
        CURLcode code = msg->data.result;
        if (msg->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &l);
        finish(l, code != CURLE_OK && l->cut != XH_NET_OK ? l->cut : xh_handle_net((int)code), (int)code);
    }
    look_after(w);
}

/* Waits for |due_ns| or xh_wire_wake, as there is nothing else to wait for. */
static void rest(struct xh_wire *w, uint64_t due_ns)
{
    pthread_mutex_lock(&w->lock);
    while (!w->rung && xh_cond_wait_until(&w->woken, &w->lock, due_ns))
        ;
    w->rung = 0;
    pthread_mutex_unlock(&w->lock);
}

/* Waits for |ms|, xh_wire_wake or the sockets that curl waits for. */
static void watch(struct xh_wire *w, uint64_t ms)
{
    char rings[8];
    pthread_mutex_lock(&w->lock);
    if (w->bell[0].fd < 0)
        hang_bell(w);
    ms = w->rung ? 0 : ms < WATCH_MOST_MS ? ms : WATCH_MOST_MS;
    w->watches = 1;
    pthread_mutex_unlock(&w->lock);
    poll(w->waits, (nfds_t)w->waited, (int)ms);
    pthread_mutex_lock(&w->lock);
    w->watches = w->rung = 0;
    pthread_mutex_unlock(&w->lock);
    if (w->waits[0].revents && xh_own_is_there(&w->bell[0]))
        (void)!recv(w->bell[0].fd, rings, sizeof rings, 0);
}

void xh_wire_poll(struct xh_wire *w, int timeout_ms)
{
    uint64_t now = xh_now_ns(), due = now + (uint64_t)timeout_ms * 1000000u;
    due = w->due_ns < due ? w->due_ns : due;
    xh_ring_each (struct xh_lane, l, link, &w->running) {
        enum xh_net why;
        uint64_t end = w->events->deadline(l->x, &why);
        due = end < due ? end : due;
    }
    if (w->waited == 1)
        rest(w, due);
    else
        watch(w, due > now ? (due - now + 999999u) / 1000000u : 0);
    if (w->bell[0].fd >= 0 && !xh_own_is_there(&w->bell[0]))
        forsake(w);
}

void xh_wire_wake(struct xh_wire *w)
{
    pthread_mutex_lock(&w->lock);
    if (!w->rung && w->watches && xh_own_is_there(&w->bell[1]))
        (void)send(w->bell[1].fd, "", 1, MSG_NOSIGNAL);
    if (!w->rung && !w->watches)
        pthread_cond_signal(&w->woken);
    w->rung = 1;
    pthread_mutex_unlock(&w->lock);
}
