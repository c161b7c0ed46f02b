/* wanlink - an emulated wide-area link between two network namespaces.
 *
 * A TUN device stands in each namespace. A thread a direction reads packets from one device,
 * holds each for half the round trip, and writes it to the other. TCP runs for real at both ends.
 * perf/wan is the face of this program; docs/wanlink.md says what was measured.
 *
 * The way of one packet in one direction:
 *     read -> bottleneck (queue, drop-tail, size/rate) -> hold RTT/2 -> random loss -> write
 *
 * Invariants:
 * 1. A packet never leaves before it is due, and a direction never reorders.
 * 2. The queue's bound and random loss act on MTU-sized segments: a TSO super-packet that loses
 *    segments is delivered as the runs that survive, with headers as the sender's card would
 *    have written them.
 * 3. A segment costs the bottleneck its IP bytes and 38 bytes of Ethernet framing.
 * 4. Memory is bounded. A packet for which there is none is dropped and counted.
 * 5. New parameters rule packets that arrive after them; those on the way keep their due time.
 *
 * Knows nothing of addresses, routes or what runs over the link. */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define VNET_BYTES      sizeof(struct virtio_net_hdr)
#define PACKET_BYTES    (VNET_BYTES + 65536)
#define FRAMING_BYTES   38                 /* Ethernet: preamble 8, header 14, FCS 4, gap 12 */
#define QUEUE_MIN_MS    5                  /* on a short link: what a switch would hold ... */
#define QUEUE_MIN_BYTES (96 << 10)         /* ... and never less than a super-packet and a half */
#define BLOCK_BYTES     (2 << 20)          /* one huge page */
#define BLOCKS_MAX      256                /* 512 MiB a direction: 160 ms at 10 Gbit/s, queue too */
#define QUANTUM_MIN_NS  50000              /* 400 MB at 1 ms: 0.9 s of processor; with 10000 3 to 8 s */
#define QUANTUM_MAX_NS  200000
#define TCP_FIN_PSH     0x09
#define TCP_CWR         0x80

struct params {
    double rtt_ms, rate_mbit, loss_percent;
    uint64_t delay_ns;
    double ns_per_byte;                    /* 0: unlimited */
    double queue_bytes;
    uint32_t loss_2e32;                    /* chance of losing a segment, in 2^-32; the largest: all */
    uint32_t mtu_bytes;                    /* larger segments are lost, and nobody is told; 0: none are */
};

/* Written by the direction's thread alone; read by the main thread, relaxed: they pair with
 * nothing and may be a packet apart from each other. */
struct counters {
    _Atomic uint64_t packets, segments, bytes;    /* delivered; bytes are IP bytes on the wire */
    _Atomic uint64_t lost;                        /* segments: random loss, and those over the MTU */
    _Atomic uint64_t dropped;                     /* segments: queue full */
    _Atomic uint64_t refused;                     /* packets: no memory, or the device said no */
    /* Delivery after the due time, since the last report. */
    _Atomic uint64_t late_count, late_sum_ns, late_max_ns;
};

struct held {
    uint64_t due_ns;
    uint32_t len_bytes;                    /* with the vnet header */
    uint32_t keep_segments;                /* those that the queue had room for */
    uint8_t packet[];
};

/* Packets lie one behind the other in blocks. An emptied block goes back to a stack, so that a
 * link with little in flight stays in cache. */
struct block {
    struct block *next;
    uint32_t written_bytes, read_bytes;
    _Alignas(16) uint8_t data[];
};

struct direction {
    const char *name;
    int from, to;                          /* TUN descriptors, not blocking */
    struct block *oldest, *newest, *spare;
    unsigned blocks;
    uint64_t link_free_ns;                 /* when the bottleneck has sent all it was given */
    uint64_t last_due_ns;
    uint64_t random;
    unsigned seen;                         /* generation of |now| */
    struct params now;
    struct counters count;
};

/* How a packet, TSO or not, falls into segments. Headers do not count the vnet header. */
struct shape {
    uint32_t header_bytes, payload_bytes, segment_bytes, segments;
};

/* |params_lock| guards |params|. |generation| is raised after a change (release) and pairs with
 * the acquire load in refresh(), so that a packet costs no lock. */
static pthread_mutex_t params_lock = PTHREAD_MUTEX_INITIALIZER;
static struct params params;
static atomic_uint generation;
static atomic_bool realtime;               /* for the report; pairs with nothing */

