/* xhdf5 ls: what is in a file at a URL. */
#include <getopt.h>
#include <stdio.h>

#include "json.h"
#include "look.h"
#include "tool.h"

static const char help[] =
    "xhdf5 ls URL [PATH] [--json]\n"
    "\n"
    "Lists what is in the file at URL, or at and below PATH in it: groups, datasets with shape, type, layout,\n"
    "chunks and filters, named types, and where soft and external links lead. Reads metadata alone. A filter\n"
    "marked with ! cannot be undone by the HDF5 that this program uses.\n"
    "\n"
    "  --json   one array; a dimension without bound, or nothing to tell, is null\n"
    "\n"
    "Exit codes: 0 listed; 2 wrong usage; 3 it could not be read, or there is no PATH.\n";

struct listing {
    int json;
    unsigned long n;
};

static const char *const kinds[] = {"group", "dataset", "type", "link", "link", "unread"};

static void print_dataset(const struct xh_object *o)
{
    char shape[700], chunk[700];
    char type[sizeof o->type], filters[sizeof o->filters];
    printf("  %s %s, %s", xh_look_shape(o->dims, o->rank, shape, sizeof shape),
           xh_tool_name(o->type, type, sizeof type), xh_layout_name(o->layout));
    if (o->layout == XH_LAYOUT_CHUNKED)
        printf(" %s", xh_look_shape(o->chunk, o->rank, chunk, sizeof chunk));
    if (o->filters[0])
        printf(", %s", xh_tool_name(o->filters, filters, sizeof filters));
}

static void print_line(const struct xh_object *o)
{
    char text[4096];
    printf("%-8s %s", kinds[o->kind], xh_tool_name(o->path, text, sizeof text));
    if (o->kind == XH_OBJ_DATASET)
        print_dataset(o);
    else if (o->kind == XH_OBJ_UNREAD)
        printf("  (%s)", xh_tool_name(o->type, text, sizeof text));
    else if (o->target)
        printf(" -> %s", xh_tool_name(o->target, text, sizeof text));
    putchar('\n');
}

static void print_json(const struct xh_object *o, unsigned long n)
{
    json_t *all = json_pack("{s:o, s:s}", "path", xh_json_text(o->path), "kind", kinds[o->kind]);
    if (o->target)
        json_object_set_new(all, "target", xh_json_text(o->target));
    if (o->kind == XH_OBJ_DATASET)
        json_object_update_new(
            all, json_pack("{s:o, s:o, s:o, s:s, s:o, s:o}", "shape", xh_json_counts(o->dims, o->rank), "max_shape",
                           xh_json_counts(o->most, o->rank), "type", xh_json_text(o->type), "layout",
                           xh_layout_name(o->layout), "chunk",
                           o->layout == XH_LAYOUT_CHUNKED ? xh_json_counts(o->chunk, o->rank) : json_null(), "filters",
                           xh_json_text(o->filters[0] ? o->filters : NULL)));
    xh_json_print(n ? ",\n " : "\n ", all);
}

static int list_one(void *ctx, const struct xh_object *o)
{
    struct listing *l = ctx;
    if (l->json)
        print_json(o, l->n);
    else
        print_line(o);
    l->n++;
    return ferror(stdout); /* the reader of the output has gone */
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    struct listing l = {0};
    const struct xh_tool_option options[] = {{"json", .flag = &l.json}};
    struct xh_look look = {.links = 1, .each = list_one, .ctx = &l};
    struct xh_err err = {0};
    XH_TOOL_OPTIONS(argc, argv, options);
    const char *url = xh_tool_url(argc, argv, 2);
    look.path = argv[optind + 1];
    if (l.json)
        putchar('[');
    int rc = xh_look(&look, url, o, &err);
    if (l.json)
        puts(l.n ? "\n]" : "]");
    xh_look_free(&look);
    return rc ? xh_tool_fail(XH_EXIT_FAILED, "%s", err.text) : XH_EXIT_OK;
}

const struct xh_verb xh_tool_list = {"ls", help, run};
