/* Opening a version: see version_open.h. */
#include "version_open.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ahead/alike.h"
#include "ahead/schedule.h"
#include "ahead/walk.h"
#include "ahead/whole.h"
#include "disk/disk.h"
#include "object.h"
#include "opening.h"
#include "read/read.h"
#include "source/compressed.h"
#include "source/metadata_image.h"
#include "source/unverified_head.h"
#include "watch/trace.h"

/* For so long the user's other processes go by what was found of a server; as the notes of the negative cache last. */
#define APART_LASTS_S XH_NEGATIVE_MOST_S
#define READER "reader=" /* what is told begins so: with the reader that told it */

/* Puts the head that the first request brought into the shadow, and on the disk. */
static void keep_head(struct xh_file *f, const struct xh_origin_head *head)
{
    xh_disk_keep(f->disk, 0, head->bytes, head->len, 1);
    uint64_t pages = xh_pages_before(f, head->len);
    for (uint64_t p = 0; p < pages; p++) {
        enum xh_claim claim = xh_shadow_claim(f->shadow, p, 1, &f->counters);
        if (claim == XH_CLAIM_NONE ||
            (claim == XH_CLAIM_MINE && xh_arrive_pages(f, p, 1, head->bytes + p * XH_PAGE_BYTES)))
            return;
    }
}

/* Opens the shadow of the version that the origin has now. */
static int attach_shadow(struct xh_file *f, const struct xh_origin_head *head, struct xh_opening *op,
                         struct xh_err *err)
{
    if (!f->opt.offline && (f->size == 0 || f->fleeting)) /* an older version must not be read for this one */
        xh_opening_forget(f->url, &f->opt, 1, 1);
    if (f->size == 0)
        return 0;
    /* Two openings that were told the same may have seen two versions: they share nothing, in this process neither. */
    static _Atomic uint64_t openings;
    char *kept_as = NULL;
    if (f->fleeting) {
        f->opt.shadow = 0;
        uint64_t which = atomic_fetch_add_explicit(&openings, 1, memory_order_relaxed);
        if (asprintf(&kept_as, "%s\n%llu", f->validator, (unsigned long long)which) < 0)
            kept_as = NULL;
    } else {
        kept_as = xh_file_kept_as(f);
    }
    if (!kept_as)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", f->url_shown);
    char *object = xh_origin_object(f->url, &f->opt);
    int rc = object ? xh_shadow_open(object, kept_as, f->size, &f->opt, &f->shadow, err)
                    : xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", f->url_shown);
    if (rc == 0 && !f->fleeting)
        f->disk = xh_disk_open(object, kept_as, f->size, &f->opt);
    free(object);
    free(kept_as);
    if (rc)
        return rc;
    if (head->bytes)
        keep_head(f, head);
    if (!f->opt.offline)
        xh_opening_save(op, f->url, &f->opt, f->origin, f->shadow, f->disk);
    return 0;
}

/* Fetches the file from |from| on: there is but one request to a server that sends no parts. */
static void fetch_from(struct xh_file *f, uint64_t from)
{
    struct xh_range rest = {from, f->size - from};
    if (f->shadow && rest.len)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &rest, .n = 1});
}

/* A file that was never opened before: fetches what the root leads to. The rest of the head is left until some of it is
 * missed (ahead/head.c), as is what will come whole (ahead/whole.c). An unverified head is proved along with what is
 * fetched first. */
static void begin(struct xh_file *f, uint64_t head_len)
{
    struct xh_opened o;
    xh_whole_facts(f, &o);
    int small = xh_policy_is_whole(&o);
    if (f->no_parts)
        fetch_from(f, head_len);
    else if (small && (xh_file_is_announced(f) || xh_alike_comes_whole(f))) /* it will be read */
        xh_schedule_whole(f, 0);
    if (f->unverified->len)
        head_len = f->unverified->len;
    int foreseen = !f->no_parts && !o.imaged && xh_alike_begin(f, head_len);
    if (!f->no_parts && !small && !o.imaged) {
        if (!foreseen)
            xh_walk_begin(f);
        if (o.readahead)
            atomic_store_explicit(&f->head_rest, head_len, memory_order_relaxed);
    }
    if (f->opt.may_lack || f->others_wait) /* last. What lies beside a file is opened to be read; others want it, too */
        xh_schedule_head(f);
}

