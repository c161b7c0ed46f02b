/* The room: memory for what was fetched ahead, with one bound for all files of the process.
 *
 * |readahead_bytes| bounds what all stages hold together, and have asked for in parts. A file may hold an equal share
 * among those that hold anything, or want to, and are read. When the room is full and a file is read, stages that are
 * not read any more give theirs back; the one that was read longest ago comes first. Where the process has little
 * memory left, the bound is lower (xh_memory_part). With different options, each file checks its own bound against what
 * all hold together.
 *
 * Blocks are recycled among all files. The block that was given back last goes out first, while it is in the
 * processor's cache: fresh memory costs as much as copying into it.
 *
 * Lock order: a stage's lock, then the room's, which is a leaf. When the room looks for a stage that gives something
 * back, it only tries that stage's lock. Threads: any. A fork's child begins with an empty room. */
#ifndef XH_ROOM_H
#define XH_ROOM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define XH_BLOCK_BYTES (256u << 10)

/* Stages whose files are read as one count once in the room: together they may hold what one may. All zero at first. */
struct xh_room_group {
    /* Changed under the room's lock, read without it as an estimate. */
    _Atomic unsigned places; /* of the group that are in the list */
    /* Under the room's lock: */
    unsigned left;           /* of them, those that are not read any more */
    /* Changed without a lock; orders nothing. */
    _Atomic uint64_t bytes;  /* that they hold, or have reserved */
};

/* A stage's place in the room. */
struct xh_room_place {
    struct xh_room_group *group; /* constant while it holds something; NULL: it is alone */
    /* Constant, the stage's: */
    pthread_mutex_t *lock;
    /* drops all that no reader waits for, and ends the streams. The lock is held */
    void (*empty)(struct xh_room_place *p);
    /* Under the room's lock: */
    struct xh_room_place *next, *prev; /* the list of those that hold something, or found no room */
    uint64_t read;                 /* the room's clock when it was last read from */
    int known;                     /* 1: it has been read from */
    /* Under the stage's lock: */
    int listed;                    /* 1: it is in the room's list. A neighbour changes |prev|, but never this */
    uint64_t reserved;             /* counted, and not held yet */
    uint64_t bytes; /* of its segments, what was not read yet; of a stream's only what is there. Changed by xh_room_add
                     * alone */
};

/* To be called before a stage uses the room: a fork is watched from then on. */
void xh_room_begin(void);

/* |p| holds |more| bytes more, or |less| bytes less; what was reserved is used up first. Its lock is held. */
void xh_room_add(struct xh_room_place *p, uint64_t more, uint64_t less);

/* |p| is read from. |took| 0: its reader is served by another store, and what |p| holds is still ahead of it. |p| keeps
 * its place for some reads of the process. Its lock is held. */
void xh_room_touch(struct xh_room_place *p, int took);

/* Returns how many bytes more |p| may hold now, if all together may hold |most|. If that is 0, |p| counts among those
 * that share the room from then on. Its lock is held. */
uint64_t xh_room_left(struct xh_room_place *p, uint64_t most);

/* reserve: keeps |bytes|, which |p| is about to ask for, from the other stages. Returns 1, or 0 when there is no room.
 * A stage that holds nothing may have one range that is longer than its share; if no stage holds anything, even one
 * longer than |most|. release: at most |bytes| of it are not used after all. The stage's lock is held. */
int xh_room_reserve(struct xh_room_place *p, uint64_t bytes, uint64_t most);
void xh_room_release(struct xh_room_place *p, uint64_t bytes);

/* Makes room for |bytes| of |p|, as far as others hold what is not read any more. No stage's lock is held. */
void xh_room_make(struct xh_room_place *p, uint64_t bytes, uint64_t most);

/* |p| is about to go, and holds nothing. Its lock is held. */
void xh_room_leave(struct xh_room_place *p);

/* The file of |p| is closed: frees the spares, unless another one holds something. */
void xh_room_trim(struct xh_room_place *p);

/* About how much a file may hold of |most|. */
uint64_t xh_room_share(uint64_t most);

/* What all stages hold, or have reserved; and the memory that all blocks take, with the spare ones. For tests. */
uint64_t xh_room_held(void);
uint64_t xh_room_memory(void);

/* Returns memory for |len| bytes, at most XH_BLOCK_BYTES; NULL when there is none. Spares are freed if all blocks
 * together had more than |most| bytes. */
uint8_t *xh_block_get(size_t len, uint64_t most);

/* Gives back what xh_block_get brought for |len|. Spares are kept while all blocks together have at most |most| bytes.
 * |p| may be NULL. */
void xh_block_put(uint8_t *p, size_t len, uint64_t most);

#endif
