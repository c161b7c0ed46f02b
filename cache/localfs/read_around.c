/* The reach of a read: see read_around.h. */
#include "read_around.h"

#include "base/files.h"

#define VAIN_MOST 3 /* reads without a hit before the reach shrinks */

void xh_read_around_begin(struct xh_read_around *r, int fd, uint64_t file_bytes)
{
    *r = (struct xh_read_around){.fd = fd, .bytes = file_bytes <= XH_READ_AROUND_MOST ? XH_READ_AROUND_MOST
                                                                                       : XH_READ_AROUND_FIRST};
}

int xh_read_around_is_bulk(int raw, size_t size)
{
    return size >= (raw ? XH_READ_AROUND_FIRST : XH_READ_AROUND_MOST);
}

ssize_t xh_read_around_file(struct xh_read_around *r, uint64_t off, size_t len, void *buf)
{
    ssize_t got = xh_read_at(r->fd, buf, len, off);
    r->reads++;
    r->read_bytes += got > 0 ? (uint64_t)got : 0;
    return got;
}

void xh_read_around_hit(struct xh_read_around *r)
{
    r->hits++;
}

void xh_read_around_around(const struct xh_read_around *r, uint64_t off, uint64_t len, uint64_t end, uint64_t *lo,
                           uint64_t *hi)
{
    uint64_t last = off < end && len <= end - off ? off + len : end;
    *lo = off < end ? off - off % r->bytes : end;
    *hi = *lo + r->bytes;
    *hi = *hi < last ? last : *hi;
    *hi = *hi > end ? end : *hi;
}

void xh_read_around_learn(struct xh_read_around *r)
{
    r->vain = r->hits ? 0 : r->vain + 1;
    if (r->hits && r->bytes < XH_READ_AROUND_MOST)
        r->bytes *= 2;
    if (r->vain > VAIN_MOST && r->bytes > XH_READ_AROUND_LEAST) {
        r->bytes /= 2;
        r->vain = 0;
    }
    r->hits = 0;
}
