/* Bearer tokens: see auth.h.
 *
 * Invariant: no token's value reaches a note, an error or a trace. */
#include "auth.h"
#include "login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "base/date.h"
#include "base/files.h"
#include "base/letters.h"
#include "base/wipe.h"
#include "s3keys.h"

/* ---- what a token says of itself. Its signature is not ours to check: hints for the user, and when to look for
 * the next one. */

#define EXPIRY_MOST 253402300799 /* the year 9999's last second */

/* The claims of a JWT, an object, to be json_decref'd. NULL: it is none, or there was no memory. Claims without a
 * signature open nothing, so what jansson keeps of them is not overwritten. */
static json_t *claims_of(const struct xh_token *t)
{
    const char *from = t->value ? strchr(t->value, '.') : NULL, *to = from ? strchr(++from, '.') : NULL;
    size_t n = to ? (size_t)(to - from) : 0, used = 0;
    unsigned char *text = n && n <= XH_TOKEN_MAX_BYTES ? malloc(2 * (n + 4)) : NULL, *json = text ? text + n + 4 : NULL;
    for (; text && used < n && from[used] != '='; used++) /* base64url as base64, which is padded */
        text[used] = (unsigned char)(from[used] == '-' ? '+' : from[used] == '_' ? '/' : from[used]);
    size_t padding = (4 - used % 4) % 4;
    if (text)
        memset(text + used, '=', padding);
    int len = text ? EVP_DecodeBlock(json, text, (int)(used + padding)) : -1;
    json_t *claims =
        len < 0 ? NULL : json_loadb((const char *)json, (size_t)len - padding, JSON_REJECT_DUPLICATES, NULL);
    xh_wipe_bytes(text, 2 * (n + 4));
    return claims;
}

/* When the claims say that the token ends, in seconds since 1970; 0: they do not. */
static long long expiry_in(const json_t *claims)
{
    double exp = json_number_value(json_object_get(claims, "exp")); /* RFC 7519 allows fractions */
    return exp > 0 && exp <= (double)EXPIRY_MOST ? (long long)exp : 0;
}

/* Copies the text of a string, or the first of an array's, as far as it can be shown. */
static void show_string(const json_t *value, char *out, size_t size)
{
    const char *text = json_string_value(json_is_array(value) ? json_array_get(value, 0) : value);
    snprintf(out, size, "%s", text ? text : "");
    for (; *out; out++)
        if ((unsigned char)*out < 0x20 || *out == 0x7f)
            *out = '?';
}

void xh_token_describe(const struct xh_token *t, long long now, char *out, size_t size)
{
    char date[XH_DATE_TEXT_BYTES], audience[128], scope[128];
    json_t *claims = t->s3 ? NULL : claims_of(t);
    long long exp = t->s3 ? t->expires : expiry_in(claims);
    out[0] = '\0';
    if (exp > 0 && exp <= now) {
        snprintf(out, size, " (it expired at %s)", xh_date_text(exp, date));
    } else if (claims) {
        show_string(json_object_get(claims, "aud"), audience, sizeof audience);
        show_string(json_object_get(claims, "scope"), scope, sizeof scope);
        if (audience[0] || scope[0])
            snprintf(out, size, " (its audience is \"%s\", its scope \"%s\")", audience, scope);
    }
    json_decref(claims);
}

/* ---- where it is looked for */

/* Says once that no token is sent, and why: what is found and cannot be one, the user believes to be sent. */
static void tell_once(const char *what, const char *why)
{
    static atomic_int told;
    if (atomic_exchange_explicit(&told, 1, memory_order_relaxed) == 0)
        xh_say("no token is sent: %.1050s %s", what, why);
}

/* Whether |path|, which the user gave as a file's name, may be the token itself, with or without the word Bearer: no
 * such file is there, and it does not begin as the name of a place. */
static int may_be_token(const char *path)
{
    return !strchr("/.~", path[0]) && access(path, F_OK) != 0;
}

/* Takes |n| bytes at |s| as the token, blanks around it dropped. Returns what is wrong
 * with them, or NULL. */
static const char *take_value(struct xh_token *t, const char *s, size_t n)
{
    while (n > 0 && xh_isspace((unsigned char)s[n - 1]))
        n--;
    while (n > 0 && xh_isspace((unsigned char)*s))
        s++, n--;
    if (n == 0)
        return "is empty";
    if (n > XH_TOKEN_MAX_BYTES)
        return "is longer than a token may be (64 KiB)";
    if (strspn(s, XH_LETTERS XH_DIGITS "-._~+/=") != n) /* RFC 6750. Behind it is a blank, or a NUL */
        return "holds characters that no token has";
    t->value = strndup(s, n);
    if (!t->value)
        return "does not fit into memory";
    json_t *claims = claims_of(t);
    t->expires = expiry_in(claims);
    json_decref(claims);
    return NULL;
}

