/* What messages in metadata tell of datasets: whether they have filters (checksums, compression), and how long their
 * elements are.
 *
 * HDF5 encodes a chunk with filters as a whole, so bytes of two encodings of it cannot be put together. A number is
 * written whole, so bytes that two writers gave it make a third one. Pure: no I/O, no memory. All input is hostile; at
 * worst the answer is wrong. Source: HDF5 File Format Specification 3.0, IV.A.1 (messages in both versions of object
 * headers), IV.A.2.d (datatype) and IV.A.2.l (filter pipeline). */
#ifndef XH_MESSAGES_H
#define XH_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

/* Longest message that is looked for, with its prefix, in bytes. A filter takes 8 bytes, its name and its parameters;
 * a message holds at most 32. */
#define XH_MESSAGE_MAX 4096u

/* Returns 1 when |p| holds a dataset's list of filters anywhere, or says that it shares one that stands elsewhere, else
 * 0. The bytes need not begin with an object header, and those of several objects may follow each other. */
int xh_filters_named(const uint8_t *p, size_t len);

#define XH_ELEMENTS_MOST 16u /* lengths that are told apart */

struct xh_elements {
    uint32_t bytes[XH_ELEMENTS_MOST]; /* each once */
    unsigned n;
    int unknown; /* 1: there are more, or one stands where it is not looked for */
};

/* Adds the lengths of the datatypes that stand anywhere in |p|, which may hold the headers of several objects. What
 * only looks like a datatype is added, too. */
void xh_elements_named(const uint8_t *p, size_t len, struct xh_elements *out);

#endif
