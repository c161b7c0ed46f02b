/* Rows: a run of reads that goes on from one file to the next, or through several files in turns, as through the
 * sources of a virtual dataset.
 *
 * When a run comes near the end of its dataset, the same place is expected to be read in the files that are opened
 * next, where they are as long. What the window leaves is theirs. Where the first read of a file was led by its stream,
 * and others were opened for the same read, each of them gets its stream at once. */
#ifndef XH_ROW_H
#define XH_ROW_H

#include "observer.h"

extern const struct xh_observer xh_row_observer, xh_beside_observer;

#endif