/* Reads the token in |path|, which |source| led to; "": nothing but the path. |named|: the user pointed at it. Returns
 * 1 when the search ends here: a token was taken, or a named file is unusable. */
static int take_file(struct xh_token *t, const char *path, const char *source, int named)
{
    const char *why;
    size_t n = 0;
    char *text = xh_auth_read(path, named, 0, &n, &why);
    if (text)
        why = take_value(t, text, n);
    if (why && n)
        tell_once(path, why);
    xh_wipe_bytes(text, n);
    if (why && named && may_be_token(path)) {
        xh_token_note(t, "%s names no file that is there; a token itself goes into BEARER_TOKEN", source);
        return 1;
    }
    if (why) {
        xh_token_note(t, source[0] ? "%s (%s): %s" : "%s%s: %s", source, path, why);
        return named;
    }
    snprintf(t->note, sizeof t->note, source[0] ? "the token of %s (%s)" : "the token of %s%s", source, path);
    t->file = xh_path_from_root(path); /* without memory: it cannot be read again */
    t->source = source;
    t->named = named;
    return 1;
}

/* Takes the value |v| of the variable |name|. */
static void take_variable(struct xh_token *t, const char *name, const char *v)
{
    const char *why = take_value(t, v, strlen(v));
    xh_token_note(t, why ? "%s%s %s" : "%s%s", why ? "" : "the token of ", name, why);
    if (why)
        tell_once(name, why);
}

int xh_token_of_earthdata(const struct xh_env *env, const char *server, struct xh_token **out, struct xh_err *err)
{
    const char *v = xh_login_is_earthdata(server) ? xh_env_get(env, "EARTHDATA_TOKEN") : NULL;
    struct xh_token *t = v ? xh_token_new() : NULL;
    if (!v)
        return 0;
    if (!t)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a token");
    t->earthdata = 1;
    take_variable(t, "EARTHDATA_TOKEN", v);
    *out = t;
    return 1;
}

int xh_token_find(const struct xh_env *env, struct xh_token **out, struct xh_err *err)
{
    struct xh_token *t = xh_token_new();
    char path[XH_AUTH_PATH_BYTES];
    const char *v;
    if (!t)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a token");
    *out = t;
    if ((v = xh_env_get(env, "BEARER_TOKEN")) != NULL) {
        take_variable(t, "BEARER_TOKEN", v);
        return 0;
    }
    if ((v = xh_env_get(env, "BEARER_TOKEN_FILE")) != NULL) {
        take_file(t, v, "BEARER_TOKEN_FILE", 1);
        return 0;
    }
    xh_token_note(t, "BEARER_TOKEN and BEARER_TOKEN_FILE are not set");
    if ((v = xh_env_get(env, "XDG_RUNTIME_DIR")) != NULL) {
        snprintf(path, sizeof path, "%s/bt_u%u", v, (unsigned)geteuid());
        if (take_file(t, path, "XDG_RUNTIME_DIR", 0))
            return 0;
    }
    snprintf(path, sizeof path, "/tmp/bt_u%u", (unsigned)geteuid());
    take_file(t, path, "", 0);
    return 0;
}

enum xh_again xh_token_again(const struct xh_token *old, uint64_t since_ns, struct xh_token **out)
{
    if (old && old->s3)
        return xh_s3_keys_again(old, since_ns, out);
    if (!old || !old->file)
        return XH_AGAIN_NOTHING;
    struct xh_token *t = xh_token_new();
    if (!t)
        return XH_AGAIN_NOTHING;
    take_file(t, old->file, old->source, old->named);
    if (!t->file) /* it cannot be read now: perhaps next time */
        t->file = strdup(old->file);
    t->source = old->source;
    t->named = old->named;
    *out = t;
    return XH_AGAIN_FOUND;
}

struct xh_token *xh_token_ref(struct xh_token *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void xh_token_unref(struct xh_token *t)
{
    /* acq_rel: whoever frees has seen all that others did with it. */
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    xh_s3_keys_free(t->s3);
    xh_wipe(t->value);
    free(t->file);
    free(t);
}
