/* Shadows seen from outside: what is listed is what is there, and nothing that lies in the directory
 * harms who lists it. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shadow/image.h"
#include "shadow/clock.h"
#include "shadow/impl.h"
#include "scratch.h"

#define PAGE XH_PAGE_BYTES
#define URL "https://user:pw@h.example/d/f.h5?token=secret"
#define SHOWN "https://h.example/d/f.h5"
#define VALIDATOR "etag:\"1\""
#define SIZE (1000 * PAGE + 10)

static void setup(void)
{
    scratch_begin("/dev/shm/test-image");
    strcpy(opt.shadow_dir, dir);
    opt.shadow_budget_bytes = 1u << 30;
}

TestSuite(image, .init = setup, .fini = scratch_end, .timeout = 60);

/* ---- helpers ------------------------------------------------------------------------------- */

static uint8_t truth(uint64_t off)
{
    return (uint8_t)(off * 0x9e3779b97f4a7c15ull >> 40);
}

static struct xh_shadow *open_shadow(void)
{
    struct xh_shadow *s = NULL;
    cr_assert_eq(xh_shadow_open(URL, VALIDATOR, SIZE, &opt, &s, NULL), 0);
    cr_assert(!xh_shadow_private(s));
    return s;
}

static void put(struct xh_shadow *s, uint64_t first, uint64_t n, int meta)
{
    uint8_t buf[PAGE];
    for (uint64_t p = first; p < first + n; p++) {
        uint64_t len = SIZE - p * PAGE < PAGE ? SIZE - p * PAGE : PAGE;
        for (uint64_t i = 0; i < len; i++)
            buf[i] = truth(p * PAGE + i);
        cr_assert_eq(xh_shadow_claim(s, p, meta, NULL), XH_CLAIM_MINE);
        cr_assert_eq(xh_shadow_fill(s, p * PAGE, buf, len), 0);
        xh_shadow_publish(s, p, 1, NULL);
    }
}

struct seen {
    int n;
    struct xh_image_info last;
};

static int note(void *ctx, const struct xh_image_info *i)
{
    struct seen *s = ctx;
    s->n++;
    s->last = *i;
    return 0;
}

static struct seen list(void)
{
    static struct seen s;
    struct xh_err err = {0};
    s = (struct seen){0};
    cr_assert_eq(xh_image_each(&opt, note, &s, &err), 0, "%s", err.text);
    return s;
}

/* A shadow that is closed, with 7 pages. Returns the path of its file. */
static const char *make_one(void)
{
    static char path[300];
    struct xh_shadow *s = open_shadow();
    put(s, 0, 2, 1);
    put(s, 600, 5, 0);
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, s->name);
    xh_shadow_close(s);
    return path;
}

static void write_at(const char *path, uint64_t off, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, bytes, n, (off_t)off) == (ssize_t)n);
    close(fd);
}

/* Goes through all that may be read of the one shadow. Returns the pages that were good. */
static uint64_t read_everything(const char *validator)
{
    static uint8_t buf[XH_IMAGE_RUN_PAGES * PAGE], good[XH_IMAGE_RUN_PAGES];
    struct xh_image *m = xh_image_open(&opt, URL, validator, SIZE);
    struct xh_image_run r;
    uint64_t n = 0, end = 0;
    while (m && xh_image_next(m, &r)) {
        cr_assert(r.count > 0 && r.count <= XH_IMAGE_RUN_PAGES && r.first >= end);
        cr_assert(r.first + r.count <= SIZE / PAGE + 1);
        end = r.first + r.count;
        xh_image_read(m, &r, buf, good);
        for (uint64_t i = 0; i < r.count; i++)
            n += good[i] != 0;
    }
    xh_image_close(m);
    return n;
}

/* ---- what is there ------------------------------------------------------------------------- */

Test(image, no_directory_is_no_shadow)
{
    cr_assert_eq(list().n, 0);
}

