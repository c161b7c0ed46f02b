/* The H5 functions, found at run time: one table for each libhdf5 in the process.
 *
 * The plugin links no libhdf5. As soon as a process has two of them (h5py's wheel has its own), the linked one would be
 * the wrong one. The return address of each call from HDF5 tells which libhdf5 called; everything that follows uses
 * that library's table. */
#ifndef XH_H5BIND_H
#define XH_H5BIND_H

#include <stdatomic.h>

#include <H5FDdevelop.h>
#include <hdf5.h>

/* The functions that are needed. Only their prototypes are used here: an H5 macro that reads a library variable
 * (H5F_ACC_*, H5P_FILE_ACCESS, H5E_*) must not appear in vfd/. */
#define XH_H5_FUNCTIONS(X)              \
    X(H5Dchunk_iter)                    \
    X(H5Dget_access_plist)              \
    X(H5Dget_create_plist)              \
    X(H5Dget_offset)                    \
    X(H5Dget_space)                     \
    X(H5Dget_type)                      \
    X(H5Eclear2)                        \
    X(H5Ecreate_msg)                    \
    X(H5Eget_auto2)                     \
    X(H5Eget_current_stack)             \
    X(H5Epush2)                         \
    X(H5Eregister_class)                \
    X(H5Eset_auto2)                     \
    X(H5Eset_current_stack)             \
    X(H5Ewalk2)                         \
    X(H5FDis_driver_registered_by_name) \
    X(H5FDregister)                     \
    X(H5Fclose)                         \
    X(H5Fflush)                         \
    X(H5Fget_create_plist)              \
    X(H5Fget_name)                      \
    X(H5Fget_vfd_handle)                \
    X(H5Iget_file_id)                   \
    X(H5Lregister)                      \
    X(H5Oget_info3)                     \
    X(H5Pclose)                         \
    X(H5Pcopy)                          \
    X(H5Pget_chunk)                     \
    X(H5Pget_chunk_cache)               \
    X(H5Pget_driver)                    \
    X(H5Pget_driver_config_str)         \
    X(H5Pget_driver_info)               \
    X(H5Pget_file_locking)              \
    X(H5Pget_layout)                    \
    X(H5Pget_nfilters)                  \
    X(H5Pget_page_buffer_size)          \
    X(H5Pget_userblock)                 \
    X(H5Pset_driver)                    \
    X(H5Pset_driver_by_name)            \
    X(H5Sclose)                         \
    X(H5Sget_regular_hyperslab)         \
    X(H5Sget_select_bounds)             \
    X(H5Sget_select_npoints)            \
    X(H5Sget_select_type)               \
    X(H5Sget_simple_extent_dims)        \
    X(H5Sget_simple_extent_ndims)       \
    X(H5Sis_regular_hyperslab)          \
    X(H5Ssel_iter_close)                \
    X(H5Ssel_iter_create)               \
    X(H5Ssel_iter_get_seq_list)         \
    X(H5Sselect_intersect_block)        \
    X(H5Tclose)                         \
    X(H5Tget_size)                      \
    X(H5get_libversion)

struct xh_remote;

#define XH_H5_MINORS 8 /* rows in h5err.c's table of minor messages */

/* IDs of our error class and messages, for one life of a libhdf5. Constant once published. */
struct xh_h5_errors {
    hid_t class, major, minor[XH_H5_MINORS];
};

struct xh_h5 {
    /* Constant once the table is published. */
    const void *base; /* where that libhdf5 is loaded */
#define X(f) __typeof__(f) *f;
    XH_H5_FUNCTIONS(X)
#undef X
    const H5L_class_t *(*H5L_find_class)(H5L_type_t id); /* not public; NULL: not exported */
    const hid_t *default_fapl; /* the variable behind H5P_FILE_ACCESS_DEFAULT; set when HDF5 is initialised */

    /* Valid for one life of the library. H5close() ends it, and terminate clears these fields. They are atomics without
     * a lock because H5 functions are called to fill them. The first thread to publish wins. */
    _Atomic hid_t driver;
    _Atomic(struct xh_h5_errors *) errors;

    _Atomic(H5L_traverse_func_t) follow; /* for elink.c: HDF5's own function that follows external links */

    struct xh_remote *written; /* for remote.c: files that are open for writing; under a lock of its own */
};

/* Returns the table of the libhdf5 that holds |address|, the return address of a callback. Returns NULL when functions
 * are missing (HDF5 before 1.14, or a static libhdf5 that does not export them), and says so once on standard error.
 * Threads: any. Holds no lock. */
struct xh_h5 *xh_h5_of_callback(const void *address);

/* The same for a call from a program. Returns the table of the libhdf5 that the object at |address| sees; else of the
 * one that the whole program sees; else of the only one that is loaded. */
struct xh_h5 *xh_h5_of_program(const void *address);

/* Returns the table number |i|, from 0 on; NULL: there are no more. */
struct xh_h5 *xh_h5_nth(size_t i);

/* Returns 1 when |address| lies in that libhdf5. */
int xh_h5_has(const struct xh_h5 *h5, const void *address);

/* Returns a function that not every build of that libhdf5 has, or NULL. */
void *xh_h5_find(const struct xh_h5 *h5, const char *name);

/* Returns where this thread entered that libhdf5: the address within the API function through which the driver was
 * reached. It is the same for all callbacks of one call, and different for another function's. Returns NULL when the
 * stack cannot be walked, or when the library is part of another object. Takes about 20 us. */
const void *xh_h5_entry(const struct xh_h5 *h5);

/* Returns the name of that API function; "": it cannot be told. */
const char *xh_h5_entry_name(const struct xh_h5 *h5);

/* The libhdf5 has ended a life (H5close), and its IDs are no longer valid. */
void xh_h5_forget_ids(struct xh_h5 *h5);

#endif
