/* The names and files of a mount: which URL a name means, and which version of it is open. */
#ifndef XH_TREE_H
#define XH_TREE_H

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"
#include "fuse.h"

struct xh_tree;

/* |say| gets a sentence for each thing that fails, on any thread. |o| outlives it. Returns NULL without memory. */
struct xh_tree *xh_tree_new(const struct xh_options *o, void (*say)(const char *text));

/* Shows the file at |url| as |name| in the root. Returns 0, XH_E_INVAL (another URL has that name) or XH_E_NOMEM. */
int xh_tree_add(struct xh_tree *t, const char *name, const char *url, struct xh_err *err);

/* The root shows the directory at |url|, which ends as one's. No other URL is added. Returns 0 or XH_E_NOMEM. */
int xh_tree_root(struct xh_tree *t, const char *url, struct xh_err *err);

/* Opens the file that was added first, so that it is open when a program asks for it; or asks for the directory.
 * Returns as xh_cache_open; that a server lists nothing is no failure. */
int xh_tree_begin(struct xh_tree *t, struct xh_err *err);

/* |fs| of these is the tree. */
extern const struct xh_fuse_served xh_tree_served;

/* To be called every second or so: closes what nobody has used for long. */
void xh_tree_tidy(struct xh_tree *t);

/* Closes what nobody reads just now. The tree stays: its threads may wait in it. */
void xh_tree_close(struct xh_tree *t);

/* 1 when |url|'s path ends as a directory's. */
int xh_tree_is_directory(const char *url);

/* Writes the last part of |url|'s path, decoded. Returns 0, or -1: it is no name that a directory may show. */
int xh_tree_name(const char *url, char out[XH_ENTRY_NAME_BYTES + 1]);

#endif
