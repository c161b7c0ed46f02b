/* Logins by redirect: which host gets what, cookies in their jars, whose turn it is to log in. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/now.h"
#include "base/wipe.h"
#include "origin/auth.h"
#include "origin/caller.h"
#include "origin/cookies.h"
#include "origin/login.h"
#include "origin/session.h"

#define SECOND 1000000000ull
#define A "https://a.example:443"
#define B "https://b.example:443"
#define L "https://login.example:443"

static uint64_t now = 1000 * SECOND;
uint64_t xh_now_ns(void) { return now; }

Test(login, a_host_is_listed_by_its_name_for_port_443_or_with_its_port)
{
    static const struct {
        const char *hosts, *server;
        int is;
    } cases[] = {
        {"login.example", L, 1},           {"x.example login.example", L, 1},      {" LOGIN.example; ", L, 1},
        {"login.example:443", L, 1},       {"login.example", "https://login.example:8443", 0},
        {"login.example:8443", "https://login.example:8443", 1},                   {"login.example:8443", L, 0},
        {".example", L, 0},                {"example", L, 0},                      {"gin.example", L, 0},
        {"login.example.org", L, 0},       {"login.example", "https://login.example.org:443", 0},
        {"login.example", "https://a.login.example:443", 0},                       {"", L, 0},
        {"login.example", "http://login.example:443", 0},                          {"[::1]", "https://[::1]:443", 1},
        {"[::1]:99", "https://[::1]:99", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(xh_login_is_host(cases[i].hosts, cases[i].server), cases[i].is, "%s in %s", cases[i].server,
                     cases[i].hosts);
}

Test(login, only_nasa_s_earthdata_gets_its_token)
{
    static const char *const theirs[] = {"https://data.lpdaac.earthdatacloud.nasa.gov:443",
                                         "https://archive.podaac.earthdata.nasa.gov:443"};
    static const char *const others[] = {"https://nasa.gov:443", "https://earthdata.nasa.gov.example.org:443",
                                         "https://evilearthdata.nasa.gov:443", "http://x.earthdata.nasa.gov:80",
                                         "https://bucket.s3.us-west-2.amazonaws.com:443"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        cr_expect(xh_login_is_earthdata(theirs[i]), "%s", theirs[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_not(xh_login_is_earthdata(others[i]), "%s", others[i]);
}

Test(login, the_word_of_a_refusal_is_one_of_the_standard_s)
{
    cr_expect_str_eq(xh_login_error("https://a/cb?error=access_denied&state=x"), "access_denied");
    cr_expect_str_eq(xh_login_error("https://a/cb?state=x&error=server_error"), "server_error");
    cr_expect_null(xh_login_error("https://a/cb?code=secret"));
    cr_expect_null(xh_login_error("https://a/cb?error=secret"));
    cr_expect_null(xh_login_error("https://a/cb?error=access_denied_secret"));
    cr_expect_null(xh_login_error("https://a/error=access_denied"));
    cr_expect_null(xh_login_error("https://a/cb?my_error=access_denied"));
}

/* ---- what a caller has for whom */

static char netrc[] = "/tmp/xh-test-login-XXXXXX";

static void with_netrc(const char *text)
{
    strcpy(netrc + sizeof netrc - 7, "XXXXXX");
    int fd = mkstemp(netrc);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    fchmod(fd, 0600);
    close(fd);
    setenv("NETRC", netrc, 1);
    setenv("BEARER_TOKEN", "bearer-of-all", 1);
    setenv("EARTHDATA_TOKEN", "token-of-earthdata", 1);
}

static struct xh_options options;
static struct xh_url *url;
static struct xh_caller caller;

static int find(const char *text, struct xh_err *err)
{
    cr_assert_eq(xh_url_parse(text, &url, NULL), 0);
    return xh_caller_find(&caller, &options, url, err);
}

static void drop(void)
{
    xh_caller_free(&caller);
    xh_url_unref(url);
}

static const struct xh_login *login_at(const char *text)
{
    struct xh_url *u;
    cr_assert_eq(xh_url_parse(text, &u, NULL), 0);
    const struct xh_login *l = xh_caller_login(&caller, u);
    xh_url_unref(u);
    return l;
}

static struct xh_send sent_to(const char *text)
{
    static struct xh_url *u;
    struct xh_send s = {0};
    xh_url_unref(u);
    u = NULL;
    cr_assert_eq(xh_url_parse(text, &u, NULL), 0);
    xh_caller_send(&caller, caller.token, u, &s);
    return s;
}

static void fresh(void)
{
    options = (struct xh_options){.netrc = 1};
    strcpy(options.login_hosts, "login.example other.example:8443");
    with_netrc("machine login.example login me password pw\ndefault login any password anys\n");
}

