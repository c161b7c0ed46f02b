/* Hints: what a program says that it will read, passed to the cache as ranges. See xhdf5.h.
 *
 * Invariants 1. A hint is never an error of the file. Where nothing can be fetched ahead (a local file, another driver,
 * data in the object header) nothing happens.
 * 2. HDF5 takes a file's layout from the file, so no number in it is trusted to be small. At most XH_HINTS_MAX ranges
 * and as many chunks are kept.
 * 3. Data is never waited for. HDF5 reads a chunk index within the call, as H5Dread would, from its start to the last
 * chunk that is wanted; what it listed last is kept (chunkmap.h). */
#include <stdlib.h>
#include <string.h>

#include "../cache/base/table.h"
#include "../cache/cache.h"
#include "chunkmap.h"
#include "h5err.h"
#include "inside.h"
#include "remote.h"
#include "uncancelled.h"
#include "whose.h"
#include "xhdf5.h"

/* Most chunks in a selection's bounding box that are checked one by one before the index is read. If there are more,
 * the selection is checked for each chunk in the index instead. */
#define WANTED_MAX 65536u
/* Most chunks that an index is gone through for. The nodes of a hostile one lead to each other, so that it has 64^n:
 * HDF5 itself goes through all only if it is asked for all. 16 million take some seconds. */
#define LISTED_MAX (1u << 24)

herr_t H5FDxhdf5_prefetch(hid_t file_id, size_t n, const haddr_t addrs[], const size_t sizes[])
{
    XH_UNCANCELLED;
    struct xh_remote *remote = NULL;
    struct xh_range_list r = {0};
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5)
        return -1;
    if (n > 0 && (!addrs || !sizes))
        return xh_fail_api(h5, XH_E_INVAL, "H5FDxhdf5_prefetch: %zu ranges, but %s is NULL", n,
                           addrs ? "sizes" : "addrs");
    if (xh_whose_remote(h5, file_id, &remote))
        return -1;
    for (size_t i = 0; remote && i < n; i++)
        if (xh_range_add(&r, addrs[i], sizes[i], XH_HINTS_MAX))
            break;
    if (r.n)
        xh_remote_prefetch(remote, r.at, r.n);
    free(r.at);
    return 0;
}

/* ---- datasets: their layout and the selection */

struct set {
    struct xh_h5 *h5;
    struct xh_remote *remote;
    hid_t id, space;
    int rank;
    hsize_t dims[H5S_MAX_RANK]; /* of the selection's extent; unused dimensions are not read */
    size_t element_bytes;
    uint64_t base; /* added to addresses that this libhdf5 gives without the user block */
    struct xh_range_list out; /* in the order in which they are wanted */

    /* Chunked data only. A chunk's key is its number in row-major order, modulo 2^64. */
    hsize_t chunk[H5S_MAX_RANK], lo[H5S_MAX_RANK], hi[H5S_MAX_RANK];
    uint64_t *wanted; /* keys, sorted, distinct; NULL: the selection is checked instead */
    size_t nwanted;
    uint64_t left;    /* chunks still to be found; at 0 the walk through the index ends */
    struct xh_chunk_list found;
    int stopped; /* 1: before the index's end */
    unsigned listed; /* chunks that it was shown */
    struct xh_chunkmap *map; /* what is listed is noted here; NULL: it is not */
    size_t missed; /* rows of chunks that are not there, or behind their end */
};

static uint64_t key_of(const struct set *s, const hsize_t *at)
{
    uint64_t key = 0;
    for (int d = 0; d < s->rank; d++)
        key = key * (s->dims[d] / s->chunk[d] + (s->dims[d] % s->chunk[d] != 0)) + at[d] / s->chunk[d];
    return key;
}

/* Computes the coordinates of element |number| in row-major order. */
static void place_of(const struct set *s, uint64_t number, hsize_t *at)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        at[d] = number % s->dims[d];
        number /= s->dims[d];
    }
}

