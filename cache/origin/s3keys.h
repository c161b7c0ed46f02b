/* Settings and keys of S3, found as every tool of S3 finds them: options, environment, ~/.aws/credentials and
 * ~/.aws/config, and what a profile's credential_process prints. */
#ifndef XH_S3KEYS_H
#define XH_S3KEYS_H

#include "auth.h"
#include "s3.h"

/* What is said of S3, but the keys. */
struct xh_s3_settings {
    enum { XH_S3_RULE_AUTO, XH_S3_RULE_ON, XH_S3_RULE_OFF } rule; /* the option s3 */
    enum xh_s3_style style;
    int unsigned_;                        /* no keys are wanted */
    char endpoint[XH_OPT_STR_BYTES];      /* "": Amazon */
    char region[XH_S3_REGION_BYTES];      /* "": nobody names one. Not checked */
};

/* Reads them. |files|: also from the profile; else what options and environment say. Returns 0, or XH_E_INVAL: an
 * option's value is none. Threads: the program's own, unless o->env is held. */
int xh_s3_settings_find(const struct xh_options *o, int files, struct xh_s3_settings *out, struct xh_err *err);

/* Where keys come from that may be others later: files, or a program. */
struct xh_s3_source;

/* Keys, in a token whose |value| is all of them in one text and goes nowhere. */
struct xh_s3_keys {
    char *id, *secret, *session; /* |session| NULL: they are not temporary. All NULL: there are none */
    struct xh_s3_source *source; /* NULL: they stay as they are */
};

/* Asks a metadata service for keys. Returns its answer, JSON, or NULL with |*why|, a static text. Owns: the caller
 * gives it to xh_wipe(). Blocks for some seconds at most. */
typedef char *xh_s3_fetch(const struct xh_env *env, const char **why);

/* Looks for keys: the options; if the option aws_profile is set, that profile; AWS_ACCESS_KEY_ID; the profile
 * AWS_PROFILE or default, in the file of credentials, then in that of configuration, by its keys or by its
 * credential_process; if no profile is named, and the option aws_metadata is on, what |fetch| brings. What is found but
 * cannot be used is no key, and the note says why.
 * Returns 0, or XH_E_NOMEM. Owns: the caller unrefs |*out|. Reads small files, and may run a program or ask a service,
 * for a minute at most. Threads: as above. */
int xh_s3_keys_find(const struct xh_options *o, const struct xh_s3_settings *s, xh_s3_fetch *fetch,
                    struct xh_token **out, struct xh_err *err);

/* Looks again where |old| came from, on a thread of its own, as a program may have to be run: as xh_token_again, which
 * calls it. One look serves all files whose keys come from there. */
enum xh_again xh_s3_keys_again(const struct xh_token *old, uint64_t since_ns, struct xh_token **out);

/* For xh_token_unref. */
void xh_s3_keys_free(struct xh_s3_keys *k); /* NULL allowed */

#endif
