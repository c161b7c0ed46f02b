/* One file's compressed copy: see pack.h.
 *
 * Threads take frames in turn; each thread reads and packs its frames. The caller writes them in order. Each frame ends
 * with a checksum of its unpacked bytes in four bytes: zstd's is the low half of XXH64, lz4's is XXH32. The tables have
 * the same checksums. */
#include "pack.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lz4frame.h>
#include <openssl/evp.h>
#include <zstd.h>

#include "../../cache/source/bytes.h"
#include "place.h"

/* A copy that packs less is not worth its space. Usually the file's own filters have compressed such a file already. */
#define WORTH_RATIO 1.1
/* A higher level or larger frames are chosen when they save this much more. */
#define WORTH_MORE 1.02
/* lz4 instead of zstd, if nothing was asked for. A reader's time for a byte of the file is 1 / (ratio * link) for the
 * transfer and 1 / (threads * unpacking) for the rest, or 1 / link where it reads the original. lz4 is chosen if zstd
 * takes so many times as long over |links| (their geometric mean): the speeds are measured, and a few per cent are
 * chance. */
#define LZ4_WINS 1.1
#define READER_THREADS 2.0
/* Each sample is unpacked this often, and the fastest time counts: the first one also fills the caches. */
#define UNPACKS 3
/* The trial takes one sample for each SAMPLE_EVERY bytes of the file, at most SAMPLES_MOST. A sample is a frame of the
 * larger size. */
#define SAMPLES_MOST 16u
#define SAMPLE_EVERY (UINT64_C(8) << 20)
/* A reader fetches the table before it uses the copy. So the table stays below 1 MiB if frames can be larger. */
#define TABLE_FRAMES (1u << 17)
#define SMALL_FRAME (128u << 10)
#define LARGER_BY 4u
#define THREADS_MOST 64
#define SLOTS_A_THREAD 4u

/* Public zstd seekable format: a skippable frame at the end, with a row for each frame. */
#define SEEK_MAGIC 0x184D2A5Eu
#define SEEK_END_MAGIC 0x8F92EAB1u
#define SEEK_ROW 12u
#define SEEK_AROUND (8u + 9u)
#define SEEK_HAS_SUMS 0x80u
#define SUM_OF_NOTHING 0x51D8E999u /* XXH64 of no bytes, the low half */

#define LEVELS 3
static const int levels[][LEVELS] = {[XH_PACKED_ZSTD] = {1, 3, 7}, [XH_PACKED_LZ4] = {1, 9, 12}};
static const char *const codecs[] = {[XH_PACKED_ZSTD] = "zstd", [XH_PACKED_LZ4] = "lz4"};
#define LINKS 2
static const double links[LINKS] = {0.125, 1.25}; /* bytes per ns: 1 and 10 Gbit/s */

struct way { /* how a file is packed */
    uint32_t codec, frame_bytes;
    int level;
    double ratio;
};

/* ---- the two libraries -------------------------------------------------------------------------- */

struct packer {
    struct way way;
    ZSTD_CCtx *zstd; /* NULL: lz4, which needs nothing beforehand */
};

static int packer_begin(struct packer *z, const struct way *w)
{
    *z = (struct packer){.way = *w};
    if (w->codec == XH_PACKED_LZ4)
        return 0;
    z->zstd = ZSTD_createCCtx();
    return z->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_compressionLevel, w->level)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_checksumFlag, 1))
               ? 0
               : -1;
}

static void packer_end(struct packer *z)
{
    ZSTD_freeCCtx(z->zstd);
}

/* lz4 unpacks a block straight to its place if that has room for a block of the largest size, so a frame is some whole
 * blocks. */
static LZ4F_preferences_t lz4_preferences(const struct way *w, size_t len)
{
    LZ4F_blockSizeID_t block = w->frame_bytes >= 4u << 20   ? LZ4F_max4MB
                               : w->frame_bytes >= 1u << 20 ? LZ4F_max1MB
                               : w->frame_bytes >= 256u << 10 ? LZ4F_max256KB
                                                              : LZ4F_max64KB;
    return (LZ4F_preferences_t){.frameInfo = {.blockSizeID = block,
                                              .contentChecksumFlag = LZ4F_contentChecksumEnabled,
                                              .contentSize = len},
                                .compressionLevel = w->level};
}

