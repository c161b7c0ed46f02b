/* Settings of a file access property list, and the options that follow from them.
 *
 * HDF5 copies, compares and frees the block that H5Pset_driver gets. So it is one flat block without pointers, and all
 * its bytes are defined: memcmp compares it. */
#ifndef XH_FAPL_H
#define XH_FAPL_H

#include "../cache/base/options.h"
#include "h5bind.h"

struct xh_fapl_info {
    uint32_t magic;                      /* XH_FAPL_MAGIC; tells our block from another driver's */
    uint32_t config_lost;                /* 1: the list's configuration string did not fit into |config| */
    struct xh_namer namer;               /* which file names what is opened with the list */
    uint8_t set[XH_OPT_COUNT];           /* 1 where H5FD_xhdf5_config_t had a value */
    struct xh_options value;             /* those values; zero elsewhere */
    char config[8192];                   /* the list's configuration string; |value| takes precedence */
};

#define XH_FAPL_MAGIC 0x58483546u

/* A block that cannot be copied. It stands for a block for which there was no memory. A list without a block would be
 * the program's own, with the program's rights; files that a file names must not get these. */
extern const struct xh_fapl_info xh_fapl_no_memory;

/* The options of a file that is opened with |fapl|, from the defaults, XHDF5_*, the configuration string and the C
 * struct; later ones take precedence. Returns 0 or a negative code with |err| set. */
int xh_fapl_options(struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err);

/* The same in memory of its own: options are too large for the stack of some threads. NULL: failed, |err| is set.
 * Owns: free(). */
struct xh_options *xh_fapl_options_new(struct xh_h5 *h5, hid_t fapl, struct xh_err *err);

/* Returns 1 when one of these sources may set option |id|, for |fapl| with the block |info|. Returns 0 when the option
 * has its default, so that the sources need not be read. */
int xh_fapl_mentions(struct xh_h5 *h5, hid_t fapl, const struct xh_fapl_info *info, enum xh_opt_id id);

/* Returns 1 when HDF5 reads whole pages of a file that is opened with |fapl|: it has a page buffer, or that cannot be
 * told. */
int xh_fapl_has_pages(struct xh_h5 *h5, hid_t fapl);

/* Returns a copy of |fapl|'s block; if it has none, a new block with its configuration string. NULL: out of memory.
 * Owns: free(). */
struct xh_fapl_info *xh_fapl_info_of(struct xh_h5 *h5, hid_t fapl);

/* Returns the list's own block, or NULL. Owns: the list keeps it. */
const struct xh_fapl_info *xh_fapl_peek(struct xh_h5 *h5, hid_t fapl);

/* The callbacks of the driver class. Copying returns NULL when out of memory. */
void *xh_fapl_copy(const void *info);
herr_t xh_fapl_free(void *info);

/* What fapl_get gives HDF5 of a file: a copy of |info|; when out of memory xh_fapl_no_memory, which HDF5 fails to copy.
 * Never NULL: without a block, what the file names would count as named by the program. */
void *xh_fapl_give(const struct xh_fapl_info *info);

#endif
