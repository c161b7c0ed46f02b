/* xhdf5: read remote HDF5 files as if they were local. The public C API.
 *
 *     H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
 *     config.connections = 8;
 *     hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
 *     H5Pset_fapl_xhdf5(fapl, &config);
 *     hid_t file = H5Fopen("https://host/path/file.h5", H5F_ACC_RDONLY, fapl);
 *
 * Build with `pkg-config --cflags --libs xhdf5 hdf5`. The library links no libhdf5 itself:
 * it works with the one that the program uses. Local paths opened with such a property list
 * are passed through to the file system, reading and writing. */
#ifndef XHDF5_H
#define XHDF5_H

#include <hdf5.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define H5FD_XHDF5_CONFIG_VERSION 1u

/* A number that is not set: the option comes from HDF5_DRIVER_CONFIG, else from the
 * environment's XHDF5_*, else it has its default. For strings NULL says the same. */
#define H5FD_XHDF5_UNSET UINT64_MAX

/* One field an option, in the order of the options table of the README, where units, bounds
 * and defaults stand. Booleans are 0 or 1. A caller compiled against an older, shorter struct
 * goes on working: |struct_bytes| tells. */
typedef struct H5FD_xhdf5_config_t {
    uint32_t version;      /* H5FD_XHDF5_CONFIG_VERSION */
    uint32_t struct_bytes; /* sizeof(H5FD_xhdf5_config_t) */
    uint64_t connections;
    uint64_t engine_threads;
    uint64_t readahead;
    uint64_t readahead_bytes;
    uint64_t part_bytes;
    uint64_t gap_bytes;
    uint64_t head_bytes;
    uint64_t multirange;
    uint64_t shadow;
    const char *shadow_dir;
    uint64_t shadow_budget_bytes;
    uint64_t private_budget_bytes;
    uint64_t connect_timeout_ms;
    uint64_t stall_timeout_ms;
    uint64_t retries;
    uint64_t revalidate_ms;
    const char *ca_bundle;
    const char *ca_dir;
    const char *log;
    uint64_t stats;
} H5FD_xhdf5_config_t;

/* Everything unset. */
#define H5FD_XHDF5_CONFIG_INIT                                                                    \
    {                                                                                             \
        H5FD_XHDF5_CONFIG_VERSION, (uint32_t)sizeof(H5FD_xhdf5_config_t), H5FD_XHDF5_UNSET,       \
            H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET,               \
            H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, NULL,         \
            H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET,               \
            H5FD_XHDF5_UNSET, H5FD_XHDF5_UNSET, NULL, NULL, NULL, H5FD_XHDF5_UNSET                \
    }

/* Makes |fapl_id| use this driver, with |config| (NULL: nothing set) over the weaker sources.
 * The values are copied.
 * Returns 0; negative with the reason on HDF5's error stack: no file access property list,
 * an unknown struct version, a value out of bounds (named, with its bounds), no libhdf5 found.
 * Threads: as HDF5's own property functions. Does no I/O. */
__attribute__((visibility("default"))) herr_t H5Pset_fapl_xhdf5(hid_t fapl_id,
                                                                const H5FD_xhdf5_config_t *config);

/* Gets what was set on |fapl_id|; fields that were not set are unset. |out->version| and
 * |out->struct_bytes| must be filled in by the caller (H5FD_XHDF5_CONFIG_INIT does it).
 * Strings belong to the property list: they last until it is closed or set anew.
 * Returns 0; negative when |fapl_id| does not use this driver. Does no I/O. */
__attribute__((visibility("default"))) herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *out);

#ifdef __cplusplus
}
#endif

#endif
