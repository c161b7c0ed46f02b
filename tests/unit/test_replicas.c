/* Several endpoints with the same file: which URLs they make, and which of them gets a transfer. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "replicas/choice.h"
#include "replicas/health.h"
#include "replicas/list.h"

/* ---- the list */

/* The sites of |url|, one behind the other with a blank between. */
static const char *sites(const char *url, const char *list)
{
    static char text[4096];
    char *out[XH_SITES_MAX];
    const char *bad;
    size_t bad_len, n = xh_list_sites(url, list, out, &bad, &bad_len);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        strcat(strcat(text, i ? " " : ""), out[i]);
        free(out[i]);
    }
    return text;
}

static const char *bad_of(const char *url, const char *list)
{
    static char text[100];
    char *out[XH_SITES_MAX];
    const char *bad;
    size_t bad_len, n = xh_list_sites(url, list, out, &bad, &bad_len);
    while (n)
        free(out[--n]);
    snprintf(text, sizeof text, "%.*s", bad ? (int)bad_len : 0, bad ? bad : "");
    return text;
}

Test(list, a_url_that_begins_with_an_endpoint_is_at_all)
{
    cr_assert_str_eq(sites("https://a.org/d/x.h5", ""), "https://a.org/d/x.h5");
    cr_assert_str_eq(sites("https://a.org/d/x.h5", "https://a.org,https://b.org:8443"),
                     "https://a.org/d/x.h5 https://b.org:8443/d/x.h5");
    cr_assert_str_eq(sites("https://a.org/d/x.h5", "https://b.org/m ; https://a.org/d/\n https://c.org/"),
                     "https://a.org/d/x.h5 https://b.org/m/x.h5 https://c.org/x.h5");
    cr_assert_str_eq(sites("https://A.org:443/x?q=1", "https://a.ORG/, b.org"),
                     "https://A.org:443/x?q=1 https://b.org/x?q=1");
}

Test(list, any_other_url_is_alone)
{
    cr_assert_str_eq(sites("https://c.org/x", "https://a.org https://b.org"), "https://c.org/x");
    cr_assert_str_eq(sites("https://a.org:1094/x", "https://a.org https://b.org"), "https://a.org:1094/x");
    cr_assert_str_eq(sites("https://a.org.evil/x", "https://a.org https://b.org"), "https://a.org.evil/x");
    cr_assert_str_eq(sites("https://a.org/data2/x", "https://a.org/data https://b.org"), "https://a.org/data2/x");
    cr_assert_str_eq(sites("http://a.org/x", "https://a.org https://b.org"), "http://a.org/x");
}

Test(list, the_longest_prefix_counts_and_a_site_is_there_once)
{
    cr_assert_str_eq(sites("https://a.org/d/x", "https://a.org https://a.org/d https://b.org https://b.org/"),
                     "https://a.org/d/x https://b.org/x");
}

Test(list, root_is_read_as_https)
{
    cr_assert_str_eq(sites("https://a.org:1094/x", "root://a.org:1094;root://b.org:1095//"),
                     "https://a.org:1094/x https://b.org:1095/x");
}

Test(list, a_users_name_and_password_stay_with_their_server)
{
    cr_assert_str_eq(sites("https://me:secret@a.org/x", "https://a.org https://you:other@b.org"),
                     "https://me:secret@a.org/x https://you:other@b.org/x");
}

Test(list, http_is_refused_where_the_url_is_https)
{
    cr_assert_str_eq(sites("https://a.org/x", "https://a.org http://b.org https://c.org"),
                     "https://a.org/x https://c.org/x");
    cr_assert_str_eq(bad_of("https://a.org/x", "https://a.org http://b.org https://c.org"), "http://b.org");
    cr_assert_str_eq(bad_of("https://a.org/x", "https://a.org ftp://b.org"), "ftp://b.org");
    cr_assert_str_eq(sites("http://a.org/x", "http://a.org http://b.org"), "http://a.org/x http://b.org/x");
}

Test(list, an_entry_that_is_no_address_is_told_whatever_is_read)
{
    static const char *const bad[] = {"ftp://b.org", "https://b.org:x", "https://", "https://b.org?a", "b.org:99999",
                                      "https://b@d@:1"};
    char list[100];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(list, sizeof list, "https://a.org %s", bad[i]);
        cr_expect_str_eq(bad_of("https://a.org/x", list), bad[i]);
        cr_expect_str_eq(bad_of("https://c.org/x", list), bad[i]);
        cr_expect_str_eq(sites("https://a.org/x", list), "https://a.org/x", "%s", bad[i]);
    }
    cr_expect_str_eq(bad_of("https://a.org/x", "https://b.org,https://me:p%40w@a.org:1/d,root://[::1],s3://b"), "");
    cr_expect_str_eq(bad_of("https://c.org/x", "http://a.org,https://b.org"), "");
}

