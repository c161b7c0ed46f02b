/* The public C interface of the driver for parallel programs: xhdf5.h, and collective access.
 *
 * The library libhdf5_vfd_xhdf5_mpi is built for one MPI and for the libhdf5 of that MPI. A program links it instead of
 * libhdf5_vfd_xhdf5. Its driver has its own name, and everything else of xhdf5.h.
 *
 *     hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
 *     H5Pset_fapl_xhdf5_mpi(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, NULL);
 *     H5Pset_all_coll_metadata_ops(fapl, 1);
 *     H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
 *     hid_t file = H5Fopen("https://host/path/file.h5", H5F_ACC_RDONLY, fapl);
 *
 * docs/mpi.md says which calls are collective and what they cost. */
#ifndef XHDF5_MPI_H
#define XHDF5_MPI_H

#include <mpi.h>

#include "xhdf5.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name and the class value of this driver, beside those of xhdf5.h. */
#define H5FD_XHDF5_MPI_NAME "xhdf5_mpi"
#define H5FD_XHDF5_MPI_VALUE ((H5FD_class_value_t)379)

/* Makes files that are opened with |fapl_id| use this driver in all processes of |comm| together, with the settings of
 * |config| (see H5Pset_fapl_xhdf5). |info| may be MPI_INFO_NULL; H5Pget_mpi_params gives its keys back, and the driver
 * ignores them. Collective over |comm|, as opening and closing such a file are; every process gives the same URL. When
 * a file is opened, only rank 0 asks the origin, and the others use its answer, because all processes belong to one
 * user. Local files can be read in this way, not written; use MPI-IO for that (H5Pset_fapl_mpio).
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: what H5Pset_fapl_xhdf5
 * refuses; MPI is not initialised; |comm| is MPI_COMM_NULL; the program's libhdf5 was built without MPI. The list then
 * has no communicator, but may have this driver.
 * Owns: the list and each file duplicate communicator and info, and free them with themselves; settings are copied.
 * Threads: those that may call HDF5 and MPI. Does not ask the origin. */
XHDF5_API herr_t H5Pset_fapl_xhdf5_mpi(hid_t fapl_id, MPI_Comm comm, MPI_Info info,
                                       const H5FD_xhdf5_config_t *config);

#ifdef __cplusplus
}
#endif

#endif
