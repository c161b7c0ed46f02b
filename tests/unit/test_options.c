/* Options: sources, bounds, and messages that help. Also the shown form of a URL. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "open/mistaken.h"
#include "base/options.h"

static struct xh_options o;
static struct xh_err err;

static void fresh(void)
{
    xh_options_defaults(&o);
    memset(&err, 0, sizeof err);
}

Test(options, defaults_are_those_of_the_table, .init = fresh)
{
    cr_assert_eq(o.connections, 0);
    cr_assert_eq(o.part_bytes, 512u << 10);
    cr_assert_str_eq(o.shadow_dir, "");
}

Test(options, a_config_string_sets_several_and_forgives_white_space, .init = fresh)
{
    cr_assert_eq(xh_options_from_string(&o, " connections = 4 , gap_bytes=8k,,shadow=off,"
                                            "shadow_dir=\"/a,b\"", "t", &err), 0, "%s", err.text);
    cr_assert_eq(o.connections, 4);
    cr_assert_eq(o.gap_bytes, 8192);
    cr_assert_eq(o.shadow, 0);
    cr_assert_str_eq(o.shadow_dir, "/a,b");
}

Test(options, an_unknown_name_is_told_with_the_nearest_known_one, .init = fresh)
{
    cr_assert_eq(xh_options_from_string(&o, "conections=4", "HDF5_DRIVER_CONFIG", &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "conections"));
    cr_assert(strstr(err.text, "connections"));
    cr_assert(strstr(err.text, "HDF5_DRIVER_CONFIG"));
}

Test(options, a_name_that_is_a_part_of_a_known_one_is_told_with_that, .init = fresh)
{
    static const char *const cases[][2] = {{"cache_dir", "disk_cache_dir"}, {"Region", "aws_region"},
                                           {"ca_dirs", "ca_dir"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[80];
        snprintf(want, sizeof want, "nearest known one is %s", cases[i][1]);
        cr_assert_eq(xh_options_set(&o, cases[i][0], "x", "here", &err), XH_E_INVAL);
        size_t n = strlen(err.text), k = strlen(want);
        cr_expect(n > k && strcmp(err.text + n - k, want) == 0, "%s: %s", cases[i][0], err.text);
    }
}

/* S and T stand for a secret. */
Test(options, no_part_of_a_secret_is_shown_where_a_comma_cuts_it, .init = fresh)
{
    static const char *const cases[][2] = {
        {"aws_secret_access_key=SSS,TTT", "aws_secret_access_key=\"...\""},
        {"aws_secret_access_key=SSS,TTT=TT", "aws_secret_access_key=\"...\""},
        {"connections=4, AWS_SESSION_TOKEN = SSS , TTT/T+T==", "part 3 (here)"},
        {"aws_secret_access_key=SSS,retries=3,log=\"read\",TTT=T", "aws_secret_access_key=\"...\""},
        {"endpoints=https://u:S,TTT@h/d", "endpoints=\"...\""},
        {"endpoints=https://h/d,https://u:TT=T@h/d", "endpoints=\"...\""},
        {"aws_secret_access_key:SSS,TTT", "part 1 (here) is not of the form option=value"},
        {"https://u:TTT@h/=T", "unknown option \"https\" (here)"},
        {"TTT", "part 1 (here)"},
        {"aws_secret_access_key=SSS,conections=4", "the nearest known one is connections"},
        {"aws_secret_access_key=\"SSS,SSS\",conections=4", "unknown option \"conections\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(xh_options_from_string(&o, cases[i][0], "here", &err), XH_E_INVAL, "%s", cases[i][0]);
        cr_expect(!strchr(err.text, 'S') && !strchr(err.text, 'T'), "%s: %s", cases[i][0], err.text);
        cr_expect_not_null(strstr(err.text, cases[i][1]), "%s: %s", cases[i][0], err.text);
    }
    cr_assert_eq(xh_options_from_string(&o, "aws_secret_access_key=\"S,S=\",retries=3", "t", &err), 0, "%s", err.text);
    cr_assert_str_eq(o.aws_secret_access_key, "S,S=");
}

Test(options, out_of_bounds_names_option_value_and_bounds, .init = fresh)
{
    static const char *const bad[] = {"65", "-1", "four", "", "4k", "99999999999999999999", "4 5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(xh_options_set(&o, "connections", bad[i], "here", &err), XH_E_INVAL, "%s", bad[i]);
        cr_assert(strstr(err.text, "connections") && strstr(err.text, bad[i]) && strstr(err.text, "0 to 64"),
                  "%s", err.text);
        cr_assert_eq(o.connections, 0);
    }
    cr_assert_eq(xh_options_set_number(&o, XH_OPT_ID_connections, 100, "the config struct", &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "100"));
}

Test(options, each_row_takes_its_bounds_and_refuses_what_lies_beyond, .init = fresh)
{
    for (unsigned i = 0; i < XH_OPT_COUNT; i++) {
        const struct xh_opt_row *row = &xh_opt_rows[i];
        char text[XH_OPT_STR_BYTES + 1];
        if (row->words)
            continue;
        for (int beyond = 0; beyond < 2; beyond++) {
            uint64_t most = row->max + (unsigned)beyond;
            if (row->type == XH_OPT_STR) {
                memset(text, 'x', most);
                text[most] = '\0';
            } else
                snprintf(text, sizeof text, "%llu", (unsigned long long)most);
            cr_expect_eq(xh_options_set(&o, row->name, text, "here", &err), beyond ? XH_E_INVAL : 0, "%s", row->name);
            cr_expect(!beyond || strstr(err.text, row->name), "%s", err.text);
        }
        if (row->type != XH_OPT_STR && row->min) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)row->min - 1);
            cr_expect_eq(xh_options_set(&o, row->name, text, "here", &err), XH_E_INVAL, "%s", row->name);
        }
        cr_expect_eq(xh_options_set(&o, row->name, row->def, "here", &err), 0, "%s", err.text);
    }
}

