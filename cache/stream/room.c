/* The room: see room.h. */
#include "room.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/table.h"

/* A stage counts as left once the process has read from stages so often since it was last read, and twice more for each
 * open file that was ever read: files that are read in turns come back sooner, whichever of them hold something. */
#define LEFT_READS 16

static struct {
    _Atomic uint64_t held;     /* what all stages hold and have reserved. Changed without the lock; orders nothing */
    _Atomic unsigned holders;  /* groups, and stages of none, in the list: changed under the lock, read without it as an
                                * estimate */
    _Atomic unsigned left;     /* of them, those that are not read any more; counted now and then, likewise */
    pthread_mutex_t lock;      /* guards the rest; a leaf */
    struct xh_room_place *first;    /* those that hold something, or want to */
    unsigned readers;          /* stages that were read from, of open files */
    uint64_t clock;            /* reads from stages so far */
    void *top;                 /* spare blocks, a stack: each begins with the address of the next */
    uint64_t spare_bytes, lent_bytes; /* of blocks: there, and given out */
} room = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Only what is safe in a signal handler. A file forgets the parent's stage when it is first used. What the stages held
 * is leaked, as their state cannot be told from sound. */
static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    atomic_store_explicit(&room.held, 0, memory_order_relaxed);
    atomic_store_explicit(&room.holders, 0, memory_order_relaxed);
    atomic_store_explicit(&room.left, 0, memory_order_relaxed);
    room.lock = fresh;
    room.first = NULL;
    room.top = NULL;
    room.spare_bytes = room.lent_bytes = 0;
    room.readers = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* ---- who holds how much */

void xh_room_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
}

static void enter(struct xh_room_place *p)
{
    pthread_mutex_lock(&room.lock);
    p->read = room.clock;
    DL_PREPEND(room.first, p);
    p->listed = 1;
    if (!p->group || atomic_fetch_add_explicit(&p->group->places, 1, memory_order_relaxed) == 0)
        atomic_fetch_add_explicit(&room.holders, 1, memory_order_relaxed);
    pthread_mutex_unlock(&room.lock);
}

void xh_room_leave(struct xh_room_place *p)
{
    if (!p->listed)
        return;
    pthread_mutex_lock(&room.lock);
    DL_DELETE(room.first, p);
    p->listed = 0;
    if (!p->group || atomic_fetch_sub_explicit(&p->group->places, 1, memory_order_relaxed) == 1)
        atomic_fetch_sub_explicit(&room.holders, 1, memory_order_relaxed);
    pthread_mutex_unlock(&room.lock);
}

/* What |p|, or its group, holds and has reserved. */
static uint64_t own(const struct xh_room_place *p)
{
    return p->group ? atomic_load_explicit(&p->group->bytes, memory_order_relaxed) : p->bytes + p->reserved;
}

static void own_more(struct xh_room_place *p, uint64_t more, uint64_t less)
{
    if (p->group)
        atomic_fetch_add_explicit(&p->group->bytes, more - less, memory_order_relaxed);
}

void xh_room_add(struct xh_room_place *p, uint64_t more, uint64_t less)
{
    assert(p->bytes + more >= less);
    uint64_t had = p->bytes;
    p->bytes = had + more - less;
    uint64_t grown = more > less ? more - less : 0, used = grown < p->reserved ? grown : p->reserved;
    p->reserved -= used;
    own_more(p, more, less + used);
    if (grown > used)
        atomic_fetch_add_explicit(&room.held, grown - used, memory_order_relaxed);
    else if (less > more)
        atomic_fetch_sub_explicit(&room.held, less - more, memory_order_relaxed);
    if (p->bytes && !p->listed)
        enter(p);
    else if (p->bytes == 0)
        xh_room_leave(p);
}

/* 1 when |p| counts as left. The lock is held. */
static int is_left(const struct xh_room_place *p)
{
    return room.clock - p->read >= LEFT_READS + 2ull * room.readers;
}

static unsigned places_of(const struct xh_room_group *g)
{
    return atomic_load_explicit(&g->places, memory_order_relaxed);
}

void xh_room_touch(struct xh_room_place *p, int took)
{
    unsigned left = 0;
    pthread_mutex_lock(&room.lock);
    room.clock += took != 0;
    room.readers += !p->known;
    p->known = 1;
    p->read = room.clock;
    if (took && room.clock % LEFT_READS == 0) {
        for (const struct xh_room_place *o = room.first; o; o = o->next)
            if (o->group)
                o->group->left = 0;
        for (const struct xh_room_place *o = room.first; o; o = o->next)
            left += is_left(o) && (!o->group || ++o->group->left == places_of(o->group));
        atomic_store_explicit(&room.left, left, memory_order_relaxed);
    }
    pthread_mutex_unlock(&room.lock);
}

/* What each stage that holds something, or |more| besides, may hold of |most|. Stages that were left do not count. They
 * give theirs back when it is wanted; a share that they made smaller would never let it be wanted. */
static uint64_t share_among(unsigned more, uint64_t most)
{
    unsigned n = atomic_load_explicit(&room.holders, memory_order_relaxed) + more;
    unsigned left = atomic_load_explicit(&room.left, memory_order_relaxed);
    return most / (n > left ? n - left : 1);
}

