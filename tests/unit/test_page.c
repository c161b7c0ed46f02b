/* The shadow, one process or a few: words, files, budget, hints. Races: tests/multiproc.
 * Helper processes report through pipes and then stand still until killed. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/now.h"
#include "formula.h"
#include "shadow/budget.h"
#include "shadow/clock.h"
#include "shadow/evict.h"
#include "shadow/guard.h"
#include "shadow/impl.h"
#include "shadow/objects.h"
#include "shadow/owner.h"
#include "shadow/directory.h"
#include "shadow/store.h"
#include "shadow/sum.h"
#include "shadow/page_state.h"
#include "scratch.h"

#define PAGE XH_PAGE_BYTES
#define LASTS_S 60u /* no child outlives the test that ran into its own bound: the runner would wait for it */
#define URL "https://h.example/d/f.h5?token=secret"

static void setup(void)
{
    scratch_begin("/dev/shm/test-page");
    strcpy(opt.shadow_dir, dir);
    opt.shadow_budget_bytes = 1u << 30;
}

TestSuite(page, .init = setup, .fini = scratch_end, .timeout = 60);

/* ---- helpers ------------------------------------------------------------------------------- */

static void truth_fill(uint8_t *buf, uint64_t off, size_t len)
{
    formula_fill(buf, off, len, 0x0101010101010101ull); /* never 0, what a hole reads as */
}

static uint8_t truth(uint64_t off)
{
    uint8_t byte;
    truth_fill(&byte, off, 1);
    return byte;
}

static size_t first_wrong(const uint8_t *buf, uint64_t off, size_t len)
{
    uint8_t right[PAGE];
    for (size_t i = 0; i < len; i += sizeof right) {
        size_t n = len - i < sizeof right ? len - i : sizeof right, k = 0;
        truth_fill(right, off + i, n);
        if (memcmp(buf + i, right, n) == 0)
            continue;
        while (buf[i + k] == right[k])
            k++;
        return i + k;
    }
    return len;
}

static struct xh_shadow *open_shadow(uint64_t size)
{
    struct xh_shadow *s = NULL;
    struct xh_err err = {0};
    cr_assert_eq(xh_shadow_open(URL, "etag:\"1\"", size, &opt, &s, &err), 0, "%s", err.text);
    return s;
}

/* Pages that are evicted together, or not at all: as many as one of the kernel's holds. */
static uint64_t unit_pages(void)
{
    uint64_t bytes = xh_shadow_test_unit ? xh_shadow_test_unit : (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes > PAGE ? bytes / PAGE : 1;
}

static size_t page_len(struct xh_shadow *s, uint64_t idx)
{
    uint64_t left = s->head.origin_bytes - idx * PAGE;
    return left < PAGE ? (size_t)left : PAGE;
}

static int fill_page(struct xh_shadow *s, uint64_t idx)
{
    uint8_t buf[PAGE];
    truth_fill(buf, idx * PAGE, page_len(s, idx));
    return xh_shadow_fill(s, idx * PAGE, buf, page_len(s, idx));
}

/* Claims, fills and publishes; returns what the claim said. */
static enum xh_claim put(struct xh_shadow *s, uint64_t idx, int meta)
{
    enum xh_claim cl = xh_shadow_claim(s, idx, meta, NULL);
    if (cl == XH_CLAIM_MINE && fill_page(s, idx) == 0)
        xh_shadow_publish(s, idx, 1, NULL);
    else if (cl == XH_CLAIM_MINE)
        xh_shadow_abandon(s, idx, 1);
    return cl;
}

static int has(struct xh_shadow *s, uint64_t idx)
{
    uint8_t buf[PAGE];
    size_t len = page_len(s, idx), got = xh_shadow_read(s, idx * PAGE, buf, len);
    cr_assert(got == 0 || (got == len && first_wrong(buf, idx * PAGE, len) == len));
    return got == len;
}

static uint64_t count_ready(struct xh_shadow *s, uint64_t from, uint64_t to)
{
    uint64_t n = 0;
    for (; from < to; from++)
        n += has(s, from) != 0;
    return n;
}

/* Runs |job| in a child that then stands still; returns when the job is done. */
static pid_t stand(int (*job)(void *), void *arg)
{
    int p[2];
    char ok = 0;
    cr_assert_eq(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LASTS_S);
        ok = (char)(job(arg) == 0);
        (void)!write(p[1], &ok, 1);
        for (;;)
            pause();
    }
    close(p[1]);
    cr_assert_eq(read(p[0], &ok, 1), 1);
    close(p[0]);
    cr_assert_eq(ok, 1, "the helper failed");
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static uint32_t rnd(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Any evict in between may take what is READY, never what is claimed; all else is exact. */
static void against_model(uint64_t unit, uint32_t seed)
{
    enum { PAGES = 3000 };
    xh_shadow_test_unit = unit;
    static enum { NO, MINE, YES } model[PAGES];
    memset(model, 0, sizeof model);
    struct xh_shadow *s = open_shadow((uint64_t)PAGES * PAGE - 77);
    uint8_t *buf = malloc(64 * PAGE);
    for (int round = 0; round < 40000; round++) {
        uint64_t i = rnd(&seed) % PAGES, n = 1 + rnd(&seed) % 40, off, len;
        switch (rnd(&seed) % 6) {
        case 0:
        case 1: {
            enum xh_claim want = model[i] == NO ? XH_CLAIM_MINE : model[i] == MINE ? XH_CLAIM_BUSY : XH_CLAIM_READY;
            cr_assert_eq(xh_shadow_peek(s, i), want);
            cr_assert_eq(xh_shadow_claim(s, i, rnd(&seed) % 4 == 0, NULL), want);
            model[i] = model[i] == NO ? MINE : model[i];
            break;
        }
        case 2: /* fills what it may, and publishes */
            if (model[i] == MINE) {
                truth_fill(buf, i * PAGE, page_len(s, i));
                cr_assert_eq(xh_shadow_fill(s, i * PAGE, buf, page_len(s, i)), 0);
            }
            xh_shadow_publish(s, i, 1, NULL); /* without effect on what is not claimed */
            model[i] = model[i] == MINE ? YES : model[i];
            break;
        case 3:
            if (rnd(&seed) % 4 == 0 && model[i] == MINE && rnd(&seed) % 2)
                cr_assert_eq(fill_page(s, i), 0);
            xh_shadow_abandon(s, i, 1);
            model[i] = model[i] == MINE ? NO : model[i];
            break;
        case 4: {
            off = i * PAGE + rnd(&seed) % PAGE;
            off = off >= s->head.origin_bytes ? s->head.origin_bytes - 1 : off;
            len = 1 + rnd(&seed) % (n * PAGE);
            uint64_t want = 0, end_off = off + len < s->head.origin_bytes ? off + len : s->head.origin_bytes;
            while (off + want < end_off && model[(off + want) / PAGE] == YES)
                want += PAGE - (off + want) % PAGE;
            want = want > end_off - off ? end_off - off : want;
            cr_assert_eq(xh_shadow_read(s, off, buf, len), want);
            cr_assert_eq(first_wrong(buf, off, want), want);
            break;
        }
        default:
            if (rnd(&seed) % 64)
                break;
            atomic_store(&s->retry_at_ns, 0);
            xh_evict_squeeze(s, n * PAGE, 1, NULL);
            for (uint64_t k = 0; k < PAGES; k++) {
                enum xh_claim c = xh_shadow_peek(s, k);
                if (model[k] == YES && c == XH_CLAIM_MINE)
                    model[k] = NO;
                cr_assert_eq(c, model[k] == NO ? XH_CLAIM_MINE : model[k] == MINE ? XH_CLAIM_BUSY : XH_CLAIM_READY);
            }
        }
    }
    free(buf);
    xh_shadow_close(s);
}

Test(page, random_operations_agree_with_a_naive_model)
{
    against_model(0, 1);
}

Test(page, random_operations_agree_with_a_naive_model_where_kernel_pages_are_64_kib)
{
    against_model(65536, 2);
}

Test(page, a_page_filled_anew_is_not_mistaken_for_the_one_before)
{
    struct xh_shadow *s = open_shadow(10 * unit_pages() * PAGE);
    put(s, 3, 0);
    uint64_t before = atomic_load(&s->words[3]);
    cr_assert_eq(xh_clock_sweep(s, PAGE, 0, NULL), unit_pages() * PAGE);
    cr_expect_neq((atomic_load(&s->words[3]) ^ before) & XH_W_SEEN, 0);
    cr_expect_eq(put(s, 3, 0), XH_CLAIM_MINE);
    cr_expect_neq((atomic_load(&s->words[3]) ^ before) & XH_W_SEEN, 0);
    xh_shadow_close(s);
}

struct crew {
    struct xh_shadow *s;
    uint64_t pages;
    uint32_t seed;
    atomic_int *filling; /* per page: threads that hold the claim */
};

static void *work(void *arg)
{
    struct crew *w = arg;
    uint8_t buf[16 * PAGE];
    for (int i = 0; i < 30000; i++) {
        uint64_t idx = rnd(&w->seed) % w->pages;
        if (rnd(&w->seed) % 2) {
            uint64_t off = idx * PAGE + rnd(&w->seed) % 100;
            size_t got = xh_shadow_read(w->s, off, buf, 1 + rnd(&w->seed) % sizeof buf);
            cr_assert_eq(first_wrong(buf, off, got), got);
        } else if (xh_shadow_claim(w->s, idx, idx % 8 == 0, NULL) == XH_CLAIM_MINE) {
            cr_assert_eq(atomic_fetch_add(&w->filling[idx], 1), 0, "two threads have one claim");
            int keep = rnd(&w->seed) % 8 && fill_page(w->s, idx) == 0;
            atomic_fetch_sub(&w->filling[idx], 1);
            if (keep)
                xh_shadow_publish(w->s, idx, 1, NULL);
            else
                xh_shadow_abandon(w->s, idx, 1);
        }
    }
    return NULL;
}

static void with_threads(uint64_t unit)
{
    enum { PAGES = 2048, THREADS = 6 };
    xh_shadow_test_unit = unit;
    opt.shadow_budget_bytes = 2u << 20; /* a quarter of the file: eviction all the time */
    struct xh_shadow *s = open_shadow((uint64_t)PAGES * PAGE);
    atomic_int *filling = calloc(PAGES, sizeof *filling);
    struct crew w[THREADS];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct crew){s, PAGES, (uint32_t)i + 7, filling};
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    cr_expect_eq(atomic_load(&s->inflight), 0);
    cr_expect_leq(xh_budget_measure(s, 1), (2u << 20) + THREADS * s->step_bytes);
    free(filling);
    xh_shadow_close(s);
}

Test(page, threads_under_eviction_never_see_a_wrong_byte)
{
    with_threads(0);
}

Test(page, threads_under_eviction_never_see_a_wrong_byte_where_kernel_pages_are_64_kib)
{
    with_threads(65536);
}

static void *wait_for_page_3(void *arg)
{
    return (void *)(intptr_t)xh_shadow_wait(arg, 3, 30000, NULL);
}

Test(page, a_waiter_wakes_when_its_page_is_published)
{
    enum { ROUNDS = 20 };
    struct xh_shadow *s = open_shadow(10 * PAGE);
    pthread_t t;
    void *rc;
    uint64_t start = xh_now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(xh_shadow_claim(s, 3, 0, NULL), XH_CLAIM_MINE);
        pthread_create(&t, NULL, wait_for_page_3, s);
        while (!(atomic_load(&s->words[3]) & XH_W_WAITERS))
            sched_yield();
        fill_page(s, 3);
        xh_shadow_publish(s, 3, 1, NULL);
        pthread_join(t, &rc);
        cr_expect_eq((intptr_t)rc, 0);
        cr_expect(has(s, 3));
        xh_clock_sweep(s, PAGE, 0, NULL);
    }
    /* Far below what it takes when only the look at the owner, each 250 ms, ends a wait. */
    cr_expect_lt(xh_now_ns() - start, ROUNDS * 100000000ull);
    xh_shadow_close(s);
}

