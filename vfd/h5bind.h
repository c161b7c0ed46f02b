/* The HDF5 functions that we call, found at run time: one table per libhdf5 in the process.
 *
 * The plugin links no libhdf5: in h5py's wheels its symbols cannot be resolved by the loader, and a
 * process may hold two. The right one is that whose code called us, told by the return address. */
#ifndef XH_H5BIND_H
#define XH_H5BIND_H

#include <hdf5.h>

#include "err.h"

/* X(name, return type, parameters) */
#define XH_H5_FUNCTIONS(X)                                                                             \
    X(H5Pget_driver, hid_t, (hid_t))                                                                   \
    X(H5Pset_driver, herr_t, (hid_t, hid_t, const void *))                                             \
    X(H5Pget_driver_info, const void *, (hid_t))                                                       \
    X(H5Pget_driver_config_str, ssize_t, (hid_t, char *, size_t))                                      \
    X(H5Pget_file_locking, herr_t, (hid_t, hbool_t *, hbool_t *))                                      \
    X(H5FDregister, hid_t, (const H5FD_class_t *))                                                     \
    X(H5Iis_valid, htri_t, (hid_t))                                                                    \
    X(H5Eregister_class, hid_t, (const char *, const char *, const char *))                            \
    X(H5Ecreate_msg, hid_t, (hid_t, H5E_type_t, const char *))                                         \
    X(H5Eget_auto2, herr_t, (hid_t, H5E_auto2_t *, void **))                                           \
    X(H5Eset_auto2, herr_t, (hid_t, H5E_auto2_t, void *))                                              \
    X(H5Epush2, herr_t, (hid_t, const char *, const char *, unsigned, hid_t, hid_t, hid_t, const char *, ...))

struct xh_h5 {
#define X(name, ret, args) ret(*name) args;
    XH_H5_FUNCTIONS(X)
#undef X
    void *handle;  /* of dlopen; tells tables apart */
    /* Ids in that library; 0 before use and after its terminate. Guarded by HDF5's own lock:
     * used only inside calls from it. */
    hid_t error_class, error_major, error_minor;
    hid_t driver;
    struct xh_h5 *next;
};

/* The table of the libhdf5 that holds |caller|, an address inside it or inside an object that
 * links it. NULL when there is none: then nothing can be put on any HDF5 error stack either.
 * Owns: the table lives as long as the process. Threads: any. */
struct xh_h5 *xh_h5_of_caller(void *caller);

#endif
