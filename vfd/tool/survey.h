/* The survey: a walk through an HDF5 file at a URL or path, by HDF5 itself and through the driver, so that all
 * metadata passes that a reader may want: objects, links, attributes with their values, chunk indexes.
 * What it notes besides is where raw data lies. */
#ifndef XH_SURVEY_H
#define XH_SURVEY_H

#include "../../cache/base/extent.h"
#include "../../cache/base/options.h"

struct xh_survey {
    /* Set by the caller. */
    char *const *paths; /* datasets, or groups of them, whose raw data is wanted; none: see |all| */
    size_t npaths;
    int all; /* the raw data of all datasets is wanted */
    int exact; /* where raw data lies is wanted to the byte, and nothing is read for its own sake */
    void (*progress)(void *ctx, uint64_t objects);
    void *ctx;

    /* Set by the survey. */
    uint64_t objects, datasets; /* seen; of them, whose raw data is wanted */
    uint64_t elsewhere;         /* of those, whose data is in other files: virtual, external storage, behind external links */
    uint64_t unread;            /* attributes or datasets that HDF5 could not read */
    struct xh_range *raw;       /* whole pages (or |exact|), sorted, disjoint, not adjacent; within the file or not */
    size_t nraw, room;
};

/* Walks. Returns 0 or a negative code with |err| set: what the driver or HDF5 said, XH_E_NOENT for a path that
 * is not there. Owns: xh_survey_free, in any case. Blocks. */
int xh_survey_walk(struct xh_survey *s, const char *url, const struct xh_options *o, struct xh_err *err);
void xh_survey_free(struct xh_survey *s);

#endif