/* Returns 1 when the process that told |*hint| is, to the origin, the same reader as this one: each may read what the
 * other may. Moves past its word. */
static int is_same_reader(const struct xh_file *f, const char **hint)
{
    char theirs[XH_READER_BYTES], ours[XH_READER_BYTES];
    int n = 0;
    if (sscanf(*hint, READER "%64[0-9a-f-] %n", theirs, &n) != 1 || n == 0)
        return 0;
    *hint += n;
    return xh_origin_reader(f->url, &f->opt, ours) && strcmp(ours, theirs) == 0;
}

/* Asks whether this reader may have the version that |hint| tells of. */
static int open_proving(struct xh_file *f, const char *hint, struct xh_err *err)
{
    struct xh_origin_head own = {0};
    int rc = xh_replicas_open(f->url, &f->opt, hint, 0, &f->counters, &f->origin, &own, err);
    if (rc == 0 && !own.confirmed)
        rc = xh_err_set(err, XH_E_CHANGED, 0,
                        "%.200s: the file was changed on the server since another process of the job opened it. "
                        "Close and open it again", f->url_shown);
    free(own.bytes);
    return rc;
}

/* Opens the origin as |told|, with the head that came along. |told| is: the reader that told it and the origin's hint,
 * a NUL, the sidecar's, a NUL, the head. */
static int open_told(struct xh_file *f, const struct xh_told *told, struct xh_origin_head *head, struct xh_err *err)
{
    const char *hint = told->bytes, *side = memchr(told->bytes, 0, told->len);
    size_t left = side ? told->len - (size_t)(++side - (const char *)told->bytes) : 0;
    size_t n = side ? strnlen(side, left) : 0;
    if (n == left)
        return xh_err_set(err, XH_E_INVAL, 0, "%.200s: what another process told of it has no end", f->url_shown);
    f->opened_jointly = 1;
    head->confirmed = 1; /* the process that told it fetches ahead already */
    head->len = left - n - 1;
    if (head->len && !(head->bytes = malloc(head->len)))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", f->url_shown);
    if (head->len)
        memcpy(head->bytes, side + n + 1, head->len);
    int believed = told->by_us || is_same_reader(f, &hint);
    if (!told->data_only)
        xh_metadata_image_begin_told(f->url, &f->opt, side, f->above->files, &f->image);
    return believed ? xh_replicas_open_told(f->url, &f->opt, hint, &f->counters, &f->origin, err)
                    : open_proving(f, hint, err);
}

/* How the note is named that |f|'s server tells dates apart. */
static void apart_name(const struct xh_file *f, char *out, size_t size)
{
    snprintf(out, size, "dates apart %.*s", (int)xh_url_server_bytes(f->url_shown), f->url_shown);
}

/* Opens what was opened last of the URL, as far as it is here: on the disk, else in the shadow. */
static int open_offline(struct xh_file *f, struct xh_origin_head *head, struct xh_err *err)
{
    struct xh_shadow_version last;
    if (!xh_opening_last(f->url, &f->opt, &last))
        return xh_err_set(err, XH_E_NET, 0,
                          "%.300s: nothing of it is on this machine, and with offline=on no server is asked: %s",
                          f->url_shown,
                          f->opt.disk_cache_dir[0] ? "it was not read yet with this disk_cache_dir, or has given way"
                                                   : "disk_cache_dir names no disk cache");
    head->confirmed = 1;
    return xh_replicas_open_offline(f->url, &f->opt, last.validator, last.size, last.hint, &f->origin, err);
}

