/* The bench's reader: plain HDF5 calls, as any program makes them, through whatever driver the
 * environment names. Prints one line of JSON: moments on the monotonic clock, bytes, a checksum.
 *
 *   client FILE slabs DSET N,N,...                  all of DSET, in blocks of that shape, in row-major order
 *   client FILE blocks DSET LEN OFFSETS HOW         LEN elements at each offset; OFFSETS: a file of uint64
 *   client FILE pieces DSET N,N,... AT HOW          pieces of that shape; AT: a file of uint64, where each begins
 *   client FILE each NAMES                          the files beside FILE that NAMES lists: open, an attribute, close
 *   client FILE pick NAMES                          the datasets that the file NAMES lists, a line each, whole
 *   client FILE walk                                every object: type, shape, attributes with their values
 *
 * HOW: one (after another), select (one selection a batch), multi (H5Dread_multi), hint (announced by
 * H5Dxhdf5_prefetch, then one after another); a batch is BATCH blocks. Of pieces: one or hint.
 * BENCH_DRIVER=ros3: HDF5's own driver for objects in S3, which reads plain URLs too; ros3-signed: with AWS_REGION,
 * AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
 * slabs sums a word of every sector while the clock runs, or every byte with BENCH_CHECK=all; all the
 * others sum every byte, which their few bytes allow. BENCH_PART=I/N: of slabs and names only the I-th of N equal
 * parts. Exit status 77: this build cannot do HOW. */
#include <dlfcn.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 1000, SECTOR = 512, LANES = 4 };

static struct {
    double main, init, open, read, end;
    uint64_t bytes, operations, sum;
} report;
static int check_all;
static uint64_t part, parts = 1;

/* 1 when the |i|-th of |n| things is for this process. */
static int is_ours(uint64_t i, uint64_t n)
{
    return i >= n * part / parts && i < n * (part + 1) / parts;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The most memory this process has had; wait4's figure would have the parent's as its floor. */
static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void die(const char *what)
{
    H5Eprint2(H5E_DEFAULT, stderr);
    fprintf(stderr, "client: %s\n", what);
    exit(1);
}

static hid_t must(hid_t id, const char *what)
{
    if (id < 0)
        die(what);
    return id;
}

/* Sums that notice order. All bytes, in lanes that do not wait for each other; or a word a sector. */
static void add_all(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t lane[LANES], w;
    for (int k = 0; k < LANES; k++)
        lane[k] = report.sum + (uint64_t)k;
    size_t i = 0;
    for (; i + 8 * LANES <= n; i += 8 * LANES)
        for (int k = 0; k < LANES; k++) {
            memcpy(&w, p + i + 8 * (size_t)k, 8);
            lane[k] = (lane[k] ^ w) * 0x9E3779B97F4A7C15u;
        }
    for (; i < n; i++)
        lane[0] = (lane[0] ^ p[i]) * 0x9E3779B97F4A7C15u;
    for (int k = 0; k < LANES; k++)
        report.sum = (report.sum ^ lane[k]) * 0xD6E8FEB86659FD93u;
}

static void add_sample(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t w;
    for (size_t i = 0; i + 8 <= n; i += SECTOR) {
        memcpy(&w, p + i, 8);
        report.sum = (report.sum ^ w) * 0x9E3779B97F4A7C15u;
    }
}

static void took(const void *data, size_t n)
{
    if (check_all)
        add_all(data, n);
    else
        add_sample(data, n);
    report.bytes += n;
}

static hid_t open_dataset(hid_t file, const char *name)
{
    hid_t dset = must(H5Dopen2(file, name, H5P_DEFAULT), "cannot open the dataset");
    report.open = now();
    return dset;
}

/* All of the dataset, block by block. A block at an edge is cut. */
static void slabs(hid_t file, const char *name, const char *shape)
{
    hid_t dset = open_dataset(file, name);
    hid_t space = H5Dget_space(dset), type = H5Tget_native_type(H5Dget_type(dset), H5T_DIR_DEFAULT);
    hsize_t dims[H5S_MAX_RANK], at[H5S_MAX_RANK] = {0}, block[H5S_MAX_RANK], slab[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 1)
        die("the dataset has no dimensions");
    H5Sget_simple_extent_dims(space, dims, NULL);
    size_t most = H5Tget_size(type), element = most;
    for (int d = 0; d < rank; d++) {
        char *end;
        block[d] = strtoull(shape, &end, 10);
        if (block[d] < 1 || (d < rank - 1) != (*end == ','))
            die("the block's shape is not the dataset's");
        if (block[d] > dims[d])
            block[d] = dims[d];
        most *= block[d];
        shape = end + 1;
    }
    void *buf = calloc(1, most);
    if (!buf)
        die("no memory");
    uint64_t all = 1, i = 0;
    for (int d = 0; d < rank; d++)
        all *= (dims[d] + block[d] - 1) / block[d];
    for (int d = 0; d >= 0; i++) {
        size_t bytes = element;
        for (d = 0; d < rank; d++) {
            slab[d] = block[d] < dims[d] - at[d] ? block[d] : dims[d] - at[d];
            bytes *= slab[d];
        }
        if (is_ours(i, all)) {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, slab, NULL);
            hid_t mem = H5Screate_simple(rank, slab, NULL);
            must(H5Dread(dset, type, mem, space, H5P_DEFAULT, buf), "cannot read");
            H5Sclose(mem);
            took(buf, bytes);
            report.operations++;
        }
        for (d = rank - 1; d >= 0 && (at[d] += block[d]) >= dims[d]; d--)
            at[d] = 0;
    }
    free(buf);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dset);
}

