/* Fuzz targets: hostile bytes for one parser each. A target is a file with xh_fuzz(); replay.c makes a plain
 * program of it, libFuzzer (clang, -Dfuzzers=true) one that looks for new paths. */
#ifndef XH_FUZZ_H
#define XH_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

#endif
