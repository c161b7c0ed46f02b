/* Selections as lists of extents: see selection.h.
 *
 * Invariant: an element of the file that was handed out has its place in memory, in the order of both selections; where HDF5
 * gives fewer than it said that there are, that is an error, and never an element that is left out. */
#include "selection.h"

#include <stdlib.h>
#include <string.h>

#include "h5err.h"

#define FEW 16u          /* extents on the stack: most selections are one row or a few */
#define AT_ONCE 2048u    /* extents of a long one: 48 KiB, which stay in a processor's own cache */

#define RUNS 256 /* of a selection, fetched from HDF5 at once */

/* One of the two dataspaces of a pair: the runs of bytes that come next. */
struct side {
    hid_t iter; /* H5I_INVALID_HID: none */
    size_t i, n; /* of the runs: the next one, their number */
    hsize_t off[RUNS];
    size_t len[RUNS];
};

/* |count| pairs of selections, as HDF5 hands them to read_selection. */
struct selection {
    struct xh_h5 *h5;
    size_t count;
    const hid_t *memory, *file; /* dataspaces */
    const haddr_t *addrs;       /* of the file's dataspaces */
    const size_t *element_bytes; /* 0 behind the first: as the one before, and so all that follow */
    void *const *bufs;           /* NULL behind the first: likewise */

    size_t at; /* the pair */
    size_t bytes; /* of its elements */
    uint8_t *buf; /* of its memory */
    int same_bytes, same_buf; /* 1: those arrays say no more */
    uint64_t left; /* elements of the pair that HDF5 was not asked for yet */
    struct side in, to; /* in the file, and in memory */
};

static int open_side(struct selection *s, struct side *side, hid_t space)
{
    side->i = side->n = 0;
    side->iter = s->h5->H5Ssel_iter_create(space, s->bytes, H5S_SEL_ITER_SHARE_WITH_DATASPACE);
    return side->iter < 0 ? -1 : 0;
}

static void close_sides(struct selection *s)
{
    if (s->in.iter >= 0)
        s->h5->H5Ssel_iter_close(s->in.iter);
    if (s->to.iter >= 0)
        s->h5->H5Ssel_iter_close(s->to.iter);
    s->in.iter = s->to.iter = H5I_INVALID_HID;
}

/* Begins the pair |at|. */
static int open_pair(struct selection *s)
{
    s->same_bytes = s->same_bytes || s->element_bytes[s->at] == 0;
    s->same_buf = s->same_buf || !s->bufs[s->at];
    if (!s->same_bytes)
        s->bytes = s->element_bytes[s->at];
    if (!s->same_buf)
        s->buf = s->bufs[s->at];
    hssize_t n = s->h5->H5Sget_select_npoints(s->file[s->at]);
    if (n != s->h5->H5Sget_select_npoints(s->memory[s->at]))
        return xh_fail(s->h5, XH_E_INVAL, "the selections in file and memory are not of the same size");
    if (n < 0 || open_side(s, &s->in, s->file[s->at]) || open_side(s, &s->to, s->memory[s->at]))
        return xh_fail(s->h5, XH_E_INVAL, "selection %zu of %zu cannot be looked into", s->at + 1, s->count);
    s->left = (uint64_t)n;
    return 0;
}

/* Fetches more runs. Returns how many elements these have; 0: there are no more; -1. */
static int64_t more_runs(struct selection *s, struct side *side)
{
    size_t elements = 0;
    side->i = side->n = 0;
    if (s->h5->H5Ssel_iter_get_seq_list(side->iter, RUNS, SIZE_MAX, &side->n, &elements, side->off, side->len) < 0)
        return -1;
    return (int64_t)elements;
}

/* Sees to it that both sides have runs. Returns 1; 0 when the pair is done; or -1. */
static int fill_sides(struct selection *s)
{
    if (s->in.i == s->in.n && s->left) {
        int64_t got = more_runs(s, &s->in);
        if (got <= 0 || (uint64_t)got > s->left || s->in.n == 0)
            return xh_fail(s->h5, XH_E_INVAL, "HDF5 gives fewer or more elements of a selection than it has");
        s->left -= (uint64_t)got;
    }
    int wanted = s->in.i < s->in.n;
    if (wanted && s->to.i == s->to.n && (more_runs(s, &s->to) <= 0 || s->to.n == 0))
        return xh_fail(s->h5, XH_E_INVAL, "HDF5 gives fewer elements of a selection in memory than it has");
    return wanted;
}

