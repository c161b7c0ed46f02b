/* Owners: an owner is a slot. A lock proves it alive; the kernel releases that lock at any death.
 *
 * Invariants
 * 1. A process writes its owner number into page states only while it holds its slot's lock. The lock belongs to the
 *    open file description. It goes when the process dies, by whatever cause and in whatever pid namespace, and stays
 *    while the process is suspended.
 * 2. Taking a slot increases its epoch, so page states of an earlier holder are never taken for those of the present
 *    one.
 * 3. Doubt means alive: a wrong "dead" could mix two fillers, a wrong "alive" costs time.
 *
 * This file knows nothing of pages. */
#include "owner.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/now.h"
#include "watch/trace.h"
#include "objects.h"
#include "store.h"

static uint32_t take_slot(struct xh_shadow *s)
{
    if (!xh_own_is_there(&s->own_file))
        return 0;
    unsigned start = (unsigned)getpid() * 2654435761u >> 21; /* 11 bits: spreads the processes over the slots */
    for (unsigned i = 0; i < XH_SLOTS; i++) {
        unsigned slot = (start + i) % XH_SLOTS;
        int rc = xh_store_lock(s->fd, F_WRLCK, XH_LOCK_SLOT(slot));
        if (rc < 0)
            break;
        if (rc > 0)
            continue;
        unsigned epoch = atomic_load_explicit(&s->epochs[slot], memory_order_relaxed);
        epoch = epoch % XH_EPOCH_MAX + 1;
        /* Ordered by the claim's CAS (release) before every page state that names it: see xh_owner_dead. */
        atomic_store_explicit(&s->epochs[slot], (uint16_t)epoch, memory_order_release);
        xh_trace(XH_T_SHADOW, "slot", "name=%.10s slot=%u epoch=%u", s->name, slot, epoch);
        return xh_owner_make(slot, epoch);
    }
    xh_trace(XH_T_SHADOW, "no_slot", "name=%.10s", s->name);
    return 0;
}

uint32_t xh_owner_get(struct xh_shadow *s)
{
    /* Pairs with the release below. */
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    if (owner || s->fd < 0)
        return owner;
    pthread_mutex_lock(&xh_shadow_lock);
    owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
    if (!owner) {
        owner = take_slot(s);
        atomic_store_explicit(&s->owner, owner, memory_order_release);
    }
    pthread_mutex_unlock(&xh_shadow_lock);
    return owner;
}

int xh_shadow_shared(struct xh_shadow *s)
{
    return s->fd >= 0 && xh_store_locked(s->fd, XH_LOCK_OPEN) > 0;
}

/* Counts the slots in [from, to) that others hold, up to |most|. The kernel reports some lock in the range, not
 * always its first. */
static unsigned held_elsewhere(struct xh_shadow *s, unsigned from, unsigned to, unsigned most)
{
    unsigned n = 0;
    while (from < to && n < most) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)XH_LOCK_SLOT(from),
                          .l_len = (off_t)(to - from)};
        if (fcntl(s->fd, F_OFD_GETLK, &l) < 0 || l.l_type == F_UNLCK)
            break;
        uint64_t start = (uint64_t)l.l_start, slot = start > XH_LOCK_SLOT(from) ? start - XH_LOCK_SLOT(0) : from;
        if (slot >= to)
            break;
        n += 1 + held_elsewhere(s, from, (unsigned)slot, most - n - 1);
        from = (unsigned)slot + 1;
    }
    return n;
}

unsigned xh_shadow_readers(struct xh_shadow *s)
{
    if (!xh_owner_get(s)) /* so that others count this process */
        return 1;
    return 1 + held_elsewhere(s, 0, XH_SLOTS, XH_READERS_MOST - 1);
}

/* Words of the live part by which one process at a time tells that it is doing something: milliseconds of the node's
 * clock, then the slot; 0: no process. Any value is sound: a time that is too long ago, or as far ahead, does not
 * count. */
#define WAITING_MS 100u
#define WALKING_MS 300u /* longer, as a walker says nothing while it waits for its transfers */
#define SAID_AGAIN_MS 4u

static uint64_t now_ms(void)
{
    return xh_now_ns() / 1000000u;
}

/* Returns this process's slot; XH_SLOTS when it has none, or nothing is shared. */
static uint64_t voice(const struct xh_shadow *s)
{
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    return owner && s->map && !s->private_ ? xh_owner_slot(owner) : XH_SLOTS;
}

static int others_word(uint64_t was, uint64_t slot, uint64_t now, unsigned lasts_ms)
{
    return was && was % XH_SLOTS != slot && xh_is_near(now, was / XH_SLOTS, lasts_ms);
}

/* Writes this process into |*word|, whose value was |was|, perhaps another process's. */
static void say(_Atomic uint64_t *word, uint64_t was, uint64_t slot, uint64_t now)
{
    if (was % XH_SLOTS != slot || now - was / XH_SLOTS >= SAID_AGAIN_MS)
        atomic_store_explicit(word, now * XH_SLOTS + slot, memory_order_relaxed);
}

void xh_shadow_waits(struct xh_shadow *s, int waits)
{
    uint64_t slot = voice(s);
    if (slot == XH_SLOTS)
        return;
    uint64_t was = atomic_load_explicit(&s->live->waiting, memory_order_relaxed);
    if (waits)
        say(&s->live->waiting, was, slot, now_ms());
    else if (was % XH_SLOTS == slot)
        atomic_compare_exchange_strong_explicit(&s->live->waiting, &was, 0, memory_order_relaxed, memory_order_relaxed);
}

int xh_shadow_other_waits(struct xh_shadow *s)
{
    uint64_t slot = voice(s);
    return slot != XH_SLOTS &&
           others_word(atomic_load_explicit(&s->live->waiting, memory_order_relaxed), slot, now_ms(), WAITING_MS);
}

int xh_shadow_walks(struct xh_shadow *s, int busy)
{
    xh_owner_get(s);
    uint64_t slot = voice(s), now = now_ms();
    if (slot == XH_SLOTS)
        return 1;
    uint64_t was = atomic_load_explicit(&s->live->walking, memory_order_relaxed);
    if (others_word(was, slot, now, WALKING_MS))
        return 0;
    int ours = was && was % XH_SLOTS == slot && now - was / XH_SLOTS < WALKING_MS;
    if (busy || !ours)
        say(&s->live->walking, was, slot, now);
    return 1;
}

int xh_shadow_other_walks(struct xh_shadow *s)
{
    xh_owner_get(s);
    uint64_t slot = voice(s);
    return slot != XH_SLOTS &&
           others_word(atomic_load_explicit(&s->live->walking, memory_order_relaxed), slot, now_ms(), WALKING_MS);
}

int xh_owner_dead(struct xh_shadow *s, uint32_t owner)
{
    if (owner == 0)
        return 1; /* no process writes it: the page state is damaged */
    if (owner == atomic_load_explicit(&s->owner, memory_order_acquire) || s->fd < 0)
        return 0;
    unsigned slot = xh_owner_slot(owner);
    /* The page state that named |owner| was loaded with acquire, after the epoch was stored with release. So another
     * epoch here is a later one, for which the slot had to be released first. */
    if (atomic_load_explicit(&s->epochs[slot], memory_order_acquire) != xh_owner_epoch(owner))
        return 1;
    return xh_store_locked(s->fd, XH_LOCK_SLOT(slot)) == 0;
}
