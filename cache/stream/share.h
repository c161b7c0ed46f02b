/* What the stage has goes to the shadow. */
#ifndef XH_SHARE_H
#define XH_SHARE_H

struct xh_file;

/* Others read the file too: copies what the stage has to the shadow, so that they need not fetch it once more. Blocks
 * as long as the copying takes. Threads: any. */
void xh_stage_share(struct xh_file *f);

#endif
