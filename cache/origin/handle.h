/* curl handles: how all of our connections are set up, whoever opens them, and what curl's codes mean. wire.c carries
 * many requests at once with them, client.c one. The header does not show curl: |easy| is a CURL *, |code| a CURLcode.
 *
 * Threads: any; a handle belongs to one thread at a time. */
#ifndef XH_HANDLE_H
#define XH_HANDLE_H


#include "net.h"

#define XH_HANDLE_USER_AGENT "xhdf5/" XH_VERSION

/* Returns "Basic …", what an Authorization line says of |user| and |password| (RFC 7617); NULL without memory. Owns:
 * the caller ends it by xh_wipe. */
char *xh_handle_login(const char *user, const char *password);

/* Gives a curl handle all that every connection of ours has. */
void xh_handle_dress(void *easy);

/* Lets OpenSSL take from the socket what is there, more than one record at once: else each record costs two system
 * calls. Not where libcurl would wait for what OpenSSL has taken already. |tls|: an SSL_CTX *. */
void xh_handle_read_ahead(void *tls);

/* Sets what |s| says, but for |sockets| and |first|. Returns the list of headers, which the caller gives back to
 * xh_handle_rest, or NULL: something could not be set. */
void *xh_handle_set_up(void *easy, const struct xh_send *s);

/* The cookies that the handle has now, libcurl's lines: those that were sent, and what a reply made of them. NULL
 * without memory. Owns: the caller gives them to xh_wipe. */
char *xh_handle_cookies(void *easy);

/* The request is over: |headers| go, and what was secret in them. */
void xh_handle_rest(void *easy, void *headers);

/* 1 when |address|, a struct sockaddr, is link-local, or one of those that Amazon's metadata services have beside. */
int xh_handle_is_near(const void *address);

/* The same for |address| in numbers. */
int xh_handle_says_near(const char *address);

/* What |code| means. */
enum xh_net xh_handle_net(int code);

/* A socket for curl, or -1. If the process has as many files open as it may, the outcome says so. */
int xh_handle_socket(int family, int type, int protocol);

/* Bounds how long (ms) |fd| may wait for the other end to acknowledge what it was sent. Then the connection is over:
 * the network is at fault, and not a server that is at work. */
void xh_handle_bounds(int fd, uint64_t ms);

/* Fills |out|: a request that curl ended with |code| has ended as |net|. |said| is curl's error buffer. */
void xh_handle_outcome(void *easy, enum xh_net net, int code, const char *said, struct xh_outcome *out);

#endif
