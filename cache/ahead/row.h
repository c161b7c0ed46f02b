/* Rows: a run of reads that goes on from one file to the next, as through the sources of a virtual dataset.
 *
 * Where a run comes to the end of its dataset, the files that are expected next, and are as long, are read as it was:
 * their bytes come within the same window. */
#ifndef XH_ROW_H
#define XH_ROW_H

#include "observer.h"

extern const struct xh_observer xh_row_observer;

#endif
