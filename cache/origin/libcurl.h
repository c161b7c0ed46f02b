/* What libcurl's versions, and the TLS libraries that it is built with, differ in. The oldest is 7.76, which RHEL 9
 * has. What an older one lacks is replaced here, or left out; docs/origin.md has the list. The header does not show
 * curl: |easy| is a CURL *.
 *
 * Threads: any; a handle belongs to one thread at a time. */
#ifndef XH_LIBCURL_H
#define XH_LIBCURL_H

#include <signal.h>

/* 1 when curl's TLS is the OpenSSL of the headers here: it may be built with another library, or another version. */
int xh_libcurl_has_our_openssl(void);

/* 1 when curl reads on until there is nothing. Older ones stop at the end of a record, and wait for the socket, though
 * OpenSSL may have taken the next one from it already. */
int xh_libcurl_reads_all_records(void);

/* 1 when curl tells a header line that is too long (CURLE_TOO_LARGE) from a lack of memory. Older ones say
 * CURLE_OUT_OF_MEMORY of both. */
int xh_libcurl_tells_too_large(void);

/* 1 when a handle may be freed while a connection that it opened lives on. In 7.76 TLS still writes to the handle when
 * the server sends a session's ticket late (CVE-2021-22901); distributions have mended it, and that does not show. */
int xh_libcurl_lets_handles_go(void);

/* 1 when libcurl signs requests for S3. */
int xh_libcurl_signs(void);

/* Where libcurl itself would look for CAs; either may be NULL. */
void xh_libcurl_default_ca(const char **file, const char **dir);

/* Between the two no SIGPIPE comes to this thread: older libcurls write to a connection that the server has closed, and
 * the signal would end the program. The driver's own threads take none anyway. */
struct xh_libcurl_hush {
    sigset_t old;
    int pending; /* one was before */
};
void xh_libcurl_hush(struct xh_libcurl_hush *out);
void xh_libcurl_unhush(const struct xh_libcurl_hush *h);

/* Lets the handle ask over https, and over http unless |https|. */
void xh_libcurl_set_protocols(void *easy, int https);

/* Keeps the store of authorities that was made of a file for |s| seconds; an older libcurl makes it anew for each
 * connection. */
void xh_libcurl_keep_ca(void *easy, long s);

/* Calls |tell| whenever the handle is connected to the server, through a proxy's tunnel where there is one, and its
 * request goes out. |port| is this side's, |address| the other's. If |tell| returns -1, the request is not sent; an
 * older libcurl has sent it by then. Owns: |sent| outlives the handle. */
struct xh_libcurl_sent {
    int (*tell)(void *ctx, const char *address, unsigned port);
    void *ctx;
};
void xh_libcurl_on_sent(void *easy, struct xh_libcurl_sent *sent);

/* Whether a request that is taken off before its server's name was resolved leaves that to itself. An older libcurl
 * waits for the resolver there. */
void xh_libcurl_leave_resolver(void *easy, int leave);

#endif
