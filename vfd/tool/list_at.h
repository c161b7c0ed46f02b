/* Asks a server what a directory holds. */
#ifndef XH_LIST_AT_H
#define XH_LIST_AT_H

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"
#include "listing.h"

/* Adds the names below |url|, which ends as a directory's, to |out|. Asks by PROPFIND, and where that is not answered,
 * by GET. Returns 0, or a negative code with |err| set: NET, TLS, TIMEOUT; ACCES, NOENT; PROTO: it lists nothing.
 * Blocks. */
int xh_list_at(const char *url, const struct xh_options *o, struct xh_entries *out, struct xh_err *err);

#endif
