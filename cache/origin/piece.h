/* Several small requests as one piece: they are sent together, on a connection of their own, and a server does them one
 * right after the other. They lie in one TLS record, which comes whole or not at all: who dies behind the sending has
 * sent all of them.
 *
 * libcurl opens the connection (proxies, certificates, CAs as everywhere) and carries the bytes; requests and replies
 * are HTTP/1.1, written and read here. Threads: one at a time for each client; signals that a broken connection raises
 * (SIGPIPE) are to be blocked. Source: RFC 9112, 9.3.2 (pipelining). */
#ifndef XH_PIECE_H
#define XH_PIECE_H

#include <stddef.h>
#include <stdint.h>

#include "response.h"

#define XH_PIECE_BYTES 16000u /* of all requests; a TLS record has 16,384 */

struct xh_piece_reply {
    struct xh_reply head;
    int bodiless; /* set by the caller: the answer to HEAD has no body, whatever its length says */
    int closes;   /* the server hangs up behind it */
};

struct xh_client;

/* Sends the |len| bytes of |text| on the connection of |h|, which connects only, and reads |n| replies; bodies are
 * passed over. Returns 0, or -1: not all replies came, within |wait_ms| each; how many did is in |*came|. Blocks. */
int xh_piece_ask(struct xh_client *h, const char *text, size_t len, struct xh_piece_reply *r, size_t n,
                 uint64_t wait_ms, size_t *came);

#endif
