/* A process that dies at any system call of the shadow, before it, after it, or half way through
 * a write, leaves a shadow that the next process opens, finds no wrong byte in, and completes.
 *
 *   crash_shadow [FIRST [STRIDE]]
 *
 * The scenario (create two shadows, claim, fill, publish, abandon, evict, drop, save a hint,
 * reopen) runs in a child that is killed at step FIRST, at step FIRST + STRIDE, … until it comes to its end.
 * After each death another process checks and completes what is there; every second time one that
 * does so dies of it first, at any step of its own. Every fourth time an older crash's traces are there too. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shadow/budget.h"
#include "shadow/impl.h"
#include "steps.h"

enum { PAGES = 700, GROUP = 8, HEIR_STEPS = 4000 };
#define PAGE XH_PAGE_BYTES

static struct xh_options opt;
static char dir[64];

/* ---- scenario ------------------------------------------------------------------------------- */

static uint8_t truth(uint64_t off)
{
    uint64_t x = (off >> 3) * 0x9e3779b97f4a7c15ull + 1;
    return (uint8_t)((x ^ x >> 29) >> (off & 7) * 8) | 1;
}

static struct xh_shadow *open_one(const char *validator)
{
    struct xh_shadow *s = NULL;
    if (xh_shadow_open("https://h/f.h5", validator, (uint64_t)PAGES * PAGE, &opt, &s, NULL) < 0)
        abort();
    return s;
}

static int fill(struct xh_shadow *s, uint64_t first, uint64_t n)
{
    uint8_t buf[GROUP * PAGE];
    for (size_t i = 0; i < n * PAGE; i++)
        buf[i] = truth(first * PAGE + i);
    return xh_shadow_fill(s, first * PAGE, buf, n * PAGE);
}

static void scenario(void)
{
    struct xh_shadow *old = open_one("old");
    for (uint64_t i = 0; i < 16 && xh_shadow_claim(old, i, 1, NULL) == XH_CLAIM_MINE; i++)
        ;
    fill(old, 0, GROUP);
    xh_shadow_publish(old, 0, GROUP, NULL);
    xh_shadow_abandon(old, GROUP, GROUP);
    xh_shadow_close(old);

    struct xh_shadow *s = open_one("new");
    xh_shadow_hint_save(s, "hint");
    for (uint64_t i = 0; i + GROUP <= PAGES; i += GROUP) {
        uint64_t n = 0;
        if (i % 48 == 8) { /* for later: one is forgone, the others are begun */
            while (n < GROUP && xh_shadow_claim_later(s, i + n, 0, 1, NULL) == XH_CLAIM_MINE)
                n++;
            for (uint64_t k = i; k + 1 < i + n && xh_shadow_begin(s, k); k++)
                if (fill(s, k, 1) == 0)
                    xh_shadow_publish(s, k, 1, NULL);
            if (n)
                xh_shadow_forgo(s, i + n - 1, 1);
            continue;
        }
        while (n < GROUP && xh_shadow_claim(s, i + n, i % 64 == 0, NULL) == XH_CLAIM_MINE)
            n++;
        if (n && fill(s, i, n) == 0 && i % 40 != 0)
            xh_shadow_publish(s, i, n, NULL);
        else if (n)
            xh_shadow_abandon(s, i, n);
    }
    xh_shadow_close(s);
    s = open_one("new");
    xh_shadow_close(s);
}

/* ---- heirs ---------------------------------------------------------------------------------- */

static int complain(long at, const char *what, uint64_t idx)
{
    fprintf(stderr, "crash_shadow: after step %ld: %s (page %llu)\n", at, what, (unsigned long long)idx);
    return 1;
}

/* Completes the shadow page by page. Returns 0 when all was right. */
static int inherit(long at, const char *validator)
{
    struct xh_shadow *s = open_one(validator);
    uint8_t buf[PAGE];
    int bad = xh_shadow_private(s) ? complain(at, "private", 0) : 0;
    for (uint64_t i = 0; i < PAGES && !bad; i++) {
        enum xh_claim cl;
        for (int tries = 0; (cl = xh_shadow_claim(s, i, 0, NULL)) == XH_CLAIM_BUSY && !bad; tries++)
            if (tries > 2 || xh_shadow_wait(s, i, 5000, NULL) < 0)
                bad = complain(at, "stuck", i);
        if (cl == XH_CLAIM_NONE)
            bad = complain(at, "no room", i);
        if (cl == XH_CLAIM_MINE && fill(s, i, 1) == 0)
            xh_shadow_publish(s, i, 1, NULL);
        if (xh_shadow_read(s, i * PAGE, buf, PAGE) != PAGE)
            bad = complain(at, "cannot be read", i);
        for (size_t k = 0; k < PAGE && !bad; k++)
            if (buf[k] != truth(i * PAGE + k))
                bad = complain(at, "wrong byte", i);
    }
    char hint[XH_HINT_BYTES];
    size_t n = xh_shadow_hint_load("https://h/f.h5", &opt, hint);
    if (n && strcmp(hint, "hint") != 0)
        bad = complain(at, "wrong hint", 0);
    if (xh_budget_measure(s, 1) > opt.shadow_budget_bytes + 2 * s->step_bytes)
        bad = complain(at, "over budget", xh_budget_measure(s, 1) / PAGE);
    xh_shadow_close(s);
    return bad;
}

/* Runs the scenario or an heir, which dies at step |dies|, unless there are fewer. Returns its wait status. */
static int in_child(long at, int heir, long dies)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        steps_left = dies;
        if (heir)
            _exit(inherit(at, "new") | inherit(at, "old"));
        scenario();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    long first = argc > 1 ? atol(argv[1]) : 1, stride = argc > 2 ? atol(argv[2]) : 1, at, deaths = 0, heirs = 0;
    int bad = 0, status = 0;
    if (first < 1 || stride < 1)
        return 2;
    char clean[100];
    snprintf(dir, sizeof dir, "/dev/shm/crash-shadow-%d", (int)getpid());
    snprintf(clean, sizeof clean, "rm -rf '%s'", dir);
    xh_options_defaults(&opt);
    strcpy(opt.shadow_dir, dir);
    opt.shadow_budget_bytes = 1u << 20;
    for (at = first;; at += stride, deaths++) {
        if (deaths % 4 != 0) /* else the heir finds an older crash's traces too */
            (void)!system(clean);
        status = in_child(at, 0, at);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            bad += complain(at, "the scenario itself failed", (uint64_t)status);
        if (deaths % 2) {
            status = in_child(at, 1, 1 + at * 7919 % HEIR_STEPS);
            if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
                bad += complain(at, "the heir that was to die failed", (uint64_t)status);
            heirs += WIFSIGNALED(status);
        }
        status = in_child(at, 1, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bad += complain(at, "the heir failed", (uint64_t)status);
    }
    (void)!system(clean);
    printf("deaths %ld of %ld steps, and of %ld heirs, failures %d\n", deaths, at, heirs, bad);
    return bad != 0;
}
