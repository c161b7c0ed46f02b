/* Links and TCP: see tcp.h.
 *
 * A link keeps the order of its packets. So an acknowledgement of a packet shows that what was sent before it and was
 * not acknowledged is lost, and in-order arrival can be told from the sender's own list: both ends are here.
 *
 * Loss is found as Linux does it. Of packets in the order of their last sending, those before the latest one that was
 * acknowledged are lost (RACK, RFC 8985 section 6.2; its reordering window is 0 here, as nothing overtakes). Where
 * nothing comes behind what is lost, the last segment is sent again after two round trips (tail loss probe, RFC 8985
 * section 7), and everything after a time-out (RFC 6298). The two times are those of Linux (tcp_schedule_loss_probe,
 * TCP_RTO_MIN): a probe of a single segment waits for 200 ms more, as its acknowledgement may be delayed, and no
 * time-out is shorter than a round trip and 200 ms.
 *
 * BBR is Linux's first version (tcp_bbr.c, tcp_rate.c, and the pacing of tcp_output.c), and the receiver's window grows
 * as Linux's does in 6.18 (tcp_grow_window, tcp_rcvbuf_grow): growth.c holds both to it. Left out of BBR: what a link
 * that aggregates acknowledgements adds to the window, and policers.
 *
 * Not modelled: delayed acknowledgements, loss of acknowledgements, reordering, ECN, the work of either machine. */
#include "tcp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "baton.h"

#define FIRST_WINDOW (10 * SIM_MSS)
#define RECEIVE_FIRST 65536u
#define RTO_LEAST (200 * SIM_MS)
#define RTO_FIRST SIM_S         /* before a round trip was measured */
#define SYN_BYTES 74u           /* with Ethernet's header, as Linux sends it */
#define BACKOFFS_MOST 9
#define PROBE_SPARE (2 * SIM_MS)
#define WRITE_EVERY (5 * SIM_MS) /* a capped server's writes */
#define BBR_ROUNDS 10
#define BBR_HIGH 2.885
#define BBR_MARGIN 0.99     /* what is paced is a little less than what was measured */
#define BBR_UNPACED 10      /* a connection's first segments */
#define BBR_SINGLE 0.00015  /* bytes per ns below which a packet is one segment */
#define GSO_MOST 65536u     /* bytes of a packet as the card takes it */
#define GOAL_MOST 127u
#define BBR_RTT_LASTS (10 * SIM_S)
#define BBR_PROBES (200 * SIM_MS)

enum { FLYING, LOST, ACKED };

struct packet {
    uint64_t seq;
    uint32_t len;
    uint8_t state, here, again, limited; /* here: it has arrived; again: it was sent twice; limited: by what there was to send */
    uint8_t divided; /* what was sent first had the next packet at its end */
    uint64_t order, sent_ns;
    uint64_t may_send; /* what the receiver takes bytes up to, as its acknowledgement says */
    uint64_t delivered, delivered_ns, first_ns; /* of the connection, when it was sent */
};

/* Packets, first in, first out. */
struct line {
    uint64_t *at, room, first, end;
};

