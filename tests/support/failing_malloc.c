/* Preloaded: the FAILING_MALLOC_AT'th allocation that the plugin itself makes gets no memory, and with
 * FAILING_MALLOC_ON=1 none after it either. At exit the number of the plugin's allocations is written, as text,
 * into the file FAILING_MALLOC_COUNT. What libcurl, OpenSSL and HDF5 allocate is left alone. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN "hdf5_vfd_xhdf5"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
#pragma GCC visibility push(default)
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);
char *strdup(const char *s);
#pragma GCC visibility pop

static atomic_uintptr_t low, high; /* where the plugin's code lies; 0: not known yet */
static atomic_ulong calls, ours;
static unsigned long at;
static int on;

static int look(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size, (void)ctx;
    if (!info->dlpi_name || !strstr(info->dlpi_name, PLUGIN))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && h->p_flags & PF_X) {
            atomic_store(&high, info->dlpi_addr + h->p_vaddr + h->p_memsz);
            atomic_store(&low, info->dlpi_addr + h->p_vaddr);
        }
    }
    return 1;
}

/* 1 when the allocation that |caller| makes is to fail. */
static int fails(void *caller)
{
    static _Thread_local int looking;
    if (!atomic_load(&low) && !looking && atomic_fetch_add(&calls, 1) % 16 == 0) {
        looking = 1;
        dl_iterate_phdr(look, NULL);
        looking = 0;
    }
    uintptr_t from = atomic_load(&low), c = (uintptr_t)caller;
    if (!from || c < from || c >= atomic_load(&high))
        return 0;
    unsigned long n = atomic_fetch_add(&ours, 1) + 1;
    int now = at && (on ? n >= at : n == at);
    if (now)
        errno = ENOMEM;
    return now;
}

void *malloc(size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

char *strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

__attribute__((constructor)) static void begin(void)
{
    const char *s = getenv("FAILING_MALLOC_AT"), *all = getenv("FAILING_MALLOC_ON");
    at = s ? strtoul(s, NULL, 10) : 0;
    on = all && *all == '1';
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAILING_MALLOC_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    if (f) {
        fprintf(f, "%lu\n", atomic_load(&ours));
        fclose(f);
    }
}
