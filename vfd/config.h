/* H5FD_xhdf5_config_t, the settings that a C program gives, and the driver's ID that they need. */
#ifndef XH_CONFIG_H
#define XH_CONFIG_H

#include "h5bind.h"
#include "xhdf5.h"

/* H5Pset_fapl_xhdf5, for the caller's libhdf5. */
herr_t xh_config_set(struct xh_h5 *h5, hid_t fapl, const H5FD_xhdf5_config_t *config);

#endif
