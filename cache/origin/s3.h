/* S3: addresses of objects, and what servers say in S3's way. Pure.
 *
 * "s3://bucket/key" stands for an https URL: at Amazon, or at an endpoint that the user named. An xh_url whose |region|
 * is set is one of S3. Source: Amazon S3's documents on virtual hosting, signature version 4 and error responses. */
#ifndef XH_S3_H
#define XH_S3_H

#include <stddef.h>

#include "base/err.h"

struct xh_url;

#define XH_S3_REGION_BYTES 64 /* longest region, with its NUL */
#define XH_S3_BUCKET_BYTES 256
#define XH_S3_CODE_BYTES 48
#define XH_S3_REGION_USUAL "us-east-1" /* what clients sign for where nobody names one */

enum xh_s3_style { XH_S3_AUTO, XH_S3_PATH, XH_S3_VIRTUAL };

/* Where s3:// names lie. */
struct xh_s3_where {
    const char *endpoint; /* a URL; "" or NULL: Amazon */
    const char *region;   /* "" or NULL: not known */
    enum xh_s3_style style; /* AUTO: Amazon's hosts by the bucket's name, if it can be one; an endpoint by the path */
};

/* 1 when |name| begins with "s3://". */
int xh_s3_is_name(const char *name);

/* Writes the https URL (or that of an http endpoint) that |name|, "s3://bucket/key", stands for. The key is taken as
 * it is, as other tools of S3 do: a % is a %. Only "?versionId=…" at its end is a query.
 * Returns 0, XH_E_INVAL (the text says what is wrong) or XH_E_NOMEM. Owns: the caller frees |*out|. */
int xh_s3_address(const char *name, const struct xh_s3_where *w, char **out, struct xh_err *err);

/* What follows the bucket in |name|, "s3://bucket/prefix": "" where nothing does. */
const char *xh_s3_prefix(const char *name);

/* Writes the URL that lists what is below |name|, "s3://bucket/prefix/" or "s3://bucket": from |token| on, which the
 * last part of the listing brought; "": from the start. Returns as xh_s3_address. Source: Amazon S3's API reference,
 * ListObjectsV2. */
int xh_s3_list_address(const char *name, const char *token, const struct xh_s3_where *w, char **out,
                       struct xh_err *err);

/* What a URL at Amazon's S3 says of itself. */
struct xh_s3_place {
    char bucket[XH_S3_BUCKET_BYTES];
    char region[XH_S3_REGION_BYTES]; /* "": the host does not name it */
    int by_path;   /* the bucket stands in the path: other buckets have the same host */
    int fixed;     /* the host is not made of bucket and region alone: acceleration, access points */
    int dualstack, china;
    int names; /* 0: Amazon's buckets. Others have names of their own: China's, US-Gov's, access points */
    const char *key; /* in the URL's text: what follows the bucket and a slash, with the query */
};

/* Fills |out| when |u| is at Amazon's S3. Returns 1, or 0. */
int xh_s3_place(const struct xh_url *u, struct xh_s3_place *out);

/* 1 when both are of one bucket at Amazon, over the same scheme: what may be shown to the one may be shown to the
 * other. */
int xh_s3_same_bucket(const struct xh_url *a, const struct xh_url *b);

/* Makes |u| one of S3, signed for |region|: its path is written as a signature wants it. Before |u| is shared. Returns
 * 0, XH_E_INVAL or XH_E_NOMEM. INVAL: a part of its path is . or .., which libcurl resolves where it signs, and S3 does
 * not. */
int xh_s3_take(struct xh_url *u, const char *region, struct xh_err *err);

/* 1 when |region| may be one; it may be a server's word. */
int xh_s3_is_region(const char *region);

/* The same object as |u|, of S3, in |region|: at Amazon at another host, elsewhere at the same one. Returns 0, INVAL
 * or NOMEM. Owns: the caller unrefs |*out|. */
int xh_s3_in_region(const struct xh_url *u, const char *region, struct xh_url **out, struct xh_err *err);

/* A redirect leads from a file that was named |named| to |to|, which is nobody else's yet: in the same bucket it is of
 * S3, too. */
void xh_s3_follow(const struct xh_url *named, struct xh_url *to);

/* The object that |text|, a URL, names, whatever lets its bearer in: without parameters of signatures, and at Amazon
 * as s3://bucket/key, whatever its region's host. NULL without memory. Owns: free(). */
char *xh_s3_object(const char *text);

/* What the XML of a refusal says. Each may be "". Nothing of it can be a secret. */
struct xh_s3_error {
    char code[XH_S3_CODE_BYTES];
    char region[XH_S3_REGION_BYTES];
    char server_time[32];
};
void xh_s3_error(const char *xml, size_t len, struct xh_s3_error *out);

struct xh_reply;

/* The region in which the bucket of |u| lies, if |r|, the reply to a request for it, says that it is another than |u|
 * is signed for; |e|: what its XML says. NULL: it does not say so, or |u| is not of S3. |r| and |e| keep it. */
const char *xh_s3_elsewhere(const struct xh_url *u, const struct xh_reply *r, const struct xh_s3_error *e);

#endif
