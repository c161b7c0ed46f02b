/* A shadow's file: finds, creates, checks and locks it. store.c has the invariants. */
#ifndef XH_SHADOW_STORE_H
#define XH_SHADOW_STORE_H

#include <fcntl.h>

#include "impl.h"

/* How often, and after what pause, a file or directory that another process is removing is looked at again. Removing
 * takes microseconds. If the remover is suspended under its lock, the shadow becomes private here: if the file were
 * replaced before the remover continues, it would remove the new one's name. */
#define XH_STORE_TRIES 20u
#define XH_STORE_PAUSE_NS 1000000

/* Tests set it before the first open, to behave as on a kernel with larger pages; 0: the kernel's page size. */
extern uint64_t xh_shadow_test_unit;

/* Fills s->head, s->name and s->url_hex. Returns 0, or -1 when the sizes cannot be represented. */
int xh_store_describe(struct xh_shadow *s, const char *url, const char *validator, uint64_t size, int on_disk);

/* Fills s->head from the file s->name in s->dirfd. Returns 0 when that head is sound, else -1. */
int xh_store_describe_existing(struct xh_shadow *s, int on_disk);

/* Returns 1 when |h| is the head of a shadow with that file name, of this layout and boot; |on_disk|: of any boot. */
int xh_store_sound(const struct xh_layout_head *h, const char *name, int on_disk);

/* Opens or creates the file s->name in s->dirfd, and sets s->fd; a visitor only opens. Holds XH_LOCK_OPEN shared.
 * Returns 0, or -1 when no sound file can be had. */
int xh_store_attach(struct xh_shadow *s);

/* Makes a memfd with the same content, and sets s->fd. Returns 0 or -1. */
int xh_store_private(struct xh_shadow *s);

/* Opens a second file description of the file of |s|, for a forked child. It holds XH_LOCK_OPEN. Async-signal-safe.
 * Returns a descriptor or -1. */
int xh_store_reopen(const struct xh_shadow *s);

/* Sets one lock with fcntl. |type| is F_RDLCK, F_WRLCK or F_UNLCK. Returns 0 when that is done, 1 when another
 * process has the lock, -1 on an error. Does not block. */
int xh_store_lock(int fd, short type, uint64_t at);
/* Returns 1 when another process holds a lock there, 0 when none does, -1 when that is not known. */
int xh_store_locked(int fd, uint64_t at);

/* Removes |name| when no process has it open. Returns 1 when it is gone. */
int xh_store_drop(int dirfd, const char *name);

/* Makes a name that no other process has: "t-<random>". */
void xh_store_temp_name(char name[XH_NAME_BYTES]);
/* Returns 1 for a name of the kind |letter|: 's' of a shadow, 'u' of a hint, 'n' of the negative cache ("s-" and 64 hex
 * digits), 't' of a file that is being built ("t-" and 32). Nothing else is removed: the user may have named the
 * directory, and may keep other files there. */
int xh_store_is_name(const char *name, char letter);
/* Sets |hex| to the hex SHA-256 of |url|. Returns 0 or -1. */
int xh_store_url_hex(const char *url, char hex[65]);

#endif
