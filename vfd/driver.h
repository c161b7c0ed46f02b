/* The driver class that HDF5 gets. */
#ifndef XH_DRIVER_H
#define XH_DRIVER_H

#include <H5FDdevelop.h>
#include <hdf5.h>

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

extern const H5FD_class_t xh_driver_class;

#endif
