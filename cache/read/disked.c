/* The disk cache as a source: copies out what the shadow lacks and the disk has. The shadow's source has sorted it out
 * (shadowed.c). It goes straight to the reader: the kernel keeps it in memory as it would a page of the shadow. */
#include "disk/disk.h"
#include "object.h"
#include "sources.h"
#include "stream/stage.h"

#define PIECE_PAGES 64u /* what is fetched again if a page of it turns out to be damaged */

/* What was fetched ahead goes first, also where the disk has it by now: else it would have come for nothing. */
static int peek(struct xh_file *f, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    return f->disk && xh_stage_is_empty(f) && xh_disk_read(f->disk, ext, n);
}

/* While the origin brings the rest. What the disk could not give is left for the next round. */
static int finish(struct xh_read_op *op, int rc, struct xh_err *err)
{
    for (size_t i = 0; rc == 0 && i < op->on_disk.n; i++) {
        struct xh_run run = op->on_disk.at[i], piece;
        for (; rc == 0 && run.count; run.first += piece.count, run.count -= piece.count) {
            piece = (struct xh_run){run.first, run.count < PIECE_PAGES ? run.count : PIECE_PAGES};
            if (xh_op_copy_ready(op, piece.first * XH_PAGE_BYTES, piece.count * XH_PAGE_BYTES, 1))
                xh_count(&op->f->counters, bytes_disk, xh_op_asked_in(op, &(struct xh_runs){.at = &piece, .n = 1}));
            else if (xh_runs_add_run(&op->again, piece))
                rc = xh_op_nomem(op, err);
        }
    }
    return rc;
}

const struct xh_source xh_disk_source = {.peek = peek, .finish = finish};
