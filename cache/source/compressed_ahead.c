/* Reading ahead through a body: what is expected of the original, said of the packed bytes. See compressed.h. */
#include "compressed.h"
#include "compressed_impl.h"

#include <stdlib.h>

#include "pages/fetch.h"
#include "stream/stage.h"
#include "stream/stream.h"

/* Where the original ends whose packed bytes are all before |at|. */
static uint64_t original_of(const struct xh_compressed *b, uint64_t at)
{
    const struct xh_packed *t = &b->table;
    uint32_t lo = 0, hi = t->head.frames; /* at[lo] <= at */
    if (at < t->at[0])
        return 0;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        if (t->at[mid] <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    uint64_t off = (uint64_t)lo * t->head.frame_bytes;
    return off < b->size ? off : b->size;
}

static struct xh_range packed_of(const struct xh_compressed *b, uint64_t off, uint64_t end)
{
    uint32_t first, behind;
    xh_frames_of(b, off, end, &first, &behind);
    return (struct xh_range){b->table.at[first], xh_frames_len(b, first, behind)};
}

uint64_t xh_compressed_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end)
{
    struct xh_compressed *b = f->compressed;
    uint64_t end = r.off + r.len, whole = b->table.head.frame_bytes, off = xh_stage_until(f, r.off);
    if (off == r.off) /* the frame that a read has ended in was fetched for it */
        off = (off + whole - 1) / whole * whole;
    if (off >= end)
        return off < b->size ? off : b->size;
    struct xh_range near = packed_of(b, off, end);
    uint64_t last = stream_end > off ? stream_end : 0;
    uint64_t far = last ? packed_of(b, last - 1, last).off + packed_of(b, last - 1, last).len : 0;
    uint64_t seen = original_of(b, b->files->stretch(b->file, near, far));
    uint64_t most = last > end ? last : end;
    seen = seen < most ? seen : most;
    return seen > r.off ? seen : r.off;
}

uint64_t xh_compressed_lead(struct xh_file *f, uint64_t off, uint64_t end)
{
    struct xh_compressed *b = f->compressed;
    if (end <= off)
        return off;
    struct xh_range r = packed_of(b, off, end);
    uint64_t seen = original_of(b, b->files->lead(b->file, r.off, r.off + r.len));
    seen = seen < end ? seen : end;
    return seen > off ? seen : off;
}

/* Turns the ranges into packed ones, each frame once; |of|[k] is how many ranges the first k + 1 of them are good for.
 * Returns their number. */
static size_t packed_ranges(const struct xh_compressed *b, const struct xh_range *r, size_t n, struct xh_range *out, size_t *of,
                            uint64_t *packed)
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

size_t xh_compressed_ahead(struct xh_file *f, const struct xh_range *r, size_t n, int *taken)
{
    struct xh_compressed *b = f->compressed;
    struct xh_range *out = malloc(n * sizeof *out);
    size_t *of = malloc(n * sizeof *of), k = 0, seen = 0;
    uint64_t plain = 0, packed = 0;
    for (size_t i = 0; i < n; i++)
        plain += r[i].len;
    if (out && of)
        k = packed_ranges(b, r, n, out, of, &packed);
    *taken = k && packed <= plain;
    if (*taken) {
        seen = b->files->schedule(b->file, out, k, XH_KIND_RAW);
        seen = seen ? of[seen - 1] : 0;
    }
    free(out);
    free(of);
    return seen;
}

int xh_compressed_reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    struct xh_compressed *b = f->compressed;
    if (!xh_compressed_used(b) || end == 0)
        return 0;
    struct xh_range last = packed_of(b, end - 1, end);
    return xh_stage_reach(b->file, last.off + last.len, window);
}

void xh_compressed_recall(struct xh_file *f)
{
    if (!xh_compressed_used(f->compressed))
        return;
    xh_fetch_recall(f->compressed->file);
    xh_stage_recall(f->compressed->file);
}