static void gone(void) { unlink(netrc); }

Test(login, the_password_is_for_the_login_host_alone, .init = fresh, .fini = gone)
{
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    const struct xh_login *l = login_at("https://login.example/oauth/authorize");
    cr_assert(l && strcmp(l->user, "me") == 0 && strcmp(l->password, "pw") == 0);
    cr_expect_null(login_at("https://login.example:444/"));
    cr_expect_null(login_at("http://login.example/"));
    cr_expect_null(login_at("https://other.example:8443/"), "the default entry is for no login host");
    cr_expect_null(login_at("https://a.example/"));
    cr_expect_null(sent_to("https://login.example/").user, "writing and the tool log in nowhere");
    drop();
    cr_assert_eq(find("https://login.example/x.h5", NULL), 0);
    cr_expect_null(login_at("https://login.example/"), "a URL of the user's there is no login");
    drop();
    cr_assert_eq(find("http://a.example/x.h5", NULL), 0);
    cr_expect_null(login_at("https://login.example/"), "nor is there one for a URL of http");
    cr_expect_null(caller.session);
    drop();
}

Test(login, a_url_that_a_file_names_starts_none_unless_it_gets_tokens_too, .init = fresh, .fini = gone)
{
    options.namer = (struct xh_namer){.by_file = 1, .parent = "/f.h5"};
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect(!login_at("https://login.example/") && !caller.session);
    drop();
    strcpy(options.namer.server, A);
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect(login_at("https://login.example/") && caller.session);
    drop();
    options.namer.server[0] = '\0';
    strcpy(options.credential_hosts, "a.example");
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect(login_at("https://login.example/") && caller.session);
    drop();
}

Test(login, a_list_that_makes_no_sense_is_said_to, .init = fresh, .fini = gone)
{
    static const char *const bad[] = {".example", "https://login.example", "login.example/x", "a@login.example",
                                      "login.example:0", "login.example:x", "lo gin.ex_ample:99999"};
    struct xh_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        strcpy(options.login_hosts, bad[i]);
        cr_expect_eq(find("https://a.example/x.h5", &err), XH_E_INVAL, "%s", bad[i]);
        cr_expect(strstr(err.text, "login_hosts"), "%s", err.text);
        drop();
    }
    options.netrc = 0;
    cr_expect_eq(find("https://a.example/x.h5", &err), 0);
    drop();
}

Test(login, users_have_sessions_of_their_own, .init = fresh, .fini = gone)
{
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    struct xh_session *mine = caller.session;
    drop();
    cr_assert_eq(find("https://b.example/y.h5", NULL), 0);
    cr_expect_eq(caller.session, mine, "one for all servers, with a jar each");
    drop();
    options.netrc = 0;
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect_neq(caller.session, mine);
    drop();
    options.netrc = 1;
    gone();
    with_netrc("machine login.example login me password other\n");
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect_neq(caller.session, mine);
    drop();
}

Test(login, the_token_of_earthdata_goes_to_its_hosts_and_stands_for_others_there, .init = fresh, .fini = gone)
{
    options.netrc = 0;
    strcpy(options.credential_hosts, "listed.example b.earthdata.nasa.gov");
    cr_assert_eq(find("https://data.x.earthdatacloud.nasa.gov/x.h5", NULL), 0);
    cr_expect_str_eq(sent_to("https://data.x.earthdatacloud.nasa.gov/x.h5").bearer, "token-of-earthdata");
    cr_expect_str_eq(sent_to("https://b.earthdata.nasa.gov/x.h5").bearer, "token-of-earthdata");
    cr_expect_null(sent_to("https://c.earthdata.nasa.gov/x.h5").bearer, "the user has not named it");
    cr_expect_null(sent_to("https://listed.example/x.h5").bearer);
    cr_expect_null(sent_to("https://bucket.s3.us-west-2.amazonaws.com/x.h5?X-Amz-Signature=1").bearer);
    drop();
    cr_assert_eq(find("https://a.example/x.h5", NULL), 0);
    cr_expect_str_eq(sent_to("https://a.example/x.h5").bearer, "bearer-of-all");
    drop();
    setenv("EARTHDATA_TOKEN", "", 1);
    cr_assert_eq(find("https://data.x.earthdatacloud.nasa.gov/x.h5", NULL), 0);
    cr_expect_str_eq(sent_to("https://data.x.earthdatacloud.nasa.gov/x.h5").bearer, "bearer-of-all");
    drop();
}

/* ---- cookies */

