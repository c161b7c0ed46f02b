/* Fetches a file in one piece from a server that sends no parts of files, without engine and cache. */
#ifndef XH_WHOLE_H
#define XH_WHOLE_H

#include <stdint.h>

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"

/* Writes all of |url| to |fd|, from its current offset. One reply is of one version; it must give its length, or come
 * in chunks, so that a cut-off reply is noticed. Redirects are followed; credentials go where the driver would send
 * them.
 * Returns 0 with |*bytes|, or a negative code. Blocks; ends when nothing has come for stall_timeout_ms, or hardly
 * anything for twice as long. */
int xh_tool_whole(const char *url, const struct xh_options *o, int fd, uint64_t *bytes, struct xh_err *err);

#endif