/* Packs |len| bytes at |raw|, at most a frame, to |out|, which has room for packed_room. Returns the bytes; 0:
 * failed. */
static size_t pack_frame(struct packer *z, const uint8_t *raw, size_t len, uint8_t *out, size_t room)
{
    if (z->zstd) {
        size_t n = ZSTD_compress2(z->zstd, out, room, raw, len);
        return ZSTD_isError(n) ? 0 : n;
    }
    LZ4F_preferences_t how = lz4_preferences(&z->way, len);
    size_t n = LZ4F_compressFrame(out, room, raw, len, &how);
    return LZ4F_isError(n) ? 0 : n;
}

static size_t packed_room(uint32_t frame_bytes)
{
    size_t zstd = ZSTD_compressBound(frame_bytes), lz4 = LZ4F_compressFrameBound(frame_bytes, NULL);
    return zstd > lz4 ? zstd : lz4;
}

/* ---- the trial ---------------------------------------------------------------------------------- */

struct samples {
    uint8_t *bytes, *packed;
    uint32_t len[SAMPLES_MOST]; /* sample i begins at i * |larger| */
    size_t n, room, all;
    uint32_t larger;
};

static int take_samples(int fd, uint64_t size, uint32_t larger, struct samples *s)
{
    uint64_t n = size / SAMPLE_EVERY;
    *s = (struct samples){.larger = larger, .n = n < 1 ? 1 : n > SAMPLES_MOST ? SAMPLES_MOST : (size_t)n};
    s->room = packed_room(larger);
    s->bytes = malloc(s->n * larger);
    s->packed = malloc(s->room);
    if (!s->bytes || !s->packed)
        return -1;
    /* in the middle of each part of the file: the file's beginning is no raw data */
    for (size_t i = 0; i < s->n; i++) {
        uint64_t part = size / s->n, off = part * i + (part > larger ? (part - larger) / 2 : 0);
        s->len[i] = size - off < larger ? (uint32_t)(size - off) : larger;
        s->all += s->len[i];
        if (xh_place_read(fd, s->bytes + i * larger, s->len[i], off) != 0)
            return -1;
    }
    return 0;
}

/* Returns the packed size of the samples, packed in the way |w|; 0 on an error. */
static size_t try_way(const struct samples *s, const struct way *w)
{
    struct packer z;
    size_t sum = 0, n = packer_begin(&z, w) == 0;
    for (size_t i = 0; n && i < s->n; i++)
        for (uint32_t at = 0; n && at < s->len[i]; at += w->frame_bytes) {
            uint32_t len = s->len[i] - at < w->frame_bytes ? s->len[i] - at : w->frame_bytes;
            n = pack_frame(&z, s->bytes + i * s->larger + at, len, s->packed, s->room);
            sum += n + XH_PACKED_ROW + (w->codec == XH_PACKED_ZSTD ? SEEK_ROW : 0);
        }
    packer_end(&z);
    return n ? sum : 0;
}

/* Chooses the lowest level of |codec| and the smallest frame that are not much worse than the best. */
static int choose_way(const struct samples *s, uint32_t codec, const uint32_t frame[2], struct way *out)
{
    *out = (struct way){0};
    for (size_t k = 0; k < 2; k++)
        for (size_t l = 0; l < LEVELS; l++) {
            struct way w = {codec, frame[k], levels[codec][l], 0};
            size_t packed = try_way(s, &w);
            w.ratio = packed ? (double)s->all / (double)packed : 0;
            if (!packed)
                return -1;
            if (w.ratio > WORTH_MORE * out->ratio)
                *out = w;
        }
    return 0;
}

