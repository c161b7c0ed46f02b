/* What reads the disk cache of an open file: see disk.h. write_behind.c fills it. */
#include <stdlib.h>

#include "disk.h"
#include "impl.h"

#define COPY_PAGES 64u /* at once; as many as xh_shadow_read copies by one system call */

struct xh_disk *xh_disk_open(const char *url, const char *validator, uint64_t size, const struct xh_options *o)
{
    struct xh_options *on_disk = xh_shadow_on_disk_new(o);
    struct xh_disk *d = on_disk ? calloc(1, sizeof *d) : NULL;
    if (d && xh_shadow_open(url, validator, size, on_disk, &d->store, NULL)) {
        free(d);
        d = NULL;
    }
    free(on_disk);
    if (d) {
        d->size = size;
        d->refs = 1;
        xh_disk_start();
    }
    return d;
}

int xh_disk_has(struct xh_disk *d, uint64_t idx)
{
    return d && xh_shadow_peek(d->store, idx) == XH_CLAIM_READY;
}

int xh_disk_has_all(struct xh_disk *d, uint64_t off, uint64_t end)
{
    uint64_t first = off / XH_PAGE_BYTES;
    return d && (off >= end || xh_shadow_has(d->store, first, (end - 1) / XH_PAGE_BYTES - first + 1));
}

int xh_disk_read(struct xh_disk *d, const struct xh_extent *ext, size_t n)
{
    size_t i = 0;
    while (i < n && xh_disk_has_all(d, ext[i].off, ext[i].off + ext[i].len)) /* else the disk may be read in vain */
        i++;
    return d && i == n && xh_shadow_readv(d->store, ext, n) == n;
}

void xh_disk_copy(struct xh_disk *d, struct xh_shadow *from)
{
    uint8_t *buf = d && from ? malloc(COPY_PAGES * XH_PAGE_BYTES) : NULL;
    int meta, next_meta;
    uint64_t next = buf ? xh_shadow_next(from, 0, &next_meta) : UINT64_MAX;
    while (next != UINT64_MAX) {
        uint64_t first = next, off = first * XH_PAGE_BYTES, n = 0;
        meta = next_meta;
        while (n < COPY_PAGES && next == first + n && next_meta == meta && !xh_disk_has(d, next)) {
            n++;
            next = xh_shadow_next(from, next + 1, &next_meta);
        }
        if (n == 0) { /* the disk has it */
            next = xh_shadow_next(from, next + 1, &next_meta);
            continue;
        }
        size_t got = xh_shadow_read(from, off, buf, (size_t)(n * XH_PAGE_BYTES));
        xh_disk_write(d, off, buf, got, meta);
        if (got / XH_PAGE_BYTES + 1 < n) /* one was evicted meanwhile: on behind it */
            next = xh_shadow_next(from, first + got / XH_PAGE_BYTES + 1, &next_meta);
    }
    free(buf);
}

void xh_disk_hint_save(struct xh_disk *d, const char *text)
{
    if (d)
        xh_shadow_hint_save(d->store, text);
}

void xh_disk_stats(const struct xh_disk *d, struct xh_stats *out)
{
    out->bytes_disk_stored += d ? atomic_load_explicit(&d->stored, memory_order_relaxed) : 0;
    out->bytes_disk_passed += d ? atomic_load_explicit(&d->passed, memory_order_relaxed) : 0;
}
