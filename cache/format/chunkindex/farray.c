/* Fixed array: the index of datasets without unlimited dimensions (HDF5 File Format Specification, VII.C). One data
 * block holds an element for each chunk, in logical order. A long block is cut into pages. Pages have no signature, and
 * some may never have been written. */
#include "farray.h"

#include <string.h>

#include "base/hdf5.h"

int xh_farray_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps)
{
    const struct xh_format *f = &ps->ix->fmt;
    if (len < node->len || memcmp(p, "FADB", 4) != 0 || p[4] != 0)
        return -1;
    p += 6 + f->O;
    if (f->elems > f->page_elems)
        return xh_parts_pages(ps, node->addr + node->len, f->elems, p, 0);
    return xh_parts_elements(ps, p, f->elems);
}

int xh_farray_root(const uint8_t *p, size_t len, struct xh_parts *ps)
{
    struct xh_format *f = &ps->ix->fmt;
    if (len < 8u + f->L + f->O || xh_format_elements(f, p))
        return -1;
    f->elems = xh_le(p + 8, f->L);
    if (p[7] > 20 || f->elems == 0 || f->elems > (uint64_t)XH_RANK_MAX)
        return -1;
    f->page_elems = 1ull << p[7];
    uint64_t npages = f->elems / f->page_elems + (f->elems % f->page_elems != 0);
    uint64_t block = XH_HDF5_FRAME_BYTES + f->O;
    block += f->elems > f->page_elems ? npages / 8 + (npages % 8 != 0) : f->elems * f->elem;
    if (block > XH_NODE_MAX)
        return -1;
    return xh_parts_node(ps, (struct xh_node){.addr = xh_addr(f, p + 8 + f->L), .len = (uint32_t)block,
                                              .kind = XH_NODE_FA_BLOCK}, f->elems);
}
