/* Trace lines on standard error: "ns pid tid component event key=value …", chosen by the option log=all or
 * log=read,origin; and the same to a sink (the time line is one). Never given a secret: callers pass shown URLs
 * only. Costs one relaxed load when off. */
#ifndef XH_TRACE_H
#define XH_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

enum xh_trace_component {
    XH_T_VFD = 1u << 0,
    XH_T_READ = 1u << 1,
    XH_T_PLAN = 1u << 2,
    XH_T_PREDICT = 1u << 3,
    XH_T_SHADOW = 1u << 4,
    XH_T_ORIGIN = 1u << 5,
    XH_T_STATS = 1u << 6, /* what the counters are when a file is closed */
    XH_T_ALL = (1u << 7) - 1,
};

extern _Atomic unsigned xh_trace_mask; /* components that somebody wants */

/* Adds the named components to the process's mask. Unknown names are passed over. */
void xh_trace_enable(const char *components);

/* Takes events besides the lines on standard error. |words| is printable and lives as long as the call.
 * Threads: any. */
typedef void xh_trace_sink(const char *component, const char *event, uint64_t now_ns, const char *words);

/* |sink| gets the events of all components but "plan" from now on, and of that one where it is printed. NULL: none any
 * more; other threads may still be in it. One sink a process. */
void xh_trace_to(xh_trace_sink *sink);

void xh_trace_line(enum xh_trace_component c, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define xh_trace(c, event, ...)                                              \
    do {                                                                     \
        if (atomic_load_explicit(&xh_trace_mask, memory_order_relaxed) & (c)) \
            xh_trace_line((c), (event), __VA_ARGS__);                        \
    } while (0)

#endif
