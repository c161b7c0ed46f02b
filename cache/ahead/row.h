/* Rows: a run of reads that goes on from one file to the next, as through the sources of a virtual dataset.
 *
 * When a run comes near the end of its dataset, the same place is expected to be read in the files that are opened
 * next, where they are as long. Their bytes are fetched within the same window. */
#ifndef XH_ROW_H
#define XH_ROW_H

#include "observer.h"

extern const struct xh_observer xh_row_observer;

#endif
