/* Who names what HDF5 opens with a list of the program's own for the targets of external links (H5Pset_elink_fapl).
 *
 * In that list nothing says that a file names what it opens: HDF5 makes the list of such a target from the parent's
 * fapl_get, and this one stands in its place. So the driver follows external links along: it registers their class
 * once more, the same but for the function that follows one, which notes the link's group for its thread and then
 * calls HDF5's own.
 *
 * Where HDF5 does not export H5L_find_class (all that were tried do: 1.14.5, 1.14.6, 2.0.0, 2.2.0), or somebody else
 * has replaced that class before, such a target counts as named by the program. */
#ifndef XH_ELINK_H
#define XH_ELINK_H

#include "../cache/base/options.h"
#include "h5bind.h"

/* From now on that libhdf5's external links are followed along. Again: nothing. To be called in a callback, or before
 * the libhdf5 knows the driver. */
void xh_elink_watch(struct xh_h5 *h5);

/* 1 when this thread follows an external link through |h5|: sets |*out| to who names what is opened now, the file that
 * holds the link. Else 0. What a program's own function for external links (H5Pset_elink_cb) opens counts as named by
 * the file, too. */
int xh_elink_namer(struct xh_h5 *h5, struct xh_namer *out);

#endif
