/* The account of an open file, with a clock of its own: its sums are the wall time. And the advice for constructed
 * facts. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch/account.h"
#include "cache.h"
#include "base/now.h"
#include "shadow/shadow.h"

#define MS 1000000u
#define MB 1000000u

static uint64_t clock_ns = 1000;

uint64_t xh_now_ns(void)
{
    return clock_ns;
}

static uint64_t sum(const struct xh_account *a)
{
    uint64_t s = 0;
    for (int d = 0; d < XH_DOINGS; d++)
        s += a->spent_ns[d];
    return s;
}

Test(account, of_one_thread_each_moment_is_where_it_was)
{
    struct xh_account a = {0};
    xh_account_init(&a, 1);
    uint64_t read = xh_account_enter(&a, XH_COPYING);
    clock_ns += 3;
    uint64_t wait = xh_account_enter(&a, XH_NETWORK);
    clock_ns += 50;
    cr_assert_eq(xh_account_leave(&a, XH_NETWORK, wait), 50);
    clock_ns += 2;
    wait = xh_account_enter(&a, XH_OTHERS);
    clock_ns += 20;
    xh_account_leave(&a, XH_OTHERS, wait);
    cr_assert_eq(xh_account_leave(&a, XH_COPYING, read), 75);
    clock_ns += 100;
    read = xh_account_enter(&a, XH_COPYING);
    xh_account_leave(&a, XH_COPYING, read);
    cr_assert_eq(a.spent_ns[XH_COPYING], 5);
    cr_assert_eq(a.spent_ns[XH_NETWORK], 50);
    cr_assert_eq(a.spent_ns[XH_OTHERS], 20);
    cr_assert_eq(a.spent_ns[XH_OUTSIDE], 100);
}

Test(account, a_part_that_cannot_be_opened_leaves_nothing_running)
{
    struct xh_account a = {0};
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    xh_options_defaults(&o);
    snprintf(o.sidecar, sizeof o.sidecar, "off");
    xh_account_init(&a, 1);
    cr_assert_lt(xh_cache_open_part("https://", &o, &a, &f, &err), 0);
    for (int d = 0; d < XH_DOINGS; d++)
        cr_assert_eq(a.threads[d], 0, "%d", d);
    clock_ns += 100;
    uint64_t read = xh_account_enter(&a, XH_COPYING);
    xh_account_leave(&a, XH_COPYING, read);
    cr_assert_eq(a.spent_ns[XH_OUTSIDE], 100, "what follows is the application's");
}

Test(account, a_child_counts_nothing_of_what_its_parent_s_parts_had)
{
    struct xh_account a = {0};
    struct xh_stats part = {.bytes_asked = 70, .requests = 3}, now = {.bytes_asked = 5};
    xh_account_init(&a, 1);
    xh_account_add(&a, &part, &(struct xh_facts){.size = 9});
    xh_account_enter(&a, XH_COPYING); /* by a thread that the child has not */
    pthread_mutex_lock(&a.lock);
    xh_account_forked(&a, &now);
    cr_assert_eq(a.threads[XH_COPYING], 0);
    cr_assert_eq(a.ended.bytes_asked, 70, "a total never falls");
    cr_assert_eq(a.before.bytes_asked, 75);
    cr_assert_eq(a.before.requests, 3);
    cr_assert_eq(a.known.size, 9);
}

Test(account, of_several_threads_each_moment_counts_once_for_the_copying_before_the_waiting)
{
    struct xh_account a = {0};
    xh_account_init(&a, 1);
    xh_account_enter(&a, XH_COPYING);
    xh_account_enter(&a, XH_NETWORK);
    clock_ns += 10; /* one waits */
    xh_account_enter(&a, XH_COPYING);
    clock_ns += 7; /* another copies */
    xh_account_enter(&a, XH_OTHERS);
    clock_ns += 5; /* both wait */
    xh_account_leave(&a, XH_NETWORK, 1);
    xh_account_leave(&a, XH_COPYING, 1);
    clock_ns += 4; /* the other one still does */
    xh_account_leave(&a, XH_OTHERS, 1);
    xh_account_leave(&a, XH_COPYING, 1);
    clock_ns += 1;
    xh_account_enter(&a, XH_COPYING);
    cr_assert_eq(a.spent_ns[XH_NETWORK], 15);
    cr_assert_eq(a.spent_ns[XH_COPYING], 7);
    cr_assert_eq(a.spent_ns[XH_OTHERS], 4);
    cr_assert_eq(a.spent_ns[XH_OUTSIDE], 1);
}

