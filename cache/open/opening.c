/* Openings of one URL by many processes at once: see opening.h. */
#include "opening.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "disk/disk.h"
#include "watch/trace.h"

/* A server takes long, or a process is suspended: then everybody asks for himself. */
#define MOST_MS 4000

/* Reads "asked reader\n" off the saved |text| and leaves the origin's part of it in op->hint. Returns 1 when it
 * was asked on our behalf. */
static int read_saved(struct xh_opening *op, const char *text)
{
    uint64_t asked;
    char reader[XH_READER_BYTES];
    int n = 0;
    if (sscanf(text, "%" SCNu64 " %64[0-9a-f-]%n", &asked, reader, &n) != 2 || text[n] != '\n')
        return 0;
    snprintf(op->hint, sizeof op->hint, "%s", text + n + 1);
    return asked >= op->begun_ns && asked <= xh_now_ns() && strcmp(reader, op->reader) == 0;
}

/* Reads what an opening of |object| left, in the shadow or else on the disk. Returns as read_saved: what is on the disk
 * may be of an earlier boot, so it was not asked for us. */
static int load(struct xh_opening *op, const char *object, const struct xh_options *o)
{
    char saved[XH_HINT_BYTES];
    int ours = xh_shadow_hint_load(object, o, saved) && read_saved(op, saved);
    struct xh_options *on_disk = op->hint[0] ? NULL : xh_shadow_on_disk_new(o);
    if (on_disk && xh_shadow_hint_load(object, on_disk, saved))
        read_saved(op, saved);
    free(on_disk);
    return ours;
}

void xh_opening_begin(struct xh_opening *op, const char *url, const struct xh_options *o, struct xh_account *a)
{
    *op = (struct xh_opening){.turn = {.fd = -1}, .begun_ns = xh_now_ns()};
    if (!o->shadow && !o->disk_cache_dir[0])
        return;
    int waited = 0, apart = xh_origin_reader(url, o, op->reader);
    char *name = NULL, *object = xh_origin_object(url, o);
    if (!object) /* without memory it asks for itself */
        return;
    if (o->shadow && apart && asprintf(&name, "%s %s", op->reader, object) >= 0) {
        uint64_t entered = xh_account_enter(a, XH_OTHERS);
        waited = xh_shadow_turn(name, o, MOST_MS, &op->turn);
        xh_account_leave(a, XH_OTHERS, entered);
        free(name);
    }
    op->vouched = load(op, object, o) && apart;
    free(object);
    if (op->vouched || (waited && !op->hint[0])) /* whoever was first has failed: the others need not go one by one */
        xh_shadow_turn_over(&op->turn);
    op->asked_ns = xh_now_ns();
}

size_t xh_opening_left(const char *url, const struct xh_options *o, char out[XH_HINT_BYTES])
{
    struct xh_opening op = {0};
    char *object = xh_origin_object(url, o);
    if (object)
        load(&op, object, o);
    free(object);
    memcpy(out, op.hint, sizeof op.hint);
    return strlen(out);
}

int xh_opening_last(const char *url, const struct xh_options *o, struct xh_shadow_version *out)
{
    struct xh_opening op = {0};
    struct xh_options *on_disk = xh_shadow_on_disk_new(o);
    char *object = xh_origin_object(url, o);
    int known = object && ((on_disk && xh_shadow_last(object, on_disk, out)) || xh_shadow_last(object, o, out));
    if (known)
        read_saved(&op, out->hint);
    memcpy(out->hint, op.hint, sizeof op.hint);
    free(on_disk);
    free(object);
    return known;
}

void xh_opening_forget(const char *url, const struct xh_options *o, int shadows, int disks)
{
    struct xh_options *on_disk = disks ? xh_shadow_on_disk_new(o) : NULL;
    char *object = xh_origin_object(url, o);
    if (object && shadows)
        xh_shadow_hint_forget(object, o);
    if (object && on_disk)
        xh_shadow_hint_forget(object, on_disk);
    free(on_disk);
    free(object);
}

void xh_opening_save(struct xh_opening *op, const char *url, const struct xh_options *o, struct xh_replicas *origin,
                     struct xh_shadow *s, struct xh_disk *disk)
{
    char text[XH_HINT_BYTES];
    /* Without the reader, in whose name there is a token's hash. */
    int none = snprintf(text, sizeof text, "0 -\n");
    int kept = disk && xh_replicas_hint(origin, text + none, sizeof text - (size_t)none);
    if (kept)
        xh_disk_hint_save(disk, text);
    op->awaited = xh_shadow_turn_awaited(&op->turn);
    int n = snprintf(text, sizeof text, "%" PRIu64 " %s\n", op->asked_ns, op->reader[0] ? op->reader : "-");
    int left = op->vouched; /* just now, by another process */
    if (!left && !xh_shadow_private(s) && xh_replicas_hint(origin, text + n, sizeof text - (size_t)n)) {
        xh_shadow_hint_save(s, text);
        left = 1;
    }
    if (!left || (!kept && o->disk_cache_dir[0]))
        xh_opening_forget(url, o, !left, !kept);
}
