/* What a URL is, for rooms that open none of them yet: whether credentials may go there, which object it names, and
 * when that was changed by what a hint says. See origin.h. */
#include "origin.h"

#include <string.h>

#include "auth.h"
#include "caller.h"
#include "dialect.h"
#include "s3.h"
#include "url.h"

int xh_origin_trusted(const char *url, const struct xh_options *o, char *server, size_t size)
{
    struct xh_url *u = NULL;
    if (xh_caller_url(url, o, &u, NULL) != 0)
        return 0;
    int trusted = xh_auth_trusts(o, u, u) && strlen(u->server) < size;
    if (trusted)
        memcpy(server, u->server, strlen(u->server) + 1);
    xh_url_unref(u);
    return trusted;
}

int xh_origin_have_one_server(const char *url, const char *other)
{
    struct xh_url *a = NULL, *b = NULL;
    int same = xh_url_parse(url, &a, NULL) == 0 && xh_url_parse(other, &b, NULL) == 0 && xh_url_same_server(a, b);
    xh_url_unref(a);
    xh_url_unref(b);
    return same;
}

long long xh_origin_hint_changed_s(const char *hint)
{
    struct xh_dialect d;
    const char *rest = strchr(hint, ' '); /* behind the round trip */
    return rest && xh_dialect_from_hint(&d, rest + 1) == 0 ? (long long)d.changed : -1;
}

char *xh_origin_object(const char *url, const struct xh_options *o)
{
    struct xh_url *u = NULL;
    if (!xh_s3_is_name(url))
        return xh_s3_object(url);
    if (xh_caller_url(url, o, &u, NULL) != 0) /* opening it says what is wrong */
        return strdup(url);
    char *out = xh_s3_object(u->text);
    xh_url_unref(u);
    return out;
}
