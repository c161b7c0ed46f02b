/* The names in the mapping of a virtual dataset, the order in which they are opened, and files that are read in
 * turns. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vfd/lineup.h"
#include "ahead/weave.h"

/* ---- a collection of the global heap, made here */

static uint8_t heap[65536];
static size_t len;

static void put(uint64_t v, int bytes)
{
    for (; bytes > 0; bytes--, v >>= 8)
        heap[len++] = (uint8_t)v;
}

static void text(const char *t)
{
    memcpy(heap + len, t, strlen(t) + 1);
    len += strlen(t) + 1;
}

/* A selection in one of the forms that HDF5 writes. */
static void selection(int form)
{
    put(form == 4 ? 1 : form < 2 ? 3 : 2, 4); /* points, all, hyperslab */
    switch (form) {
    case 0: case 1: /* all */
        put(1, 4), put(0, 4), put(0, 4);
        break;
    case 2: /* hyperslab version 1 */
        put(1, 4), put(0, 4), put(12, 4), put(0, 12);
        break;
    case 3: /* version 2 */
        put(2, 4), put(1, 1), put(36, 4), put(1, 4), put(0, 32);
        break;
    case 4: /* points version 2 */
        put(2, 4), put(4, 1), put(2, 4), put(3, 4), put(0, 24);
        break;
    case 5: /* version 3, regular */
        put(3, 4), put(1, 1), put(2, 1), put(2, 4), put(0, 16);
        break;
    default: /* version 3, blocks */
        put(3, 4), put(0, 1), put(4, 1), put(2, 4), put(2, 4), put(0, 32);
    }
}

/* An object of the heap that is a mapping of |n| entries "PREFIXi.h5", |times| each. */
static void mapping(const char *prefix, int n, int times)
{
    char name[64];
    size_t head = len;
    put(1, 2), put(1, 2), put(0, 4), put(0, 8);
    size_t from = len;
    put(0, 1), put((uint64_t)n * (uint64_t)times, 8);
    for (int i = 0; i < n * times; i++) {
        snprintf(name, sizeof name, "%s%d.h5", prefix, i / times);
        text(name);
        text("/entry/data");
        selection(i % 7);
        selection((i + 3) % 7);
    }
    put(0, 4); /* a checksum */
    for (uint64_t k = 0, bytes = len - from; k < 8; k++)
        heap[head + 8 + k] = (uint8_t)(bytes >> 8 * k);
    while (len % 8)
        heap[len++] = 0;
}

static void begin(void)
{
    len = 0;
    memcpy(heap, (const uint8_t[]){'G', 'C', 'O', 'L', 1, 0, 0, 0}, 8);
    len = 16;
}

static void end(void)
{
    put(0, 2), put(0, 6), put(24, 8), put(0, 8); /* free space */
    for (uint64_t k = 0; k < 8; k++)
        heap[8 + k] = (uint8_t)((uint64_t)len >> 8 * k);
}

Test(mapping, names_are_found_in_each_mapping_of_a_collection)
{
    struct xh_names names = {0};
    size_t at = 0;
    begin();
    put(1, 2), put(1, 2), put(0, 4), put(5, 8), text("text"), put(0, 3); /* some other object */
    mapping("a/", 20, 1);
    mapping("b", 3, 4);
    mapping(".", 1, 1);
    end();
    cr_assert_eq(xh_mapping_next(heap, len, &at, &names), 20);
    cr_assert_str_eq(names.text, "a/0.h5");
    cr_assert_str_eq(names.text + 7, "a/1.h5");
    free(names.text);
    names = (struct xh_names){0};
    cr_assert_eq(xh_mapping_next(heap, len, &at, &names), 3, "each once");
    cr_assert_str_eq(names.text, "b0.h5");
    free(names.text);
    names = (struct xh_names){0};
    cr_assert_eq(xh_mapping_next(heap, len, &at, &names), 0, "one file alone has no next one");
    cr_assert_null(names.text);
}

