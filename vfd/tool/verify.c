/* xhdf5 cache verify: compares what the shadow holds with what the origin has.
 *
 * The origin is read with the shadow off, so that nothing comes from what is checked. A page counts as checked when it
 * was in the shadow both before and after its bytes were copied. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/shadow/image.h"
#include "tool.h"

#define SHOWN_MOST 20u    /* most pages that are named */

static const char help[] =
    "xhdf5 cache verify URL\n"
    "\n"
    "Compares every page that the shadow of URL holds with the server's bytes now. Only these pages are\n"
    "fetched, past the shadow, and nothing is changed. A shadow of another version than the server's\n"
    "is not compared: no reader will use it.\n"
    "\n"
    "Exit codes: 0 all pages are the server's; 1 some differ (they are named); 2 wrong usage; 3 there is no\n"
    "shadow of this version, or the server cannot be read.\n";

struct check {
    struct xh_file *f;
    struct xh_image *m;
    uint64_t size, checked, differ, bytes, gone; /* of all images */
    uint8_t *ours, *theirs, *good; /* of |pages| pages */
    struct xh_extent *ext;
    uint64_t *first; /* first page of each extent */
    size_t n, pages;
    struct xh_progress progress;
};

static void compare(struct check *c, size_t k)
{
    size_t at = (size_t)((uint8_t *)c->ext[k].buf - c->theirs);
    for (uint64_t off = 0; off < c->ext[k].len; off += XH_PAGE_BYTES) {
        uint64_t page = c->first[k] + off / XH_PAGE_BYTES, begin = page * XH_PAGE_BYTES;
        uint64_t len = c->size - begin < XH_PAGE_BYTES ? c->size - begin : XH_PAGE_BYTES;
        if (!c->good[at / XH_PAGE_BYTES + off / XH_PAGE_BYTES]) {
            c->gone++;
            continue;
        }
        c->checked++;
        c->bytes += len;
        if (memcmp(c->ours + at + off, c->theirs + at + off, len) == 0)
            continue;
        if (c->differ++ < SHOWN_MOST)
            printf("page %" PRIu64 " (bytes %" PRIu64 " to %" PRIu64 ") differs\n", page, begin, begin + len - 1);
    }
}

static int compare_batch(struct check *c, struct xh_err *err)
{
    int rc = c->n ? xh_cache_read(c->f, XH_KIND_RAW, c->ext, c->n, err) : 0;
    for (size_t k = 0; rc == 0 && k < c->n; k++)
        compare(c, k);
    c->n = c->pages = 0;
    xh_progress_at(&c->progress, c->bytes);
    return rc;
}

/* Returns 1 when there is memory for the comparing. */
static int has_room(struct check *c)
{
    c->ours = malloc(XH_BATCH_PAGES * XH_PAGE_BYTES);
    c->theirs = malloc(XH_BATCH_PAGES * XH_PAGE_BYTES);
    c->good = malloc(XH_BATCH_PAGES);
    c->ext = calloc(XH_BATCH_PAGES, sizeof *c->ext);
    c->first = malloc(XH_BATCH_PAGES * sizeof *c->first);
    return c->ours && c->theirs && c->good && c->ext && c->first;
}

/* Compares the image c->m. */
static int compare_all(struct check *c, struct xh_err *err)
{
    struct xh_image_run r;
    int rc = 0;
    while (rc == 0 && xh_image_next(c->m, &r)) {
        if (c->pages + r.count > XH_BATCH_PAGES)
            rc = compare_batch(c, err);
        uint64_t off = r.first * XH_PAGE_BYTES, len = r.count * XH_PAGE_BYTES;
        xh_image_read(c->m, &r, c->ours + c->pages * XH_PAGE_BYTES, c->good + c->pages);
        c->ext[c->n] = (struct xh_extent){.off = off, .len = len < c->size - off ? len : c->size - off,
                                          .buf = c->theirs + c->pages * XH_PAGE_BYTES};
        c->first[c->n++] = r.first;
        c->pages += r.count;
    }
    return rc ? rc : compare_batch(c, err);
}

/* Bytes and versions that the shadows have of a URL, for the progress and for a useful error. */
struct known {
    const char *url, *validator;
    uint64_t bytes;
    unsigned others;
};

