/* Growing arrays: see table.h. */
#include "table.h"

#include <stdlib.h>

void *xh_array_grow(void *at, size_t *room, size_t n, size_t each)
{
    if (n <= *room && at)
        return at;
    size_t more = 2 * *room > n ? 2 * *room : n + 15; /* the first elements come in one piece */
    void *moved = realloc(at, more * each);
    if (moved)
        *room = more;
    return moved;
}