Test(mapping, a_pattern_for_any_number_of_names_is_told_of)
{
    static const struct {
        const char *prefix;
        int endless;
    } cases[] = {{"a-%b-", 1}, {"a-%%b-", 0}, {"a-%%%b", 1}, {"a%", 0}, {"a", 0}, {"%b/%b", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_names names = {0};
        size_t at = 0;
        begin();
        mapping(cases[i].prefix, 1, 1);
        end();
        cr_assert_eq(xh_mapping_next(heap, len, &at, &names), 0);
        cr_assert_eq(names.endless, cases[i].endless, "%s", cases[i].prefix);
        cr_assert_null(names.text);
    }
}

/* Under the sanitizers: nothing is read that is not there. */
Test(mapping, cut_and_spoilt_collections_are_survived)
{
    srand(5);
    begin();
    mapping("a", 30, 1);
    mapping("b", 30, 2);
    end();
    for (int round = 0; round < 20000; round++) {
        size_t n = rand() % 4 ? len : 16 + (size_t)rand() % (len - 16), at = 0;
        uint8_t *p = malloc(n);
        memcpy(p, heap, n);
        for (int i = rand() % 4; i > 0 && n > 16; i--)
            p[16 + (size_t)rand() % (n - 16)] ^= (uint8_t)(1 << rand() % 8);
        for (int k = 0; k < 8 && n != len; k++)
            p[8 + k] = (uint8_t)((uint64_t)n >> 8 * k);
        struct xh_names names = {0};
        while (xh_mapping_next(p, n, &at, &names)) {
            cr_assert_leq(names.n, 60);
            cr_assert_eq(names.text[names.bytes - 1], 0);
            free(names.text);
            names = (struct xh_names){0};
        }
        free(p);
    }
}

/* What begins at |p|, by itself. */
static const uint8_t *saw(struct xh_mapping_seen *s, uint64_t at, const uint8_t *p, size_t n, size_t *bytes)
{
    size_t from = 0;
    return xh_mapping_saw(s, at, p, n, 0, &from, bytes);
}

Test(mapping, a_collection_is_whole_when_its_second_piece_was_read)
{
    struct xh_mapping_seen s = {0};
    size_t bytes = 0;
    begin();
    mapping("a", 200, 1);
    end();
    cr_assert_gt(len, 4096);
    cr_assert_eq(saw(&s, 1000, heap, len, &bytes), heap);
    cr_assert_eq(bytes, len);
    cr_assert_null(saw(&s, 1000, heap, 4096, &bytes));
    cr_assert_null(saw(&s, 9000, heap + 4096, len - 4096, &bytes), "elsewhere");
    const uint8_t *p = saw(&s, 1000 + 4096, heap + 4096, len - 4096, &bytes);
    cr_assert(p && bytes == len && memcmp(p, heap, len) == 0);
    cr_assert_null(saw(&s, 1000 + 4096, heap + 4096, len - 4096, &bytes), "it is told of once");
    cr_assert_null(saw(&s, 1000, heap, 4096, &bytes));
    p = saw(&s, 1000 + 4096, heap + 4096, len, &bytes);
    cr_assert(p && bytes == len && memcmp(p, heap, len) == 0, "HDF5 reads the second piece in a whole page");
    free(s.p);
}

/* Each byte is looked at once: a hostile file may have a head in each 16 bytes. */
Test(mapping, in_a_page_each_collection_is_found_once_and_none_within_another)
{
    static uint8_t page[65536];
    struct xh_mapping_seen s = {0};
    size_t bytes, from = 0, found = 0;
    begin();
    mapping("a", 3, 1);
    end();
    memcpy(page + 100, heap, len);
    memcpy(page + 100 + len, heap, len);
    memcpy(page + sizeof page - 64, heap, 64);
    for (const uint8_t *p; (p = xh_mapping_saw(&s, 7, page, sizeof page, 1, &from, &bytes)); found++)
        cr_assert(p == page + 100 + found * len && bytes == len);
    cr_assert_eq(found, 2);
    from = 0;
    const uint8_t *p = xh_mapping_saw(&s, 7 + sizeof page, heap + 64, sizeof page / 2, 1, &from, &bytes);
    cr_assert(p && bytes == len && memcmp(p, heap, len) == 0 && from > len - 64);
    memcpy(page + 16, "GCOL\1\0\0\0\0\0\2\0\0\0\0", 16); /* no collection: it claims more than the page has */
    from = found = 0;
    while (xh_mapping_saw(&s, 7, page, sizeof page, 1, &from, &bytes))
        found++;
    cr_assert_eq(found, 2, "what only looks like the beginning of a collection hides none behind it");
    free(s.p);
    s = (struct xh_mapping_seen){0};
    for (size_t at = 0; at < sizeof page; at += 16) { /* each claims what is left */
        memcpy(page + at, "GCOL\1\0\0\0", 8);
        for (unsigned k = 0; k < 8; k++)
            page[at + 8 + k] = (uint8_t)((sizeof page - at) >> 8 * k);
    }
    from = found = 0;
    while (xh_mapping_saw(&s, 0, page, sizeof page, 1, &from, &bytes))
        found++;
    cr_assert_eq(found, 1);
    free(s.p);
}

/* ---- who comes next */

static struct xh_lineup lineup(const char *prefix, int n)
{
    struct xh_lineup l;
    struct xh_names names = {0};
    size_t at = 0;
    begin();
    mapping(prefix, n, 1);
    end();
    cr_assert_eq(xh_mapping_next(heap, len, &at, &names), (size_t)n);
    cr_assert_eq(xh_lineup_init(&l, &names), 0);
    return l;
}

static size_t opened(struct xh_lineup *l, int i, size_t *first)
{
    char url[64];
    snprintf(url, sizeof url, "https://h/d/s%d.h5", i);
    return xh_lineup_opened(l, url, first);
}

Test(lineup, the_next_ones_are_foreseen_each_once)
{
    struct xh_lineup l = lineup("s", 30);
    size_t first, told = 1, n;
    for (int i = 0; i < 30; i++) {
        if ((n = opened(&l, i, &first)) > 0) {
            cr_assert_eq(first, told, "in order, each once");
            told += n;
        }
        cr_assert_leq(told, (size_t)(i + 1 + XH_EXPECTED_MOST));
        cr_assert(told > (size_t)i + 1 || told == 30);
    }
    cr_assert_eq(told, 30);
    cr_assert_str_eq(l.prefix, "https://h/d/");
    xh_lineup_free(&l);
}

Test(lineup, one_that_is_opened_again_and_again_ends_no_order)
{
    struct xh_lineup l = lineup("s", 30);
    size_t first;
    opened(&l, 0, &first);
    cr_assert(l.anew, "nothing was expected yet");
    opened(&l, 1, &first);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(opened(&l, 1, &first), 0, "what follows is expected already");
        cr_assert_not(l.anew);
        cr_assert_eq(l.soon, 2);
    }
    cr_assert_gt(opened(&l, 2, &first), 0);
    cr_assert_eq(l.soon, 4, "one order");
    opened(&l, 1, &first);
    cr_assert(l.anew);
    xh_lineup_free(&l);
}

