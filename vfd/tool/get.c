/* xhdf5 get: copies a whole file from a URL to a disk, through the cache's streams.
 *
 * Invariants 1. What has come lies in FILE.part-XXXXXXXXXXXXXXXX, from its beginning on; the length of that file is how
 * much has come.
 * 2. The name holds a hash of URL and version. A file of another version has another name, so two are never mixed.
 * 3. FILE appears by a rename, complete and on the disk; see xh_rename_new.
 * 4. A process that writes a part holds its lock. Where the file system has no locks, it has made the part. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../cache/cache.h"
#include "../../cache/base/files.h"
#include "../../cache/base/sha256.h"
#include "tool.h"
#include "whole.h"

#define PART ".part-"
#define HASH_BYTES 8u

static const char help[] =
    "xhdf5 get URL [-o FILE] [--force]\n"
    "\n"
    "Downloads the file at URL, by as many connections as pay. Without -o the file gets the last part of the URL's\n"
    "path as its name.\n"
    "\n"
    "  -o, --output FILE   where to; - is standard output\n"
    "  -f, --force         replace FILE if it is there, once the new one is whole\n"
    "\n"
    "What has come stands in FILE.part-…, and the same command goes on from there, if the server still has the same\n"
    "version; else it begins anew. Where the server names no version, or sends no parts of files, it always begins "
    "anew. FILE appears when\n"
    "it is whole, never before (on some FUSE file systems an empty one a moment before).\n"
    "\n"
    "Exit codes: 0 it is there; 2 wrong usage; 3 it could not be fetched or written, or FILE is there already.\n";

struct download {
    const char *url, *to; /* to: NULL is standard output */
    int force;
    struct xh_options options;
    struct xh_file *f;
    const char *version;
    int fleeting; /* 1: the version is fleeting, so an incomplete part cannot be continued */
    uint64_t size, at;
    int fd;
    char part[PATH_MAX];
};

/* Sets the end of a part's name. Returns 0 or -1. */
static int name_part(struct download *d)
{
    uint8_t digest[32];
    char hex[2 * HASH_BYTES + 1], *text = NULL;
    int n = asprintf(&text, "%s\n%s", d->url, d->version), good = n >= 0 && xh_sha256(text, (size_t)n, digest);
    if (n >= 0)
        free(text);
    xh_hex(digest, good ? HASH_BYTES : 0, hex);
    return good && (size_t)snprintf(d->part, sizeof d->part, "%s" PART "%s", d->to, hex) < sizeof d->part ? 0 : -1;
}

static int cannot_write(const char *what)
{
    return xh_tool_fail(XH_EXIT_FAILED, "%s cannot be written: %s", what, strerror(errno));
}

/* Opens the part where what has come ends. Returns 0 or the exit code. */
static int open_part(struct download *d)
{
    struct stat mine;
    d->fd = xh_open_part(d->part, O_WRONLY, 0666);
    if (d->fd < 0 || fstat(d->fd, &mine) != 0) {
        if (errno == EWOULDBLOCK || errno == ESTALE)
            xh_tool_fail(0, "%s: another xhdf5 get is just fetching it", d->to);
        else if (errno == EEXIST)
            xh_tool_fail(0, "%s is in the way: it is no regular file of yours", d->part);
        else if (xh_has_no_locks(errno))
            xh_tool_fail(0,
                         "%s is there, and this file system has no locks, which would tell whether another xhdf5 get "
                         "is just writing it: if none is, remove it",
                         d->part);
        else
            cannot_write(d->part);
        return XH_EXIT_FAILED;
    }
    d->at = (uint64_t)mine.st_size;
    int anew = d->at && (d->at > d->size || d->fleeting);
    d->at = anew ? 0 : d->at;
    if ((anew && ftruncate(d->fd, 0) != 0) || lseek(d->fd, (off_t)d->at, SEEK_SET) < 0)
        return cannot_write(d->part);
    return 0;
}

static int has_room(const struct download *d)
{
    uint64_t room = xh_free_bytes(d->fd);
    if (room >= d->size - d->at)
        return 1;
    xh_tool_fail(0, "%s: there is room for %s, and %s are still to come", d->to, xh_size(room),
                 xh_size(d->size - d->at));
    return 0;
}

/* Fetches the file in one piece, from a server that sends no parts of files. Returns the exit code. */
static int fetch_whole(struct download *d)
{
    struct xh_err err = {0};
    if (xh_tool_whole(d->url, &d->options, d->fd, &d->size, &err) == 0)
        return XH_EXIT_OK;
    if (d->to)
        unlink(d->part);
    return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
}

/* What was written may not be on the disk, and a kernel tells of that once: the next run would go on from it, or take
 * it for whole. Returns the exit code. */
