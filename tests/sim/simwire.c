/* The simulated wire: cache/origin/wire.h over tcp.h and server.h. It behaves as wire.c with libcurl does: connections
 * are kept and used again, a request over a kept connection that the server has closed goes out once more on a fresh
 * one, headers come line by line and bodies in TLS records.
 *
 * Threads: each wire is one engine thread's; the network's events run while no thread does. */
#include "origin/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin/ring.h"
#include "baton.h"
#include "simwire.h"

#define RECORD_BYTES 16384u
#define HEADERS_MOST 8
#define FIRST_PORT 40000u

struct sim_net sim_net;
struct sim_sums sim_sums;

struct conn {
    struct xh_ring link; /* in the wire's |kept| while it carries nothing */
    struct xh_wire *wire;
    struct sim_server *server;
    struct sim_conn *tcp;
    struct xh_lane *lane;
    const struct sim_reply *reply;
    atomic_uint *sockets;
    uint64_t pos, begun_ns, kept_ns;
    unsigned port, requests;
    int there, ready, refused, closed; /* the server took it, TLS's handshake is over; ours: given up */
    int served;
};

struct request {
    struct conn *conn;
    char *method, *path, *header[HEADERS_MOST + 1];
};

struct xh_lane {
    struct xh_ring link;
    struct xh_wire *wire;
    struct xh_exchange *x;
    struct conn *conn;
    struct request *request; /* as it was given, to be sent once more */
    atomic_uint *sockets;
    unsigned opened;
    int sent, paused;
};

struct xh_wire {
    const struct xh_wire_events *events;
    struct xh_ring running, idle, kept;
    int woken;
    uint64_t taken; /* bytes of this look */
};

int xh_wire_global_init(void)
{
    return 0;
}

struct xh_wire *xh_wire_new(const struct xh_wire_events *events)
{
    struct xh_wire *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->events = events;
    xh_ring_init(&w->running);
    xh_ring_init(&w->idle);
    xh_ring_init(&w->kept);
    return w;
}

void xh_wire_wake(struct xh_wire *w)
{
    w->woken = 1;
    sim_wake(w);
}

/* ---- connections */

/* The server's answer to |c| is there: the handshake of TLS follows. */
static void on_there(struct conn *c)
{
    struct sim_server *s = c->server;
    s->met++;
    if (sim_strikes(s, SIM_F_REFUSED) || (s->takes && s->taken >= s->takes) ||
        (sim_now() >= s->link->dies_ns && sim_now() < s->link->back_ns)) {
        sim_sums.refused++;
        c->refused = 1;
        return;
    }
    c->there = 1;
    s->taken++;
    sim_hello(s, c->tcp);
}

static void arrived(void *ctx)
{
    struct conn *c = ctx;
    if (!c->there && !c->refused)
        on_there(c);
    else if (!c->ready)
        c->ready = sim_hello_is_over(c->tcp);
    xh_wire_wake(c->wire);
}

static struct conn *conn_open(struct xh_lane *l, struct sim_server *s)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    xh_ring_init(&c->link);
    c->wire = l->wire;
    c->server = s;
    c->sockets = l->sockets;
    c->port = FIRST_PORT + (unsigned)sim_sums.connections++;
    c->begun_ns = sim_now();
    atomic_fetch_add_explicit(c->sockets, 1, memory_order_relaxed);
    l->opened++;
    sim_sums.open_most = ++sim_sums.open > sim_sums.open_most ? sim_sums.open : sim_sums.open_most;
    c->tcp = sim_conn_open(s->link, &(struct sim_conn_events){arrived, c});
    sim_trace("port=%u opens to %s", c->port, s->name);
    return c;
}

/* Whether the server is at work on a request of |c|. */
static void is_served(struct conn *c, int is)
{
    c->server->served += (unsigned)is - (unsigned)c->served;
    c->served = is;
}

static void conn_close(struct conn *c)
{
    if (c->closed)
        return;
    c->closed = 1;
    c->server->taken -= (unsigned)c->there;
    is_served(c, 0);
    xh_ring_take(&c->link);
    sim_conn_close(c->tcp);
    atomic_fetch_sub_explicit(c->sockets, 1, memory_order_relaxed);
    sim_sums.open--;
    sim_trace("port=%u closed", c->port);
}

/* The server |url| names, or NULL; |*path| is what follows. */
static struct sim_server *server_of(const char *url, const char **path)
{
    for (size_t i = 0; i < sim_net.servers; i++)
        for (int other = 0; other < 2; other++) {
            const char *name = other ? sim_net.server[i].other : sim_net.server[i].name;
            size_t n = name ? strlen(name) : 0;
            if (n && strncmp(url, name, n) == 0 && (url[n] == '/' || !url[n])) {
                *path = url + n;
                return &sim_net.server[i];
            }
        }
    return NULL;
}

/* A kept connection to |s| that is sound as far as can be told: as with libcurl, of several the one that was opened
 * first. */
