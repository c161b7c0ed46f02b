/* How much the shadows may take, and how much they take. */
#ifndef XH_SHADOW_BUDGET_H
#define XH_SHADOW_BUDGET_H

#include "impl.h"

/* What memory is left for this process: of the machine, and of its control groups. */
uint64_t xh_budget_memory(void);
/* The budget when none was given: a quarter of what memory this process may use, at most half
 * of the file system's free space; |used_bytes| of the directory count as free. */
uint64_t xh_budget_auto(int dirfd, uint64_t used_bytes);
/* Bytes that all files of the directory take, but for the one with inode |skip| (0: none). */
uint64_t xh_budget_used(int dirfd, ino_t skip);
/* Measures what is taken, this process's claims in flight included; looks through the whole
 * directory when |scan| or when its time has come. Returns it. */
uint64_t xh_budget_measure(struct xh_shadow *s, int scan);

/* A private shadow is closed: what it took is free. */
void xh_budget_leave(struct xh_shadow *s);

#endif
