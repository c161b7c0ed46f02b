/* Worlds with an HDF5 file, which HDF5 reads through the driver as programs do. See world.h.
 *
 * The file is written by HDF5, with space for its raw data and no data. What HDF5 wrote, the metadata, becomes the
 * object's segments; the rest has the bytes that follow from their place, and so each read can be checked. */
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../vfd/xhdf5.h"
#include "baton.h"
#include "simwire.h"
#include "world.h"

/* In the order ASIDE, behind so many reads one of so many bytes. */
#define ASIDE_READS 32
#define ASIDE_BYTES (4u << 20)
#define SETS_IN_GROUP 100
#define SETS_IN_DEPTH  20
#define SETS_IN_BRANCH 25 /* as the bench's tree has them */
#define ROW 4096u /* bytes of a row where there are chunks; those are whole rows */
#define CHUNK_ROWS_MOST 256u
#define LARGE_CHUNK_ROWS_MOST 1024u

/* A filter that stands for gzip: a chunk is stored in fewer bytes than it has, and to unpack it takes time. What is
 * stored are the chunk's first bytes, the others are 0. */
#define FILTER 300
#define PACKED_CHUNK_ROWS 128u /* 512 KiB, as the bench's */
#define PACKED_LEAST 60u       /* percent of a chunk's bytes that are stored, as the bench's images: 0.69 on average */
#define PACKED_MOST 78u

/* Where the raw bytes of dataset or chunk |i| lie, and how many are stored of it. */
static uint64_t *place, *stored;
static size_t places;
static uint64_t chunk_bytes;
static double unpack_ns_byte; /* of a stored byte */

static void must(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "sim: HDF5 cannot make the file: %s\n", what);
    abort();
}

/* The path of the group that holds dataset |i|; of a tree, groups are one to five levels deep. */
static void group_of(const struct sim_world *w, unsigned i, char *out, size_t size)
{
    static const char *const level[] = {"run", "scan", "module", "panel"};
    unsigned g = i / (w->tree ? SETS_IN_BRANCH : SETS_IN_GROUP);
    size_t at = 0;
    for (unsigned k = 0; w->tree && k < g % 5; k++)
        at += (size_t)snprintf(out + at, size - at, "/%s%u", level[k], g % (3 + k));
    snprintf(out + at, size - at, w->tree ? "/set%04u" : "/g%03u", g);
}

static void name_of(const struct sim_world *w, unsigned i, char *out, size_t size)
{
    group_of(w, i, out, size);
    size_t at = strlen(out);
    snprintf(out + at, size - at, "/d%05u", i);
}

/* ---- the file */

static size_t filter(unsigned flags, size_t n, const unsigned *of, size_t bytes, size_t *size, void **buf)
{
    void *out = *buf;
    if (!(flags & H5Z_FLAG_REVERSE) || n < 1)
        return bytes;
    if (*size < of[0]) {
        out = H5resize_memory(*buf, of[0]);
        if (!out)
            return 0;
        *buf = out;
        *size = of[0];
    }
    memset((char *)out + bytes, 0, of[0] - bytes);
    sim_sleep((uint64_t)((double)bytes * unpack_ns_byte));
    return of[0];
}

static void set_filter(hid_t dcpl)
{
    static const H5Z_class2_t class = {H5Z_CLASS_T_VERS, FILTER, 1, 1, "simulated", NULL, NULL, filter};
    unsigned bytes = (unsigned)chunk_bytes;
    must(H5Zregister(&class) >= 0 && H5Pset_filter(dcpl, FILTER, H5Z_FLAG_MANDATORY, 1, &bytes) >= 0, "a filter");
}

/* Writes the chunks of |set|, each of another size. Their bytes are taken out of the file afterwards. */
static void write_packed(const struct sim_world *w, hid_t set)
{
    void *none = calloc(1, (size_t)chunk_bytes);
    uint64_t dice = w->seed;
    must(none != NULL, "memory");
    for (hsize_t row[2] = {0, 0}; row[0] < w->set_bytes / ROW; row[0] += chunk_bytes / ROW) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        uint64_t percent = PACKED_LEAST + (dice >> 33) % (PACKED_MOST - PACKED_LEAST + 1);
        must(H5Dwrite_chunk(set, H5P_DEFAULT, 0, row, (size_t)(chunk_bytes * percent / 100), none) >= 0,
             "a packed chunk");
    }
    free(none);
}

/* Programs write a dataset after they have made it, and its raw data then lies behind all metadata: so a file of one
 * dataset is opened without a walk to its end, as the bench's. */
static void write_first(hid_t set, hid_t space)
{
    uint8_t zero = 0;
    hsize_t at[3] = {0}, one = 1;
    hid_t memory = H5Screate_simple(1, &one, NULL), file = H5Scopy(space);
    must(H5Sselect_elements(file, H5S_SELECT_SET, 1, at) >= 0 &&
         H5Dwrite(set, H5T_NATIVE_UCHAR, memory, file, H5P_DEFAULT, &zero) >= 0, "its first byte");
    H5Sclose(file);
    H5Sclose(memory);
}