Test(page, a_waiter_gives_up_while_the_owner_lives)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    xh_shadow_claim(s, 3, 0, NULL);
    cr_expect_eq(xh_shadow_wait(s, 3, 20, NULL), XH_E_TIMEOUT);
    cr_expect_eq(xh_shadow_wait(s, 3, 0, NULL), XH_E_TIMEOUT);
    cr_expect_eq(xh_shadow_wait(s, 4, 20, NULL), 0);
    xh_shadow_close(s);
}

Test(page, what_lies_outside_is_never_had)
{
    struct xh_shadow *s = open_shadow(10 * PAGE + 5);
    uint8_t b[16];
    put(s, 10, 0);
    cr_expect_eq(xh_shadow_claim(s, 11, 0, NULL), XH_CLAIM_NONE);
    cr_expect_eq(xh_shadow_peek(s, UINT64_MAX), XH_CLAIM_NONE);
    cr_expect_eq(xh_shadow_read(s, 10 * PAGE, b, sizeof b), 5);
    cr_expect_eq(xh_shadow_read(s, 10 * PAGE + 5, b, 1), 0);
    xh_shadow_publish(s, 9, UINT64_MAX, NULL);
    xh_shadow_close(s);
}

Test(page, counters_tell_pages_published_evicted_and_taken_over)
{
    struct xh_counters c = {0};
    opt.shadow_budget_bytes = 1u << 20;
    struct xh_shadow *s = open_shadow(1000 * PAGE);
    for (uint64_t i = 0; i < 1000; i++)
        if (xh_shadow_claim(s, i, 0, &c) == XH_CLAIM_MINE && fill_page(s, i) == 0)
            xh_shadow_publish(s, i, 1, &c);
    cr_expect_eq(atomic_load(&c.pages_published), 1000);
    cr_expect_eq(1000 - count_ready(s, 0, 1000), atomic_load(&c.pages_evicted));
    cr_expect_gt(atomic_load(&c.pages_evicted), 700);
    xh_shadow_close(s);
}

/* ---- owners --------------------------------------------------------------------------------- */

/* As a process leaves a page that is killed while it fills it. */
static int write_half(struct xh_shadow *s, uint64_t idx, const uint8_t *half, size_t len)
{
    return pwrite(s->fd, half, len, (off_t)(s->head.data_off + idx * PAGE)) != (ssize_t)len;
}

static int claim_5_to_9(void *unused)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint8_t half[PAGE / 2];
    for (uint64_t i = 5; i < 10; i++) {
        if (xh_shadow_claim(s, i, 0, NULL) != XH_CLAIM_MINE)
            return -1;
        truth_fill(half, i * PAGE, sizeof half);
        if (write_half(s, i, half, sizeof half))
            return -1;
    }
    return 0;
}

Test(page, claims_of_a_killed_owner_are_taken_over)
{
    struct xh_counters c = {0};
    pid_t pid = stand(claim_5_to_9, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_assert_not(xh_shadow_private(s));
    cr_assert_eq(xh_shadow_claim(s, 5, 0, &c), XH_CLAIM_BUSY);
    cr_assert_eq(xh_shadow_wait(s, 5, 300, &c), XH_E_TIMEOUT);
    end(pid);
    cr_assert_eq(xh_shadow_wait(s, 5, 10000, &c), 0);
    cr_expect_eq(atomic_load(&c.claims_taken_over), 5);
    for (uint64_t i = 5; i < 10; i++) {
        cr_expect_not(has(s, i));
        cr_expect_eq(put(s, i, 0), XH_CLAIM_MINE);
        cr_expect(has(s, i));
    }
    xh_shadow_close(s);
}

Test(page, claims_of_a_suspended_owner_are_not_taken_over)
{
    pid_t pid = stand(claim_5_to_9, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    int status;
    kill(pid, SIGSTOP);
    cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
    cr_expect_eq(xh_shadow_wait(s, 5, 600, NULL), XH_E_TIMEOUT);
    cr_expect_eq(xh_shadow_claim(s, 5, 0, NULL), XH_CLAIM_BUSY);
    end(pid);
    xh_shadow_close(s);
}

Test(page, a_suspended_owner_is_waited_for_once_until_it_moves)
{
    pid_t pid = stand(claim_5_to_9, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint64_t began = xh_now_ns();
    cr_expect_eq(xh_shadow_wait(s, 5, 300, NULL), XH_E_TIMEOUT);
    cr_expect_geq(xh_now_ns() - began, 300 * 1000000ull);
    began = xh_now_ns();
    for (uint64_t i = 5; i < 10; i++)
        cr_expect_eq(xh_shadow_wait(s, i, 30000, NULL), XH_E_TIMEOUT);
    cr_expect_leq(xh_now_ns() - began, 5000 * 1000000ull);
    /* It moves: the page that was waited for comes. The next one is worth a wait again. */
    uint64_t w = atomic_load(&s->words[5]);
    xh_page_change(s, 5, &w, XH_W_HELD, XH_EMPTY, 0, XH_W_STALE, 0);
    began = xh_now_ns();
    cr_expect_eq(xh_shadow_wait(s, 6, 300, NULL), XH_E_TIMEOUT);
    cr_expect_geq(xh_now_ns() - began, 300 * 1000000ull);
    end(pid); /* and its death is seen at once */
    cr_expect_eq(xh_shadow_wait(s, 7, 0, NULL), 0);
    xh_shadow_close(s);
}

Test(page, a_slot_taken_anew_does_not_revive_its_dead_owners_claims)
{
    pid_t pid = stand(claim_5_to_9, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint32_t dead = xh_w_owner(atomic_load(&s->words[5]));
    cr_assert_eq(xh_owner_dead(s, dead), 0);
    end(pid);
    /* As owner.c takes a slot, from another open file description. */
    int fd = xh_store_reopen(s);
    cr_assert_eq(xh_store_lock(fd, F_WRLCK, XH_LOCK_SLOT(xh_owner_slot(dead))), 0);
    cr_expect_eq(xh_owner_dead(s, dead), 0, "before the epoch is bumped: doubt means alive");
    atomic_fetch_add(&s->epochs[xh_owner_slot(dead)], 1);
    cr_expect_eq(xh_owner_dead(s, dead), 1);
    cr_expect_eq(xh_shadow_wait(s, 5, 1000, NULL), 0);
    close(fd);
    xh_shadow_close(s);
}

/* As process 1 of another pid namespace; leaves its pid in ours. */
static int claim_in_other_namespace(void *arg)
{
    int p[2];
    char ok = 0;
    if (pipe(p) < 0 || unshare(CLONE_NEWPID) < 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LASTS_S);
        ok = getpid() == 1 && claim_5_to_9(NULL) == 0;
        (void)!write(p[1], &ok, 1);
        for (;;)
            pause();
    }
    *(pid_t *)arg = pid;
    return read(p[0], &ok, 1) == 1 && ok ? 0 : -1;
}

Test(page, an_owner_in_another_pid_namespace_is_seen_alive_and_seen_dead)
{
    pid_t *inner = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = stand(claim_in_other_namespace, inner);
    if (*inner == 0) {
        end(pid);
        cr_skip_test("no right to make a pid namespace");
    }
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_expect_eq(xh_shadow_wait(s, 5, 300, NULL), XH_E_TIMEOUT);
    kill(*inner, SIGKILL); /* not our child: it ends when it ends */
    for (uint64_t end_ns = xh_now_ns() + 20000000000ull; xh_shadow_wait(s, 5, 5000, NULL);)
        cr_assert_lt(xh_now_ns(), end_ns);
    cr_expect_eq(put(s, 5, 0), XH_CLAIM_MINE);
    end(pid);
    xh_shadow_close(s);
}

/* In a pid namespace of its own: a process claims and is killed, and the next one gets its number. */
static int with_a_pid_used_again(void)
{
    if (unshare(CLONE_NEWPID) < 0)
        return 2;
    pid_t first = fork();
    if (first == 0) { /* process 1 */
        pid_t pid = stand(claim_5_to_9, NULL), again;
        char text[16];
        int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY), status;
        int n = snprintf(text, sizeof text, "%d", (int)pid - 1);
        end(pid);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
            _exit(2);
        if ((again = fork()) == 0) {
            struct xh_shadow *s = open_shadow(100 * PAGE);
            int bad = getpid() != pid || put(s, 50, 0) != XH_CLAIM_MINE; /* has taken its slot */
            bad |= xh_shadow_claim(s, 5, 0, NULL) != XH_CLAIM_BUSY || xh_shadow_wait(s, 5, 5000, NULL) != 0;
            bad |= put(s, 5, 0) != XH_CLAIM_MINE || !has(s, 5);
            _exit(bad);
        }
        waitpid(again, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status;
    waitpid(first, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

Test(page, a_dead_owners_pid_that_is_used_again_does_not_revive_its_claims)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(with_a_pid_used_again());
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        cr_skip_test("no right to make a pid namespace");
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static int claim_in_inherited(void *arg)
{
    struct xh_shadow *s = arg;
    if (xh_shadow_claim(s, 1, 0, NULL) != XH_CLAIM_BUSY) /* the parent's */
        return -1;
    if (xh_shadow_claim(s, 2, 0, NULL) != XH_CLAIM_MINE)
        return -1;
    xh_shadow_publish(s, 1, 1, NULL); /* not ours: without effect */
    xh_shadow_abandon(s, 1, 1);
    if (xh_shadow_peek(s, 1) != XH_CLAIM_BUSY || !has(s, 0))
        return -1;
    return put(s, 4, 0) == XH_CLAIM_MINE ? 0 : -1;
}

static void fork_child_is_its_own_owner(void)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    put(s, 0, 0);
    xh_shadow_claim(s, 1, 0, NULL);
    pid_t pid = stand(claim_in_inherited, s);
    cr_expect(has(s, 4));
    cr_expect_eq(xh_shadow_wait(s, 2, 300, NULL), XH_E_TIMEOUT);
    cr_expect_neq(xh_w_owner(atomic_load(&s->words[1])), xh_w_owner(atomic_load(&s->words[2])));
    end(pid);
    cr_expect_eq(xh_shadow_wait(s, 2, 1000, NULL), 0);
    cr_expect_eq(put(s, 2, 0), XH_CLAIM_MINE);
    fill_page(s, 1);
    xh_shadow_publish(s, 1, 1, NULL);
    cr_expect(has(s, 1));
    xh_shadow_close(s);
}

Test(page, a_forks_child_is_an_owner_of_its_own)
{
    fork_child_is_its_own_owner();
}

Test(page, a_forks_child_is_an_owner_of_its_own_in_private_memory)
{
    opt.shadow = 0;
    fork_child_is_its_own_owner();
}

/* Claims page 5, then forks a child that outlives it. */
static int claim_and_leave_a_child(void *arg)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    xh_shadow_claim(s, 5, 0, NULL);
    pid_t pid = fork();
    if (pid == 0)
        for (alarm(LASTS_S);;)
            pause();
    *(pid_t *)arg = pid;
    return 0;
}

Test(page, a_child_does_not_make_its_dead_parent_look_alive)
{
    pid_t *orphan = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = stand(claim_and_leave_a_child, orphan);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_expect_eq(xh_shadow_wait(s, 5, 0, NULL), XH_E_TIMEOUT);
    end(pid);
    cr_expect_eq(xh_shadow_wait(s, 5, 5000, NULL), 0);
    kill(*orphan, SIGKILL);
    xh_shadow_close(s);
}

static int leave_evicting(void *unused)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint64_t w;
    put(s, 7, 0);
    w = atomic_load(&s->words[7]);
    xh_page_change(s, 7, &w, XH_W_HELD, XH_EVICTING, xh_owner_get(s), 0, 0);
    fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(s->head.data_off + 7 * PAGE), PAGE);
    return 0;
}

Test(page, an_evictor_killed_half_way_leaves_no_wrong_byte)
{
    pid_t pid = stand(leave_evicting, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_expect_not(has(s, 7));
    cr_expect_eq(xh_shadow_claim(s, 7, 0, NULL), XH_CLAIM_BUSY);
    end(pid);
    cr_expect_eq(xh_shadow_wait(s, 7, 5000, NULL), 0);
    cr_expect_eq(put(s, 7, 0), XH_CLAIM_MINE);
    cr_expect(has(s, 7));
    xh_shadow_close(s);
}

/* ---- file and directory --------------------------------------------------------------------- */

Test(page, opening_again_gives_the_same_object_and_the_pages_stay)
{
    struct xh_shadow *a = open_shadow(100 * PAGE), *b = open_shadow(100 * PAGE), *other;
    cr_expect_eq(a, b);
    put(a, 1, 0);
    cr_assert_eq(xh_shadow_open(URL, "etag:\"2\"", 100 * PAGE, &opt, &other, NULL), 0);
    cr_expect_neq(a, other);
    cr_expect_not(has(other, 1));
    xh_shadow_close(other);
    xh_shadow_close(a);
    xh_shadow_close(b);
    a = open_shadow(100 * PAGE);
    cr_expect(has(a, 1));
    cr_expect_null(memmem(&a->head, sizeof a->head, "secret", 6));
    xh_shadow_close(a);
}

enum damage { TRUNCATE, GROW, SCRIBBLE, VERSION, EMPTY_FILE, MODE, SYMLINK, DIRECTORY, FIFO, DAMAGES };

/* How many names of the directory begin with "t-". */
static int set_aside(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR, dir);
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, "t-", 2) == 0;
    closedir(d);
    return n;
}

static void hurt(const char *path, enum damage d)
{
    int fd = open(path, O_RDWR);
    uint32_t version = 99;
    struct stat st;
    fstat(fd, &st);
    switch (d) {
    case TRUNCATE: (void)!ftruncate(fd, st.st_size - PAGE); break;
    case GROW: (void)!ftruncate(fd, st.st_size + 1); break;
    case SCRIBBLE: (void)!pwrite(fd, "rubbish", 7, 300); break;
    case VERSION: (void)!pwrite(fd, &version, 4, offsetof(struct xh_layout_head, version)); break;
    case EMPTY_FILE: (void)!ftruncate(fd, 0); break;
    case MODE: fchmod(fd, 0644); break;
    default: unlink(path); break;
    }
    if (d == SYMLINK)
        (void)!symlink("/etc/passwd", path);
    if (d == DIRECTORY)
        mkdir(path, 0700);
    if (d == FIFO)
        mkfifo(path, 0600);
    close(fd);
}

Test(page, a_damaged_shadow_is_set_aside_and_made_anew)
{
    for (enum damage d = TRUNCATE; d < DAMAGES; d++) {
        char path[300];
        struct xh_shadow *s = open_shadow(100 * PAGE);
        put(s, 1, 0);
        snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
        xh_shadow_close(s);
        hurt(path, d);
        s = open_shadow(100 * PAGE);
        cr_expect_not(xh_shadow_private(s), "damage %d", d);
        cr_expect_not(has(s, 1), "damage %d", d);
        cr_expect_eq(put(s, 2, 0), XH_CLAIM_MINE);
        cr_expect(has(s, 2));
        xh_shadow_close(s);
        cr_expect_eq(set_aside(), 0, "damage %d", d);
    }
}

static int open_only(void *unused)
{
    return open_shadow(100 * PAGE) ? 0 : -1;
}

Test(page, a_shadow_damaged_while_others_use_it_is_replaced)
{
    char path[300];
    pid_t pid = stand(open_only, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
    xh_shadow_close(s);
    hurt(path, SCRIBBLE);
    s = open_shadow(100 * PAGE);
    cr_expect_not(xh_shadow_private(s));
    cr_expect_eq(put(s, 2, 0), XH_CLAIM_MINE);
    end(pid);
    xh_shadow_close(s);
}

/* Somebody writes into the file, which keeps its head: at rest, and while it is mapped. */
static void expect_damage_seen(struct xh_shadow *s, uint64_t off, const void *bytes, size_t len, const char *what)
{
    uint8_t buf[3 * PAGE];
    for (uint64_t i = 0; i < 100; i++)
        put(s, i, 0);
    cr_assert_eq(pwrite(s->fd, bytes, len, (off_t)off), (ssize_t)len);
    for (uint64_t i = 0; i < 98; i++) { /* whole pages, parts of pages, pages with parts at both ends */
        uint64_t at = i * PAGE + 100 * (i % 3);
        size_t got = xh_shadow_read(s, at, buf, i % 2 ? 2 * PAGE + 77 : 50);
        cr_expect_eq(first_wrong(buf, at, got), got, "%s: page %d", what, (int)i);
    }
    for (uint64_t i = 0; i < 100; i++) {
        has(s, i);
        while (xh_shadow_claim(s, i, 0, NULL) == XH_CLAIM_BUSY)
            cr_assert_eq(xh_shadow_wait(s, i, 1000, NULL), 0, "%s: page %d is stuck", what, (int)i);
        xh_shadow_abandon(s, i, 1);
        put(s, i, 0);
        cr_expect(has(s, i), "%s: page %d does not heal", what, (int)i);
    }
}

Test(page, what_someone_else_writes_into_a_shadow_is_not_given_to_readers)
{
    uint8_t zeros[3 * PAGE] = {0}, noise[3 * PAGE];
    uint32_t seed = 1;
    struct xh_shadow *s = open_shadow(100 * PAGE - 1000);
    const struct xh_layout_head *h = &s->head;
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)rnd(&seed);
        uint64_t at = rnd(&seed) % (h->origin_bytes - sizeof noise);
        expect_damage_seen(s, h->data_off + at, noise, 1 + rnd(&seed) % sizeof noise, "noise in pages");
        expect_damage_seen(s, h->data_off + at, zeros, 1 + rnd(&seed) % sizeof zeros, "zeros in pages");
        expect_damage_seen(s, h->header_bytes, noise, 800, "noise in words");
        expect_damage_seen(s, h->sums_off, noise, 800, "noise in sums");
        expect_damage_seen(s, h->sums_off, zeros, 800, "zeros in sums");
    }
    /* Words that say READY of pages that were never filled. */
    uint64_t ready[100];
    for (size_t i = 0; i < 100; i++)
        ready[i] = rnd(&seed) % 2 ? XH_READY : XH_READY | XH_W_GEN;
    expect_damage_seen(s, h->header_bytes, ready, sizeof ready, "words all READY");
    xh_shadow_close(s);
}

