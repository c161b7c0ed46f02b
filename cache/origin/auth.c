/* Certificates and trust: see auth.h.
 *
 * Invariant: a file found by discovery in a directory that others may write to is used only when it is ours. */
#include "auth.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/crypto.h"
#include "base/files.h"
#include "base/letters.h"
#include "base/sha256.h"
#include "base/wipe.h"
#include "s3.h"
#include "url.h"

#define FILE_MOST_BYTES (1u << 20)

/* Opens |path| as xh_auth_read. Returns the descriptor, or -1 with |*why| set. */
static int open_own(const char *path, int named, struct stat *st, const char **why)
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

char *xh_auth_read(const char *path, int named, int private_, size_t *len, const char **why)
{
    struct stat st;
    int fd = open_own(path, named, &st, why);
    if (fd < 0)
        return NULL;
    char *text = calloc(1, FILE_MOST_BYTES + 2);
    ssize_t n = text ? xh_read_at(fd, text, FILE_MOST_BYTES + 1, 0) : 0;
    if (private_ && (st.st_mode & 077))
        *why = "is open to other users: chmod 600";
    else if (!text)
        *why = "does not fit into memory";
    else if (n < 0)
        *why = "cannot be read";
    else if ((size_t)n > FILE_MOST_BYTES)
        *why = "is longer than such a file may be (1 MiB)";
    close(fd);
    *len = n > 0 ? (size_t)n : 0;
    if (!*why)
        return text;
    xh_wipe_bytes(text, *len);
    errno = EPERM;
    return NULL;
}

/* ---- a token */

struct xh_token *xh_token_new(void)
{
    struct xh_token *t = calloc(1, sizeof *t);
    if (t)
        atomic_init(&t->refs, 1);
    return t;
}

void xh_token_note(struct xh_token *t, const char *fmt, ...)
{
    size_t used = strlen(t->note);
    va_list ap;
    if (used && used + 2 < sizeof t->note) {
        memcpy(t->note + used, "; ", 3);
        used += 2;
    }
    va_start(ap, fmt);
    vsnprintf(t->note + used, sizeof t->note - used, fmt, ap);
    va_end(ap);
}

/* Copies |path|, which fits, as xh_path_from_root has it, where that fits, too: libcurl opens the file at each
 * connection, and the program may be elsewhere by then. */
static void copy_path(char out[XH_AUTH_PATH_BYTES], const char *path)
{
    char *from_root = xh_path_from_root(path);
    if (from_root && strlen(from_root) < XH_AUTH_PATH_BYTES)
        path = from_root;
    memcpy(out, path, strlen(path) + 1);
    free(from_root);
}

/* ---- client certificate */

/* No passphrase is asked for: the terminal is the program's. */
static int no_passphrase(char *buf, int size, int writing, void *ctx)
{
    return -1;
}

static const char *pem_fault_in(FILE *f, int is_key)
{
    const char *why = NULL;
    X509 *x = NULL;
    EVP_PKEY *key = NULL;
    if (!xh_crypto_enter())
        return "cannot be read when the process exits";
    if (is_key && !(key = PEM_read_PrivateKey(f, NULL, no_passphrase, NULL)))
        why = "holds no private key that can be used without a passphrase";
    else if (!is_key && (!(x = PEM_read_X509(f, NULL, no_passphrase, NULL)) ||
                         X509_cmp_current_time(X509_get0_notAfter(x)) <= 0))
        why = "holds no certificate that is still valid";
    X509_free(x);
    EVP_PKEY_free(key);
    ERR_clear_error();
    xh_crypto_leave();
    return why;
}

/* Returns what is wrong with the first certificate in |path|, or with |is_key| with the private key; NULL: nothing. A
 * stale proxy that lies about must not spoil the access to public data. */
static const char *pem_fault(const char *path, int named, int is_key)
{
    struct stat st;
    const char *why;
    int fd = open_own(path, named, &st, &why);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f && fd >= 0) {
        close(fd);
        return "does not fit into memory";
    }
    if (!f)
        return why;
    if (is_key && (st.st_mode & 077))
        why = "is open to other users: chmod 600";
    else
        why = pem_fault_in(f, is_key);
    fclose(f);
    return why;
}

void xh_cert_find(const struct xh_env *env, struct xh_cert *out)
{
    const char *cert = xh_env_get(env, "X509_USER_PROXY"), *key = cert, *why;
    char found[64];
    memset(out, 0, sizeof *out);
    if (!cert && (cert = xh_env_get(env, "X509_USER_CERT")) != NULL) {
        key = xh_env_get(env, "X509_USER_KEY");
        key = key ? key : cert;
    }
    int named = cert != NULL;
    if (!named) {
        snprintf(found, sizeof found, "/tmp/x509up_u%u", (unsigned)geteuid());
        if (access(found, F_OK) != 0)
            return;
        cert = key = found;
    }
    const char *bad = key;
    if (strlen(cert) >= sizeof out->path || strlen(key) >= sizeof out->key)
        why = "has too long a name";
    else if ((why = pem_fault(key, named, 1)) == NULL)
        why = pem_fault(bad = cert, named, 0);
    if (why) {
        snprintf(out->note, sizeof out->note, "the certificate %.120s was not used: %.100s%s%.80s", cert,
                 bad == cert ? "" : bad, bad == cert ? "" : ": ", why);
        return;
    }
    copy_path(out->path, cert);
    copy_path(out->key, key);
}

/* ---- other hosts that may have them */

