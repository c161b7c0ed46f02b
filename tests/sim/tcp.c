/* Links and TCP: see tcp.h.
 *
 * A link keeps the order of its packets. So an acknowledgement of a packet shows that what was sent before it and was
 * not acknowledged is lost (no thresholds), and in-order arrival can be told from the sender's own list: both ends
 * are here.
 *
 * Not modelled: delayed acknowledgements, loss of acknowledgements, reordering, ECN, the work of either machine. */
#include "tcp.h"

#include <stdlib.h>
#include <string.h>

#include "baton.h"

#define FIRST_WINDOW (10 * SIM_MSS)
#define RECEIVE_FIRST 65536u
#define RTO_LEAST (200 * SIM_MS)
#define PROBE_SPARE (10 * SIM_MS)
#define WRITE_EVERY (5 * SIM_MS) /* a capped server's writes */
#define BBR_ROUNDS 10
#define BBR_HIGH 2.885
#define BBR_RTT_LASTS (10 * SIM_S)
#define BBR_PROBES (200 * SIM_MS)

enum { FLYING, LOST, ACKED };

struct packet {
    uint64_t seq;
    uint32_t len;
    uint8_t state, here, again, limited; /* here: it has arrived; again: it was sent twice; limited: by what there was to send */
    uint64_t order, sent_ns;
    uint64_t may_send; /* what the receiver takes bytes up to, as its acknowledgement says */
    uint64_t delivered, delivered_ns; /* of the connection, when it was sent */
};

