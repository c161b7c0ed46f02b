/* Selections as lists of extents: see selection.h.
 *
 * A selection becomes strips: pieces of one length at equal distances. A regular hyperslab is strips by arithmetic;
 * of others HDF5 says each run. Where pieces are small and dense, what covers them is read into a scratch buffer and
 * they are picked out of it: each piece as an extent of its own costs some 10 ns in every list that it passes, and the
 * pages that are touched are the same.
 *
 * Invariant: an element of the file that was handed out has its place in memory, in the order of both selections;
 * where HDF5 gives fewer than it said that there are, that is an error, and never an element that is left out. */
#include "selection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../cache/base/extent.h"
#include "h5err.h"

#define FEW 16u           /* strips on the stack: most selections are one row or a few */
#define AT_ONCE 2048u     /* strips of what is there: they and their extents stay in a processor's own cache */
#define AT_MOST (1u << 20) /* strips of what has to be fetched: enough to hide the latency, and bounded memory */

#define SMALL_BYTES 8192u /* a longer piece is read to where it belongs */
#define SPAN_BYTES 65536u /* of the file, by one strip */
#define NEAR_BYTES (UINT64_C(256) << 10) /* of scratch for what is there: it stays in a processor's own cache */
#define FAR_BYTES (UINT64_C(64) << 20)   /* of scratch for what is fetched: asked for at once, to hide the latency */

/* So much scratch is asked for in large pages: else its first use takes some 20 ms for 40 MB. */
#define HUGE_BYTES (UINT64_C(4) << 20)

#define LOOPS (2 * H5S_MAX_RANK) /* of a hyperslab: each dimension has blocks, and elements in a block */

/* |count| pieces of |len| bytes, |step| apart in the file and one behind the other in memory. */
struct strip {
    uint64_t off, len, step, count;
    uint8_t *buf;
    const uint8_t *from; /* the first one's place in the scratch buffer; NULL: it is read to where it belongs */
};

/* One of the two dataspaces of a pair: the runs of bytes that come next. */
struct side {
    hid_t iter; /* H5I_INVALID_HID: none */
    size_t i, n; /* of the runs: the next one, their number */
    hsize_t off[256];
    size_t len[256];
};

/* A regular hyperslab: loops around a piece, the innermost first. */
struct loops {
    uint64_t off, len; /* of the next piece */
    unsigned n;
    uint64_t count[LOOPS], step[LOOPS], at[LOOPS];
    uint64_t left; /* turns of all but the innermost */
};

/* |count| pairs of selections, as HDF5 hands them to read_selection. */
struct selection {
    struct xh_h5 *h5;
    size_t count;
    const hid_t *memory, *file; /* dataspaces */
    const haddr_t *addrs;       /* of the file's dataspaces */
    const size_t *element_bytes; /* 0 behind the first: as the one before, and so all that follow */
    void *const *bufs;           /* NULL behind the first: likewise */
    int covers; /* what lies between pieces may be read */

    size_t at; /* the pair */
    int is_open; /* it has been begun */
    size_t bytes; /* of its elements */
    uint8_t *buf; /* of its memory */
    int same_bytes, same_buf; /* 1: those arrays say no more */
    uint64_t left; /* elements of the pair that HDF5 was not asked for yet */
    int is_regular; /* |loops| have what |in| would say */
    struct loops loops;
    struct side in, to; /* in the file, and in memory */
    struct strip now;   /* what is left of the file's strip */
    uint64_t used;      /* bytes of its first piece that are handed out */
};

/* A gap below the cache's page leaves no page untouched. */
static int is_dense(const struct strip *t)
{
    return t->len <= SMALL_BYTES && t->step - t->len < XH_PAGE_BYTES;
}

static uint64_t span(const struct strip *t)
{
    return (t->count - 1) * t->step + t->len;
}

/* ---- the file's side */

