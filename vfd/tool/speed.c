/* Measuring speed: see speed.h. Each connection has a thread, so that TLS uses all processors, as other parallel
 * programs do. */
#include "speed.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../cache/base/now.h"
#include "../../cache/base/waits.h"

#define CONNECTIONS_MOST 16u
#define LASTS_NS 2000000000u      /* a measurement, once all connections are going */
#define MOST_BYTES (256u << 20)   /* of a measurement */
#define TICK_NS 10000000
#define TICKS_MOST 1000u /* 10 s */

struct race {
    const struct xh_caller *c;
    const struct xh_url *u;
    _Atomic uint64_t bytes;
    atomic_uint going; /* connections that have received their first byte, or have failed */
    atomic_int over;
};

struct runner {
    struct race *r;
    pthread_t thread;
    uint64_t from, to; /* its part of the file */
    int began;
    uint64_t bytes;
    struct xh_answer last;
};

static int on_bytes(void *ctx, const uint8_t *p, size_t len)
{
    struct runner *me = ctx;
    if (me->bytes == 0)
        atomic_fetch_add(&me->r->going, 1);
    me->bytes += len;
    atomic_fetch_add_explicit(&me->r->bytes, len, memory_order_relaxed);
    return atomic_load_explicit(&me->r->over, memory_order_relaxed);
}

static int on_tick(void *ctx)
{
    struct runner *me = ctx;
    return atomic_load_explicit(&me->r->over, memory_order_relaxed);
}

static void *run(void *ctx)
{
    struct runner *me = ctx;
    struct xh_dial *d = xh_dial_new(me->r->c);
    char range[64];
    snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, me->from, me->to - 1);
    const struct xh_question q = {.range = range,
                                  .most_bytes = me->to - me->from,
                                  .most_ms = XH_DIAL_MOST_MS,
                                  .body = on_bytes,
                                  .tick = on_tick,
                                  .ctx = me};
    while (d && !atomic_load_explicit(&me->r->over, memory_order_relaxed)) {
        uint64_t before = me->bytes;
        xh_dial_ask(d, me->r->u, &q, &me->last);
        if (me->last.end != XH_NET_OK || me->last.reply.status != 206 || me->bytes == before)
            break;
    }
    if (me->bytes == 0)
        atomic_fetch_add(&me->r->going, 1);
    xh_dial_free(d);
    return NULL;
}

struct sample {
    uint64_t ns, bytes;
};

/* Takes samples until the measurement has lasted long enough since all connections were going, and sets |over|. Returns
 * the number of samples. */
static size_t watch(struct race *r, unsigned n, struct sample *s)
{
    size_t k = 0;
    uint64_t going_ns = 0;
    while (k < TICKS_MOST) {
        xh_pause_ns(TICK_NS);
        uint64_t now = xh_now_ns(), bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
        if (!going_ns && atomic_load(&r->going) >= n)
            going_ns = now;
        s[k++] = (struct sample){now, bytes};
        if (bytes >= MOST_BYTES || (going_ns && now - going_ns > LASTS_NS))
            break;
    }
    atomic_store(&r->over, 1);
    return k;
}

/* Returns the rate in the second half of the time between the first byte and the end. */
static double rate_of(const struct sample *s, size_t k)
{
    size_t first = 0, middle;
    while (first < k && s[first].bytes == 0)
        first++;
    if (first + 1 >= k)
        return 0;
    middle = first + (k - 1 - first) / 2;
    return (double)(s[k - 1].bytes - s[middle].bytes) * 1e9 / (double)(s[k - 1].ns - s[middle].ns);
}

int xh_speed_measure(const struct xh_caller *c, const struct xh_url *u, uint64_t size, unsigned n, struct xh_speed *out)
{
    struct race r = {.c = c, .u = u};
    struct runner me[CONNECTIONS_MOST] = {0};
    struct sample *s = calloc(TICKS_MOST, sizeof *s);
    n = n < CONNECTIONS_MOST ? n : CONNECTIONS_MOST;
    *out = (struct xh_speed){.asked = n};
    for (unsigned i = 0; s && i < n; i++) {
        me[i].r = &r;
        me[i].from = size / n * i;
        me[i].to = i + 1 == n ? size : size / n * (i + 1);
        me[i].began = pthread_create(&me[i].thread, NULL, run, &me[i]) == 0;
        if (!me[i].began)
            atomic_fetch_add(&r.going, 1);
    }
    size_t k = s ? watch(&r, n, s) : 0;
    for (unsigned i = 0; i < n; i++) {
        if (!me[i].began)
            continue;
        pthread_join(me[i].thread, NULL);
        out->served += me[i].bytes > 0;
        if (me[i].bytes == 0)
            out->failed = me[i].last;
    }
    out->bytes_per_s = rate_of(s, k);
    free(s);
    return k ? 0 : -1;
}
