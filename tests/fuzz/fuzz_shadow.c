/* A shadow whose file somebody scribbles over, at rest and in use: the input is a script of what is done to it and
 * what its readers do meanwhile. Whatever the file holds, a byte that is read is the origin's. An input whose last byte
 * is odd is about the disk cache's directory. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "shadow/image.h"
#include "shadow/evict.h"
#include "shadow/impl.h"

#define URL "https://h.example/d/f.h5"
#define VALIDATOR "etag:\"1\""
#define OTHER "s-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
enum { PAGES = 7, SIZE = 6 * XH_PAGE_BYTES + 100, STEPS = 300 };

/* The two kinds of directory, below one. Their files have the same names. */
static struct place {
    struct xh_options opt;
    const char *layout;
    uint8_t sound[65536]; /* the file as it was made, with pages 0, 1, 4 and the last */
    size_t sound_bytes;
} memory = {.layout = XH_LAYOUT_DIR}, disk = {.layout = XH_LAYOUT_DISK_DIR}, *in_use;
static char dir[64], name[XH_NAME_BYTES], hint[XH_NAME_BYTES];

/* ---- the script */

struct script {
    const uint8_t *p;
    size_t left;
};

static uint64_t take(struct script *s, size_t bytes)
{
    uint64_t v = 0;
    for (; bytes && s->left; bytes--, s->left--)
        v = v << 8 | *s->p++;
    return v;
}

/* ---- the file, as somebody sees it who does not keep to the rules */

static int open_file(const char *which)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s/%s", dir, in_use->layout, which);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void put(const char *which, uint64_t off, const void *bytes, size_t n)
{
    int fd = open_file(which);
    hold(fd >= 0 && pwrite(fd, bytes, n, (off_t)off) == (ssize_t)n, "the file cannot be written");
    close(fd);
}

static void put_script(const char *which, uint64_t off, struct script *s, size_t most)
{
    size_t n = s->left < most ? s->left : most;
    put(which, off, s->p, n);
    s->p += n;
    s->left -= n;
}

static void copy(uint64_t from, uint64_t to, size_t n)
{
    uint8_t bytes[XH_PAGE_BYTES];
    int fd = open_file(name);
    ssize_t got = fd < 0 ? -1 : pread(fd, bytes, n, (off_t)from);
    hold(got <= 0 || pwrite(fd, bytes, (size_t)got, (off_t)to) == got, "the file cannot be written");
    close(fd);
}

static void cut(const char *which, uint64_t bytes)
{
    int fd = open_file(which);
    hold(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "the file cannot be cut");
    close(fd);
}

/* A word that makes sense by itself. |owner|: this process's number, or any. */
static void put_word(uint64_t idx, uint64_t flags, uint32_t owner)
{
    uint64_t w = (uint64_t)owner << XH_W_OWNER_SHIFT | (flags & 63) | (flags >> 6 & 3) << 32;
    put(name, XH_HEADER_MIN_BYTES + idx * 8, &w, sizeof w);
}

/* ---- its readers */

static uint8_t truth(uint64_t off)
{
    return (uint8_t)(off * 0x9e3779b97f4a7c15u >> 40);
}

static size_t page_len(uint64_t idx)
{
    return idx + 1 < PAGES ? XH_PAGE_BYTES : SIZE - (PAGES - 1) * XH_PAGE_BYTES;
}

static size_t read_page(struct xh_shadow *s, uint64_t idx)
{
    uint8_t page[XH_PAGE_BYTES];
    size_t n = xh_shadow_read(s, idx * XH_PAGE_BYTES, page, page_len(idx));
    for (size_t i = 0; i < n; i++)
        hold(page[i] == truth(idx * XH_PAGE_BYTES + i), "a byte that is not the origin's");
    return n;
}

/* What is published can be read, unless the file was cut off under its mapping. */
static void fetch(struct xh_shadow *s, uint64_t idx, int meta, int abandon)
{
    uint8_t page[XH_PAGE_BYTES];
    if (xh_shadow_claim(s, idx, meta, NULL) != XH_CLAIM_MINE)
        return;
    for (size_t i = 0; i < page_len(idx); i++)
        page[i] = truth(idx * XH_PAGE_BYTES + i);
    if (abandon || xh_shadow_fill(s, idx * XH_PAGE_BYTES, page, page_len(idx))) {
        xh_shadow_abandon(s, idx, 1);
        return;
    }
    xh_shadow_publish(s, idx, 1, NULL);
    hold(read_page(s, idx) == page_len(idx) || !xh_shadow_usable(s), "a page that was published is not there");
}

