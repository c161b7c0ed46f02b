/* The public C interface of the xhdf5 virtual file driver.
 *
 * With this driver an HDF5 program opens "https://host/path/file.h5" as if it were a file. Any other name is passed
 * through to the file system, for reading and for writing. A program that links this library needs no HDF5_PLUGIN_PATH:
 *
 *     hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
 *     H5Pset_fapl_xhdf5(fapl, NULL);
 *     hid_t file = H5Fopen("https://host/path/file.h5", H5F_ACC_RDONLY, fapl);
 *
 * Every function works on the libhdf5 that the calling program uses. Threads: any that may call HDF5.
 * Blocks: H5FDxhdf5_commit waits for the server. H5Dxhdf5_prefetch waits while HDF5 reads the index of chunked data.
 * The other functions do not wait for the network. */
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

/* The driver's name and class value in HDF5, for HDF5_DRIVER, H5Pset_driver_by_name and H5Pset_driver_by_value. */
#define H5FD_XHDF5_NAME "xhdf5"
#define H5FD_XHDF5_VALUE ((H5FD_class_value_t)378)

#define H5FD_XHDF5_CONFIG_VERSION 1u

/* The value of a number that is not set; a string that is not set is NULL. The value then comes from the first of these
 * sources that has one: the property list's driver configuration string (--vfd-info); HDF5_DRIVER_CONFIG, unless
 * HDF5_DRIVER names another driver; XHDF5_* in the environment; the default. */
#define H5FD_XHDF5_UNSET (-1)

/* Settings of one property list: one field for each option, with the option's name. docs/options.md gives each
 * option's meaning, default and bounds. Set version and struct_size only with H5FD_XHDF5_CONFIG_INIT or
 * H5FD_xhdf5_config_init(). Later versions add fields only at the end, so a program built with an older header keeps
 * working. */
typedef struct H5FD_xhdf5_config_t {
    uint32_t version;     /* H5FD_XHDF5_CONFIG_VERSION */
    uint32_t struct_size; /* sizeof(H5FD_xhdf5_config_t) */

    /* Transfers. Sizes are in bytes, times in milliseconds, switches are 0 or 1. */
    int64_t connections;     /* most parallel connections to one server */
    int64_t engine_threads;  /* threads that move data; 0: automatic, up to 2 */
    int64_t readahead;       /* switch: fetch ahead of readers */
    /* how far readahead may run ahead of the reader; also the most memory for it in the process */
    int64_t readahead_bytes;
    int64_t part_bytes;      /* smallest piece that a long range is split into, for several connections */
    int64_t gap_bytes;       /* join ranges that lie at most this far apart */
    int64_t head_bytes;      /* bytes from the start of the file that are fetched when it is opened */
    int64_t multirange;      /* switch: several ranges in one request where the server supports it */

    /* Memory. */
    int64_t shadow;               /* switch: share fetched pages with the user's other processes */
    const char *shadow_dir;       /* directory of the shadow */
    int64_t shadow_budget_bytes;  /* most tmpfs for all shadows of the user; 0: automatic */
    int64_t private_budget_bytes; /* most memory for the pages of all files where there is no shadow */
    /* raw data that a lone reader caches of a file; later data is cached only when it is read again */
    int64_t stream_bytes;

    /* Failures. */
    int64_t connect_timeout_ms; /* longest wait for a connection and its TLS handshake */
    int64_t stall_timeout_ms;   /* longest wait for the next byte of a reply */
    int64_t retries;            /* how often a failed request is sent again */
    /* how often an open file is checked for change at servers without ETag; 0: at open only */
    int64_t revalidate_ms;

    /* Trust, and reports. */
    const char *ca_bundle; /* PEM file of trusted certificates */
    const char *ca_dir;    /* directory of trusted certificates by hash */
    const char *credential_hosts; /* other hosts that may get the token or certificate after a redirect */
    int64_t netrc;         /* switch: send the user name and password of ~/.netrc */
    const char *log;       /* components whose events go to standard error */
    int64_t stats;         /* switch: print where the time went when a file is closed */

    /* Servers. */
    const char *endpoints; /* servers that have the same files */

    const char *trace;   /* file for a time line of reads, waits and requests */
    /* metadata images and compressed copies beside the files: "auto", "off", "require" or "body" */
    const char *sidecar;

    int64_t local_shadow; /* switch: for local files on slow file systems, share reads and gather small writes */

    /* Writing. */
    int64_t writable;             /* switch: files at https URLs may be created and changed */
    const char *overlay_dir;      /* directory for written data that is not at the server yet */
    int64_t overlay_budget_bytes; /* most bytes written to one file that may wait there; 0: automatic */

    const char *missing_sources; /* URLs that a file names and that do not exist: "fill" or "error" */

    /* largest file that is read whole; a larger one needs a server that sends parts of files */
    int64_t whole_file_bytes;
    int64_t local_sources; /* switch: files at URLs may name local files */
    /* with netrc: hosts to which a server may send its reader to log in, by what ~/.netrc has for them */
    const char *login_hosts;

    /* S3. */
    const char *s3;                    /* URLs that are of S3: "auto", "on" or "off" */
    const char *aws_access_key_id;     /* these as the variables of the same names */
    const char *aws_secret_access_key;
    const char *aws_session_token;
    const char *aws_profile;
    const char *aws_region;
    const char *aws_endpoint_url_s3;
    int64_t aws_no_sign_request;       /* switch: read without keys */
    const char *s3_addressing;         /* "auto", "path" or "virtual" */
    int64_t aws_metadata;              /* switch: without keys, ask the metadata service for one */

    const char *progress; /* of what is sent, on standard error: "auto", "on" or "off" */

    /* What stays. */
    const char *disk_cache_dir; /* directory on a local disk where what was read stays */
    int64_t disk_cache_bytes;   /* most bytes there for all files of the user; 0: automatic */
    int64_t offline;            /* switch: read what is on this machine, and ask no server */
} H5FD_xhdf5_config_t;

