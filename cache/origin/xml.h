/* Elements of the XML that WebDAV and S3 send. Pure: no I/O, no memory. All input is hostile; what is cut off is not
 * there. Prefixes of names do not matter. Comments and CDATA are not known: what is in them is taken as it stands. */
#ifndef XH_XML_H
#define XH_XML_H

#include <stddef.h>

struct xh_xml { /* some of a text, not ended by a NUL */
    const char *at;
    size_t len;
};

/* 1 when an element of that name begins in |in|. */
int xh_xml_has(struct xh_xml in, const char *name);

/* Finds the next element |name| of |in| that is not empty and has an end, and moves |in| behind it. Sets |inside| to
 * what stands in it. Returns 1, or 0: there is none. */
int xh_xml_next(struct xh_xml *in, const char *name, struct xh_xml *inside);

/* Finds the text of the first element |name| of |in| that is not empty, up to the next tag, without the blanks around
 * it. Returns 1, or 0: there is none, or it is cut off. */
int xh_xml_text(struct xh_xml in, const char *name, struct xh_xml *text);

/* Copies |text| with what its entities stand for: the five that XML has, and numbers of ASCII; others stay. Returns how
 * many bytes that makes, 0 if they do not fit into |room|. */
size_t xh_xml_plain(struct xh_xml text, char *out, size_t room);

#endif
