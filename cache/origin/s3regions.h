/* Where buckets lie, as their servers have told: so that a redirect is followed once in a process, not once a file. */
#ifndef XH_S3REGIONS_H
#define XH_S3REGIONS_H

struct xh_url;

/* |to|, of the same object as |named|, answered: the bucket of |named| lies in its region. Engine's lock held. */
void xh_s3_regions_note(const struct xh_url *named, const struct xh_url *to);

/* Where requests for |named| are best sent, or NULL: as it is. Engine's lock held. Owns: the caller unrefs it. */
struct xh_url *xh_s3_regions_find(const struct xh_url *named);

#endif
