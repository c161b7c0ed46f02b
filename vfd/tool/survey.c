/* Walking through a file: see survey.h.
 *
 * No size in the file is trusted to be small. Values of attributes are read up to a bound, data of variable length in
 * pieces. What HDF5 cannot read (for example because a filter is missing) is counted and skipped. */
#include "survey.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

#include "../inside.h"
#include "h5open.h"

#define VALUE_MOST_BYTES (16u << 20) /* of an attribute, or of a piece of a dataset of variable length */
#define RANGES_MOST (1u << 26)       /* 1 GiB of them */

struct walk {
    struct xh_survey *s;
    hid_t file;
    unsigned long number; /* HDF5's number of the file; a path may lead to another file */
    uint64_t chunk_base; /* see xh_inside_chunk_base */
    int raw;             /* 1: raw data of what is visited now is wanted */
    int meta;            /* 1: what is visited now was not visited before */
    int nomem;
};

/* ---- ranges --------------------------------------------------------------------------------- */

/* Adds [off, off + len), or its pages. Returns 0, or -1 when out of memory. */
static int add(struct walk *w, uint64_t off, uint64_t len)
{
    if (!w->s->exact && len && off <= INT64_MAX && len <= INT64_MAX) {
        uint64_t end = xh_page_up(off + len) * XH_PAGE_BYTES;
        off -= off % XH_PAGE_BYTES;
        len = end - off;
    }
    if (xh_range_add(&w->s->raw, off, len, RANGES_MOST))
        w->nomem = 1;
    return w->nomem ? -1 : 0;
}

void xh_survey_free(struct xh_survey *s)
{
    free(s->raw.at);
    s->raw = (struct xh_range_list){0};
}

/* ---- raw data ------------------------------------------------------------------------------- */

static int on_chunk(const hsize_t *at, unsigned mask, haddr_t addr, hsize_t size, void *ctx)
{
    struct walk *w = ctx;
    if (!w->raw || addr == HADDR_UNDEF || addr > INT64_MAX)
        return H5_ITER_CONT;
    return add(w, w->chunk_base + addr, size) ? H5_ITER_ERROR : H5_ITER_CONT;
}

/* Reads a whole dataset, by rows, so that HDF5 reads what its elements point to. */
static int read_through(hid_t set, hid_t type, hid_t space)
{
    hsize_t dims[H5S_MAX_RANK] = {1}, at[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, dims, NULL), rc = 0;
    uint64_t row = H5Tget_size(type);
    if (rank < 0 || row == 0 || H5Sget_simple_extent_npoints(space) <= 0)
        return 0;
    for (int d = 1; d < rank; d++) {
        row = dims[d] > VALUE_MOST_BYTES / row ? UINT64_MAX : row * dims[d];
        assert(row); /* there are elements, so no dimension is 0 */
    }
    if (row > VALUE_MOST_BYTES)
        return -1;
    uint64_t rows = VALUE_MOST_BYTES / row < dims[0] ? VALUE_MOST_BYTES / row : dims[0];
    void *buf = malloc(rows * row);
    if (!buf)
        return -1;
    for (; rc >= 0 && at[0] < dims[0]; at[0] += rows) {
        memcpy(count, dims, sizeof count);
        count[0] = dims[0] - at[0] < rows ? dims[0] - at[0] : rows;
        hid_t mem = rank ? H5Screate_simple(rank, count, NULL) : H5Screate(H5S_SCALAR);
        if (rank)
            rc = H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL);
        if (rc >= 0 && (rc = H5Dread(set, type, mem, space, H5P_DEFAULT, buf)) >= 0)
            H5Treclaim(type, mem, H5P_DEFAULT, buf);
        H5Sclose(mem);
    }
    free(buf);
    return rc;
}

/* Reads the index of the chunks in any case; it is metadata. */
static void see_dataset(struct walk *w, hid_t set)
{
    struct xh_survey *s = w->s;
    hid_t dcpl = H5Dget_create_plist(set), type = H5Dget_type(set), space = H5Dget_space(set);
    H5D_layout_t layout = dcpl < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(dcpl);
    int external = layout == H5D_CONTIGUOUS && H5Pget_external_count(dcpl) > 0;
    s->datasets += w->raw != 0;
    s->elsewhere += w->raw && (external || layout == H5D_VIRTUAL);
    if (layout == H5D_CHUNKED)
        s->unread += H5Dchunk_iter(set, H5P_DEFAULT, on_chunk, w) < 0 && !w->nomem;
    if (w->raw && layout == H5D_CONTIGUOUS && !external) {
        haddr_t addr = H5Dget_offset(set);
        if (addr != HADDR_UNDEF)
            add(w, addr, H5Dget_storage_size(set));
    }
    if (w->raw && !s->exact && !external && layout != H5D_VIRTUAL && type >= 0 && space >= 0 && xh_h5_indirect(type))
        s->unread += read_through(set, type, space) < 0;
    xh_h5_close(space);
    xh_h5_close(type);
    xh_h5_close(dcpl);
}

/* ---- metadata ------------------------------------------------------------------------------- */

