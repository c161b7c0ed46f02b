/* The driver class that HDF5 gets. */
#ifndef XH_DRIVER_H
#define XH_DRIVER_H

#include <H5FDdevelop.h>
#include <hdf5.h>

#include "name.h"

extern const H5FD_class_t xh_driver_class;

#endif