static void make_set(const struct sim_world *w, hid_t file, unsigned i)
{
    char name[64];
    name_of(w, i, name, sizeof name);
    if (i % (w->tree ? SETS_IN_BRANCH : SETS_IN_GROUP) == 0) {
        char group[64];
        group_of(w, i, group, sizeof group);
        hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE), lcpl = H5Pcreate(H5P_LINK_CREATE);
        H5Pset_obj_track_times(gcpl, 0); /* a seed makes the same file each time */
        H5Pset_create_intermediate_group(lcpl, 1);
        hid_t g = H5Gcreate2(file, group, lcpl, gcpl, H5P_DEFAULT);
        H5Pclose(lcpl);
        H5Pclose(gcpl);
        must(g >= 0, "a group");
        H5Gclose(g);
    }
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t dims[3] = {w->set_bytes, 1}, most[3] = {w->set_bytes, 1}, chunk[2] = {w->set_bytes, 1};
    int rank = 1;
    H5Pset_obj_track_times(dcpl, 0);
    int lone = w->sets == 1 && w->h5 != SIM_H5_CHUNKS;
    H5Pset_alloc_time(dcpl, lone                     ? H5D_ALLOC_TIME_LATE
                            : w->unpack_ns_byte > 0 ? H5D_ALLOC_TIME_INCR
                                                    : H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    if (w->h5 == SIM_H5_CHUNKS) {
        rank = 2;
        dims[0] = most[0] = w->set_bytes / ROW;
        dims[1] = most[1] = chunk[1] = ROW;
        hsize_t rows = w->large_chunks ? LARGE_CHUNK_ROWS_MOST : CHUNK_ROWS_MOST;
        chunk[0] = (dims[0] + 63) / 64 < rows ? (dims[0] + 63) / 64 : rows;
        if (w->unpack_ns_byte > 0)
            chunk[0] = PACKED_CHUNK_ROWS;
        if (w->order == SIM_ORDER_BLOCKS)
            chunk[0] = w->read_bytes / ROW;
        chunk_bytes = chunk[0] * ROW;
        if (w->grows)
            most[0] = H5S_UNLIMITED;
        if (w->grows > 1)
            most[1] = H5S_UNLIMITED;
        H5Pset_chunk(dcpl, 2, chunk);
        if (w->unpack_ns_byte > 0)
            set_filter(dcpl);
    }
    if (w->h5 == SIM_H5_SLABS) {
        rank = 3;
        for (int a = 0; a < 3; a++)
            dims[a] = most[a] = w->slabs.all[a];
    }
    hid_t space = H5Screate_simple(rank, dims, most);
    hid_t set = H5Dcreate2(file, name, H5T_NATIVE_UCHAR, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "a dataset");
    hsize_t one = 1;
    hid_t scalar = H5Screate_simple(1, &one, NULL), a = H5Acreate2(set, "number", H5T_NATIVE_UINT, scalar, H5P_DEFAULT, H5P_DEFAULT);
    must(a >= 0 && H5Awrite(a, H5T_NATIVE_UINT, &i) >= 0, "an attribute");
    H5Aclose(a);
    H5Sclose(scalar);
    if (w->h5 == SIM_H5_CHUNKS && w->unpack_ns_byte > 0)
        write_packed(w, set);
    if (lone && w->set_bytes)
        write_first(set, space);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(dcpl);
}

/* Notes where the raw data lies. */
static void find_places(const struct sim_world *w, hid_t file)
{
    char name[64];
    hsize_t chunks = 0;
    places = w->sets;
    if (w->h5 == SIM_H5_CHUNKS) {
        name_of(w, 0, name, sizeof name);
        hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
        must(H5Dget_num_chunks(set, space, &chunks) >= 0, "chunks");
        places = (size_t)chunks;
        place = calloc(places, sizeof *place);
        stored = calloc(places, sizeof *stored);
        for (hsize_t i = 0; i < chunks; i++) {
            hsize_t off[2], bytes;
            unsigned mask;
            haddr_t addr;
            must(H5Dget_chunk_info(set, space, i, off, &mask, &addr, &bytes) >= 0, "a chunk");
            must(off[0] * ROW / chunk_bytes < chunks, "a chunk's place");
            place[off[0] * ROW / chunk_bytes] = addr;
            stored[off[0] * ROW / chunk_bytes] = bytes;
        }
        H5Sclose(space);
        H5Dclose(set);
        return;
    }
    place = calloc(places, sizeof *place);
    for (unsigned i = 0; i < w->sets; i++) {
        name_of(w, i, name, sizeof name);
        hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
        place[i] = H5Dget_offset(set);
        must(place[i] != HADDR_UNDEF || w->set_bytes == 0, "a dataset's place");
        H5Dclose(set);
    }
}

static void take_segments(struct sim_object *o, int fd)
{
    off_t end = lseek(fd, 0, SEEK_END), at = 0, hole;
    must(end > 0, "its size");
    o->size = (uint64_t)end;
    while (at < end && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
        hole = lseek(fd, at, SEEK_HOLE);
        o->segment = realloc(o->segment, (o->segments + 1) * sizeof *o->segment);
        must(o->segment != NULL, "memory");
        struct sim_segment *s = &o->segment[o->segments++];
        *s = (struct sim_segment){(uint64_t)at, (uint64_t)(hole - at), malloc((size_t)(hole - at))};
        must(s->bytes && pread(fd, s->bytes, (size_t)s->len, at) == (ssize_t)s->len, "its bytes");
        at = hole;
    }
}

