/* xhdf5 cache: its commands. ls, rm and trim stand here; they only read the directories of the shadows and of the disk
 * cache. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/base/table.h"
#include "../../cache/cache.h"
#include "../../cache/shadow/image.h"
#include "json.h"
#include "tool.h"

/* ---- ls ------------------------------------------------------------------------------------- */

static const char ls_help[] =
    "xhdf5 cache ls [--json]\n"
    "\n"
    "Lists the shadows of this user, and what the disk cache has, if disk_cache_dir names one: for each the\n"
    "size of the remote file, what is kept of it (metadata\n"
    "and raw data apart, with pages of 4 KiB), the bytes that readers found there (told when they close\n"
    "the file), the processes that have it open now, the file's version as the server named it, and the\n"
    "URL without user name and query. A file that no reader would use is listed with what is wrong with it.\n"
    "\n"
    "  --json   one array; sizes in bytes, the time of the last use in seconds since 1970\n"
    "\n"
    "Exit codes: 0 listed, nothing included; 2 wrong usage; 3 the shadow's directory is not usable.\n";

struct listing {
    int json, on_disk;
    unsigned n, lines; /* in all; since the last heading */
};

static void print_json(const struct xh_image_info *i, unsigned n, int on_disk)
{
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {{"size", i->origin_bytes}, {"pages", i->meta_pages + i->raw_pages},
                  {"bytes", i->meta_bytes + i->raw_bytes}, {"metadata_pages", i->meta_pages},
                  {"metadata_bytes", i->meta_bytes}, {"raw_pages", i->raw_pages}, {"raw_bytes", i->raw_bytes},
                  {"hit_bytes", i->hit_bytes}, {"readers", i->readers}, {"taken_bytes", i->taken_bytes},
                  {"last_use", (uint64_t)i->used}};
    json_t *all = json_pack("{s:s, s:o, s:o, s:o, s:o}", "where", on_disk ? "disk" : "memory", "url",
                            xh_json_text(i->url_shown), "version", xh_json_text(i->validator), "name",
                            xh_json_text(i->name), "flaw", xh_json_text(i->flaw));
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        json_object_set_new(all, counts[k].name, json_integer((json_int_t)counts[k].value));
    xh_json_print(n ? ",\n " : "\n ", all);
}

static void print_line(const struct xh_image_info *i, unsigned n)
{
    char url[sizeof i->url_shown], version[sizeof i->validator];
    if (n == 0)
        printf("%11s %11s %11s %8s %11s %7s  %s\n", "SIZE", "METADATA", "RAW DATA", "PAGES", "HITS", "READERS",
               "VERSION  URL");
    if (i->flaw) {
        printf("%11s %11s %11s %8s %11s %7s  %s (unusable: %s)\n", "-", "-", "-", "-", "-", "-", i->name, i->flaw);
        return;
    }
    printf("%11s %11s %11s %8" PRIu64 " %11s %7u  %s  %s\n", xh_size(i->origin_bytes),
           xh_size(i->meta_bytes), xh_size(i->raw_bytes), i->meta_pages + i->raw_pages,
           xh_size(i->hit_bytes), i->readers, xh_tool_name(i->validator, version, sizeof version),
           xh_tool_name(i->url_shown, url, sizeof url));
}

static int list_one(void *ctx, const struct xh_image_info *i)
{
    struct listing *l = ctx;
    if (l->json)
        print_json(i, l->n, l->on_disk);
    else
        print_line(i, l->lines);
    l->n++;
    l->lines++;
    return 0;
}

static void print_disk(const struct xh_options *on_disk)
{
    uint64_t budget, taken;
    xh_image_room(on_disk, &budget, &taken);
    printf("disk cache %s: %s, of %s that it may take\n", on_disk->shadow_dir, xh_size(taken), xh_size(budget));
}

