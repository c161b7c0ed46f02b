/* What a page hit costs, and whether processes that hit at once take each other's time.
 *
 *   bench_page DIR [PROCESSES]
 *
 * Fills a shadow of 64 MiB below DIR (made, 0700, on tmpfs), then reads pages at random from it, alone and in
 * PROCESSES (8) processes at once, and for comparison copies the same pages out of ordinary memory. Prints a line of
 * JSON: nanoseconds a hit and a copy, and those of an element of 4 bytes in ten that are read together
 * (|element_ns|); hits a second alone, of all together, of the slowest and the fastest process; and
 * |fair|: what all together did by what as many processors as there are would do at the speed of one alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shadow/shadow.h"

enum { PAGES = 16384, PROCESSES_MAX = 64, FILL = 256 };
static const double SECONDS = 1;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_page: %s\n", what);
    exit(1);
}

static struct xh_shadow *open_shadow(const struct xh_options *o)
{
    struct xh_shadow *s;
    if (xh_shadow_open("https://bench/page", "etag:1", (uint64_t)PAGES * XH_PAGE_BYTES, o, &s, NULL) != 0)
        die("no shadow");
    if (xh_shadow_private(s))
        die("the directory will not do for a shared shadow");
    return s;
}

static void fill(struct xh_shadow *s)
{
    static uint8_t bytes[FILL * XH_PAGE_BYTES];
    memset(bytes, 0x5a, sizeof bytes);
    for (uint64_t p = 0; p < PAGES && xh_shadow_peek(s, p) != XH_CLAIM_READY; p += FILL) { /* of an earlier run */
        for (uint64_t k = 0; k < FILL; k++)
            if (xh_shadow_claim(s, p + k, 1, NULL) != XH_CLAIM_MINE)
                die("a page cannot be claimed");
        if (xh_shadow_fill(s, p * XH_PAGE_BYTES, bytes, sizeof bytes) != 0)
            die("no space");
        xh_shadow_publish(s, p, FILL, NULL);
    }
}

static uint64_t next_page(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % PAGES;
}

/* Hits a second; all of it from |memory| instead when that is given. */
static double hits(struct xh_shadow *s, const uint8_t *memory, uint64_t seed)
{
    static uint8_t page[XH_PAGE_BYTES];
    uint64_t n = 0;
    double begin = now(), t = begin;
    for (; t - begin < SECONDS; t = now())
        for (int k = 0; k < 1000; k++, n++) {
            uint64_t off = next_page(&seed) * XH_PAGE_BYTES;
            if (memory)
                memcpy(page, memory + off, sizeof page);
            else if (xh_shadow_read(s, off, page, sizeof page) != sizeof page)
                die("a page is not there");
            __asm__ volatile("" : : "r"(page) : "memory"); /* the copy is wanted */
        }
    return (double)n / (t - begin);
}

/* Elements a second of a stride over all of it. */
static double elements(struct xh_shadow *s)
{
    enum { STEP = 40, N = PAGES * XH_PAGE_BYTES / STEP };
    struct xh_extent *e = malloc(N * sizeof *e);
    uint32_t *to = malloc(N * sizeof *to);
    if (!e || !to)
        die("no memory");
    uint64_t n = 0;
    for (uint64_t i = 0; i < N; i++)
        e[i] = (struct xh_extent){i * STEP, sizeof *to, to + i};
    double begin = now(), t = begin;
    for (; t - begin < SECONDS; t = now(), n += N)
        if (xh_shadow_readv(s, e, N) != N)
            die("a page is not there");
    free(e);
    free(to);
    return (double)n / (t - begin);
}

int main(int argc, char **argv)
{
    struct xh_options o;
    long processes = argc > 2 ? strtol(argv[2], NULL, 10) : 8, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (argc < 2 || processes < 1 || processes > PROCESSES_MAX)
        die("usage: bench_page DIR [PROCESSES]");
    xh_options_defaults(&o);
    snprintf(o.shadow_dir, sizeof o.shadow_dir, "%s", argv[1]);
    struct xh_shadow *s = open_shadow(&o);
    fill(s);
    uint8_t *memory = malloc((size_t)PAGES * XH_PAGE_BYTES);
    double *each = mmap(NULL, PROCESSES_MAX * sizeof *each, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!memory || each == MAP_FAILED)
        die("no memory");
    memset(memory, 0x5a, (size_t)PAGES * XH_PAGE_BYTES);
    double copies = hits(NULL, memory, 1), alone = hits(s, NULL, 1), strided = elements(s), sum = 0, least = 1e300,
           most = 0;
    for (long i = 0; i < processes; i++)
        if (fork() == 0) {
            struct xh_shadow *own = open_shadow(&o);
            each[i] = hits(own, NULL, (uint64_t)i + 2);
            xh_shadow_close(own);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    for (long i = 0; i < processes; i++) {
        sum += each[i];
        least = each[i] < least ? each[i] : least;
        most = each[i] > most ? each[i] : most;
    }
    double could = alone * (double)(processes < cpus ? processes : cpus);
    printf("{\"element_ns\":%.1f,\"hit_ns\":%.0f,\"copy_ns\":%.0f,\"beyond_copy_ns\":%.0f,\"alone\":%.0f,\"processes\":"
           "%ld,\"together\":%.0f,"
           "\"slowest\":%.0f,\"fastest\":%.0f,\"fair\":%.2f}\n",
           1e9 / strided, 1e9 / alone, 1e9 / copies, 1e9 / alone - 1e9 / copies, alone, processes, sum, least, most,
           sum / could);
    xh_shadow_close(s);
    return 0;
}