static int give_up(const struct download *d, int bad)
{
    unlink(d->part);
    return xh_tool_fail(XH_EXIT_FAILED, "%s cannot be written: %s; nothing of it is kept", d->part, strerror(bad));
}

/* Not all of a piece could be written, for the reason |bad|. What came before it is kept if it is on the disk. Returns
 * the exit code. */
static int write_failed(const struct download *d, int bad)
{
    if (d->to && fsync(d->fd) != 0)
        return give_up(d, bad);
    errno = bad;
    return cannot_write(d->to ? d->part : "standard output");
}

/* Fetches what is missing. Returns the exit code. */
static int fetch(struct download *d)
{
    struct xh_err err = {0};
    struct xh_progress p;
    int code = XH_EXIT_OK;
    uint8_t *piece = malloc(XH_BATCH_BYTES);
    if (!piece)
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    xh_progress_begin(&p, d->to ? d->to : "get", d->size, "bytes");
    p.from = d->at;
    while (code == XH_EXIT_OK && d->at < d->size) {
        struct xh_extent e = {
            .off = d->at, .len = d->size - d->at < XH_BATCH_BYTES ? d->size - d->at : XH_BATCH_BYTES, .buf = piece};
        if (xh_cache_read(d->f, XH_KIND_RAW, &e, 1, &err) != 0) {
            code = XH_EXIT_FAILED;
        } else if (xh_write(d->fd, piece, e.len) != 0) {
            code = write_failed(d, errno);
        } else {
            if (d->to) /* else the disk starts only when everything has come */
                sync_file_range(d->fd, (off_t)e.off, (off_t)e.len, SYNC_FILE_RANGE_WRITE);
            d->at += e.len;
            xh_progress_at(&p, d->at);
        }
    }
    xh_progress_end(&p, d->at);
    free(piece);
    if (err.code == 0)
        return code;
    xh_tool_fail(0, "%s", err.text);
    if (!d->to)
        return code;
    if (err.code == XH_E_CHANGED)
        unlink(d->part);
    else if (!d->fleeting && d->at)
        xh_tool_fail(0, "what has come is kept: the same command goes on from there");
    return code;
}

/* If replies do not carry the version, asks the server for it again: a file that was overwritten meanwhile would be a
 * mixture of two. Returns the exit code. */
static int confirm(const struct download *d)
{
    struct xh_file *again;
    struct xh_err err = {0};
    const char *validator = xh_cache_validator(d->f);
    if (strncmp(validator, "etag:\"", 6) == 0 || strncmp(validator, "etag:#s", 7) == 0)
        return XH_EXIT_OK;
    if (xh_cache_open(d->url, &d->options, &again, &err))
        return xh_tool_fail(XH_EXIT_FAILED, "all has come, but not whether it is of one version: %s", err.text);
    int same = strcmp(xh_cache_validator(again), xh_cache_validator(d->f)) == 0;
    xh_cache_close(again);
    if (same)
        return XH_EXIT_OK;
    if (d->to)
        unlink(d->part);
    return xh_tool_fail(XH_EXIT_FAILED, "the file has changed on the server while it was fetched%s: begin anew",
                        d->to ? ", nothing of it is kept" : "");
}

/* Renames the part to its final name. Returns the exit code. */
static int settle(struct download *d)
{
    if (fsync(d->fd) != 0)
        return give_up(d, errno);
    if ((d->force ? rename(d->part, d->to) : xh_rename_new(d->part, d->to)) != 0)
        return xh_tool_fail(XH_EXIT_FAILED, "%s cannot be made: %s; %s is whole", d->to, strerror(errno), d->part);
    return XH_EXIT_OK;
}