Test(image, a_shadow_is_listed_with_what_it_holds_and_without_secrets)
{
    struct xh_shadow *s = open_shadow();
    put(s, 0, 3, 1);
    put(s, 3, 1, 0);
    put(s, 700, 300, 0);
    put(s, 1000, 1, 0); /* 10 bytes long */
    cr_assert_eq(xh_shadow_claim(s, 20, 0, NULL), XH_CLAIM_MINE);
    struct seen l = list();
    cr_assert_eq(l.n, 1);
    cr_assert_null(l.last.flaw);
    cr_assert_str_eq(l.last.url_shown, SHOWN);
    cr_assert_str_eq(l.last.validator, VALIDATOR);
    cr_assert_eq(l.last.origin_bytes, SIZE);
    cr_assert_eq(l.last.meta_pages, 3);
    cr_assert_eq(l.last.raw_pages, 302);
    cr_assert_eq(l.last.meta_bytes, 3 * PAGE);
    cr_assert_eq(l.last.raw_bytes, 301 * PAGE + 10);
    cr_assert_geq(l.last.taken_bytes, 305 * PAGE);
    cr_assert_eq(l.last.readers, 1);
    cr_assert(xh_image_is_of(&l.last, URL) && xh_image_is_of(&l.last, SHOWN));
    cr_assert(!xh_image_is_of(&l.last, "https://h.example/d/f.h5?token=other"));
    xh_shadow_abandon(s, 20, 1);
    xh_shadow_close(s);
    cr_assert_eq(list().last.readers, 0);
}

Test(image, its_pages_are_the_origins)
{
    static uint8_t buf[XH_IMAGE_RUN_PAGES * PAGE], good[XH_IMAGE_RUN_PAGES];
    struct xh_image_run r;
    make_one();
    struct xh_image *m = xh_image_open(&opt, URL, VALIDATOR, SIZE);
    cr_assert_not_null(m);
    for (int i = 0; i < 2; i++) {
        cr_assert(xh_image_next(m, &r));
        cr_assert_eq(r.first, i ? 600 : 0);
        cr_assert_eq(r.count, i ? 5 : 2);
        cr_assert_eq(r.meta, i == 0);
        xh_image_read(m, &r, buf, good);
        for (uint64_t k = 0; k < r.count * PAGE; k++)
            cr_assert(good[k / PAGE] && buf[k] == truth(r.first * PAGE + k));
    }
    cr_assert(!xh_image_next(m, &r));
    xh_image_close(m);
    cr_assert_null(xh_image_open(&opt, URL, "etag:\"2\"", SIZE), "another version's");
}

Test(image, a_page_that_is_evicted_before_it_is_read_is_not_good)
{
    static uint8_t buf[XH_IMAGE_RUN_PAGES * PAGE], good[XH_IMAGE_RUN_PAGES];
    struct xh_shadow *s = open_shadow();
    struct xh_image_run r;
    uint64_t unit = s->head.unit_bytes / PAGE, left = 0; /* what one of the kernel's pages holds goes together */
    put(s, 0, 2 * unit, 0);
    struct xh_image *m = xh_image_open(&opt, URL, VALIDATOR, SIZE);
    cr_assert(m && xh_image_next(m, &r) && r.count == 2 * unit);
    cr_assert_geq(xh_clock_sweep(s, PAGE, 0, NULL), PAGE);
    xh_image_read(m, &r, buf, good);
    for (uint64_t i = 0; i < r.count; i++)
        left += good[i];
    cr_assert_eq(left, unit);
    xh_image_close(m);
    xh_shadow_close(s);
}

Test(image, what_readers_found_is_told_once_they_say_it_and_survives_them)
{
    struct xh_shadow *s = open_shadow();
    xh_shadow_tell_hits(s, 0);
    cr_assert_eq(list().last.hit_bytes, 0);
    xh_shadow_tell_hits(s, 4000);
    xh_shadow_close(s);
    s = open_shadow();
    xh_shadow_tell_hits(s, 96);
    xh_shadow_close(s);
    cr_assert_eq(list().last.hit_bytes, 4096);
}

