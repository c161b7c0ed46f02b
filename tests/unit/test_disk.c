/* The disk cache by itself: what came, in whatever pieces, is there afterwards; nobody waits for the disk; a fork's child
 * and its parent go on; what was left by another boot is no obstacle. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/now.h"
#include "disk/disk.h"
#include "disk/impl.h"
#include "shadow/impl.h"
#include "shadow/objects.h"
#include "shadow/shadow.h"
#include "scratch.h"

#define PAGE XH_PAGE_BYTES
#define URL "https://h.example/d/f.h5"
#define VALIDATOR "etag:\"1\""
#define MIB (UINT64_C(1) << 20)

static void setup(void)
{
    scratch_begin("/var/tmp/test-disk");
    snprintf(opt.disk_cache_dir, sizeof opt.disk_cache_dir, "%s", dir);
    opt.disk_cache_bytes = 1u << 30;
}

TestSuite(disk, .init = setup, .fini = scratch_end, .timeout = 60);

/* ---- helpers ------------------------------------------------------------------------------- */

static uint8_t truth(uint64_t off)
{
    return (uint8_t)((off ^ off >> 12) * 0x9e3779b97f4a7c15ull >> 40);
}

static uint8_t *made(uint64_t off, size_t len)
{
    uint8_t *p = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        p[i] = truth(off + i);
    return p;
}

static struct xh_disk *open_of(const char *validator, uint64_t size)
{
    struct xh_disk *d = xh_disk_open(URL, validator, size, &opt);
    cr_assert(d);
    return d;
}

/* Of a version of its own. */
static struct xh_disk *open_version(unsigned k, uint64_t size)
{
    char validator[20];
    snprintf(validator, sizeof validator, "etag:\"%u\"", k);
    return open_of(validator, size);
}

static void keep(struct xh_disk *d, uint64_t off, size_t len)
{
    uint8_t *p = made(off, len);
    xh_disk_keep(d, off, p, len, 0);
    free(p);
}

/* Reads [off, off + len). Returns 1 when it is there, and asserts that it is right then. */
static int reads(struct xh_disk *d, uint64_t off, size_t len)
{
    uint8_t *got = malloc(len), *want = made(off, len);
    int there = xh_disk_read(d, &(struct xh_extent){off, len, got}, 1);
    cr_assert(!there || memcmp(got, want, len) == 0, "wrong bytes at %llu", (unsigned long long)off);
    free(got);
    free(want);
    return there;
}

static struct xh_stats stats_of(struct xh_disk *d)
{
    struct xh_stats s = {0};
    xh_disk_stats(d, &s);
    return s;
}

/* ---- claims -------------------------------------------------------------------------------- */

/* As streams bring it: stripes that are no multiples of pages, each in pieces, several in turns. */
Test(disk, what_comes_in_pieces_side_by_side_is_there_whole)
{
    enum { LANES = 7 };
    const uint64_t size = 9 * MIB + 1234, stripe = 100003;
    for (unsigned seed = 1; seed <= 5; seed++) {
        unsigned version = seed;
        struct xh_disk *d = open_version(version, size);
        uint64_t at[LANES], end[LANES], next = 0, left = 0;
        memset(at, 0, sizeof at);
        memset(end, 0, sizeof end);
        for (left = size; left;) {
            int k = rand_r(&seed) % LANES;
            if (at[k] == end[k]) {
                if (next == size)
                    continue;
                at[k] = next;
                next = end[k] = next + stripe < size ? next + stripe : size;
            }
            size_t n = (size_t)(rand_r(&seed) % 20000) + 1;
            n = n < end[k] - at[k] ? n : (size_t)(end[k] - at[k]);
            keep(d, at[k], n);
            at[k] += n;
            left -= n;
        }
        xh_disk_flush(d);
        struct xh_stats s = stats_of(d);
        cr_expect_eq(s.bytes_disk_stored, size, "%llu of %llu", (unsigned long long)s.bytes_disk_stored,
                     (unsigned long long)size);
        cr_expect_eq(s.bytes_disk_passed, 0);
        cr_expect(reads(d, 0, (size_t)size));
        xh_disk_close(d);
        d = open_version(version, size); /* another opening finds it */
        cr_expect(reads(d, 5, (size_t)size - 5));
        xh_disk_close(d);
    }
}

