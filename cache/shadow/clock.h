/* The clock: chooses and frees pages of one shadow. */
#ifndef XH_SHADOW_CLOCK_H
#define XH_SHADOW_CLOCK_H

#include "impl.h"

/* Frees about |want_bytes| of |s|, raw pages first. Metadata is freed only when no raw page was left and at least
 * |meta_room_bytes| of metadata are there. Returns the bytes freed. */
uint64_t xh_clock_sweep(struct xh_shadow *s, uint64_t want_bytes, uint64_t meta_room_bytes,
                        struct xh_counters *c);

#endif