/* A configuration with no field set. */
#define H5FD_XHDF5_CONFIG_INIT                                                              \
    {                                                                                       \
        H5FD_XHDF5_CONFIG_VERSION, (uint32_t)sizeof(H5FD_xhdf5_config_t), -1, -1, -1, -1,   \
            -1, -1, -1, -1, -1, NULL, -1, -1, -1, -1, -1, -1, -1, NULL, NULL, NULL, -1, NULL, \
            -1, NULL, NULL, NULL, -1, -1, NULL, -1, NULL, -1, -1, NULL,                     \
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, -1, NULL, -1, NULL, NULL, -1, -1      \
    }

/* Marks every field of |config| as not set, as H5FD_XHDF5_CONFIG_INIT does. For languages without initialisers.
 * Calls no HDF5 function. */
static inline void H5FD_xhdf5_config_init(H5FD_xhdf5_config_t *config)
{
    const H5FD_xhdf5_config_t unset = H5FD_XHDF5_CONFIG_INIT;
    *config = unset;
}

/* Makes files that are opened with |fapl_id| use this driver with the settings of |config|. If |config| is NULL,
 * nothing is set. A driver configuration string that the list already has for this driver is kept; the fields of
 * |config| take precedence over it.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |fapl_id| is not a file access
 * property list; a field is out of bounds (the text gives its name and bounds); this library does not know the version
 * or the size.
 * Owns: settings and strings are copied. */
XHDF5_API herr_t H5Pset_fapl_xhdf5(hid_t fapl_id, const H5FD_xhdf5_config_t *config);

/* Gives the settings that H5Pset_fapl_xhdf5 put into |fapl_id|. What was not set there is not set in |config|. The
 * caller initialises |config| first: struct_size limits how much is written.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |fapl_id| has another driver;
 * |config| was not initialised. |config| is then unchanged.
 * Owns: the strings belong to the property list, until it is closed or its driver is set again. */
XHDF5_API herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *config);

/* Registers the driver with the calling program's libhdf5, once.
 * Returns the driver's ID, as H5FDregister does, or H5I_INVALID_HID with the reason on HDF5's error stack.
 * Owns: the ID belongs to libhdf5 and is valid until H5close(). */
XHDF5_API hid_t H5FD_xhdf5_init(void);

