/* The name under which HDF5 knows the driver. */
#ifndef XH_NAME_H
#define XH_NAME_H

/* The plugin for collective access is a separate driver. Both may be in one process. */
#ifdef XH_WITH_MPI /* defined by mpi/meson.build */
#include "xhdf5_mpi.h"
#define XH_DRIVER_NAME H5FD_XHDF5_MPI_NAME
#define XH_DRIVER_VALUE H5FD_XHDF5_MPI_VALUE
#else
#include "xhdf5.h"
#define XH_DRIVER_NAME H5FD_XHDF5_NAME
#define XH_DRIVER_VALUE H5FD_XHDF5_VALUE
#endif

#endif
