/* Looking at a file's objects: see look.h. */
#include "look.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/base/err.h"
#include "../../cache/base/now.h"
#include "../inside.h"
#include "h5open.h"

#define RANGES_MOST (1u << 22) /* 64 MiB of them */
#define CHUNKS_MOST 20000000u  /* of one dataset: one minute of work, and more than any dataset that is read well */
#define TYPE_DEPTH_MOST 8u
#define NAME_BYTES 2048

struct looker {
    struct xh_look *l;
    hid_t file;
    uint64_t chunk_base; /* see xh_inside_chunk_base */
    const char *under;   /* the path that names are relative to: "" or "/a/b" */
    int nomem;
};

struct words { /* text that is cut at the buffer's end */
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->at, w->left, fmt, ap);
    va_end(ap);
    size_t used = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
    w->at += used;
    w->left -= used;
}

const char *xh_look_shape(const uint64_t *n, unsigned rank, char *out, size_t size)
{
    struct words w = {out, size};
    say(&w, rank ? "[" : "scalar");
    for (unsigned i = 0; i < rank; i++)
        n[i] == UINT64_MAX ? say(&w, "%sunlimited", i ? ", " : "") : say(&w, "%s%" PRIu64, i ? ", " : "", n[i]);
    if (rank)
        say(&w, "]");
    return out;
}

const char *xh_layout_name(enum xh_layout l)
{
    static const char *const names[] = {"compact", "contiguous", "chunked", "virtual", "external"};
    return names[l];
}

/* ---- types ---------------------------------------------------------------------------------- */

static void say_type(struct words *w, hid_t type, unsigned depth);

/* Writes the type of which |type|'s elements are. */
static void say_inner(struct words *w, hid_t type, unsigned depth)
{
    hid_t inner = H5Tget_super(type);
    if (inner >= 0)
        say_type(w, inner, depth + 1);
    xh_h5_close(inner);
}

static void say_members(struct words *w, hid_t type, unsigned depth)
{
    int n = H5Tget_nmembers(type);
    say(w, "{");
    for (int i = 0; i < n && w->left > 1; i++) {
        hid_t inner = H5Tget_member_type(type, (unsigned)i);
        char *name = H5Tget_member_name(type, (unsigned)i);
        say(w, "%s%s ", i ? ", " : "", name ? name : "?");
        if (inner >= 0)
            say_type(w, inner, depth + 1);
        xh_h5_close(inner);
        H5free_memory(name);
    }
    say(w, "}");
}

static void say_array(struct words *w, hid_t type, unsigned depth)
{
    hsize_t dims[H5S_MAX_RANK];
    int rank = H5Tget_array_dims2(type, dims);
    say_inner(w, type, depth);
    for (int i = 0; i < rank; i++)
        say(w, "[%" PRIu64 "]", (uint64_t)dims[i]);
}

static void say_type(struct words *w, hid_t type, unsigned depth)
{
    size_t bytes = H5Tget_size(type);
    const char *order = bytes > 1 && H5Tget_order(type) == H5T_ORDER_BE ? ", big-endian" : "";
    if (depth > TYPE_DEPTH_MOST) {
        say(w, "…");
        return;
    }
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: say(w, "%sint%zu%s", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", 8 * bytes, order); break;
    case H5T_FLOAT: say(w, "float%zu%s", 8 * bytes, order); break;
    case H5T_STRING: H5Tis_variable_str(type) > 0 ? say(w, "string") : say(w, "string[%zu]", bytes); break;
    case H5T_VLEN: say(w, "list of "); say_inner(w, type, depth); break;
    case H5T_COMPOUND: say_members(w, type, depth); break;
    case H5T_ENUM: say(w, "enum of "); say_inner(w, type, depth); break;
    case H5T_ARRAY: say_array(w, type, depth); break;
    case H5T_REFERENCE: say(w, "reference"); break;
    case H5T_OPAQUE: say(w, "opaque[%zu]", bytes); break;
    case H5T_BITFIELD: say(w, "bits%zu", 8 * bytes); break;
    default: say(w, "type of %zu bytes", bytes); break;
    }
}

/* ---- filters -------------------------------------------------------------------------------- */