Test(list, rubbish_is_survived_and_the_number_is_bounded)
{
    char many[2000] = "https://a.org";
    unsigned seed = 3;
    for (int i = 0; i < 40; i++)
        sprintf(many + strlen(many), " https://b%d.org", i);
    size_t n = 1;
    for (const char *p = sites("https://a.org/x", many); *p; p++)
        n += *p == ' ';
    cr_assert_eq(n, XH_SITES_MAX);
    for (int i = 0; i < 20000; i++) {
        static const char some[] = "https://a.org:@[]/? ;,\\%1\x80\x01";
        char list[40], url[40];
        for (size_t k = 0; k < 39; k++) {
            list[k] = some[(size_t)rand_r(&seed) % (sizeof some - 1)];
            url[k] = some[(size_t)rand_r(&seed) % (sizeof some - 1)];
        }
        list[39] = url[39] = '\0';
        if (i % 2)
            memcpy(url, "https://a.org/", 14);
        if (i % 4)
            memcpy(list, "https://a.org ", 14);
        cr_assert_eq(strncmp(sites(url, list), url, 39), 0, "the URL itself comes first");
    }
}

Test(list, a_servers_name_has_its_port)
{
    char name[100];
    xh_list_server("https://me:x@A.org/d?e", name, sizeof name);
    cr_assert_str_eq(name, "https://a.org:443");
    xh_list_server("http://[::1]:80/", name, sizeof name);
    cr_assert_str_eq(name, "http://[::1]:80");
}

/* ---- the choice */

#define MS 1000000u

Test(choice, the_first_to_be_done_is_chosen)
{
    struct xh_choice c[3] = {{1, 0.05, 10u << 20, 20 * MS}, {1, 0.01, 0, 20 * MS}, {0, 1, 0, MS}};
    cr_assert_eq(xh_choose(c, 3, 1u << 20, 0), 1, "what is owed counts");
    cr_assert_eq(xh_choose(c, 3, 8u << 20, 0), 0, "and so does the speed");
    c[0].owed = 0;
    c[0].rtt_ns = 200 * MS;
    cr_assert_eq(xh_choose(c, 3, 4096, 0), 1, "and, for a little, the distance");
    c[0].usable = c[1].usable = 0;
    cr_assert_eq(xh_choose(c, 3, 1, 0), XH_CHOICE_NONE);
}

Test(choice, an_unknown_one_is_taken_for_as_good_as_the_others)
{
    struct xh_choice c[2] = {{1, 0.05, 1u << 20, 20 * MS}, {1, 0, 0, 20 * MS}};
    cr_assert_eq(xh_choose(c, 2, 1u << 20, 0), 1);
    c[1].owed = 2u << 20;
    cr_assert_eq(xh_choose(c, 2, 1u << 20, 0), 0);
}

Test(choice, what_can_wait_waits_for_a_fast_one)
{
    struct xh_choice c[2] = {{1, 0.05, 64u << 20, 20 * MS}, {1, 0.0001, 0, 20 * MS}};
    cr_assert_eq(xh_choose(c, 2, 4u << 20, 1), XH_CHOICE_WAIT);
    cr_assert_eq(xh_choose(c, 2, 4u << 20, 0), 0, "and demand is given to it");
}

/* Sites that bring what they are asked for at a rate of their own: what they got of |total| in parts. */
static void share_out(const double *rate, size_t n, double known, uint64_t part, uint64_t total, uint64_t *got)
{
    struct xh_choice c[XH_SITES_MAX] = {0};
    uint64_t given = 0, ns = MS;
    for (size_t i = 0; i < n; i++) {
        c[i] = (struct xh_choice){1, known * rate[i], 0, 20 * MS};
        got[i] = 0;
    }
    while (given < total) {
        for (int i; given < total && (i = xh_choose(c, n, part, 1)) >= 0; given += part) {
            c[i].owed += part;
            got[i] += part;
        }
        for (size_t i = 0; i < n; i++) {
            uint64_t brings = (uint64_t)(rate[i] * (double)ns);
            c[i].owed -= brings < c[i].owed ? brings : c[i].owed;
            c[i].rate = rate[i];
        }
    }
}

Test(choice, shares_follow_speed)
{
    unsigned seed = 1;
    for (int k = 0; k < 200; k++) {
        double rate[3], sum = 0;
        uint64_t got[3], total = 1u << 30;
        for (size_t i = 0; i < 3; i++)
            sum += rate[i] = 0.02 + 0.001 * (rand_r(&seed) % 60);
        share_out(rate, 3, k % 2, 2u << 20, total, got);
        for (size_t i = 0; i < 3; i++) {
            double share = (double)got[i] / (double)total, fair = rate[i] / sum;
            cr_assert(share > 0.85 * fair - 0.02 && share < 1.15 * fair + 0.02, "rate %g of %g got %g", rate[i], sum,
                      share);
        }
    }
}

Test(choice, one_that_is_a_hundred_times_slower_gets_next_to_nothing)
{
    double rate[2] = {0.06, 0.0006};
    uint64_t got[2];
    share_out(rate, 2, 0, 4u << 20, 1u << 30, got);
    cr_assert_leq(got[1], 16u << 20);
}

/* ---- health */

Test(health, a_server_that_failed_is_left_alone_longer_each_time)
{
    uint64_t now = xh_now_ns(), due = xh_health_failed("https://a:1");
    cr_assert_eq(xh_health_due_ns("https://b:1"), 0);
    cr_assert(due > now && due < now + 10000ull * MS);
    cr_assert_eq(xh_health_failed("https://a:1"), due, "that is known");
    cr_assert_eq(xh_health_due_ns("https://a:1"), due);
    xh_health_well("https://a:1");
    cr_assert_eq(xh_health_due_ns("https://a:1"), 0);
}

Test(health, many_servers_are_no_trouble)
{
    char name[400];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "https://%0*d", 1 + i % 350, i);
        cr_assert(xh_health_failed(name) > 0);
    }
}
