/* Layouts: what HDF5 finds in a file, and what of it will be slow. Found out in a process of its own, which may
 * crash or hang: the file is the world, and HDF5 reads it. */
#ifndef XH_LAYOUTS_H
#define XH_LAYOUTS_H

#include "../../cache/base/options.h"
#include "named.h"

#define XH_FLAWS_SHOWN 8u
#define XH_SOURCES_MOST_MS 15000u

struct xh_flaw { /* a dataset that will be slow, or cannot be read */
    char path[256], what[512], advice[512];
    uint64_t bytes; /* of it */
};

struct xh_layouts {
    int code; /* 0, or the error that ended it */
    char text[768];
    unsigned superblock;
    uint64_t user_block, page_bytes, groups, datasets, attributes, unread, metadata_bytes, data_bytes;
    int cut; /* only a part was looked at */
    double opened_ms, walked_ms;
    uint64_t requests, fetched_bytes;
    int placed; /* the next are known */
    uint64_t places, between_bytes, head_bytes, last_at; /* see layouts.c, "where" */
    uint64_t flawed; /* datasets; of them the largest follow */
    unsigned shown;
    struct xh_flaw flaw[XH_FLAWS_SHOWN];
    struct xh_sources sources;
};

/* Looks at |url|, for |most_ms| at most and some seconds; then at what it names, for XH_SOURCES_MOST_MS at most. |fast|: bytes a second that the link brings, 0: unknown.
 * Returns 0; or XH_E_TIMEOUT, XH_E_SYS with |err| set: the process did not come to its end. Calls fork: the engine was
 * not started here, nor other threads. Blocks. */
int xh_layouts_look(const char *url, const struct xh_options *o, unsigned most_ms, double fast, struct xh_layouts *out,
                    struct xh_err *err);

#endif
