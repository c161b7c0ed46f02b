/* From an ID that a program names to the driver's part of its file: HDF5 has no call for it, so the
 * file's handle is asked for, and the driver answers its own question. */
#ifndef XH_WHOSE_H
#define XH_WHOSE_H

#include "h5bind.h"

struct xh_namer;
struct xh_remote;

/* Sets |*out| to the remote part of the file that holds |id|, or NULL: another driver's file, or a
 * local one. Returns 0, or -1: |id| is of no file, and HDF5 has said so. Owns: the file keeps it.
 * Threads: any that may call HDF5. Sends nothing. */
int xh_whose_remote(struct xh_h5 *h5, hid_t id, struct xh_remote **out);

/* Who names what the file that holds |id| names; NULL: it is another driver's. Owns and threads: as above. */
const struct xh_namer *xh_whose_namer(struct xh_h5 *h5, hid_t id);

/* For the driver's get_handle, which is the one callback that a file's ID leads to. When it is this
 * thread's own question, takes |remote| (NULL: the file is local) and |namer| as the answer and returns 1. */
int xh_whose_answer(struct xh_remote *remote, const struct xh_namer *namer);

#endif