Test(options, a_word_is_one_of_the_rows_in_any_case_and_the_first_is_the_default, .init = fresh)
{
    for (unsigned i = 0; i < XH_OPT_COUNT; i++) {
        const struct xh_opt_row *row = &xh_opt_rows[i];
        const char *is = (const char *)&o + row->offset;
        char words[100], *rest = words;
        if (!row->words)
            continue;
        snprintf(words, sizeof words, "%s", row->words);
        cr_expect(strncmp(words, is, strlen(is)) == 0 && words[strlen(is)] == '|', "%s is %s", row->name, is);
        for (const char *word; (word = strsep(&rest, "|"));) {
            char upper[100];
            cr_expect(strlen(word) >= row->min && strlen(word) <= row->max, "%s", word);
            for (size_t at = 0; at <= strlen(word); at++)
                upper[at] = (char)toupper((unsigned char)word[at]);
            cr_expect_eq(xh_options_set(&o, row->name, upper, "here", &err), 0, "%s", err.text);
            cr_expect_str_eq(is, word);
        }
        cr_expect_eq(xh_options_set(&o, row->name, row->words, "here", &err), XH_E_INVAL);
        cr_expect_eq(xh_options_set(&o, row->name, "", "here", &err), XH_E_INVAL);
    }
    xh_options_set(&o, "sidecar", "of", "here", &err);
    cr_expect_str_eq(err.text, "option sidecar (here): got \"of\", want auto, off, require or body");
    xh_options_set(&o, "missing_sources", "eror", "here", &err);
    cr_expect_str_eq(err.text, "option missing_sources (here): got \"eror\", want fill or error");
}

