/* Directory and file of a shadow: found, made, checked, locked. See store.c for the invariants. */
#ifndef XH_SHADOW_STORE_H
#define XH_SHADOW_STORE_H

#include <fcntl.h>

#include "impl.h"

#define XH_PLACES_MOST 16u
#define XH_PLACE_BYTES 20

/* Tests set it before the first open, to behave as on a kernel with larger pages; 0: the kernel's. */
extern uint64_t xh_shadow_test_unit;

/* Opens the directory |path|, as xh_store_dir_path gave it; |create| makes it. Returns a descriptor, which says as
 * long as it is
 * open that the directory is used, or -1 when there is none that may be trusted (traced; one that the user named is
 * told
 * of on standard error, once a process). */
int xh_store_dir(const struct xh_options *o, const char *path, int create);
/* The directory of this layout's shadows, in the one that the options name. */
void xh_store_dir_path(const struct xh_options *o, char path[XH_DIR_BYTES]);

/* Where shadows of all layouts are, seen from the directory of this one's: "" itself, "../" where layouts before 6
 * had theirs,
 * "../v<layout>/" the others. Returns how many. What all layouts have in common is the names of files, and what
 * XH_LOCK_OPEN
 * says: so a file of another one can be counted, and removed when nobody has it open, and is not looked into. */
size_t xh_store_places(int dirfd, char place[XH_PLACES_MOST][XH_PLACE_BYTES]);
/* Opens one of them. Owns: the caller closes it. -1: it is gone. */
int xh_store_place(int dirfd, const char *place);
/* Removes the directories of other layouts that have no shadow and that nobody uses. */
void xh_store_tidy(int dirfd);

/* Fills s->head, s->name, s->url_hex. Returns 0, or -1 when the sizes cannot be represented. */
int xh_store_describe(struct xh_shadow *s, const char *url, const char *validator, uint64_t size);

/* Fills s->head from the file s->name in s->dirfd; 0 when it is sound in itself, else -1. */
int xh_store_describe_existing(struct xh_shadow *s);

/* 1 when |h| is the head of a shadow of that file name, of this layout and boot. */
int xh_store_sound(const struct xh_layout_head *h, const char *name);

/* Opens or creates (a visitor: only opens) the file s->name in s->dirfd and sets s->fd; holds XH_LOCK_OPEN shared.
 * Returns 0, or -1 when no sound one can be had. */
int xh_store_attach(struct xh_shadow *s);

/* Makes a memfd with the same content. Returns 0 or -1. */
int xh_store_private(struct xh_shadow *s);

/* A second open file description of |fd|'s file with XH_LOCK_OPEN held, for fork's child.
 * Async-signal-safe. Returns a descriptor or -1. */
int xh_store_reopen(const struct xh_shadow *s);

/* fcntl of one lock. |type| F_RDLCK, F_WRLCK, F_UNLCK. 0: got it; 1: someone else has it; -1: error. */
int xh_store_lock(int fd, short type, uint64_t at);
/* 1: someone else holds a lock there; 0: nobody; -1: cannot be told. */
int xh_store_locked(int fd, uint64_t at);

/* Removes |name| when nobody has it open. Returns 1 when it is gone. */
int xh_store_drop(int dirfd, const char *name);

int xh_store_sha256(const void *data, size_t len, uint8_t sha[32]); /* 0 or -1 */

/* A name that no other process has: "t-<random>". */
void xh_store_temp_name(char name[XH_NAME_BYTES]);
/* "s-" and 64 hex digits. */
int xh_store_is_shadow_name(const char *name);
/* The names of files that are being built, of hints and of lacks: "t-" and 32, "u-" and 64, "n-" and 64 hex digits.
 * Nothing else is removed: the directory may be one that the user named, and holds other things in. */
int xh_store_is_temp_name(const char *name);
int xh_store_is_hint_name(const char *name);
int xh_store_is_lack_name(const char *name);
void xh_store_hex(const uint8_t sha[32], char hex[65]);
/* Hex SHA-256 of |url|. Returns 0 or -1. */
int xh_store_url_hex(const char *url, char hex[65]);

#endif
