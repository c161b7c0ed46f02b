/* What the disk cache takes of the processor, and what it passes over.
 *
 *   bench_disk DIR
 *
 * Below DIR (made, 0700, on ext4 or XFS) keeps 512 MiB as 16 connections bring them side by side, stripes of about 1 MB
 * in pieces of 16 KiB, without waiting; then pages alone, at random; then looks whether 64 MiB are there. Prints a line
 * of JSON: |keep_ms| a thread that brings bytes is held up by it in all; |cpu_ms| of the process, its own writing
 * included; |passed_mb| what the disk was too slow for; |random_cpu_ms|, |random_passed_mb| the same of 4,096 pages;
 * |look_us| of the look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/options.h"
#include "disk/disk.h"

enum { LANES = 16, PIECE = 16384, RANDOM_PAGES = 4096 };
static const uint64_t SIZE = UINT64_C(512) << 20, STRIPE = 1000003, LOOK = UINT64_C(64) << 20;

static double ms_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static struct xh_disk *open_disk(const struct xh_options *o, const char *validator)
{
    struct xh_disk *d = xh_disk_open("https://bench/disk", validator, SIZE, o);
    if (!d) {
        fprintf(stderr, "bench_disk: no disk cache in %s\n", o->disk_cache_dir);
        exit(1);
    }
    return d;
}

static double passed_mb(struct xh_disk *d)
{
    struct xh_stats s = {0};
    xh_disk_stats(d, &s);
    return (double)s.bytes_disk_passed / 1e6;
}

static double keep_stripes(struct xh_disk *d, const uint8_t *bytes)
{
    uint64_t at[LANES] = {0}, end[LANES] = {0}, next = 0;
    double begun = ms_of(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned k = 0, idle = 0; idle < LANES; k = (k + 1) % LANES) {
        if (at[k] == end[k]) {
            at[k] = next;
            next = end[k] = next + STRIPE < SIZE ? next + STRIPE : SIZE;
        }
        uint64_t n = end[k] - at[k] < PIECE ? end[k] - at[k] : PIECE;
        idle = n ? 0 : idle + 1;
        if (n)
            xh_disk_keep(d, at[k], bytes, (size_t)n, 0);
        at[k] += n;
    }
    return ms_of(CLOCK_THREAD_CPUTIME_ID) - begun;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[PIECE];
    struct xh_options o;
    unsigned seed = 1;
    if (argc != 2 || strlen(argv[1]) >= sizeof o.disk_cache_dir) {
        fprintf(stderr, "usage: bench_disk DIR\n");
        return 2;
    }
    xh_options_defaults(&o);
    snprintf(o.disk_cache_dir, sizeof o.disk_cache_dir, "%s", argv[1]);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)rand_r(&seed);
    double cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    struct xh_disk *d = open_disk(&o, "etag:1");
    double kept = keep_stripes(d, bytes);
    xh_disk_flush(d);
    cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    double passed = passed_mb(d), look = ms_of(CLOCK_MONOTONIC);
    int there = 0;
    for (int i = 0; i < 100; i++)
        there += xh_disk_has_all(d, 0, LOOK);
    look = (ms_of(CLOCK_MONOTONIC) - look) * 10;
    xh_disk_close(d);
    double one = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    d = open_disk(&o, "etag:2");
    for (int i = 0; i < RANDOM_PAGES; i++)
        xh_disk_keep(d, (uint64_t)rand_r(&seed) % (SIZE / 4096) * 4096, bytes, 4096, 0);
    xh_disk_flush(d);
    one = ms_of(CLOCK_PROCESS_CPUTIME_ID) - one;
    printf("{\"keep_ms\": %.0f, \"cpu_ms\": %.0f, \"passed_mb\": %.1f, \"look_us\": %.0f, \"all_there\": %d, "
           "\"random_cpu_ms\": %.0f, \"random_passed_mb\": %.1f}\n",
           kept, cpu, passed, look, there, one, passed_mb(d));
    xh_disk_close(d);
    return 0;
}