static int open_asking(struct xh_file *f, struct xh_opening *op, struct xh_origin_head *head, struct xh_err *err)
{
    xh_opening_begin(op, f->url, &f->opt, f->account);
    xh_shadow_join(&f->opt);
    uint64_t entered = xh_account_enter(f->account, XH_NETWORK);
    char name[1100];
    struct xh_origin_info info = {0};
    apart_name(f, name, sizeof name);
    int apart = xh_shadow_lacks(name, &f->opt, APART_LASTS_S);
    if (apart)
        xh_origin_tell_apart(f->url);
    int rc = xh_replicas_open(f->url, &f->opt, op->hint, op->vouched, &f->counters, &f->origin, head, err);
    xh_account_leave(f->account, XH_NETWORK, entered);
    if (rc == 0)
        xh_replicas_get_info(f->origin, &info);
    if (rc == 0 && apart != info.apart)
        xh_shadow_note_lack(name, &f->opt, info.apart, 0);
    return rc;
}

/* Its metadata image, if there is one, was looked for since the opening began. */
static int settle_beside(struct xh_file *f, const struct xh_origin_head *head, struct xh_err *err)
{
    struct xh_metadata_image_of of = {
        .validator = f->validator, .size = f->size, .head = head->bytes, .head_len = head->len};
    if (!f->image || f->size == 0)
        return 0;
    if (f->unverified->len) {
        of.head = f->unverified->bytes;
        of.head_len = f->unverified->len;
    }
    int rc = xh_metadata_image_settle(f->image, &of, err);
    return rc < 0 ? rc : 0;
}

int xh_version_open(struct xh_file *f, const char *url, const struct xh_told *told, struct xh_err *err)
{
    char shown[1024];
    struct xh_opening op = {.turn = {.fd = -1}};
    struct xh_origin_head head = {0};
    struct xh_origin_info info;
    f->url = strdup(url);
    f->url_shown = strdup(xh_url_shown(url, shown, sizeof shown));
    if (!f->url || !f->url_shown)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", shown);
    int rc = f->opt.offline ? 0 : xh_origin_ready(&f->opt, err);
    if (f->opt.offline)
        told = NULL;
    if (rc == 0 && !told)
        rc = xh_metadata_image_begin(url, &f->opt, f->above->files, &f->image, err);
    if (rc)
        return rc;
    f->opt.likely_bytes = xh_alike_opening_bytes(f, &f->opt.likely_room);
    rc = f->opt.offline ? open_offline(f, &head, err)
         : told         ? open_told(f, told, &head, err)
                        : open_asking(f, &op, &head, err);
    f->opt.likely_bytes = 0; /* of nothing else that is opened with these options */
    if (rc) {
        xh_shadow_turn_over(&op.turn);
        free(head.bytes);
        return rc;
    }
    xh_replicas_get_info(f->origin, &info);
    f->size = info.size;
    f->changed_s = info.changed_s;
    head.len = head.len < f->size ? head.len : f->size; /* told ones may be anything */
    f->fleeting = info.fleeting;
    f->unsettled = info.unsettled;
    f->spare_bytes = xh_policy_spare_bytes((double)info.rtt_ns / 1e6); /* also of a file that was opened before */
    f->validator = strdup(info.validator);
    xh_unverified_take(f, &head);
    if (!f->validator)
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening %s", shown);
    else
        rc = attach_shadow(f, &head, &op, err);
    f->others_wait = op.awaited;
    f->opened_jointly |= op.awaited || op.vouched;
    xh_shadow_turn_over(&op.turn);
    xh_walk_init(f, !told || !told->data_only); /* before anything is fetched ahead, as it counts that */
    if (f->opt.sums)
        xh_unverified_waive(f);
    if (rc == 0 && xh_metadata_image_is_doubtful(f->image)) {
        xh_trace(XH_T_READ, "sidecar-late", "url=%s", f->url_shown);
        xh_schedule_head(f); /* its proof comes while that is waited for */
    }
    rc = rc ? rc : settle_beside(f, &head, err);
    if (rc == 0 && xh_metadata_image_is_used(f->image, 0))
        xh_unverified_drop(f); /* the image has it, and is of the version */
    if (rc == 0 && f->size > f->opt.head_bytes)
        f->compressed = xh_compressed_new(url, &f->opt, f->above->files);
    xh_compressed_begin(f);
    xh_trace(XH_T_READ, "open", "url=%s size=%llu validator=%s confirmed=%d private=%d", f->url_shown,
             (unsigned long long)f->size, info.validator, head.confirmed,
             f->shadow ? xh_shadow_private(f->shadow) != 0 : 1);
    free(head.bytes);
    f->no_parts = info.whole;
    if (rc == 0 && !head.confirmed)
        begin(f, head.len);
    else if (rc == 0 && f->no_parts) /* what the shadow lacks of it, by one request */
        fetch_from(f, 0);
    return rc;
}