/* Calls |act| with each run of the selection, until it returns non-zero. An element counts as |unit| bytes. */
static void each_run(struct set *s, size_t unit, int (*act)(struct set *, uint64_t off, uint64_t len))
{
    hsize_t off[512];
    size_t len[512], n = 0, elements = 0;
    hid_t iter = s->h5->H5Ssel_iter_create(s->space, unit, 0);
    for (int end = iter < 0; !end;) {
        end = s->h5->H5Ssel_iter_get_seq_list(iter, sizeof off / sizeof *off, SIZE_MAX, &n, &elements, off, len) < 0 ||
              n == 0;
        for (size_t i = 0; !end && i < n; i++)
            end = act(s, off[i], len[i]);
    }
    if (iter >= 0)
        s->h5->H5Ssel_iter_close(iter);
}

static int add_bytes(struct set *s, uint64_t off, uint64_t len)
{
    return xh_range_add(&s->out, s->base + off, len, XH_HINTS_MAX);
}

/* Chunks are read one by one, in whatever order, so those that lie one behind the other stay apart. Joined, they would
 * also be taken for a contiguous dataset, of which what is long is not kept for a second reading. */
static int add_chunk(struct set *s, const struct xh_chunk *c)
{
    if (s->out.n >= XH_HINTS_MAX)
        return -1;
    return xh_append(&s->out, (struct xh_range){s->base + c->addr, c->size});
}

/* ---- chunks: which are wanted */

/* 1 when the selection has an element in the chunk at |at|. */
static int selected(struct set *s, const hsize_t *at)
{
    hsize_t end[H5S_MAX_RANK];
    for (int d = 0; d < s->rank; d++) {
        if (at[d] >= s->dims[d] || at[d] > s->hi[d] || s->lo[d] - s->lo[d] % s->chunk[d] > at[d])
            return 0;
        end[d] = s->chunk[d] - 1 < s->dims[d] - 1 - at[d] ? at[d] + s->chunk[d] - 1 : s->dims[d] - 1;
    }
    return s->h5->H5Sselect_intersect_block(s->space, at, end) > 0;
}

/* Returns how many elements lie in one row of the chunk and of the dataset from |at| on. */
static uint64_t left_in_row(const struct set *s, const hsize_t *at)
{
    int last = s->rank - 1;
    uint64_t in_chunk = s->chunk[last] - at[last] % s->chunk[last], in_all = s->dims[last] - at[last];
    return in_chunk < in_all ? in_chunk : in_all;
}

/* Adds the chunks of [off, off + len), elements of one row or of a few, to |wanted|. Such a run comes from a selection
 * of points. */
static int want_run(struct set *s, uint64_t off, uint64_t len)
{
    hsize_t at[H5S_MAX_RANK];
    while (len > 0) {
        place_of(s, off, at);
        uint64_t step = left_in_row(s, at);
        if (s->nwanted == XH_HINTS_MAX)
            return -1;
        s->wanted[s->nwanted++] = key_of(s, at);
        off += step;
        len -= step < len ? step : len;
    }
    return 0;
}

/* Adds the chunks of the bounding box that the selection touches to |wanted|. Returns -1 when the box has too many
 * chunks. */
static int want_box(struct set *s)
{
    uint64_t n = 1;
    hsize_t at[H5S_MAX_RANK];
    for (int d = 0; d < s->rank; d++) {
        uint64_t across = s->hi[d] / s->chunk[d] - s->lo[d] / s->chunk[d] + 1;
        if (across > WANTED_MAX / n)
            return -1;
        n *= across;
        at[d] = s->lo[d] - s->lo[d] % s->chunk[d];
    }
    for (uint64_t i = 0; i < n; i++) {
        if (selected(s, at))
            s->wanted[s->nwanted++] = key_of(s, at);
        for (int d = s->rank - 1; d >= 0; d--) { /* go to the next chunk in row-major order */
            at[d] += s->chunk[d];
            if (at[d] <= s->hi[d])
                break;
            at[d] = s->lo[d] - s->lo[d] % s->chunk[d];
        }
    }
    return 0;
}

