/* The layout of a shadow's file: the only source for offsets and for the bits of a page state.
 *
 *   0                  struct xh_layout_head   constant from creation on
 *   XH_LIVE_OFF        struct xh_layout_live   atomics shared by all processes
 *   XH_EPOCHS_OFF      u16 epoch[XH_SLOTS]     written by the slot's owner alone
 *   header_bytes       u64 word[pages]         page states: one atomic a page; sparse
 *   sums_off           u64 sum[pages]          checksums of the published bytes; sparse
 *   data_off           the origin's bytes; sparse; never mapped
 *   file_bytes         end; behind it, nothing but locks (XH_LOCK_*)
 *
 * header_bytes, sums_off, data_off and file_bytes are multiples of unit_bytes, the larger of XH_PAGE_BYTES and the
 * kernel's page: the unit that is mapped, reserved and punched.
 *
 * Pure: no I/O. Numbers are in the machine's byte order, as no other machine reads them. */
#ifndef XH_LAYOUT_H
#define XH_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shadow.h"

#define XH_LAYOUT_MAGIC "XHSHADOW"
#define XH_LAYOUT_VERSION 6u
#define XH_LAYOUT_DIR "v6"      /* directory of such shadows, inside the one that the options name */
#define XH_LAYOUT_DISK_DIR "d6" /* the same of the disk cache */
#define XH_SLOTS 2048u
#define XH_LIVE_OFF 3584u
#define XH_EPOCHS_OFF 4096u
#define XH_HEADER_MIN_BYTES 8192u
#define XH_UNIT_MAX_PAGES 64u

/* Offsets of the locks (open file description locks), where no byte will ever be. */
#define XH_LOCK_OPEN (1ull << 62)         /* shared: the file is in use; exclusive: it is being dropped */
#define XH_LOCK_SLOT(slot) (XH_LOCK_OPEN + 1 + (slot)) /* exclusive: the slot's owner is alive */

/* A shadow is believed only when these bytes are those that this process would have written. */
struct xh_layout_head {
    char magic[8];
    uint32_t version, header_bytes, page_bytes, unit_bytes;
    uint64_t origin_bytes, pages, sums_off, data_off, file_bytes;
    uint32_t slots, on_disk; /* 1: of the disk cache */
    uint8_t url_sha256[32], key_sha256[32]; /* key: URL NUL validator NUL size */
    char boot_id[40];                       /* all zero on_disk, where a page is believed for its sum alone */
    char validator[1024];                   /* may be cut; the key has all of it */
    char url_shown[1024];
};
_Static_assert(sizeof(struct xh_layout_head) <= XH_LIVE_OFF, "the head fits before the live part");

struct xh_layout_live {
    _Atomic uint64_t hand; /* the clock's next block; any value is sound */
    _Atomic uint64_t hit_bytes; /* bytes found there by readers that have closed it; tools show it */
    _Atomic uint64_t waiting; /* which process waits for the origin, and when it last said so: see xh_shadow_waits */
    _Atomic uint64_t walking; /* the same of the process that walks ahead: see xh_shadow_walks */
};
_Static_assert(XH_LIVE_OFF + sizeof(struct xh_layout_live) <= XH_EPOCHS_OFF, "live part fits");
_Static_assert(XH_EPOCHS_OFF + 2 * XH_SLOTS <= XH_HEADER_MIN_BYTES, "epochs fit");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_SHORT_LOCK_FREE == 2,
               "atomics in shared memory must not need a process's own lock");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint16_t) == 2, "plain words");