#define LINE(name, value) "#HttpOnly_a.example\tFALSE\t/\tTRUE\t0\t" name "\t" value "\n"
#define GONE(name, value) "#HttpOnly_a.example\tFALSE\t/\tTRUE\t1\t" name "\t" value "\n"

Test(cookies, changes_are_what_is_new_or_another_or_gone)
{
    static const struct {
        const char *before, *after, *changes;
    } cases[] = {
        {"", "", ""},
        {"", LINE("s", "1"), LINE("s", "1")},
        {LINE("s", "1"), LINE("s", "1"), ""},
        {LINE("s", "1"), LINE("s", "2"), LINE("s", "2")},
        {LINE("s", "1") LINE("t", "1"), LINE("t", "1"), GONE("s", "1")},
        {LINE("s", "1"), LINE("s", "1") LINE("t", ""), LINE("t", "")},
        {"rubbish\n" LINE("s", "1") "cut", "a\tb\n\n", GONE("s", "1")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *changes = xh_cookies_changes(cases[i].before, cases[i].after);
        cr_assert_not_null(changes);
        cr_expect_str_eq(changes, cases[i].changes, "%zu: %s", i, changes);
        xh_wipe(changes);
    }
}

Test(cookies, a_jar_has_each_server_s_own_and_a_chain_remembers_what_is_gone)
{
    struct xh_jar jar = {0}, chain = {0};
    cr_assert_eq(xh_jar_take(&jar, A, LINE("s", "1") LINE("t", "1"), 0), 0);
    cr_expect_str_eq(xh_jar_lines(&jar, B), "");
    cr_expect_str_eq(xh_jar_lines(&jar, "https://a.example:444"), "", "another port is another server");
    cr_assert_eq(xh_jar_take(&chain, A, GONE("s", "1") LINE("t", "2"), 1), 0);
    cr_expect_str_eq(xh_jar_lines(&chain, A), GONE("s", "1") LINE("t", "2"));
    cr_assert_eq(xh_jar_take(&jar, A, xh_jar_lines(&chain, A), 0), 0);
    cr_expect_str_eq(xh_jar_lines(&jar, A), LINE("t", "2"));
    cr_assert_eq(xh_jar_take(&jar, A, LINE("t", "3"), 0), 0);
    cr_expect_str_eq(xh_jar_lines(&jar, A), LINE("t", "3"), "one of each name");
    xh_jar_free(&jar);
    xh_jar_free(&chain);
    cr_expect_str_eq(xh_jar_lines(&jar, A), "");
}

Test(cookies, a_jar_is_bounded)
{
    struct xh_jar jar = {0};
    char *much = malloc(XH_COOKIES_MOST_BYTES + 100), server[40];
    snprintf(much, 100, "a.example\tFALSE\t/\tTRUE\t0\tbig\t");
    memset(much + strlen(much), 'x', XH_COOKIES_MOST_BYTES);
    strcpy(much + XH_COOKIES_MOST_BYTES, "\n");
    cr_assert_eq(xh_jar_take(&jar, A, LINE("s", "1"), 0), 0);
    cr_expect_eq(xh_jar_take(&jar, A, much, 0), -1);
    cr_expect_str_eq(xh_jar_lines(&jar, A), LINE("s", "1"));
    for (unsigned i = 1; i < XH_COOKIES_MOST_SERVERS; i++) {
        snprintf(server, sizeof server, "https://h%u:443", i);
        cr_assert_eq(xh_jar_take(&jar, server, LINE("s", "1"), 0), 0);
    }
    cr_expect_eq(xh_jar_take(&jar, B, LINE("s", "1"), 0), -1);
    xh_jar_free(&jar);
    free(much);
}

/* ---- whose turn it is */

static struct xh_session *session_of(const char *name)
{
    char identity[65] = "";
    snprintf(identity, sizeof identity, "%064d%s", 0, "");
    memcpy(identity, name, strlen(name));
    struct xh_session *s = xh_session_of(identity);
    cr_assert_not_null(s);
    return s;
}

Test(session, one_logs_in_and_the_others_take_what_comes_of_it)
{
    struct xh_session *s = session_of("one");
    struct xh_login_failure why = {0};
    struct xh_login_seen seen = xh_session_seen(s, A);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO);
    for (int i = 0; i < 15; i++)
        cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_WAIT);
    cr_assert_eq(xh_session_turn(s, B, L, xh_session_seen(s, B), &why), XH_LOGIN_GO, "another server's login is another");
    struct xh_jar chain = {0};
    cr_assert_eq(xh_jar_take(&chain, A, LINE("s", "1"), 1), 0);
    xh_session_take(s, &chain);
    xh_session_over(s, A, L, XH_LOGIN_GOOD, NULL);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_DONE);
    char *cookies = xh_session_cookies(s, &(struct xh_jar){0}, A);
    cr_expect_str_eq(cookies, LINE("s", "1"));
    xh_wipe(cookies);
    cookies = xh_session_cookies(session_of("another"), &chain, A);
    cr_expect_str_eq(cookies, LINE("s", "1"), "a request's own go with it");
    xh_wipe(cookies);
    xh_jar_free(&chain);
    cookies = xh_session_cookies(session_of("another"), &chain, A);
    cr_expect_str_eq(cookies, "", "and the session is one user's");
    xh_wipe(cookies);
    seen = xh_session_seen(s, A);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO, "the session has ended since");
}

