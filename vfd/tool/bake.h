/* Makes and checks one file's metadata image. docs/sidecar.md is the format. */
#ifndef XH_BAKE_H
#define XH_BAKE_H

#include "../../cache/base/options.h"
#include "baked.h"

/* Makes the image of |path| beside the file, unless an image of this version is there already. |dry|: makes it in
 * memory and writes nothing. The image appears complete or not at all. Calls HDF5. Blocks. */
void xh_bake(const char *path, const struct xh_options *o, int dry, struct xh_baked *out);

/* Compares the whole image of |path| with the file. Does not call HDF5. Blocks. */
void xh_bake_check(const char *path, struct xh_baked *out);

#endif