int xh_auth_listed(const char *hosts, const char *server)
{
    const char *host = xh_url_host(server); /* "https://name:port" */
    size_t whole = strlen(host), name = (size_t)(strrchr(host, ':') - host);
    for (const char *p = hosts; *(p += strspn(p, " \t;")); p += strcspn(p, " \t;")) {
        size_t n = strcspn(p, " \t;");
        if (*p == '.' ? n < name && xh_strncasecmp(host + name - n, p, n) == 0
                      : (n == name || n == whole) && xh_strncasecmp(host, p, n) == 0)
            return 1;
    }
    return 0;
}

int xh_auth_trusts(const struct xh_options *o, const struct xh_url *named, const struct xh_url *u)
{
    struct xh_s3_place p;
    if (!u->https)
        return 0;
    /* At Amazon everybody may have a bucket at the host that a path's bucket has. */
    int anybodys = o->namer.by_file && xh_s3_place(named, &p) && p.by_path;
    if (!anybodys && xh_url_same_server(u, named) && (!o->namer.by_file || strcmp(u->server, o->namer.server) == 0))
        return 1;
    return named->https && xh_auth_listed(o->credential_hosts, u->server);
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
    copy_path(is_dir ? out->dir : out->file, path);
    snprintf(out->note + used, sizeof out->note - used, "%s%.500s (from %s)", used ? " and " : "", path, source);
    return 0;
}

/* Sets file or dir of |out| when |path| is there. Returns 1 if so. */
static int take_present(struct xh_trust *out, int is_dir, const char *path, const char *source)
{
    return path && *path && take_named(out, is_dir, path, source, XH_IGNORED) == 0;
}

/* Where the package certifi lies when this is the plugin of the Python package: in the same site-packages,
 * which holds us as xhdf5/plugins/NAME. NULL: nowhere. */
static const char *beside_us(char *path, size_t size)
{
    Dl_info us;
    if (!dladdr((void *)beside_us, &us) || !us.dli_fname)
        return NULL;
    const char *end = us.dli_fname + strlen(us.dli_fname);
    for (int up = 0; up < 3; up++)
        if (!(end = memrchr(us.dli_fname, '/', (size_t)(end - us.dli_fname))))
            return NULL;
    int n = snprintf(path, size, "%.*s/certifi/cacert.pem", (int)(end - us.dli_fname), us.dli_fname);
    return n > 0 && (size_t)n < size ? path : NULL;
}

int xh_trust_find(const struct xh_options *o, const char *default_file, const char *default_dir,
                  struct xh_trust *out, struct xh_err *err)
{
    static const char *const well_known[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* the same from Fedora 43 on */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",                  /* Alpine, BSD */
    };
    char certifi[XH_AUTH_PATH_BYTES];
    const char *v;
    memset(out, 0, sizeof *out);
    if (o->ca_bundle[0]) {
        int rc = take_named(out, 0, o->ca_bundle, "the option ca_bundle (XHDF5_CA_BUNDLE)", err);
        if (rc != 0 || !o->ca_dir[0])
            return rc;
        return take_named(out, 1, o->ca_dir, "the option ca_dir (XHDF5_CA_DIR)", err);
    }
    if ((v = xh_env_get(o->env, "CURL_CA_BUNDLE")) != NULL)
        return take_named(out, 0, v, "CURL_CA_BUNDLE", err);
    if ((v = xh_env_get(o->env, "SSL_CERT_FILE")) != NULL)
        return take_named(out, 0, v, "SSL_CERT_FILE", err);
    if (o->ca_dir[0])
        return take_named(out, 1, o->ca_dir, "the option ca_dir (XHDF5_CA_DIR)", err);
    if ((v = xh_env_get(o->env, "X509_CERT_DIR")) != NULL)
        return take_named(out, 1, v, "X509_CERT_DIR", err);
    /* The file alone is enough, and libcurl keeps a store made of a file in memory. */
    if (take_present(out, 0, default_file, "the system"))
        return 0;
    for (size_t i = 0; i < sizeof well_known / sizeof *well_known; i++)
        if (take_present(out, 0, well_known[i], "the system"))
            return 0;
    if (take_present(out, 1, default_dir, "the system") ||
        take_present(out, 0, beside_us(certifi, sizeof certifi), "the Python package certifi"))
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

/* What is in a file, whatever its name: it may lie elsewhere on another node. */
static int hash_file(EVP_MD_CTX *ctx, const char *path)
{
    unsigned char buf[4096];
    ssize_t n = 0;
    int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1, good = fd >= 0 || !path[0];
    while (good && fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0)
        good = EVP_DigestUpdate(ctx, buf, (size_t)n);
    explicit_bzero(buf, sizeof buf);
    if (fd >= 0)
        close(fd);
    return good && n == 0 && hash_text(ctx, NULL);
}

int xh_auth_reader(const struct xh_url *u, const struct xh_token *t, const struct xh_cert *c, const char *session,
                   const struct xh_trust *trust, int withheld, char hex[65])
{
    unsigned char sha[32];
    hex[0] = '\0';
    if (!xh_crypto_enter())
        return 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) && hash_text(ctx, u->text) &&
             hash_text(ctx, u->region) && hash_text(ctx, t ? t->value : NULL) && hash_file(ctx, c->path) &&
             hash_file(ctx, c->key) && hash_text(ctx, session) && hash_text(ctx, trust->file) &&
             hash_text(ctx, trust->dir) && hash_text(ctx, withheld ? "withheld" : NULL) &&
             EVP_DigestFinal_ex(ctx, sha, NULL);
    EVP_MD_CTX_free(ctx);
    xh_crypto_leave();
    if (ok)
        xh_hex(sha, sizeof sha, hex);
    return ok;
}
