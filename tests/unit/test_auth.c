/* Suites auth and url: tokens, proxies, CAs and URLs, found in the right order, checked, and
 * never shown. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "origin/auth.h"
#include "origin/origin.h"
#include "origin/proxy.h"
#include "origin/url.h"

static char dir[] = "/tmp/xh-test-auth-XXXXXX";

static void setup(void)
{
    static const char *const names[] = {"BEARER_TOKEN",   "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "X509_USER_PROXY",
                                        "X509_USER_CERT", "X509_USER_KEY",     "X509_CERT_DIR",   "CURL_CA_BUNDLE",
                                        "SSL_CERT_FILE",  "NETRC"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

/* Writes |text| to |name| in the test's directory. Returns the path, in a static buffer. */
static const char *file(const char *name, const char *text, mode_t mode)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(fd, mode);
    close(fd);
    return path;
}

static const char *runtime_name(void)
{
    static char name[32];
    snprintf(name, sizeof name, "bt_u%u", (unsigned)geteuid());
    return name;
}

static struct xh_token *found(void)
{
    struct xh_token *t = NULL;
    cr_assert_eq(xh_token_find(NULL, &t, NULL), 0);
    return t;
}

TestSuite(auth, .init = setup, .fini = teardown);

Test(auth, token_of_the_environment_comes_first)
{
    setenv("BEARER_TOKEN_FILE", file("t", "of.a.file", 0600), 1);
    setenv("BEARER_TOKEN", "  of.the.environment\n", 1);
    struct xh_token *t = found();
    cr_assert_str_eq(t->value, "of.the.environment");
    cr_assert_null(strstr(t->note, "of.the"));
    xh_token_unref(t);
}

Test(auth, token_file_comes_before_the_runtime_directory)
{
    setenv("XDG_RUNTIME_DIR", dir, 1);
    file(runtime_name(), "of.the.directory", 0600);
    struct xh_token *t = found();
    cr_assert_str_eq(t->value, "of.the.directory");
    cr_assert_not_null(strstr(t->note, runtime_name()));
    xh_token_unref(t);
    setenv("BEARER_TOKEN_FILE", file("t", "\n of.a.file \n", 0600), 1);
    t = found();
    cr_assert_str_eq(t->value, "of.a.file");
    cr_assert_not_null(strstr(t->note, "BEARER_TOKEN_FILE"));
    cr_assert_null(strstr(t->note, "of.a.file"));
    xh_token_unref(t);
}

Test(auth, a_named_file_that_cannot_be_used_is_said_and_not_replaced)
{
    setenv("XDG_RUNTIME_DIR", dir, 1);
    file(runtime_name(), "of.the.directory", 0600);
    setenv("BEARER_TOKEN_FILE", "/no/such/file", 1);
    struct xh_token *t = found();
    cr_assert_null(t->value);
    cr_assert_not_null(strstr(t->note, "/no/such/file"));
    xh_token_unref(t);
}

Test(auth, a_token_in_place_of_its_files_name_is_not_shown)
{
    static const char *const mistaken[] = {"eyJhbGciOi.eyJzdWIi.c2ln", "an_opaque-token", "with/a+slash==",
                                            "Bearer eyJ.eyJ.c2ln", "eyJ.eyJ.c2ln\n"};
    for (size_t i = 0; i < sizeof mistaken / sizeof *mistaken; i++) {
        setenv("BEARER_TOKEN_FILE", mistaken[i], 1);
        struct xh_token *t = found();
        cr_assert_null(t->value);
        cr_expect_null(strstr(t->note, mistaken[i]), "shown: %s", t->note);
        cr_expect_not_null(strstr(t->note, "into BEARER_TOKEN"), "what to do is not said: %s", t->note);
        xh_token_unref(t);
    }
    static const char *const names[] = {"/no/such/file", "./none", "../none", "~/none"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("BEARER_TOKEN_FILE", names[i], 1);
        struct xh_token *t = found();
        cr_expect_not_null(strstr(t->note, names[i]), "not named: %s", t->note);
        xh_token_unref(t);
    }
}

Test(auth, a_token_with_foreign_characters_is_none)
{
    static const char *const bad[] = {"", " \n", "two words", "line\nbreak", "ev\til", "caf\xc3\xa9", "a;b", "a\"b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("BEARER_TOKEN_FILE", file("t", bad[i], 0600), 1);
        struct xh_token *t = found();
        cr_expect_null(t->value, "accepted: %s", bad[i]);
        xh_token_unref(t);
    }
}