/* Pairs the runs of both sides until one of them has no more. Returns how many extents that makes, at most |room|. */
static size_t pair_runs(struct selection *s, struct xh_extent *out, size_t room)
{
    struct side *in = &s->in, *to = &s->to;
    uint64_t addr = s->addrs[s->at];
    size_t k = 0;
    while (k < room && in->i < in->n && to->i < to->n) {
        size_t a = in->len[in->i], b = to->len[to->i], len = a < b ? a : b;
        out[k++] = (struct xh_extent){.off = addr + in->off[in->i], .len = len, .buf = s->buf + to->off[to->i]};
        in->off[in->i] += len;
        in->len[in->i] -= len;
        to->off[to->i] += len;
        to->len[to->i] -= len;
        in->i += a == len;
        to->i += b == len;
    }
    return k;
}

/* The next extents, at most |room|, in the selections' own order. Returns how many, less than |room| only at the end; or -1,
 * error pushed. Calls HDF5, which clears its stack. */
static ptrdiff_t next(struct selection *s, struct xh_extent *out, size_t room)
{
    size_t k = 0;
    while (k < room && s->at < s->count) {
        if (s->in.iter < 0 && open_pair(s))
            return -1;
        int rc = fill_sides(s);
        if (rc < 0)
            return -1;
        if (rc) {
            k += pair_runs(s, out + k, room - k);
        } else {
            close_sides(s);
            s->at++;
        }
    }
    return (ptrdiff_t)k;
}

/* Gives back what HDF5 lent. Keeps what is on HDF5's error stack. */
static void end(struct selection *s)
{
    if (s->in.iter < 0 && s->to.iter < 0)
        return;
    hid_t said = s->h5->H5Eget_current_stack();
    close_sides(s);
    if (said >= 0)
        s->h5->H5Eset_current_stack(said);
}

/* Each part as it comes. */
static int read_parts(struct selection *s, const struct xh_selection_ways *w, struct xh_extent *p, ptrdiff_t n)
{
    while (n == (ptrdiff_t)AT_ONCE) {
        if (w->read(w->ctx, p, AT_ONCE))
            return -1;
        n = next(s, p, AT_ONCE);
    }
    return n > 0 ? w->read(w->ctx, p, (size_t)n) : (int)n;
}

/* All that is left of |s|, behind |n| extents that |**p|, of |room|, has. Returns their number; -1, error pushed. */
static ptrdiff_t gather(struct selection *s, struct xh_extent **p, size_t n, size_t room)
{
    ptrdiff_t more = 1;
    while (more > 0 && n == room) {
        struct xh_extent *at = room <= SIZE_MAX / 2 / sizeof *at ? realloc(*p, 2 * room * sizeof *at) : NULL;
        if (!at)
            return xh_fail(s->h5, XH_E_NOMEM, "out of memory for a read of more than %zu pieces", n);
        *p = at;
        room *= 2;
        more = next(s, at + n, room - n);
        n += more > 0 ? (size_t)more : 0;
    }
    return more < 0 ? -1 : (ptrdiff_t)n;
}

static int read_all(struct selection *s, const struct xh_selection_ways *w)
{
    struct xh_extent few[FEW], *p;
    int rc;
    ptrdiff_t n = next(s, few, FEW);
    if (n < (ptrdiff_t)FEW)
        return n > 0 ? w->read(w->ctx, few, (size_t)n) : (int)n;
    if (!(p = malloc(AT_ONCE * sizeof *p)))
        return xh_fail(s->h5, XH_E_NOMEM, "out of memory for a read of pieces");
    memcpy(p, few, sizeof few);
    n = next(s, p + FEW, AT_ONCE - FEW);
    n += n < 0 ? 0 : (ptrdiff_t)FEW;
    if (!w->hit) {
        rc = read_parts(s, w, p, n);
    } else {
        while (n == (ptrdiff_t)AT_ONCE && w->hit(w->ctx, p, AT_ONCE))
            n = next(s, p, AT_ONCE);
        if (n == (ptrdiff_t)AT_ONCE)
            n = gather(s, &p, AT_ONCE, AT_ONCE);
        rc = n < 0 ? -1 : w->read(w->ctx, p, (size_t)n);
    }
    free(p);
    return rc;
}

int xh_selection_read(struct xh_h5 *h5, const struct xh_selection_ways *ways, size_t count, const hid_t memory[], const hid_t file[],
                      const haddr_t addrs[], const size_t element_bytes[], void *const bufs[])
{
    struct selection s; /* its arrays of runs are filled as they are needed */
    s.h5 = h5;
    s.count = count;
    s.memory = memory;
    s.file = file;
    s.addrs = addrs;
    s.element_bytes = element_bytes;
    s.bufs = bufs;
    s.at = s.bytes = 0;
    s.buf = NULL;
    s.left = 0;
    s.same_bytes = s.same_buf = 0;
    s.in.iter = s.to.iter = H5I_INVALID_HID;
    s.in.i = s.in.n = s.to.i = s.to.n = 0;
    int rc = read_all(&s, ways);
    end(&s);
    return rc;
}