Test(page, a_page_that_is_cut_off_between_filling_and_publishing_is_not_published_as_zeros)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    off_t size = (off_t)s->head.file_bytes;
    uint8_t bytes[PAGE];
    truth_fill(bytes, 3 * PAGE, PAGE);
    cr_assert_eq(xh_shadow_claim(s, 3, 0, NULL), XH_CLAIM_MINE);
    cr_assert_eq(xh_shadow_fill(s, 3 * PAGE, bytes, PAGE), 0);
    cr_assert_eq(ftruncate(s->fd, (off_t)s->head.sums_off) | ftruncate(s->fd, size), 0);
    xh_shadow_publish(s, 3, 1, NULL);
    cr_expect_not(has(s, 3));
    cr_expect_eq(put(s, 3, 0), XH_CLAIM_MINE);
    cr_expect(has(s, 3));
    xh_shadow_close(s);
}

static void expect_sum_changes(uint8_t *page, const char *what, size_t i, uint64_t was)
{
    cr_expect_neq(xh_sum_page(0, 7, page, PAGE), was, "%s at %d", what, (int)i);
}

Test(page, a_sum_tells_a_page_from_what_is_nearly_the_same)
{
    uint8_t page[PAGE], other[PAGE];
    double two = 2;
    memset(page, 0, sizeof page);
    cr_expect_neq(xh_sum_page(0, 7, page, PAGE), 0);
    cr_expect_neq(xh_sum_page(0, 7, page, PAGE), xh_sum_page(0, 8, page, PAGE), "the same bytes elsewhere");
    cr_expect_neq(xh_sum_page(0, 7, page, PAGE), xh_sum_page(0, 7, page, PAGE - 1), "zeros, fewer");
    for (size_t i = 0; i < PAGE; i += 8) /* only a few high bits are not 0 */
        memcpy(page + i, &two, 8);
    memset(other, 0, sizeof other);
    cr_expect_neq(xh_sum_page(0, 7, page, PAGE), xh_sum_page(0, 7, other, PAGE));
    truth_fill(other, 0, PAGE);
    for (int round = 0; round < 2; round++) {
        uint8_t *p = round ? other : page;
        uint64_t was = xh_sum_page(0, 7, p, PAGE);
        for (size_t i = 0; i < 8 * PAGE; i++) {
            p[i / 8] ^= (uint8_t)(1 << i % 8);
            expect_sum_changes(p, "a bit", i, was);
            p[i / 8] ^= (uint8_t)(1 << i % 8);
        }
        for (size_t i = 1; i < PAGE && round; i++) {
            uint8_t keep[PAGE];
            memcpy(keep, p, PAGE);
            memset(p + i, 0, PAGE - i);
            expect_sum_changes(p, "zeros from here on", i, was);
            memcpy(p, keep, PAGE);
        }
    }
}

/* In a process of its own: what it does after its shadow was cut off to |keep| bytes. */
static int work_after_truncation(int where)
{
    char path[300], byte;
    struct xh_shadow *s = open_shadow(5000 * PAGE), *anew;
    const struct xh_layout_head *h = &s->head;
    const uint64_t keep[] = {0, h->header_bytes + 8, h->sums_off + 8, h->data_off + 17 * PAGE + 5};
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
    int bad = xh_shadow_private(s) != 0;
    for (uint64_t i = 0; i < 5000; i += 3)
        bad |= put(s, i, i % 2) != XH_CLAIM_MINE || !has(s, i);
    bad |= xh_shadow_claim(s, 4, 0, NULL) != XH_CLAIM_MINE;
    bad |= truncate(path, (off_t)keep[where]) != 0;
    bad |= fill_page(s, 4) != 0 && fill_page(s, 4) != XH_E_NOSPACE;
    xh_shadow_publish(s, 4, 1, NULL);
    for (uint64_t i = 0; i < 5000; i++) {
        has(s, i); /* ends the process when a byte is wrong */
        put(s, i, 0);
        has(s, i);
    }
    xh_clock_sweep(s, 100 * PAGE, 0, NULL);
    xh_shadow_wait(s, 4, 0, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(xh_shadow_read(s, 0, &byte, 1) == 1 && (uint8_t)byte != truth(0));
    int status;
    waitpid(child, &status, 0);
    bad |= status != 0;
    anew = open_shadow(5000 * PAGE); /* while the other one is open */
    if (!xh_guard_broken(s->guard))
        xh_shadow_close(s), s = NULL; /* pages only: the same object, which heals */
    bad |= anew == s || xh_shadow_private(anew) || xh_guard_broken(anew->guard);
    for (uint64_t i = 0; i < 100; i++) {
        put(anew, i, 0);
        bad |= !has(anew, i);
    }
    xh_shadow_close(anew);
    if (s)
        xh_shadow_close(s);
    return bad;
}

Test(page, a_guard_is_used_again_for_mappings_of_its_size_alone)
{
    /* A handler may just have loaded the address of the one before: with another size it would replace what lies
     * behind it. */
    static char one[2], other[4];
    struct xh_guard *first = xh_guard_add(one, sizeof one, -1, 0, 0);
    xh_guard_drop(first);
    struct xh_guard *larger = xh_guard_add(other, sizeof other, -1, 0, 0);
    cr_assert_neq(larger, first, "the guard of 2 bytes is that of 4 bytes now");
    xh_guard_drop(larger);
    cr_assert_eq(xh_guard_add(one, sizeof one, -1, 0, 0), first, "a guard was not used again");
    cr_assert_eq(xh_guard_add(other, sizeof other, -1, 0, 0), larger);
    xh_guard_drop(first);
    xh_guard_drop(larger);
}

Test(page, a_shadow_truncated_under_its_mapping_costs_speed_and_nothing_else)
{
    for (int where = 0; where < 4; where++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(work_after_truncation(where));
        waitpid(pid, &status, 0);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "cut %d: status %x", where, status);
        remove_dir(dir);
    }
}

