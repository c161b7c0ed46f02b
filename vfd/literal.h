/* A file's name as a part of a URL. */
#ifndef XH_LITERAL_H
#define XH_LITERAL_H

#include <stddef.h>

/* HDF5 made |url| of a directory's URL and of the name of a file, which begins at |name_at|. HDF5's names are those of
 * files. So in the name # ? and % stand for themselves, and are percent-encoded, and a . or .. between two slashes is
 * resolved, which some servers refuse.
 * |name_at| SIZE_MAX: a file has the whole URL in it. There, and in a directory's URL, only a # is encoded, which means
 * nothing else to HDF5, and a % that begins no escape.
 * Keys behind s3:// are names as they stand (s3.h).
 * Returns the URL to ask for, or NULL without memory. Owns: the caller frees it. Pure.
 * Source: RFC 3986, 2.2 and 5.2.4. */
char *xh_literal_url(const char *url, size_t name_at);

#endif
