/* The keeper: one thread for each file with several sites. It opens and compares sites, notifies the owners of
 * routed transfers that are TOLD, and measures the speed of transfers. */
#ifndef XH_KEEPER_H
#define XH_KEEPER_H

#include "sites.h"

/* Starts the keeper if it does not run. Returns 0, or what xh_thread_start() does. The lock is held. */
int xh_keeper_start(struct xh_replicas *r);

#endif
