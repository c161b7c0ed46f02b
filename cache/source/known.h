/* What is known of directories and their sidecars, so that no server is asked in vain for each file: in this process,
 * and that there are none, in the shadows' directory for the user's other processes. Ten minutes long. */
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

/* Notes it; |is| NONE where it is known that there are some changes nothing. */
void xh_known_note(const char *url, const struct xh_options *o, enum xh_known is);

/* 1 once a |url|, then 0: who warns of something does so once. */
int xh_known_first(const char *url);

/* Sets |out| to what a sidecar is opened with: |o| without what serves no sidecar. Owns: the caller releases |out| with
 * xh_env_release. */
void xh_known_options(struct xh_options *out, const struct xh_options *o);

/* |url| with |suffix| behind its path, before query and fragment. Owns: the caller frees. NULL without memory. */
char *xh_known_url(const char *url, const char *suffix);

#endif
