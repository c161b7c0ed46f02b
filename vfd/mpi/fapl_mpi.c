/* H5Pset_fapl_xhdf5_mpi: see xhdf5_mpi.h. The communicator is HDF5's own property, so that the list's copies, and files
 * opened through external links, have it too. */
#include "../xhdf5_mpi.h"

#include "../config.h"
#include "../h5err.h"

herr_t H5Pset_fapl_xhdf5_mpi(hid_t fapl_id, MPI_Comm comm, MPI_Info info, const H5FD_xhdf5_config_t *config)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5)
        return -1;
    __typeof__(H5Pset_mpi_params) *set_params = xh_h5_find(h5, "H5Pset_mpi_params");
    int initialised = 0, finalised = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (!set_params)
        return xh_fail_api(h5, XH_E_INVAL, "the program's libhdf5 was built without MPI");
    if (!initialised || finalised)
        return xh_fail_api(h5, XH_E_INVAL, "MPI is not initialised: call MPI_Init first");
    if (comm == MPI_COMM_NULL)
        return xh_fail_api(h5, XH_E_INVAL, "the communicator is MPI_COMM_NULL");
    if (xh_config_set(h5, fapl_id, config) < 0)
        return -1;
    return set_params(fapl_id, comm, info); /* it copies the values, and pushes its own errors */
}
