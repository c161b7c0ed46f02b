/* Finding external file lists: see external.h.
 *
 * Messages of an object header are followed one by one, to find the continuations. The list itself is looked for at
 * every byte of the header, and nowhere else: HDF5's read of a header also brings bytes of the next object. */
#include "external.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cache/base/bytes.h"
#include "../cache/base/hdf5.h"
#include "../cache/base/table.h"

#define EXTERNAL 7u      /* type of the message "data storage - external data files" */
#define CONTINUATION 16u /* type of the message "object header continuation" */
#define DRIVER_INFO 20u  /* type of the message "driver info" */
#define OLD_HEAD 16u      /* bytes before the messages in an object header of version 1 */
#define OLD_MESSAGE 8u    /* bytes before the body of a message in such a header */
#define BODY_BYTES 8u    /* of a list, before the heap's address: version, reserved, slots allocated, slots used */
#define WIDE_BYTES 32u   /* most of an address or a length: HDF5 accepts 2, 4, 8, 16 and 32, and uses eight of them */
#define SUPER_FIELDS_BYTES (4 * WIDE_BYTES)
#define SEEN_BYTES (8u + BODY_BYTES + 2 * WIDE_BYTES) /* most from a list's type to its first slot's name */
#define PIECES_MOST 4096u /* parts of one header that are followed: with default settings about 100,000 attributes */
#define HEADER_MOST (64u << 20) /* bytes of one header that are read, in all its parts */
#define MULTI "NCSAmult" /* the multi driver's name in driver information */
#define MULTI_BYTES 8u
#define BLOCK_BYTES 16u /* of a block of driver information, before its data: version, reserved, size, name */
#define USES 6u /* HDF5's multi driver has a part for each kind of data, or one for several */
#define TEMPLATE_MOST 256u /* bytes of a part's name with its final 0; longer ones are refused */
#define DATA_MOST (8u + USES * (16u + TEMPLATE_MOST)) /* bytes of driver information that are looked at */

/* A number as HDF5 reads it: of wide ones the first 8 bytes. */
static uint64_t number(const uint8_t *p, unsigned bytes)
{
    return xh_le(p, bytes < 8 ? bytes : 8);
}

/* The superblock's fields. HDF5 looks for the superblock at 0, 512, 1024, 2048 and so on. */
struct format {
    uint64_t base;
    unsigned addr_bytes, length_bytes; /* 0: not read yet */
    int odd; /* 1: HDF5 accepts the superblock, but it is unclear how HDF5 reads widths like these */
    int unread; /* 1: it cannot be read whether there is one */
};

static int untold(struct xh_external *e, const char *why)
{
    e->why = why;
    return XH_EXTERNAL_UNTOLD;
}

static int untold_widths(struct xh_external *e)
{
    return untold(e, "its superblock names addresses or lengths of a strange width");
}

static int is_width(unsigned bytes, unsigned most)
{
    return bytes >= 2 && bytes <= most && (bytes & (bytes - 1)) == 0;
}

static int read_format(const struct xh_external *e, struct format *f)
{
    uint8_t p[16];
    for (uint64_t at = 0; at < e->size && e->size - at >= sizeof p; at = at ? at * 2 : 512) {
        if ((f->unread = e->look(e->ctx, at, p, sizeof p) != 0))
            return -1;
        if (!xh_hdf5_is_signed(p))
            continue;
        unsigned addr_bytes = p[8] < 2 ? p[13] : p[9], length_bytes = p[8] < 2 ? p[14] : p[10];
        f->odd = !is_width(addr_bytes, WIDE_BYTES) || !is_width(length_bytes, 8);
        if (f->odd)
            return -1;
        f->base = at;
        f->addr_bytes = addr_bytes;
        f->length_bytes = length_bytes;
        return 0;
    }
    return -1;
}

static int has_driver_info(const struct xh_external *e, const struct format *f, unsigned version, const uint8_t *p);

