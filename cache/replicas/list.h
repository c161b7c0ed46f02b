/* The list of endpoints: from one URL to the same file's URLs elsewhere. Pure. */
#ifndef XH_LIST_H
#define XH_LIST_H

#include <stddef.h>

#define XH_SITES_MAX 8u

/* Where |url| lies at each endpoint of |list|: a server ("https://a.org:1094") or a prefix ("https://b.org/mirror"),
 * separated by commas, semicolons or white space; without a scheme, or with root://, it is read as https. It applies
 * only to a URL that begins with one of them, of whose path the rest is appended to each. |out|: first |url| itself,
 * then the others, at most XH_SITES_MAX, malloc'd. |*bad| gets the first entry that cannot be used (no http(s), or
 * http where |url| is https) and its length, else NULL; it is passed over.
 * Returns how many, at least 1; 0 without memory: then nothing is owned. */
size_t xh_list_sites(const char *url, const char *list, char *out[XH_SITES_MAX], const char **bad, size_t *bad_len);

/* Copies scheme, host and port of |url| to |out|, in lower case and with its port; cut to |size|. */
void xh_list_server(const char *url, char *out, size_t size);

#endif