Test(lineup, once_two_neighbours_were_opened_more_and_more_are_about_to_be)
{
    static const size_t soon[] = {0, 2, 4, 8, 8, 8};
    struct xh_lineup l = lineup("s", 30);
    size_t first;
    for (int i = 0; i < 6; i++) {
        opened(&l, 4 + i, &first);
        cr_assert_eq(l.soon, soon[i], "%zu after %d", l.soon, i + 1);
    }
    opened(&l, 20, &first);
    cr_assert_eq(l.soon, 0, "one shows no order");
    cr_assert_eq(first, 21);
    opened(&l, 0, &first);
    cr_assert_eq(l.soon, 1, "they are read from the first one on");
    xh_lineup_free(&l);
}

Test(lineup, what_follows_a_name_is_known_in_any_order)
{
    struct xh_lineup l = lineup("s", 30);
    cr_assert_eq(xh_lineup_behind(&l, "https://h/d/s29.h5"), 0);
    cr_assert_eq(xh_lineup_behind(&l, "https://h/d/s0.h5"), 29);
    cr_assert_eq(xh_lineup_behind(&l, "https://h/d/s10.h5"), 19);
    cr_assert_eq(xh_lineup_behind(&l, "https://h/d/t10.h5"), 0, "it is none of them");
    xh_lineup_free(&l);
}

