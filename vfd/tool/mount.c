/* xhdf5 mount: shows files at URLs in a directory, for programs that have no way to the driver.
 *
 * The pieces: fuse.c mounts and serves the kernel, tree.c knows names, versions and files. Here is the command: it
 * opens, mounts, goes to the background, and ends. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <mntent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "../../cache/cache.h"
#include "../../cache/base/err.h"
#include "../../cache/base/files.h"
#include "../../cache/open/mistaken.h"
#include "fuse.h"
#include "tool.h"

static const char help[] =
    "xhdf5 mount URL|CATALOGUE... DIR [--foreground] [--log FILE]\n"
    "\n"
    "Shows the files at the URLs in the directory DIR, to be read by any program. Each has the last part of its URL's\n"
    "path as its name. A URL that ends in / is a directory, as s3://bucket is: it is given alone, and DIR shows what\n"
    "it holds, as far as the server lists it. A CATALOGUE is a file with a name and a URL in each line.\n"
    "Files are read over the driver's cache, with what it fetches ahead. Nothing can be written.\n"
    "\n"
    "  -f, --foreground    stay in the foreground; else the command ends once DIR can be used\n"
    "  -l, --log FILE      where to say what fails; else standard error, in the background the system's log\n"
    "\n"
    "It ends by fusermount3 -u DIR, SIGTERM or SIGINT. Users other than root need fusermount3 (package fuse3).\n"
    "\n"
    "Exit codes: 0 it is mounted, or with --foreground it was unmounted; 2 wrong usage; 3 the first file cannot be\n"
    "opened, or DIR cannot be mounted, or shows files by this command already.\n";

struct mounting {
    const struct xh_options *o;
    char **urls;
    int n;
    char *dir; /* absolute */
    const char *log;
    int log_fd; /* -1: none */
    int foreground;
    int started; /* where the child writes its exit code once DIR can be used; -1: in the foreground */
};

/* ---- what fails */

static pthread_mutex_t say_lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int to_syslog;
static char said[sizeof ((struct xh_err *)0)->text];

/* Says each sentence once in a row: a program asks again and again. */
static void say(const char *text)
{
    pthread_mutex_lock(&say_lock);
    int again = strcmp(said, text) == 0;
    snprintf(said, sizeof said, "%s", text);
    if (!again && to_syslog)
        syslog(LOG_ERR, "%s", text);
    else if (!again)
        xh_tool_fail(0, "%s", text);
    pthread_mutex_unlock(&say_lock);
}

static int open_log(struct mounting *m)
{
    m->log_fd = m->log ? open(m->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (m->log && m->log_fd < 0)
        return xh_tool_fail(XH_EXIT_FAILED, "%s cannot be written: %s", m->log, strerror(errno));
    return 0;
}

/* ---- one mount */

/* Tells the command that waits, and leaves its terminal. Returns 0, or -1: it waits no more. */
static int detach(const struct mounting *m)
{
    const char code = XH_EXIT_OK;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    setsid();
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
    pthread_mutex_lock(&say_lock);
    to_syslog = !m->log;
    pthread_mutex_unlock(&say_lock);
    openlog("xhdf5", LOG_PID, LOG_DAEMON);
    signal(SIGPIPE, SIG_IGN);
    int rc = xh_write(m->started, &code, sizeof code);
    close(m->started);
    return rc;
}

/* What failed at the start was told to the user; what fails from now on goes to the log. */
static void begin_log(const struct mounting *m)
{
    if (m->log_fd >= 0)
        dup2(m->log_fd, STDERR_FILENO);
}

/* Serves until it is unmounted, or a signal comes. Returns the exit code. */
static int serve(const struct mounting *m, struct xh_tree *t, struct xh_fuse *f, const sigset_t *ends)
{
    static const struct timespec tick = {.tv_sec = 1};
    struct xh_err err = {0};
    int code = XH_EXIT_OK, mounted = 1;
    if (xh_fuse_serve(f, &err) != 0) {
        code = xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    } else if (m->started >= 0 && detach(m) != 0) {
        code = XH_EXIT_FAILED;
    } else {
        if (m->started < 0) {
            printf("%s: mounted\n", m->dir);
            fflush(stdout);
        }
        begin_log(m);
        while ((mounted = xh_fuse_tick(f)) && sigtimedwait(ends, NULL, &tick) < 0)
            xh_tree_tidy(t);
    }
    if (mounted)
        xh_fuse_unmount(f);
    xh_tree_close(t);
    return code;
}

/* Adds what the lines "NAME URL" of the file at |path| say; blank ones and those that begin with "#" say nothing.
 * Returns 0 or the exit code. */
static int add_catalogue(struct xh_tree *t, const char *path)
{
    struct xh_err err = {0};
    char *line = NULL, checked[XH_ENTRY_NAME_BYTES + 1];
    size_t room = 0;
    int code = 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return xh_tool_fail(XH_EXIT_FAILED, "%s: %s", path, strerror(errno));
    for (unsigned number = 1; code == 0 && getline(&line, &room, f) >= 0; number++) {
        char *rest = line, *name = strsep(&rest, " \t\r\n"), *url = rest ? rest + strspn(rest, " \t") : NULL;
        if (!*name || *name == '#')
            continue;
        if (url)
            url[strcspn(url, " \t\r\n")] = '\0';
        if (!url || !xh_cache_is_url(url) || xh_tree_is_directory(url) ||
            xh_listing_name(name, strlen(name), checked) != 0)
            code = xh_tool_usage("%s, line %u: a name and the URL of a file are wanted", path, number);
        else if (xh_tree_add(t, checked, url, &err) != 0)
            code = xh_tool_usage("%s, line %u: %s", path, number, err.text);
    }
    free(line);
    fclose(f);
    return code;
}

/* Returns the exit code. */
static int run(const struct mounting *m)
{
    struct xh_err err = {0};
    char name[XH_ENTRY_NAME_BYTES + 1];
    struct xh_fuse *f = NULL;
    sigset_t ends;
    struct xh_tree *t = xh_tree_new(m->o, say);
    if (!t)
        return xh_tool_fail(XH_EXIT_FAILED, "out of memory");
    for (int i = 0; i < m->n; i++) {
        int code;
        if (!xh_cache_is_url(m->urls[i])) {
            if ((code = add_catalogue(t, m->urls[i])) != 0)
                return code;
            continue;
        }
        if (xh_tree_is_directory(m->urls[i])) {
            if (m->n > 1)
                return xh_tool_usage("%s is a directory: it is mounted alone", xh_shown(m->urls[i], 1024));
            if (xh_tree_root(t, m->urls[i], &err) != 0)
                return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
            break;
        }
        if (xh_tree_name(m->urls[i], name) != 0)
            return xh_tool_usage("%s ends without the name of a file", xh_shown(m->urls[i], 1024));
        if (xh_tree_add(t, name, m->urls[i], &err) != 0)
            return xh_tool_usage("%s", err.text);
    }
    if (xh_tree_begin(t, &err) != 0) /* the tree has said it */
        return XH_EXIT_FAILED;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (xh_fuse_mount(m->dir, xh_shown(m->urls[0], 1024), t, &f, &err) != 0) {
        xh_tree_close(t);
        return xh_tool_fail(XH_EXIT_FAILED, "%s", err.text);
    }
    return serve(m, t, f, &ends);
}

/* Waits until the child says that DIR can be used, or ends. Returns the exit code. */
static int wait_for(int started)
{
    char code;
    if (xh_retry(read(started, &code, sizeof code)) == sizeof code)
        return code;
    return xh_tool_fail(XH_EXIT_FAILED, "the process that was to serve it has died");
}

static int in_background(struct mounting *m)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return xh_tool_fail(XH_EXIT_FAILED, "pipe: %s", strerror(errno));
    pid_t child = fork(); /* before there are threads */
    if (child < 0)
        return xh_tool_fail(XH_EXIT_FAILED, "fork: %s", strerror(errno));
    if (child > 0) {
        close(ends[1]);
        return wait_for(ends[0]);
    }
    close(ends[0]);
    m->started = fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    char code = (char)run(m);
    /* In vain once DIR could be used. */
    if (code != XH_EXIT_OK)
        (void)!write(ends[1], &code, sizeof code);
    exit(code);
}