/* This thread's processor time: what else runs on the machine is not in it. */
static uint64_t cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Unpacks the first frame of each sample, packed in the way |w|. Returns bytes per ns of one thread; 0 on an error. */
static double unpack_rate(const struct samples *s, const struct way *w)
{
    struct packer z;
    uint64_t at[2] = {0};
    uint32_t sum;
    struct xh_packed k = {.head = {.frames = 1, .frame_bytes = w->frame_bytes, .codec = w->codec}, .at = at,
                          .sum = &sum};
    struct xh_packed_tool *tool = xh_packed_tool(&k);
    uint8_t *out = malloc(w->frame_bytes);
    int ok = packer_begin(&z, w) == 0 && tool && out;
    double bytes = 0, ns = 0;
    for (size_t i = 0; ok && i < s->n; i++) {
        k.head.file_bytes = s->len[i] < w->frame_bytes ? s->len[i] : w->frame_bytes;
        at[1] = pack_frame(&z, s->bytes + i * s->larger, (size_t)k.head.file_bytes, s->packed, s->room);
        ok = at[1] != 0;
        sum = ok ? xh_get32(s->packed + at[1] - 4) : 0;
        uint64_t least = UINT64_MAX;
        for (int n = 0; ok && n < UNPACKS; n++) {
            uint64_t began = cpu_ns();
            ok = xh_packed_unpack(&k, 0, s->packed, tool, out) == 0;
            uint64_t took = cpu_ns() - began;
            least = took < least ? took : least;
        }
        bytes += (double)k.head.file_bytes;
        ns += (double)least;
    }
    packer_end(&z);
    xh_packed_tool_free(tool);
    free(out);
    return ok && ns > 0 ? bytes / ns : 0;
}

/* A reader's time for a byte of the file over |link|, by a copy of |ratio| that one thread unpacks at |rate|, or by the
 * original. */
static double ns_a_byte(double link, double ratio, double rate)
{
    double copy = 1 / (ratio * link) + 1 / (READER_THREADS * rate);
    return copy < 1 / link ? copy : 1 / link;
}

/* Chooses how the file is packed, by samples of it. |codec|: an XH_PACK_ of pack.h. */
static int choose(int fd, uint64_t size, int codec, struct way *out)
{
    struct samples s;
    struct way lz4;
    uint32_t small = SMALL_FRAME;
    while (size / small > TABLE_FRAMES && small < XH_PACKED_FRAME_MOST)
        small *= 2;
    uint32_t frame[2] = {small, small * LARGER_BY < XH_PACKED_FRAME_MOST ? small * LARGER_BY : XH_PACKED_FRAME_MOST};
    int rc = take_samples(fd, size, frame[1], &s);
    if (rc == 0)
        rc = choose_way(&s, codec == XH_PACK_AUTO ? XH_PACKED_ZSTD : (uint32_t)codec, frame, out);
    if (rc == 0 && codec == XH_PACK_AUTO && (rc = choose_way(&s, XH_PACKED_LZ4, frame, &lz4)) == 0 &&
        lz4.ratio >= WORTH_RATIO) {
        double zstd_rate = unpack_rate(&s, out), lz4_rate = unpack_rate(&s, &lz4), product = 1;
        for (size_t i = 0; i < LINKS; i++)
            product *= ns_a_byte(links[i], out->ratio, zstd_rate) / ns_a_byte(links[i], lz4.ratio, lz4_rate);
        if (zstd_rate > 0 && lz4_rate > 0 && pow(product, 1.0 / LINKS) > LZ4_WINS)
            *out = lz4;
    }
    free(s.bytes);
    free(s.packed);
    return rc;
}

/* ---- packing ------------------------------------------------------------------------------------ */

struct slot {
    uint8_t *packed;
    size_t len; /* 0: not filled yet */
};

struct press {
    /* Constant. */
    int fd;
    const struct xh_packed_head *h;
    const struct way *way;
    size_t nslots, room;
    _Atomic uint64_t *done;

