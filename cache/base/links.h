/* What is reckoned of any link, before it is measured. */
#ifndef XH_LINKS_H
#define XH_LINKS_H

/* A new connection's first round trip brings about so many bytes (ten segments, RFC 6928). */
#define XH_LINK_FIRST_BYTES 14600.0

/* What windows and connections are reckoned for: 10 Gbit/s. */
#define XH_LINK_FAST_BYTES_PER_NS 1.25

#endif