/* Removes the parts of other versions that no process is writing, and syncs the directory. */
static void tidy(const struct download *d)
{
    const char *slash = strrchr(d->to, '/');
    const char *base = slash ? slash + 1 : d->to;
    size_t n = strlen(base), all = n + strlen(PART) + (size_t)2 * HASH_BYTES;
    char *dir = slash ? strndup(d->to, (size_t)(slash - d->to) + 1) : strdup(".");
    DIR *list = dir ? opendir(dir) : NULL;
    int at = list ? dirfd(list) : -1;
    free(dir);
    if (at < 0) {
        if (list)
            closedir(list);
        return;
    }
    for (struct dirent *e; (e = readdir(list));) {
        if (strlen(e->d_name) != all || strncmp(e->d_name, base, n) != 0 ||
            strncmp(e->d_name + n, PART, strlen(PART)) != 0 ||
            strspn(e->d_name + n + strlen(PART), "0123456789abcdef") != (size_t)2 * HASH_BYTES)
            continue;
        int fd = openat(at, e->d_name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); /* NFS locks no other */
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(at, e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    fsync(at);
    closedir(list);
}

/* A rename puts FILE in the place of what has its name: of a device too, and not of a directory. So that is asked
 * before anything is fetched. Returns 0 or the exit code. */
static int may_be_made(const struct download *d)
{
    struct stat st;
    int there = lstat(d->to, &st) == 0, known = stat(d->to, &st) == 0;
    if (known && S_ISDIR(st.st_mode))
        return xh_tool_fail(XH_EXIT_FAILED, "%s is a directory: name a file in it", d->to);
    if (known && !S_ISREG(st.st_mode))
        return xh_tool_fail(XH_EXIT_FAILED, "%s is no regular file: -o - writes to standard output", d->to);
    if (there && !d->force)
        return xh_tool_fail(XH_EXIT_FAILED, "%s is there already; --force replaces it", d->to);
    return 0;
}

static int get_file(struct download *d)
{
    int code;
    if (name_part(d))
        return xh_tool_fail(XH_EXIT_FAILED, "%s: the name is too long", d->to);
    if ((code = open_part(d)) != 0)
        return code;
    if (d->at)
        fprintf(stderr, "%s: %s are there already\n", d->to, xh_size(d->at));
    if (d->f && !has_room(d))
        return XH_EXIT_FAILED;
    if ((code = d->f ? fetch(d) : fetch_whole(d)) != XH_EXIT_OK || (d->f && (code = confirm(d)) != XH_EXIT_OK) ||
        (code = settle(d)) != XH_EXIT_OK)
        return code;
    tidy(d);
    printf("%s: %" PRIu64 " bytes, %s%s\n", d->to, d->size, d->f ? "version " : "", d->version);
    return XH_EXIT_OK;
}

/* Closes the part. One into which nothing has come is removed, while its lock is held. */
static void leave(const struct download *d, int code)
{
    struct stat st;
    if (code != XH_EXIT_OK && d->size > 0 && fstat(d->fd, &st) == 0 && st.st_size == 0 && st.st_nlink > 0)
        unlink(d->part);
    close(d->fd);
}

static int get(struct download *d, const struct xh_options *given)
{
    struct xh_err err = {0};
    int code = d->to ? may_be_made(d) : 0;
    if (code)
        return code;
    d->options = *given;
    /* nothing is read twice: uses what other processes have in the shadow, and adds nothing to it */
    d->options.stream_bytes = 0;
    d->options.is_kept = 1;
    int rc = xh_cache_open(d->url, &d->options, &d->f, &err),
        whole = (rc == XH_E_PROTO && err.status == 200) || (rc == XH_E_STATUS && err.status == 501);
    if (rc && !whole)
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    if (whole)
        fprintf(stderr,
                "%s: the server sends no parts of files: it comes in one piece, and anew when it is broken off\n",
                d->to ? d->to : "get");
    d->size = whole ? 0 : xh_cache_size(d->f);
    d->version = whole ? "in one piece, from a server that sends no parts" : xh_cache_validator(d->f);
    d->fleeting = whole || xh_cache_is_fleeting(d->f);
    d->fd = d->to ? -1 : STDOUT_FILENO;
    code = d->to ? get_file(d) : whole ? fetch_whole(d) : fetch(d);
    if (!d->to && !whole && code == XH_EXIT_OK)
        code = confirm(d);
    if (d->to && d->fd >= 0)
        leave(d, code);
    xh_cache_close(d->f);
    return code;
}

/* Copies the last part of |url|'s path. Returns 0, or -1 when it is no name for a file. */
static int name_of(const char *url, char *out, size_t size)
{
    size_t n = strcspn(url, "?#"), from = xh_url_directory_bytes(url);
    if (from < xh_url_server_bytes(url) || from == n || n - from >= size)
        return -1;
    memcpy(out, url + from, n - from);
    out[n - from] = '\0';
    return strcmp(out, ".") == 0 || strcmp(out, "..") == 0 ? -1 : 0;
}

static int run(int argc, char **argv, const struct xh_options *o)
{
    struct download d = {.fd = -1};
    const struct xh_tool_option options[] = {{"output", 'o', .value = &d.to}, {"force", 'f', .flag = &d.force}};
    char own[PATH_MAX];
    XH_TOOL_OPTIONS(argc, argv, options);
    d.url = xh_tool_url(argc, argv, 1);
    if (!d.to && name_of(d.url, own, sizeof own) == 0)
        d.to = own;
    else if (!d.to)
        return xh_tool_usage("the URL ends without the name of a file: say with -o where to");
    if (!*d.to)
        return xh_tool_usage("-o names no file");
    if (strcmp(d.to, "-") == 0) {
        d.to = NULL;
        if (isatty(STDOUT_FILENO))
            return xh_tool_usage("standard output is a terminal");
    }
    return get(&d, o);
}

const struct xh_verb xh_tool_get = {"get", help, run};
