/* How a file's compressed copy is packed: codec, level and size of frames, chosen by samples of the file. Calls no
 * HDF5. */
#ifndef XH_PACK_WAY_H
#define XH_PACK_WAY_H

#include <stddef.h>
#include <stdint.h>

/* The codec: one of enum xh_packed_codec, or the one that suits the file. */
#define XH_PACK_AUTO (-1)

/* A copy that packs less is not worth its space. Usually the file's own filters have compressed such a file already. */
#define XH_PACK_WORTH_RATIO 1.1

#define XH_PACK_SEEK_ROW 12u /* bytes that a frame takes in the seek table of a zstd copy */

struct xh_pack_way { /* how a file is packed */
    uint32_t codec, frame_bytes;
    int level;
    double ratio; /* bytes of the file by bytes of the copy, of the samples */
};

/* What packs one frame after the other, for one thread. */
struct xh_packer {
    struct xh_pack_way way;
    struct ZSTD_CCtx_s *zstd; /* NULL: lz4, which needs nothing beforehand */
};

/* begin: returns 0, or -1 when out of memory; end is called in both cases. */
int xh_packer_begin(struct xh_packer *z, const struct xh_pack_way *w);
void xh_packer_end(struct xh_packer *z);

/* Packs |len| bytes at |raw|, at most a frame, to |out|, which has room for xh_packer_room. Returns the bytes; 0:
 * failed. */
size_t xh_packer_pack(struct xh_packer *z, const uint8_t *raw, size_t len, uint8_t *out, size_t room);

/* The most bytes that a frame of |frame_bytes| is packed to, by either codec. */
size_t xh_packer_room(uint32_t frame_bytes);

/* The codec's name. */
const char *xh_pack_codec(uint32_t codec);

/* Chooses how the file |fd|, of |size| > 0 bytes, is packed. |codec|: XH_PACK_AUTO or of enum xh_packed_codec. Reads,
 * packs and unpacks samples. Returns 0 and sets |*out|, or -1: no memory, or errno says why the file cannot be read.
 * Blocks. */
int xh_pack_choose(int fd, uint64_t size, int codec, struct xh_pack_way *out);

#endif
