/* External raw data: a dataset's values in files that the HDF5 file names. HDF5 opens these with open(2), past every
 * driver; only the message that names them passes by here, in an object header.
 *
 * All bytes are hostile, and are read here as HDF5 reads them. Source: HDF5 File Format Specification 3.0, "Object Headers"
 * and "Data Storage - External Data Files". Threads: any. */
#ifndef XH_EXTERNAL_H
#define XH_EXTERNAL_H

#include <stddef.h>
#include <stdint.h>

/* A file, as the functions below see it. */
struct xh_external {
    uint64_t size; /* bytes */
    /* Reads [off, off + len) of it. Returns 0, or another value: then nothing is said of what lies there, and who looks has to
     * take that for a failure unless it is behind the end. */
    int (*look)(void *ctx, uint64_t off, void *buf, size_t len);
    void *ctx;
    int sure; /* 1: HDF5 has all metadata from its place in the file. What only looks like a message is told from one by that. */
    char name[256]; /* out: the first external file, as it may be printed; "": it cannot be told */
    const char *why; /* out, of XH_EXTERNAL_UNTOLD: why, as the end of a sentence about a dataset or group */
};

#define XH_EXTERNAL_UNTOLD (-1)

/* Looks for a message that names external files in the object header at |at|, of which HDF5 has read the first |len|
 * bytes, |p|. Continuations are read, as HDF5 does next. Bytes that begin no object header, or one that HDF5 refuses,
 * are a later part of one, and were looked at with its beginning.
 * Returns 1 when there is one, else 0; XH_EXTERNAL_UNTOLD when that cannot be told. */
int xh_external_in_header(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* The same for |len| bytes at |at| that may hold object headers anywhere: what a page buffer reads, and images of
 * HDF5's metadata cache. A message is found wherever it begins in |p|, also when it goes on behind the end. Returns as
 * above. */
int xh_external_anywhere(struct xh_external *e, uint64_t at, const void *p, size_t len);

/* 1 when such an image begins in the bytes: from then on HDF5 has metadata from there. */
int xh_external_is_image(struct xh_external *e, uint64_t at, const void *p, size_t len);

#endif
