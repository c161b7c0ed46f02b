/* What stands in the files and variables that a user's credentials come from: a bearer token as it is, one that has
 * these bytes as its claims, and a netrc file. The user may have got them from anywhere. */
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "origin/auth.h"

#define LONG_ENOUGH 24 /* a shorter value may be a word of the note's own */

/* "h.CLAIMS.s" */
static char *token_of(const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *s = malloc(n / 3 * 4 + 12), *to = s;
    hold(s != NULL, "out of memory");
    *to++ = 'h';
    *to++ = '.';
    for (size_t i = 0; i < n; i += 3) {
        unsigned left = n - i < 3 ? (unsigned)(n - i) : 3;
        uint32_t w = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        for (unsigned k = 0; k <= left; k++)
            *to++ = digits[w >> (18 - 6 * k) & 63];
    }
    memcpy(to, ".s", 3);
    return s;
}

static void token(const char *value)
{
    struct xh_token *t = NULL;
    struct xh_err err = {0};
    char tells[300];
    hold(setenv("BEARER_TOKEN", value, 1) == 0 && xh_token_find(NULL, &t, &err) == 0, "out of memory");
    hold(t->expires >= 0 && t->note[0], "a token of no description");
    if (t->value) {
        size_t n = strlen(t->value);
        hold(n > 0 && n <= XH_TOKEN_MAX_BYTES && !strpbrk(t->value, " \t\r\n\""), "a value that ends a header");
        hold(n < LONG_ENOUGH || !strstr(t->note, t->value), "the note tells the value");
    }
    for (int i = 0; i < 2; i++) {
        memset(tells, 'x', sizeof tells);
        xh_token_describe(t, i ? 1 : 4000000000, tells, sizeof tells);
        hold(memchr(tells, '\0', sizeof tells) != NULL, "a description without an end");
        for (const char *c = tells; *c; c++)
            hold((unsigned char)*c >= 0x20 && *c != 0x7f, "a description that drives a terminal");
    }
    xh_token_unref(t);
}

static void netrc(const uint8_t *p, size_t n)
{
    static int fd = -1;
    static char path[40];
    char *user = NULL, *password = NULL;
    struct xh_err err = {0};
    if (fd < 0) {
        fd = memfd_create("netrc", MFD_CLOEXEC);
        hold(fd >= 0 && fchmod(fd, 0600) == 0, "no file");
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        hold(setenv("NETRC", path, 1) == 0, "out of memory");
    }
    hold(ftruncate(fd, 0) == 0 && pwrite(fd, p, n, 0) == (ssize_t)n, "the file cannot be written");
    int rc = xh_netrc_find(NULL, "h.example", 1, &user, &password, &err);
    hold(rc >= 0 ? (rc == 1) == (user && password) : !user && !password && err.text[0], "half a login");
    free(user);
    free(password);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    static int clean;
    if (!clean)
        hold(unsetenv("BEARER_TOKEN_FILE") == 0, "the environment");
    clean = 1;
    char *plain = text_of(p, size), *made = token_of(p, size);
    token(plain);
    token(made);
    netrc(p, size);
    free(plain);
    free(made);
    return 0;
}
