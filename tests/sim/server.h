/* Servers: what a request is answered with, in the words of nginx, of XRootD or of a server that knows no ranges; and
 * what goes wrong with it.
 *
 * A reply's body is not stored: it is pieces of text and ranges of an object, whose bytes follow from its version and
 * their place. Threads: as baton.h. */
#ifndef XH_SIM_SERVER_H
#define XH_SIM_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "tcp.h"

enum sim_dialect { SIM_NGINX, SIM_XROOTD, SIM_WHOLE, SIM_DIALECTS };

/* What may go wrong with a request. Its probability is in sim_server.fault. */
enum sim_fault {
    SIM_F_REFUSED,   /* no connection */
    SIM_F_503,       /* for a moment; with Retry-After, or without */
    SIM_F_429,
    SIM_F_500,
    SIM_F_DROPPED,   /* the connection is closed, no reply */
    SIM_F_CUT,       /* the connection breaks in the midst of the body */
    SIM_F_SILENT,    /* no reply */
    SIM_F_STALL,     /* the body stands still for ever */
    SIM_F_TRICKLE,   /* the body comes by a byte each 50 ms */
    SIM_F_REDIRECT,  /* to the other name of this server */
    SIM_F_TOTAL,     /* Content-Range with another total: not to be borne */
    SIM_F_CHANGED,   /* from now on another version is there */
    SIM_FAULTS,
};

extern const char *const sim_fault_names[SIM_FAULTS];

/* What a server does to one reply, where a test says so. Of the body half is sent at once if it |halts|, else all. */
struct sim_lie {
    enum sim_fault fault;  /* SIM_FAULTS: none */
    uint64_t late_ns;      /* before the first byte */
    int halts;
    uint64_t pause_ns;     /* then it stands still for so long */
    int breaks;            /* and then the connection is closed; else the rest comes */
    uint64_t step_bytes, step_ns; /* in such steps; 0: at once */
    unsigned moves;        /* sends to the server's other name, with ?moved= so much; 0: does not */
    int expired;           /* 1: answers 403; 2: sends back, without ?moved= */
};

/* Bytes of an object that are given, not made. */
struct sim_segment {
    uint64_t off, len;
    uint8_t *bytes;
};

struct sim_object {
    const char *path;
    uint64_t size;
    unsigned version;
    struct sim_segment *segment; /* in order; the same in each version */
    size_t segments;
    uint64_t salt;               /* objects with different salts have different bytes at the same place */
};

struct sim_server {
    const char *name, *other; /* "http://host:port" both */
    enum sim_dialect dialect;
    int shuffles; /* the last part of a multipart reply comes behind the first */
    struct sim_link *link;
    uint64_t think_ns;        /* before each reply */
    uint64_t accept_ns;       /* work of a handshake, one after the other */
    struct sim_object *object;
    size_t objects;
    double fault[SIM_FAULTS];
    unsigned faults_left;     /* how many more may strike */
    uint64_t faults_from;     /* none before so many requests and connections came */
    unsigned struck[SIM_FAULTS];
    uint64_t accepted_ns;     /* until then it is at work on handshakes */
    uint64_t met;             /* requests and connections */
    unsigned takes, taken;    /* connections at once, further ones are refused; how many there are. 0: any number */
    unsigned serves, served;  /* requests at once, further ones get 429 without Retry-After; the same */
    /* NULL, or says what is done to a request for |path| with that Range header, in place of the dice. */
    struct sim_lie (*lies)(const char *path, const char *range);
    struct sim_lie lie;       /* to the request that is answered now */
};

/* What a server sends in a handshake of TLS 1.3, its certificates most of all. OpenSSL 3.5 sends 2,447 bytes with one
 * certificate of 2,048 bits, 3,299 with the one that signed it as well (`openssl s_client` tells). */
#define SIM_HELLO_BYTES 2700u

struct sim_piece {
    char *text;    /* NULL: bytes of the object */
    uint64_t off;
    uint64_t len;
};

struct sim_reply {
    struct sim_piece *piece; /* the first: status line and headers */
    size_t pieces;
    uint64_t len;      /* of all */
    uint64_t sent_len; /* what comes of it: less than |len| if it is cut */
    int ends;          /* the connection is closed behind that */
    struct sim_lie lie;
    const struct sim_object *object;
    unsigned version;  /* of its bytes */
};

/* Bytes [off, off+len) of |o|, as |version| has them. Pure. */
void sim_content(const struct sim_object *o, unsigned version, uint64_t off, uint8_t *out, size_t len);

/* Where bytes differ from what they should be: an offset in |got|, or |len|: they do not. */
size_t sim_content_differs(const struct sim_object *o, unsigned version, uint64_t off, const uint8_t *got, size_t len);

/* As above, for a reader whose bytes so far are of |*version|, 0: not known yet. It is known as soon as bytes come that
 * only one version has: a file's metadata, and what HDF5 wrote beside it, is the same in all. */
size_t sim_content_wrong(const struct sim_object *o, unsigned *version, uint64_t off, const uint8_t *got, size_t len);

/* The client begins its handshake of TLS over |c|: SIM_HELLO_BYTES will come over it. */
void sim_hello(struct sim_server *s, struct sim_conn *c);

/* Returns 1, once, when they have come to the client, which reads them. */
int sim_hello_is_over(struct sim_conn *c);

/* 1 when a fault of |kind| strikes now; counts it. */
int sim_strikes(struct sim_server *s, enum sim_fault kind);

/* Answers. |headers| as in struct xh_send. Owns: the caller, for ever. */
struct sim_reply *sim_answer(struct sim_server *s, const char *method, const char *path, const char *const *headers);

/* Copies up to |len| bytes of |r| from |pos| on, of one piece. Returns how many. */
size_t sim_reply_bytes(const struct sim_reply *r, uint64_t pos, uint8_t *out, size_t len);

#endif
