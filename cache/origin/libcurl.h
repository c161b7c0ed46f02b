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

/* What libcurl does from some version on. */
enum xh_libcurl_version {
    /* Lets a handle be freed while a connection that it opened lives on. In 7.76 TLS still writes to it when the server
     * sends a session's ticket late (CVE-2021-22901); distributions have mended it, and that does not show. */
    XH_LIBCURL_LETS_HANDLES_GO = 0x074d00,
    /* Signs x-amz-content-sha256 and the session token, without which S3 refuses a signature. */
    XH_LIBCURL_SIGNS_HEADERS = 0x075800,
    /* Tells a header line that is too long (CURLE_TOO_LARGE) from a lack of memory. Older ones call both the latter. */
    XH_LIBCURL_TELLS_TOO_LARGE = 0x080600,
    /* Reads on until there is nothing. Older ones stop at the end of a record, and wait for the socket, though OpenSSL
     * may have taken the next one from it already. */
    XH_LIBCURL_READS_ALL_RECORDS = 0x080a00,
};
int xh_libcurl_is(enum xh_libcurl_version least); /* 1 when this one does |least| */

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
