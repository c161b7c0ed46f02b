/* Preloaded: says on standard error which variables are asked for by threads other than the first. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void watch(const char *name)
{
    char thread[17] = "";
    if (syscall(SYS_gettid) == getpid())
        return;
    prctl(PR_GET_NAME, thread);
    dprintf(STDERR_FILENO, "getenv %s by %s\n", name, thread);
}

__attribute__((visibility("default"))) char *getenv(const char *name);
__attribute__((visibility("default"))) char *secure_getenv(const char *name);

char *getenv(const char *name)
{
    static char *(*real)(const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getenv");
    watch(name);
    return real(name);
}

char *secure_getenv(const char *name)
{
    static char *(*real)(const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "secure_getenv");
    watch(name);
    return real(name);
}
