/* What is known of directories and their sidecars, so that no server is asked in vain for each file. Kept for ten
 * minutes (a refusal that may pass: ten seconds): in this process; and where there are none, in the shadows' directory
 * for the user's other processes. */
#ifndef XH_KNOWN_H
#define XH_KNOWN_H

#include "base/options.h"

enum xh_known {
    XH_KNOWN_NOTHING,
    XH_KNOWN_NONE, /* no sidecars there */
    XH_KNOWN_SOME,
};

/* |url|: of a file in the directory. Threads: any. Does not block on the network. */
enum xh_known xh_known_of(const char *url, const struct xh_options *o);

/* Notes what an opening of a sidecar there has shown, which returned |rc|; |status|: of the reply, where it failed. */
void xh_known_opened(const char *url, const struct xh_options *o, int rc, int status);

/* Forgets that there are none, as the file itself was refused, too. */
void xh_known_forget(const char *url, const struct xh_options *o);

/* Prints once in this process that the sidecar |url| is ignored, all of it or a part. */
void xh_known_warn(const char *url, const char *why);

/* Sets |out| to what a sidecar is opened with: |o| without what serves no sidecar. Owns: the caller releases |out| with
 * xh_env_release. */
void xh_known_options(struct xh_options *out, const struct xh_options *o);

/* |url| with |suffix| behind its path, before query and fragment. Owns: the caller frees. NULL without memory, or
 * where it has no path. */
char *xh_known_url(const char *url, const char *suffix);

#endif
