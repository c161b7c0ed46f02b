/* Parses metadata: takes the bytes of one structure of an HDF5 file, and reports the places of the structures that it
 * names.
 *
 * Pure: no I/O, no memory, no state. Knows the structures between the superblock and every object's header, attributes
 * and links: object headers (versions 1 and 2) and their continuations, group B-trees version 1, symbol nodes, local
 * heaps, fractal heaps, B-trees version 2, the global heaps of variable-length attributes, and the B-trees version 1 of
 * chunked datasets. Contiguous raw data is reported, not read.
 *
 * All input is hostile. Nothing outside [p, p + len) is read, and no place outside the object is reported. Parsing ends
 * at the first field that makes no sense. Results are hints: a wrong one costs a fetch.
 * Source: HDF5 File Format Specification 3.0. */
#ifndef XH_METAPARSE_H
#define XH_METAPARSE_H

#include <stddef.h>
#include <stdint.h>

/* Facts about the whole file, from the superblock and its extension. */
struct xh_meta_format {
    uint64_t size;         /* of the object, bytes */
    uint64_t base;         /* added to addresses; not 0 behind a user block */
    uint64_t page_bytes;   /* for a file in paged aggregation; 0: not paged */
    unsigned offset_bytes, length_bytes; /* 2, 4 or 8 */
    unsigned leaf_k, internal_k;         /* for groups' symbol nodes and B-trees */
};

enum xh_meta_kind {
    XH_META_HEADER,       /* object header, either version */
    XH_META_CHUNK,        /* continuation of a version 1 header; or the rest of its first chunk */
    XH_META_CHUNK2,       /* "OCHK", version 2; |detail|: the header's flags */
    XH_META_EXTENSION,    /* the superblock extension's header; also gives the page size */
    XH_META_BTREE,        /* "TREE" of a group */
    XH_META_SYMBOLS,      /* "SNOD" */
    XH_META_LOCAL_HEAP,   /* "HEAP" */
    XH_META_FRACTAL_HEAP, /* "FRHP"; |detail|: 1 when its objects are links */
    XH_META_INDIRECT,     /* "FHIB"; |detail|: bit fields, see metaparse.c */
    XH_META_DIRECT,       /* "FHDB"; |detail|: as for FHIB */
    XH_META_BTREE2,       /* "BTHD" */
    XH_META_BTREE2_NODE,  /* "BTIN" or "BTLF"; |detail|: bit fields */
    XH_META_BYTES,        /* names or values; names no other structure */
    XH_META_INDEX,        /* "TREE" of a dataset's chunks; |detail|: bytes of a key */
    XH_META_DATA,         /* a dataset's contiguous raw data; |detail|: its bytes, unchecked; |len| has no meaning */
};

struct xh_meta_place { /* the place of a structure in the object, and its kind */
    uint64_t off;      /* with the base added; off < size */
    uint32_t len;      /* what HDF5 reads of it first; off + len <= size */
    enum xh_meta_kind kind;
    uint64_t detail;
    int linked;    /* 1: a link names it: a header, and what belongs to that header, which comes right behind it */
    uint32_t link; /* stands for the link's name. Groups of one making have the same for the same name */
};

/* Copies [off, off + len) into |buf| if all of it is there without asking the origin. Returns 1 then, else 0. */
typedef int xh_meta_look(void *ctx, uint64_t off, void *buf, size_t len);

/* Receives each place that is found. Returns non-zero to stop. */
typedef int xh_meta_sink(void *ctx, const struct xh_meta_place *found);

/* Longest structure that is parsed. Longer ones are reported, but nothing in them is. */
#define XH_META_PARSE_MAX 65536u

/* Parses the superblock at |at|; 96 bytes are always enough. Returns 1, sets |*out| and calls |sink| with the root
 * group's places; or returns 0 when there is no superblock. */
int xh_meta_superblock(const uint8_t *p, size_t len, uint64_t at, uint64_t size, struct xh_meta_format *out,
                       xh_meta_sink *sink, void *ctx);

/* Parses the structure at |place|, whose |len| bytes are at |p|. May set format->page_bytes. */
void xh_meta_parse(struct xh_meta_format *format, const struct xh_meta_place *place, const uint8_t *p, size_t len,
                   xh_meta_sink *sink, void *ctx);

/* Guesses from its first bytes which structure HDF5 has read at |off|. Returns 1 and sets |*out|, or 0. */
int xh_meta_recognise(const struct xh_meta_format *format, uint64_t off, const uint8_t *p, size_t len,
                      struct xh_meta_place *out);

#endif
