/* Our errors on HDF5's error stack, so that every program shows the sentence. */
#ifndef XH_H5ERR_H
#define XH_H5ERR_H

#include "h5bind.h"

/* Pushes |e| as an entry of the class "xhdf5": "<what>: name = '<name>', errno = N, error
 * message = '<text>'". h5py makes FileNotFoundError, PermissionError … of that form. |name| may
 * be NULL. Must be the last call into HDF5 before the failure is returned: other calls clear
 * the stack. |h5| may be NULL (nothing happens). Called inside a call from that HDF5 only. */
void xh_h5err_push(struct xh_h5 *h5, const char *what, const char *name, const struct xh_err *e,
                   const char *func, unsigned line);

/* The same for a failed system call, in the words that HDF5's sec2 driver uses. */
void xh_h5err_push_errno(struct xh_h5 *h5, const char *what, int sys_errno, const char *func, unsigned line);

/* Pushes a sentence. */
void xh_h5err_push_text(struct xh_h5 *h5, const char *text, const char *func, unsigned line);

#endif
