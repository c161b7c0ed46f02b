/* What a failure may have cost of a file that is written: see lost.h. */
#include "lost.h"

#include <stdio.h>
#include <string.h>

/* 1 when HDF5's function |call| may change what is in memory of a file, or write it; "": it cannot be told. */
static int may_lose(const char *call)
{
    static const char *const looks[] = {"open", "exist", "get", "iter", "visit", "H5Aread"};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        if (strstr(call, looks[i]))
            return 0;
    return 1;
}

int xh_lost_by_read(const struct xh_h5 *h5, char *call, size_t size)
{
    snprintf(call, size, "%s", xh_h5_entry_name(h5));
    return may_lose(call);
}

static herr_t is_flush(unsigned n, const H5E_error2_t *entry, void *found)
{
    const char *f = entry->func_name ? entry->func_name : "", *what = entry->desc ? entry->desc : "";
    (void)n;
    /* What H5F__dest pushes before it closes the driver is that it could not flush. That a driver could not close is
     * another file's, such as one that this one's links led to. */
    *(int *)found |= (strcmp(f, "H5F__dest") == 0 && strcmp(what, "unable to close file") != 0) ||
                     strncmp(f, "H5F__flush_phase", strlen("H5F__flush_phase")) == 0;
    return 0;
}

int xh_lost_in_close(struct xh_h5 *h5)
{
    int found = 0;
    return h5->H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, is_flush, &found) >= 0 && found;
}
