/* Sentences of verdicts on S3: see sentence_s3.h. */
#include "sentence_s3.h"

#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "sentence.h"

/* What may be wrong, and what to do, where |code| speaks of the key that was sent. */
static const char *advice(const char *code)
{
    static const struct {
        const char *code, *say;
    } all[] = {
        {"InvalidAccessKeyId", "the server does not know it. Is it a key for another server (AWS_ENDPOINT_URL_S3, "
                               "AWS_PROFILE)?"},
        {"SignatureDoesNotMatch", "its secret is not the key's (AWS_SECRET_ACCESS_KEY), or something on the way "
                                  "changes requests"},
        {"ExpiredToken", "it has expired, and there is no newer one. Get one (aws sso login, or what made it)"},
        {"InvalidToken", "its session token is not the key's (AWS_SESSION_TOKEN). Unset it if the key is no temporary "
                         "one"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].code, code) == 0)
            return all[i].say;
    return strncmp(code, "ExpiredToken", 12) == 0 || strcmp(code, "TokenRefreshRequired") == 0
               ? all[2].say
               : "it may not read this object; or there is no such object, and it may not list the bucket";
}

int xh_sentence_s3_refused(const struct xh_attempt *a, const char *code, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    const struct xh_token *t = x->token;
    const char *key = t && t->note[0] ? t->note : "no key";
    int status = x->reply.status, by_file = x->options->namer.by_file != 0;
    char what[XH_S3_CODE_BYTES + 16];
    snprintf(what, sizeof what, "%d %s", status, code[0] ? code : status == 401 ? "Unauthorized" : "Forbidden");
    if (x->url->ticket || a->first->user)
        return xh_sentence_refused(a, err);
    if (a->no_key && a->no_key[0])
        return xh_sentence(a, err, XH_E_ACCES, status,
                           "%s, without a key, as %.250s was refused with %s: %s", what, key, a->no_key,
                           advice(a->no_key));
    if (x->token_sent)
        return xh_sentence(a, err, XH_E_ACCES, status, "%s: %.250s was sent: %s", what, key, advice(code));
    if (!a->first->https)
        return xh_sentence(a, err, XH_E_ACCES, status,
                           "%s: it was asked without a key, as none is sent over http: use https", what);
    if (by_file && !a->trusted)
        return xh_sentence(a, err, XH_E_ACCES, status, XH_AUTH_WITHHELD, what, x->options->namer.parent);
    if (t && t->value && !a->trusted)
        return xh_sentence(a, err, XH_E_ACCES, status,
                           "%s: no key is sent to a server that the URL does not name. If it may have them, name "
                           "its host in XHDF5_CREDENTIAL_HOSTS",
                           what);
    return xh_sentence(a, err, XH_E_ACCES, status,
                       "%s: it was asked without a key (%.250s). For what is not public set AWS_PROFILE, or "
                       "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. A public bucket says the same of an object that "
                       "is not there",
                       what, key);
}

int xh_sentence_s3_clock(const struct xh_attempt *a, const struct xh_s3_error *e, struct xh_err *err)
{
    char here[XH_DATE_TEXT_BYTES], there[XH_DATE_TEXT_BYTES];
    const struct xh_reply *r = &a->x->reply;
    int told = r->date >= 0;
    return xh_sentence(a, err, XH_E_ACCES, r->status,
                       "%d RequestTimeTooSkewed: this machine's clock says %s, the server's %s. Set the wrong one "
                       "right: signatures hold for a few minutes",
                       r->status, xh_date_text(a->now_s, here),
                       told                ? xh_date_text(r->date, there)
                       : e->server_time[0] ? e->server_time
                                           : "another time");
}
