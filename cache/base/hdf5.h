/* Facts of HDF5 and of its files that several rooms need. Source: the HDF5 File Format Specification, 2.0, and HDF5's
 * H5Oprivate.h and H5HLprivate.h. */
#ifndef XH_HDF5_H
#define XH_HDF5_H

#include <string.h>

#define XH_HDF5_SIGNATURE_BYTES 8u

/* 1 when the XH_HDF5_SIGNATURE_BYTES at |p| may begin a superblock. It lies at 0, 512, 1024, 2048 and so on. */
static inline int xh_hdf5_is_signed(const void *p)
{
    return memcmp(p, "\x89HDF\r\n\x1a\n", XH_HDF5_SIGNATURE_BYTES) == 0;
}

#define XH_HDF5_SPECULATION_BYTES 512u /* what HDF5 reads first of an object header or a local heap */
#define XH_HDF5_SUPERBLOCK_BYTES 96u   /* the longest superblock, which is the oldest format's */
#define XH_HDF5_WRITER 0x01u           /* a superblock's flag: the file is being written */
#define XH_HDF5_SWMR 0x04u             /* likewise: it is read meanwhile */
#define XH_HDF5_RANK_MOST 32u          /* dimensions of a dataset (H5S_MAX_RANK) */
#define XH_HDF5_FRAME_BYTES 10u        /* of a chunk index's node: signature, version, type or client, checksum */

#endif
