/* xhdf5 doctor: checks everything that reading a file at a URL depends on, in the order in which a read meets it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../cache/origin/wire.h"
#include "../../cache/shadow/image.h"
#include "exam.h"
#include "tool.h"

#define PLACES_MANY 32u
#define WALK_SLOW_MS 500.0
#define WALK_TRIPS_MANY 15.0

static const char help[] =
    "xhdf5 doctor URL [--quick] [--writing] [--json]\n"
    "\n"
    "Looks at all that reading the file at URL depends on, and advises: the name, the connection, TLS, token and\n"
    "certificate, redirects, the server's ranges and version, a cache in front, round trip and throughput with 1, 2,\n"
    "4, 8 and 16 connections, what a publisher put beside it, then the file: superblock, where its metadata lies,\n"
    "layouts that are slow to read, the files that it names. Asks of the server what reading asks, and reads at most\n"
    "1.3 GB in some fifteen seconds. Shows no secret.\n"
    "\n"
    "  --quick    without throughput, which is most of the time and the bytes\n"
    "  --writing  also whether the file could be changed: asks for a file beside it that is not there to be renamed\n"
    "  --json     one object, with the numbers; times in milliseconds, rates in bytes a second\n"
    "\n"
    "Exit codes: 0 it can be read, and nothing is in the way; 1 it can be read, and there is advice; 2 wrong usage;\n"
    "3 it cannot be read: the step that failed says why, what comes after it was not tried.\n";

/* ---- the file ------------------------------------------------------------------------------- */

static enum xh_state opening(struct doctor *d)
{
    const struct xh_layouts *l = &d->layouts;
    const struct xh_seen *seen = &l->seen;
    struct xh_report *r = &d->report;
    struct xh_err err = {0};
    if (xh_layouts_look(d->given, d->o, d->bytes_per_s, &d->layouts, &err)) {
        xh_report_say(r, "%s", err.text);
        xh_report_advise(r, "the file is damaged, or made to harm: h5check or h5dump on a copy (xhdf5 get) may tell");
        return XH_STATE_FAILED;
    }
    if (l->code) {
        xh_report_say(r, "%s", l->text);
        if (strstr(l->text, "truncated file"))
            xh_report_advise(r, "the file is shorter than HDF5 wrote it: an upload that did not finish, or is still "
                                "going on; its owner has the whole one");
        else if (strstr(l->text, "file signature not found"))
            xh_report_advise(r, "it is no HDF5 file, or no longer one: look at its beginning (curl -r 0-199 URL); some "
                                "servers answer with a page to log in");
        else
            xh_report_advise(r, "the server can be read, the file cannot: xhdf5 get fetches it as it is");
        return XH_STATE_FAILED;
    }
    xh_report_say(r, "superblock version %u, opened in %.0f ms", seen->superblock, l->opened_ms);
    if (seen->user_block)
        xh_report_say(r, "behind a user block of %s", xh_size(seen->user_block));
    if (seen->page_bytes)
        xh_report_say(r, "space in pages of %s", xh_size(seen->page_bytes));
    else
        xh_report_say(r, "space not paged");
    xh_report_count(r, "superblock", seen->superblock);
    xh_report_count(r, "user_block", seen->user_block);
    xh_report_count(r, "page_bytes", seen->page_bytes);
    xh_report_number(r, "opened_ms", l->opened_ms);
    return XH_STATE_OK;
}

static enum xh_state metadata(struct doctor *d)
{
    const struct xh_layouts *l = &d->layouts;
    const struct xh_seen *seen = &l->seen;
    struct xh_report *r = &d->report;
    xh_report_say(r, "%" PRIu64 " group%s, %" PRIu64 " dataset%s, %" PRIu64 " attribute%s: %s of metadata",
                  seen->groups, XH_S(seen->groups), seen->datasets, XH_S(seen->datasets), seen->attributes,
                  XH_S(seen->attributes), xh_size(seen->metadata_bytes));
    xh_report_say(r, "all of it read in %.0f ms with %" PRIu64 " request%s, %s", l->walked_ms, seen->requests,
                  XH_S(seen->requests), xh_size(seen->fetched_bytes));
    if (seen->cut)
        xh_report_say(r, "there is more: this is what was seen in the time");
    xh_report_count(r, "groups", seen->groups);
    xh_report_count(r, "datasets", seen->datasets);
    xh_report_count(r, "attributes", seen->attributes);
    xh_report_count(r, "metadata_bytes", seen->metadata_bytes);
    xh_report_number(r, "walked_ms", l->walked_ms);
    xh_report_count(r, "requests", seen->requests);
    xh_report_count(r, "fetched_bytes", seen->fetched_bytes);
    xh_report_text(r, "complete", seen->cut ? "no" : "yes");
    if (!l->placed)
        return XH_STATE_OK;
    double in_head = l->between_bytes ? 100.0 * (double)l->head_bytes / (double)l->between_bytes : 100;
    xh_report_say(
        r, "with free space it is %s, in %" PRIu64 " place%s; %.0f %% of that is in the first %s, which opening brings",
        xh_size(l->between_bytes), l->places, XH_S(l->places), in_head, xh_size(d->o->head_bytes));
    xh_report_count(r, "places", l->places);
    xh_report_count(r, "around_data_bytes", l->between_bytes);
    xh_report_number(r, "percent_in_head", in_head);
    if (!seen->page_bytes && l->places > PLACES_MANY && in_head < 50 &&
        l->walked_ms > WALK_SLOW_MS && l->walked_ms > WALK_TRIPS_MANY * d->rtt_ms)
        xh_report_advise(r, "the metadata is strewn over the file, so walking through it costs requests and time. "
                            "Gather it: h5repack -S PAGE -G 65536 "
                            "old.h5 new.h5, or create files with fs_strategy=\"page\"");
    return XH_STATE_OK;
}

