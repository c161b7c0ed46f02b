/* A whole file in memory. */
#ifndef XH_SLURP_H
#define XH_SLURP_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the bytes of the file at |path|, with room for |more| behind them. The caller frees them. */
static inline uint8_t *slurp(const char *path, uint64_t more, uint64_t *size)
{
    FILE *in = fopen(path, "rb");
    cr_assert_not_null(in);
    fseek(in, 0, SEEK_END);
    *size = (uint64_t)ftell(in);
    rewind(in);
    uint8_t *bytes = malloc(*size + more);
    cr_assert_not_null(bytes);
    cr_assert_eq(fread(bytes, 1, *size, in), *size);
    fclose(in);
    return bytes;
}

#endif
