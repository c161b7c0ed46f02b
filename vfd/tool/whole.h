/* A file from a server that sends no parts of files: in one piece, past engine and cache. */
#ifndef XH_WHOLE_H
#define XH_WHOLE_H

#include <stdint.h>

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"

/* Writes all of |url| to |fd|, from where that stands. One reply is of one version; it must tell its length, or come
 * in chunks, so that what is cut off is noticed. Redirects are followed, and credentials go where the driver would
 * send them. Returns 0 with |*bytes|, or a negative code. Blocks; ends when nothing has come for stall_timeout_ms. */
int xh_tool_whole(const char *url, const struct xh_options *o, int fd, uint64_t *bytes, struct xh_err *err);

#endif