/* Fills |wanted|, or leaves it NULL so that selected() decides. Returns 0, or -1 when out of memory. */
static int want_chunks(struct set *s)
{
    int points = s->h5->H5Sget_select_type(s->space) == H5S_SEL_POINTS;
    size_t m = 0;
    s->left = UINT64_MAX;
    s->wanted = malloc((points ? XH_HINTS_MAX : WANTED_MAX) * sizeof *s->wanted);
    if (!s->wanted)
        return -1;
    if (points) {
        each_run(s, 1, want_run);
    } else if (want_box(s)) {
        free(s->wanted);
        s->wanted = NULL;
        return 0;
    }
    qsort(s->wanted, s->nwanted, sizeof *s->wanted, xh_range_order);
    for (size_t i = 0; i < s->nwanted; i++)
        if (m == 0 || s->wanted[i] != s->wanted[m - 1])
            s->wanted[m++] = s->wanted[i];
    s->left = s->nwanted = m;
    return 0;
}

/* ---- chunks: where they are */

static int on_chunk(const hsize_t *at, unsigned mask, haddr_t addr, hsize_t size, void *arg)
{
    struct set *s = arg;
    const struct xh_chunk c = {key_of(s, at), addr, size};
    s->stopped = ++s->listed == LISTED_MAX;
    if (s->stopped)
        return H5_ITER_STOP;
    if (addr == HADDR_UNDEF || size == 0)
        return H5_ITER_CONT;
    xh_chunkmap_add(s->map, &c);
    if (s->wanted ? bsearch(&c.key, s->wanted, s->nwanted, sizeof c.key, xh_range_order) != NULL : selected(s, at)) {
        s->stopped = s->found.n >= XH_HINTS_MAX || xh_append(&s->found, c);
        s->left--;
    }
    s->stopped |= s->left == 0 && xh_chunkmap_enough(s->map);
    return s->stopped ? H5_ITER_STOP : H5_ITER_CONT;
}

/* Fills |found|. The file is only read, so its chunks stay what they are. */
static void find_chunks(struct set *s)
{
    H5O_info2_t info;
    struct xh_chunkmap_of of = {.rank = s->rank};
    int kept = s->h5->H5Oget_info3(s->id, &info, H5O_INFO_BASIC) >= 0;
    if (kept) {
        of.token = info.token;
        memcpy(of.dims, s->dims, (size_t)s->rank * sizeof *of.dims);
        memcpy(of.chunk, s->chunk, (size_t)s->rank * sizeof *of.chunk);
        s->map = xh_remote_take_chunks(s->remote);
    }
    if (!s->wanted || !xh_chunkmap_find(s->map, &of, s->wanted, s->nwanted, &s->found)) {
        s->map = kept ? xh_chunkmap_begin(s->map, &of) : NULL;
        /* chunks that it found before a failure are valid */
        herr_t rc = s->h5->H5Dchunk_iter(s->id, H5P_DEFAULT, on_chunk, s);
        xh_chunkmap_done(s->map, rc >= 0 && !s->stopped);
    }
    if (kept)
        xh_remote_keep_chunks(s->remote, s->map);
}

/* Adds what the box from |lo| to |hi| has of |c|: rows, of which those that lie one behind the other are one range.
 * Their number is bounded by the ranges that there may be. */
