/* The loop of the engine's threads: starts what is bound to them, judges what has ended, tells those who asked. */
#ifndef XH_LOOP_H
#define XH_LOOP_H

#include "engine.h"

/* Makes sure that this process's engine runs (it starts on the first call, and anew in a
 * fork's child) and takes the lock. Returns 0, or XH_E_SYS: it cannot start, or the process
 * is exiting; then the lock is not held. */
int xh_loop_enter(const struct xh_options *o, struct xh_err *err);

#endif