/* Puts a loop around the others. */
static void add_loop(struct loops *l, uint64_t count, uint64_t step)
{
    if (count == 1)
        return;
    if (l->n == 0 && step == l->len) {
        l->len *= count;
        return;
    }
    if (l->n && step == l->count[l->n - 1] * l->step[l->n - 1]) {
        l->count[l->n - 1] *= count;
        return;
    }
    l->count[l->n] = count;
    l->step[l->n] = step;
    l->at[l->n++] = 0;
}

/* Makes loops of the pair's selection of |n| elements in the file. Returns 1; 0: it is not regular, or so small that
 * it is not worth asking. The bounds, unlike the hyperslab itself, have the selection's offset in them
 * (H5Soffset_simple). */
static int open_loops(struct selection *s, uint64_t n)
{
    hsize_t dims[H5S_MAX_RANK], start[H5S_MAX_RANK], end[H5S_MAX_RANK];
    hsize_t stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    struct xh_h5 *h5 = s->h5;
    struct loops *l = &s->loops;
    hid_t space = s->file[s->at];
    if (n <= FEW || h5->H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || h5->H5Sis_regular_hyperslab(space) <= 0)
        return 0;
    int rank = h5->H5Sget_simple_extent_dims(space, dims, NULL);
    if (rank <= 0 || rank > H5S_MAX_RANK || h5->H5Sget_regular_hyperslab(space, start, stride, count, block) < 0 ||
        h5->H5Sget_select_bounds(space, start, end) < 0)
        return 0;
    uint64_t row = s->bytes, elements = 1;
    l->off = s->addrs[s->at];
    l->len = s->bytes;
    l->n = 0;
    for (int d = rank - 1; d >= 0; d--) {
        if (count[d] > n || block[d] > n)
            return 0;
        add_loop(l, block[d], row);
        add_loop(l, count[d], stride[d] * row);
        l->off += start[d] * row;
        row *= dims[d];
        elements *= count[d] * block[d];
    }
    l->left = 1;
    for (unsigned i = 1; i < l->n; i++)
        l->left *= l->count[i];
    return elements == n;
}

/* The next strip of the loops. There is one. */
static struct strip turn(struct loops *l)
{
    struct strip t = {.off = l->off, .len = l->len, .step = l->len, .count = 1};
    if (l->n) {
        t.step = l->step[0];
        t.count = l->count[0];
    }
    l->left--;
    for (unsigned i = 1; i < l->n; i++) {
        l->off += l->step[i];
        if (++l->at[i] < l->count[i])
            break;
        l->off -= l->count[i] * l->step[i];
        l->at[i] = 0;
    }
    return t;
}

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
    s->is_open = 0;
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
    s->is_open = 1;
    s->used = s->now.count = 0;
    s->in.i = s->in.n = 0;
    s->left = n < 0 ? 0 : (uint64_t)n;
    s->is_regular = open_loops(s, s->left);
    if (n < 0 || (!s->is_regular && open_side(s, &s->in, s->file[s->at])) || open_side(s, &s->to, s->memory[s->at]))
        return xh_fail(s->h5, XH_E_INVAL, "selection %zu of %zu cannot be looked into", s->at + 1, s->count);
    return 0;
}

/* Fetches more runs. Returns how many elements these have; 0: there are no more; -1. */
static int64_t more_runs(struct selection *s, struct side *side)
{
    size_t elements = 0;
    side->i = side->n = 0;
    if (s->h5->H5Ssel_iter_get_seq_list(side->iter, sizeof side->len / sizeof *side->len, SIZE_MAX, &side->n, &elements,
                                        side->off, side->len) < 0)
        return -1;
    return (int64_t)elements;
}

