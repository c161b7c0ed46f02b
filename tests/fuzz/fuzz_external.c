/* A whole HDF5 file of hostile bytes, looked through for external raw data as the driver does: an object header
 * somewhere in it, a page, an image of HDF5's metadata cache. Its first bytes say where, and how. */
#include <string.h>

#include "../../vfd/external.h"
#include "fuzz.h"

enum { KNOBS = 5, BEHIND_BYTES = 1u << 20 };

/* A header may have 4,096 parts that lie over each other; of each a look reads what the file has, and it ends. */
#define LOOKED_MOST (80u << 20)

struct file {
    const uint8_t *p;
    size_t n;      /* bytes that can be read */
    uint64_t size; /* as it is told */
    uint64_t looked;
};

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    struct file *f = ctx;
    hold(off <= f->size && len <= f->size - off, "a look behind the end");
    f->looked += len;
    hold(f->looked <= LOOKED_MOST, "a look without an end");
    if (len > f->n || off > f->n - len)
        return -1;
    memcpy(buf, f->p + off, len);
    return 0;
}

static void judge(int rc, const struct xh_external *e)
{
    hold(rc == 0 || rc == 1 || rc == XH_EXTERNAL_UNTOLD || (rc == XH_EXTERNAL_PARTS && e->parts), "another answer");
    hold((rc == XH_EXTERNAL_UNTOLD) == (e->why != NULL), "no reason, or one too many");
    hold(memchr(e->name, '\0', sizeof e->name) != NULL, "a name without an end");
    hold(!*e->name || rc > 0, "a name of nothing");
    for (const char *c = e->name; *c; c++)
        hold((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f, "a name that drives a terminal");
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    if (size < KNOBS)
        return 0;
    struct file f = {.p = p + KNOBS, .n = size - KNOBS};
    struct xh_external e = {.look = look, .ctx = &f, .sure = p[0] & 1,
                            .parts = (enum xh_external_parts)(p[0] >> 2 & 3)};
    f.size = e.size = f.n + (p[0] & 2 ? BEHIND_BYTES : 0);
    size_t at = (p[1] | (size_t)p[2] << 8) % (f.n + 1), len = p[3] | (size_t)p[4] << 8;
    len = len < f.n - at ? len : f.n - at;
    judge(xh_external_in_header(&e, at, f.p + at, len), &e);
    f.looked = 0;
    judge(xh_external_in_block(&e, at, f.p + at, len), &e);
    judge(xh_external_in_names(&e, f.p + at, len), &e);
    xh_external_is_part(&e);
    f.looked = 0;
    int found = xh_external_anywhere(&e, at, f.p + at, len);
    judge(found, &e);
    f.looked = 0;
    xh_external_is_image(&e, at, f.p + at, len);
    /* What is less sure sees no less. */
    f.looked = 0;
    int sure = e.sure;
    e.sure = 0;
    hold(!sure || !found || xh_external_anywhere(&e, at, f.p + at, len), "what is sure is not seen by one who is not");
    return 0;
}