Test(account, at_random_the_sums_are_the_wall_time)
{
    struct xh_account a = {0};
    unsigned depth[8] = {0};
    enum xh_doing what[8] = {0};
    srand(7);
    uint64_t begun = clock_ns;
    xh_account_init(&a, 1);
    for (int i = 0; i < 100000; i++) {
        int t = rand() % 8;
        clock_ns += (uint64_t)rand() % 1000;
        if (depth[t] == 0 || (depth[t] == 1 && rand() % 2)) {
            what[t] = depth[t] ? 1 + (enum xh_doing)(rand() % 2) : XH_COPYING;
            xh_account_enter(&a, what[t]);
            depth[t]++;
        } else {
            xh_account_leave(&a, depth[t] == 2 ? what[t] : XH_COPYING, 1);
            depth[t]--;
        }
        cr_assert_eq(sum(&a), a.since_ns - begun);
    }
    cr_assert_leq(clock_ns - a.since_ns, 1000);
}

Test(account, switched_off_it_asks_for_no_time)
{
    struct xh_account a = {0};
    xh_account_init(&a, 0);
    cr_assert_eq(xh_account_enter(&a, XH_COPYING), 0);
    cr_assert_eq(xh_account_leave(&a, XH_COPYING, 0), 0);
}

/* ---- advice */

/* A file of 100 MB that came once, in 10 s of which the application took 2. */
static struct xh_facts facts(void)
{
    return (struct xh_facts){.wall_ns = 10000ull * MS, .network_ns = 7000ull * MS, .copying_ns = 1000ull * MS,
                             .outside_ns = 2000ull * MS, .opening_ns = 60ull * MS, .fetched = 100 * MB, .requests = 100,
                             .rtt_ns = 20ull * MS, .size = 100 * MB, .connections = 16, .paying = 4, .readahead = 1,
                             .shadow = 1};
}

static void advises(struct xh_facts f, const char *words)
{
    char advice[XH_ADVICE_BYTES] = "";
    xh_advise(&f, advice);
    cr_assert(strstr(advice, words), "\"%s\" is not in \"%s\"", words, advice);
    cr_assert_lt(strlen(advice), XH_ADVICE_BYTES - 1, "cut off: %s", advice);
}

Test(advice, names_the_change_that_would_have_saved_most)
{
    struct xh_facts f = facts();
    advises(f, "the link or the server is the limit: 14 MB/s");
    f.raw = (struct xh_unforeseen){300, 300 * 12288, 6200ull * MS};
    advises(f, "300 reads of 12 KB waited for the link one after another");
    f.readahead = 0;
    advises(f, "XHDF5_READAHEAD=on");
    f.readahead = 1;
    f.meta = (struct xh_unforeseen){310, 310 * 4096, 6400ull * MS};
    advises(f, "310 pieces of metadata");
    f = facts();
    f.connections = 1;
    f.paying = 8;
    advises(f, "1 connection limits the rate at a round trip of 20 ms: XHDF5_CONNECTIONS=8");
    /* round trips, which more connections do not shorten */
    f.raw = (struct xh_unforeseen){300, 300 * 12288, 6200ull * MS};
    advises(f, "300 reads");
    f = facts();
    f.opening_ns = 5000ull * MS;
    advises(f, "opening the file took 50 %");
    f.opening_ns = 3000ull * MS; /* most of the wait was for what was read: opened again or not, that stays */
    advises(f, "the link or the server is the limit");
    f = facts();
    f.retries = 30;
    advises(f, "30 of 100 requests failed");
    f = facts();
    f.unused = 70 * MB;
    advises(f, "70 % of what was fetched ahead");
}

Test(advice, of_a_file_that_was_written_is_of_its_sending)
{
    struct xh_facts f = facts();
    f.fetched = 0;
    f.sent = 600 * MB;
    f.commits = 1;
    f.commit_ns = 6000ull * MS;
    advises(f, "sending the file took 60 %, 100 MB/s");
    f.connections = 1; /* more of them would not send faster */
    f.paying = 8;
    advises(f, "sending the file took 60 %");
    f.commits = 6;
    advises(f, "the file was sent 6 times, whole each time, in 6.0 s: send it less often");
}

Test(account, parts_add_what_they_counted)
{
    struct xh_account a = {0};
    struct xh_stats c = {.requests = 3, .bytes_sent = 100};
    struct xh_facts f = {.rtt_ns = 7};
    xh_account_init(&a, 1);
    xh_account_add(&a, &c, &f);
    xh_account_add(&a, &c, &f);
    cr_assert_eq(a.ended.requests, 6);
    cr_assert_eq(a.ended.bytes_sent, 200);
    cr_assert_eq(a.known.rtt_ns, 7);
}

Test(account, a_commit_s_own_work_is_copying_and_not_the_application_s)
{
    struct xh_account a = {0};
    xh_account_init(&a, 1);
    clock_ns += 2;
    xh_account_edits(&a, 1);
    clock_ns += 30; /* it waits for the disk */
    uint64_t reads = xh_account_enter(&a, XH_COPYING), waits = xh_account_enter(&a, XH_NETWORK);
    clock_ns += 5;
    xh_account_leave(&a, XH_NETWORK, waits);
    xh_account_leave(&a, XH_COPYING, reads);
    clock_ns += 7;
    xh_account_edits(&a, -1u);
    clock_ns += 11;
    xh_account_enter(&a, XH_COPYING);
    cr_assert_eq(a.spent_ns[XH_COPYING], 37);
    cr_assert_eq(a.spent_ns[XH_NETWORK], 5);
    cr_assert_eq(a.spent_ns[XH_OUTSIDE], 13);
}