/* Sees to it that there is a strip in the file. Returns 1; 0 when the pair is done; or -1. */
static int fill_now(struct selection *s)
{
    struct side *in = &s->in;
    if (s->now.count)
        return 1;
    if (s->is_regular) {
        if (s->loops.left == 0)
            return 0;
        s->now = turn(&s->loops);
        return 1;
    }
    if (in->i == in->n && s->left) {
        int64_t got = more_runs(s, in);
        if (got <= 0 || (uint64_t)got > s->left || in->n == 0)
            return xh_fail(s->h5, XH_E_INVAL, "HDF5 gives fewer or more elements of a selection than it has");
        s->left -= (uint64_t)got;
    }
    if (in->i == in->n)
        return 0;
    size_t len = in->len[in->i];
    s->now = (struct strip){.off = s->addrs[s->at] + in->off[in->i], .len = len, .step = len, .count = 1};
    in->i++;
    return 1;
}

/* Cuts a strip off the file's that goes to the memory's next run: as many pieces as that has room for, or what it
 * takes of one. */
static void cut(struct selection *s, struct strip *out)
{
    struct strip *t = &s->now;
    uint64_t room = s->to.len[s->to.i], bytes;
    *out = (struct strip){.off = t->off + s->used, .len = t->len, .step = t->len, .count = 1};
    out->buf = s->buf + s->to.off[s->to.i];
    if (s->used == 0 && room >= 2 * t->len && t->count > 1 && s->covers && is_dense(t)) {
        uint64_t n = room / t->len, most = (SPAN_BYTES - t->len) / t->step + 1;
        n = n < t->count ? n : t->count;
        out->count = n < most ? n : most;
        out->step = t->step;
        bytes = out->count * t->len;
        t->off += out->count * t->step;
        t->count -= out->count;
    } else {
        uint64_t whole = t->len - s->used;
        bytes = out->len = out->step = whole < room ? whole : room;
        s->used += bytes;
        if (bytes == whole) {
            s->used = 0;
            t->off += t->step;
            t->count--;
        }
    }
    s->to.off[s->to.i] += bytes;
    s->to.len[s->to.i] -= bytes;
    s->to.i += bytes == room;
}

/* The next strips, at most |room|, in the selections' own order. Returns how many, less than |room| only at the end;
 * or -1, error pushed. Calls HDF5, which clears its stack. */
