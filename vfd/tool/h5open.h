/* Opening a URL by HDF5 through the driver that is linked in. For the files of the tool that call HDF5. */
#ifndef XH_H5OPEN_H
#define XH_H5OPEN_H

#include <hdf5.h>

#include "../../cache/base/options.h"

/* Opens |url| for reading with all of |o|, and switches HDF5's own printing of errors off.
 * Returns 0 or a negative code with |err| set to what the driver or HDF5 said. Owns: the caller closes |*out|. Blocks. */
int xh_h5_open(const char *url, const struct xh_options *o, hid_t *out, struct xh_err *err);

/* Sets |err| to "|what|: " and the first cause on HDF5's error stack. Returns |code|. */
int xh_h5_error(struct xh_err *err, int code, const char *what);

/* Closes a property list, type, dataspace, object or attribute; below 0: there is none. */
void xh_h5_close(hid_t id);

/* 1 when elements of |type| hold values that lie elsewhere in the file (of variable length, references to regions): only
 * HDF5 finds those. */
int xh_h5_indirect(hid_t type);

#endif
