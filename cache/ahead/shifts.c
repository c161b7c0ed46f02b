/* Shifts: see shifts.h. */
#include "shifts.h"

#include <stdlib.h>

void xh_shifts_free(struct xh_shifts *s)
{
    free(s->at);
    *s = (struct xh_shifts){0};
}

/* 1 when |ext| are the pieces of the last call, all moved by |step|, which may be 0. */
static int are_moved(const struct xh_shifts *s, const struct xh_extent *ext, size_t n, uint64_t step)
{
    if (n != s->n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (ext[i].len != s->at[i].len || ext[i].off != s->at[i].off + step)
            return 0;
    return 1;
}

static void begin(struct xh_shifts *s, const struct xh_extent *ext, size_t n)
{
    s->n = 0;
    s->step = s->read = s->ahead = 0;
    s->same = 0;
    s->bytes = xh_extents_bytes(ext, n);
    if (n > XH_SHIFTS_PIECES || s->bytes == 0)
        return;
    if (n > s->room) {
        struct xh_range *at = realloc(s->at, n * sizeof *at);
        if (!at)
            return;
        s->at = at;
        s->room = n;
    }
    for (size_t i = 0; i < n; i++)
        s->at[i] = (struct xh_range){ext[i].off, ext[i].len};
    s->n = n;
    s->read = s->bytes;
}

void xh_shifts_saw(struct xh_shifts *s, const struct xh_extent *ext, size_t n)
{
    uint64_t step = s->n ? ext[0].off - s->at[0].off : 0;
    if (!are_moved(s, ext, n, step)) {
        begin(s, ext, n);
        return;
    }
    if (step == 0) /* it is read once more */
        return;
    s->same = step == s->step ? s->same + 1 : 0;
    s->ahead = s->same && s->ahead ? s->ahead - 1 : 0;
    s->step = step;
    s->read = s->same ? s->read + s->bytes : 2 * s->bytes;
    for (size_t i = 0; i < n; i++)
        s->at[i].off += step;
}

/* How many calls of the run lie in |in| behind the last one, |most| at most. */
static uint64_t calls_in(const struct xh_shifts *s, struct xh_range in, uint64_t most)
{
    int down = s->step > UINT64_MAX / 2;
    uint64_t far = down ? 0 - s->step : s->step, room = UINT64_MAX;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t from = s->at[i].off, to = from + s->at[i].len, left;
        if (from < in.off || to > in.off + in.len)
            return 0;
        left = down ? from - in.off : in.off + in.len - to;
        room = left < room ? left : room;
    }
    return room / far < most ? room / far : most;
}

/* 1 when the next call's pieces lie right behind the last one's. */
static int are_adjacent(const struct xh_shifts *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->at[i].len != s->step)
            return 0;
    return 1;
}

struct xh_range *xh_shifts_next(const struct xh_shifts *s, uint64_t window, struct xh_range in, size_t *n,
                                uint64_t *calls)
{
    *n = 0;
    *calls = 0;
    if (s->n == 0 || s->same == 0)
        return NULL;
    uint64_t most = (window < s->read ? window : s->read) / s->bytes;
    if (s->ahead > most / 2)
        return NULL;
    uint64_t until = calls_in(s, in, most), joined = (uint64_t)are_adjacent(s);
    if (until <= s->ahead) /* also where |in| was larger before */
        return NULL;
    if (!joined && (until - s->ahead) * s->n > XH_SHIFTS_PIECES)
        until = s->ahead + XH_SHIFTS_PIECES / s->n;
    uint64_t count = until - s->ahead;
    struct xh_range *out = malloc((joined ? 1 : (size_t)count) * s->n * sizeof *out);
    if (!out)
        return NULL;
    for (uint64_t k = 1; k <= (joined ? 1 : count); k++)
        for (size_t i = 0; i < s->n; i++)
            out[(*n)++] = (struct xh_range){s->at[i].off + s->step * (s->ahead + k),
                                            joined ? s->step * count : s->at[i].len};
    *calls = count;
    return out;
}