static int list(int argc, char **argv, const struct xh_options *o)
{
    struct listing l = {0};
    struct xh_options on_disk;
    const struct xh_tool_option options[] = {{"json", .flag = &l.json}};
    struct xh_err err = {0};
    XH_TOOL_OPTIONS(argc, argv, options);
    if (optind < argc)
        return xh_tool_usage("it takes no URL: it lists all that is kept");
    if (l.json)
        putchar('[');
    int rc = xh_image_each(o, list_one, &l, &err);
    if (rc == 0 && xh_shadow_on_disk(o, &on_disk)) {
        l.on_disk = 1;
        l.lines = 0;
        if (!l.json)
            print_disk(&on_disk);
        rc = xh_image_each(&on_disk, list_one, &l, &err);
    }
    if (l.json)
        puts(l.n ? "\n]" : "]");
    else if (rc == 0 && !l.n)
        fputs("xhdf5: nothing is kept on this machine\n", stderr);
    return rc ? xh_tool_fail(XH_EXIT_FAILED, "%s", err.text) : XH_EXIT_OK;
}

/* ---- rm ------------------------------------------------------------------------------------- */

static const char rm_help[] =
    "xhdf5 cache rm URL | --all\n"
    "\n"
    "Removes the shadows of URL, of whichever version, also from the disk cache, if disk_cache_dir names one;\n"
    "--all removes those of every URL, and files in the directory that no reader would use. One that a\n"
    "process has open stays; it is named. The URL may be given as `ls` shows it, or the name of a file that\n"
    "`ls` calls unusable.\n"
    "\n"
    "  --all    all of them\n"
    "\n"
    "Exit codes: 0 removed; 1 at least one is in use and stays; 2 wrong usage; 3 there is none of that URL, or\n"
    "one cannot be removed.\n";

struct removal {
    const struct xh_options *o;
    const char *url; /* NULL: all */
    const char *object; /* that it names */
    unsigned removed, used, failed;
    uint64_t bytes;
};

static int remove_one(void *ctx, const struct xh_image_info *i)
{
    struct removal *r = ctx;
    struct xh_err err = {0};
    char shown[sizeof i->url_shown];
    if (r->url && !xh_image_is_of(i, r->object) && strcmp(r->url, i->name) != 0)
        return 0;
    int rc = xh_image_remove(r->o, i, &err);
    if (rc == 0) {
        r->removed++;
        r->bytes += i->taken_bytes;
        return 0;
    }
    *(rc == XH_E_INVAL ? &r->used : &r->failed) += 1;
    fprintf(stderr, "xhdf5: %s: %s\n", i->flaw ? i->name : xh_tool_name(i->url_shown, shown, sizeof shown),
            rc == XH_E_INVAL ? "in use; it stays. Remove it once its readers have closed it" : err.text);
    return 0;
}

static int rm(int argc, char **argv, const struct xh_options *o)
{
    struct removal r = {.o = o};
    struct xh_options on_disk;
    struct xh_err err = {0};
    int all = 0;
    const struct xh_tool_option options[] = {{"all", .flag = &all}};
    XH_TOOL_OPTIONS(argc, argv, options);
    if (all ? optind != argc : optind != argc - 1)
        return xh_tool_usage("either one URL or --all is wanted");
    r.url = all ? NULL : argv[optind];
    char *object = r.url && xh_cache_is_url(r.url) ? xh_cache_object(r.url, o) : NULL;
    r.object = object ? object : r.url;
    int rc = xh_image_each(o, remove_one, &r, &err);
    if (rc == 0 && xh_shadow_on_disk(o, &on_disk)) {
        r.o = &on_disk;
        rc = xh_image_each(&on_disk, remove_one, &r, &err);
    }
    free(object);
    if (rc)
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    if (r.url && r.removed + r.used + r.failed == 0)
        return xh_tool_fail(XH_EXIT_FAILED, "there is no shadow of %s; xhdf5 cache ls lists those that there are",
                            xh_shown(r.url, 1024));
    printf("%u removed (%s)", r.removed, xh_size(r.bytes));
    if (r.used)
        printf(", %u in use", r.used);
    putchar('\n');
    return r.failed ? XH_EXIT_FAILED : r.used ? XH_EXIT_NO : XH_EXIT_OK;
}

