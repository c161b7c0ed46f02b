/* What a server lists of a directory: WebDAV's reply to PROPFIND, nginx's autoindex as JSON, S3's ListObjectsV2, or a
 * page of links. */
#ifndef XH_LISTING_H
#define XH_LISTING_H

#include <stddef.h>
#include <stdint.h>

#define XH_ENTRY_NAME_BYTES 255u /* longest name, in bytes */
#define XH_LISTING_TOKEN_BYTES 4096 /* longest token by which a listing goes on, with its NUL */

/* What a directory holds. */
struct xh_entries {
    struct xh_entry {
        char *name;
        int directory;
        int told;            /* 1: what follows is known; of files alone */
        uint64_t size;
        long long changed_s; /* seconds since 1970; -1: the server does not say */
    } *of;
    size_t n, room;
};

/* Adds |e| with a copy of its name. Returns 0, or -1 without memory. */
int xh_entries_add(struct xh_entries *to, const struct xh_entry *e);
void xh_entries_free(struct xh_entries *e); /* what it holds, not itself */

/* Copies |n| bytes of a URL's path, percent-decoded, as a directory's entry. Returns 0, or -1: it is no name that a
 * directory may show: empty, "." or "..", too long, or with a slash, a control character or what is no UTF-8. */
int xh_listing_name(const char *text, size_t n, char out[XH_ENTRY_NAME_BYTES + 1]);

/* The URL of |name|, an entry of the directory at |base|, with |end| behind it. In s3:// it is written as it is; one
 * with ? or # has none there. NULL: so it is, or there is no memory. Owns: the caller frees it. Pure. */
char *xh_listing_url(const char *base, const char *name, const char *end);

/* Each takes the names in the |len| bytes of a reply. All input is hostile: what is no name is left out. Returns 0, or
 * -1: it is no listing, or there was no memory. Pure. */

/* A 207's XML. |path| is the directory's own, which is left out. Source: RFC 4918, 9.1. */
int xh_listing_propfind(const char *xml, size_t len, const char *path, struct xh_entries *out);
int xh_listing_json(const char *json, size_t len, struct xh_entries *out);
int xh_listing_page(const char *html, size_t len, struct xh_entries *out);

/* One part of what is below |prefix|, asked for with the delimiter "/". |token| gets what the next one is asked for
 * with; "": this is the last one. Source: Amazon S3's API reference, ListObjectsV2. */
int xh_listing_s3(const char *xml, size_t len, const char *prefix, struct xh_entries *out,
                  char token[XH_LISTING_TOKEN_BYTES]);

#endif
