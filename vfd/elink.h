/* Tells which file names a file that HDF5 opens through an external link, when the program has set its own property
 * list for the links' targets (H5Pset_elink_fapl).
 *
 * Such a list does not say that a file names the target. Without it, HDF5 makes the target's list from the parent's
 * fapl_get; here the program's list replaces that one. So the driver observes how HDF5 follows external links: it
 * registers the class of external links again, with a different function for following one. That function notes the
 * link's group for its thread, and then calls HDF5's own function.
 *
 * If HDF5 does not export H5L_find_class (1.14.5, 1.14.6, 2.0.0 and 2.2.0 do), or if that class was replaced before,
 * the target counts as named by the program. */
#ifndef XH_ELINK_H
#define XH_ELINK_H

#include "../cache/base/options.h"
#include "h5bind.h"

/* Observes how |h5| follows external links, from now on. A second call does nothing. Call it in a callback, or before
 * the libhdf5 knows the driver. */
void xh_elink_watch(struct xh_h5 *h5);

/* When this thread follows an external link through |h5|, sets |*out| to the file that holds the link. A target that
 * the program's own function for external links opens (H5Pset_elink_cb) also counts as named by the file. */
void xh_elink_namer(struct xh_h5 *h5, struct xh_namer *out);

#endif
