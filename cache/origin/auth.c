/* Credentials and trust: see auth.h.
 *
 * Invariants: no token's value reaches a note, an error or a trace; a file found by
 * discovery in a directory that others may write to is used only when it is ours. */
#include "auth.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

/* The value of an environment variable, or NULL when it is unset or empty. */
static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* ---- bearer token */

__attribute__((format(printf, 2, 3))) static void note_add(struct xh_token *t, const char *fmt, ...)
{
    size_t used = strlen(t->note);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->note + used, sizeof t->note - used, fmt, ap);
    va_end(ap);
}

/* Takes |n| bytes at |s| as the token, blanks around it dropped. Returns what is wrong
 * with them, or NULL. */
static const char *take_value(struct xh_token *t, const char *s, size_t n)
{
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        n--;
    while (n > 0 && isspace((unsigned char)*s))
        s++, n--;
    if (n == 0)
        return "is empty";
    if (n > XH_TOKEN_MAX_BYTES)
        return "is longer than a token may be (64 KiB)";
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !(s[i] && strchr("-._~+/=", s[i])))
            return "holds characters that no token has";
    t->value = strndup(s, n);
    return t->value ? NULL : "does not fit into memory";
}

/* Opens |path| without waiting for a FIFO's writer, and checks type and owner.
 * Returns the descriptor, or -1 with |*why| set. */
static int open_checked(const char *path, int named, struct stat *st, const char **why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (named ? 0 : O_NOFOLLOW));
    if (fd < 0) {
        *why = errno == ELOOP && !named ? "is a symbolic link" : strerror(errno);
        return -1;
    }
    *why = NULL;
    if (fstat(fd, st) != 0)
        *why = strerror(errno);
    else if (!S_ISREG(st->st_mode))
        *why = "is not a regular file";
    else if (st->st_uid != geteuid() && !(named && st->st_uid == 0))
        *why = "belongs to another user";
    if (!*why)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Reads the token in |path|. |named|: the user pointed at it. Returns 1 when the search
 * ends here: a token was taken, or a named file is unusable. */