static enum xh_state datasets(struct doctor *d)
{
    struct xh_layouts *l = &d->layouts;
    struct xh_report *r = &d->report;
    for (unsigned i = 0; i < l->shown; i++) {
        const struct xh_flaw *f = &l->flaw[i];
        xh_report_say(r, "%s: %s", f->path, f->what);
        if (f->advice[0])
            xh_report_advise(r, "%s", f->advice);
        xh_report_text(r, "path", f->path);
        xh_report_count(r, "bytes", f->bytes);
        xh_report_step(r, "dataset", XH_STATE_NOTE);
    }
    xh_report_say(r, "%s of data", xh_size(l->seen.data_bytes));
    if (l->flawed)
        xh_report_say(r, "%" PRIu64 " of the datasets %s slow to read, or not readable here", l->flawed,
                      l->flawed == 1 ? "is" : "are");
    else
        xh_report_say(r, "no layout that is slow to read");
    xh_report_count(r, "data_bytes", l->seen.data_bytes);
    xh_report_count(r, "flawed", l->flawed);
    return l->flawed ? XH_STATE_NOTE : XH_STATE_OK;
}

static enum xh_state sources(struct doctor *d)
{
    const struct xh_sources *s = &d->layouts.sources;
    struct xh_report *r = &d->report;
    for (unsigned i = 0; i < s->shown; i++) {
        xh_report_say(r, "%s", s->source[i].text);
        if (s->source[i].code == XH_E_NOENT)
            xh_report_advise(r, "virtual datasets give fill values in its place, and no error but a line: "
                                "XHDF5_MISSING_SOURCES=error makes "
                                "one of it. Its publisher has it, or knows its new name");
        xh_report_text(r, "url", s->source[i].url);
        xh_report_count(r, "status", (uint64_t)s->source[i].status);
        xh_report_step(r, "source", XH_STATE_NOTE);
    }
    xh_report_say(r, "it names %" PRIu64 " other file%s: %" PRIu64 " of %" PRIu64 " that were tried open%s", s->named,
                  XH_S(s->named), s->tried - s->failed, s->tried, s->more ? "; there are more" : "");
    if (s->local)
        xh_report_say(r, "%" PRIu64 " by a path: looked for beside this file, under the path's last part", s->local);
    if (s->pattern)
        xh_report_say(r, "%" PRIu64 " with %%b stand%s for any number of files, and %s not tried", s->pattern,
                      s->pattern == 1 ? "s" : "", s->pattern == 1 ? "was" : "were");
    xh_report_count(r, "named", s->named);
    xh_report_count(r, "tried", s->tried);
    xh_report_count(r, "failed", s->failed);
    return s->failed ? XH_STATE_NOTE : XH_STATE_OK;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Where what is read stays: whether that can be used, how full it is, and how much room there is. */
static enum xh_state place(struct doctor *d, const struct xh_options *o)
{
    struct xh_report *r = &d->report;
    struct xh_err err = {0};
    uint64_t budget, taken, left;
    const char *cure;
    if (xh_image_usable(o, &left, &cure, &err)) {
        xh_report_say(r, "%s", err.text);
        xh_report_advise(r, "%s", cure);
        return XH_STATE_NOTE;
    }
    xh_image_room(o, &budget, &taken);
    xh_report_say(r, "%s%s%s, of %s that it may take", o->shadow_dir, o->shadow_dir[0] ? ": " : "",
                  xh_size(taken), xh_size(budget));
    if (left != UINT64_MAX)
        xh_report_say(r, "its file system has %s free", xh_size(left));
    return XH_STATE_OK;
}

static enum xh_state shadow(struct doctor *d)
{
    if (d->o->shadow)
        return place(d, d->o);
    return xh_report_as(&d->report, XH_STATE_OK, "the option shadow is off: processes share nothing");
}

static enum xh_state disk_cache(struct doctor *d)
{
    struct xh_options on_disk;
    xh_shadow_on_disk(d->o, &on_disk);
    return place(d, &on_disk);
}

/* Whether a step asks for parts of the file, and so tells nothing where the file comes whole. */
static int wants_parts(const struct doctor *d, xh_doctor_step *look)
{
    return look == xh_doctor_ranges || look == xh_doctor_round_trip || look == xh_doctor_throughput ||
           (look == xh_doctor_beside && !d->size);
}

static enum xh_state step(struct doctor *d, xh_doctor_step *look)
{
    if (d->report.failures || d->behind_login)
        return XH_STATE_UNTRIED;
    if (d->comes_whole && wants_parts(d, look))
        return xh_report_as(&d->report, XH_STATE_UNTRIED, "not tried: the file comes whole");
    return look(d);
}

static int examine(struct doctor *d)
{
    static const struct {
        const char *name;
        xh_doctor_step *look;
    } steps[] = {{"name", xh_doctor_name}, {"connection", xh_doctor_connection}, {"TLS", xh_doctor_tls},
                 {"credentials", xh_doctor_credentials}, {"redirects", xh_doctor_redirects}, {"reply", xh_doctor_reply},
                 {"ranges", xh_doctor_ranges}, {"version", xh_doctor_version}, {"cache", xh_doctor_cache},
                 {"round trip", xh_doctor_round_trip},
                 {"throughput", xh_doctor_throughput}, {"shadow", shadow}, {"disk cache", disk_cache},
                 {"sidecars", xh_doctor_beside},
                 {"writing", xh_doctor_writing},
                 {"opening", opening}, {"metadata", metadata}, {"datasets", datasets},
                 {"sources", sources}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i].look == xh_doctor_writing && !d->writing)
            continue;
        if (steps[i].look == disk_cache && !d->o->disk_cache_dir[0])
            continue;
        if (steps[i].look == sources && !d->layouts.sources.named)
            continue; /* most files name no sources */
        if (steps[i].look == opening)
            d->behind_login = 0; /* the driver logs in */
        xh_report_step(&d->report, steps[i].name, step(d, steps[i].look));
    }
    return d->report.failures ? XH_EXIT_FAILED : d->report.notes ? XH_EXIT_NO : XH_EXIT_OK;
}