enum bbr_state { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

struct sim_conn {
    struct sim_link *link;
    struct sim_conn_events events;
    int closed;
    uint64_t born_ns;
    /* The sender: */
    uint64_t end, next; /* written so far, sent so far */
    uint64_t wanted;    /* to be written, where the server is capped */
    int ends, wants_end, writing;
    uint64_t may_send;  /* the receiver takes bytes up to here */
    struct packet *packet;  /* a ring: packet |i| at i & (room - 1) */
    uint64_t room, first, packets; /* the ones in use: [first, packets) */
    uint64_t unacked;          /* packets before it are acknowledged */
    struct line lost;          /* to be sent again */
    struct line sent;          /* in the order of sending: |order| is the place; not looked at for loss yet */
    uint64_t flying_bytes, recovers, probed; /* recovers: until this |seq| a loss is the same one; probed: and there is
                                              * one probe */
    double window, threshold;
    uint64_t srtt_ns, rttvar_ns, least_rtt_ns;
    uint64_t heard_ns, new_ns; /* the last acknowledgement, or when the flight began; when something new was sent */
    uint64_t timer_ns, idle_ns, backoff; /* timer_ns: the timer's next event; 0: there is none */
    int pumping, doomed; /* doomed: the next segment is lost */
    uint64_t send_at_ns, segments; /* pacing; sent so far */
    /* CUBIC: */
    double most, begun_ns;
    uint64_t round_seq, round_rtt_ns;
    /* BBR: */
    enum bbr_state bbr;
    uint64_t limited_to; /* what is delivered up to here was limited by what there was to send; 0: nothing is */
    uint64_t first_ns; /* when what was acknowledged last was sent */
    uint64_t delivered, delivered_ns, round_at, rounds, rated, rtt_seen_ns, phase_ns, probe_until_ns;
    double rates[BBR_ROUNDS], full_rate, pacing, prior; /* prior: the window before it was cut */
    uint64_t conserves_to; /* the round trip in which |conserves| ends when this was delivered */
    int repairs, conserves; /* losses are not repaired yet; as much is sent as is acknowledged */
    unsigned full_rounds, phase;
    int full;
    /* The receiver: */
    uint64_t got, read, got_packets; /* in order; read by the program */
    uint64_t receive_bytes, clamp; /* what it lets be under way, and what it has room for */
    uint64_t copied, read_since, read_since_ns, told; /* copied: the most that was read in a round trip */
    int got_end;
};

static void pump(struct sim_conn *c);

static struct packet *packet_at(struct sim_conn *c, uint64_t i)
{
    return &c->packet[i & (c->room - 1)];
}

/* ---- the link */

/* Puts |i| at the end of |l|. */
static void line_up(struct line *l, uint64_t i)
{
    if (l->end - l->first == l->room) {
        uint64_t room = l->room ? 2 * l->room : 64, *more = calloc(room, sizeof *more);
        if (!more)
            abort();
        for (uint64_t k = l->first; k < l->end; k++)
            more[k & (room - 1)] = l->at[k & (l->room - 1)];
        free(l->at);
        l->at = more;
        l->room = room;
    }
    l->at[l->end++ & (l->room - 1)] = i;
}

static uint64_t line_first(const struct line *l)
{
    return l->at[l->first & (l->room - 1)];
}

/* What is lost is sent again after |again_ns|. */
static uint64_t up(struct sim_link *l, uint64_t again_ns)
{
    return sim_now() + l->rtt_ns / 2 + (sim_chance(l->loss) ? again_ns : 0);
}

uint64_t sim_link_up(struct sim_link *l)
{
    return up(l, l->rtt_ns + RTO_LEAST);
}

/* How many of |len| bytes come before the first segment that is lost. */
static uint64_t spared(const struct sim_link *l, uint64_t len)
{
    for (uint64_t n = 0; n < len && l->loss > 0; n += SIM_MSS)
        if (sim_chance(l->loss))
            return n;
    return len;
}

/* Puts |len| bytes on the link, which loses them if |loses|. Returns when they arrive; 0: never. */
static uint64_t carry(struct sim_link *l, uint64_t len, int loses)
{
    uint64_t now = sim_now(), from = l->busy_until_ns > now ? l->busy_until_ns : now, n = l->carried++;
    if (l->rate > 0) {
        if ((double)(from - now) * l->rate + (double)len > (double)(l->queue_bytes + len)) {
            l->dropped++;
            return 0;
        }
        from += (uint64_t)((double)len / l->rate);
        l->busy_until_ns = from;
    }
    l->sent_bytes += len;
    if (loses || (n < 64 && (l->loses >> n & 1))) {
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

/* Small replies at first say nothing about the link, so the rate does not fall before the link was full. As Linux's
 * bbr_set_pacing_rate. */
static void bbr_pace(struct sim_conn *c, double gain)
{
    double rate = BBR_MARGIN * gain * bbr_rate(c);
    if (c->full || rate > c->pacing)
        c->pacing = rate;
}

/* The segments of what is paced in a millisecond and |more| bytes: at least two, but on the slowest links. */
static uint64_t bbr_segments(const struct sim_conn *c, uint64_t more)
{
    uint64_t n = (((uint64_t)(c->pacing * 1e9) >> 10) + more) / SIM_MSS, least = c->pacing < BBR_SINGLE ? 1 : 2;
    return n > least ? n : least;
}

/* What each end holds back, in segments. As bbr_tso_segs_goal. */
static uint64_t bbr_goal(const struct sim_conn *c)
{
    uint64_t n = bbr_segments(c, 0);
    return n < GOAL_MOST ? n : GOAL_MOST;
}

/* The bytes of a packet: with pacing a millisecond's, and more for a client that is near: 64 KiB, half of that for each
 * half of a millisecond of the round trip. As tcp_tso_autosize. Without pacing packets are as large as they may be. */
static uint64_t packet_most(const struct sim_conn *c)
{
    uint64_t n = c->link->segments;
    if (c->link->control == SIM_BBR) {
        uint64_t far = c->least_rtt_ns / 512000, most = bbr_segments(c, far < 32 ? GSO_MOST >> far : 0);
        n = n < most ? n : most;
    }
    return n * SIM_MSS;
}

/* What may be under way at |gain|, with what the two machines hold back. As bbr_inflight. */
static double bbr_inflight(const struct sim_conn *c, double gain)
{
    uint64_t held = 3 * bbr_goal(c) + (c->bbr == PROBE_BW && c->phase == 0 ? 2 : 0);
    return gain * bdp(c) + (double)(held * SIM_MSS);
}

/* Of |flying| bytes, what is on the link when the next packet leaves. As bbr_packets_in_net_at_edt. */
static double bbr_in_net(const struct sim_conn *c, uint64_t flying)
{
    double n = (double)flying + (bbr_gain(c) > 1 ? (double)(bbr_goal(c) * SIM_MSS) : 0);
    return c->send_at_ns > sim_now() ? n - bbr_rate(c) * (double)(c->send_at_ns - sim_now()) : n;
}

/* A loss takes no more than itself from the window. For a round trip after the first one as much is sent as is
 * acknowledged; when the losses are repaired, the window is what it was. As Linux's bbr_set_cwnd. */
static void bbr_window(struct sim_conn *c, const struct packet *p)
{
    double target = bbr_inflight(c, c->bbr == PROBE_RTT ? 1 : c->bbr == PROBE_BW ? 2 : BBR_HIGH);
    double flies = (double)c->flying_bytes + p->len, grown = c->window + p->len;
    if (p->delivered >= c->conserves_to)
        c->conserves = 0;
    if (c->conserves)
        c->window = c->window > flies ? c->window : flies;
    else if (c->full)
        c->window = grown < target ? grown : target;
    else if (c->window < target || c->delivered < FIRST_WINDOW)
        c->window = grown;
    if (c->bbr == PROBE_RTT)
        c->window = 4.0 * SIM_MSS * (c->link->segments > 1 ? 2 : 1);
    c->window = c->window > FIRST_WINDOW / 2.0 ? c->window : FIRST_WINDOW / 2.0;
}

/* The delivery rate that |p|'s acknowledgement shows: what was delivered since it was sent, by the time in which that
 * was sent or the one in which it was acknowledged, whichever is longer. As tcp_rate_gen and bbr_update_bw. Returns 1
 * when a round trip is over. */
static int bbr_sample(struct sim_conn *c, const struct packet *p)
{
    uint64_t sent = p->sent_ns - p->first_ns, acked = sim_now() - p->delivered_ns, took = sent > acked ? sent : acked;
    c->first_ns = p->sent_ns;
    if (took == 0 || took < c->least_rtt_ns) /* the first copy of what was sent twice */
        return 0;
    int round = p->delivered >= c->round_at;
    if (round) {
        c->round_at = c->delivered;
        c->rounds++;
    }
    double rate = (double)(c->delivered - p->delivered) / (double)took;
    if (!p->limited || rate >= bbr_rate(c)) { /* a flight that was limited says nothing of the link, unless it was fast */
        double *slot = &c->rates[c->rounds % BBR_ROUNDS];
        for (; c->rated < c->rounds; c->rated++)
            c->rates[(c->rated + 1) % BBR_ROUNDS] = c->rated + 1 < c->rounds ? c->rates[c->rated % BBR_ROUNDS] : 0;
        *slot = rate > *slot ? rate : *slot;
    }
    return round;
}

/* As bbr_is_next_cycle_phase: probing lasts until more is under way, so for ever where a window bounds it. */
static int bbr_phase_ends(const struct sim_conn *c, uint64_t flew, int lost)
{
    int is_long = sim_now() - c->phase_ns > c->least_rtt_ns;
    if (c->phase == 0)
        return is_long && (lost || bbr_in_net(c, flew) >= bbr_inflight(c, bbr_gain(c)));
    return is_long || (c->phase == 1 && bbr_in_net(c, flew) <= bbr_inflight(c, 1));
}

/* |flew| bytes were under way before this acknowledgement; |lost|: it has shown that some are lost. */
static void bbr_acked(struct sim_conn *c, const struct packet *p, uint64_t flew, int lost)
{
    uint64_t now = sim_now();
    int round = bbr_sample(c, p);
    if (c->bbr == PROBE_BW && bbr_phase_ends(c, flew, lost)) {
        c->phase = (c->phase + 1) % 8;
        c->phase_ns = now;
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
    if (c->bbr == DRAIN && bbr_in_net(c, c->flying_bytes) <= bbr_inflight(c, 1)) {
        c->bbr = PROBE_BW;
        c->phase = (2 + (unsigned)sim_below(7)) % 8; /* any but the one that drains */
        c->phase_ns = now;
    }
    if (c->bbr != PROBE_RTT && c->full && now - c->rtt_seen_ns > BBR_RTT_LASTS) {
        c->bbr = PROBE_RTT;
        c->probe_until_ns = now + BBR_PROBES;
        c->prior = c->repairs && c->prior > c->window ? c->prior : c->window;
        c->least_rtt_ns = SIM_NEVER / 4;
    } else if (c->bbr == PROBE_RTT && now > c->probe_until_ns) {
        c->bbr = PROBE_BW;
        c->window = c->prior;
        c->phase = 2;
        c->phase_ns = c->rtt_seen_ns = now;
    }
    bbr_pace(c, bbr_gain(c));
    bbr_window(c, p);
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
    if (c->link->control == SIM_BBR) {
        c->prior = c->bbr == PROBE_RTT && c->prior > c->window ? c->prior : c->window;
        c->window = (double)c->flying_bytes;
        c->repairs = c->conserves = 1;
        c->conserves_to = c->delivered;
        return;
    }
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
    line_up(&c->lost, i);
    if (p->seq >= c->recovers) {
        c->recovers = c->next;
        lost_some(c);
    } else if (c->link->control == SIM_BBR) {
        c->window -= p->len;
    }
}

static int is_lost(struct sim_conn *c, uint64_t i)
{
    return i >= c->unacked && packet_at(c, i)->state == LOST;
}

/* Up to here all is acknowledged. */
static uint64_t acked_to(struct sim_conn *c)
{
    return c->unacked < c->packets ? packet_at(c, c->unacked)->seq : c->next;
}

static void send_packet(struct sim_conn *c, uint64_t i, int loses);
static void send_again(struct sim_conn *c, uint64_t i);
static void add_packet(struct sim_conn *c, uint32_t len);

/* 1 where a probe is due before the time-out: once, and not while losses are being repaired. */
static int may_probe(struct sim_conn *c)
{
    uint64_t acked = acked_to(c);
    return c->backoff == 0 && acked >= c->recovers && acked >= c->probed;
}

static uint64_t timer_due(struct sim_conn *c)
{
    uint64_t wait = c->srtt_ns + (4 * c->rttvar_ns > RTO_LEAST ? 4 * c->rttvar_ns : RTO_LEAST);
    uint64_t due = c->heard_ns + (wait << c->backoff);
    if (!may_probe(c))
        return due;
    uint64_t from = c->new_ns > c->heard_ns ? c->new_ns : c->heard_ns;
    uint64_t probe = from + 2 * c->srtt_ns + (c->next - acked_to(c) <= SIM_MSS ? RTO_LEAST : PROBE_SPARE);
    return probe < due ? probe : due;
}

/* Sends the last segment once more. */
static void probe(struct sim_conn *c)
{
    struct packet *p = packet_at(c, c->packets - 1);
    c->probed = c->next;
    if (p->len > SIM_MSS) {
        p->len -= SIM_MSS;
        p->divided = 1;
        c->next -= SIM_MSS;
        int here = p->here, counted = c->got_packets == c->packets; /* the client has it, and its word is on its way */
        add_packet(c, SIM_MSS);
        p = packet_at(c, c->packets - 1);
        p->state = FLYING;
        p->here = (uint8_t)here;
        c->got_packets += (uint64_t)counted;
    }
    c->flying_bytes -= p->len;
    c->heard_ns = sim_now();
    send_again(c, c->packets - 1);
}

/* Nothing was heard for long: all that flies is lost. */
static void time_out(struct sim_conn *c)
{
    c->backoff += c->backoff < BACKOFFS_MOST;
    c->heard_ns = sim_now();
    for (uint64_t i = c->unacked; i < c->packets; i++)
        if (packet_at(c, i)->state == FLYING)
            lose(c, i);
    c->sent.first = c->sent.end;
    c->recovers = c->next;
    c->window = FIRST_WINDOW / 2.0;
    c->conserves = 0;
    pump(c);
}

static void set_timer(struct sim_conn *c);

static void on_timer(void *ctx, uint64_t at)
{
    struct sim_conn *c = ctx;
    if (c->closed || at != c->timer_ns) /* another event came before it */
        return;
    c->timer_ns = 0;
    if (c->flying_bytes == 0)
        return;
    if (sim_now() >= timer_due(c)) {
        if (may_probe(c))
            probe(c);
        else
            time_out(c);
    }
    set_timer(c);
}

static void set_timer(struct sim_conn *c)
{
    uint64_t due = timer_due(c);
    if (c->flying_bytes == 0 || (c->timer_ns && c->timer_ns <= due)) /* it looks again then */
        return;
    c->timer_ns = due;
    sim_at(due, on_timer, c, due);
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
    uint64_t now = sim_now(), flew = c->flying_bytes, lost = c->lost.end;
    struct packet *p = packet_at(c, i);
    if (i >= c->first && p->may_send > c->may_send)
        c->may_send = p->may_send;
    if (i < c->unacked) { /* it was sent twice */
        pump(c);
        return;
    }
    c->heard_ns = now;
    c->backoff = 0;
    int is_new = p->state != ACKED;
    if (is_new) {
        if (p->state == FLYING)
            c->flying_bytes -= p->len;
        p->state = ACKED;
        c->delivered += p->len;
        c->delivered_ns = now;
        if (c->delivered > c->limited_to)
            c->limited_to = 0;
        if (!p->again) {
            uint64_t rtt = now - p->sent_ns, off = rtt > c->srtt_ns ? rtt - c->srtt_ns : c->srtt_ns - rtt;
            c->rttvar_ns = (3 * c->rttvar_ns + off) / 4;
            c->srtt_ns = (7 * c->srtt_ns + rtt) / 8;
            if (rtt <= c->least_rtt_ns) {
                c->least_rtt_ns = rtt;
                c->rtt_seen_ns = now;
            }
            if (c->link->control == SIM_CUBIC && c->window < c->threshold)
                hystart(c, p, rtt);
        }
    }
    /* What was sent before it is lost. Of a packet that was sent again, soon enough for the first to be the one that
     * came, nobody knows when it was sent. */
    if (is_new && (!p->again || now - p->sent_ns >= c->least_rtt_ns))
        for (; c->sent.first < p->order; c->sent.first++) {
            uint64_t k = line_first(&c->sent);
            if (k >= c->unacked && packet_at(c, k)->state == FLYING && packet_at(c, k)->order == c->sent.first)
                lose(c, k);
        }
    while (c->unacked < c->packets && packet_at(c, c->unacked)->state == ACKED)
        c->unacked++;
    if (c->repairs && acked_to(c) >= c->recovers) {
        c->repairs = c->conserves = 0;
        c->window = c->window > c->prior ? c->window : c->prior;
    }
    if (is_new && c->link->control == SIM_BBR)
        bbr_acked(c, p, flew, c->lost.end > lost);
    else if (is_new)
        loss_acked(c, p, flew);
    if (c->got_packets > c->first) /* both ends have done with these */
        c->first = c->unacked < c->got_packets ? c->unacked : c->got_packets;
    pump(c);
    set_timer(c);
}

/* What the receiver takes bytes up to. */
static uint64_t may_come(const struct sim_conn *c)
{
    uint64_t room = c->read + c->clamp, window = c->got + c->receive_bytes;
    return room < window ? room : window;
}

/* |len| bytes came in order: twice as much more may be under way, within the room. As tcp_grow_window. */
static void window_grows(struct sim_conn *c, uint64_t len)
{
    uint64_t more = 2 * (len > SIM_MSS ? len : SIM_MSS);
    c->receive_bytes += more < c->clamp - c->receive_bytes ? more : c->clamp - c->receive_bytes;
}

/* The room grows with what was read in a round trip, |read|: to twice that, and to more by as much as it has grown, as
 * the sender may double its rate. As tcp_rcvbuf_grow. */
static void room_grows(struct sim_conn *c, uint64_t read)
{
    if (read <= c->copied)
        return;
    uint64_t room = 2 * read + 4 * read * (read - c->copied) / c->copied;
    c->copied = read;
    room = room < c->link->receive_most ? room : c->link->receive_most;
    c->clamp = c->clamp > room ? c->clamp : room;
}

/* 1 when nothing that is sent over |c| arrives any more. */
static int is_dead(const struct sim_conn *c)
{
    uint64_t dies = c->link->dies_ns;
    return dies && c->born_ns < dies && sim_now() >= dies;
}

/* Packet |i| has come to the client. */
static void on_packet(void *ctx, uint64_t i)
{
    struct sim_conn *c = ctx;
    if (c->closed || is_dead(c))
        return;
    if (i >= c->got_packets) {
        uint64_t before = c->got;
        packet_at(c, i)->here = 1;
        if (packet_at(c, i)->divided)
            packet_at(c, i + 1)->here = 1;
        while (c->got_packets < c->packets && packet_at(c, c->got_packets)->here) {
            c->got += packet_at(c, c->got_packets)->len;
            c->got_packets++;
        }
        assert(c->got <= c->end);
        if (c->got > before) {
            window_grows(c, c->got - before);
            c->events.arrived(c->events.ctx);
        }
    }
    if (i >= c->first)
        packet_at(c, i)->may_send = may_come(c);
    sim_at(sim_now() + c->link->rtt_ns / 2, on_ack, c, i);
    if (i >= c->first && packet_at(c, i)->divided) {
        packet_at(c, i)->divided = 0;
        on_packet(c, i + 1);
    }
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

/* When the next packet may leave after |len| bytes now. One that left late gives the next one back up to half of its
 * time, and a connection's first segments are not paced. As tcp_update_skb_after_send. */
static void pace(struct sim_conn *c, uint64_t len)
{
    uint64_t now = sim_now(), late = 0, takes = (uint64_t)((double)len / c->pacing);
    if (now > c->send_at_ns) { /* else it is a probe, which does not wait */
        late = now - c->send_at_ns;
        c->send_at_ns = now;
    }
    c->segments += (len + SIM_MSS - 1) / SIM_MSS;
    if (c->segments >= BBR_UNPACED)
        c->send_at_ns += takes - (late < takes / 2 ? late : takes / 2);
}

static void send_packet(struct sim_conn *c, uint64_t i, int loses)
{
    struct packet *p = packet_at(c, i);
    uint64_t now = sim_now();
    if (c->flying_bytes == 0)
        c->heard_ns = now;
    if (c->unacked + 1 == c->packets && !p->again) { /* the time in which nothing was to be sent does not count */
        c->first_ns = c->delivered_ns = now;
        if (c->link->control == SIM_BBR && c->limited_to && c->bbr == PROBE_BW) /* as bbr_cwnd_event */
            bbr_pace(c, 1);
    }
    p->state = FLYING;
    p->order = c->sent.end;
    line_up(&c->sent, i);
    if (!p->again)
        c->new_ns = now;
    p->sent_ns = now;
    p->delivered = c->delivered;
    p->delivered_ns = c->delivered_ns;
    p->first_ns = c->first_ns;
    p->limited = c->limited_to != 0;
    c->flying_bytes += p->len;
    if (c->link->control == SIM_BBR)
        pace(c, p->len);
    uint64_t at = carry(c->link, p->len, loses);
    if (at)
        sim_at(at, on_packet, c, i);
    set_timer(c);
}

static void send_again(struct sim_conn *c, uint64_t i)
{
    packet_at(c, i)->again = 1;
    send_packet(c, i, spared(c->link, packet_at(c, i)->len) < packet_at(c, i)->len);
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
    while (!c->closed) {
        uint64_t most = packet_most(c);
        while (c->lost.first < c->lost.end && !is_lost(c, line_first(&c->lost)))
            c->lost.first++;
        int again = c->lost.first < c->lost.end;
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
            uint64_t i = line_first(&c->lost);
            c->lost.first++;
            send_again(c, i);
            continue;
        }
        /* What is handed over at once is divided into the runs that survive, and the segments that do not. */
        uint64_t run = c->doomed ? 0 : spared(c->link, len);
        c->doomed = run > 0 && run < len;
        if (run < len)
            len = run ? run : len < SIM_MSS ? len : SIM_MSS;
        add_packet(c, (uint32_t)len);
        send_packet(c, c->packets - 1, run == 0);
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

/* The handshake took |rtt_ns|. */
static void establish(struct sim_conn *c, uint64_t rtt_ns)
{
    struct sim_link *l = c->link;
    c->window = FIRST_WINDOW;
    c->threshold = 1e18;
    c->receive_bytes = RECEIVE_FIRST < l->receive_most ? RECEIVE_FIRST : l->receive_most;
    c->may_send = c->receive_bytes;
    c->round_rtt_ns = SIM_NEVER;
    c->srtt_ns = c->least_rtt_ns = rtt_ns;
    c->rttvar_ns = rtt_ns / 2;
    c->pacing = BBR_MARGIN * BBR_HIGH * FIRST_WINDOW / (double)(rtt_ns ? rtt_ns : 1);
    c->clamp = c->receive_bytes;
    c->copied = FIRST_WINDOW;
    c->heard_ns = c->delivered_ns = c->rtt_seen_ns = c->idle_ns = sim_now();
}

static struct sim_conn *conn_of(struct sim_link *l, const struct sim_conn_events *events)
{
    struct sim_conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->link = l;
    c->events = *events;
    c->born_ns = sim_now();
    return c;
}

struct sim_conn *sim_conn_new(struct sim_link *l, const struct sim_conn_events *events)
{
    struct sim_conn *c = conn_of(l, events);
    establish(c, l->rtt_ns);
    return c;
}

/* The answer that the server sent at |sent_ns| is at the client. */
static void on_opened(void *ctx, uint64_t sent_ns)
{
    struct sim_conn *c = ctx;
    if (c->closed || is_dead(c))
        return;
    establish(c, sim_now() - sent_ns + c->link->rtt_ns / 2);
    c->events.arrived(c->events.ctx);
}

/* What opens a connection is at the server, which answers until that comes: |waits_ns| behind this answer again. */
static void on_opens(void *ctx, uint64_t waits_ns)
{
    struct sim_conn *c = ctx;
    uint64_t at = c->closed ? 0 : carry(c->link, SYN_BYTES, sim_chance(c->link->loss));
    if (at)
        sim_at(at, on_opened, c, sim_now());
    else if (!c->closed)
        sim_at(sim_now() + waits_ns, on_opens, c, 2 * waits_ns);
}

struct sim_conn *sim_conn_open(struct sim_link *l, const struct sim_conn_events *events)
{
    struct sim_conn *c = conn_of(l, events);
    sim_at(up(l, RTO_FIRST), on_opens, c, RTO_FIRST);
    return c;
}

/* It stood idle: half of the window is left of each time-out. As Linux's tcp_cwnd_restart. */
static void restart(struct sim_conn *c)
{
    uint64_t timeout = RTO_LEAST + c->srtt_ns, idle = sim_now() - c->heard_ns;
    double least = c->window < FIRST_WINDOW ? c->window : FIRST_WINDOW;
    if (idle > timeout && c->threshold < c->window * 3 / 4)
        c->threshold = c->window * 3 / 4;
    for (; idle > timeout && c->window > least; idle -= timeout)
        c->window /= 2;
    c->window = c->window > least ? c->window : least;
}

void sim_conn_write(struct sim_conn *c, uint64_t bytes, int ends)
{
    if (c->closed)
        return;
    if (c->link->control != SIM_BBR && c->next == c->end && c->flying_bytes == 0)
        restart(c);
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
        uint64_t waits = c->got - c->read;
        room_grows(c, c->read_since > waits ? c->read_since - waits : 0);
        c->read_since = 0;
        c->read_since_ns = now;
    }
    uint64_t may = may_come(c);
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
