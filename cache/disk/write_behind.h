/* Writing behind: what xh_disk_keep, xh_disk_flush and xh_disk_close do. */
#ifndef XH_WRITE_BEHIND_H
#define XH_WRITE_BEHIND_H

/* Called once a process or more, after a shadow was opened, before anything is kept. */
void xh_write_behind_start(void);

#endif