static void die(const char *what)
{
    fprintf(stderr, "wanlink: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* ---- segments ---- */

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static void put16(uint8_t *p, uint32_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }

static uint16_t fold(uint32_t sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)(sum + (sum >> 16));
}

static struct shape shape_of(const uint8_t *packet, uint32_t len_bytes)
{
    struct virtio_net_hdr v;
    memcpy(&v, packet, sizeof v);
    uint32_t ip_bytes = len_bytes - (uint32_t)VNET_BYTES;
    struct shape s = {ip_bytes, 0, 0, 1};
    /* v.hdr_len is only a hint (the linear part): the TCP header begins at csum_start. */
    if (v.gso_type == VIRTIO_NET_HDR_GSO_NONE || v.gso_size == 0 || v.csum_start + 20u > ip_bytes)
        return s;
    uint32_t header = v.csum_start + (packet[VNET_BYTES + v.csum_start + 12] >> 4) * 4u;
    if (header >= ip_bytes || header > 120)
        return s;
    s = (struct shape){header, ip_bytes - header, v.gso_size, 0};
    s.segments = (s.payload_bytes + s.segment_bytes - 1) / s.segment_bytes;
    return s;
}

/* Payload bytes of the segments [0, n). */
static uint32_t payload_before(const struct shape *s, uint32_t n)
{
    return n >= s->segments ? s->payload_bytes : n * s->segment_bytes;
}

static uint64_t ip_bytes_of(const struct shape *s, uint32_t first, uint32_t end)
{
    return (uint64_t)(end - first) * s->header_bytes + payload_before(s, end)
           - payload_before(s, first);
}

/* Rewrites |head| (vnet, IP and TCP header of the whole packet) for its segments [first, end). */
static void rewrite_headers(uint8_t *head, const struct shape *s, uint32_t first, uint32_t end)
{
    struct virtio_net_hdr v;
    memcpy(&v, head, sizeof v);
    uint8_t *ip = head + VNET_BYTES, *tcp = ip + v.csum_start;
    uint32_t skipped = payload_before(s, first), payload = payload_before(s, end) - skipped;
    uint32_t old_len = s->header_bytes + s->payload_bytes - v.csum_start;
    uint32_t new_len = s->header_bytes + payload - v.csum_start;

    if (payload <= s->segment_bytes) {
        v.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        v.gso_size = 0;
    }
    v.hdr_len = (uint16_t)s->header_bytes;
    memcpy(head, &v, sizeof v);

    if (ip[0] >> 4 == 4) {
        uint32_t sum = 0;
        put16(ip + 2, s->header_bytes + payload);
        put16(ip + 4, get16(ip + 4) + first);
        put16(ip + 10, 0);
        for (uint32_t i = 0; i < v.csum_start; i += 2)
            sum += get16(ip + i);
        put16(ip + 10, (uint16_t)~fold(sum));
    } else {
        put16(ip + 4, s->header_bytes + payload - 40);
    }
    uint32_t seq = ((uint32_t)get16(tcp + 4) << 16 | get16(tcp + 6)) + skipped;
    put16(tcp + 4, seq >> 16);
    put16(tcp + 6, seq);
    if (first > 0)
        tcp[13] &= (uint8_t)~TCP_CWR;
    if (end < s->segments)
        tcp[13] &= (uint8_t)~TCP_FIN_PSH;
    /* The checksum field holds the pseudo header's sum, which counts the length. */
    put16(tcp + 16, fold(get16(tcp + 16) + (uint16_t)~old_len + new_len));
}

/* ---- delivery ---- */

static void write_run(struct direction *d, struct held *h, const struct shape *s, uint32_t first,
                      uint32_t end)
{
    uint8_t head[VNET_BYTES + 120];
    struct iovec io[2] = {{h->packet, h->len_bytes}};
    int parts = 1;
    if (first > 0 || end < s->segments) {
        size_t head_bytes = VNET_BYTES + s->header_bytes;
        uint32_t from = payload_before(s, first);
        assert(head_bytes <= sizeof head);
        memcpy(head, h->packet, head_bytes);
        rewrite_headers(head, s, first, end);
        io[0] = (struct iovec){head, head_bytes};
        io[1] = (struct iovec){h->packet + head_bytes + from, payload_before(s, end) - from};
        parts = 2;
    }
    if (writev(d->to, io, parts) < 0) {
        add(&d->count.refused, 1);
        return;
    }
    add(&d->count.packets, 1);
    add(&d->count.segments, end - first);
    add(&d->count.bytes, ip_bytes_of(s, first, end));
}

/* Whether the segment of |bytes| is lost. xorshift64*: its high half is what is used. */
static bool lose(struct direction *d, uint64_t bytes)
{
    if (d->now.mtu_bytes && bytes > d->now.mtu_bytes)
        return true;
    d->random ^= d->random >> 12;
    d->random ^= d->random << 25;
    d->random ^= d->random >> 27;
    uint32_t dice = (uint32_t)(d->random * 2685821657736338717u >> 32);
    return dice < d->now.loss_2e32 || d->now.loss_2e32 == UINT32_MAX;
}

static void deliver(struct direction *d, struct held *h, uint64_t now)
{
    struct shape s = shape_of(h->packet, h->len_bytes);
    uint64_t late = now - h->due_ns;
    add(&d->count.late_count, 1);
    add(&d->count.late_sum_ns, late);
    if (late > atomic_load_explicit(&d->count.late_max_ns, memory_order_relaxed))
        atomic_store_explicit(&d->count.late_max_ns, late, memory_order_relaxed);

    if (d->now.loss_2e32 == 0 && d->now.mtu_bytes == 0) {
        write_run(d, h, &s, 0, h->keep_segments);
        return;
    }
    for (uint32_t first = 0, i = 0; i <= h->keep_segments; i++) {
        if (i < h->keep_segments && !lose(d, ip_bytes_of(&s, i, i + 1)))
            continue;
        if (i > first)
            write_run(d, h, &s, first, i);
        if (i < h->keep_segments)
            add(&d->count.lost, 1);
        first = i + 1;
    }
}

/* ---- the packets on their way ---- */

/* Room for the largest packet, or NULL when all memory is on its way. */
static struct held *room(struct direction *d)
{
    struct block *b = d->newest;
    if (b && b->read_bytes == b->written_bytes && b == d->oldest)
        b->read_bytes = b->written_bytes = 0;
    if (!b || b->written_bytes > BLOCK_BYTES - sizeof *b - sizeof(struct held) - PACKET_BYTES) {
        struct block *fresh = d->spare;
        if (fresh)
            d->spare = fresh->next;
        else if (d->blocks == BLOCKS_MAX || !(fresh = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES)))
            return NULL;
        else {
            madvise(fresh, BLOCK_BYTES, MADV_HUGEPAGE);
            d->blocks++;
        }
        *fresh = (struct block){0};
        *(b ? &b->next : &d->oldest) = fresh;
        d->newest = b = fresh;
    }
    return (struct held *)(b->data + b->written_bytes);
}