static void on_foreign_bus(int sig)
{
    _exit(42);
}

/* A fault in a mapping that is not ours, with the program's own handler or none. */
static int foreign_fault(int with_handler)
{
    if (with_handler)
        signal(SIGBUS, on_foreign_bus);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    put(s, 1, 0);
    int fd = memfd_create("foreign", 0);
    (void)!ftruncate(fd, PAGE);
    volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    (void)!ftruncate(fd, 0);
    return p[0];
}

Test(page, a_fault_that_is_not_ours_ends_as_it_would_have)
{
    for (int with_handler = 0; with_handler < 2; with_handler++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGBUS, SIG_DFL); /* a sanitizer's */
            _exit(foreign_fault(with_handler));
        }
        waitpid(pid, &status, 0);
        if (with_handler)
            cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 42, "status %x", status);
        else
            cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %x", status);
    }
}

static void expect_private(const char *why)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_expect(xh_shadow_private(s), "%s", why);
    cr_expect_eq(put(s, 1, 0), XH_CLAIM_MINE);
    cr_expect(has(s, 1));
    xh_shadow_hint_save(s, "text");
    char hint[XH_HINT_BYTES];
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
    xh_shadow_close(s);
}

Test(page, a_directory_that_cannot_be_trusted_makes_the_shadow_private)
{
    char target[200];
    snprintf(target, sizeof target, "%s-target", dir);
    mkdir(target, 0700);
    (void)!symlink(target, dir);
    expect_private("symlink");
    strcat(opt.shadow_dir, "//");
    expect_private("symlink with a slash");
    strcpy(opt.shadow_dir, dir);
    unlink(dir);
    remove_dir(target);

    mkdir(dir, 0700);
    chmod(dir, 0750);
    expect_private("open to the group");
    chmod(dir, 0700);
    if (geteuid() == 0 && chown(dir, 12345, 12345) == 0)
        expect_private("another user's");
    rmdir(dir);
    close(open(dir, O_CREAT | O_WRONLY, 0600));
    expect_private("a file");
    unlink(dir);
    mkfifo(dir, 0666);
    expect_private("a FIFO");
    strcpy(opt.shadow_dir, "/proc/self/nowhere");
    expect_private("cannot be made");
    opt.shadow = 0;
    strcpy(opt.shadow_dir, dir);
    expect_private("switched off");
}

Test(page, what_crashed_creators_left_is_removed_and_what_lives_is_kept)
{
    char old[200], young[200];
    opt.shadow_budget_bytes = 1u << 20;
    struct xh_shadow *s = open_shadow(1000 * PAGE);
    snprintf(old, sizeof old, "%s/" XH_LAYOUT_DIR "/t-%032d", dir, 1);
    snprintf(young, sizeof young, "%s/" XH_LAYOUT_DIR "/t-%032d", dir, 2);
    close(open(old, O_CREAT | O_RDWR, 0600));
    close(open(young, O_CREAT | O_RDWR, 0600));
    struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, old, long_ago, 0);
    for (uint64_t i = 0; i < 600; i++)
        put(s, i, 0);
    cr_expect_neq(access(old, F_OK), 0);
    cr_expect_eq(access(young, F_OK), 0);
    xh_shadow_close(s);
}

/* In a process that has a small tmpfs of its own. 0: good; 2: cannot mount here. */
static int on_full_tmpfs(void)
{
    if (unshare(CLONE_NEWNS) < 0)
        return 2;
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL); /* fails in a chroot, where it is not needed */
    mkdir(dir, 0700);
    const uint64_t per = unit_pages(), pages = 8000 * per, middle = pages / 2, later = pages / 4 * 3;
    char room[64];
    snprintf(room, sizeof room, "size=%lluk,mode=0700", 512ull * per);
    if (mount("none", dir, "tmpfs", 0, room) < 0)
        return 2;
    struct xh_shadow *s = NULL;
    xh_shadow_open(URL, "v", pages * PAGE, &opt, &s, NULL);
    int none = 0, nospace = 0, mine = 0, bad = xh_shadow_private(s);
    for (uint64_t i = 0; i < pages && !bad; i += 3) { /* 4 blocks of words do not fit beside the pages */
        enum xh_claim cl = xh_shadow_claim(s, i, 0, NULL);
        none += cl == XH_CLAIM_NONE;
        mine += cl == XH_CLAIM_MINE;
        if (cl == XH_CLAIM_MINE && fill_page(s, i) == 0)
            xh_shadow_publish(s, i, 1, NULL);
        else if (cl == XH_CLAIM_MINE)
            nospace++, xh_shadow_abandon(s, i, 1);
        bad |= !has(s, i) && cl == XH_CLAIM_READY;
    }
    bad |= count_ready(s, 0, pages) < 40; /* it goes on by giving back its own */
    xh_shadow_close(s);
    /* Someone else takes all the rest: no byte is free. */
    char path[200];
    snprintf(path, sizeof path, "%s/other", dir);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    char block[4096] = {1};
    while (write(fd, block, sizeof block) > 0)
        ;
    xh_shadow_open(URL, "w", pages * PAGE, &opt, &s, NULL);
    bad |= !xh_shadow_private(s);
    bad |= put(s, 1, 0) != XH_CLAIM_MINE || !has(s, 1);
    xh_shadow_close(s);
    xh_shadow_open(URL, "v", pages * PAGE, &opt, &s, NULL);
    for (uint64_t i = 0; i < pages; i++)
        put(s, i, 0);
    count_ready(s, 0, pages);
    xh_shadow_close(s);
    /* Nothing to give back, and the words of |middle| have no memory: a touch would be SIGBUS. */
    (void)!ftruncate(fd, 0);
    xh_shadow_open(URL, "x", pages * PAGE, &opt, &s, NULL);
    bad |= xh_shadow_private(s);
    lseek(fd, 0, SEEK_SET);
    while (write(fd, block, sizeof block) > 0)
        ;
    bad |= xh_shadow_read(s, middle * PAGE, block, 1) != 0 || xh_shadow_peek(s, middle) != XH_CLAIM_NONE;
    bad |= xh_shadow_wait(s, middle, 0, NULL) != 0;
    xh_shadow_publish(s, middle, 1, NULL);
    int dropped = xh_shadow_claim(s, middle, 0, NULL) == XH_CLAIM_MINE; /* "v", which nobody has open */
    lseek(fd, 0, SEEK_END);
    while (write(fd, block, sizeof block) > 0)
        ;
    bad |= !dropped || xh_shadow_claim(s, later, 0, NULL) != XH_CLAIM_NONE;
    bad |= fill_page(s, middle) != XH_E_NOSPACE;
    xh_shadow_abandon(s, middle, 1);
    xh_shadow_close(s);
    close(fd);
    umount(dir);
    fprintf(stderr, "# full tmpfs: claims %d, none %d, fills refused %d\n", mine, none, nospace);
    return bad;
}

static void full_tmpfs(uint64_t unit)
{
    int status;
    xh_shadow_test_unit = unit;
    pid_t pid = fork();
    if (pid == 0)
        _exit(on_full_tmpfs());
    waitpid(pid, &status, 0);
    cr_assert(WIFEXITED(status), "killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) == 2)
        cr_skip_test("no right to mount a tmpfs");
    cr_expect_eq(WEXITSTATUS(status), 0);
}

Test(page, a_full_tmpfs_costs_speed_and_nothing_else)
{
    full_tmpfs(0);
}

Test(page, a_full_tmpfs_costs_speed_and_nothing_else_where_kernel_pages_are_64_kib)
{
    full_tmpfs(65536);
}

/* What a daemon does to itself. Nothing of the shadow may reach files that come after. */
static int with_descriptors_closed(void)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    char path[200], byte;
    int bad = put(s, 1, 0) != XH_CLAIM_MINE || close_range(3, ~0u, 0) != 0, fd = -1;
    snprintf(path, sizeof path, "%s/users-file", dir);
    for (int i = 0; i < 100; i++) /* they get the shadow's numbers, too */
        fd = open(path, O_CREAT | O_RDWR, 0600);
    xh_shadow_claim(s, 2, 0, NULL);
    xh_shadow_claim(s, 99, 0, NULL);
    bad |= fill_page(s, 2) != XH_E_NOSPACE || xh_shadow_read(s, PAGE, &byte, 1) != 0;
    xh_shadow_hint_save(s, "a hint");
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 3; i < fd; i++)
            bad |= lseek(i, 0, SEEK_END) != 0;
        _exit(bad);
    }
    int status;
    waitpid(pid, &status, 0);
    bad |= status != 0 || lseek(fd, 0, SEEK_END) != 0;
    xh_shadow_close(s);
    for (int i = 3; i <= fd; i++)
        bad |= fcntl(i, F_GETFD) < 0;
    return bad;
}

Test(page, descriptors_closed_behind_our_back_cost_speed_and_nothing_else)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(with_descriptors_closed());
    waitpid(pid, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static int with_files_limited(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    struct xh_turn turn;
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        return 1;
    xh_shadow_join(&opt);
    xh_shadow_turn("a name", &opt, 100, &turn);
    xh_shadow_turn_over(&turn);
    xh_shadow_note_lack(URL, &opt, 1, 0);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    int bad = !xh_shadow_private(s);
    xh_shadow_busy(s);
    xh_shadow_hint_save(s, "a hint");
    bad |= put(s, 0, 1) == XH_CLAIM_MINE && !has(s, 0);
    xh_shadow_close(s);
    return bad;
}

/* The limit comes while the shadow is open. 0: good. */
static int with_files_limited_later(rlim_t bytes)
{
    const struct rlimit limit = {bytes, RLIM_INFINITY};
    struct xh_shadow *s = open_shadow(100 * PAGE);
    put(s, 0, 1);
    int bad = !has(s, 0) || setrlimit(RLIMIT_FSIZE, &limit) < 0;
    bad |= put(s, 50, 0) == XH_CLAIM_MINE && has(s, 50); /* what cannot be stored is not there */
    bad |= !has(s, 0) || xh_shadow_peek(s, 50) == XH_CLAIM_BUSY;
    xh_shadow_hint_save(s, "a hint");
    xh_shadow_close(s);
    return bad;
}

Test(page, a_process_that_may_write_no_files_is_not_killed_for_it)
{
    static const rlim_t limits[] = {0, 1, 100, 1024, 4095, 4096, 65536};
    static int (*const runs[])(rlim_t) = {with_files_limited, with_files_limited_later, with_files_limited_later};
    xh_shadow_close(open_shadow(100 * PAGE)); /* another process has made the directory */
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
            int status;
            pid_t pid = fork();
            opt.shadow = k < 2;
            if (pid == 0)
                _exit(runs[k](limits[i]));
            waitpid(pid, &status, 0);
            cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "run %zu, limit %lu: status %x", k,
                      (unsigned long)limits[i], status);
        }
}

/* ---- signals -------------------------------------------------------------------------------- */

/* Linux before 6.0 ends a fallocate on tmpfs where a signal is pending. */
static int interrupted;

int fallocate(int fd, int mode, off_t off, off_t len)
{
    if (interrupted) {
        interrupted--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, off, len);
}

Test(page, a_signal_while_a_shadow_is_opened_or_made_does_not_make_it_private)
{
    for (int round = 0; round < 2; round++) {
        interrupted = 1;
        struct xh_shadow *s = open_shadow(10 * PAGE);
        cr_expect_not(xh_shadow_private(s), "round %d", round);
        cr_expect_eq(interrupted, 0);
        xh_shadow_close(s);
    }
}

/* ---- budget --------------------------------------------------------------------------------- */

