/* A walk through an HDF5 file at a URL or path, by HDF5 and through the driver. It reads all metadata that a reader may
 * need: objects, links, attributes with their values, chunk indexes. It also notes where raw data lies. */
#ifndef XH_SURVEY_H
#define XH_SURVEY_H

#include "../../cache/base/extent.h"
#include "../../cache/base/options.h"

struct xh_file;

struct xh_survey {
    /* Set by the caller. */
    const char *const *paths; /* datasets or groups whose raw data is wanted; if there are none, see |all| */
    size_t npaths;
    int all; /* 1: the raw data of all datasets is wanted */
    int exact; /* 1: raw data is located to the byte, and no values are read */
    void (*progress)(void *ctx, uint64_t objects);
    /* NULL, or called once all is walked, with the cache's part of the file while HDF5 has it open. The ranges are as
     * they will be. Returns 0, or a negative code with |err| set: that is the walk's. */
    int (*walked)(void *ctx, struct xh_survey *s, struct xh_file *f, struct xh_err *err);
    void *ctx;

    /* Set by xh_survey_walk. */
    uint64_t objects, datasets; /* objects seen; datasets whose raw data is wanted */
    /* of these datasets, those with data in other files: virtual, external storage, behind external links */
    uint64_t elsewhere;
    uint64_t unread;            /* attributes or datasets that HDF5 could not read */
    /* whole pages, or bytes with |exact|; sorted, disjoint, not adjacent; may lie behind the end of the file */
    struct xh_range_list raw;
};

/* Walks through the file. Returns 0, or a negative code with |err| set: what the driver or HDF5 said; XH_E_NOENT for a
 * path that does not exist. Owns: xh_survey_free, in any case. Blocks. */
int xh_survey_walk(struct xh_survey *s, const char *url, const struct xh_options *o, struct xh_err *err);
void xh_survey_free(struct xh_survey *s);

#endif
