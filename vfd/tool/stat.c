/* xhdf5 stat: describes a file at a URL in some lines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/base/now.h"
#include "json.h"
#include "look.h"
#include "tool.h"

static const char help[] =
    "xhdf5 stat URL [--json]\n"
    "\n"
    "Tells of the file at URL: its size, its version as the server names it, the version of its superblock, whether\n"
    "its space is paged, how many groups, datasets, named types and attributes it has, how many bytes of metadata,\n"
    "and what it took to read those. Reads all metadata but no data.\n"
    "\n"
    "  --json   one object; sizes in bytes, times in milliseconds\n"
    "\n"
    "Exit codes: 0 told; 1 some objects cannot be read by HDF5; 2 wrong usage; 3 it cannot be read, or is no HDF5\n"
    "file.\n";

struct times {
    double opened_ms, walked_ms;
};

static void print_json(const char *shown, struct xh_file *f, const struct xh_seen *l, const struct times *t)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"superblock", l->superblock}, {"user_block", l->user_block}, {"page_bytes", l->page_bytes},
                  {"groups", l->groups}, {"datasets", l->datasets}, {"types", l->types}, {"attributes", l->attributes},
                  {"unread", l->unread}, {"metadata_bytes", l->metadata_bytes}, {"requests", l->requests},
                  {"fetched_bytes", l->fetched_bytes}, {"connections", l->connections}};
    json_t *all = json_pack("{s:o, s:I, s:o}", "url", xh_json_text(shown), "size", (json_int_t)xh_cache_size(f),
                            "version", xh_json_text(xh_cache_validator(f)));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(all, counts[i].name, json_integer((json_int_t)counts[i].value));
    json_object_set_new(all, "opened_ms", xh_json_number(t->opened_ms));
    json_object_set_new(all, "walked_ms", xh_json_number(t->walked_ms));
    xh_json_print("", all);
    putchar('\n');
}

static void print_lines(const struct xh_seen *l, const struct times *t)
{
    printf("superblock  version %u", l->superblock);
    if (l->user_block)
        printf(", behind a user block of %" PRIu64 " bytes", l->user_block);
    if (l->page_bytes)
        printf("\nspace       in pages of %s: metadata lies together\n", xh_size(l->page_bytes));
    else
        puts("\nspace       not paged");
    printf("objects     %" PRIu64 " group%s, %" PRIu64 " dataset%s, %" PRIu64 " named type%s, %" PRIu64
           " attribute%s\n",
           l->groups, XH_S(l->groups), l->datasets, XH_S(l->datasets), l->types, XH_S(l->types), l->attributes,
           XH_S(l->attributes));
    if (l->unread)
        printf("unread      %" PRIu64 " object%s that HDF5 cannot read\n", l->unread, XH_S(l->unread));
    printf("metadata    %s in headers, indexes and heaps\n", xh_size(l->metadata_bytes));
    printf("reading     opened in %.0f ms; all metadata in %.0f ms with %" PRIu64 " request%s, %s\n", t->opened_ms,
           t->walked_ms, l->requests, XH_S(l->requests), xh_size(l->fetched_bytes));
}

struct seen {
    struct xh_progress progress;
    uint64_t objects;
};

static int on_object(void *ctx, const struct xh_object *o)
{
    struct seen *s = ctx;
    xh_progress_at(&s->progress, ++s->objects);
    return 0;
}

static int stat_url(const char *url, int json, const struct xh_options *o)
{
    char shown[1024];
    struct seen s = {0};
    struct xh_look l = {.each = on_object, .ctx = &s};
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    struct times t = {0};
    uint64_t began = xh_now_ns();
    if (xh_cache_open(url, o, &f, &err))
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    t.opened_ms = (double)(xh_now_ns() - began) / 1e6;
    xh_url_shown(url, shown, sizeof shown);
    if (!json)
        printf("url         %s\nsize        %" PRIu64 " bytes (%s)\nversion     %s\n", shown, xh_cache_size(f),
               xh_size(xh_cache_size(f)), xh_cache_validator(f));
    began = xh_now_ns();
    xh_progress_begin(&s.progress, "metadata", 0, "objects");
    int rc = xh_look(&l, url, o, &err);
    t.walked_ms = (double)(xh_now_ns() - began) / 1e6;
    xh_progress_clear(&s.progress);
    if (rc)
        xh_tool_fail(0, strstr(err.text, shown) ? "%s" : "%s (%s)", err.text, shown);
    else if (json)
        print_json(shown, f, &l.seen, &t);
    else
        print_lines(&l.seen, &t);
    xh_cache_close(f);
    xh_look_free(&l);
    return rc ? XH_EXIT_FAILED : l.seen.unread ? XH_EXIT_NO : XH_EXIT_OK;
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    int json = 0;
    const struct xh_tool_option options[] = {{"json", .flag = &json}};
    XH_TOOL_OPTIONS(argc, argv, options);
    return stat_url(xh_tool_url(argc, argv, 1), json, o);
}

const struct xh_verb xh_tool_stat = {"stat", help, run};
