/* What servers list of a directory, with sizes and dates. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../vfd/tool/listing.h"

/* What was listed, as text: "name", "name/" or "name size date", each with a bar behind it. */
static const char *shown(struct xh_entries *e)
{
    static char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < e->n; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", e->of[i].name, e->of[i].directory ? "/" : "");
        if (e->of[i].told)
            n += (size_t)snprintf(text + n, sizeof text - n, " %llu %lld", (unsigned long long)e->of[i].size,
                                  e->of[i].changed_s);
        n += (size_t)snprintf(text + n, sizeof text - n, "|");
    }
    xh_entries_free(e);
    return text;
}

Test(listing, propfind_tells_sizes_and_dates_and_leaves_out_the_directory_itself)
{
    static const char xml[] =
        "<D:multistatus><D:response><D:href>/d/</D:href><D:collection/></D:response>"
        "<D:response><D:href>/d/a%20b.h5</D:href><l:getcontentlength>7</l:getcontentlength>"
        "<l:getlastmodified>Thu, 26 Nov 2026 10:00:00 GMT</l:getlastmodified></D:response>"
        "<D:response><D:href>/d/undated</D:href><l:getcontentlength>7</l:getcontentlength></D:response>"
        "<D:response><D:href>https://h/d/sub/</D:href><l:getcontentlength>4096</l:getcontentlength>"
        "<l:getlastmodified>Thu, 26 Nov 2026 10:00:00 GMT</l:getlastmodified><D:collection/></D:response>"
        "<D:response><D:href>/d/..</D:href></D:response></D:multistatus>";
    struct xh_entries e = {0};
    cr_assert_eq(xh_listing_propfind(xml, sizeof xml - 1, "https://h/d/", &e), 0);
    cr_expect_str_eq(shown(&e), "a b.h5 7 1795687200|undated|sub/|");
    cr_expect_eq(xh_listing_propfind("<html/>", 7, "https://h/d/", &e), -1);
}

Test(listing, nginx_tells_them_as_json)
{
    static const char json[] = "[{\"name\":\"sub\",\"type\":\"directory\",\"mtime\":\"Thu, 26 Nov 2026 10:00:00 GMT\"},"
                               "{\"name\":\"a.h5\",\"type\":\"file\",\"mtime\":\"Thu, 26 Nov 2026 10:00:00 GMT\","
                               "\"size\":5000000000},"
                               "{\"name\":\"b.h5\",\"type\":\"file\",\"mtime\":\"yesterday\",\"size\":1},"
                               "{\"name\":\"c.h5\",\"type\":\"file\",\"mtime\":\"Thu, 26 Nov 2026 10:00:00 GMT\","
                               "\"size\":-1},{\"name\":\"x/y\"},{\"name\":7},3]";
    struct xh_entries e = {0};
    cr_assert_eq(xh_listing_json(json, sizeof json - 1, &e), 0);
    cr_expect_str_eq(shown(&e), "sub/|a.h5 5000000000 1795687200|b.h5|c.h5|");
}

static const char *s3(const char *inside, const char *prefix, char token[XH_LISTING_TOKEN_BYTES])
{
    struct xh_entries e = {0};
    char xml[2048];
    snprintf(xml, sizeof xml, "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\">%s</ListBucketResult>", inside);
    if (xh_listing_s3(xml, strlen(xml), prefix, &e, token) == 0)
        return shown(&e);
    shown(&e);
    return "none";
}

#define KEY(key)                                                                                                \
    "<Contents><Key>" key "</Key><LastModified>2026-11-26T10:00:00.500Z</LastModified><Size>12</Size></Contents>"

Test(listing, s3_tells_keys_below_the_prefix_and_where_it_goes_on)
{
    char token[XH_LISTING_TOKEN_BYTES];
    cr_expect_str_eq(s3(KEY("d/a&amp;b.h5") KEY("d/") KEY("e/other") KEY("d/deep/er") KEY("d/a?b") KEY("d/..")
                        "<CommonPrefixes><Prefix>d/sub/</Prefix></CommonPrefixes>"
                        "<CommonPrefixes><Prefix>d//</Prefix></CommonPrefixes>", "d/", token),
                     "a&b.h5 12 1795687200|sub/|");
    cr_expect_str_eq(token, "");
    cr_expect_str_eq(s3("<EncodingType>url</EncodingType>" KEY("a+b%2Bc%25.h5") KEY("nul%00x"), "", token),
                     "a b+c%.h5 12 1795687200|");
    cr_expect_str_eq(s3(KEY("a%25+b"), "", token), "a%25+b 12 1795687200|", "it is not said to be encoded");
    cr_expect_str_eq(s3("<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b=</NextContinuationToken>"
                        KEY("x"), "", token), "x 12 1795687200|");
    cr_expect_str_eq(token, "a&b=");
    cr_expect_str_eq(s3("<IsTruncated>true</IsTruncated>" KEY("x"), "", token), "none", "a part of a listing is none");
    cr_expect_str_eq(s3("<Contents><Key>x</Key><Size>99999999999999999999</Size></Contents>", "", token), "x|");
}

Test(listing, names_become_urls)
{
    static const struct {
        const char *base, *name, *end, *url;
    } cases[] = {{"https://h/d/", "a b#%.h5", "", "https://h/d/a%20b%23%25.h5"},
                 {"https://h/d/?token=1", "sub", "/", "https://h/d/sub/?token=1"},
                 {"s3://b/d/", "a b+%.h5", "", "s3://b/d/a b+%.h5"},
                 {"s3://b/d", "", "/", "s3://b/d/"},
                 {"s3://b/d/", "a?versionId=x", "", NULL},
                 {"s3://b/d/", "a#b", "", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *url = xh_listing_url(cases[i].base, cases[i].name, cases[i].end);
        if (cases[i].url)
            cr_expect_str_eq(url, cases[i].url);
        else
            cr_expect_null(url);
        free(url);
    }
}

/* What a server may send to keep the reader busy for hours: each of these has 200,000 beginnings of something. */
Test(listing, what_begins_and_never_ends_takes_no_long_time, .timeout = 20)
{
    static const char *const parts[] = {"<", "<response ", "<response>", "<response><href ", "<href/", "</", "&#x"};
    const size_t n = 200000, most = 16;
    char token[XH_LISTING_TOKEN_BYTES], *text = malloc(n * most + 64);
    struct xh_entries e = {0};
    cr_assert_not_null(text);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        for (int s3 = 0; s3 < 2; s3++) {
            size_t len = (size_t)sprintf(text, s3 ? "<ListBucketResult>" : "<multistatus>");
            for (size_t i = 0; i < n; i++)
                len += (size_t)sprintf(text + len, "%s", parts[k]);
            len += (size_t)sprintf(text + len, s3 ? "/></ListBucketResult>" : "/></multistatus>");
            if (s3)
                xh_listing_s3(text, len, "", &e, token);
            else
                xh_listing_propfind(text, len, "https://h/d/", &e);
            xh_entries_free(&e);
        }
    }
    free(text);
}
