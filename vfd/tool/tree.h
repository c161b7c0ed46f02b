/* The names and files of a mount: which URL a name means, and which version of it is open. */
#ifndef XH_TREE_H
#define XH_TREE_H

#include "../../cache/base/err.h"
#include "../../cache/base/options.h"
#include "listing.h"

#define XH_TREE_ROOT       1u
#define XH_TREE_READ_BYTES (1u << 20) /* longest read that the kernel asks for: 256 pages, its own limit */

struct xh_tree;

/* A node is one file or directory, named by a number; XH_TREE_ROOT is the root. A file's node never changes its bytes,
 * so the kernel may keep what it knows of one. */
struct xh_tree_attr {
    uint64_t node;
    int directory;
    uint64_t size;
    long long changed_s; /* seconds since 1970 */
};

/* |say| gets a sentence for each thing that fails, on any thread. |o| outlives it. Returns NULL without memory. */
struct xh_tree *xh_tree_new(const struct xh_options *o, void (*say)(const char *text));

/* Shows the file at |url| as |name| in the root. Returns 0, XH_E_INVAL (another URL has that name) or XH_E_NOMEM. */
int xh_tree_add(struct xh_tree *t, const char *name, const char *url, struct xh_err *err);

/* The root shows the directory at |url|, which ends as one's. No other URL is added. Returns 0 or XH_E_NOMEM. */
int xh_tree_root(struct xh_tree *t, const char *url, struct xh_err *err);

/* Opens the file that was added first, so that it is open when a program asks for it; or asks for the directory.
 * Returns as xh_cache_open; that a server lists nothing is no failure. */
int xh_tree_begin(struct xh_tree *t, struct xh_err *err);

/* To be called every second or so: closes what nobody has used for long. */
void xh_tree_tidy(struct xh_tree *t);

/* Closes what nobody reads just now. The tree stays: its threads may wait in it. */
void xh_tree_close(struct xh_tree *t);

/* 1 when |url|'s path ends as a directory's. */
int xh_tree_is_directory(const char *url);

/* Writes the last part of |url|'s path, decoded. Returns 0, or -1: it is no name that a directory may show. */
int xh_tree_name(const char *url, char out[XH_ENTRY_NAME_BYTES + 1]);

/* What the kernel asks for: on several threads at once, and may block for long. Those that return a number return 0 or
 * a positive errno. */

/* Each success counts one more reference of the kernel's to the node, which forget takes back. */
int xh_tree_lookup(struct xh_tree *t, uint64_t directory, const char *text, struct xh_tree_attr *out);
void xh_tree_forget(struct xh_tree *t, uint64_t id, uint64_t times);
int xh_tree_attr(struct xh_tree *t, uint64_t id, struct xh_tree_attr *out);

/* A file; each success is followed by release. |*direct|: what a program asks for comes as it is; else by the kernel's
 * pages, which it keeps. */
int xh_tree_open(struct xh_tree *t, uint64_t id, int *direct);
void xh_tree_release(struct xh_tree *t, uint64_t id);
int xh_tree_read(struct xh_tree *t, uint64_t id, uint64_t off, void *buf, size_t *len); /* |*len| is less at the end */
int xh_tree_list(struct xh_tree *t, uint64_t id, struct xh_entries *out);

#endif
