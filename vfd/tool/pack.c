/* One file's compressed copy: see pack.h.
 *
 * Threads take frames in turn; each thread reads and packs its frames. The caller writes them in order. Each frame ends
 * with a checksum of its unpacked bytes in four bytes: zstd's is the low half of XXH64, lz4's is XXH32. The tables have
 * the same checksums. */
#include "pack.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../cache/base/bytes.h"
#include "../../cache/base/files.h"
#include "../../cache/base/sha256.h"
#include "place.h"

#define THREADS_MOST 64
#define SLOTS_A_THREAD 4u

/* Public zstd seekable format: a skippable frame at the end, with a row for each frame. */
#define SEEK_MAGIC 0x184D2A5Eu
#define SEEK_END_MAGIC 0x8F92EAB1u
#define SEEK_AROUND (8u + 9u)
#define SEEK_HAS_SUMS 0x80u
#define SUM_OF_NOTHING 0x51D8E999u /* XXH64 of no bytes, the low half */

/* ---- packing ------------------------------------------------------------------------------------ */

struct slot {
    uint8_t *packed;
    size_t len; /* 0: not filled yet */
};

struct press {
    /* Constant. */
    int fd;
    const struct xh_packed_head *h;
    const struct xh_pack_way *way;
    size_t nslots, room;
    _Atomic uint64_t *done;

    pthread_mutex_t lock; /* guards the rest, except a slot's bytes while a thread fills them */
    pthread_cond_t filled, freed;
    struct slot *slot;
    uint32_t next, written; /* frames taken by threads; frames written */
    int failed;             /* errno, or -1: packing failed or no memory */
};

/* Takes the next frame for a thread; waits for a free slot. Returns 0 when there is none. The caller holds the lock. */
static int take_frame(struct press *p, uint32_t *i)
{
    while (!p->failed && p->next < p->h->frames && p->next - p->written >= p->nslots)
        pthread_cond_wait(&p->freed, &p->lock);
    if (p->failed || p->next >= p->h->frames)
        return 0;
    *i = p->next++;
    return 1;
}

static void *press_frames(void *ctx)
{
    struct press *p = ctx;
    struct xh_packer z;
    uint8_t *raw = malloc(p->h->frame_bytes);
    int failed = xh_packer_begin(&z, p->way) == 0 && raw ? 0 : -1;
    uint32_t i;
    pthread_mutex_lock(&p->lock);
    while (!failed && take_frame(p, &i)) {
        struct slot *s = &p->slot[i % p->nslots];
        uint32_t len = xh_packed_raw_len(p->h, i);
        pthread_mutex_unlock(&p->lock);
        size_t n = 0;
        if (xh_read_full(p->fd, raw, len, (uint64_t)i * p->h->frame_bytes) != 0)
            failed = errno;
        else if ((n = xh_packer_pack(&z, raw, len, s->packed, p->room)) == 0)
            failed = -1;
        atomic_fetch_add_explicit(p->done, len, memory_order_relaxed);
        pthread_mutex_lock(&p->lock);
        s->len = failed ? 0 : n;
        pthread_cond_broadcast(&p->filled);
    }
    p->failed = failed ? failed : p->failed;
    pthread_cond_broadcast(&p->filled);
    pthread_cond_broadcast(&p->freed);
    pthread_mutex_unlock(&p->lock);
    xh_packer_end(&z);
    free(raw);
    return NULL;
}

static void put_seek_row(uint8_t *row, const struct xh_packed_head *h, uint32_t i, uint32_t len, uint32_t sum)
{
    xh_put32(row, len);
    xh_put32(row + 4, xh_packed_raw_len(h, i));
    xh_put32(row + 8, sum);
}

/* Writes the frames in order, and adds each to both tables. Returns 0 or -1. */
static int write_frames(struct press *p, int to, uint8_t *rows, uint8_t *seek, uint64_t *end)
{
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    while (!p->failed && p->written < p->h->frames) {
        struct slot *s = &p->slot[p->written % p->nslots];
        if (s->len == 0) {
            pthread_cond_wait(&p->filled, &p->lock);
            continue;
        }
        uint32_t i = p->written, len = (uint32_t)s->len;
        pthread_mutex_unlock(&p->lock);
        uint32_t sum = (uint32_t)xh_le(s->packed + len - 4, 4);
        xh_packed_put_row(rows + (size_t)XH_PACKED_ROW * i, len, sum);
        put_seek_row(seek + (size_t)XH_PACK_SEEK_ROW * i, p->h, i, len, sum);
        *end += len;
        rc = xh_write(to, s->packed, len);
        pthread_mutex_lock(&p->lock);
        s->len = 0;
        p->written++;
        p->failed = rc ? errno : p->failed;
        pthread_cond_broadcast(&p->freed);
    }
    rc = p->failed ? -1 : 0;
    pthread_mutex_unlock(&p->lock);
    return rc;
}

