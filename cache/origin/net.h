/* What is sent over the network, and how that went. Types alone. */
#ifndef XH_NET_H
#define XH_NET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct xh_proxies;

/* What must come, or go, in twice the stall time-out. One byte now and then would else hold a read or a commit for
 * ever, and no real link is that slow: 68 bytes a second by default. */
#define XH_PACE_BYTES 4096u

#define XH_HEADERS_MOST_BYTES 131072u /* of all headers of a reply, and of interim ones: more are an attack */

/* How an exchange went, as far as the network goes. */
enum xh_net {
    XH_NET_OK,        /* the reply came whole */
    XH_NET_CUT,       /* a callback cut it off, or nothing was wanted of it any more */
    XH_NET_CANCELLED, /* its owner wants it no more */
    XH_NET_LEFT,      /* a stream's, which left the connection to others */
    XH_NET_STUCK,     /* it was given up there, as its bytes may come sooner over another connection */
    XH_NET_NAME,      /* the name did not resolve */
    XH_NET_CONNECT,   /* refused, unreachable */
    XH_NET_CONNECT_TIMEOUT,
    XH_NET_STALL,     /* no byte for the stall time-out */
    XH_NET_CRAWL,     /* fewer than XH_PACE_BYTES in twice that */
    XH_NET_BROKEN,    /* reset, or closed before the end */
    XH_NET_UNTRUSTED, /* the certificate did not verify */
    XH_NET_HANDSHAKE, /* TLS failed otherwise */
    XH_NET_BAD_HTTP,  /* not HTTP/1.x */
    XH_NET_LOCAL,     /* out of memory, or a file named in the options is unusable */
    XH_NET_EXITING,   /* the process is exiting */
    XH_NET_PROXY,     /* a proxy refused to connect: |proxy_status| */
    XH_NET_TURN,      /* not sent: another request finds out whether the proxy takes the login, or logs in; or a thread
                       * looks for a token, or seeks a redirect's new target */
    XH_NET_LOGIN,     /* not sent: another request has logged in, or tried: see struct xh_exchange, login */
    XH_NET_NEAR,      /* not sent: |foreign|, and all addresses of the server are link-local */
};

struct xh_outcome {
    enum xh_net net;
    int proxy_status; /* of PROXY: what it answered CONNECT with */
    unsigned opened;  /* connections opened for it */
    const char *cookies; /* what the reply changed of those that were sent: xh_cookies_changes' lines, as long as the
                          * event lasts. NULL: none were asked for */
    int no_cas; /* of UNTRUSTED: the CAs could not be read */
    char text[192]; /* libcurl's words, no URL in them; "" for OK and CUT */
};

/* What to send. Read during xh_wire_start only. */
struct xh_send {
    const char *url;
    const char *method;         /* NULL: GET */
    const char *const *headers; /* NULL-terminated lines */
    const char *bearer;          /* the token of "Authorization: Bearer", or NULL */
    const char *user, *password; /* NULL: none */
    const char *region;          /* of S3, which |user| and |password| sign for as a key and its secret; NULL: they are
                                  * a login */
    const char *session;         /* the key's session token, or NULL */
    const char *ca_file, *ca_dir, *client_cert, *client_key; /* "" or NULL: none */
    const struct xh_proxies *proxies;
    int https;
    int foreign;                 /* 1: not the user names the server, but a file or a redirect: it is not asked at a
                                  * link-local address, where metadata services are, which trust their neighbours */
    const char *cookies;         /* libcurl's lines, "" for none yet; NULL: none are sent, and none taken */
    int fresh; /* 1: over a new connection */
    uint64_t idle_s; /* a connection that has idled for longer is closed instead; 0: any may be used */
    uint64_t name_s; /* what was looked up of a name so long ago, or longer, is looked up anew; 0: as libcurl does */
    uint64_t connect_timeout_ms; /* should the exchange's own deadline fail */
    atomic_uint *sockets; /* how many this wire has open to the server; lives as long as the process; relaxed, a hint */
};

#endif