enum bbr_state { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

struct sim_conn {
    struct sim_link *link;
    struct sim_conn_events events;
    int closed;
    /* The sender: */
    uint64_t end, next; /* written so far, sent so far */
    uint64_t wanted;    /* to be written, where the server is capped */
    int ends, wants_end, writing;
    uint64_t may_send;  /* the receiver takes bytes up to here */
    struct packet *packet;  /* a ring: packet |i| at i & (room - 1) */
    uint64_t room, first, packets; /* the ones in use: [first, packets) */
    uint64_t unacked, looked;  /* packets before these are acknowledged; or were looked at for loss */
    uint64_t *lost, losts, lost_room, lost_first; /* to be sent again */
    uint64_t flying_bytes, orders, recovers;      /* recovers: until this |seq| a loss is the same one */
    double window, threshold;
    uint64_t srtt_ns, least_rtt_ns, heard_ns, timer_ns, idle_ns, backoff;
    int timer, pumping;
    uint64_t send_at_ns; /* pacing */
    /* CUBIC: */
    double most, begun_ns;
    uint64_t round_seq, round_rtt_ns;
    /* BBR: */
    enum bbr_state bbr;
    uint64_t limited_to; /* what is delivered up to here was limited by what there was to send; 0: nothing is */
    uint64_t delivered, delivered_ns, round_at, rounds, rated, rtt_seen_ns, phase_ns, probe_until_ns;
    double rates[BBR_ROUNDS], full_rate, pacing;
    unsigned full_rounds, phase;
    int full;
    /* The receiver: */
    uint64_t got, read, got_packets; /* in order; read by the program */
    uint64_t receive_bytes, read_since, read_since_ns, told;
    int got_end;
};

static void pump(struct sim_conn *c);

static struct packet *packet_at(struct sim_conn *c, uint64_t i)
{
    return &c->packet[i & (c->room - 1)];
}

/* ---- the link */

uint64_t sim_link_up(struct sim_link *l)
{
    uint64_t again = sim_chance(l->loss) ? 2 * l->rtt_ns + PROBE_SPARE : 0;
    return sim_now() + l->rtt_ns / 2 + again;
}

/* Puts |len| bytes on the link. Returns when they arrive; 0: never. */
static uint64_t carry(struct sim_link *l, uint64_t len)
{
    uint64_t now = sim_now(), from = l->busy_until_ns > now ? l->busy_until_ns : now;
    if (l->rate > 0) {
        if ((double)(from - now) * l->rate + (double)len > (double)(l->queue_bytes + len)) {
            l->dropped++;
            return 0;
        }
        from += (uint64_t)((double)len / l->rate);
        l->busy_until_ns = from;
    }
    l->sent_bytes += len;
    for (uint64_t n = (len + SIM_MSS - 1) / SIM_MSS; n && l->loss > 0; n--)
        if (sim_chance(l->loss)) {
            l->lost++;
            return 0;
        }
    uint64_t at = from + (l->rtt_ns + 1) / 2 + (l->jitter_ns ? sim_below(l->jitter_ns) : 0);
    l->last_ns = at > l->last_ns ? at : l->last_ns;
    return l->last_ns;
}

/* ---- congestion control */

static double bbr_rate(const struct sim_conn *c)
{
    double most = 0;
    for (unsigned i = 0; i < BBR_ROUNDS; i++)
        most = c->rates[i] > most ? c->rates[i] : most;
    return most;
}

static double bdp(const struct sim_conn *c)
{
    return bbr_rate(c) * (double)c->least_rtt_ns;
}

static double bbr_gain(const struct sim_conn *c)
{
    return c->bbr == STARTUP ? BBR_HIGH : c->bbr == DRAIN ? 1 / BBR_HIGH
         : c->bbr == PROBE_BW ? (c->phase == 0 ? 1.25 : c->phase == 1 ? 0.75 : 1) : 1;
}

/* Bytes per ns at which packets leave; 0: at once. */
static double pace(struct sim_conn *c)
{
    if (c->link->control != SIM_BBR)
        return 0;
    double rate = bbr_gain(c) * bbr_rate(c);
    if (c->pacing <= 0)
        c->pacing = BBR_HIGH * FIRST_WINDOW / (double)(c->link->rtt_ns + SIM_MS);
    if (c->full || rate > c->pacing) /* small replies at first say nothing about the link */
        c->pacing = rate;
    return c->pacing;
}

static void bbr_acked(struct sim_conn *c, const struct packet *p)
{
    uint64_t now = sim_now();
    int round = p->delivered >= c->round_at;
    if (round) {
        c->round_at = c->delivered;
        c->rounds++;
    }
    uint64_t took = now - p->delivered_ns;
    double rate = took ? (double)(c->delivered - p->delivered) / (double)took : 0;
    if (!p->limited || rate > bbr_rate(c)) { /* a flight that was limited says nothing about the link, unless it was fast */
        double *slot = &c->rates[c->rounds % BBR_ROUNDS];
        for (; c->rated < c->rounds; c->rated++)
            c->rates[(c->rated + 1) % BBR_ROUNDS] = c->rated + 1 < c->rounds ? c->rates[c->rated % BBR_ROUNDS] : 0;
        *slot = rate > *slot ? rate : *slot;
    }
    if (round && !c->full && !p->limited) {
        if (bbr_rate(c) >= c->full_rate * 1.25) {
            c->full_rate = bbr_rate(c);
            c->full_rounds = 0;
        } else if (++c->full_rounds >= 3) {
            c->full = 1;
            c->bbr = DRAIN;
        }
    }
    if (c->bbr == DRAIN && (double)c->flying_bytes <= bdp(c)) {
        c->bbr = PROBE_BW;
        c->phase = 2 + (unsigned)sim_below(6);
        c->phase_ns = now;
    }
    if (c->bbr == PROBE_BW && (now - c->phase_ns > c->least_rtt_ns || (c->phase == 1 && (double)c->flying_bytes <= bdp(c)))) {
        c->phase = (c->phase + 1) % 8;
        c->phase_ns = now;
    }
    if (c->bbr != PROBE_RTT && c->full && now - c->rtt_seen_ns > BBR_RTT_LASTS) {
        c->bbr = PROBE_RTT;
        c->probe_until_ns = now + BBR_PROBES;
        c->least_rtt_ns = SIM_NEVER / 4;
    } else if (c->bbr == PROBE_RTT && now > c->probe_until_ns) {
        c->bbr = PROBE_BW;
        c->phase = 2;
        c->phase_ns = c->rtt_seen_ns = now;
    }
    double target = (c->full ? 2 : BBR_HIGH) * bdp(c) + 3.0 * SIM_MSS * c->link->segments;
    if (c->bbr == PROBE_RTT)
        c->window = 4.0 * SIM_MSS * (c->link->segments > 1 ? 2 : 1);
    else if (c->full)
        c->window = target;
    else
        c->window = c->window + p->len;
    c->window = c->window > FIRST_WINDOW / 2.0 ? c->window : FIRST_WINDOW / 2.0;
}

/* CUBIC's slow start ends when round trips grow (HyStart's delay). */
static void hystart(struct sim_conn *c, const struct packet *p, uint64_t rtt_ns)
{
    if (p->seq >= c->round_seq) {
        uint64_t more = c->least_rtt_ns / 8;
        more = more < 4 * SIM_MS ? 4 * SIM_MS : more > 16 * SIM_MS ? 16 * SIM_MS : more;
        if (c->round_rtt_ns != SIM_NEVER && c->round_rtt_ns > c->least_rtt_ns + more && c->window > 16.0 * SIM_MSS)
            c->threshold = c->window;
        c->round_seq = c->next;
        c->round_rtt_ns = SIM_NEVER;
    }
    if (rtt_ns < c->round_rtt_ns)
        c->round_rtt_ns = rtt_ns;
}

static double cubic_root(double x)
{
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 40; i++)
        r = (2 * r + x / (r * r)) / 3;
    return r;
}