/* ---- trim ----------------------------------------------------------------------------------- */

static const char trim_help[] =
    "xhdf5 cache trim [BYTES]\n"
    "\n"
    "Removes files of the disk cache, the one whose last use is the oldest first, until it takes at most BYTES\n"
    "(which may end in k, M or G); without BYTES until it keeps its budget. Files that a process has open stay.\n"
    "\n"
    "Exit codes: 0 it takes no more than that; 1 it does, as files are in use; 2 wrong usage, or there is no disk\n"
    "cache; 3 its directory is not usable, or a file cannot be removed.\n";

struct trimming {
    struct xh_image_info *at;
    size_t n, room;
};

static int note_one(void *ctx, const struct xh_image_info *i)
{
    struct trimming *t = ctx;
    return xh_append(t, *i) ? 1 : 0;
}

static int trim(int argc, char **argv, const struct xh_options *o)
{
    struct trimming t = {0};
    struct xh_options on_disk;
    struct xh_err err = {0};
    uint64_t most, budget, taken, removed = 0;
    int failed = 0;
    xh_tool_options(argc, argv, NULL, 0);
    if (optind < argc - 1)
        return xh_tool_usage("it takes one number at most");
    if (!xh_shadow_on_disk(o, &on_disk))
        return xh_tool_usage("there is no disk cache: the option disk_cache_dir names none");
    if (optind < argc && xh_options_set(&on_disk, "shadow_budget_bytes", argv[optind], argv[0], &err))
        return xh_tool_usage("BYTES is no size, such as 500M or 20G");
    if (xh_image_each(&on_disk, note_one, &t, &err)) {
        free(t.at);
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    }
    xh_image_room(&on_disk, &budget, &taken);
    most = optind < argc ? on_disk.shadow_budget_bytes : budget; /* also 0 */
    xh_image_sort(t.at, t.n);
    for (size_t i = 0; i < t.n && taken > most; i++) {
        int rc = xh_image_remove(&on_disk, &t.at[i], &err);
        uint64_t bytes = rc ? 0 : t.at[i].taken_bytes;
        failed |= rc && rc != XH_E_INVAL;
        taken -= bytes < taken ? bytes : taken;
        removed += bytes;
    }
    free(t.at);
    xh_image_room(&on_disk, &budget, &taken); /* what went along with them, and what came meanwhile */
    printf("%s removed; the disk cache takes %s\n", xh_size(removed), xh_size(taken));
    return failed ? xh_tool_fail(XH_EXIT_FAILED, "%s", err.text) : taken > most ? XH_EXIT_NO : XH_EXIT_OK;
}

/* ---- cache ---------------------------------------------------------------------------------- */

static const char help[] =
    "xhdf5 cache ls [--json]                       what is kept of which remote file\n"
    "xhdf5 cache warm URL... | - [--dataset PATH]... [--metadata-only] [--json]\n"
    "                                              fetches files before they are needed\n"
    "xhdf5 cache verify URL                        compares what is kept with the server's bytes\n"
    "xhdf5 cache rm URL | --all                    removes what nobody has open\n"
    "xhdf5 cache trim [BYTES]                      makes the disk cache smaller, oldest use first\n"
    "\n"
    "Each has a --help of its own.\n";

static int run(int argc, char **argv, const struct xh_options *o)
{
    static const struct xh_verb its_ls = {"ls", ls_help, list}, its_rm = {"rm", rm_help, rm},
                                its_trim = {"trim", trim_help, trim};
    static const struct xh_verb *const commands[] = {&its_ls, &its_rm, &its_trim, &xh_tool_warm, &xh_tool_verify};
    if (argc < 2)
        return xh_tool_usage("ls, warm, verify, rm or trim is missing");
    if (strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return xh_tool_command(commands, sizeof commands / sizeof *commands, argc, argv, o);
    fputs(help, stdout);
    return XH_EXIT_OK;
}

const struct xh_verb xh_tool_cache = {"cache", help, run};