static hid_t new_file(const struct sim_world *w, const char *path)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (w->latest)
        H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    must(file >= 0, path);
    H5Pclose(fapl);
    return file;
}

/* Closes |file|, at |path|, and makes it the object |o|. */
static void take_file(struct sim_object *o, hid_t file, const char *path)
{
    must(H5Fclose(file) >= 0, "to close it");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    for (size_t i = 0; unpack_ns_byte > 0 && i < places; i++)
        must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)place[i], (off_t)stored[i]) == 0,
             "a hole");
    take_segments(o, fd);
    close(fd);
    unlink(path);
}

/* ---- a virtual dataset and its sources */

static hsize_t source_rows(const struct sim_world *w)
{
    return w->set_bytes / SIM_SOURCE_ROW;
}

/* The name of the source |i|, in |buf|. */
static const char *source_name(const struct sim_world *w, unsigned i, char *buf, size_t size)
{
    unsigned kinds = w->kinds ? w->kinds : 1;
    snprintf(buf, size, "%.*ssource-%u.h5", (int)(i % kinds), "xyz", i / kinds);
    return buf;
}

/* Behind all else in |file|: groups, of which each is in the one before; the last has a number, which is |i|, and so
 * many small datasets. */
static void make_depths(const struct sim_world *w, hid_t file, unsigned i)
{
    hid_t gcpl = H5Pcreate(H5P_GROUP_CREATE), dcpl = H5Pcreate(H5P_DATASET_CREATE), in = file;
    hid_t one = H5Screate(H5S_SCALAR);
    hsize_t n = 1000;
    hid_t many = H5Screate_simple(1, &n, NULL);
    H5Pset_obj_track_times(gcpl, 0);
    H5Pset_obj_track_times(dcpl, 0);
    H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    for (unsigned k = 0; k < w->depth; k++) {
        hid_t group = H5Gcreate2(in, "inner", H5P_DEFAULT, gcpl, H5P_DEFAULT);
        must(group >= 0, "a group");
        for (unsigned d = 0; d < SETS_IN_DEPTH; d++) {
            char name[16];
            snprintf(name, sizeof name, "d%02u", d);
            H5Dclose(H5Dcreate2(group, name, H5T_NATIVE_INT, many, H5P_DEFAULT, dcpl, H5P_DEFAULT));
        }
        if (k)
            H5Gclose(in);
        in = group;
    }
    hid_t attribute = H5Acreate2(in, "number", H5T_NATIVE_UINT, one, H5P_DEFAULT, H5P_DEFAULT);
    must(attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_UINT, &i) >= 0, "a number");
    H5Aclose(attribute);
    H5Gclose(in);
    H5Sclose(many);
    H5Sclose(one);
    H5Pclose(dcpl);
    H5Pclose(gcpl);
}

/* The source |i|: one contiguous dataset. */
static void make_source(struct sim_world *w, const char *path, unsigned i)
{
    char name[64], only[32];
    hsize_t dims[2] = {source_rows(w), SIM_SOURCE_ROW};
    hid_t file = new_file(w, path), space = H5Screate_simple(2, dims, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(dcpl, 0);
    H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "a source");
    place[i] = H5Dget_offset(set);
    must(place[i] != HADDR_UNDEF, "a source's place");
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(dcpl);
    if (w->depth)
        make_depths(w, file, i);
    snprintf(name, sizeof name, "/data/%s", source_name(w, i, only, sizeof only));
    w->source[i] = (struct sim_object){.path = strdup(name), .version = 1, .salt = 104729u * (i + 1)};
    take_file(&w->source[i], file, path);
}