static int add_part(struct set *s, const struct xh_chunk *c)
{
    hsize_t first[H5S_MAX_RANK], last[H5S_MAX_RANK], at[H5S_MAX_RANK];
    uint64_t key = c->key, run = s->element_bytes;
    int rows = s->rank; /* so many dimensions, from the first on, a range has one place in */
    for (int d = s->rank - 1; d >= 0; d--) {
        uint64_t across = s->dims[d] / s->chunk[d] + (s->dims[d] % s->chunk[d] != 0);
        uint64_t from = key % across * s->chunk[d];
        key /= across;
        if (from > s->hi[d] || (s->lo[d] > from && s->lo[d] - from >= s->chunk[d]))
            return 0; /* none of it; or the number was cut */
        at[d] = first[d] = s->lo[d] > from ? s->lo[d] - from : 0;
        last[d] = xh_min64(s->hi[d] - from, s->chunk[d] - 1);
    }
    while (rows > 0 && (rows == s->rank || (first[rows] == 0 && last[rows] == s->chunk[rows] - 1))) {
        rows--;
        run *= last[rows] - first[rows] + 1;
    }
    for (int d = 0; d >= 0;) {
        uint64_t inside = 0;
        for (d = 0; d < s->rank; d++)
            inside = inside * s->chunk[d] + at[d];
        inside *= s->element_bytes;
        if (inside >= c->size) /* and so do all rows that follow */
            return 0;
        if (add_bytes(s, c->addr + inside, run))
            return -1;
        for (d = rows - 1; d >= 0 && at[d]++ == last[d]; d--) /* go to the next row */
            at[d] = first[d];
    }
    return 0;
}

/* 1 when the selection is all between its bounds. */
static int is_box(const struct set *s)
{
    hssize_t n = s->h5->H5Sget_select_npoints(s->space);
    uint64_t all = 1;
    for (int d = 0; d < s->rank; d++) {
        uint64_t len = s->hi[d] - s->lo[d] + 1;
        if (len > INT64_MAX / all)
            return 0;
        all *= len;
    }
    return n > 0 && (uint64_t)n == all;
}

/* Adds the bytes of the elements [off, off + len), row by row and chunk by chunk. */
static int add_elements(struct set *s, uint64_t off, uint64_t len)
{
    hsize_t at[H5S_MAX_RANK];
    while (len > 0) {
        place_of(s, off, at);
        uint64_t step = left_in_row(s, at), inside = 0;
        step = xh_min64(step, len);
        for (int d = 0; d < s->rank; d++)
            inside = inside * s->chunk[d] + at[d] % s->chunk[d];
        const struct xh_chunk want = {.key = key_of(s, at)};
        const struct xh_chunk *c = bsearch(&want, s->found.at, s->found.n, sizeof want, xh_range_order);
        uint64_t from = inside * s->element_bytes;
        int is_there = c && from < c->size;
        if (!is_there && ++s->missed > XH_HINTS_MAX)
            return -1;
        if (is_there && add_bytes(s, c->addr + from, step * s->element_bytes))
            return -1;
        off += step;
        len -= step;
    }
    return 0;
}

/* 1 when HDF5 reads pieces of chunks. It does so if chunks have no filter and are too large for the chunk cache; else
 * it reads whole chunks. */
static int reads_pieces(struct set *s, hid_t dcpl)
{
    size_t slots, cache = 0;
    double w0;
    uint64_t bytes = s->element_bytes;
    hid_t dapl = s->h5->H5Dget_access_plist(s->id);
    for (int d = 0; d < s->rank; d++)
        bytes = s->chunk[d] > UINT64_MAX / bytes ? UINT64_MAX : bytes * s->chunk[d];
    int known = dapl >= 0 && s->h5->H5Pget_chunk_cache(dapl, &slots, &cache, &w0) >= 0;
    if (dapl >= 0)
        s->h5->H5Pclose(dapl);
    return known && bytes > cache && s->h5->H5Pget_nfilters(dcpl) == 0;
}