static void loss_acked(struct sim_conn *c, const struct packet *p, uint64_t flew)
{
    if ((double)flew * 2 < c->window) /* the window is not what holds it up */
        return;
    if (c->window < c->threshold) {
        c->window += p->len;
        return;
    }
    double reno = SIM_MSS * (double)p->len / c->window;
    if (c->link->control == SIM_RENO) {
        c->window += reno;
        return;
    }
    if (c->begun_ns == 0) {
        c->begun_ns = (double)sim_now();
        if (c->most < c->window)
            c->most = c->window;
    }
    double k = cubic_root((c->most - c->window) / SIM_MSS > 0 ? c->most * 0.3 / SIM_MSS / 0.4 : 0);
    double t = ((double)sim_now() - c->begun_ns + (double)c->least_rtt_ns) / 1e9 - k;
    double target = c->most + 0.4 * t * t * t * SIM_MSS;
    double more = target > c->window ? (target - c->window) / c->window * p->len : 0;
    c->window += more > p->len / 2.0 ? p->len / 2.0 : more > reno * 0.53 ? more : reno * 0.53;
}

static void lost_some(struct sim_conn *c)
{
    if (c->link->control == SIM_BBR)
        return;
    double part = c->link->control == SIM_CUBIC ? 0.7 : 0.5;
    c->most = c->window;
    c->begun_ns = 0;
    c->window *= part;
    if (c->window < 2 * SIM_MSS)
        c->window = 2 * SIM_MSS;
    c->threshold = c->window;
}

/* ---- sending */

static void lose(struct sim_conn *c, uint64_t i)
{
    struct packet *p = packet_at(c, i);
    p->state = LOST;
    c->flying_bytes -= p->len;
    if (c->losts - c->lost_first == c->lost_room) {
        uint64_t room = c->lost_room ? 2 * c->lost_room : 64, *more = calloc(room, sizeof *more);
        if (!more)
            abort();
        for (uint64_t k = c->lost_first; k < c->losts; k++)
            more[k & (room - 1)] = c->lost[k & (c->lost_room - 1)];
        c->lost = more;
        c->lost_room = room;
    }
    c->lost[c->losts++ & (c->lost_room - 1)] = i;
    if (p->seq >= c->recovers) {
        c->recovers = c->next;
        lost_some(c);
    }
}

static void on_timer(void *ctx, uint64_t arg);

