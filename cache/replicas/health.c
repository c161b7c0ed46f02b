/* The servers that have failed: see health.h. */
#include "health.h"

#include "base/now.h"
#include "base/options.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define FIRST_NS 2000000000u
#define MOST_NS 60000000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char server[XH_SERVER_BYTES];
    uint64_t due_ns, pause_ns;
} failed[XH_REMEMBERED]; /* under |lock|; pause_ns 0: unused */
static unsigned oldest;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL); /* a thread that the child does not have may hold it */
}

static void begin(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* Takes the lock. Returns the row of |server|; XH_REMEMBERED: it has none. */
static unsigned find(const char *server)
{
    unsigned i = 0;
    pthread_once(&once, begin);
    pthread_mutex_lock(&lock);
    while (i < XH_REMEMBERED &&
           (failed[i].pause_ns == 0 || strncmp(failed[i].server, server, XH_SERVER_BYTES - 1) != 0))
        i++;
    return i;
}

uint64_t xh_health_due_ns(const char *server)
{
    unsigned i = find(server);
    uint64_t due = i < XH_REMEMBERED ? failed[i].due_ns : 0;
    pthread_mutex_unlock(&lock);
    return due;
}

uint64_t xh_health_failed(const char *server)
{
    uint64_t now = xh_now_ns();
    unsigned i = find(server);
    if (i == XH_REMEMBERED) {
        i = oldest++ % XH_REMEMBERED;
        snprintf(failed[i].server, sizeof failed[i].server, "%s", server);
        failed[i].pause_ns = FIRST_NS;
        failed[i].due_ns = now + FIRST_NS;
    } else if (now >= failed[i].due_ns) {
        failed[i].pause_ns = 2 * failed[i].pause_ns < MOST_NS ? 2 * failed[i].pause_ns : MOST_NS;
        failed[i].due_ns = now + failed[i].pause_ns;
    }
    uint64_t due = failed[i].due_ns;
    pthread_mutex_unlock(&lock);
    return due;
}

void xh_health_well(const char *server)
{
    unsigned i = find(server);
    if (i < XH_REMEMBERED)
        failed[i].pause_ns = 0;
    pthread_mutex_unlock(&lock);
}
