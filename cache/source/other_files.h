/* Files other than the open one: its sidecars, which are opened and read as any file is. open/ hands these functions
 * down, as it stands above the sources. */
#ifndef XH_OTHER_FILES_H
#define XH_OTHER_FILES_H

#include "cache.h"

struct xh_other_files {
    /* As xh_cache_open, _open_told, _close, _stats and _prefetch. |read| does not wait until an unverified head is
     * proved, as its caller has sums of what it reads. */
    int (*open)(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err);
    int (*open_told)(const char *url, const struct xh_options *o, const struct xh_told *told, struct xh_file **out,
                     struct xh_err *err);
    void (*close)(struct xh_file *f);
    void (*stats)(struct xh_file *f, struct xh_stats *out);
    int (*read)(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err);
    size_t (*prefetch)(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n);
};

#endif