Test(auth, a_token_is_at_most_64_kib_long)
{
    char *big = malloc(XH_TOKEN_MAX_BYTES + 2);
    memset(big, 'a', XH_TOKEN_MAX_BYTES + 1);
    big[XH_TOKEN_MAX_BYTES + 1] = '\0';
    setenv("BEARER_TOKEN_FILE", file("t", big, 0600), 1);
    struct xh_token *t = found();
    cr_assert_null(t->value);
    xh_token_unref(t);
    big[XH_TOKEN_MAX_BYTES] = '\0';
    setenv("BEARER_TOKEN_FILE", file("t", big, 0600), 1);
    t = found();
    cr_assert_not_null(t->value);
    cr_assert_eq(strlen(t->value), XH_TOKEN_MAX_BYTES);
    xh_token_unref(t);
    free(big);
}

Test(auth, only_a_regular_file_is_read, .timeout = 100)
{
    char path[256];
    snprintf(path, sizeof path, "%s/fifo", dir);
    cr_assert_eq(mkfifo(path, 0600), 0);
    setenv("BEARER_TOKEN_FILE", path, 1);
    struct xh_token *t = found();
    cr_assert_null(t->value);
    cr_assert_not_null(strstr(t->note, "not a regular file"));
    xh_token_unref(t);
}

Test(auth, a_link_in_the_runtime_directory_is_not_followed)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, runtime_name());
    cr_assert_eq(symlink(file("t", "of.a.file", 0600), path), 0);
    setenv("XDG_RUNTIME_DIR", dir, 1);
    struct xh_token *t = found();
    cr_assert(!t->value || strcmp(t->value, "of.a.file") != 0);
    xh_token_unref(t);
}

Test(auth, a_token_s_end_is_told_from_its_claims)
{
    char said[96];
    /* {"sub":"x","exp":1000} */
    struct xh_token t = {.value = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4IiwiZXhwIjoxMDAwfQ.sig"};
    xh_token_describe(&t, 2000, said, sizeof said);
    cr_assert_str_eq(said, " (it expired at 1970-01-01 00:16:40 UTC)");
    xh_token_describe(&t, 500, said, sizeof said);
    cr_assert_str_eq(said, "");
    static char *const odd[] = {"", ".", "..", "a.b", "a.!!!.c", "a.eyJleHAiOiJ4In0.c",
                                "a.eyJleHAiOjk5OTk5OTk5OTk5OTk5OTk5OTk5OX0.c"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        t.value = odd[i];
        xh_token_describe(&t, 2000, said, sizeof said);
        cr_expect_str_eq(said, "", "%s", odd[i]);
    }
}

/* base64url of |json| between dots. The caller frees it. */
static char *jwt(const char *json)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t n = strlen(json), used = 0;
    char *out = malloc(n * 2 + 16);
    out[used++] = 'h';
    out[used++] = '.';
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned char)json[i] << 16;
        v |= i + 1 < n ? (unsigned)(unsigned char)json[i + 1] << 8 : 0;
        v |= i + 2 < n ? (unsigned char)json[i + 2] : 0;
        for (int k = 0; k < 4 && i + (size_t)k <= n; k++)
            out[used++] = digits[v >> (18 - 6 * k) & 63];
    }
    strcpy(out + used, ".s");
    return out;
}

