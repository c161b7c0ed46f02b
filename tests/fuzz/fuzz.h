/* Fuzz targets: hostile bytes for one parser each. A target is a file with xh_fuzz(); replay.c makes a plain
 * program of it, libFuzzer (clang, -Dfuzzers=true) one that looks for new paths. */
#ifndef XH_FUZZ_H
#define XH_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One input. Must come to the same end each time. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size);

/* Ends the program when a bound is broken: |what| is a claim that does not hold. */
static inline void hold(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* Returns a copy of the |n| bytes at |p| that ends with a 0. Owns: free(). */
static inline char *text_of(const uint8_t *p, size_t n)
{
    char *s = malloc(n + 1);
    hold(s != NULL, "out of memory");
    if (n)
        memcpy(s, p, n);
    s[n] = '\0';
    return s;
}

#endif
