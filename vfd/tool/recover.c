/* xhdf5 recover: what was written to files at URLs and has not reached their servers. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../cache/base/table.h"
#include "../../cache/edit/edit.h"
#include "json.h"
#include "tool.h"

static const char help[] =
    "xhdf5 recover list [--json]          what is kept of files that could not be sent to their servers\n"
    "xhdf5 recover retry ID... | --all    sends them\n"
    "xhdf5 recover export ID FILE         writes one to a new file on this machine\n"
    "xhdf5 recover drop ID...             removes what is kept of them\n"
    "\n"
    "A program that writes a file at a URL (option writable) keeps what it wrote on this machine, in the\n"
    "directory that the option overlay_dir names, until the server has it. When that fails, or the program\n"
    "is killed meanwhile, it stays there. `retry` does what closing the file would have done: it never\n"
    "overwrites what somebody else changed. `export` writes the file as the program saw it, if the version\n"
    "that it had opened is still at the server; otherwise what was neither read nor written is zero, and the\n"
    "exit code is 1. The beginning of an ID will do.\n"
    "\n"
    "States: \"to be sent\". \"withheld\": its program did not want it to be sent, or sending it was refused, for the\n"
    "reason that is listed; retry ID sends it (what a file named at a foreign server: only if credential_hosts\n"
    "lists the host). \"flushed\": its program was killed before it closed the file; export writes what it had\n"
    "flushed. \"conflict\": it was written over what somebody else had changed meanwhile, and is never sent; export\n"
    "writes it. \"never closed\": killed before it had flushed anything. \"a write failed\": its disk or budget was\n"
    "full. These two can only be dropped.\n"
    "\n"
    "  --json   list: one array\n"
    "  --all    retry: all of them that are to be sent\n"
    "\n"
    "Exit codes: 0 done; 1 export: done, with zeros; 2 wrong usage; 3 at least one could not be sent, written or "
    "found.\n";

struct listing {
    int json;
    unsigned n;
};

static void date_of(long long s, char *out, size_t size)
{
    time_t t = (time_t)s;
    struct tm tm;
    if (s == 0 || !localtime_r(&t, &tm) || !strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, size, "-");
}

static int list_one(void *ctx, const struct xh_left *l)
{
    struct listing *to = ctx;
    char why[700], date[32];
    if (to->json) {
        xh_json_print(to->n++ ? ",\n " : "\n ",
                      json_pack("{s:o, s:s, s:o, s:o, s:I, s:I, s:I}", "id", xh_json_text(l->id), "state", l->state,
                                "url", xh_json_text(l->url ? xh_shown(l->url, 1024) : NULL), "why",
                                xh_json_text(l->why && *l->why ? l->why : NULL), "size", (json_int_t)l->size,
                                "written_bytes", (json_int_t)l->written_bytes, "since", (json_int_t)l->since_s));
        return 0;
    }
    if (to->n++ == 0)
        printf("%-16s %-19s %11s %11s  %-17s  %s\n", "ID", "SINCE", "SIZE", "WRITTEN", "STATE", "URL");
    date_of(l->since_s, date, sizeof date);
    printf("%-16s %-19s %11s %11s  %-17s  %s\n", l->id, date, l->is_whole ? xh_size(l->size) : "-",
           l->is_whole ? xh_size(l->written_bytes) : "-", l->state,
           l->url ? xh_shown(l->url, 1024) : "-");
    if (l->why && *l->why)
        printf("                 %s\n", xh_tool_name(l->why, why, sizeof why));
    return 0;
}

static int list(const struct xh_options *o, int json)
{
    struct listing l = {.json = json};
    struct xh_err err = {0};
    if (json)
        putchar('[');
    int rc = xh_edit_each_left(o, list_one, &l, &err);
    if (json)
        puts(l.n ? "\n]" : "]");
    else if (rc == 0 && !l.n)
        fputs("xhdf5: nothing waits to be sent\n", stderr);
    return rc ? xh_tool_fail(XH_EXIT_FAILED, "%s", err.text) : XH_EXIT_OK;
}

static int retry(const struct xh_options *o, const char *id)
{
    struct xh_err err = {0};
    char *url = NULL, shown[1024];
    if (xh_edit_retry(o, id, &url, &err))
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    printf("sent to %s\n", url ? xh_url_shown(url, shown, sizeof shown) : "its server");
    free(url);
    return XH_EXIT_OK;
}

struct ids {
    char (*at)[20];
    size_t n, room;
};

static int collect(void *ctx, const struct xh_left *l)
{
    struct ids *ids = ctx;
    if (!l->is_to_be_sent)
        return 0;
    if (xh_grow(ids->at, ids->room, ids->n + 1))
        return 1;
    snprintf(ids->at[ids->n++], sizeof *ids->at, "%s", l->id);
    return 0;
}

static int retry_all(const struct xh_options *o)
{
    struct ids ids = {0};
    struct xh_err err = {0};
    int worst = XH_EXIT_OK;
    if (xh_edit_each_left(o, collect, &ids, &err)) {
        free(ids.at);
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    }
    for (size_t i = 0; i < ids.n; i++)
        if (retry(o, ids.at[i]))
            worst = XH_EXIT_FAILED;
    free(ids.at);
    return worst;
}

static int export_one(const struct xh_options *o, const char *id, const char *path)
{
    struct xh_err err = {0};
    int rc = xh_edit_export(o, id, path, &err);
    if (rc < 0)
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    if (rc == 0)
        return XH_EXIT_OK;
    return xh_tool_fail(XH_EXIT_NO, "the version that was opened is gone from the server: what was neither read nor "
                                    "written of it is zero in the file");
}

static int drop(const struct xh_options *o, const char *id)
{
    struct xh_err err = {0};
    return xh_edit_drop(o, id, &err) ? xh_tool_fail(XH_EXIT_FAILED, "%s", err.text) : XH_EXIT_OK;
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    int json = 0, all = 0, worst = XH_EXIT_OK;
    const struct xh_tool_option options[] = {{"json", .flag = &json}, {"all", .flag = &all}};
    XH_TOOL_OPTIONS(argc, argv, options);
    const char *what = optind < argc ? argv[optind++] : "";
    int words = argc - optind;
    if (json && strcmp(what, "list") != 0)
        return xh_tool_usage("--json is list's");
    if (all && strcmp(what, "retry") != 0)
        return xh_tool_usage("--all is retry's");
    if (strcmp(what, "list") == 0)
        return words ? xh_tool_usage("list takes no word") : list(o, json);
    if (strcmp(what, "export") == 0)
        return words == 2 ? export_one(o, argv[optind], argv[optind + 1])
                          : xh_tool_usage("export takes an ID and the name of a new file");
    if (strcmp(what, "retry") == 0 && all)
        return words ? xh_tool_usage("either IDs or --all is wanted") : retry_all(o);
    if (strcmp(what, "retry") != 0 && strcmp(what, "drop") != 0)
        return xh_tool_usage(*what ? "\"%s\" is not list, retry, export or drop"
                                            : "list, retry, export or drop is missing%s", what);
    if (words == 0)
        return xh_tool_usage("an ID is missing; xhdf5 recover list shows them");
    for (; optind < argc; optind++)
        if (strcmp(what, "retry") == 0 ? retry(o, argv[optind]) : drop(o, argv[optind]))
            worst = XH_EXIT_FAILED;
    return worst;
}

const struct xh_verb xh_tool_recover = {"recover", help, run};