int xh_external_is_part(const struct xh_external *e)
{
    struct format f = {0};
    uint8_t p[SUPER_FIELDS_BYTES], version;
    if (read_format(e, &f))
        return f.odd ? 0 : f.unread ? XH_EXTERNAL_UNTOLD : 1;
    if (e->look(e->ctx, f.base + XH_HDF5_SIGNATURE_BYTES, &version, 1))
        return XH_EXTERNAL_UNTOLD;
    /* The base address is followed by one of free space, or of an extension, that by the end of the file, and that, in
     * versions 0 and 1, by the address of driver information. */
    uint64_t at = f.base + (version < 2 ? version == 1 ? 28 : 24 : 12);
    size_t n = (version < 2 ? 4 : 3) * (size_t)f.addr_bytes;
    if (n > e->size - f.base || at > e->size - n)
        return 0; /* HDF5 cannot read it either */
    if (e->look(e->ctx, at, p, n))
        return XH_EXTERNAL_UNTOLD;
    uint64_t base = number(p, f.addr_bytes), end = number(p + 2 * f.addr_bytes, f.addr_bytes);
    return end < base || end - base > e->size - f.base || has_driver_info(e, &f, version, p);
}

/* The address that stands for none. */
static uint64_t undefined(const struct format *f)
{
    unsigned bytes = f->addr_bytes % 8; /* of wider ones HDF5 uses eight */
    return bytes ? UINT64_MAX >> 8 * (8 - bytes) : UINT64_MAX;
}

/* Converts the address at |p| into a place in the file. Like HDF5, uses only the low eight bytes of a wider address.
 * Returns 1, or 0 when the address lies outside the file. */
static int place(const struct xh_external *e, const struct format *f, const uint8_t *p, uint64_t *out)
{
    uint64_t v = number(p, f->addr_bytes);
    if (v >= e->size || f->base > e->size - v)
        return 0;
    *out = v + f->base;
    return *out < e->size;
}

static void make_printable(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            *c = '?';
}

/* Stores the list's first name in e->name. |slot| is the list's first slot, |heap| the address of its heap. */
static void keep_name(struct xh_external *e, const struct format *f, uint64_t heap, const uint8_t *slot)
{
    uint8_t p[8 + 3 * WIDE_BYTES];
    size_t head = 8 + 2 * f->length_bytes + f->addr_bytes;
    uint64_t at, offset = number(slot, f->length_bytes);
    if (e->size - heap < head || e->look(e->ctx, heap, p, head) || memcmp(p, "HEAP", 4) != 0 ||
        !place(e, f, p + 8 + 2 * f->length_bytes, &at) || offset >= e->size - at)
        return;
    at += offset;
    size_t n = e->size - at < sizeof e->name - 1 ? (size_t)(e->size - at) : sizeof e->name - 1;
    if (e->look(e->ctx, at, e->name, n))
        n = 0;
    e->name[n] = '\0';
    make_printable(e->name);
}

/* 1 when the |n| bytes at |b| may begin a list's body: version 1, and at least one slot used. */
static int may_be_body(const uint8_t *b, size_t n)
{
    return (n < 1 || b[0] == 1) && (n < BODY_BYTES || b[6] || b[7]);
}

/* For a list whose heap is behind the end of the file; an image, or another part, may supply the heap. |t| is the type
 * of the list's message. Returns 1 when HDF5 accepts the rest as a list: the message has room for the used slots, and
 * no more slots are used than exist. */
static int may_be_anywhere(const struct format *f, const uint8_t *t, size_t head)
{
    const uint8_t *body = t + head;
    uint64_t size = number(t + (head == 8 ? 2 : 1), 2), slots = number(body + 4, 2), used = number(body + 6, 2);
    return used <= slots && size >= BODY_BYTES + f->addr_bytes + used * 3 * f->length_bytes &&
           number(body + BODY_BYTES, f->addr_bytes) != undefined(f);
}

/* Returns 1 when a list begins at |at| with a message head of |head| bytes; 0 when not; XH_EXTERNAL_UNTOLD when that
 * cannot be told. |t| holds its first |n| bytes; the rest is in the file. */
