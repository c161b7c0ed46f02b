/* URLs that files name: sources of virtual datasets, and targets of external links. When the driver does not open a
 * file, HDF5 takes the file for missing, and silently fills its part of a virtual dataset. So a file that may exist is
 * opened in any case, and its first read fails with the reason. */
#ifndef XH_SOURCES_H
#define XH_SOURCES_H

#include "../cache/base/options.h"
#include "h5bind.h"

struct xh_remote;

/* Opens |url|, which |by| names. Returns 0 and sets |*out|; or -1, error pushed: the file does not exist (404, 410), or
 * out of memory. A missing file is reported on standard error, once for each URL.
 * |path|: the local path that the file names and that was refused, so that HDF5 tries the URL instead; "": none. If the
 * URL is missing but the path exists, the file does not count as missing.
 * Owns: the caller closes |*out|. Blocks. */
int xh_source_open(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, const struct xh_namer *by,
                   const char *path, struct xh_remote **out);

/* Returns 1 when |url| is not what the file names. HDF5 tries a name as it stands, and then appends it to the directory
 * of the file that names it. So when "https://other/name" is missing, HDF5 asks for
 * "https://host/dir/https://other/name". */
int xh_source_is_afterthought(const char *url, const struct xh_namer *by);

/* Prints |err| on standard error, once for each URL and a few times in a process, where HDF5 may not report it. */
void xh_source_say(const char *url, const struct xh_err *err);

/* No file of |family| is open any more. Closes files that were opened ahead for it. */
void xh_sources_forget(uint64_t family);

#endif
