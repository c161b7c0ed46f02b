/* Virtual time, and one thread at a time: the ground that the simulator stands on.
 *
 * The driver's code runs unchanged, on real threads, but only the thread that holds the token runs. It hands the token
 * over where it waits: at a mutex that is held, a condition variable, a futex, a sleep, the simulated wire, the end of
 * a thread. The linker puts our functions in the place of the system's (--wrap, see meson.build), so nothing of the
 * driver can wait, look at a clock or throw dice past this file. When no thread can run, the clock jumps to the next
 * event. All that is random comes from one seed: a seed makes the same run each time.
 *
 * Why threads and no coroutines: the driver has variables of its own for each thread, and debuggers and sanitizers
 * know threads. A hand-over costs some microseconds.
 *
 * Threads: each function below is for the thread that holds the token, and for events, which must not wait. */
#ifndef XH_SIM_BATON_H
#define XH_SIM_BATON_H

#include <stdint.h>

#define SIM_MS UINT64_C(1000000)
#define SIM_S UINT64_C(1000000000)
#define SIM_NEVER UINT64_MAX

/* Makes the calling thread the first one of a world that begins now. |hung| is called when no thread can ever run
 * again, or at |limit_ns| after the beginning; it must not return. |switches|: one lock in so many hands the token
 * over, to try other orders of threads; 0: none does. */
void sim_begin(uint64_t seed, uint64_t limit_ns, unsigned switches, void (*hung)(const char *why));

uint64_t sim_now(void); /* ns, of the virtual clock that xh_now_ns() shows */

/* The world's dice. Others than the driver's own (getrandom) and those of the order of threads. */
uint64_t sim_roll(uint64_t *state);                  /* the next of splitmix64: dice of one's own */
uint64_t sim_dice(void);
uint64_t sim_below(uint64_t n);                     /* [0, n); n > 0 */
uint64_t sim_between(uint64_t least, uint64_t most); /* both included */
int sim_chance(double p);                           /* 1 with probability |p| */

/* The reads to come are |thread|'s, one of a pool: of a program that the world plays with one thread. */
void sim_read_as(unsigned thread);

/* Calls |run| at |at_ns|, or as soon as no thread can run if that is over. Events of the same time come in the order of
 * these calls. */
void sim_at(uint64_t at_ns, void (*run)(void *ctx, uint64_t arg), void *ctx, uint64_t arg);

/* Waits until sim_wake(|on|) or |until_ns|. Returns 1, or 0: the time is over. Not for events. */
int sim_wait(const void *on, uint64_t until_ns);
void sim_wake(const void *on);
void sim_sleep(uint64_t ns);

/* Adds to the digest of what has happened: two runs of a seed must have the same. */
void sim_note(uint64_t what);
uint64_t sim_digest(void);

/* 1: sim_trace prints, one line each with the virtual time before it. */
extern int sim_tracing;
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