#define H5FD_XHDF5 (H5FD_xhdf5_init())

/* Hints. A program that knows what it will read says so and goes on at once. Its reads then find the bytes there or on
 * their way. Hinted bytes are fetched in the order of the hints, each byte once; pieces of less than 16 KiB once more
 * if they are read again. At most three quarters of the option readahead_bytes are fetched ahead of the reads. The rest
 * waits, up to a million ranges a file, and is fetched as the program reads. One call with many ranges sends fewer
 * requests than many calls. A wrong hint costs its bytes; it never causes an error. For local files and for other
 * drivers both functions do nothing and succeed. */

/* Says that the program will read |n| ranges of the file, in this order: |sizes[i]| bytes at |addrs[i]|. Addresses are
 * bytes of the file, as H5Dget_offset and H5Dget_chunk_info give them. Empty ranges and bytes beyond the end of the
 * file (also HADDR_UNDEF) are ignored. |file_id| is a file or any object in it.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |file_id| belongs to no file;
 * |n| is not 0 and an array is NULL. Owns: the arrays are copied. Does not block. */
XHDF5_API herr_t H5FDxhdf5_prefetch(hid_t file_id, size_t n, const haddr_t addrs[], const size_t sizes[]);

/* Says that the program will read the selection |file_space_id| of |dset_id|; H5S_ALL means the whole dataset. Fetches
 * what H5Dread would read: the selected bytes of contiguous data; whole chunks of chunked data; only the selected bytes
 * of chunks that have no filter and are larger than the chunk cache. Compact data is already there with the dataset.
 * For a virtual dataset give hints for its sources instead.
 * Returns a non-negative value, or a negative one with the reason on HDF5's error stack: |dset_id| is not a dataset;
 * |file_space_id| is not a dataspace, or has another number of dimensions.
 * Blocks: while HDF5 reads the chunk index, from its start to the last chunk that is wanted. Does not wait for data. */
XHDF5_API herr_t H5Dxhdf5_prefetch(hid_t dset_id, hid_t file_space_id);

/* Says that the program will open |name| for reading, with |fapl_id|, within half a minute. It is opened ahead at once,
 * on a thread of its own: its version, its beginning or, if it is small, all of it. The opening itself then waits for
 * what is not there yet, and sends nothing more. Up to 16 files are expected at a time: a program that will open more
 * says so again after each opening. A file that is opened with other settings or credentials, or later, is opened as
 * always. What cannot be opened ahead is no error here: the opening itself says why.
 * Returns 1 when the file is expected; 0 when it is not: 16 others are, |name| is no URL, the option readahead is off,
 * or the reader cannot be told from others; or a negative value with the reason on HDF5's error stack: |name| is NULL,
 * |fapl_id| is no file access property list, or a setting is out of bounds. Owns: |name| is copied. Waits for no
 * server, but looks for credentials: a profile's credential_process, if there is one, may take a while. */
XHDF5_API herr_t H5FDxhdf5_expect(const char *name, hid_t fapl_id);

/* Flushes the file. If it was opened for writing at a URL (option writable), also sends what was written to the server,
 * as closing the file does; the file then continues as the new version. For a local file it is H5Fflush. If nothing was
 * changed, nothing is sent. |file_id| is a file or any object in it.
 * Returns:
 *   0         the server has the new version
 *   1         the server has the new version, and others had meanwhile changed data that this program read or wrote.
 *             The new version contains their changes too, but HDF5 may hold older data in memory. To see the changes,
 *             and before writing such data, close the file and open it again; else the next commit is a conflict.
 *   negative  with the reason on HDF5's error stack: H5Fflush failed; the server refused or cannot be reached; the
 *             server has another version, with which this one cannot be merged; another driver (family) has the file
 *             at a URL open, in parts. Everything written stays in the open file. If it is never sent, it can be
 *             recovered (docs/writing.md).
 * Blocks until the server has the new version. */
XHDF5_API herr_t H5FDxhdf5_commit(hid_t file_id);