/* H5Dxhdf5_prefetch of the plugin in this process, where it has one. */
static herr_t (*find_prefetch(void))(hid_t, hid_t)
{
    char path[4096];
    const char *dir = getenv("HDF5_PLUGIN_PATH");
    snprintf(path, sizeof path, "%s/libhdf5_vfd_xhdf5.so", dir ? dir : "");
    void *so = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    herr_t (*f)(hid_t, hid_t) = NULL;
    if (so)
        *(void **)&f = dlsym(so, "H5Dxhdf5_prefetch");
    return f;
}

static uint64_t *load_offsets(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die("cannot read the offsets");
    long size = ftell(f);
    rewind(f);
    uint64_t *offsets = malloc(size > 0 ? (size_t)size : 1);
    *n = size > 0 ? (size_t)size / sizeof *offsets : 0;
    if (!offsets || fread(offsets, sizeof *offsets, *n, f) != *n || *n == 0)
        die("cannot read the offsets");
    fclose(f);
    return offsets;
}

static void select_block(hid_t space, H5S_seloper_t op, uint64_t offset, hsize_t length)
{
    hsize_t at = offset;
    must(H5Sselect_hyperslab(space, op, &at, NULL, &length, NULL), "an offset lies outside");
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Selects all of a batch at once: in the order of the file, which HDF5 does fast. */
static hid_t select_batch(hid_t dset, const uint64_t *offsets, size_t n, hsize_t length)
{
    hid_t space = H5Dget_space(dset);
    uint64_t sorted[BATCH];
    memcpy(sorted, offsets, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_offset);
    for (size_t i = 0; i < n; i++)
        select_block(space, i ? H5S_SELECT_OR : H5S_SELECT_SET, sorted[i], length);
    return space;
}

static void read_one(hid_t dset, hid_t type, const uint64_t *offsets, size_t n, hsize_t length, char *buf, size_t bytes)
{
    hid_t space = H5Dget_space(dset), mem = H5Screate_simple(1, &length, NULL);
    for (size_t i = 0; i < n; i++, report.operations++) {
        select_block(space, H5S_SELECT_SET, offsets[i], length);
        must(H5Dread(dset, type, mem, space, H5P_DEFAULT, buf), "cannot read");
        took(buf, bytes);
    }
    H5Sclose(mem);
    H5Sclose(space);
}

static void read_select(hid_t dset, hid_t type, const uint64_t *offsets, size_t n, hsize_t length, char *buf,
                        size_t bytes)
{
    hid_t space = select_batch(dset, offsets, n, length);
    hsize_t all = n * length;
    hid_t mem = H5Screate_simple(1, &all, NULL);
    must(H5Dread(dset, type, mem, space, H5P_DEFAULT, buf), "cannot read");
    took(buf, n * bytes);
    report.operations++;
    H5Sclose(mem);
    H5Sclose(space);
}

static void read_multi(hid_t dset, hid_t type, const uint64_t *offsets, size_t n, hsize_t length, char *buf,
                       size_t bytes)
{
    hid_t dsets[BATCH], types[BATCH], mems[BATCH], spaces[BATCH];
    void *bufs[BATCH];
    for (size_t i = 0; i < n; i++) {
        dsets[i] = dset;
        types[i] = type;
        mems[i] = H5Screate_simple(1, &length, NULL);
        spaces[i] = H5Dget_space(dset);
        select_block(spaces[i], H5S_SELECT_SET, offsets[i], length);
        bufs[i] = buf + i * bytes;
    }
    must(H5Dread_multi(n, dsets, types, mems, spaces, H5P_DEFAULT, bufs), "cannot read");
    took(buf, n * bytes);
    report.operations++;
    for (size_t i = 0; i < n; i++) {
        H5Sclose(mems[i]);
        H5Sclose(spaces[i]);
    }
}

static void blocks(hid_t file, const char *name, hsize_t length, const char *path, const char *how)
{
    size_t n;
    uint64_t *offsets = load_offsets(path, &n);
    hid_t dset = open_dataset(file, name);
    hid_t type = H5Tget_native_type(H5Dget_type(dset), H5T_DIR_DEFAULT);
    size_t bytes = length * H5Tget_size(type);
    int multi = strcmp(how, "multi") == 0, hint = strcmp(how, "hint") == 0;
    int one = hint || strcmp(how, "one") == 0;
    hint = hint && getenv("HDF5_DRIVER");       /* a local file needs none */
    herr_t (*prefetch)(hid_t, hid_t) = hint ? find_prefetch() : NULL;
    char *buf = malloc(one ? bytes : BATCH * bytes);
    if (!buf)
        die("no memory");
    if (hint && !prefetch) {
        fprintf(stderr, "client: the plugin has no H5Dxhdf5_prefetch\n");
        exit(77);
    }
    for (size_t i = 0; hint && i < n; i += BATCH) {
        hid_t space = select_batch(dset, offsets + i, n - i < BATCH ? n - i : BATCH, length);
        must(prefetch(dset, space), "the hint was refused");
        H5Sclose(space);
    }
    for (size_t i = 0; i < n; i += BATCH) {
        size_t some = n - i < BATCH ? n - i : BATCH;
        if (one)
            read_one(dset, type, offsets + i, some, length, buf, bytes);
        else if (multi)
            read_multi(dset, type, offsets + i, some, length, buf, bytes);
        else
            read_select(dset, type, offsets + i, some, length, buf, bytes);
    }
    free(buf);
    free(offsets);
    H5Tclose(type);
    H5Dclose(dset);
}

/* A shape "N,N,..." of |rank| dimensions. */
static void shape_of(const char *text, int rank, hsize_t *shape)
{
    for (int d = 0; d < rank; d++) {
        char *end;
        shape[d] = strtoull(text, &end, 10);
        if (shape[d] < 1 || (d < rank - 1) != (*end == ','))
            die("the shape is not the dataset's");
        text = end + 1;
    }
}

static hsize_t order_rank;

static int by_place(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    for (hsize_t d = 0; d < order_rank; d++)
        if (x[d] != y[d])
            return x[d] < y[d] ? -1 : 1;
    return 0;
}

/* Announces |n| pieces at once. */
static void hint_pieces(herr_t (*prefetch)(hid_t, hid_t), hid_t dset, const uint64_t *at, size_t n,
                        const hsize_t *shape)
{
    size_t rank = order_rank;
    uint64_t *sorted = malloc(n * rank * sizeof *sorted);
    hid_t space = H5Dget_space(dset);
    if (!sorted)
        die("no memory");
    memcpy(sorted, at, n * rank * sizeof *sorted);
    qsort(sorted, n, rank * sizeof *sorted, by_place);
    for (size_t i = 0; i < n; i++) {
        hsize_t start[H5S_MAX_RANK];
        for (size_t d = 0; d < rank; d++)
            start[d] = sorted[i * rank + d];
        H5S_seloper_t how = i ? H5S_SELECT_OR : H5S_SELECT_SET;
        must(H5Sselect_hyperslab(space, how, start, NULL, shape, NULL), "a piece lies outside");
    }
    must(prefetch(dset, space), "the hint was refused");
    H5Sclose(space);
    free(sorted);
}

static void pieces(hid_t file, const char *name, const char *text, const char *path, const char *how)
{
    size_t n, bytes;
    uint64_t *at = load_offsets(path, &n);
    hid_t dset = open_dataset(file, name), space = H5Dget_space(dset);
    hid_t type = H5Tget_native_type(H5Dget_type(dset), H5T_DIR_DEFAULT);
    int rank = H5Sget_simple_extent_ndims(space);
    hsize_t shape[H5S_MAX_RANK], start[H5S_MAX_RANK];
    if (rank < 1 || n % (size_t)rank != 0)
        die("the places are not the dataset's");
    shape_of(text, rank, shape);
    order_rank = (hsize_t)rank;
    n /= (size_t)rank;
    bytes = H5Tget_size(type);
    for (int d = 0; d < rank; d++)
        bytes *= shape[d];
    if (strcmp(how, "hint") == 0 && getenv("HDF5_DRIVER")) {    /* a local file needs none */
        herr_t (*prefetch)(hid_t, hid_t) = find_prefetch();
        if (!prefetch) {
            fprintf(stderr, "client: the plugin has no H5Dxhdf5_prefetch\n");
            exit(77);
        }
        for (size_t i = 0; i < n; i += BATCH)
            hint_pieces(prefetch, dset, at + i * (size_t)rank, n - i < BATCH ? n - i : BATCH, shape);
    }
    char *buf = malloc(bytes);
    hid_t mem = H5Screate_simple(rank, shape, NULL);
    if (!buf)
        die("no memory");
    for (size_t i = 0; i < n; i++, report.operations++) {
        for (int d = 0; d < rank; d++)
            start[d] = at[i * (size_t)rank + (size_t)d];
        must(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, shape, NULL), "a piece lies outside");
        must(H5Dread(dset, type, mem, space, H5P_DEFAULT, buf), "cannot read");
        took(buf, bytes);
    }
    free(buf);
    free(at);
    H5Sclose(mem);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dset);
}

