/* Files that a program says it will open: see H5FDxhdf5_expect in xhdf5.h. */
#include <stdlib.h>

#include "../cache/cache.h"
#include "fapl.h"
#include "h5err.h"
#include "uncancelled.h"
#include "xhdf5.h"

herr_t H5FDxhdf5_expect(const char *name, hid_t fapl_id)
{
    XH_UNCANCELLED;
    struct xh_err err = {0};
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5)
        return -1;
    if (!name)
        return xh_fail_api(h5, XH_E_INVAL, "H5FDxhdf5_expect: the name is NULL");
    if (h5->H5Pget_driver(fapl_id) < 0)
        return xh_h5err_print(h5);
    if (!xh_cache_is_url(name))
        return 0;
    struct xh_options *o = xh_fapl_options_new(h5, fapl_id, &err);
    if (!o) {
        xh_fail_cache(h5, &err);
        return xh_h5err_print(h5);
    }
    herr_t rc = xh_cache_expect_now(name, o);
    free(o);
    return rc;
}