static struct conn *conn_kept(struct xh_wire *w, struct sim_server *s, uint64_t idle_s)
{
    struct conn *oldest = NULL;
    for (struct xh_ring *p = w->kept.next, *next; p != &w->kept; p = next) {
        struct conn *c = xh_ring_of(p, struct conn, link);
        int ended;
        next = p->next;
        if (c->server != s)
            continue;
        int is_old = idle_s && (sim_now() - c->kept_ns) / SIM_S > idle_s;
        if (is_old || sim_conn_readable(c->tcp, &ended) || ended) {
            conn_close(c);
            continue;
        }
        oldest = oldest && oldest->port < c->port ? oldest : c;
    }
    if (oldest)
        xh_ring_take(&oldest->link);
    return oldest;
}

static void bind(struct xh_lane *l, struct conn *c)
{
    l->conn = c;
    l->sent = 0;
    c->lane = l;
    c->reply = NULL;
    c->pos = 0;
    l->request->conn = c;
}

/* ---- requests */

/* What a reply that halts has left, in steps. */
static void on_rest(void *ctx, uint64_t sent)
{
    struct request *q = ctx;
    struct conn *c = q->conn;
    const struct sim_reply *r = c->reply;
    if (c->closed || !r)
        return;
    uint64_t n = r->lie.breaks ? 0 : r->len - sent;
    if (r->lie.step_bytes && n > r->lie.step_bytes)
        n = r->lie.step_bytes;
    sim_conn_write(c->tcp, n, r->lie.breaks);
    if (!r->lie.breaks && sent + n < r->len)
        sim_at(sim_now() + r->lie.step_ns, on_rest, q, sent + n);
}

static void on_written(void *ctx, uint64_t arg)
{
    struct request *q = ctx;
    struct conn *c = q->conn;
    const struct sim_reply *r = c->reply;
    if (c->closed)
        return;
    sim_conn_write(c->tcp, r->sent_len, r->ends);
    if (r->lie.halts)
        sim_at(sim_now() + r->lie.pause_ns, on_rest, q, r->sent_len);
}

static void on_answer(void *ctx, uint64_t arg)
{
    struct request *q = ctx;
    struct conn *c = q->conn;
    if (c->closed)
        return;
    struct sim_server *s = c->server;
    int refuses = s->serves && s->served >= s->serves;
    is_served(c, 1);
    struct sim_reply *r = sim_answer(c->server, q->method, q->path, (const char *const *)q->header);
    is_served(c, !refuses);
    sim_sums.refused += (uint64_t)refuses;
    c->reply = r;
    if (r->lie.late_ns)
        sim_at(sim_now() + r->lie.late_ns, on_written, q, 0);
    else
        on_written(q, 0);
}

/* Returns 0, or -1: it is not to be sent. */
static int send_request(struct xh_lane *l)
{
    if (l->wire->events->sent(l->x, l->conn->port) != 0)
        return -1;
    struct request *q = malloc(sizeof *q);
    if (!q)
        abort();
    *q = *l->request;
    const char *range = q->header[0] ? q->header[0] : "";
    sim_trace("port=%u %s %s %.200s", l->conn->port, q->method, q->path, range);
    l->sent = 1;
    l->conn->requests++;
    sim_sums.requests++;
    sim_note(l->conn->port * 31u + (uint64_t)strlen(range));
    sim_at(sim_link_up(l->conn->server->link) + l->conn->server->think_ns, on_answer, q, 0);
    return 0;
}

static char *copy(const char *s)
{
    char *out = strdup(s);
    if (!out)
        abort();
    return out;
}

struct xh_lane *xh_wire_start(struct xh_wire *w, struct xh_exchange *x, const struct xh_send *s)
{
    const char *path;
    struct sim_server *server = server_of(s->url, &path);
    if (!server)
        return NULL;
    struct xh_lane *l = xh_ring_take_first(&w->idle, struct xh_lane, link);
    l = l ? l : calloc(1, sizeof *l);
    struct request *q = calloc(1, sizeof *q);
    if (!l || !q)
        abort();
    xh_ring_init(&l->link);
    l->wire = w;
    l->x = x;
    l->sockets = s->sockets;
    l->opened = 0;
    l->paused = 0;
    l->request = q;
    q->method = copy(s->method ? s->method : "GET");
    q->path = copy(path);
    for (size_t i = 0; s->headers[i] && i < HEADERS_MOST; i++)
        q->header[i] = copy(s->headers[i]);
    struct conn *c = s->fresh ? NULL : conn_kept(w, server, s->idle_s);
    bind(l, c ? c : conn_open(l, server));
    xh_ring_put_last(&w->running, &l->link);
    w->woken = 1;
    return l;
}