int xh_version_is_current(struct xh_file *f)
{
    char hint[XH_HINT_BYTES];
    struct xh_origin_head head = {0};
    struct xh_replicas *now = NULL;
    if (f->opt.offline)
        return 1;
    if (!xh_replicas_hint(f->origin, hint, sizeof hint) ||
        xh_replicas_open(f->url, &f->opt, hint, 0, &f->counters, &now, &head, XH_IGNORED))
        return 0;
    xh_replicas_close(now);
    free(head.bytes);
    return head.confirmed;
}

int xh_version_is_settled(const struct xh_file *f)
{
    return f->changed_s >= 0 && !f->unsettled && !f->fleeting;
}

/* ---- what other processes are told */

/* How much of the file's head is told: what the others will want. With an image that is little, and only what is
 * here. */
static uint64_t told_head(struct xh_file *f)
{
    struct xh_opened o;
    xh_whole_facts(f, &o);
    uint64_t most = f->no_parts || xh_policy_is_whole(&o) ? f->size : f->opt.head_bytes, pages = 0;
    most = most < f->size ? most : f->size;
    if (!o.imaged || !f->shadow)
        return most;
    while (pages * XH_PAGE_BYTES < most && xh_shadow_peek(f->shadow, pages) == XH_CLAIM_READY)
        pages++;
    return pages * XH_PAGE_BYTES < most ? pages * XH_PAGE_BYTES : most;
}

int xh_cache_tell(struct xh_file *f, void **told, size_t *len, struct xh_err *err)
{
    char hint[sizeof READER + XH_READER_BYTES + 2 * XH_HINT_BYTES], reader[XH_READER_BYTES];
    size_t who = (size_t)sprintf(hint, READER "%s ", xh_origin_reader(f->url, &f->opt, reader) ? reader : "-");
    size_t known = xh_replicas_hint(f->origin, hint + who, XH_HINT_BYTES), own = who + known + 1;
    size_t n = own + xh_metadata_image_tell(f->image, hint + own, XH_HINT_BYTES) + 1;
    struct xh_served served;
    xh_file_after_fork(f);
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int rc = 0;
    uint64_t head = told_head(f);
    char *text = malloc(n + head);
    if (known == 0 || !text)
        rc = xh_err_set(err, XH_E_NOMEM, 0, "no memory to tell what is known of %s", f->url_shown);
    if (rc == 0 && head) {
        struct xh_extent e = {0, head, text + n};
        rc = xh_read_pages(f, XH_KIND_META, &e, 1, &served, err);
    }
    if (rc == 0 && f->size) /* behind the read, which brings its proof */
        rc = xh_unverified_prove(f, err);
    xh_account_leave(f->account, XH_COPYING, entered);
    if (rc) {
        free(text);
        return rc;
    }
    assert(text); /* else rc says so */
    memcpy(text, hint, n);
    f->opened_jointly = 1; /* before it reads: no other thread has it yet */
    *told = text;
    *len = n + head;
    return 0;
}
