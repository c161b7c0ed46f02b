/* Rows: when a run goes on in the files that follow, and how much of the window is left for them. What row.c calls is
 * faked here, so that a case is a dataset, a run and its window. */
#include <criterion/criterion.h>

#include "ahead/layouts.h"
#include "ahead/row.h"
#include "ahead/sequence.h"
#include "ahead/siblings.h"
#include "object.h"
#include "open/expected.h"

#define M (1ull << 20)
#define FAMILY 77u

/* What the fakes answer. */
static struct {
    struct xh_range dataset; /* len 0: no dataset is known */
    int family, busy;        /* busy: the run's lock is held elsewhere */
    struct xh_predict_seq run;
} now;

/* What they were told. */
static struct {
    struct xh_range asked; /* xh_layouts_dataset */
    int rows;
    struct xh_row row;
    int openings;
    uint64_t family;
    size_t files;
    struct xh_file *begun;
    uint64_t after, len;
    struct xh_row with;
    int begins; /* xh_siblings_begin */
} told;

struct xh_range xh_layouts_dataset(struct xh_file *f, struct xh_range r)
{
    (void)f;
    told.asked = r;
    return now.dataset;
}

int xh_siblings_has(const struct xh_file *f)
{
    (void)f;
    return now.family;
}

int xh_sequence_look(struct xh_file *f, struct xh_predict_seq *out)
{
    (void)f;
    *out = now.run;
    return !now.busy;
}

void xh_siblings_follow(struct xh_file *f, const struct xh_row *row)
{
    (void)f;
    told.rows++;
    told.row = *row;
}

void xh_expected_open(uint64_t family, size_t n)
{
    told.openings++;
    told.family = family;
    told.files = n;
}

void xh_sequence_begin(struct xh_file *f, const struct xh_row *row, uint64_t after, uint64_t len)
{
    told.begun = f;
    told.with = *row;
    told.after = after;
    told.len = len;
}

void xh_siblings_begin(struct xh_file *f, struct xh_row *row, uint64_t len)
{
    (void)f;
    told.begins++;
    told.row = *row;
    told.len = len;
}

/* A dataset of 8 MiB at 2 MiB; a run upwards has read its first half, and may look 16 MiB ahead. */
static void begin(void)
{
    memset(&told, 0, sizeof told);
    now.dataset = (struct xh_range){2 * M, 8 * M};
    now.family = 1;
    now.busy = 0;
    now.run = (struct xh_predict_seq){.kind = XH_RUN_UP, .last = {5 * M, M}, .first = 2 * M, .bytes = 4 * M,
                                      .ahead = 10 * M, .window = 16 * M, .end = 10 * M};
}

/* Tells the observer of a read of the run's last range, in two extents. */
static void read_last(struct xh_file *f)
{
    uint64_t half = now.run.last.len / 2;
    struct xh_extent ext[2] = {{.off = now.run.last.off, .len = half}, {.off = now.run.last.off + half, .len = half}};
    struct xh_seen seen = {.kind = XH_KIND_RAW, .ext = ext, .n = 2};
    f->opt.namer.family = FAMILY;
    cr_assert_eq(xh_row_observer.saw(f, &seen), 0, "the observers behind it are told in any case");
    cr_assert_eq(told.asked.off, ext[1].off, "the dataset of the last extent");
    cr_assert_eq(told.asked.len, ext[1].len);
    cr_assert_eq(told.rows, told.openings);
}

static struct xh_file file;

Test(row, the_files_that_follow_get_what_the_run_leaves_of_its_window)
{
    begin();
    read_last(&file);
    cr_assert_eq(told.rows, 1);
    cr_assert_eq(told.row.at.off, 2 * M, "the same place of each");
    cr_assert_eq(told.row.at.len, 8 * M);
    cr_assert_eq(told.row.window, 16 * M);
    cr_assert_eq(told.row.bytes, 4 * M);
    cr_assert_eq(told.row.before, 4 * M);
    cr_assert_eq(told.row.rest, 28 * M, "twice 16 MiB, but the 4 that are left of the dataset");
}

