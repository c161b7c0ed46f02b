/* Opens a URL with HDF5, through the driver that is linked in. For the tool's files that call HDF5. */
#ifndef XH_H5OPEN_H
#define XH_H5OPEN_H

#include <hdf5.h>

#include "../../cache/base/options.h"

struct xh_file;

/* Opens |url| for reading with all of |o|, and switches HDF5's own error printing off. Returns 0, or a negative code
 * with |err| set to what the driver or HDF5 said. Owns: the caller closes |*out|. Blocks. */
int xh_h5_open(const char *url, const struct xh_options *o, hid_t *out, struct xh_err *err);

/* |url| will be opened with |o|: it is opened ahead (H5FDxhdf5_expect). Returns 0 when there is no room for it now, or
 * it cannot be. Never fails. */
int xh_h5_expect(const char *url, const struct xh_options *o);

/* Sets |err| to "|what|: " and the first cause on HDF5's error stack. Returns |code|. */
int xh_h5_error(struct xh_err *err, int code, const char *what);

/* Closes a property list, type, dataspace, object or attribute. Does nothing if |id| is negative. */
void xh_h5_close(hid_t id);

/* Returns 1 when elements of |type| have values elsewhere in the file (of variable length, or region references), which
 * only HDF5 can find. */
int xh_h5_indirect(hid_t type);

#endif
