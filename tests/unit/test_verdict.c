/* What a finished exchange leads to, on replies made here: what is tried again and when, what narrows a server's dialect,
 * and what is asked of the original URL again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "origin/endpoint.h"
#include "origin/object.h"
#include "origin/request.h"

#define SECOND 1000000000ull
#define RANGES 40u
#define FILE_BYTES 1000000000ull

static uint64_t now = 1000 * SECOND;
uint64_t xh_now_ns(void) { return now; }

static struct xh_counters counters;
static struct xh_endpoint server;
static struct xh_origin origin;
static struct xh_job job;
static struct xh_transfer transfer;
static struct xh_range ranges[RANGES];
static uint64_t got[RANGES];
static struct xh_request request;
static struct xh_exchange x;
static struct xh_err err;
static uint64_t delay_ms;

static void over(void)
{
    xh_url_unref(origin.url);
    xh_url_unref(origin.target);
    xh_url_unref(request.url);
    origin.url = origin.target = request.url = NULL;
}

static void fresh(void)
{
    over();
    server = (struct xh_endpoint){.server = "https://host:443"};
    xh_limits_init(&server.limits);
    origin = (struct xh_origin){.options = {.retries = 5, .multirange = 1, .head_bytes = 65536, .whole_file_bytes = 16 << 20}, .counters = &counters, .opened = 1};
    cr_assert_eq(xh_url_parse("http://host/x.h5", &origin.url, &err), 0);
    xh_ring_init(&origin.jobs);
    origin.dialect = (struct xh_dialect){.proof = XH_BY_ETAG, .value = "\"a\"", .size = FILE_BYTES};
    for (size_t i = 0; i < RANGES; i++)
        ranges[i] = (struct xh_range){i * 100000, 1000};
    memset(got, 0, sizeof got);
    transfer = (struct xh_transfer){.ranges = ranges, .nranges = RANGES};
    job = (struct xh_job){.origin = &origin, .ask = XH_ASK_RANGES, .transfer = &transfer, .got = got};
    request = (struct xh_request){.job = &job, .end = RANGES, .state = XH_REQ_RUNNING, .endpoint = &server};
}

/* The first |n| ranges were asked for at |url|, and |lines| came, a reply's headers. */
static void ask(unsigned n, struct xh_url *url, const char *lines)
{
    now += SECOND;
    memset(&x, 0, sizeof x);
    x.request = &request;
    x.job = &job;
    x.url = url;
    x.turn = XH_PROXY_FREE;
    x.dialect = origin.dialect;
    x.asked = n;
    x.asked_end = n;
    x.asked_bytes = n * 1000;
    x.range_bytes = 20 * n;
    x.to = ranges[n - 1].off + ranges[n - 1].len;
    x.sent_ns = x.last_ns = now;
    xh_reply_init(&x.reply);
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        xh_reply_line(&x.reply, lines, strcspn(lines, "\n") + 1, 0);
}

static enum xh_verdict judge(enum xh_net net)
{
    struct xh_outcome out = {.net = net};
    delay_ms = 0;
    return xh_exchange_judge(&x, &out, &delay_ms, &err);
}

static enum xh_verdict answer(unsigned n, const char *lines)
{
    ask(n, origin.url, lines);
    return judge(XH_NET_OK);
}

/* All that was asked for comes as parts. */
static enum xh_verdict bring(unsigned n)
{
    ask(n, origin.url, "HTTP/1.1 206 OK\n\n");
    x.take = XH_TAKE_PARTS;
    for (size_t i = 0; i < n; i++)
        got[i] = ranges[i].len;
    x.fresh = x.asked_bytes;
    enum xh_verdict v = judge(XH_NET_OK);
    memset(got, 0, sizeof got);
    return v;
}