static uint32_t held_bytes(const struct held *h)
{
    return (uint32_t)((sizeof *h + h->len_bytes + 15) & ~(size_t)15);
}

/* The packet that leaves next, or NULL. Gives finished blocks back. */
static struct held *next_out(struct direction *d)
{
    struct block *b = d->oldest;
    while (b && b->read_bytes == b->written_bytes && b != d->newest) {
        d->oldest = b->next;
        b->next = d->spare;
        d->spare = b;
        b = d->oldest;
    }
    if (!b || b->read_bytes == b->written_bytes)
        return NULL;
    return (struct held *)(b->data + b->read_bytes);
}

/* Passes the packet through the bottleneck. False when the queue has no room for any of it. */
static bool admit(struct direction *d, struct held *h, uint64_t now)
{
    struct shape s = shape_of(h->packet, h->len_bytes);
    h->keep_segments = s.segments;
    h->due_ns = now + d->now.delay_ns;
    if (d->now.ns_per_byte > 0) {
        if (d->link_free_ns < now)
            d->link_free_ns = now;
        double queued = (double)(d->link_free_ns - now) / d->now.ns_per_byte;
        double fit = (d->now.queue_bytes - queued)
                     / (s.header_bytes + s.segment_bytes + FRAMING_BYTES);
        if (fit < s.segments)
            h->keep_segments = fit < 1 ? 0 : (uint32_t)fit;
        add(&d->count.dropped, s.segments - h->keep_segments);
        if (h->keep_segments == 0)
            return false;
        uint64_t wire = ip_bytes_of(&s, 0, h->keep_segments)
                        + (uint64_t)h->keep_segments * FRAMING_BYTES;
        d->link_free_ns += (uint64_t)((double)wire * d->now.ns_per_byte + 0.5);
        h->due_ns = d->link_free_ns + d->now.delay_ns;
    }
    if (h->due_ns < d->last_due_ns)
        h->due_ns = d->last_due_ns;
    d->last_due_ns = h->due_ns;
    return true;
}

