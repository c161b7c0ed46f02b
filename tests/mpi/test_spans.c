/* Datatypes taken apart, against MPI itself: what MPI_Pack gathers by a random nested type is what its spans say. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spans.h"

#define CHECK(cond)                                                              \
    do {                                                                         \
        if (!(cond)) {                                                           \
            fprintf(stderr, "test_spans.c:%d: not so: %s\n", __LINE__, #cond);   \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

static unsigned seed = 11;

static int below(int n)
{
    return rand_r(&seed) % n;
}

/* A type over |inner|, without overlaps, in any order. Takes |inner|. */
static MPI_Datatype around(MPI_Datatype inner)
{
    MPI_Aint lb, extent, disp[4];
    MPI_Datatype made, types[4];
    int lens[4], places[4], n = 1 + below(4), len = 1 + below(3);
    MPI_Type_get_extent(inner, &lb, &extent);
    for (int i = 0; i < n; i++) {
        lens[i] = below(len + 1);
        places[i] = i * (len + 1);
        disp[i] = (MPI_Aint)(n - 1 - i) * (len + 1) * extent; /* downwards */
        types[i] = inner;
    }
    switch (below(9)) {
    case 0: MPI_Type_contiguous(n, inner, &made); break;
    case 1: MPI_Type_vector(n, len, len + below(3), inner, &made); break;
    case 2: MPI_Type_create_hvector(n, len, (len + below(3)) * extent, inner, &made); break;
    case 3: MPI_Type_indexed(n, lens, places, inner, &made); break;
    case 4: MPI_Type_create_hindexed(n, lens, disp, inner, &made); break;
    case 5: MPI_Type_create_indexed_block(n, len, places, inner, &made); break;
    case 6: MPI_Type_create_hindexed_block(n, len, disp, inner, &made); break;
    case 7: MPI_Type_create_struct(n, lens, disp, types, &made); break;
    default: MPI_Type_create_resized(inner, 0, extent + below(5), &made); break;
    }
    if (inner != MPI_BYTE && inner != MPI_INT)
        MPI_Type_free(&inner);
    return made;
}

static void compare(MPI_Datatype type, int count)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    int bytes, packed_bytes, at = 0;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    MPI_Type_size(type, &bytes);
    if (bytes == 0) /* of nothing, Open MPI tells the largest numbers there are */
        true_lb = true_extent = 0;
    size_t room = (size_t)(count * extent + true_lb + true_extent) + 64;
    uint8_t *memory = malloc(room);
    for (size_t i = 0; i < room; i++)
        memory[i] = (uint8_t)(i * 2654435761u >> 11);
    MPI_Pack_size(count, type, MPI_COMM_SELF, &packed_bytes);
    uint8_t *packed = malloc((size_t)packed_bytes + 1);
    MPI_Pack(memory, count, type, packed, packed_bytes, &at, MPI_COMM_SELF);
    struct xh_spans spans = {0};
    CHECK(xh_spans_add(&spans, type, 0, (uint64_t)count) == 0);
    uint64_t seen = 0;
    for (size_t i = 0; i < spans.n; i++) {
        CHECK(spans.at[i].len > 0 && seen + spans.at[i].len <= (uint64_t)at);
        CHECK(memcmp(packed + seen, memory + spans.at[i].at, spans.at[i].len) == 0);
        seen += spans.at[i].len;
        CHECK(i == 0 || spans.at[i - 1].at + (int64_t)spans.at[i - 1].len != spans.at[i].at);
    }
    CHECK(seen == (uint64_t)at);
    free(spans.at);
    free(packed);
    free(memory);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 5000; i++) {
        MPI_Datatype type = below(2) ? MPI_BYTE : MPI_INT;
        for (int depth = 1 + below(4); depth; depth--)
            type = around(type);
        MPI_Type_commit(&type);
        compare(type, below(4));
        MPI_Type_free(&type);
    }
    /* However many elements are dense, they are one span. */
    MPI_Datatype big;
    struct xh_spans spans = {0};
    MPI_Type_contiguous(1 << 30, MPI_INT, &big);
    CHECK(xh_spans_add(&spans, big, 8, 1u << 20) == 0);
    CHECK(spans.n == 1 && spans.at->at == 8 && spans.at->len == (uint64_t)1 << 52);
    free(spans.at);
    MPI_Type_free(&big);
    MPI_Finalize();
    return 0;
}
