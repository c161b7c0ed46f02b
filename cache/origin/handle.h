/* curl handles: what all of our connections have in common, whoever opens them (wire.c for reading, dav.c for writing, the
 * tool's dial.c), and what curl's words about a failure mean. The header does not show curl.
 *
 * Threads: any; a handle belongs to one thread at a time. Nothing here blocks. */
#ifndef XH_HANDLE_H
#define XH_HANDLE_H

struct xh_proxies;

#define XH_HANDLE_USER_AGENT "xhdf5/0.1"

/* Gives a curl handle (|easy| is a CURL *, for those who know curl) all that every connection of ours has. */
void xh_handle_dress(void *easy);

/* Says which proxy the handle is to go through to a server of |https| or http, and to which hosts it is not: libcurl
 * looks into the environment for neither then. |p| outlives the request. Returns 0, or -1 without memory. */
int xh_handle_set_proxy(void *easy, const struct xh_proxies *p, int https);

/* What a proxy refused the last request's connection with, as a status of 400 or more; 0: none did. */
int xh_handle_proxy_status(void *easy);

/* 1 when curl's TLS is the OpenSSL of the headers here: it may be built with another library, or another version. */
int xh_handle_has_our_openssl(void);

#define XH_HANDLE_ADVICE_BYTES 200

/* What to do about a TLS session that failed with the words |said| (struct xh_outcome's): a sentence, or NULL where
 * only they tell. |out| may hold it. */
const char *xh_handle_advice(const char *said, char out[XH_HANDLE_ADVICE_BYTES]);

/* Where libcurl itself would look for CAs; either may be NULL. */
void xh_handle_default_ca(const char **file, const char **dir);

#endif
