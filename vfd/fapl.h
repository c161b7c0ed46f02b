/* Settings of a file access property list, and the options that follow from them.
 *
 * HDF5 copies, compares and frees what H5Pset_driver was given: it is one flat block
 * without pointers, all of whose bytes are defined, so that memcmp is equality. */
#ifndef XH_FAPL_H
#define XH_FAPL_H

#include "../cache/base/options.h"
#include "h5bind.h"

#define XH_CONFIG_STRING_BYTES 8192 /* longest driver configuration string, with its NUL */

struct xh_fapl_info {
    uint32_t magic;                      /* XH_FAPL_MAGIC: somebody else's block is not taken for ours */
    uint32_t config_lost;                /* 1: the list's configuration string did not fit into |config| */
    struct xh_namer namer;               /* who names what is opened with the list */
    uint8_t set[XH_OPT_COUNT];           /* 1 where H5FD_xhdf5_config_t had a value */
    struct xh_options value;             /* those values; zero elsewhere */
    char config[XH_CONFIG_STRING_BYTES]; /* the list's configuration string, weaker than they are */
};

#define XH_FAPL_MAGIC 0x58483546u

/* A block that cannot be copied: stands for one for which there was no memory. A list without a block would be the
 * program's own, and what a file names must not become that. */
extern const struct xh_fapl_info xh_fapl_no_memory;

/* The options of a file opened with |fapl|: defaults, XHDF5_*, configuration string, C
 * struct, later ones stronger. Returns 0 or a negative code with |err| set. */
int xh_fapl_options(struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err);

/* 1 when any of those sources, of a list with the block |info|, may say something of option |id|; 0: it has its default,
 * and they need not be read. */
int xh_fapl_mentions(const struct xh_fapl_info *info, enum xh_opt_id id);

/* |fapl|'s block; where it has none, a new one with its configuration string. NULL: out of memory. Owns: free(). */
struct xh_fapl_info *xh_fapl_info_of(struct xh_h5 *h5, hid_t fapl);

/* The list's own block, or NULL. Owns: the list keeps it. */
const struct xh_fapl_info *xh_fapl_peek(struct xh_h5 *h5, hid_t fapl);

/* The callbacks of the driver class. A copy is NULL without memory. */
void *xh_fapl_copy(const void *info);
herr_t xh_fapl_free(void *info);

#endif
