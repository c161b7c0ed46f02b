/* Trace lines on standard error: "ns pid tid component event key=value …", selected by the option log=all or
 * log=read,origin. The same events go to a sink, such as the time line. Callers pass no secrets: only URLs from
 * xh_url_shown. Costs one relaxed load when off. */
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
    XH_T_STATS = 1u << 6, /* the counters when a file is closed */
    XH_T_ALL = (1u << 7) - 1,
};

extern _Atomic unsigned xh_trace_mask; /* components whose events are printed or go to the sink */

/* Adds the named components to the process's mask. An unknown name is told of once in a process, on standard error. */
void xh_trace_enable(const char *components);

/* Receives events in addition to the lines on standard error. |words| is printable and valid during the call. Threads:
 * any. */
typedef void xh_trace_sink(const char *component, const char *event, uint64_t now_ns, const char *words);

/* From now on |sink| receives the events of all components except "plan", whose events it receives only while they are
 * printed. NULL: no sink; other threads may still be in the old one. A process has one sink. */
void xh_trace_to(xh_trace_sink *sink);

void xh_trace_line(enum xh_trace_component c, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define xh_trace(c, event, ...)                                              \
    do {                                                                     \
        if (atomic_load_explicit(&xh_trace_mask, memory_order_relaxed) & (c)) \
            xh_trace_line((c), (event), __VA_ARGS__);                        \
    } while (0)

#endif
