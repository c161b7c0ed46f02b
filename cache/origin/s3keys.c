/* Keys of S3: see s3keys.h.
 *
 * Invariant: no key reaches a note, an error or a trace; what a program printed neither. Its errors go where ours
 * go. */
#include "s3keys.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/date.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/letters.h"
#include "base/now.h"
#include "base/table.h"
#include "base/thread.h"
#include "base/wipe.h"
#include "profile.h"
#include "s3process.h"

#define KEY_MOST_BYTES     512u
#define SESSION_MOST_BYTES 16384u
#define COMMAND_BYTES      4096
#define PROGRAM_MOST_MS    60000 /* it may ask somebody, in a browser say */

/* One for all files whose keys come from the same place. */
struct xh_s3_source {
    /* Constant. */
    char *credentials, *config; /* paths; NULL: there is none */
    char *profile;
    int named;             /* somebody named that profile: what it lacks is looked for nowhere else */
    xh_s3_fetch *fetch;    /* NULL: no metadata service is asked */
    struct xh_env *env; /* of the opening: a credential_process gets it. NULL: the current one */
    uint64_t env_hash;  /* of all of it */
    /* Under the lock. */
    struct xh_s3_source *next;
    unsigned refs;
    int looking;            /* a thread of ours looks for keys there */
    uint64_t looked_ns;     /* when the look began that brought |found|; 0: there was none */
    struct xh_token *found; /* its own, of no source, maybe without a key; NULL: there was no look */
};

static struct xh_s3_source *sources;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them, as they say; a leaf, for a moment */

/* Frees one that nobody else has. */
static void token_free(struct xh_token *t)
{
    if (!t)
        return;
    xh_wipe(t->value);
    xh_s3_keys_free(t->s3);
    free(t);
}

static void source_free(struct xh_s3_source *s)
{
    if (!s)
        return;
    token_free(s->found);
    xh_env_unref(s->env);
    free(s->credentials);
    free(s->config);
    free(s->profile);
    free(s);
}

static void source_unref(struct xh_s3_source *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    int gone = --s->refs == 0;
    if (gone)
        LL_DELETE(sources, s);
    pthread_mutex_unlock(&lock);
    if (gone)
        source_free(s);
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
        return xh_path_from_root(named);
    return !home || asprintf(&out, "%s/.aws/%s", home, name) < 0 ? NULL : out;
}

/* The text of |path|; NULL: it is not there, or cannot be used. Owns: xh_wipe(). */
static char *text_of(const char *path, const char **why)
{
    size_t len;
    *why = NULL;
    char *text = path ? xh_auth_read(path, 1, 0, &len, why) : NULL;
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
    return v && (xh_strcasecmp(v, "true") == 0 || xh_strcasecmp(v, "1") == 0 || xh_strcasecmp(v, "yes") == 0 ||
                 xh_strcasecmp(v, "on") == 0);
}

