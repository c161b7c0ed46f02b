/* Whether credentials may go to a URL, for rooms that open none of them yet: see origin.h. */
#include "origin.h"

#include <string.h>

#include "auth.h"
#include "url.h"

int xh_origin_trusted(const char *url, const struct xh_options *o, char *server, size_t size)
{
    struct xh_url *u = NULL;
    if (xh_url_parse(url, &u, NULL) != 0)
        return 0;
    int trusted = xh_auth_trusts(o, u, u) && strlen(u->server) < size;
    if (trusted)
        memcpy(server, u->server, strlen(u->server) + 1);
    xh_url_unref(u);
    return trusted;
}
