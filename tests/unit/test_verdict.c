/* What a finished exchange leads to, on replies made here: what is tried again and when, what narrows a server's
 * dialect, and what is asked of the original URL again. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "origin/login.h"
#include "origin/verdict.h"

#define SECOND 1000000000ull
#define RANGES 40u
#define FILE_BYTES 1000000000ull

static uint64_t now = 1000 * SECOND;
uint64_t xh_now_ns(void) { return now; }

static struct xh_options options;
static struct xh_counters counters;
static struct xh_url *first; /* as the user wrote it */
static struct xh_proxies proxies = {.of = {{.text = (char *)""}, {.text = (char *)""}}, .except = (char *)""};
static const struct xh_logins no_logins;
static struct xh_transfer transfer;
static struct xh_range ranges[RANGES];
static uint64_t got[RANGES];
static _Atomic int speculative;
static struct xh_dialect dialect;
static struct xh_exchange x;
static struct xh_outcome out;
static int no_cas; /* of the next outcomes */
static struct xh_attempt a;
static struct xh_verdict v;

static void over(void)
{
    xh_url_unref(first);
    xh_url_unref(v.to);
    first = v.to = NULL;
}

static void fresh(void)
{
    over();
    options = (struct xh_options){.retries = 5, .multirange = 1, .head_bytes = 65536, .whole_file_bytes = 16 << 20};
    cr_assert_eq(xh_url_parse("http://host/x.h5", &first, NULL), 0);
    dialect = (struct xh_dialect){.proof = XH_BY_ETAG, .value = "\"a\"", .size = FILE_BYTES};
    for (size_t i = 0; i < RANGES; i++)
        ranges[i] = (struct xh_range){i * 100000, 1000};
    memset(got, 0, sizeof got);
    transfer = (struct xh_transfer){.ranges = ranges, .nranges = RANGES};
    a = (struct xh_attempt){.x = &x, .out = &out, .first = first, .proxies = &proxies, .login = "", .cert_path = "",
                            .cert_note = "", .trust_note = "", .logins = &no_logins, .opened = 1};
    xh_limits_init(&a.limits);
    v = (struct xh_verdict){0};
    no_cas = 0;
}

/* The first |n| ranges were asked for at |url|, and |lines| came, a reply's headers. */
static void ask(unsigned n, struct xh_url *url, const char *lines)
{
    now += SECOND;
    memset(&x, 0, sizeof x);
    x.ask = XH_ASK_RANGES;
    x.transfer = &transfer;
    x.got = got;
    x.options = &options;
    x.counters = &counters;
    x.speculative = &speculative;
    x.whole_seen = a.tries.whole_seen;
    x.url = url;
    x.turn = XH_PROXY_FREE;
    x.dialect = dialect;
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

static int came(size_t end)
{
    for (size_t i = 0; i < end; i++)
        if (got[i] < ranges[i].len)
            return 0;
    return 1;
}

static const char *net_said = ""; /* libcurl's word on what failed */

/* Judges |x|; the next attempt goes by what was learnt. */
static enum xh_next judge(enum xh_net net)
{
    xh_url_unref(v.to);
    out = (struct xh_outcome){.net = net, .no_cas = no_cas, .opened = x.opened};
    snprintf(out.text, sizeof out.text, "%s", net_said);
    a.now_ns = now;
    a.dice = (uint32_t)rand();
    a.asked_came = came(x.asked_end);
    a.all_came = came(RANGES);
    struct xh_attempt before = a;
    xh_verdict(&a, &v);
    cr_assert_eq(memcmp(&before, &a, sizeof a), 0, "a verdict changes nothing that it is given");
    a.tries = v.tries;
    a.limits = v.limits;
    return v.next;
}

static enum xh_next answer(unsigned n, const char *lines)
{
    ask(n, first, lines);
    return judge(XH_NET_OK);
}

/* All that was asked for comes as parts. */
static enum xh_next bring(unsigned n)
{
    ask(n, first, "HTTP/1.1 206 OK\n\n");
    x.take = XH_TAKE_PARTS;
    for (size_t i = 0; i < n; i++)
        got[i] = ranges[i].len;
    x.fresh = x.asked_bytes;
    enum xh_next next = judge(XH_NET_OK);
    memset(got, 0, sizeof got);
    return next;
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
        cr_assert_eq(answer(1, cases[i].lines), XH_NEXT_LATER);
        cr_assert_eq(v.delay_ms, cases[i].seconds * 1000u, "%zu: %llu", i, (unsigned long long)v.delay_ms);
        cr_assert_eq(v.hold_ms, cases[i].seconds * 1000u, "whatever else is wanted of that server waits as well");
    }
    fresh();
    a.hasty = 1; /* there are other ways: this one fails, and the server is left alone all the same */
    cr_assert_eq(answer(1, cases[0].lines), XH_NEXT_FAIL);
    cr_assert_eq(v.hold_ms, 60000);
    fresh();
    a.hasty = 0;
    a.speculative = 1;
    cr_assert_eq(answer(1, cases[0].lines), XH_NEXT_FAIL, "nobody waits for it");
    cr_assert_eq(answer(1, "HTTP/1.1 503 Busy\n\n"), XH_NEXT_LATER);
}

Test(verdict, what_may_pass_is_tried_again_and_what_will_not_is_not, .init = fresh, .fini = over)
{
    static const int pass[] = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 527, 530};
    static const int stay[] = {400, 403, 404, 410, 418, 501, 505, 511};
    char lines[64];
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %d So\n\n", pass[i]);
        cr_expect_eq(answer(1, lines), XH_NEXT_LATER, "%d", pass[i]);
        cr_expect_leq(v.delay_ms, 100);
        cr_expect_eq(v.hold_ms, 0);
    }
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %d So\n\n", stay[i]);
        cr_expect_eq(answer(1, lines), XH_NEXT_FAIL, "%d", stay[i]);
    }
}

Test(verdict, a_server_that_limits_its_readers_and_answers_others_meanwhile_is_no_failure_in_a_row, .init = fresh,
     .fini = over)
{
    static const char *const limits[] = {"429 Slow", "503 Busy"};
    char lines[64];
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %s\n\n", limits[i]);
        unsigned n = 0;
        for (; n < 200 && answer(1, lines) == XH_NEXT_LATER; n++) {
            cr_expect_geq(v.delay_ms, n < 3 ? 50u << n : 200);
            a.heard_ns = now + 1;
        }
        cr_expect_eq(n, 8 * 5 + 8, "%s: the bound of all attempts holds: %u", limits[i], n);
        fresh();
        a.heard_ns = now; /* before it was asked for the first time */
        for (n = 0; n < 200 && answer(1, lines) == XH_NEXT_LATER; n++)
            ;
        cr_expect_eq(n, 5, "%s, and nothing else is answered: %u", limits[i], n);
        fresh();
        options.retries = 0;
        cr_expect_eq(answer(1, lines), XH_NEXT_FAIL);
    }
    fresh();
    unsigned n = 0;
    for (; n < 200 && answer(1, "HTTP/1.1 500 Oops\n\n") == XH_NEXT_LATER; n++)
        a.heard_ns = now + 1;
    cr_expect_eq(n, 5, "500 is a fault, which may be this file's: %u", n);
}

/* As a sidecar is looked for. */
Test(verdict, what_most_likely_does_not_exist_is_asked_for_once_and_nothing_waits_because_of_it, .init = fresh,
     .fini = over)
{
    static const char *const troubles[] = {"503 Busy", "429 Slow", "500 Oops", "403 Often"};
    char lines[64];
    for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
        for (int opened = 0; opened < 2; opened++) {
            fresh();
            options.doubtful = 1;
            a.opened = opened;
            a.others = 3;
            a.heard_ns = now + 2 * SECOND;
            snprintf(lines, sizeof lines, "HTTP/1.1 %s\nRetry-After: 60\n\n", troubles[i]);
            struct xh_limits before = a.limits;
            cr_expect_eq(answer(1, lines), opened ? XH_NEXT_LATER : XH_NEXT_FAIL, "%s", lines);
            cr_expect_eq(v.hold_ms, opened ? 60000 : 0, "%s", lines);
            cr_expect(opened || memcmp(&before, &a.limits, sizeof before) == 0, "%s", lines);
        }
}

