/* A ring: doubly linked list whose links lie in its members. An empty ring, and a
 * link that is in no ring, point to themselves. No memory, no locks. */
#ifndef XH_RING_H
#define XH_RING_H

#include <stddef.h>

struct xh_ring {
    struct xh_ring *next, *prev;
};

#define xh_ring_of(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))
/* The same; NULL where |link| is the ring itself. */
#define xh_ring_in(ring, link, type, member) ((link) == (ring) ? NULL : xh_ring_of(link, type, member))

/* For each |x| of |ring|. each_leaving: where |x| may leave it, but the next one does not. */
#define xh_ring_each(type, x, member, ring) \
    for (type *x = xh_ring_in(ring, (ring)->next, type, member); x; x = xh_ring_in(ring, x->member.next, type, member))
#define xh_ring_each_leaving(type, x, member, ring)                                                                  \
    for (type *x = xh_ring_in(ring, (ring)->next, type, member), *x##_next;                                          \
         x && (x##_next = xh_ring_in(ring, x->member.next, type, member), 1); x = x##_next)

static inline void xh_ring_init(struct xh_ring *r)
{
    r->next = r->prev = r;
}

static inline int xh_ring_empty(const struct xh_ring *r)
{
    return r->next == r;
}

static inline void xh_ring_put_last(struct xh_ring *ring, struct xh_ring *link)
{
    link->prev = ring->prev;
    link->next = ring;
    ring->prev->next = link;
    ring->prev = link;
}

static inline void xh_ring_put_first(struct xh_ring *ring, struct xh_ring *link)
{
    xh_ring_put_last(ring->next, link);
}

/* Takes |link| out of whatever ring it is in; none is allowed. */
static inline void xh_ring_take(struct xh_ring *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    xh_ring_init(link);
}

/* Takes and returns the first of |ring|, or NULL. */
#define xh_ring_take_first(ring, type, member)                                    \
    ({                                                                            \
        type *first_ = xh_ring_in(ring, (ring)->next, type, member);              \
        if (first_)                                                               \
            xh_ring_take(&first_->member);                                        \
        first_;                                                                   \
    })

/* Moves all of |from| behind the last of |to|. */
static inline void xh_ring_move_all(struct xh_ring *to, struct xh_ring *from)
{
    if (xh_ring_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    xh_ring_init(from);
}

#endif