Test(image, one_of_a_vast_file_costs_only_what_it_holds, .timeout = 10)
{
    struct xh_shadow *s = NULL;
    struct xh_image_run r;
    uint64_t size = 1ull << 45, last = size / PAGE - 1;
    int fd = memfd_create("words", 0);
    cr_assert_eq(ftruncate(fd, (off_t)(size / PAGE * 16)), 0);
    void *words = mmap(NULL, size / PAGE * 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        cr_skip_test("no address space for the words of so many pages: qemu-user's, or a limit");
    munmap(words, size / PAGE * 16);
    close(fd);
    cr_assert_eq(xh_shadow_open(URL, VALIDATOR, size, &opt, &s, NULL), 0);
    for (int i = 0; i < 2; i++) {
        uint64_t idx = i ? last : last / 2;
        cr_assert_eq(xh_shadow_claim(s, idx, 0, NULL), XH_CLAIM_MINE);
        cr_assert_eq(xh_shadow_fill(s, idx * PAGE, (uint8_t[PAGE]){1}, PAGE), 0);
        xh_shadow_publish(s, idx, 1, NULL);
    }
    cr_assert_eq(list().last.raw_pages, 2);
    struct xh_image *m = xh_image_open(&opt, URL, VALIDATOR, size);
    cr_assert(m && xh_image_next(m, &r) && r.first == last / 2 && r.count == 1);
    cr_assert(xh_image_next(m, &r) && r.first == last && r.count == 1);
    cr_assert(!xh_image_next(m, &r));
    xh_image_close(m);
    xh_shadow_close(s);
}

Test(image, runs_end_where_pages_are_missing_or_of_another_kind_and_at_blocks_no_earlier)
{
    struct xh_image_run r;
    struct xh_shadow *s = open_shadow();
    uint64_t first[] = {5, 10, 500, 756, 990}, count[] = {5, 1, 256, 4, 2};
    put(s, 5, 5, 0);
    put(s, 10, 1, 1);
    put(s, 500, 260, 0); /* longer than a run, and across two blocks of words */
    put(s, 990, 2, 0);
    struct xh_image *m = xh_image_open(&opt, URL, VALIDATOR, SIZE);
    cr_assert_not_null(m);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        cr_assert(xh_image_next(m, &r));
        cr_assert_eq(r.first, first[i]);
        cr_assert_eq(r.count, count[i]);
        cr_assert_eq(r.meta, i == 1);
    }
    cr_assert(!xh_image_next(m, &r));
    xh_image_close(m);
    xh_shadow_close(s);
}

/* ---- locks --------------------------------------------------------------------------------- */

/* What /proc/locks has, from one reading to the next; the last one stays. NULL: what it has. The linker redirects
 * here. */
static const char *const *locks;

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (!locks || strcmp(path, "/proc/locks") != 0)
        return __real_fopen(path, mode);
    const char *text = *locks;
    locks += locks[1] != NULL;
    return fmemopen((void *)text, strlen(text), "r");
}

FILE *__wrap_fopen64(const char *path, const char *mode)
{
    return __wrap_fopen(path, mode);
}

Test(image, readers_that_the_kernel_passes_over_or_tells_twice_are_counted_once)
{
    char one[400], two[800], three[1200], line[300];
    struct stat st;
    cr_assert_eq(stat(make_one(), &st), 0);
    snprintf(line, sizeof line, ": OFDLCK ADVISORY  READ -1 %02x:%02x:%llu %llu %llu\n", major(st.st_dev),
             minor(st.st_dev), (unsigned long long)st.st_ino, XH_LOCK_OPEN, XH_LOCK_OPEN);
    snprintf(one, sizeof one, "1: POSIX  ADVISORY  WRITE 17 00:19:5 0 EOF\n2%s", line);
    snprintf(two, sizeof two, "1%s2%s", line, line);
    snprintf(three, sizeof three, "1%s2: FLOCK  ADVISORY  READ 17 00:19:5 0 EOF\n3%s4%s", line, line, line);
    const char *const told[] = {one, three, two, three, two, two, one, two, NULL};
    locks = told;
    cr_expect_eq(list().last.readers, 2);
    const char *changing[1000] = {NULL};
    for (size_t i = 0; i + 1 < sizeof changing / sizeof *changing; i++)
        changing[i] = i % 2 ? one : two;
    locks = changing;
    cr_expect_leq(list().last.readers, 2);
    cr_expect(locks[1], "it ends");
    locks = NULL;
}

/* ---- removing ------------------------------------------------------------------------------ */

