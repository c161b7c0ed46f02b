/* The image of a file that is being written: see write_buffer.h. */
#include "write_buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hdf5.h"
#include "base/table.h"
#include "watch/trace.h"

#define BLOCK_BYTES 65536u      /* of the image; gaps up to this size are written again to join two writes */
#define PIECES 256              /* most pieces of one system call */

enum state { ABSENT, CLEAN, RAW, META };

struct xh_write_buffer_block {
    uint64_t at;           /* a multiple of BLOCK_BYTES */
    uint32_t lo, hi;       /* all dirty bytes are within [lo, hi) */
    uint32_t from, to;     /* all bytes that are not absent are within [from, to) */
    uint8_t state[BLOCK_BYTES];
    uint8_t data[BLOCK_BYTES];
};

void xh_write_buffer_begin(struct xh_write_buffer *h, int fd, uint64_t size, uint64_t budget_bytes)
{
    *h = (struct xh_write_buffer){.budget_bytes = budget_bytes, .disk = size, .eof = size, .settled = size,
                          .super_at = UINT64_MAX};
    xh_read_around_begin(&h->reach, fd, size);
}

void xh_write_buffer_end(struct xh_write_buffer *h)
{
    for (size_t i = 0; i < h->n; i++)
        free(h->block[i]);
    free(h->block);
    free(h->buf);
    h->block = NULL;
    h->buf = NULL;
    h->n = h->room = 0;
}

/* ---- the file ---- */

/* Writes |n| adjacent pieces at |addr|. Returns 0 or -1. */
static int file_write(struct xh_write_buffer *h, uint64_t addr, struct iovec *v, size_t n)
{
    while (n > 0) {
        ssize_t k = xh_retry(pwritev(h->reach.fd, v, (int)n, (off_t)addr));
        if (k == 0)
            errno = ENOSPC;
        if (k <= 0)
            return -1;
        h->writes++;
        h->written_bytes += (uint64_t)k;
        addr += (uint64_t)k;
        h->disk = addr > h->disk ? addr : h->disk;
        for (size_t left = (size_t)k; n > 0 && left >= v->iov_len; v++, n--)
            left -= v->iov_len, k -= (ssize_t)v->iov_len;
        if (n > 0) {
            v->iov_base = (char *)v->iov_base + k;
            v->iov_len -= (size_t)k;
        }
    }
    return 0;
}

/* ---- blocks ---- */

static void no_dirt(struct xh_write_buffer_block *b)
{
    b->lo = BLOCK_BYTES;
    b->hi = 0;
}

/* Returns the index of the first block that ends behind |addr|. */
static size_t block_from(const struct xh_write_buffer *h, uint64_t addr)
{
    return xh_count_before(i, h->n, h->block[i]->at + BLOCK_BYTES <= addr);
}

/* Returns the block that holds |addr|; creates it if |make|. NULL: there is none, or no memory. */
static struct xh_write_buffer_block *block_at(struct xh_write_buffer *h, uint64_t addr, int make)
{
    size_t i = block_from(h, addr);
    if (i < h->n && h->block[i]->at <= addr)
        return h->block[i];
    if (!make)
        return NULL;
    if (xh_grow(h->block, h->room, h->n + 1))
        return NULL;
    struct xh_write_buffer_block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->at = addr - addr % BLOCK_BYTES;
    no_dirt(b);
    b->from = BLOCK_BYTES;
    memmove(h->block + i + 1, h->block + i, (h->n - i) * sizeof *h->block);
    h->block[i] = b;
    h->n++;
    return b;
}

static void now_has(struct xh_write_buffer_block *b, size_t at, size_t len)
{
    b->from = at < b->from ? (uint32_t)at : b->from;
    b->to = at + len > b->to ? (uint32_t)(at + len) : b->to;
}

/* Returns how many of the |size| bytes at |addr| are in |addr|'s block. */
static size_t within(uint64_t addr, size_t size)
{
    size_t left = BLOCK_BYTES - (size_t)(addr % BLOCK_BYTES);
    return size < left ? size : left;
}