static void set_timer(struct sim_conn *c)
{
    uint64_t wait = c->backoff ? RTO_LEAST << (c->backoff > 8 ? 8 : c->backoff - 1) : 0;
    uint64_t probe = 2 * (c->srtt_ns ? c->srtt_ns : c->link->rtt_ns + SIM_S) + PROBE_SPARE;
    c->timer_ns = c->heard_ns + (wait > probe ? wait : probe);
    if (c->timer)
        return;
    c->timer = 1;
    sim_at(c->timer_ns, on_timer, c, 0);
}

/* Nothing was heard for long: all that flies is lost. */
static void on_timer(void *ctx, uint64_t arg)
{
    struct sim_conn *c = ctx;
    c->timer = 0;
    if (c->closed || c->flying_bytes == 0)
        return;
    if (sim_now() < c->timer_ns) {
        c->timer = 1;
        sim_at(c->timer_ns, on_timer, c, 0);
        return;
    }
    c->backoff++;
    c->heard_ns = sim_now();
    if (c->backoff > 1) /* the first time it is a probe */
        c->window = FIRST_WINDOW / 2.0;
    for (uint64_t i = c->unacked; i < c->packets; i++)
        if (packet_at(c, i)->state == FLYING)
            lose(c, i);
    c->looked = c->packets;
    pump(c);
    set_timer(c);
}

/* The receiver takes bytes up to |may|. */
static void on_window(void *ctx, uint64_t may)
{
    struct sim_conn *c = ctx;
    if (c->closed || may <= c->may_send)
        return;
    c->may_send = may;
    pump(c);
}

static void on_ack(void *ctx, uint64_t i)
{
    struct sim_conn *c = ctx;
    if (c->closed)
        return;
    uint64_t now = sim_now(), flew = c->flying_bytes;
    struct packet *p = packet_at(c, i);
    if (i >= c->first && p->may_send > c->may_send)
        c->may_send = p->may_send;
    if (i < c->unacked) { /* it was sent twice */
        pump(c);
        return;
    }
    c->heard_ns = now;
    c->backoff = 0;
    if (p->state != ACKED) {
        if (p->state == FLYING)
            c->flying_bytes -= p->len;
        p->state = ACKED;
        c->delivered += p->len;
        c->delivered_ns = now;
        if (c->delivered > c->limited_to)
            c->limited_to = 0;
        if (!p->again) {
            uint64_t rtt = now - p->sent_ns;
            c->srtt_ns = c->srtt_ns ? (7 * c->srtt_ns + rtt) / 8 : rtt;
            if (rtt <= c->least_rtt_ns) {
                c->least_rtt_ns = rtt;
                c->rtt_seen_ns = now;
            }
            if (c->link->control == SIM_CUBIC && c->window < c->threshold)
                hystart(c, p, rtt);
        }
        if (c->link->control == SIM_BBR)
            bbr_acked(c, p);
        else
            loss_acked(c, p, flew);
    }
    /* What was sent before it is lost: first tries by their places, others by their order. */
    if (!p->again)
        for (; c->looked < i; c->looked++)
            if (packet_at(c, c->looked)->state == FLYING && !packet_at(c, c->looked)->again)
                lose(c, c->looked);
    if (p->again || c->recovers > p->seq)
        for (uint64_t k = c->unacked; k < c->looked; k++) {
            struct packet *q = packet_at(c, k);
            if (q->state == FLYING && q->again && q->order < p->order)
                lose(c, k);
        }
    while (c->unacked < c->packets && packet_at(c, c->unacked)->state == ACKED)
        c->unacked++;
    if (c->looked < c->unacked)
        c->looked = c->unacked;
    if (c->got_packets > c->first) /* both ends have done with these */
        c->first = c->unacked < c->got_packets ? c->unacked : c->got_packets;
    set_timer(c);
    pump(c);
}