static ptrdiff_t next(struct selection *s, struct strip *out, size_t room)
{
    size_t k = 0;
    while (k < room && s->at < s->count) {
        if (!s->is_open && open_pair(s))
            return -1;
        int rc = fill_now(s);
        if (rc < 0)
            return -1;
        if (rc == 0) {
            close_sides(s);
            s->at++;
            continue;
        }
        if (s->to.i == s->to.n && (more_runs(s, &s->to) <= 0 || s->to.n == 0))
            return xh_fail(s->h5, XH_E_INVAL, "HDF5 gives fewer elements of a selection in memory than it has");
        while (k < room && s->now.count && s->to.i < s->to.n)
            cut(s, &out[k++]);
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

/* ---- reading strips */

struct reader {
    struct selection *s;
    const struct xh_selection_ways *w;
    struct strip *p;
    size_t n, room;
    struct xh_extent *ext; /* as many as |p| has room for */
    uint8_t *scratch;
    uint64_t scratch_bytes;
};

static int no_memory(const struct reader *r)
{
    return xh_fail(r->s->h5, XH_E_NOMEM, "out of memory for a read of more than %zu pieces", r->n);
}

/* How many strips from |p| on are read as one into |bytes| of scratch; |*len|: so much of it. 1 and |*len| 0: it is a
 * piece that is read to where it belongs. 0: there is too little scratch. */
static size_t covered(const struct selection *s, const struct strip *p, size_t n, uint64_t bytes, uint64_t *len)
{
    uint64_t end = p->off + span(p), most = p->off + bytes;
    size_t i = 1;
    *len = 0;
    if (!s->covers || !is_dense(p))
        return 1;
    for (; i < n && p[i].off >= end && p[i].off - end < XH_PAGE_BYTES && is_dense(&p[i]); i++) {
        if (p[i].off + span(&p[i]) > most)
            break;
        end = p[i].off + span(&p[i]);
    }
    if (i == 1 && p->count == 1)
        return 1;
    if (end > most)
        return 0;
    *len = end - p->off;
    return i;
}

/* Makes extents of the strips from |p| on, as many as the scratch buffer holds. Returns how many strips; |*k|: how
 * many extents. */
static size_t lay_out(struct reader *r, struct strip *p, size_t n, size_t *k)
{
    uint64_t used = 0, len;
    size_t done = 0, got;
    for (*k = 0; done < n; done += got) {
        struct strip *first = &p[done];
        if ((got = covered(r->s, first, n - done, r->scratch_bytes - used, &len)) == 0)
            break;
        r->ext[(*k)++] = (struct xh_extent){first->off, len ? len : first->len, len ? r->scratch + used : first->buf};
        for (size_t i = done; i < done + got; i++)
            p[i].from = len ? r->scratch + used + (p[i].off - first->off) : NULL;
        used += len;
    }
    return done;
}

/* Copies what came into the scratch buffer to where it belongs. */
static void pick(const struct strip *p, size_t n)
{
    for (; n; n--, p++) {
        const uint8_t *from = p->from;
        uint8_t *to = p->buf;
        if (!from)
            continue;
        switch (p->len) { /* single elements are copied without a call */
        case 1: for (uint64_t i = p->count; i; i--, from += p->step, to += 1) *to = *from; break;
        case 2: for (uint64_t i = p->count; i; i--, from += p->step, to += 2) memcpy(to, from, 2); break;
        case 4: for (uint64_t i = p->count; i; i--, from += p->step, to += 4) memcpy(to, from, 4); break;
        case 8: for (uint64_t i = p->count; i; i--, from += p->step, to += 8) memcpy(to, from, 8); break;
        default: for (uint64_t i = p->count; i; i--, from += p->step, to += p->len) memcpy(to, from, (size_t)p->len);
        }
    }
}

/* A scratch buffer for the |n| strips from |p| on, of at most |most| bytes, which is not less than one strip's span. */
static int take_scratch(struct reader *r, const struct strip *p, size_t n, uint64_t most)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n && bytes < most; i++)
        bytes += r->s->covers && is_dense(&p[i]) ? span(&p[i]) + XH_PAGE_BYTES : 0;
    bytes = bytes < most ? bytes : most;
    if (bytes > r->scratch_bytes) {
        free(r->scratch);
        r->scratch_bytes = 0;
        if (!(r->scratch = malloc((size_t)bytes)))
            return no_memory(r);
        r->scratch_bytes = bytes;
        if (bytes >= HUGE_BYTES) { /* whole pages of it; where that is refused, in small ones */
            uintptr_t at = ((uintptr_t)r->scratch + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES * XH_PAGE_BYTES;
            madvise((void *)at, (size_t)bytes - XH_PAGE_BYTES, MADV_HUGEPAGE);
        }
    }
    return 0;
}

/* Sees to it that there is room for |room| strips. */
static int reserve(struct reader *r, size_t room)
{
    struct strip *p = room > r->room ? realloc(r->p, room * sizeof *p) : r->p;
    if (p)
        r->p = p;
    struct xh_extent *ext = p && room > r->room ? realloc(r->ext, room * sizeof *ext) : r->ext;
    if (!p || !ext)
        return no_memory(r);
    r->ext = ext;
    r->room = room > r->room ? room : r->room;
    return 0;
}

/* Part by part while these are hits, or each as it comes where nothing says so. Returns 0, -1, or 1: what |p| has is
 * left, and what comes behind it. */
static int read_near(struct reader *r)
{
    const struct xh_selection_ways *w = r->w;
    size_t done = 0, k, got;
    for (;;) {
        if (take_scratch(r, r->p, r->n, NEAR_BYTES))
            return -1;
        for (done = 0; done < r->n; done += got) {
            got = lay_out(r, r->p + done, r->n - done, &k);
            int is_last = r->n < r->room && done + got == r->n;
            if (w->hit && !is_last && !w->hit(w->ctx, r->ext, k)) {
                r->n -= done;
                memmove(r->p, r->p + done, r->n * sizeof *r->p);
                return 1;
            }
            if ((!w->hit || is_last) && w->read(w->ctx, r->ext, k))
                return -1;
            pick(r->p + done, got);
        }
        if (r->n < r->room)
            return 0;
        ptrdiff_t more = next(r->s, r->p, r->room);
        if (more < 0)
            return -1;
        r->n = (size_t)more;
    }
}

/* All that is left, behind what |p| has: as much at once as the scratch buffer holds. |*ended|: there is no more to
 * come. */
static int gather(struct reader *r, int *ended)
{
    uint64_t bytes = 0;
    size_t i = 0;
    for (;;) {
        for (; i < r->n; i++)
            bytes += r->s->covers && is_dense(&r->p[i]) ? span(&r->p[i]) : 0;
        if (*ended || bytes >= FAR_BYTES || r->n >= AT_MOST)
            return 0;
        if (r->n == r->room && reserve(r, 2 * r->room))
            return -1;
        size_t room = r->room - r->n < AT_ONCE ? r->room - r->n : AT_ONCE;
        ptrdiff_t more = next(r->s, r->p + r->n, room);
        if (more < 0)
            return -1;
        r->n += (size_t)more;
        *ended = (size_t)more < room;
    }
}

static int read_far(struct reader *r)
{
    int ended = r->s->at == r->s->count;
    do {
        size_t k;
        if (gather(r, &ended) || take_scratch(r, r->p, r->n, FAR_BYTES))
            return -1;
        size_t got = lay_out(r, r->p, r->n, &k);
        if (got && r->w->read(r->w->ctx, r->ext, k))
            return -1;
        pick(r->p, got);
        r->n -= got;
        memmove(r->p, r->p + got, r->n * sizeof *r->p);
    } while (r->n || !ended);
    return 0;
}

static int read_all(struct selection *s, const struct xh_selection_ways *w)
{
    struct strip few[FEW];
    struct xh_extent ext[FEW];
    struct reader r = {.s = s, .w = w};
    int single = 1;
    ptrdiff_t n = next(s, few, FEW);
    for (ptrdiff_t i = 0; i < n; i++) {
        ext[i] = (struct xh_extent){few[i].off, few[i].len, few[i].buf};
        single &= few[i].count == 1;
    }
    if (n <= 0 || (n < (ptrdiff_t)FEW && single))
        return n > 0 ? w->read(w->ctx, ext, (size_t)n) : (int)n;
    r.n = (size_t)n;
    int rc = reserve(&r, n < (ptrdiff_t)FEW ? FEW : AT_ONCE);
    if (rc == 0) {
        memcpy(r.p, few, (size_t)n * sizeof *few);
        n = n < (ptrdiff_t)FEW ? 0 : next(s, r.p + FEW, AT_ONCE - FEW);
        r.n += n < 0 ? 0 : (size_t)n;
        rc = n < 0 ? -1 : read_near(&r);
    }
    if (rc > 0)
        rc = read_far(&r);
    free(r.p);
    free(r.ext);
    free(r.scratch);
    return rc;
}

int xh_selection_read(struct xh_h5 *h5, const struct xh_selection_ways *ways, size_t count, const hid_t memory[],
                      const hid_t file[], const haddr_t addrs[], const size_t element_bytes[], void *const bufs[])
{
    struct selection s; /* its arrays of runs are filled as they are needed */
    s.h5 = h5;
    s.count = count;
    s.memory = memory;
    s.file = file;
    s.addrs = addrs;
    s.element_bytes = element_bytes;
    s.bufs = bufs;
    s.covers = ways->covers;
    s.at = s.bytes = 0;
    s.buf = NULL;
    s.is_open = s.same_bytes = s.same_buf = 0;
    s.in.iter = s.to.iter = H5I_INVALID_HID;
    int rc = read_all(&s, ways);
    end(&s);
    return rc;
}
