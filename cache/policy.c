/* The decisions of the cache: see policy.h. */
#include "policy.h"

#include <limits.h>
#include <math.h>

#include "base/links.h"

/* A file comes whole where it takes no longer than the reader waits anyway: a walk is a chain of so many round trips
 * at least, and a reader that has missed something more often than that goes on like it. Connections in slow start
 * bring their first flight and twice as much in each next round trip. A link whose rate is not known is taken for a
 * fast one; so much longer than the chain nobody notices. Simulated, a walk by whole: 10 MB at 10, 50, 160 ms 1.56,
 * 1.67, 1.76; 40 MB, a fourth of it metadata, 0.98, 1.16, 1.21, for seven times the bytes (`sim --workload W4-10M`,
 * `W4-40M`). */
#define WHOLE_TRIPS 8u

/* A program that wants a little of each of many files reads far less than this part of one; what walks through a file's
 * metadata reads about half of what a small file has. */
#define VAIN_TIMES 8u
#define WHOLE_SOON_MS 100.0

/* A file that comes whole comes in its order. So a read of its beginning waits for nothing else, any other one for
 * about all of it. Connections in slow start bring so many times as much in three round trips more, of which coming
 * first would cost about one; a link that is full takes so many times as long. Of 8.4 MB, 0.27 MB in the midst by
 * themselves and with the rest: 0.38 and 0.56 s at 50 ms, 0.39 and 2.9 s over 20 Mbit/s (`sim --workload S1 --images 1
 * --piece 270000 --stock`); at the beginning 0.39 and 0.39, 0.68 and 0.67 s (W2-gzip). */
#define REST_TIMES 8u

/* A reader in no order is expected to go on for as long as he has. So what lies around his reads comes once he has
 * waited for half of the time that all of it takes, or while it slows them hardly: they wait a fourth longer in all. By
 * 96 simulated readers (`sim --workload R-random --megabytes MB`: 10 to 200 reads of 4 and 64 KiB in 30 and 100 MB, six
 * links), time by what it is without: mean 0.86, the worst 1.41, with 200 reads at 100 Mbit/s 0.38 to 1.06. Where it is
 * all of the time 0.87, 1.41, 0.48 to 1.19; a fourth of it 0.86, 2.20, 0.35 to 0.97. An eighth longer 0.85, 1.41, 0.38
 * to 1.01; half as long again 0.87, 1.58, 0.35 to 0.91. */
#define PAID_PART 2
#define SLOWED_PART 4
/* What lies around them comes so often at most: once, and once more what others made go. Files that had more than the
 * room together made each other's pages go: 1,200 reads of 100 bytes, in three files of 3 MB, brought 234 MB. */
#define AROUND_TIMES 2

/* What a link of 1 Gbit/s carries, and what it does in an eighth of a round trip, by that. */
#define USUAL_BYTES_A_MS 125000.0
#define SPARE_BYTES_A_MS (USUAL_BYTES_A_MS / 8)

/* What is kept comes in pages. On average it is half a page longer at either end: a fourth of a piece of so many bytes.
 * A second read of what is not kept waits for a round trip, and brings those pages as well. */
#define TOLD_LEAST_BYTES (4u * XH_PAGE_BYTES)

/* As long as a fifth of what is read is read again, all of it is kept: the tmpfs costs less than the link. No less than
 * the shortest stream, as to begin one costs connections. */
#define REREAD_TIMES 4u

/* A read that does not wait for another process takes half of the link from it: that one's bytes take four times as
 * long as the read's own. Below SOON_NS nothing is worth bytes that cross the link twice, nor below LATE_LEAST_PAGES a
 * request. */
#define LATE_TIMES 8u
#define LATE_LEAST_PAGES 256u
#define SOON_NS 300000000u

/* ---- what is kept in the shadow */

int xh_policy_keeps_all(const struct xh_keeping *k)
{
    return k->meta || k->shared;
}

int xh_policy_keeps_read(const struct xh_keeping *k)
{
    return k->meta || k->shared || k->streamed < k->stream_bytes;
}

