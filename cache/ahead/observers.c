/* The observers, in the order in which they are told: see observer.h. */
#include "alike.h"
#include "around.h"
#include "head.h"
#include "heaps.h"
#include "hints.h"
#include "layouts.h"
#include "object.h"
#include "observer.h"
#include "planes.h"
#include "repeats.h"
#include "row.h"
#include "sequence.h"
#include "siblings.h"
#include "walk.h"
#include "whole.h"

static const struct xh_observer *const observers[] = {
    &xh_whole_bulk_observer,
    &xh_whole_observer,
    &xh_around_large_observer,
    &xh_around_observer,
    &xh_head_observer,
    &xh_siblings_observer,
    &xh_beside_observer,
    &xh_hints_observer,
    &xh_alike_observer,
    &xh_heaps_observer,
    &xh_descriptors_observer,
    &xh_repeats_observer,
    &xh_layouts_observer,
    &xh_planes_observer,
    &xh_sequence_observer,
    &xh_row_observer,
    &xh_walk_observer,
};

void xh_observers_tell(struct xh_file *f, const struct xh_seen *seen, enum xh_moment moment)
{
    for (size_t i = 0; i < sizeof observers / sizeof *observers; i++) {
        int may = f->opt.readahead || observers[i] == &xh_hints_observer;
        if (may && observers[i]->when[seen->kind] == moment && observers[i]->saw(f, seen))
            return;
    }
}