Test(session, a_failure_is_that_of_all_who_wait_and_is_not_repeated_for_ten_seconds)
{
    struct xh_session *s = session_of("two");
    struct xh_login_failure why = {0}, bad = {.code = XH_E_ACCES, .status = 403, .why = "not approved"};
    struct xh_login_seen seen = xh_session_seen(s, A);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO);
    xh_session_over(s, A, L, XH_LOGIN_BAD, &bad);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_FAILED);
    cr_expect(why.end == XH_LOGIN_BAD && why.status == 403 && strcmp(why.why, "not approved") == 0);
    cr_assert_eq(xh_session_turn(s, A, L, xh_session_seen(s, A), &why), XH_LOGIN_FAILED, "who comes later too");
    cr_assert_eq(xh_session_turn(s, B, L, xh_session_seen(s, B), &why), XH_LOGIN_GO, "it is one server's");
    now += 11 * SECOND;
    cr_assert_eq(xh_session_turn(s, A, L, xh_session_seen(s, A), &why), XH_LOGIN_GO);
}

Test(session, a_password_that_was_refused_is_shown_for_no_server_of_that_login_host)
{
    struct xh_session *s = session_of("three");
    struct xh_login_failure why = {0}, bad = {.code = XH_E_ACCES, .status = 401, .why = "refused"};
    cr_assert_eq(xh_session_turn(s, A, L, xh_session_seen(s, A), &why), XH_LOGIN_GO);
    xh_session_over(s, A, L, XH_LOGIN_REFUSED, &bad);
    cr_assert_eq(xh_session_turn(s, B, L, xh_session_seen(s, B), &why), XH_LOGIN_FAILED);
    now += 59 * SECOND;
    cr_assert_eq(xh_session_turn(s, B, L, xh_session_seen(s, B), &why), XH_LOGIN_FAILED);
    cr_assert_eq(xh_session_turn(s, B, "https://m:443", xh_session_seen(s, B), &why), XH_LOGIN_GO);
    now += 2 * SECOND;
    cr_assert_eq(xh_session_turn(s, A, L, xh_session_seen(s, A), &why), XH_LOGIN_GO);
}

Test(session, what_may_pass_is_a_failure_of_those_that_waited_alone)
{
    struct xh_session *s = session_of("four");
    struct xh_login_failure why = {0}, net = {.code = XH_E_NET, .why = "no connection"};
    struct xh_login_seen seen = xh_session_seen(s, A);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO);
    xh_session_over(s, A, L, XH_LOGIN_NONE, &net);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_FAILED);
    cr_expect_eq(why.end, XH_LOGIN_NONE);
    seen = xh_session_seen(s, A);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO);
    xh_session_over(s, A, L, XH_LOGIN_NONE, NULL);
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO, "one that was given up says nothing");
    xh_session_after_fork();
    cr_assert_eq(xh_session_turn(s, A, L, seen, &why), XH_LOGIN_GO, "who logs in does not in a fork's child");
}

Test(session, cookies_are_doubted_unless_they_are_of_this_minute)
{
    struct xh_session *s = session_of("five");
    struct xh_login_failure why = {0};
    struct xh_jar chain = {0};
    cr_assert_eq(xh_session_turn(s, A, L, xh_session_seen(s, A), &why), XH_LOGIN_GO);
    xh_jar_take(&chain, A, LINE("s", "1"), 1);
    xh_session_take(s, &chain);
    xh_jar_free(&chain);
    xh_session_over(s, A, L, XH_LOGIN_GOOD, NULL);
    cr_expect_eq(xh_session_doubt(s, A, A), 0);
    now += 61 * SECOND;
    cr_expect_eq(xh_session_doubt(s, A, B), 0);
    cr_expect_eq(xh_session_doubt(s, A, A), 1);
    char *cookies = xh_session_cookies(s, &(struct xh_jar){0}, A);
    cr_expect_str_eq(cookies, "");
    xh_wipe(cookies);
}