static void read_some(struct xh_shadow *s, uint64_t off, uint64_t len)
{
    static uint8_t buf[SIZE];
    off %= SIZE;
    len = len % (SIZE - off) + 1;
    size_t n = xh_shadow_read(s, off, buf, (size_t)len);
    hold(n <= len, "more than was asked for");
    for (size_t i = 0; i < n; i++)
        hold(buf[i] == truth(off + i), "a byte that is not the origin's");
}

static int remove_sometimes(void *ctx, const struct xh_image_info *i)
{
    hold(memchr(i->url_shown, '\0', sizeof i->url_shown) && memchr(i->validator, '\0', sizeof i->validator),
         "a text without an end");
    hold(i->flaw || i->meta_pages + i->raw_pages <= (i->origin_bytes + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES,
         "more pages than there are");
    if (*(uint64_t *)ctx & 1)
        xh_image_remove(&in_use->opt, i, NULL);
    return 0;
}

static void look_from_outside(uint64_t how)
{
    static uint8_t buf[XH_IMAGE_RUN_PAGES * XH_PAGE_BYTES], good[XH_IMAGE_RUN_PAGES];
    struct xh_image_run r;
    uint64_t end = 0;
    xh_image_each(&in_use->opt, remove_sometimes, &how, NULL);
    struct xh_image *m = xh_image_open(&in_use->opt, URL, VALIDATOR, SIZE);
    while (m && xh_image_next(m, &r)) {
        hold(r.count && r.first >= end && r.count <= PAGES && r.first <= PAGES - r.count, "a run that is none");
        end = r.first + r.count;
        xh_image_read(m, &r, buf, good);
    }
    xh_image_close(m);
}

/* |open|: the shadow that saves a sound one, which is then scribbled over; NULL: none. */
static void load_hint(struct script *s, struct xh_shadow *open)
{
    char text[XH_HINT_BYTES], head[200];
    int n = snprintf(head, sizeof head, "xhdf5-hint 1\n%s\n", name);
    uint64_t how = take(s, 1);
    cut(hint, 0);
    if (how & 2 && open) {
        snprintf(text, sizeof text, "%.*s", (int)(s->left < 40 ? s->left : 40), (const char *)s->p);
        xh_shadow_hint_save(open, text);
        n = (int)take(s, 1);
    } else if (how & 1)
        put(hint, 0, head, (size_t)n);
    put_script(hint, how & 3 ? (uint64_t)n : 0, s, (size_t)(how & 0xf8) << 4);
    size_t len = xh_shadow_hint_load(URL, &in_use->opt, text);
    hold(len < sizeof text && strlen(text) == len, "a hint without an end");
    struct xh_shadow_version last;
    if (xh_shadow_last(URL, &in_use->opt, &last))
        hold(last.size == SIZE && strcmp(last.validator, VALIDATOR) == 0 && strlen(last.hint) < sizeof last.hint,
             "offline, a version that never was");
}

static struct xh_shadow *open_shadow(void)
{
    struct xh_shadow *s = NULL;
    hold(xh_shadow_open(URL, VALIDATOR, SIZE, &in_use->opt, &s, NULL) == 0, "no shadow, not even a private one");
    return s;
}

/* Closes |*s| if it is open, else opens it. */
static void open_or_close(struct xh_shadow **s)
{
    if (*s)
        xh_shadow_close(*s);
    *s = *s ? NULL : open_shadow();
}

/* ---- steps */

static void damage(struct script *in, struct xh_shadow *s, uint64_t what)
{
    uint64_t a = take(in, 2), b;
    switch (what) {
    case 0: put_script(name, a, in, (size_t)take(in, 1) % 32 + 1); break;
    case 1: put_script(name, XH_HEADER_MIN_BYTES + a % (2 * PAGES) * 8, in, 8); break;
    case 2: put_word(a % PAGES, take(in, 1), s && a & 0x8000 ? atomic_load(&s->owner) : (uint32_t)take(in, 4)); break;
    case 3: b = take(in, 2); copy(a, b, (size_t)take(in, 2) % XH_PAGE_BYTES + 1); break;
    case 4: cut(name, a); break;
    case 5: cut(name, in_use->sound_bytes); break;
    case 6: put_script(OTHER, a % 4096, in, 64); break;
    default: put(a & 1 ? OTHER : name, 0, in_use->sound, a & 2 ? sizeof(struct xh_layout_head) : in_use->sound_bytes);
    }
}

static void use(struct script *in, struct xh_shadow *s, uint64_t what)
{
    uint64_t a = take(in, 2), empty;
    switch (what) {
    case 8: read_some(s, a, take(in, 2)); break;
    case 9: fetch(s, a % PAGES, a >> 8 & 1, a >> 9 & 1); break;
    case 10: xh_shadow_wait(s, a % PAGES, 0, NULL); break;
    case 11: xh_evict_squeeze(s, a, a & 1, NULL); break;
    case 12:
        hold(xh_shadow_touch(s, a % PAGES, PAGES - a % PAGES, &empty) <= PAGES && empty <= PAGES,
             "more pages than asked");
        xh_shadow_elsewhere(s, a % PAGES);
        break;
    default:
        hold(xh_shadow_readers(s) <= XH_READERS_MOST, "more readers than are counted");
        xh_shadow_shared(s);
    }
}

static void make(struct place *p)
{
    struct stat st;
    in_use = p;
    struct xh_shadow *s = open_shadow();
    hold(!xh_shadow_private(s), "no tmpfs");
    for (uint64_t i = 0; i < PAGES; i++)
        if (i < 2 || i == 4 || i + 1 == PAGES)
            fetch(s, i, i == 0, 0);
    snprintf(name, sizeof name, "%s", s->name);
    snprintf(hint, sizeof hint, "u-%s", s->url_hex);
    xh_shadow_close(s);
    int fd = open_file(name);
    hold(fstat(fd, &st) == 0 && (size_t)st.st_size <= sizeof p->sound, "it is larger than was thought");
    p->sound_bytes = (size_t)st.st_size;
    hold(pread(fd, p->sound, p->sound_bytes, 0) == st.st_size, "it cannot be read");
    close(fd);
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/dev/shm/fuzz-shadow-%d", (int)getpid());
    xh_options_defaults(&memory.opt);
    snprintf(memory.opt.shadow_dir, sizeof memory.opt.shadow_dir, "%s", dir);
    snprintf(memory.opt.disk_cache_dir, sizeof memory.opt.disk_cache_dir, "%s", dir);
    memory.opt.shadow_budget_bytes = memory.opt.disk_cache_bytes = 1u << 20;
    hold(xh_shadow_on_disk(&memory.opt, &disk.opt), "no disk cache");
    make(&memory);
    make(&disk);
}

static void end(void)
{
    char cmd[100];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    (void)!system(cmd);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    struct script in = {p, size};
    struct xh_shadow *s = NULL;
    if (!dir[0]) {
        begin();
        atexit(end);
    }
    in_use = size && p[size - 1] & 1 ? &disk : &memory;
    cut(name, 0);
    put(name, 0, in_use->sound, in_use->sound_bytes);
    cut(OTHER, 0);
    for (int step = 0; step < STEPS && in.left; step++) {
        uint64_t what = take(&in, 1) % 17;
        if (what < 8)
            damage(&in, s, what);
        else if (what < 14 && s)
            use(&in, s, what);
        else if (what == 14)
            look_from_outside(take(&in, 1));
        else if (what == 15)
            load_hint(&in, s);
        else
            open_or_close(&s);
    }
    if (s)
        xh_shadow_close(s);
    /* Whatever was done to it: who opens it next shares again. */
    s = open_shadow();
    hold(!xh_shadow_private(s), "nobody shares any more");
    for (uint64_t i = 0; i < PAGES; i++)
        if (read_page(s, i) < page_len(i)) {
            xh_shadow_wait(s, i, 0, NULL);
            fetch(s, i, 0, 0);
        }
    xh_shadow_close(s);
    return 0;
}
