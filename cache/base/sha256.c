/* SHA-256: see sha256.h. */
#include "sha256.h"

#include <openssl/evp.h>

#include "crypto.h"

int xh_sha256(const void *data, size_t len, uint8_t out[32])
{
    if (!xh_crypto_enter())
        return 0;
    int ok = EVP_Digest(data, len, out, NULL, EVP_sha256(), NULL) == 1;
    xh_crypto_leave();
    return ok;
}

void xh_hex(const uint8_t *p, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}
