/* External raw data: a dataset's values in other files, which the HDF5 file names. HDF5 opens these with open(2),
 * without a driver. Only the message that names them passes through the driver, in an object header.
 *
 * And the parts of a file of HDF5's multi driver (split, too). Its driver information names them, in a block behind the
 * superblock (versions 0 and 1), or in a message of the superblock's extension. HDF5 opens what it names there, with
 * the program's lists: as if the program had named it.
 *
 * All bytes are hostile. They are read here as HDF5 reads them. Threads: any.
 * Source: HDF5 File Format Specification 3.0, "Object Headers", "Data Storage - External Data Files", "Superblock" and
 * "The Driver Info Message". */
#ifndef XH_EXTERNAL_H
#define XH_EXTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* What driver information may name as parts. */
enum xh_external_parts {
    XH_PARTS_ANY,    /* it is not looked for */
    XH_PARTS_NONE,   /* nothing: tells whether there is such information */
    XH_PARTS_BESIDE, /* "%s" and more: what has the file's name before its own */
    XH_PARTS_LOCAL,  /* and local files */
};

/* A file, for the functions below. */
struct xh_external {
    uint64_t size; /* bytes */
    /* Reads [off, off + len) of the file. Returns 0, or another value when the bytes cannot be read; the caller of the
     * functions below must take that for a failure, unless the range is behind the end of the file. */
    int (*look)(void *ctx, uint64_t off, void *buf, size_t len);
    void *ctx;
    /* 1: HDF5 reads all heaps from their places in the file. That tells messages from what only looks like one. */
    int sure;
    int part; /* 1: see xh_external_is_part; then |sure| is 0 */
    int no_lists; /* 1: external raw data is not looked for */
    enum xh_external_parts parts;
    char name[256]; /* out: the first external file, or part that may not be named, printable; "": not known */
    const char *why; /* out, with XH_EXTERNAL_UNTOLD: the reason, as the end of a sentence about a dataset or group */
};

#define XH_EXTERNAL_UNTOLD (-1)
#define XH_EXTERNAL_PARTS 2 /* driver information names a part that it may not name; else as 1 */

/* Looks for a message that names external files in the object header at |at|; |p| are its first |len| bytes, which HDF5
 * has read. Continuations are read too, as HDF5 does next. Bytes that begin no object header, or one that HDF5 refuses,
 * are a later part of a header, and nothing else. They were read when its beginning was, and are looked at once more:
 * where nothing can be kept, a server may have answered otherwise then.
 * Returns 1 when there is such a message, else 0; XH_EXTERNAL_UNTOLD when that cannot be told. Blocks as |look|
 * does. */
int xh_external_in_header(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* The same for |len| bytes at |at| that may hold object headers anywhere: reads of a page buffer, and images of HDF5's
 * metadata cache. Finds every message that begins in |p|, also one that continues behind it. Returns as above. */
int xh_external_anywhere(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* Returns 1 when the |len| bytes at |p| are the head of a block of driver information of the multi driver. */
int xh_external_is_block(const void *p, size_t len);

/* Looks at metadata that is no object header. |p|: the |len| bytes at |at|, of a block of driver information if of
 * anything that names files. Returns XH_EXTERNAL_PARTS or 0. Blocks as |look| does. */
int xh_external_in_block(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* The same for the bytes behind such a block's head, which HDF5 reads by themselves. Returns XH_EXTERNAL_PARTS or 0. */
int xh_external_in_names(struct xh_external *e, const void *p, size_t len);

/* Returns 1 when the file is a part of one of HDF5's family or multi driver, as far as can be told: it has no
 * superblock, or one that tells a longer file, or driver information. What its messages name may lie in the other
 * parts, and so may their own ends. Returns XH_EXTERNAL_UNTOLD when it cannot be read. Blocks as |look| does. */
int xh_external_is_part(const struct xh_external *e);

/* Returns 1 when the |len| bytes at |p| may hold such a message, as far as can be told without the rest of the file. */
int xh_external_may_hold(const void *p, size_t len);

/* Returns 1 when an image of HDF5's metadata cache begins in the bytes; from then on HDF5 uses metadata of the
 * image. */
int xh_external_is_image(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* Returns 1 when the |len| bytes at |p| hold a heap, as that of an external file list. An image of the cache without
 * one changes nothing: the heaps are in their places. */
int xh_external_has_heap(const void *p, size_t len);

#endif