/* Takes one packet from the device. False when there is none. */
static bool take_in(struct direction *d)
{
    uint8_t nowhere[PACKET_BYTES];
    struct held *h = room(d);
    uint64_t now = now_ns();
    ssize_t n = read(d->from, h ? h->packet : nowhere, PACKET_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0)
        die("read from TUN");              /* the namespace is gone, and so is the link */
    if (!h || n <= (ssize_t)VNET_BYTES) {
        add(&d->count.refused, 1);
        return true;
    }
    h->len_bytes = (uint32_t)n;
    if (admit(d, h, now))
        d->newest->written_bytes += held_bytes(h);
    return true;
}

static void refresh(struct direction *d)
{
    unsigned g = atomic_load_explicit(&generation, memory_order_acquire);
    if (g == d->seen)
        return;
    double old_ns_per_byte = d->now.ns_per_byte;
    pthread_mutex_lock(&params_lock);
    d->now = params;
    pthread_mutex_unlock(&params_lock);
    d->seen = g;
    /* What the old rate had queued leaves in its time; the new rate starts with an empty queue. */
    if (d->now.ns_per_byte != old_ns_per_byte)
        d->link_free_ns = 0;
    atomic_store_explicit(&d->count.late_count, 0, memory_order_relaxed);
    atomic_store_explicit(&d->count.late_sum_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&d->count.late_max_ns, 0, memory_order_relaxed);
}

/* How long a direction may look away while packets are on their way: a fiftieth of what it holds
 * them, so that the round trip stays true, and the relay wakes for many packets at once. A relay that
 * wakes for each takes a core from the programs at both ends, which then are what is measured. */
static uint64_t quantum_ns(const struct direction *d)
{
    uint64_t q = d->now.delay_ns / 50;
    return q < QUANTUM_MIN_NS ? QUANTUM_MIN_NS : q > QUANTUM_MAX_NS ? QUANTUM_MAX_NS : q;
}

/* One packet out, one packet in, and sleep when there is neither: so that no backlog on one side
 * delays the other by more than one packet. */
static void *run(void *arg)
{
    struct direction *d = arg;
    prctl(PR_SET_TIMERSLACK, 1UL);
    /* A link does not wait for a core. Where this is not permitted, the report says so. */
    if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}) == 0)
        atomic_store_explicit(&realtime, true, memory_order_relaxed);
    for (;;) {
        refresh(d);
        struct held *h = next_out(d);
        uint64_t now = now_ns(), due = h ? h->due_ns : UINT64_MAX;
        if (due <= now) {
            deliver(d, h, now);
            d->oldest->read_bytes += held_bytes(h);
        }
        if (take_in(d) || due <= now)
            continue;
        uint64_t wait = h && due - now < quantum_ns(d) ? due - now : quantum_ns(d);
        struct pollfd p = {.fd = d->from, .events = POLLIN};
        if (h)
            nanosleep(&(struct timespec){0, (long)wait}, NULL);
        else
            ppoll(&p, 1, NULL, NULL);
    }
    return NULL;
}

/* ---- setting up and the control files ---- */

/* A TUN device |device| in the namespace |path|. Returns its descriptor. Leaves the thread there. */
static int open_tun(const char *path, const char *device)
{
    int ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
        die(path);
    close(ns);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        die("/dev/net/tun");
    struct ifreq r = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", device);
    if (ioctl(fd, TUNSETIFF, &r) < 0)
        die("TUNSETIFF");
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
        die("TUNSETOFFLOAD");
    return fd;
}

/* Reads "RTT_MS RATE_MBIT LOSS_PERCENT [MTU_BYTES]" from the file params. Returns false, with
 * nothing changed, when that is not what it holds. */
