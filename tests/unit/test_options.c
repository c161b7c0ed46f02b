/* Options: sources, bounds, and messages that help. Also the shown form of a URL. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"
#include "options.h"

static struct xh_options o;
static struct xh_err err;

static void fresh(void)
{
    xh_options_defaults(&o);
    memset(&err, 0, sizeof err);
}

Test(options, defaults_are_those_of_the_table, .init = fresh)
{
    cr_assert_eq(o.connections, 16);
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

Test(options, out_of_bounds_names_option_value_and_bounds, .init = fresh)
{
    static const char *const bad[] = {"0", "65", "-1", "four", "", "4k", "99999999999999999999", "4 5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(xh_options_set(&o, "connections", bad[i], "here", &err), XH_E_INVAL, "%s", bad[i]);
        cr_assert(strstr(err.text, "connections") && strstr(err.text, bad[i]) && strstr(err.text, "1 to 64"),
                  "%s", err.text);
        cr_assert_eq(o.connections, 16);
    }
    cr_assert_eq(xh_options_set_number(&o, XH_OPT_ID_connections, 100, "the config struct", &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "100"));
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
    cr_assert(o.connections == 16 && !o.stats, "empty is as if it were not set");
    setenv("XHDF5_CONNECTIONS", "700", 1);
    cr_assert_eq(xh_options_from_env(&o, &err), XH_E_INVAL);
    cr_assert(strstr(err.text, "XHDF5_CONNECTIONS"));
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
        cr_assert(o.connections >= 1 && o.connections <= 64);
    }
}

Test(url_shown, secrets_are_left_out)
{
    char out[64];
    cr_assert_str_eq(xh_url_shown("https://u:pw@h.org:8443/a/b.h5?sig=abc#x", out, sizeof out),
                     "https://h.org:8443/a/b.h5");
    cr_assert_str_eq(xh_url_shown("https://h/a@b.h5", out, sizeof out), "https://h/a@b.h5");
    cr_assert_str_eq(xh_url_shown("https://h?x@y/z", out, sizeof out), "https://h");
    char small[16];
    cr_assert_str_eq(xh_url_shown("https://host.example/abcdef", small, sizeof small), "https://host...");
}