static int note_known(void *ctx, const struct xh_image_info *i)
{
    struct known *k = ctx;
    if (!xh_image_is_of(i, k->url))
        return 0;
    size_t n = strnlen(k->validator, sizeof i->validator - 1);
    const char *rest = i->validator + n;
    if (strncmp(i->validator, k->validator, n) == 0 && (*rest == '\0' || strcmp(rest, XH_KEPT_UNSETTLED) == 0))
        k->bytes += i->meta_bytes + i->raw_bytes;
    else
        k->others++;
    return 0;
}

/* Of the shadow's directory, then of the disk cache's: what came while the file was young, and what came later. */
#define IMAGES 4

/* Opens the |which|-th image of the version: of what came while the file was young, and of what came later. */
static struct xh_image *open_image(const struct xh_options *o, const struct known *k, int which, uint64_t size)
{
    char *kept_as = NULL;
    if (asprintf(&kept_as, "%s%s", k->validator, which ? XH_KEPT_UNSETTLED : "") < 0)
        return NULL;
    struct xh_image *m = xh_image_open(o, k->url, kept_as, size);
    free(kept_as);
    return m;
}

static int verify(const char *url, const char *shown, const struct xh_options *o)
{
    struct xh_options bare = *o;
    struct xh_err err = {0};
    struct check c = {0};
    struct xh_image *image[IMAGES] = {0};
    struct xh_options on_disk;
    int disk = xh_shadow_on_disk(o, &on_disk);
    int code = XH_EXIT_FAILED;
    if (o->offline)
        return xh_tool_fail(code, "what is kept is compared with the server's bytes: offline=on forbids that");
    bare.shadow = bare.readahead = 0;
    bare.disk_cache_dir[0] = '\0';
    bare.stream_bytes = 0; /* nothing is read twice */
    if (xh_cache_open(url, &bare, &c.f, &err))
        return xh_tool_fail(code, "%s", err.text);
    char *object = xh_cache_object(url, o);
    struct known k = {.url = object ? object : url, .validator = xh_cache_validator(c.f)};
    c.size = xh_cache_size(c.f);
    unsigned there = 0;
    for (int i = 0; i < (disk ? IMAGES : IMAGES / 2); i++)
        there += (image[i] = open_image(i < IMAGES / 2 ? o : &on_disk, &k, i % 2, c.size)) != NULL;
    int rc = xh_image_each(o, note_known, &k, &err);
    rc = rc == 0 && disk ? xh_image_each(&on_disk, note_known, &k, &err) : rc;
    if (rc == 0 && !there) {
        xh_tool_fail(code, k.others ? "the shadow of %s is of another version than the server has now: no reader "
                                      "will use it. Remove it with xhdf5 cache rm"
                                    : "there is no shadow of %s; xhdf5 cache ls lists those that there are",
                     shown);
        goto out;
    }
    if (rc == 0 && !has_room(&c))
        rc = xh_err_set(&err, XH_E_NOMEM, 0, "out of memory");
    xh_progress_begin(&c.progress, "verify", k.bytes ? k.bytes : 1, NULL);
    for (int i = 0; rc == 0 && i < IMAGES; i++)
        rc = (c.m = image[i]) ? compare_all(&c, &err) : 0;
    xh_progress_end(&c.progress, c.bytes);
    if (rc) {
        xh_tool_fail(code, "%s", err.text);
        goto out;
    }
    if (c.differ > SHOWN_MOST)
        printf("and %" PRIu64 " more\n", c.differ - SHOWN_MOST);
    printf("%s: %" PRIu64 " pages (%s) checked, %" PRIu64 " differ", shown, c.checked, xh_size(c.bytes),
           c.differ);
    if (c.gone)
        printf(", %" PRIu64 " left the shadow meanwhile", c.gone);
    putchar('\n');
    if (c.differ)
        xh_tool_fail(
            0, "pages that were damaged here are fetched anew by their next reader; if the file was changed at the "
               "server under the same version, readers get the old ones until xhdf5 cache rm");
    code = c.differ ? XH_EXIT_NO : XH_EXIT_OK;
out:
    free(c.ours);
    free(c.theirs);
    free(c.good);
    free(c.ext);
    free(c.first);
    for (int i = 0; i < IMAGES; i++)
        xh_image_close(image[i]);
    xh_cache_close(c.f);
    free(object);
    return code;
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    xh_tool_options(argc, argv, NULL, 0);
    const char *url = xh_tool_url(argc, argv, 1);
    return verify(url, xh_shown(url, 1024), o);
}

const struct xh_verb xh_tool_verify = {"verify", help, run};
