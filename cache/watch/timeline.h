/* The time line: what happened when, in a file that Perfetto and chrome://tracing draw. The option trace names it.
 *
 * Chrome's trace event format in its array form, one event a line, whose closing bracket may be missing: so the file is
 * good at any moment, however the process ends. Events are collected in memory, and written by the program's threads
 * alone: the engine's never wait for a disk. What a full buffer has no room for is left out, and counted in the file.
 *
 * Processes that have one file open at the same time share it, each event with its process; the first begins it anew.
 * The events of the trace (trace.h) are moments on it. Given no secret, as the trace lines. Threads: any. */
#ifndef XH_TIMELINE_H
#define XH_TIMELINE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

/* Most that one process writes. */
#define XH_TIMELINE_MOST_BYTES (64u << 20)

extern _Atomic int xh_timeline_state; /* 0: off. A hint, so relaxed: what is missed at the beginning is one event */

static inline int xh_timeline_on(void)
{
    return atomic_load_explicit(&xh_timeline_state, memory_order_relaxed);
}

/* Begins the process's time line in the file |name|, of which %p is made the process's number and %h the host's name;
 * the first one named stays. A file that cannot be written is told of on standard error. */
void xh_timeline_start(const char *name);

/* What this thread submits now are hints: for the drawing alone. */
extern _Thread_local int xh_timeline_hints;

/* In a fork's child, which goes on in the same file. */
void xh_timeline_forked(void);

/* A track of its own for a connection, by its local port; 0 stands for the calling thread's. */
uint64_t xh_timeline_connection(unsigned port);

/* Something that lasted. |fmt|: words of key=value, as in a trace line. */
void xh_timeline_slice(uint64_t track, const char *name, uint64_t from_ns, uint64_t to_ns, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Something that lasted beside others of its kind. */
void xh_timeline_beside(const char *name, uint64_t from_ns, uint64_t to_ns);

/* Writes what has been collected, when it is much, or old, or |all|. Not for engine threads. */
void xh_timeline_write(int all);

#endif