/* Reads an attribute's value, because values of variable length lie elsewhere. */
static herr_t on_attribute(hid_t at, const char *name, const H5A_info_t *info, void *ctx)
{
    struct walk *w = ctx;
    int rc = -1;
    hid_t a = H5Aopen(at, name, H5P_DEFAULT);
    hid_t type = a < 0 ? -1 : H5Aget_type(a), space = a < 0 ? -1 : H5Aget_space(a);
    if (type >= 0 && space >= 0) {
        hssize_t n = H5Sget_simple_extent_npoints(space);
        size_t each = H5Tget_size(type);
        void *buf = n > 0 && each && (uint64_t)n <= VALUE_MOST_BYTES / each ? malloc((size_t)n * each) : NULL;
        if (buf && (rc = H5Aread(a, type, buf)) >= 0)
            H5Treclaim(type, space, H5P_DEFAULT, buf);
        if (n == 0)
            rc = 0;
        free(buf);
    }
    w->s->unread += rc < 0;
    xh_h5_close(space);
    xh_h5_close(type);
    xh_h5_close(a);
    return 0;
}

static herr_t pass_attribute(hid_t at, const char *name, const H5A_info_t *info, void *ctx)
{
    return 0;
}

static herr_t pass_link(hid_t at, const char *name, const H5L_info2_t *info, void *ctx)
{
    return 0;
}

/* Objects with creation order have a second index, which readers that ask for that order use. Reads it. */
static void see_order(hid_t id, H5O_type_t kind)
{
    unsigned flags = 0;
    hid_t plist = kind == H5O_TYPE_GROUP ? H5Gget_create_plist(id) : H5Dget_create_plist(id);
    if (plist >= 0 && H5Pget_attr_creation_order(plist, &flags) >= 0 && (flags & H5P_CRT_ORDER_INDEXED))
        H5Aiterate2(id, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, pass_attribute, NULL);
    if (plist >= 0 && kind == H5O_TYPE_GROUP && H5Pget_link_creation_order(plist, &flags) >= 0 &&
        (flags & H5P_CRT_ORDER_INDEXED))
        H5Literate2(id, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, pass_link, NULL);
    xh_h5_close(plist);
}

static herr_t on_object(hid_t at, const char *name, const H5O_info2_t *info, void *ctx)
{
    struct walk *w = ctx;
    if (info->fileno != w->number) {
        w->s->datasets += info->type == H5O_TYPE_DATASET;
        w->s->elsewhere += info->type == H5O_TYPE_DATASET;
        return 0;
    }
    hid_t id = H5Oopen(at, name, H5P_DEFAULT);
    if (id < 0) {
        w->s->unread++;
        return 0;
    }
    if (w->meta) {
        w->s->objects++;
        if (info->num_attrs && !w->s->exact)
            H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, on_attribute, w);
        if ((info->type == H5O_TYPE_GROUP || info->type == H5O_TYPE_DATASET) && !w->s->exact)
            see_order(id, info->type);
    }
    if (info->type == H5O_TYPE_DATASET)
        see_dataset(w, id);
    H5Oclose(id);
    if (w->s->progress)
        w->s->progress(w->s->ctx, w->s->objects);
    return w->nomem ? -1 : 0;
}

static int visit(struct walk *w, const char *path)
{
    return H5Ovisit_by_name3(w->file, path, H5_INDEX_NAME, H5_ITER_NATIVE, on_object, w,
                             H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS, H5P_DEFAULT) < 0
               ? -1
               : 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Visits each path by itself, through whatever links. */
static int visit_paths(struct walk *w, struct xh_err *err)
{
    char what[300];
    w->raw = 1;
    w->meta = 0;
    for (size_t i = 0; i < w->s->npaths; i++) {
        snprintf(what, sizeof what, "there is no dataset \"%.200s\" that can be read", w->s->paths[i]);
        hid_t id = H5Oopen(w->file, w->s->paths[i], H5P_DEFAULT);
        if (id < 0)
            return xh_h5_error(err, XH_E_NOENT, what);
        H5Oclose(id);
        uint64_t before = w->s->datasets;
        if (visit(w, w->s->paths[i]))
            return xh_h5_error(err, XH_E_SYS, what);
        if (w->s->datasets == before)
            return xh_err_set(err, XH_E_NOENT, 0, "\"%.200s\" is no dataset, and no group with one", w->s->paths[i]);
    }
    return 0;
}

int xh_survey_walk(struct xh_survey *s, const char *url, const struct xh_options *o, struct xh_err *err)
{
    char shown[512];
    struct walk w = {.s = s, .file = -1, .meta = 1, .raw = s->all};
    int rc;
    xh_url_shown(url, shown, sizeof shown);
    if ((rc = xh_h5_open(url, o, &w.file, err)) == 0) {
        H5O_info2_t root = {0};
        w.chunk_base = xh_inside_chunk_base(NULL, w.file);
        if (H5Oget_info3(w.file, &root, H5O_INFO_BASIC) >= 0)
            w.number = root.fileno;
        rc = visit(&w, "/") ? xh_h5_error(err, XH_E_SYS, "its objects cannot be walked") : visit_paths(&w, err);
        if (w.nomem)
            rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory: %s has too many chunks", shown);
        s->raw.n = xh_ranges_join(s->raw.at, s->raw.n, 0);
        struct xh_file *f = rc == 0 && s->walked ? xh_inside_cache(w.file) : NULL;
        if (f)
            rc = s->walked(s->ctx, s, f, err);
        H5Fclose(w.file);
    }
    return rc;
}
