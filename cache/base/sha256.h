/* SHA-256, and the hexadecimal digits in which it is named. */
#ifndef XH_SHA256_H
#define XH_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* Returns 1; or 0 without memory, or when the process exits. Threads: any. */
int xh_sha256(const void *data, size_t len, uint8_t out[32]);

/* Writes |n| bytes as 2 * |n| digits and a NUL. */
void xh_hex(const uint8_t *p, size_t n, char *out);

#endif
