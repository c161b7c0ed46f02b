/* Keys of S3: see s3keys.h.
 *
 * Invariant: no key reaches a note, an error or a trace; what a program printed neither. Its errors go where ours
 * go. */
#include "s3keys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/files.h"
#include "base/hash.h"
#include "base/now.h"
#include "base/wipe.h"
#include "profile.h"

#define FILE_MOST_BYTES    1048576u
#define KEY_MOST_BYTES     512u
#define SESSION_MOST_BYTES 16384u
#define PRINTED_MOST_BYTES 65536u
#define WORDS_MOST         64
#define COMMAND_BYTES      4096
#define ENDS_SOON_S        60 /* as for tokens: send.c */
#define FIRST_MOST_MS      60000 /* the program may ask somebody, in a browser say */
#define AGAIN_MOST_MS      10000 /* other files' transfers stand still meanwhile */
#define FAILURE_LASTS_NS   UINT64_C(10000000000) /* many files ask for the same */

struct xh_s3_source {
    atomic_int refs;
    char *credentials, *config; /* paths; NULL: there is none */
    char *profile;
    struct xh_env *env; /* of the opening: a credential_process gets it. NULL: the current one */
};

static void source_unref(struct xh_s3_source *s)
{
    /* acq_rel: whoever frees has seen all that others did with it. */
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    xh_env_unref(s->env);
    free(s->credentials);
    free(s->config);
    free(s->profile);
    free(s);
}

void xh_s3_keys_free(struct xh_s3_keys *k)
{
    if (!k)
        return;
    xh_wipe(k->id);
    xh_wipe(k->secret);
    xh_wipe(k->session);
    source_unref(k->source);
    free(k);
}

/* ---- files */

/* "$|variable|", else ~/.aws/|name|; NULL: no home, no memory. Owns: free(). */
static char *path_of(const struct xh_env *env, const char *variable, const char *name)
{
    const char *named = xh_env_get(env, variable), *home = xh_env_get(env, "HOME");
    char *out = NULL;
    if (named && strncmp(named, "~/", 2) == 0 && home)
        return asprintf(&out, "%s%s", home, named + 1) < 0 ? NULL : out;
    if (named)
        return strdup(named);
    return !home || asprintf(&out, "%s/.aws/%s", home, name) < 0 ? NULL : out;
}

/* The text of |path|; NULL: it is not there, or cannot be used. Owns: xh_wipe(). */
static char *text_of(const char *path, const char **why)
{
    size_t len;
    *why = NULL;
    char *text = path ? xh_auth_read(path, 1, 0, FILE_MOST_BYTES, &len, why) : NULL;
    if (!text && path && errno == ENOENT)
        *why = NULL;
    if (text && strlen(text) != len) {
        xh_wipe(text);
        *why = "is no text";
        return NULL;
    }
    return text;
}

/* How |profile| is called in the file of configuration. */
static void section_of(const char *config, const char *profile, char *out, size_t size)
{
    int plain = strcmp(profile, "default") == 0 && (!config || xh_profile_has(config, "default"));
    snprintf(out, size, "%s%s", plain ? "" : "profile ", profile);
}

static const char *profile_of(const struct xh_options *o)
{
    const char *named = xh_env_get(o->env, "AWS_PROFILE");
    return o->aws_profile[0] ? o->aws_profile : named ? named : "default";
}

/* ---- settings */

static int is_true(const char *v)
{
    return v && (strcasecmp(v, "true") == 0 || strcasecmp(v, "1") == 0 || strcasecmp(v, "yes") == 0 ||
                 strcasecmp(v, "on") == 0);
}

/* Index of |value| in the words |list|, or -1 with |err|. */
static int one_of(const char *option, const char *value, const char *const *list, struct xh_err *err)
{
    for (int i = 0; i < 3; i++)
        if (strcasecmp(value, list[i]) == 0)
            return i;
    xh_err_set(err, XH_E_INVAL, 0, "%s=%.60s: there are %s, %s and %s", option, value, list[0], list[1], list[2]);
    return -1;
}

