/* Links: where the Link headers of a reply say that the same file lies as well. Pure: no I/O, no memory; all input
 * is hostile. Source: RFC 8288, 3 (the header); RFC 6249, 3 ("duplicate", "pri"). */
#ifndef XH_LINK_H
#define XH_LINK_H

#include <stddef.h>

struct xh_link {
    const char *uri; /* in the text that was parsed; not NUL-terminated, maybe relative */
    size_t len;
    unsigned pri; /* 1 is the best; 999999 where none was given */
};

/* Finds the links of |text| (values of Link headers, with commas between them) whose relation is "duplicate", the best
 * first, equals in their order; of many the |most| best. A value that is malformed is passed over; one with an anchor
 * speaks of another file. Returns how many of |out| were written. */
size_t xh_link_duplicates(const char *text, struct xh_link *out, size_t most);

#endif
