/* What a name that is no file most likely was to be: a URL that lost a letter, or one that nobody reads here. Pure. */
#ifndef XH_MISTAKEN_H
#define XH_MISTAKEN_H

#include <stddef.h>

/* Says what to write instead of |name|, which is not there, in a sentence without a full stop; "" when nothing is wrong
 * with it. Returns |out|. It shows no query and no user name. */
const char *xh_mistaken(const char *name, char *out, size_t size);

/* |name|, which was to be a URL, as it may be shown: without query and user name. Returns |out|. */
const char *xh_mistaken_shown(const char *name, char *out, size_t size);

/* Says that |name| is no URL, and why, or what to write instead. Returns |out|. */
#define XH_NO_URL_BYTES 620
const char *xh_mistaken_no_url(const char *name, char out[XH_NO_URL_BYTES]);

#endif
