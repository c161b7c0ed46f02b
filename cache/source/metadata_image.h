/* The sidecar of an open file: its metadata image, looked for while the file is being opened, and read from.
 *
 * A thread asks for it beside the opening's own first request. So it costs no round trip, and where there is none no
 * reader waits for it. It is opened as any file is, with its own shadow: the user's processes fetch it once, and hold
 * it packed. What is read of it is unpacked in private memory, block by block.
 *
 * An image is used when it is of the version that is open: same size, same time, and the same bytes where the file's
 * head is known. In any other case, and after any doubt, readers go to the original. */
#ifndef XH_METADATA_IMAGE_H
#define XH_METADATA_IMAGE_H

#include "cache.h"

struct xh_metadata_image;
struct xh_other_files;

/* Begins to look beside |url|, for a file that is about to be opened. Returns 0, |*out| NULL when there is nothing to
 * look for; or INVAL: the option's value. |files|: constant. Owns: close it. Does not block on the network. */
int xh_metadata_image_begin(const char *url, const struct xh_options *o, const struct xh_other_files *files,
                            struct xh_metadata_image **out, struct xh_err *err);

/* The same where another process of the job has the image: |told| is what its xh_metadata_image_tell gave, "" for none.
 * The server is not asked whether there is one. */
void xh_metadata_image_begin_told(const char *url, const struct xh_options *o, const char *told,
                                  const struct xh_other_files *files, struct xh_metadata_image **out);

/* Writes what xh_metadata_image_begin_told wants, with its NUL; "" where no image is used, or |size| bytes do not hold
 * it. Returns its length. |b| may be NULL. */
size_t xh_metadata_image_tell(struct xh_metadata_image *b, char *out, size_t size);

/* What was opened. */
struct xh_metadata_image_of {
    const char *validator;
    uint64_t size;
    const uint8_t *head; /* the file's first bytes that came with the opening; NULL: none did */
    size_t head_len;
};

/* Called once, by the thread that has opened the file. Waits for the image if it is coming; if that is not known yet,
 * only for a part of the time that the opening took. Returns 1 when there is an image to be read from, 0 when there is
 * none, or none yet; or a negative code when the option requires one. */
int xh_metadata_image_settle(struct xh_metadata_image *b, const struct xh_metadata_image_of *of, struct xh_err *err);

/* Returns 1 when it is not known, now or 2 ms later, whether there is an image. |b| may be NULL. */
int xh_metadata_image_is_doubtful(struct xh_metadata_image *b);

/* Copies [off, off + len), for a guess, if all of it is here already. Returns 1 or 0. Does not block. */
int xh_metadata_image_look(struct xh_metadata_image *b, uint64_t off, void *buf, size_t len);

/* Returns 1 when the image has the bytes, or will have them: the origin need not be asked for them. */
int xh_metadata_image_has(struct xh_metadata_image *b, uint64_t off, uint64_t len);

/* Returns 1 when there is an image to be read from; with |all| only when all of it has come. */
int xh_metadata_image_is_used(struct xh_metadata_image *b, int all);

/* Adds the image's requests and bytes to |out|. */
void xh_metadata_image_stats(struct xh_metadata_image *b, struct xh_stats *out);

/* Called in a fork's child before any other function. A look that goes on is the parent's. */
void xh_metadata_image_after_fork(struct xh_metadata_image *b);

/* Never waits for the network: a look that goes on ends by itself. */
void xh_metadata_image_close(struct xh_metadata_image *b);

#endif