    pthread_mutex_t lock; /* guards the rest, except a slot's bytes while a thread fills them */
    pthread_cond_t filled, freed;
    struct slot *slot;
    uint32_t next, written; /* frames taken by threads; frames written */
    int failed;             /* errno, or -1: packing failed or no memory */
};

static uint32_t len_of(const struct xh_packed_head *h, uint32_t i)
{
    uint64_t left = h->file_bytes - (uint64_t)i * h->frame_bytes;
    return left < h->frame_bytes ? (uint32_t)left : h->frame_bytes;
}

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
    struct packer z;
    uint8_t *raw = malloc(p->h->frame_bytes);
    int failed = packer_begin(&z, p->way) == 0 && raw ? 0 : -1;
    uint32_t i;
    pthread_mutex_lock(&p->lock);
    while (!failed && take_frame(p, &i)) {
        struct slot *s = &p->slot[i % p->nslots];
        uint32_t len = len_of(p->h, i);
        pthread_mutex_unlock(&p->lock);
        errno = 0; /* a file that became shorter sets no errno */
        size_t n = 0;
        if (xh_place_read(p->fd, raw, len, (uint64_t)i * p->h->frame_bytes) != 0)
            failed = errno ? errno : EIO;
        else if ((n = pack_frame(&z, raw, len, s->packed, p->room)) == 0)
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
    packer_end(&z);
    free(raw);
    return NULL;
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
        uint32_t sum = xh_get32(s->packed + len - 4);
        xh_packed_put_row(rows + (size_t)XH_PACKED_ROW * i, len, sum);
        xh_put32(seek + (size_t)SEEK_ROW * i, len);
        xh_put32(seek + (size_t)SEEK_ROW * i + 4, len_of(p->h, i));
        xh_put32(seek + (size_t)SEEK_ROW * i + 8, sum);
        *end += len;
        rc = xh_place_write(to, s->packed, len);
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
    p->room = packed_room(p->h->frame_bytes);
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
    return h->codec == XH_PACKED_ZSTD ? SEEK_AROUND + (size_t)SEEK_ROW * (h->frames + 1) : 0;
}

/* Fills the seek table around its rows. The first row is the header's frame; the other rows are filled already. */
static void finish_seek(uint8_t *seek, uint32_t frames)
{
    size_t rows = (size_t)SEEK_ROW * (frames + 1);
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
    if (xh_place_read(fd, start, n, 0) != 0 || EVP_Digest(start, n, sum, NULL, EVP_sha256(), NULL) != 1)
        return -1;
    memcpy(h->start_sha256, sum, sizeof h->start_sha256);
    return 0;
}

