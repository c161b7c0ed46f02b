/* Bytes of pages that were claimed as LATER come, and go to the shadow. */
#ifndef XH_ARRIVE_H
#define XH_ARRIVE_H

#include <stddef.h>
#include <stdint.h>

#include "runs.h"

struct xh_file;

/* Fills and publishes the |n| > 0 whole pages from |page| on, which the caller has claimed and, if as LATER, begun. The
 * file's last page may be shorter. Returns 0, or XH_E_NOSPACE: they are given up. */
int xh_arrive_pages(struct xh_file *f, uint64_t page, uint64_t n, const uint8_t *data);

/* What has come of pages that were claimed as LATER, in ascending order: before |page| all claims are over. */
struct xh_arrival {
    uint64_t page;
    int begun;     /* |page| was begun, and is not complete: its bytes so far are in |part| */
    uint8_t *part; /* a page's room, or NULL; xh_arrive_end frees it */
};

/* The bytes [off, off + len) are here, the next ones of |a|: what of them lies in |runs| goes to the shadow, page by
 * page.
 * Returns 0, or XH_E_NOSPACE: then the rest is to be ended. */
int xh_arrive(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t off, const uint8_t *data,
              size_t len);

/* Gives up what has not come of the pages before |end|. Harmless when all has. */
void xh_arrive_end(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t end);

#endif
