/* The time line: see timeline.h. */
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/files.h"
#include "base/letters.h"
#include "base/now.h"
#include "base/waits.h"
#include "trace.h"

#define EVENT_BYTES 3072
#define WORDS_BYTES 1000
#define BUFFER_BYTES (2u << 20)
#define WRITE_AT_BYTES (32u << 10)
#define WRITE_EVERY_NS 100000000u
#define LOCK_PAUSE_NS 1000000u /* a process starts the file anew in microseconds */
#define LOCK_TRIES 20          /* unless it is suspended there, or somebody else's lock */
/* Above all thread numbers, which end at 2^22. */
#define FIRST_CONNECTION 10000000u

_Atomic int xh_timeline_state;
_Thread_local int xh_timeline_hints;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;         /* guards |line|; a leaf, held for a copy */
/* held while |spare| is written; |lock| may be taken within it */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;     /* held while the file is opened */

static struct {
    char *buffer, *spare; /* BUFFER_BYTES each */
    size_t used;
    uint64_t taken, lost; /* bytes of all events; events that did not fit */
    uint64_t written_ns;
    uint64_t beside;      /* number of the last such event */
    unsigned char named[65536 / 8]; /* connections whose track has a name */
    int fd;               /* constant after |xh_timeline_state| is set; ordered by |lock|, which is taken between */
    int full;
} line;

/* ---- JSON */

/* Appends |c| as part of a string. Leaves room for what closes the event. */
static size_t put_char(char *out, size_t n, size_t size, unsigned char c)
{
    if (n + 7 > size)
        return n;
    if (c < 0x20 || c >= 0x7f) /* a non-ASCII byte is written as a Latin-1 character: always valid */
        return n + (size_t)snprintf(out + n, 7, "\\u%04x", c);
    if (c == '"' || c == '\\')
        out[n++] = '\\';
    out[n++] = (char)c;
    return n;
}

static size_t put_string(char *out, size_t n, size_t size, const char *s, size_t len)
{
    if (n < size)
        out[n++] = '"';
    for (size_t i = 0; i < len; i++)
        n = put_char(out, n, size - 1, (unsigned char)s[i]);
    if (n < size)
        out[n++] = '"';
    return n;
}

static int is_number(const char *s, size_t len)
{
    return len > 0 && len < 20 && strspn(s, XH_DIGITS) == len && (len == 1 || s[0] != '0');
}

/* Makes members of a JSON object from "key=value key="a value" …". Words without '=' are ignored. */
static size_t put_words(char *out, size_t size, const char *words)
{
    size_t n = 0;
    while (*(words += strspn(words, " "))) {
        size_t key = strcspn(words, "= ");
        const char *value = words + key + 1;
        if (words[key] != '=') {
            words += key;
            continue;
        }
        int quoted = *value == '"';
        value += quoted;
        size_t len = strcspn(value, quoted ? "\"" : " ");
        if (n + 6 * (key + len) + 16 > size)
            break;
        if (n)
            out[n++] = ',';
        n = put_string(out, n, size, words, key);
        out[n++] = ':';
        if (is_number(value, len)) {
            memcpy(out + n, value, len);
            n += len;
        } else {
            n = put_string(out, n, size, value, len);
        }
        words = value + len + (quoted && value[len]);
    }
    out[n] = '\0';
    return n;
}

/* ---- events */

/* Adds an event to the buffer. |len| is at most EVENT_BYTES. */
static void add(const char *event, size_t len)
{
    pthread_mutex_lock(&lock);
    if (line.full || line.used + len > BUFFER_BYTES) {
        line.lost++;
    } else {
        memcpy(line.buffer + line.used, event, len);
        line.used += len;
        line.taken += len;
        line.full = line.taken > XH_TIMELINE_MOST_BYTES;
    }
    pthread_mutex_unlock(&lock);
}

static long long thread_number(void)
{
    return (long long)syscall(SYS_gettid);
}

#define MICROSECONDS "%llu.%03u"
#define US(ns) (unsigned long long)((ns) / 1000), (unsigned)((ns) % 1000)

static void emit(const char *phase, const char *name, uint64_t track, uint64_t at_ns, const char *more,
                 const char *words)
{
    char event[EVENT_BYTES], args[EVENT_BYTES - 512];
    put_words(args, sizeof args, words);
    int n = snprintf(event, sizeof event,
                     "{\"ph\":\"%s\",\"name\":\"%.60s\",\"pid\":%d,\"tid\":%lld,\"ts\":" MICROSECONDS
                     "%.200s,\"args\":{%s}},\n",
                     phase, name, (int)getpid(), track ? (long long)track : thread_number(), US(at_ns), more, args);
    if (n > 0 && (size_t)n < sizeof event)
        add(event, (size_t)n);
}

void xh_timeline_slice(uint64_t track, const char *name, uint64_t from_ns, uint64_t to_ns, const char *fmt, ...)
{
    char words[WORDS_BYTES], more[64];
    uint64_t lasted = to_ns > from_ns ? to_ns - from_ns : 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    snprintf(more, sizeof more, ",\"dur\":" MICROSECONDS, US(lasted));
    emit("X", name, track, from_ns, more, words);
}

void xh_timeline_beside(const char *name, uint64_t from_ns, uint64_t to_ns)
{
    char more[96];
    pthread_mutex_lock(&lock);
    uint64_t number = ++line.beside;
    pthread_mutex_unlock(&lock);
    snprintf(more, sizeof more, ",\"cat\":\"%s\",\"id2\":{\"local\":\"%llu\"}", name, (unsigned long long)number);
    emit("b", name, 0, from_ns, more, "");
    emit("e", name, 0, to_ns, more, "");
}