/* Returns how many of the |n| states at |s|, from the first on, equal the first. */
static size_t alike(const uint8_t *s, size_t n)
{
    uint64_t same, eight;
    size_t i = 0;
    memset(&same, s[0], sizeof same);
    for (; n - i >= sizeof eight; i += sizeof eight) {
        memcpy(&eight, s + i, sizeof eight);
        if (eight != same)
            break;
    }
    while (i < n && s[i] == s[0])
        i++;
    return i;
}

/* Returns 1 when a byte of [addr, addr+size) is absent. */
static int lacks(struct xh_write_buffer *h, uint64_t addr, size_t size)
{
    for (size_t now; size > 0; addr += now, size -= now) {
        now = within(addr, size);
        struct xh_write_buffer_block *b = block_at(h, addr, 0);
        if (!b || memchr(b->state + addr % BLOCK_BYTES, ABSENT, now))
            return 1;
    }
    return 0;
}

/* Copies to |buf| the bytes of [addr, addr+size) whose state is at least |least|. */
static void lay_over(struct xh_write_buffer *h, uint64_t addr, size_t size, uint8_t *buf, enum state least)
{
    for (size_t now; size > 0; addr += now, size -= now, buf += now) {
        now = within(addr, size);
        struct xh_write_buffer_block *b = block_at(h, addr, 0);
        size_t at = addr % BLOCK_BYTES;
        for (size_t i = 0, run; b && i < now; i += run) {
            run = alike(b->state + at + i, now - i);
            if (b->state[at + i] >= least)
                memcpy(buf + i, b->data + at + i, run);
        }
    }
}

/* Makes the bytes absent: the file has them now, or they are beyond its new end. */
static void forget(struct xh_write_buffer *h, uint64_t addr, uint64_t size)
{
    uint64_t end = size > UINT64_MAX - addr ? UINT64_MAX : addr + size;
    for (size_t i = block_from(h, addr); i < h->n && h->block[i]->at < end; i++) {
        struct xh_write_buffer_block *b = h->block[i];
        size_t from = addr > b->at ? (size_t)(addr - b->at) : 0;
        size_t to = end - b->at < BLOCK_BYTES ? (size_t)(end - b->at) : BLOCK_BYTES;
        from = from > b->from ? from : b->from;
        to = to < b->to ? to : b->to;
        if (from < to) /* else its memory need not be touched */
            memset(b->state + from, ABSENT, to - from);
    }
}

/* ---- writing back ---- */

/* A run of bytes that is gathered for one write. */
struct run {
    uint64_t at, end;
    size_t n;
    struct iovec v[PIECES];
    uint8_t *state[PIECES]; /* states of the bytes of each piece; NULL: no block holds them */
};

static int put_run(struct xh_write_buffer *h, struct run *r)
{
    struct iovec v[PIECES];
    memcpy(v, r->v, r->n * sizeof *v);
    if (r->n > 0 && file_write(h, r->at, v, r->n))
        return -1;
    for (size_t i = 0; i < r->n; i++)
        if (r->state[i])
            memset(r->state[i], CLEAN, r->v[i].iov_len);
    r->n = 0;
    return 0;
}

/* Appends a piece to the run. |state| NULL: no block holds its bytes. Returns 0, or -1 when the run is full. */
static int add_piece(struct run *r, uint8_t *data, uint8_t *state, size_t len)
{
    if (r->n > 0 && state && r->state[r->n - 1] && r->state[r->n - 1] + r->v[r->n - 1].iov_len == state) {
        r->v[r->n - 1].iov_len += len; /* adjacent in the same block, with another state */
    } else {
        if (r->n == PIECES)
            return -1;
        r->v[r->n] = (struct iovec){data, len};
        r->state[r->n++] = state;
    }
    r->end += len;
    return 0;
}

