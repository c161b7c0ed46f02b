/* The budget of the shadows: how many bytes they may take, and how many they take. */
#ifndef XH_SHADOW_BUDGET_H
#define XH_SHADOW_BUDGET_H

#include "impl.h"

/* Returns the budget of the directory: the option's, or else a quarter of the memory that this process may use, and at
 * most half of the file system's free space; on a disk a quarter of that space. What is taken counts as free. Sets
 * |*used_bytes| to what is taken of it. */
uint64_t xh_budget_of(int dirfd, const struct xh_options *o, uint64_t *used_bytes);
/* Returns 1 when |budget| is so small that private memory serves better; one that the user chose never is. */
int xh_budget_is_useless(const struct xh_options *o, uint64_t budget);
/* Returns the bytes that all shadows, and what is known of URLs, take in the directory and those of the other layouts,
 * except the file with inode |skip| (0: none). */
uint64_t xh_budget_used(int dirfd, ino_t skip, int on_disk);
/* Measures the bytes that are taken, and returns them. This process's claims in flight are included. Looks through
 * the whole directory if |scan| is set or a scan is due. */
uint64_t xh_budget_measure(struct xh_shadow *s, int scan);

/* Called when a private shadow is closed: its bytes are free. */
void xh_budget_leave(struct xh_shadow *s);

#endif
