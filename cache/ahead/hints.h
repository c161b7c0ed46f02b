/* Hints: what a program said that it will read, in its order, fetched as far ahead as there is
 * room, and further as it reads.
 *
 * A hint waits, is ahead (fetched or on its way, and not yet read), or is forgotten: when it was
 * read, or when the reader has gone past it. What is named again while it is ahead stays until its
 * last read. No byte is fetched twice for a hint: all hints together cost at most the bytes that they name.
 *
 * Threads: any. Nothing here runs on an engine thread, so that nothing new starts while a file
 * is being closed. */
#ifndef XH_HINTS_H
#define XH_HINTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/again.h"
#include "observer.h"

extern const struct xh_observer xh_hints_observer;

struct xh_hint {
    uint64_t off;
    uint64_t len : 63, meta : 1;
};

struct xh_hints {
    _Atomic uint64_t ahead_bytes; /* of |ahead|; changed under the lock, read without it as an estimate */
    _Atomic int any;              /* 0: neither waiting nor ahead. The same */

    pthread_mutex_t lock; /* guards the rest; the stage's is taken in it */
    struct xh_hint *wait; /* [first, first + n), in the order in which they are wanted */
    size_t first, n, room;
    uint64_t wait_bytes; /* of |wait| */
    uint64_t most_bytes; /* that was at most, since nothing waited */
    uint64_t begun;      /* bytes of the first one that are ahead already: |off| lies behind them */
    struct xh_range *ahead; /* sorted, disjoint; a range shrinks from its start as it is read */
    size_t nahead, ahead_room;
    struct xh_again done; /* was ahead, and was read: when it is read again, its reader has not gone past hints */
    unsigned reads; /* of what was hinted, since there was nothing waiting nor ahead */
    int filling; /* a thread has taken hints from |wait|'s front and will say how many are ahead now */
};

void xh_hints_init(struct xh_hints *h);
void xh_hints_free(struct xh_hints *h);

/* Takes |n| ranges, which lie in the object, behind the hints that wait already, and fetches what
 * there is room for. Returns how many were taken, from the first on: fewer than |n| when
 * XH_HINTS_MAX wait, or without memory. Does not block on the network. */
size_t xh_hints_add(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n);

/* Returns how far ahead of its reads |f|'s guesses may run now: hints come first. */
uint64_t xh_guess_window(const struct xh_file *f);

/* Returns 1 while hints wait, or are ahead of their read. An estimate where other threads read. */
static inline int xh_hints_any(const struct xh_hints *h)
{
    return atomic_load_explicit(&h->any, memory_order_relaxed);
}

#endif
