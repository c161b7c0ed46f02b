/* URLs that files name: sources of virtual data sets, targets of external links. HDF5 takes each file that the driver does
 * not open for one that is not there, and fills a virtual data set's part of it without a word. So whatever may be there is
 * opened: its first read fails with the reason. */
#ifndef XH_SOURCES_H
#define XH_SOURCES_H

#include "../cache/base/options.h"
#include "h5bind.h"

struct xh_remote;

/* Opens |url|, which the file that |by| tells of names. Returns 0 and sets |*out|; or -1, error pushed: there is no such
 * file (404, 410), or no memory. The first of the two is said on standard error, once for each URL.
 * |path|: the local path that it names, and that was refused: HDF5 tries the URL in its place; "": none. Where the URL is
 * missing and the path is there, that is no file to be taken for missing.
 * Owns: the caller closes |*out|. Blocks. */
int xh_source_open(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, const struct xh_namer *by, const char *path,
                   struct xh_remote **out);

/* 1 when HDF5 did not mean |url|: it tries a name as it stands, and then behind the directory of the file that has it. Where there
 * is nothing at "https://other/name", it comes with "https://host/dir/https://other/name". */
int xh_source_is_afterthought(const char *url, const struct xh_namer *by);

/* Says on standard error, once for each URL and a few times a process, that |err| was met, where HDF5 may keep it to itself. */
void xh_source_say(const char *url, const struct xh_err *err);

/* Nothing of |family| is open any more: what was opened ahead for it is closed. */
void xh_sources_forget(uint64_t family);

#endif
