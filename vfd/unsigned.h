/* Files without HDF5's signature: when HDF5 has looked for it everywhere, and what came in its place. Pure. */
#ifndef XH_UNSIGNED_H
#define XH_UNSIGNED_H

#include <stddef.h>
#include <stdint.h>

/* How far HDF5 has come that opens a file: how many places it has looked at, or that it looks no more. */
#define XH_SEEK_OVER (~0u)

/* HDF5 looks for its signature, of 8 bytes, at 0, 512, 1024, 2048, … up to the file's end, as a user block may stand
 * before it. Notes in |places|, 0 in the beginning, that it has read |len| bytes at |off|. Returns 1 when that was the
 * last place, and the signature was at none: HDF5 will say "file signature not found". Source: HDF5 file format, II.A;
 * H5FD_locate_signature. */
int xh_unsigned_look(unsigned *places, uint64_t size, uint64_t off, const void *bytes, size_t len);

#define XH_UNSIGNED_HEAD 512u

/* What a file of |size| bytes is that has no signature, by its first |n| (at most XH_UNSIGNED_HEAD), and what to do. A
 * static text that shows nothing of the file; reads behind "… is no HDF5 file: ". */
const char *xh_unsigned_what(const unsigned char *head, size_t n, uint64_t size);

#endif