int xh_policy_is_reread(uint64_t empty, uint64_t again)
{
    return again > empty / 2;
}

uint64_t xh_policy_stays_reread(uint64_t bytes)
{
    return xh_max64(REREAD_TIMES * bytes, XH_STREAM_LEAST_BYTES);
}

int xh_policy_keeps_pages(uint64_t bytes, uint64_t empty, uint64_t again)
{
    return bytes < XH_BULK_BYTES || xh_policy_is_reread(empty, again);
}

size_t xh_policy_keeps_ahead(const struct xh_keeping *k, const struct xh_range *r, size_t n)
{
    uint64_t streamed = k->streamed;
    size_t i = 0;
    if (k->told || xh_policy_keeps_all(k))
        return n;
    while (i < n && streamed + r[i].len <= k->stream_bytes)
        streamed += r[i++].len;
    return i;
}

static int told_again(const struct xh_announced *t)
{
    return xh_policy_is_reread(t->empty, t->again);
}

/* How many pieces these are: what lies one behind the other shares its pages. */
static size_t pieces_of(const struct xh_announced *t)
{
    size_t pieces = 1;
    for (size_t i = 1; i < t->n; i++)
        pieces += t->r[i].off != t->r[i - 1].off + t->r[i - 1].len;
    return pieces;
}

int xh_policy_passes_told(const struct xh_announced *t)
{
    int fits = t->bytes <= t->room || t->room >= t->readahead_bytes;
    return !fits || (xh_ranges_bytes(t->r, t->n) / pieces_of(t) < TOLD_LEAST_BYTES && !told_again(t));
}

int xh_policy_keeps_told(const struct xh_keeping *k, const struct xh_announced *t)
{
    return t->run < XH_STREAM_LEAST_BYTES || told_again(t) ||
           (k->streamed < k->stream_bytes + t->begun && !xh_policy_streams(k, t->run));
}

/* ---- when a stream begins */

/* Of files side by side, so much of each is enough: fetched by itself, each would cost round trips of its own. 2 and 4
 * sources of 64 MiB, of which 1 MiB each is read at a time, of one file's speed at 10, 50, 160 ms with it: 1.15, 1.34,
 * 1.34 and 1.08, 1.26, 1.30; without: 0.89, 0.89, 0.89 and 0.87, 0.83, 0.80 (`sim --workload V1 --stock`). */
#define BESIDE_BYTES (1u << 20)

/* Sixteen connections bring 128 KiB each of such a read, which is what bytes are dealt for. The first one may be the
 * beginning of a run; after the second one a stream that stands still elsewhere takes connections for nothing. But one
 * thread that jumps would wait for a young connection, which the stream's data keep from growing: 8 MB anywhere in the
 * file, behind one image or two, take 6.3 s instead of 0.4 at 50 ms, unlimited, CUBIC, and 1.9 at 1 Gbit/s, BBR
 * (`sim --workload W1-any --images 20`). */
#define WORTH_ALL_BYTES (XH_STREAM_LEAST_BYTES / 8)
#define STRAYS 2

uint64_t xh_policy_stream_end(uint64_t window, uint64_t end)
{
    return window >= XH_STREAM_LEAST_BYTES ? end : 0;
}

int xh_policy_streams(const struct xh_keeping *k, uint64_t len)
{
    /* What is not much longer than what is kept anyway stays for other processes, which may be about to start. */
    return len / 2 > k->stream_bytes && !xh_policy_keeps_all(k);
}

int xh_policy_deals(const struct xh_keeping *k, uint64_t len)
{
    return len >= XH_STREAM_LEAST_BYTES && len / 2 <= k->stream_bytes && k->streamed < k->stream_bytes &&
           !xh_policy_keeps_all(k);
}

int xh_policy_leaves(uint64_t step, uint64_t len, uint64_t ahead)
{
    return step - len >= 2 * len && (ahead >= 4 * XH_STREAM_LEAST_BYTES || step / 16 >= len);
}

