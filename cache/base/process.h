/* This process: its number, and its standard files. */
#ifndef XH_PROCESS_H
#define XH_PROCESS_H

#include <stdint.h>

/* Returns a number that no other process of this machine has or had; a fork's parent and child have different ones. A
 * pid does not suffice: the first process of a pid namespace and the first one of a namespace inside it both have pid
 * 1, even if one forked the other. The number is odd and greater than 1. Costs one load. Threads: any. In a child of
 * vfork it is the parent's number. */
uint64_t xh_process(void);

/* A program may be started without standard input, output or error. A file of the user's, of ours, or a connection
 * would get the free number, and what anybody tells on standard error would be written into it. So the numbers are
 * taken by what cannot be used that way either: for who tries, they are an error as before. Threads: any. */
void xh_process_fill_standard(void);

#endif