static int take_file(struct xh_token *t, const char *path, const char *source, int named)
{
    struct stat st;
    const char *why;
    char *buf = NULL;
    int fd = open_checked(path, named, &st, &why);
    if (fd < 0)
        goto unusable;
    buf = malloc(XH_TOKEN_MAX_BYTES + 2);
    if (!buf) {
        why = "does not fit into memory";
        goto unusable;
    }
    size_t n = 0;
    for (;;) {
        ssize_t r = read(fd, buf + n, XH_TOKEN_MAX_BYTES + 2 - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    why = n > XH_TOKEN_MAX_BYTES + 1 ? "is longer than a token may be (64 KiB)" : take_value(t, buf, n);
    explicit_bzero(buf, n);
    if (!why) {
        free(buf);
        close(fd);
        snprintf(t->note, sizeof t->note, "the token of %s (%s)", source, path);
        return 1;
    }
unusable:
    free(buf);
    if (fd >= 0)
        close(fd);
    note_add(t, "%s%s (%s): %s", t->note[0] ? "; " : "", source, path, why);
    return named;
}

int xh_token_find(struct xh_token **out, struct xh_err *err)
{
    struct xh_token *t = calloc(1, sizeof *t);
    char path[XH_AUTH_PATH_BYTES];
    const char *v;
    if (!t)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a token");
    atomic_init(&t->refs, 1);
    *out = t;
    if ((v = env("BEARER_TOKEN")) != NULL) {
        const char *why = take_value(t, v, strlen(v));
        if (why)
            note_add(t, "BEARER_TOKEN %s", why);
        else
            note_add(t, "the token of BEARER_TOKEN");
        return 0;
    }
    if ((v = env("BEARER_TOKEN_FILE")) != NULL) {
        take_file(t, v, "BEARER_TOKEN_FILE", 1);
        return 0;
    }
    note_add(t, "BEARER_TOKEN and BEARER_TOKEN_FILE are not set");
    if ((v = env("XDG_RUNTIME_DIR")) != NULL) {
        snprintf(path, sizeof path, "%s/bt_u%u", v, (unsigned)geteuid());
        if (take_file(t, path, "XDG_RUNTIME_DIR", 0))
            return 0;
    }
    snprintf(path, sizeof path, "/tmp/bt_u%u", (unsigned)geteuid());
    take_file(t, path, "/tmp", 0);
    return 0;
}

/* Decodes base64url of |n| characters to |out| (|size| with its NUL), stopping at the
 * first character that is none. */
static void base64url(const char *s, size_t n, char *out, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned acc = 0, bits = 0;
    size_t used = 0;
    for (size_t i = 0; i < n && used + 1 < size; i++) {
        const char *d = s[i] ? strchr(digits, s[i]) : NULL;
        if (!d)
            break;
        acc = acc << 6 | (unsigned)(d - digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[used++] = (char)(acc >> bits & 0xff);
        }
    }
    out[used] = '\0';
}

void xh_token_expiry(const struct xh_token *t, long long now, char *out, size_t size)
{
    char claims[4096], date[64];
    out[0] = '\0';
    const char *from = t->value ? strchr(t->value, '.') : NULL;
    const char *to = from ? strchr(from + 1, '.') : NULL;
    if (!to)
        return;
    base64url(from + 1, (size_t)(to - from - 1), claims, sizeof claims);
    const char *p = strstr(claims, "\"exp\"");
    if (!p)
        return;
    p += 5;
    p += strspn(p, " \t:");
    if (isdigit((unsigned char)*p)) {
        errno = 0;
        long long exp = strtoll(p, NULL, 10);
        time_t when = (time_t)exp;
        struct tm tm;
        if (!errno && exp <= now && gmtime_r(&when, &tm) &&
            strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &tm))
            snprintf(out, size, " (it expired at %s)", date);
    }
    explicit_bzero(claims, sizeof claims);
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
    if (t->value)
        explicit_bzero(t->value, strlen(t->value));
    free(t->value);
    free(t);
}

/* ---- X.509 proxy */

/* 1 when the first certificate in |fd| is still good. A stale proxy that lies about
 * must not spoil the access to public data. */
static int certificate_alive(int fd)
{
    int alive = 0;
    FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return 0;
    }
    X509 *x = PEM_read_X509(f, NULL, NULL, NULL);
    if (x)
        alive = X509_cmp_current_time(X509_get0_notAfter(x)) > 0;
    X509_free(x);
    ERR_clear_error();
    fclose(f);
    return alive;
}

void xh_proxy_find(struct xh_proxy *out)
{
    struct stat st;
    const char *why = NULL;
    const char *named = env("X509_USER_PROXY");
    memset(out, 0, sizeof *out);
    int n = named ? snprintf(out->path, sizeof out->path, "%s", named)
                  : snprintf(out->path, sizeof out->path, "/tmp/x509up_u%u", (unsigned)geteuid());
    int fd = (size_t)n < sizeof out->path ? open_checked(out->path, named != NULL, &st, &why) : -1;
    if (fd < 0) {
        if (!named && errno == ENOENT)
            why = "";
        else if (!why)
            why = "has too long a name";
    } else if (st.st_mode & 077) {
        why = "is open to other users: chmod 600";
        close(fd);
    } else if (!certificate_alive(fd)) {
        why = "holds no certificate that is still valid";
    }
    if (!why)
        return;
    if (*why)
        snprintf(out->note, sizeof out->note, "the proxy certificate %.120s was not used: %.80s", out->path, why);
    out->path[0] = '\0';
}

/* ---- CAs */

