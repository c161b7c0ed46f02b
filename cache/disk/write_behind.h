/* Writing behind: how bytes come to the disk cache. disk.h says what is promised; these do it, for a |d| that is
 * there. */
#ifndef XH_WRITE_BEHIND_H
#define XH_WRITE_BEHIND_H

#include <stddef.h>
#include <stdint.h>

struct xh_disk;

#define XH_WRITE_BEHIND_BYTES (UINT64_C(64) << 20) /* most memory of the process */
#define XH_WRITE_BEHIND_CLOSE_MS 5000u             /* longest wait of a file that is closed */

/* Called once a process or more, after a shadow was opened, before anything is kept. */
void xh_write_behind_start(void);
/* xh_disk_keep, xh_disk_flush, xh_disk_close. */
void xh_write_behind_keep(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta);
/* Writes the whole pages of [off, off + len), which begins at a page. Blocks on the disk. */
void xh_write_behind_now(struct xh_disk *d, uint64_t off, const uint8_t *data, size_t len, int meta);
void xh_write_behind_flush(struct xh_disk *d);
void xh_write_behind_close(struct xh_disk *d);

#endif