Test(verdict, a_server_that_says_when_is_obeyed_up_to_two_minutes, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines;
        unsigned seconds;
    } cases[] = {
        {"HTTP/1.1 503 Busy\nRetry-After: 60\n\n", 60},
        {"HTTP/1.1 429 Slow\nRetry-After: 119\n\n", 119},
        {"HTTP/1.1 522 Out\nRetry-After: 3600\n\n", 120},
        {"HTTP/1.1 503 Busy\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:49:37 GMT\n\n", 60},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        cr_assert_eq(answer(1, cases[i].lines), XH_VERDICT_LATER);
        cr_assert_eq(delay_ms, cases[i].seconds * 1000u, "%zu: %llu", i, (unsigned long long)delay_ms);
        cr_assert_eq(server.held_ns, now + cases[i].seconds * SECOND, "whatever else is wanted of that server waits as well");
    }
    fresh();
    transfer.hasty = 1; /* there are other ways: this one fails, and the server is left alone all the same */
    cr_assert_eq(answer(1, cases[0].lines), XH_VERDICT_FAIL);
    cr_assert_eq(server.held_ns, now + 60 * SECOND);
    fresh();
    transfer.hasty = 0;
    job.speculative = 1;
    cr_assert_eq(answer(1, cases[0].lines), XH_VERDICT_FAIL, "nobody waits for it");
    cr_assert_eq(answer(1, "HTTP/1.1 503 Busy\n\n"), XH_VERDICT_LATER);
}

Test(verdict, what_may_pass_is_tried_again_and_what_will_not_is_not, .init = fresh, .fini = over)
{
    static const int pass[] = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 527, 530};
    static const int stay[] = {400, 403, 404, 410, 418, 501, 505, 511};
    char lines[64];
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %d So\n\n", pass[i]);
        cr_expect_eq(answer(1, lines), XH_VERDICT_LATER, "%d", pass[i]);
        cr_expect_leq(delay_ms, 100);
        cr_expect_eq(server.held_ns, 0);
    }
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %d So\n\n", stay[i]);
        cr_expect_eq(answer(1, lines), XH_VERDICT_FAIL, "%d", stay[i]);
    }
}

Test(verdict, a_bad_moment_narrows_nothing, .init = fresh, .fini = over)
{
    static const char *const moments[] = {"500 Oops", "502 Bad", "503 Busy", "408 Late", "429 Slow", "521 Down"};
    char lines[64];
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        request.failures = request.repeats = request.wide_failures = 0;
        snprintf(lines, sizeof lines, "HTTP/1.1 %s\n\n", moments[i]);
        cr_assert_eq(answer(RANGES, lines), XH_VERDICT_LATER, "%s", moments[i]);
        cr_assert_eq(bring(RANGES), XH_VERDICT_DONE);
        cr_assert_eq(request.most_ranges, 0);
        cr_assert_eq(server.limits.max_ranges, XH_RANGES_AT_FIRST);
    }
}

Test(verdict, a_500_that_only_fewer_ranges_get_past_is_a_limit, .init = fresh, .fini = over)
{
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_VERDICT_LATER);
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_VERDICT_AGAIN);
    cr_assert_eq(request.most_ranges, RANGES / 2);
    cr_assert_eq(answer(RANGES / 2, "HTTP/1.1 500 Read vector is too long\n\n"), XH_VERDICT_AGAIN);
    cr_assert_eq(request.most_ranges, RANGES / 4);
    cr_assert_eq(bring(RANGES / 4), XH_VERDICT_AGAIN, "the rest is still to come");
    cr_assert_eq(server.limits.max_ranges, XH_RANGES_AT_FIRST, "the server may have been ill");
    request.most_ranges = request.failures = 0;
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_VERDICT_AGAIN);
    cr_assert_eq(server.limits.max_ranges, RANGES / 4, "it is not");
}

Test(verdict, what_shows_a_limit_narrows_at_once_and_for_all_files_of_the_server, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines;
        enum xh_fault fault;
        unsigned most;
    } cases[] = {
        {"HTTP/1.1 400 Bad\n\n", XH_FAULT_NONE, RANGES / 2},       {"HTTP/1.1 413 Large\n\n", XH_FAULT_NONE, RANGES / 2},
        {"HTTP/1.1 414 Long\n\n", XH_FAULT_NONE, RANGES / 2},      {"HTTP/1.1 431 Large\n\n", XH_FAULT_NONE, RANGES / 2},
        {"HTTP/1.1 501 No\n\n", XH_FAULT_NONE, 1},                 {"HTTP/1.1 200 All\n\n", XH_FAULT_LIMIT, 1},
        {"HTTP/1.1 206 One of all\n\n", XH_FAULT_LIMIT, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        ask(RANGES, origin.url, cases[i].lines);
        x.fault = cases[i].fault;
        cr_assert_eq(judge(cases[i].fault ? XH_NET_CUT : XH_NET_OK), XH_VERDICT_AGAIN, "%zu", i);
        cr_assert_eq(server.limits.max_ranges, cases[i].most, "%zu: %u", i, server.limits.max_ranges);
    }
    fresh();
    origin.dialect.size = 60000; /* nginx sends a small file whole where most of it is asked for */
    for (unsigned i = 0; i < 2 * XH_DOUBTS_MOST; i++) {
        ask(RANGES, origin.url, "HTTP/1.1 200 All\n\n");
        x.fault = XH_FAULT_LIMIT;
        cr_assert_eq(judge(XH_NET_CUT), XH_VERDICT_AGAIN);
        cr_assert_eq(server.limits.max_ranges, XH_RANGES_AT_FIRST, "nor do many small ones say anything of large ones");
        cr_assert_eq(request.most_ranges, 1);
    }
}

