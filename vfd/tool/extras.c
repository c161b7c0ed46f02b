/* The doctor's check of the sidecars, and of whether the file can be changed. Reading needs neither. */
#include "exam.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../cache/source/metaimage.h"
#include "../../cache/source/packed.h"
#include "tool.h"

#define HEAD_BYTES (XH_PACKED_SKIPPABLE + XH_PACKED_HEADER) /* enough for both kinds of sidecar */

/* Sends |q| for the file's name with |suffix|, and follows redirects. |to|: another suffix, the target of a MOVE; or
 * NULL.
 * Returns 0, or -1 when there is no such name. */
static int ask_beside(struct doctor *d, const char *suffix, const char *to, const struct xh_question *q,
                      struct xh_answer *a)
{
    struct xh_url *at = NULL;
    struct xh_question asked = *q;
    char *text = NULL, *destination = NULL;
    if (strpbrk(d->named->text, "?#") || asprintf(&text, "%s%s", d->named->text, suffix) < 0)
        return -1;
    int rc = xh_caller_url(text, d->o, &at, XH_IGNORED);
    free(text);
    if (rc || (to && asprintf(&destination, "%s%s", d->named->text, to) < 0)) {
        xh_url_unref(at);
        return -1;
    }
    asked.destination = destination;
    xh_dial_follow(d->dial, at, &asked, a, XH_IGNORED); /* what leads nowhere is the answer then */
    xh_url_unref(at);
    free(destination);
    return 0;
}

/* ---- sidecars ------------------------------------------------------------------------------- */

/* Reads what a sidecar's header says of its file. Returns NULL, or what is wrong with the header. */
static const char *read_head(int image, const struct xh_body *h, uint64_t *file_bytes, int64_t *mtime_s)
{
    struct xh_metaimage_head m;
    struct xh_packed_head k;
    const char *wrong = image ? xh_metaimage_head(h->at, h->len, &m) : xh_packed_head(h->at, h->len, &k);
    if (!wrong) {
        *file_bytes = image ? m.file_bytes : k.file_bytes;
        *mtime_s = image ? m.mtime_s : k.mtime_s;
    }
    return wrong;
}

static void look_beside(struct doctor *d, int image, const char *what, const char *name)
{
    struct xh_report *r = &d->report;
    struct xh_answer a = {0};
    struct xh_body h = {0};
    char range[32];
    snprintf(range, sizeof range, "bytes=0-%u", HEAD_BYTES - 1);
    const struct xh_question q = {.range = range, .most_bytes = XH_WORDS_MOST_BYTES, .body = xh_body_keep, .ctx = &h};
    uint64_t file_bytes = 0;
    int64_t mtime_s = 0;
    if (ask_beside(d, image ? XH_METAIMAGE_SUFFIX : XH_PACKED_SUFFIX, NULL, &q, &a)) {
        xh_report_say(r, "%s: not looked for, the URL has a query", what);
        return;
    }
    if (a.reply.status != 206) {
        xh_report_say(r, a.reply.status == 404 ? "no %s" : "no %s (status %d)", what, a.reply.status);
        xh_report_text(r, name, "none");
        free(h.at);
        return;
    }
    const char *wrong = read_head(image, &h, &file_bytes, &mtime_s);
    int other = !wrong && (file_bytes != d->size || (d->date_s > 0 && mtime_s != d->date_s));
    xh_report_text(r, name, wrong ? "damaged" : other ? "of another version" : "good");
    xh_report_say(r, "%s of %s%s%s", what, xh_size(a.reply.range.total),
                  wrong   ? ": "
                  : other ? ", of another version of the file"
                          : "",
                  wrong ? wrong : "");
    if (wrong || other)
        xh_report_advise(r, "readers ask for it in vain and warn: its owner runs xhdf5 publish%s anew, or --remove",
                         image ? "" : " --body");
    free(h.at);
}

enum xh_state xh_doctor_beside(struct doctor *d)
{
    struct xh_report *r = &d->report;
    if (strcmp(d->o->sidecar, "off") == 0)
        return xh_report_as(r, XH_STATE_UNTRIED, "the option sidecar is off");
    look_beside(d, 1, "metadata image", "metadata_image");
    look_beside(d, 0, "compressed copy", "compressed_body");
    return XH_STATE_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Tries to move a file that does not exist. That changes nothing, and a server refuses it as it would refuse a writer.
 * The answer to OPTIONS proves nothing: nginx has none, and XRootD's is the same for everyone, as is its 404 to
 * DELETE. */
enum xh_state xh_doctor_writing(struct doctor *d)
{
    static const struct xh_question q = {.method = "MOVE", .most_bytes = XH_WORDS_MOST_BYTES};
    struct xh_report *r = &d->report;
    struct xh_answer a = {0};
    char suffix[64], to[68];
    if (!d->named->https)
        return xh_report_as(r, XH_STATE_NOTE, "files are written over https alone");
    if (d->named->region)
        return xh_report_as(r, XH_STATE_NOTE, "objects of S3 are read, and not written");
    snprintf(suffix, sizeof suffix, ".xhdf5-doctor-%ld-%d", (long)time(NULL), (int)getpid());
    snprintf(to, sizeof to, "%s-2", suffix);
    if (ask_beside(d, suffix, to, &q, &a))
        return xh_report_as(r, XH_STATE_NOTE, "a URL with a query cannot be written to");
    int status = a.reply.status;
    xh_report_count(r, "status", (uint64_t)status);
    xh_report_text(r, "writable", status == 404 || status == 410 ? "yes" : "no");
    if (status == 404 || status == 410) {
        xh_report_say(r, "it seems so: a file beside this one may be renamed (there was none)");
        if (!d->o->writable)
            xh_report_say(r, "the driver writes when the option writable is on");
        return XH_STATE_OK;
    }
    if (status == 401 || status == 403) {
        xh_report_say(r, "status %d: not by you", status);
        xh_report_advise(r, "a token that may write has the scope storage.modify for this path; docs/writing.md has "
                            "what the server needs");
    } else if (status == 405 || status == 501) {
        xh_report_say(r, "status %d: not here", status);
        xh_report_advise(r, "the server takes no writes at this path: docs/writing.md has what its owner sets");
    } else {
        xh_report_say(r, "%s%sstatus %d: most likely not", a.why, a.why[0] ? ", " : "", status);
        xh_report_advise(r, "the server's log says why; docs/writing.md has what it needs");
    }
    return XH_STATE_NOTE;
}