/* What the profile adds. */
static void settings_of_profile(const struct xh_options *o, struct xh_s3_settings *out)
{
    const char *why;
    char section[XH_OPT_STR_BYTES], services[XH_OPT_STR_BYTES + 16] = "services ", style[16];
    char *path = path_of(o->env, "AWS_CONFIG_FILE", "config"), *text = text_of(path, &why);
    if (text) {
        section_of(text, profile_of(o), section, sizeof section);
        if (!out->region[0])
            xh_profile_get(text, section, "region", out->region, sizeof out->region);
        if (!out->endpoint[0] && xh_profile_get(text, section, "services", services + 9, sizeof services - 9))
            xh_profile_get(text, services, "s3.endpoint_url", out->endpoint, sizeof out->endpoint);
        if (!out->endpoint[0])
            xh_profile_get(text, section, "endpoint_url", out->endpoint, sizeof out->endpoint);
        if (out->style == XH_S3_AUTO && xh_profile_get(text, section, "s3.addressing_style", style, sizeof style))
            out->style = strcasecmp(style, "path") == 0      ? XH_S3_PATH
                         : strcasecmp(style, "virtual") == 0 ? XH_S3_VIRTUAL
                                                             : XH_S3_AUTO;
    }
    xh_wipe(text);
    free(path);
}

int xh_s3_settings_find(const struct xh_options *o, int files, struct xh_s3_settings *out, struct xh_err *err)
{
    static const char *const rules[] = {"auto", "on", "off"}, *const styles[] = {"auto", "path", "virtual"};
    const char *region = o->aws_region, *endpoint = o->aws_endpoint_url_s3, *v;
    memset(out, 0, sizeof *out);
    int rule = one_of("s3", o->s3, rules, err);
    int style = rule < 0 ? -1 : one_of("s3_addressing", o->s3_addressing, styles, err);
    if (style < 0)
        return XH_E_INVAL;
    out->rule = (typeof(out->rule))rule;
    out->style = (enum xh_s3_style)style;
    out->unsigned_ = o->aws_no_sign_request != 0 || is_true(xh_env_get(o->env, "AWS_NO_SIGN_REQUEST"));
    if (!*region && ((v = xh_env_get(o->env, "AWS_REGION")) || (v = xh_env_get(o->env, "AWS_DEFAULT_REGION"))))
        region = v;
    if (!*endpoint && ((v = xh_env_get(o->env, "AWS_ENDPOINT_URL_S3")) || (v = xh_env_get(o->env, "AWS_ENDPOINT_URL"))))
        endpoint = v;
    snprintf(out->region, sizeof out->region, "%.*s", (int)sizeof out->region - 1, region);
    snprintf(out->endpoint, sizeof out->endpoint, "%s", endpoint);
    if (files)
        settings_of_profile(o, out);
    return 0;
}

/* ---- keys */

__attribute__((format(printf, 2, 3))) static void note(struct xh_token *t, const char *fmt, ...)
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

/* 1 when |s| may stand in a header. */
static int is_plain(const char *s, size_t most)
{
    size_t n = 0;
    while (s[n] > 0x20 && s[n] < 0x7f)
        n++;
    return n > 0 && n <= most && s[n] == '\0';
}

static void forget_keys(struct xh_token *t)
{
    xh_wipe(t->value);
    xh_wipe(t->s3->id);
    xh_wipe(t->s3->secret);
    xh_wipe(t->s3->session);
    t->value = t->s3->id = t->s3->secret = t->s3->session = NULL;
    t->expires = 0;
}

/* Takes the keys, if they can be ones. |session| NULL or "": none. Returns NULL, or what is wrong with them. */
static const char *take(struct xh_token *t, const char *id, const char *secret, const char *session)
{
    if (session && !*session)
        session = NULL;
    if (!id || !*id || !secret || !*secret)
        return "has one half of a key alone";
    if (!is_plain(id, KEY_MOST_BYTES) || strchr(id, ':') || !is_plain(secret, KEY_MOST_BYTES) ||
        (session && !is_plain(session, SESSION_MOST_BYTES)))
        return "holds characters that no key has, or too many";
    struct xh_s3_keys *k = t->s3;
    k->id = strdup(id);
    k->secret = strdup(secret);
    k->session = session ? strdup(session) : NULL;
    if (k->id && k->secret && (k->session || !session) &&
        asprintf(&t->value, "%s\n%s\n%s", id, secret, session ? session : "") >= 0)
        return NULL;
    t->value = NULL;
    forget_keys(t);
    return "does not fit into memory";
}

/* ---- credential_process */

long long xh_s3_date(const char *text)
{
    struct tm tm = {0};
    int n = 0, hours = 0, minutes = 0;
    char sign = '+';
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &n) != 6 || n == 0)
        return 0;
    text += n;
    if (*text == '.')
        text += 1 + strspn(text + 1, "0123456789");
    if (*text != 'Z' && *text && sscanf(text, "%c%2d:%2d", &sign, &hours, &minutes) != 3)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    long long at = (long long)timegm(&tm), off = hours * 3600LL + minutes * 60LL;
    return sign == '-' ? at + off : at - off;
}

