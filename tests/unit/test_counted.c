/* Which name comes next: ahead/counted.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "ahead/counted.h"

#define AT "https://host1.test:8443/data2/"

/* The name after |names|, opened one after another; "": it is not known. */
static const char *next_of(unsigned k, const char *const *names, size_t n)
{
    static char out[XH_COUNTED_BYTES];
    struct xh_counted c = {0};
    for (size_t i = 0; i < n; i++)
        xh_counted_saw(&c, names[i]);
    return xh_counted_next(&c, k, out) ? out : "";
}

#define NEXT(k, ...) \
    next_of(k, (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

Test(counted, three_names_that_count_tell_the_next_ones)
{
    cr_expect_str_eq(NEXT(1, AT "run_7.h5", AT "run_8.h5", AT "run_9.h5"), AT "run_10.h5");
    cr_expect_str_eq(NEXT(4, AT "run_7.h5", AT "run_8.h5", AT "run_9.h5"), AT "run_13.h5");
    cr_expect_str_eq(NEXT(1, AT "a_0007.h5", AT "a_0008.h5", AT "a_0009.h5"), AT "a_0010.h5");
    cr_expect_str_eq(NEXT(1, AT "a_0097.h5", AT "a_0098.h5", AT "a_0099.h5"), AT "a_0100.h5");
    cr_expect_str_eq(NEXT(2, AT "a_998.h5", AT "a_999.h5", AT "a_1000.h5"), AT "a_1002.h5");
    cr_expect_str_eq(NEXT(1, AT "a_12.h5", AT "a_8.h5", AT "a_4.h5"), AT "a_0.h5");
    cr_expect_str_eq(NEXT(1, AT "x/1/y_5.h5", AT "x/3/y_5.h5", AT "x/5/y_5.h5"), AT "x/7/y_5.h5");
    cr_expect_str_eq(NEXT(1, AT "11.h5", AT "111.h5", AT "211.h5"), AT "311.h5");
    cr_expect_str_eq(NEXT(1, AT "1", AT "2", AT "2", AT "3"), AT "4", "one is opened twice");
    cr_expect_str_eq(NEXT(1, AT "run%207", AT "run%208", AT "run%209"), AT "run%2010", "behind a blank");
    cr_expect_str_eq(NEXT(1, "s3://b1/k01", "s3://b1/k02", "s3://b1/k03"), "s3://b1/k04");
}

Test(counted, dates_count_by_the_calendar)
{
    cr_expect_str_eq(NEXT(1, AT "d20240129.nc", AT "d20240130.nc", AT "d20240131.nc"), AT "d20240201.nc");
    cr_expect_str_eq(NEXT(1, AT "d20240227.nc", AT "d20240228.nc", AT "d20240229.nc"), AT "d20240301.nc");
    cr_expect_str_eq(NEXT(1, AT "d20230226.nc", AT "d20230227.nc", AT "d20230228.nc"), AT "d20230301.nc");
    cr_expect_str_eq(NEXT(2, AT "d20240131.nc", AT "d20240201.nc", AT "d20240202.nc"), AT "d20240204.nc");
    cr_expect_str_eq(NEXT(1, AT "d20240101.nc", AT "d20231231.nc", AT "d20231230.nc"), AT "d20231229.nc");
    cr_expect_str_eq(NEXT(1, AT "d19691230.nc", AT "d19691231.nc", AT "d19700101.nc"), AT "d19700102.nc");
    cr_expect_str_eq(NEXT(1, AT "d18991230.nc", AT "d18991231.nc", AT "d19000101.nc"), AT "d19000102.nc");
    cr_expect_str_eq(NEXT(4, AT "d21990101.nc", AT "d20000101.nc", AT "d18001231.nc"), AT "d10041228.nc");
    cr_expect_str_eq(NEXT(5, AT "d21990101.nc", AT "d20000101.nc", AT "d18001231.nc"), "", "years of four digits");
    cr_expect_str_eq(NEXT(1, AT "m202310.nc", AT "m202311.nc", AT "m202312.nc"), AT "m202401.nc");
    cr_expect_str_eq(NEXT(1, AT "m202312.nc", AT "m202401.nc", AT "m202402.nc"), AT "m202403.nc");
    cr_expect_str_eq(NEXT(1, AT "r202012.h5", AT "r202013.h5", AT "r202014.h5"), AT "r202015.h5", "no months");
    cr_expect_str_eq(NEXT(1, AT "r20240131.h5", AT "r20240132.h5", AT "r20240133.h5"), AT "r20240134.h5");
}

Test(counted, other_names_tell_nothing)
{
    char longest[XH_COUNTED_BYTES + 1];
    cr_expect_str_eq(NEXT(1, AT "1", AT "2"), "", "two may be by chance");
    cr_expect_str_eq(NEXT(1, AT "1", AT "2", AT "4"), "");
    cr_expect_str_eq(NEXT(1, AT "1", AT "2", AT "3", AT "5"), "");
    cr_expect_str_eq(NEXT(1, AT "1", AT "1", AT "1"), "");
    cr_expect_str_eq(NEXT(1, AT "1/1", AT "2/2", AT "3/3"), "", "two numbers");
    cr_expect_str_eq(NEXT(1, AT "a", AT "b", AT "c"), "");
    cr_expect_str_eq(NEXT(1, AT "a1", AT "b1", AT "c1"), "");
    cr_expect_str_eq(NEXT(1, AT "9", AT "6", AT "3", AT "0"), "", "none is below 0");
    cr_expect_str_eq(NEXT(1, AT "x%41", AT "x%42", AT "x%43"), "", "letters");
    cr_expect_str_eq(NEXT(1, AT "x%12", AT "x%11", AT "x%10"), "");
    cr_expect_str_eq(NEXT(1, AT "x?sig=1", AT "x?sig=2", AT "x?sig=3"), "", "what is signed is not known");
    cr_expect_str_eq(NEXT(1, "https://h1.test/x", "https://h2.test/x", "https://h3.test/x"), "", "another server");
    cr_expect_str_eq(NEXT(1, "https://h.test:1/x", "https://h.test:2/x", "https://h.test:3/x"), "");
    cr_expect_str_eq(NEXT(1, AT "100000000000000001", AT "100000000000000002", AT "100000000000000003"), "", "long");
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    cr_expect_str_eq(NEXT(1, AT "1", AT "2", longest, AT "3"), "");
}
