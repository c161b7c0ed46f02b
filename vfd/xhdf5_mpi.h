/* The public C interface of the driver for parallel programs: xhdf5.h, and collective access.
 *
 * The library libhdf5_vfd_xhdf5_mpi is built for one MPI and for the libhdf5 of that MPI. A program
 * links it instead of libhdf5_vfd_xhdf5; its driver has a name of its own and everything else
 * of xhdf5.h.
 *
 *     hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
 *     H5Pset_fapl_xhdf5_mpi(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, NULL);
 *     H5Pset_all_coll_metadata_ops(fapl, 1);
 *     H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
 *     hid_t file = H5Fopen("https://host/path/file.h5", H5F_ACC_RDONLY, fapl);
 *
 * docs/mpi.md says what is collective and what it costs. */
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

/* Makes files that are opened with |fapl_id| use this driver in all processes of |comm| together, with
 * |config|'s settings as H5Pset_fapl_xhdf5 takes them. |info| may be MPI_INFO_NULL; its keys are
 * handed back by H5Pget_mpi_params and mean nothing to the driver. Collective over |comm|, as
 * opening and closing such a file are; every process gives the same URL. Rank 0 alone asks the origin
 * when a file is opened, and the others go by its answer: all processes belong to one user.
 * Local files can be read in this way, and not written: that is MPI-IO's (H5Pset_fapl_mpio).
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: what
 * H5Pset_fapl_xhdf5 refuses; MPI is not initialised; |comm| is MPI_COMM_NULL; the program's libhdf5 was built
 * without MPI. The list then has no communicator, but may have this driver.
 * Owns: communicator and info are duplicated, by the list and by each file, and freed with these;
 * settings are copied. Threads: that may call HDF5 and MPI. Sends nothing to the origin. */
XHDF5_API herr_t H5Pset_fapl_xhdf5_mpi(hid_t fapl_id, MPI_Comm comm, MPI_Info info,
                                       const H5FD_xhdf5_config_t *config);

#ifdef __cplusplus
}
#endif

#endif