/* What limits the memory cannot be looked at then: it would be as if there were no limit. */
Test(page, the_memory_that_is_left_is_as_it_was_last_while_no_descriptor_is_free)
{
    struct rlimit before, none;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    uint64_t was = xh_memory_left();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    uint64_t is = xh_memory_left();
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_expect_eq(is, was, "%llu, and it was %llu", (unsigned long long)is, (unsigned long long)was);
}

static void budget_holds(void)
{
    struct xh_shadow *s = open_shadow(20000 * PAGE);
    /* A page of metadata keeps all of its unit: they are a sixteenth of the budget. */
    uint64_t budget = 4u << 20, most = 0, metas = budget / PAGE / 16 / unit_pages(), apart = 300 * unit_pages();
    for (uint64_t i = 0; i < metas; i++)
        cr_assert_eq(put(s, apart * i, 1), XH_CLAIM_MINE);
    for (uint64_t i = 0; i < 20000; i++) {
        cr_assert_neq(put(s, i, 0), XH_CLAIM_NONE);
        uint64_t taken = xh_budget_measure(s, 1);
        most = taken > most ? taken : most;
    }
    cr_expect_leq(most, budget + s->step_bytes);
    cr_expect_geq(count_ready(s, 0, 20000) * PAGE, budget / 2);
    for (uint64_t i = 0; i < metas; i++)
        cr_expect(has(s, apart * i), "metadata page %d is gone", (int)i);
    /* What is read again and again stays, what is not goes. */
    for (uint64_t i = 0; i < 6000; i++) {
        put(s, i, 0);
        if (i > 10)
            cr_assert(has(s, 10), "hot page gone at %d", (int)i);
    }
    xh_shadow_close(s);
}

Test(page, the_budget_holds_and_metadata_and_hot_pages_stay)
{
    opt.shadow_budget_bytes = 4u << 20;
    budget_holds();
}

Test(page, the_budget_holds_and_metadata_and_hot_pages_stay_where_kernel_pages_are_64_kib)
{
    xh_shadow_test_unit = 65536;
    opt.shadow_budget_bytes = 4u << 20;
    budget_holds();
}

Test(page, the_budget_holds_in_private_memory)
{
    opt.shadow = 0;
    opt.private_budget_bytes = 4u << 20;
    budget_holds();
}

/* A unit is kept whole for one page of metadata in it: 64 such units are the budget. */
Test(page, metadata_here_and_there_leaves_room_for_raw_data_where_kernel_pages_are_64_kib)
{
    xh_shadow_test_unit = 65536;
    opt.shadow_budget_bytes = 4u << 20;
    struct xh_shadow *s = open_shadow(20000 * PAGE);
    for (uint64_t i = 0; i < 64; i++)
        cr_assert_eq(put(s, 300 * i, 1), XH_CLAIM_MINE);
    for (uint64_t i = 0; i < 20000; i++)
        cr_assert_neq(put(s, i, 0), XH_CLAIM_NONE, "none at %d", (int)i);
    xh_shadow_close(s);
}

/* Bytes are measured after each step; until then they are what was charged. */
Test(page, the_first_page_of_a_unit_is_charged_as_the_unit_and_the_words_of_a_block_are_too)
{
    uint64_t unit = xh_shadow_test_unit = 65536, words = 2 * unit;
    struct xh_shadow *s = open_shadow(20000 * PAGE); /* of a budget of 1 GiB, so a step of 1 MiB */
    struct { uint64_t idx, more; } row[] = {
        {3, unit + words}, {4, PAGE}, {0, PAGE}, {16, unit}, {31, PAGE}, {8192, unit + words}, {8192 + 16, unit}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        uint64_t had = atomic_load(&s->since_bytes);
        cr_assert_eq(put(s, row[i].idx, 0), XH_CLAIM_MINE);
        cr_expect_eq(atomic_load(&s->since_bytes) - had, row[i].more, "page %d", (int)row[i].idx);
    }
    xh_shadow_close(s);
}

Test(page, metadata_may_displace_metadata_and_claims_in_flight_count)
{
    opt.shadow_budget_bytes = 1u << 20;
    struct xh_shadow *s = open_shadow(4000 * PAGE);
    for (uint64_t i = 0; i < 2000; i++)
        cr_assert_eq(put(s, i, 1), XH_CLAIM_MINE);
    cr_expect_eq(put(s, 3000, 0), XH_CLAIM_MINE, "raw data find some room");
    uint64_t claimed = 0;
    while (xh_shadow_claim(s, 3001 + claimed, 1, NULL) == XH_CLAIM_MINE)
        claimed++;
    cr_expect_leq(claimed, 256);
    cr_expect_geq(claimed, 200);
    xh_shadow_abandon(s, 3001, claimed);
    xh_shadow_close(s);
}

Test(page, abandoned_bytes_are_given_back)
{
    opt.shadow_budget_bytes = 1u << 20;
    struct xh_shadow *s = open_shadow(4000 * PAGE);
    for (uint64_t i = 0; i < 4000; i++) {
        cr_assert_eq(xh_shadow_claim(s, i, 0, NULL), XH_CLAIM_MINE, "page %d", (int)i);
        fill_page(s, i);
        xh_shadow_abandon(s, i, 1);
    }
    cr_expect_leq(xh_budget_measure(s, 1), (1u << 20) + s->step_bytes);
    xh_shadow_close(s);
}

/* A directory that the user named may hold data of the user's own. */
Test(page, other_files_in_the_directory_take_nothing_of_the_budget)
{
    static char bytes[4 << 20];
    char path[300];
    snprintf(path, sizeof path, "%s/data.bin", dir);
    memset(bytes, 1, sizeof bytes);
    mkdir(dir, 0700);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(write(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
    close(fd);
    opt.shadow_budget_bytes = 4u << 20;
    struct xh_shadow *s = open_shadow(4000 * PAGE);
    for (uint64_t i = 0; i < 800; i++)
        put(s, i, 0);
    cr_expect_geq(count_ready(s, 0, 800), 700, "%d", (int)count_ready(s, 0, 800));
    xh_shadow_close(s);
}

Test(page, many_open_shadows_come_to_equal_shares)
{
    enum { FILES = 5, PAGES_EACH = 1000 };
    struct xh_shadow *s[FILES];
    opt.shadow_budget_bytes = 5u << 20;
    for (int f = 0; f < FILES; f++) {
        char validator[] = {(char)('0' + f), '\0'};
        xh_shadow_open(URL, validator, PAGES_EACH * PAGE, &opt, &s[f], NULL);
        for (uint64_t i = 0; i < PAGES_EACH; i++)
            cr_assert_neq(put(s[f], i, 0), XH_CLAIM_NONE, "file %d is shut out", f);
    }
    for (int f = 0; f < FILES; f++) {
        cr_expect_geq(count_ready(s[f], 0, PAGES_EACH) * PAGE, 600u << 10, "file %d", f);
        xh_shadow_close(s[f]);
    }
}

Test(page, private_shadows_of_a_process_share_one_budget)
{
    enum { FILES = 5, PAGES_EACH = 1500 };
    struct xh_shadow *s[FILES];
    struct stat st;
    uint64_t sum = 0;
    opt.shadow = 0;
    opt.private_budget_bytes = 5u << 20;
    for (int f = 0; f < FILES; f++) {
        char validator[] = {(char)('0' + f), '\0'};
        xh_shadow_open(URL, validator, PAGES_EACH * PAGE, &opt, &s[f], NULL);
        cr_assert(xh_shadow_private(s[f]));
        for (uint64_t i = 0; i < PAGES_EACH; i++)
            cr_assert_neq(put(s[f], i, 0), XH_CLAIM_NONE, "file %d is shut out", f);
    }
    for (int f = 0; f < FILES; f++) {
        cr_assert_eq(fstat(s[f]->fd, &st), 0);
        sum += (uint64_t)st.st_blocks * 512;
        cr_expect_geq(count_ready(s[f], 0, PAGES_EACH) * PAGE, 600u << 10, "file %d", f);
    }
    cr_expect_leq(sum, opt.private_budget_bytes + FILES * (s[0]->step_bytes + s[0]->head.data_off), "%llu",
                  (unsigned long long)sum);
    for (int f = 0; f < FILES; f++)
        xh_shadow_close(s[f]);
    xh_shadow_open(URL, "again", PAGES_EACH * PAGE, &opt, &s[0], NULL);
    cr_expect_eq(atomic_load(&s[0]->others_bytes), 0, "what the others had is free");
    xh_shadow_close(s[0]);
}

/* Fills a file of its own, or one with the others, as fast as it can; then the next. */
static void fill_at_once(int who, int together, _Atomic int *go)
{
    char validator[] = "v0";
    struct xh_shadow *s = NULL;
    validator[1] = (char)('0' + (together ? 0 : who));
    xh_shadow_open(URL, validator, 30000 * PAGE, &opt, &s, NULL);
    atomic_fetch_add(go, 1);
    while (atomic_load(go) < 4)
        ;
    for (uint64_t i = 0; i < 8000; i++)
        put(s, (uint64_t)(together ? who : 0) * 7000 + i, i % 64 == 0);
    atomic_fetch_add(go, 1);
    xh_shadow_close(s);
    _exit(0);
}

static void budget_holds_at_once(int together)
{
    pid_t pids[4];
    _Atomic int *go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t most = 0, used;
    opt.shadow_budget_bytes = 8u << 20;
    int dirfd = xh_directory_open(&opt, 1);
    for (int i = 0; i < 4; i++)
        if ((pids[i] = fork()) == 0)
            fill_at_once(i, together, go);
    while (atomic_load(go) < 8) {
        used = xh_budget_used(dirfd, 0, 0);
        most = used > most ? used : most;
    }
    for (int i = 0; i < 4; i++)
        waitpid(pids[i], NULL, 0);
    close(dirfd);
    /* 4 x 5 x step_bytes are 1.25 MiB; what slow and busy machines need beside */
    cr_expect_leq(most, opt.shadow_budget_bytes * 3 / 2, "%d KiB", (int)(most >> 10));
    cr_expect_geq(most, opt.shadow_budget_bytes / 2, "%d KiB", (int)(most >> 10));
}

Test(page, the_budget_holds_for_processes_that_fill_one_file_at_once)
{
    budget_holds_at_once(1);
}

Test(page, the_budget_holds_for_processes_that_fill_files_of_their_own_at_once)
{
    budget_holds_at_once(0);
}

static unsigned mode_of(const char *file)
{
    char path[400];
    struct stat st;
    snprintf(path, sizeof path, "%s%s", dir, file);
    return stat(path, &st) == 0 ? st.st_mode & 0777 : 07777;
}

Test(page, a_umask_that_takes_rights_from_the_user_leaves_directories_and_files_usable)
{
    mode_t before = umask(0777);
    int dirfd = xh_directory_open(&opt, 1);
    int common = xh_directory_common(dirfd, "turns");
    umask(before);
    cr_assert(dirfd >= 0 && common >= 0);
    cr_expect_eq(mode_of(""), 0700, "%o", mode_of(""));
    cr_expect_eq(mode_of("/" XH_LAYOUT_DIR), 0700, "%o", mode_of("/" XH_LAYOUT_DIR));
    cr_expect_eq(mode_of("/" XH_LAYOUT_DIR "/turns"), 0600, "%o", mode_of("/" XH_LAYOUT_DIR "/turns"));
    close(dirfd);
    close(common);
    chmod(opt.shadow_dir, 0600); /* as an older version left it */
    dirfd = xh_directory_open(&opt, 1);
    cr_expect(dirfd >= 0);
    cr_expect_eq(mode_of(""), 0700, "%o", mode_of(""));
    close(dirfd);
}

static struct xh_shadow *open_named(const char *validator)
{
    struct xh_shadow *s = NULL;
    xh_shadow_open(URL, validator, 1000 * PAGE, &opt, &s, NULL);
    return s;
}

static int there(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, name);
    return access(path, F_OK) == 0;
}

Test(page, shadows_that_nobody_has_open_go_first_oldest_use_first)
{
    char names[3][XH_NAME_BYTES], path[300];
    opt.shadow_budget_bytes = 3u << 20;
    for (int i = 0; i < 3; i++) {
        struct xh_shadow *s = open_named((const char *[]){"old", "young", "open"}[i]);
        strcpy(names[i], s->name);
        for (uint64_t p = 0; p < 180; p++)
            put(s, p, 0);
        snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
        if (i < 2)
            xh_shadow_close(s);
        struct timespec t[2] = {{.tv_sec = 1000 * (3 - i)}, {.tv_sec = i == 0 ? 1000 : 2000}};
        utimensat(AT_FDCWD, path, t, 0);
    }
    struct xh_shadow *mine = open_named("mine");
    for (uint64_t p = 0; there(names[0]); p++)
        cr_assert_eq(put(mine, p, 0), XH_CLAIM_MINE);
    cr_expect(there(names[1]), "the younger one stays as long as the older one is enough");
    for (uint64_t p = 0; p < 1000; p++)
        put(mine, p, 0);
    cr_expect_not(there(names[1]));
    cr_expect(there(names[2]), "somebody has it open");
    xh_shadow_close(mine);
}

static void use_at(const char *name, time_t at)
{
    char path[300];
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, name);
    struct timespec t[2] = {{.tv_sec = at}, {.tv_sec = at}};
    cr_assert_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

Test(page, what_was_used_by_a_clock_that_was_ahead_is_not_kept_before_all_others)
{
    char names[2][XH_NAME_BYTES], temp[XH_NAME_BYTES];
    time_t now = time(NULL);
    opt.shadow_budget_bytes = 3u << 20;
    for (int i = 0; i < 2; i++) {
        struct xh_shadow *s = open_named((const char *[]){"of a wrong clock", "of today"}[i]);
        strcpy(names[i], s->name);
        for (uint64_t p = 0; p < 180; p++)
            put(s, p, 0);
        xh_shadow_close(s);
        use_at(names[i], i == 0 ? now + 1000000 : now - 10);
    }
    struct xh_shadow *mine = open_named("mine");
    xh_store_temp_name(temp);
    close(openat(mine->dirfd, temp, O_CREAT | O_RDWR, 0600));
    use_at(temp, now + 1000000);
    for (uint64_t p = 0; p < 1000 && there(names[0]) && there(names[1]); p++)
        put(mine, p, 0);
    cr_expect_not(there(names[0]));
    cr_expect(there(names[1]), "it was used ten seconds ago");
    cr_expect_not(there(temp), "nobody builds for days");
    xh_shadow_close(mine);
}

/* ---- other layouts ---- */

/* As a version of the library with another layout leaves it, or has it: a file |place|/s-… of 1 MiB in use until the
 * descriptor is
 * closed. Its first bytes are what that layout has there. */
static int of_another_layout(const char *place, int digit, char path[300])
{
    char bytes[4096] = "XHSHADOW\x07";
    snprintf(path, 300, "%s/%s", dir, place);
    mkdir(path, 0700);
    snprintf(path + strlen(path), 300 - strlen(path), "/s-%064d", digit);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 256; i++)
        cr_assert_eq(write(fd, bytes, sizeof bytes), (ssize_t)sizeof bytes);
    cr_assert_eq(xh_store_lock(fd, F_RDLCK, XH_LOCK_OPEN), 0);
    return fd;
}

