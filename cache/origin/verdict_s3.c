/* Verdicts on what S3 refuses: see verdict_s3.h. */
#include "verdict_s3.h"

#include <stdio.h>
#include <string.h>

#include "base/letters.h"
#include "sentence.h"
#include "sentence_s3.h"

static int fail(struct xh_verdict *v)
{
    v->next = XH_NEXT_FAIL;
    return 1;
}

/* The key itself is refused: there may be another one by now; and what is public is read without. Returns 1 when it is
 * to be asked again. */
static int asks_again(const struct xh_attempt *a, struct xh_verdict *v, const char *code)
{
    if (!v->tries.token_reread) {
        v->tries.token_reread = 1;
        v->looks = a->looked == XH_LOOK_NOT;
        if (v->looks || a->looked == XH_LOOK_OTHER || a->looked == XH_LOOK_SOON)
            return 1;
    }
    if (a->opened || (a->no_key && a->no_key[0]))
        return 0;
    snprintf(v->no_key, sizeof v->no_key, "%s", code);
    v->event = "key";
    v->why = "refused";
    return 1;
}

int xh_verdict_s3(const struct xh_attempt *a, struct xh_verdict *v)
{
    static const char *const of_the_key[] = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired",
                                             "InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch",
                                             "InvalidClientTokenId", NULL};
    static const char *const of_what_lacks[] = {"NoSuchBucket", "NoSuchKey", "NoSuchVersion", NULL};
    const struct xh_exchange *x = a->x;
    const struct xh_reply *r = &x->reply;
    struct xh_s3_error e;
    xh_s3_error(x->said, x->said_len, &e);
    const char *region = xh_s3_elsewhere(x->url, r, &e);
    int status = r->status, redirects = xh_reply_redirects(r);
    if (redirects && r->location[0])
        return 0;
    if (region && ++v->tries.hops <= XH_HOPS_MOST) {
        v->next = xh_s3_in_region(x->url, region, &v->to, &v->err) == 0 ? XH_NEXT_AGAIN : XH_NEXT_FAIL;
        return 1;
    }
    if (redirects) {
        xh_sentence(a, &v->err, XH_E_PROTO, status,
                    "%d%s%s: the bucket is not at this endpoint, and where it is the server does not say. Name its "
                    "region with AWS_REGION, or its server with AWS_ENDPOINT_URL_S3",
                    status, e.code[0] ? " " : "", e.code);
        return fail(v);
    }
    if (strcmp(e.code, "RequestTimeTooSkewed") == 0) {
        xh_sentence_s3_clock(a, &e, &v->err);
        return fail(v);
    }
    if (status == 404 && xh_is_one_of(e.code, of_what_lacks)) {
        xh_sentence(a, &v->err, XH_E_NOENT, status, "404 %s: there is no such %s on the server", e.code,
                    strcmp(e.code, "NoSuchBucket") == 0 ? "bucket" : "object");
        return fail(v);
    }
    if (x->token_sent && (status == 400 || status == 401 || status == 403) && xh_is_one_of(e.code, of_the_key) &&
        asks_again(a, v, e.code)) {
        v->retries++;
        v->next = XH_NEXT_AGAIN;
        return 1;
    }
    if ((status == 401 || status == 403 || (status == 400 && (xh_is_one_of(e.code, of_the_key) || x->url->ticket))) &&
        r->retry_after_s < 0) {
        xh_sentence_s3_refused(a, e.code, &v->err);
        return fail(v);
    }
    if ((status == 400 || status == 404) && e.code[0]) {
        xh_sentence(a, &v->err, XH_E_STATUS, status, "%d %s: the server does not take the request", status, e.code);
        return fail(v);
    }
    return 0;
}
