/* Behind HDF5's files: see inside.h. */
#include "inside.h"

#include "h5err.h"
#include "remote.h"
#include "whose.h"

struct xh_file *xh_inside_cache(hid_t id)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    struct xh_remote *r = NULL;
    return h5 && xh_whose_remote(h5, id, &r) == 0 && r ? xh_remote_cache(r) : NULL;
}
