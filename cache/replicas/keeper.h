/* The keeper: a thread for each file with several sites. It opens and compares sites, tells what is TOLD, and looks at
 * the speed of what is under way. */
#ifndef XH_KEEPER_H
#define XH_KEEPER_H

#include "sites.h"

/* Starts the keeper if there is none. Returns 0 when there can be none. Lock held. */
int xh_keeper_start(struct xh_replicas *r);

#endif
