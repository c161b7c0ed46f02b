/* Calls of a program on an open file: H5FDxhdf5_commit, H5FDxhdf5_discard, H5FDxhdf5_get_stats. See xhdf5.h. */
#include <stdio.h>

#include "../cache/cache.h"
#include "../cache/watch/stats.h"
#include "h5err.h"
#include "remote.h"
#include "uncancelled.h"
#include "whose.h"
#include "xhdf5.h"

/* Refuses a file that is not this driver's own and has a URL for its name: a driver of HDF5's that lies above (family,
 * split) may have parts of it open here, and does not say which. Returns 0, or -1 for such a file. */
static int refuse_parts(struct xh_h5 *h5, hid_t file_id, const char *call)
{
    char name[16] = "";
    if (h5->H5Fget_name(file_id, name, sizeof name) <= 0 || !xh_cache_is_url(name))
        return 0;
    return xh_fail_api(h5, XH_E_INVAL,
                       "%s: another driver of HDF5's (family, split) has the file open, in parts: what is written to "
                       "them is sent when it is closed, and not before",
                       call);
}

herr_t H5FDxhdf5_commit(hid_t file_id)
{
    XH_UNCANCELLED;
    struct xh_remote *remote = NULL;
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5 || xh_whose_remote(h5, file_id, &remote))
        return -1;
    if (!remote && refuse_parts(h5, file_id, "H5FDxhdf5_commit"))
        return -1;
    if (remote && !xh_remote_is_written(remote))
        return 0;
    if (remote)
        xh_remote_commits(remote, 1);
    int flushed = h5->H5Fflush(file_id, H5F_SCOPE_GLOBAL) >= 0;
    if (remote)
        xh_remote_commits(remote, 0);
    if (!flushed)
        return -1; /* HDF5 has pushed the reason */
    int rc = remote ? xh_remote_commit(remote) : 0;
    return rc < 0 ? xh_h5err_print(h5) : rc;
}

herr_t H5FDxhdf5_discard(hid_t file_id, unsigned how)
{
    XH_UNCANCELLED;
    struct xh_remote *remote = NULL;
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5 || xh_whose_remote(h5, file_id, &remote))
        return -1;
    if (how > H5FD_XHDF5_DISCARD_KEEP)
        return xh_fail_api(h5, XH_E_INVAL,
                           "H5FDxhdf5_discard: how is H5FD_XHDF5_DISCARD_ALL or H5FD_XHDF5_DISCARD_KEEP, not %u", how);
    if (!remote)
        return refuse_parts(h5, file_id, "H5FDxhdf5_discard") ? -1 : 1;
    return xh_remote_discard(remote, how == H5FD_XHDF5_DISCARD_KEEP);
}

ssize_t H5FDxhdf5_get_stats(hid_t file_id, char *text, size_t size)
{
    XH_UNCANCELLED;
    struct xh_remote *remote = NULL;
    struct xh_stats s;
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5 || xh_whose_remote(h5, file_id, &remote))
        return -1;
    if (size > 0)
        *text = '\0';
    if (!remote)
        return 0;
    xh_remote_stats(remote, &s);
    size_t n = 0;
#define X(name, unit, help)                                                                        \
    n += (size_t)snprintf(n < size ? text + n : NULL, n < size ? size - n : 0, "%s=%llu\n", #name, \
                          (unsigned long long)s.name);
#include "../cache/watch/stats.def"
#undef X
    return (ssize_t)n;
}
