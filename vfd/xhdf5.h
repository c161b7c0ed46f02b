/* The public C interface of the xhdf5 virtual file driver.
 *
 * With this driver an HDF5 program opens "https://host/path/file.h5" for reading as
 * if it were a file; any other name is passed through to the file system, for reading
 * and for writing. A program that links this library needs no HDF5_PLUGIN_PATH:
 *
 *     hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
 *     H5Pset_fapl_xhdf5(fapl, NULL);
 *     hid_t file = H5Fopen("https://host/path/file.h5", H5F_ACC_RDONLY, fapl);
 *
 * Every function works on the libhdf5 that the calling program uses; all are safe to
 * call from any thread that may call HDF5. None of them waits for the network, but that
 * H5Dxhdf5_prefetch has HDF5 read the index of chunked data. */
#ifndef XHDF5_H
#define XHDF5_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hdf5.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define XHDF5_API __attribute__((visibility("default")))
#else
#define XHDF5_API
#endif

/* The name and the class value under which HDF5 knows the driver: for HDF5_DRIVER,
 * H5Pset_driver_by_name and H5Pset_driver_by_value. */
#define H5FD_XHDF5_NAME "xhdf5"
#define H5FD_XHDF5_VALUE ((H5FD_class_value_t)378)

#define H5FD_XHDF5_CONFIG_VERSION 1u

/* The unset state of a number and of a string: the value then comes from weaker
 * sources, in this order: the property list's driver configuration string
 * (HDF5_DRIVER_CONFIG, --vfd-info), XHDF5_* in the environment, the default. */
#define H5FD_XHDF5_UNSET (-1)

/* Settings of one property list. A field of each option, by the option's name; the
 * README's table has meaning, default and bounds. Set version and struct_size with
 * H5FD_XHDF5_CONFIG_INIT or H5FD_xhdf5_config_init() and nothing else.
 * Later versions add fields at the end and nowhere else: a program built with an older
 * header keeps working. */
typedef struct H5FD_xhdf5_config_t {
    uint32_t version;     /* H5FD_XHDF5_CONFIG_VERSION */
    uint32_t struct_size; /* sizeof(H5FD_xhdf5_config_t) */

    /* On transfers; sizes in bytes, times in milliseconds, switches 0 or 1. */
    int64_t connections;     /* most parallel connections to one server */
    int64_t engine_threads;  /* threads that move data; 0: as many as pay */
    int64_t readahead;       /* switch: fetch ahead of a sequential reader */
    int64_t readahead_bytes; /* farthest that reading ahead runs in front of the reader, and most memory for it in the process */
    int64_t part_bytes;      /* largest piece of a split range that one request fetches */
    int64_t gap_bytes;       /* join ranges that lie at most this far apart */
    int64_t head_bytes;      /* bytes of the file's start that opening brings */
    int64_t multirange;      /* switch: several ranges in one request where the server can */

    /* On memory. */
    int64_t shadow;               /* switch: share fetched pages with the user's other processes */
    const char *shadow_dir;       /* directory of the shadow */
    int64_t shadow_budget_bytes;  /* most tmpfs that the user's shadows may take; 0: automatic */
    int64_t private_budget_bytes; /* most memory for the pages of all files where there is no shadow */
    int64_t stream_bytes;         /* raw data read before a lone stream passes the shadow by */

    /* On failures. */
    int64_t connect_timeout_ms; /* longest wait for a connection with its TLS handshake */
    int64_t stall_timeout_ms;   /* longest wait for the next byte of a reply */
    int64_t retries;            /* how often a failed request is sent again */
    int64_t revalidate_ms;      /* how often an open file is checked for change; 0: at open only */

    /* On trust, and on what is reported. */
    const char *ca_bundle; /* PEM file of trusted certificates */
    const char *ca_dir;    /* directory of trusted certificates by hash */
    const char *credential_hosts; /* other hosts that may get the token or certificate by a redirect */
    int64_t netrc;         /* switch: user name and password of ~/.netrc */
    const char *log;       /* components whose events go to standard error */
    int64_t stats;         /* switch: print where the time went when a file is closed */

    /* On servers. */
    const char *endpoints; /* those that have the same files */

    const char *trace;   /* file for a time line of what is done */
    const char *sidecar; /* metadata images beside the files: "auto", "off" or "require" */

    int64_t local_shadow; /* switch: local files on slow file systems */

    /* On writing. */
    int64_t writable;             /* switch: files at https URLs may be created and changed */
    const char *overlay_dir;      /* directory for what was written and is not at the server yet */
    int64_t overlay_budget_bytes; /* most bytes written to one file that may wait there; 0: automatic */

    const char *missing_sources; /* files at URLs that a file names and that are not there: "fill" or "error" */

    int64_t whole_file_bytes; /* largest file that is read whole; larger ones need a server that sends parts */
    int64_t local_sources; /* switch: files at URLs may name local files */
} H5FD_xhdf5_config_t;

/* Every field unset. */
#define H5FD_XHDF5_CONFIG_INIT                                                              \
    {                                                                                       \
        H5FD_XHDF5_CONFIG_VERSION, (uint32_t)sizeof(H5FD_xhdf5_config_t), -1, -1, -1, -1,   \
            -1, -1, -1, -1, -1, NULL, -1, -1, -1, -1, -1, -1, -1, NULL, NULL, NULL, -1, NULL, \
            -1, NULL, NULL, NULL, -1, -1, NULL, -1, NULL, -1, -1                            \
    }

/* Makes every field of |config| unset, as H5FD_XHDF5_CONFIG_INIT does; for languages
 * that have no initialisers. Calls no HDF5 function. */
static inline void H5FD_xhdf5_config_init(H5FD_xhdf5_config_t *config)
{
    const H5FD_xhdf5_config_t unset = H5FD_XHDF5_CONFIG_INIT;
    *config = unset;
}