static int is_list(struct xh_external *e, struct format *f, uint64_t at, const uint8_t *t, size_t n, size_t head)
{
    uint8_t p[SEEN_BYTES] = {0}, magic[4];
    uint64_t left = e->size - at, heap;
    memcpy(p, t, n < sizeof p ? n : sizeof p);
    if (n < sizeof p && left > n && e->look(e->ctx, at + n, p + n, (left < sizeof p ? (size_t)left : sizeof p) - n))
        return 0; /* HDF5 cannot read it either */
    if (e->part && left < head + BODY_BYTES && may_be_body(p + head, left > head ? (size_t)left - head : 0))
        return untold(e, "it is a part of a file of another driver, and ends within what may be a list of them");
    if (!may_be_body(p + head, sizeof p - head))
        return 0;
    if (!f->addr_bytes && read_format(e, f)) {
        static const struct format least = {.addr_bytes = 2, .length_bytes = 2};
        return f->odd ? untold_widths(e) : e->part && may_be_anywhere(&least, p, head);
    }
    const uint8_t *addr = p + head + BODY_BYTES;
    if (!place(e, f, addr, &heap) || e->size - heap < sizeof magic)
        return !e->sure && may_be_anywhere(f, p, head);
    if (e->sure && (e->look(e->ctx, heap, magic, sizeof magic) || !xh_external_has_heap(magic, sizeof magic)))
        return 0;
    keep_name(e, f, heap, addr + f->addr_bytes);
    return 1;
}

/* Bytes from a message's type to its body: version 1; version 2; version 2 with the order of creation. */
static const uint8_t heads[] = {8, 4, 6};

int xh_external_may_hold(const void *p, size_t len)
{
    const uint8_t *t = p, *end = t + len;
    for (; t < end && (t = memchr(t, EXTERNAL, (size_t)(end - t))); t++)
        for (size_t k = 0; k < sizeof heads; k++) {
            size_t n = (size_t)(end - t), body = n > heads[k] ? n - heads[k] : 0;
            if (may_be_body(body ? t + heads[k] : t, body))
                return 1;
        }
    return 0;
}

/* 1 when driver information may name a part so. HDF5 puts the name of the file, as the program gave it, in place of the
 * %s, by printf. */
static int may_name(enum xh_external_parts which, const char *template)
{
    int beside = strncmp(template, "%s", 2) == 0;
    const char *rest = beside ? template + 2 : template;
    return which != XH_PARTS_NONE && !strchr(rest, '%') &&
           (beside ? !strchr(rest, '/') : which == XH_PARTS_LOCAL && !strstr(rest, "://"));
}

/* The |n| bytes at |p| are the multi driver's data. Returns XH_EXTERNAL_PARTS when it names a part that it may not, or
 * when HDF5 would look for the names behind the bytes; else 0. */
static int judge_names(struct xh_external *e, const uint8_t *p, size_t n)
{
    unsigned seen = 0, count = 0;
    snprintf(e->name, sizeof e->name, "?");
    for (unsigned i = 0; i < USES; i++) {
        unsigned part = n > i && p[i] ? p[i] : i + 1;
        if (part > USES)
            return XH_EXTERNAL_PARTS;
        count += !(seen & 1u << part);
        seen |= 1u << part;
    }
    for (size_t at = 8 + 16 * (size_t)count; count; count--) {
        const uint8_t *end = at < n ? memchr(p + at, 0, n - at < TEMPLATE_MOST ? n - at : TEMPLATE_MOST) : NULL;
        if (!end)
            return XH_EXTERNAL_PARTS;
        const char *template = (const char *)p + at;
        if (!may_name(e->parts, template)) {
            snprintf(e->name, sizeof e->name, "%s", template);
            make_printable(e->name);
            return XH_EXTERNAL_PARTS;
        }
        at += ((size_t)(end - p) - at + 8) & ~(size_t)7;
    }
    e->name[0] = '\0';
    return 0;
}

