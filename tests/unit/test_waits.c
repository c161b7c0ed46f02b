/* Waits on a machine whose wall clock is set back while they last: they take as long as before. And how long a request
 * may take. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/now.h"
#include "origin/client.h"
#include "origin/loop.h"
#include "origin/proxy.h"
#include "base/waits.h"

#define HOUR_S 3600

/* Whoever asks is told a wall clock that is an hour fast: by the kernel's, a wait that is reckoned with it ends in an
 * hour, as it would where the clock were set back by one. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, t);
    t->tv_sec += id == CLOCK_REALTIME ? HOUR_S : 0;
    return rc;
}

static void engine_waits(void)
{
    struct xh_options o;
    struct xh_wait w = {0};
    xh_options_defaults(&o);
    cr_assert_eq(xh_loop_enter(&o, NULL), 0);
    xh_engine_wait_with(&w, xh_now_ns() + 20000000u);
    xh_engine_unlock();
}

Test(waits, the_engine_waits_by_the_monotonic_clock, .timeout = 20)
{
    engine_waits();
}

Test(waits, so_it_does_in_a_forks_child, .timeout = 20)
{
    int status;
    engine_waits();
    pid_t pid = fork();
    if (pid == 0) {
        engine_waits();
        _exit(0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
}

Test(waits, a_wait_ends_at_its_time, .timeout = 20)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c;
    xh_cond_init(&c);
    pthread_mutex_lock(&lock);
    uint64_t until = xh_now_ns() + 20000000u;
    while (xh_cond_wait_until(&c, &lock, until))
        ;
    cr_assert_geq(xh_now_ns(), until);
    pthread_mutex_unlock(&lock);
}

static void nothing(int sig)
{
    (void)sig;
}

/* A profiler's timer, or a program that gets many signals. */
Test(waits, a_pause_lasts_though_signals_come, .timeout = 20)
{
    struct sigaction act = {.sa_handler = nothing};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t begun = xh_now_ns();
    xh_pause_ns(30000000);
    uint64_t lasted = xh_now_ns() - begun;
    setitimer(ITIMER_REAL, &never, NULL);
    cr_expect_geq(lasted, 30000000u);
}

/* ---- requests one at a time */

#define UPLOAD_BYTES 30000000u
#define PIECES       30u
#define SLOW_NS      6000000000u

/* Takes the head of a request, and |bytes| behind it, in pieces with |pause_ns| between. */
static void take(int fd, size_t bytes, uint64_t pause_ns)
{
    static char buf[UPLOAD_BYTES / PIECES];
    for (size_t n = 0; n < 4 || memcmp(buf + n - 4, "\r\n\r\n", 4) != 0; n++)
        cr_assert(n < sizeof buf && recv(fd, buf + n, 1, 0) == 1);
    for (; bytes; bytes -= sizeof buf) {
        cr_assert_eq(recv(fd, buf, sizeof buf, MSG_WAITALL), (ssize_t)sizeof buf);
        xh_pause_ns(pause_ns); /* not a wait: a link's rate */
    }
}

static void say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static int met(int listener)
{
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        abort();
    return fd;
}

/* Hangs up when an upload is there, and takes it, slowly, when it is sent again. */
static void *hangs_up_once(void *listener)
{
    int one = met(*(int *)listener);
    take(one, 0, 0);
    say(one, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    take(one, UPLOAD_BYTES, 0);
    close(one);
    one = met(*(int *)listener);
    take(one, UPLOAD_BYTES, SLOW_NS / PIECES);
    say(one, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    close(one);
    return NULL;
}

static ptrdiff_t zeros(void *ctx, char *buf, size_t len)
{
    size_t *left = ctx, n = len < *left ? len : *left;
    memset(buf, 0, n);
    *left -= n;
    return (ptrdiff_t)n;
}

static int again(void *ctx, uint64_t off)
{
    *(size_t *)ctx = UPLOAD_BYTES - off;
    return 0;
}

/* libcurl sends a request anew where a connection that it had kept breaks before an answer. */
Test(waits, an_upload_that_begins_anew_has_its_time_anew, .timeout = 60)
{
    static const struct xh_client_events events = {.read = zeros, .seek = again};
    struct xh_proxies none = {.of = {{.text = ""}, {.text = ""}}, .except = ""};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    size_t left = UPLOAD_BYTES;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 1 << 16;
    if (listener < 0)
        abort();
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    cr_assert(bind(listener, (void *)&at, size) == 0 && listen(listener, 5) == 0);
    cr_assert_eq(getsockname(listener, (void *)&at, &size), 0);
    pthread_t server;
    cr_assert_eq(pthread_create(&server, NULL, hangs_up_once, &listener), 0);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/x", ntohs(at.sin_port));
    struct xh_client *h = xh_client_new(&events, &left, 0);
    struct xh_client_ask ask = {.send = {.url = url, .method = "HEAD", .proxies = &none, .connect_timeout_ms = 1000},
                                .bodiless = 1,
                                .quiet_ms = 1000};
    struct xh_outcome out;
    cr_assert_eq(xh_client_ask(h, &ask, &out), XH_NET_OK, "%s", out.text);
    ask.send.method = "PUT";
    ask.bodiless = 0;
    ask.uploads = 1;
    ask.upload_bytes = UPLOAD_BYTES;
    cr_expect_eq(xh_client_ask(h, &ask, &out), XH_NET_OK, "%s", out.text);
    xh_client_free(h);
    if (left == 0)
        pthread_join(server, NULL);
    close(listener);
}
