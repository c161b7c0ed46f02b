/* Rows: see row.h. The files that follow get what the files before them leave of the window. */
#include "row.h"

#include "object.h"
#include "layouts.h"
#include "open/expected.h"
#include "sequence.h"
#include "siblings.h"

/* So many files are opened beyond those that a run may already fetch of. An opening takes two or three round trips, and
 * waits for a connection. */
#define SPARE_FILES 3
/* So many windows are asked for of the files that follow: while all of it comes side by side, half of it is here. What
 * is here is bounded by the room. */
#define ROW_WINDOWS 2

static struct xh_row row_at(struct xh_file *f, const struct xh_extent *last)
{
    return (struct xh_row){.at = xh_layouts_dataset(f, (struct xh_range){last->off, last->len}),
                           .begin = xh_sequence_begin};
}

static int saw_run(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_predict_seq p;
    struct xh_row row = row_at(f, &s->ext[s->n - 1]);
    if (row.at.len == 0 || !xh_siblings_has(f) || !xh_sequence_look(f, &p))
        return 0;
    uint64_t end = p.last.off + p.last.len;
    if (p.kind != XH_RUN_UP || p.end != row.at.off + row.at.len || p.window <= p.end - end)
        return 0;
    row.window = p.window;
    row.bytes = p.bytes;
    row.before = p.end - end;
    row.rest = ROW_WINDOWS * p.window - row.before;
    xh_siblings_follow(f, &row);
    xh_expected_open(f->opt.namer.family, row.rest / row.at.len + SPARE_FILES);
    return 0;
}

static int saw_led(struct xh_file *f, const struct xh_seen *s)
{
    const struct xh_extent *last = &s->ext[s->n - 1];
    struct xh_row row = s->led && xh_siblings_has(f) ? row_at(f, last) : (struct xh_row){0};
    row.window = row.at.len;
    if (row.at.len)
        xh_siblings_begin(f, &row, last->off + last->len - row.at.off);
    return 0;
}

const struct xh_observer xh_row_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw_run};
const struct xh_observer xh_beside_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw_led};