Test(verdict, a_whole_file_is_asked_for_parts_once_more_whatever_failed_before, .init = fresh, .fini = over)
{
    for (unsigned busy = 0; busy < 3; busy++) {
        fresh();
        for (unsigned i = 0; i < busy; i++)
            cr_assert_eq(answer(1, "HTTP/1.1 503 Busy\n\n"), XH_VERDICT_LATER);
        for (int again = 0; again < 2; again++) {
            ask(1, origin.url, "HTTP/1.1 200 All\n\n");
            x.fault = XH_FAULT_NO_RANGES;
            cr_assert_eq(judge(XH_NET_CUT), again ? XH_VERDICT_FAIL : XH_VERDICT_LATER, "%u", busy);
        }
    }
}

Test(verdict, nonsense_is_asked_once_more_before_single_ranges, .init = fresh, .fini = over)
{
    for (unsigned i = 0; i < XH_DOUBTS_MOST; i++) {
        cr_assert_eq(server.limits.max_ranges, XH_RANGES_AT_FIRST);
        request.nonsense = 0;
        request.most_ranges = 0;
        for (int twice = 0; twice < 2; twice++) {
            cr_assert_eq(request.most_ranges, 0);
            ask(RANGES, origin.url, "HTTP/1.1 206 OK\n\n");
            x.fault = XH_FAULT_MULTI;
            cr_assert_eq(judge(XH_NET_CUT), XH_VERDICT_AGAIN);
        }
        cr_assert_eq(request.most_ranges, 1);
    }
    cr_assert_eq(server.limits.max_ranges, 1, "that is no accident");
}

Test(verdict, a_remembered_target_that_refuses_is_asked_for_anew, .init = fresh, .fini = over)
{
    static const int expired[] = {400, 401, 403, 404, 405, 409, 410};
    char lines[64];
    for (size_t i = 0; i < sizeof expired / sizeof *expired; i++)
        for (unsigned n = 1; n <= RANGES; n += RANGES - 1) {
            fresh();
            cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &origin.target, &err), 0);
            struct xh_url *target = xh_url_ref(origin.target);
            snprintf(lines, sizeof lines, "HTTP/1.1 %d No\n\n", expired[i]);
            ask(n, target, lines);
            cr_assert_eq(judge(XH_NET_OK), XH_VERDICT_AGAIN, "%d to %u ranges", expired[i], n);
            xh_url_unref(target);
            cr_assert_null(origin.target);
            cr_assert(request.from_original);
            cr_assert_eq(request.returns, 1);
            cr_assert_eq(server.limits.max_ranges, XH_RANGES_AT_FIRST, "%d says nothing of ranges", expired[i]);
        }
}

Test(verdict, a_redirects_target_that_is_busy_is_waited_for_like_any_server, .init = fresh, .fini = over)
{
    static const int pass[] = {408, 425, 429, 500, 502, 503, 521};
    char lines[64];
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++)
        for (int remembered = 0; remembered < 2; remembered++) {
            struct xh_url *target;
            fresh();
            cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, &err), 0);
            snprintf(lines, sizeof lines, "HTTP/1.1 %d Soon\n\n", pass[i]);
            for (unsigned n = 0; n <= origin.options.retries; n++) {
                *(remembered ? &origin.target : &request.url) = xh_url_ref(target);
                ask(1, target, lines);
                cr_assert_eq(judge(XH_NET_OK), n < origin.options.retries ? XH_VERDICT_LATER : XH_VERDICT_FAIL, "%d, %u", pass[i], n);
                cr_assert(n == origin.options.retries || (delay_ms >= 50 && request.from_original), "%d: the first server, after a pause", pass[i]);
                xh_url_unref(origin.target);
                xh_url_unref(request.url);
                origin.target = request.url = NULL;
            }
            xh_url_unref(target);
        }
}