/* As when a load is cut, and brings the beginning of its next stripe all the same, before another load brings that; or
 * when a request is sent twice. */
Test(disk, what_comes_twice_in_part_is_there_whole)
{
    const uint64_t size = 2 * MIB;
    for (uint64_t k = 0; k < 4; k++) {
        struct xh_disk *d = open_version((unsigned)k, size);
        uint64_t at = 5 * PAGE + 700; /* where two stripes meet */
        if (k % 2 == 0)
            keep(d, 0, (size_t)at);
        keep(d, at, 300); /* and no more of it */
        keep(d, at, k < 2 ? 100 : 1000);
        keep(d, at + (k < 2 ? 100 : 1000), (size_t)(size - at) - (k < 2 ? 100 : 1000));
        if (k % 2)
            keep(d, 0, (size_t)at);
        xh_disk_flush(d);
        cr_expect(reads(d, 0, (size_t)size), "case %d", (int)k);
        cr_expect_eq(stats_of(d).bytes_disk_stored, size, "case %d", (int)k);
        cr_expect_eq(stats_of(d).bytes_disk_passed, 0, "case %d", (int)k);
        xh_disk_close(d);
    }
}

/* Each lane brings a stretch that overlaps those beside it. */
Test(disk, what_lanes_bring_that_overlap_is_there_whole)
{
    enum { LANES = 7 };
    const uint64_t size = 4 * MIB + 1234, stripe = 50003;
    for (unsigned seed = 1; seed <= 8; seed++) {
        struct xh_disk *d = open_version(seed, size);
        uint64_t at[LANES] = {0}, end[LANES] = {0}, next = 0;
        for (int busy = 1; busy;) {
            int k = rand_r(&seed) % LANES;
            if (at[k] == end[k] && next < size) {
                uint64_t back = (uint64_t)rand_r(&seed) % 9000, on = (uint64_t)rand_r(&seed) % 9000;
                at[k] = next < back ? 0 : next - back;
                next = next + stripe < size ? next + stripe : size;
                end[k] = next + on < size ? next + on : size;
            }
            uint64_t n = (uint64_t)rand_r(&seed) % 6000 + 1;
            n = n < end[k] - at[k] ? n : end[k] - at[k];
            if (n)
                keep(d, at[k], (size_t)n);
            at[k] += n;
            busy = next < size;
            for (int i = 0; i < LANES; i++)
                busy |= at[i] < end[i];
        }
        xh_disk_flush(d);
        cr_expect(reads(d, 0, (size_t)size));
        cr_expect_eq(stats_of(d).bytes_disk_stored, size);
        cr_expect_eq(stats_of(d).bytes_disk_passed, 0);
        xh_disk_close(d);
    }
}

/* Connections that are ahead leave the end of each stripe behind: more of them than blocks may be open. */
Test(disk, ends_of_many_stripes_wait_for_the_next_ones)
{
    enum { STRIPES = 320 };
    const uint64_t stripe = 100003, size = STRIPES * stripe;
    struct xh_disk *d = open_of(VALIDATOR, size);
    for (unsigned odd = 0; odd < 2; odd++)
        for (uint64_t i = odd; i < STRIPES; i += 2)
            keep(d, i * stripe, (size_t)stripe);
    xh_disk_flush(d);
    cr_expect_eq(stats_of(d).bytes_disk_stored, size, "%llu of %llu",
                 (unsigned long long)stats_of(d).bytes_disk_stored, (unsigned long long)size);
    cr_expect_eq(stats_of(d).bytes_disk_passed, 0);
    cr_expect(reads(d, 0, (size_t)size));
    xh_disk_close(d);
}

