/* One file's compressed body: made, checked, removed. docs/sidecar.md is the format. Calls no HDF5. */
#ifndef XH_PACK_H
#define XH_PACK_H

#include <stdatomic.h>

#include "bake.h"

/* Makes the body of |path| beside it with |threads| threads, unless one of this version is there already. Frame size and level
 * are tried on samples of the file; where those say that it is not worth it, it is SKIPPED. |dry|: tries, and says what would be
 * made; |sidecar_bytes| is a guess then. It appears complete or not at all. |done|: bytes of the original that it has come
 * to are added. Blocks. */
void xh_pack(const char *path, int dry, int threads, _Atomic uint64_t *done, struct xh_baked *out);

/* Compares the body of |path| with the file, all of it. */
void xh_pack_check(const char *path, _Atomic uint64_t *done, struct xh_baked *out);
void xh_pack_remove(const char *path, struct xh_baked *out);

#endif
