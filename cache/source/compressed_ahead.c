/* The compressed copy as a view of the original: which packed bytes are those of which range. See compressed.h. */
#include "compressed.h"
#include "compressed_impl.h"

#include <stdlib.h>

#include "base/table.h"
#include "stream/stage.h"

uint64_t xh_compressed_original(const struct xh_file *f, uint64_t at)
{
    const struct xh_compressed *b = f->compressed;
    const struct xh_packed *t = &b->table;
    size_t begun = xh_count_before(i, (size_t)t->head.frames + 1, t->at[i] <= at);
    uint64_t off = begun ? (begun - 1) * t->head.frame_bytes : 0;
    return off < b->size ? off : b->size;
}

static struct xh_range packed_of(const struct xh_compressed *b, uint64_t off, uint64_t end)
{
    uint32_t first, behind;
    xh_frames_of(b, off, end, &first, &behind);
    return (struct xh_range){b->table.at[first], xh_frames_len(b, first, behind)};
}

struct xh_file *xh_compressed_file(const struct xh_file *f)
{
    return xh_compressed_used(f->compressed) ? f->compressed->file : NULL;
}

struct xh_file *xh_compressed_map_run(struct xh_file *f, struct xh_range *near, uint64_t *far, int leads)
{
    struct xh_compressed *b = f->compressed;
    uint64_t end = near->off + near->len, off = near->off;
    if (!xh_compressed_used(b) || near->len == 0)
        return NULL;
    uint64_t whole = b->table.head.frame_bytes;
    /* the frame that a read has ended in was fetched for it */
    if (!leads && (off = xh_stage_until(f, off)) == near->off)
        off = (off + whole - 1) / whole * whole;
    if (off >= end) {
        near->off = off < b->size ? off : b->size;
        return NULL;
    }
    *near = packed_of(b, off, end);
    if (far && *far > off) {
        struct xh_range last = packed_of(b, *far - 1, *far);
        *far = last.off + last.len;
    } else if (far) {
        *far = 0;
    }
    return b->file;
}

/* Turns the ranges into packed ones, each frame once; |of|[k] is how many ranges the first k + 1 of them are good for.
 * Returns their number. */
static size_t packed_ranges(const struct xh_compressed *b, const struct xh_range *r, size_t n, struct xh_range *out,
                            size_t *of, uint64_t *packed)
{
    size_t k = 0;
    uint32_t done = 0, begun = 0; /* frames [begun, done) are the last ones that were asked for */
    for (size_t i = 0; i < n; i++) {
        uint32_t first, behind;
        if (r[i].len == 0)
            continue;
        xh_frames_of(b, r[i].off, r[i].off + r[i].len, &first, &behind);
        if (k && first >= begun && first < done)
            first = done < behind ? done : behind;
        if (first < behind) {
            out[k] = (struct xh_range){b->table.at[first], xh_frames_len(b, first, behind)};
            *packed += out[k++].len;
            begun = first;
            done = behind;
        }
        if (k)
            of[k - 1] = i + 1;
    }
    return k;
}

int xh_compressed_map(struct xh_file *f, const struct xh_range *r, size_t n, struct xh_packed_view *v)
{
    struct xh_compressed *b = f->compressed;
    uint64_t packed = 0;
    *v = (struct xh_packed_view){.file = b->file, .r = malloc(n * sizeof *v->r), .of = malloc(n * sizeof *v->of)};
    if (v->r && v->of)
        v->n = packed_ranges(b, r, n, v->r, v->of, &packed);
    if (v->n && xh_policy_takes_packed(packed, xh_ranges_bytes(r, n)))
        return 1;
    xh_compressed_unmap(v);
    return 0;
}

void xh_compressed_unmap(struct xh_packed_view *v)
{
    free(v->r);
    free(v->of);
}