static void add_chunked(struct set *s, hid_t dcpl)
{
    if (s->h5->H5Pget_chunk(dcpl, s->rank, s->chunk) != s->rank ||
        s->h5->H5Sget_select_bounds(s->space, s->lo, s->hi) < 0)
        return;
    for (int d = 0; d < s->rank; d++)
        if (s->chunk[d] == 0 || s->lo[d] > s->hi[d] || s->hi[d] >= s->dims[d])
            return;
    if (want_chunks(s) || s->left == 0)
        return;
    find_chunks(s);
    if (s->found.n == 0)
        return;
    qsort(s->found.at, s->found.n, sizeof *s->found.at, xh_range_order); /* HDF5 reads in this order */
    if (!reads_pieces(s, dcpl))
        for (size_t i = 0; i < s->found.n && !add_chunk(s, &s->found.at[i]); i++)
            ;
    else if (is_box(s))
        for (size_t i = 0; i < s->found.n && !add_part(s, &s->found.at[i]); i++)
            ;
    else
        each_run(s, 1, add_elements);
}

/* Fills s->out with the ranges that a read of the selection will read. */
static void add_selection(struct set *s)
{
    hid_t dcpl = s->h5->H5Dget_create_plist(s->id), type = s->h5->H5Dget_type(s->id);
    H5D_layout_t layout = dcpl < 0 ? H5D_LAYOUT_ERROR : s->h5->H5Pget_layout(dcpl);
    s->element_bytes = type < 0 ? 0 : s->h5->H5Tget_size(type);
    if (s->element_bytes > 0 && layout == H5D_CONTIGUOUS) {
        haddr_t addr = s->h5->H5Dget_offset(s->id); /* undefined: not written, or in external files */
        s->base = addr;
        if (addr != HADDR_UNDEF)
            each_run(s, s->element_bytes, add_bytes);
    } else if (s->element_bytes > 0 && layout == H5D_CHUNKED && s->rank > 0) {
        s->base = xh_inside_chunk_base(s->h5, s->id);
        add_chunked(s, dcpl);
    } /* compact data comes with the object header; virtual data lies in other datasets */
    if (type >= 0)
        s->h5->H5Tclose(type);
    if (dcpl >= 0)
        s->h5->H5Pclose(dcpl);
}

herr_t H5Dxhdf5_prefetch(hid_t dset_id, hid_t file_space_id)
{
    XH_UNCANCELLED;
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    struct xh_remote *remote = NULL;
    struct set s = {.h5 = h5, .id = dset_id};
    if (!h5)
        return -1;
    /* Each of these calls pushes its own error for a wrong ID. No other call may follow then: most H5 functions clear
     * the stack. */
    if (file_space_id != H5S_ALL && h5->H5Sget_simple_extent_ndims(file_space_id) < 0)
        return -1;
    hid_t own = h5->H5Dget_space(dset_id);
    if (own < 0 || xh_whose_remote(h5, dset_id, &remote))
        return -1;
    struct xh_h5err_quiet quiet;
    s.remote = remote;
    xh_h5err_quiet(h5, &quiet);
    int rank = h5->H5Sget_simple_extent_ndims(own);
    s.space = file_space_id == H5S_ALL ? own : file_space_id;
    s.rank = h5->H5Sget_simple_extent_dims(s.space, s.dims, NULL);
    /* A file that is written is fetched as it is read; and HDF5 would write its changed chunks to list them. */
    if (remote && !xh_remote_is_written(remote) && s.rank == rank && h5->H5Sget_select_npoints(s.space) > 0)
        add_selection(&s);
    if (s.out.n)
        xh_remote_prefetch(remote, s.out.at, s.out.n);
    h5->H5Sclose(own);
    xh_h5err_aloud(h5, &quiet);
    free(s.out.at);
    free(s.wanted);
    free(s.found.at);
    return s.rank == rank ? 0
                          : xh_fail_api(h5, XH_E_INVAL,
                                        "H5Dxhdf5_prefetch: the selection has %d dimensions, the data set has %d",
                                        s.rank, rank);
}