Test(page, shadows_of_another_layout_are_left_alone_while_they_are_used)
{
    char flat[300], next[300];
    struct stat st;
    struct xh_shadow *s = open_shadow(1000 * PAGE);
    cr_assert_not(xh_shadow_private(s));
    snprintf(flat, sizeof flat, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
    cr_expect_eq(stat(flat, &st), 0, "where the layout says");
    xh_shadow_close(s);
    /* Of the same name, in the directory and in that of the next layout: as it was when they had one name. */
    int old = of_another_layout(".", 1, flat), new = of_another_layout("v999", 1, next);
    opt.shadow_budget_bytes = 4u << 20;
    s = open_shadow(1000 * PAGE);
    uint64_t others = xh_budget_used(s->dirfd, 0, 0);
    cr_expect_geq(others, 2u << 20, "they count: %llu", (unsigned long long)others);
    for (uint64_t i = 0; i < 1000; i++)
        put(s, i, 0);
    fstat(s->fd, &st);
    cr_expect_leq(st.st_blocks * 512, (2 << 20) + 3 * (long)s->step_bytes, "what they take is not there to be had");
    cr_expect(access(flat, F_OK) == 0 && access(next, F_OK) == 0);
    /* Nobody has them any more. */
    close(old);
    close(new);
    for (int k = 0; k < 3; k++, atomic_store(&s->retry_at_ns, 0))
        for (uint64_t i = 0; i < 1000; i++)
            put(s, i, 0);
    cr_expect(access(flat, F_OK) != 0 && access(next, F_OK) != 0);
    snprintf(next, sizeof next, "%s/v999", dir);
    cr_expect_neq(access(next, F_OK), 0, "nor its directory");
    cr_expect_eq(access(dir, F_OK), 0);
    xh_shadow_close(s);
}

Test(page, a_directory_of_another_layout_that_is_used_stays)
{
    char next[300];
    struct xh_shadow *s = open_shadow(10 * PAGE);
    close(of_another_layout("v7", 1, next));
    cr_expect_eq(unlink(next), 0);
    snprintf(next, sizeof next, "%s/v7", dir);
    int use = open(next, O_RDONLY | O_DIRECTORY);
    cr_assert_eq(flock(use, LOCK_SH), 0); /* as xh_directory_open does */
    xh_directory_tidy(s->dirfd, 0);
    cr_expect_eq(access(next, F_OK), 0);
    close(use);
    xh_directory_tidy(s->dirfd, 0);
    cr_expect_neq(access(next, F_OK), 0);
    /* What is ours is used for as long as a shadow is open. */
    snprintf(next, sizeof next, "%s/" XH_LAYOUT_DIR, dir);
    use = open(next, O_RDONLY | O_DIRECTORY);
    cr_expect_lt(flock(use, LOCK_EX | LOCK_NB), 0);
    xh_shadow_close(s);
    cr_expect_eq(flock(use, LOCK_EX | LOCK_NB), 0);
    close(use);
}

/* A directory that the user named may hold others of the user's own. */
Test(page, what_is_no_layouts_is_not_removed)
{
    const char *names[] = {"data.h5", "t-measured", "u-boat", "n-1", "turns.txt"};
    char path[300], next[300];
    struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct xh_shadow *s = open_shadow(1000 * PAGE);
    close(of_another_layout("v1", 1, next)); /* some other version left a shadow there */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/v1/%s", dir, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
        cr_assert_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
    }
    cr_expect_gt(xh_evict_squeeze(s, 1 << 20, 0, NULL), 0);
    cr_expect_neq(access(next, F_OK), 0, "nobody had it open");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/v1/%s", dir, names[i]);
        cr_expect_eq(access(path, F_OK), 0, "%s", names[i]);
    }
    xh_shadow_close(s);
}

Test(page, the_automatic_budget_is_bounded_by_free_space_and_memory)
{
    opt.shadow_budget_bytes = 0;
    struct xh_shadow *s = open_shadow(100 * PAGE);
    if (xh_shadow_private(s))
        cr_skip_test("less than 8 MiB of tmpfs here");
    struct xh_shadow *again;
    cr_expect_gt(s->budget_bytes, 0);
    cr_expect_lt(s->budget_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4);
    again = open_shadow(100 * PAGE);
    xh_shadow_close(again);
    xh_shadow_close(s);
    opt.shadow = 0;
    opt.private_budget_bytes = UINT64_MAX;
    s = open_shadow(100 * PAGE);
    cr_expect_leq(s->budget_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 4);
    xh_shadow_close(s);
}

/* ---- hints ---------------------------------------------------------------------------------- */

Test(page, a_hint_comes_back_while_its_shadow_is_there)
{
    char hint[XH_HINT_BYTES], path[300];
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    xh_shadow_hint_save(s, "first");
    xh_shadow_hint_save(s, "size=1 etag=\"x\"\nsecond line");
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), strlen("size=1 etag=\"x\"\nsecond line"));
    cr_expect_str_eq(hint, "size=1 etag=\"x\"\nsecond line");
    cr_expect_eq(xh_shadow_hint_load("https://h.example/other", &opt, hint), 0);
    char big[XH_HINT_BYTES + 1];
    memset(big, 'x', XH_HINT_BYTES);
    big[XH_HINT_BYTES] = '\0';
    xh_shadow_hint_save(s, big); /* too long: the one before, of the same version, stays */
    cr_expect_str_eq((xh_shadow_hint_load(URL, &opt, hint), hint), "size=1 etag=\"x\"\nsecond line");
    struct xh_shadow *newer = open_named("etag:\"newer\"");
    xh_shadow_hint_save(newer, big); /* of another version: none, rather than the older one, to be read offline */
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
    xh_shadow_close(newer);
    big[XH_HINT_BYTES - 1] = '\0';
    xh_shadow_hint_save(s, "third");
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 5);
    xh_shadow_hint_forget("https://h.example/other", &opt);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 5);
    xh_shadow_hint_forget(URL, &opt);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
    xh_shadow_hint_save(s, big);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), XH_HINT_BYTES - 1);
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
    xh_shadow_close(s);
    unlink(path);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
}

/* Where no hint can be stored, the one that is there is looked at: nothing of it may make the process wait. */
Test(page, what_is_no_file_in_a_hints_place_delays_nobody, .timeout = 30)
{
    char hint[XH_HINT_BYTES], path[300], big[XH_HINT_BYTES + 1];
    memset(big, 'x', XH_HINT_BYTES);
    big[XH_HINT_BYTES] = '\0';
    struct xh_shadow *s = open_shadow(100 * PAGE);
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/u-%s", dir, s->url_hex);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
    xh_shadow_hint_save(s, big); /* too long, as one is that a full tmpfs does not take */
    cr_expect_lt(access(path, F_OK), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    xh_shadow_hint_save(s, "a hint");
    cr_expect_eq(xh_shadow_hint_load(URL, &opt, hint), 6);
    xh_shadow_close(s);
}

Test(page, a_damaged_hint_is_none)
{
    char hint[XH_HINT_BYTES], path[300];
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint32_t seed = 5;
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/u-%s", dir, s->url_hex);
    for (int i = 0; i < 300; i++) {
        xh_shadow_hint_save(s, "text");
        int fd = open(path, O_RDWR);
        uint8_t b = (uint8_t)rnd(&seed);
        (void)!pwrite(fd, &b, 1, rnd(&seed) % 79);
        if (i % 5 == 0)
            (void)!ftruncate(fd, rnd(&seed) % 79);
        close(fd);
        size_t n = xh_shadow_hint_load(URL, &opt, hint);
        cr_assert(n == 0 || (n == 4 && strcmp(hint, "text") == 0));
    }
    xh_shadow_close(s);
}

/* ---- those who are at it together ------------------------------------------------------------ */

Test(page, readers_and_what_others_have_claimed_are_seen)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_assert_eq(xh_shadow_readers(s), 1);
    pid_t first = stand(claim_5_to_9, NULL), second = stand(open_only, NULL);
    cr_assert_eq(xh_shadow_claim(s, 20, 0, NULL), XH_CLAIM_MINE);
    cr_assert_eq(xh_shadow_readers(s), 2, "who has asked for nothing yet is not counted");
    cr_assert(xh_shadow_elsewhere(s, 5));
    cr_assert_not(xh_shadow_elsewhere(s, 20));
    cr_assert_not(xh_shadow_elsewhere(s, 40));
    end(first);
    end(second);
    cr_assert_eq(xh_shadow_readers(s), 1);
    xh_shadow_close(s);
}

