/* What is reckoned of any link, before it is measured. */
#ifndef XH_LINKS_H
#define XH_LINKS_H

/* A new connection's first round trip brings about so many bytes (ten segments, RFC 6928). */
#define XH_LINK_FIRST_BYTES 14600.0

/* Round trips until a new connection can be asked for something: TCP and TLS. */
#define XH_LINK_OPENING_TRIPS 2u

/* What windows and connections are reckoned for: 10 Gbit/s. */
#define XH_LINK_FAST_BYTES_PER_NS 1.25

#endif