Test(options, hosts_are_names_separated_by_blanks, .init = fresh)
{
    static const char *const good[] = {"", "a.org", "a.org .b.org; c.org:8443", "[::1]:443"};
    static const char *const bad[] = {"https://a.org", "a.org,b.org", "a.org/data"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect_eq(xh_options_set(&o, "credential_hosts", good[i], "here", &err), 0, "%s", err.text);
        cr_expect_str_eq(o.credential_hosts, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(xh_options_set(&o, "credential_hosts", bad[i], "here", &err), XH_E_INVAL, "%s", bad[i]);
        cr_expect(strstr(err.text, bad[i]) && strstr(err.text, "credential_hosts (here)"), "%s", err.text);
        cr_expect_str_eq(o.credential_hosts, good[3]);
        cr_expect_eq(xh_options_set(&o, "login_hosts", bad[i], "here", &err), XH_E_INVAL, "%s", bad[i]);
    }
    cr_expect_eq(xh_options_set(&o, "credential_hosts", "https://me:secret@a.org", "here", &err), XH_E_INVAL);
    cr_expect(strstr(err.text, "a.org") && !strstr(err.text, "secret"), "%s", err.text);
}

Test(options, malformed_strings_are_refused, .init = fresh)
{
    cr_assert_eq(xh_options_from_string(&o, "connections", "t", &err), XH_E_INVAL);
    cr_assert_eq(xh_options_from_string(&o, "log=\"abc", "t", &err), XH_E_INVAL);
    cr_assert_eq(xh_options_from_string(&o, "shadow=maybe", "t", &err), XH_E_INVAL);
    cr_assert_eq(xh_options_from_string(&o, "head_bytes=17179869184G", "t", &err), XH_E_INVAL);
}

Test(options, the_environment_is_weaker_than_the_string, .init = fresh)
{
    setenv("XHDF5_CONNECTIONS", "7", 1);
    setenv("XHDF5_RETRIES", "2", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), 0);
    cr_assert_eq(xh_options_from_string(&o, "retries=3", "t", &err), 0);
    cr_assert_eq(o.connections, 7);
    cr_assert_eq(o.retries, 3);
    setenv("XHDF5_CONNECTIONS", "", 1);
    setenv("XHDF5_STATS", "", 1);
    xh_options_defaults(&o);
    cr_assert_eq(xh_options_from_env(&o, &err), 0, "%s", err.text);
    cr_assert(o.connections == 0 && !o.stats, "empty is as if it were not set");
    setenv("XHDF5_CONNECTIONS", "700", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "XHDF5_CONNECTIONS"));
}

Test(options, the_driver_configuration_of_the_environment_counts_unless_it_is_another_drivers, .init = fresh)
{
    setenv("XHDF5_RETRIES", "2", 1);
    setenv("HDF5_DRIVER_CONFIG", "connections=4,retries=3", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), 0, "%s", err.text);
    cr_assert(o.connections == 4 && o.retries == 3);
    cr_assert(xh_options_env_has("connections") && !xh_options_env_has("shadow"));
    fresh();
    setenv("HDF5_DRIVER", "ros3", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), 0, "%s", err.text);
    cr_assert(o.connections == 0 && o.retries == 2 && !xh_options_env_has("connections"));
    setenv("HDF5_DRIVER", "xhdf5", 1);
    setenv("HDF5_DRIVER_CONFIG", "conections=4", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "HDF5_DRIVER_CONFIG") && strstr(err.text, "connections"), "%s", err.text);
}

Test(options, an_option_is_named_where_it_stands_as_a_key_alone, .init = fresh)
{
    static const struct {
        const char *text, *name;
        int named;
    } cases[] = {
        {"shadow=off", "shadow", 1},
        {" log=read , SHADOW = off", "shadow", 1},
        {"shadow_dir=/x", "shadow", 0},
        {"local_shadow=on", "shadow", 0},
        {"log=shadow", "shadow", 0},
        {"log=\"read,shadow=off\"", "shadow", 0},
        {"log=\"read,shadow\",shadow=off", "shadow", 1},
        {"shadow", "shadow", 0},
        {"", "shadow", 0},
        {",,", "shadow", 0},
        {"log=\"shadow=off", "shadow", 0},
        {NULL, "shadow", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(xh_options_names(cases[i].text, cases[i].name), cases[i].named, "%s", cases[i].text);
        if (cases[i].text)
            setenv("HDF5_DRIVER_CONFIG", cases[i].text, 1);
        else
            unsetenv("HDF5_DRIVER_CONFIG");
        cr_assert_eq(xh_options_env_has(cases[i].name), cases[i].named, "%s", cases[i].text);
    }
}

/* Writes to |dir| a locale as Turkish is, in which I and i are capital and small of other letters: few machines have
 * that one. */
static void make_turkish(const char *dir)
{
    char path[200];
    snprintf(path, sizeof path, "%s/map", dir);
    FILE *map = fopen(path, "w");
    snprintf(path, sizeof path, "%s/source", dir);
    FILE *source = fopen(path, "w");
    cr_assert(map && source);
    fputs("<code_set_name> TR\nCHARMAP\n<U0000>..<U007F> \\x00\nEND CHARMAP\n", map);
    fputs("LC_CTYPE\nupper <U0041>..<U005A>\nlower <U0061>..<U007A>\n", source);
    for (int up = 1; up >= 0; up--) {
        fputs(up ? "toupper " : "tolower ", source);
        for (char c = 'A'; c <= 'Z'; c++)
            if (c != 'I')
                fprintf(source, "(<U%04X>,<U%04X>)%s", c + up * ('a' - 'A'), c + !up * ('a' - 'A'),
                        c < 'Z' ? ";" : "\n");
    }
    fputs("END LC_CTYPE\n", source);
    cr_assert(fclose(map) == 0 && fclose(source) == 0);
}

Test(options, the_programs_locale_changes_nothing, .init = fresh)
{
    char dir[] = "/tmp/xh-locale-XXXXXX", make[200];
    cr_assert(mkdtemp(dir));
    make_turkish(dir);
    snprintf(make, sizeof make, "cd %s && localedef -c -f map -i source ./tr_XX 2>/dev/null", dir);
    (void)!system(make); /* it warns of the categories that are not there */
    setenv("LOCPATH", dir, 1);
    int there = setlocale(LC_CTYPE, "tr_XX") != NULL;
    snprintf(make, sizeof make, "rm -r %s", dir);
    (void)!system(make);
    cr_assert(there && tolower('I') != 'i' && tolower('L') == 'l');
    setenv("XHDF5_WRITABLE", "on", 1);
    setenv("XHDF5_MISSING_SOURCES", "error", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), 0, "%s", err.text);
    cr_assert(o.writable && strcmp(o.missing_sources, "error") == 0);
}