static bool load_params(void)
{
    struct params p = {0};
    FILE *f = fopen("params", "r");
    bool ok = f && fscanf(f, "%lf %lf %lf %u", &p.rtt_ms, &p.rate_mbit, &p.loss_percent, &p.mtu_bytes) >= 3
              && p.rtt_ms >= 0 && p.rtt_ms <= 10000 && p.rate_mbit >= 0 && p.rate_mbit <= 1e6
              && p.loss_percent >= 0 && p.loss_percent <= 100;
    if (f)
        fclose(f);
    if (!ok)
        return false;
    p.delay_ns = (uint64_t)(p.rtt_ms * 1e6 / 2);
    p.ns_per_byte = p.rate_mbit > 0 ? 8e3 / p.rate_mbit : 0;
    /* One bandwidth-delay product. */
    p.queue_bytes = p.rate_mbit * 125 * (p.rtt_ms > QUEUE_MIN_MS ? p.rtt_ms : QUEUE_MIN_MS);
    if (p.queue_bytes < QUEUE_MIN_BYTES)
        p.queue_bytes = QUEUE_MIN_BYTES;
    p.loss_2e32 = p.loss_percent < 100 ? (uint32_t)(p.loss_percent / 100 * 4294967296.0) : UINT32_MAX;
    pthread_mutex_lock(&params_lock);
    params = p;
    pthread_mutex_unlock(&params_lock);
    return true;
}

static void report_direction(FILE *f, struct direction *d)
{
#define GET(field) ((unsigned long long)atomic_load_explicit(&d->count.field, memory_order_relaxed))
    unsigned long long timed = GET(late_count);
    fprintf(f, "%s packets=%llu segments=%llu bytes=%llu lost=%llu dropped=%llu refused=%llu "
            "late_mean_us=%.1f late_max_us=%.1f\n", d->name, GET(packets), GET(segments), GET(bytes),
            GET(lost), GET(dropped), GET(refused),
            timed ? (double)GET(late_sum_ns) / (double)timed / 1e3 : 0.0,
            (double)GET(late_max_ns) / 1e3);
#undef GET
}

/* Replaces the file report, for which perf/wan waits, and lets the directions take |params| and
 * begin to count lateness anew. */
static void report(struct direction *a, struct direction *b)
{
    FILE *f = fopen("report.new", "w");
    if (!f)
        die("report.new");
    fprintf(f, "rtt_ms=%g rate_mbit=%g loss_percent=%g mtu_bytes=%u queue_kib=%.0f priority=%s\n",
            params.rtt_ms, params.rate_mbit, params.loss_percent, params.mtu_bytes,
            params.rate_mbit > 0 ? params.queue_bytes / 1024 : 0.0,
            atomic_load_explicit(&realtime, memory_order_relaxed) ? "realtime" : "normal");
    report_direction(f, a);
    report_direction(f, b);
    atomic_fetch_add_explicit(&generation, 1, memory_order_release);
    if (fclose(f) != 0 || rename("report.new", "report") < 0)
        die("report");
}

int main(int argc, char **argv)
{
    static struct direction to_client = {.name = "to_client", .random = 0x9e3779b97f4a7c15};
    static struct direction to_server = {.name = "to_server", .random = 0xd1b54a32d192ed03};
    pthread_t t;
    sigset_t set;
    int got;

    if (argc != 5) {
        fputs("usage: wanlink SERVER_NETNS CLIENT_NETNS DIRECTORY DEVICE\n"
              "Links two network namespaces (paths such as /proc/PID/ns/net) by a device of the name DEVICE"
              " in each.\nDIRECTORY/params holds \"RTT_MS RATE_MBIT LOSS_PERCENT [MTU_BYTES]\" (0: unlimited);"
              "\nSIGHUP reads it again and writes DIRECTORY/report. Usually started by perf/wan.\n",
              stderr);
        return 2;
    }
    if (chdir(argv[3]) < 0)
        die(argv[3]);
    if (!load_params()) {
        fputs("wanlink: the file params does not hold RTT_MS RATE_MBIT LOSS_PERCENT [MTU_BYTES]\n", stderr);
        return 1;
    }
    to_client.from = to_server.to = open_tun(argv[1], argv[4]);
    to_server.from = to_client.to = open_tun(argv[2], argv[4]);

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&t, NULL, run, &to_client) || pthread_create(&t, NULL, run, &to_server))
        die("pthread_create");
    report(&to_client, &to_server);        /* perf/wan takes it for: the devices are there */
    while (sigwait(&set, &got) == 0 && got == SIGHUP) {
        load_params();
        report(&to_client, &to_server);
    }
    return 0;
}
