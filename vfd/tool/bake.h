/* One file's metadata image: made, checked, removed. docs/sidecar.md is the format. */
#ifndef XH_BAKE_H
#define XH_BAKE_H

#include "../../cache/base/options.h"
#include "baked.h"

/* Makes the image of |path| beside it, unless one of this version is there already (|dry|: makes it, and writes nothing).
 * It appears complete or not at all. Calls HDF5. Blocks. */
void xh_bake(const char *path, const struct xh_options *o, int dry, struct xh_baked *out);

/* Compares the image of |path| with the file, all of it. Removes it. Neither calls HDF5. */
void xh_bake_check(const char *path, struct xh_baked *out);
void xh_bake_remove(const char *path, struct xh_baked *out);

#endif
