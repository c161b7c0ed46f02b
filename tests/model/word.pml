/* The word of a page, and what processes do with it, for spin: docs/shadow.md, "Memory order".
 *
 * ACTORS processes, each with a slot, do up to OPS things each: read, claim and fill, claim for later, take over,
 * evict, find damage, wait. A process may die before any step, DEATHS times in all; then its slot's next holder begins,
 * or there is none. Each page (PAGES, which are one unit) has two halves, so that a fill, a punch and a copy are seen
 * half done. A step is one access to what is shared, and what the process decides by it alone.
 *
 * Checked: a reader that is given a page has the origin's bytes; two processes never fill one page; when all is quiet,
 * no page is held by a process that lives, each can be made EMPTY, and a READY one is whole; with WAKES_ONLY, where
 * nobody dies and no wait times out, none sleeps for ever.
 *
 * With THREADS the actors are threads of one process, which does not die.
 *
 * Not in here: sums (all must be right without them), HOT and META, budgets. spin knows sequential consistency alone:
 * one step is seen by all at once. What weaker machines do is shadow.patterns' matter.
 *
 * FAULT: one of the names below; a model with a fault must fail (word.py). */

#define NONE            0
#define LOOKS_ONCE      1  /* a reader does not load the word again */
#define NO_GENERATION   2  /* or compares the state alone */
#define PUNCHES_FIRST   3  /* an evictor punches, and then says EVICTING */
#define EMPTY_FIRST     4  /* or says EMPTY, and then punches */
#define NO_NEIGHBOUR    5  /* or leaves the EMPTY pages of the unit as they are */
#define NO_BEGIN        6  /* a claim for later is filled without a look whose it is now */
#define BEGINS_UNTOLD   7  /* begin loads and stores: no CAS */
#define TAKES_BEGUN     8  /* a claim is taken over that was begun */
#define NO_PROOF        9  /* a claim is taken from a process that may live */
#define LOCK_ALONE     10  /* the epoch does not count: whoever has the slot now lives */
#define EPOCH_ALONE    11  /* the lock does not count */
#define EPOCH_LATE     12  /* a claim is made before the slot's epoch is stored */
#define FORGETS        13  /* a fill that failed is not abandoned */
#define CHANGE_TORN    14  /* a change loads the word and stores: no CAS */
#define NOT_WOKEN      15  /* a change wakes nobody */
#ifndef FAULT
#define FAULT NONE
#endif

#ifndef ACTORS
#define ACTORS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef PAGES
#define PAGES 1
#endif

/* layout.h, with fewer bits */
#define EMPTY    0
#define CLAIMED  1
#define READY    2
#define EVICTING 3
#define STALE    4
#define LATER    4
#define WAITERS  8
#define GEN_ONE  1024
#define STATE(w) ((w) & 3)
#define OWNER(w) ((w) >> 4 & 63)
#define GEN(w)   ((w) & ~1023)
#define HELD(w)  ((w) & ~12)
#define SEEN(w)  ((FAULT == NO_GENERATION) -> STATE(w) : GEN(w) | STATE(w))
#define MAKE(w, state, owner, flags) (GEN(w) | (owner) << 4 | (flags) | (state))
#define IS_LATER(w) (STATE(w) == CLAIMED && (w & LATER))
#ifdef THREADS
#define SLOT 0
#else
#define SLOT me
#endif
#define ME (SLOT | mine << 2)
/* Before each step the process may be killed. */
#define STEP if :: deaths < DEATHS -> goto killed :: skip fi

int word[PAGES];
bit half[2 * PAGES];                /* 1: the origin's bytes; 0: a hole */
bool locked[ACTORS], over[ACTORS], sleeps[ACTORS];
byte epoch[ACTORS];                 /* in the file; |locked|: the kernel's locks of the slots */
byte filling[PAGES];                /* how many write there now */
byte deaths;