/* Packet |i| has come to the client. */
static void on_packet(void *ctx, uint64_t i)
{
    struct sim_conn *c = ctx;
    if (c->closed)
        return;
    if (i >= c->got_packets) {
        uint64_t before = c->got;
        packet_at(c, i)->here = 1;
        while (c->got_packets < c->packets && packet_at(c, c->got_packets)->here) {
            c->got += packet_at(c, c->got_packets)->len;
            c->got_packets++;
        }
        if (c->got > before)
            c->events.arrived(c->events.ctx);
    }
    if (i >= c->first)
        packet_at(c, i)->may_send = c->read + c->receive_bytes;
    sim_at(sim_now() + c->link->rtt_ns / 2, on_ack, c, i);
}

static void on_end(void *ctx, uint64_t arg)
{
    struct sim_conn *c = ctx;
    if (c->closed)
        return;
    if (c->got < c->end) { /* it comes behind what is sent again */
        sim_at(sim_now() + c->link->rtt_ns + SIM_MS, on_end, c, 0);
        return;
    }
    c->got_end = 1;
    c->events.arrived(c->events.ctx);
}

static void send_packet(struct sim_conn *c, uint64_t i)
{
    struct packet *p = packet_at(c, i);
    uint64_t now = sim_now();
    if (c->flying_bytes == 0) {
        c->heard_ns = now;
        c->delivered_ns = now; /* the time in which nothing was to be sent does not count */
    }
    p->state = FLYING;
    p->order = c->orders++;
    p->sent_ns = now;
    p->delivered = c->delivered;
    p->delivered_ns = c->delivered_ns;
    p->limited = c->limited_to != 0;
    c->flying_bytes += p->len;
    double rate = pace(c);
    if (rate > 0)
        c->send_at_ns = (c->send_at_ns > now ? c->send_at_ns : now) + (uint64_t)(p->len / rate);
    uint64_t at = carry(c->link, p->len);
    if (at)
        sim_at(at, on_packet, c, i);
    set_timer(c);
}

static void add_packet(struct sim_conn *c, uint32_t len)
{
    if (c->packets - c->first == c->room) {
        uint64_t room = c->room ? 2 * c->room : 64;
        struct packet *more = calloc(room, sizeof *more);
        if (!more)
            abort();
        for (uint64_t i = c->first; i < c->packets; i++)
            more[i & (room - 1)] = *packet_at(c, i);
        free(c->packet);
        c->packet = more;
        c->room = room;
    }
    *packet_at(c, c->packets) = (struct packet){.seq = c->next, .len = len};
    c->next += len;
    c->packets++;
}

static void on_pump(void *ctx, uint64_t arg)
{
    struct sim_conn *c = ctx;
    c->pumping = 0;
    pump(c);
}

/* Sends what may be sent now. */
static void pump(struct sim_conn *c)
{
    uint64_t most = SIM_MSS * c->link->segments;
    while (!c->closed) {
        while (c->lost_first < c->losts && packet_at(c, c->lost[c->lost_first & (c->lost_room - 1)])->state != LOST)
            c->lost_first++;
        int again = c->lost_first < c->losts;
        uint64_t len = c->end - c->next < most ? c->end - c->next : most;
        if (!again && len == 0)
            return;
        uint64_t window = c->window < (double)c->link->send_most ? (uint64_t)c->window : c->link->send_most;
        if (!again && len < most && c->flying_bytes && c->flying_bytes + most > window && !c->ends && c->wanted)
            return; /* a capped server's next write makes it whole */
        if (c->flying_bytes && c->flying_bytes + len > window)
            return;
        if (!again && c->next + len > c->may_send) {
            len = c->may_send - c->next;
            if (len < SIM_MSS && c->end - c->next > len)
                return;
        }
        if (sim_now() < c->send_at_ns) {
            if (!c->pumping)
                sim_at(c->send_at_ns, on_pump, c, 0);
            c->pumping = 1;
            return;
        }
        if (again) {
            uint64_t i = c->lost[c->lost_first++ & (c->lost_room - 1)];
            packet_at(c, i)->again = 1;
            send_packet(c, i);
            continue;
        }
        add_packet(c, (uint32_t)len);
        send_packet(c, c->packets - 1);
        if (c->ends && c->next == c->end)
            sim_at(sim_now() + c->link->rtt_ns, on_end, c, 0);
    }
}

