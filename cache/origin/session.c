/* Sessions: see session.h. */
#include "session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "base/now.h"

/* For so long what a server said of a login counts: a refusal, as proxies' (some tries lock an account), and that it
 * was good: its session has not expired. */
#define ANSWER_LASTS_NS 60000000000u

/* Logins at one server that users name, or what a login host said of the password. */
struct way {
    struct way *next;
    char *server;
    int running;
    struct xh_login_seen seen;
    uint64_t good_ns, ended_ns; /* when the last one of each kind was over; 0: none */
    struct xh_login_failure failure;
};

struct xh_session {
    struct xh_session *next;
    char identity[65];
    struct xh_jar jar;
    struct way *ways;
};

static struct xh_session *sessions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them all; a leaf */

struct xh_session *xh_session_of(const char identity[65])
{
    struct xh_session *s;
    pthread_mutex_lock(&lock);
    for (s = sessions; s && strcmp(s->identity, identity) != 0;)
        s = s->next;
    if (!s && (s = calloc(1, sizeof *s)) != NULL) {
        memcpy(s->identity, identity, sizeof s->identity);
        s->next = sessions;
        sessions = s;
    }
    pthread_mutex_unlock(&lock);
    return s;
}

char *xh_session_cookies(struct xh_session *s, const struct xh_jar *chain, const char *server)
{
    char *out = NULL;
    pthread_mutex_lock(&lock);
    int n = asprintf(&out, "%s%s", xh_jar_lines(&s->jar, server), xh_jar_lines(chain, server));
    pthread_mutex_unlock(&lock);
    return n < 0 ? NULL : out;
}

void xh_session_take(struct xh_session *s, const struct xh_jar *chain)
{
    if (!chain->n)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < chain->n; i++)
        xh_jar_take(&s->jar, chain->of[i].server, chain->of[i].lines, 0); /* without room: the next one logs in anew */
    pthread_mutex_unlock(&lock);
}

/* Lock held. */
static struct way *find_way(const struct xh_session *s, const char *server)
{
    struct way *w = s->ways;
    while (w && strcmp(w->server, server) != 0)
        w = w->next;
    return w;
}

/* NULL without memory. Lock held. */
static struct way *way_of(struct xh_session *s, const char *server)
{
    struct way *w = find_way(s, server);
    if (w || !(w = calloc(1, sizeof *w)))
        return w;
    if (!(w->server = strdup(server))) {
        free(w);
        return NULL;
    }
    w->next = s->ways;
    s->ways = w;
    return w;
}

int xh_session_doubt(struct xh_session *s, const char *first, const char *server)
{
    pthread_mutex_lock(&lock);
    const struct way *w = find_way(s, first);
    int young = w && w->good_ns && xh_now_ns() - w->good_ns <= ANSWER_LASTS_NS;
    int had = xh_jar_lines(&s->jar, server)[0] != '\0';
    for (size_t i = 0; had && !young && i < s->jar.n; i++)
        if (strcmp(s->jar.of[i].server, server) == 0)
            explicit_bzero(s->jar.of[i].lines, strlen(s->jar.of[i].lines));
    pthread_mutex_unlock(&lock);
    return had && !young;
}

struct xh_login_seen xh_session_seen(struct xh_session *s, const char *first)
{
    pthread_mutex_lock(&lock);
    const struct way *w = find_way(s, first);
    struct xh_login_seen seen = w ? w->seen : (struct xh_login_seen){0};
    pthread_mutex_unlock(&lock);
    return seen;
}

/* 1 when what |w| failed with still holds. Lock held. */
static int is_bad(const struct way *w)
{
    uint64_t lasts_ns = w && w->failure.end == XH_LOGIN_REFUSED ? ANSWER_LASTS_NS : XH_FAILURE_LASTS_NS;
    return w && w->failure.end != XH_LOGIN_NONE && xh_now_ns() - w->ended_ns <= lasts_ns;
}

enum xh_login_turn xh_session_turn(struct xh_session *s, const char *first, const char *login,
                                   struct xh_login_seen seen, struct xh_login_failure *why)
{
    enum xh_login_turn turn = XH_LOGIN_GO;
    pthread_mutex_lock(&lock);
    const struct way *refused = find_way(s, login);
    struct way *w = way_of(s, first);
    if (is_bad(refused)) {
        turn = XH_LOGIN_FAILED;
        *why = refused->failure;
    } else if (w && w->seen.good != seen.good) {
        turn = XH_LOGIN_DONE;
    } else if (is_bad(w) || (w && w->seen.ended != seen.ended)) {
        turn = XH_LOGIN_FAILED;
        *why = w->failure;
    } else if (!w || w->running) { /* NULL: until there is memory */
        turn = XH_LOGIN_WAIT;
    } else {
        w->running = 1;
    }
    pthread_mutex_unlock(&lock);
    return turn;
}

/* Lock held. */
static void note_failure(struct way *w, enum xh_login_end end, const struct xh_login_failure *why)
{
    w->failure = *why;
    w->failure.end = end;
    w->ended_ns = xh_now_ns();
    w->seen.ended++;
}

void xh_session_over(struct xh_session *s, const char *first, const char *login, enum xh_login_end end,
                     const struct xh_login_failure *why)
{
    pthread_mutex_lock(&lock);
    struct way *w = way_of(s, first), *host = end == XH_LOGIN_REFUSED ? way_of(s, login) : NULL;
    if (w) {
        w->running = 0;
        if (end == XH_LOGIN_GOOD) {
            w->failure.end = XH_LOGIN_NONE;
            w->good_ns = xh_now_ns();
            w->seen.good++;
        } else if (why) {
            note_failure(w, end, why);
        }
    }
    if (host && why)
        note_failure(host, end, why);
    pthread_mutex_unlock(&lock);
}

void xh_session_after_fork(void)
{
    int torn = pthread_mutex_trylock(&lock) != 0; /* a thread of the parent's was at work */
    pthread_mutex_init(&lock, NULL);
    for (struct xh_session *s = sessions; s; s = s->next) {
        if (torn)
            s->jar = (struct xh_jar){0};
        for (struct way *w = s->ways; w; w = w->next)
            w->running = 0;
    }
}