Test(verdict, a_status_that_cannot_be_used_says_what_it_means, .init = fresh, .fini = over)
{
    static const struct {
        const char *line, *means;
    } cases[] = {
        {"202 So", "tape"}, {"423 So", "later"}, {"451 So", "Legal"}, {"511 So", "browser"}, {"418 So", "status 418"},
    };
    char lines[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        snprintf(lines, sizeof lines, "HTTP/1.1 %s\n\n", cases[i].line);
        cr_expect_eq(answer(1, lines), XH_NEXT_FAIL, "%s", lines);
        cr_expect_eq(v.err.code, XH_E_STATUS);
        cr_expect(strstr(v.err.text, cases[i].means), "%s", v.err.text);
    }
}

/* Apache's FileETag with the inode, and nginx with other times, behind one name. */
Test(verdict, another_etag_with_the_files_date_may_be_another_machines, .init = fresh, .fini = over)
{
    static const char date[] = "Sun, 06 Nov 1994 08:49:37 GMT";
    static const struct {
        const char *line, *date;
        int machines;
    } cases[] = {
        {"412 No", date, 1},    {"412 No", "Sun, 06 Nov 1994 08:49:38 GMT", 0}, {"412 No", "", 0},
        {"206 Yes", date, 1},   {"206 Yes", "Sun, 06 Nov 1994 08:49:38 GMT", 0},
    };
    char lines[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        xh_dialect_learn(&dialect, "\"a\"", date, xh_http_date(date) + 1000);
        dialect.no_match = i < 3; /* else 412 is asked once more without it */
        snprintf(lines, sizeof lines, "HTTP/1.1 %s\nETag: \"b\"\nLast-Modified: %s\n\n", cases[i].line,
                 cases[i].date);
        ask(1, first, lines);
        if (i >= 3) {
            x.fault = XH_FAULT_CHANGED;
            snprintf(x.why, sizeof x.why, "its ETag was \"a\" and is \"b\" now");
        }
        cr_expect_eq(judge(XH_NET_OK), XH_NEXT_FAIL, "%zu", i);
        cr_expect_eq(v.err.code, XH_E_CHANGED);
        cr_expect_eq(strstr(v.err.text, "several machines") != NULL, cases[i].machines, "%zu: %s", i, v.err.text);
    }
}

Test(verdict, a_bad_moment_narrows_nothing, .init = fresh, .fini = over)
{
    static const char *const moments[] = {"500 Oops", "502 Bad", "503 Busy", "408 Late", "429 Slow", "521 Down"};
    char lines[64];
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        a.tries = (struct xh_tries){0};
        snprintf(lines, sizeof lines, "HTTP/1.1 %s\n\n", moments[i]);
        cr_assert_eq(answer(RANGES, lines), XH_NEXT_LATER, "%s", moments[i]);
        cr_assert_eq(bring(RANGES), XH_NEXT_DONE);
        cr_assert_eq(a.tries.most_ranges, 0);
        cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST);
    }
}

Test(verdict, a_500_that_only_fewer_ranges_get_past_is_a_limit, .init = fresh, .fini = over)
{
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_NEXT_LATER);
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_NEXT_AGAIN);
    cr_assert_eq(a.tries.most_ranges, RANGES / 2);
    cr_assert_eq(answer(RANGES / 2, "HTTP/1.1 500 Read vector is too long\n\n"), XH_NEXT_AGAIN);
    cr_assert_eq(a.tries.most_ranges, RANGES / 4);
    cr_assert_eq(bring(RANGES / 4), XH_NEXT_AGAIN, "the rest is still to come");
    cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST, "the server may have been ill");
    a.tries.most_ranges = a.tries.failures = 0;
    cr_assert_eq(answer(RANGES, "HTTP/1.1 500 Read vector is too long\n\n"), XH_NEXT_AGAIN);
    cr_assert_eq(a.limits.max_ranges, RANGES / 4, "it is not");
}

/* |n| ranges were asked for over a new connection or an |old| one, which ended instead of a reply. */
static enum xh_next hang_up(unsigned n, int old)
{
    ask(n, first, "");
    x.opened = !old;
    return judge(XH_NET_BROKEN);
}

/* As a program of a few lines does in which such a request is an error that nobody catches. */
Test(verdict, a_server_that_hangs_up_on_several_ranges_again_and_again_is_asked_for_fewer, .init = fresh, .fini = over)
{
    for (int old = 0; old < 2; old++) {
        unsigned n = RANGES;
        a.tries = (struct xh_tries){0};
        xh_limits_init(&a.limits);
        a.sockets = 3;
        cr_assert_eq(hang_up(n, old), XH_NEXT_LATER, "it may have been started anew");
        for (; n > 1; n = a.tries.most_ranges) {
            cr_assert_eq(hang_up(n, old), XH_NEXT_AGAIN);
            cr_assert_eq(a.tries.most_ranges, n / 2, "%u", n);
        }
        cr_assert_eq(bring(1), XH_NEXT_AGAIN);
        a.tries = (struct xh_tries){0};
        cr_assert_eq(hang_up(RANGES, old), XH_NEXT_AGAIN);
        cr_assert_eq(a.limits.max_ranges, 1, "of all its files");
    }
    fresh();
    cr_assert_eq(hang_up(RANGES, 0), XH_NEXT_LATER);
    cr_assert_eq(bring(RANGES), XH_NEXT_DONE);
    cr_assert_eq(hang_up(RANGES, 0), XH_NEXT_LATER, "each of these was a bad moment");
    cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST);
    a.tries = (struct xh_tries){0};
    for (int i = 0; i < 3; i++) {
        ask(RANGES, first, "");
        x.sent_ns = 0;
        x.opened = 1;
        cr_assert_eq(judge(XH_NET_BROKEN), XH_NEXT_LATER, "it never came so far as to be asked for ranges");
    }
    cr_assert_eq(a.tries.most_ranges, 0);
}

Test(verdict, what_shows_a_limit_narrows_at_once_and_for_all_files_of_the_server, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines;
        enum xh_fault fault;
        unsigned most;
    } cases[] = {
        {"HTTP/1.1 400 Bad\n\n", XH_FAULT_NONE, RANGES / 2},
              {"HTTP/1.1 413 Large\n\n", XH_FAULT_NONE, RANGES / 2},
        {"HTTP/1.1 414 Long\n\n", XH_FAULT_NONE, RANGES / 2},
             {"HTTP/1.1 431 Large\n\n", XH_FAULT_NONE, RANGES / 2},
        {"HTTP/1.1 501 No\n\n", XH_FAULT_NONE, 1},                 {"HTTP/1.1 200 All\n\n", XH_FAULT_LIMIT, 1},
        {"HTTP/1.1 206 One of all\n\n", XH_FAULT_LIMIT, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        ask(RANGES, first, cases[i].lines);
        x.fault = cases[i].fault;
        cr_assert_eq(judge(cases[i].fault ? XH_NET_CUT : XH_NET_OK), XH_NEXT_AGAIN, "%zu", i);
        cr_assert_eq(a.limits.max_ranges, cases[i].most, "%zu: %u", i, a.limits.max_ranges);
    }
    fresh();
    dialect.size = 60000; /* nginx sends a small file whole where most of it is asked for */
    for (unsigned i = 0; i < 2 * XH_DOUBTS_MOST; i++) {
        ask(RANGES, first, "HTTP/1.1 200 All\n\n");
        x.fault = XH_FAULT_LIMIT;
        cr_assert_eq(judge(XH_NET_CUT), XH_NEXT_AGAIN);
        cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST, "nor do many small ones say anything of large ones");
        cr_assert_eq(a.tries.most_ranges, 1);
    }
}

Test(verdict, a_whole_file_is_asked_for_parts_once_more_whatever_failed_before, .init = fresh, .fini = over)
{
    for (unsigned busy = 0; busy < 3; busy++) {
        fresh();
        for (unsigned i = 0; i < busy; i++)
            cr_assert_eq(answer(1, "HTTP/1.1 503 Busy\n\n"), XH_NEXT_LATER);
        for (int again = 0; again < 2; again++) {
            ask(1, first, "HTTP/1.1 200 All\n\n");
            x.fault = XH_FAULT_NO_RANGES;
            cr_assert_eq(judge(XH_NET_CUT), again ? XH_NEXT_FAIL : XH_NEXT_LATER, "%u", busy);
        }
    }
}

