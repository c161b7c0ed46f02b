/* Families of files: see family.h.
 *
 * |lock| guards everything here. It is a leaf, held for computing and across a fork, never for I/O. The memory is not
 * bounded: HDF5 keeps more for each source than is kept here, and each source costs a request first. */
#include "family.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cache/base/letters.h"
#include "../cache/base/now.h"
#include "../cache/base/table.h"

/* Least time for which a failure is remembered. A program that tries again and again then asks the server twelve times
 * a minute, not a thousand times a second. */
#define FAMILY_FORGETS_NS 5000000000u

struct kin { /* a URL that a file of the family names */
    enum xh_kin kin;
    int seen;          /* 1: it was opened once */
    uint64_t until_ns; /* for XH_KIN_FAILED: when |err| is forgotten */
    struct xh_err *err;
    const char *url; /* stored behind the struct, in the same allocation */
    UT_hash_handle hh;
};

#define LINEUPS_MOST 16u /* mappings that are remembered for a family */

struct family {
    struct family *next;
    uint64_t id, open; /* open files of the family */
    struct kin *kin;   /* by |url| */
    struct xh_family_lost lost;
    struct xh_lineup lineup[LINEUPS_MOST];
    size_t lineups;
    int endless;  /* 1: a mapping of the family has a name with %b */
    char *in_row; /* the last URL of a row of those that differ by their numbers alone; NULL: none */
    size_t row;   /* how many these are */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct family *families; /* those with an open file */

static void take(void)
{
    pthread_mutex_lock(&lock);
}

static void give(void)
{
    pthread_mutex_unlock(&lock);
}

static void survive_forks(void)
{
    pthread_atfork(take, give, give);
}

/* Takes the lock, until give(). Returns the family; NULL: none is remembered. */
static struct family *enter(uint64_t id)
{
    struct family *f;
    pthread_once(&once, survive_forks);
    take();
    LL_SEARCH_SCALAR(families, f, id, id);
    return f;
}

static struct kin *kin_of(struct family *f, const char *url)
{
    struct kin *k = NULL;
    if (f)
        HASH_FIND_STR(f->kin, url, k);
    return k;
}

/* Returns the entry of |url|, and makes it if necessary; NULL when out of memory. */
static struct kin *kin_make(struct family *f, const char *url)
{
    struct kin *k = kin_of(f, url);
    size_t n = strlen(url) + 1;
    if (k || !(k = calloc(1, sizeof *k + n)))
        return k;
    k->url = memcpy(k + 1, url, n);
    HASH_ADD_KEYPTR(hh, f->kin, k->url, n - 1, k);
    if (xh_in_table(k))
        return k;
    free(k);
    return NULL;
}

uint64_t xh_family_new(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void xh_family_enter(uint64_t id)
{
    struct family *f = enter(id);
    if (!f && (f = calloc(1, sizeof *f))) { /* out of memory: nothing is remembered */
        f->id = id;
        LL_PREPEND(families, f);
    }
    if (f)
        f->open++;
    give();
}

int xh_family_leave(uint64_t id)
{
    struct family *f = enter(id);
    struct kin *k, *next;
    int last = f && --f->open == 0;
    if (last) {
        LL_DELETE(families, f);
        k = f->kin;
        HASH_CLEAR(hh, f->kin);
        for (; k; k = next) {
            next = k->hh.next;
            free(k->err);
            free(k);
        }
        for (size_t i = 0; i < f->lineups; i++)
            xh_lineup_free(&f->lineup[i]);
        free(f->in_row);
        free(f);
    }
    give();
    return last;
}

uint64_t xh_family_remembers_ns(uint64_t took_ns)
{
    return took_ns > FAMILY_FORGETS_NS ? took_ns : FAMILY_FORGETS_NS;
}

char *xh_family_key(const struct xh_namer *by, const char *url)
{
    char *key;
    return asprintf(&key, "%s %s", by->server, url) < 0 ? NULL : key;
}

enum xh_kin xh_family_look(uint64_t id, const char *url, struct xh_err *err)
{
    const struct kin *k = kin_of(enter(id), url);
    enum xh_kin kin = k ? k->kin : XH_KIN_UNKNOWN;
    if (kin == XH_KIN_FAILED && (!k->err || xh_now_ns() >= k->until_ns))
        kin = k->seen ? XH_KIN_OPENED : XH_KIN_UNKNOWN;
    if (kin == XH_KIN_FAILED)
        *err = *k->err;
    give();
    return kin;
}

void xh_family_note(uint64_t id, const char *url, enum xh_kin kin, const struct xh_err *err, uint64_t took_ns)
{
    struct family *f = enter(id);
    struct kin *k = f ? kin_make(f, url) : NULL;
    if (k) {
        free(k->err);
        k->err = kin == XH_KIN_FAILED ? malloc(sizeof *err) : NULL;
        if (k->err)
            *k->err = *err;
        k->kin = kin;
        k->seen |= kin == XH_KIN_OPENED;
        k->until_ns = xh_now_ns() + xh_family_remembers_ns(took_ns);
    }
    give();
}

void xh_family_lose(uint64_t id, enum xh_kin kin, uint64_t took_ns)
{
    struct family *f = enter(id);
    if (f) {
        f->lost.failures += kin == XH_KIN_FAILED;
        f->lost.missing += kin == XH_KIN_MISSING;
        f->lost.network_ns += took_ns;
    }
    give();
}

struct xh_family_lost xh_family_lost(uint64_t id)
{
    const struct family *f = enter(id);
    struct xh_family_lost lost = f ? f->lost : (struct xh_family_lost){0};
    give();
    return lost;
}

/* Adds |names| to the family, or frees them. The caller holds |lock|. */
static void line_up(struct family *f, struct xh_names *names)
{
    size_t i = 0;
    while (f && i < f->lineups && !xh_lineup_is(&f->lineup[i], names))
        i++;
    if (!f || i < f->lineups || i == LINEUPS_MOST)
        free(names->text);
    else if (xh_lineup_init(&f->lineup[i], names) == 0)
        f->lineups++;
}

void xh_family_saw(uint64_t id, const void *p, size_t len)
{
    struct xh_names names = {0};
    for (size_t at = 0; xh_mapping_next(p, len, &at, &names); names = (struct xh_names){.endless = names.endless}) {
        line_up(enter(id), &names);
        give();
    }
    struct family *f = enter(id);
    if (f)
        f->endless |= names.endless;
    give();
}

/* ---- names that never end */

/* How many files are opened before the server is asked for one that cannot be there, and then twice as many, and so on.
 * A request in 256 is hardly seen; and 256 files that need not be there cost little. */
#define ROW_FILES 256u

/* No block has this number: it is HDF5's H5S_UNLIMITED. */
#define ABSURD "18446744073709551615"

/* Writes |url| to |out|, with ABSURD in place of each number that is another one in |other|. |out| NULL: writes
 * nothing. Returns the length without its NUL; or 0 when the two differ by more than numbers, or not at all. */
static size_t make_absurd(const char *url, const char *other, char *out)
{
    size_t n = 0, differ = 0;
    for (;; url++, other++) {
        size_t a = strspn(url, XH_DIGITS), b = strspn(other, XH_DIGITS);
        int same = a == b && memcmp(url, other, a) == 0;
        const char *number = same ? url : ABSURD;
        size_t len = same ? a : strlen(ABSURD);
        if (!a != !b || url[a] != other[b])
            return 0;
        differ += !same;
        if (out)
            memcpy(out + n, number, len);
        n += len;
        url += a;
        other += b;
        if (out)
            out[n] = *url;
        if (!*url)
            return differ ? n : 0;
        n++;
    }
}

char *xh_family_absurd(uint64_t id, const char *url)
{
    char *absurd = NULL;
    struct family *f = enter(id);
    if (!f || !f->endless) {
        give();
        return NULL;
    }
    size_t n = f->in_row ? make_absurd(url, f->in_row, NULL) : 0;
    f->row = n ? f->row + 1 : 1;
    if (f->row >= ROW_FILES && (f->row & (f->row - 1)) == 0 && (absurd = malloc(n + 1))) {
        make_absurd(url, f->in_row, absurd);
    } else {
        free(f->in_row);
        f->in_row = strdup(url);
    }
    give();
    return absurd;
}

void xh_family_is_endless(uint64_t id)
{
    struct family *f = enter(id);
    if (f && f->row)
        f->row--;
    give();
}

size_t xh_family_behind(uint64_t id, const char *url)
{
    size_t most = 0;
    struct family *f = enter(id);
    for (size_t i = 0; f && i < f->lineups; i++) {
        size_t n = xh_lineup_behind(&f->lineup[i], url);
        most = n > most ? n : most;
    }
    give();
    return most;
}

void xh_family_foresees(uint64_t id, const struct xh_namer *by, const char *url, struct xh_foreseen *out)
{
    size_t first, k;
    memset(out, 0, sizeof *out);
    struct family *f = enter(id);
    for (size_t i = 0; f && i < f->lineups; i++) {
        struct xh_lineup *l = &f->lineup[i];
        size_t behind = xh_lineup_behind(l, url);
        k = xh_lineup_opened(l, url, &first);
        if (behind == 0)
            continue;
        out->behind = behind > out->behind ? behind : out->behind;
        out->soon = l->soon > out->soon ? l->soon : out->soon;
        out->anew |= l->anew;
        for (; k && out->n < XH_EXPECTED_MOST; k--, first++) {
            char **to = &out->url[out->n], *key = NULL;
            if (asprintf(to, "%s%s", l->prefix, l->name[first].text) < 0)
                break;
            out->name_at[out->n] = *l->prefix ? strlen(l->prefix) : SIZE_MAX;
            key = xh_family_key(by, *to);
            if (key && !kin_of(f, key))
                out->n++;
            else
                free(*to);
            free(key);
        }
    }
    give();
}