/* 1 for trace events that the time line draws as slices. */
static int has_slices(const char *event)
{
    static const char *const slices[] = {"read", "request", "send", "reply", "done", NULL};
    return xh_is_one_of(event, slices);
}

/* Draws a trace event as a moment on the calling thread's track. */
static void moment(const char *component, const char *event, uint64_t now_ns, const char *words)
{
    char more[64];
    if (!xh_timeline_on() || has_slices(event))
        return;
    snprintf(more, sizeof more, ",\"cat\":\"%s\",\"s\":\"t\"", component);
    emit("i", event, 0, now_ns, more, words);
}

uint64_t xh_timeline_connection(unsigned port)
{
    char words[64];
    port &= 0xffff;
    uint64_t track = FIRST_CONNECTION + port;
    pthread_mutex_lock(&lock);
    int named = line.named[port / 8] >> port % 8 & 1;
    line.named[port / 8] |= (unsigned char)(1u << port % 8);
    pthread_mutex_unlock(&lock);
    if (!named) {
        snprintf(words, sizeof words, "name=\"connection, port %u\"", port);
        emit("M", "thread_name", track, 0, "", words);
    }
    return track;
}

/* ---- the file */

static void give_up(void)
{
    atomic_store_explicit(&xh_timeline_state, 0, memory_order_relaxed);
    xh_trace_to(NULL);
}

/* Writes all bytes; on an error switches the time line off. */
static void write_out(const char *p, size_t len)
{
    off_t end = lseek(line.fd, 0, SEEK_END);
    if (end < 0 || !xh_may_write((uint64_t)end + len) || xh_write(line.fd, p, len))
        give_up();
}

void xh_timeline_write(int all)
{
    if (!xh_timeline_on())
        return;
    if (all)
        pthread_mutex_lock(&writing);
    else if (pthread_mutex_trylock(&writing) != 0) /* another thread writes */
        return;
    uint64_t now = xh_now_ns();
    pthread_mutex_lock(&lock);
    size_t used = line.used;
    uint64_t lost = line.lost;
    int full = line.full;
    if (all || used > WRITE_AT_BYTES || now - line.written_ns > WRITE_EVERY_NS) {
        char *filled = line.buffer;
        line.buffer = line.spare;
        line.spare = filled;
        line.used = 0;
        line.lost = 0;
        line.written_ns = now;
    } else {
        used = lost = 0;
        full = 0;
    }
    pthread_mutex_unlock(&lock);
    write_out(line.spare, used);
    if (lost || full) {
        char event[256];
        int n = snprintf(event, sizeof event,
                         "{\"ph\":\"i\",\"name\":\"%s\",\"s\":\"p\",\"pid\":%d,\"tid\":%lld,\"ts\":" MICROSECONDS
                         ",\"args\":{\"events\":%llu}},\n",
                         full ? "the trace is full" : "events lost", (int)getpid(), thread_number(), US(now),
                         (unsigned long long)lost);
        write_out(event, (size_t)n);
    }
    if (full)
        give_up();
    pthread_mutex_unlock(&writing);
}

static void at_exit(void)
{
    xh_timeline_write(1);
}

static void expand(const char *name, char *path, size_t size)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    size_t n = 0;
    for (; *name && n < size; name++) {
        int is_process = strncmp(name, "%p", 2) == 0, is_host = strncmp(name, "%h", 2) == 0;
        n += (size_t)(is_process ? snprintf(path + n, size - n, "%d", (int)getpid())
                      : is_host  ? snprintf(path + n, size - n, "%s", host)
                                 : snprintf(path + n, size - n, "%c", *name));
        name += is_process || is_host;
    }
}

/* Opens the file. Each process holds a shared lock until it ends. The first process with the file open gets the
 * exclusive lock and starts the file anew. Waits for nobody: neither for a reader of a FIFO, nor for long for a lock,
 * which each user may hold who may read the file. Without a lock, a later process may start the file anew. */
static int open_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd < 0)
        return -1;
    int first = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!first && xh_has_no_locks(errno)) /* then the events come behind those of earlier runs */
        first = lseek(fd, 0, SEEK_END) == 0;
    if (first) {
        if (ftruncate(fd, 0) != 0 || !xh_may_write(2) || write(fd, "[\n", 2) != 2) { /* a pipe, or a full disk */
            close(fd);
            return -1;
        }
    }
    for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK; i++)
        xh_pause_ns(LOCK_PAUSE_NS);
    return fd;
}

static void name_process(void)
{
    char words[96];
    snprintf(words, sizeof words, "name=\"%.60s\"", program_invocation_short_name);
    emit("M", "process_name", 0, 0, "", words);
}

/* A fork's child continues in the same file. */
static void forked(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&writing, NULL);
    pthread_mutex_init(&starting, NULL);
    line.used = line.lost = line.taken = 0;
    memset(line.named, 0, sizeof line.named);
    if (xh_timeline_on())
        name_process();
}

void xh_timeline_start(const char *name)
{
    static int begun;
    static char path[1400];
    if (!*name)
        return;
    pthread_mutex_lock(&starting);
    if (!begun) {
        begun = 1;
        expand(name, path, sizeof path);
        line.fd = open_file(path);
        line.buffer = malloc(BUFFER_BYTES);
        line.spare = malloc(BUFFER_BYTES);
        if (line.fd < 0)
            xh_say("the trace %s cannot be written: %s", path, strerror(errno));
        if (line.fd >= 0 && line.buffer && line.spare) {
            line.written_ns = xh_now_ns();
            name_process();
            atexit(at_exit);
            pthread_atfork(NULL, NULL, forked);
            atomic_store_explicit(&xh_timeline_state, 1, memory_order_relaxed);
            xh_trace_to(moment);
        }
    }
    pthread_mutex_unlock(&starting);
}