Test(verdict, nonsense_is_asked_once_more_before_single_ranges, .init = fresh, .fini = over)
{
    for (unsigned i = 0; i < XH_DOUBTS_MOST; i++) {
        cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST);
        a.tries.nonsense = 0;
        a.tries.most_ranges = 0;
        for (int twice = 0; twice < 2; twice++) {
            cr_assert_eq(a.tries.most_ranges, 0);
            ask(RANGES, first, "HTTP/1.1 206 OK\n\n");
            x.fault = XH_FAULT_MULTI;
            cr_assert_eq(judge(XH_NET_CUT), XH_NEXT_AGAIN);
        }
        cr_assert_eq(a.tries.most_ranges, 1);
    }
    cr_assert_eq(a.limits.max_ranges, 1, "that is no accident");
}

Test(verdict, a_remembered_target_that_refuses_is_asked_for_anew, .init = fresh, .fini = over)
{
    static const int expired[] = {400, 401, 403, 404, 405, 409, 410};
    char lines[64];
    for (size_t i = 0; i < sizeof expired / sizeof *expired; i++)
        for (unsigned n = 1; n <= RANGES; n += RANGES - 1) {
            fresh();
            struct xh_url *target;
            cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, NULL), 0);
            snprintf(lines, sizeof lines, "HTTP/1.1 %d No\n\n", expired[i]);
            ask(n, target, lines);
            cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN, "%d to %u ranges", expired[i], n);
            xh_url_unref(target);
            cr_assert(v.forgets && a.tries.from_original);
            cr_assert_eq(a.tries.returns, 1);
            cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST, "%d says nothing of ranges", expired[i]);
        }
}

Test(verdict, a_remembered_target_that_sends_elsewhere_is_over, .init = fresh, .fini = over)
{
    struct xh_url *target;
    cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, NULL), 0);
    for (unsigned times = 0;; times++) {
        ask(1, target, "HTTP/1.1 302 No\nLocation: http://host/without-the-macaroon\n\n");
        cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
        if (v.to) /* an end of it: it is followed */
            break;
        cr_assert(v.forgets && v.bounced && a.tries.from_original && times < 10);
    }
    cr_assert(!v.bounced && !v.forgets);
    fresh();
    a.redirected = 1; /* to a new target, which is followed on */
    ask(1, target, "HTTP/1.1 302 No\nLocation: http://host/further\n\n");
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
    cr_assert(v.to && !v.bounced && !v.forgets);
    xh_url_unref(target);
}

Test(verdict, a_login_that_was_not_sent_is_not_said_to_be_refused, .init = fresh, .fini = over)
{
    struct xh_url *named, *target;
    cr_assert_eq(xh_url_parse("https://me:pw@host/x.h5", &named, NULL), 0);
    cr_assert_eq(xh_url_parse("https://elsewhere/x.h5", &target, NULL), 0);
    a.first = named;
    a.login = "the user name and password of a test";
    a.redirected = 1;
    a.trusted_first = 1;
    a.opened = 0;
    a.tries.returns = 1; /* the redirect is a new one */
    ask(1, target, "HTTP/1.1 401 No\n\n");
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    cr_expect_eq(v.err.code, XH_E_ACCES);
    cr_expect(strstr(v.err.text, "not sent") && strstr(v.err.text, "of a test") && !strstr(v.err.text, "refused"), "%s",
              v.err.text);
    ask(1, named, "HTTP/1.1 401 No\n\n");
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "of a test were refused"), "%s", v.err.text);
    xh_url_unref(named);
    xh_url_unref(target);
}

/* ---- logins by redirect */

static struct xh_login login = {(char *)"https://login.example:443", (char *)"me", (char *)"pw"};
static const struct xh_logins logins = {&login, 1};
static struct xh_url *https, *there, *back, *signed_url;

static void with_login(void)
{
    fresh();
    strcpy(options.login_hosts, "login.example");
    options.netrc = 1;
    cr_assert_eq(xh_url_parse("https://host/x.h5", &https, NULL), 0);
    cr_assert_eq(xh_url_parse("https://login.example/oauth/authorize?client_id=1", &there, NULL), 0);
    cr_assert_eq(xh_url_parse("https://host/login?code=secret", &back, NULL), 0);
    cr_assert_eq(xh_url_parse("https://store/x.h5?sig=secret", &signed_url, NULL), 0);
    a.first = https;
    a.logins = &logins;
    a.trusted_first = 1;
    a.leads = login.server;
}

static void without_login(void)
{
    xh_url_unref(https);
    xh_url_unref(there);
    xh_url_unref(back);
    xh_url_unref(signed_url);
    over();
}

/* What is asked at |url|, to which a redirect led unless it is the first, is answered by |lines|, with |said| below. */
static enum xh_next says(struct xh_url *url, const char *lines, const char *said)
{
    ask(1, url, lines);
    a.redirected = url != https;
    x.at_login = url == there;
    x.said_len = strlen(said);
    memcpy(x.said, said, x.said_len + 1);
    return judge(XH_NET_OK);
}

static void sends_to(struct xh_url *from, const char *location)
{
    char lines[200];
    snprintf(lines, sizeof lines, "HTTP/1.1 302 On\nLocation: %s\n\n", location);
    cr_assert_eq(says(from, lines, ""), XH_NEXT_AGAIN, "%s", location);
    cr_assert_not_null(v.to);
}

#define TO_LOGIN "https://login.example/oauth/authorize"

Test(verdict, a_login_goes_there_and_back_and_on, .init = with_login, .fini = without_login)
{
    sends_to(https, TO_LOGIN);
    cr_expect_eq(a.tries.login, XH_LOGIN_THERE);
    sends_to(there, "/oauth/continue");
    cr_expect_eq(a.tries.login, XH_LOGIN_THERE);
    sends_to(there, "https://host/login?code=1");
    cr_expect_eq(a.tries.login, XH_LOGIN_BACK);
    cr_expect_eq(v.login, XH_LOGIN_NONE);
    sends_to(back, "https://host/x.h5");
    cr_expect_eq(a.tries.login, XH_LOGIN_IN);
    cr_expect_eq(v.login, XH_LOGIN_NONE, "its cookie is still to be tried");
    sends_to(https, "https://store/x.h5?sig=1");
    cr_expect_eq(v.login, XH_LOGIN_GOOD);
    a.tries.returns = 0;
    cr_assert_eq(says(signed_url, "HTTP/1.1 403 Late\n\n", ""), XH_NEXT_AGAIN);
    cr_expect_eq(a.tries.login, XH_LOGIN_NOWHERE, "what has expired is asked for anew, by another login if need be");
    sends_to(https, TO_LOGIN);
}

