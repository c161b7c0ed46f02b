/* OpenSSL, for threads that the process may leave behind when it exits or forks. OpenSSL's exit handler takes away what
 * they use, and does not wait for them. A fork's child has OpenSSL's locks as they were: one that another thread held
 * is held there for ever, and the child's first connection would wait for it. */
#ifndef XH_CRYPTO_H
#define XH_CRYPTO_H

/* Returns 1: OpenSSL may be used until xh_crypto_leave, which comes soon, as exit() and fork() wait for it (a second at
 * most). No lock is taken until then that a fork's handler takes.
 * Returns 0: the process exits, and OpenSSL may not be used any more. Calls may be nested. Threads: any. Blocks while
 * the process forks. */
int xh_crypto_enter(void);

/* The same for the engine's threads, which are ended before OpenSSL's exit handler runs: always 1. What is registered
 * for the exit after the first call is done there before threads are waited for. */
void xh_crypto_hold(void);

void xh_crypto_leave(void);

/* Returns 1 once the process exits: what fails from then on says nothing about a file. Threads: any. */
int xh_crypto_is_over(void);

/* For a thread that nobody joins, as the last thing it does, without a lock: OpenSSL frees what it keeps for a thread
 * when that ends, also while the exit handler does. Once the process exits it does not return. */
void xh_crypto_end_thread(void);

#endif
