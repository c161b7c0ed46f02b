/* Options: one struct, filled from the environment, a config string and a caller.
 *
 * Order of increasing strength: default, XHDF5_* in the environment, the config
 * string (HDF5_DRIVER_CONFIG or a tool's --vfd-info), the C API's struct.
 * This is the one file of the cache that reads XHDF5_* from the environment. */
#ifndef XH_OPTIONS_H
#define XH_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define XH_OPT_STR_BYTES 1024 /* longest string value, with its NUL */

struct xh_env;

enum xh_opt_type { XH_OPT_BOOL, XH_OPT_INT, XH_OPT_SIZE, XH_OPT_STR };

enum xh_opt_id {
#define X(type, name, def, min, max, help) XH_OPT_ID_##name,
#include "options.def"
#undef X
    XH_OPT_COUNT
};

#define XH_NAMER_PARENT_BYTES 512
#define XH_NAMER_SERVER_BYTES 320 /* "https://", a host name of 255 bytes, ":65535" */

/* Who named what is opened: the program, or a file, by an external link or a virtual data set. All zero: the program. */
struct xh_namer {
    uint32_t by_file; /* 1: the file |parent| */
    uint32_t remote;  /* 1: that file is at a URL */
    uint64_t family;  /* what the program opened first, of the vfd's counting */
    char parent[XH_NAMER_PARENT_BYTES]; /* its path, or its URL as it may be shown */
    char server[XH_NAMER_SERVER_BYTES]; /* the one server that credentials may go to, as xh_url has it; "": none */
};

struct xh_options {
#define XH_FIELD_BOOL(name) uint64_t name;
#define XH_FIELD_INT(name) uint64_t name;
#define XH_FIELD_SIZE(name) uint64_t name;
#define XH_FIELD_STR(name) char name[XH_OPT_STR_BYTES];
#define X(type, name, def, min, max, help) XH_FIELD_##type(name)
#include "options.def"
#undef X
    /* Of no table; the cache sets it for what it looks for itself. */
    uint64_t asked_as; /* when it was asked for to be opened, as a number that rises: files are mostly read in that order; 0: now */
    int may_lack; /* 1: there may be no such object, so nothing that others count on is to hang on it */
    struct xh_namer namer; /* who named the URL */
    struct xh_env *env; /* what the file was opened with, see env.h; NULL: the environment as it is */
    int sums;     /* 1: who reads it has sums of all that he takes, so nothing needs a proof of the version */
};

/* One row of the table, for programs that print or check it. */
struct xh_opt_row {
    const char *name;
    enum xh_opt_type type;
    const char *def; /* as written in the table; strings without quotes */
    uint64_t min, max;
    const char *help;
    size_t offset; /* of the field in struct xh_options */
};
extern const struct xh_opt_row xh_opt_rows[XH_OPT_COUNT];

void xh_options_defaults(struct xh_options *o);

/* Sets one option from text. XH_E_INVAL: the text names option, value and bounds,
 * or for an unknown name the nearest known one. |where| says where the text came
 * from ("environment variable XHDF5_LOG", "HDF5_DRIVER_CONFIG"). */
int xh_options_set(struct xh_options *o, const char *name, const char *value, const char *where,
                   struct xh_err *err);

/* Sets a numeric option (BOOL, INT, SIZE) from a number, with the same checks. */
int xh_options_set_number(struct xh_options *o, enum xh_opt_id id, uint64_t value, const char *where,
                          struct xh_err *err);

/* Reads every XHDF5_* variable; an empty one is as good as none. An unknown one is no error: it is warned of once a
 * process, on standard error, with the nearest known name. Variables listed in
 * XH_OPT_FOREIGN_ENV (used by the project's tools) are passed over. */
int xh_options_from_env(struct xh_options *o, struct xh_err *err);

/* 1 when the environment has XHDF5_<name>, whatever its value. Cheap. */
int xh_options_env_has(const char *name);

/* Reads "key=value,key=value" (white space around either is dropped; empty parts
 * are passed over). A value may be quoted with "…" to hold a comma. */
int xh_options_from_string(struct xh_options *o, const char *text, const char *where, struct xh_err *err);

#endif