Test(disk, a_page_that_another_claim_has_is_waited_for_and_counted)
{
    struct xh_disk *d = open_of(VALIDATOR, MIB);
    cr_assert_eq(xh_shadow_claim(d->store, 3, 0, NULL), XH_CLAIM_MINE);
    cr_assert_eq(xh_shadow_claim(d->store, 9, 0, NULL), XH_CLAIM_MINE);
    uint64_t begun = xh_now_ns();
    keep(d, 0, (size_t)MIB);
    xh_shadow_abandon(d->store, 9, 1);
    int soon = xh_now_ns() - begun < 90000000; /* else page 9, too, may have been waited for in vain */
    xh_disk_flush(d);
    xh_shadow_abandon(d->store, 3, 1);
    uint64_t passed = stats_of(d).bytes_disk_passed;
    cr_expect(passed == PAGE || (!soon && passed == 2 * PAGE));
    cr_expect_eq(stats_of(d).bytes_disk_stored, MIB - passed);
    cr_expect(!reads(d, 3 * PAGE, PAGE));
    xh_disk_close(d);
}

Test(disk, what_came_in_part_is_not_there_and_is_counted)
{
    struct xh_disk *d = open_of(VALIDATOR, MIB);
    keep(d, 100, 2 * PAGE);        /* page 1 alone is whole */
    keep(d, 8 * PAGE, PAGE - 1);   /* none */
    keep(d, MIB - PAGE, PAGE);     /* the last one */
    xh_disk_flush(d);
    for (uint64_t p = 0; p < MIB / PAGE; p++)
        cr_expect_eq(reads(d, p * PAGE, PAGE), p == 1 || p == MIB / PAGE - 1, "page %d", (int)p);
    cr_expect_eq(stats_of(d).bytes_disk_stored, 2 * PAGE);
    cr_expect_eq(stats_of(d).bytes_disk_passed, (PAGE - 100) + 100 + (PAGE - 1));
    keep(d, 8 * PAGE, PAGE - 1); /* once more: then all of it comes */
    keep(d, 8 * PAGE, PAGE);
    keep(d, 9 * PAGE, PAGE);
    xh_disk_flush(d);
    cr_expect(reads(d, 8 * PAGE, 2 * PAGE));
    cr_expect_eq(stats_of(d).bytes_disk_passed, 2 * PAGE - 1, "what came after all is not counted");
    xh_disk_close(d);
}

/* The writing thread cannot even claim a page, as its slot is taken under the lock that is held here. */
Test(disk, a_disk_that_stands_still_delays_nobody)
{
    const uint64_t size = 200 * MIB;
    struct xh_disk *d = open_of(VALIDATOR, size);
    uint8_t *p = made(0, (size_t)MIB);
    pthread_mutex_lock(&xh_shadow_lock);
    uint64_t begun = xh_now_ns();
    for (uint64_t off = 0; off < size; off += MIB)
        xh_disk_keep(d, off, p, (size_t)MIB, 0);
    struct xh_stats s = stats_of(d);
    cr_expect_lt(xh_now_ns() - begun, UINT64_C(5000000000));
    cr_expect_geq(s.bytes_disk_passed, size - 64 * MIB - MIB, "what waits takes no more than its room");
    cr_expect_lt(s.bytes_disk_passed, size - 60 * MIB);
    begun = xh_now_ns();
    xh_disk_flush(d);
    uint64_t took = xh_now_ns() - begun;
    cr_expect(took >= UINT64_C(4900000000) && took < UINT64_C(9000000000), "it is closed after %llu ns",
              (unsigned long long)took);
    xh_disk_keep(d, 0, p, (size_t)MIB, 0);
    begun = xh_now_ns();
    xh_disk_flush(d);
    cr_expect_lt(xh_now_ns() - begun, UINT64_C(2000000000), "five seconds once, not for each file");
    pthread_mutex_unlock(&xh_shadow_lock);
    do { /* until what was being written is there: all is either there or told of */
        usleep(1000);
        s = stats_of(d);
    } while (s.bytes_disk_stored + s.bytes_disk_passed < size + MIB);
    cr_expect_eq(s.bytes_disk_stored + s.bytes_disk_passed, size + MIB);
    do { /* and soon it is waited for again */
        keep(d, 0, (size_t)MIB);
        xh_disk_flush(d);
    } while (!reads(d, 0, (size_t)MIB));
    xh_disk_close(d);
    free(p);
}

