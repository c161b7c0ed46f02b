/* The sidecar of an open file: its metadata image, looked for while the file is being opened, and read from.
 *
 * A thread asks for it beside the opening's own first request; so it costs no round trip, and where it is not there
 * nobody waits for it. It is opened as any file is, with its own shadow: so all processes of the user fetch it once, in
 * as many parts as pay, and hold it packed. What is read of it is unpacked in private memory, block by block.
 *
 * An image is used when it is of the version that is open: same size, same time, and the same bytes where the file's
 * head is known. Anything else, and any doubt later, sends the reader to the original. */
#ifndef XH_METADATA_IMAGE_H
#define XH_METADATA_IMAGE_H

#include "cache.h"

struct xh_metadata_image;
struct xh_other_files;

/* Begins to look beside |url|, for a file that is about to be opened. Returns 0, |*out| NULL when there is nothing to
 * look for; or INVAL: the option's value. |files|: constant. Owns: close it. Does not block on the network. */
int xh_metadata_image_begin(const char *url, const struct xh_options *o, const struct xh_other_files *files,
                            struct xh_metadata_image **out, struct xh_err *err);

/* The same in another process of the job of one that has the image: |told| is what that one's xh_metadata_image_tell
 * gave, "" for none. Nobody is asked whether there is one. */
void xh_metadata_image_begin_told(const char *url, const struct xh_options *o, const char *told,
                                  const struct xh_other_files *files, struct xh_metadata_image **out);

/* What xh_metadata_image_begin_told wants, with its NUL, "" where no image is used. Returns its length; 0 also where
 * |size| bytes do not hold it. |b|: or NULL. */
size_t xh_metadata_image_tell(struct xh_metadata_image *b, char *out, size_t size);

/* What was opened. */
struct xh_metadata_image_of {
    const char *validator;
    uint64_t size;
    const uint8_t *head; /* its first bytes, as far as they came along; NULL: none did */
    size_t head_len;
};

/* The file is open: waits for its image where it is coming, not where that is not known yet and would take longer than
 * a part of the opening did. Returns 1 when the image is there to be read from, 0 when it is not, or not yet; or a
 * negative code where the option requires one. Threads: the opener's, once. */
int xh_metadata_image_settle(struct xh_metadata_image *b, const struct xh_metadata_image_of *of, struct xh_err *err);

/* 1 when it cannot be told yet, nor a moment (2 ms) later, whether there is an image. |b|: or NULL. */
int xh_metadata_image_is_doubtful(struct xh_metadata_image *b);

/* Copies [off, off + len), for a guess, if all of it is here already. Does not block. */
int xh_metadata_image_look(struct xh_metadata_image *b, uint64_t off, void *buf, size_t len);

/* 1 when the image has it, or will: nobody needs to ask the origin. */
int xh_metadata_image_has(struct xh_metadata_image *b, uint64_t off, uint64_t len);

/* 1 when there is an image to be read from, |all|: and all of it has come. */
int xh_metadata_image_is_used(struct xh_metadata_image *b, int all);

/* Adds what the image cost to |out|. */
void xh_metadata_image_stats(struct xh_metadata_image *b, struct xh_stats *out);

/* In a fork's child, before anything else: the look, if it goes on, is the parent's. */
void xh_metadata_image_after_fork(struct xh_metadata_image *b);

/* Never waits for the network: a look that goes on ends by itself. */
void xh_metadata_image_close(struct xh_metadata_image *b);

#endif
