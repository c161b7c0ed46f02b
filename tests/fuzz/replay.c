/* Runs a fuzz target without libFuzzer: over files as they are, then over mutations of them.
 *
 *   TARGET SECONDS [SEED] FILE|DIRECTORY...
 *
 * Worth most in the sanitized build. A failure names the seed that repeats it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "fuzz.h"

enum { FILES_MAX = 1000, GROWS = 64 };

static char *file[FILES_MAX];
static size_t files;

static void add(const char *path)
{
    struct stat st;
    struct dirent *d;
    hold(stat(path, &st) == 0, path);
    if (!S_ISDIR(st.st_mode)) {
        hold(files < FILES_MAX, "too many files");
        file[files++] = strdup(path);
        return;
    }
    DIR *dir = opendir(path);
    hold(dir != NULL, path);
    while ((d = readdir(dir)) != NULL) {
        char *inside;
        if (d->d_name[0] != '.' && asprintf(&inside, "%s/%s", path, d->d_name) > 0) {
            add(inside);
            free(inside);
        }
    }
    closedir(dir);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The file's bytes, with room for GROWS more. */
static uint8_t *load(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    hold(f && fseek(f, 0, SEEK_END) == 0, path);
    *size = (size_t)ftell(f);
    uint8_t *p = malloc(*size + GROWS);
    rewind(f);
    hold(p && fread(p, 1, *size, f) == *size, path);
    fclose(f);
    return p;
}

static size_t below(size_t n)
{
    return n ? (size_t)rand() % n : 0;
}

/* In binary files mostly near a signature: that is where something believes what it reads. */
static size_t somewhere(const uint8_t *p, size_t size)
{
    size_t at = below(size);
    for (int tries = 0; tries < 2000 && at + 4 < size; tries++, at++)
        if (p[at] >= 'A' && p[at] <= 'Z' && p[at + 1] >= 'A' && p[at + 1] <= 'Z' && p[at + 2] >= 'A' &&
            p[at + 2] <= 'Z') {
            at += below(64);
            break;
        }
    return at < size ? at : below(size);
}

static size_t mutate(uint8_t *p, size_t size)
{
    static const uint8_t odd[] = {0, 1, '\n', ' ', '-', '9', 0x7f, 0x80, 0xff};
    const size_t room = size + GROWS;
    for (size_t n = below(20) + 1; n && size; n--) {
        size_t at = rand() % 2 ? somewhere(p, size) : below(size), len = 1 + below(16), from = below(size);
        switch (rand() % 7) {
        case 0: p[at] ^= (uint8_t)(1 << rand() % 8); break;
        case 1: p[at] = odd[below(sizeof odd)]; break;
        case 2: p[at] = (uint8_t)rand(); break;
        case 3: case 4: /* bytes from elsewhere: another node's address, say */
            if (from + len <= size && at + len <= size)
                memmove(p + at, p + from, len);
            break;
        case 5: /* more of them */
            if (rand() % 4 || size + len > room || from + len > size)
                break;
            memmove(p + at + len, p + at, size - at);
            memmove(p + at, p + from, len);
            size += len;
            break;
        default: /* fewer */
            if (rand() % 4 || at + len > size)
                break;
            memmove(p + at, p + at + len, size - at - len);
            size -= len;
        }
    }
    return rand() % 16 ? size : below(size + 1);
}

/* A copy of just these bytes, so that a sanitizer sees every step beyond them. */
static void run(const uint8_t *p, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    hold(copy != NULL, "out of memory");
    memcpy(copy, p, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

int main(int argc, char **argv)
{
    char *end = "";
    unsigned seed = argc > 2 ? (unsigned)strtoul(argv[2], &end, 10) : 0;
    int first = *end ? 2 : 3;
    if (*end)
        seed = (unsigned)time(NULL);
    for (int i = first; i < argc; i++)
        add(argv[i]);
    if (files == 0) {
        fprintf(stderr, "usage: %s SECONDS [SEED] FILE|DIRECTORY...\n", argv[0]);
        return 2;
    }
    qsort(file, files, sizeof *file, by_name);
    for (size_t i = 0; i < files; i++) {
        size_t size;
        uint8_t *p = load(file[i], &size);
        run(p, size);
        free(p);
    }
    unsigned long runs = 0;
    printf("# seed %u\n", seed);
    fflush(stdout);
    for (time_t until = time(NULL) + atoi(argv[1]); time(NULL) < until; runs++) {
        size_t size;
        uint8_t *p = load(file[runs % files], &size);
        srand(seed + (unsigned)runs);
        size = mutate(p, size);
        run(p, size);
        free(p);
    }
    printf("1..1\nok 1 - %zu inputs and %lu mutated ones, from seed %u, broke no bound\n", files, runs, seed);
    return 0;
}