static int doctor(struct doctor *d, int json)
{
    struct xh_err err = {0};
    int code = XH_EXIT_FAILED;
    if (xh_caller_url(d->given, d->o, &d->named, &err))
        return xh_tool_fail(XH_EXIT_USAGE, "%s", err.text);
    xh_url_host_name(d->named, d->host, sizeof d->host);
    snprintf(d->port, sizeof d->port, "%s", strrchr(d->named->server, ':') + 1);
    d->at = xh_url_ref(d->named);
    d->has_user = d->named->user != NULL;
    /* What is wrong with CAs and netrc file, the steps say that meet it. */
    int rc = xh_caller_find(&d->caller, d->o, d->named, &d->caller_err);
    if (rc == XH_E_INVAL || rc == XH_E_NOMEM)
        return xh_tool_fail(rc == XH_E_INVAL ? XH_EXIT_USAGE : code, "%s", d->caller_err.text);
    if (xh_wire_global_init() == 0 && (d->dial = xh_dial_new(&d->caller))) {
        xh_report_begin(&d->report, xh_shown(d->given, 1024), json);
        code = examine(d);
        xh_report_end(&d->report);
    } else {
        xh_tool_fail(code, "out of memory");
    }
    xh_dial_free(d->dial);
    xh_caller_free(&d->caller);
    xh_url_unref(d->at);
    xh_url_unref(d->named);
    return code;
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    static struct doctor d;
    int json = 0;
    const struct xh_tool_option options[] = {
        {"quick", .flag = &d.quick}, {"json", .flag = &json}, {"writing", .flag = &d.writing}};
    XH_TOOL_OPTIONS(argc, argv, options);
    d.o = o;
    d.given = xh_tool_url(argc, argv, 1);
    if (o->offline)
        return xh_tool_fail(XH_EXIT_FAILED, "the doctor asks the server, which offline=on forbids");
    return doctor(&d, json);
}

const struct xh_verb xh_tool_doctor = {"doctor", help, run};