Test(image, one_in_use_is_counted_with_its_readers_and_is_not_removed)
{
    enum { READERS = 3 };
    pid_t pid[READERS];
    int p[2];
    char byte;
    make_one();
    cr_assert_eq(pipe(p), 0);
    for (int i = 0; i < READERS; i++)
        if ((pid[i] = fork()) == 0) {
            struct xh_shadow *s = open_shadow();
            (void)!write(p[1], "x", s != NULL);
            for (;;)
                pause();
        }
    for (int i = 0; i < READERS; i++)
        cr_assert_eq(read(p[0], &byte, 1), 1);
    struct seen l = list();
    struct xh_err err = {0};
    for (int k = 0; l.last.readers != READERS && k < 50; k++)
        l = list(); /* the kernel hands its locks out page by page, and those of the whole machine come and go
                     * meanwhile */
    cr_assert_eq(l.last.readers, READERS);
    cr_assert_eq(xh_image_remove(&opt, &l.last, &err), XH_E_INVAL);
    cr_assert_eq(list().n, 1);
    for (int i = 0; i < READERS; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    cr_assert_eq(list().last.readers, 0);
    cr_assert_eq(xh_image_remove(&opt, &l.last, &err), 0, "%s", err.text);
    cr_assert_eq(list().n, 0);
    cr_assert_eq(xh_image_remove(&opt, &l.last, &err), 0, "one that is gone is removed");
}

Test(image, its_hint_goes_with_it)
{
    char hint[XH_HINT_BYTES], path[300];
    struct xh_shadow *s = open_shadow();
    xh_shadow_hint_save(s, "a hint");
    xh_shadow_close(s);
    struct seen l = list();
    snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/u-%s", dir, l.last.url_hex);
    cr_assert_eq(access(path, F_OK), 0);
    cr_assert_eq(xh_image_remove(&opt, &l.last, NULL), 0);
    cr_assert_neq(access(path, F_OK), 0);
    cr_assert_eq(xh_shadow_hint_load(URL, &opt, hint), 0);
}

/* ---- a hostile directory ------------------------------------------------------------------- */

enum damage {
    EMPTIED, CUT_IN_HEAD, CUT_IN_WORDS, GROWN, MAGIC, LAYOUT, NUMBERS, BOOT, MODE, RENAMED, SYMLINK, FIFO, FOLDER
};
#define DAMAGES (FOLDER + 1)

static void damage(const char *path, enum damage how)
{
    char other[300], to[300];
    uint32_t version = XH_LAYOUT_VERSION + 1;
    uint64_t huge = 1ull << 59;
    snprintf(other, sizeof other, "%s/" XH_LAYOUT_DIR "/elsewhere", dir);
    snprintf(to, sizeof to, "%s/" XH_LAYOUT_DIR "/s-%064d", dir, 0);
    switch (how) {
    case EMPTIED: cr_assert_eq(truncate(path, 0), 0); break;
    case CUT_IN_HEAD: cr_assert_eq(truncate(path, 100), 0); break;
    case CUT_IN_WORDS: cr_assert_eq(truncate(path, XH_HEADER_MIN_BYTES + 8), 0); break;
    case GROWN: cr_assert_eq(truncate(path, 1ll << 40), 0); break;
    case MAGIC: write_at(path, 0, "?", 1); break;
    case LAYOUT: write_at(path, offsetof(struct xh_layout_head, version), &version, 4); break;
    case NUMBERS: write_at(path, offsetof(struct xh_layout_head, pages), &huge, 8); break;
    case BOOT: write_at(path, offsetof(struct xh_layout_head, boot_id), "?", 1); break;
    case MODE: cr_assert_eq(chmod(path, 0644), 0); break;
    case RENAMED: cr_assert_eq(rename(path, to), 0); break;
    case SYMLINK: cr_assert(rename(path, other) == 0 && symlink(other, path) == 0); break;
    case FIFO: cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0); break;
    case FOLDER: cr_assert(unlink(path) == 0 && mkdir(path, 0700) == 0); break;
    }
}

Test(image, one_that_is_damaged_is_listed_with_its_flaw_and_can_be_removed)
{
    for (int how = 0; how < DAMAGES; how++) {
        remove_dir(dir);
        damage(make_one(), (enum damage)how);
        struct seen l = list();
        cr_assert_eq(l.n, 1, "damage %d", how);
        cr_assert_not_null(l.last.flaw, "damage %d", how);
        cr_assert_eq(l.last.url_shown[0], '\0');
        cr_assert(!xh_image_is_of(&l.last, ""));
        cr_assert_eq(read_everything(VALIDATOR), 0, "damage %d", how);
        struct xh_err err = {0};
        int rc = xh_image_remove(&opt, &l.last, &err);
        cr_assert_eq(rc, how == FOLDER ? XH_E_SYS : 0, "damage %d: %s", how, err.text);
        cr_assert_eq(list().n, how == FOLDER);
        char other[300];
        snprintf(other, sizeof other, "%s/" XH_LAYOUT_DIR "/elsewhere", dir);
        cr_assert_eq(access(other, F_OK) == 0, how == SYMLINK, "a link's target stays");
    }
}

