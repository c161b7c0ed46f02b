/* Finds the driver's part of a file from an ID that the program gives. HDF5 has no call for this. So this asks for the
 * file's handle, and the driver answers its own question. */
#ifndef XH_WHOSE_H
#define XH_WHOSE_H

#include "h5bind.h"

struct xh_namer;
struct xh_remote;

/* Sets |*out| to the remote part of the file that holds |id|, or to NULL for a local file or another driver's file.
 * Returns 0, or -1 when |id| belongs to no file, or to one that another copy of this driver has open; the reason is
 * pushed. Owns: the file keeps it. Threads: any that may call HDF5. Sends nothing. */
int xh_whose_remote(struct xh_h5 *h5, hid_t id, struct xh_remote **out);

/* Returns how the file that holds |id| names other files; NULL for another driver's file. Owns and threads: as
 * above. */
const struct xh_namer *xh_whose_namer(struct xh_h5 *h5, hid_t id);

/* For the driver's get_handle, the only callback that a file's ID leads to. If this thread has asked, stores |remote|
 * (NULL: the file is local) and |namer| as the answer and returns 1; else returns 0. */
int xh_whose_answer(struct xh_remote *remote, const struct xh_namer *namer);

#endif
