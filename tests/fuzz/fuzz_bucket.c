/* What S3's texts hold that others wrote: names in files, regions and errors of servers, profiles, and URLs whose
 * signature is to be dropped. */
#include <string.h>

#include "fuzz.h"
#include "origin/profile.h"
#include "origin/s3.h"
#include "origin/url.h"

#define AMAZON ".amazonaws.com"

/* A name stands for a URL at the endpoint, or at Amazon, whatever it holds. */
static void name(const char *s, const char *endpoint, enum xh_s3_style style)
{
    struct xh_s3_where w = {.endpoint = endpoint, .region = "eu-west-1", .style = style};
    struct xh_err err = {0};
    struct xh_url *u = NULL;
    char *text = NULL;
    if (xh_s3_address(s, &w, &text, &err) != 0)
        return;
    if (xh_url_parse(text, &u, &err) == 0) {
        const char *end = *endpoint ? "ceph.org:443" : AMAZON ":443";
        size_t n = strlen(u->server), k = strlen(end);
        hold(u->https && n > k && strcmp(u->server + n - k, end) == 0, "a name leads to another host");
        hold(!u->user && !u->ticket, "a name makes a login or a ticket");
    }
    xh_url_unref(u);
    free(text);
}

static void url(const char *s, const char *region)
{
    struct xh_err err = {0};
    struct xh_url *u = NULL, *to = NULL;
    struct xh_s3_place p;
    char *object = xh_s3_object(s);
    hold(object != NULL, "out of memory");
    free(object);
    if (xh_url_parse(s, &u, &err) != 0)
        return;
    int amazon = xh_s3_place(u, &p);
    hold(!amazon || strstr(u->server, AMAZON), "another host is taken for Amazon's");
    if (xh_s3_take(u, "us-east-1", &err) == 0 && xh_s3_in_region(u, region, &to, &err) == 0) {
        hold(xh_s3_is_region(region), "no region is taken for one");
        hold(xh_url_same_server(u, to) || (amazon && strstr(to->server, AMAZON) && xh_s3_same_bucket(u, to)),
             "a region leads out of the bucket");
    }
    xh_url_unref(to);
    xh_url_unref(u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *s = malloc(size + 1), out[64], *words[16];
    hold(s != NULL, "out of memory");
    if (size)
        memcpy(s, data, size);
    s[size] = '\0';
    struct xh_s3_error e;
    xh_s3_error(s, size, &e);
    hold(!e.region[0] || xh_s3_is_region(e.region) || e.region[0] == '-', "an error names no region");
    if (xh_s3_is_name(s)) {
        name(s, "", XH_S3_AUTO);
        name(s, "https://ceph.org", XH_S3_AUTO);
        name(s, "https://ceph.org", XH_S3_VIRTUAL);
    }
    char *line = strchr(s, '\n');
    if (line)
        *line = '\0';
    url(s, line ? line + 1 : "eu-west-1");
    if (line)
        *line = '\n';
    xh_profile_get(s, "default", "region", out, sizeof out);
    xh_profile_get(s, "profile a", "s3.endpoint_url", out, sizeof out);
    xh_profile_has(s, "services a");
    xh_profile_words(s, words, 16);
    free(s);
    return 0;
}