/* Reads all of |fd| until |until_ns|. Returns how many bytes, or -1: it took too long, or was too much. */
static ssize_t read_all(int fd, char *out, size_t size, uint64_t until_ns)
{
    size_t n = 0;
    for (;;) {
        uint64_t now = xh_now_ns();
        struct pollfd p = {fd, POLLIN, 0};
        if (now >= until_ns || poll(&p, 1, (int)((until_ns - now) / 1000000u) + 1) == 0)
            return -1;
        ssize_t got = read(fd, out + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || n + (size_t)got == size)
            return -1;
        if (got == 0)
            return (ssize_t)n;
        n += (size_t)got;
    }
}

/* Where the program |name| lies by PATH of |env|: not by that of now, which the program's threads may be changing.
 * Returns |path|, or NULL. */
static const char *program(const char *name, char *const *env, char *path, size_t size)
{
    if (strchr(name, '/'))
        return name;
    while (*env && strncmp(*env, "PATH=", 5) != 0)
        env++;
    for (const char *p = *env ? *env + 5 : "/usr/local/bin:/usr/bin:/bin"; *p; p += *p == ':') {
        size_t n = strcspn(p, ":");
        int len = snprintf(path, size, "%.*s/%s", (int)n, p, name);
        p += n;
        if (n && len > 0 && (size_t)len < size && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

/* Starts |words| with its standard output in |fd|. Returns its number, or -1. */
static pid_t start(char **words, char *const *env, int fd)
{
    pid_t pid = -1;
    char path[XH_AUTH_PATH_BYTES];
    const char *file = program(words[0], env, path, sizeof path);
    sigset_t none, usual;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    if (!file || posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -1;
    }
    sigemptyset(&none); /* our threads block signals, the program need not */
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    int bad = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) ||
              posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO) ||
              posix_spawnattr_setsigmask(&attr, &none) || posix_spawnattr_setsigdefault(&attr, &usual) ||
              posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (bad || posix_spawn(&pid, file, &actions, &attr, words, env) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return pid;
}

/* Waits for |pid|; the program that we are in may have taken its status. Returns 1 when it ended well, as far as is
 * known. */
static int ended_well(pid_t pid, uint64_t until_ns)
{
    int status = 0;
    for (;;) {
        pid_t rc = waitpid(pid, &status, WNOHANG);
        if (rc == pid)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (rc < 0 && errno != EINTR)
            return 1;
        if (rc == 0 && xh_now_ns() >= until_ns) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
            return 0;
        }
        if (rc == 0)
            poll(NULL, 0, 5);
    }
}

/* Runs |command|, without a shell. Returns what it printed, or NULL with |*why|. Owns: xh_wipe(). */
static char *printed_by(char *command, char *const *env, unsigned most_ms, const char **why)
{
    char *words[WORDS_MOST];
    int fds[2];
    uint64_t until = xh_now_ns() + most_ms * UINT64_C(1000000);
    *why = "cannot be run";
    if (xh_profile_words(command, words, WORDS_MOST) < 1 || pipe2(fds, O_CLOEXEC) != 0)
        return NULL;
    char *out = calloc(1, PRINTED_MOST_BYTES + 1);
    pid_t pid = out ? start(words, env, fds[1]) : -1;
    close(fds[1]);
    ssize_t n = pid > 0 ? read_all(fds[0], out, PRINTED_MOST_BYTES, until) : -1;
    close(fds[0]);
    if (pid > 0 && !ended_well(pid, n < 0 ? 0 : until)) {
        *why = n < 0 ? "took too long, or printed too much" : "failed; it says why itself";
        n = -1;
    }
    if (n >= 0 && strlen(out) == (size_t)n)
        return out;
    if (out)
        explicit_bzero(out, PRINTED_MOST_BYTES);
    free(out);
    return NULL;
}

/* What the last command printed: an opening asks for its keys several times, and other files with it. |lock| guards it,
 * and is held while a command runs. */
static struct {
    pthread_mutex_t lock;
    char *command, *text;
    uint64_t env;
    long long expires; /* 0: not told */
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The command that failed last, and what was wrong. The same lock guards it. */
static struct {
    char *command;
    const char *why; /* static */
    uint64_t env, at_ns;
} failed;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* In a fork's child: a thread of the parent's that runs a command is not here. What it was changing is leaked. */
static void in_child(void)
{
    if (pthread_mutex_trylock(&last.lock) != 0) {
        last.command = last.text = failed.command = NULL;
        pthread_mutex_init(&last.lock, NULL);
        return;
    }
    pthread_mutex_unlock(&last.lock);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

static uint64_t hash_all(char *const *env)
{
    uint64_t h = XH_HASH_START;
    for (; *env; env++)
        h = xh_hash_text(h, *env);
    return h;
}

/* The keys that |text| has, which a program printed. Returns NULL, or what is wrong with it. */
static const char *read_printed(struct xh_token *t, const char *text)
{
    const char *why = NULL;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *ends = json_string_value(json_object_get(j, "Expiration"));
    if (json_integer_value(json_object_get(j, "Version")) != 1)
        why = "prints no credentials of version 1 (JSON)";
    else
        why = take(t, json_string_value(json_object_get(j, "AccessKeyId")),
                   json_string_value(json_object_get(j, "SecretAccessKey")),
                   json_string_value(json_object_get(j, "SessionToken")));
    if (!why && ends)
        t->expires = xh_s3_date(ends);
    json_decref(j); /* jansson does not overwrite what it frees; the text that it came from is */
    return why;
}

/* Takes what |command| printed last, if it still holds and is not |old|'s. Returns 1 if so. The lock is held. */
static int take_last(struct xh_token *t, const char *command, uint64_t env, const struct xh_token *old)
{
    if (!last.text || last.env != env || strcmp(last.command, command) != 0 ||
        (last.expires && last.expires - (long long)time(NULL) <= ENDS_SOON_S) || read_printed(t, last.text) != NULL)
        return 0;
    if (!old || !old->value || strcmp(t->value, old->value) != 0)
        return 1;
    forget_keys(t);
    return 0;
}

/* What was wrong with |command| just now; NULL: nothing is known. The lock is held. */
static const char *failed_just_now(const char *command, uint64_t env)
{
    int same = failed.command && failed.env == env && strcmp(failed.command, command) == 0;
    return same && xh_now_ns() - failed.at_ns < FAILURE_LASTS_NS ? failed.why : NULL;
}

/* The lock is held. */
static void note_failed(const char *command, uint64_t env, const char *why)
{
    free(failed.command);
    failed.command = strdup(command);
    failed.why = why;
    failed.env = env;
    failed.at_ns = xh_now_ns();
}

/* Takes the keys that |command| prints. Returns NULL, or what is wrong. Source: AWS CLI, "sourcing credentials with an
 * external process". */
static const char *take_printed(struct xh_token *t, const char *command, const struct xh_token *old)
{
    char *const *all = xh_env_all(t->s3->source->env);
    unsigned most_ms = old ? AGAIN_MOST_MS : FIRST_MOST_MS;
    uint64_t env = hash_all(all), until = xh_now_ns() + most_ms * UINT64_C(1000000);
    const char *why = "is being run", *known;
    pthread_once(&once, watch_forks);
    while (pthread_mutex_trylock(&last.lock) != 0) {
        if (xh_now_ns() >= until)
            return why;
        poll(NULL, 0, 5);
    }
    if (take_last(t, command, env, old)) {
        pthread_mutex_unlock(&last.lock);
        return NULL;
    }
    if ((known = failed_just_now(command, env)) != NULL) {
        pthread_mutex_unlock(&last.lock);
        return known;
    }
    char *words = strdup(command), *text = words ? printed_by(words, all, most_ms, &why) : NULL;
    if (text)
        why = read_printed(t, text);
    if (!why) {
        free(last.command);
        xh_wipe(last.text);
        last.command = strdup(command);
        last.text = last.command ? text : NULL;
        if (last.text)
            text = NULL;
        last.env = env;
        last.expires = t->expires;
    } else {
        note_failed(command, env, why);
    }
    pthread_mutex_unlock(&last.lock);
    free(words);
    xh_wipe(text);
    return why;
}

/* ---- profiles */

/* What a profile may have that is not read here. */
static const char *foreign_to_us(const char *text, const char *section)
{
    static const char *const names[] = {"sso_session", "sso_start_url", "role_arn", "credential_source",
                                        "web_identity_token_file"};
    char value[XH_OPT_STR_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (xh_profile_get(text, section, names[i], value, sizeof value))
            return names[i];
    return NULL;
}

/* Takes keys, or runs what prints them, from [section] of |text|, the file |path|; |old|: NULL, or the one that they
 * are to take the place of. Returns 1 when the search ends. */
static int take_section(struct xh_token *t, const char *text, const char *path, const char *section,
                        const struct xh_token *old)
{
    char id[KEY_MOST_BYTES + 1], secret[KEY_MOST_BYTES + 1], command[COMMAND_BYTES];
    char *session = calloc(1, SESSION_MOST_BYTES + 1);
    const char *why = NULL, *other;
    int has = xh_profile_get(text, section, "aws_access_key_id", id, sizeof id);
    has |= xh_profile_get(text, section, "aws_secret_access_key", secret, sizeof secret);
    if (has && session) {
        xh_profile_get(text, section, "aws_session_token", session, SESSION_MOST_BYTES + 1);
        why = take(t, id, secret, session);
        note(t, "the key of [%.100s] in %.200s%s%s", section, path, why ? " " : "", why ? why : "");
    } else if (xh_profile_get(text, section, "credential_process", command, sizeof command)) {
        why = take_printed(t, command, old);
        note(t, "the key of the credential_process of [%.100s] in %.200s%s%s", section, path,
             why ? ", which " : "", why ? why : "");
        has = 1;
    } else if ((other = foreign_to_us(text, section)) != NULL) {
        note(t, "[%.60s] in %.150s has %s, which is not read here: give it credential_process = aws configure "
                "export-credentials --profile NAME",
             section, path, other);
    }
    explicit_bzero(secret, sizeof secret);
    xh_wipe(session);
    return has;
}

static void take_profile(struct xh_token *t, const struct xh_token *old)
{
    const struct xh_s3_source *s = t->s3->source;
    char section[XH_OPT_STR_BYTES + 16];
    const char *why_credentials, *why_config;
    char *credentials = text_of(s->credentials, &why_credentials), *config = text_of(s->config, &why_config);
    section_of(config, s->profile, section, sizeof section);
    int done = credentials && take_section(t, credentials, s->credentials, s->profile, old);
    if (!done && config)
        take_section(t, config, s->config, section, old);
    if (why_credentials)
        note(t, "%.200s %s", s->credentials, why_credentials);
    if (why_config)
        note(t, "%.200s %s", s->config, why_config);
    if (!t->value && !t->note[0])
        note(t, "AWS_ACCESS_KEY_ID is not set, and there is no key of the profile %.100s in %.150s", s->profile,
             s->credentials ? s->credentials : "~/.aws/credentials");
    xh_wipe(credentials);
    xh_wipe(config);
}

static struct xh_s3_source *source_new(const struct xh_options *o)
{
    struct xh_s3_source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->credentials = path_of(o->env, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
    s->config = path_of(o->env, "AWS_CONFIG_FILE", "config");
    s->profile = strdup(profile_of(o));
    s->env = xh_env_ref(o->env);
    if (s->profile)
        return s;
    source_unref(s);
    return NULL;
}

static struct xh_token *token_new(void)
{
    struct xh_token *t = calloc(1, sizeof *t);
    if (!t || !(t->s3 = calloc(1, sizeof *t->s3))) {
        free(t);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    return t;
}

int xh_s3_keys_find(const struct xh_options *o, const struct xh_s3_settings *s, struct xh_token **out,
                    struct xh_err *err)
{
    struct xh_token *t = token_new();
    const char *id = xh_env_get(o->env, "AWS_ACCESS_KEY_ID"), *secret = xh_env_get(o->env, "AWS_SECRET_ACCESS_KEY");
    const char *why = NULL;
    if (!t)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a key");
    *out = t;
    if (s->unsigned_) {
        note(t, "AWS_NO_SIGN_REQUEST, or the option aws_no_sign_request, says that none is to be used");
    } else if (o->aws_access_key_id[0] || o->aws_secret_access_key[0]) {
        why = take(t, o->aws_access_key_id, o->aws_secret_access_key, o->aws_session_token);
        note(t, "the key of the option aws_access_key_id%s%s", why ? " " : "", why ? why : "");
    } else if (!o->aws_profile[0] && (id || secret)) {
        why = take(t, id, secret, xh_env_get(o->env, "AWS_SESSION_TOKEN"));
        note(t, "the key of AWS_ACCESS_KEY_ID%s%s", why ? " " : "", why ? why : "");
    } else if ((t->s3->source = source_new(o)) != NULL) {
        take_profile(t, NULL);
    } else {
        note(t, "no memory to look for a key");
    }
    return 0;
}

int xh_s3_keys_again(const struct xh_token *old, struct xh_token **out)
{
    struct xh_token *t = old->s3->source ? token_new() : NULL;
    if (!t)
        return 0;
    t->s3->source = old->s3->source;
    atomic_fetch_add_explicit(&t->s3->source->refs, 1, memory_order_relaxed);
    take_profile(t, old);
    *out = t;
    return 1;
}
