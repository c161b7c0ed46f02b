/* Blocks: see blocks.h. Only whole blocks are recycled; smaller pieces are malloc's business. */
#include "blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint8_t *xh_block_get(struct xh_blocks *b, size_t len)
{
    uint8_t *p = b->top;
    assert(len <= XH_BLOCK_BYTES);
    if (len < XH_BLOCK_BYTES || !p)
        return malloc(len);
    memcpy(&b->top, p, sizeof b->top);
    b->spare_bytes -= XH_BLOCK_BYTES;
    return p;
}

void xh_block_put(struct xh_blocks *b, uint8_t *p, size_t len, uint64_t most_spare)
{
    if (!p || len < XH_BLOCK_BYTES || b->spare_bytes + XH_BLOCK_BYTES > most_spare) {
        free(p);
        return;
    }
    memcpy(p, &b->top, sizeof b->top);
    b->top = p;
    b->spare_bytes += XH_BLOCK_BYTES;
}

void xh_blocks_free(struct xh_blocks *b)
{
    void *p;
    while ((p = b->top) != NULL) {
        memcpy(&b->top, p, sizeof b->top);
        free(p);
    }
    b->spare_bytes = 0;
}
