/* Reading through a compressed copy: fetches the frames that cover what a read lacks, and unpacks them on other
 * threads. See compressed.h. */
#include "compressed.h"
#include "compressed_impl.h"

#include <stdlib.h>

#include "disk/disk.h"
#include "known.h"
#include "pages/fetch.h"
#include "source.h"
#include "stream/stage.h"

#define BATCH_BYTES (4u << 20) /* most packed bytes that are fetched together */
#define BATCH_FRAMES 64u       /* most frames that are fetched together, and that wait to be unpacked */
#define BAD_MOST 8u            /* a copy with more damaged frames is given up */

/* Calls for each frame of |runs| once, in ascending order. */
struct frames {
    const struct xh_compressed *b;
    const struct xh_runs *runs;
    size_t i;
    uint32_t next; /* no frame before it */
};

static int next_frame(struct frames *w, uint32_t *frame)
{
    for (; w->i < w->runs->n; w->i++) {
        uint64_t off = w->runs->at[w->i].first * XH_PAGE_BYTES, end = off + w->runs->at[w->i].count * XH_PAGE_BYTES;
        uint32_t first, behind;
        end = end < w->b->size ? end : w->b->size;
        xh_frames_of(w->b, off, end, &first, &behind);
        first = first > w->next ? first : w->next;
        if (first < behind) {
            *frame = first;
            w->next = first + 1;
            return 1;
        }
    }
    return 0;
}

static uint64_t bytes_in(const struct xh_runs *runs)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < runs->n; i++)
        pages += runs->at[i].count;
    return pages * XH_PAGE_BYTES;
}

/* 1 when the packed bytes at |off| are here, or on their way. */
static int is_coming(struct xh_compressed *b, uint64_t off)
{
    uint64_t page = off / XH_PAGE_BYTES;
    return xh_stage_has(b->file, off) || xh_shadow_peek(b->file->shadow, page) != XH_CLAIM_MINE ||
           xh_disk_has(b->file->disk, page);
}

/* Whether the frames that cover |runs| are fewer bytes than these, or here in part. */
static int is_smaller(struct xh_compressed *b, const struct xh_runs *runs)
{
    struct frames w = {.b = b, .runs = runs};
    uint64_t packed = 0;
    uint32_t frame;
    while (next_frame(&w, &frame))
        if (!xh_unpack_keeps(&b->unpacker, frame) && !is_coming(b, b->table.at[frame]))
            packed += xh_frames_len(b, frame, frame + 1);
    return xh_policy_takes_packed(packed, bytes_in(runs));
}

/* Finds the next frames that are not here unpacked, and hands on those that are. Returns how many, in |frame|. */
static size_t next_batch(struct xh_compressed *b, struct xh_unpacking *of, struct frames *w,
                         uint32_t frame[BATCH_FRAMES], uint64_t *bytes)
{
    size_t n = 0;
    uint32_t i;
    for (*bytes = 0; n < BATCH_FRAMES && *bytes < BATCH_BYTES && next_frame(w, &i);)
        if (!xh_unpack_kept(&b->unpacker, of, i)) {
            frame[n++] = i;
            *bytes += xh_frames_len(b, i, i + 1);
        }
    return n;
}

/* Fetches the |n| frames and has them unpacked. Returns how many were begun: the others are to be read from the
 * original. */
static size_t start_batch(struct xh_compressed *b, struct xh_unpacking *of, const uint32_t *frame, size_t n,
                          uint64_t bytes)
{
    struct xh_file *f = of->op->f;
    struct xh_extent ext[BATCH_FRAMES];
    struct xh_batch *batch = malloc(sizeof *batch);
    size_t next = 0, done = 0;
    uint64_t at = 0;
    if (!batch || !(batch->bytes = malloc(bytes))) {
        free(batch);
        return 0;
    }
    atomic_init(&batch->left, 1);
    for (size_t i = 0; i < n; i++) {
        uint64_t len = xh_frames_len(b, frame[i], frame[i] + 1);
        if (next && ext[next - 1].off + ext[next - 1].len == b->table.at[frame[i]])
            ext[next - 1].len += len;
        else
            ext[next++] = (struct xh_extent){b->table.at[frame[i]], len, batch->bytes + at};
        at += len;
    }
    uint64_t entered = xh_account_enter(f->account, XH_NETWORK);
    int rc = b->files->read(b->file, XH_KIND_RAW, ext, next, NULL);
    of->op->served.waited_ns += xh_account_leave(f->account, XH_NETWORK, entered);
    if (rc)
        xh_compressed_give_up(b, "it could not be fetched whole");
    for (at = 0; rc == 0 && done < n; at += xh_frames_len(b, frame[done], frame[done] + 1), done++)
        if (xh_unpack_start(&b->unpacker, of, batch, batch->bytes + at, frame[done]))
            break;
    xh_batch_leave(batch);
    return done;
}

