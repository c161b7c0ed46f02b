/* The driver without MPI: no file is parallel. See parallel.h. */
#include "parallel.h"

int xh_parallel_of(struct xh_h5 *h5, hid_t fapl, struct xh_parallel **out)
{
    *out = NULL;
    return 0;
}

void xh_parallel_close(struct xh_parallel *p)
{
}

int xh_parallel_open_url(struct xh_parallel *p, struct xh_h5 *h5, const char *url, hid_t fapl,
                         const struct xh_namer *by, struct xh_remote **out, struct xh_err *err)
{
    return xh_remote_open(h5, url, fapl, NULL, out, err);
}

int xh_parallel_first(const struct xh_parallel *p)
{
    return 1;
}

int xh_parallel_agree(struct xh_parallel *p, int good)
{
    return good;
}

ptrdiff_t xh_parallel_view(struct xh_parallel *p, hid_t dxpl, haddr_t addr, size_t count, void *buf,
                           struct xh_extent **out)
{
    return XH_PARALLEL_PLAIN;
}

int xh_parallel_ctl(struct xh_parallel *p, uint64_t op_code, void **output)
{
    return 0;
}
