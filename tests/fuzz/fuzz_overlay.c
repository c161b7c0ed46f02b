/* The record of what was written to a remote file: the input is a file that "xhdf5 recover" believes. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "overlay/overlay.h"

#define ID "0123456789abcdef"

static struct xh_options opt;
static char dir[sizeof opt.overlay_dir / 2];

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%.300s/" ID "%s%s", dir, *name ? "/" : "", name);
}

static void put(const char *name, const uint8_t *p, size_t n)
{
    char path[400];
    path_of(path, sizeof path, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    hold(fd >= 0 && (!n || write(fd, p, n) == (ssize_t)n), "the file cannot be written");
    close(fd);
}

static void end(void)
{
    static const char *const names[] = {"data", "base", "record", "record.new", "alive", ""};
    char path[400];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, sizeof path, names[i]);
        remove(path);
    }
    rmdir(dir);
}

static void begin(void)
{
    char path[400];
    xh_options_defaults(&opt);
    snprintf(dir, sizeof dir, "%s/xh-fuzz-overlay-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    hold(mkdtemp(dir) != NULL, "no directory");
    atexit(end);
    snprintf(opt.overlay_dir, sizeof opt.overlay_dir, "%s", dir);
    path_of(path, sizeof path, "");
    hold(mkdir(path, 0700) == 0, "no directory");
    put("data", (const uint8_t *)"data", 4);
    put("base", (const uint8_t *)"base", 4);
    put("alive", NULL, 0);
}

static void check_set(const struct xh_extents *s)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        hold(s->at[i].off < s->at[i].end && s->at[i].end <= INT64_MAX, "an extent that no file has");
        hold(i == 0 || s->at[i - 1].end <= s->at[i].off, "extents that overlap");
        bytes += s->at[i].end - s->at[i].off;
    }
    hold(bytes == s->bytes, "extents that do not add up");
}

/* The record as it is now. */
static char *record(size_t *n)
{
    char path[400];
    struct stat st;
    path_of(path, sizeof path, "record");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    hold(fd >= 0 && fstat(fd, &st) == 0, "there is no record");
    char *text = malloc((size_t)st.st_size + 1);
    hold(text && read(fd, text, (size_t)st.st_size) == st.st_size, "the record cannot be read");
    close(fd);
    *n = (size_t)st.st_size;
    return text;
}

static void check(const struct xh_overlay *v)
{
    check_set(&v->have);
    check_set(&v->dirty);
    check_set(&v->seen);
    hold(v->url != NULL && v->base_limit <= v->base_size && v->size <= INT64_MAX, "a record that makes no sense");
    hold(v->have.n == 0 || v->have.at[v->have.n - 1].end <= v->size, "bytes behind the end");
    hold(v->dirty.n == 0 || v->dirty.at[v->dirty.n - 1].end <= v->size, "bytes behind the end");
    hold(v->mode >= XH_OVERLAY_EDIT && v->mode <= XH_OVERLAY_REPLACE, "a mode that there is not");
    hold(v->state <= XH_OVERLAY_WITHHELD, "a state that there is not");
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    struct xh_overlay *v = NULL, *again = NULL;
    struct xh_err err = {0};
    char byte;
    if (!*dir)
        begin();
    put("record", p, size);
    hold(xh_overlay_open(&opt, ID, &v, &err) == 0, "what somebody wrote into the record keeps it from being dropped");
    if (v->readable) {
        check(v);
        hold(v->have.n == 0 || v->have.at[0].end <= 4 || xh_overlay_read(v, v->have.at[0].end - 1, &byte, 1, &err) != 0,
             "bytes that are not there");
        /* What it writes is read as the same. */
        size_t n, m;
        hold(xh_overlay_save(v, v->state, 0, &err) == 0, "it cannot be saved");
        char *was = record(&n);
        xh_overlay_close(v, 1);
        hold(xh_overlay_open(&opt, ID, &v, &err) == 0 && v->readable, "its own record is refused");
        check(v);
        hold(xh_overlay_open(&opt, ID, &again, &err) == XH_E_INVAL, "two have it open");
        hold(xh_overlay_save(v, v->state, 0, &err) == 0, "it cannot be saved");
        char *is = record(&m);
        hold(n == m && memcmp(was, is, n) == 0, "its own record is read as another");
        free(was);
        free(is);
    }
    xh_overlay_close(v, 1);
    return 0;
}
