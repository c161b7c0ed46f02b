/* Trace lines: see trace.h. */
#include "trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

_Atomic unsigned xh_trace_mask;

static const struct {
    const char *name;
    unsigned bit;
} components[] = {
    {"vfd", XH_T_VFD},         {"read", XH_T_READ},     {"plan", XH_T_PLAN},
    {"predict", XH_T_PREDICT}, {"shadow", XH_T_SHADOW}, {"origin", XH_T_ORIGIN},
    {"all", XH_T_ALL},
};

void xh_trace_enable(const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ", ");
        for (size_t i = 0; i < sizeof components / sizeof *components; i++)
            if (strlen(components[i].name) == n && memcmp(components[i].name, names, n) == 0)
                atomic_fetch_or_explicit(&xh_trace_mask, components[i].bit, memory_order_relaxed);
        names += n + (names[n] != '\0');
    }
}

static const char *name_of(enum xh_trace_component c)
{
    for (size_t i = 0; i < sizeof components / sizeof *components; i++)
        if (components[i].bit == (unsigned)c)
            return components[i].name;
    return "?";
}

void xh_trace_line(enum xh_trace_component c, const char *event, const char *fmt, ...)
{
    char line[1024];
    struct timespec t;
    va_list ap;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int n = snprintf(line, sizeof line - 1, "%lld%09ld %d %d %s %s ", (long long)t.tv_sec, t.tv_nsec,
                     (int)getpid(), (int)syscall(SYS_gettid) /* gettid() is of glibc 2.30 */, name_of(c), event);
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - 1 - (size_t)n, fmt, ap);
    va_end(ap);
    size_t all = (size_t)n + (m > 0 ? (size_t)m : 0);
    if (all > sizeof line - 2)
        all = sizeof line - 2;
    line[all++] = '\n';
    /* One write a line, so that lines of several threads and processes do not mix. */
    ssize_t w = write(STDERR_FILENO, line, all);
    (void)w;
}