Test(lineup, other_orders_places_and_files_show_nothing)
{
    struct xh_lineup l = lineup("s", 30);
    size_t first;
    for (int i = 29; i >= 0; i -= 2) {
        opened(&l, i, &first);
        cr_assert_eq(l.soon, 0);
    }
    opened(&l, 4, &first);
    xh_lineup_opened(&l, "https://other/d/s5.h5", &first);
    cr_assert_eq(l.soon, 0, "the same name elsewhere");
    cr_assert_eq(xh_lineup_opened(&l, "https://other/d/ss6.h5", &first), 0, "another name that ends so");
    xh_lineup_opened(&l, "https://other/d/s6.h5", &first);
    cr_assert_eq(l.soon, 2, "but from there on it is an order");
    xh_lineup_free(&l);
}

Test(lineup, names_that_are_urls_stand_for_themselves)
{
    struct xh_lineup l = lineup("https://h/x/", 9);
    size_t first;
    xh_lineup_opened(&l, "https://h/x/0.h5", &first);
    xh_lineup_opened(&l, "https://h/x/1.h5", &first);
    cr_assert_eq(l.soon, 2);
    cr_assert_str_eq(l.prefix, "");
    xh_lineup_free(&l);
}

/* The rule for which name a URL ends with, name by name. */
static size_t naive_behind(const struct xh_lineup *l, const char *url)
{
    size_t n = strlen(url), found = l->names.n;
    for (size_t i = l->names.n; i-- > 0;) {
        size_t k = strlen(l->name[i].text);
        if (k <= n && strcmp(url + n - k, l->name[i].text) == 0 && (k == n || url[n - k - 1] == '/') &&
            (found == l->names.n || found != l->next))
            found = i;
    }
    return found < l->names.n ? l->names.n - found - 1 : 0;
}

Test(lineup, of_several_names_that_a_url_ends_with_the_next_one_is_meant_else_the_first)
{
    static const char *const part[] = {"a", "b", "a/b", "/a", "b/", "https://h/b", "c"};
    unsigned seed = 7;
    for (int round = 0; round < 200; round++) {
        struct xh_names names = {.text = malloc(4096)};
        for (; names.n < 12; names.n++) {
            int a = rand_r(&seed) % 7, b = rand_r(&seed) % 7, both = rand_r(&seed) % 2;
            names.bytes += 1 + (size_t)sprintf(names.text + names.bytes, both ? "%s/%s" : "%s", part[a], part[b]);
        }
        struct xh_lineup l;
        cr_assert_eq(xh_lineup_init(&l, &names), 0);
        for (int k = 0; k < 30; k++) {
            char url[96];
            size_t first;
            snprintf(url, sizeof url, "https://h/%s/%s/%s", part[rand_r(&seed) % 7], part[rand_r(&seed) % 7],
                     part[rand_r(&seed) % 7]);
            cr_assert_eq(xh_lineup_behind(&l, url), naive_behind(&l, url), "%s", url);
            xh_lineup_opened(&l, url, &first);
        }
        xh_lineup_free(&l);
    }
}

/* ---- files that are read in turns */

Test(weave, files_that_are_read_in_turns_are_counted)
{
    struct xh_weave w = {0};
    struct xh_weave_thread t[40] = {{0}};
    for (int i = 0; i < 40; i++)
        xh_weave_read(&w, &t[i], &t[i], 40);
    cr_assert_eq(w.width, 0, "one after another");
    for (int row = 0; row < 3; row++)
        for (int i = 0; i < 12; i++)
            for (int piece = 0; piece < 4; piece++)
                xh_weave_read(&w, &t[i], &t[i], 40);
    cr_assert_eq(w.width, 12);
    for (unsigned i = 0; i <= XH_WEAVE_ALONE; i++)
        xh_weave_read(&w, &t[3], &t[3], 40);
    cr_assert_eq(w.width, 0, "one goes on alone");
}