/* The same for the data at |at| of the file. */
static int judge_data(struct xh_external *e, uint64_t at)
{
    uint8_t p[DATA_MOST];
    size_t n = at >= e->size ? 0 : e->size - at < sizeof p ? (size_t)(e->size - at) : sizeof p;
    if (n && e->look(e->ctx, at, p, n))
        return 0; /* HDF5 cannot read it either */
    return judge_names(e, p, n);
}

/* Returns 1 when the multi driver's name at |at| stands in a message of driver information: behind a message's head and
 * the version 0. */
static int is_driver_message(const struct xh_external *e, uint64_t at)
{
    uint8_t p[9];
    if (at < sizeof p || e->look(e->ctx, at - sizeof p, p, sizeof p) || p[8])
        return 0;
    return (p[0] == DRIVER_INFO && p[1] == 0) || p[4] == DRIVER_INFO || p[2] == DRIVER_INFO;
}

/* Looks for messages of driver information whose driver's name begins in the |len| bytes at |p|. Returns
 * XH_EXTERNAL_PARTS or 0. */
static int find_parts(struct xh_external *e, uint64_t at, const uint8_t *p, size_t len)
{
    uint8_t edge[MULTI_BYTES];
    const uint8_t *end = p + len;
    for (const uint8_t *t = p; t < end && (t = memchr(t, *MULTI, (size_t)(end - t))); t++) {
        uint64_t from = at + (uint64_t)(t - p);
        size_t n = (size_t)(end - t) < MULTI_BYTES ? (size_t)(end - t) : MULTI_BYTES;
        if (from >= e->size || e->size - from < MULTI_BYTES || memcmp(t, MULTI, n) != 0)
            continue;
        if (n < MULTI_BYTES && (e->look(e->ctx, from, edge, MULTI_BYTES) || memcmp(edge, MULTI, MULTI_BYTES) != 0))
            continue;
        if (is_driver_message(e, from) && judge_data(e, from + MULTI_BYTES + 2))
            return XH_EXTERNAL_PARTS;
    }
    return 0;
}

int xh_external_is_block(const void *p, size_t len)
{
    const uint8_t *head = p;
    return len >= BLOCK_BYTES && head[0] == 0 && memcmp(head + 8, MULTI, MULTI_BYTES) == 0;
}

int xh_external_in_block(struct xh_external *e, uint64_t at, const void *p, size_t len)
{
    e->name[0] = '\0';
    e->why = NULL;
    return e->parts != XH_PARTS_ANY && xh_external_is_block(p, len) ? judge_data(e, at + BLOCK_BYTES) : 0;
}

int xh_external_in_names(struct xh_external *e, const void *p, size_t len)
{
    e->why = NULL;
    return e->parts != XH_PARTS_ANY ? judge_names(e, p, len) : 0;
}

/* Looks for a list, or driver information, that begins in the |len| bytes at |p|. Returns 1, 0, XH_EXTERNAL_PARTS or
 * XH_EXTERNAL_UNTOLD. */
static int find(struct xh_external *e, struct format *f, uint64_t at, const uint8_t *p, size_t len)
{
    const uint8_t *end = p + len;
    if (at >= e->size)
        return 0;
    if (len > e->size - at) /* HDF5 reads zeroes behind the end of the file */
        end = p + (size_t)(e->size - at);
    if (e->parts != XH_PARTS_ANY && find_parts(e, at, p, (size_t)(end - p)))
        return XH_EXTERNAL_PARTS;
    if (e->no_lists)
        return 0;
    for (const uint8_t *t = p; t < end && (t = memchr(t, EXTERNAL, (size_t)(end - t))); t++)
        for (size_t k = 0; k < sizeof heads; k++) {
            size_t n = (size_t)(end - t), head = heads[k], body = n > head ? n - head : 0;
            if (head == 8 && n > 1 && t[1])
                continue;
            int rc = may_be_body(body ? t + head : t, body) ? is_list(e, f, at + (uint64_t)(t - p), t, n, head) : 0;
            if (rc)
                return rc;
        }
    return 0;
}

