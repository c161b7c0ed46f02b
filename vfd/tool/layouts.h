/* Examines a file with HDF5: its contents, and what of it will be slow to read. A child process does it, because a bad
 * file may make HDF5 crash or hang. */
#ifndef XH_LAYOUTS_H
#define XH_LAYOUTS_H

#include "../../cache/base/options.h"
#include "look.h"
#include "named.h"

#define XH_FLAWS_SHOWN 8u

struct xh_flaw { /* a dataset that will be slow, or that cannot be read */
    char path[256], what[512], advice[512];
    uint64_t bytes; /* of the dataset */
};

struct xh_layouts {
    int code; /* 0, or the error that ended the examination */
    char text[768];
    struct xh_seen seen;
    double opened_ms, walked_ms;
    int placed; /* 1: the next four are known */
    uint64_t places, between_bytes, head_bytes; /* see layouts.c, "where" */
    uint64_t flawed; /* number of datasets with flaws; the largest of them follow */
    unsigned shown;
    struct xh_flaw flaw[XH_FLAWS_SHOWN];
    struct xh_sources sources;
};

/* Examines |url|, for at most 20 s, and then the files that it names, for at most 15 s, and a few seconds more.
 * |fast|: the link's rate in bytes a second; 0: unknown.
 * Returns 0; or XH_E_TIMEOUT, XH_E_SYS with |err| set when the child process did not finish. Calls fork: neither the
 * engine nor other threads may run in this process. Blocks. */
int xh_layouts_look(const char *url, const struct xh_options *o, double fast, struct xh_layouts *out,
                    struct xh_err *err);

#endif