Test(account, what_a_request_asks_for_within_itself_is_charged_to_what_is_done)
{
    struct xh_account a = {0};
    xh_account_init(&a, 1);
    uint64_t asks = xh_account_enter(&a, XH_COPYING), waits = xh_account_enter(&a, XH_NETWORK);
    clock_ns += 10; /* the request is under way */
    uint64_t copies = xh_account_enter(&a, XH_COPYING);
    clock_ns += 3; /* its bytes are put together, */
    uint64_t lacks = xh_account_enter(&a, XH_OTHERS);
    clock_ns += 5; /* some of which another process fetches: the request waits for them */
    xh_account_leave(&a, XH_OTHERS, lacks);
    xh_account_leave(&a, XH_COPYING, copies);
    clock_ns += 1;
    xh_account_leave(&a, XH_NETWORK, waits);
    xh_account_leave(&a, XH_COPYING, asks);
    clock_ns += 20;
    xh_account_enter(&a, XH_COPYING);
    cr_assert_eq(a.spent_ns[XH_COPYING], 3);
    cr_assert_eq(a.spent_ns[XH_NETWORK], 16);
    cr_assert_eq(a.spent_ns[XH_OUTSIDE], 20);
}

Test(advice, what_came_twice_is_to_be_kept_by_what_keeps_it)
{
    struct xh_facts f = facts();
    f.fetched = 300 * MB;
    advises(f, "XHDF5_STREAM_BYTES=120M");
    f.evicted = 250 * MB;
    advises(f, "shadow is too small: 250.0 MB had to go from it, and 200.0 MB came more than once: "
               "XHDF5_SHADOW_BUDGET_BYTES=120M");
    f.private_ = XH_PRIVATE_NO_ROOM;
    advises(f, "/dev/shm has no room");
    f.private_ = XH_PRIVATE_NO_DIR;
    advises(f, "as the shadow's directory cannot be used: XHDF5_SHADOW_DIR");
    f.shadow = 0;
    advises(f, "XHDF5_SHADOW=on");
}

Test(advice, whole_chunks_that_came_again_may_be_read_in_part)
{
    struct xh_facts f = facts();
    f.fetched = f.asked = 300 * MB;
    f.plain_bytes = 290 * MB;
    f.plain_chunk_bytes = 1u << 20;
    advises(f, "200.0 MB came more than once, in whole chunks of 1024 KB: if less of each is wanted, rdcc_nbytes=0");
    advises(f, "XHDF5_STREAM_BYTES=120M keeps them");
    f.private_ = XH_PRIVATE_NO_ROOM;
    advises(f, "XHDF5_PRIVATE_BUDGET_BYTES=120M keeps them");
    f.private_ = 0;
    f.plain_bytes = 100 * MB; /* most was read otherwise */
    advises(f, "as a first reading is not kept: XHDF5_STREAM_BYTES=120M");
    f.fetched = f.asked = 100 * MB;
    f.plain_bytes = 90 * MB;
    f.raw = f.meta = (struct xh_unforeseen){0};
    f.opening_ns = 0;
    advises(f, "the link or the server is the limit");
    advises(f, "rdcc_nbytes=0");
}

Test(advice, where_nothing_is_to_be_gained_it_says_so)
{
    struct xh_facts f = facts();
    f.network_ns = 500ull * MS;
    f.outside_ns = 9000ull * MS;
    f.copying_ns = 500ull * MS;
    f.raw = (struct xh_unforeseen){10, 10 * 12288, 200ull * MS};
    advises(f, "HDF5 and the application took 90 %: nothing to gain here");
    f = facts();
    f.others_ns = f.network_ns;
    f.network_ns = 0;
    f.opening_ns = 0;
    advises(f, "other processes fetched the same bytes");
    f = facts();
    f.copying_ns = 8000ull * MS;
    f.outside_ns = 1900ull * MS;
    f.network_ns = f.opening_ns = 0;
    advises(f, "copying out of this machine's memory");
    advises((struct xh_facts){0}, "nothing to gain");
}

Test(advice, is_whole_whatever_the_facts)
{
    char advice[XH_ADVICE_BYTES];
    srand(3);
    for (int i = 0; i < 20000; i++) {
        struct xh_facts f;
        unsigned char *p = (unsigned char *)&f;
        for (size_t k = 0; k < sizeof f; k++)
            p[k] = rand() % 3 ? 0 : (unsigned char)rand();
        xh_advise(&f, advice);
        cr_assert(memchr(advice, 0, sizeof advice) && advice[0]);
    }
}