/* Files beside |path|, one after another. */
static void each(const char *path, hid_t fapl, const char *names)
{
    char name[256], whole[4096];
    const char *slash = strrchr(path, '/');
    FILE *f = fopen(names, "r");
    if (!f)
        die("cannot read the names");
    report.open = now();
    for (; fgets(name, sizeof name, f); report.operations++) {
        uint64_t number = 0;
        name[strcspn(name, "\n")] = '\0';
        snprintf(whole, sizeof whole, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
        hid_t file = must(H5Fopen(whole, H5F_ACC_RDONLY, fapl), "cannot open a file that was named");
        hid_t attr = must(H5Aopen(file, "number", H5P_DEFAULT), "cannot open its attribute");
        must(H5Aread(attr, H5T_NATIVE_UINT64, &number), "cannot read its attribute");
        took(&number, sizeof number);
        H5Aclose(attr);
        H5Fclose(file);
    }
    fclose(f);
}

static void read_whole(hid_t file, const char *name)
{
    hid_t dset = must(H5Dopen2(file, name, H5P_DEFAULT), "cannot open a dataset that was named");
    hid_t space = H5Dget_space(dset), type = H5Tget_native_type(H5Dget_type(dset), H5T_DIR_DEFAULT);
    size_t bytes = H5Tget_size(type) * (size_t)H5Sget_simple_extent_npoints(space);
    void *buf = malloc(bytes + 1);
    if (!buf)
        die("no memory");
    must(H5Dread(dset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, buf), "cannot read");
    took(buf, bytes);
    report.operations++;
    free(buf);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dset);
}