/* Extends the run, which is not empty, to |to|, so that one longer write replaces two. The bytes between are clean,
 * or they are absent and lie at or behind |void_from|, where the file has no bytes yet: then they are zeros. Returns
 * 0, or -1 with the run unchanged. */
static int bridge(struct xh_write_buffer *h, struct run *r, uint64_t to, uint64_t void_from)
{
    static uint8_t zeros[BLOCK_BYTES];
    const size_t n = r->n, last = r->v[n - 1].iov_len;
    const uint64_t end = r->end;
    if (to - r->end > BLOCK_BYTES)
        return -1;
    while (r->end < to) {
        struct xh_write_buffer_block *b = block_at(h, r->end, 0);
        size_t at = r->end % BLOCK_BYTES, len = within(r->end, (size_t)(to - r->end)), ok;
        if (b)
            len = alike(b->state + at, len);
        int clean = b && b->state[at] == CLEAN, absent = !b || b->state[at] == ABSENT;
        if (absent && b && r->end >= void_from)
            memset(b->data + at, 0, len), now_has(b, at, len);
        ok = (clean || (absent && r->end >= void_from)) &&
             add_piece(r, b ? b->data + at : zeros, b ? b->state + at : NULL, len) == 0;
        if (!ok) {
            r->n = n;
            r->v[n - 1].iov_len = last;
            r->end = end;
            return -1;
        }
    }
    return 0;
}

/* Writes, ascending, the dirty bytes of [from, to) whose state is from |least| to |most|. Bytes between them are
 * written again where no other process can have written them: behind the settled end, or under a lock. Returns 0 or
 * -1. */
static int put_range(struct xh_write_buffer *h, uint64_t from, uint64_t to, enum state least, enum state most)
{
    struct run r = {.n = 0};
    uint64_t void_from = h->disk;
    int bridges = h->alone || from >= h->settled;
    for (size_t k = block_from(h, from); k < h->n && h->block[k]->at < to; k++) {
        struct xh_write_buffer_block *b = h->block[k];
        size_t i = from > b->at + b->lo ? (size_t)(from - b->at) : b->lo;
        size_t end = to - b->at < b->hi ? (size_t)(to - b->at) : b->hi;
        for (size_t len; i < end; i += len) {
            len = alike(b->state + i, end - i);
            if (b->state[i] < least || b->state[i] > most)
                continue;
            uint64_t at = b->at + i;
            if (r.n > 0 && ((at != r.end && !(bridges && bridge(h, &r, at, void_from) == 0)) ||
                            add_piece(&r, b->data + i, b->state + i, len))) {
                if (put_run(h, &r))
                    return -1;
            }
            if (r.n == 0) {
                r.at = r.end = at;
                add_piece(&r, b->data + i, b->state + i, len);
            }
        }
    }
    return put_run(h, &r);
}

/* Does the same, but leaves out the superblock. */
static int put_but_super(struct xh_write_buffer *h, uint64_t from, uint64_t to, enum state least, enum state most)
{
    uint64_t lo = h->super_at, hi = h->super_at + XH_HDF5_SUPERBLOCK_BYTES;
    if (lo == UINT64_MAX || hi <= from || lo >= to)
        return put_range(h, from, to, least, most);
    return (from < lo && put_range(h, from, lo, least, most)) ||
                   (hi < to && put_range(h, hi, to, least, most))
               ? -1
               : 0;
}

static int put_fresh(struct xh_write_buffer *h)
{
    if (put_but_super(h, h->settled, UINT64_MAX, RAW, META))
        return -1;
    h->fresh_bytes = 0;
    for (size_t i = block_from(h, h->settled); i < h->n; i++)
        if (h->block[i]->at >= h->settled &&
            (h->super_at == UINT64_MAX || h->block[i]->at + BLOCK_BYTES <= h->super_at ||
             h->block[i]->at >= h->super_at + XH_HDF5_SUPERBLOCK_BYTES))
            no_dirt(h->block[i]);
    return 0;
}

