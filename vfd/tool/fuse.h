/* The kernel's requests to a mounted file system: FUSE's protocol, without libfuse. Knows nothing of URLs.
 *
 * The file system only reads. A node is one file or directory, named by a number; 1 is the root. A file's node never
 * changes its bytes, so the kernel may keep what it knows of one.
 * Source: linux/fuse.h, protocol 7.31. */
#ifndef XH_FUSE_H
#define XH_FUSE_H

#include <stddef.h>
#include <stdint.h>

#define XH_FUSE_ROOT       1u
#define XH_FUSE_READ_BYTES (1u << 20) /* longest read that the kernel asks for: 256 pages, its own limit */
#define XH_FUSE_NAME_BYTES 255u       /* longest name, in bytes */

struct xh_fuse_attr {
    uint64_t node;
    int directory;
    uint64_t size;
    long long changed_s; /* seconds since 1970 */
};

/* What a directory lists. */
struct xh_fuse_names {
    struct xh_fuse_name {
        char *name;
        int directory;
    } *of;
    size_t n, room;
};

/* Adds a copy of |name|. Returns 0, or -1 without memory. */
int xh_fuse_names_add(struct xh_fuse_names *names, const char *name, int directory);
void xh_fuse_names_free(struct xh_fuse_names *names); /* what it holds, not itself */

/* The file system. Its functions are called on several threads at once and may block for long. Those that return a
 * number return 0 or a positive errno. */
struct xh_fuse_served {
    /* Each success counts one more reference of the kernel's to the node, which forget takes back. */
    int (*lookup)(void *fs, uint64_t directory, const char *name, struct xh_fuse_attr *out);
    void (*forget)(void *fs, uint64_t node, uint64_t times);
    int (*attr)(void *fs, uint64_t node, struct xh_fuse_attr *out);
    int (*open)(void *fs, uint64_t node); /* a file; each success is followed by release */
    void (*release)(void *fs, uint64_t node);
    int (*read)(void *fs, uint64_t node, uint64_t off, void *buf, size_t *len); /* |*len| becomes less at the end */
    int (*list)(void *fs, uint64_t node, struct xh_fuse_names *out);
    void (*ended)(void *fs); /* it was unmounted; called once */
};

struct xh_fuse;

/* Begins to serve |device|, on which a file system was mounted. Returns NULL without memory or threads. Owns: takes
 * |device|; the result lives until the process ends, as its threads may wait in the kernel or in |served|. */
struct xh_fuse *xh_fuse_serve(int device, const struct xh_fuse_served *served, void *fs);

/* To be called every second or so: frees programs that were killed while they wait for an answer. */
void xh_fuse_tick(struct xh_fuse *f);

#endif