/* Makes files that are opened with |fapl_id| use this driver, with |config|'s settings;
 * NULL means all unset. A driver configuration string that the list already holds for
 * this driver is kept, as the weaker source.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack:
 * not a file access property list; a field out of bounds (the text names it with its
 * bounds); a version or size that this library does not know.
 * Owns: settings and strings are copied. */
XHDF5_API herr_t H5Pset_fapl_xhdf5(hid_t fapl_id, const H5FD_xhdf5_config_t *config);

/* Gives the settings that H5Pset_fapl_xhdf5 put into |fapl_id|; what was not set there is
 * unset in |config|. The caller initialises |config| first: its struct_size says how
 * much may be written.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack:
 * |fapl_id|'s driver is another one; |config| was not initialised. |config| is then
 * untouched.
 * Owns: the strings belong to the property list and live until it is closed or its
 * driver is set again. */
XHDF5_API herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *config);

/* Registers the driver with the calling program's libhdf5, once.
 * Returns the driver's ID, as H5FDregister does, or H5I_INVALID_HID with the reason on
 * HDF5's error stack. The ID belongs to libhdf5 and ends with H5close(). */
XHDF5_API hid_t H5FD_xhdf5_init(void);

#define H5FD_XHDF5 (H5FD_xhdf5_init())

/* Hints. A program that knows what it will read says so, and goes on at once; the reads then find
 * the bytes there or on their way. What is hinted first is fetched first, each byte once, as far
 * ahead of the reads as there is room for (three quarters of the option readahead_bytes); the rest
 * waits, up to a million ranges a file, and follows as the program reads. One call with many ranges
 * sends fewer requests than many calls. A hint that turns out wrong costs its bytes, never an error.
 * On local files and with other drivers both functions do nothing and succeed. */

/* Says that |n| ranges of the file will be read, in this order: |sizes[i]| bytes at |addrs[i]|, the
 * file's byte as H5Dget_offset and H5Dget_chunk_info give it. Ranges of size 0, and what lies
 * behind the end of the file (HADDR_UNDEF too), are passed over. |file_id| is of a file or of
 * anything in it. Sends nothing itself, waits for nothing.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |file_id| is
 * of no file; |n| is not 0 and an array is NULL. Owns: the arrays are copied. */
XHDF5_API herr_t H5FDxhdf5_prefetch(hid_t file_id, size_t n, const haddr_t addrs[], const size_t sizes[]);

/* Says that the selection |file_space_id| of |dset_id| will be read; H5S_ALL: all of it. Fetches what
 * H5Dread would: the selected bytes of contiguous data, whole chunks of chunked data (the selected
 * bytes alone where a chunk is not filtered and larger than the chunk cache). Data is not waited for;
 * the index of the chunks is read as H5Dread would read it, from its start to the last chunk that is
 * wanted. Compact data came with the data set. Of a virtual data set hint the sources instead.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |dset_id| is
 * of no data set; |file_space_id| is no data space or has another number of dimensions. */
XHDF5_API herr_t H5Dxhdf5_prefetch(hid_t dset_id, hid_t file_space_id);

/* Flushes the file and, where it is one that was opened for writing at a URL (option writable), sends what was written
 * to the server, as closing it does; the file goes on as the new version. Of a local file it is H5Fflush. |file_id| is of a
 * file or of anything in it. Nothing was changed: nothing is sent. Waits until the server has the new version.
 * Returns 0; 1: others had changed data of the file meanwhile that this program has read or written, and the new version has
 * their changes too, but what HDF5 keeps in memory may be older: close the file and open it again to see them, and before you
 * write such data: without that the next commit is a conflict. Or a negative value with the reason on HDF5's error stack: H5Fflush failed; the server
 * refused, is not to be reached, or has another version that this one cannot be merged with. Then all that was written
 * stays in the open file, and is there to be recovered if it is never sent (docs/writing.md). */
XHDF5_API herr_t H5FDxhdf5_commit(hid_t file_id);

/* Closing the file will send nothing: what was written to it at a URL since it was opened, or since the last commit, is given up. For a
 * program that fails half-way. |file_id| is of a file or of anything in it; |how| is one of
 *   H5FD_XHDF5_DISCARD_ALL   it is removed when the file is closed; the file cannot be committed any more
 *   H5FD_XHDF5_DISCARD_KEEP  it stays on this machine, and `xhdf5 recover retry` sends it, or a later H5FDxhdf5_commit
 * Sends nothing itself. Returns 0; 1: the file is not one that is written at a URL, and nothing was done; or a negative value with
 * the reason on HDF5's error stack. */
#define H5FD_XHDF5_DISCARD_ALL 0u
#define H5FD_XHDF5_DISCARD_KEEP 1u
XHDF5_API herr_t H5FDxhdf5_discard(hid_t file_id, unsigned how);

/* Writes the file's counters so far into |text|, of |size| bytes, as lines "name=number"; docs/c-api.md
 * says where they are explained.
 * |file_id| is of a file or of anything in it. Sends nothing.
 * Returns the length that the whole text has, as snprintf does, 0 for a local file or another driver's; or a
 * negative value: |file_id| is of no file. */
XHDF5_API ssize_t H5FDxhdf5_get_stats(hid_t file_id, char *text, size_t size);

/* For calls through a language's foreign-function interface: they come from an object that links no libhdf5, and
 * there may be several in the process. Says that this thread's calls of the functions above mean the libhdf5 that
 * holds |h5_function| (the address of any of its functions); NULL: the caller's own again. */
XHDF5_API void H5FDxhdf5_call_for(const void *h5_function);

#ifdef __cplusplus
}
#endif

#endif
