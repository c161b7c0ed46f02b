/* S3's pure parts: addresses and hosts, what errors say, profiles; and where keys are found. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/date.h"
#include "base/env.h"
#include "base/now.h"
#include "base/options.h"
#include "origin/caller.h"
#include "origin/libcurl.h"
#include "origin/origin.h"
#include "origin/profile.h"
#include "origin/s3.h"
#include "origin/s3keys.h"
#include "origin/s3process.h"
#include "origin/s3regions.h"
#include "origin/url.h"

static struct xh_err err;

/* ---- s3:// */

static const char *address(const char *name, const char *endpoint, const char *region, enum xh_s3_style style)
{
    static char kept[4096];
    struct xh_s3_where w = {endpoint, region, style};
    char *out = NULL;
    if (xh_s3_address(name, &w, &out, &err) != 0)
        return "refused";
    snprintf(kept, sizeof kept, "%s", out);
    free(out);
    return kept;
}

Test(s3, a_name_stands_for_a_url_of_its_bucket)
{
    static const struct {
        const char *name, *endpoint, *region;
        enum xh_s3_style style;
        const char *want;
    } cases[] = {
        {"s3://bucket/a/b.h5", "", "", XH_S3_AUTO, "https://bucket.s3.amazonaws.com/a/b.h5"},
        {"S3://bucket/a.h5", "", "eu-west-1", XH_S3_AUTO, "https://bucket.s3.eu-west-1.amazonaws.com/a.h5"},
        {"s3://bucket/a.h5", "", "cn-north-1", XH_S3_AUTO, "https://bucket.s3.cn-north-1.amazonaws.com.cn/a.h5"},
        {"s3://my.bucket/a.h5", "", "eu-west-1", XH_S3_AUTO, "https://s3.eu-west-1.amazonaws.com/my.bucket/a.h5"},
        {"s3://Old_Bucket/a.h5", "", "", XH_S3_AUTO, "https://s3.amazonaws.com/Old_Bucket/a.h5"},
        {"s3://bucket/a.h5", "", "", XH_S3_PATH, "https://s3.amazonaws.com/bucket/a.h5"},
        {"s3://bucket/a.h5", "https://ceph.org:8443", "", XH_S3_AUTO, "https://ceph.org:8443/bucket/a.h5"},
        {"s3://bucket/a.h5", "https://ceph.org/", "", XH_S3_AUTO, "https://ceph.org/bucket/a.h5"},
        {"s3://bucket/a.h5", "https://ceph.org/s3/", "x", XH_S3_AUTO, "https://ceph.org/s3/bucket/a.h5"},
        {"s3://bucket/a.h5", "http://ceph.org", "", XH_S3_VIRTUAL, "http://bucket.ceph.org/a.h5"},
        {"s3://bucket/a b%20c+\xc3\xa9(1)~.h5", "", "", XH_S3_AUTO,
         "https://bucket.s3.amazonaws.com/a%20b%2520c%2B%C3%A9%281%29~.h5"},
        {"s3://bucket//a.h5", "", "", XH_S3_AUTO, "https://bucket.s3.amazonaws.com//a.h5"},
        {"s3://bucket/a.h5?versionId=3/L4kqtJlcpXroDTDmJ", "", "", XH_S3_AUTO, "refused"},
        {"s3://bucket/a.h5?versionId=L4kq.tJ_l-", "", "", XH_S3_AUTO,
         "https://bucket.s3.amazonaws.com/a.h5?versionId=L4kq.tJ_l-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(address(cases[i].name, cases[i].endpoint, cases[i].region, cases[i].style), cases[i].want,
                         "%s: %s", cases[i].name, err.text);
}

Test(s3, a_name_that_is_none_is_refused_and_shows_no_query)
{
    static const char *const bad[] = {"s3://", "s3://bucket", "s3://bucket/", "s3:///key", "s3://user@bucket/key",
                                      "s3://buc ket/key", "s3://-b/key", "s3://b:80/key", "s3://[::1]/key",
                                      "s3://bucket/a?SECRET", "s3://bucket/a#b", "s3://bucket/a\nb",
                                      "s3://bucket/a?versionId=x&SECRET", "s3://b\\evil.org/x", "s3://b%2eevil/x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_str_eq(address(bad[i], "", "", XH_S3_AUTO), "refused", "%s", bad[i]);
        cr_expect_null(strstr(err.text, "SECRET"), "%s", err.text);
    }
    static const char *const endpoints[] = {"ceph.org", "https://", "https://u:SECRET@h", "ftp://h", "https://h/?x",
                                            "https://h#x"};
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        cr_expect_str_eq(address("s3://b/k", endpoints[i], "", XH_S3_AUTO), "refused", "%s", endpoints[i]);
        cr_expect_null(strstr(err.text, "SECRET"), "%s", err.text);
    }
    static const char *const regions[] = {"evil.org/", "a b", "-x", "x.y", "x/y", "x@y", "x:y"};
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        cr_expect_str_eq(address("s3://b/k", "", regions[i], XH_S3_AUTO), "refused", "%s", regions[i]);
}

/* ---- hosts */

static struct xh_url *parsed(const char *s)
{
    struct xh_url *u = NULL;
    cr_assert_eq(xh_url_parse(s, &u, &err), 0, "%s: %s", s, err.text);
    return u;
}