/* What |p|, or its group, may hold of |most|: as much as each of the others that hold something. */
static uint64_t share_of(const struct xh_room_place *p, uint64_t most)
{
    return share_among(p->group ? places_of(p->group) == 0 : !p->listed, most);
}

/* |most|, or less where memory has become short. No lock is needed, and the room's should not be held. */
static uint64_t within_memory(uint64_t most)
{
    return xh_memory_part(xh_room_held(), most);
}

uint64_t xh_room_left(struct xh_room_place *p, uint64_t most)
{
    most = within_memory(most);
    uint64_t held = xh_room_held(), share = share_of(p, most);
    uint64_t has = own(p), all = held < most ? most - held : 0, mine = has < share ? share - has : 0;
    if (all == 0 && !p->listed)
        enter(p);
    return all < mine ? all : mine;
}

int xh_room_reserve(struct xh_room_place *p, uint64_t bytes, uint64_t most)
{
    most = within_memory(most);
    uint64_t has = own(p), held = xh_room_held();
    if (has > 0 && has + bytes > share_of(p, most))
        return 0;
    do {
        if (held > 0 && held + bytes > most) {
            if (!p->listed)
                enter(p);
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&room.held, &held, held + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    p->reserved += bytes;
    own_more(p, bytes, 0);
    return 1;
}

void xh_room_release(struct xh_room_place *p, uint64_t bytes)
{
    bytes = bytes < p->reserved ? bytes : p->reserved;
    p->reserved -= bytes;
    own_more(p, 0, bytes);
    atomic_fetch_sub_explicit(&room.held, bytes, memory_order_relaxed);
}

/* Returns, locked, the stage that was left longest ago; NULL: none was left. */
static struct xh_room_place *lock_left(const struct xh_room_place *but)
{
    struct xh_room_place *oldest = NULL;
    pthread_mutex_lock(&room.lock);
    for (struct xh_room_place *p = room.first; p; p = p->next)
        if (p != but && is_left(p) && (!oldest || p->read < oldest->read))
            oldest = p;
    /* A thread that holds its lock is at work on it. It is not freed while it is in the list, or locked. */
    if (oldest && pthread_mutex_trylock(oldest->lock))
        oldest = NULL;
    if (oldest)
        oldest->read = room.clock; /* what it cannot give back now is not asked for each time */
    pthread_mutex_unlock(&room.lock);
    return oldest;
}

void xh_room_make(struct xh_room_place *p, uint64_t bytes, uint64_t most)
{
    struct xh_room_place *other;
    most = within_memory(most);
    while (xh_room_held() + bytes > most && (other = lock_left(p)) != NULL) {
        other->empty(other);
        if (other->bytes == 0)
            xh_room_leave(other);
        pthread_mutex_unlock(other->lock);
    }
}

uint64_t xh_room_held(void)
{
    return atomic_load_explicit(&room.held, memory_order_relaxed);
}

uint64_t xh_room_share(uint64_t most)
{
    return share_among(0, within_memory(most));
}

/* ---- blocks. Only whole ones are recycled; smaller pieces are malloc's business */

uint64_t xh_room_memory(void)
{
    pthread_mutex_lock(&room.lock);
    uint64_t bytes = room.spare_bytes + room.lent_bytes;
    pthread_mutex_unlock(&room.lock);
    return bytes;
}

/* A spare, or NULL. The lock is held. */
static uint8_t *pop(void)
{
    uint8_t *p = room.top;
    if (p) {
        memcpy(&room.top, p, sizeof room.top);
        room.spare_bytes -= XH_BLOCK_BYTES;
    }
    return p;
}

uint8_t *xh_block_get(size_t len, uint64_t most)
{
    assert(len <= XH_BLOCK_BYTES);
    pthread_mutex_lock(&room.lock);
    int whole = len == XH_BLOCK_BYTES;
    uint8_t *p = whole ? pop() : NULL, *surplus = NULL;
    room.lent_bytes += len;
    if (!whole && room.spare_bytes + room.lent_bytes > most)
        surplus = pop();
    pthread_mutex_unlock(&room.lock);
    free(surplus);
    if (!p && !(p = malloc(len))) {
        pthread_mutex_lock(&room.lock);
        room.lent_bytes -= len;
        pthread_mutex_unlock(&room.lock);
    }
    return p;
}

void xh_block_put(uint8_t *p, size_t len, uint64_t most)
{
    if (!p)
        return;
    most = within_memory(most);
    pthread_mutex_lock(&room.lock);
    room.lent_bytes -= len;
    int spare = len == XH_BLOCK_BYTES && room.spare_bytes + room.lent_bytes + XH_BLOCK_BYTES <= most;
    if (spare) {
        memcpy(p, &room.top, sizeof room.top);
        room.top = p;
        room.spare_bytes += XH_BLOCK_BYTES;
    }
    pthread_mutex_unlock(&room.lock);
    if (!spare)
        free(p);
}

void xh_room_trim(struct xh_room_place *place)
{
    uint8_t *p = NULL;
    pthread_mutex_lock(&room.lock);
    room.readers -= (unsigned)place->known;
    place->known = 0;
    if (!room.first) {
        p = room.top;
        room.top = NULL;
        room.spare_bytes = 0;
    }
    pthread_mutex_unlock(&room.lock);
    for (uint8_t *next; p; p = next) {
        memcpy(&next, p, sizeof next);
        free(p);
    }
}