static void pick(hid_t file, const char *path)
{
    char name[512];
    uint64_t n = 0, i = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        die("cannot read the names");
    while (fgets(name, sizeof name, f))
        n++;
    rewind(f);
    report.open = now();
    for (; fgets(name, sizeof name, f); i++)
        if (is_ours(i, n)) {
            name[strcspn(name, "\n")] = '\0';
            read_whole(file, name);
        }
    fclose(f);
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *unused)
{
    hid_t attr = must(H5Aopen(object, name, H5P_DEFAULT), "cannot open an attribute");
    hid_t type = H5Aget_type(attr), space = H5Aget_space(attr);
    size_t bytes = H5Tget_size(type) * (size_t)H5Sget_simple_extent_npoints(space);
    void *buf = calloc(1, bytes + 1);
    add_all(name, strlen(name));
    must(H5Aread(attr, type, buf), "cannot read an attribute");
    if (H5Tis_variable_str(type) > 0) {
        for (hssize_t i = 0; i < H5Sget_simple_extent_npoints(space); i++)
            if (((char **)buf)[i])
                add_all(((char **)buf)[i], strlen(((char **)buf)[i]));
        H5Treclaim(type, space, H5P_DEFAULT, buf);
    } else {
        add_all(buf, bytes);
    }
    report.bytes += bytes;
    free(buf);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attr);
    return 0;
}

