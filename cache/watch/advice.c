/* Advice: see advice.h. */
#include "advice.h"

#include <math.h>
#include <stdio.h>

#include "shadow/shadow.h"

/* A change that saves a smaller part of the wall time is not worth it. */
#define WORTH_OF_WALL 0.1
/* A request that was sent again costs more than its round trip: a timeout or a backoff came before. */
#define RETRIES_MOST 0.05

/* Below this round trip the processors at both ends take most of the time. */
#define ROUND_TRIP_FELT_NS 1000000u

struct change {
    double saves_ns;
    void (*say)(const struct xh_facts *f, char *out);
};

static double percent(uint64_t part, const struct xh_facts *f)
{
    return f->wall_ns ? 100.0 * (double)part / (double)f->wall_ns : 0;
}

/* Time that unforeseen reads waited for round trips. The rest of their wait is due to the link's speed. */
static double round_trips(const struct xh_facts *f, const struct xh_unforeseen *u)
{
    return fmin((double)u->wait_ns, (double)u->reads * (double)f->rtt_ns);
}

/* Time spent waiting for the link's speed, or the server's. */
static double bulk(const struct xh_facts *f)
{
    double rest = (double)f->network_ns - (double)f->opening_ns - (double)f->commit_ns - (double)f->lost_ns -
                  round_trips(f, &f->raw) - round_trips(f, &f->meta);
    return rest > 0 ? rest : 0;
}

static uint64_t each_kb(const struct xh_unforeseen *u)
{
    return u->reads ? (u->bytes / u->reads + 512) / 1024 : 0;
}

static void say_prefetch(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES,
             "%llu reads of %llu KB waited for the link one after another, %.0f ms each: say before what will be read "
             "(xhdf5.prefetch, H5Dxhdf5_prefetch), read larger selections, or write larger chunks",
             (unsigned long long)f->raw.reads, (unsigned long long)each_kb(&f->raw),
             (double)f->raw.wait_ns / 1e6 / (double)f->raw.reads);
}

static void say_readahead(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES,
             "%llu reads waited for the link one after another, as nothing is fetched ahead: XHDF5_READAHEAD=on",
             (unsigned long long)f->raw.reads + f->meta.reads);
}

static void say_metadata(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES,
             "%llu pieces of metadata were waited for one after another: fetch them before (xhdf5 cache warm "
             "--metadata-only), or have the file's metadata in one place (h5repack -S PAGE -G 65536)",
             (unsigned long long)f->meta.reads);
}

static void say_opening(const struct xh_facts *f, char *out)
{
    char trips[48] = "";
    if (f->rtt_ns >= ROUND_TRIP_FELT_NS)
        snprintf(trips, sizeof trips, " (%.1f round trips)", (double)f->opening_ns / (double)f->rtt_ns);
    snprintf(out, XH_ADVICE_BYTES,
             "opening the file took %.0f %%, %.0f ms%s: open it once and keep it open, or read more of it each time",
             percent(f->opening_ns, f), (double)f->opening_ns / 1e6, trips);
}

static void say_connections(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES, "%u connection%s the rate at a round trip of %.0f ms: XHDF5_CONNECTIONS=%u",
             f->connections, f->connections == 1 ? " limits" : "s limit", (double)f->rtt_ns / 1e6, f->paying);
}

/* 1 when HDF5 read mostly whole chunks that it could have read in part. It is not known here whether the program wanted
 * whole chunks. */
static int reads_plain_chunks(const struct xh_facts *f)
{
    return f->plain_bytes > f->asked / 2;
}

/* Says how the bytes could have been kept for the next reader. */
static void say_keep(const struct xh_facts *f, char *out)
{
    double mb = (double)f->size / 1e6, again = (double)(f->fetched - f->size) / 1e6;
    unsigned long long room = (f->size * 5 / 4 >> 20) + 1;
    if (f->shadow && reads_plain_chunks(f))
        snprintf(out, XH_ADVICE_BYTES,
                 "%.1f MB came more than once, in whole chunks of %.0f KB: if less of each is wanted, rdcc_nbytes=0 "
                 "(H5Pset_cache) has HDF5 read that alone; if all, %s=%lluM keeps them",
                 again, (double)f->plain_chunk_bytes / 1024,
                 f->private_  ? "XHDF5_PRIVATE_BUDGET_BYTES"
                 : f->evicted ? "XHDF5_SHADOW_BUDGET_BYTES"
                              : "XHDF5_STREAM_BYTES",
                 room);
    else if (f->fleeting)
        snprintf(out, XH_ADVICE_BYTES,
                 "%.1f MB came more than once; the server proves no version (no strong ETag, no date of more than a "
                 "minute ago, or a file that was changed just now), so this process alone can keep them: "
                 "XHDF5_PRIVATE_BUDGET_BYTES=%lluM", again, room);
    else if (!f->shadow)
        snprintf(out, XH_ADVICE_BYTES, "%.1f MB of a file of %.1f MB came more than once: XHDF5_SHADOW=on keeps them",
                 again, mb);
    else if (f->private_ == XH_PRIVATE_NO_DIR)
        snprintf(out, XH_ADVICE_BYTES,
                 "%.1f MB came more than once, as the shadow's directory cannot be used: XHDF5_SHADOW_DIR names one "
                 "that is yours alone, in a tmpfs; or XHDF5_PRIVATE_BUDGET_BYTES=%lluM",
                 again, room);
    else if (f->private_)
        snprintf(out, XH_ADVICE_BYTES,
                 "%.1f MB came more than once, as /dev/shm has no room for the shadow: give it room (a container's "
                 "--shm-size=%lluM, XHDF5_SHADOW_DIR in a larger tmpfs), or XHDF5_PRIVATE_BUDGET_BYTES=%lluM",
                 again, room, room);
    else if (f->evicted)
        snprintf(out, XH_ADVICE_BYTES,
                 "the shadow is too small: %.1f MB had to go from it, and %.1f MB came more than once: "
                 "XHDF5_SHADOW_BUDGET_BYTES=%lluM",
                 (double)f->evicted / 1e6, again, room);
    else
        snprintf(out, XH_ADVICE_BYTES,
                 "%.1f MB came more than once, as a first reading is not kept: XHDF5_STREAM_BYTES=%lluM", again, room);
}