int xh_policy_leads(const struct xh_leading *l)
{
    uint64_t least = l->files > 1 && l->begins ? l->files * BESIDE_BYTES : XH_STREAM_LEAST_BYTES / 2;
    int goes = l->young || (l->jumped && !l->astray);
    return l->len >= xh_min64(least, XH_STREAM_LEAST_BYTES / 2) && l->dataset && !l->hinted && !l->joint && goes;
}

int xh_policy_is_worth_all(uint64_t len)
{
    return len >= WORTH_ALL_BYTES;
}

int xh_policy_is_astray(unsigned strays, int lone)
{
    return strays >= STRAYS || (strays && lone);
}

unsigned xh_policy_parts(const struct xh_following *f)
{
    uint64_t part = (xh_min64(f->after, f->behind) + f->len) / f->connections;
    part = f->most ? xh_min64(part, f->most) : part;
    return (unsigned)(part ? (f->len - 1) / part + 1 : 1);
}

int xh_policy_passes(uint64_t before, uint64_t connections, uint64_t len, uint64_t readahead_bytes, uint64_t room)
{
    uint64_t part = readahead_bytes / 4;
    return before / connections > len || before > part + xh_min64(room, part);
}

int xh_policy_holds_up(uint64_t rate, uint64_t others)
{
    return rate < others / 2;
}

uint64_t xh_policy_keeps(uint64_t bytes, uint64_t rate, double rtt_ns)
{
    unsigned trips = XH_LINK_OPENING_TRIPS;
    for (uint64_t came = 0, flight = (uint64_t)XH_LINK_FIRST_BYTES; came < bytes; came += flight, flight *= 2)
        trips++;
    return (uint64_t)((double)rate * trips * rtt_ns / 1e9);
}

int xh_policy_is_relieved(uint64_t lacks, uint64_t keeps)
{
    return lacks > 2 * keeps;
}

uint64_t xh_policy_gives(const struct xh_giving *g)
{
    double rate = (double)g->rate, taker = (double)g->taker_rate, trip = rate * g->rtt_ns / 1e9;
    double gives = taker > 0 ? ((double)g->lacks - trip) / (1 + rate / taker) : 0;
    return gives >= trip ? (uint64_t)gives : 0;
}

uint64_t xh_policy_part(const struct xh_part *p)
{
    double room = (double)p->room, mean = (double)p->all_rate / p->connections;
    if (room < XH_PART_TRIPS * (double)xh_max64(p->now_rate, p->all_rate) * p->rtt_ns / 1e9)
        return 0;
    double slower = p->rate && (double)p->rate < mean ? (double)p->rate / mean : 1;
    double least = XH_PART_TRIPS * mean * p->rtt_ns / 1e9, share = (double)p->rest / p->connections;
    return (uint64_t)(fmin(room / p->connections, fmax(share, least)) * slower);
}

/* ---- how far ahead */

uint64_t xh_policy_most_ahead(uint64_t readahead_bytes, uint64_t budget_bytes, uint64_t sharers)
{
    return sharers ? xh_min64(readahead_bytes, budget_bytes / 2 / sharers) : readahead_bytes;
}

uint64_t xh_policy_guess_window(const struct xh_window *w)
{
    uint64_t most = xh_min64(w->most / w->width, w->room);
    return most > w->hinted ? most - w->hinted : 0;
}

uint64_t xh_policy_hint_window(uint64_t most)
{
    return most - most / 4;
}

uint64_t xh_policy_joint_window(uint64_t window, uint64_t run, uint64_t len)
{
    return xh_min64(window, run + len);
}

uint64_t xh_policy_least_ahead(uint64_t part_bytes, uint64_t trip_bytes, int divides)
{
    uint64_t trips = xh_max64(XH_LEAST_TRIPS * trip_bytes, XH_BULK_BYTES);
    uint64_t least = divides && trip_bytes ? xh_min64(trips, XH_GROUP_BYTES) : XH_GROUP_BYTES;
    return xh_max64(least, part_bytes);
}

uint64_t xh_policy_spare_bytes(double rtt_ms)
{
    return (uint64_t)(rtt_ms * SPARE_BYTES_A_MS);
}