Test(auth, what_a_token_says_of_itself_is_of_its_outer_object, .timeout = 100)
{
    static const struct {
        const char *json, *said;
    } cases[] = {
        {"{\"exp\":1000}", " (it expired at 1970-01-01 00:16:40 UTC)"},
        {"{\"a\":{\"exp\":1000},\"exp\" : 9000}", ""},
        {"{\"a\":\"\\\"exp\\\":1000\",\"exp\":9000}", ""},
        {"{\"a\":\"exp\",\"exp\":9000}", ""},
        {"{\"aud\":\"https://x\",\"scope\":\"storage.read:/ b\",\"exp\":9000}",
         " (its audience is \"https://x\", its scope \"storage.read:/ b\")"},
        {"{\"aud\":[\"one\",\"two\"]}", " (its audience is \"one\", its scope \"\")"},
        {"{\"aud\":\"a\\nb\\u0001\\u007f\\\"\"}", " (its audience is \"a?b??\"\", its scope \"\")"},
        {"{\"aud\":\"a\nb\"}", ""}, {"{\"aud\":\"unfinished", ""}, {"{\"aud\":\"a\"} {", ""},
        {"{\"aud\":\"\\u0000\"}", ""},
        {"{\"exp\":1000,\"exp\":9000}", ""}, {"{\"exp\":1000.7}", " (it expired at 1970-01-01 00:16:40 UTC)"},
        {"{\"exp\":1e300}", ""}, {"{\"exp\":[1000],\"aud\":[[\"one\"]],\"scope\":{}}", ""},
        {"{\"aud", ""}, {"{\"aud\":", ""}, {"[1,2", ""}, {"}}}}\"exp\":5", ""}, {"", ""}, {"{\"exp\":\"1000\"}", ""},
        {"{\"exp\":-5}", ""}, {"{\"aud\":\"\\", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char said[300];
        struct xh_token t = {.value = jwt(cases[i].json)};
        xh_token_describe(&t, 2000, said, sizeof said);
        cr_expect_str_eq(said, cases[i].said, "%s: %s", cases[i].json, said);
        free(t.value);
    }
}

Test(auth, the_end_of_a_long_token_is_known)
{
    char *json = malloc(40000), said[96];
    sprintf(json, "{\"pad\":\"%020000d\",\"exp\":1000}", 0);
    char *value = jwt(json);
    setenv("BEARER_TOKEN", value, 1);
    struct xh_token *t = found();
    cr_assert_eq(t->expires, 1000);
    xh_token_describe(t, 2000, said, sizeof said);
    cr_assert_str_eq(said, " (it expired at 1970-01-01 00:16:40 UTC)");
    xh_token_unref(t);
    free(value);
    free(json);
}

Test(auth, a_token_is_read_again_from_its_file_alone)
{
    struct xh_token *t, *again;
    setenv("BEARER_TOKEN_FILE", file("t", "first", 0600), 1);
    t = found();
    setenv("BEARER_TOKEN", "of.the.environment", 1);
    file("t", "second", 0600);
    cr_assert_eq(xh_token_again(t, 0, &again), 1);
    cr_assert_str_eq(again->value, "second");
    xh_token_unref(t);
    char path[256];
    snprintf(path, sizeof path, "%s/t", dir);
    unlink(path);
    cr_assert_eq(xh_token_again(again, 0, &t), 1);
    cr_assert_null(t->value);
    cr_assert_not_null(strstr(t->note, path));
    xh_token_unref(again);
    file("t", "third", 0600);
    cr_assert_eq(xh_token_again(t, 0, &again), 1);
    cr_assert_str_eq(again->value, "third");
    xh_token_unref(t);
    xh_token_unref(again);
    t = found(); /* of the environment: there is nothing to read */
    cr_assert_eq(xh_token_again(t, 0, &again), 0);
    xh_token_unref(t);
    cr_assert_eq(xh_token_again(NULL, 0, &again), 0);
}

Test(auth, a_certificate_must_be_private_and_alive)
{
    struct xh_cert p;
    setenv("X509_USER_PROXY", "/no/such/proxy", 1);
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, "");
    cr_assert_not_null(strstr(p.note, "/no/such/proxy was not used: No such file"), "%s", p.note);
    setenv("X509_USER_PROXY", file("open", "rubbish", 0644), 1);
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, "");
    cr_assert_not_null(strstr(p.note, "chmod 600"));
    setenv("X509_USER_PROXY", file("rubbish", "rubbish", 0600), 1);
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, "");
    cr_assert_not_null(strstr(p.note, "key"));
}

/* A certificate in cert, its key in key, both in proxy, the key with a passphrase in locked. */
static void make_certificate(void)
{
    char command[1024];
    snprintf(
        command, sizeof command,
        "cd '%s' && umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=me "
        "-days 1 -keyout key -out cert 2>/dev/null && cat cert key > proxy && "
        "openssl pkcs8 -topk8 -in key -out locked -passout pass:x",
        dir);
    if (system(command) != 0)
        cr_skip_test("no openssl command");
}

Test(auth, certificates_are_found_in_their_order, .timeout = 100)
{
    struct xh_cert p;
    char cert[256], key[256], proxy[256], locked[256];
    snprintf(cert, sizeof cert, "%s/cert", dir);
    snprintf(key, sizeof key, "%s/key", dir);
    snprintf(proxy, sizeof proxy, "%s/proxy", dir);
    snprintf(locked, sizeof locked, "%s/locked", dir);
    make_certificate();
    setenv("X509_USER_CERT", cert, 1);
    setenv("X509_USER_KEY", key, 1);
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, cert, "%s", p.note);
    cr_assert_str_eq(p.key, key);
    setenv("X509_USER_KEY", locked, 1); /* and nobody is asked for a passphrase */
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, "");
    cr_assert_not_null(strstr(p.note, "passphrase"));
    setenv("X509_USER_PROXY", proxy, 1);
    xh_cert_find(NULL, &p);
    cr_assert_str_eq(p.path, proxy, "%s", p.note);
    cr_assert_str_eq(p.key, proxy);
    cr_assert_str_eq(p.note, "");
}

