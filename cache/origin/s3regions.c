/* Where buckets lie: see s3regions.h. The engine's lock guards |known|. */
#include "s3regions.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "s3.h"
#include "url.h"

#define NAME_BYTES (XH_SERVER_BYTES + XH_S3_BUCKET_BYTES)

static struct {
    char bucket[NAME_BYTES]; /* "": none */
    char region[XH_S3_REGION_BYTES];
} known[XH_REMEMBERED];
static unsigned next; /* the oldest one, which goes first */

/* The server, with the bucket where others have the same one. */
static void name_of(const struct xh_url *u, char out[NAME_BYTES])
{
    struct xh_s3_place p;
    int shared = xh_s3_place(u, &p) && p.by_path;
    snprintf(out, NAME_BYTES, "%s%s%s", u->server, shared ? "/" : "", shared ? p.bucket : "");
}

static unsigned find(const char *name)
{
    unsigned i = 0;
    while (i < XH_REMEMBERED && strcmp(known[i].bucket, name) != 0)
        i++;
    return i;
}

void xh_s3_regions_note(const struct xh_url *named, const struct xh_url *to)
{
    char name[NAME_BYTES];
    name_of(named, name);
    unsigned i = find(name);
    if (i == XH_REMEMBERED) {
        i = next;
        next = (next + 1) % XH_REMEMBERED;
    }
    snprintf(known[i].bucket, sizeof known[i].bucket, "%s", name);
    snprintf(known[i].region, sizeof known[i].region, "%s", to->region);
}

struct xh_url *xh_s3_regions_find(const struct xh_url *named)
{
    char name[NAME_BYTES];
    struct xh_url *to = NULL;
    if (!named->region || named->ticket) /* a signature is of its host */
        return NULL;
    name_of(named, name);
    unsigned i = find(name);
    if (i == XH_REMEMBERED || strcmp(known[i].region, named->region) == 0 ||
        xh_s3_in_region(named, known[i].region, &to, NULL) != 0)
        return NULL;
    return to;
}