/* Fetches another file than its parent's, again and again. */
static void fetch_another(const char *name)
{
    struct xh_shadow *s = NULL;
    alarm(LASTS_S);
    if (xh_shadow_open(name, "etag:\"1\"", 10 * PAGE, &opt, &s, NULL) != 0)
        _exit(1);
    for (;; sched_yield())
        xh_shadow_busy(s);
}

/* Counts until |n| are seen, and no more than these on the way. */
static void count_until(struct xh_shadow *s, unsigned n, unsigned most)
{
    unsigned now;
    while ((now = xh_shadow_busy(s)) != n) {
        cr_assert_leq(now, most);
        sched_yield();
    }
}

Test(page, who_fetches_whatever_file_is_counted, .timeout = 60)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    pid_t pids[2];
    cr_assert_eq(xh_shadow_busy(s), 1);
    for (int i = 0; i < 2; i++)
        if ((pids[i] = fork()) == 0)
            fetch_another(i ? URL "/another" : URL "/third");
    count_until(s, 3, 3);
    uint64_t begun = xh_now_ns();
    kill(pids[0], SIGSTOP);
    count_until(s, 2, 3);
    end(pids[0]);
    end(pids[1]);
    count_until(s, 1, 2);
    cr_assert_lt(xh_now_ns() - begun, 30000000000, "who stands still is not counted for long");
    xh_shadow_close(s);
}

Test(page, a_process_that_is_noted_after_the_look_at_the_clock_is_counted)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    char path[200];
    uint64_t other[2] = {xh_now_ns() + 1000000000, 77}; /* written after the look at the clock */
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/busy", dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, other, sizeof other, 5 * sizeof other), sizeof other);
    cr_expect_eq(xh_shadow_busy(s), 2);
    other[0] = UINT64_MAX; /* scribbled over */
    cr_assert_eq(pwrite(fd, other, sizeof other, 5 * sizeof other), sizeof other);
    close(fd);
    count_until(s, 1, 2);
    xh_shadow_close(s);
}

static int wait_for_turn(void *pipe_end)
{
    struct xh_turn t;
    int *fd = pipe_end;
    if (fork() == 0) { /* the one that waits: its parent says so at once */
        (void)!write(*fd, "w", 1);
        xh_shadow_turn("a name", &opt, 20000, &t);
        _exit(0);
    }
    return 0;
}

Test(page, whoever_waits_for_a_turn_is_seen)
{
    struct xh_turn mine, other;
    int p[2];
    char c;
    cr_assert_eq(pipe(p), 0);
    cr_assert_eq(xh_shadow_turn("a name", &opt, 1000, &mine), 0);
    cr_assert_eq(xh_shadow_turn("another", &opt, 1000, &other), 0);
    cr_assert_not(xh_shadow_turn_awaited(&mine));
    pid_t pid = stand(wait_for_turn, &p[1]);
    cr_assert_eq(read(p[0], &c, 1), 1);
    while (!xh_shadow_turn_awaited(&mine))
        sched_yield();
    cr_assert_not(xh_shadow_turn_awaited(&other));
    xh_shadow_turn_over(&mine);
    xh_shadow_turn_over(&other);
    end(pid);
}

static int take_a_turn(void *unused)
{
    struct xh_turn t;
    (void)unused;
    xh_shadow_turn("a name", &opt, 1000, &t);
    return t.fd < 0;
}

/* Waits for a turn for |most_ms| at most. Returns how long it took, in ms. */
static uint64_t turn_taking(const char *name, unsigned most_ms, struct xh_turn *t)
{
    uint64_t begun = xh_now_ns();
    xh_shadow_turn(name, &opt, most_ms, t);
    return (xh_now_ns() - begun) / 1000000;
}

Test(page, a_turn_whose_holder_is_suspended_is_waited_for_once_and_not_by_each_process)
{
    struct xh_turn t;
    for (int round = 0; round < 2; round++) {
        pid_t pid = stand(take_a_turn, NULL);
        cr_assert_eq(kill(pid, SIGSTOP), 0);
        uint64_t first = turn_taking("a name", 300, &t), second = t.fd < 0 ? turn_taking("a name", 16000, &t) : 0;
        end(pid); /* before anything fails: the runner would wait for it */
        cr_assert_geq(first, 300);
        cr_assert_lt(t.fd, 0);
        cr_assert_lt(second, 8000, "another has waited for it in vain");
        turn_taking("a name", 10000, &t); /* and the next one waits again */
        cr_assert_geq(t.fd, 0);
        xh_shadow_turn_over(&t);
    }
}

/* ---- claims for later ---- */

static int claim_10_to_19_for_later(void *unused)
{
    (void)unused;
    struct xh_shadow *s = open_shadow(100 * PAGE);
    for (uint64_t i = 10; i < 20; i++)
        if (xh_shadow_claim_later(s, i, 0, 0, NULL) != XH_CLAIM_MINE)
            return -1;
    return !xh_shadow_begin(s, 10);
}

Test(page, a_claim_for_later_is_taken_until_it_is_begun)
{
    struct xh_later later;
    pid_t pid = stand(claim_10_to_19_for_later, NULL);
    struct xh_shadow *s = open_shadow(100 * PAGE);
    cr_expect_not(xh_shadow_is_later(s, 10), "begun");
    cr_expect_not(xh_shadow_is_later(s, 20));
    xh_shadow_look_later(s, 15, &later);
    cr_expect(later.first == 11 && later.all == 9, "%llu %llu", (unsigned long long)later.first,
              (unsigned long long)later.all);
    cr_expect_eq(xh_shadow_claim(s, 15, 0, NULL), XH_CLAIM_BUSY);
    cr_expect_eq(xh_shadow_claim_later(s, 15, 0, 0, NULL), XH_CLAIM_BUSY);
    cr_expect_eq(xh_shadow_claim_later(s, 10, 0, 1, NULL), XH_CLAIM_BUSY, "its bytes may be half there");
    cr_assert_eq(xh_shadow_claim_later(s, 15, 0, 1, NULL), XH_CLAIM_MINE, "the owner is alive");
    xh_shadow_look_later(s, 15, &later);
    cr_expect(later.first == 11 && later.all == 9, "ours now, and not begun");
    cr_assert(xh_shadow_begin(s, 15));
    xh_shadow_look_later(s, 16, &later);
    cr_expect(later.first == 16 && later.all == 8);
    cr_expect_eq(fill_page(s, 15), 0);
    xh_shadow_publish(s, 15, 1, NULL);
    cr_expect(has(s, 15));
    cr_expect_eq(atomic_load(&s->inflight), 0);
    end(pid);
    cr_expect_eq(xh_shadow_wait(s, 16, 5000, NULL), 0, "a dead owner's are as any other claims");
    cr_expect_eq(put(s, 16, 0), XH_CLAIM_MINE);
    xh_shadow_close(s);
}

/* The linker redirects here (meson.build): what another process does between the look at a page's state and the
 * change. */
static void (*meanwhile)(void);

int __real_xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                          uint32_t owner, uint64_t flags, uint64_t keep);
int __wrap_xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                          uint32_t owner, uint64_t flags, uint64_t keep);
int __wrap_xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                          uint32_t owner, uint64_t flags, uint64_t keep)
{
    void (*other)(void) = meanwhile;
    meanwhile = NULL;
    if (other)
        other();
    return __real_xh_page_change(s, idx, old, mask, state, owner, flags, keep);
}

static int to_owner[2], from_owner[2];

static void say(int fd, int ok)
{
    char c = (char)ok;
    cr_assert_eq(write(fd, &c, 1), 1);
}

static int hear(int fd)
{
    char ok = 0;
    cr_assert_eq(read(fd, &ok, 1), 1);
    return ok;
}

static void owner_begins(void)
{
    say(to_owner[1], 1);
    cr_assert(hear(from_owner[0]), "begun");
}

Test(page, a_claim_that_is_begun_in_the_moment_in_which_it_is_taken_stays_its_owners)
{
    cr_assert(pipe(to_owner) == 0 && pipe(from_owner) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LASTS_S);
        struct xh_shadow *s = open_shadow(10 * PAGE);
        say(from_owner[1], xh_shadow_claim_later(s, 3, 0, 0, NULL) == XH_CLAIM_MINE);
        hear(to_owner[0]);
        say(from_owner[1], xh_shadow_begin(s, 3));
        for (;;)
            pause();
    }
    cr_assert(hear(from_owner[0]), "claimed");
    struct xh_shadow *s = open_shadow(10 * PAGE);
    meanwhile = owner_begins;
    cr_expect_eq(xh_shadow_claim_later(s, 3, 0, 1, NULL), XH_CLAIM_BUSY, "half of its bytes may be there");
    cr_expect_null(meanwhile, "it was not about to be taken");
    cr_expect_eq(atomic_load(&s->inflight), 0);
    end(pid);
    xh_shadow_close(s);
}

/* Takes page 3 and has half of it when it stops. */
static int take_3(void *unused)
{
    (void)unused;
    uint8_t half[PAGE / 2];
    struct xh_shadow *s = open_shadow(10 * PAGE);
    truth_fill(half, 3 * PAGE, sizeof half);
    return xh_shadow_claim_later(s, 3, 0, 1, NULL) != XH_CLAIM_MINE || !xh_shadow_begin(s, 3) ||
           write_half(s, 3, half, sizeof half);
}

Test(page, whose_claim_was_taken_neither_fills_nor_publishes)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    for (uint64_t i = 2; i < 6; i++)
        cr_assert_eq(xh_shadow_claim_later(s, i, 0, 0, NULL), XH_CLAIM_MINE);
    pid_t pid = stand(take_3, NULL);
    cr_expect(xh_shadow_begin(s, 2));
    cr_expect_not(xh_shadow_begin(s, 3));
    cr_expect_eq(fill_page(s, 2), 0);
    xh_shadow_publish(s, 2, 2, NULL);
    xh_shadow_abandon(s, 3, 1);
    xh_shadow_forgo(s, 4, 2);
    cr_expect(has(s, 2) && !has(s, 3));
    cr_expect_eq(xh_shadow_peek(s, 3), XH_CLAIM_BUSY, "the other's");
    cr_expect_eq(xh_shadow_peek(s, 4), XH_CLAIM_MINE, "EMPTY");
    cr_expect_eq(atomic_load(&s->inflight), 0);
    end(pid);
    cr_expect_eq(xh_shadow_wait(s, 3, 5000, NULL), 0);
    cr_expect_eq(put(s, 3, 0), XH_CLAIM_MINE);
    cr_expect(has(s, 3));
    xh_shadow_close(s);
}

static _Atomic pid_t sleeper;

/* Sleeps on page 3 as a waiter does, but does not look by itself now and then: it must be woken. */
static void *sleep_on_page_3(void *arg)
{
    struct xh_shadow *s = arg;
    uint64_t w = atomic_fetch_or(&s->words[3], XH_W_WAITERS) | XH_W_WAITERS;
    atomic_store(&sleeper, (pid_t)syscall(SYS_gettid));
    while (atomic_load(&s->words[3]) == w)
        syscall(SYS_futex, xh_w_futex(&s->words[3]), FUTEX_WAIT, (uint32_t)w, NULL, NULL, 0);
    return NULL;
}

/* 1 once the thread |sleeper| sleeps. */
static int sleeps(void)
{
    char path[64], state = 0;
    pid_t who = atomic_load(&sleeper);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)who);
    FILE *f = who ? fopen(path, "r") : NULL;
    int n = f ? fscanf(f, "%*d (%*[^)]) %c", &state) : 0;
    if (f)
        fclose(f);
    return n == 1 && state == 'S';
}

Test(page, a_waiter_is_woken_when_the_claim_is_taken)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    pthread_t t;
    cr_assert_eq(xh_shadow_claim_later(s, 3, 0, 0, NULL), XH_CLAIM_MINE);
    pthread_create(&t, NULL, sleep_on_page_3, s);
    while (!sleeps())
        sched_yield();
    pid_t pid = stand(take_3, NULL);
    pthread_join(t, NULL);
    end(pid);
    xh_shadow_close(s);
}