/* Sets file or dir of |out| from a path somebody named. Returns 0 or XH_E_TLS. */
static int take_named(struct xh_trust *out, int is_dir, const char *path, const char *source, struct xh_err *err)
{
    struct stat st;
    const char *why = NULL;
    if (strlen(path) >= XH_AUTH_PATH_BYTES)
        why = "its name is too long";
    else if (stat(path, &st) != 0 || access(path, is_dir ? R_OK | X_OK : R_OK) != 0)
        why = strerror(errno);
    else if (is_dir ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
        why = is_dir ? "not a directory" : "not a regular file";
    else if (!is_dir && st.st_size == 0)
        why = "it is empty";
    if (why)
        return xh_err_set(err, XH_E_TLS, 0, "cannot read the CA %s %.300s named by %s: %s. Correct or unset it",
                          is_dir ? "directory" : "file", path, source, why);
    size_t used = strlen(out->note);
    strcpy(is_dir ? out->dir : out->file, path);
    snprintf(out->note + used, sizeof out->note - used, "%s%.500s (from %s)", used ? " and " : "", path, source);
    return 0;
}

/* Sets file or dir of |out| when |path| is there. Returns 1 if so. */
static int take_present(struct xh_trust *out, int is_dir, const char *path, const char *source)
{
    struct xh_err ignored;
    return path && *path && take_named(out, is_dir, path, source, &ignored) == 0;
}

int xh_trust_find(const struct xh_options *o, const char *default_file, const char *default_dir,
                  struct xh_trust *out, struct xh_err *err)
{
    static const char *const well_known[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",                  /* Alpine, BSD */
    };
    const char *v;
    memset(out, 0, sizeof *out);
    if (o->ca_bundle[0]) {
        int rc = take_named(out, 0, o->ca_bundle, "the option ca_bundle (XHDF5_CA_BUNDLE)", err);
        if (rc != 0 || !o->ca_dir[0])
            return rc;
        return take_named(out, 1, o->ca_dir, "the option ca_dir (XHDF5_CA_DIR)", err);
    }
    if ((v = env("CURL_CA_BUNDLE")) != NULL)
        return take_named(out, 0, v, "CURL_CA_BUNDLE", err);
    if ((v = env("SSL_CERT_FILE")) != NULL)
        return take_named(out, 0, v, "SSL_CERT_FILE", err);
    if (o->ca_dir[0])
        return take_named(out, 1, o->ca_dir, "the option ca_dir (XHDF5_CA_DIR)", err);
    if ((v = env("X509_CERT_DIR")) != NULL)
        return take_named(out, 1, v, "X509_CERT_DIR", err);
    /* The file alone is enough, and libcurl keeps a store made of a file in memory. */
    if (take_present(out, 0, default_file, "the system"))
        return 0;
    for (size_t i = 0; i < sizeof well_known / sizeof *well_known; i++)
        if (take_present(out, 0, well_known[i], "the system"))
            return 0;
    if (take_present(out, 1, default_dir, "the system"))
        return 0;
    return xh_err_set(err, XH_E_TLS, 0,
                      "no CA certificates found on this machine: install the package ca-certificates, or name "
                      "a PEM file with XHDF5_CA_BUNDLE");
}

/* ---- who the reader is */

static int hash_text(EVP_MD_CTX *ctx, const char *s)
{
    return EVP_DigestUpdate(ctx, s ? s : "", s ? strlen(s) + 1 : 1);
}

int xh_auth_reader(const struct xh_token *t, const struct xh_proxy *p, const struct xh_trust *trust, char hex[65])
{
    unsigned char sha[32];
    struct stat st = {0};
    hex[0] = '\0';
    if (p->path[0] && stat(p->path, &st) < 0)
        return 0;
    int64_t proxy[3] = {(int64_t)st.st_ino, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) && hash_text(ctx, t ? t->value : NULL) &&
             hash_text(ctx, p->path) && EVP_DigestUpdate(ctx, proxy, sizeof proxy) && hash_text(ctx, trust->file) &&
             hash_text(ctx, trust->dir) && EVP_DigestFinal_ex(ctx, sha, NULL);
    EVP_MD_CTX_free(ctx);
    for (int i = 0; ok && i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", sha[i]);
    return ok;
}