/* Makes closing the file send nothing. Data that was written to it at a URL since it was opened, or since the last
 * commit, is not sent. For a program that fails half-way. |file_id| is a file or any object in it. |how| is one of
 *   H5FD_XHDF5_DISCARD_ALL   the data is removed when the file is closed; the file cannot be committed any more
 *   H5FD_XHDF5_DISCARD_KEEP  the data stays on this machine; `xhdf5 recover retry` or a later H5FDxhdf5_commit sends it
 * Returns 0; 1 when the file is not written at a URL, and nothing was done; or a negative value with the reason on
 * HDF5's error stack: also where another driver (family) has the file at a URL open, in parts, which are sent. Does not
 * block. */
#define H5FD_XHDF5_DISCARD_ALL 0u
#define H5FD_XHDF5_DISCARD_KEEP 1u
XHDF5_API herr_t H5FDxhdf5_discard(hid_t file_id, unsigned how);

/* Writes the file's counters into |text|, which has |size| bytes, as lines "name=number". docs/c-api.md says where each
 * counter is explained. |file_id| is a file or any object in it.
 * Returns the length of the whole text, as snprintf does; 0 for a local file or a file of another driver; a negative
 * value when |file_id| belongs to no file. Does not block. */
XHDF5_API ssize_t H5FDxhdf5_get_stats(hid_t file_id, char *text, size_t size);

/* A file at a URL as bytes, for programs that read it without HDF5: the same options, cache, prediction and shadow. */
typedef struct H5FDxhdf5_bytes H5FDxhdf5_bytes_t;

/* Why a call failed. */
typedef struct {
    int sys_errno;  /* ENOENT, EACCES, … ; EIO where none fits */
    char text[768]; /* one or two sentences, without newline, token or query */
} H5FDxhdf5_why_t;

/* Opens |name|. |config|: options as HDF5_DRIVER_CONFIG has them, over those of the environment; may be NULL.
 * Returns NULL, with the reason in |why|, which may be NULL. Owns: the caller closes it. Blocks. Threads: any. */
XHDF5_API H5FDxhdf5_bytes_t *H5FDxhdf5_bytes_open(const char *name, const char *config, H5FDxhdf5_why_t *why);

/* As H5FDxhdf5_expect (which see), with settings as for H5FDxhdf5_bytes_open. Files that HDF5 opens with the same
 * settings are handed over too.
 * Returns 1 when the file is expected; 0 when it is not; -1, with the reason in |why|, which may be NULL, when |name|
 * is NULL or a setting is out of bounds. Threads: any. Calls no HDF5 function. */
XHDF5_API int H5FDxhdf5_bytes_expect(const char *name, const char *config, H5FDxhdf5_why_t *why);

/* Returns the file's length. It stays what it is: a file that changes while it is open is an error of the read. */
XHDF5_API uint64_t H5FDxhdf5_bytes_size(const H5FDxhdf5_bytes_t *b);

/* Reads |n| pieces, in any order: |lens[i]| bytes at |offs[i]| to |bufs[i]|. All of each must lie in the file.
 * Returns 0 when all is there; or -1, with the reason in |why|, which may be NULL. Then the buffers' contents are
 * undefined. Blocks. Threads: any, any number at once. */
XHDF5_API int H5FDxhdf5_bytes_read(H5FDxhdf5_bytes_t *b, size_t n, const uint64_t offs[], const size_t lens[],
                                   void *const bufs[], H5FDxhdf5_why_t *why);

/* Closes the file; nothing reads it any more. |b| may be NULL. */
XHDF5_API void H5FDxhdf5_bytes_close(H5FDxhdf5_bytes_t *b);

/* Copies |name|, a URL or what was to be one, to |out| as messages show it: without user info, query and fragment. What
 * does not fit into |size| is cut off. Threads: any. */
XHDF5_API void H5FDxhdf5_bytes_shown(const char *name, char *out, size_t size);

/* For calls through a language's foreign-function interface. Such calls come from an object that links no libhdf5, and
 * the process may have several. After this call, the functions above use for this thread the libhdf5 that contains
 * |h5_function| (the address of any of its functions). NULL restores the caller's own libhdf5. */
XHDF5_API void H5FDxhdf5_call_for(const void *h5_function);

#ifdef __cplusplus
}
#endif

#endif