int xh_policy_pays_for_all(const struct xh_paid *p)
{
    double rate = p->second_bytes ? (double)p->second_bytes : USUAL_BYTES_A_MS * 1e3;
    int paid = (double)p->waited_ns >= (double)p->bytes / rate * 1e9 / PAID_PART;
    int goes_on = p->runs && p->slowed_ns <= p->waited_ns / SLOWED_PART;
    return p->far && p->reads >= (p->in_vain ? WHOLE_TRIPS * VAIN_TIMES : WHOLE_TRIPS) && (paid || goes_on) &&
           p->came <= AROUND_TIMES * p->bytes;
}

/* Simulated: half instead of a fourth is the same. */
#define FLIGHT_PART 4u

int xh_policy_waits_for_trips(const struct xh_extent *ext, size_t n, uint64_t flight)
{
    uint64_t bytes = xh_extents_bytes(ext, n);
    return bytes < XH_BULK_BYTES || (xh_extents_are_scattered(ext, n) && bytes / n < XH_BULK_BYTES) ||
           bytes < flight / FLIGHT_PART;
}

int xh_policy_comes_by_itself(uint64_t bytes, uint64_t around)
{
    return bytes >= XH_BULK_BYTES && bytes >= around / REST_TIMES;
}

int xh_policy_paid_in_vain(unsigned hits)
{
    return hits < WHOLE_TRIPS;
}

/* ---- whole file or not */

int xh_policy_is_whole(const struct xh_opened *o)
{
    unsigned trips = o->misses > WHOLE_TRIPS ? o->misses : WHOLE_TRIPS;
    double young = XH_LINK_FIRST_BYTES * o->connections * (ldexp(1, (int)xh_min64(trips, INT_MAX)) - 1);
    double second_bytes = o->second_bytes ? (double)o->second_bytes : XH_LINK_FAST_BYTES_PER_NS * 1e9;
    double soon = (trips * o->rtt_ms + WHOLE_SOON_MS) / 1e3 * second_bytes;
    return o->readahead && !o->imaged && o->size > 0 && o->size <= o->whole_file_bytes && o->size <= o->most_ahead &&
           (double)o->size <= young && (double)o->size <= soon && (!o->in_vain || o->misses >= WHOLE_TRIPS);
}

int xh_policy_came_in_vain(uint64_t bytes, uint64_t size)
{
    return bytes < size / VAIN_TIMES;
}

int xh_policy_is_read_through(uint64_t bytes, uint64_t size)
{
    return bytes >= size / 2;
}

int xh_policy_comes_with_rest(uint64_t bytes, uint64_t end, uint64_t size)
{
    return bytes >= XH_BULK_BYTES && (bytes >= size / REST_TIMES || end <= size / REST_TIMES);
}

int xh_policy_leaves_rest(uint64_t bytes, uint64_t size, int has_siblings)
{
    return has_siblings && bytes >= XH_BULK_BYTES && bytes < size / 2;
}

/* ---- which source */

int xh_policy_uses_copy(int there, int faster, int forced)
{
    return there && (faster || forced);
}

int xh_policy_takes_packed(uint64_t packed, uint64_t plain)
{
    return packed <= plain;
}

/* The other process fetches several stretches at once. So before the page the link brings what lies before it in its
 * stretch, as many times as all stretches together came farther than this one. Where nothing came at all, the order
 * in which things come does not keep the read waiting. */
int xh_policy_comes_late(const struct xh_coming *c)
{
    uint64_t came = c->came > c->nearer ? c->came : c->nearer; /* more may have been claimed meanwhile */
    uint64_t nearer = c->nearer ? c->nearer : 1;
    if (came == 0)
        return 0;
    uint64_t before = c->before > c->wanted ? c->before - c->wanted : 0;
    double times = came > nearer ? (double)came / (double)nearer : 1, link_pages = (double)before * times;
    double wait_ns = link_pages / (double)came * (double)c->ns;
    return link_pages >= (double)(LATE_TIMES * c->wanted + LATE_LEAST_PAGES) && wait_ns >= SOON_NS;
}
