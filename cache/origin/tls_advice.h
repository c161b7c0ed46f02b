/* What to do about a TLS session that failed. Pure. */
#ifndef XH_TLS_ADVICE_H
#define XH_TLS_ADVICE_H

#define XH_TLS_ADVICE_BYTES 200

/* |said| is libcurl's or the TLS library's text (struct xh_outcome's), |now_s| this machine's clock, seconds since
 * 1970.
 * Returns a sentence, or NULL where only they tell; |out| may hold it. */
const char *xh_tls_advice(const char *said, long long now_s, char out[XH_TLS_ADVICE_BYTES]);

/* 1 when |said|, the body of a 400 over http, tells that the server wants TLS on this port: nginx, Apache, Go's and
 * Java's servers. */
int xh_tls_is_wanted(const char *said);

/* 0 when |said|, libcurl's word on a handshake that failed, means that what answered was no TLS. */
int xh_tls_is_spoken(const char *said);

#endif
