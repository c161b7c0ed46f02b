/* What a validator tells of a file's modification time. Pure. */
#ifndef XH_VERSION_H
#define XH_VERSION_H

#include <stdint.h>

/* Reads the time, in seconds, out of |validator| (origin.h's text) of a file of |size| bytes: an HTTP date, or an ETag
 * that is made of size and time (nginx, Apache). Returns 1 and sets |*mtime_s|, or 0: it does not tell. */
int xh_version_mtime(const char *validator, uint64_t size, int64_t *mtime_s);

#endif