/* Index of |value| in the words |list|, or -1 with |err|. */
static int one_of(const char *option, const char *value, const char *const *list, struct xh_err *err)
{
    for (int i = 0; i < 3; i++)
        if (xh_strcasecmp(value, list[i]) == 0)
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
            out->style = xh_strcasecmp(style, "path") == 0      ? XH_S3_PATH
                         : xh_strcasecmp(style, "virtual") == 0 ? XH_S3_VIRTUAL
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

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* In a fork's child: a thread of the parent's that looks for keys, or runs a command, is not here. What it was changing
 * of the latter is leaked. */
static void in_child(void)
{
    struct xh_s3_source *s;
    LL_FOREACH (sources, s)
        s->looking = 0;
    pthread_mutex_unlock(&lock);
    if (pthread_mutex_trylock(&last.lock) != 0) {
        last.command = last.text = failed.command = NULL;
        pthread_mutex_init(&last.lock, NULL);
        return;
    }
    pthread_mutex_unlock(&last.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

static uint64_t hash_all(char *const *env)
{
    uint64_t h = XH_HASH_START;
    for (; *env; env++)
        h = xh_hash_text(h, *env);
    return h;
}

/* The keys that |text| has, which a program |printed|, or a metadata service told. Returns NULL, or what is wrong with
 * it. Source: AWS CLI, "sourcing credentials with an external process"; Amazon's guides on EC2's and ECS' roles. */
static const char *read_printed(struct xh_token *t, const char *text, int printed)
{
    const char *why = NULL;
    json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *ends = json_string_value(json_object_get(j, "Expiration"));
    if (printed && json_integer_value(json_object_get(j, "Version")) != 1)
        why = "prints no credentials of version 1 (JSON)";
    else if (!printed && !json_object_get(j, "AccessKeyId"))
        why = "answers with no key";
    else
        why = take(t, json_string_value(json_object_get(j, "AccessKeyId")),
                   json_string_value(json_object_get(j, "SecretAccessKey")),
                   json_string_value(json_object_get(j, printed ? "SessionToken" : "Token")));
    if (!why && ends)
        t->expires = xh_iso_date(ends);
    json_decref(j); /* jansson does not overwrite what it frees; the text that it came from is */
    return why;
}

/* Takes what |command| printed last, if it still holds and is not |old|'s. Returns 1 if so. The lock is held. */
static int take_last(struct xh_token *t, const char *command, uint64_t env, const struct xh_token *old)
{
    if (!last.text || last.env != env || strcmp(last.command, command) != 0 ||
        (last.expires && last.expires - (long long)time(NULL) <= XH_TOKEN_EARLY_S) ||
        read_printed(t, last.text, command[0] != '\n') != NULL)
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
    return same && xh_now_ns() - failed.at_ns < XH_FAILURE_LASTS_NS ? failed.why : NULL;
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

#define METADATA "\nmetadata" /* stands for a command, which has no end of a line */

/* A hash of all that may change what |command| prints. */
static uint64_t hash_of(const char *command, const struct xh_env *env)
{
    static const char *const names[] = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"};
    uint64_t h = XH_HASH_START;
    if (command[0] != '\n')
        return hash_all(xh_env_all(env));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = xh_env_get(env, names[i]);
        h = xh_hash_text(xh_hash_text(h, v ? v : ""), "\n");
    }
    return h;
}

/* What |command| prints, or the metadata service tells. NULL with |*why|. Owns: xh_wipe(). */
static char *told_by(const char *command, const struct xh_s3_source *s, const char **why)
{
    if (command[0] == '\n')
        return s->fetch(s->env, why);
    char *words = strdup(command);
    *why = "does not fit into memory";
    char *text = words ? xh_s3_process_run(words, xh_env_all(s->env), PROGRAM_MOST_MS, why) : NULL;
    free(words);
    return text;
}

/* Runs |command|, or asks, and keeps what came of it for others. Returns NULL, or what is wrong. The lock is held. */
static const char *take_anew(struct xh_token *t, const char *command, uint64_t env)
{
    const char *why = "says nothing";
    char *text = told_by(command, t->s3->source, &why);
    if (text)
        why = read_printed(t, text, command[0] != '\n');
    if (why) {
        note_failed(command, env, why);
        xh_wipe(text);
        return why;
    }
    free(last.command);
    xh_wipe(last.text);
    last.command = strdup(command);
    last.text = last.command ? text : NULL;
    if (!last.command)
        xh_wipe(text);
    last.env = env;
    last.expires = t->expires;
    return NULL;
}

/* Takes the keys that |command| prints, or METADATA. Returns NULL, or what is wrong. */
static const char *take_printed(struct xh_token *t, const char *command, const struct xh_token *old)
{
    uint64_t env = hash_of(command, t->s3->source->env), until = xh_now_ns() + PROGRAM_MOST_MS * UINT64_C(1000000);
    const char *why = NULL;
    pthread_once(&once, watch_forks);
    while (pthread_mutex_trylock(&last.lock) != 0) {
        if (xh_now_ns() >= until)
            return "is being run";
        poll(NULL, 0, 5);
    }
    if (!take_last(t, command, env, old) && !(why = failed_just_now(command, env)))
        why = take_anew(t, command, env);
    pthread_mutex_unlock(&last.lock);
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
        xh_token_note(t, "the key of [%.100s] in %.200s%s%s", section, path, why ? " " : "", why ? why : "");
    } else if (xh_profile_get(text, section, "credential_process", command, sizeof command)) {
        why = take_printed(t, command, old);
        xh_token_note(t, "the key of the credential_process of [%.100s] in %.200s%s%s", section, path,
                      why ? ", which " : "", why ? why : "");
        has = 1;
    } else if ((other = foreign_to_us(text, section)) != NULL) {
        xh_token_note(t,
                      "[%.60s] in %.150s has %s, which is not read here: give it credential_process = aws configure "
                      "export-credentials --profile NAME",
                      section, path, other);
    }
    explicit_bzero(secret, sizeof secret);
    xh_wipe(session);
    return has;
}

static void take_metadata(struct xh_token *t, const struct xh_token *old)
{
    const struct xh_env *env = t->s3->source->env;
    int container = xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
                    xh_env_get(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (!container && is_true(xh_env_get(env, "AWS_EC2_METADATA_DISABLED"))) {
        xh_token_note(t, "the metadata service is not asked, as AWS_EC2_METADATA_DISABLED says");
        return;
    }
    const char *why = take_printed(t, METADATA, old);
    xh_token_note(t, "the key of this %s's metadata service%s%s", container ? "container" : "machine",
                  why ? ", which " : "", why ? why : "");
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
        done = take_section(t, config, s->config, section, old);
    if (why_credentials)
        xh_token_note(t, "%.200s: %s", s->credentials, why_credentials);
    if (why_config)
        xh_token_note(t, "%.200s: %s", s->config, why_config);
    if (!done && s->fetch && !s->named)
        take_metadata(t, old);
    if (!t->value && !t->note[0])
        xh_token_note(t, "AWS_ACCESS_KEY_ID is not set, and there is no key of the profile %.100s in %.150s",
                      s->profile, s->credentials ? s->credentials : "~/.aws/credentials");
    xh_wipe(credentials);
    xh_wipe(config);
}

static int same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static int same_source(const struct xh_s3_source *a, const struct xh_s3_source *b)
{
    int same_env = a->env_hash == b->env_hash &&
                   (a->env && b->env ? xh_env_is_same(a->env, b->env) : a->env == b->env);
    return same_env && a->fetch == b->fetch && a->named == b->named && same_text(a->credentials, b->credentials) &&
           same_text(a->config, b->config) && strcmp(a->profile, b->profile) == 0;
}

/* NULL without memory. Owns: source_unref(). */
static struct xh_s3_source *source_of(const struct xh_options *o, xh_s3_fetch *fetch)
{
    struct xh_s3_source *s = calloc(1, sizeof *s), *there;
    if (!s)
        return NULL;
    s->refs = 1;
    s->credentials = path_of(o->env, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
    s->config = path_of(o->env, "AWS_CONFIG_FILE", "config");
    s->profile = strdup(profile_of(o));
    s->named = o->aws_profile[0] || xh_env_get(o->env, "AWS_PROFILE");
    s->fetch = o->aws_metadata ? fetch : NULL;
    s->env = xh_env_ref(o->env);
    s->env_hash = hash_all(xh_env_all(s->env));
    if (!s->profile) {
        source_free(s);
        return NULL;
    }
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    LL_FOREACH (sources, there)
        if (same_source(there, s))
            break;
    if (there)
        there->refs++;
    else
        LL_PREPEND(sources, s);
    pthread_mutex_unlock(&lock);
    if (!there)
        return s;
    source_free(s);
    return there;
}

static struct xh_token *token_new(void)
{
    struct xh_token *t = xh_token_new();
    if (t && (t->s3 = calloc(1, sizeof *t->s3)))
        return t;
    free(t);
    return NULL;
}

int xh_s3_keys_find(const struct xh_options *o, const struct xh_s3_settings *s, xh_s3_fetch *fetch,
                    struct xh_token **out, struct xh_err *err)
{
    struct xh_token *t = token_new();
    const char *id = xh_env_get(o->env, "AWS_ACCESS_KEY_ID"), *secret = xh_env_get(o->env, "AWS_SECRET_ACCESS_KEY");
    const char *why = NULL;
    if (!t)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a key");
    *out = t;
    if (s->unsigned_) {
        xh_token_note(t, "AWS_NO_SIGN_REQUEST, or the option aws_no_sign_request, says that none is to be used");
    } else if (o->aws_access_key_id[0] || o->aws_secret_access_key[0]) {
        why = take(t, o->aws_access_key_id, o->aws_secret_access_key, o->aws_session_token);
        xh_token_note(t, "the key of the option aws_access_key_id%s%s", why ? " " : "", why ? why : "");
    } else if (!o->aws_profile[0] && (id || secret)) {
        why = take(t, id, secret, xh_env_get(o->env, "AWS_SESSION_TOKEN"));
        xh_token_note(t, "the key of AWS_ACCESS_KEY_ID%s%s", why ? " " : "", why ? why : "");
    } else if ((t->s3->source = source_of(o, fetch)) != NULL) {
        take_profile(t, NULL);
    } else {
        xh_token_note(t, "no memory to look for a key");
    }
    return 0;
}

/* ---- once more */

/* The same keys, as of |source|. NULL without memory. The lock is held. */
static struct xh_token *token_of(const struct xh_token *like, struct xh_s3_source *source)
{
    struct xh_token *t = token_new();
    if (!t)
        return NULL;
    if (like->value && take(t, like->s3->id, like->s3->secret, like->s3->session) == NULL)
        t->expires = like->expires;
    memcpy(t->note, like->note, sizeof t->note);
    source->refs++;
    t->s3->source = source;
    return t;
}

/* What a look is for. */
struct look {
    struct xh_token *old, *found; /* both of the source that it looks at */
    uint64_t began_ns;
};

static void *look(void *ctx)
{
    struct look *l = ctx;
    struct xh_s3_source *s = l->old->s3->source;
    take_profile(l->found, l->old);
    pthread_mutex_lock(&lock);
    struct xh_token *drop = s->found;
    s->found = l->found;
    s->found->s3->source = NULL; /* else it would keep the source that keeps it */
    s->refs--;                   /* |old| has another */
    s->looked_ns = l->began_ns;
    s->looking = 0;
    pthread_mutex_unlock(&lock);
    token_free(drop);
    token_free(l->old);
    free(l);
    return NULL;
}

/* A look for what takes the place of |old|. NULL without memory. The lock is held. Owns: drop_look(). */
static struct look *new_look(const struct xh_token *old)
{
    static const struct xh_token none;
    struct look *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->began_ns = xh_now_ns();
    l->old = token_of(old, old->s3->source);
    l->found = token_of(&none, old->s3->source);
    return l;
}

/* The lock is not held. */
static void drop_look(struct look *l)
{
    if (!l)
        return;
    token_free(l->old);
    token_free(l->found);
    free(l);
}

enum xh_again xh_s3_keys_again(const struct xh_token *old, uint64_t since_ns, struct xh_token **out)
{
    struct xh_s3_source *s = old->s3->source;
    struct xh_token *found = NULL;
    struct look *next = NULL;
    if (!s)
        return XH_AGAIN_NOTHING;
    /* Asked, and begun, under one hold of the lock: else a look that ends in between is made twice. */
    pthread_mutex_lock(&lock);
    int over = s->looked_ns && s->looked_ns >= since_ns, looks = !over && s->looking;
    if (over)
        found = token_of(s->found, s);
    else if (!looks && (next = new_look(old)) != NULL)
        s->looking = 1;
    pthread_mutex_unlock(&lock);
    if (found)
        *out = found;
    if (over)
        return found ? XH_AGAIN_FOUND : XH_AGAIN_NOTHING;
    if (looks || (next && next->old && next->found && xh_thread_start(NULL, look, next) == 0))
        return XH_AGAIN_SOON;
    pthread_mutex_lock(&lock);
    if (next)
        s->looking = 0;
    pthread_mutex_unlock(&lock);
    drop_look(next);
    return XH_AGAIN_NOTHING;
}