Test(s3, amazon_s_hosts_tell_bucket_and_region)
{
    static const struct {
        const char *url, *bucket, *region; /* |bucket| NULL: it is none */
    } cases[] = {
        {"https://bucket.s3.amazonaws.com/k", "bucket", ""},
        {"https://BUCKET.s3.us-west-2.amazonaws.com/k", "bucket", "us-west-2"},
        {"https://bucket.s3-us-west-2.amazonaws.com/k", "bucket", "us-west-2"},
        {"https://my.dotted.bucket.s3.us-west-2.amazonaws.com/k", "my.dotted.bucket", "us-west-2"},
        {"https://s3.us-west-2.amazonaws.com/bucket/k", "bucket", "us-west-2"},
        {"https://s3.amazonaws.com/bucket/k", "bucket", ""},
        {"https://s3-eu-west-1.amazonaws.com/bucket", "bucket", "eu-west-1"},
        {"https://bucket.s3.dualstack.us-west-2.amazonaws.com/k", "bucket", "us-west-2"},
        {"https://bucket.s3-fips.us-gov-west-1.amazonaws.com/k", "bucket", "us-gov-west-1"},
        {"https://bucket.s3-accelerate.amazonaws.com/k", "bucket", ""},
        {"https://bucket.s3.cn-north-1.amazonaws.com.cn/k", "bucket", "cn-north-1"},
        {"https://ap-1234.s3-accesspoint.us-east-1.amazonaws.com/k", "ap-1234", "us-east-1"},
        {"https://s3.amazonaws.com/", NULL, NULL},
        {"https://amazonaws.com/bucket/k", NULL, NULL},
        {"https://evil-s3.amazonaws.com.org/bucket/k", NULL, NULL},
        {"https://s3.us-west-2.amazonaws.com.evil.cn/bucket/k", NULL, NULL},
        {"https://bucket.s3.us-west-2.evilamazonaws.com/k", NULL, NULL},
        {"https://x.execute-api.us-east-1.amazonaws.com/k", NULL, NULL},
        {"https://bucket.s3-website-us-east-1.amazonaws.com/k", NULL, NULL},
        {"https://bucket.s3-website.eu-west-3.amazonaws.com/k", NULL, NULL},
        {"https://ceph.org/bucket/k", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_s3_place p;
        struct xh_url *u = parsed(cases[i].url);
        int is = xh_s3_place(u, &p);
        cr_expect_eq(is, cases[i].bucket != NULL, "%s", cases[i].url);
        if (is && cases[i].bucket) {
            cr_expect_str_eq(p.bucket, cases[i].bucket, "%s", cases[i].url);
            cr_expect_str_eq(p.region, cases[i].region, "%s", cases[i].url);
        }
        xh_url_unref(u);
    }
}

Test(s3, in_another_region_a_bucket_has_another_host_at_amazon_alone)
{
    static const struct {
        const char *url, *want;
    } cases[] = {
        {"https://b.s3.amazonaws.com/d/k.h5?versionId=1", "https://b.s3.eu-west-1.amazonaws.com/d/k.h5?versionId=1"},
        {"https://b.s3.us-east-1.amazonaws.com/k", "https://b.s3.eu-west-1.amazonaws.com/k"},
        {"https://s3.amazonaws.com/my.b/k", "https://s3.eu-west-1.amazonaws.com/my.b/k"},
        {"https://b.s3.dualstack.us-east-1.amazonaws.com/k", "https://b.s3.dualstack.eu-west-1.amazonaws.com/k"},
        {"https://b.s3-accelerate.amazonaws.com/k", "https://b.s3-accelerate.amazonaws.com/k"},
        {"https://b.s3.amazonaws.com:8443/k", "https://b.s3.amazonaws.com:8443/k"},
        {"https://ceph.org/b/k", "https://ceph.org/b/k"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_url *u = parsed(cases[i].url), *to = NULL;
        cr_assert_eq(xh_s3_take(u, "us-east-1", &err), 0);
        cr_assert_eq(xh_s3_in_region(u, "eu-west-1", &to, &err), 0, "%s", err.text);
        cr_expect_str_eq(to->text, cases[i].want);
        cr_expect_str_eq(to->region, "eu-west-1");
        xh_url_unref(to);
        to = NULL;
        cr_expect_eq(xh_s3_in_region(u, "evil.org/", &to, &err), XH_E_INVAL);
        cr_expect_eq(xh_s3_in_region(u, "x.evil", &to, &err), XH_E_INVAL);
        cr_expect_eq(xh_s3_in_region(u, "", &to, &err), XH_E_INVAL);
        if (strstr(cases[i].want, "eu-west-1"))
            cr_expect_eq(xh_s3_in_region(u, "default", &to, &err), XH_E_INVAL, "a region of Ceph's at Amazon");
        xh_url_unref(u);
    }
}

Test(s3, a_path_is_written_as_a_signature_wants_it)
{
    static const char *const cases[][2] = {
        {"https://h/b/a+b.h5", "https://h/b/a%2Bb.h5"},
        {"https://h/b/a%20b.h5", "https://h/b/a%20b.h5"},
        {"https://b.s3.amazonaws.com/a+b%2Bc", "https://b.s3.amazonaws.com/a%20b%2Bc"}, /* a blank, as Amazon has it */
        {"https://h/b/%61(1)'!*.h5", "https://h/b/a%281%29%27%21%2A.h5"},
        {"https://h/b/a%zz", "https://h/b/a%25zz"},
        {"https://h/b/%7e%2d", "https://h/b/~-"},
        {"https://h/b/x?versionId=a+b", "https://h/b/x?versionId=a+b"},
        {"https://h/b//x/", "https://h/b//x/"},
        /* signed as it is written */
        {"https://h/b/a+b.h5?X-Amz-Signature=1", "https://h/b/a+b.h5?X-Amz-Signature=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_url *u = parsed(cases[i][0]);
        cr_assert_eq(xh_s3_take(u, "r", &err), 0, "%s", err.text);
        cr_expect_str_eq(u->text, cases[i][1]);
        xh_url_unref(u);
    }
    static const char *const dots[] = {"https://h/b/../x", "https://h/b/.", "https://h/b/%2e%2e/x",
                                       "https://h/b/./x?a"};
    for (size_t i = 0; i < sizeof dots / sizeof *dots; i++) {
        struct xh_url *u = parsed(dots[i]);
        cr_expect_eq(xh_s3_take(u, "r", &err), XH_E_INVAL, "%s", dots[i]);
        cr_expect_null(u->region);
        xh_url_unref(u);
    }
}

/* ---- what a URL names */

Test(s3, a_signature_is_no_part_of_what_a_url_names)
{
    static const char *const cases[][2] = {
        {"https://h/b/k?X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date=D&X-Amz-Expires=1&X-Amz-SignedHeaders=host&"
         "X-Amz-Signature=S&X-Amz-Security-Token=T",
         "https://h/b/k"},
        {"https://h/b/k?versionId=7&X-Amz-Signature=S", "https://h/b/k?versionId=7"},
        {"https://h/b/k?X-Amz-Signature=S&versionId=7&part=2", "https://h/b/k?versionId=7&part=2"},
        {"https://h/k?AWSAccessKeyId=A&Signature=S&Expires=9", "https://h/k"},
        {"https://h/k?Expires=9&Signature=S&Key-Pair-Id=K", "https://h/k"},
        {"https://h/k?GoogleAccessId=A&Expires=9&Signature=S", "https://h/k"},
        {"https://h/k?X-Goog-Credential=A&X-Goog-Signature=S&generation=3", "https://h/k?generation=3"},
        {"https://h/k?sv=1&st=2&se=3&sr=b&sp=r&sig=S&snapshot=4", "https://h/k?snapshot=4"},
        {"https://h/k?authz=T", "https://h/k"},
        {"https://h/k?file=a&sv=1", "https://h/k?file=a&sv=1"}, /* nothing lets anybody in here */
        {"https://h/k?Expires=9", "https://h/k?Expires=9"},
        {"https://h/k", "https://h/k"},
        {"https://b.s3.amazonaws.com/d/k", "s3://b/d/k"},
        {"https://b.s3.eu-west-1.amazonaws.com/d/%6b+?versionId=1&X-Amz-Signature=S", "s3://b/d/k%20?versionId=1"},
        {"https://s3.eu-west-1.amazonaws.com/b/d/k", "s3://b/d/k"},
        {"https://b.s3.us-gov-west-1.amazonaws.com/k", "https://b.s3.us-gov-west-1.amazonaws.com/k"}, /* another b */
        {"https://b.s3.cn-north-1.amazonaws.com.cn/k", "https://b.s3.cn-north-1.amazonaws.com.cn/k"},
        {"https://b.s3-accesspoint.us-east-1.amazonaws.com/k", "https://b.s3-accesspoint.us-east-1.amazonaws.com/k"},
        {"https://b.s3.amazonaws.com:444/k", "https://b.s3.amazonaws.com:444/k"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *object = xh_s3_object(cases[i][0]);
        cr_expect_str_eq(object, cases[i][1]);
        free(object);
    }
}

/* ---- errors */

Test(s3, an_error_s_words_are_taken_and_nothing_else)
{
    static const struct {
        const char *xml, *code, *region, *time;
    } cases[] = {
        {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Key>x</Key></Error>", "NoSuchKey", "", ""},
        {"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>",
         "AuthorizationHeaderMalformed", "eu-west-1", ""},
        {"<Error><Code>RequestTimeTooSkewed</Code><ServerTime>2026-11-26T10:00:00Z</ServerTime></Error>",
         "RequestTimeTooSkewed", "", "2026-11-26T10:00:00Z"},
        {"<Code>AuthorizationHeaderMalformed</Code><Message>the region 'a' is wrong; expecting 'b-1'</Message>",
         "AuthorizationHeaderMalformed", "b-1", ""},
        {"<Code>AuthorizationHeaderMalformed</Code><Message>expecting &#34;b-1&#34;</Message>",
         "AuthorizationHeaderMalformed", "b-1", ""},
        {"<Code>Other</Code><Message>expecting 'b-1'</Message>", "Other", "", ""},
        {"<Error><Code>AKID/SECRET</Code><Region>eu-west-1</Region></Error>", "", "", ""},
        {"<Error><Code>X</Code><Region>evil.org/</Region><ServerTime>\x1b[31m</ServerTime></Error>", "X", "", ""},
        {"<Error><Code>", "", "", ""}, {"<Error><Code>X", "", "", ""}, {"", "", "", ""},
        {"<Code>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</Code>", "", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_s3_error e;
        xh_s3_error(cases[i].xml, strlen(cases[i].xml), &e);
        cr_expect_str_eq(e.code, cases[i].code);
        cr_expect_str_eq(e.region, cases[i].region);
        cr_expect_str_eq(e.server_time, cases[i].time);
    }
    char out[XH_DATE_TEXT_BYTES];
    cr_expect_str_eq(xh_date_text(0, out), "1970-01-01 00:00:00 UTC");
    cr_expect_str_eq(xh_date_text(951782400, out), "2000-02-29 00:00:00 UTC");
    cr_expect_str_eq(xh_date_text(1795687496, out), "2026-11-26 10:04:56 UTC");
}

/* ---- profiles */

static const char profiles[] = "# a comment\n"
                               "[default]\n"
                               "aws_access_key_id = AKID1\n"
                               "aws_secret_access_key=S=1/+ # not this\r\n"
                               "[profile two]\n"
                               "  region = no\n"
                               "region = eu-west-1\n"
                               "s3 =\n"
                               "  addressing_style = path\n"
                               "  endpoint_url = https://two\n"
                               "region = eu-west-2\n"
                               "addressing_style = no\n"
                               "[ profile\tthree ]\n"
                               "region=r3\n"
                               "[services mine]\n"
                               "s3 =\n"
                               "    endpoint_url = https://mine:9000\n"
                               "ec2 =\n"
                               "    endpoint_url = https://other\n"
                               "[broken\n"
                               "region = no\n"
                               "no equals\n";

Test(profile, values_are_those_of_their_section)
{
    static const char *const cases[][3] = {
        {"default", "aws_access_key_id", "AKID1"},
        {"default", "aws_secret_access_key", "S=1/+"},
        {"default", "region", NULL},
        {"profile two", "region", "eu-west-2"},
        {"profile two", "s3.addressing_style", "path"},
        {"profile two", "s3.region", NULL},
        {"profile two", "addressing_style", "no"},
        {"profile three", "region", "r3"},
        {"two", "region", NULL},
        {"services mine", "s3.endpoint_url", "https://mine:9000"},
        {"services mine", "endpoint_url", NULL},
        {"broken", "region", NULL},
        {"", "region", NULL},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found = xh_profile_get(profiles, cases[i][0], cases[i][1], out, sizeof out);
        cr_expect_eq(found, cases[i][2] != NULL, "[%s] %s: %s", cases[i][0], cases[i][1], out);
        cr_expect_str_eq(out, cases[i][2] ? cases[i][2] : "");
    }
    cr_expect(xh_profile_has(profiles, "default") && xh_profile_has(profiles, "profile three"));
    cr_expect(!xh_profile_has(profiles, "three") && !xh_profile_has(profiles, "nobody"));
    char small[4];
    cr_expect_eq(xh_profile_get(profiles, "default", "aws_access_key_id", small, sizeof small), 0);
}

Test(profile, random_text_breaks_nothing, .timeout = 60)
{
    static const char letters[] = "[]= \t\n#;ab.s3\"'\\\r\xff";
    srand(5);
    for (int i = 0; i < 100000; i++) {
        char text[48], out[16], *words[8];
        int n = rand() % 47;
        for (int k = 0; k < n; k++)
            text[k] = letters[rand() % (int)(sizeof letters - 1)];
        text[n] = '\0';
        xh_profile_get(text, "a", "b", out, sizeof out);
        xh_profile_get(text, "profile a", "s3.b", out, sizeof out);
        cr_assert_leq(xh_profile_words(text, words, 8), 7);
    }
}

Test(profile, a_command_is_split_without_a_shell)
{
    static const struct {
        const char *line, *words; /* with | between them; NULL: refused */
    } cases[] = {
        {"/bin/get-key --user me", "/bin/get-key|--user|me"},
        {"  a  'b c'  \"d \\\"e\\\"\" f\\ g ", "a|b c|d \"e\"|f g"},
        {"a $HOME `x` ; rm * > y", "a|$HOME|`x`|;|rm|*|>|y"},
        {"a ''", "a|"}, {"'a'b\"c\"", "abc"}, {"\"C:\\x\\y\"", "C:\\x\\y"}, {"a 'b", NULL}, {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[128], got[128] = "", *words[16];
        snprintf(line, sizeof line, "%s", cases[i].line);
        int n = xh_profile_words(line, words, 16);
        cr_expect_eq(n < 0, cases[i].words == NULL, "%s", cases[i].line);
        for (int k = 0; k < n; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", k ? "|" : "", words[k]);
        if (n >= 0)
            cr_expect_str_eq(got, cases[i].words);
    }
}

/* ---- keys */

static char dir[64];
static struct xh_options o;

static void fresh(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_REGION",
                                        "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                                        "AWS_NO_SIGN_REQUEST", "BEARER_TOKEN",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_EC2_METADATA_DISABLED"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    char path[96];
    snprintf(dir, sizeof dir, "/tmp/xh-s3-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/.aws", dir);
    mkdir(path, 0700);
    setenv("HOME", dir, 1);
    xh_options_defaults(&o);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/.aws/%s", dir, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    chmod(path, 0755);
}

static int lines_of(const char *name)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "%s/.aws/%s", dir, name);
    FILE *f = fopen(path, "r");
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

static int fetched; /* so often */

static char *fetch(const struct xh_env *env, const char **why)
{
    fetched++;
    *why = "is away";
    return xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI")
               ? strdup("{\"AccessKeyId\": \"I9\", \"SecretAccessKey\": \"SECRET9\", \"Token\": \"SECRET10\", "
                        "\"Expiration\": \"2099-01-02T03:04:05Z\"}")
               : NULL;
}

static struct xh_token *found(void)
{
    struct xh_s3_settings s;
    struct xh_token *t = NULL;
    cr_assert_eq(xh_s3_settings_find(&o, 1, &s, &err), 0, "%s", err.text);
    cr_assert_eq(xh_s3_keys_find(&o, &s, fetch, &t, &err), 0, "%s", err.text);
    return t;
}

/* |want|: "id secret session", "": no key. */
static void finds(const char *want, const char *where)
{
    struct xh_token *t = found();
    char got[128] = "";
    if (t->value)
        snprintf(got, sizeof got, "%s %s %s", t->s3->id, t->s3->secret, t->s3->session ? t->s3->session : "-");
    cr_expect_str_eq(got, want, "%s", t->note);
    cr_expect_not_null(strstr(t->note, where), "%s", t->note);
    cr_expect_null(strstr(t->note, "SECRET"), "%s", t->note);
    xh_token_unref(t);
}

Test(keys, they_are_found_where_other_tools_find_them, .init = fresh)
{
    finds("", "AWS_ACCESS_KEY_ID is not set");
    write_file("config", "[default]\naws_access_key_id=IC\naws_secret_access_key=SECRET0\n[profile p]\n"
                         "aws_access_key_id=IP\naws_secret_access_key=SECRET1\nregion=eu-west-1\n");
    finds("IC SECRET0 -", "/.aws/config");
    write_file("credentials", "[default]\naws_access_key_id=ID\naws_secret_access_key=SECRET2\n"
                              "[q]\naws_access_key_id=IQ\naws_secret_access_key=SECRET3\naws_session_token=SECRET4\n");
    finds("ID SECRET2 -", "/.aws/credentials");
    setenv("AWS_PROFILE", "p", 1);
    finds("IP SECRET1 -", "[profile p]");
    setenv("AWS_PROFILE", "q", 1);
    finds("IQ SECRET3 SECRET4", "[q]");
    setenv("AWS_PROFILE", "nobody", 1);
    finds("", "nobody");
    setenv("AWS_ACCESS_KEY_ID", "IE", 1);
    finds("", "half");
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET5", 1);
    finds("IE SECRET5 -", "AWS_ACCESS_KEY_ID");
    setenv("AWS_SESSION_TOKEN", "SECRET6", 1);
    finds("IE SECRET5 SECRET6", "AWS_ACCESS_KEY_ID");
    snprintf(o.aws_profile, sizeof o.aws_profile, "q");
    finds("IQ SECRET3 SECRET4", "[q]");
    snprintf(o.aws_access_key_id, sizeof o.aws_access_key_id, "IO");
    snprintf(o.aws_secret_access_key, sizeof o.aws_secret_access_key, "SECRET7");
    finds("IO SECRET7 -", "option aws_access_key_id");
    snprintf(o.aws_secret_access_key, sizeof o.aws_secret_access_key, "SECRET\r\nX: y");
    finds("", "characters");
    setenv("AWS_NO_SIGN_REQUEST", "true", 1);
    finds("", "AWS_NO_SIGN_REQUEST");
}

Test(keys, settings_come_from_options_then_variables_then_the_profile, .init = fresh)
{
    struct xh_s3_settings s;
    write_file("config", "[default]\nregion=r-1\nservices=mine\ns3 =\n  addressing_style=virtual\n"
                         "[services mine]\ns3 =\n  endpoint_url=https://mine\n");
    cr_assert_eq(xh_s3_settings_find(&o, 0, &s, &err), 0);
    cr_expect(!s.region[0] && !s.endpoint[0]);
    cr_assert_eq(xh_s3_settings_find(&o, 1, &s, &err), 0);
    cr_expect_str_eq(s.region, "r-1");
    cr_expect_str_eq(s.endpoint, "https://mine");
    cr_expect_eq(s.style, XH_S3_VIRTUAL);
    setenv("AWS_DEFAULT_REGION", "r-2", 1);
    setenv("AWS_ENDPOINT_URL", "https://all", 1);
    cr_assert_eq(xh_s3_settings_find(&o, 1, &s, &err), 0);
    cr_expect_str_eq(s.region, "r-2");
    cr_expect_str_eq(s.endpoint, "https://all");
    setenv("AWS_REGION", "r-3", 1);
    setenv("AWS_ENDPOINT_URL_S3", "https://s3", 1);
    snprintf(o.s3_addressing, sizeof o.s3_addressing, "path");
    cr_assert_eq(xh_s3_settings_find(&o, 1, &s, &err), 0);
    cr_expect_str_eq(s.region, "r-3");
    cr_expect_str_eq(s.endpoint, "https://s3");
    cr_expect_eq(s.style, XH_S3_PATH);
    snprintf(o.s3, sizeof o.s3, "yes");
    cr_expect_eq(xh_s3_settings_find(&o, 1, &s, &err), XH_E_INVAL);
    snprintf(o.s3, sizeof o.s3, "auto");
    setenv("AWS_REGION", "evil.org/", 1);
    struct xh_url *u = NULL;
    cr_expect_eq(xh_caller_url("s3://bucket/key", &o, &u, &err), XH_E_INVAL);
    cr_expect_eq(xh_caller_url("https://s3/bucket/key", &o, &u, &err), XH_E_INVAL);
    cr_assert_eq(xh_caller_url("https://data.org/x", &o, &u, &err), 0, "what is not of S3 goes on: %s", err.text);
    xh_url_unref(u);
}

/* What a look that begins now finds. */
static enum xh_again again(const struct xh_token *old, struct xh_token **out)
{
    uint64_t now = xh_now_ns();
    enum xh_again rc;
    while ((rc = xh_token_again(old, now, out)) == XH_AGAIN_SOON)
        usleep(10000);
    return rc;
}

Test(keys, a_process_prints_them_and_is_asked_again, .init = fresh, .timeout = 60)
{
    char config[512];
    write_file("get key", "#!/bin/sh\necho called >>\"$HOME/.aws/calls\"\n"
                          "[ \"$1\" = '$HOME;x' ] && [ \"$MINE\" = yes ] || exit 1\n"
                          "read line && exit 1\n"
                          "cat \"$HOME/.aws/printed\"\n");
    write_file("printed", "{\"Version\": 1, \"AccessKeyId\": \"I1\", \"SecretAccessKey\": \"SECRET1\", "
                          "\"SessionToken\": \"SECRET2\", \"Expiration\": \"2030-01-02T03:04:05Z\"}");
    snprintf(config, sizeof config, "[default]\ncredential_process = \"%s/.aws/get key\" $HOME;x\n", dir);
    write_file("config", config);
    setenv("MINE", "yes", 1);
    finds("I1 SECRET1 SECRET2", "credential_process");
    xh_env_hold(&o);
    struct xh_token *old = found(), *t = NULL, *next = NULL;
    cr_expect_eq(lines_of("calls"), 1, "what was printed holds for the next opening");
    setenv("MINE", "no", 1); /* what the program does later changes nothing */
    cr_expect_eq(old->expires, 1893553445);
    write_file("printed", "{\"Version\": 1, \"AccessKeyId\": \"I2\", \"SecretAccessKey\": \"SECRET3\"}");
    cr_assert_eq(again(old, &t), XH_AGAIN_FOUND);
    cr_assert_not_null(t->value, "%s", t->note);
    cr_expect_str_eq(t->s3->id, "I2");
    cr_assert_eq(again(old, &next), XH_AGAIN_FOUND); /* another file's: it need not be run again */
    cr_expect(next->value && strcmp(next->s3->id, "I2") == 0);
    cr_expect_eq(lines_of("calls"), 2);
    xh_token_unref(next);
    xh_token_unref(old);
    static const char *const bad[] = {"", "{", "[]",
                                      "{\"Version\": 2, \"AccessKeyId\": \"I\", \"SecretAccessKey\": \"S\"}",
                                      "{\"Version\": 1, \"AccessKeyId\": \"I\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file("printed", bad[i]);
        snprintf(config, sizeof config, "[default]\ncredential_process = \"%s/.aws/get key\" $HOME;x %zu\n", dir, i);
        write_file("config", config); /* else what failed just now is not run again */
        cr_assert_eq(again(t, &next), XH_AGAIN_FOUND);
        cr_expect_null(next->value, "%s", bad[i]);
        xh_token_unref(next);
    }
    xh_token_unref(t);
    xh_env_release(&o);
    finds("", "failed"); /* MINE is no now */
    write_file("config", "[default]\ncredential_process = /no/such/program\n");
    finds("", "cannot be run");
    write_file("config", "[default]\nsso_session = x\n");
    finds("", "export-credentials");
}

/* A program that prints a key after |seconds|, if ~/.aws/good is there. */
static void slow_program(int seconds)
{
    char text[512];
    snprintf(text, sizeof text,
             "#!/bin/sh\necho called >>\"$HOME/.aws/calls\"\nsleep %d\n[ -e \"$HOME/.aws/good\" ] || exit 1\n"
             "echo '{\"Version\": 1, \"AccessKeyId\": \"I1\", \"SecretAccessKey\": \"SECRET1\"}'\n", seconds);
    write_file("get", text);
    snprintf(text, sizeof text, "[default]\ncredential_process = %s/.aws/get\n", dir);
    write_file("config", text);
}

Test(keys, a_process_that_fails_is_not_run_by_each_file, .init = fresh, .timeout = 60)
{
    slow_program(0);
    finds("", "failed");
    finds("", "failed");
    cr_expect_eq(lines_of("calls"), 1, "many sources would wait for it one after the other");
    setenv("MINE", "other", 1); /* which it may go by */
    finds("", "failed");
    cr_expect_eq(lines_of("calls"), 2);
}

static void on_alarm(int n)
{
}

Test(keys, a_process_that_hangs_is_killed_in_time_though_signals_come, .timeout = 20)
{
    const struct sigaction handled = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    const struct itimerval often = {{.tv_usec = 20000}, {.tv_usec = 20000}}, never = {0};
    char command[] = "sleep 1000", *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const char *why = NULL;
    sigaction(SIGALRM, &handled, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    cr_expect_null(xh_s3_process_run(command, env, 300, &why));
    setitimer(ITIMER_REAL, &never, NULL);
    cr_expect(why && strstr(why, "took too long"), "%s", why);
}

static void *find_in_thread(void *ctx)
{
    struct xh_token **t = ctx;
    *t = found();
    return NULL;
}

Test(keys, a_fork_s_child_finds_them_though_a_program_runs_in_the_parent, .init = fresh, .timeout = 60)
{
    pthread_t thread;
    struct xh_token *ours = NULL;
    int status = 0;
    slow_program(2);
    write_file("good", "");
    cr_assert_eq(pthread_create(&thread, NULL, find_in_thread, &ours), 0);
    while (lines_of("calls") == 0)
        usleep(10000);
    pid_t pid = fork();
    if (pid == 0) {
        struct xh_s3_settings s;
        struct xh_token *t = NULL;
        alarm(30);
        xh_s3_settings_find(&o, 1, &s, NULL);
        _exit(xh_s3_keys_find(&o, &s, fetch, &t, NULL) == 0 && t->value ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    pthread_join(thread, NULL);
    cr_expect_not_null(ours->value);
    xh_token_unref(ours);
}

Test(keys, a_slow_program_is_waited_for_by_nobody_and_run_once_for_all_files, .init = fresh, .timeout = 60)
{
    slow_program(0);
    write_file("good", "");
    struct xh_token *one = found(), *two = found(), *t = NULL, *u = NULL;
    cr_expect_eq(one->s3->source, two->s3->source, "one source for all files");
    slow_program(1);
    setenv("MINE", "other", 1); /* a source of its own: the program may go by it */
    struct xh_token *other = found();
    cr_expect_neq(one->s3->source, other->s3->source);
    int calls = lines_of("calls");
    uint64_t began = xh_now_ns();
    cr_expect_eq(xh_token_again(one, began, &t), XH_AGAIN_SOON);
    cr_expect_eq(xh_token_again(two, began, &u), XH_AGAIN_SOON);
    cr_expect_lt(xh_now_ns() - began, UINT64_C(500000000), "which takes a second");
    while (xh_token_again(one, began, &t) == XH_AGAIN_SOON)
        usleep(10000);
    cr_assert_eq(xh_token_again(two, began, &u), XH_AGAIN_FOUND, "the same look");
    cr_expect_eq(lines_of("calls"), calls + 1);
    cr_assert(t->value && u->value);
    cr_expect_str_eq(t->value, u->value);
    cr_expect_eq(t->s3->source, one->s3->source, "so that they can be looked for once more");
    cr_expect_eq(xh_token_again(t, xh_now_ns(), &u), XH_AGAIN_SOON, "a look that began before is no answer");
}

Test(keys, a_look_that_ends_while_it_is_asked_for_is_not_made_twice, .init = fresh, .timeout = 60)
{
    enum { LOOKS = 100 };
    slow_program(0);
    write_file("good", "");
    struct xh_token *old = found(), *t = NULL;
    int calls = lines_of("calls");
    for (int i = 0; i < LOOKS; i++) {
        uint64_t began = xh_now_ns();
        enum xh_again rc;
        while ((rc = xh_token_again(old, began, &t)) == XH_AGAIN_SOON)
            ; /* asks as often as it can */
        cr_assert_eq(rc, XH_AGAIN_FOUND);
        xh_token_unref(t);
    }
    cr_assert_eq(again(old, &t), XH_AGAIN_FOUND); /* behind each that is under way */
    cr_expect_eq(lines_of("calls"), calls + LOOKS + 1);
    xh_token_unref(t);
    xh_token_unref(old);
}

Test(keys, a_fork_s_child_looks_for_them_though_a_look_is_under_way_in_the_parent, .init = fresh, .timeout = 60)
{
    int status = 0;
    slow_program(2);
    write_file("good", "");
    struct xh_token *old = found(), *t = NULL;
    int calls = lines_of("calls");
    cr_expect_eq(xh_token_again(old, xh_now_ns(), &t), XH_AGAIN_SOON);
    while (lines_of("calls") == calls)
        usleep(10000);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        _exit(again(old, &t) == XH_AGAIN_FOUND && t->value ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

Test(keys, a_metadata_service_is_asked_last_and_only_if_the_option_says_so, .init = fresh)
{
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/x", 1);
    finds("", "AWS_ACCESS_KEY_ID is not set");
    cr_expect_eq(fetched, 0);
    o.aws_metadata = 1;
    finds("I9 SECRET9 SECRET10", "this container's metadata service");
    finds("I9 SECRET9 SECRET10", "this container's metadata service");
    cr_expect_eq(fetched, 1, "what it told holds for the next opening");
    struct xh_token *old = found(), *t = NULL;
    cr_expect_eq(old->expires, 4071006245);
    cr_expect_eq(again(old, &t), XH_AGAIN_FOUND, "it is asked again, too");
    cr_expect_eq(fetched, 2);
    setenv("AWS_PROFILE", "nobody", 1);
    finds("", "the profile nobody");
    unsetenv("AWS_PROFILE");
    write_file("credentials", "[default]\naws_access_key_id = IA\naws_secret_access_key = SECRETB\n");
    finds("IA SECRETB -", "credentials");
    setenv("AWS_ACCESS_KEY_ID", "IC", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRETD", 1);
    finds("IC SECRETD -", "AWS_ACCESS_KEY_ID");
    cr_expect_eq(fetched, 2, "there are other keys");
}

Test(keys, a_machine_s_metadata_service_is_left_alone_where_the_environment_says_so, .init = fresh)
{
    o.aws_metadata = 1;
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    finds("", "AWS_EC2_METADATA_DISABLED");
    cr_expect_eq(fetched, 0);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/y", 1);
    finds("I9 SECRET9 SECRET10", "this container's metadata service");
    unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    finds("", "this machine's metadata service, which is away");
    finds("", "this machine's metadata service, which is away");
    cr_expect_eq(fetched, 2, "what failed just now is not asked by each file");
}

Test(keys, dates_are_read_in_any_zone)
{
    cr_expect_eq(xh_iso_date("1970-01-01T00:00:10Z"), 10);
    cr_expect_eq(xh_iso_date("1970-01-01T01:00:10+01:00"), 10);
    cr_expect_eq(xh_iso_date("1970-01-01T00:00:10.123456Z"), 10);
    cr_expect_eq(xh_iso_date("1969-12-31T23:30:10-00:30"), 10);
    cr_expect_eq(xh_iso_date("soon"), 0);
    cr_expect_eq(xh_iso_date("1970-01-01T00:00:10 no"), 0);
}

/* ---- to whom they go */

/* What a request for |to| of a file named |named| is sent with. */
static struct xh_send sent(const char *named, const char *to, struct xh_caller *c)
{
    struct xh_url *u = NULL, *t = NULL;
    struct xh_send s = {0};
    if (!xh_libcurl_signs())
        cr_skip_test("this libcurl makes no signatures for S3");
    cr_assert_eq(xh_caller_url(named, &o, &u, &err), 0, "%s", err.text);
    cr_assert_eq(xh_caller_find(c, &o, u, &err), 0, "%s", err.text);
    cr_assert_eq(xh_url_parse(to, &t, &err), 0);
    if (xh_url_same_server(u, t) && u->region)
        cr_assert_eq(xh_s3_take(t, u->region, &err), 0);
    xh_s3_follow(u, t);
    xh_caller_send(c, c->token, t, &s);
    return s; /* the test ends soon: what it points to is not freed */
}

Test(keys, they_are_shown_to_the_user_s_bucket_alone, .init = fresh)
{
    static const struct {
        const char *named, *to;
        int gets;
    } cases[] = {
        {"s3://bkt/k", "https://bkt.s3.amazonaws.com/k", 1},
        {"s3://bkt/k", "https://bkt.s3.eu-west-1.amazonaws.com/k", 1},
        {"s3://bkt/k", "https://s3.eu-west-1.amazonaws.com/bkt/k", 1},
        {"s3://bkt/k", "https://other.s3.eu-west-1.amazonaws.com/k", 0},
        {"s3://bkt/k", "https://s3.eu-west-1.amazonaws.com/other/k", 0},
        {"s3://bkt/k", "https://evil.org/b/k", 0},
        {"s3://bkt/k", "https://bkt.s3.us-gov-west-1.amazonaws.com/k", 0}, /* another's: names are others there */
        {"https://ap-1.s3-accesspoint.us-west-2.amazonaws.com/k", "https://ap-1.s3.us-west-2.amazonaws.com/k", 0},
        {"s3://bkt/k", "https://bkt.s3.amazonaws.com.evil.cn/k", 0},
        {"s3://bkt/k", "http://bkt.s3.eu-west-1.amazonaws.com/k", 0},
        {"s3://bkt/k", "https://bkt.s3.amazonaws.com/k?X-Amz-Signature=1", 0},
        {"https://bkt.s3.amazonaws.com/k", "https://bkt.s3.amazonaws.com/k", 1},
        {"http://bkt.s3.amazonaws.com/k", "http://bkt.s3.amazonaws.com/k", 0},
        {"https://data.org/bkt/k", "https://data.org/bkt/k", 0},
        {"https://data.org/bkt/k", "https://bkt.s3.amazonaws.com/k", 0}, /* a redirect makes no S3 of what is none */
        {"https://me:pw@bkt.s3.amazonaws.com/k", "https://bkt.s3.amazonaws.com/k", 0},
    };
    setenv("AWS_ACCESS_KEY_ID", "ID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    setenv("BEARER_TOKEN", "bearer", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_caller c;
        struct xh_send s = sent(cases[i].named, cases[i].to, &c);
        cr_expect_eq(s.region != NULL, cases[i].gets, "%s to %s", cases[i].named, cases[i].to);
        if (c.url->region) /* one or the other */
            cr_expect_null(s.bearer, "%s", cases[i].named);
        if (!cases[i].gets)
            cr_expect(!s.password || strcmp(s.password, "SECRET") != 0);
    }
    setenv("AWS_ENDPOINT_URL_S3", "https://data.org", 1);
    struct xh_caller c;
    cr_expect_not_null(sent("https://data.org/bkt/k", "https://data.org/bkt/k", &c).region);
    cr_expect_not_null(sent("s3://bkt/k", "https://data.org/bkt/k", &c).region);
    cr_expect_null(sent("https://bkt.data.org/k", "https://bkt.data.org/k", &c).region);
    snprintf(o.s3_addressing, sizeof o.s3_addressing, "virtual");
    cr_expect_not_null(sent("https://bkt.data.org/k", "https://bkt.data.org/k", &c).region);
    cr_expect_null(sent("https://data.org.evil/b/k", "https://data.org.evil/b/k", &c).region);
    cr_expect_null(sent("https://evildata.org/b/k", "https://evildata.org/b/k", &c).region);
    cr_expect_null(sent("https://data.org:8443/b/k", "https://data.org:8443/b/k", &c).region);
    snprintf(o.s3, sizeof o.s3, "off");
    cr_expect_null(sent("s3://bkt/k", "https://data.org/bkt/k", &c).region);
    snprintf(o.s3, sizeof o.s3, "on");
    cr_expect_not_null(sent("https://other.org/b/k", "https://other.org/b/k", &c).region);
}

Test(keys, a_file_does_not_send_them_where_the_user_did_not, .init = fresh)
{
    static const struct {
        const char *parent, *named, *to;
        int gets;
    } cases[] = {
        {"s3://bkt/f", "s3://bkt/k", "https://bkt.s3.amazonaws.com/k", 1},
        {"s3://bkt/f", "s3://bkt/k", "https://bkt.s3.eu-west-1.amazonaws.com/k", 1},
        {"s3://bkt/f", "s3://other/k", "https://other.s3.amazonaws.com/k", 0},
        {"s3://my.bkt/f", "s3://its.bkt/k", "https://s3.amazonaws.com/its.bkt/k", 0},
        {"https://data.org/f", "s3://bkt/k", "https://bkt.s3.amazonaws.com/k", 0},
    };
    setenv("AWS_ACCESS_KEY_ID", "ID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SECRET", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_caller c;
        struct xh_namer n = {.by_file = 1, .remote = 1};
        struct xh_url *u = NULL;
        xh_options_defaults(&o);
        cr_assert_eq(xh_caller_url(cases[i].parent, &o, &u, &err), 0);
        if (xh_auth_trusts(&o, u, u))
            snprintf(n.server, sizeof n.server, "%s", u->server);
        o.namer = n;
        cr_expect_eq(sent(cases[i].named, cases[i].to, &c).region != NULL, cases[i].gets, "%s names %s",
                     cases[i].parent, cases[i].named);
        if (!cases[i].gets) {
            struct xh_url *t = NULL;
            cr_assert_eq(xh_url_parse(cases[i].to, &t, &err), 0);
            snprintf(o.credential_hosts, sizeof o.credential_hosts, ".amazonaws.com");
            cr_expect_not_null(sent(cases[i].named, cases[i].to, &c).region);
            xh_url_unref(t);
        }
        xh_url_unref(u);
    }
}

Test(keys, a_name_in_a_file_runs_no_program_for_another_s_bucket, .init = fresh)
{
    struct xh_caller c;
    slow_program(0);
    write_file("good", "");
    o.namer = (struct xh_namer){.by_file = 1, .remote = 1};
    snprintf(o.namer.server, sizeof o.namer.server, "https://data.org:443");
    cr_expect_null(sent("s3://bkt/k", "https://bkt.s3.amazonaws.com/k", &c).region);
    cr_expect_eq(lines_of("calls"), 0);
    snprintf(o.namer.server, sizeof o.namer.server, "https://bkt.s3.amazonaws.com:443");
    cr_expect_not_null(sent("s3://bkt/k", "https://bkt.s3.amazonaws.com/k", &c).region);
    cr_expect_eq(lines_of("calls"), 1);
}

Test(keys, a_signed_url_is_not_moved_to_where_its_bucket_is_known_to_lie, .init = fresh)
{
    struct xh_url *named = NULL, *to = NULL, *signed_ = NULL, *found_ = NULL;
    cr_assert_eq(xh_caller_url("s3://bkt/k", &o, &named, &err), 0);
    cr_assert_eq(xh_s3_in_region(named, "eu-west-1", &to, &err), 0);
    xh_s3_regions_note(named, to);
    cr_expect_not_null(found_ = xh_s3_regions_find(named));
    cr_assert_eq(xh_caller_url("https://bkt.s3.amazonaws.com/k?X-Amz-Signature=1", &o, &signed_, &err), 0);
    cr_expect_null(xh_s3_regions_find(signed_), "its signature is of its host");
    xh_url_unref(found_);
    xh_url_unref(signed_);
    xh_url_unref(to);
    xh_url_unref(named);
}

/* Writes who reads |name|. The files ~/.aws are as they are now. */
static void reader_of(const char *name, char out[XH_READER_BYTES])
{
    cr_assert_eq(xh_origin_reader(name, &o, out), 1);
}

Test(keys, who_reads_a_name_is_told_apart_by_the_endpoint_and_the_region_of_the_profile, .init = fresh)
{
    char here[XH_READER_BYTES], again[XH_READER_BYTES], there[XH_READER_BYTES], elsewhere[XH_READER_BYTES];
    snprintf(o.ca_bundle, sizeof o.ca_bundle, "%s/.aws/config", dir); /* any file will do: nothing is asked */
    write_file("config", "[default]\nendpoint_url = https://here.org\n");
    reader_of("s3://bkt/k", here);
    reader_of("s3://bkt/k", again);
    write_file("config", "[default]\nendpoint_url = https://there.org\n");
    reader_of("s3://bkt/k", there);
    write_file("config", "[default]\nendpoint_url = https://here.org\nregion = eu-west-1\n");
    reader_of("s3://bkt/k", elsewhere);
    cr_expect_str_eq(here, again);
    cr_expect_str_neq(here, there, "what one endpoint answers is no answer of another's");
    cr_expect_str_neq(here, elsewhere);
}

Test(keys, who_reads_by_a_signature_is_told_apart_from_who_has_another, .init = fresh)
{
    char one[XH_READER_BYTES], two[XH_READER_BYTES];
    snprintf(o.ca_bundle, sizeof o.ca_bundle, "%s/.aws/config", dir);
    write_file("config", "[default]\n");
    reader_of("https://bkt.s3.amazonaws.com/k?X-Amz-Signature=1", one);
    reader_of("https://bkt.s3.amazonaws.com/k?X-Amz-Signature=2", two);
    cr_expect_str_neq(one, two);
}
