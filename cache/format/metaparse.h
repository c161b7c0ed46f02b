/* Metadata as bytes: one structure of an HDF5 file in, the places of those it names out.
 *
 * Pure: no I/O, no memory, no state. Knows the structures that lead from the superblock to
 * every object's header, attributes and links: object headers (versions 1 and 2) and their
 * continuations, group B-trees version 1, symbol nodes, local heaps, fractal heaps, B-trees
 * version 2, the global heaps of variable-length attributes, and the B-trees version 1 of
 * chunked datasets. Contiguous raw data is named, not read.
 *
 * All input is hostile: nothing outside [p, p + len) is read, no place outside the object is
 * named, and what makes no sense ends the parsing. What comes out are hints: a wrong one
 * costs a fetch. Source: HDF5 File Format Specification 3.0. */
#ifndef XH_METAPARSE_H
#define XH_METAPARSE_H

#include <stddef.h>
#include <stdint.h>

/* Facts of the whole file, from the superblock and its extension. */
struct xh_meta_format {
    uint64_t size;         /* of the object, bytes */
    uint64_t base;         /* what addresses count from: not 0 behind a user block */
    uint64_t page_bytes;   /* of a file in paged aggregation; 0: not paged */
    unsigned offset_bytes, length_bytes; /* 2, 4 or 8 */
    unsigned leaf_k, internal_k;         /* of groups' symbol nodes and B-trees */
};

enum xh_meta_kind {
    XH_META_HEADER,       /* object header, either version */
    XH_META_CHUNK,        /* continuation of one, version 1; or the rest of a first chunk */
    XH_META_CHUNK2,       /* "OCHK", version 2; |detail| is the header's flags */
    XH_META_EXTENSION,    /* the superblock extension's header: also tells the page size */
    XH_META_BTREE,        /* "TREE" of a group */
    XH_META_SYMBOLS,      /* "SNOD" */
    XH_META_LOCAL_HEAP,   /* "HEAP" */
    XH_META_FRACTAL_HEAP, /* "FRHP"; |detail| is 1 when its objects are links */
    XH_META_INDIRECT,     /* "FHIB"; |detail|: struct of bits, see metaparse.c */
    XH_META_DIRECT,       /* "FHDB"; the same */
    XH_META_BTREE2,       /* "BTHD" */
    XH_META_BTREE2_NODE,  /* "BTIN" or "BTLF"; |detail|: struct of bits */
    XH_META_BYTES,        /* nothing in it leads on: names, values */
    XH_META_INDEX,        /* "TREE" of a dataset's chunks; |detail|: bytes of a key */
    XH_META_DATA,         /* a dataset's contiguous raw data, |detail| bytes, unchecked; |len| says nothing */
};

struct xh_meta_place { /* a structure: where it lies in the object, and what it is */
    uint64_t off;      /* with the base added; off < size */
    uint32_t len;      /* what HDF5 reads of it at first; off + len <= size */
    enum xh_meta_kind kind;
    uint64_t detail;
};

/* Copies [off, off + len) into |buf| if all of it is there without asking the origin: 1, else 0. */
typedef int xh_meta_look(void *ctx, uint64_t off, void *buf, size_t len);

/* Gets each place found; returns non-zero to stop. */
typedef int xh_meta_sink(void *ctx, const struct xh_meta_place *found);

/* Longest structure that is parsed; longer ones may be named but lead nowhere. */
#define XH_META_PARSE_MAX 65536u

/* Parses the superblock at |at|. Returns 1, sets |*out| and calls |sink| with the root group's
 * places, or 0 when there is none. |len| of 96 is always enough. */
int xh_meta_superblock(const uint8_t *p, size_t len, uint64_t at, uint64_t size, struct xh_meta_format *out,
                       xh_meta_sink *sink, void *ctx);

/* Parses the structure at |place|, whose |len| bytes are at |p|. May set format->page_bytes. */
void xh_meta_parse(struct xh_meta_format *format, const struct xh_meta_place *place, const uint8_t *p, size_t len,
                   xh_meta_sink *sink, void *ctx);

/* Guesses from its first bytes what HDF5 has read at |off|. Returns 1 and sets |*out|, or 0. */
int xh_meta_recognise(const struct xh_meta_format *format, uint64_t off, const uint8_t *p, size_t len,
                      struct xh_meta_place *out);

#endif