/* As metadata comes, and reads here and there: each page takes its own room while it waits for the disk. */
Test(disk, pages_that_come_one_by_one_wait_for_the_disk_too)
{
    enum { PAGES = 9000 };
    struct xh_disk *d = open_of(VALIDATOR, 2 * PAGES * PAGE);
    pthread_mutex_lock(&xh_shadow_lock); /* it stands still */
    for (uint64_t p = 0; p < PAGES; p++)
        keep(d, 2 * p * PAGE, PAGE);
    cr_expect_eq(stats_of(d).bytes_disk_passed, 0);
    pthread_mutex_unlock(&xh_shadow_lock);
    xh_disk_flush(d);
    cr_expect_eq(stats_of(d).bytes_disk_stored, (uint64_t)PAGES * PAGE);
    for (uint64_t p = 0; p < PAGES; p += 7)
        cr_expect(reads(d, 2 * p * PAGE, PAGE), "page %d", (int)(2 * p));
    xh_disk_close(d);
}

/* While there is no room, each piece that comes leaves the rest of a page behind, which never gets its beginning. */
Test(disk, what_was_passed_over_costs_no_page_that_comes_later)
{
    const uint64_t size = 200 * MIB;
    struct xh_disk *d = open_of(VALIDATOR, size);
    pthread_mutex_lock(&xh_shadow_lock); /* the disk stands still */
    for (uint64_t off = 100; off < 100 * MIB; off += 5000)
        keep(d, off, 5000);
    cr_expect_gt(stats_of(d).bytes_disk_passed, 30 * MIB);
    pthread_mutex_unlock(&xh_shadow_lock);
    while (!reads(d, 60 * MIB, PAGE))
        usleep(10000);
    for (unsigned i = 0; i < 8; i++) { /* each stripe comes from its middle on, then its beginning */
        uint64_t at = 120 * MIB + i * 50000;
        keep(d, at + 25000, 25000);
        keep(d, at, 25000);
    }
    xh_disk_flush(d);
    cr_expect(reads(d, 120 * MIB, 8 * 50000 / PAGE * PAGE));
    xh_disk_close(d);
}

/* Each hole costs the next reader a request: where the disk is slower than the link, they are few, however many
 * connections bring the file side by side. */
Test(disk, what_is_passed_over_lies_together)
{
    enum { LANES = 8 };
    const uint64_t size = 160 * MIB, stripe = MIB / 2 + 3, chunk = 16000;
    struct xh_disk *d = open_of(VALIDATOR, size);
    pthread_mutex_lock(&xh_shadow_lock); /* the disk stands still */
    for (uint64_t round = 0; round < size; round += LANES * stripe)
        for (uint64_t at = 0; at < stripe; at += chunk)
            for (uint64_t lane = 0; lane < LANES; lane++) {
                uint64_t off = round + lane * stripe + at, len = stripe - at < chunk ? stripe - at : chunk;
                if (off < size)
                    keep(d, off, (size_t)(size - off < len ? size - off : len));
            }
    pthread_mutex_unlock(&xh_shadow_lock);
    struct xh_stats s;
    do { /* a slow disk takes longer than closing the file would wait */
        usleep(1000);
        s = stats_of(d);
    } while (s.bytes_disk_stored + s.bytes_disk_passed < size - MIB);
    xh_disk_flush(d);
    s = stats_of(d);
    cr_expect_eq(s.bytes_disk_stored + s.bytes_disk_passed, size);
    cr_expect_gt(s.bytes_disk_stored, 32 * MIB);
    cr_expect_gt(s.bytes_disk_passed, 80 * MIB);
    int holes = 0;
    for (uint64_t p = 0, was = 1, is; p < size / PAGE; p++, was = is) {
        is = (uint64_t)xh_disk_has(d, p);
        holes += was && !is;
    }
    cr_expect_eq(holes, 1, "%d", holes);
    xh_disk_close(d);
}

