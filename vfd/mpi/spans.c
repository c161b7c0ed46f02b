/* Decoding datatypes: see spans.h.
 *
 * HDF5 describes a selection by nested constructors. Each is decoded from the inside: first the bytes of one inner
 * element, then their repetitions. Dense data stays one span, however often it is repeated, so that the cost depends on
 * the number of runs, not of elements.
 *
 * Source: MPI 4.0, 5.1.13, Decoding a Datatype. */
#include "spans.h"

#include <stdlib.h>

#include "../../cache/base/err.h"
#include "../../cache/base/table.h"

static int add_span(struct xh_spans *s, int64_t at, uint64_t len)
{
    struct xh_span *last = s->n ? &s->at[s->n - 1] : NULL;
    if (len == 0)
        return 0;
    if (last && last->at + (int64_t)last->len == at) {
        last->len += len;
        return 0;
    }
    return xh_append(s, (struct xh_span){at, len}) ? XH_E_NOMEM : 0;
}

/* Appends |count| copies of |one|, |step| bytes apart. The first begins at |at|. */
static int repeat(struct xh_spans *s, const struct xh_spans *one, int64_t at, uint64_t count, int64_t step)
{
    if (one->n == 1 && (int64_t)one->at->len == step)
        return add_span(s, at + one->at->at, one->at->len * count);
    for (uint64_t i = 0; i < count; i++, at += step)
        for (size_t k = 0; k < one->n; k++)
            if (add_span(s, at + one->at[k].at, one->at[k].len))
                return XH_E_NOMEM;
    return 0;
}

/* A constructor with its arguments, as MPI_Type_get_contents gives them. */
struct made {
    int combiner, nints, naddrs, ntypes;
    int *ints;
    MPI_Aint *addrs;
    MPI_Datatype *types;
};

static int64_t extent_of(MPI_Datatype type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    return extent;
}

/* Applies |m| to its inner type, whose bytes are |one| and whose extent is |step|. */
static int unfold_one(const struct made *m, const struct xh_spans *one, int64_t step, struct xh_spans *s)
{
    const int *len = m->ints + 1;
    int rc = 0, n = m->nints ? m->ints[0] : 0;
    switch (m->combiner) {
    case MPI_COMBINER_DUP: case MPI_COMBINER_RESIZED:
        return repeat(s, one, 0, 1, step);
    case MPI_COMBINER_CONTIGUOUS:
        return repeat(s, one, 0, (uint64_t)n, step);
    case MPI_COMBINER_VECTOR: case MPI_COMBINER_HVECTOR:
        for (int i = 0; i < n && rc == 0; i++)
            rc = repeat(s, one, i * (m->naddrs ? (int64_t)m->addrs[0] : m->ints[2] * step), (uint64_t)len[0], step);
        return rc;
    case MPI_COMBINER_INDEXED: case MPI_COMBINER_HINDEXED:
        for (int i = 0; i < n && rc == 0; i++)
            rc = repeat(s, one, m->naddrs ? (int64_t)m->addrs[i] : len[n + i] * step, (uint64_t)len[i], step);
        return rc;
    case MPI_COMBINER_INDEXED_BLOCK: case MPI_COMBINER_HINDEXED_BLOCK:
        for (int i = 0; i < n && rc == 0; i++)
            rc = repeat(s, one, m->naddrs ? (int64_t)m->addrs[i] : len[1 + i] * step, (uint64_t)len[0], step);
        return rc;
    default:
        return XH_E_INVAL;
    }
}

static int unfold(const struct made *m, struct xh_spans *s)
{
    int rc = 0;
    if (m->combiner == MPI_COMBINER_STRUCT) {
        for (int i = 0; i < m->ntypes && rc == 0; i++)
            rc = xh_spans_add(s, m->types[i], m->addrs[i], (uint64_t)m->ints[1 + i]);
        return rc;
    }
    if (m->ntypes != 1)
        return XH_E_INVAL;
    struct xh_spans one = {0};
    rc = xh_spans_add(&one, m->types[0], 0, 1);
    if (rc == 0)
        rc = unfold_one(m, &one, extent_of(m->types[0]), s);
    free(one.at);
    return rc;
}

/* Appends the bytes of one element. */
static int decode(MPI_Datatype type, struct xh_spans *s)
{
    struct made m = {0};
    int size, rc = XH_E_NOMEM;
    if (MPI_Type_get_envelope(type, &m.nints, &m.naddrs, &m.ntypes, &m.combiner) != MPI_SUCCESS)
        return XH_E_INVAL;
    if (m.combiner == MPI_COMBINER_NAMED) {
        MPI_Type_size(type, &size);
        return add_span(s, 0, (uint64_t)size);
    }
    m.ints = calloc((size_t)m.nints + 1, sizeof *m.ints);
    m.addrs = calloc((size_t)m.naddrs + 1, sizeof *m.addrs);
    m.types = calloc((size_t)m.ntypes + 1, sizeof *m.types);
    if (m.ints && m.addrs && m.types) {
        rc = XH_E_INVAL;
        if (MPI_Type_get_contents(type, m.nints, m.naddrs, m.ntypes, m.ints, m.addrs, m.types) == MPI_SUCCESS)
            rc = unfold(&m, s);
        for (int i = 0; i < m.ntypes; i++) {
            int a, b, c, combiner = MPI_COMBINER_NAMED;
            MPI_Type_get_envelope(m.types[i], &a, &b, &c, &combiner);
            if (combiner != MPI_COMBINER_NAMED)
                MPI_Type_free(&m.types[i]);
        }
    }
    free(m.ints);
    free(m.addrs);
    free(m.types);
    return rc;
}

int xh_spans_add(struct xh_spans *spans, MPI_Datatype type, int64_t at, uint64_t count)
{
    struct xh_spans one = {0};
    int rc = count ? decode(type, &one) : 0;
    if (rc == 0 && count)
        rc = repeat(spans, &one, at, count, extent_of(type));
    free(one.at);
    return rc;
}
