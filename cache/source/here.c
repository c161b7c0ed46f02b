/* What is here of a file: see here.h. */
#include "here.h"

#include "disk/disk.h"
#include "object.h"
#include "metadata_image.h"
#include "unverified_head.h"

int xh_here_look(void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct xh_file *f = ctx;
    return xh_shadow_read(f->shadow, off, buf, len) == len || xh_unverified_look(f, off, buf, len) ||
           xh_metadata_image_look(f->image, off, buf, len) ||
           xh_disk_read(f->disk, &(struct xh_extent){off, len, buf}, 1);
}