/* xh_page_change: replaces |old|, unless what is HELD has changed, or with |later| the claim was begun. |ok|: done. */
inline change(p, old, state, owner, flags, later)
{
#if FAULT == CHANGE_TORN
    atomic { STEP; seen = word[p] }
    atomic { STEP; if :: HELD(seen) == HELD(old) && (!later || IS_LATER(seen)) ->
                          ok = 1; woken = (seen & WAITERS) != 0;
#else
    atomic { STEP; if :: HELD(word[p]) == HELD(old) && (!later || IS_LATER(word[p])) ->
                          ok = 1; woken = (word[p] & WAITERS) != 0;
#endif
                          word[p] = MAKE(old, state, owner, flags)
                      :: else -> ok = 0
                      fi; seen = 0 }
    if
    :: woken -> atomic { STEP; wake(); woken = 0 }
    :: else
    fi
}

inline wake()
{
    i = 0;
    do
    :: i < ACTORS && FAULT != NOT_WOKEN -> sleeps[i] = 0; i++
    :: i < ACTORS && FAULT == NOT_WOKEN -> i++
    :: else -> break
    od;
    i = 0
}

/* xh_owner_dead: the epoch, then the lock. */
inline prove(owner)
{
    atomic { STEP; ok = FAULT == NO_PROOF ||
                        (FAULT != LOCK_ALONE && (owner) != ME && epoch[(owner) & 3] != (owner) >> 2) }
    if
    :: !ok && FAULT != EPOCH_ALONE && (owner) != ME -> atomic { STEP; ok = !locked[(owner) & 3] }
    :: else
    fi
}

/* xh_shadow_fill, and publish or abandon: by the owner of a claim that is begun. */
inline fill()
{
    atomic { STEP; filling[p]++; writes = 1; assert(filling[p] == 1); half[2 * p] = 1 }
    atomic { STEP; if :: half[2 * p + 1] = 1; good = 1 :: good = 0 fi; filling[p]--; writes = 0 }
    atomic { STEP; w = word[p]; ok = STATE(w) == CLAIMED && OWNER(w) == ME }
    if
    :: ok && good -> change(p, w, READY, 0, 0, 0)
    :: ok && !good && FAULT != FORGETS -> change(p, w, EMPTY, 0, STALE, 0)
    :: else
    fi
}

/* xh_shadow_read, of a page that was READY. */
inline read()
{
    atomic { STEP; a = half[2 * p] }
    atomic { STEP; b = half[2 * p + 1] }
    atomic { STEP; ok = FAULT == LOOKS_ONCE || SEEN(word[p]) == SEEN(w); assert(!ok || (a && b)) }
}

/* claim_empty */
inline claim(flags)
{
    atomic { STEP; ok = word[p] == w; if :: ok -> word[p] = MAKE(w + GEN_ONE, CLAIMED, ME, flags) :: else fi }
}

/* xh_shadow_begin; it tries again where only WAITERS has come. */
inline begin()
{
    atomic { STEP; w = word[p]; ok = IS_LATER(w) && OWNER(w) == ME }
    if
    :: FAULT == NO_BEGIN -> ok = 1
    :: FAULT != NO_BEGIN && ok ->
        atomic { STEP; ok = FAULT == BEGINS_UNTOLD || (IS_LATER(word[p]) && HELD(word[p]) == HELD(w));
                 if
                 :: ok && FAULT == BEGINS_UNTOLD -> word[p] = w - LATER
                 :: ok && FAULT != BEGINS_UNTOLD -> word[p] = word[p] - LATER
                 :: else
                 fi }
    :: else
    fi
}

inline forgo()
{
    atomic { STEP; w = word[p]; ok = IS_LATER(w) && OWNER(w) == ME }
    if
    :: ok -> change(p, w, EMPTY, 0, STALE, 1)
    :: else
    fi
}

inline later()
{
    if
    :: ok ->
        if
        :: begin(); if :: ok -> fill() :: else fi
        :: forgo()
        fi
    :: else
    fi
}

/* judge and take_unit, punch: the pages are one unit. */
inline evict()
{
    n = 0; take = 0;
    do
    :: n < PAGES ->
        atomic { STEP; was[n] = word[n];
                 take = take || STATE(was[n]) == READY || (STATE(was[n]) == EMPTY && (was[n] & STALE)) }
        if
        :: STATE(was[n]) == CLAIMED || STATE(was[n]) == EVICTING ->
            prove(OWNER(was[n]));
            if
            :: ok -> change(n, was[n], EMPTY, 0, STALE, 0)
            :: else
            fi;
            if
            :: ok ->
                atomic { STEP; was[n] = word[n]; take = STATE(was[n]) == EMPTY };
                if
                :: !take -> break
                :: else
                fi
            :: else -> take = 0; break
            fi
        :: else
        fi;
        n++
    :: else -> break
    od;
    if
    :: take ->
#if FAULT == PUNCHES_FIRST
        punch();
#endif
        n = 0;
        do
        :: n < PAGES && (FAULT != NO_NEIGHBOUR || STATE(was[n]) != EMPTY || (was[n] & STALE)) ->
            change(n, was[n], EVICTING, ME, 0, 0);
            if :: ok -> n++ :: else -> break fi
        :: n < PAGES && !(FAULT != NO_NEIGHBOUR || STATE(was[n]) != EMPTY || (was[n] & STALE)) -> n++
        :: n == PAGES -> break
        od;
        if
        :: n == PAGES ->
#if FAULT == EMPTY_FIRST
            leave();
#endif
#if FAULT != PUNCHES_FIRST
            punch();
#endif
            leave()
        :: else -> /* a neighbour was claimed: those before it are again what they were */
            do
            :: n > 0 -> n--;
                atomic { STEP; w = word[n]; ok = STATE(w) == EVICTING && OWNER(w) == ME }
                if
                :: ok -> change(n, w, STATE(was[n]), 0, (was[n] & STALE), 0)
                :: else
                fi
            :: else -> break
            od
        fi
    :: else
    fi;
    n = 0;
    do :: n < PAGES -> was[n] = 0; n++ :: else -> break od
}

inline punch()
{
    n = 0;
    do :: n < 2 * PAGES -> atomic { STEP; half[n] = 0; n++ } :: else -> break od
}

inline leave()
{
    n = 0;
    do
    :: n < PAGES ->
        atomic { STEP; w = word[n]; ok = STATE(w) == EVICTING && OWNER(w) == ME }
        if
        :: ok -> change(n, w, EMPTY, 0, 0, 0)
        :: else
        fi;
        n++
    :: else -> break
    od
}

/* wait_for: the first look, the proof, sleep_on. */
inline wait()
{
    prove(OWNER(w));
    if
    :: ok -> change(p, w, EMPTY, 0, STALE, 0)
    :: else ->
        atomic { STEP; ok = word[p] == w; if :: ok -> w = w | WAITERS; word[p] = w :: else fi }
        if
        :: ok ->
            /* FUTEX_WAIT: the kernel compares and sleeps at once; the low half of the word has no generation. */
            atomic { STEP; sleeps[me] = (word[p] & 1023) == (w & 1023) }
            if
            :: !sleeps[me]
#ifndef WAKES_ONLY
            :: sleeps[me] -> sleeps[me] = 0 /* the time is over */
#endif
            fi
        :: else
        fi
    fi
}

proctype actor(byte me)
{
    int w, was[PAGES], seen;
    byte p, n, i, ops, mine;
    bit a, b, ok, woken, good, take, writes;
begins:
#ifdef THREADS
    atomic { locked[0] = 1; epoch[0] = 1; mine = 1 }
#else
    atomic { STEP; locked[me] = 1; mine = epoch[me] + 1 }
#if FAULT != EPOCH_LATE
    atomic { STEP; epoch[me] = mine }
#endif
#endif
    do
    :: ops < OPS ->
        atomic {
            STEP;
            ops++;
            if :: p = 0 :: PAGES > 1 -> p = PAGES - 1 fi;
            w = word[p]
        }
        if
        :: STATE(w) == READY -> read()
        :: STATE(w) == READY -> change(p, w, EMPTY, 0, STALE, 0) /* damaged() */
        :: STATE(w) == EMPTY -> claim(0); if :: ok -> fill() :: else fi
        :: STATE(w) == EMPTY -> claim(LATER); later()
        :: STATE(w) == CLAIMED && (FAULT == TAKES_BEGUN || (w & LATER)) ->
            change(p, w, CLAIMED, ME, LATER, (FAULT != TAKES_BEGUN)); later() /* take_later() */
        :: STATE(w) == CLAIMED || STATE(w) == EVICTING -> wait()
        :: evict()
        fi;
        atomic {
#if FAULT == EPOCH_LATE
            epoch[me] = mine;
#endif
            w = 0; p = 0; n = 0; a = 0; b = 0; ok = 0; good = 0; take = 0
        }
    :: break
    od;
    atomic { over[me] = 1; ops = 0; mine = 0; goto ended }
killed: /* at any step. The kernel drops the lock, and writes no more. */
    atomic {
        deaths++;
        locked[me] = 0; sleeps[me] = 0;
        if :: writes -> filling[p]-- :: else fi;
        i = 0;
        do :: i < PAGES -> was[i] = 0; i++ :: else -> break od;
        w = 0; p = 0; n = 0; a = 0; b = 0; ok = 0; good = 0; take = 0; woken = 0; writes = 0; seen = 0; i = 0;
        mine = 0;
        if
        :: ops = OPS - 1; goto begins /* the slot's next holder does one thing */
        :: ops = 0; over[me] = 1; goto ended /* or there is none */
        fi
    }
ended: skip
}

init
{
    byte p, owner;
    atomic { do :: p < ACTORS -> run actor(p); p++ :: else -> break od; p = 0 }
    do :: p < ACTORS -> over[p]; p++ :: else -> break od;
    atomic {
        p = 0;
        do
        :: p < PAGES ->
            owner = OWNER(word[p]);
            if
            :: STATE(word[p]) == READY -> assert(half[2 * p] && half[2 * p + 1])
            :: STATE(word[p]) == CLAIMED || STATE(word[p]) == EVICTING -> /* the next one can prove its owner dead */
                assert((FAULT != LOCK_ALONE && epoch[owner & 3] != owner >> 2) ||
                       (FAULT != EPOCH_ALONE && !locked[owner & 3]))
            :: else
            fi;
            p++
        :: else -> break
        od
    }
}
