/* Families: one answer for as long as a file of them is open, and failures that are forgotten. With a clock of its
 * own. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vfd/family.h"
#include "base/now.h"

static uint64_t clock_ns = 1000;

uint64_t xh_now_ns(void)
{
    return clock_ns;
}

#define S UINT64_C(1000000000)
static struct xh_err err, refused = {.code = XH_E_ACCES, .text = "refused"};

Test(family, what_was_missing_stays_so_until_its_last_file_is_closed)
{
    uint64_t f = xh_family_new();
    xh_family_enter(f);
    xh_family_note(f, "https://h/a", XH_KIN_MISSING, NULL, 1);
    xh_family_enter(f);
    xh_family_leave(f);
    clock_ns += 1000 * S;
    cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_MISSING);
    cr_assert_eq(xh_family_look(f, "https://h/b", &err), XH_KIN_UNKNOWN);
    xh_family_leave(f);
    cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_UNKNOWN);
}

Test(family, one_family_knows_nothing_of_another)
{
    uint64_t f = xh_family_new(), g = xh_family_new();
    cr_assert_neq(f, g);
    xh_family_enter(f);
    xh_family_enter(g);
    xh_family_note(f, "https://h/a", XH_KIN_MISSING, NULL, 1);
    cr_assert_eq(xh_family_look(g, "https://h/a", &err), XH_KIN_UNKNOWN);
    xh_family_leave(f);
    xh_family_leave(g);
}

Test(family, a_failure_is_remembered_as_long_as_it_took_and_five_seconds_at_least)
{
    static const uint64_t took[][2] = {{0, 5 * S}, {3 * S, 5 * S}, {185 * S, 185 * S}};
    uint64_t f = xh_family_new();
    xh_family_enter(f);
    for (int i = 0; i < 3; i++) {
        xh_family_note(f, "https://h/a", XH_KIN_FAILED, &refused, took[i][0]);
        clock_ns += took[i][1] - 1;
        cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_FAILED);
        cr_assert_str_eq(err.text, "refused");
        clock_ns++;
        cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_UNKNOWN);
    }
    xh_family_leave(f);
}

Test(family, that_a_url_was_there_outlasts_its_failures)
{
    uint64_t f = xh_family_new();
    xh_family_enter(f);
    xh_family_note(f, "https://h/a", XH_KIN_OPENED, NULL, 1);
    xh_family_note(f, "https://h/a", XH_KIN_FAILED, &refused, 1);
    cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_FAILED);
    clock_ns += 5 * S;
    cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_OPENED);
    xh_family_leave(f);
}

Test(family, of_many_urls_each_has_its_own_answer_and_what_was_lost_adds_up)
{
    char url[64];
    uint64_t f = xh_family_new();
    xh_family_enter(f);
    for (int i = 0; i < 5000; i++) {
        snprintf(url, sizeof url, "https://h/%d", i);
        enum xh_kin kin = (enum xh_kin)(1 + i % 3);
        xh_family_note(f, url, kin, &refused, 0);
        if (kin != XH_KIN_OPENED)
            xh_family_lose(f, kin, 7);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(url, sizeof url, "https://h/%d", i);
        cr_assert_eq(xh_family_look(f, url, &err), (enum xh_kin)(1 + i % 3));
    }
    struct xh_family_lost lost = xh_family_lost(f);
    cr_assert(lost.missing == 1667 && lost.failures == 1666 && lost.network_ns == 3333 * 7);
    xh_family_leave(f);
    cr_assert_eq(xh_family_lost(f).missing, 0);
}

/* A collection of the global heap with one mapping of the name |pattern|. */
static void sees(uint64_t f, const char *pattern)
{
    uint8_t heap[256] = {'G', 'C', 'O', 'L', 1};
    size_t n = strlen(pattern) + 1, block = 1 + 8 + n + 2 + 2 * 16 + 4, at = 16;
    heap[at] = 1; /* index */
    heap[at + 8] = (uint8_t)block;
    heap[at + 17] = 1; /* entries */
    memcpy(heap + at + 25, pattern, n);
    memcpy(heap + at + 25 + n, "d", 2);
    heap[at + 25 + n + 2] = heap[at + 25 + n + 18] = 3; /* all, version 1 */
    heap[at + 25 + n + 6] = heap[at + 25 + n + 22] = 1;
    at += 16 + (block + 7) / 8 * 8;
    heap[8] = (uint8_t)at;
    xh_family_saw(f, heap, at);
}

/* How often the server is asked for a file that cannot be there, while |n| files are opened: their URLs have their
 * number behind |before|, and behind |between|, if that is not empty, once more. */
static unsigned asked(uint64_t f, const char *before, const char *between, int n, const char *want)
{
    unsigned times = 0;
    for (int i = 0; i < n; i++) {
        char url[80];
        if (*between)
            snprintf(url, sizeof url, "%s%d%s%d", before, i, between, i);
        else
            snprintf(url, sizeof url, "%s%d", before, i);
        char *absurd = xh_family_absurd(f, url);
        times += absurd != NULL;
        cr_expect(!absurd || strcmp(absurd, want) == 0, "%s", absurd);
        free(absurd);
    }
    return times;
}

Test(family, of_a_name_with_a_number_the_server_is_asked_now_and_then_for_one_that_cannot_be_there)
{
    static const char here[] = "https://h/a1/", want[] = "https://h/a1/18446744073709551615";
    uint64_t f = xh_family_new();
    cr_assert_null(xh_family_absurd(f, "https://h/0.h5"), "without a family");
    xh_family_enter(f);
    cr_assert_eq(asked(f, here, "", 5000, want), 0, "no mapping of this family has %%b");
    sees(f, "one.h5");
    cr_assert_eq(asked(f, here, "", 5000, want), 0);
    sees(f, "a-%b.h5");
    cr_assert_eq(asked(f, here, "", 255, want), 0);
    cr_assert_eq(asked(f, "https://h/b/", "", 255, want), 0, "another row");
    cr_assert_eq(asked(f, here, "", 5000, want), 5, "256, 512, 1024, 2048, 4096");
    cr_assert_eq(asked(f, "https://h/", "/x", 300, "https://h/18446744073709551615/x18446744073709551615"), 1);
    xh_family_leave(f);
}

Test(family, where_the_server_had_that_it_is_asked_again_at_the_next_try)
{
    uint64_t f = xh_family_new();
    xh_family_enter(f);
    sees(f, "%b");
    cr_assert_eq(asked(f, "https://h/", "", 255, ""), 0);
    for (int i = 0; i < 3; i++) {
        char *absurd = xh_family_absurd(f, "https://h/255");
        cr_assert_str_eq(absurd, "https://h/18446744073709551615");
        free(absurd);
        xh_family_is_endless(f);
    }
    xh_family_leave(f);
}

Test(family, without_an_open_file_nothing_is_kept)
{
    uint64_t f = xh_family_new();
    xh_family_note(f, "https://h/a", XH_KIN_FAILED, &refused, 1);
    xh_family_lose(f, XH_KIN_FAILED, 1);
    cr_assert_eq(xh_family_look(f, "https://h/a", &err), XH_KIN_UNKNOWN);
    xh_family_leave(f);
}