Test(page, a_waiter_wakes_when_the_claim_is_taken)
{
    struct xh_shadow *s = open_shadow(10 * PAGE);
    pthread_t t;
    void *rc;
    cr_assert_eq(xh_shadow_claim_later(s, 3, 0, 0, NULL), XH_CLAIM_MINE);
    pthread_create(&t, NULL, wait_for_page_3, s);
    while (!(atomic_load(&s->words[3]) & XH_W_WAITERS))
        sched_yield();
    pid_t pid = stand(take_3, NULL);
    pthread_join(t, &rc);
    cr_expect_eq((intptr_t)rc, 0, "to look again");
    cr_expect_eq(xh_shadow_peek(s, 3), XH_CLAIM_BUSY);
    end(pid);
    xh_shadow_close(s);
}

Test(page, to_look_for_what_is_claimed_for_later_takes_no_memory)
{
    struct xh_shadow *s = open_shadow((uint64_t)300000 * PAGE);
    struct xh_later later;
    struct stat before, after;
    for (uint64_t i = 150000; i < 150010; i++)
        cr_assert_eq(xh_shadow_claim_later(s, i, 0, 0, NULL), XH_CLAIM_MINE);
    cr_assert_eq(xh_shadow_claim_later(s, 299000, 0, 0, NULL), XH_CLAIM_MINE, "too far to count");
    fstat(s->fd, &before);
    xh_shadow_look_later(s, 150007, &later);
    fstat(s->fd, &after);
    cr_expect(later.first == 150000 && later.all == 10);
    cr_expect_eq(after.st_blocks, before.st_blocks);
    xh_shadow_close(s);
}

/* ---- many extents at once ---- */

Test(page, many_extents_agree_with_single_reads)
{
    enum { PAGES = 200, MOST = 300 };
    struct xh_shadow *s = open_shadow((uint64_t)PAGES * PAGE - 1234);
    static uint8_t buf[MOST][3 * PAGE], one[3 * PAGE];
    struct xh_extent e[MOST];
    uint32_t seed = 5;
    for (uint64_t i = 0; i < PAGES; i++)
        if (rnd(&seed) % 50)
            put(s, i, 0);
    for (int round = 0; round < 3000; round++) {
        size_t n = rnd(&seed) % MOST, want = 0;
        uint64_t at = rnd(&seed) % s->head.origin_bytes, most = (uint64_t[]){9, 700, sizeof *buf}[rnd(&seed) % 3];
        for (size_t i = 0; i < n; i++) { /* upwards, now and then elsewhere, over the end too */
            uint64_t len = rnd(&seed) % (rnd(&seed) % 3 ? most : 9);
            at = rnd(&seed) % 200 ? at + rnd(&seed) % (2 * most) : rnd(&seed) % (s->head.origin_bytes + 9);
            e[i] = (struct xh_extent){at, len, buf[i]};
            at += rnd(&seed) % 20 ? len : 0;
        }
        while (want < n && xh_shadow_read(s, e[want].off, one, e[want].len) == e[want].len)
            want++;
        memset(buf, 0, n * sizeof *buf);
        cr_assert_eq(xh_shadow_readv(s, e, n), want, "round %d", round);
        for (size_t i = 0; i < want; i++)
            cr_assert_eq(first_wrong(buf[i], e[i].off, e[i].len), e[i].len, "round %d, extent %zu", round, i);
    }
    xh_shadow_close(s);
}

Test(page, damage_under_a_stride_is_not_given_to_its_reader)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    uint8_t buf[100 * 8];
    struct xh_extent e[100];
    for (uint64_t i = 0; i < 100; i++) {
        put(s, i, 0);
        e[i] = (struct xh_extent){i * PAGE + 80, 8, buf + 8 * i};
    }
    cr_assert_eq(xh_shadow_readv(s, e, 100), 100);
    /* not where it reads */
    cr_assert_eq(pwrite(s->fd, "scribble", 8, (off_t)(s->head.data_off + 50 * PAGE + 3000)), 8);
    size_t n = xh_shadow_readv(s, e, 100);
    cr_expect_leq(n, 50);
    cr_expect_eq(xh_shadow_peek(s, 50), XH_CLAIM_MINE, "to be fetched anew");
    cr_expect_eq(xh_shadow_readv(s, e + 51, 49), 49);
    xh_shadow_close(s);
}

/* System calls that read, of this process so far. */
static long reading_calls(void)
{
    char line[100];
    long n = -1;
    FILE *f = fopen("/proc/self/io", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "syscr: %ld", &n);
    if (f)
        fclose(f);
    return n;
}

Test(page, a_stride_takes_a_system_call_for_many_elements)
{
    enum { PAGES = 320, STEP = 40, N = PAGES * PAGE / STEP };
    struct xh_shadow *s = open_shadow((uint64_t)PAGES * PAGE);
    struct xh_extent *e = malloc(N * sizeof *e);
    uint8_t *buf = malloc(4 * N);
    for (uint64_t i = 0; i < PAGES; i++)
        put(s, i, 0);
    for (uint64_t i = 0; i < N; i++)
        e[i] = (struct xh_extent){i * STEP, 4, buf + 4 * i};
    long before = reading_calls();
    if (before < 0)
        cr_skip_test("no /proc/self/io");
    cr_assert_eq(xh_shadow_readv(s, e, N), N);
    cr_expect_leq(reading_calls() - before, PAGES / 8, "%ld for %d elements", reading_calls() - before, N);
    free(buf);
    free(e);
    xh_shadow_close(s);
}

/* ---- cost ----------------------------------------------------------------------------------- */

Test(page, a_hit_is_cheap)
{
    enum { PAGES = 8192, HITS = 40000 };
    struct xh_shadow *s = open_shadow((uint64_t)PAGES * PAGE);
    static uint8_t buf[1 << 20];
    struct timespec a, b;
    uint32_t seed = 3;
    for (uint64_t i = 0; i < PAGES; i++)
        put(s, i, 0);
    for (int k = 0; k < 3; k++) {
        size_t len = (size_t[]){64, PAGE, sizeof buf}[k];
        int hits = k == 2 ? HITS / 200 : HITS;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < hits; i++)
            cr_assert_eq(xh_shadow_read(s, (uint64_t)(rnd(&seed) % (PAGES - 256)) * PAGE, buf, len), len);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / hits;
        fprintf(stderr, "# hit of %zu bytes: %.0f ns, %.2f GB/s\n", len, ns, (double)len / ns);
    }
    xh_shadow_close(s);
}

/* ---- who waits for the origin ---- */

static int wait_for_origin(void *unused)
{
    (void)unused;
    struct xh_shadow *s = open_shadow(100 * PAGE);
    xh_shadow_readers(s); /* takes a slot */
    xh_shadow_waits(s, 1);
    return xh_shadow_other_waits(s); /* itself it does not see */
}

static void sleep_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

Test(page, who_waits_for_the_origin_is_seen_by_others_for_a_while)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    xh_shadow_readers(s);
    cr_expect_eq(xh_shadow_other_waits(s), 0);
    pid_t pid = stand(wait_for_origin, NULL);
    cr_expect_eq(xh_shadow_other_waits(s), 1);
    xh_shadow_waits(s, 0); /* not this one's to take back */
    cr_expect_eq(xh_shadow_other_waits(s), 1);
    sleep_ms(150);
    cr_expect_eq(xh_shadow_other_waits(s), 0, "it has not said so again");
    xh_shadow_waits(s, 1);
    xh_shadow_waits(s, 0);
    cr_expect_eq(atomic_load(&s->live->waiting), 0);
    atomic_store(&s->live->waiting, UINT64_MAX); /* scribbled over */
    cr_expect_eq(xh_shadow_other_waits(s), 0);
    end(pid);
    xh_shadow_close(s);
}

/* ---- who has it open, and who of them walks ---- */

static int be_a_reader(void *unused)
{
    (void)unused;
    struct xh_shadow *s = open_shadow(100 * PAGE);
    return !xh_owner_get(s);
}

Test(page, every_reader_is_counted)
{
    enum { OTHERS = 12 };
    pid_t pid[OTHERS];
    struct xh_shadow *s = open_shadow(100 * PAGE);
    for (unsigned i = 0; i < OTHERS; i++) {
        pid[i] = stand(be_a_reader, NULL);
        cr_assert_eq(xh_shadow_readers(s), i + 2);
    }
    for (unsigned i = 0; i < OTHERS; i++) {
        end(pid[i]);
        cr_assert_eq(xh_shadow_readers(s), OTHERS - i);
    }
    xh_shadow_close(s);
}

/* Makes room in the shadow |of|, which the parent has open, and stays there. */
static int be_a_visitor(void *of)
{
    char name[XH_NAME_BYTES];
    struct xh_shadow *own = NULL, *s = of;
    struct xh_err err = {0};
    memcpy(name, s->name, sizeof name);
    xh_shadow_close(s); /* a fork's child has it open, too */
    if (xh_shadow_open(URL, "etag:\"2\"", 100 * PAGE, &opt, &own, &err) || !(s = xh_shadow_visit(own, name)))
        return 1;
    xh_clock_sweep(s, 50 * PAGE, 0, NULL);
    return 0;
}

/* Else whoever makes room in it would end the streams of its reader. */
Test(page, a_process_that_makes_room_in_a_shadow_is_no_reader_of_it)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    pid_t pid = stand(be_a_visitor, s);
    cr_expect_eq(xh_shadow_shared(s), 0);
    end(pid);
    pid = stand(be_a_reader, NULL);
    cr_expect_eq(xh_shadow_shared(s), 1);
    end(pid);
    xh_shadow_close(s);
}

static int walk_ahead(void *walks)
{
    *(int *)walks = xh_shadow_walks(open_shadow(100 * PAGE), 1);
    return 0;
}

/* What another process is told, when it asks right after this one, which says |busy|, has asked and waited for |ms|. */
static int another_walks(struct xh_shadow *s, int busy, unsigned ms)
{
    int *walks = mmap(NULL, sizeof *walks, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(walks, MAP_FAILED);
    uint64_t begun = xh_now_ns();
    do {
        cr_expect_eq(xh_shadow_walks(s, busy), 1);
        sleep_ms(ms < 50 ? ms : 50);
    } while (xh_now_ns() - begun < ms * 1000000u);
    end(stand(walk_ahead, walks));
    int result = *walks;
    munmap(walks, sizeof *walks);
    return result;
}

Test(page, one_process_walks_for_all, .timeout = 60)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    int others = 1;
    /* where it takes the other one a while to begin, it asks too late */
    for (int tries = 0; others && tries < 10; tries++) {
        sleep_ms(350);
        others = another_walks(s, 1, 0);
    }
    cr_expect_eq(others, 0);
    sleep_ms(350);
    others = 1;
    for (int tries = 0; others && tries < 10; tries++) {
        sleep_ms(350);
        others = another_walks(s, 1, 500);
    }
    cr_expect_eq(others, 0, "as long as it is busy it says so");
    sleep_ms(350);
    cr_expect_eq(xh_shadow_walks(s, 1), 1);
    uint64_t another = (xh_owner_slot(atomic_load(&s->owner)) + 1) % XH_SLOTS;
    atomic_store(&s->live->walking, (xh_now_ns() / 1000000 + 290) * XH_SLOTS + another); /* since this one looked */
    cr_expect_eq(xh_shadow_walks(s, 1), 0);
    atomic_store(&s->live->walking, UINT64_MAX); /* scribbled over */
    cr_expect_eq(xh_shadow_walks(s, 1), 1);
    xh_shadow_close(s);
}

Test(page, who_has_nothing_on_its_way_leaves_the_walk_to_others, .timeout = 60)
{
    struct xh_shadow *s = open_shadow(100 * PAGE);
    int others = 0;
    /* its word was just said anew at some moments: not at all of them */
    for (int tries = 0; !others && tries < 10; tries++) {
        sleep_ms(350);
        others = another_walks(s, 0, 200 + 17 * (unsigned)tries);
    }
    cr_expect_eq(others, 1);
    xh_shadow_close(s);
}
