/* Keys from metadata services: see s3metadata.h.
 *
 * Invariant: what is secret in a request or an answer reaches no note, error or trace. */
#include "s3metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth.h"
#include "base/letters.h"
#include "base/wipe.h"
#include "client.h"
#include "proxy.h"
#include "response.h"
#include "s3process.h"
#include "watch/trace.h"

#define MACHINE           "http://169.254.169.254"
#define CONTAINER         "http://169.254.170.2"
#define TOKEN_PATH        "/latest/api/token"
#define ROLE_PATH         "/latest/meta-data/iam/security-credentials/"
#define TOKEN_LASTS       "X-aws-ec2-metadata-token-ttl-seconds: 60" /* for the two requests behind it */
#define ROLE_MOST_BYTES   128u
#define TOKEN_MOST_BYTES  16384u
/* An answer takes milliseconds. Where no such service is, what is sent there may vanish, and the first opening takes so
 * long. */
#define ASK_MOST_MS       5000u

/* 1 when |host|, without a port, is this machine, or an address that metadata services have. */
static int is_near(const char *host)
{
    static const char *const all[] = {"localhost", "[::1]", "169.254.169.254", "169.254.170.2", "169.254.170.23",
                                      "[fd00:ec2::254]", "[fd00:ec2::23]", NULL};
    return xh_is_one_of(host, all) || (strncmp(host, "127.", 4) == 0 && !host[strspn(host, "0123456789.")]);
}

/* The URL that |base||path| is, if it may be asked; else NULL with |*why|. Owns: the caller unrefs it. */
static struct xh_url *url_of(const char *base, const char *path, const char **why)
{
    struct xh_url *u = NULL;
    char host[64], *text = NULL;
    *why = "has no URL";
    if (asprintf(&text, "%s%s", base, path) < 0)
        return NULL;
    int rc = xh_url_parse(text, &u, NULL);
    free(text);
    if (rc != 0)
        return NULL;
    const char *from = xh_url_host(u->server);
    int n = (int)(strrchr(from, ':') - from), good = !u->https && n < (int)sizeof host;
    snprintf(host, sizeof host, "%.*s", n, from);
    if (good && is_near(host))
        return u;
    xh_url_unref(u);
    *why = "is not asked: it is neither on this machine nor at an address of such services, by http";
    return NULL;
}

struct answer {
    struct xh_reply reply;
    char *text; /* XH_S3_PRINTED_BYTES and a NUL */
    size_t len;
};

static int on_line(void *ctx, const char *line, size_t len)
{
    struct answer *a = ctx;
    xh_reply_line(&a->reply, line, len, time(NULL));
    return 0;
}

static int on_body(void *ctx, const uint8_t *data, size_t len)
{
    struct answer *a = ctx;
    if (len > XH_S3_PRINTED_BYTES - a->len)
        return -1;
    memcpy(a->text + a->len, data, len);
    a->len += len;
    return 0;
}

/* Asks for |base||path|, by PUT where it |puts|; |header|: a line, or NULL. Returns the body of a 200, or NULL with
 * |*why|. Owns: xh_wipe(). */