Test(image, another_users_is_not_read)
{
    const char *path = make_one();
    if (geteuid() != 0 || chown(path, 12345, 12345) != 0)
        return; /* only root can make one */
    struct seen l = list();
    cr_assert_not_null(l.last.flaw);
    cr_assert_eq(xh_image_remove(&opt, &l.last, NULL), 0);
}

Test(image, those_of_another_layout_are_listed_and_can_be_removed)
{
    char path[300], name[100];
    struct xh_err err = {0};
    snprintf(path, sizeof path, "%s/v5", dir);
    cr_assert(mkdir(dir, 0700) == 0 && mkdir(path, 0700) == 0);
    snprintf(name, sizeof name, "../v5/s-%064d", 3);
    snprintf(path, sizeof path, "%s/%s", dir, name + 3);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    struct seen l = list(); /* there is no directory of this layout yet */
    cr_assert_eq(l.n, 1);
    cr_expect(l.last.flaw);
    cr_expect_str_eq(l.last.name, name);
    cr_expect_eq(xh_image_remove(&opt, &l.last, &err), 0, "%s", err.text);
    cr_expect_eq(list().n, 0);
    snprintf(path, sizeof path, "%s/v5", dir);
    cr_expect_neq(access(path, F_OK), 0, "nor its directory");
}

Test(image, names_that_are_no_shadows_are_passed_over)
{
    char path[400];
    make_one();
    const char *names[] = {"s-", "s-xyz", "t-0123", "u-0123", "readme",
                           "s-0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/" XH_LAYOUT_DIR "/%s", dir, names[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    cr_assert_eq(list().n, 1);
}

Test(image, a_directory_that_no_shadow_is_put_into_is_an_error)
{
    struct xh_err err = {0};
    struct seen s = {0};
    make_one();
    cr_assert_eq(chmod(dir, 0755), 0);
    cr_assert_eq(xh_image_each(&opt, note, &s, &err), XH_E_SYS);
    cr_assert(strstr(err.text, dir) && strstr(err.text, "0700"));
    cr_assert_eq(s.n, 0);
    strcpy(opt.shadow_dir, "/proc/self");
    cr_assert_eq(xh_image_each(&opt, note, &s, &err), XH_E_SYS);
    char link[200];
    snprintf(link, sizeof link, "%s-link", dir);
    cr_assert(chmod(dir, 0700) == 0 && symlink(dir, link) == 0);
    strcpy(opt.shadow_dir, link);
    cr_assert_eq(xh_image_each(&opt, note, &s, &err), XH_E_SYS);
    unlink(link);
}

Test(image, scribbles_anywhere_never_harm_who_looks, .timeout = 120)
{
    uint64_t seed = 42;
    for (int round = 0; round < 400; round++) {
        remove_dir(dir);
        const char *path = make_one();
        struct stat st;
        cr_assert_eq(stat(path, &st), 0);
        for (int k = 0; k < 8; k++) {
            uint64_t junk[8];
            for (int i = 0; i < 8; i++)
                junk[i] = seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            uint64_t in = seed % 4, at = seed >> 20;
            uint64_t limit = in == 0   ? sizeof(struct xh_layout_head)
                             : in == 1 ? 2 * XH_HEADER_MIN_BYTES
                                       : (uint64_t)st.st_size;
            if (in == 0 && round % 2)
                continue; /* leave some heads sound, so that words are believed */
            write_at(path, at % limit, junk, 1 + junk[3] % sizeof junk);
        }
        if (round % 5 == 4)
            cr_assert_eq(truncate(path, (off_t)(seed % (uint64_t)st.st_size)), 0);
        struct seen l = list();
        cr_assert_eq(l.n, 1);
        cr_assert_leq(l.last.meta_pages + l.last.raw_pages, SIZE / PAGE + 1);
        cr_assert_leq(read_everything(VALIDATOR), SIZE / PAGE + 1);
    }
}