int xh_external_anywhere(struct xh_external *e, uint64_t at, const void *p, size_t len)
{
    struct format f = {0};
    e->name[0] = '\0';
    e->why = NULL;
    return find(e, &f, at, p, len);
}

/* ---- object headers */

struct piece { /* a part of a header that holds messages */
    uint64_t at, len; /* in the file */
    uint64_t all;     /* as the header says; larger than |len| when the file ends before */
};

struct header {
    struct xh_external *e;
    struct format f;
    size_t head; /* bytes before a message's body */
    uint64_t bytes; /* of all parts so far */
    struct piece *pieces; /* malloc'd */
    size_t n, room;
};

/* Returns 0 or XH_EXTERNAL_UNTOLD. */
static int add_piece(struct header *h, uint64_t at, uint64_t len)
{
    if (at >= h->e->size)
        return 0; /* HDF5 fails there */
    uint64_t all = len;
    len = len < h->e->size - at ? len : h->e->size - at;
    if (h->n == PIECES_MOST || len > HEADER_MOST - h->bytes)
        return untold(h->e, "one of its object headers has too many parts, or parts that are too long");
    if (xh_grow(h->pieces, h->room, h->n + 1))
        return untold(h->e, "there is no memory for a look at its object headers");
    h->pieces[h->n++] = (struct piece){at, len, all};
    h->bytes += len;
    return 0;
}

/* Adds the continuations that the |len| bytes of messages at |p| name. Returns 0 or XH_EXTERNAL_UNTOLD. */
static int follow(struct header *h, const uint8_t *p, size_t len)
{
    unsigned wide = h->head == 8 ? 2 : 1; /* bytes of a message's type */
    while (len >= h->head) {
        uint64_t type = number(p, wide), size = number(p + wide, 2), at, bytes;
        if (size > len - h->head)
            return 0; /* HDF5 fails there */
        const uint8_t *body = p + h->head;
        if (type == CONTINUATION && !h->f.addr_bytes && read_format(h->e, &h->f) && h->f.odd)
            return untold_widths(h->e);
        if (type == CONTINUATION && h->f.addr_bytes && size >= h->f.addr_bytes + h->f.length_bytes &&
            place(h->e, &h->f, body, &at)) {
            bytes = number(body + h->f.addr_bytes, h->f.length_bytes);
            uint64_t magic = h->head == 8 ? 0 : 4; /* "OCHK" before, a checksum behind */
            if (bytes > 2 * magic && add_piece(h, at + magic, bytes - 2 * magic))
                return XH_EXTERNAL_UNTOLD;
        }
        p += h->head + size;
        len -= h->head + (size_t)size;
    }
    return 0;
}

/* Returns 1 when HDF5 may accept the |len| bytes at |p| as the first of |all| bytes of messages of version 1. HDF5
 * refuses the header when a message is not aligned, or is longer than the rest.
 *
 * A later part of a header that begins with a dataspace (type 1) looks like a header of version 1. The dataspace's
 * first bytes then look like the length of the messages: about 64 KiB, or 16 MiB. Usually these bytes are not a valid
 * sequence of messages. */
static int is_row(const uint8_t *p, size_t len, uint64_t all)
{
    while (all >= OLD_MESSAGE && len >= OLD_MESSAGE) {
        uint64_t size = number(p + 2, 2);
        if (size % 8 || size > all - OLD_MESSAGE)
            return 0;
        if (size > len - OLD_MESSAGE)
            break;
        all -= OLD_MESSAGE + size;
        len -= OLD_MESSAGE + (size_t)size;
        p += OLD_MESSAGE + size;
    }
    return 1;
}

/* Reads one part of the header and checks it. |p| holds its first |have| bytes. Returns 1, 0 or XH_EXTERNAL_UNTOLD. */
static int look_at(struct header *h, const struct piece *piece, const uint8_t *p, size_t have)
{
    size_t len = (size_t)piece->len;
    uint8_t *all = NULL;
    if (have < len) {
        if (!(all = malloc(len)))
            return untold(h->e, "there is no memory for a look at its object headers");
        memcpy(all, p, have);
        if (h->e->look(h->e->ctx, piece->at + have, all + have, len - have)) {
            free(all);
            return 0; /* HDF5 cannot read it either */
        }
        p = all;
    }
    int rc = 0;
    if (h->head != OLD_MESSAGE || is_row(p, len, piece->all))
        rc = find(h->e, &h->f, piece->at, p, len);
    if (rc == 0)
        rc = follow(h, p, len);
    free(all);
    return rc;
}

