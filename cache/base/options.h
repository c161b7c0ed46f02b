/* Options: one struct, filled from the environment, a configuration string and the caller.
 *
 * Later sources take precedence: default, XHDF5_* in the environment, the configuration string (HDF5_DRIVER_CONFIG or a
 * tool's --vfd-info), the C API's struct. In the cache only options.c reads XHDF5_* from the environment. */
#ifndef XH_OPTIONS_H
#define XH_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define XH_OPT_STR_BYTES 1024 /* most bytes of a string value, with its NUL */

struct xh_env;

#define XH_USUAL_CONNECTIONS 17u /* connections=0, for one file: as many streams as download tools have, which servers
                                  * bear, and one for what cannot wait */

enum xh_opt_type { XH_OPT_BOOL, XH_OPT_INT, XH_OPT_SIZE, XH_OPT_STR };

enum xh_opt_id {
#define X(type, name, def, min, max, help) XH_OPT_ID_##name,
#include "options.def"
#undef X
    XH_OPT_COUNT
};

#define XH_NAMER_PARENT_BYTES 512
#define XH_REMEMBERED 64u /* servers, buckets or directories that a process knows something of: then the oldest goes */
#define XH_SERVER_BYTES 320 /* of a server, with its NUL: "https://", a host name of 255 bytes, ":65535" */

/* What named the object that is opened: the program, or a file, by an external link or a virtual dataset. All zero: the
 * program. */
struct xh_namer {
    uint32_t by_file; /* 1: the file |parent| named it */
    uint32_t remote;  /* 1: that file is at a URL */
    uint64_t family;  /* the family of the file that the program opened first (vfd/family.h) */
    char parent[XH_NAMER_PARENT_BYTES]; /* its path, or its URL without secrets */
    char server[XH_SERVER_BYTES]; /* the only server that credentials may go to, in xh_url's form; "": none */
};

struct xh_options {
#define XH_FIELD_BOOL(name) uint64_t name;
#define XH_FIELD_INT(name) uint64_t name;
#define XH_FIELD_SIZE(name) uint64_t name;
#define XH_FIELD_STR(name) char name[XH_OPT_STR_BYTES];
#define XH_FIELD_WORD XH_FIELD_STR
#define X(type, name, def, min, max, help) XH_FIELD_##type(name)
#include "options.def"
#undef X
    /* Not in the table; the cache sets these for objects that it opens itself. */
    int guessed;       /* nobody has asked for it: its name was */
    uint64_t likely_bytes; /* of an object that will be read through: so many it has, most likely; 0: as usual */
    uint64_t likely_room;  /* its part of what may lie before its reader: see xh_control_opens_with */
    uint64_t asked_as; /* a number that rises with each request to open; files are usually read in that order; 0: now */
    uint64_t followers; /* how many files follow it that are most likely read as it is */
    unsigned beside; /* so many files, with it, are opened for one read; 0: it alone, or not known */
    int on_disk; /* 1: what says shadow is of the disk cache: see xh_shadow_on_disk */
    int to_disk; /* 1: what the shadow has is copied to the disk cache when the file is settled, or closed */
    int may_lack; /* 1: the object may not exist, so nothing that others rely on may depend on it */
    int doubtful; /* 1: most likely it does not, so it is asked for by one request */
    int is_kept; /* 1: what is read outlives the file's opening, or is sent: reads return proved bytes alone */
    int is_written; /* 1: the file is open to be written, and what is read of it may be published */
    struct xh_namer namer; /* what named the URL */
    struct xh_env *env; /* the environment when the file was opened, see env.h; NULL: the current environment */
    int sums;     /* 1: the reader checks sums of all bytes, so no reply needs to prove its version */
};

/* One row of the table, for programs that print or check it. */
struct xh_opt_row {
    const char *name;
    enum xh_opt_type type;
    const char *def; /* as written in the table, strings without quotes */
    uint64_t min, max;
    const char *help;
    size_t offset; /* of the field in struct xh_options */
    const char *words; /* of a STR that is one of these, divided by |, the default first; NULL: of any other */
};
extern const struct xh_opt_row xh_opt_rows[XH_OPT_COUNT];

void xh_options_defaults(struct xh_options *o);

/* Sets one option from text. |where| says where the text came from ("environment variable XHDF5_LOG",
 * "HDF5_DRIVER_CONFIG"). Returns 0 or XH_E_INVAL; the error names option, value and bounds, or for an unknown name the
 * nearest known one. */
int xh_options_set(struct xh_options *o, const char *name, const char *value, const char *where,
                   struct xh_err *err);

/* Sets a numeric option (BOOL, INT, SIZE) from a number. Checks and returns as above. */
int xh_options_set_number(struct xh_options *o, enum xh_opt_id id, uint64_t value, const char *where,
                          struct xh_err *err);

/* Reads every XHDF5_* variable, then HDF5_DRIVER_CONFIG, unless HDF5_DRIVER names another driver. An empty variable
 * counts as unset. An unknown one is not an error: it is reported once in a process, on standard error, with the
 * nearest known name. Variables of the project's own tools are ignored. */
int xh_options_from_env(struct xh_options *o, struct xh_err *err);

/* Returns 1 when |a| and |b| have the same value of the option |row|. */
int xh_options_agree(const struct xh_opt_row *row, const struct xh_options *a, const struct xh_options *b);

/* Returns 1 when the environment has XHDF5_<name>, with any value, or HDF5_DRIVER_CONFIG speaks of it. Cheap. */
int xh_options_env_has(const char *name);

/* Reads "key=value,key=value". White space around keys and values is dropped; empty parts are ignored. A value in
 * quotation marks may contain a comma. */
int xh_options_from_string(struct xh_options *o, const char *text, const char *where, struct xh_err *err);

/* Returns 1 when |text|, of that form, sets the option |name|. Quotation marks are closed before it. |text| may be
 * NULL. Allocates nothing. */
int xh_options_names(const char *text, const char *name);

#endif
