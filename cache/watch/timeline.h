/* The time line: what happened when, in a file for Perfetto and chrome://tracing. The option trace names the file.
 *
 * It is Chrome's trace event format in its array form, one event a line. The closing bracket may be missing, so the
 * file is valid at any moment, however the process ends. Events are collected in memory. Only the program's threads
 * write them, so the engine's threads never wait for a disk. Events that do not fit into a full buffer are left out and
 * counted in the file.
 *
 * Processes that have one file open at the same time share it; each event names its process. The first process starts
 * the file anew. Events of the trace (trace.h) are moments on the time line. Callers pass no secrets, as for trace
 * lines.
 * Threads: any. */
#ifndef XH_TIMELINE_H
#define XH_TIMELINE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

/* Most bytes that one process writes. */
#define XH_TIMELINE_MOST_BYTES (64u << 20)

extern _Atomic int xh_timeline_state; /* 0: off. Only a hint, so relaxed: at the start one event may be missed */

static inline int xh_timeline_on(void)
{
    return atomic_load_explicit(&xh_timeline_state, memory_order_relaxed);
}

/* Begins the process's time line in the file |name|; %p becomes the process's number and %h the host's name. Only the
 * first call counts. If the file cannot be written, an error is printed on standard error. */
void xh_timeline_start(const char *name);

/* 1: what this thread submits now are hints. Only for the drawing. */
extern _Thread_local int xh_timeline_hints;

/* Returns a connection's own track, by its local port. Track 0 is the calling thread's. */
uint64_t xh_timeline_connection(unsigned port);

/* Adds something with a duration. |fmt| makes words of key=value, as in a trace line. */
void xh_timeline_slice(uint64_t track, const char *name, uint64_t from_ns, uint64_t to_ns, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Adds something with a duration that may overlap others of its kind. */
void xh_timeline_beside(const char *name, uint64_t from_ns, uint64_t to_ns);

/* Writes the collected events if they are many or old, or if |all|. Not for engine threads. */
void xh_timeline_write(int all);

#endif
