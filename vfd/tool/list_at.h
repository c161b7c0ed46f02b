/* Asks a server what a directory holds. */
#ifndef XH_LIST_AT_H
#define XH_LIST_AT_H

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"
#include "listing.h"

/* Adds the names below |url|, which ends as a directory's, to |out|: of s3:// by ListObjectsV2, elsewhere by PROPFIND,
 * and where that is not answered, by GET. Returns 0, or a negative code with |err| set: NET, TLS, TIMEOUT; INVAL;
 * ACCES, NOENT; PROTO: it lists nothing. Blocks. */
int xh_list_at(const char *url, const struct xh_options *o, struct xh_entries *out, struct xh_err *err);

/* 1 when |url| is of s3://, and something lies below it: there a directory is nothing else. One request. Blocks. */
int xh_list_is_prefix(const char *url, const struct xh_options *o);

/* 1 when |url| is "s3://bucket", without a key. */
int xh_list_is_bucket(const char *url);

/* Asks for |n| URLs of one server by HEAD, at |urls|, several at once. Sets size and date in |out|, and told where the
 * server says at least the size. Never fails. Blocks. */
void xh_list_look(char *const *urls, size_t n, const struct xh_options *o, struct xh_entry *out);

#endif