/* The state of a page, a word of 64 bits.
 *   bits 0-1 state · 2 META · 3 HOT · 4 WAITERS · 5 STALE · 6-16 slot · 17-31 epoch · 32-63 generation
 * Slot and epoch together name the owner. Only CLAIMED and EVICTING have one. The generation grows with each claim: if
 * it is equal and the state READY before and after a copy, the page was there all the time.
 * META, HOT: for eviction. HOT of an EMPTY page: its bytes were read, and not kept.
 * WAITERS: the next change of state has to wake sleepers.
 * STALE: the page is EMPTY, but bytes may still be allocated (abandoned, a dead owner's, or damaged).
 * LATER, the same bit of a CLAIMED page: its owner has written nothing there yet, and asks again before it does. So
 * another process may take the claim over, though the owner is alive.
 *
 * All-zero, as a new file is, means EMPTY. Transitions (who: how):
 *   EMPTY    -> CLAIMED   xh_shadow_claim       CAS acquire, generation + 1
 *   CLAIMED LATER -> CLAIMED  its owner: begin       CAS
 *   CLAIMED LATER -> CLAIMED LATER of another owner: take   CAS; the generation stays, as nothing was READY in between
 *   CLAIMED  -> READY     its owner: publish    CAS release
 *   CLAIMED  -> EMPTY     its owner: abandon    CAS release
 *   READY    -> EVICTING  an evictor            CAS acq_rel, generation stays
 *   EMPTY    -> EVICTING  an evictor (STALE bytes, or a neighbour in the same unit)
 *   EVICTING -> EMPTY     its owner, after the hole was punched   CAS release
 *   EVICTING -> READY     its owner, when it leaves the unit alone: nothing was punched
 *   CLAIMED, EVICTING -> EMPTY  any process, once the owner is proved dead
 *   READY    -> EMPTY     a reader that found other bytes than were published (another program wrote into the file)
 *
 * While a page is CLAIMED and not LATER, its sum belongs to the owner: 0 until it has bytes. While the page is READY
 * its sum is constant. */
enum xh_state { XH_EMPTY, XH_CLAIMED, XH_READY, XH_EVICTING };

#define XH_W_STATE 3ull
#define XH_W_META (1ull << 2)
#define XH_W_HOT (1ull << 3)
#define XH_W_WAITERS (1ull << 4)
#define XH_W_STALE (1ull << 5)
#define XH_W_LATER XH_W_STALE
#define XH_W_OWNER_SHIFT 6
#define XH_W_OWNER (0x3ffffffull << XH_W_OWNER_SHIFT)
#define XH_W_GEN (0xffffffffull << 32)
#define XH_W_GEN_ONE (1ull << 32)
/* The bits that a waiter compares: one claim or eviction, and no later one. */
#define XH_W_HELD (XH_W_STATE | XH_W_OWNER | XH_W_GEN)
/* The bits that a reader compares. */
#define XH_W_SEEN (XH_W_STATE | XH_W_GEN)

#define XH_EPOCH_MAX 32767u /* epochs run from 1 to XH_EPOCH_MAX, so that owner 0 is no process */

static inline enum xh_state xh_w_state(uint64_t w)
{
    return (enum xh_state)(w & XH_W_STATE);
}
static inline uint32_t xh_w_owner(uint64_t w)
{
    return (uint32_t)((w & XH_W_OWNER) >> XH_W_OWNER_SHIFT);
}
static inline uint32_t xh_owner_make(unsigned slot, unsigned epoch)
{
    return slot | epoch << 11;
}
static inline unsigned xh_owner_slot(uint32_t owner)
{
    return owner & (XH_SLOTS - 1);
}
static inline unsigned xh_owner_epoch(uint32_t owner)
{
    return owner >> 11;
}
/* Returns the word for another state. Generation stays, and the flags are |flags|; all else of |w| is dropped. */
static inline uint64_t xh_w_make(uint64_t w, enum xh_state state, uint32_t owner, uint64_t flags)
{
    return (w & XH_W_GEN) | (uint64_t)owner << XH_W_OWNER_SHIFT | flags | (uint64_t)state;
}
/* Returns the 32 bits that a futex watches. */
static inline uint32_t *xh_w_futex(_Atomic uint64_t *word)
{
    return (uint32_t *)word + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static inline uint64_t xh_round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