static char *ask(const char *base, const char *path, int puts, const char *header, const char **why)
{
    static const struct xh_client_events events = {.line = on_line, .body = on_body};
    static const struct xh_proxies none = {.of = {{.text = (char *)""}, {.text = (char *)""}}, .except = (char *)""};
    const char *headers[] = {header, NULL};
    struct answer a = {.text = calloc(1, XH_S3_PRINTED_BYTES + 1)};
    struct xh_client *h = a.text ? xh_client_new(&events, &a, 0) : NULL;
    struct xh_outcome out = {.net = XH_NET_LOCAL};
    struct xh_url *url = NULL;
    *why = "does not fit into memory";
    if (h && (url = url_of(base, path, why)) != NULL) {
        struct xh_client_ask q = {.send = {.url = url->text, .headers = headers, .proxies = &none,
                                           .connect_timeout_ms = ASK_MOST_MS},
                                  .uploads = puts, .most_ms = ASK_MOST_MS};
        xh_reply_init(&a.reply);
        xh_client_ask(h, &q, &out);
        xh_trace(XH_T_ORIGIN, "metadata", "put=%d net=%d status=%d", puts, (int)out.net, a.reply.status);
        *why = out.net != XH_NET_OK      ? "does not answer"
               : a.reply.status != 200   ? "refuses, or has no key (its status is not 200)"
               : strlen(a.text) != a.len ? "answers with what is no text"
                                         : NULL;
    }
    xh_client_free(h);
    xh_url_unref(url);
    if (!*why)
        return a.text;
    xh_wipe_bytes(a.text, a.len);
    return NULL;
}

/* 1 when |text|, without the end of its line, which is cut off, is |good| characters, which may stand in a header or a
 * path. */
static int is_word(char *text, size_t most, const char *good)
{
    size_t n = strcspn(text, "\r\n");
    if (text[n + strspn(text + n, "\r\n")])
        return 0;
    text[n] = '\0';
    return n > 0 && n <= most && strspn(text, good) == n;
}

/* "|name| |secret|". NULL without memory. Owns: xh_wipe(). */
static char *line_of(const char *name, const char *secret)
{
    char *line = NULL;
    return asprintf(&line, "%s %s", name, secret) < 0 ? NULL : line;
}

static char *ask_container(const struct xh_env *env, const char *relative, const char **why)
{
    static const char good[] = XH_LETTERS XH_DIGITS " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    const char *file = xh_env_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *plain = xh_env_get(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
    size_t len = 0;
    char *token = file    ? xh_auth_read(file, 1, 0, &len, why)
                  : plain ? strdup(plain)
                          : NULL;
    char *header = NULL, *text = NULL;
    if (file && !token) {
        *why = "is not asked: the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be used";
        return NULL;
    }
    if (token && !is_word(token, TOKEN_MOST_BYTES, good))
        *why = "is not asked: its token of AWS_CONTAINER_AUTHORIZATION_TOKEN is none";
    else if (token && !(header = line_of("Authorization:", token)))
        *why = "does not fit into memory";
    else
        text = ask(relative ? CONTAINER : "",
                   relative ? relative : xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
                   0, header, why);
    xh_wipe(token);
    xh_wipe(header);
    return text;
}

static char *ask_machine(const struct xh_env *env, const char **why)
{
    const char *named = xh_env_get(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    char base[512], path[sizeof ROLE_PATH + ROLE_MOST_BYTES], *text = NULL, *role = NULL, *header = NULL;
    int n = snprintf(base, sizeof base, "%s", named ? named : MACHINE);
    while (n > 0 && (size_t)n < sizeof base && base[n - 1] == '/')
        base[--n] = '\0';
    char *token = ask(base, TOKEN_PATH, 1, TOKEN_LASTS, why);
    if (token && (!is_word(token, TOKEN_MOST_BYTES, XH_LETTERS XH_DIGITS "+/=-_.~") ||
                  !(header = line_of("X-aws-ec2-metadata-token:", token))))
        *why = "answers with no token";
    if (header)
        role = ask(base, ROLE_PATH, 0, header, why);
    if (role && !is_word(role, ROLE_MOST_BYTES, XH_LETTERS XH_DIGITS "+=,.@_-")) {
        *why = "names no role";
    } else if (role) {
        snprintf(path, sizeof path, "%s%s", ROLE_PATH, role);
        text = ask(base, path, 0, header, why);
    }
    xh_wipe(token);
    xh_wipe(header);
    free(role);
    return text;
}

char *xh_s3_metadata_fetch(const struct xh_env *env, const char **why)
{
    const char *relative = xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    return relative || xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI") ? ask_container(env, relative, why)
                                                                             : ask_machine(env, why);
}