/* A login's turn at |p| comes to |x|, and then the reply of these lines. */
static enum xh_proxy_turn shown_to(struct xh_proxy *p, const char *lines)
{
    static uint64_t keys = 1;
    p->key = keys++;
    ask(1, origin.url, "");
    x.proxy = p;
    x.turn = xh_proxy_turn(p);
    cr_assert_eq(x.turn, XH_PROXY_GO);
    xh_exchange_sent(&x, 1);
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        xh_exchange_line(&x, lines, strcspn(lines, "\n") + 1);
    struct xh_outcome out = {.net = XH_NET_OK};
    xh_exchange_over(&x, &out);
    return xh_proxy_turn(p);
}

Test(verdict, only_a_proxys_own_407_refuses_the_login, .init = fresh, .fini = over)
{
    struct xh_proxy http = {.text = "http://p:1", .user = "me", .password = "x", .from = "http_proxy"}, socks = http;
    socks.text = "socks5h://p:1";
    cr_expect_eq(shown_to(&http, "HTTP/1.1 206 OK\n\n"), XH_PROXY_FREE);
    cr_expect_eq(shown_to(&http, "HTTP/1.1 407 No\nProxy-Authenticate: Basic\n\n"), XH_PROXY_REFUSED);
    cr_expect_eq(judge(XH_NET_OK), XH_VERDICT_FAIL);
    cr_expect(strstr(err.text, "http_proxy"), "%s", err.text);
    cr_expect_eq(shown_to(&http, "HTTP/1.1 407 No\n\n"), XH_PROXY_GO, "the server's own, perhaps: nothing is known");
    cr_expect_eq(shown_to(&socks, "HTTP/1.1 407 No\nProxy-Authenticate: Basic\n\n"), XH_PROXY_FREE);
    cr_expect_eq(judge(XH_NET_OK), XH_VERDICT_FAIL);
    cr_expect(!strstr(err.text, "proxy"), "%s", err.text);
}

Test(verdict, what_comes_with_the_files_etag_is_no_web_page, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines;
        int page;
    } cases[] = {
        {"HTTP/1.1 200 All\nContent-Type: text/html\nETag: \"a\"\n\n", 0}, /* in chunks */
        {"HTTP/1.1 200 All\nContent-Type: text/html\nETag: \"a\"\nContent-Length: 1000000000\n\n", 0},
        {"HTTP/1.1 200 All\nContent-Type: text/html\nETag: \"a\"\nContent-Length: 100\n\n", 1},
        {"HTTP/1.1 200 All\nContent-Type: text/html\nETag: \"b\"\n\n", 1},
        {"HTTP/1.1 200 All\nContent-Type: text/html\n\n", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        ask(1, origin.url, "");
        for (const char *l = cases[i].lines; *l; l += strcspn(l, "\n") + 1)
            xh_exchange_line(&x, l, strcspn(l, "\n") + 1);
        cr_expect_eq(x.page, cases[i].page, "%zu", i);
    }
}

Test(verdict, a_new_target_that_says_400_to_many_ranges_means_them, .init = fresh, .fini = over)
{
    struct xh_url *target;
    cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, &err), 0);
    request.url = xh_url_ref(target);
    ask(RANGES, target, "HTTP/1.1 400 Bad\n\n");
    cr_assert_eq(judge(XH_NET_OK), XH_VERDICT_AGAIN);
    xh_url_unref(target);
    cr_assert_eq(request.returns, 0);
    cr_assert_eq(server.limits.max_ranges, RANGES / 2);
}

Test(verdict, a_slice_of_which_nothing_is_missing_is_done_whatever_follows, .init = fresh, .fini = over)
{
    static const enum xh_net nets[] = {XH_NET_OK, XH_NET_CUT, XH_NET_BROKEN, XH_NET_STALL, XH_NET_BAD_HTTP};
    static const enum xh_fault faults[] = {XH_FAULT_NONE, XH_FAULT_MULTI, XH_FAULT_LIMIT};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
            fresh();
            ask(RANGES, origin.url, "HTTP/1.1 206 OK\n\n");
            x.take = XH_TAKE_PARTS;
            x.fault = faults[k];
            for (size_t n = 0; n < RANGES; n++)
                got[n] = ranges[n].len;
            cr_assert_eq(judge(nets[i]), XH_VERDICT_DONE, "%zu %zu", i, k);
        }
}