Test(verdict, a_login_that_fails_names_its_host_and_what_to_do, .init = with_login, .fini = without_login)
{
    static const struct {
        const char *lines, *said, *tells;
        enum xh_login_end end;
    } cases[] = {
        {"HTTP/1.1 401 No\n\n", "", "name and password of the netrc file were refused", XH_LOGIN_REFUSED},
        {"HTTP/1.1 401 No\nContent-Type: application/json\n\n", "{\"error_description\": \"Bad word\"}",
         "(it says: Bad word)", XH_LOGIN_REFUSED},
        {"HTTP/1.1 401 No\n\n", "{\"resolution_url\":\"https://login.example/approve_app?client_id=1\"}",
         "has not approved the application", XH_LOGIN_BAD},
        {"HTTP/1.1 403 No\n\n", "", "were refused", XH_LOGIN_BAD},
        {"HTTP/1.1 200 OK\nContent-Type: text/html\n\n", "<html><title>Log in</title>", "(it says: Log in)",
         XH_LOGIN_BAD},
        {"HTTP/1.1 200 OK\nContent-Type: text/html\n\n", "<html>Please approve it", "approve the application",
         XH_LOGIN_BAD},
        {"HTTP/1.1 206 Part\nContent-Range: bytes 0-9/10\n\n", "\x89HDF", "status 206", XH_LOGIN_BAD},
        {"HTTP/1.1 404 No\n\n", "", "status 404", XH_LOGIN_BAD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.tries = (struct xh_tries){0};
        sends_to(https, TO_LOGIN);
        cr_assert_eq(says(there, cases[i].lines, cases[i].said), XH_NEXT_FAIL, "%zu", i);
        cr_expect(v.err.code == XH_E_ACCES && strstr(v.err.text, "login at login.example:443 failed") &&
                  strstr(v.err.text, cases[i].tells), "%zu: %s", i, v.err.text);
        cr_expect_eq(v.login, cases[i].end, "%zu", i);
        cr_expect(!v.changed && !strstr(v.err.text, "client_id"), "%zu", i);
    }
    a.tries = (struct xh_tries){0};
    sends_to(https, TO_LOGIN);
    cr_assert_eq(says(there, "HTTP/1.1 503 Busy\n\n", ""), XH_NEXT_LATER);
    cr_expect_eq(v.login, XH_LOGIN_NONE);
}

Test(verdict, a_login_comes_back_with_a_refusal_or_in_a_circle, .init = with_login, .fini = without_login)
{
    struct xh_url *denied;
    cr_assert_eq(xh_url_parse("https://host/login?error=access_denied&state=secret", &denied, NULL), 0);
    sends_to(https, TO_LOGIN);
    sends_to(there, "https://host/login?error=access_denied");
    cr_assert_eq(says(denied, "HTTP/1.1 403 No\n\n", ""), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "login.example") && strstr(v.err.text, "error=access_denied") &&
              !strstr(v.err.text, "secret"), "%s", v.err.text);
    cr_expect_eq(v.login, XH_LOGIN_BAD);
    xh_url_unref(denied);
    a.tries = (struct xh_tries){0};
    sends_to(https, TO_LOGIN);
    sends_to(there, "https://host/login?code=1");
    sends_to(back, "https://host/x.h5");
    cr_assert_eq(says(https, "HTTP/1.1 302 On\nLocation: " TO_LOGIN "\n\n", ""), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "login.example") && strstr(v.err.text, "loop"), "%s", v.err.text);
    cr_expect(v.login == XH_LOGIN_BAD && !v.to);
    a.tries = (struct xh_tries){0};
    sends_to(https, TO_LOGIN);
    sends_to(there, "https://host/login?code=1");
    sends_to(back, "https://host/x.h5");
    cr_assert_eq(says(https, "HTTP/1.1 404 None\n\n", ""), XH_NEXT_FAIL);
    cr_expect_eq(v.login, XH_LOGIN_GOOD, "one file that is not there says nothing of the login");
}

Test(verdict, without_a_login_the_login_host_is_not_asked, .init = with_login, .fini = without_login)
{
    a.logins = &no_logins;
    cr_assert_eq(says(https, "HTTP/1.1 302 On\nLocation: " TO_LOGIN "\n\n", ""), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "wants a login at login.example:443") &&
              strstr(v.err.text, "machine login.example login"), "%s", v.err.text);
    cr_expect(!v.to && v.login == XH_LOGIN_NONE);
    options.namer.by_file = 1;
    strcpy(options.namer.parent, "/names.h5");
    a.trusted_first = 0;
    cr_assert_eq(says(https, "HTTP/1.1 302 On\nLocation: " TO_LOGIN "\n\n", ""), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "/names.h5") && strstr(v.err.text, "XHDF5_CREDENTIAL_HOSTS"), "%s", v.err.text);
}

Test(verdict, a_date_is_not_worth_a_login, .init = with_login, .fini = without_login)
{
    ask(1, https, "HTTP/1.1 302 On\nLocation: " TO_LOGIN "\n\n");
    x.ask = XH_ASK_STAT;
    x.transfer = NULL;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_DONE);
    cr_expect_null(v.to);
}

Test(verdict, what_another_request_s_login_came_to_holds_for_those_that_wait, .init = with_login, .fini = without_login)
{
    sends_to(https, TO_LOGIN);
    ask(1, there, "");
    x.at_login = 1;
    x.login_turn = XH_LOGIN_DONE;
    cr_assert_eq(judge(XH_NET_LOGIN), XH_NEXT_AGAIN);
    cr_expect(v.forgets && a.tries.from_original && a.tries.login == XH_LOGIN_NOWHERE);
    for (int bad = 0; bad < 2; bad++) {
        sends_to(https, TO_LOGIN);
        ask(1, there, "");
        x.at_login = 1;
        x.login_turn = XH_LOGIN_FAILED;
        x.login_failure = (struct xh_login_failure){bad ? XH_LOGIN_BAD : XH_LOGIN_NONE, XH_E_ACCES, 403, "as it was"};
        cr_assert_eq(judge(XH_NET_LOGIN), bad ? XH_NEXT_FAIL : XH_NEXT_LATER);
        cr_expect(strstr(v.err.text, "as it was") && strstr(v.err.text, "https://host/x.h5"), "%s", v.err.text);
        cr_expect_eq(v.login, XH_LOGIN_NONE, "it is not its own");
    }
}

Test(verdict, cookies_that_are_refused_are_left_out_once, .init = with_login, .fini = without_login)
{
    ask(1, https, "HTTP/1.1 401 No\n\n");
    x.cookies_sent = 1;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
    cr_expect(v.doubts_session && a.tries.from_original);
    ask(1, https, "HTTP/1.1 401 No\n\n");
    x.cookies_sent = 1;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    a.tries = (struct xh_tries){0};
    ask(1, https, "HTTP/1.1 403 No\n\n");
    x.cookies_sent = 1;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL, "403: the server knows who asks");
}

Test(verdict, a_redirects_target_that_is_busy_is_waited_for_like_any_server, .init = fresh, .fini = over)
{
    static const int pass[] = {408, 425, 429, 500, 502, 503, 521};
    char lines[64];
    for (size_t i = 0; i < sizeof pass / sizeof *pass; i++)
        for (int remembered = 0; remembered < 2; remembered++) {
            struct xh_url *target;
            fresh();
            cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, NULL), 0);
            snprintf(lines, sizeof lines, "HTTP/1.1 %d Soon\n\n", pass[i]);
            for (unsigned n = 0; n <= options.retries; n++) {
                a.redirected = !remembered;
                ask(1, target, lines);
                cr_assert_eq(judge(XH_NET_OK), n < options.retries ? XH_NEXT_LATER : XH_NEXT_FAIL, "%d, %u", pass[i],
                             n);
                cr_assert(n == options.retries || (v.delay_ms >= 50 && v.forgets),
                          "%d: the first server, after a pause", pass[i]);
            }
            xh_url_unref(target);
        }
}

/* A login's turn at |p| comes to |x|, and then the reply of these lines. */
static enum xh_proxy_turn shown_to(struct xh_proxy *p, const char *lines)
{
    static uint64_t keys = 1;
    p->key = keys++;
    ask(1, first, "");
    x.proxy = p;
    x.turn = xh_proxy_turn(p, first);
    cr_assert_eq(x.turn, XH_PROXY_GO);
    xh_exchange_sent(&x, 1);
    for (; *lines; lines += strcspn(lines, "\n") + 1)
        xh_exchange_line(&x, lines, strcspn(lines, "\n") + 1);
    out = (struct xh_outcome){.net = XH_NET_OK};
    xh_exchange_over(&x, &out);
    return xh_proxy_turn(p, first);
}

Test(verdict, only_a_proxys_own_407_refuses_the_login, .init = fresh, .fini = over)
{
    struct xh_proxy http = {.text = "http://p:1", .user = "me", .password = "x", .from = "http_proxy"}, socks = http;
    socks.text = "socks5h://p:1";
    cr_expect_eq(shown_to(&http, "HTTP/1.1 206 OK\n\n"), XH_PROXY_FREE);
    cr_expect_eq(shown_to(&http, "HTTP/1.1 407 No\nProxy-Authenticate: Basic\n\n"), XH_PROXY_REFUSED);
    cr_expect_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "http_proxy"), "%s", v.err.text);
    cr_expect_eq(shown_to(&http, "HTTP/1.1 407 No\n\n"), XH_PROXY_GO, "the server's own, perhaps: nothing is known");
    cr_expect_eq(shown_to(&socks, "HTTP/1.1 407 No\nProxy-Authenticate: Basic\n\n"), XH_PROXY_FREE);
    cr_expect_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    cr_expect(!strstr(v.err.text, "proxy"), "%s", v.err.text);
}

