/* Trace lines: see trace.h. */
#include "trace.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/now.h"

_Atomic unsigned xh_trace_mask;
static _Atomic unsigned printed; /* components that go to standard error */
static xh_trace_sink *_Atomic drawn; /* the sink, or NULL; relaxed: it guards no data */

static const struct {
    const char *name;
    unsigned bit;
} components[] = {
    {"vfd", XH_T_VFD},         {"read", XH_T_READ},     {"plan", XH_T_PLAN},
    {"predict", XH_T_PREDICT}, {"shadow", XH_T_SHADOW}, {"origin", XH_T_ORIGIN},
    {"stats", XH_T_STATS},     {"all", XH_T_ALL},
};

static void tell_unknown(const char *name, size_t n)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (n && !atomic_flag_test_and_set(&told))
        xh_say("the option log names \"%.*s\", which is no component: there are all, or some of vfd, read, "
               "plan, predict, shadow, origin, stats",
               (int)(n < 40 ? n : 40), name);
}

void xh_trace_enable(const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ", ");
        unsigned bit = 0;
        for (size_t i = 0; i < sizeof components / sizeof *components; i++)
            if (strlen(components[i].name) == n && memcmp(components[i].name, names, n) == 0)
                bit = components[i].bit;
        if (!bit)
            tell_unknown(names, n);
        atomic_fetch_or_explicit(&printed, bit, memory_order_relaxed);
        atomic_fetch_or_explicit(&xh_trace_mask, bit, memory_order_relaxed);
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

void xh_trace_to(xh_trace_sink *sink)
{
    atomic_store_explicit(&drawn, sink, memory_order_relaxed);
    if (sink)
        atomic_fetch_or_explicit(&xh_trace_mask, XH_T_ALL & ~(unsigned)XH_T_PLAN, memory_order_relaxed);
}

static void print(enum xh_trace_component c, const char *event, uint64_t now, const char *words)
{
    char line[1200];
    int n = snprintf(line, sizeof line - 1, "%llu %d %d %s %s %s", (unsigned long long)now, (int)getpid(),
                     (int)syscall(SYS_gettid) /* gettid() needs glibc 2.30 */, name_of(c), event, words);
    size_t all = n < 0 ? 0 : (size_t)n < sizeof line - 2 ? (size_t)n : sizeof line - 2;
    line[all++] = '\n';
    /* One write for each line, so that lines of several threads and processes do not mix. */
    ssize_t w = write(STDERR_FILENO, line, all);
    (void)w;
}

void xh_trace_line(enum xh_trace_component c, const char *event, const char *fmt, ...)
{
    char words[1000];
    int prints = (atomic_load_explicit(&printed, memory_order_relaxed) & c) != 0;
    xh_trace_sink *sink = atomic_load_explicit(&drawn, memory_order_relaxed);
    va_list ap;
    assert(fmt); /* tells the compiler, when built with sanitizers */
    if (!prints && !sink)
        return;
    uint64_t now = xh_now_ns();
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    xh_text_plain(words);
    if (prints)
        print(c, event, now, words);
    if (sink)
        sink(name_of(c), event, now, words);
}
