/* How many connections are worth having: see control.h.
 *
 * Streams. More connections carry more wherever each is slow by itself: windows of an untuned system, slow start, loss,
 * a limit for each connection. Where one would fill the link, all of them take about its time, at a price: at 1, 5 and
 * 10 ms and 1 Gbit/s, 16 curls need 1.01, 1.01 and 1.03 of the time of one, and three times its processor time. Which
 * of the two it is, only a trial would tell, and trials cost more: to change the number, one stream has to end and
 * another to begin, with idle round trips and connections in slow start. So a stream has all that it may have:
 * docs/decisions.md. */
#include "control.h"

#include "base/options.h"

#define CONNECTIONS_MOST 64u /* as the option has it */
/* One for what is fetched ahead and one for demand, however many share them. */
#define SHARE_LEAST 2u
/* From this round trip on, files side by side have a stream each. */
#define FAR_NS 10e6

unsigned xh_control_allowed(unsigned option, unsigned files)
{
    if (option)
        return option;
    if (files <= 1)
        return XH_USUAL_CONNECTIONS;
    unsigned streams = XH_USUAL_CONNECTIONS - 1, n = (streams + files - 1) / files * files + 1; /* equally many each */
    return n < CONNECTIONS_MOST ? n : CONNECTIONS_MOST;
}

unsigned xh_control_share(unsigned all, unsigned processes)
{
    unsigned share = processes > 1 ? (all + processes - 1) / processes : all;
    return share > SHARE_LEAST ? share : all < SHARE_LEAST ? all : SHARE_LEAST;
}

int xh_control_is_far(double rtt_ns)
{
    return rtt_ns >= FAR_NS;
}

unsigned xh_control_streams(unsigned most)
{
    return most > 1 ? most - 1 : 0;
}

int xh_control_may_stream(const struct xh_load *load, unsigned most, int last)
{
    unsigned may = last ? most : xh_control_streams(most);
    return load->active == 0 || load->streams + load->guesses < may;
}

uint64_t xh_control_stands_for(double opening_ns, unsigned streams, unsigned most)
{
    return streams ? (uint64_t)(opening_ns * most / 2 / streams) : UINT64_MAX;
}

/* ---- requests that are no streams */

/* How many connections large requests begin with: so many windows of one connection, as untuned
 * systems grant it, make up what a fast link holds. One more costs the processors at both ends
 * (their packets are smaller, their bytes come out of order), and so still more must pay. */
#define WINDOW_BYTES 8e6
#define LEAST_CONNECTIONS 2
#define MOST_AT_FIRST 16
/* Small requests wait for round trips rather than for bytes: for them so many are tried anyway. */
#define SMALL_CONNECTIONS 8
#define SMALL_BYTES (256u << 10)
/* Slow start doubles each round trip: a connection that is less than one behind is as good. */
#define GROWN_TIMES 2
/* One that is three behind takes longer for what it brings than the others take until they are free. */
#define YOUNG_TIMES 8
#define CROWD_LEAST 2u
#define STREAM_BYTES (1u << 20) /* what is soon wanted of a stream that a reader waits for */
#define TRIAL_NS 500e6
#define TRIAL_ROUND_TRIPS 16
#define GAIN_LEAST 1.15
#define SETTLED_NS 60000000000u

static unsigned less_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned at_least(double n, unsigned least)
{
    return n > least ? n < CONNECTIONS_MOST ? (unsigned)n : CONNECTIONS_MOST : least;
}

static unsigned others(const struct xh_load *load)
{
    return load->active - load->streams;
}

unsigned xh_control_paying(const struct xh_trial *t)
{
    return t->paying ? t->paying : SMALL_CONNECTIONS;
}

void xh_control_begin(struct xh_trial *t, double rtt_ns)
{
    double n = rtt_ns * XH_LINK_FAST_BYTES_PER_NS / WINDOW_BYTES + 0.9;
    if (t->paying == 0 && rtt_ns > 0)
        t->paying = n < LEAST_CONNECTIONS ? LEAST_CONNECTIONS : n > MOST_AT_FIRST ? MOST_AT_FIRST : (unsigned)n;
}

int xh_control_weigh(struct xh_trial *t, const struct xh_link *l, const struct xh_load *load, unsigned share,
                     uint64_t now)
{
    unsigned most = less_of(share, xh_control_paying(t) + 1), busy = others(load) + 1;
    if (load->queued_requests == 0 || busy < most || busy > most + 1) {
        t->trial_ns = 0; /* the work was not enough to tell, or others than these are at it */
        return 0;
    }
    if (t->trial_ns == 0) {
        t->trial_ns = now;
        t->trial_bytes = load->arrived;
        return 0;
    }
    double took = (double)(now - t->trial_ns);
    if (took < TRIAL_NS || took < TRIAL_ROUND_TRIPS * l->rtt_ns)
        return 0;
    double rate = (double)(load->arrived - t->trial_bytes) / took;
    t->trial_ns = 0;
    if (t->fewer_rate > 0 && rate < GAIN_LEAST * t->fewer_rate) {
        t->paying = (t->paying + 1) / 2;
        t->settled_ns = now;
        t->fewer_rate = 0;
    } else if (t->paying < share && (t->settled_ns == 0 || now - t->settled_ns > SETTLED_NS)) {
        t->fewer_rate = rate;
        t->paying *= 2;
    }
    return 1;
}

