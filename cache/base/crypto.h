/* OpenSSL, for threads that the process may leave behind when it exits: its exit handler takes away what they use, and
 * does not wait for them. The engine's threads need none of this: they are ended before OpenSSL's handler runs. */
#ifndef XH_CRYPTO_H
#define XH_CRYPTO_H

/* Returns 1: OpenSSL may be used until xh_crypto_leave, which comes soon, as exit() waits for it (a second at most).
 * Returns 0: the process exits, and OpenSSL may not be used any more. Calls may be nested. Threads: any. Does not
 * block. */
int xh_crypto_enter(void);

void xh_crypto_leave(void);

/* Returns 1 once the process exits: what fails from then on says nothing about a file. Threads: any. */
int xh_crypto_is_over(void);

/* For a thread that nobody joins, as the last thing it does, without a lock: OpenSSL frees what it keeps for a thread
 * when that ends, also while the exit handler does. Once the process exits it does not return. */
void xh_crypto_end_thread(void);

#endif
