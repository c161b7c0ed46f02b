/* Finding HDF5's functions: see h5bind.h. */
#include "h5bind.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER; /* guards |tables|, which only grows */
static struct xh_h5 *tables;

/* Opens the object that |address| lies in, without loading anything. The main program's own
 * name cannot be reopened: NULL as a name stands for it. */
static void *object_of(void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return NULL;
    void *h = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return h ? h : dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
}

/* The library that really defines the functions, so that a program and its libhdf5 share one table. */
static void *library_behind(void *handle)
{
    void *f = dlsym(handle, "H5Pget_driver_config_str");
    if (!f)
        f = dlsym(RTLD_DEFAULT, "H5Pget_driver_config_str");
    return f ? object_of(f) : NULL;
}

static int fill(struct xh_h5 *t, void *handle)
{
    int missing = 0;
#define X(name, ret, args) missing += !(*(void **)&t->name = dlsym(handle, #name));
    XH_H5_FUNCTIONS(X)
#undef X
    t->handle = handle;
    return missing;
}

static struct xh_h5 *table_for(void *handle)
{
    for (struct xh_h5 *t = tables; t; t = t->next)
        if (t->handle == handle)
            return t;
    struct xh_h5 *t = calloc(1, sizeof *t);
    if (!t || fill(t, handle)) {
        free(t);
        return NULL;
    }
    t->next = tables;
    tables = t;
    return t;
}

struct xh_h5 *xh_h5_of_caller(void *caller)
{
    void *object = object_of(caller);
    void *library = object ? library_behind(object) : NULL;
    struct xh_h5 *t = NULL;
    if (library) {
        pthread_mutex_lock(&tables_lock);
        t = table_for(library);
        pthread_mutex_unlock(&tables_lock);
        dlclose(library); /* drops our count only: the caller holds the library */
    }
    if (object)
        dlclose(object);
    return t;
}