static int fetch_all(struct xh_compressed *b, struct xh_unpacking *of, struct xh_runs *rest)
{
    struct frames w = {.b = b, .runs = of->runs};
    uint32_t frame[BATCH_FRAMES];
    uint64_t bytes;
    int rc = 0;
    for (size_t n; (n = next_batch(b, of, &w, frame, &bytes)) != 0;) {
        size_t done = xh_compressed_used(b) ? start_batch(b, of, frame, n, bytes) : 0;
        for (; done < n; done++)
            rc = xh_unpacking_leave(of, &b->table, frame[done], rest) ? XH_E_NOMEM : rc;
        xh_unpacking_wait(of, BATCH_FRAMES);
    }
    return rc;
}

/* What was unpacked is counted and judged; what was damaged is left to the original. */
static int end(struct xh_compressed *b, struct xh_unpacking *of, struct xh_runs *rest)
{
    int rc = of->failed;
    for (size_t i = 0; i < of->rest.n; i++)
        if (xh_runs_add_run(rest, of->rest.at[i])) {
            if (of->claimed)
                xh_shadow_forgo(of->op->f->shadow, of->rest.at[i].first, of->rest.at[i].count);
            rc = XH_E_NOMEM;
        }
    xh_runs_sort(rest);
    if (of->rest.n) {
        pthread_mutex_lock(&b->unpacker.lock);
        unsigned bad = b->unpacker.bad;
        pthread_mutex_unlock(&b->unpacker.lock);
        if (bad > BAD_MOST)
            xh_compressed_give_up(b, "many of its frames are damaged. `xhdf5 publish --body` makes it anew");
        else
            xh_known_warn(b->url, "a frame of it is damaged, what that holds is read from the file. `xhdf5 publish "
                                  "--body` makes it anew");
    }
    pthread_mutex_lock(&b->lock);
    xh_judge_unpacked(&b->judge, of->bytes, of->ns, xh_unpacker_threads());
    pthread_mutex_unlock(&b->lock);
    free(of->rest.at);
    pthread_mutex_destroy(&of->lock);
    pthread_cond_destroy(&of->news);
    return rc;
}

/* Reads |runs| through the copy, and publishes what is |claimed|. What it does not bring of them, as it was damaged, is
 * appended to |rest|, in ascending order. Returns 0 or XH_E_NOMEM: then too. Blocks. */
static int fetch(struct xh_read_op *op, const struct xh_runs *runs, int claimed, struct xh_runs *rest)
{
    struct xh_file *f = op->f;
    struct xh_unpacking of;
    xh_shadow_waits(f->shadow, 1);
    xh_unpacking_begin(&of, op, runs, claimed);
    int rc = fetch_all(f->compressed, &of, rest);
    xh_unpacking_wait(&of, 0);
    rc = end(f->compressed, &of, rest) ? XH_E_NOMEM : rc;
    xh_shadow_waits(f->shadow, 0);
    uint64_t all = bytes_in(runs), left = bytes_in(rest);
    xh_count(&f->counters, bytes_body, all > left ? all - left : 0);
    return rc;
}

/* ---- the source */

/* Takes |*runs| where the copy is the smaller way. */
static void take(struct xh_compressed *b, struct xh_runs *runs, struct xh_runs *packed)
{
    if (runs->n == 0 || !is_smaller(b, runs))
        return;
    struct xh_runs none = *packed;
    *packed = *runs;
    *runs = none;
    runs->n = 0;
}

static int serve(struct xh_read_op *op, struct xh_err *err)
{
    struct xh_compressed *b = op->f->compressed;
    if (op->kind == XH_KIND_RAW && xh_compressed_used(b)) {
        take(b, &op->mine, &op->packed[0]);
        take(b, &op->bypass, &op->packed[1]);
    }
    return 0;
}

/* What the copy does not bring of |runs| is asked of the origin, which is behind it. */
static int bring(struct xh_read_op *op, const struct xh_runs *runs, int claimed, struct xh_err *err)
{
    struct xh_runs rest = {0};
    int rc = fetch(op, runs, claimed, &rest);
    uint64_t brought = xh_op_asked_in(op, runs) - xh_op_asked_in(op, &rest);
    op->served.alone -= brought; /* mostly it had been foreseen, there */
    op->served.ahead += brought;
    if (rc) {
        if (claimed)
            xh_fetch_forgo(op->f, &rest);
        rc = xh_op_nomem(op, err);
    } else {
        rc = xh_fetch_start(op->f, op, &rest, claimed, err);
    }
    free(rest.at);
    return rc;
}

static int finish(struct xh_read_op *op, int rc, struct xh_err *err)
{
    for (int i = 0; i < 2; i++) {
        struct xh_runs *runs = &op->packed[i];
        if (rc && i == 0)
            xh_fetch_forgo(op->f, runs);
        else if (rc == 0 && runs->n)
            rc = bring(op, runs, i == 0, err);
        runs->n = 0;
    }
    return rc;
}

const struct xh_source xh_compressed_source = {.serve = serve, .finish = finish};
