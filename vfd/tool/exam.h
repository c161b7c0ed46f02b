/* An examination by xhdf5 doctor: what its steps share. A step looks at one thing, says what it found through the
 * report, and returns how it went; after one that FAILED none is tried. */
#ifndef XH_EXAM_H
#define XH_EXAM_H

#include "dial.h"
#include "layouts.h"
#include "connect.h"
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
    struct xh_connected address[XH_CONNECT_MOST];
    unsigned addresses;
    double connect_ms; /* the round trip of the way itself; 0: unknown */
    double rtt_ms, bytes_per_s;
    struct xh_answer first; /* of the file's server */
    uint64_t size;
    time_t date_s; /* of the file, by the server; 0: it does not tell */
    struct xh_layouts layouts;
};

#endif