Test(options, random_text_never_breaks_the_parser, .init = fresh, .timeout = 100)
{
    static const char letters[] = "conetis=,,\"\" 0123kMG_\t\xff";
    srand(11);
    for (int i = 0; i < 200000; i++) {
        char text[40];
        int n = rand() % 39;
        for (int k = 0; k < n; k++)
            text[k] = letters[rand() % (int)(sizeof letters - 1)];
        text[n] = '\0';
        xh_options_from_string(&o, text, "t", &err);
        cr_assert(o.connections <= 64);
    }
}

Test(mistaken, a_name_that_was_to_be_a_url_is_told_what_it_lacks)
{
    static const char *const cases[][3] = { /* name, a word of what is said, how it is shown */
        {"s3a://bucket/x.h5?X-Amz-Signature=SECRET", "write s3://BUCKET/KEY", "s3a://bucket/x.h5"},
        {"S3:/bucket/x.h5", "pathlib.Path()", "S3:/bucket/x.h5"},
        {"davs://u:SECRET@h/x.h5", "write https:// instead", "davs://h/x.h5"},
        {"root://h:1094//x.h5", "XRootD servers serve the same paths over https", "root://h:1094//x.h5"},
        {"htps://u:SECRET@h/x?SECRET", "htps:// is no scheme: write https://h/x", "htps://h/x"},
        {"https:/u:SECRET@h/x.h5?SECRET", "one: write https://h/x.h5. pathlib.Path()", "https:/h/x.h5"},
        {"http:/h/x.h5", "write http://h/x.h5", "http:/h/x.h5"},
        {"https:/u:SE/CRET@h/x.h5", "write https://h/x.h5", "https:/h/x.h5"},
        {"htps://u:w?SECRET@h/x", "write https://h/x", "htps://h/x"},
        {"https:h/x.h5", "none: write https://h/x.h5", "https:h/x.h5"},
        {"gopher://h/x", "gopher:// is no scheme that is known here: xhdf5 reads https://, http:// and s3://",
         "gopher://h/x"},
        {"file:///tmp/x.h5", "without file://", "file:///tmp/x.h5"},
        {"xhdf5::https://h/x.h5?SECRET", "xhdf5:: before a URL is fsspec's: write the URL alone, https://h/x.h5",
         "xhdf5::https://h/x.h5"},
        {"simplecache::xhdf5::s3://b/k?SECRET", "write the URL alone, s3://b/k", "simplecache::xhdf5::s3://b/k"},
        {"xhdf5::https://me:SECRET@h/x.h5", "write the URL alone, https://", NULL},
        {"xhdf5::https://me:SEC/SECRET@h/x.h5", "write the URL alone, https://", NULL},
        {"a::b", "", "a::b"}, {"::https://h/x", "has to begin with one of them", NULL},
        {"/d/https://me:SECRET@h/x?SECRET", "", NULL}, {"d/https://me:SECRET@h/x?SECRET", "", NULL},
        {"zip://a::https://me:SECRET@h/x.zip?SECRET", "zip:// is no scheme", "zip://h/x.zip"},
        {"zip::a://me:SECRET@h/x?SECRET", "", NULL},
        {" https://h/x", "begins with a blank", " https://h/x"},
        {"\"https://h/x\"", "a quote", "\"https://h/x\""},
        {"\xc2\xa0https://h/x", "begins with a blank", "\xc2\xa0https://h/x"},
        {"\xef\xbb\xbfhttps://h/x", "begins with a blank", NULL},
        {"\xe2\x80\x9chttps://h/x\xe2\x80\x9d", "a quote", "\xe2\x80\x9chttps://h/x\xe2\x80\x9d"},
        {" \"https://h/x\"", "a quote", " \"https://h/x\""},
        {"htps:/u:SECRET@h/x?SECRET", "htps:/ is no scheme: write https://h/x", "htps:/h/x"},
        {"http//u:SECRET@h/x", "write http://", "http//h/x"}, {"https//h/x?SECRET", "write https://", "https//h/x"},
        {" https://u:SECRET@h/x?SECRET", "begins with a blank", " https://h/x"},
        {"\xe2\x80\x9chttps://u:SECRET@h/x", "a quote", "\xe2\x80\x9chttps://h/x"},
        {"https ://u:SECRET@h/x?SECRET", "has to begin with one of them", "https ://h/x"},
        {"ht tps://h/x", "has to begin with one of them", "ht tps://h/x"},
        {"https:://u:SECRET@h/x", "others: write https://h/x", "https:://h/x"},
        {"me@data.example.org:/pub/x.h5", "write https://data.example.org/", NULL},
        {"a/me@b:/x", "", "a/me@b:/x"}, {"me@host", "", NULL}, {"https/x", "", "https/x"}, {"h:/x", "", "h:/x"},
        {"data.example.org:/pub/x.h5", "write https://data.example.org/", "data.example.org:/pub/x.h5"},
        {"data.example.org/pub/x.h5", "if data.example.org is a server, write https://data.example.org/",
         "data.example.org/pub/x.h5"},
        {"data.example.org:8443/x.h5?SECRET", "write https://data.example.org:8443/", "data.example.org:8443/x.h5"},
        {"h:8443/x.h5", "write https://h:8443/", "h:8443/x.h5"},
        {"me:SECRET@data.example.org/x.h5", "if data.example.org is a server", "data.example.org/x.h5"},
        {"me:SEC/RET@data.example.org/x.h5", "if data.example.org is a server", "data.example.org/x.h5"},
        {"me@data.example.org/x.h5", "if data.example.org is a server", "data.example.org/x.h5"},
        {"https:u:SECRET@data.example.org/x.h5", "none: write https://data.example.org/x.h5", NULL},
        {"/data.example.org/x.h5", "", "/data.example.org/x.h5"}, {"../example.org/x.h5", "", NULL},
        {"./example.org/x.h5", "", NULL}, {"run/example.org/x.h5", "", NULL}, {"example.org", "", "example.org"},
        {"example.org/", "", NULL}, {"x.h5/d", "", NULL}, {"2026.11/x.h5", "", NULL}, {"a..org/x.h5", "", NULL},
        {"example.org:x/y", "", NULL},
        {"/data/x.h5", "", "/data/x.h5"}, {"x.h5", "", "x.h5"}, {"C:\\x.h5", "", "C:\\x.h5"},
        {"C:/x.h5", "", "C:/x.h5"}, {"a:b", "", "a:b"},
        {"/cwd/https://h/x", "", "/cwd/https://h/x"}, {" x.h5", "", " x.h5"}, {"", "", ""},
        {"s3n://\x9b", "write s3://BUCKET/KEY", "s3n://?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char say[400], shown[400];
        xh_mistaken(cases[i][0], say, sizeof say);
        cr_expect(cases[i][1][0] ? strstr(say, cases[i][1]) != NULL : !say[0], "%s: %s", cases[i][0], say);
        xh_mistaken_shown(cases[i][0], shown, sizeof shown);
        cr_expect(!strstr(say, "SECRET") && !strstr(shown, "SECRET"), "%s: %s", shown, say);
        if (cases[i][2])
            cr_expect_str_eq(shown, cases[i][2]);
    }
}

Test(text, what_steers_a_terminal_is_made_plain)
{
    char text[] = "a\x1b[31m\x9b\xc2\x9b\n\t\xc3\xa9\xe2\x82\xac\xe2\x80\xae\x7f\xc3";
    cr_assert_str_eq(xh_text_plain(text), "a?[31m???  \xc3\xa9\xe2\x82\xac?????");
    struct xh_err err;
    xh_err_set(&err, XH_E_NET, 0, "%s\r", "said \x85");
    cr_assert_str_eq(err.text, "said ? ");
    char out[64];
    cr_assert_str_eq(xh_url_shown("https://h/\x9b\xc3\xa9?x", out, sizeof out), "https://h/?\xc3\xa9");
}

Test(url_shown, secrets_are_left_out)
{
    char out[64];
    cr_assert_str_eq(xh_url_shown("https://u:pw@h.org:8443/a/b.h5?sig=abc#x", out, sizeof out),
                     "https://h.org:8443/a/b.h5");
    cr_assert_str_eq(xh_url_shown("https://h/a@b.h5", out, sizeof out), "https://h/a@b.h5");
    cr_assert_str_eq(xh_url_shown("https://h?x@y/z", out, sizeof out), "https://h");
    cr_assert_str_eq(xh_url_shown("https://h:8443/a@b.h5", out, sizeof out), "https://h:8443/a@b.h5");
    cr_assert_str_eq(xh_url_shown("https://h:/a@b.h5", out, sizeof out), "https://h:/a@b.h5");
    cr_assert_str_eq(xh_url_shown("https://h:065535/a@b", out, sizeof out), "https://h:065535/a@b");
    cr_assert_str_eq(xh_url_shown("https://[::1]:x/a@b.h5", out, sizeof out), "https://[::1]:x/a@b.h5");
    static const char *const raw[] = {"https://u:p/w@h/x", "https://u:p?w@h/x?s", "https://u:p#w@h/x",
                                      "https://u@mail.org:p/w@h/x", "https://u:p/w@v@h/x",
                                      "https://u:65536/w@h/x", "https://u:0?w@h/x", "https://u:123456789012#w@h/x"};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        cr_expect_str_eq(xh_url_shown(raw[i], out, sizeof out), "https://h/x", "%s: %s", raw[i], out);
    char small[16];
    cr_assert_str_eq(xh_url_shown("https://host.example/abcdef", small, sizeof small), "https://host...");
}

Test(options, a_urls_server_and_directory_end_where_they_should)
{
    static const struct {
        const char *server, *directory, *rest; /* the directory's without the server */
    } cases[] = {
        {"https://h.org:8443", "/a/b/", "c.h5"},
        {"https://u:p%2Fw@h", "/a/", "c@d.h5?x=/y/z#/w"},
        {"http://[2001:db8::1]:80", "/", "a%2Fb.h5"},
        {"https://h", "//a//", "?sig=a/b"},
        {"root://h:1094", "//store/", "c.h5#/b"},
        {"s3://bucket", "/", ""},
    };
    char url[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t server = strlen(cases[i].server);
        snprintf(url, sizeof url, "%s%s%s", cases[i].server, cases[i].directory, cases[i].rest);
        cr_expect_eq(xh_url_server_bytes(url), server, "%s", url);
        cr_expect_eq(xh_url_directory_bytes(url), server + strlen(cases[i].directory), "%s", url);
    }
    cr_expect_eq(xh_url_server_bytes("https://h?x=/a"), strlen("https://h"));
    cr_expect_eq(xh_url_directory_bytes("https://h?x=/a"), 0, "it names none");
    cr_expect_eq(xh_url_server_bytes("/a/b.h5"), 0);
    cr_expect_eq(xh_url_directory_bytes("b.h5"), 0);
}

/* Each S stands in a secret. What is shown has none of it, and what helps to find the file. */
Test(url_shown, no_part_of_a_secret_is_shown_however_the_url_is_written)
{
    static const char *const cases[][2] = {
        /* a password that begins as a port: it cannot be told from a path with an @ in it */
        {"https://u:1/S@h/f.h5", "https://u...@h/f.h5"},
        {"https://u:65535/S/S@h:8443/f.h5?S", "https://u...@h:8443/f.h5"},
        {"https://h:8443/a@b.h5", "https://h:8443/a@b.h5"},
        {"https://127.0.0.1:8443/a@b/f.h5", "https://127.0.0.1:8443/a@b/f.h5"},
        {"https://LocalHost:8443/a@b/f.h5", "https://LocalHost:8443/a@b/f.h5"},
        {"https://data.site.org:8443/me@site/f.h5", "https://data.site.org:8443/me@site/f.h5"},
        {"https://u.v:1/S@h/f.h5", "https://u.v...@h/f.h5"},
        {"https://u.v.w:1/S@h.org/f.h5", "https://u.v.w...@h.org/f.h5"},
        {"https://u.v.w:1/S/S@h:8443/f.h5", "https://u.v.w...@h:8443/f.h5"},
        {"https://u.v.w:1/S@10.0.0.1/f.h5", "https://u.v.w...@10.0.0.1/f.h5"},
        {"https://10.0.0.1:8443/me@site.org/f.h5", "https://10.0.0.1:8443/me@site.org/f.h5"},
        {"https://data.site.org:8443/p@1.2.3/f.h5", "https://data.site.org:8443/p@1.2.3/f.h5"},
        {"https://u:1?S@h/f.h5", "https://u..."},
        {"https://u:1#S@h/f.h5", "https://u..."},
        /* a query with an @ behind a login with a slash: which @ ends the login? */
        {"https://u:p/S@h/f.h5?sig=S@S", "https://..."},
        {"https://u:p?S@h/f.h5?sig=S@S/S", "https://..."},
        {"https://u:pw@h/f.h5?sig=S@S/S", "https://h/f.h5"},
        /* no host, or it is cut off */
        {"https:///u:S@h/f.h5", "https:///h/f.h5"},
        {"https://u:S", "https://u..."},
        {"https://u:S/f.h5", "https://u..."},
        {"https://u:S%40h/f.h5", "https://u..."},
        /* a token in place of a name, with what no host has */
        {"https://S+S/S=@h/f.h5", "https://h/f.h5"},
        {"https://S%2FS/S@h/f.h5", "https://h/f.h5"},
        {"https://home.example/me@site/f.h5", "https://home.example/me@site/f.h5"},
        /* a URL in a path, as HDF5 makes of a file's name behind a directory */
        {"https://h/d/https://u:S@h2/f.h5", "https://h/d/https://...@h2/f.h5"},
        {"https://h/d/https:/u:S@h2/f.h5", "https://h/d/https:/...@h2/f.h5"},
        {"https://h/a:b/c@d", "https://h/a:b/c@d"},
        /* the query's ? was written as an escape */
        {"https://h/f.h5%3FX-Amz-Signature=S", "https://h/f.h5..."},
        {"https://h/f.h5%3fsig%3DS", "https://h/f.h5..."},
        {"https://h/a%3Fb.h5", "https://h/a%3Fb.h5"},
        {"u:S@h/f.h5?S=://", "h/f.h5"},
        {"https://u:S\\S@h/f.h5", "https://h/f.h5"},
        {"https://u@mail.org:S@h/f.h5", "https://h/f.h5"},
        {"https://u:S S@h/f.h5", "https://h/f.h5"},
        {"https://h:x/f.h5", "https://h..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[96], small[12];
        xh_url_shown(cases[i][0], out, sizeof out);
        cr_expect(!strchr(out, 'S'), "%s: %s", cases[i][0], out);
        if (cases[i][1])
            cr_expect_str_eq(out, cases[i][1], "%s: %s", cases[i][0], out);
        cr_expect(!strchr(xh_url_shown(cases[i][0], small, sizeof small), 'S'), "%s: %s", cases[i][0], small);
    }
}

Test(mistaken, a_very_long_password_is_not_shown_where_the_name_is_cut)
{
    char name[700], say[400], shown[400], secret[500];
    memset(secret, 'S', sizeof secret);
    snprintf(name, sizeof name, "htps://u:%.*s@h/x.h5", (int)sizeof secret, secret);
    xh_mistaken(name, say, sizeof say);
    xh_mistaken_shown(name, shown, sizeof shown);
    cr_expect(!strchr(say, 'S') && strstr(say, "write https://h/x.h5"), "%s", say);
    cr_expect(!strchr(shown, 'S'), "%s", shown);
}
