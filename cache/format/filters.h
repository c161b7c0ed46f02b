/* Whether metadata names filters: checksums, compression.
 *
 * HDF5 encodes a chunk with filters as a whole, so bytes of two encodings of it cannot be put together. Pure: no I/O,
 * no memory. All input is hostile; at worst the answer is wrong. Source: HDF5 File Format Specification 3.0, IV.A.1
 * (messages in both versions of object headers) and IV.A.2.l (filter pipeline). */
#ifndef XH_FILTERS_H
#define XH_FILTERS_H

#include <stddef.h>
#include <stdint.h>

/* Longest message that is looked for, with its prefix, in bytes. A filter takes 8 bytes, its name and its parameters;
 * a message holds at most 32. */
#define XH_FILTERS_MESSAGE_MAX 4096u

/* Returns 1 when |p| holds a dataset's list of filters anywhere, or says that it shares one that stands elsewhere, else
 * 0. The bytes need not begin with an object header, and those of several objects may follow each other. */
int xh_filters_named(const uint8_t *p, size_t len);

#endif