/* What is left over of a request for the first range, whose connection |lines| came over. Returns what became of it. */
static int left_over(const char *lines)
{
    int rc = 0;
    ask(1, first, "");
    cr_assert_eq(xh_exchange_sent(&x, 1), 0);
    cr_assert_eq(xh_exchange_left(&x), 1000);
    xh_exchange_run_out(&x, 1000, now + SECOND);
    for (; *lines && rc == 0; lines += strcspn(lines, "\n") + 1)
        rc = xh_exchange_line(&x, lines, strcspn(lines, "\n") + 1);
    return rc;
}

Test(verdict, what_nobody_wants_any_more_is_read_to_its_end_and_never_asked_for_anew, .init = fresh, .fini = over)
{
    static const uint8_t body[1000];
    atomic_ullong arrived = 0;
    cr_expect_eq(left_over("HTTP/1.1 100 Go on\n\nHTTP/1.1 206 Part\nContent-Length: 1000\n\n"), 0);
    x.arrived = &arrived;
    cr_expect_eq(xh_exchange_body(&x, body, sizeof body), 0);
    cr_expect_eq(arrived, 1000);
    cr_expect_eq(left_over("HTTP/1.1 206 Part\nTransfer-Encoding: chunked\n\n"), 0);
    cr_expect_neq(left_over("HTTP/1.1 206 Part\nContent-Length: 1000000\n\n"), 0, "far more than was asked for");
    cr_expect_neq(left_over("HTTP/1.1 200 All\nContent-Length: 1000\n\n"), 0);
    cr_expect_neq(left_over("HTTP/1.1 302 There\nLocation: /y\n\n"), 0);
    cr_expect_neq(left_over("HTTP/1.1 401 Who\nWWW-Authenticate: Basic\n\n"), 0);
    left_over("");
    cr_expect_neq(xh_exchange_sent(&x, 2), 0, "its connection was dead: libcurl would send it over another one");
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
        ask(1, first, "");
        for (const char *l = cases[i].lines; *l; l += strcspn(l, "\n") + 1)
            xh_exchange_line(&x, l, strcspn(l, "\n") + 1);
        cr_expect_eq(x.page, cases[i].page, "%zu", i);
    }
}

#define PAGE "\xef\xbb\xbf\r\n <!DOCTYPE html>\n<title>Sign in</title>"

Test(verdict, a_page_that_is_not_called_so_is_told_by_its_first_bytes, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines, *body;
        int page; /* 0: what it was taken for, another version or a server without ranges */
        size_t block; /* HDF5's signature follows there, behind blanks; 0: it does not */
    } cases[] = {
        {"HTTP/1.1 200 OK\n\n", PAGE, 1, 0}, /* in chunks */
        {"HTTP/1.1 200 OK\nContent-Length: 44\n\n", PAGE, 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: application/octet-stream\nContent-Length: 44\n\n", PAGE, 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: text/plain\nETag: \"page\"\n\n", "<HTML lang=en>", 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: application/xhtml+xml\n\n", "<?xml version=\"1.0\"?>", 1, 0},
        {"HTTP/1.1 206 OK\nContent-Range: bytes 0-43/44\n\n", PAGE, 1, 0},
        {"HTTP/1.1 206 OK\nContent-Range: bytes 9-43/44\n\n", "<html>", 0, 0},
        {"HTTP/1.1 200 OK\n\n", "<!doc", 0, 0},
        {"HTTP/1.1 200 OK\n\n", "", 0, 0},
        {"HTTP/1.1 200 OK\nETag: \"b\"\n\n", "\x89HDF\r\n", 0, 0},
        {"HTTP/1.1 200 OK\nContent-Encoding: gzip\n\n", PAGE, 0, 0},
        {"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Type: application/json\n\n", "\x1f\x8b", 1, 0},
        {"HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Type: text/html\n\n", "\x1f\x8b", 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: text/plain\n\n", "Log in first", 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: application/json\n\n", "{\"error\": 17}\n", 1, 0},
        {"HTTP/1.1 200 OK\nContent-Type: text/plain\n\n", "\x89HDF\r\n\x1a", 0, 0},
        {"HTTP/1.1 200 OK\n\n", "Log in first", 0, 0},
        {"HTTP/1.1 200 OK\n\n", "<html>", 0, 512},
        {"HTTP/1.1 200 OK\n\n", "<html>", 1, 513},
        {"HTTP/1.1 200 OK\nContent-Type: text/html\n\n", "<html>", 0, 2048},
        {"HTTP/1.1 200 OK\nContent-Type: application/json\n\n", "{\"made\": 17}", 0, 1024},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned piece = 1; piece < 50; piece += 48) {
            static atomic_ullong arrived;
            int rc = 0;
            fresh();
            ask(1, first, "");
            x.arrived = x.heard_ns = &arrived;
            a.tries.whole_seen = 1;
            for (const char *l = cases[i].lines; *l && rc == 0; l += strcspn(l, "\n") + 1)
                rc = xh_exchange_line(&x, l, strcspn(l, "\n") + 1);
            char body[4096];
            size_t len = (size_t)sprintf(body, "%s", cases[i].body);
            if (cases[i].block)
                len = (size_t)sprintf(body, "%-*s\x89HDF\r\n\x1a\n", (int)cases[i].block, cases[i].body);
            for (size_t at = 0; at < len && rc == 0; at += piece)
                rc = xh_exchange_body(&x, (const uint8_t *)body + at, len - at < piece ? len - at : piece);
            cr_assert_eq(judge(rc ? XH_NET_CUT : XH_NET_OK), XH_NEXT_FAIL, "%zu", i);
            cr_expect_eq(v.err.code == XH_E_ACCES, cases[i].page, "%zu, %u bytes at a time: %s", i, piece, v.err.text);
            cr_expect_eq(v.changed, !cases[i].page, "%zu: a page is no change", i);
            cr_expect_eq(strstr(v.err.text, "the session ended") != NULL, cases[i].page, "%zu: %s", i, v.err.text);
            cr_expect_eq(strstr(v.err.text, "network") != NULL, cases[i].page, "%zu: over http: %s", i, v.err.text);
        }
}

Test(verdict, a_new_target_that_says_400_to_many_ranges_means_them_when_the_next_one_says_so_too, .init = fresh,
     .fini = over)
{
    struct xh_url *target;
    cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, NULL), 0);
    for (unsigned i = 1; i <= 2; i++) { /* the remembered one first */
        a.redirected = i > 1;
        ask(RANGES, target, "HTTP/1.1 400 Bad\n\n");
        cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
        cr_assert(v.forgets && a.tries.returns == i, "the redirect may have been over when it came");
        cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST);
    }
    ask(RANGES, target, "HTTP/1.1 400 Bad\n\n");
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
    cr_assert_eq(a.tries.returns, 2);
    cr_assert_eq(a.limits.max_ranges, RANGES / 2);
    xh_url_unref(target);
}

Test(verdict, targets_that_are_over_when_they_come_end_with_an_error_that_names_both, .init = fresh, .fini = over)
{
    for (int opened = 0; opened < 2; opened++) {
        struct xh_url *target;
        unsigned tries = 1;
        fresh();
        cr_assert_eq(xh_url_parse("http://elsewhere/ticket?sign=secret", &target, NULL), 0);
        a.redirected = 1;
        a.opened = opened;
        for (;; tries++) {
            ask(1, target, "HTTP/1.1 400 Expired\n\n");
            if (judge(XH_NET_OK) == XH_NEXT_FAIL)
                break;
            cr_assert(v.next == XH_NEXT_AGAIN && v.forgets && tries < 9);
        }
        xh_url_unref(target);
        cr_expect_eq(tries, opened ? 5 : 2);
        cr_expect(strstr(v.err.text, "http://host/x.h5") && strstr(v.err.text, "http://elsewhere/ticket"), "%s",
                  v.err.text);
        cr_expect(strstr(v.err.text, "times in a row") && !strstr(v.err.text, "secret"), "%s", v.err.text);
    }
}