int xh_write_buffer_write_back(struct xh_write_buffer *h)
{
    uint64_t writes = h->writes, bytes = h->written_bytes;
    if (put_fresh(h))
        return -1;
    if (h->disk < h->eof) {
        if (ftruncate(h->reach.fd, (off_t)h->eof) < 0)
            return -1;
        h->disk = h->eof;
    }
    if (put_but_super(h, 0, h->settled, RAW, RAW) || put_but_super(h, 0, h->settled, META, META))
        return -1;
    if (h->super_at != UINT64_MAX && put_range(h, h->super_at, h->super_at + XH_HDF5_SUPERBLOCK_BYTES, RAW, META))
        return -1;
    for (size_t i = 0; i < h->n; i++)
        no_dirt(h->block[i]);
    h->settled = h->disk;
    if (h->writes != writes)
        xh_trace(XH_T_SHADOW, "written_back", "writes=%llu bytes=%llu", (unsigned long long)(h->writes - writes),
                 (unsigned long long)(h->written_bytes - bytes));
    return 0;
}

/* Ensures that |size| more bytes fit into the budget. Returns 0 or -1. */
static int make_room(struct xh_write_buffer *h, size_t size)
{
    size_t most = (size_t)(h->budget_bytes / sizeof **h->block), more = size / BLOCK_BYTES + 2, kept = 0;
    if (h->n + more <= most)
        return 0;
    for (int all = 0; all < 2; all++) {
        kept = 0;
        for (size_t i = 0; i < h->n; i++) {
            if (all || h->block[i]->lo >= h->block[i]->hi)
                free(h->block[i]);
            else
                h->block[kept++] = h->block[i];
        }
        h->n = kept;
        if (kept + more <= most / 2)
            break;
        if (!all && xh_write_buffer_write_back(h))
            return -1;
    }
    return 0;
}

/* ---- reading ---- */

/* Reads [addr, addr+size) and bytes around it from the file into the image. */
static int fetch(struct xh_write_buffer *h, uint64_t addr, size_t size)
{
    uint64_t lo, hi;
    ssize_t read;
    xh_read_around_around(&h->reach, addr, size, h->disk, &lo, &hi);
    if (!h->buf)
        h->buf = malloc(XH_READ_AROUND_BUFFER);
    if (!h->buf || (read = xh_read_around_file(&h->reach, lo, (size_t)(hi - lo), h->buf)) < 0)
        return -1;
    xh_read_around_learn(&h->reach);
    size_t got = (size_t)read;
    uint8_t *from = h->buf;
    for (size_t now; got > 0; lo += now, got -= now, from += now) {
        now = within(lo, got);
        struct xh_write_buffer_block *b = block_at(h, lo, 1);
        size_t at = lo % BLOCK_BYTES;
        for (size_t i = 0, run; b && i < now; i += run) {
            run = alike(b->state + at + i, now - i);
            if (b->state[at + i] != ABSENT)
                continue;
            memcpy(b->data + at + i, from + i, run);
            memset(b->state + at + i, CLEAN, run);
            now_has(b, at + i, run);
        }
    }
    return 0;
}

/* Reads from the file, without filling the image. Dirty and clean bytes of the image take precedence. */
static int read_through(struct xh_write_buffer *h, uint64_t addr, size_t size, void *buf)
{
    int there = addr < h->disk || h->through;
    ssize_t got = there ? xh_read_around_file(&h->reach, addr, size, buf) : 0;
    if (got < 0)
        return -1;
    memset((char *)buf + got, 0, size - (size_t)got);
    lay_over(h, addr, size, buf, RAW);
    return 0;
}

int xh_write_buffer_read(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, void *buf)
{
    if (h->through || xh_read_around_is_bulk(raw, size))
        return read_through(h, addr, size, buf);
    size_t there = addr >= h->disk ? 0 : size < h->disk - addr ? size : (size_t)(h->disk - addr);
    if (!lacks(h, addr, there))
        xh_read_around_hit(&h->reach);
    else if (make_room(h, XH_READ_AROUND_MOST) || fetch(h, addr, size) || lacks(h, addr, there))
        return read_through(h, addr, size, buf);
    if (lacks(h, addr, size))
        memset(buf, 0, size);
    lay_over(h, addr, size, buf, CLEAN);
    return 0;
}

