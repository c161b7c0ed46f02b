/* The account of an open file: see account.h. */
#include "account.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "base/now.h"
#include "shadow/shadow.h"

static const char *const slice_names[] = {"copying", "wait for the network", "wait for another process", ""};

void xh_account_init(struct xh_account *a, int on)
{
    a->on = on;
    pthread_mutex_init(&a->lock, NULL);
    a->opened_ns = a->since_ns = xh_now_ns();
}

void xh_account_handed_over(struct xh_account *a, uint64_t waited_ns)
{
    if (!a->on)
        return;
    pthread_mutex_lock(&a->lock);
    a->since_ns = xh_now_ns();
    a->opened_ns = a->since_ns - waited_ns;
    memset(a->spent_ns, 0, sizeof a->spent_ns);
    a->spent_ns[XH_NETWORK] = a->opening_ns = waited_ns;
    pthread_mutex_unlock(&a->lock);
}

void xh_account_forked(struct xh_account *a, const struct xh_stats *now)
{
    int on = a->on;
    *a = (struct xh_account){.before = *now, .ended = a->ended, .known = a->known};
    xh_stats_add(&a->before, &a->ended); /* of parts that the parent closed */
    xh_account_init(a, on);
}

/* Adds the time since the last change to the first state that any thread is in. */
static void charge(struct xh_account *a, uint64_t now)
{
    unsigned d = 0;
    while (d < XH_OUTSIDE && a->threads[d] == 0)
        d++;
    if (d == XH_OUTSIDE && a->edits)
        d = XH_COPYING;
    a->spent_ns[d] += now - a->since_ns;
    a->since_ns = now;
}

void xh_account_waited(struct xh_account *a, uint64_t waited_ns)
{
    if (!a->on)
        return;
    pthread_mutex_lock(&a->lock);
    charge(a, xh_now_ns());
    waited_ns = waited_ns < a->spent_ns[XH_OUTSIDE] ? waited_ns : a->spent_ns[XH_OUTSIDE];
    a->spent_ns[XH_OUTSIDE] -= waited_ns;
    a->spent_ns[XH_NETWORK] += waited_ns;
    pthread_mutex_unlock(&a->lock);
}

/* |more| is 1 when one more thread does |d|, -1u when one fewer does. Its other time counts as XH_COPYING. Returns the
 * time. */
static uint64_t move(struct xh_account *a, enum xh_doing d, unsigned more)
{
    if (!a->on)
        return xh_now_ns();
    pthread_mutex_lock(&a->lock);
    uint64_t now = xh_now_ns();
    charge(a, now);
    a->threads[d] += more;
    if (d != XH_COPYING)
        a->threads[XH_COPYING] -= more;
    pthread_mutex_unlock(&a->lock);
    return now;
}

uint64_t xh_account_entered(struct xh_account *a, enum xh_doing d)
{
    return move(a, d, 1);
}

uint64_t xh_account_left(struct xh_account *a, enum xh_doing d, uint64_t entered_ns)
{
    uint64_t now = move(a, d, -1u);
    if (d != XH_COPYING && xh_timeline_on())
        xh_timeline_slice(0, slice_names[d], entered_ns, now, "us=%llu", (unsigned long long)(now - entered_ns) / 1000);
    return now - entered_ns;
}

void xh_account_edits(struct xh_account *a, unsigned more)
{
    if (!a->on)
        return;
    pthread_mutex_lock(&a->lock);
    charge(a, xh_now_ns());
    a->edits += more;
    pthread_mutex_unlock(&a->lock);
}

void xh_account_unforeseen(struct xh_account *a, int kind, uint64_t bytes, uint64_t waited_ns)
{
    if (!a->on)
        return;
    pthread_mutex_lock(&a->lock);
    a->unforeseen[kind].reads++;
    a->unforeseen[kind].bytes += bytes;
    a->unforeseen[kind].wait_ns += waited_ns;
    pthread_mutex_unlock(&a->lock);
}

void xh_account_opened(struct xh_account *a)
{
    a->opening_ns = a->spent_ns[XH_NETWORK]; /* no other thread has the file yet */
}

void xh_account_add(struct xh_account *a, const struct xh_stats *c, const struct xh_facts *f)
{
    pthread_mutex_lock(&a->lock);
    xh_stats_add(&a->ended, c);
    if (f)
        a->known = *f;
    pthread_mutex_unlock(&a->lock);
}

void xh_account_lost(struct xh_account *a, uint64_t failures, uint64_t missing, uint64_t network_ns)
{
    if (!a->on)
        return;
    pthread_mutex_lock(&a->lock);
    a->failures += failures;
    a->missing += missing;
    a->lost_ns += network_ns;
    pthread_mutex_unlock(&a->lock);
}

static struct xh_stats since_fork(const struct xh_account *a, const struct xh_stats *c)
{
    struct xh_stats d;
#define X(name, unit, help) d.name = c->name - a->before.name;
#include "stats.def"
#undef X
    return d;
}