static void press_end(struct press *p)
{
    for (size_t i = 0; p->slot && i < p->nslots; i++)
        free(p->slot[i].packed);
    free(p->slot);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->filled);
    pthread_cond_destroy(&p->freed);
}

static int press_begin(struct press *p, int threads)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->filled, NULL);
    pthread_cond_init(&p->freed, NULL);
    p->nslots = SLOTS_A_THREAD * (size_t)threads;
    p->room = xh_packer_room(p->h->frame_bytes);
    p->slot = calloc(p->nslots, sizeof *p->slot);
    for (size_t i = 0; p->slot && i < p->nslots; i++)
        if (!(p->slot[i].packed = malloc(p->room)))
            return -1;
    return p->slot ? 0 : -1;
}

/* Packs all frames into |to|. Returns 0, or -1 with |out| set. */
static int press(struct press *p, int threads, int to, uint8_t *rows, uint8_t *seek, uint64_t *end,
                 struct xh_baked *out)
{
    pthread_t t[THREADS_MOST];
    int began = 0;
    threads = threads < 1 ? 1 : threads > THREADS_MOST ? THREADS_MOST : threads;
    int rc = press_begin(p, threads);
    while (rc == 0 && began < threads && pthread_create(&t[began], NULL, press_frames, p) == 0)
        began++;
    if (rc || began == 0)
        rc = -1;
    else
        rc = write_frames(p, to, rows, seek, end);
    for (int i = 0; i < began; i++)
        pthread_join(t[i], NULL);
    if (rc)
        xh_baked_tell(out, XH_BAKED_FAILED, "it cannot be packed: %s",
                      p->failed > 0 ? strerror(p->failed) : "out of memory");
    press_end(p);
    return rc;
}

/* ---- the file ----------------------------------------------------------------------------------- */

/* Returns the size of the seek table, which only zstd's format has. */
static size_t seek_bytes(const struct xh_packed_head *h)
{
    return h->codec == XH_PACKED_ZSTD ? SEEK_AROUND + (size_t)XH_PACK_SEEK_ROW * (h->frames + 1) : 0;
}

/* Fills the seek table around its rows. The first row is the header's frame; the other rows are filled already. */
static void finish_seek(uint8_t *seek, uint32_t frames)
{
    size_t rows = (size_t)XH_PACK_SEEK_ROW * (frames + 1);
    xh_put32(seek, SEEK_MAGIC);
    xh_put32(seek + 4, (uint32_t)(rows + 9));
    xh_put32(seek + 8, (uint32_t)xh_packed_before(frames));
    xh_put32(seek + 12, 0);
    xh_put32(seek + 16, SUM_OF_NOTHING);
    uint8_t *end = seek + 8 + rows;
    xh_put32(end, frames + 1);
    end[4] = SEEK_HAS_SUMS;
    xh_put32(end + 5, SEEK_END_MAGIC);
}

static int digest_start(int fd, struct xh_packed_head *h)
{
    uint8_t start[XH_PACKED_START_BYTES], sum[32];
    size_t n = h->file_bytes < sizeof start ? (size_t)h->file_bytes : sizeof start;
    if (xh_read_full(fd, start, n, 0) != 0 || !xh_sha256(start, n, sum))
        return -1;
    memcpy(h->start_sha256, sum, sizeof h->start_sha256);
    return 0;
}

