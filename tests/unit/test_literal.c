/* Names of files in URLs that HDF5 has put together. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../vfd/literal.h"

static void is(const char *url, const char *name, const char *want)
{
    const char *at = name ? strstr(url, name) : NULL;
    char *out = xh_literal_url(url, at ? (size_t)(at - url) : SIZE_MAX);
    cr_assert_not_null(out);
    cr_expect_str_eq(out, want, "%s gave %s", url, out);
    free(out);
}

Test(literal, in_a_relative_name_all_characters_stand_for_themselves)
{
    is("https://h/d/a#1?b%41.h5", "a#1", "https://h/d/a%231%3Fb%2541.h5");
    is("https://h/d%20d/a b+é;.h5", "a b", "https://h/d%20d/a b+é;.h5");
    is("https://h/d#d/50%.h5", "50", "https://h/d%23d/50%25.h5");
}

Test(literal, a_url_in_a_file_keeps_its_query_and_its_escapes)
{
    is("https://h/a%20b.h5?sig=%2F/../x", NULL, "https://h/a%20b.h5?sig=%2F/../x");
    is("https://h/a#1.h5", NULL, "https://h/a%231.h5");
    is("https://h/50%.h5", NULL, "https://h/50%25.h5");
    is("https://user:p#w@h", NULL, "https://user:p#w@h");
    is("https://h/a/../b.h5", NULL, "https://h/a/../b.h5");
    is("https://h#x/y#z", NULL, "https://h#x/y%23z");
}

Test(literal, dots_between_slashes_are_resolved)
{
    static const char *const cases[][2] = {
        {"/a/../b", "/b"}, {"/a/./b", "/a/b"}, {"/../../b", "/b"}, {"/a/b/..", "/a/"}, {"/a/.", "/a/"}, {"/..", "/"},
        {"/.", "/"}, {"/a/../../b/c/./../d", "/b/d"}, {"/a..b/.c/..d/...", "/a..b/.c/..d/..."}, {"/a//../b", "/a/b"},
        {"/a/", "/a/"}, {"/a/../", "/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char url[100] = "https://h", want[100] = "https://h";
        is(strcat(url, cases[i][0]), cases[i][0] + 1, strcat(want, cases[i][1]));
    }
}

Test(literal, an_escape_is_no_dot)
{
    is("https://h/d/%2e%2e/a/../b.h5", "a/..", "https://h/d/%2e%2e/b.h5");
    is("https://h/d/%2e%2e/b.h5", "%2e", "https://h/d/%252e%252e/b.h5");
    is("s3://bucket/d/%2e%2e/a/../b.h5", "a/..", "s3://bucket/d/%2e%2e/b.h5");
}

Test(literal, a_key_of_s3_is_a_name_as_it_stands)
{
    is("s3://bucket/d/a#1?b%41", "a#1", "s3://bucket/d/a#1?b%41");
    is("s3://bucket/d/../x", "../x", "s3://bucket/x");
}