static int write_body(int fd, int to, struct xh_packed_head *h, const struct way *w, int threads,
                      _Atomic uint64_t *done, struct xh_baked *out)
{
    struct press p = {.fd = fd, .h = h, .way = w, .done = done};
    size_t before = (size_t)xh_packed_before(h->frames);
    uint8_t *head = malloc(before), *seek = malloc(SEEK_AROUND + (size_t)SEEK_ROW * (h->frames + 1));
    uint8_t *rows = head ? head + XH_PACKED_SKIPPABLE + XH_PACKED_HEADER : NULL;
    int rc = head && seek ? 0 : xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
    h->sidecar_bytes = before;
    if (rc == 0 && lseek(to, (off_t)before, SEEK_SET) < 0)
        rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be written: %s", strerror(errno));
    if (rc == 0)
        rc = press(&p, threads, to, rows, seek + 8 + SEEK_ROW, &h->sidecar_bytes, out);
    if (rc == 0) {
        finish_seek(seek, h->frames);
        h->sidecar_bytes += seek_bytes(h);
        if (EVP_Digest(rows, (size_t)XH_PACKED_ROW * h->frames, h->table_sha256, NULL, EVP_sha256(), NULL) != 1 ||
            digest_start(fd, h) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be read: %s", strerror(errno));
    }
    if (rc == 0) {
        xh_packed_put_head(h, head);
        if (xh_place_write(to, seek, seek_bytes(h)) != 0 || lseek(to, 0, SEEK_SET) < 0 ||
            xh_place_write(to, head, before) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be written: %s", strerror(errno));
    }
    free(head);
    free(seek);
    return rc;
}

/* ---- is it there? ------------------------------------------------------------------------------- */

struct body {
    int fd; /* -1: not open */
    struct xh_packed table;
    int read; /* 1: |table| is filled */
};

static void body_close(struct body *b)
{
    if (b->read)
        xh_packed_free(&b->table);
    if (b->fd >= 0)
        close(b->fd);
}

static const char *body_read(struct body *b)
{
    uint8_t head[XH_PACKED_SKIPPABLE + XH_PACKED_HEADER], *rows;
    struct xh_packed_head h;
    struct stat side;
    if (fstat(b->fd, &side) != 0 || !S_ISREG(side.st_mode) || xh_place_read(b->fd, head, sizeof head, 0) != 0)
        return "it is shorter than a header";
    const char *why = xh_packed_head(head, sizeof head, &h);
    if (why)
        return why;
    if (h.sidecar_bytes != (uint64_t)side.st_size)
        return "it is cut, or has grown";
    if (!(rows = malloc((size_t)XH_PACKED_ROW * h.frames)))
        return "there is no memory for it";
    why = xh_place_read(b->fd, rows, (size_t)XH_PACKED_ROW * h.frames, sizeof head)
              ? "it cannot be read"
              : xh_packed_read(&h, rows, &b->table);
    b->read = !why;
    free(rows);
    return why;
}

/* Opens the compressed copy and compares it with |st|. Sets |out| to FRESH, or to what is wrong. */
static void body_open(const struct xh_place *n, const struct stat *st, struct body *b, struct xh_baked *out)
{
    *b = (struct body){.fd = open(n->sidecar, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (b->fd < 0) {
        xh_baked_tell(out, errno == ENOENT ? XH_BAKED_NONE : XH_BAKED_FAILED, "%s", strerror(errno));
        return;
    }
    const char *why = body_read(b);
    const struct xh_packed_head *h = &b->table.head;
    if (why) {
        xh_baked_tell(out, XH_BAKED_STALE, "%s", why);
        return;
    }
    out->sidecar_bytes = h->sidecar_bytes;
    if (h->file_bytes != (uint64_t)st->st_size || h->mtime_s != st->st_mtim.tv_sec ||
        h->mtime_ns != (uint32_t)st->st_mtim.tv_nsec)
        xh_baked_tell(out, XH_BAKED_STALE, "the file was changed since");
    else
        out->as = XH_BAKED_FRESH;
}

/* 1 when the seek table at the end agrees with our table. */
static int seek_is_right(const struct body *b)
{
    const struct xh_packed *k = &b->table;
    assert(b->read && k->at && k->sum);
    uint32_t frames = k->head.frames;
    size_t n = seek_bytes(&k->head);
    uint8_t *want = malloc(n + 1), *is = malloc(n + 1);
    int right =
        want && is && k->head.sidecar_bytes - k->at[frames] == n && xh_place_read(b->fd, is, n, k->at[frames]) == 0;
    if (n == 0)
        goto end;
    for (uint32_t i = 0; right && i < frames; i++) {
        uint8_t *row = want + 8 + (size_t)SEEK_ROW * (i + 1);
        xh_put32(row, (uint32_t)(k->at[i + 1] - k->at[i]));
        xh_put32(row + 4, xh_packed_raw_len(k, i));
        xh_put32(row + 8, k->sum[i]);
    }
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
    size_t room = packed_room(k->head.frame_bytes) + 4;
    uint8_t *raw = malloc(k->head.frame_bytes), *unpacked = malloc(k->head.frame_bytes), *packed = malloc(room);
    struct xh_packed_tool *z = xh_packed_tool(k);
    int ready = raw && unpacked && packed && z;
    if (!ready)
        xh_baked_tell(out, XH_BAKED_FAILED, "out of memory");
    else if (!seek_is_right(b))
        xh_baked_tell(out, XH_BAKED_STALE, "the table at its end is damaged");
    for (uint32_t i = 0; ready && out->as == XH_BAKED_FRESH && i < k->head.frames; i++) {
        uint32_t len = xh_packed_raw_len(k, i);
        if (xh_place_read(fd, raw, len, (uint64_t)i * k->head.frame_bytes) != 0)
            xh_baked_tell(out, XH_BAKED_FAILED, "the file cannot be read: %s", strerror(errno));
        else if (xh_place_read(b->fd, packed, (size_t)(k->at[i + 1] - k->at[i]), k->at[i]) != 0 ||
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

/* ---- making, checking, removing ----------------------------------------------------------------- */

static void describe(struct xh_baked *out, const struct way *w)
{
    xh_baked_tell(out, XH_BAKED_MADE, "%s, level %d, in frames of %u KiB", codecs[w->codec], w->level,
                  w->frame_bytes >> 10);
}

static void make(const char *path, int fd, const struct xh_place *n, const struct stat *st, int codec, int dry,
                 int threads, _Atomic uint64_t *done, struct xh_baked *out)
{
    struct way w;
    uint64_t size = (uint64_t)st->st_size;
    if (size == 0)
        return xh_baked_tell(out, XH_BAKED_SKIPPED, "it is empty");
    if ((size - 1) / XH_PACKED_FRAME_MOST >= XH_PACKED_FRAMES_MOST)
        return xh_baked_tell(out, XH_BAKED_SKIPPED, "it is too large");
    if (choose(fd, size, codec, &w) != 0)
        return xh_baked_tell(out, XH_BAKED_FAILED, "it cannot be tried: %s", strerror(errno));
    if (w.ratio < WORTH_RATIO)
        return xh_baked_tell(
            out, XH_BAKED_SKIPPED,
            "samples of it pack %.2f times, less than %.1f: its own filters have packed it, or it is noise", w.ratio,
            WORTH_RATIO);
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
    if (wrote && (double)h.file_bytes < WORTH_RATIO * (double)h.sidecar_bytes)
        wrote = xh_baked_say(out, XH_BAKED_SKIPPED, "it packs less than %.1f times, though samples of it did not",
                             WORTH_RATIO) == 0;
    if (xh_place_done(n, to, st, wrote, out) == 0) {
        out->sidecar_bytes = h.sidecar_bytes;
        describe(out, &w);
    }
}

/* 1 when |b| is packed as |codec| asks for. */
static int is_packed_so(const struct body *b, int codec)
{
    return codec == XH_PACK_AUTO || (b->read && b->table.head.codec == (uint32_t)codec);
}

/* Makes the compressed copy of |path|, or checks it if |checks|. */
static void see_to(const char *path, int checks, int codec, int dry, int threads, _Atomic uint64_t *done,
                   struct xh_baked *out)
{
    struct xh_place n;
    struct stat st = {0};
    struct body b = {.fd = -1};
    out->body = 1;
    int fd = xh_place_of(path, XH_PACKED_SUFFIX, &n, &st, out);
    if (fd >= 0) {
        body_open(&n, &st, &b, out);
        if (checks && out->as == XH_BAKED_FRESH && b.read)
            compare(fd, &b, done, out);
        else if (!checks && (out->as != XH_BAKED_FRESH || dry || !is_packed_so(&b, codec)))
            make(path, fd, &n, &st, codec, dry, threads, done, out);
        body_close(&b);
        close(fd);
    }
    xh_place_free(&n);
}

void xh_pack(const char *path, int codec, int dry, int threads, _Atomic uint64_t *done, struct xh_baked *out)
{
    see_to(path, 0, codec, dry, threads, done, out);
}

void xh_pack_check(const char *path, _Atomic uint64_t *done, struct xh_baked *out)
{
    see_to(path, 1, XH_PACK_AUTO, 0, 0, done, out);
}

void xh_pack_remove(const char *path, struct xh_baked *out)
{
    out->body = 1;
    xh_place_remove(path, XH_PACKED_SUFFIX, out);
}
