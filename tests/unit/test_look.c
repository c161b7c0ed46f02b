/* Looking at a file: where its raw data lies, over an HDF5 that gives the addresses of chunks as each version does. */
#include <criterion/criterion.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../vfd/inside.h"
#include "../../vfd/tool/h5open.h"
#include "../../vfd/tool/look.h"

#define BLOCK 4096u

/* ---- what look.c calls: an HDF5 before 1.14.4 leaves the user block out, and inside.c tells it */

static int is_old;

static struct {
    H5D_chunk_iter_op_t op;
    void *ctx;
} wanted;

static int on_chunk(const hsize_t *at, unsigned mask, haddr_t addr, hsize_t size, void *ctx)
{
    return wanted.op(at, mask, is_old ? addr - BLOCK : addr, size, wanted.ctx);
}

herr_t __real_H5Dchunk_iter(hid_t set, hid_t dxpl, H5D_chunk_iter_op_t op, void *ctx);
herr_t __wrap_H5Dchunk_iter(hid_t set, hid_t dxpl, H5D_chunk_iter_op_t op, void *ctx);
herr_t __wrap_H5Dchunk_iter(hid_t set, hid_t dxpl, H5D_chunk_iter_op_t op, void *ctx)
{
    wanted.op = op;
    wanted.ctx = ctx;
    return __real_H5Dchunk_iter(set, dxpl, on_chunk, NULL);
}

uint64_t xh_inside_chunk_base(struct xh_h5 *h5, hid_t id)
{
    return is_old ? BLOCK : 0;
}

struct xh_file *xh_inside_cache(hid_t id)
{
    return NULL;
}

int xh_h5_open(const char *url, const struct xh_options *o, hid_t *out, struct xh_err *err)
{
    *out = H5Fopen(url, H5F_ACC_RDONLY, H5P_DEFAULT);
    return *out < 0 ? XH_E_SYS : 0;
}

int xh_h5_error(struct xh_err *err, int code, const char *what)
{
    return code;
}

void xh_h5_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

int xh_h5_indirect(hid_t type)
{
    return 0;
}

/* ---- */

/* A file with a user block, a chunked dataset and a contiguous one. Returns its path. */
static const char *make(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/xh-look-%d.h5", (int)getpid());
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    cr_assert_geq(H5Pset_userblock(fcpl, BLOCK), 0);
    cr_assert_geq(H5Pset_chunk(dcpl, 1, (hsize_t[]){100}), 0);
    cr_assert_geq(H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY), 0);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, (hsize_t[]){1000}, NULL);
    hid_t a = H5Dcreate2(file, "a", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    H5Pset_layout(dcpl, H5D_CONTIGUOUS);
    hid_t b = H5Dcreate2(file, "b", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    cr_assert(a >= 0 && b >= 0);
    H5Dclose(a);
    H5Dclose(b);
    H5Sclose(space);
    H5Pclose(dcpl);
    H5Pclose(fcpl);
    cr_assert_geq(H5Fclose(file), 0);
    return path;
}

static struct xh_look look(const char *path)
{
    struct xh_look l = {.storage = 1};
    struct xh_err err;
    cr_assert_eq(xh_look(&l, path, NULL, &err), 0);
    cr_assert(l.seen.user_block == BLOCK && l.seen.data_bytes == 8000 && l.raw.n);
    return l;
}

Test(look, raw_data_lies_behind_the_user_block_whichever_hdf5_tells_of_it)
{
    const char *path = make();
    struct xh_look now = look(path);
    is_old = 1;
    struct xh_look old = look(path);
    cr_assert_eq(old.raw.n, now.raw.n);
    for (size_t i = 0; i < now.raw.n; i++)
        cr_expect(old.raw.at[i].off == now.raw.at[i].off && old.raw.at[i].len == now.raw.at[i].len, "%zu: %llu+%llu", i,
                  (unsigned long long)old.raw.at[i].off, (unsigned long long)old.raw.at[i].len);
    xh_look_free(&now);
    xh_look_free(&old);
    unlink(path);
}
