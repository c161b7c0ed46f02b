/* State shared by the steps of xhdf5 doctor. A step checks one thing, reports what it found, and returns a state. After
 * a step that FAILED no more steps are tried. */
#ifndef XH_EXAM_H
#define XH_EXAM_H

#include "dial.h"
#include "layouts.h"
#include "connect.h"
#include "report.h"

struct doctor {
    const char *given; /* the URL that the user gave */
    const struct xh_options *o;
    int quick, writing;
    struct xh_report report;
    struct xh_caller caller;
    struct xh_err caller_err; /* why not all of it was found; code 0: it was */
    int has_user;             /* the URL that was given has a user name */
    int behind_login;         /* the server sends its readers to a login: what lies behind, opening shows */
    struct xh_dial *dial;
    struct xh_url *named, *at; /* at: where the redirects lead */
    char host[256], port[8];

    /* Results of the steps. */
    struct xh_connected address[XH_CONNECT_MOST];
    unsigned addresses;
    double connect_ms; /* round trip of the path itself; 0: unknown */
    double rtt_ms, bytes_per_s;
    struct xh_answer first; /* first answer of the file's server */
    uint64_t size;            /* 0: unknown */
    int comes_whole;          /* the server sends the whole file, whatever is asked for: opening shows if it is read */
    time_t date_s; /* of the file, from the server; 0: unknown */
    struct xh_layouts layouts;
};

typedef enum xh_state xh_doctor_step(struct doctor *d); /* each blocks */

/* way.c: the path to the file, from its name to the reply. */
xh_doctor_step xh_doctor_name, xh_doctor_connection, xh_doctor_tls, xh_doctor_credentials, xh_doctor_redirects,
    xh_doctor_reply;
/* habits.c: how the file's server answers, and how fast. */
xh_doctor_step xh_doctor_ranges, xh_doctor_version, xh_doctor_cache, xh_doctor_round_trip, xh_doctor_throughput;
/* extras.c: the sidecars, and whether the file can be changed. */
xh_doctor_step xh_doctor_beside, xh_doctor_writing;

#endif