static herr_t visit_object(hid_t file, const char *name, const H5O_info2_t *info, void *unused)
{
    hid_t object = must(H5Oopen(file, name, H5P_DEFAULT), "cannot open an object");
    add_all(name, strlen(name));
    report.operations++;
    if (info->type == H5O_TYPE_DATASET) {
        hid_t space = H5Dget_space(object), type = H5Dget_type(object);
        hsize_t dims[H5S_MAX_RANK] = {0};
        int rank = H5Sget_simple_extent_dims(space, dims, NULL);
        size_t size = H5Tget_size(type);
        add_all(dims, sizeof *dims * (size_t)(rank > 0 ? rank : 0));
        add_all(&size, sizeof size);
        H5Tclose(type);
        H5Sclose(space);
    }
    must(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, visit_attribute, NULL), "cannot list attributes");
    H5Oclose(object);
    return 0;
}

static void walk(hid_t file)
{
    report.open = now();
    must(H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit_object, NULL, H5O_INFO_BASIC), "cannot walk the file");
}

#ifdef H5_HAVE_ROS3_VFD
static void key_of(const char *variable, char *out, size_t size)
{
    const char *value = getenv(variable);
    if (!value || snprintf(out, size, "%s", value) >= (int)size)
        die("ROS3 needs a key of AWS's variables");
}
#endif

/* What files are opened with. */
static hid_t access_list(void)
{
    const char *driver = getenv("BENCH_DRIVER");
    if (!driver)
        return H5P_DEFAULT;
#ifdef H5_HAVE_ROS3_VFD
    int is_signed = strcmp(driver, "ros3-signed") == 0;
    if (is_signed || strcmp(driver, "ros3") == 0) {
        hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
        H5FD_ros3_fapl_t how = {.version = H5FD_CURR_ROS3_FAPL_T_VERSION, .authenticate = is_signed};
        if (is_signed) {
            key_of("AWS_REGION", how.aws_region, sizeof how.aws_region);
            key_of("AWS_ACCESS_KEY_ID", how.secret_id, sizeof how.secret_id);
            key_of("AWS_SECRET_ACCESS_KEY", how.secret_key, sizeof how.secret_key);
        }
        must(H5Pset_fapl_ros3(fapl, &how), "ROS3 is refused");
        return fapl;
    }
#endif
    fprintf(stderr, "client: this HDF5 has no driver %s\n", driver);
    exit(77);
}

int main(int argc, char **argv)
{
    report.main = now();
    const char *verb = argc > 2 ? argv[2] : "", *check = getenv("BENCH_CHECK");
    int is_slabs = argc == 5 && strcmp(verb, "slabs") == 0, is_blocks = argc == 7 && strcmp(verb, "blocks") == 0;
    int is_pick = argc == 4 && strcmp(verb, "pick") == 0, is_each = argc == 4 && strcmp(verb, "each") == 0;
    int is_pieces = argc == 7 && strcmp(verb, "pieces") == 0;
    if (!is_slabs && !is_blocks && !is_pick && !is_each && !is_pieces && !(argc == 3 && strcmp(verb, "walk") == 0)) {
        fprintf(stderr, "usage: client FILE slabs DSET N,N,... | blocks DSET LEN OFFSETS HOW | "
                        "pieces DSET N,N,... AT HOW | each NAMES | pick NAMES | walk\n");
        return 2;
    }
    const char *share = getenv("BENCH_PART");
    if (share && (sscanf(share, "%" SCNu64 "/%" SCNu64, &part, &parts) != 2 || part >= parts))
        die("BENCH_PART must be I/N");
    check_all = !is_slabs || (check && strcmp(check, "all") == 0);
    must(H5open(), "HDF5 does not start");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    report.init = now();
    hid_t fapl = access_list(), file = -1;
    if (!is_each)
        file = must(H5Fopen(argv[1], H5F_ACC_RDONLY, fapl), "cannot open the file");
    if (is_each)
        each(argv[1], fapl, argv[3]);
    else if (is_pieces)
        pieces(file, argv[3], argv[4], argv[5], argv[6]);
    else if (is_slabs)
        slabs(file, argv[3], argv[4]);
    else if (is_blocks)
        blocks(file, argv[3], strtoull(argv[4], NULL, 10), argv[5], argv[6]);
    else if (is_pick)
        pick(file, argv[3]);
    else
        walk(file);
    report.read = now();
    if (file >= 0)
        H5Fclose(file);
    report.end = now();
    printf("{\"main\":%.6f,\"init\":%.6f,\"open\":%.6f,\"read\":%.6f,\"end\":%.6f,\"bytes\":%" PRIu64
           ",\"operations\":%" PRIu64 ",\"sum\":\"%016" PRIx64 "\",\"rss_bytes\":%ld}\n",
           report.main, report.init, report.open, report.read, report.end, report.bytes, report.operations, report.sum,
           1024 * resident_kib());
    return 0;
}