/* Reads the head of the object header at |p|. Returns the head's length and sets |*messages| to the length of the
 * messages that follow; returns 0 when it is no object header. */
static size_t read_head(struct header *h, const uint8_t *p, size_t len, uint64_t *messages)
{
    if (len >= OLD_HEAD && p[0] == 1) {
        h->head = OLD_MESSAGE;
        *messages = number(p + 8, 4);
        return is_row(p + OLD_HEAD, len - OLD_HEAD, *messages) ? OLD_HEAD : 0;
    }
    if (len < 6 || memcmp(p, "OHDR", 4) != 0)
        return 0;
    size_t head = 6 + (p[5] & 0x20 ? 16u : 0) + (p[5] & 0x10 ? 4u : 0), wide = 1u << (p[5] & 3);
    if (len < head + wide)
        return 0;
    h->head = p[5] & 4 ? 6 : 4;
    *messages = number(p + head, (unsigned)wide);
    return head + wide;
}

int xh_external_in_header(struct xh_external *e, uint64_t at, const void *bytes, size_t len)
{
    struct header h = {.e = e};
    const uint8_t *p = bytes;
    uint64_t messages = 0;
    size_t head = read_head(&h, p, len, &messages);
    e->name[0] = '\0';
    e->why = NULL;
    if (len > e->size || at > e->size - len)
        return 0;
    if (head == 0 || (head == OLD_HEAD && is_row(p, len, len))) {
        int found = find(e, &h.f, at, p, len);
        if (found || head == 0)
            return found;
    }
    int rc = add_piece(&h, at + head, messages);
    for (size_t i = 0; rc == 0 && i < h.n; i++) {
        struct piece piece = h.pieces[i]; /* a copy: h.pieces may move */
        size_t have = i || len == head ? 0 : len - head;
        rc = look_at(&h, &piece, p + head, have < piece.len ? have : (size_t)piece.len);
    }
    free(h.pieces);
    return rc;
}

static int has_driver_info(const struct xh_external *e, const struct format *f, unsigned version, const uint8_t *p)
{
    uint8_t head[512];
    uint64_t at;
    const uint8_t *addr = p + (version < 2 ? 3u : 1u) * (size_t)f->addr_bytes; /* of the block, or of the extension */
    if (number(addr, f->addr_bytes) == undefined(f))
        return 0;
    if (version < 2 || !place(e, f, addr, &at))
        return 1;
    struct xh_external any = {.size = e->size, .look = e->look, .ctx = e->ctx, .no_lists = 1, .parts = XH_PARTS_NONE};
    size_t n = e->size - at < sizeof head ? (size_t)(e->size - at) : sizeof head;
    return any.look(any.ctx, at, head, n) || xh_external_in_header(&any, at, head, n);
}

int xh_external_is_image(struct xh_external *e, uint64_t at, const void *p, size_t len)
{
    static const char magic[] = "MDCI";
    uint8_t edge[6] = {0}; /* the last three bytes, and three bytes that follow */
    size_t n = len < 3 ? len : 3;
    if (memmem(p, len, magic, 4))
        return 1;
    memcpy(edge, (const uint8_t *)p + len - n, n);
    uint64_t left = at < e->size && len < e->size - at ? e->size - at - len : 0;
    if (!memchr(edge, 'M', n) || !left || e->look(e->ctx, at + len, edge + n, left < 3 ? (size_t)left : 3))
        return 0;
    return memmem(edge, sizeof edge, magic, 4) != NULL;
}

int xh_external_has_heap(const void *p, size_t len)
{
    return memmem(p, len, "HEAP", 4) != NULL;
}