static void make_virtual(struct sim_world *w, const char *path)
{
    int beside = w->h5 == SIM_H5_BESIDE;
    hsize_t one[2] = {source_rows(w), SIM_SOURCE_ROW}, all[2] = {one[0], one[1]}, at[2] = {0, 0};
    w->source = calloc(w->sources + 1, sizeof *w->source);
    place = calloc(w->sources, sizeof *place);
    must(w->source && place, "memory");
    for (unsigned i = 0; i < w->sources; i++)
        make_source(w, path, i);
    all[beside] *= w->sources;
    hid_t file = new_file(w, path), whole = H5Screate_simple(2, all, NULL), part = H5Screate_simple(2, one, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(dcpl, 0);
    for (unsigned i = 0; i < w->sources; i++) {
        char name[64];
        source_name(w, i, name, sizeof name);
        at[beside] = i * one[beside];
        must(H5Sselect_hyperslab(whole, H5S_SELECT_SET, at, NULL, one, NULL) >= 0 &&
             H5Pset_virtual(dcpl, whole, name, "x", part) >= 0, "a mapping");
    }
    H5Sselect_all(whole);
    hid_t set = H5Dcreate2(file, "x", H5T_NATIVE_UCHAR, whole, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(set >= 0, "a virtual dataset");
    H5Dclose(set);
    H5Pclose(dcpl);
    H5Sclose(part);
    H5Sclose(whole);
    take_file(&w->object, file, path);
}

void sim_h5_make(struct sim_world *w, const char *dir)
{
    char path[128];
    snprintf(path, sizeof path, "%s/made.h5", dir);
    unpack_ns_byte = w->unpack_ns_byte;
    if (w->sources) {
        make_virtual(w, path);
        return;
    }
    hid_t file = new_file(w, path);
    for (unsigned i = 0; i < w->sets; i++)
        make_set(w, file, i);
    find_places(w, file);
    take_file(&w->object, file, path);
}

/* ---- reading it */

#define POOL_MOST 64 /* threads */

struct h5 {
    const struct sim_world *w;
    hid_t file;
    uint64_t dice;
    uint64_t holds[POOL_MOST], taken; /* the piece that each thread of a pool reads next; how many were given out */
    uint64_t block; /* of SIM_ORDER_BLOCKS, the one that is read */
    uint64_t passed; /* of SIM_ORDER_SOME, pieces that were left out so far */
    unsigned rows[POOL_MOST]; /* of reads at random: how many of its row each thread has read */
    unsigned version, *versions; /* of the file's bytes so far, and of its sources'; 0: none */
    struct sim_result *out;
    uint8_t *buf;
};

static uint64_t dice(struct h5 *h, uint64_t n)
{
    uint64_t z = h->dice += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (z ^ (z >> 27)) % n;
}

/* Compares |len| bytes of |h|'s buffer from |at| on with those at |off| of |o|, of which |*version| was read so far. */
static void check_object(struct h5 *h, const struct sim_object *o, unsigned *version, uint64_t at, uint64_t off, uint64_t len)
{
    size_t bad = sim_content_wrong(o, version, off, h->buf + at, (size_t)len);
    if (bad != len && !h->out->wrong[0])
        snprintf(h->out->wrong, sizeof h->out->wrong, "wrong bytes at %" PRIu64 " of %s", off + bad, o->path);
    h->out->bytes += len;
}

static void check(struct h5 *h, uint64_t at, uint64_t off, uint64_t len)
{
    check_object(h, &h->w->object, &h->version, at, off, len);
}

static hid_t open_set(struct h5 *h, unsigned i)
{
    char name[64];
    name_of(h->w, i, name, sizeof name);
    return H5Dopen2(h->file, name, H5P_DEFAULT);
}

static void note_read(uint64_t begun)
{
    uint64_t took = sim_now() - begun;
    sim_sums.longest_ns = took > sim_sums.longest_ns ? took : sim_sums.longest_ns;
}

/* Reads [from, from + len) of |set|. */
static int read_piece(struct h5 *h, hid_t set, uint64_t from, uint64_t len)
{
    uint64_t begun = sim_now();
    hid_t space = H5Dget_space(set);
    hsize_t row = h->w->h5 == SIM_H5_CHUNKS ? ROW : 1;
    hsize_t start[2] = {from / row, 0}, count[2] = {len / row, row};
    hid_t memory = H5Screate_simple(row > 1 ? 2 : 1, count, NULL);
    int rc = space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
             H5Dread(set, H5T_NATIVE_UCHAR, memory, space, H5P_DEFAULT, h->buf) < 0;
    H5Sclose(memory);
    H5Sclose(space);
    note_read(begun);
    sim_trace("HDF5 read from=%" PRIu64 " len=%" PRIu64 " took=%.3fms rc=%d", from, len,
              (double)(sim_now() - begun) / 1e6, rc);
    sim_note(from);
    return rc ? -1 : 0;
}

static int read_set(struct h5 *h, unsigned i)
{
    hid_t set = open_set(h, i);
    int rc = set < 0 ? -1 : read_piece(h, set, 0, h->w->set_bytes);
    if (rc == 0)
        check(h, 0, place[i], h->w->set_bytes);
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

/* The world's threads take the next of |n| pieces each, and one of them is the next to read. */
static uint64_t of_pool(struct h5 *h, uint64_t i, uint64_t n)
{
    unsigned threads = h->w->threads;
    for (; i == 0 && h->taken < threads; h->taken++)
        h->holds[h->taken] = h->taken;
    size_t k = dice(h, threads), tried = 0;
    while (h->holds[k] >= n && tried++ < threads)
        k = (k + 1) % threads;
    uint64_t next = h->holds[k];
    h->holds[k] = h->taken++;
    sim_read_as((unsigned)k);
    return next;
}

/* Returns the number of the |i|th of |n| pieces in the world's order, asked for once each; |n| or more: there are no
 * more. */
static uint64_t in_turn(struct h5 *h, uint64_t i, uint64_t n)
{
    static const uint64_t picked[] = {0, 3, 5}, begins[] = {0, 2, 1};
    uint64_t run = n < 20 ? 1 : n / 20, blocks = 1; /* a power of 2 */
    while (blocks * 32 <= n)
        blocks *= 2;
    switch (h->w->order) {
    case SIM_ORDER_DOWN: return i < n ? n - 1 - i : n;
    case SIM_ORDER_STEPS: return 3 * i;
    case SIM_ORDER_PERIOD: return i / 3 * 10 + picked[i % 3];
    case SIM_ORDER_THEN: return i < n / 4 ? i : n / 4 + 2 * (i - n / 4);
    case SIM_ORDER_JUMPS: return i < 3 * run ? begins[i / run] * n / 4 + i % run : n;
    case SIM_ORDER_BACK: return i < run ? i : i < 2 * run ? n - 2 * run + i : i < 5 * run ? i - run : n;
    case SIM_ORDER_FRO: return i < n ? i / 8 % 2 * n / 2 + i / 16 * 8 + i % 8 : n;
    case SIM_ORDER_ANY: return i < run ? i : i < 2 * run ? (37 * i * i + 101 * i) % n : n;
    case SIM_ORDER_BLOCKS:
        h->block = i == 0 ? 0 : i % 16 ? h->block : (5 * h->block + 3) % blocks; /* each once */
        return i < blocks * 16 ? h->block * 16 + i % 16 : n;
    case SIM_ORDER_TWICE: return i / 2;
    case SIM_ORDER_POOL: return of_pool(h, i, n);
    case SIM_ORDER_SOME:
        while (dice(h, 10) >= h->w->kept)
            h->passed++;
        return i + h->passed;
    case SIM_ORDER_ASIDE: return i < n / 2 ? i : n;
    case SIM_ORDER_UP: break;
    }
    return i;
}

static int read_chunks(struct h5 *h)
{
    hid_t set = open_set(h, 0);
    int rc = set < 0 ? -1 : 0;
    uint64_t step = h->w->read_bytes / chunk_bytes ? h->w->read_bytes / chunk_bytes : 1;
    uint64_t most = h->w->pieces ? h->w->pieces : UINT64_MAX, all = (places + step - 1) / step;
    for (uint64_t i = 0, c; rc == 0 && i < most && (c = in_turn(h, i, all) * step) < places; i++) {
        uint64_t n = places - c < step ? places - c : step, from = c * chunk_bytes;
        uint64_t end = from + n * chunk_bytes < h->w->set_bytes ? from + n * chunk_bytes : h->w->set_bytes;
        rc = read_piece(h, set, from, end - from);
        for (uint64_t k = 0; rc == 0 && k < n; k++) {
            uint64_t at = k * chunk_bytes, len = end - from - at < stored[c + k] ? end - from - at : stored[c + k];
            check(h, at, place[c + k], len);
        }
    }
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

/* Where the |i|th of |n| reads of |len| bytes at random begins: so many go on from one place. Of a pool's threads each
 * takes the next one; else each has places of its own. */
static uint64_t anywhere(struct h5 *h, uint64_t i, uint64_t n, uint64_t len)
{
    unsigned row = h->w->row > 1 ? h->w->row : 1;
    uint64_t most = h->w->set_bytes - row * len + 1;
    if (h->w->order == SIM_ORDER_POOL) {
        uint64_t at = of_pool(h, i, n);
        struct h5 place_of = {.dice = h->w->seed + at / row};
        return dice(&place_of, most) + at % row * len;
    }
    size_t k = row > 1 ? dice(h, h->w->threads) : 0;
    h->holds[k] = h->rows[k] ? h->holds[k] + len : dice(h, most);
    h->rows[k] = (h->rows[k] + 1) % row;
    sim_read_as((unsigned)k);
    return h->holds[k];
}

/* A long piece anywhere in the second half. */
static int read_aside(struct h5 *h, hid_t set, uint64_t i)
{
    uint64_t half = h->w->set_bytes / 2, places_there = (half - ASIDE_BYTES) / ASIDE_BYTES;
    uint64_t from = half + (37 * i * i + 101 * i) % places_there * ASIDE_BYTES;
    int rc = read_piece(h, set, from, ASIDE_BYTES);
    if (rc == 0)
        check(h, 0, place[0] + from, ASIDE_BYTES);
    return rc;
}

static int read_contiguous(struct h5 *h)
{
    hid_t set = open_set(h, 0);
    int rc = set < 0 ? -1 : 0;
    uint64_t len = h->w->read_bytes < h->w->set_bytes ? h->w->read_bytes : h->w->set_bytes;
    int in_order = h->w->h5 == SIM_H5_STREAM;
    uint64_t all = (h->w->set_bytes + len - 1) / len;
    all = h->w->pieces && h->w->pieces < all ? h->w->pieces : all;
    for (unsigned i = 0; rc == 0; i++) {
        uint64_t at = in_order ? in_turn(h, i, all) : 0;
        if (in_order ? at >= all : i >= h->w->reads)
            break;
        uint64_t from = in_order ? at * len : anywhere(h, i, h->w->reads, len);
        uint64_t n = h->w->set_bytes - from < len ? h->w->set_bytes - from : len;
        rc = read_piece(h, set, from, n);
        if (rc == 0)
            check(h, 0, place[0] + from, n);
        if (rc == 0 && h->w->order == SIM_ORDER_ASIDE && i % ASIDE_READS == ASIDE_READS - 1)
            rc = read_aside(h, set, i);
    }
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

static int read_slab(struct h5 *h, hid_t set, const hsize_t *at, const hsize_t *n)
{
    const struct sim_slabs *s = &h->w->slabs;
    uint64_t begun = sim_now(), done = 0;
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(3, n, NULL);
    int rc = space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, n, NULL) < 0 ||
             H5Dread(set, H5T_NATIVE_UCHAR, memory, space, H5P_DEFAULT, h->buf) < 0;
    H5Sclose(memory);
    H5Sclose(space);
    note_read(begun);
    sim_trace("HDF5 read at=%" PRIu64 ",%" PRIu64 ",%" PRIu64 " took=%.3fms rc=%d", (uint64_t)at[0], (uint64_t)at[1],
              (uint64_t)at[2], (double)(sim_now() - begun) / 1e6, rc);
    for (hsize_t i = 0; rc == 0 && i < n[0]; i++)
        for (hsize_t k = 0; k < n[1]; k++, done += n[2])
            check(h, done, place[0] + ((at[0] + i) * s->all[1] + at[1] + k) * s->all[2] + at[2], n[2]);
    return rc ? -1 : 0;
}

/* All blocks of an array. */
static int read_slabs(struct h5 *h)
{
    const struct sim_slabs *s = &h->w->slabs;
    hid_t set = open_set(h, 0);
    uint64_t blocks = 1, number[3];
    int rc = set < 0 ? -1 : 0;
    for (int a = 0; a < 3; a++)
        blocks *= number[a] = (s->all[a] + s->block[a] - 1) / s->block[a];
    uint64_t *order = calloc(blocks, sizeof *order);
    if (order == NULL)
        rc = -1;
    for (uint64_t b = 0; order && b < blocks; b++) {
        uint64_t k = s->shuffled ? dice(h, b + 1) : b;
        order[b] = order[k];
        order[k] = b;
    }
    uint64_t most = h->w->pieces && h->w->pieces < blocks ? h->w->pieces : blocks;
    for (uint64_t b = 0; rc == 0 && b < most; b++) {
        hsize_t at[3], n[3];
        uint64_t rest = order[b];
        for (int k = 2; k >= 0; k--) {
            unsigned a = s->axis[k];
            at[a] = s->down[a] ? number[a] - 1 - rest % number[a] : rest % number[a];
            rest /= number[a];
            at[a] *= s->block[a];
            n[a] = s->all[a] - at[a] < s->block[a] ? s->all[a] - at[a] : s->block[a];
        }
        rc = read_slab(h, set, at, n);
    }
    free(order);
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

/* All datasets in turns, a piece of each. */
static int read_turns(struct h5 *h)
{
    const struct sim_world *w = h->w;
    hid_t *sets = calloc(w->sets, sizeof *sets);
    int rc = sets ? 0 : -1;
    uint64_t all = w->set_bytes / w->read_bytes;
    for (unsigned k = 0; rc == 0 && k < w->sets; k++)
        rc = (sets[k] = open_set(h, k)) < 0 ? -1 : 0;
    for (uint64_t i = 0, at; rc == 0 && (at = in_turn(h, i, all)) < all; i++)
        for (unsigned k = 0; rc == 0 && k < w->sets; k++) {
            rc = read_piece(h, sets[k], at * w->read_bytes, w->read_bytes);
            if (rc == 0)
                check(h, 0, place[k] + at * w->read_bytes, w->read_bytes);
        }
    for (unsigned k = 0; sets && k < w->sets; k++)
        if (sets[k] > 0)
            H5Dclose(sets[k]);
    free(sets);
    return rc;
}

/* Reads rows [first, end) of the virtual dataset |set|, whose rows have |columns| bytes. */
static int read_rows(hid_t set, hsize_t first, hsize_t end, hsize_t columns, void *buf)
{
    uint64_t begun = sim_now();
    hid_t space = H5Dget_space(set);
    hsize_t start[2] = {first, 0}, count[2] = {end - first, columns};
    hid_t memory = H5Screate_simple(2, count, NULL);
    int rc = space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
             H5Dread(set, H5T_NATIVE_UCHAR, memory, space, H5P_DEFAULT, buf) < 0;
    H5Sclose(memory);
    H5Sclose(space);
    note_read(begun);
    sim_trace("HDF5 read rows %" PRIu64 " to %" PRIu64 " took=%.3fms rc=%d", (uint64_t)first, (uint64_t)end,
              (double)(sim_now() - begun) / 1e6, rc);
    sim_note(first);
    return rc ? -1 : 0;
}

/* A virtual dataset, |read_bytes| at a time. */
static int read_virtual(struct h5 *h)
{
    const struct sim_world *w = h->w;
    hid_t set = H5Dopen2(h->file, "x", H5P_DEFAULT);
    int beside = w->h5 == SIM_H5_BESIDE, rc = set < 0 ? -1 : 0;
    hsize_t each = source_rows(w), rows = beside ? each : w->sources * each, columns = (beside ? w->sources : 1) * SIM_SOURCE_ROW;
    hsize_t step = w->read_bytes / columns;
    h->versions = calloc(w->sources, sizeof *h->versions);
    for (hsize_t first = 0, end; rc == 0 && first < rows; first = end) {
        end = first + step < rows ? first + step : rows;
        rc = h->versions ? read_rows(set, first, end, columns, h->buf) : -1;
        for (hsize_t at = 0; rc == 0 && at < (end - first) * columns; at += SIM_SOURCE_ROW) {
            hsize_t row = first + at / columns, i = beside ? at % columns / SIM_SOURCE_ROW : row / each;
            check_object(h, &w->source[i], &h->versions[i], at, place[i] + row % each * SIM_SOURCE_ROW, SIM_SOURCE_ROW);
        }
    }
    free(h->versions);
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

/* All of the source |i|, which HDF5 opens by its own name, or |most| bytes of it. It stays open: |*file|. */
static int read_source(struct h5 *h, const char *url, hid_t fapl, unsigned i, uint64_t most, hid_t *file)
{
    const struct sim_world *w = h->w;
    char name[256], only[32];
    unsigned version = 0;
    snprintf(name, sizeof name, "%.*s%s", (int)(strrchr(url, '/') + 1 - url), url,
             source_name(w, i, only, sizeof only));
    *file = H5Fopen(name, H5F_ACC_RDONLY, fapl);
    hid_t set = *file < 0 ? -1 : H5Dopen2(*file, "x", H5P_DEFAULT);
    hsize_t rows = source_rows(w), step = w->read_bytes / SIM_SOURCE_ROW;
    rows = most < rows * SIM_SOURCE_ROW ? most / SIM_SOURCE_ROW : rows;
    int rc = set < 0 ? -1 : 0;
    for (hsize_t first = 0, end; rc == 0 && first < rows; first = end) {
        end = first + step < rows ? first + step : rows;
        rc = read_rows(set, first, end, SIM_SOURCE_ROW, h->buf);
        if (rc == 0)
            check_object(h, &w->source[i], &version, 0, place[i] + first * SIM_SOURCE_ROW,
                         (end - first) * SIM_SOURCE_ROW);
    }
    if (set >= 0)
        H5Dclose(set);
    return rc;
}

/* The second source, where |first| bytes of the first one were read before, if any. */
static int read_second(struct h5 *h, const char *url, hid_t fapl, uint64_t first)
{
    hid_t files[2] = {-1, -1};
    int rc = first ? read_source(h, url, fapl, 0, first, &files[0]) : 0;
    uint64_t begun = sim_now();
    rc = rc ? rc : read_source(h, url, fapl, 1, UINT64_MAX, &files[1]);
    h->out->second_ns = sim_now() - begun;
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0)
            H5Fclose(files[i]);
    return rc;
}

static int look_at(struct h5 *h, unsigned i)
{
    unsigned number = ~i;
    hsize_t dims[2] = {0, 0};
    hid_t set = open_set(h, i);
    if (set < 0)
        return -1;
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), a = H5Aopen(set, "number", H5P_DEFAULT);
    int rc = space < 0 || type < 0 || a < 0 || H5Aread(a, H5T_NATIVE_UINT, &number) < 0 ? -1 : 0;
    if (rc == 0 && (H5Sget_simple_extent_dims(space, dims, NULL) < 0 || dims[0] != h->w->set_bytes || number != i) &&
        !h->out->wrong[0])
        snprintf(h->out->wrong, sizeof h->out->wrong, "dataset %u has shape %llu and number %u", i, (unsigned long long)dims[0], number);
    H5Aclose(a);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(set);
    return rc;
}

/* The number in the innermost group of the source |i| is |i|. */
static int look_into_depths(struct h5 *h, hid_t file, unsigned i)
{
    char path[200] = "";
    unsigned number = 0;
    for (unsigned k = 0; k < h->w->depth; k++)
        strcat(path, "/inner");
    hid_t a = H5Aopen_by_name(file, path, "number", H5P_DEFAULT, H5P_DEFAULT);
    int rc = a < 0 || H5Aread(a, H5T_NATIVE_UINT, &number) < 0 ? -1 : 0;
    if (rc == 0 && number != i)
        snprintf(h->out->wrong, sizeof h->out->wrong, "file %u has the number %u", i, number);
    if (a >= 0)
        H5Aclose(a);
    return rc;
}

/* Opens the datasets of all groups in |file|. */
static int walk_depths(struct h5 *h, hid_t file)
{
    hid_t in = file;
    int rc = 0;
    for (unsigned k = 0; rc == 0 && k < h->w->depth; k++) {
        hid_t group = H5Gopen2(in, "inner", H5P_DEFAULT);
        rc = group < 0 ? -1 : 0;
        for (unsigned d = 0; rc == 0 && d < SETS_IN_DEPTH; d++) {
            char name[16];
            snprintf(name, sizeof name, "d%02u", d);
            hid_t set = H5Dopen2(group, name, H5P_DEFAULT);
            rc = set < 0 || H5Dclose(set) < 0 ? -1 : 0;
        }
        if (k)
            H5Gclose(in);
        in = group;
    }
    if (in >= 0 && in != file)
        H5Gclose(in);
    return rc;
}

/* Each source in turn, beside |url|: open, its dataset's shape, what lies deep in it, close. */
static int look_at_many(struct h5 *h, const char *url, hid_t fapl)
{
    const struct sim_world *w = h->w;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < w->sources; i++) {
        char name[300], only[32];
        hsize_t dims[2] = {0, 0};
        unsigned version = 0;
        snprintf(name, sizeof name, "%.*s%s", (int)(strrchr(url, '/') + 1 - url), url,
                 source_name(w, i, only, sizeof only));
        hid_t file = H5Fopen(name, H5F_ACC_RDONLY, fapl), set = file < 0 ? -1 : H5Dopen2(file, "x", H5P_DEFAULT);
        hid_t space = set < 0 ? -1 : H5Dget_space(set);
        rc = space < 0 || H5Sget_simple_extent_dims(space, dims, NULL) < 0 ? -1 : 0;
        if (rc == 0 && dims[0] != source_rows(w))
            snprintf(h->out->wrong, sizeof h->out->wrong, "file %u has %llu rows", i, (unsigned long long)dims[0]);
        hsize_t rows = source_rows(w), most = w->read_bytes / SIM_SOURCE_ROW;
        for (hsize_t at = 0, end; rc == 0 && w->reads_all && at < rows; at = end) {
            end = at + most < rows ? at + most : rows;
            rc = read_rows(set, at, end, SIM_SOURCE_ROW, h->buf);
            if (rc == 0)
                check_object(h, &w->source[i], &version, 0, place[i] + at * SIM_SOURCE_ROW,
                             (end - at) * SIM_SOURCE_ROW);
        }
        if (rc == 0 && w->depth)
            rc = w->walks ? walk_depths(h, file) : look_into_depths(h, file, i);
        if (space >= 0)
            H5Sclose(space);
        if (set >= 0)
            H5Dclose(set);
        if (file >= 0)
            H5Fclose(file);
        sim_trace("file %u is closed, rc=%d", i, rc);
    }
    return rc;
}

static herr_t note_error(unsigned n, const H5E_error2_t *e, void *ctx)
{
    char *why = ctx;
    if (strstr(e->desc, "http://") || !why[0])
        snprintf(why, 300, "%s", e->desc);
    return 0;
}

static hid_t access_of(const struct xh_options *o)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5FD_xhdf5_config_t c = H5FD_XHDF5_CONFIG_INIT;
    c.connections = (int64_t)o->connections;
    c.engine_threads = (int64_t)o->engine_threads;
    c.readahead = (int64_t)o->readahead;
    c.stats = (int64_t)o->stats;
    c.readahead_bytes = (int64_t)o->readahead_bytes;
    c.head_bytes = (int64_t)o->head_bytes;
    c.multirange = (int64_t)o->multirange;
    c.shadow = (int64_t)o->shadow;
    c.shadow_dir = o->shadow_dir;
    c.shadow_budget_bytes = (int64_t)o->shadow_budget_bytes;
    c.stream_bytes = (int64_t)o->stream_bytes;
    c.revalidate_ms = (int64_t)o->revalidate_ms;
    c.endpoints = o->endpoints;
    return H5Pset_fapl_xhdf5(fapl, &c) >= 0 ? fapl : -1;
}

int sim_h5_read(const struct sim_world *w, const char *url, uint64_t seed, struct sim_result *out, char *why, size_t size)
{
    struct h5 h = {.w = w, .dice = seed, .out = out};
    char text[300] = "";
    uint64_t room = w->set_bytes > w->read_bytes + chunk_bytes ? w->set_bytes : w->read_bytes + chunk_bytes;
    /* Of malloc's, and calloc's, MALLOC_PERTURB_ writes all: gigabytes, of which few are read into. */
    h.buf = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(h.buf != MAP_FAILED, "memory");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t fapl = access_of(&w->options);
    int many = w->h5 == SIM_H5_MANY;
    h.file = fapl < 0 || many ? -1 : H5Fopen(url, H5F_ACC_RDONLY, fapl);
    int rc = h.file >= 0 || many ? 0 : -1;
    unsigned n = w->reads && w->reads < w->sets ? w->reads : w->sets;
    unsigned each = w->each ? w->each : 1;
    switch (w->h5) {
    case SIM_H5_IMAGES:
        for (unsigned i = 0; rc == 0 && i < n; i++)
            rc = read_set(&h, i);
        break;
    case SIM_H5_SMALL:
        for (unsigned i = 0; rc == 0 && i < n; i += each)
            rc = read_set(&h, w->each ? i : (unsigned)dice(&h, w->sets));
        break;
    case SIM_H5_WALK:
        for (unsigned i = 0; rc == 0 && i < n; i += each)
            rc = look_at(&h, i);
        break;
    case SIM_H5_CHUNKS:
        rc = rc ? rc : read_chunks(&h);
        break;
    case SIM_H5_STREAM:
    case SIM_H5_ROWS:
        rc = rc ? rc : read_contiguous(&h);
        break;
    case SIM_H5_SLABS:
        rc = rc ? rc : read_slabs(&h);
        break;
    case SIM_H5_TURNS:
        rc = rc ? rc : read_turns(&h);
        break;
    case SIM_H5_AFTER:
    case SIM_H5_BESIDE:
        rc = rc ? rc : read_virtual(&h);
        break;
    case SIM_H5_MANY:
        rc = rc ? rc : look_at_many(&h, url, fapl);
        break;
    case SIM_H5_SECOND:
    case SIM_H5_ALONE:
        rc = rc ? rc : read_second(&h, url, fapl, w->h5 == SIM_H5_SECOND ? w->set_bytes / 4 : 0);
        break;
    case SIM_H5_NONE:
    case SIM_H5S:
        break;
    }
    if (rc != 0)
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_error, text);
    if (h.file >= 0)
        H5Fclose(h.file);
    snprintf(why, size, "%s", text);
    munmap(h.buf, (size_t)room);
    return rc;
}
