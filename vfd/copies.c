/* Other copies of the driver in the process: see copies.h. */
#include "copies.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "h5err.h"
#include "name.h"

static _Thread_local const void *awaited; /* the block that is_ours waits for; NULL: none, or it came */

void xh_copies_came(const void *info)
{
    if (info == awaited)
        awaited = NULL;
}

/* Each copy of the driver has a class of its own, by which HDF5 copies a block. |fapl| is spoiled. Returns as
 * xh_copies_loaded_id sets |*ours|. */
static int is_ours(struct xh_h5 *h5, hid_t fapl, hid_t driver)
{
    void *block = calloc(1, XH_COPIES_BLOCK_BYTES);
    awaited = block;
    int rc = block && h5->H5Pset_driver(fapl, driver, block) >= 0 ? !awaited : -1;
    awaited = NULL;
    free(block);
    return rc;
}

int xh_copies_is_loaded(struct xh_h5 *h5)
{
    return h5->H5FDis_driver_registered_by_name(XH_DRIVER_NAME) > 0 && h5->default_fapl;
}

hid_t xh_copies_loaded_id(struct xh_h5 *h5, int *ours)
{
    /* Only a property list can give the ID. */
    hid_t id = -1, copy = h5->H5Pcopy(*h5->default_fapl);
    if (copy >= 0 && h5->H5Pset_driver_by_name(copy, XH_DRIVER_NAME, NULL) >= 0)
        id = h5->H5Pget_driver(copy);
    *ours = id > 0 ? is_ours(h5, copy, id) : -1;
    if (copy >= 0)
        h5->H5Pclose(copy);
    return id;
}

int xh_copies_has(struct xh_h5 *h5, hid_t file)
{
    __typeof__(H5Fget_access_plist) *get = xh_h5_find(h5, "H5Fget_access_plist");
    int ours = 1;
    if (!get || !xh_copies_is_loaded(h5))
        return 0;
    hid_t id = xh_copies_loaded_id(h5, &ours), list = get(file), its = list < 0 ? -1 : h5->H5Pget_driver(list);
    if (list >= 0)
        h5->H5Pclose(list);
    return ours == 0 && its == id;
}

int xh_copies_refuse(struct xh_h5 *h5)
{
    Dl_info ours = {0};
    int known = dladdr((const void *)xh_copies_refuse, &ours) && ours.dli_fname;
    return xh_fail_api(h5, XH_E_INVAL,
                       "HDF5 has loaded another copy of the driver " XH_DRIVER_NAME " than this program calls, %s: its "
                       "calls would not reach the files. Let HDF5_PLUGIN_PATH begin with the directory of this one, or "
                       "unset HDF5_DRIVER",
                       known ? ours.dli_fname : "which it is linked with");
}