/* Nothing will be written any more. */
static void end_now(struct sim_conn *c)
{
    c->ends = 1;
    if (c->next == c->end) /* else its end is sent behind the last byte */
        sim_at(sim_now() + c->link->rtt_ns / 2, on_end, c, 0);
}

static void on_write(void *ctx, uint64_t arg)
{
    struct sim_conn *c = ctx;
    c->writing = 0;
    if (c->closed)
        return;
    /* A server that is capped writes into a buffer that is no larger than what it may send. */
    uint64_t n = (uint64_t)(c->link->connection_rate * (double)WRITE_EVERY);
    if (c->end - c->next < 4 * n + c->link->send_most) {
        n = n < c->wanted ? n : c->wanted;
        c->end += n;
        c->wanted -= n;
    }
    if (c->wanted) {
        c->writing = 1;
        sim_at(sim_now() + WRITE_EVERY, on_write, c, 0);
    } else if (c->wants_end) {
        end_now(c);
    }
    pump(c);
}

struct sim_conn *sim_conn_new(struct sim_link *l, const struct sim_conn_events *events)
{
    struct sim_conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->link = l;
    c->events = *events;
    c->window = FIRST_WINDOW;
    c->threshold = 1e18;
    c->receive_bytes = RECEIVE_FIRST < l->receive_most ? RECEIVE_FIRST : l->receive_most;
    c->may_send = c->receive_bytes;
    c->least_rtt_ns = SIM_NEVER / 4;
    c->round_rtt_ns = SIM_NEVER;
    c->heard_ns = c->delivered_ns = c->rtt_seen_ns = c->idle_ns = sim_now();
    return c;
}

void sim_conn_write(struct sim_conn *c, uint64_t bytes, int ends)
{
    if (c->closed)
        return;
    if (c->link->control != SIM_BBR && c->next == c->end && c->flying_bytes == 0 && sim_now() - c->heard_ns > RTO_LEAST + c->srtt_ns &&
        c->window > FIRST_WINDOW)
        c->window = FIRST_WINDOW; /* it stood idle; the threshold stays */
    if (c->next == c->end && (double)c->flying_bytes < c->window)
        c->limited_to = c->delivered + c->flying_bytes ? c->delivered + c->flying_bytes : 1;
    if (c->link->connection_rate > 0) {
        c->wanted += bytes;
        c->wants_end = ends;
        if (!c->writing)
            on_write(c, 0);
        return;
    }
    c->end += bytes;
    if (ends)
        end_now(c);
    pump(c);
}

uint64_t sim_conn_readable(const struct sim_conn *c, int *ended)
{
    *ended = c->got_end;
    return c->got - c->read;
}

void sim_conn_read(struct sim_conn *c, uint64_t bytes)
{
    uint64_t now = sim_now(), span = c->srtt_ns > SIM_MS ? c->srtt_ns : SIM_MS;
    c->read += bytes;
    c->read_since += bytes;
    if (now - c->read_since_ns >= span) { /* the buffer grows as the program reads */
        uint64_t most = 2 * c->read_since + 16 * SIM_MSS;
        if (most > c->receive_bytes)
            c->receive_bytes = most < c->link->receive_most ? most : c->link->receive_most;
        c->read_since = 0;
        c->read_since_ns = now;
    }
    uint64_t may = c->read + c->receive_bytes;
    if (may - c->told >= 2 * SIM_MSS * c->link->segments || c->got == c->read) { /* packets that come tell the rest */
        c->told = may;
        if (c->next + SIM_MSS * c->link->segments > c->may_send)
            sim_at(now + c->link->rtt_ns / 2, on_window, c, may);
    }
}

void sim_conn_close(struct sim_conn *c)
{
    c->closed = 1;
}
