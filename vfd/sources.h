/* URLs that files name: sources of virtual datasets, and targets of external links. When the driver does not open a
 * file, HDF5 takes the file for missing, and silently fills its part of a virtual dataset. So a file that may exist is
 * opened in any case, and its first read fails with the reason. */
#ifndef XH_SOURCES_H
#define XH_SOURCES_H

#include "../cache/base/options.h"
#include "h5bind.h"

struct xh_remote;

/* Opens |url|, which |by| names; |asked|: as HDF5 has put it together (literal.h). Returns 0 and sets |*out|; or -1,
 * error pushed: the file does not exist (404, 410), or out of memory. A missing file is reported on standard error,
 * once for each URL.
 * |path|: the local path that the file names and that was refused, so that HDF5 tries the URL instead; "": none. If the
 * URL is missing but the path exists, the file does not count as missing.
 * Owns: the caller closes |*out|. Blocks. */
int xh_source_open(struct xh_h5 *h5, const char *asked, const char *url, unsigned flags, hid_t fapl,
                   const struct xh_namer *by, const char *path, struct xh_remote **out);

/* |path| is what HDF5 makes of the directory of |by|, a file at a URL, and of a directory below it that the user has
 * set (${ORIGIN}/…): it takes the URL for a relative path. Returns the URL that is meant, and sets |*at| to where in it
 * the directory's ends. NULL: it is no such path, or out of memory. Owns: free(). */
char *xh_source_below(const struct xh_namer *by, const char *path, size_t *at);

/* HDF5 tries |path| for a file that another one names. If that is a piece of a URL in HDF5_EXT_PREFIX, which HDF5
 * divides at each colon, says so on standard error, once. */
void xh_source_prefix_cut(const char *path);

/* |url|, which |by| names, was opened. Once in many files of a name with %b asks the server for one that cannot be
 * there. Returns 0; or, with |err| set, XH_E_PROTO: the server has that, too, so HDF5 would never come to an end.
 * Blocks. */
int xh_source_never_ends(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_namer *by, struct xh_err *err);

/* Returns 1 when |url| is not what the file names. HDF5 tries a name as it stands, and then appends it to the directory
 * of the file that names it. So when "https://other/name" is missing, HDF5 asks for
 * "https://host/dir/https://other/name". */
int xh_source_is_afterthought(const char *url, const struct xh_namer *by);

/* HDF5 tried the relative name |relative| as a local path, and then made |url| of it and of the directory of the file
 * |by| that names it. It takes for that directory what is before the last slash of the file's URL, also if that slash
 * is in the query. The name belongs beside the file's path instead (RFC 3986, 5.2.3).
 * Returns 0 and sets |*out| to the right URL, or to NULL when |url| is right; or a negative code with |err| set.
 * Owns: the caller frees |*out|. */
int xh_source_beside(const struct xh_namer *by, const char *relative, const char *url, char **out,
                     struct xh_err *err);

/* Returns where in |url| the name |relative| begins, which HDF5 has put behind a directory's URL; SIZE_MAX when it has
 * not. */
size_t xh_source_name_at(const char *relative, const char *url);

/* Prints |err| on standard error, once for each URL and 20 times in a process, where HDF5 may not report it. */
void xh_source_say(const char *url, const struct xh_err *err);

/* The dataset of a virtual dataset's source may be an external link. If the link's target fails, HDF5 takes the dataset
 * for missing, and gives fill values. But it closes the source in the same call, and heeds what closing returns. So the
 * file that holds the link then fails to close. The functions below tell it of the target's failure. A file is known by
 * its number, xh_sources_file. All are for the calling thread alone: HDF5 opens and closes both files in one call. */

/* Returns the number of the file that |names| describes: how it names others. */
uint64_t xh_sources_file(const struct xh_namer *names);

/* The file was opened: what was known of it belongs to an earlier call. */
void xh_sources_opened(uint64_t file);

/* HDF5 uses one of two openings of the same file for both, and closes the other. Then the file stays open, and closing
 * cannot fail. So a failure that follows in the present call of HDF5 is printed on standard error. */
void xh_sources_kept(struct xh_h5 *h5, uint64_t one, uint64_t other);

/* What the file |by| names failed, with |err|. Where the call of HDF5 cannot be told (see xh_h5_entry), this is
 * printed, too. */
void xh_sources_failed(struct xh_h5 *h5, uint64_t by, const struct xh_err *err);

/* Returns 1 when what the file names failed in the present call of HDF5, and sets |*err|. */
int xh_sources_heed(struct xh_h5 *h5, uint64_t file, struct xh_err *err);

/* No file of |family| is open any more. Closes files that were opened ahead for it. */
void xh_sources_forget(uint64_t family);

#endif
