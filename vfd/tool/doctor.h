/* xhdf5 doctor: what its steps share. A step looks at one thing, says what it found through the report, and
 * returns how it went; after one that FAILED none is tried. */
#ifndef XH_DOCTOR_H
#define XH_DOCTOR_H

#include "dial.h"
#include "layouts.h"
#include "reach.h"
#include "report.h"

struct doctor {
    const char *given; /* the URL as the user gave it */
    const struct xh_options *o;
    int quick, writing;
    struct xh_report report;
    struct xh_caller caller;
    struct xh_dial *dial;
    struct xh_url *named, *at; /* at: where the redirects lead */
    char host[256], port[8];

    /* What was found out: */
    struct xh_reached address[XH_REACH_MOST];
    unsigned addresses;
    double connect_ms; /* the round trip of the way itself; 0: unknown */
    double rtt_ms, bytes_per_s;
    struct xh_answer first; /* of the file's server */
    uint64_t size;
    time_t date_s; /* of the file, by the server; 0: it does not tell */
    struct xh_layouts layouts;
};

/* The way to the file: way.c */
enum xh_state xh_doctor_name(struct doctor *d);
enum xh_state xh_doctor_connection(struct doctor *d);
enum xh_state xh_doctor_tls(struct doctor *d);
enum xh_state xh_doctor_credentials(struct doctor *d);
enum xh_state xh_doctor_redirects(struct doctor *d);
enum xh_state xh_doctor_reply(struct doctor *d);

/* What lies beside it, and whether it could be changed: extras.c */
enum xh_state xh_doctor_beside(struct doctor *d);
enum xh_state xh_doctor_writing(struct doctor *d);

/* How its server answers, and how fast: habits.c */
enum xh_state xh_doctor_ranges(struct doctor *d);
enum xh_state xh_doctor_version(struct doctor *d);
enum xh_state xh_doctor_round_trip(struct doctor *d);
enum xh_state xh_doctor_throughput(struct doctor *d);

#endif
