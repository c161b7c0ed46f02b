/* A connection that is alone on its link: a server writes to it, and the client reads what comes at once. One in a
 * process. Threads: as baton.h. */
#ifndef SIM_LONE_H
#define SIM_LONE_H

#include "world.h"

/* Begins a world of this |link|, with the connection in it. |came| is told after each packet how many bytes are there of
 * what was asked for last; NULL: nobody is. */
void sim_lone_begin(const struct sim_link *link, void (*came)(uint64_t got));

/* The server writes |bytes| after |ns|. Returns when they are there. */
void sim_lone_ask(uint64_t bytes, uint64_t ns);

#endif
