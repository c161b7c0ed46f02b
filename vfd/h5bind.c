/* Finding the H5 functions: see h5bind.h.
 *
 * Invariants 1. A published table never changes, except its IDs, and is never freed. The handle that found its libhdf5
 * keeps that library loaded, so an address always belongs to the same libhdf5.
 * 2. There is at most one table for each load address. Tables are appended by compare-and-swap: no lock is held while
 * the loader works, and no lock is lost in a fork.
 * 3. Nothing here calls HDF5. */
#include "h5bind.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cache/base/err.h"
#include "../cache/base/table.h"

#define TABLES_MAX 16 /* most libhdf5s in one process; two are common */

static _Atomic(struct xh_h5 *) tables[TABLES_MAX]; /* filled from the front; release pairs with acquire */
static atomic_flag warned = ATOMIC_FLAG_INIT;

/* Returns where the object that holds |address| is loaded, or NULL. |path| may be NULL. */
static const void *object_of(const void *address, const char **path)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!address || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP))
        return NULL;
    if (path)
        *path = map && *map->l_name ? map->l_name : NULL; /* "" is the program itself */
    return info.dli_fbase;
}

/* Returns a counted handle of a loaded object. |path| NULL is the program. */
static void *handle_of(const char *path)
{
    return dlopen(path, path ? RTLD_LAZY | RTLD_NOLOAD : RTLD_LAZY);
}

struct xh_h5 *xh_h5_nth(size_t i)
{
    return i < TABLES_MAX ? atomic_load_explicit(&tables[i], memory_order_acquire) : NULL;
}

static struct xh_h5 *table_at(const void *base)
{
    for (size_t i = 0; base && i < TABLES_MAX; i++) {
        struct xh_h5 *h5 = atomic_load_explicit(&tables[i], memory_order_acquire);
        if (!h5 || h5->base == base)
            return h5;
    }
    return NULL;
}

/* Appends |h5|, unless another thread was first. Returns the table that is published. */
static struct xh_h5 *table_publish(struct xh_h5 *h5)
{
    for (size_t i = 0; i < TABLES_MAX; i++) {
        struct xh_h5 *there = NULL;
        if (atomic_compare_exchange_strong_explicit(&tables[i], &there, h5, memory_order_acq_rel,
                                                    memory_order_acquire))
            return h5;
        if (there->base == h5->base)
            return there;
    }
    return NULL;
}

/* How a program has a libhdf5.a in it so that it is found. */
#define STATIC_TOO                                                                                   \
    " (h5cc: -shlib), or whole in the program and exported (-Wl,--whole-archive libhdf5.a "          \
    "-Wl,--no-whole-archive -rdynamic)"

static void complain(const char *path, const char *missing)
{
    if (!atomic_flag_test_and_set(&warned))
        xh_say("%s does not export %s: the driver needs HDF5 1.14 or newer, as a shared library" STATIC_TOO,
               path ? path : "the program", missing);
}