/* A stream that stood still is sent again when its reader goes on, perhaps long after the redirect that it followed. */
Test(verdict, a_stream_that_stood_goes_on_by_a_target_as_old_as_any_that_is_remembered, .init = fresh, .fini = over)
{
    static const enum xh_net nets[] = {XH_NET_LEFT, XH_NET_BROKEN};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        struct xh_url *target;
        fresh();
        cr_assert_eq(xh_url_parse("http://elsewhere/ticket", &target, NULL), 0);
        for (unsigned parked = 1; parked <= 6; parked++) {
            ask(1, first, "HTTP/1.1 302 There\nLocation: http://elsewhere/ticket\n\n");
            cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
            a.redirected = 1;
            a.stands = 1;
            ask(RANGES, target, "HTTP/1.1 206 OK\n\n");
            x.fresh = 1 << 20;
            cr_assert_eq(judge(nets[i]), XH_NEXT_STAND);
            cr_assert(v.drops_redirect && a.tries.hops == 0);
            a.redirected = a.stands = 0;
            ask(RANGES, target, "HTTP/1.1 400 Expired\n\n");
            cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN, "%u", parked);
            cr_assert(v.forgets, "the first server is asked anew, for the time %u", parked);
            cr_assert_eq(a.limits.max_ranges, XH_RANGES_AT_FIRST, "it says nothing of ranges");
        }
        xh_url_unref(target);
    }
}

Test(verdict, a_slice_of_which_nothing_is_missing_is_done_whatever_follows, .init = fresh, .fini = over)
{
    static const enum xh_net nets[] = {XH_NET_OK, XH_NET_CUT, XH_NET_BROKEN, XH_NET_STALL, XH_NET_BAD_HTTP};
    static const enum xh_fault faults[] = {XH_FAULT_NONE, XH_FAULT_MULTI, XH_FAULT_LIMIT};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
            fresh();
            ask(RANGES, first, "HTTP/1.1 206 OK\n\n");
            x.take = XH_TAKE_PARTS;
            x.fault = faults[k];
            for (size_t n = 0; n < RANGES; n++)
                got[n] = ranges[n].len;
            cr_assert_eq(judge(nets[i]), XH_NEXT_DONE, "%zu %zu", i, k);
        }
}

