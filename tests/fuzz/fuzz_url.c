/* A URL, and below it, after a newline, a Location that leads on from it. */
#include <string.h>

#include "fuzz.h"
#include "origin/url.h"

static void check(const struct xh_url *u)
{
    struct xh_url *again = NULL;
    struct xh_err err = {0};
    hold(!strncmp(u->text, u->https ? "https://" : "http://", u->https ? 8 : 7), "another scheme");
    hold(!strncmp(u->server, u->https ? "https://" : "http://", u->https ? 8 : 7), "a server of another scheme");
    hold(!strpbrk(u->shown, "?#"), "a query is shown");
    for (const char *c = u->text; *c; c++)
        hold((unsigned char)*c > ' ' && (unsigned char)*c < 0x7f, "a byte that ends a header is asked for");
    hold(u->https || !u->user, "user info over plain http");
    /* What is asked for is a URL by its own rules, and the same one. */
    hold(xh_url_parse(u->text, &again, &err) == 0, "its own text is refused");
    hold(!strcmp(again->text, u->text) && !strcmp(again->server, u->server) && !again->user, "its own text is another");
    xh_url_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    const uint8_t *eol = size ? memchr(p, '\n', size) : NULL;
    size_t n = eol ? (size_t)(eol - p) : size;
    char *base = text_of(p, n), *location = text_of(p + n + (eol != NULL), size - n - (eol != NULL));
    struct xh_url *u = NULL, *to = NULL;
    struct xh_err err = {0};
    if (xh_url_parse(base, &u, &err) == 0) {
        check(u);
        if (xh_url_resolve(u, location, &to, &err) == 0) {
            check(to);
            hold(to->https || !u->https, "https falls to http");
            hold(!to->user, "a server gives user info");
            xh_url_unref(to);
        }
        xh_url_unref(u);
    } else {
        hold(err.code != 0 && err.text[0], "refused without a word");
    }
    free(base);
    free(location);
    return 0;
}
