/* For plain test programs: a claim that fails says where, and ends the program with 1.
 * assert() would do, but NDEBUG must not silence a test. */
#ifndef XH_TEST_CHECK_H
#define XH_TEST_CHECK_H

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                   \
    do {                                                                              \
        if (!(cond)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE_NAME__, __LINE__, #cond);   \
            H5Eprint2(H5E_DEFAULT, stderr);                                           \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* The text of the most specific entry, the first one pushed, as h5py shows it. */
static inline herr_t check_keep_text(unsigned n, const H5E_error2_t *e, void *out)
{
    snprintf(out, 4096, "%s", e->desc);
    return 0;
}

static inline const char *check_error_text(void)
{
    static char text[4096];
    text[0] = '\0';
    /* From the API function's entry down to the cause. */
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, check_keep_text, text);
    return text;
}

/* The error stack's first text holds |part|. */
#define CHECK_ERROR(part)                                                                         \
    do {                                                                                          \
        if (!strstr(check_error_text(), part)) {                                                  \
            fprintf(stderr, "%s:%d: wanted an error with \"%s\", got \"%s\"\n", __FILE_NAME__,    \
                    __LINE__, part, check_error_text());                                          \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#endif