static void say_retries(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES, "%llu of %llu requests failed and were sent again: XHDF5_LOG=origin shows why",
             (unsigned long long)f->retries, (unsigned long long)f->requests);
}

static void say_unused(const struct xh_facts *f, char *out)
{
    snprintf(
        out, XH_ADVICE_BYTES,
        "%.0f %% of what was fetched ahead of the reads was in vain, while the link was busy: say what will be read "
        "(xhdf5.prefetch, H5Dxhdf5_prefetch), or XHDF5_READAHEAD=off",
        100.0 * (double)f->unused / (double)f->fetched);
}

static void say_lost(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES,
             "%llu opening%s of files that this one names (virtual data sets, links) failed, in %.1f s: xhdf5 doctor "
             "tries each of them, and says what it answers",
             (unsigned long long)f->failures, f->failures == 1 ? "" : "s", (double)f->lost_ns / 1e9);
}

static void say_commits(const struct xh_facts *f, char *out)
{
    snprintf(out, XH_ADVICE_BYTES,
             "the file was sent %llu times, whole each time, in %.1f s: send it less often (H5FDxhdf5_commit, opening "
             "to change little), or write what changes to smaller files",
             (unsigned long long)f->commits, (double)f->commit_ns / 1e9);
}

/* No change is worth it: says what the limit is. */
static void say_bound(const struct xh_facts *f, char *out)
{
    if (f->outside_ns >= f->wall_ns / 2)
        snprintf(out, XH_ADVICE_BYTES, "HDF5 and the application took %.0f %%: nothing to gain here",
                 percent(f->outside_ns, f));
    else if (f->commit_ns && f->commit_ns >= f->wall_ns / 2)
        snprintf(out, XH_ADVICE_BYTES,
                 "sending the file took %.0f %%, %.0f MB/s: it goes whole, by one connection. Compressed data, or "
                 "several smaller files at once",
                 percent(f->commit_ns, f), 1e3 * (double)f->sent / (double)f->commit_ns);
    else if (f->others_ns >= f->network_ns && f->others_ns >= f->copying_ns)
        snprintf(out, XH_ADVICE_BYTES,
                 "other processes fetched the same bytes, and %.0f %% was waiting for them: nothing to gain here",
                 percent(f->others_ns, f));
    else if (f->network_ns >= f->copying_ns && f->network_ns && reads_plain_chunks(f))
        snprintf(out, XH_ADVICE_BYTES,
                 "the link or the server is the limit: %.0f MB/s while waiting. HDF5 read whole chunks of %.0f KB: if "
                 "less of each is wanted, rdcc_nbytes=0 (H5Pset_cache) has it read that alone",
                 1e3 * (double)f->fetched / (double)f->network_ns, (double)f->plain_chunk_bytes / 1024);
    else if (f->network_ns >= f->copying_ns && f->network_ns)
        snprintf(out, XH_ADVICE_BYTES,
                 "the link or the server is the limit: %.0f MB/s while waiting; compressed data, or more "
                 "servers that have the file (endpoints)",
                 1e3 * (double)f->fetched / (double)f->network_ns);
    else
        snprintf(out, XH_ADVICE_BYTES, "most was copying out of this machine's memory: nothing to gain here");
}

void xh_advise(const struct xh_facts *f, char out[XH_ADVICE_BYTES])
{
    double raw = round_trips(f, &f->raw), meta = round_trips(f, &f->meta);
    double again = f->fetched > f->size ? (double)(f->fetched - f->size) / (double)f->fetched : 0;
    double failed = f->requests ? (double)f->retries / (double)f->requests : 0;
    double more = f->connections < f->paying ? 1 - (double)f->connections / (double)f->paying : 0;
    double vain = f->fetched ? (double)f->unused / (double)f->fetched : 0;
    struct change changes[] = {
        {f->readahead ? raw : 0, say_prefetch},
        {f->readahead ? 0 : raw + meta, say_readahead},
        {f->readahead ? meta : 0, say_metadata},
        /* if less, the time is part of reading the file's bytes */
        {f->opening_ns >= f->network_ns / 2 ? (double)f->opening_ns : 0, say_opening},
        {more * bulk(f), say_connections},
        {again * ((double)f->network_ns - (double)f->opening_ns - (double)f->commit_ns), say_keep},
        {f->commits > 1 ? (double)f->commit_ns * (double)(f->commits - 1) / (double)f->commits : 0, say_commits},
        {failed > RETRIES_MOST ? (double)f->network_ns : 0, say_retries},
        {vain > 0.5 ? vain * bulk(f) : 0, say_unused},
    };
    struct change best = {WORTH_OF_WALL * (double)f->wall_ns, say_bound};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (changes[i].saves_ns > best.saves_ns)
            best = changes[i];
    if (f->failures) /* results are wrong or missing, so this comes first */
        best.say = say_lost;
    best.say(f, out);
}