Test(auth, hosts_are_listed_by_name_port_or_domain)
{
    static const struct {
        const char *hosts, *server;
        int listed;
    } cases[] = {
        {"", "https://a.org:443", 0},
        {"a.org", "https://a.org:443", 1},
        {"a.org", "https://a.org:8443", 1},
        {"a.org:443", "https://a.org:443", 1},
        {"a.org:443", "https://a.org:8443", 0},
        {"A.Org", "https://a.org:443", 1},
        {"x y;z  a.org", "https://a.org:443", 1},
        {"a.org", "https://b.a.org:443", 0},
        {".a.org", "https://b.a.org:443", 1},
        {".a.org", "https://a.org:443", 0},
        {".a.org", "https://ba.org:443", 0},
        {"org", "https://a.org:443", 0},
        {"a.or", "https://a.org:443", 0},
        {"a.org.evil", "https://a.org:443", 0},
        {"[::1]", "https://[::1]:443", 1},
        {" ; ", "https://a.org:443", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(xh_auth_listed(cases[i].hosts, cases[i].server), cases[i].listed, "\"%s\" and %s", cases[i].hosts,
                     cases[i].server);
}

Test(auth, a_netrc_file_is_read_for_its_host)
{
    static const struct {
        const char *text, *user, *password;
    } cases[] = {
        {"machine a.org login me password secret", "me", "secret"},
        {"machine A.ORG\n\tpassword \"se cr\\\"et\"\n\tlogin me\n", "me", "se cr\"et"},
        {"machine b.org login x password y\nmachine a.org login me password secret\nmachine a.org login z password z",
         "me", "secret"},
        {"default login me password secret", "me", "secret"},
        {"machine a.org account x login me password secret default login x password y", "me", "secret"},
        {"macdef m\nmachine a.org login x password y\n\nmachine a.org login me password secret", "me", "secret"},
        {"# machine a.org login x password y\nmachine a.org login me password secret", "me", "secret"},
        {"machine b.org login x password y", NULL, NULL},
        {"machine a.org login me", NULL, NULL},
        {"machine a.org login me password", NULL, NULL},
        {"machine", NULL, NULL},
        {"machine a.org login \"unfinished", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *user = NULL, *password = NULL;
        struct xh_err err = {0};
        setenv("NETRC", file("netrc", cases[i].text, 0600), 1);
        cr_expect_eq(xh_netrc_find(NULL, "a.org", 1, &user, &password, &err), cases[i].user != NULL, "%s",
                     cases[i].text);
        if (cases[i].user && user) {
            cr_expect_str_eq(user, cases[i].user);
            cr_expect_str_eq(password, cases[i].password);
        }
        free(user);
        free(password);
    }
}

Test(auth, a_netrc_file_must_be_private)
{
    char *user = NULL, *password = NULL;
    struct xh_err err = {0};
    setenv("NETRC", file("netrc", "machine a login me password secret", 0640), 1);
    cr_assert_eq(xh_netrc_find(NULL, "a", 1, &user, &password, &err), XH_E_ACCES);
    cr_assert_not_null(strstr(err.text, "chmod 600"));
    cr_assert_null(strstr(err.text, "secret"));
    unsetenv("NETRC");
    setenv("HOME", dir, 1);
    cr_assert_eq(xh_netrc_find(NULL, "a", 1, &user, &password, &err), 0); /* no ~/.netrc */
}

static struct xh_options *options(void)
{
    static struct xh_options o;
    xh_options_defaults(&o);
    return &o;
}

Test(auth, ca_sources_in_their_order)
{
    struct xh_trust t;
    struct xh_err err;
    struct xh_options *o = options();
    char a[256], b[256], c[256], d[256];
    strcpy(a, file("a.pem", "x", 0600));
    strcpy(b, file("b.pem", "x", 0600));
    strcpy(c, file("c.pem", "x", 0600));
    strcpy(d, file("d.pem", "x", 0600));
    cr_assert_eq(xh_trust_find(o, d, NULL, &t, &err), 0);
    cr_assert_str_eq(t.file, d);
    setenv("X509_CERT_DIR", dir, 1);
    cr_assert_eq(xh_trust_find(o, d, NULL, &t, &err), 0);
    cr_assert_str_eq(t.file, "");
    cr_assert_str_eq(t.dir, dir);
    setenv("SSL_CERT_FILE", c, 1);
    cr_assert_eq(xh_trust_find(o, d, NULL, &t, &err), 0);
    cr_assert_str_eq(t.file, c);
    cr_assert_str_eq(t.dir, "");
    setenv("CURL_CA_BUNDLE", b, 1);
    cr_assert_eq(xh_trust_find(o, d, NULL, &t, &err), 0);
    cr_assert_str_eq(t.file, b);
    strcpy(o->ca_bundle, a);
    cr_assert_eq(xh_trust_find(o, d, NULL, &t, &err), 0);
    cr_assert_str_eq(t.file, a);
    cr_assert_not_null(strstr(t.note, "XHDF5_CA_BUNDLE"));
}

Test(auth, an_unreadable_ca_is_named_with_its_variable)
{
    struct xh_trust t;
    struct xh_err err;
    setenv("SSL_CERT_FILE", "/no/such/ca.pem", 1);
    cr_assert_eq(xh_trust_find(options(), NULL, NULL, &t, &err), XH_E_TLS);
    cr_assert_not_null(strstr(err.text, "/no/such/ca.pem"));
    cr_assert_not_null(strstr(err.text, "SSL_CERT_FILE"));
    setenv("SSL_CERT_FILE", dir, 1);
    cr_assert_eq(xh_trust_find(options(), NULL, NULL, &t, &err), XH_E_TLS);
    setenv("SSL_CERT_FILE", file("empty", "", 0600), 1);
    cr_assert_eq(xh_trust_find(options(), NULL, NULL, &t, &err), XH_E_TLS);
}

Test(auth, a_relative_name_is_one_of_the_directory_of_the_opening, .timeout = 100)
{
    struct xh_trust t;
    struct xh_cert p;
    struct xh_token *token, *again;
    struct xh_err err;
    struct stat st;
    file("t", "first", 0600);
    file("ca.pem", "x", 0600);
    make_certificate();
    cr_assert_eq(chdir(dir), 0);
    setenv("SSL_CERT_FILE", "ca.pem", 1);
    setenv("X509_USER_PROXY", "./proxy", 1);
    setenv("BEARER_TOKEN_FILE", "t", 1);
    cr_assert_eq(xh_trust_find(options(), NULL, NULL, &t, &err), 0);
    xh_cert_find(NULL, &p);
    token = found();
    cr_assert_eq(chdir("/"), 0);
    cr_expect_eq(stat(t.file, &st), 0, "not there: %s", t.file);
    cr_expect(p.path[0] && stat(p.path, &st) == 0 && stat(p.key, &st) == 0, "not there: %s", p.path);
    file("t", "second", 0600);
    cr_assert_eq(xh_token_again(token, 0, &again), 1);
    cr_expect(again->value && strcmp(again->value, "second") == 0, "%s", again->note);
    xh_token_unref(token);
    xh_token_unref(again);
}

Test(auth, a_relative_netrc_is_one_of_the_directory_of_the_opening)
{
    char *user = NULL, *password = NULL;
    struct xh_err err = {0};
    struct xh_options *o = options();
    file("logins", "machine a login me password secret", 0600);
    cr_assert_eq(chdir(dir), 0);
    setenv("NETRC", "logins", 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token", 1);
    xh_env_hold(o);
    cr_expect_eq(xh_env_is_same(o->env, NULL), 1);
    cr_assert_eq(chdir("/"), 0);
    cr_expect_eq(xh_env_is_same(o->env, NULL), 0);
    cr_expect_eq(xh_netrc_find(o->env, "a", 1, &user, &password, &err), 1, "%s", err.text);
    cr_expect_eq(strncmp(xh_env_get(o->env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), dir, strlen(dir)), 0);
    free(user);
    free(password);
    xh_env_release(o);
}

/* ---- URLs */

static struct xh_url *parsed(const char *s)
{
    struct xh_url *u = NULL;
    struct xh_err err = {0};
    cr_assert_eq(xh_url_parse(s, &u, &err), 0, "%s: %s", s, err.text);
    return u;
}

Test(url, a_percent_sign_of_a_name_is_one)
{
    static const char *const cases[][2] = {
        {"https://h/100%.h5", "https://h/100%25.h5"},   {"https://h/a%2", "https://h/a%252"},
        {"https://h/a%", "https://h/a%25"},             {"https://h/%%20b", "https://h/%25%20b"},
        {"https://h/a%20b%C3", "https://h/a%20b%C3"},   {"https://h/a%25zz", "https://h/a%25zz"},
        {"https://h/a%2?x=9%&y=%zz", "https://h/a%252?x=9%&y=%zz"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_url *u = parsed(cases[i][0]);
        cr_expect_str_eq(u->text, cases[i][1], "%s is %s", cases[i][0], u->text);
        xh_url_unref(u);
    }
}

Test(url, parts_are_told_apart)
{
    struct xh_url *u = parsed("HTTPS://us%40er:p%3Ass@Data.Example.org/d%20x/a b\xc3\xa9.h5?authz=SECRET#frag");
    cr_assert(u->https);
    cr_assert_str_eq(u->server, "https://data.example.org:443");
    cr_assert_str_eq(u->text, "https://data.example.org/d%20x/a%20b%C3%A9.h5?authz=SECRET");
    cr_assert_str_eq(u->shown, "https://data.example.org/d%20x/a%20b%C3%A9.h5");
    cr_assert_str_eq(u->user, "us@er");
    cr_assert_str_eq(u->password, "p:ss");
    xh_url_unref(u);
    u = parsed("http://[::1]:8080?q");
    cr_assert_str_eq(u->server, "http://[::1]:8080");
    cr_assert_str_eq(u->text, "http://[::1]:8080/?q");
    xh_url_unref(u);
    u = parsed("https://h:/x");
    cr_assert_str_eq(u->server, "https://h:443");
    cr_assert_str_eq(u->text, "https://h/x");
    cr_assert_null(u->user);
    xh_url_unref(u);
}

Test(url, nonsense_is_refused_without_showing_secrets)
{
    static const char *const bad[] = {
        "", "file:///etc/passwd", "ftp://h/x", "https:/h/x", "https://", "https:///x", "https://h:0/x",
        "https://h:65536/x", "https://h:8x/x", "https://h\n/x", "https://h/a\r\nHost: evil",
        "https://h o/x", "https://[::1/x", "https://[zz]/x", "https://h%41/x", "http://u:SECRET@h/x",
        "https://u:SECRET@h:99999/x?SECRET", "https://h\\x@y/x", "https://a@b@c d/",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct xh_url *u = NULL;
        struct xh_err err = {0};
        cr_expect_eq(xh_url_parse(bad[i], &u, &err), XH_E_INVAL, "accepted: %s", bad[i]);
        cr_expect_null(strstr(err.text, "SECRET"), "%s", err.text);
        if (strcmp(bad[i], "https:///x") == 0)
            cr_expect(strstr(err.text, "names no host"), "%s", err.text);
        if (strcmp(bad[i], "https://h\n/x") == 0)
            cr_expect(strstr(err.text, "end of a line"), "%s", err.text);
    }
}

Test(url, references_are_resolved_as_rfc_3986_has_it)
{
    static const char *const cases[][2] = {
        {"g", "http://a/b/c/g"},         {"./g", "http://a/b/c/g"},      {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},            {"//g", "http://g/"},           {"?y", "http://a/b/c/d?y"},
        {"g?y", "http://a/b/c/g?y"},     {"", "http://a/b/c/d?q"},       {".", "http://a/b/c/"},
        {"./", "http://a/b/c/"},         {"..", "http://a/b/"},          {"../g", "http://a/b/g"},
        {"../..", "http://a/"},          {"../../g", "http://a/g"},      {"../../../g", "http://a/g"},
        {"/./g", "http://a/g"},          {"/../g", "http://a/g"},        {"g.", "http://a/b/c/g."},
        {"..g", "http://a/b/c/..g"},     {"./g/.", "http://a/b/c/g/"},   {"g/../h", "http://a/b/c/h"},
        {"g?y/../x", "http://a/b/c/g?y/../x"}, {"https://h:1/x#f", "https://h:1/x"}, {"g#s", "http://a/b/c/g"},
        {"#s", "http://a/b/c/d?q"}, {"?y z#s?", "http://a/b/c/d?y%20z"},
        {"g\xc3\xa9?a%2fb", "http://a/b/c/g%C3%A9?a%2fb"},
    };
    struct xh_url *base = parsed("http://a/b/c/d?q");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_url *u = NULL;
        struct xh_err err = {0};
        cr_assert_eq(xh_url_resolve(base, cases[i][0], &u, &err), 0, "%s: %s", cases[i][0], err.text);
        cr_expect_str_eq(u->text, cases[i][1], "%s gave %s", cases[i][0], u->text);
        xh_url_unref(u);
    }
    xh_url_unref(base);
}

/* What a URL is signed for stays as it is. */
Test(url, a_redirect_to_a_named_server_is_taken_as_it_stands)
{
    static const char *const cases[][2] = {
        {"https://h/a/../b?sig=1", "https://h/a/../b?sig=1"}, {"https://h/%2E%2e/x?", "https://h/%2E%2e/x?"},
        {"//h/./x", "https://h/./x"}, {"https://[0:0::1]/p#f", "https://[0:0::1]/p"},
    };
    static const char *const bad[] = {"https:/h/x", "https:///h/x", "///h/x", "https:x", "https://h%61/x", "//h\\x/y"};
    struct xh_url *base = parsed("https://a/b/c?d"), *u = NULL;
    struct xh_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(xh_url_resolve(base, bad[i], &u, &err), XH_E_PROTO, "accepted: %s", bad[i]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(xh_url_resolve(base, cases[i][0], &u, &err), 0, "%s: %s", cases[i][0], err.text);
        cr_expect_str_eq(u->text, cases[i][1], "%s gave %s", cases[i][0], u->text);
        xh_url_unref(u);
    }
    xh_url_unref(base);
}

/* Else it would get no credentials any more. */
Test(url, a_redirect_to_another_path_stays_at_the_server_as_the_user_wrote_it)
{
    static const char *const bases[] = {"https://[2001:0DB8::1]:8443/a/b", "https://127.1/a/b", "https://h.:443/a/b"};
    static const char *const refs[] = {"/x", "x", "../x?y", "?y", "1:x", "#f"};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        for (size_t k = 0; k < sizeof refs / sizeof *refs; k++) {
            struct xh_url *base = parsed(bases[i]), *u = NULL;
            struct xh_err err;
            cr_assert_eq(xh_url_resolve(base, refs[k], &u, &err), 0, "%s: %s", refs[k], err.text);
            cr_expect(xh_url_same_server(base, u), "%s at %s is at %s", refs[k], bases[i], u->server);
            xh_url_unref(u);
            xh_url_unref(base);
        }
}

Test(url, a_redirect_may_not_leave_tls_nor_bring_a_user)
{
    struct xh_url *base = parsed("https://a/b"), *u = NULL;
    struct xh_err err;
    cr_assert_eq(xh_url_resolve(base, "http://a/b?authz=SECRET", &u, &err), XH_E_PROTO);
    cr_assert_null(strstr(err.text, "SECRET"));
    cr_assert_eq(xh_url_resolve(base, "https://u:SECRET@a/b", &u, &err), XH_E_PROTO);
    cr_assert_null(strstr(err.text, "SECRET"));
    cr_assert_eq(xh_url_resolve(base, "javascript:alert(1)", &u, &err), XH_E_PROTO);
    cr_assert_null(u);
    xh_url_unref(base);
}

Test(url, the_server_of_a_name_that_hdf5_puts_together_is_compared_as_for_credentials)
{
    static const struct {
        const char *a, *b;
        int same;
    } cases[] = {
        {"https://h.org/a", "HTTPS://H.org:443/b?x", 1}, {"https://me:pw@h.org/a", "https://h.org", 1},
        {"https://[::1]:443/a", "https://[::1]/", 1},    {"https://h.org/a", "http://h.org/a", 0},
        {"https://h.org/a", "https://h.org:444/a", 0},   {"https://h.org/a", "https://h.org./a", 0},
        {"https://h.org/a", "h.org/a", 0},               {"/a", "/a", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(xh_origin_have_one_server(cases[i].a, cases[i].b), cases[i].same, "%s, %s", cases[i].a,
                     cases[i].b);
}

Test(url, the_same_server_is_scheme_host_and_port)
{
    struct xh_url *a = parsed("https://h/x"), *b = parsed("https://H:443/y"), *c = parsed("https://h:8443/x"),
                  *d = parsed("http://h:443/x");
    cr_assert(xh_url_same_server(a, b));
    cr_assert(!xh_url_same_server(a, c));
    cr_assert(!xh_url_same_server(a, d));
    xh_url_unref(a);
    xh_url_unref(b);
    xh_url_unref(c);
    xh_url_unref(d);
}

Test(proxy, no_proxy_is_read_as_curl_reads_it)
{
    static const struct {
        const char *list, *host;
        int has;
    } cases[] = {
        {"", "a.org", 0}, {"*", "a.org", 1}, {"* ", "a.org", 0}, {"a.org", "a.org", 1}, {"A.ORG", "a.org", 1},
        {".a.org", "a.org", 1},
        {"a.org", "b.a.org", 1}, {"a.org", "ba.org", 0}, {"a.org.", "a.org", 1}, {"a.org", "a.org.", 1},
        {"b.org,a.org", "a.org", 1},
        {" b.org , a.org ", "a.org", 1}, {"org", "a.org", 1}, {"a.org:443", "a.org", 0}, {"127.0.0.1", "127.0.0.1", 1},
        {"127.0.0.1", "27.0.0.1", 0}, {"0.0.1", "127.0.0.1", 0}, {"127.0.0.0/8", "127.9.9.9", 1},
        {"127.0.0.0/8", "128.0.0.1", 0},
        {"10.1.2.0/23", "10.1.3.9", 1}, {"10.1.2.0/23", "10.1.4.9", 0}, {"10.0.0.0/33", "10.0.0.0", 0},
        {"10.0.0.0/4294967304", "10.9.9.9", 0},
        {"10.0.0.0/", "10.0.0.0", 0},
        {"10.0.0.0/-1", "10.0.0.0", 0}, {"0.0.0.0/0", "9.9.9.9", 1}, {"::1", "::1", 1}, {"[::1]", "::1", 1},
        {"fe80::/10", "fe81::2", 1},
        {"fe80::/10", "ff80::2", 0}, {"127.0.0.0/8", "::1", 0}, {"127.0.0.0/8", "a.org", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(xh_proxy_excepts(cases[i].list, cases[i].host), cases[i].has, "no_proxy=%s, host %s",
                     cases[i].list, cases[i].host);
}

Test(proxy, a_proxy_is_taken_apart_and_its_login_stands_in_no_text)
{
    static const struct {
        const char *value, *text, *user, *password;
    } cases[] = {
        {"p.org", "http://p.org:1080", NULL, NULL}, {"p.org:3128/", "http://p.org:3128", NULL, NULL},
        {"http://me:a%40b@p.org:3128", "http://p.org:3128", "me", "a@b"},
        {"https://p.org", "https://p.org:443", NULL, NULL},
        {"socks5h://[::1]:9", "socks5h://[::1]:9", NULL, NULL}, {"me@p.org:1", "http://p.org:1", "me", ""},
        {"DOMAIN\\me:x@y@p.org:1", "http://p.org:1", "DOMAIN\\me", "x@y"},
        {"ftp://p.org", NULL, NULL, NULL}, {"p.org:0", NULL, NULL, NULL}, {"p.org:65536", NULL, NULL, NULL},
        {"a b", NULL, NULL, NULL},
        {"me:p/w@p.org:1", NULL, NULL, NULL}, {"me:12/w@p.org:1", NULL, NULL, NULL},
        {"http://me:1#w@p.org:1", NULL, NULL, NULL}, {"https://me:1?w@p.org:1", NULL, NULL, NULL},
        {"http://", NULL, NULL, NULL}, {"me:%00@p.org", NULL, NULL, NULL},
    };
    struct xh_url *u = parsed("https://a.org/x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_proxies p;
        struct xh_err err = {0};
        setenv("https_proxy", cases[i].value, 1);
        unsetenv("no_proxy");
        cr_assert_eq(xh_proxies_read(&p, NULL, &err), 0);
        cr_expect_eq(xh_proxy_check(&p, u, &err), cases[i].text ? 0 : XH_E_INVAL, "%s", cases[i].value);
        if (cases[i].text) {
            cr_expect_str_eq(p.of[1].text, cases[i].text);
            cr_expect(cases[i].user ? p.of[1].user && strcmp(p.of[1].user, cases[i].user) == 0 : !p.of[1].user, "%s",
                      cases[i].value);
            cr_expect(cases[i].user ? strcmp(p.of[1].password, cases[i].password) == 0 : 1, "%s", cases[i].value);
        } else {
            cr_expect(!strchr(cases[i].value, '@') || !strstr(err.text, cases[i].value), "%s", err.text);
        }
        xh_proxies_free(&p);
    }
    xh_url_unref(u);
}

Test(proxy, a_login_is_shown_once_until_the_proxy_has_taken_it)
{
    struct xh_proxy p = {.text = "http://p:1", .user = "me", .password = "x", .key = 7}, other = p,
    open = {.text = "http://p:1", .key = 8};
    struct xh_url *here;
    cr_assert_eq(xh_url_parse("https://here/x", &here, NULL), 0);
    other.key = 9;
    cr_assert_eq(xh_proxy_turn(NULL, here), XH_PROXY_FREE);
    cr_assert_eq(xh_proxy_turn(&open, here), XH_PROXY_FREE);
    cr_assert_eq(xh_proxy_turn(&p, here), XH_PROXY_GO);
    cr_assert_eq(xh_proxy_turn(&p, here), XH_PROXY_WAIT);
    cr_assert_eq(xh_proxy_turn(&other, here), XH_PROXY_GO);
    xh_proxy_heard(&p, here, XH_PROXY_GO, 0);
    cr_assert_eq(xh_proxy_turn(&p, here), XH_PROXY_GO, "nothing is known yet");
    xh_proxy_heard(&p, here, XH_PROXY_GO, 200);
    cr_assert_eq(xh_proxy_turn(&p, here), XH_PROXY_FREE);
    xh_proxy_heard(&other, here, XH_PROXY_GO, 407);
    cr_assert_eq(xh_proxy_turn(&other, here), XH_PROXY_REFUSED);
    cr_assert_eq(xh_proxy_turn(&other, here), XH_PROXY_REFUSED);
    xh_url_unref(here);
}

Test(proxy, a_server_that_the_proxy_forbids_is_not_asked_for_again_for_a_minute_and_others_are)
{
    struct xh_proxy open = {.text = "http://p:1", .key = 17}, login = {.text = "http://p:1", .user = "me",
                                                                       .password = "x", .key = 18};
    struct xh_url *here, *there;
    cr_assert_eq(xh_url_parse("https://here/x", &here, NULL), 0);
    cr_assert_eq(xh_url_parse("https://there/x", &there, NULL), 0);
    cr_assert_eq(xh_proxy_turn(&open, here), XH_PROXY_FREE);
    xh_proxy_heard(&open, here, XH_PROXY_FREE, 403);
    cr_assert_eq(xh_proxy_turn(&open, here), XH_PROXY_FORBIDDEN);
    cr_assert_eq(xh_proxy_turn(&open, there), XH_PROXY_FREE);
    cr_assert_eq(xh_proxy_turn(&login, here), XH_PROXY_GO, "another login is another reader");
    xh_proxy_heard(&login, here, XH_PROXY_GO, 403);
    cr_assert_eq(xh_proxy_turn(&login, here), XH_PROXY_FORBIDDEN);
    cr_assert_eq(xh_proxy_turn(&login, there), XH_PROXY_GO);
    xh_proxy_heard(&login, there, XH_PROXY_GO, 200);
    cr_assert_eq(xh_proxy_turn(&login, there), XH_PROXY_FREE);
    cr_assert_eq(xh_proxy_turn(&login, here), XH_PROXY_FORBIDDEN, "also of a login that is good");
    xh_url_unref(here);
    xh_url_unref(there);
}