static void fill_in(const struct xh_account *a, const struct xh_stats *c, struct xh_facts *f)
{
    uint64_t outside = a->spent_ns[XH_OUTSIDE];
    f->failures = a->failures;
    f->missing = a->missing;
    f->lost_ns = a->lost_ns < outside ? a->lost_ns : outside; /* at that time no call on this file was active */
    f->wall_ns = a->since_ns - a->opened_ns;
    f->network_ns = a->spent_ns[XH_NETWORK] + f->lost_ns;
    f->others_ns = a->spent_ns[XH_OTHERS];
    f->copying_ns = a->spent_ns[XH_COPYING];
    f->outside_ns = outside - f->lost_ns;
    f->opening_ns = a->opening_ns;
    f->raw = a->unforeseen[XH_KIND_RAW];
    f->meta = a->unforeseen[XH_KIND_META];
    f->fetched = c->bytes_fetched;
    f->asked = c->bytes_asked;
    /* Bytes that came and were not asked for, such as gaps and parts of pages. For the shadow's pages it is not known
     * whether another process uses them. */
    f->unused = c->bytes_fetched > c->bytes_asked ? c->bytes_fetched - c->bytes_asked : 0;
    f->unused = xh_max64(f->unused, c->bytes_unused);
    f->evicted = c->pages_evicted * XH_PAGE_BYTES;
    f->requests = c->requests;
    f->retries = c->retries;
    f->sent = c->bytes_sent;
    f->commits = c->commits;
    f->commit_ns = c->commit_ms * 1000000u;
}

void xh_account_print(struct xh_account *a, const char *url_shown, const struct xh_stats *total, struct xh_facts *f)
{
    char advice[XH_ADVICE_BYTES];
    pthread_mutex_lock(&a->lock);
    charge(a, xh_now_ns());
    struct xh_stats c = since_fork(a, total);
    fill_in(a, &c, f);
    pthread_mutex_unlock(&a->lock);
    xh_advise(f, advice);
    double wall = (double)(f->wall_ns ? f->wall_ns : 1) / 100;
    char disk[64] = "", image[64] = "", body[80] = "", written[128] = "", lost[128] = "";
    static const char *const from[] = {
        [0] = "the shadow",
        [XH_PRIVATE_WANTED] = "this process's pages",
        [XH_PRIVATE_NO_ROOM] = "this process's pages (no room for a shadow)",
        [XH_PRIVATE_NO_DIR] = "this process's pages (the shadow's directory cannot be used)",
    };
    int small = c.bytes_asked < 1000000 && c.bytes_fetched < 1000000;
    const char *unit = small ? "KB" : "MB";
#define MB(bytes) ((double)(bytes) / 1e6)
#define OF(bytes) ((double)(bytes) / (small ? 1e3 : 1e6))
#define S(ns) ((double)(ns) / 1e9), ((double)(ns) / wall)
    if (c.bytes_sidecar)
        snprintf(image, sizeof image, " (%.1f of them from its metadata image)", OF(c.bytes_sidecar));
    if (c.bytes_disk)
        snprintf(disk, sizeof disk, " (%.1f of them from the disk cache)", OF(c.bytes_disk));
    if (c.bytes_body)
        snprintf(body, sizeof body, "; its compressed copy brought %.1f", OF(c.bytes_body));
    if (c.bytes_written || c.commit_ms)
        snprintf(written, sizeof written,
                 "  written   %.1f MB by HDF5; %.1f MB sent to the server, %llu commit%s in %.3f s\n",
                 MB(c.bytes_written), MB(c.bytes_sent), (unsigned long long)c.commits, c.commits == 1 ? "" : "s",
                 (double)c.commit_ms / 1e3);
    if (f->failures || f->missing)
        snprintf(lost, sizeof lost, "  names     files of which %llu opening%s failed and %llu %s not there: %.3f s\n",
                 (unsigned long long)f->failures, f->failures == 1 ? "" : "s", (unsigned long long)f->missing,
                 f->missing == 1 ? "is" : "are", (double)f->lost_ns / 1e9);
    dprintf(STDERR_FILENO,
            "xhdf5: %s: open for %.3f s\n"
            "  bytes     %.1f %s asked: %.1f from %s%s%s, %.1f through private memory, %.1f when they were read\n"
            "            %.1f %s fetched, at least %.1f of them unused so far%s\n"
            "%s%s  requests  %llu on %llu connection%s, %llu sent again; round trip %.1f ms\n"
            "  time      network %.3f s (%.0f %%), other processes %.3f s (%.0f %%), copying %.3f s (%.0f %%), "
            "HDF5 and application %.3f s (%.0f %%)\n"
            "  advice    %s\n",
            url_shown, (double)f->wall_ns / 1e9, OF(c.bytes_asked), unit, OF(c.bytes_hit + c.bytes_waited),
            from[f->private_ & 3], disk, image, OF(c.bytes_staged), OF(c.bytes_demand + c.bytes_bypass),
            OF(c.bytes_fetched), unit, OF(f->unused), body, written, lost, (unsigned long long)c.requests,
            (unsigned long long)c.connections,
            c.connections == 1 ? "" : "s", (unsigned long long)c.retries, (double)f->rtt_ns / 1e6, S(f->network_ns),
            S(f->others_ns), S(f->copying_ns), S(f->outside_ns), advice);
#undef MB
#undef OF
#undef S
}

void xh_account_print_unopened(struct xh_account *a, const char *url_shown, const struct xh_stats *c, const char *why)
{
    pthread_mutex_lock(&a->lock);
    charge(a, xh_now_ns());
    pthread_mutex_unlock(&a->lock);
    dprintf(STDERR_FILENO,
            "xhdf5: %s: not opened, after %.3f s\n"
            "  requests  %llu on %llu connection%s, %llu sent again\n"
            "  time      network %.3f s, other processes %.3f s\n"
            "  advice    it could not be opened. %s\n",
            url_shown, (double)(a->since_ns - a->opened_ns) / 1e9, (unsigned long long)c->requests,
            (unsigned long long)c->connections, c->connections == 1 ? "" : "s", (unsigned long long)c->retries,
            (double)a->spent_ns[XH_NETWORK] / 1e9, (double)a->spent_ns[XH_OTHERS] / 1e9, why);
}