Test(disk, a_forks_child_and_its_parent_go_on)
{
    const uint64_t size = 20 * MIB;
    struct xh_disk *d = open_of(VALIDATOR, size);
    keep(d, 0, (size_t)(10 * MIB + 100)); /* queued, written, and open */
    pid_t child = fork();
    cr_assert_geq(child, 0);
    uint64_t half = child ? 10 * MIB : 15 * MIB;
    if (child)
        keep(d, half + 100, (size_t)(5 * MIB - 100)); /* goes on where it was */
    else
        keep(d, half, (size_t)(5 * MIB));
    xh_disk_flush(d);
    int right = reads(d, half, (size_t)(5 * MIB)) && d->blocks == 0 && d->refs == 1;
    if (child == 0) {
        xh_disk_close(d);
        _exit(!right);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_expect(right);
    cr_expect(reads(d, 0, (size_t)size));
    xh_disk_close(d);
}

Test(disk, what_is_kept_is_another_versions_no_more_than_another_pages)
{
    struct xh_disk *a = open_of("etag:\"1\"", MIB), *b = open_of("etag:\"2\"", MIB);
    keep(a, 0, (size_t)MIB);
    xh_disk_flush(a);
    cr_expect(!reads(b, 0, PAGE));
    struct xh_shadow *s = a->store, *t = b->store;
    cr_expect_neq(s->sums_of, t->sums_of);
    /* All of the one file's words, sums and pages come to the other one: as a disk may mix blocks up. */
    size_t len = (size_t)(s->head.file_bytes - s->head.header_bytes);
    uint8_t *all = malloc(len);
    cr_assert_eq(pread(s->fd, all, len, s->head.header_bytes), (ssize_t)len);
    cr_assert_eq(pwrite(t->fd, all, len, t->head.header_bytes), (ssize_t)len);
    for (uint64_t p = 0; p < MIB / PAGE; p++)
        cr_expect(!reads(b, p * PAGE, PAGE), "page %d", (int)p);
    free(all);
    keep(b, 0, (size_t)MIB); /* it heals */
    xh_disk_flush(b);
    cr_expect(reads(b, 0, (size_t)MIB));
    xh_disk_close(a);
    xh_disk_close(b);
}

/* Words that a process of another boot left: claimed by a slot and an epoch that nobody has, or evicted half-way. */
Test(disk, what_another_boot_left_half_done_is_done_again)
{
    struct xh_disk *d = open_of(VALIDATOR, MIB);
    keep(d, 0, (size_t)MIB);
    xh_disk_flush(d);
    for (unsigned i = 0; i < MIB / PAGE; i += 3)
        atomic_store(&d->store->words[i], (uint64_t)9 << 32 | (uint64_t)(i + 1) << XH_W_OWNER_SHIFT |
                                              (i % 2 ? XH_CLAIMED : XH_EVICTING));
    xh_disk_close(d);
    d = open_of(VALIDATOR, MIB);
    cr_expect(!reads(d, 0, PAGE));
    cr_expect(reads(d, PAGE, 2 * PAGE));
    keep(d, 0, (size_t)MIB);
    xh_disk_flush(d);
    cr_expect(reads(d, 0, (size_t)MIB));
    xh_disk_close(d);
}

Test(disk, a_hint_is_its_urls_own_and_whole)
{
    struct xh_options on_disk;
    char text[XH_HINT_BYTES], path[400];
    struct xh_shadow_version last;
    cr_assert(xh_shadow_on_disk(&opt, &on_disk));
    cr_expect(!xh_shadow_last(URL, &on_disk, &last));
    struct xh_disk *d = open_of(VALIDATOR, MIB);
    xh_disk_hint_save(d, "0 -\nwhat the origin said");
    cr_expect_gt(xh_shadow_hint_load(URL, &on_disk, text), 0u);
    cr_expect_str_eq(text, "0 -\nwhat the origin said");
    cr_expect(xh_shadow_last(URL, &on_disk, &last));
    cr_expect_str_eq(last.validator, VALIDATOR);
    cr_expect_eq(last.size, MIB);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, text), 0u, "the shadow's own directory has none");
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DISK_DIR "/u-%s", dir, d->store->url_hex);
    int fd = open(path, O_RDWR);
    struct stat st;
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t i = 0; i < st.st_size; i++) { /* each bit that flips is noticed */
        char was, is;
        cr_assert_eq(pread(fd, &was, 1, i), 1);
        is = (char)(was ^ 1 << i % 7);
        cr_assert_eq(pwrite(fd, &is, 1, i), 1);
        cr_expect_eq(xh_shadow_hint_load(URL, &on_disk, text), 0u, "at %d", (int)i);
        cr_expect(!xh_shadow_last(URL, &on_disk, &last), "at %d", (int)i);
        cr_assert_eq(pwrite(fd, &was, 1, i), 1);
    }
    close(fd);
    xh_disk_close(d);
}
