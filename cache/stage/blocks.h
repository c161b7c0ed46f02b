/* Blocks: recycled memory for bytes that stay for a moment.
 *
 * The block that was given back last goes out first, while it is in the processor's cache; fresh
 * memory costs as much as copying into it. Threads: the owner's lock guards a pool. */
#ifndef XH_BLOCKS_H
#define XH_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#define XH_BLOCK_BYTES (256u << 10)

struct xh_blocks {
    void *top;           /* a stack: each spare block begins with the address of the next */
    uint64_t spare_bytes;
};

/* Memory for |len| bytes, at most XH_BLOCK_BYTES; NULL when there is none. */
uint8_t *xh_block_get(struct xh_blocks *b, size_t len);

/* Gives back what xh_block_get brought for |len|. Spares are kept up to |most_spare| bytes. |p| may be NULL. */
void xh_block_put(struct xh_blocks *b, uint8_t *p, size_t len, uint64_t most_spare);

/* Frees the spares. */
void xh_blocks_free(struct xh_blocks *b);

#endif