/* How many connections a link that is as fast as this one has room for: with more, each has less than any has in its
 * first round trip, and they do nothing but make each other lose packets. */
static unsigned held(const struct xh_link *l)
{
    double rate = xh_link_known_rate(l);
    return rate > 0 ? at_least(rate * l->rtt_ns / XH_LINK_FIRST_BYTES, CROWD_LEAST) : CONNECTIONS_MOST;
}

unsigned xh_control_most(const struct xh_trial *t, const struct xh_link *l, const struct xh_load *load,
                         const struct xh_asked *a, unsigned share)
{
    unsigned n = xh_control_paying(t) + 1, many = SMALL_CONNECTIONS < a->files ? a->files : SMALL_CONNECTIONS;
    if (a->bytes <= SMALL_BYTES && n < many)
        n = many;
    n = less_of(n, held(l));
    if (n < load->sockets && xh_link_is_young(load->arrived, load->sockets))
        n = load->sockets; /* they are there, and find their speed sooner together */
    return less_of(share, n);
}

unsigned xh_control_unknown(unsigned share)
{
    return less_of(share, SMALL_CONNECTIONS);
}

unsigned xh_control_guesses(unsigned most)
{
    return most > 1 ? most - 1 : 1;
}

int xh_control_has_to_wait(const struct xh_load *load, const struct xh_asked *a, unsigned most, unsigned share)
{
    return !a->stream && others(load) > 0 && (others(load) >= most || load->active >= share);
}

uint64_t xh_control_patience_left(const struct xh_link *l, uint64_t waited_ns)
{
    uint64_t most = (uint64_t)xh_link_opening_ns(l);
    return waited_ns < most ? most - waited_ns : 0;
}

int xh_control_may_run_out(const struct xh_link *l, uint64_t bytes)
{
    return l->rtt_ns > 0 && (double)bytes <= xh_link_window(l);
}

uint64_t xh_control_opens_with(const struct xh_link *l, const struct xh_first *f)
{
    int at_once = l && xh_control_may_run_out(l, f->whole);
    return at_once && f->whole > f->usual && f->whole <= f->room && f->proves && !f->hurried ? f->whole : f->usual;
}

/* How many round trips |waiting| requests will wait, in all, for |active| connections, if they are small. */
static double foreseen(uint64_t waiting, unsigned active)
{
    uint64_t rounds = waiting / active, rest = waiting % active;
    uint64_t all = rounds * (rounds + 1) / 2 * active + rest * (rounds + 1);
    return (double)all;
}

int xh_control_is_worth_opening(const struct xh_link *l, const struct xh_load *load, const struct xh_asked *a)
{
    /* A stream's connection is nothing to wait for, as it may stand still; but a new one takes several round trips for
     * a file of more than SMALL_BYTES that comes with its opening. */
    unsigned active = a->question && a->bytes > SMALL_BYTES ? load->active : others(load);
    /* While nothing has come back yet, the connections under way are still being opened
     * themselves: a further one is ready as soon as they are. */
    if (active == 0 || l->rtt_ns <= 0)
        return 1;
    if (a->waited_ns && xh_control_patience_left(l, a->waited_ns) == 0)
        return 1;
    double rtt = l->rtt_ns, opening = xh_link_opening_ns(l), window = xh_link_window(l);
    double rate = l->connection_rate > 0 ? l->connection_rate : window / rtt;
    uint64_t bytes = a->stream ? STREAM_BYTES : a->bytes;
    if (bytes > SMALL_BYTES) {
        double share = (double)(load->active_bytes + load->queued_bytes) / active;
        return rtt * xh_link_round_trips(share, window, xh_link_is_young(load->arrived, load->sockets)) >
               opening + rtt * xh_link_round_trips((double)bytes, XH_LINK_FIRST_BYTES, 1);
    }
    /* A guess that takes several round trips is soon served by those that are there: they do not begin anew. */
    int counts = !a->stream && (a->waited_ns || (double)bytes <= window);
    if (counts && (double)load->waited_ns + foreseen(load->waiting, active) * rtt > opening)
        return 1;
    double busy = (rtt + (double)load->active_bytes / active / rate) / (active + 1);
    double drain = ((double)load->queued_requests * rtt + (double)load->queued_bytes / rate) / active;
    return busy + drain > opening;
}

int xh_control_opens_own(const struct xh_link *l, const struct xh_load *load, const struct xh_asked *a)
{
    unsigned before = load->sockets > load->opening ? load->sockets - load->opening : 1;
    return !a->stream && load->sockets < a->files && l->rtt_ns > 0 &&
           (a->files - 1) * l->rtt_ns > before * (xh_link_opening_ns(l) + l->rtt_ns);
}

int xh_control_suits(const struct xh_choice *a, const struct xh_choice *b, const struct xh_asked *r, int streams)
{
    int is_small = !r->stream && r->bytes <= SMALL_BYTES;
    if ((streams || !is_small) && (a->grown > GROWN_TIMES * b->grown || b->grown > GROWN_TIMES * a->grown))
        return is_small ? a->grown < b->grown : a->grown > b->grown;
    return a->active < b->active;
}

int xh_control_is_too_young(const struct xh_choice *l, const struct xh_choice *best)
{
    return YOUNG_TIMES * (XH_LINK_FIRST_BYTES + l->grown) < XH_LINK_FIRST_BYTES + best->grown;
}
