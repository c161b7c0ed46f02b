/* How long the elements of datasets are, as metadata tells.
 *
 * A number is written whole, so bytes that two writers gave it make a third one. Pure: no I/O, no memory. All input is
 * hostile; at worst the answer is wrong. Source: HDF5 File Format Specification 3.0, IV.A.1 (messages in both versions
 * of object headers) and IV.A.2.d (datatype). */
#ifndef XH_ELEMENTS_H
#define XH_ELEMENTS_H

#include <stddef.h>
#include <stdint.h>

#define XH_ELEMENTS_MOST 16u /* lengths that are told apart */

/* Bytes from a message's beginning to the end of what is looked at. */
#define XH_ELEMENTS_MESSAGE_MAX 32u

struct xh_elements {
    uint32_t bytes[XH_ELEMENTS_MOST]; /* each once */
    unsigned n;
    int unknown; /* 1: there are more, or one stands where it is not looked for */
};

/* Adds the lengths of the datatypes that stand anywhere in |p|, which may hold the headers of several objects. What
 * only looks like a datatype is added, too. */
void xh_elements_named(const uint8_t *p, size_t len, struct xh_elements *out);

#endif
