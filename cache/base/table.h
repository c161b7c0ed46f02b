/* Hash tables and lists: uthash and utlist. Without memory uthash leaves an element out and does not end the
 * program. Growing arrays, and the search in sorted ones. */
#ifndef XH_TABLE_H
#define XH_TABLE_H

#include <stddef.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* 1 when |element|, added just now by its UT_hash_handle |hh|, is in its table; 0: there was no memory, and it is still
 * the caller's. */
#define xh_in_table(element) ((element)->hh.tbl != NULL)

/* Moves |at|, an array with room for |*room| elements of |each| bytes, to where |n| fit. Returns the new place, or NULL
 * without memory: then nothing has changed. */
void *xh_array_grow(void *at, size_t *room, size_t n, size_t each);

/* Makes room for |n| elements in the array |at|, which has |room|. Returns 0, or -1 without memory: then nothing has
 * changed. */
#define xh_grow(at, room, n)                                                      \
    ({                                                                            \
        void *grown_ = xh_array_grow((at), &(room), (n), sizeof *(at));           \
        grown_ ? (void)((at) = grown_) : (void)0;                                 \
        grown_ ? 0 : -1;                                                          \
    })

/* Appends an element to |list|, which has |at|, |n| and |room|. Returns as xh_grow. */
#define xh_append(list, ...)                                                      \
    ({                                                                            \
        const int lacks_ = xh_grow((list)->at, (list)->room, (list)->n + 1);      \
        if (!lacks_)                                                              \
            (list)->at[(list)->n++] = __VA_ARGS__;                                \
        lacks_;                                                                   \
    })

/* Takes element |i| out of the array |at|, of |n|. */
#define xh_array_drop(at, n, i) ((n)--, memmove((at) + (i), (at) + (i) + 1, ((n) - (i)) * sizeof *(at)))

/* Returns how many of |n| sorted elements lie before something. |before| is a condition on the index |i|; it holds for
 * the first elements, and for none behind these. */
#define xh_count_before(i, n, before)                                             \
    ({                                                                            \
        size_t lo_ = 0, hi_ = (n);                                                \
        while (lo_ < hi_) {                                                       \
            const size_t i = lo_ + (hi_ - lo_) / 2;                               \
            if (before)                                                           \
                lo_ = i + 1;                                                      \
            else                                                                  \
                hi_ = i;                                                          \
        }                                                                         \
        lo_;                                                                      \
    })

#endif