/* Returns 1 when the last that was mounted on |dir| is a mount of this command, and sets |source| to what it shows. */
static int is_ours(const char *dir, char *source, size_t room)
{
    struct mntent entry;
    char text[8192];
    int ours = 0;
    FILE *table = setmntent("/proc/self/mounts", "re");
    while (table && getmntent_r(table, &entry, text, sizeof text))
        if (strcmp(entry.mnt_dir, dir) == 0) {
            ours = strcmp(entry.mnt_type, "fuse.xhdf5") == 0;
            snprintf(source, room, "%s", entry.mnt_fsname);
        }
    if (table)
        endmntent(table);
    return ours;
}

static int run_command(int argc, char **argv, const struct xh_options *o)
{
    struct mounting m = {.o = o, .started = -1, .log_fd = -1};
    const struct xh_tool_option options[] = {{"foreground", 'f', .flag = &m.foreground}, {"log", 'l', .value = &m.log}};
    XH_TOOL_OPTIONS(argc, argv, options);
    if (argc - optind < 2)
        return xh_tool_usage("URLs and a directory are wanted");
    m.urls = argv + optind;
    m.n = argc - optind - 1;
    for (; optind < argc - 1; optind++)
        if (!xh_cache_is_url(argv[optind]) && access(argv[optind], R_OK) != 0) {
            char why[XH_NO_URL_BYTES];
            const char *reason = strerror(errno);
            return xh_tool_usage("%s; as a catalogue it cannot be read: %s", xh_mistaken_no_url(argv[optind], why),
                                 reason);
        }
    const char *dir = argv[optind];
    /* The kernel remembers the status of one that has died. */
    int there = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (there < 0 && errno == ENOTCONN)
        return xh_tool_fail(XH_EXIT_FAILED, "%s: what was mounted there has died; fusermount3 -u %s removes it", dir,
                            dir);
    if (there < 0 || !(m.dir = realpath(dir, NULL)))
        return xh_tool_fail(XH_EXIT_FAILED, "%s: %s", dir, strerror(errno));
    close(there);
    char source[256];
    if (is_ours(m.dir, source, sizeof source)) /* the kernel would put the new one over it, and both would be served */
        return xh_tool_fail(XH_EXIT_FAILED,
                            "%s shows %s already, by another xhdf5 mount: fusermount3 -u %s ends it; or mount in "
                            "another directory", dir, source, dir);
    if (open_log(&m) != 0)
        return XH_EXIT_FAILED;
    int code = m.foreground ? run(&m) : in_background(&m);
    free(m.dir);
    return code;
}

const struct xh_verb xh_tool_mount = {"mount", help, run_command};
