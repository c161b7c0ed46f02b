/* Hints: what this user last knew of a URL. Each is a file "u-<hex SHA-256 of the URL>".
 *
 * A hint has three lines: the tag, the shadow's file name, the opaque text. It is written under a temporary name and
 * renamed, so a reader finds the old hint or the new one. A hint without its shadow does not count: the bytes for
 * which it would save a request are gone. In the disk cache a line with the text's sum comes before the text. This code
 * knows nothing of the text's meaning. Threads, processes: any. */
#include "hint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "watch/trace.h"
#include "impl.h"
#include "directory.h"
#include "store.h"
#include "sum.h"

#define TAG "xhdf5-hint 1\n"
#define FILE_BYTES (sizeof TAG + XH_NAME_BYTES + XH_HINT_BYTES)

/* Reads the hint file into |buf|. Returns its text in |buf|, or NULL when it is no sound hint. |name| gets the
 * shadow's name. */
static char *load(int dirfd, const char *file, char buf[FILE_BYTES], char name[XH_NAME_BYTES])
{
    struct stat st;
    char *text = NULL;
    int fd = openat(dirfd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) ||
        st.st_size <= 0 || st.st_size >= (off_t)FILE_BYTES)
        goto out;
    ssize_t n = read(fd, buf, FILE_BYTES - 1);
    if (n != st.st_size || memchr(buf, '\0', (size_t)n))
        goto out;
    buf[n] = '\0';
    if (strncmp(buf, TAG, sizeof TAG - 1) != 0)
        goto out;
    char *from = buf + sizeof TAG - 1, *end = strchr(from, '\n');
    if (!end || end - from >= XH_NAME_BYTES)
        goto out;
    *end = '\0';
    if (!xh_store_is_name(from, 's') || strlen(end + 1) >= XH_HINT_BYTES)
        goto out;
    memcpy(name, from, strlen(from) + 1);
    text = end + 1;
out:
    close(fd);
    return text;
}

#define SUM_LINE "%016llx\n"
#define SUM_BYTES 17

/* The sum of the hint |text| in the disk cache's file |file|. */
static unsigned long long sum_of(const char *file, const char *text)
{
    char key[17];
    snprintf(key, sizeof key, "%.16s", file + 2);
    return xh_sum_page(strtoull(key, NULL, 16), 0, text, strlen(text));
}

/* Returns |text| without the line with its sum; NULL when it has another. */
static char *proved(const char *file, char *text)
{
    char sum[SUM_BYTES + 1];
    if (strlen(text) < SUM_BYTES)
        return NULL;
    snprintf(sum, sizeof sum, SUM_LINE, sum_of(file, text + SUM_BYTES));
    return strncmp(text, sum, SUM_BYTES) == 0 ? text + SUM_BYTES : NULL;
}

/* load(), of what |o| means: in the disk cache a hint that its sum proves. */
static char *load_proved(const struct xh_options *o, int dirfd, const char *file, char buf[FILE_BYTES],
                         char name[XH_NAME_BYTES])
{
    char *text = load(dirfd, file, buf, name);
    return text && o->on_disk ? proved(file, text) : text;
}

static int shadow_there(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

int xh_hint_orphan(int dirfd, const char *name)
{
    char buf[FILE_BYTES], shadow[XH_NAME_BYTES];
    return !load(dirfd, name, buf, shadow) || !shadow_there(dirfd, shadow);
}

size_t xh_shadow_hint_load(const char *url, const struct xh_options *o, char out[XH_HINT_BYTES])
{
    char buf[FILE_BYTES], name[XH_NAME_BYTES], file[XH_NAME_BYTES];
    size_t len = 0;
    out[0] = '\0';
    int dirfd = xh_directory_place('u', url, o, 0, file);
    if (dirfd < 0)
        return 0;
    char *text = load_proved(o, dirfd, file, buf, name);
    if (text && shadow_there(dirfd, name)) {
        len = strlen(text);
        memcpy(out, text, len + 1);
    }
    close(dirfd);
    return len;
}

int xh_shadow_last(const char *url, const struct xh_options *o, struct xh_shadow_version *out)
{
    char buf[FILE_BYTES], name[XH_NAME_BYTES], file[XH_NAME_BYTES], *text = NULL;
    struct xh_shadow *s = calloc(1, sizeof *s), *same = calloc(1, sizeof *same); /* only for their heads and names */
    int there = 0;
    if (s && same && (s->dirfd = xh_directory_place('u', url, o, 0, file)) >= 0) {
        text = load_proved(o, s->dirfd, file, buf, name);
        if ((there = text != NULL))
            memcpy(s->name, name, sizeof s->name);
        there = there && xh_store_describe_existing(s, o->on_disk) == 0 &&
                memchr(s->head.validator, '\0', sizeof s->head.validator) &&
                xh_store_describe(same, url, s->head.validator, s->head.origin_bytes, o->on_disk) == 0 &&
                strcmp(same->name, name) == 0;
        close(s->dirfd);
    }
    if (there) {
        memcpy(out->validator, s->head.validator, sizeof s->head.validator);
        out->size = s->head.origin_bytes;
        snprintf(out->hint, sizeof out->hint, "%s", text);
    }
    free(s);
    free(same);
    return there;
}

void xh_shadow_hint_forget(const char *url, const struct xh_options *o)
{
    char file[XH_NAME_BYTES];
    int dirfd = xh_directory_place('u', url, o, 0, file);
    if (dirfd < 0)
        return;
    unlinkat(dirfd, file, 0);
    close(dirfd);
}

/* Returns 0 or -1. */
static int save(struct xh_shadow *s, const char *file, const char *text)
{
    char buf[FILE_BYTES], temp[XH_NAME_BYTES], sum[SUM_BYTES + 1] = "";
    if (!xh_shadow_usable(s) || !xh_own_is_there(&s->own_dir) || strlen(text) >= XH_HINT_BYTES)
        return -1;
    if (s->head.on_disk)
        snprintf(sum, sizeof sum, SUM_LINE, sum_of(file, text));
    int len = snprintf(buf, sizeof buf, TAG "%s\n%s%s", s->name, sum, text);
    if (len >= (int)sizeof buf || !xh_may_write((uint64_t)len))
        return -1;
    xh_store_temp_name(temp);
    int fd = xh_open_own(s->dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, buf, (size_t)len);
    close(fd);
    if (n == len && renameat(s->dirfd, temp, s->dirfd, file) == 0)
        return 0;
    unlinkat(s->dirfd, temp, 0);
    return -1;
}

/* 1 when the hint that is there is of this version. */
static int is_of_this(const struct xh_shadow *s, const char *file)
{
    char buf[FILE_BYTES], name[XH_NAME_BYTES];
    return load(s->dirfd, file, buf, name) && strcmp(name, s->name) == 0;
}

void xh_shadow_hint_save(struct xh_shadow *s, const char *text)
{
    char file[XH_NAME_BYTES];
    if (s->private_)
        return;
    snprintf(file, sizeof file, "u-%s", s->url_hex);
    if (save(s, file, text)) { /* none rather than one of an older version, which would be read offline */
        xh_trace(XH_T_SHADOW, "hint_failed", "errno=%d", errno);
        if (!is_of_this(s, file))
            unlinkat(s->dirfd, file, 0);
    }
}