/* ---- writing ---- */

/* Returns the flags of the superblock in |buf|, by which HDF5 tells others that the file is open; 0 when |buf| is no
 * superblock or has none. Notes the superblock's offset. */
static unsigned marks_of(struct xh_write_buffer *h, uint64_t addr, size_t size, const uint8_t *buf)
{
    if (size < 12 || !xh_hdf5_is_signed(buf))
        return 0;
    h->super_at = addr;
    return buf[8] == 3 ? buf[11] : 0;
}

static int write_through(struct xh_write_buffer *h, uint64_t addr, size_t size, const void *buf)
{
    struct iovec v = {(void *)(uintptr_t)buf, size};
    if (file_write(h, addr, &v, 1))
        return -1;
    forget(h, addr, size);
    h->eof = addr + size > h->eof ? addr + size : h->eof;
    return 0;
}

/* Writes into the image. Returns 0, or -1 without memory. */
static int hold(struct xh_write_buffer *h, enum state state, uint64_t addr, size_t size, const uint8_t *buf)
{
    if (addr + size > h->settled)
        h->fresh_bytes += size;
    for (size_t now; size > 0; addr += now, size -= now, buf += now) {
        struct xh_write_buffer_block *b = block_at(h, addr, 1);
        uint32_t at = (uint32_t)(addr % BLOCK_BYTES);
        if (!b)
            return -1;
        now = within(addr, size);
        memcpy(b->data + at, buf, now);
        memset(b->state + at, state, now);
        now_has(b, at, now);
        b->lo = at < b->lo ? at : b->lo;
        b->hi = at + (uint32_t)now > b->hi ? at + (uint32_t)now : b->hi;
    }
    h->eof = addr > h->eof ? addr : h->eof;
    return 0;
}

int xh_write_buffer_keep(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf)
{
    return hold(h, raw ? RAW : META, addr, size, buf);
}

/* Handles a superblock that lets readers follow (SWMR). They see only the file, so from now on nothing is held back. */
static int begin_swmr(struct xh_write_buffer *h, uint64_t addr, size_t size, const void *buf)
{
    if (xh_write_buffer_write_back(h))
        return -1;
    xh_write_buffer_end(h);
    h->through = 1;
    return write_through(h, addr, size, buf);
}

int xh_write_buffer_write(struct xh_write_buffer *h, int raw, uint64_t addr, size_t size, const void *buf)
{
    unsigned marks = raw ? 0 : marks_of(h, addr, size, buf);
    if ((marks & XH_HDF5_SWMR) && !h->through)
        return begin_swmr(h, addr, size, buf);
    if ((marks & XH_HDF5_WRITER) && !h->marked) { /* others must see it before anything changes */
        h->marked = 1;
        return write_through(h, addr, size, buf);
    }
    if (h->through || (raw && xh_read_around_is_bulk(raw, size)))
        return write_through(h, addr, size, buf);
    if (make_room(h, size))
        return -1;
    if (size > h->budget_bytes / 4 || hold(h, raw ? RAW : META, addr, size, buf))
        return write_through(h, addr, size, buf);
    return h->fresh_bytes > h->budget_bytes / 4 ? put_fresh(h) : 0;
}

int xh_write_buffer_truncate(struct xh_write_buffer *h, uint64_t size)
{
    h->eof = size;
    forget(h, size, UINT64_MAX - size);
    if (h->through && h->disk != size) {
        if (ftruncate(h->reach.fd, (off_t)size) < 0)
            return -1;
        h->disk = size;
    }
    if (size >= h->disk)
        return 0;
    if (xh_write_buffer_write_back(h) || ftruncate(h->reach.fd, (off_t)size) < 0)
        return -1;
    h->disk = size;
    h->settled = size < h->settled ? size : h->settled;
    return 0;
}