/* Makes an unpublished table of what |handle| sees; returns NULL when something is missing. */
static struct xh_h5 *table_make(void *handle, const char *path)
{
    struct xh_h5 *h5 = calloc(1, sizeof *h5);
    if (!h5) {
        if (!atomic_flag_test_and_set(&warned))
            xh_say("out of memory while looking for HDF5's functions");
        return NULL;
    }
#define X(f)                                               \
    if (!(h5->f = (__typeof__(h5->f))dlsym(handle, #f))) { \
        complain(path, #f);                                \
        free(h5);                                          \
        return NULL;                                       \
    }
    XH_H5_FUNCTIONS(X)
#undef X
    h5->H5L_find_class = (__typeof__(h5->H5L_find_class))dlsym(handle, "H5L_find_class");
    h5->default_fapl = dlsym(handle, "H5P_LST_FILE_ACCESS_ID_g");
    h5->base = object_of((const void *)h5->H5FDregister, NULL);
    return h5;
}

/* Returns the table of the libhdf5 that |handle| sees, and makes it when it is new. Owns: takes |handle|, which may be
 * NULL. */
static struct xh_h5 *table_of_handle(void *handle, const char *path)
{
    if (!handle)
        return NULL;
    void *probe = dlsym(handle, "H5FDregister");
    struct xh_h5 *h5 = probe ? table_at(object_of(probe, NULL)) : NULL;
    struct xh_h5 *made = probe && !h5 ? table_make(handle, path) : NULL;
    if (made) {
        h5 = table_publish(made);
        if (h5 == made)
            return h5; /* the table keeps the handle: invariant 1 */
        free(made);
    }
    dlclose(handle);
    return h5;
}

struct xh_h5 *xh_h5_of_callback(const void *address)
{
    const char *path = NULL;
    const void *base = object_of(address, &path);
    struct xh_h5 *h5 = table_at(base);
    if (!h5 && base) {
        h5 = table_of_handle(handle_of(path), path);
        if (!h5)
            complain(path, "its functions");
    }
    return h5;
}

/* Paths of loaded objects. They are copied first: dlopen inside dl_iterate_phdr would deadlock. */
struct loaded {
    char **path;
    size_t n, room;
};

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *l = arg;
    (void)size;
    if (!info->dlpi_name || !*info->dlpi_name)
        return 0;
    if (xh_grow(l->path, l->room, l->n + 1))
        return 1;
    l->path[l->n] = strdup(info->dlpi_name);
    return l->path[l->n] ? (l->n++, 0) : 1;
}

/* Returns the table of the only loaded object that defines H5FDregister itself, or NULL. */
static struct xh_h5 *table_of_only(void)
{
    struct loaded l = {0};
    const char *found = NULL;
    size_t count = 0;
    dl_iterate_phdr(note_object, &l);
    for (size_t i = 0; i < l.n; i++) {
        void *handle = handle_of(l.path[i]);
        void *f = handle ? dlsym(handle, "H5FDregister") : NULL;
        const char *home = NULL;
        if (f && object_of(f, &home) && home && strcmp(home, l.path[i]) == 0 && count++ == 0)
            found = l.path[i];
        if (handle)
            dlclose(handle);
    }
    struct xh_h5 *h5 = count == 1 ? table_of_handle(handle_of(found), found) : NULL;
    for (size_t i = 0; i < l.n; i++)
        free(l.path[i]);
    free(l.path);
    return h5;
}

struct xh_h5 *xh_h5_of_program(const void *address)
{
    const char *path = NULL;
    const void *base = object_of(address, &path);
    struct xh_h5 *h5 = base ? table_of_handle(handle_of(path), path) : NULL;
    if (!h5)
        h5 = table_of_handle(handle_of(NULL), NULL);
    if (!h5)
        h5 = table_of_only();
    if (!h5 && !atomic_flag_test_and_set(&warned))
        xh_say("no libhdf5 is loaded where the caller can see it, or more than one: the driver "
               "needs one, as a shared library" STATIC_TOO);
    return h5;
}

int xh_h5_has(const struct xh_h5 *h5, const void *address)
{
    return object_of(address, NULL) == h5->base;
}

void *xh_h5_find(const struct xh_h5 *h5, const char *name)
{
    const char *path = NULL;
    void *handle = object_of((const void *)h5->H5FDregister, &path) ? handle_of(path) : NULL;
    void *f = handle ? dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle); /* the table has a handle of its own */
    return f;
}

void xh_h5_forget_ids(struct xh_h5 *h5)
{
    atomic_store_explicit(&h5->driver, 0, memory_order_release);
    free(atomic_exchange_explicit(&h5->errors, NULL, memory_order_acq_rel));
}

const void *xh_h5_entry(const struct xh_h5 *h5)
{
    void *at[128]; /* HDF5 needs up to 50 from a dataset's read to that of bytes, a nested virtual dataset as many
                    * more */
    const void *entry = NULL, *ours = object_of((const void *)xh_h5_entry, NULL);
    const char *path = NULL,
               *name = object_of((const void *)h5->H5FDregister, &path) && path ? strrchr(path, '/') : NULL;
    if (!name || strncmp(name, "/libhdf5", 8) != 0)
        return NULL;
    int n = backtrace(at, sizeof at / sizeof *at);
    for (int i = 0; i < n; i++) {
        /* a return address may be the first byte behind its function */
        const void *object = object_of((const char *)at[i] - 1, NULL);
        int inside = object == h5->base;
        if (entry && !inside && object != ours) /* HDF5 calls us to follow a link, and we call it (elink.c) */
            return entry;
        if (inside)
            entry = at[i];
    }
    return NULL; /* HDF5's caller was not among the frames */
}

const char *xh_h5_entry_name(const struct xh_h5 *h5)
{
    Dl_info info;
    const char *entry = xh_h5_entry(h5);
    return entry && dladdr(entry - 1, &info) && info.dli_sname ? info.dli_sname : "";
}