static int write_body(int fd, int to, struct xh_packed_head *h, const struct xh_pack_way *w, int threads,
                      _Atomic uint64_t *done, struct xh_baked *out)
{
    struct press p = {.fd = fd, .h = h, .way = w, .done = done};
    size_t before = (size_t)xh_packed_before(h->frames);
    uint8_t *head = malloc(before), *seek = malloc(SEEK_AROUND + (size_t)XH_PACK_SEEK_ROW * (h->frames + 1));
    uint8_t *rows = head ? head + XH_PACKED_SKIPPABLE + XH_PACKED_HEADER : NULL;
    int rc = head && seek ? 0 : xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
    h->sidecar_bytes = before;
    if (rc == 0 && lseek(to, (off_t)before, SEEK_SET) < 0)
        rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be written: %s", strerror(errno));
    if (rc == 0)
        rc = press(&p, threads, to, rows, seek + 8 + XH_PACK_SEEK_ROW, &h->sidecar_bytes, out);
    if (rc == 0) {
        finish_seek(seek, h->frames);
        h->sidecar_bytes += seek_bytes(h);
        if (!xh_sha256(rows, (size_t)XH_PACKED_ROW * h->frames, h->table_sha256) ||
            digest_start(fd, h) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be read: %s", strerror(errno));
    }
    if (rc == 0) {
        xh_packed_put_head(h, head);
        if (xh_write(to, seek, seek_bytes(h)) != 0 || lseek(to, 0, SEEK_SET) < 0 ||
            xh_write(to, head, before) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be written: %s", strerror(errno));
    }
    free(head);
    free(seek);
    return rc;
}

/* ---- is it there? ------------------------------------------------------------------------------- */

struct body {
    int fd; /* -1: not open */
    struct xh_packed table; /* empty: it could not be read */
};

static void body_close(struct body *b)
{
    xh_packed_free(&b->table);
    if (b->fd >= 0)
        close(b->fd);
}

static const char *body_read(struct body *b, const uint8_t *head, size_t len, uint64_t bytes)
{
    struct xh_packed_head h;
    uint8_t *rows;
    const char *why = xh_packed_head(head, len, &h);
    if (why)
        return why;
    if (h.sidecar_bytes != bytes)
        return "it is cut, or has grown";
    if (!(rows = malloc((size_t)XH_PACKED_ROW * h.frames)))
        return "there is no memory for it";
    why = xh_read_full(b->fd, rows, (size_t)XH_PACKED_ROW * h.frames, len) ? "it cannot be read"
                                                                           : xh_packed_read(&h, rows, &b->table);
    free(rows);
    return why;
}

/* Opens the compressed copy and compares it with |st|. Sets |out| to FRESH, or to what is wrong. */
static void body_open(const struct xh_place *n, const struct stat *st, struct body *b, struct xh_baked *out)
{
    uint8_t head[XH_PACKED_SKIPPABLE + XH_PACKED_HEADER];
    const struct xh_packed_head *h = &b->table.head;
    uint64_t bytes;
    *b = (struct body){.fd = xh_place_sidecar(n, head, sizeof head, &bytes, out)};
    if (b->fd < 0)
        return;
    const char *why = body_read(b, head, sizeof head, bytes);
    if (!why)
        out->sidecar_bytes = h->sidecar_bytes;
    xh_place_judge(why, h->file_bytes, h->mtime_s, h->mtime_ns, st, out);
}

/* 1 when the seek table at the end agrees with our table. */
static int seek_is_right(const struct body *b)
{
    const struct xh_packed *k = &b->table;
    assert(k->at && k->sum);
    uint32_t frames = k->head.frames;
    size_t n = seek_bytes(&k->head);
    uint8_t *want = malloc(n + 1), *is = malloc(n + 1);
    int right =
        want && is && k->head.sidecar_bytes - k->at[frames] == n && xh_read_full(b->fd, is, n, k->at[frames]) == 0;
    if (n == 0)
        goto end;
    for (uint32_t i = 0; right && i < frames; i++)
        put_seek_row(want + 8 + (size_t)XH_PACK_SEEK_ROW * (i + 1), &k->head, i, (uint32_t)(k->at[i + 1] - k->at[i]),
                     k->sum[i]);
    if (right) {
        finish_seek(want, frames);
        right = memcmp(want, is, n) == 0;
    }
end:
    free(want);
    free(is);
    return right;
}

/* Compares each frame with the original's bytes. */
static void compare(int fd, const struct body *b, _Atomic uint64_t *done, struct xh_baked *out)
{
    const struct xh_packed *k = &b->table;
    size_t room = xh_packer_room(k->head.frame_bytes) + 4;
    uint8_t *raw = malloc(k->head.frame_bytes), *unpacked = malloc(k->head.frame_bytes), *packed = malloc(room);
    struct xh_packed_tool *z = xh_packed_tool(k);
    int ready = raw && unpacked && packed && z;
    if (!ready)
        xh_baked_tell(out, XH_BAKED_FAILED, "out of memory");
    else if (!seek_is_right(b))
        xh_baked_tell(out, XH_BAKED_STALE, "the table at its end is damaged");
    for (uint32_t i = 0; ready && out->as == XH_BAKED_FRESH && i < k->head.frames; i++) {
        uint32_t len = xh_packed_raw_len(&k->head, i);
        if (xh_read_full(fd, raw, len, (uint64_t)i * k->head.frame_bytes) != 0)
            xh_baked_tell(out, XH_BAKED_FAILED, "the file cannot be read: %s", strerror(errno));
        else if (xh_read_full(b->fd, packed, (size_t)(k->at[i + 1] - k->at[i]), k->at[i]) != 0 ||
                 xh_packed_unpack(k, i, packed, z, unpacked) != 0)
            xh_baked_tell(out, XH_BAKED_STALE, "its frame %u is damaged", i);
        else if (memcmp(raw, unpacked, len) != 0)
            xh_baked_tell(out, XH_BAKED_STALE, "the file's bytes are different now, though its size and time are not");
        atomic_fetch_add_explicit(done, len, memory_order_relaxed);
    }
    xh_packed_tool_free(z);
    free(raw);
    free(unpacked);
    free(packed);
}

/* ---- making and checking ------------------------------------------------------------------------- */

static void describe(struct xh_baked *out, const struct xh_pack_way *w)
{
    xh_baked_tell(out, XH_BAKED_MADE, "%s, level %d, in frames of %u KiB", xh_pack_codec(w->codec), w->level,
                  w->frame_bytes >> 10);
}

static void make(const char *path, int fd, const struct xh_place *n, const struct stat *st, int codec, int dry,
                 int threads, _Atomic uint64_t *done, struct xh_baked *out)
{
    struct xh_pack_way w;
    uint64_t size = (uint64_t)st->st_size;
    if (size == 0)
        return xh_baked_tell(out, XH_BAKED_SKIPPED, "it is empty");
    if ((size - 1) / XH_PACKED_FRAME_MOST >= XH_PACKED_FRAMES_MOST)
        return xh_baked_tell(out, XH_BAKED_SKIPPED, "it is too large");
    if (xh_pack_choose(fd, size, codec, &w) != 0)
        return xh_baked_tell(out, XH_BAKED_FAILED, "it cannot be tried: %s", strerror(errno));
    if (w.ratio < XH_PACK_WORTH_RATIO)
        return xh_baked_tell(
            out, XH_BAKED_SKIPPED,
            "samples of it pack %.2f times, less than %.1f: its own filters have packed it, or it is noise", w.ratio,
            XH_PACK_WORTH_RATIO);
    out->sidecar_bytes = (uint64_t)((double)size / w.ratio);
    if (dry)
        return describe(out, &w);
    struct xh_packed_head h = {.file_bytes = size,
                               .mtime_s = st->st_mtim.tv_sec,
                               .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                               .codec = w.codec,
                               .frame_bytes = w.frame_bytes,
                               .frames = (uint32_t)((size - 1) / w.frame_bytes + 1)};
    int to = xh_place_part(n, out);
    if (to < 0)
        return;
    int wrote = write_body(fd, to, &h, &w, threads, done, out) == 0;
    if (wrote && xh_place_is_changed(path, st))
        wrote = xh_baked_say(out, XH_BAKED_FAILED, "it was changed while it was read") == 0;
    if (wrote && (double)h.file_bytes < XH_PACK_WORTH_RATIO * (double)h.sidecar_bytes)
        wrote = xh_baked_say(out, XH_BAKED_SKIPPED, "it packs less than %.1f times, though samples of it did not",
                             XH_PACK_WORTH_RATIO) == 0;
    if (xh_place_done(n, to, fd, st, wrote, out) == 0) {
        out->sidecar_bytes = h.sidecar_bytes;
        describe(out, &w);
    }
}

/* 1 when |b| is packed as |codec| asks for. */
static int is_packed_so(const struct body *b, int codec)
{
    return codec == XH_PACK_AUTO || (b->table.at && b->table.head.codec == (uint32_t)codec);
}

void xh_pack(const char *path, int checks, int codec, int dry, int threads, _Atomic uint64_t *done,
             struct xh_baked *out)
{
    struct xh_place n;
    struct stat st = {0};
    struct body b = {.fd = -1};
    int fd = xh_place_of(path, XH_PACKED_SUFFIX, &n, &st, out);
    if (fd >= 0) {
        body_open(&n, &st, &b, out);
        if (checks && out->as == XH_BAKED_FRESH && b.table.at)
            compare(fd, &b, done, out);
        else if (!checks && (out->as != XH_BAKED_FRESH || dry || !is_packed_so(&b, codec)) &&
                 (dry || xh_place_settle(&n, fd, &st, out) == 0))
            make(path, fd, &n, &st, codec, dry, threads, done, out);
        body_close(&b);
        close(fd);
    }
    xh_place_free(&n);
}
