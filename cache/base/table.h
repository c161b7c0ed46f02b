/* Hash tables and lists: uthash and utlist. Without memory uthash leaves an element out and does not end the
 * program. */
#ifndef XH_TABLE_H
#define XH_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

/* 1 when |element|, added just now by its UT_hash_handle |hh|, is in its table; 0: there was no memory, and it is still
 * the caller's. */
#define xh_in_table(element) ((element)->hh.tbl != NULL)

#endif