Test(row, as_many_files_are_opened_as_the_rest_goes_through_and_some_to_spare)
{
    static const struct {
        uint64_t window;
        size_t files;
    } cases[] = {{5 * M, 3}, {6 * M, 4}, {20 * M, 7}, {68 * M, 19}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        now.run.window = cases[i].window;
        read_last(&file);
        cr_assert_eq(told.openings, 1);
        cr_assert_eq(told.family, FAMILY);
        cr_assert_eq(told.files, cases[i].files, "%zu of case %zu", told.files, i);
    }
}

Test(row, at_the_end_of_the_dataset_the_whole_window_is_for_the_files_that_follow)
{
    begin();
    now.run.last = (struct xh_range){9 * M, M};
    read_last(&file);
    cr_assert_eq(told.row.before, 0);
    cr_assert_eq(told.row.rest, 32 * M);
}

Test(row, a_window_that_ends_within_the_dataset_leaves_nothing)
{
    static const uint64_t window[] = {0, M, 4 * M - 1, 4 * M};
    for (size_t i = 0; i < sizeof window / sizeof *window; i++) {
        begin();
        now.run.window = window[i];
        read_last(&file);
        cr_assert_eq(told.rows, 0, "a window of %llu bytes", (unsigned long long)window[i]);
    }
    begin();
    now.run.window = 4 * M + 1;
    read_last(&file);
    cr_assert_eq(told.row.rest, 4 * M + 2, "a window more");
}

Test(row, other_runs_and_files_have_none)
{
    for (int i = 0; i < 6; i++) {
        begin();
        switch (i) {
        case 0: now.dataset = (struct xh_range){0, 0}; break; /* no dataset is known */
        case 1: now.family = 0; break;                        /* no other file is named with it */
        case 2: now.busy = 1; break;                          /* the run is being changed */
        case 3: now.run.kind = XH_RUN_STRIDE; break;
        case 4: now.run.kind = XH_RUN_NONE; break;
        default: now.run.end = 9 * M; /* it ends before the dataset does */
        }
        read_last(&file);
        cr_assert_eq(told.rows, 0, "case %d", i);
    }
}

Test(row, what_a_following_file_is_given_is_a_run_of_the_same_window_there)
{
    struct xh_file next;
    begin();
    read_last(&file);
    told.row.begin(&next, &told.row, 12 * M, 3 * M);
    cr_assert_eq(told.begun, &next);
    cr_assert_eq(told.with.at.off, 2 * M);
    cr_assert_eq(told.with.at.len, 8 * M);
    cr_assert_eq(told.after, 12 * M);
    cr_assert_eq(told.len, 3 * M);
    cr_assert_eq(told.with.window, 16 * M);
    cr_assert_eq(told.with.bytes, 4 * M);
}

Test(row, a_first_read_that_was_led_begins_with_the_files_beside)
{
    struct xh_extent ext[2] = {{.off = 2 * M, .len = M / 2}, {.off = 2 * M + M / 2, .len = M / 2}};
    struct xh_seen seen = {.kind = XH_KIND_RAW, .ext = ext, .n = 2};
    for (int i = 0; i < 4; i++) {
        begin();
        now.family = i != 1;
        seen.led = i != 2;
        now.dataset.len = i == 3 ? 0 : now.dataset.len;
        cr_assert_eq(xh_beside_observer.saw(&file, &seen), 0);
        cr_assert_eq(told.begins, i == 0, "case %d", i);
        if (i)
            continue;
        cr_assert_eq(told.row.at.len, 8 * M);
        cr_assert_eq(told.row.window, 8 * M, "the whole dataset: a stream begins");
        cr_assert_eq(told.len, M, "as much as is read of the first");
    }
}

Test(row, it_is_told_of_raw_data_while_the_read_waits)
{
    cr_assert_eq(xh_row_observer.when[XH_KIND_RAW], XH_ASKED);
    cr_assert_eq(xh_row_observer.when[XH_KIND_META], XH_NEVER);
}
