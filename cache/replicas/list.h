/* The list of endpoints: finds the URLs of the same file at other servers. Pure. */
#ifndef XH_LIST_H
#define XH_LIST_H

#include <stddef.h>

#include "base/options.h"

#define XH_SITES_MAX 8u

/* Finds where the file |url| is at each endpoint of |list|. Endpoints are separated by commas, semicolons or white
 * space. Each is a server ("https://a.org:1094") or a prefix ("https://b.org/mirror"); without a scheme, or with
 * root://, it is read as https. The list applies only to a URL that begins with one of its endpoints. The rest of the
 * URL's path is appended to each other endpoint.
 * |out| gets |url| itself and then the others, XH_SITES_MAX at most. |*bad| and |*bad_len| get the first entry that
 * cannot be used, else NULL: one that is no address, even where the list does not apply, or is http where |url| is
 * https. Such entries are skipped.
 * Returns the number of URLs, at least 1; 0 without memory, and then nothing is owned. Owns: the caller frees each
 * URL. */
size_t xh_list_sites(const char *url, const char *list, char *out[XH_SITES_MAX], const char **bad, size_t *bad_len);

/* Copies scheme, host and port of |url| to |out|, in lower case and always with a port; cut to |size|. */
void xh_list_server(const char *url, char *out, size_t size);

#endif