/* |l| is over; its connection is kept if |keeps|. */
static void finish(struct xh_lane *l, enum xh_net net, int keeps)
{
    struct xh_wire *w = l->wire;
    struct xh_exchange *x = l->x;
    struct conn *c = l->conn;
    struct xh_outcome out = {.net = net, .opened = l->opened};
    if (net != XH_NET_OK && net != XH_NET_CUT && net != XH_NET_CANCELLED)
        snprintf(out.text, sizeof out.text, "the simulated network says so");
    sim_trace("port=%u over net=%d bytes=%llu", c->port, (int)net, (unsigned long long)c->pos);
    sim_note((uint64_t)net << 32 ^ c->pos ^ c->port);
    is_served(c, 0);
    l->x = NULL;
    l->conn = NULL;
    c->lane = NULL;
    xh_ring_take(&l->link);
    xh_ring_put_first(&w->idle, &l->link);
    if (keeps) {
        c->kept_ns = sim_now();
        xh_ring_put_first(&w->kept, &c->link);
    } else {
        conn_close(c);
    }
    w->events->over(x, &out);
}

void xh_wire_cut(struct xh_lane *l, enum xh_net net)
{
    finish(l, net, 0);
}

void xh_wire_resume(struct xh_lane *l)
{
    if (!l->paused)
        return;
    l->paused = 0;
    l->wire->woken = 1;
}

/* Hands over the headers. Returns 0, or -1: cut. */
static int take_headers(struct xh_lane *l)
{
    struct conn *c = l->conn;
    const struct sim_piece *head = &c->reply->piece[0];
    for (const char *p = head->text, *end; *p; p = end) {
        end = strchr(p, '\n') + 1;
        if (l->wire->events->line(l->x, p, (size_t)(end - p)) != 0)
            return -1;
    }
    c->pos = head->len;
    sim_conn_read(c->tcp, head->len);
    return 0;
}

/* Hands over up to a record of the body, of |most| bytes that are there. Returns as struct xh_wire_events.body. */
static int take_body(struct xh_lane *l, uint64_t most)
{
    struct conn *c = l->conn;
    uint8_t record[RECORD_BYTES];
    size_t n = 0;
    while (n < sizeof record && n < most && c->pos + n < c->reply->len)
        n += sim_reply_bytes(c->reply, c->pos + n, record + n, most - n < sizeof record - n ? (size_t)(most - n) : sizeof record - n);
    int rc = l->wire->events->body(l->x, record, n);
    if (rc == 0) {
        c->pos += n;
        l->wire->taken += n;
        sim_sums.bytes += n;
        sim_conn_read(c->tcp, n);
    }
    return rc;
}

/* Moves what can be moved of |l|, which may be over then. */
static void go_on(struct xh_lane *l)
{
    struct conn *c = l->conn;
    if (c->refused) {
        finish(l, XH_NET_CONNECT, 0);
        return;
    }
    if (!c->ready)
        return;
    if (!l->sent && send_request(l) != 0) {
        finish(l, XH_NET_CUT, 0);
        return;
    }
    while (!l->paused) {
        int ended;
        uint64_t n = sim_conn_readable(c->tcp, &ended);
        if (n == 0 && ended && c->pos == 0 && c->requests > 1 && l->opened == 0) {
            conn_close(c); /* it was closed while it was kept, or so it looks: once more, as curl does */
            bind(l, conn_open(l, c->server));
            return;
        }
        if (n == 0 && ended) {
            finish(l, XH_NET_BROKEN, 0);
            return;
        }
        if (n == 0 || !c->reply || (c->pos == 0 && n < c->reply->piece[0].len))
            return;
        int rc = c->pos == 0 ? take_headers(l) : take_body(l, n);
        if (rc > 0)
            l->paused = 1;
        if (rc < 0) {
            finish(l, XH_NET_CUT, 0);
            return;
        }
        if (rc == 0 && c->pos == c->reply->len) {
            finish(l, XH_NET_OK, !c->reply->ends);
            return;
        }
    }
}

void xh_wire_perform(struct xh_wire *w)
{
    w->woken = 0;
    w->taken = 0;
    for (struct xh_ring *p = w->running.next, *next; p != &w->running; p = next) {
        next = p->next;
        go_on(xh_ring_of(p, struct xh_lane, link));
    }
    for (struct xh_ring *p = w->running.next, *next; p != &w->running; p = next) {
        struct xh_lane *l = xh_ring_of(p, struct xh_lane, link);
        enum xh_net why;
        next = p->next;
        if (sim_now() > w->events->deadline(l->x, &why))
            xh_wire_cut(l, why);
    }
    if (w->taken)
        sim_sleep((uint64_t)((double)w->taken * sim_net.client_ns_byte) + sim_net.client_ns);
}

void xh_wire_poll(struct xh_wire *w, int timeout_ms)
{
    uint64_t until = sim_now() + (uint64_t)timeout_ms * SIM_MS;
    for (struct xh_ring *p = w->running.next; p != &w->running; p = p->next) {
        enum xh_net why;
        uint64_t due = w->events->deadline(xh_ring_of(p, struct xh_lane, link)->x, &why);
        if (due < until)
            until = due + SIM_MS;
    }
    while (!w->woken && sim_now() < until)
        sim_wait(w, until);
}