static const char *filter_name(H5Z_filter_t id)
{
    static const struct {
        H5Z_filter_t id;
        const char *name;
    } known[] = {{H5Z_FILTER_DEFLATE, "gzip"}, {H5Z_FILTER_SHUFFLE, "shuffle"}, {H5Z_FILTER_FLETCHER32, "fletcher32"},
                 {H5Z_FILTER_SZIP, "szip"}, {H5Z_FILTER_NBIT, "nbit"}, {H5Z_FILTER_SCALEOFFSET, "scaleoffset"},
                 {307, "bzip2"}, {32000, "lzf"}, {32001, "blosc"}, {32004, "lz4"}, {32008, "bitshuffle"},
                 {32013, "zfp"}, {32015, "zstd"}, {32017, "sz"}, {32024, "sz3"}, {32026, "blosc2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].name;
    return NULL;
}

static void see_filters(struct xh_object *ob, hid_t dcpl)
{
    struct words w = {ob->filters, sizeof ob->filters};
    int n = H5Pget_nfilters(dcpl);
    for (int i = 0; i < n; i++) {
        unsigned flags, set[8] = {0};
        size_t values = 8;
        char own[64] = "";
        H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &values, set, sizeof own, own, NULL);
        if (id < 0)
            continue;
        int missing = H5Zfilter_avail(id) <= 0;
        const char *name = filter_name(id);
        say(&w, "%s%s", i ? " " : "", missing ? "!" : "");
        name ? say(&w, "%s", name) : say(&w, "%s (%d)", own[0] ? own : "filter", (int)id);
        if (id == H5Z_FILTER_DEFLATE && values)
            say(&w, "-%u", set[0]);
        ob->missing |= missing;
        ob->filtered = 1;
        ob->gzip |= id == H5Z_FILTER_DEFLATE;
    }
}

/* ---- raw data ------------------------------------------------------------------------------- */

static void note_raw(struct looker *k, uint64_t off, uint64_t len)
{
    k->nomem = k->nomem || xh_range_add(&k->l->raw, off, len, RANGES_MOST);
}

struct chunks {
    struct looker *k;
    struct xh_object *ob;
};

static int is_over(const struct xh_look *l)
{
    return l->until_ns && xh_now_ns() > l->until_ns;
}

static int on_chunk(const hsize_t *at, unsigned mask, haddr_t addr, hsize_t size, void *ctx)
{
    struct chunks *c = ctx;
    if (addr == HADDR_UNDEF)
        return H5_ITER_CONT;
    c->ob->chunks++;
    c->ob->stored_bytes += size;
    note_raw(c->k, c->k->chunk_base + addr, size);
    if (c->ob->chunks > CHUNKS_MOST || (c->ob->chunks % 1024 == 0 && is_over(c->k->l))) {
        c->k->l->seen.cut = 1;
        return H5_ITER_STOP;
    }
    return H5_ITER_CONT;
}

static void see_storage(struct looker *k, struct xh_object *ob, hid_t set)
{
    struct chunks c = {k, ob};
    if (ob->layout == XH_LAYOUT_CHUNKED) {
        k->l->seen.unread += H5Dchunk_iter(set, H5P_DEFAULT, on_chunk, &c) < 0;
    } else if (ob->layout == XH_LAYOUT_CONTIGUOUS) {
        haddr_t addr = H5Dget_offset(set);
        if (addr != HADDR_UNDEF) {
            ob->stored_bytes = H5Dget_storage_size(set);
            note_raw(k, addr, ob->stored_bytes);
        }
    }
    k->l->seen.data_bytes += ob->stored_bytes;
}

/* ---- objects -------------------------------------------------------------------------------- */

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static void see_shape(struct xh_object *ob, hid_t space, uint64_t element_bytes)
{
    hsize_t dims[H5S_MAX_RANK], most[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_type(space) == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, dims, most) : 0;
    ob->rank = rank > 0 ? (unsigned)rank : 0;
    ob->bytes = H5Sget_simple_extent_type(space) == H5S_NULL ? 0 : element_bytes;
    for (unsigned i = 0; i < ob->rank; i++) {
        ob->dims[i] = dims[i];
        ob->most[i] = most[i] == H5S_UNLIMITED ? UINT64_MAX : most[i];
        ob->bytes = times(ob->bytes, dims[i]);
    }
}

static enum xh_layout layout_of(hid_t dcpl)
{
    switch (H5Pget_layout(dcpl)) {
    case H5D_COMPACT: return XH_LAYOUT_COMPACT;
    case H5D_CHUNKED: return XH_LAYOUT_CHUNKED;
    case H5D_VIRTUAL: return XH_LAYOUT_VIRTUAL;
    default: return H5Pget_external_count(dcpl) > 0 ? XH_LAYOUT_EXTERNAL : XH_LAYOUT_CONTIGUOUS;
    }
}

/* Passes on the sources of a virtual dataset. */
static void see_sources(struct xh_look *l, hid_t dcpl)
{
    size_t n = 0;
    if (H5Pget_virtual_count(dcpl, &n) < 0)
        return;
    for (size_t i = 0; i < n && !is_over(l); i++) {
        char name[NAME_BYTES];
        ssize_t len = H5Pget_virtual_filename(dcpl, i, name, sizeof name);
        if (len > 0 && (size_t)len < sizeof name)
            l->named(l->ctx, name);
    }
}

/* Returns 0, or -1 when HDF5 cannot read the dataset. */
static int see_dataset(struct looker *k, struct xh_object *ob, hid_t set)
{
    hid_t dcpl = H5Dget_create_plist(set), type = H5Dget_type(set), space = H5Dget_space(set);
    int rc = dcpl >= 0 && type >= 0 && space >= 0 ? 0 : -1;
    if (rc == 0) {
        struct words w = {ob->type, sizeof ob->type};
        hsize_t chunk[H5S_MAX_RANK];
        say_type(&w, type, 0);
        ob->indirect = xh_h5_indirect(type);
        see_shape(ob, space, H5Tget_size(type));
        ob->layout = layout_of(dcpl);
        see_filters(ob, dcpl);
        if (ob->layout == XH_LAYOUT_VIRTUAL && k->l->named)
            see_sources(k->l, dcpl);
        int n = ob->layout == XH_LAYOUT_CHUNKED ? H5Pget_chunk(dcpl, H5S_MAX_RANK, chunk) : 0;
        ob->chunk_bytes = n > 0 ? H5Tget_size(type) : 0;
        for (int i = 0; i < n; i++)
            ob->chunk_bytes = times(ob->chunk_bytes, ob->chunk[i] = chunk[i]);
        if (k->l->storage)
            see_storage(k, ob, set);
    }
    xh_h5_close(space);
    xh_h5_close(type);
    xh_h5_close(dcpl);
    return rc;
}

static void weigh_metadata(struct xh_look *l, hid_t id)
{
    H5O_native_info_t n;
    if (l->links || H5Oget_native_info(id, &n, H5O_NATIVE_INFO_HDR | H5O_NATIVE_INFO_META_SIZE) < 0)
        return;
    l->seen.metadata_bytes += n.hdr.space.total + n.meta_size.obj.index_size + n.meta_size.obj.heap_size +
                              n.meta_size.attr.index_size + n.meta_size.attr.heap_size;
}

/* Says in |ob| that it cannot be read, by which HDF5, and with |why| what is on HDF5's error stack now. A newer HDF5
 * may have written it, and the user's program may have that one. */
static void is_unread(struct xh_object *ob, int why)
{
    struct xh_err err = {0};
    unsigned v[3] = {0};
    char what[80];
    ob->kind = XH_OBJ_UNREAD;
    if (why)
        xh_h5_error(&err, XH_E_SYS, "");
    H5get_libversion(&v[0], &v[1], &v[2]);
    snprintf(what, sizeof what, "HDF5 %u.%u.%u cannot read it", v[0], v[1], v[2]);
    snprintf(ob->type, sizeof ob->type, "%s%.*s", what, (int)(sizeof ob->type - sizeof what), err.text);
}

/* Fills |ob| from the object |name| at |at|. Returns what H5Ovisit expects: 0 to go on. */
static herr_t see(struct looker *k, hid_t at, const char *name, struct xh_object *ob)
{
    struct xh_look *l = k->l;
    struct xh_seen *t = &l->seen;
    H5O_info2_t info = {0};
    hid_t id = H5Oopen(at, name, H5P_DEFAULT);
    if (id >= 0 && H5Oget_info3(id, &info, H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS) >= 0) {
        ob->kind = info.type == H5O_TYPE_GROUP     ? XH_OBJ_GROUP
                   : info.type == H5O_TYPE_DATASET ? XH_OBJ_DATASET
                                                   : XH_OBJ_TYPE;
        if (ob->kind == XH_OBJ_DATASET && see_dataset(k, ob, id))
            is_unread(ob, 0);
        weigh_metadata(l, id);
    } else
        is_unread(ob, 1);
    xh_h5_close(id);
    t->attributes += info.num_attrs;
    *(ob->kind == XH_OBJ_GROUP ? &t->groups : ob->kind == XH_OBJ_DATASET ? &t->datasets
      : ob->kind == XH_OBJ_TYPE ? &t->types : &t->unread) += 1;
    if (is_over(l) || (l->objects_most && t->groups + t->datasets + t->types + t->unread >= l->objects_most))
        t->cut = 1;
    if (l->each && l->each(l->ctx, ob))
        return 1;
    return t->cut;
}

/* Returns the path of |name|, which is relative to |k->under|. Owns: free(). */
static char *path_of(const struct looker *k, const char *name)
{
    char *path = NULL;
    if (strcmp(name, ".") == 0)
        return strdup(k->under[0] ? k->under : "/");
    return asprintf(&path, "%s/%s", k->under, name) < 0 ? NULL : path;
}

static herr_t on_object(hid_t at, const char *name, const H5O_info2_t *info, void *ctx)
{
    struct looker *k = ctx;
    struct xh_object ob = {0};
    char *path = path_of(k, name);
    herr_t rc = path ? (ob.path = path, see(k, at, name, &ob)) : -1;
    free(path);
    return rc;
}

/* Returns the target of a soft or external link, a URL without user name and query, or NULL. Owns: free(). */
static char *target_of(hid_t at, const char *name, const H5L_info2_t *info)
{
    const char *file, *path;
    char *value = info->u.val_size < (1u << 20) ? calloc(1, info->u.val_size + 1) : NULL, *target = NULL;
    if (!value || H5Lget_val(at, name, value, info->u.val_size, H5P_DEFAULT) < 0) {
        free(value);
        return NULL;
    }
    if (info->type == H5L_TYPE_SOFT)
        return value;
    int known = H5Lunpack_elink_val(value, info->u.val_size, NULL, &file, &path) >= 0;
    char *shown = known ? strdup(file) : NULL;
    if (shown && xh_cache_is_url(file))
        xh_url_shown(file, shown, strlen(file) + 1);
    if (!shown || asprintf(&target, "%s: %s", shown, path) < 0)
        target = NULL;
    free(shown);
    free(value);
    return target;
}

static herr_t on_link(hid_t at, const char *name, const H5L_info2_t *info, void *ctx)
{
    struct looker *k = ctx;
    struct xh_object ob = {0};
    if (info->type == H5L_TYPE_HARD)
        return on_object(at, name, NULL, ctx);
    char *path = path_of(k, name), *target = target_of(at, name, info);
    ob.kind = info->type == H5L_TYPE_SOFT ? XH_OBJ_SOFT : XH_OBJ_EXTERNAL;
    ob.path = path;
    ob.target = target;
    herr_t rc = !path ? -1 : k->l->each ? k->l->each(k->l->ctx, &ob) != 0 : 0;
    free(path);
    free(target);
    return rc;
}

/* Passes on external links only. */
static herr_t on_elsewhere(hid_t at, const char *name, const H5L_info2_t *info, void *ctx)
{
    struct looker *k = ctx;
    const char *file, *path;
    if (info->type != H5L_TYPE_EXTERNAL || info->u.val_size > NAME_BYTES)
        return is_over(k->l);
    char value[NAME_BYTES + 1] = "";
    if (H5Lget_val(at, name, value, NAME_BYTES, H5P_DEFAULT) >= 0 &&
        H5Lunpack_elink_val(value, info->u.val_size, NULL, &file, &path) >= 0)
        k->l->named(k->l->ctx, file);
    return is_over(k->l);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void see_file(struct xh_look *l, hid_t file)
{
    H5F_info2_t info;
    H5F_fspace_strategy_t strategy;
    hbool_t persist;
    hsize_t n, threshold;
    hid_t fcpl = H5Fget_create_plist(file);
    if (H5Fget_filesize(file, &n) >= 0)
        l->size = n;
    if (H5Fget_info2(file, &info) >= 0) {
        l->seen.superblock = info.super.version;
        l->seen.metadata_bytes = info.super.super_size + info.super.super_ext_size + info.sohm.hdr_size +
                                 info.sohm.msgs_info.index_size + info.sohm.msgs_info.heap_size;
    }
    if (fcpl < 0)
        return;
    if (H5Pget_userblock(fcpl, &n) >= 0)
        l->seen.user_block = n;
    if (H5Pget_file_space_strategy(fcpl, &strategy, &persist, &threshold) >= 0 &&
        strategy == H5F_FSPACE_STRATEGY_PAGE && H5Pget_file_space_page_size(fcpl, &n) >= 0)
        l->seen.page_bytes = n;
    H5Pclose(fcpl);
}

static void see_cost(struct xh_look *l, hid_t file)
{
    struct xh_file *f = xh_inside_cache(file);
    struct xh_stats s;
    if (!f)
        return;
    xh_cache_stats(f, &s);
    l->seen.requests = s.requests;
    l->seen.fetched_bytes = s.bytes_fetched;
    l->seen.connections = s.connections;
}

static int walk(struct looker *k, const char *start, struct xh_err *err)
{
    struct xh_look *l = k->l;
    char what[300];
    herr_t rc;
    hid_t top = H5Oopen(k->file, start, H5P_DEFAULT);
    snprintf(what, sizeof what, "there is no \"%.200s\" that can be read", start);
    if (top < 0)
        return xh_h5_error(err, XH_E_NOENT, what);
    if (l->links && H5Iget_type(top) == H5I_GROUP) {
        rc = on_object(top, ".", NULL, k);
        rc = rc ? rc : H5Lvisit2(top, H5_INDEX_NAME, H5_ITER_INC, on_link, k);
    } else {
        rc = H5Ovisit3(top, H5_INDEX_NAME, H5_ITER_NATIVE, on_object, k, H5O_INFO_BASIC);
        if (rc >= 0 && l->named && H5Iget_type(top) == H5I_GROUP)
            /* objects that cannot be read were counted before */
            H5Lvisit2(top, H5_INDEX_NAME, H5_ITER_NATIVE, on_elsewhere, k);
    }
    H5Oclose(top);
    return rc < 0 ? xh_h5_error(err, XH_E_SYS, "its objects cannot be walked") : 0;
}

int xh_look(struct xh_look *l, const char *url, const struct xh_options *o, struct xh_err *err)
{
    struct looker k = {.l = l, .under = ""};
    const char *start = l->path ? l->path : "/";
    char *under = NULL;
    int rc = asprintf(&under, "%s%s", start[0] == '/' ? "" : "/", start) < 0 ? XH_E_NOMEM : 0;
    if (rc) {
        under = NULL;
        xh_err_set(err, rc, 0, "out of memory");
    }
    if (rc == 0 && (rc = xh_h5_open(url, o, &k.file, err)) == 0) {
        for (size_t n = strlen(under); n && under[n - 1] == '/'; n--)
            under[n - 1] = '\0';
        k.under = under;
        k.chunk_base = xh_inside_chunk_base(NULL, k.file);
        l->opened_ns = xh_now_ns();
        see_file(l, k.file);
        rc = walk(&k, start, err);
        see_cost(l, k.file);
        H5Fclose(k.file);
    }
    free(under);
    if (k.nomem)
        xh_look_free(l);
    l->raw.n = xh_ranges_join(l->raw.at, l->raw.n, 0);
    return rc;
}

void xh_look_free(struct xh_look *l)
{
    free(l->raw.at);
    l->raw = (struct xh_range_list){0};
}