/* A server may send less than it was asked for, and say so (RFC 9110, 15.3.7). */
Test(verdict, short_replies_are_counted_by_what_they_bring, .init = fresh, .fini = over)
{
    static const struct {
        uint64_t brings;
        int endless;
    } cases[] = {{65536, 1}, {4096, 1}, {4095, 0}, {1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned n = 0;
        for (fresh(); n < 20000; n++) {
            ask(1, first, "HTTP/1.1 206 OK\nContent-Range: bytes 0-0/1000000000\n\n");
            x.fresh = cases[i].brings;
            if (judge(XH_NET_OK) != XH_NEXT_AGAIN)
                break;
        }
        cr_expect(cases[i].endless ? n == 20000 : n == 1000, "%u replies of %u bytes", n,
                  (unsigned)cases[i].brings);
    }
    fresh();
    for (unsigned n = 0; n < 500; n++) {
        ask(1, first, "HTTP/1.1 206 OK\nContent-Range: bytes 0-0/1000000000\n\n");
        x.fresh = 4096;
        cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
    }
    ask(1, first, "");
    cr_expect_eq(judge(XH_NET_CUT), XH_NEXT_LATER, "they are no failures, so the first failure is tried again");
}

/* What follows from one reply, and what is learnt by it. */
Test(verdict, each_reply_leads_to_one_thing, .init = fresh, .fini = over)
{
    static const struct {
        const char *lines;
        enum xh_ask ask;
        enum xh_next next;
        int code; /* of FAIL */
        const char *says;
    } cases[] = {
        {"HTTP/1.1 404 Not Found\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_NOENT, "no such file"},
        {"HTTP/1.1 410 Gone\n\n", XH_ASK_HEAD, XH_NEXT_FAIL, XH_E_NOENT, "removed"},
        {"HTTP/1.1 401 No\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_ACCES, "no token is sent over http"},
        {"HTTP/1.1 403 No\nRetry-After: 3\n\n", XH_ASK_RANGES, XH_NEXT_LATER, 0, ""},
        {"HTTP/1.1 418 Teapot\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_STATUS, "418"},
        {"HTTP/1.1 405 No\n\n", XH_ASK_STAT, XH_NEXT_DONE, 0, ""},
        {"HTTP/1.1 501 No\n\n", XH_ASK_STAT, XH_NEXT_DONE, 0, ""},
        {"HTTP/1.1 416 No\nContent-Range: bytes */7\n\n", XH_ASK_HEAD, XH_NEXT_DONE, 0, ""},
        {"HTTP/1.1 416 No\nContent-Range: bytes */7\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_CHANGED, "has 7 now"},
        {"HTTP/1.1 302 There\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_PROTO, "without a usable Location"},
        {"HTTP/1.1 302 There\nLocation: http://b/y\n\n", XH_ASK_RANGES, XH_NEXT_AGAIN, 0, ""},
        {"HTTP/1.1 412 No\n\n", XH_ASK_RANGES, XH_NEXT_AGAIN, 0, ""},
        {"HTTP/1.1 407 No\n\n", XH_ASK_RANGES, XH_NEXT_FAIL, XH_E_STATUS, "407"},
    };
    static struct xh_probe probe;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        ask(1, first, cases[i].lines);
        x.ask = cases[i].ask;
        x.probe = x.ask == XH_ASK_RANGES ? NULL : &probe;
        cr_expect_eq(judge(XH_NET_OK), cases[i].next, "%s", cases[i].lines);
        cr_expect(v.next != XH_NEXT_FAIL || (v.err.code == cases[i].code && strstr(v.err.text, cases[i].says)),
                  "%s: %s", cases[i].lines, v.err.text);
        cr_expect_eq(v.changed, v.next == XH_NEXT_FAIL && v.err.code == XH_E_CHANGED);
        cr_expect_eq(v.no_match, x.reply.status == 412);
        cr_expect_eq(v.to != NULL, x.reply.location[0] != '\0');
        cr_expect(!v.served && !v.forgets && !v.no_cert && !v.takes_whole && !v.measured);
    }
}

/* A request to |https| that sent |token| is refused. */
static void refuse_token(struct xh_url *https, struct xh_token *token)
{
    fresh();
    a.first = https;
    a.trusted = a.trusted_first = 1;
    ask(1, https, "HTTP/1.1 401 No\n\n");
    x.token = token;
    x.token_sent = 1;
}

Test(verdict, a_refused_token_is_looked_for_once_and_sent_again_if_it_is_another, .init = fresh, .fini = over)
{
    static struct xh_token token = {.value = (char *)"abc", .note = "the token of a test"};
    struct xh_url *https;
    cr_assert_eq(xh_url_parse("https://host/x.h5", &https, NULL), 0);
    for (int other = 0; other < 2; other++) {
        refuse_token(https, &token);
        cr_assert_eq(judge(XH_NET_OK), XH_NEXT_LOOK);
        cr_assert(!a.tries.token_reread && v.retries == 0, "nothing is decided before the token was looked for");
        a.looked = other ? XH_LOOK_OTHER : XH_LOOK_SAME;
        cr_assert_eq(judge(XH_NET_OK), other ? XH_NEXT_AGAIN : XH_NEXT_FAIL);
        cr_assert(a.tries.token_reread && (other || strstr(v.err.text, "the token of a test was refused")), "%s",
                  v.err.text);
        cr_assert(!strstr(v.err.text, "abc"));
        a.looked = XH_LOOK_NOT;
        cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL, "once is enough");
    }
    refuse_token(https, &token);
    x.begun_ns = 77;
    a.looked = XH_LOOK_SOON;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_AGAIN);
    cr_assert_eq(a.tries.refused_ns, 77, "it is not sent before that look is over");
    a.looked = XH_LOOK_NOT;
    a.trusted = 0; /* where it may not go it is not looked for */
    a.tries.token_reread = 0;
    cr_assert_eq(judge(XH_NET_OK), XH_NEXT_FAIL);
    xh_url_unref(https);
}

Test(verdict, a_network_that_fails_is_tried_again_as_often_as_it_pays, .init = fresh, .fini = over)
{
    static const struct {
        enum xh_net net;
        unsigned tries; /* 0: it fails at once */
        int code;
    } cases[] = {
        {XH_NET_NAME, 2, XH_E_NET},       {XH_NET_CONNECT, 5, XH_E_NET},     {XH_NET_CONNECT_TIMEOUT, 5, XH_E_TIMEOUT},
        {XH_NET_STALL, 5, XH_E_TIMEOUT},  {XH_NET_CRAWL, 5, XH_E_TIMEOUT},   {XH_NET_BROKEN, 5, XH_E_NET},
        {XH_NET_UNTRUSTED, 0, XH_E_TLS},  {XH_NET_HANDSHAKE, 2, XH_E_TLS},   {XH_NET_BAD_HTTP, 0, XH_E_PROTO},
        {XH_NET_LOCAL, 0, XH_E_NOMEM},    {XH_NET_CANCELLED, 0, XH_E_CANCELLED}, {XH_NET_EXITING, 0, XH_E_SYS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fresh();
        a.stranger = 1;
        a.opened = 0;
        for (unsigned n = 0; n <= cases[i].tries; n++) {
            ask(1, first, "");
            cr_expect_eq(judge(cases[i].net), n < cases[i].tries ? XH_NEXT_LATER : XH_NEXT_FAIL, "%zu, %u", i, n);
            cr_expect(n < cases[i].tries ? v.delay_ms >= 50u << n && v.delay_ms <= 100u << n
                                         : v.err.code == cases[i].code,
                      "%zu, %u: %llu ms, %s", i, n, (unsigned long long)v.delay_ms, v.err.text);
        }
    }
    fresh();
    ask(1, first, "");
    a.stands = 1;
    cr_expect_eq(judge(XH_NET_BROKEN), XH_NEXT_STAND, "nobody waits for a stream that stands still");
    cr_expect_eq(judge(XH_NET_LEFT), XH_NEXT_STAND);
    cr_expect_eq(v.tries.failures, 0);
    fresh();
    ask(1, first, "");
    cr_expect_eq(judge(XH_NET_TURN), XH_NEXT_LATER);
    cr_expect_eq(v.tries.failures, 0, "to wait for a proxy's word is no failure");
}

/* A captive portal, or a proxy that answers CONNECT with a page. */
Test(verdict, what_answers_without_tls_where_there_was_tls_may_be_gone_again, .init = fresh, .fini = over)
{
    net_said = "TLS connect error: error:0A00010B:SSL routines::wrong version number";
    a.opened = 1;
    for (unsigned n = 0; n <= 5; n++) {
        ask(1, first, "");
        cr_expect_eq(judge(XH_NET_HANDSHAKE), n < 5 ? XH_NEXT_LATER : XH_NEXT_FAIL, "%u", n);
        now += 10 * SECOND; /* beyond stall_timeout_ms in the end */
    }
    cr_expect(strstr(v.err.text, "on the way"), "%s", v.err.text);
    fresh();
    a.stranger = 1;
    a.opened = 0;
    ask(1, first, "");
    cr_expect_eq(judge(XH_NET_HANDSHAKE), XH_NEXT_FAIL);
    cr_expect(strstr(v.err.text, "speaks no TLS"), "%s", v.err.text);
    fresh();
    a.opened = 1;
    net_said = "sslv3 alert certificate expired";
    ask(1, first, "");
    cr_expect_eq(judge(XH_NET_HANDSHAKE), XH_NEXT_FAIL);
    net_said = "";
}

static unsigned tries_of(enum xh_net net, unsigned opened, int hears)
{
    unsigned n = 0;
    for (;; n++) {
        ask(1, first, "");
        x.opened = opened;
        if (judge(net) != XH_NEXT_LATER)
            return n;
        if (hears)
            a.heard_ns = now + 1;
    }
}

Test(verdict, a_server_that_takes_no_further_connection_is_read_over_those_that_there_are, .init = fresh, .fini = over)
{
    static const enum xh_net none[] = {XH_NET_NAME, XH_NET_CONNECT, XH_NET_CONNECT_TIMEOUT, XH_NET_HANDSHAKE,
                                       XH_NET_BROKEN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        fresh();
        a.sockets = 4;
        cr_expect_eq(tries_of(none[i], 1, 0), 5, "%zu: nothing comes over the others", i);
        fresh();
        a.sockets = 4;
        cr_expect_eq(tries_of(none[i], 1, 1), 8 * 5 + 8, "%zu: the bound of all attempts", i);
        cr_expect_eq(v.limits.connections, none[i] == XH_NET_NAME ? 0 : 4, "%zu: a resolver is not the server", i);
        cr_expect(none[i] == XH_NET_NAME || none[i] == XH_NET_HANDSHAKE || strstr(v.err.text, "XHDF5_CONNECTIONS"),
                  "%zu: %s", i, v.err.text);
        fresh();
        cr_expect_eq(tries_of(none[i], 1, 1), 5, "%zu: there are no others", i);
    }
    fresh();
    a.sockets = 4;
    cr_expect_eq(tries_of(XH_NET_BROKEN, 0, 1), 5, "it was an old connection");
    fresh();
    a.sockets = 4;
    cr_expect_eq(tries_of(XH_NET_STALL, 1, 1), 5, "each attempt takes long");
}

/* What the server, or a firewall, took none of for a while, as it had others, begins anew like any other. */
Test(verdict, behind_refusals_beside_others_a_failure_is_the_first_of_its_row, .init = fresh, .fini = over)
{
    for (int refused = 0; refused < 3; refused++) {
        fresh();
        a.sockets = 4;
        for (int n = 0; n < 10; n++) {
            ask(1, first, "");
            cr_assert_eq(judge(XH_NET_CONNECT), XH_NEXT_LATER, "%d", n);
            a.heard_ns = now + 1;
        }
        if (refused) /* of the connection that it got in the end */
            cr_assert_eq(answer(1, refused == 1 ? "HTTP/1.1 429 Slow\n\n" : "HTTP/1.1 500 Oops\n\n"), XH_NEXT_LATER);
        cr_assert_eq(bring(2), XH_NEXT_AGAIN);
        for (unsigned n = 0; n <= 5; n++) {
            ask(1, first, "");
            cr_assert_eq(judge(XH_NET_STALL), n < 5 ? XH_NEXT_LATER : XH_NEXT_FAIL, "%d, %u", refused, n);
            cr_expect(n == 5 || v.delay_ms <= 100u << n);
        }
    }
}

/* The server of an open file is started anew, or this machine changes its network: connections fail at once for
 * seconds. */
Test(verdict, a_server_that_was_there_is_waited_for_as_long_as_one_that_is_silent, .init = fresh, .fini = over)
{
    static const enum xh_net none[] = {XH_NET_NAME, XH_NET_CONNECT, XH_NET_HANDSHAKE, XH_NET_BROKEN};
    static const struct {
        unsigned retries;
        int stranger, hasty, speculative;
        unsigned tries; /* a second apart, with a time-out of 30 s */
    } cases[] = {{5, 0, 0, 0, 30}, {1, 0, 0, 0, 8 + 8}, {0, 0, 0, 0, 0},
                 {5, 1, 0, 0, 2},  {5, 0, 1, 0, 1},     {5, 0, 0, 1, 5}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            fresh();
            options.stall_timeout_ms = 30000;
            options.retries = cases[k].retries;
            a.opened = !cases[k].stranger;
            a.stranger = cases[k].stranger;
            a.hasty = cases[k].hasty;
            a.speculative = cases[k].speculative;
            unsigned most = none[i] == XH_NET_CONNECT || none[i] == XH_NET_BROKEN ? 5 : 2, n = tries_of(none[i], 1, 0);
            cr_expect_eq(n, a.stranger ? most : cases[k].tries, "%zu, %zu: %u", i, k, n);
        }
    fresh();
    options.stall_timeout_ms = 30000;
    for (unsigned n = 0; n < 20; n++) {
        ask(1, first, "");
        cr_expect_eq(judge(XH_NET_CONNECT), XH_NEXT_LATER);
        cr_expect_leq(v.delay_ms, 1600, "it is noticed soon when it is back: %llu", (unsigned long long)v.delay_ms);
    }
    ask(1, first, "");
    x.fresh = XH_PROGRESS_BYTES; /* it was back */
    judge(XH_NET_BROKEN);
    cr_expect_eq(tries_of(XH_NET_CONNECT, 1, 0), 27, "and is waited for anew, within the bound of all attempts: %u",
                 v.tries.repeats);
}

Test(verdict, a_server_that_had_others_meanwhile_is_waited_for_from_then_on, .init = fresh, .fini = over)
{
    options.stall_timeout_ms = 30000;
    for (unsigned n = 0; n < 10; n++) { /* in 50 s */
        now += 4 * SECOND;
        a.sockets = 4;
        ask(1, first, "");
        cr_assert_eq(judge(XH_NET_CONNECT), XH_NEXT_LATER, "%u", n);
        a.heard_ns = now + 1;
    }
    unsigned n = tries_of(XH_NET_CONNECT, 1, 0); /* the first of them is forgiven, too */
    cr_expect_eq(n, 30, "a second apart: %u", n);
}

Test(verdict, a_server_is_known_by_what_it_serves_at_once_when_it_refuses_more, .init = fresh, .fini = over)
{
    for (int refuses = 0; refuses < 2; refuses++) {
        fresh();
        for (unsigned others = 16; others >= 3; others--) {
            a.others = refuses ? others : 99;
            a.sockets = refuses ? 99 : others;
            a.heard_ns = now + 1;
            ask(1, first, refuses ? "HTTP/1.1 429 Slow\n\n" : "");
            a.tries.failures = a.tries.repeats = 0;
            cr_expect_eq(judge(refuses ? XH_NET_OK : XH_NET_CONNECT), XH_NEXT_LATER);
            cr_expect_eq(v.limits.connections, others > 15 ? 0 : others, "once may be a bad moment");
        }
        struct xh_limits l = v.limits;
        xh_limits_look(&l, now + XH_WIDEN_NS - 1);
        cr_expect_eq(l.connections, 3);
        xh_limits_serves(&l, 5, now + XH_WIDEN_NS - 1);
        cr_expect_eq(l.connections, 3, "it serves no more when it refuses one of more");
        xh_limits_look(&l, now + 2 * XH_WIDEN_NS);
        cr_expect_eq(l.connections, 3 * XH_WIDEN_TIMES);
        xh_limits_look(&l, now + 3 * XH_WIDEN_NS);
        xh_limits_look(&l, now + 4 * XH_WIDEN_NS);
        cr_expect_eq(l.connections, 0, "nothing is known any more");
        l = v.limits;
        xh_limits_look(&l, now + 60 * XH_WIDEN_NS);
        cr_expect_eq(l.connections, 0, "nor after an hour in which nobody looked");
    }
    fresh();
    a.others = a.sockets = 7;
    ask(1, first, "");
    judge(XH_NET_CONNECT);
    cr_expect_eq(v.limits.connections, 0, "nothing came over the others: it may serve nobody for a moment");
    a.heard_ns = now + 1;
    ask(1, first, "HTTP/1.1 500 Oops\n\n");
    judge(XH_NET_OK);
    cr_expect_eq(v.limits.connections, 0);
}

/* So they are where a process has as many files open as it may, or while a system's file of CAs is being replaced. */
Test(verdict, cas_that_were_read_before_may_be_readable_again, .init = fresh, .fini = over)
{
    no_cas = 1;
    for (unsigned n = 0; n <= 5; n++) {
        ask(1, first, "");
        cr_expect_eq(judge(XH_NET_UNTRUSTED), n < 5 ? XH_NEXT_LATER : XH_NEXT_FAIL, "%u", n);
    }
    cr_expect_eq(v.err.code, XH_E_TLS);
    fresh();
    ask(1, first, "");
    no_cas = a.stranger = 1;
    cr_expect_eq(judge(XH_NET_UNTRUSTED), XH_NEXT_FAIL, "nothing says that they ever were");
}

/* What a reader sees of a server that lets |rate| requests a second through, and |burst| more at once (nginx's
 * limit_req with nodelay), when it sends one after another, |n| in all: how many are refused, and the seconds that it
 * takes. */
static unsigned limited(unsigned rate, unsigned burst, unsigned n, double *seconds)
{
    const uint64_t trip = 2000000;
    uint64_t begun = now, each = SECOND / rate, sent = 0;
    double excess = 0;
    unsigned refused = 0;
    for (uint64_t last = now; n;) {
        if (now < sent + a.limits.gap_ns)
            now = sent + a.limits.gap_ns;
        double left = excess - (double)(now - last) / (double)each;
        int taken = (left > 0 ? left : 0) + 1 <= burst + 1;
        excess = taken ? (left > 0 ? left : 0) + 1 : excess;
        last = taken ? now : last;
        sent = now;
        now += trip - SECOND; /* ask() adds a second, and it is sent then */
        if (taken) {
            bring(1);
            a.heard_ns = now;
            a.tries = (struct xh_tries){0};
            n--;
        } else {
            refused++;
            cr_assert_eq(answer(1, "HTTP/1.1 503 Busy\n\n"), XH_NEXT_LATER);
            now += (v.delay_ms > v.hold_ms ? v.delay_ms : v.hold_ms) * 1000000u;
        }
    }
    *seconds = (double)(now - begun) / 1e9;
    return refused;
}

Test(verdict, a_server_that_limits_its_readers_is_asked_as_often_as_it_answers, .init = fresh, .fini = over)
{
    static const unsigned rates[] = {2, 10, 50}, bursts[] = {5, 20};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 2; j++) {
            fresh();
            double seconds, least = (500.0 - bursts[j]) / rates[i];
            unsigned refused = limited(rates[i], bursts[j], 500, &seconds);
            cr_expect_leq(refused, 60, "%u a second, %u at once: %u refused", rates[i], bursts[j], refused);
            cr_expect_leq(seconds, 1.03 * least + 1, "%u, %u: %.1f s of %.1f", rates[i], bursts[j], seconds, least);
        }
    for (size_t i = 0; i < 3; i++) { /* none at once: a gap is refused as soon as it is a little too short */
        fresh();
        double seconds;
        unsigned refused = limited(rates[i], 0, 500, &seconds);
        cr_expect_leq(refused, 1500, "%u a second: %u refused", rates[i], refused);
        cr_expect_leq(seconds, 1.6 * 500.0 / rates[i] + 1, "%u a second: %.1f s", rates[i], seconds);
    }
}

Test(verdict, a_server_that_refuses_at_random_or_for_a_time_is_not_asked_less_often, .init = fresh, .fini = over)
{
    for (unsigned n = 0; n < 300; n++) { /* one machine of three behind a name is broken */
        now -= SECOND - 20000000;
        rand() % 3 ? (void)bring(1) : (void)answer(1, "HTTP/1.1 503 Busy\n\n");
        a.heard_ns = now;
        cr_assert_lt(v.limits.gap_ns, 100000000, "%u", n);
    }
    fresh();
    bring(1);
    for (unsigned n = 0; n < 4; n++)
        answer(1, "HTTP/1.1 503 Busy\n\n");
    for (unsigned n = 0; n < 100; n++)
        bring(1);
    a.tries = (struct xh_tries){0};
    answer(1, "HTTP/1.1 503 Busy\n\n");
    struct xh_limits l = v.limits;
    xh_limits_look(&l, now + XH_WIDEN_NS);
    cr_expect_eq(l.gap_ns, 0, "it is forgotten after a minute");
    for (unsigned answers = 4; answers <= 16; answers += 4) { /* a bad moment now and then, and its reader is idle */
        fresh();
        for (unsigned k = 0; k < 5; k++) {
            answer(1, "HTTP/1.1 503 Busy\n\n");
            for (unsigned n = 0; n < answers; n++) {
                now -= SECOND - 10000000;
                bring(1);
            }
            a.tries = (struct xh_tries){0};
            now += 6 * SECOND;
            cr_expect_leq(v.limits.gap_ns, answers > 4 ? 0 : 11250000, "%u answers, the refusal %u: %llu", answers, k,
                          (unsigned long long)v.limits.gap_ns); /* at most as long as each took, 10 ms */
        }
    }
    fresh();
    v.limits = a.limits = (struct xh_limits){.gap_ns = 50000000};
    for (unsigned n = 0; n < 300; n++)
        bring(1);
    cr_expect_eq(v.limits.gap_ns, 0, "nothing is left of a gap in the end");
    fresh();
    a.others = 1;
    for (unsigned n = 0; n < 100; n++) {
        bring(1);
        a.tries = (struct xh_tries){0};
        a.heard_ns = now;
        answer(1, "HTTP/1.1 503 Busy\n\n");
    }
    cr_expect_eq(v.limits.gap_ns, 0, "it serves no more at once: that is another limit");
}
