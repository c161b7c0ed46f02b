/* Makes and checks one file's compressed copy. docs/sidecar.md is the format. Calls no HDF5. */
#ifndef XH_PACK_H
#define XH_PACK_H

#include <stdatomic.h>

#include "../../cache/source/packed.h"
#include "bake.h"
#include "pack_way.h"

/* Makes the compressed copy of |path| beside the file, with |threads| threads, unless a copy of this version, packed by
 * |codec|, is there already. Codec, frame size and level are tried on samples of the file. If they show that a copy
 * is not worth it, the result is SKIPPED. |dry|: only tries, and says what would be made; |sidecar_bytes| is then a
 * guess. The copy appears complete or not at all. |checks|: makes nothing, but compares the whole copy with the file.
 * Adds the bytes of the original that were processed to |done|. Blocks. */
void xh_pack(const char *path, int checks, int codec, int dry, int threads, _Atomic uint64_t *done,
             struct xh_baked *out);

#endif
