/* The dialect: see dialect.h. Pure; a hint is untrusted text, so every field of it is
 * checked against the bounds that the prober itself would keep. */
#include "dialect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "response.h"

#define HINT_WORD "xhdf5-origin-3"

static const char *const proof_names[] = {
    [XH_BY_SIZE] = "size", [XH_BY_ETAG] = "etag",         [XH_BY_WEAK_ETAG] = "weak",
    [XH_BY_DATE] = "date", [XH_BY_PROPFIND] = "propfind",
};
#define PROOFS (sizeof proof_names / sizeof *proof_names)

void xh_dialect_init(struct xh_dialect *d)
{
    memset(d, 0, sizeof *d);
    d->proof = XH_BY_SIZE;
    d->changed = -1;
}

static int printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            return 0;
    return 1;
}

/* Of a strong one's form: see response.h. */
static int is_strong(const char *s)
{
    size_t n = strlen(s);
    if (s[0] == '#')
        return s[1] == 's' && s[2 + strspn(s + 2, "0123456789abcdef-")] == '\0';
    return n > 2 && s[0] == '"' && s[n - 1] == '"' && memchr(s + 1, '"', n - 2) == NULL;
}

static int is_weak(const char *s)
{
    return s[0] && strlen(s) < XH_WEAK_TAG_BYTES && !strchr(s, ' ') && !xh_etag_is_strong(s);
}

/* RFC 9110, 8.8.3.2: what weak comparison compares. Apache's ETags are weak for a second, and strong then. */
static const char *opaque(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0 && etag[2] ? etag + 2 : etag; /* never "", as none is */
}

int xh_dialect_set_proof(struct xh_dialect *d, enum xh_proof proof, const char *value)
{
    size_t n = strlen(value);
    if (n >= sizeof d->value || !printable(value) || (n == 0) != (proof == XH_BY_SIZE))
        return 0;
    if (proof == XH_BY_ETAG && !is_strong(value))
        return 0;
    if (proof == XH_BY_WEAK_ETAG && !is_weak(value))
        return 0;
    d->proof = proof;
    memcpy(d->value, value, n + 1);
    d->tag[0] = '\0';
    d->youth = XH_OLD;
    d->changed = -1;
    d->no_match = 0;
    return 1;
}

/* How old a file that was |changed| is |now|. One of the future is young. */
static enum xh_youth youth_of(time_t changed, time_t now)
{
    return now - changed < XH_SETTLING_S ? XH_YOUNG : now - changed < XH_SETTLED_S ? XH_SETTLING : XH_OLD;
}

void xh_dialect_learn(struct xh_dialect *d, const char *etag, const char *last_modified, time_t date)
{
    xh_dialect_set_proof(d, XH_BY_SIZE, "");
    time_t changed = xh_http_date(last_modified);
    int told = changed != (time_t)-1 && date != (time_t)-1;
    if (xh_etag_is_strong(etag) && xh_dialect_set_proof(d, XH_BY_ETAG, etag)) {
        d->youth = told ? youth_of(changed, date) : XH_OLD;
        d->changed = changed;
        return;
    }
    if (last_modified[0] && xh_dialect_set_proof(d, XH_BY_DATE, last_modified)) {
        d->youth = told ? youth_of(changed, date) : XH_YOUNG;
        d->changed = changed;
        if (is_weak(etag))
            snprintf(d->tag, sizeof d->tag, "%s", opaque(etag));
        return;
    }
    if (etag[0])
        xh_dialect_set_proof(d, XH_BY_WEAK_ETAG, etag);
}

void xh_dialect_learn_propfind(struct xh_dialect *d, const char *date, time_t now)
{
    time_t changed = xh_http_date(date);
    if (!xh_dialect_set_proof(d, XH_BY_PROPFIND, date))
        return;
    d->youth = changed == (time_t)-1 ? XH_YOUNG : youth_of(changed, now);
    d->changed = changed;
}

void xh_dialect_age(struct xh_dialect *d, time_t now)
{
    if (d->changed == (time_t)-1 || now == (time_t)-1)
        return;
    enum xh_youth youth = youth_of(d->changed, now);
    d->youth = youth < d->youth ? youth : d->youth;
}

/* Whether |now| is |was|, both as they are compared. */
static int same(const char *what, const char *was, const char *now, char *how, size_t size)
{
    if (strcmp(was, now) == 0)
        return 1;
    if (how && now[0])
        snprintf(how, size, "its %s was %.60s and is %.60s now", what, was, now);
    else if (how)
        snprintf(how, size, "its %s was %.60s, and a reply came without one", what, was);
    return 0;
}

int xh_dialect_shows(const struct xh_dialect *d, const char *etag, const char *last_modified, char *how, size_t size)
{
    switch (d->proof) {
    case XH_BY_ETAG:
        return same("ETag", d->value, etag, how, size);
    case XH_BY_WEAK_ETAG:
        return same("ETag", opaque(d->value), opaque(etag), how, size);
    case XH_BY_DATE:
        return same("Last-Modified", d->value, last_modified, how, size) &&
               (!d->tag[0] || same("ETag", d->tag, opaque(etag), how, size));
    default:
        return 1;
    }
}

size_t xh_dialect_validator(const struct xh_dialect *d, char *buf, size_t size)
{
    int n;
    switch (d->proof) {
    case XH_BY_ETAG:
    case XH_BY_WEAK_ETAG:
        n = snprintf(buf, size, "etag:%s;size:%" PRIu64, d->value, d->size);
        break;
    case XH_BY_DATE:
    case XH_BY_PROPFIND:
        n = snprintf(buf, size, "mtime:%s;size:%" PRIu64 "%s%s", d->value, d->size, d->tag[0] ? ";tag:" : "", d->tag);
        break;
    default:
        n = snprintf(buf, size, "size:%" PRIu64, d->size);
    }
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* 1 when |dated| is "mtime:…;size:N;tag:T" and |tagged| "etag:T;size:N". */
static int has_become_strong(const char *dated, const char *tagged)
{
    if (strncmp(dated, "mtime:", 6) != 0 || strncmp(tagged, "etag:", 5) != 0)
        return 0;
    const char *size = strstr(dated, ";size:"), *tag = size ? strstr(size, ";tag:") : NULL;
    if (!tag)
        return 0;
    size_t size_bytes = (size_t)(tag - size), tag_bytes = strlen(tag += strlen(";tag:"));
    tagged += 5;
    return strncmp(tagged, tag, tag_bytes) == 0 && strlen(tagged) == tag_bytes + size_bytes &&
           strncmp(tagged + tag_bytes, size, size_bytes) == 0;
}

int xh_dialect_is_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || has_become_strong(a, b) || has_become_strong(b, a);
}

size_t xh_dialect_hint(const struct xh_dialect *d, char *buf, size_t size)
{
    /* The value comes last: it may hold spaces. */
    int n = snprintf(buf, size, HINT_WORD " size=%" PRIu64 " whole=%d young=%d changed=%lld tag=%s proof=%s value=%s",
                     d->size, d->whole, (int)d->youth, (long long)d->changed, d->tag, proof_names[d->proof], d->value);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

int xh_dialect_from_hint(struct xh_dialect *d, const char *text)
{
    struct xh_dialect new;
    char tag[XH_WEAK_TAG_BYTES], proof[16];
    int n = 0, young;
    long long changed;
    xh_dialect_init(&new);
    if (sscanf(text, HINT_WORD " size=%19" SCNu64 " whole=%1d young=%1d changed=%13lld tag=%n", &new.size, &new.whole,
               &young, &changed, &n) != 4 || n == 0)
        return -1;
    size_t tag_bytes = strcspn(text + n, " "), i = 0;
    if (tag_bytes >= sizeof tag)
        return -1;
    snprintf(tag, tag_bytes + 1, "%s", text + n);
    text += (size_t)n + tag_bytes;
    n = 0;
    if (sscanf(text, " proof=%15[a-z] value=%n", proof, &n) != 1 || n == 0)
        return -1;
    while (i < PROOFS && strcmp(proof, proof_names[i]) != 0)
        i++;
    int whole = new.whole;
    if (i == PROOFS || !xh_dialect_set_proof(&new, (enum xh_proof)i, text + n) || new.size > INT64_MAX ||
        whole < 0 || whole > 1 || young < 0 || young > XH_YOUNG || !printable(tag) ||
        (tag[0] && new.proof != XH_BY_DATE) ||
        (young && (new.proof == XH_BY_SIZE || new.proof == XH_BY_WEAK_ETAG)))
        return -1;
    memcpy(new.tag, tag, tag_bytes + 1);
    new.youth = (enum xh_youth)young;
    new.changed = (time_t)changed;
    *d = new;
    return 0;
}

/* ---- limits */

#define CONNECTIONS_FEW    16u /* as an open file uses by default: a limit above that is forgotten at once */
#define RANGE_HEADER_LEAST 64u

void xh_limits_init(struct xh_limits *l)
{
    *l = (struct xh_limits){.max_ranges = XH_RANGES_AT_FIRST, .max_range_header = XH_RANGE_HEADER_AT_FIRST};
}

void xh_limits_serves(struct xh_limits *l, unsigned n, uint64_t now)
{
    if (!l->connections || n < l->connections)
        l->connections = n;
    l->refused_ns = now;
}

/* A request has been answered or refused that was wanted since |wanted_ns|: adds the time in which any was. */
static void count(struct xh_limits *l, uint64_t wanted_ns, uint64_t now)
{
    uint64_t from = wanted_ns > l->heard_ns ? wanted_ns : l->heard_ns;
    l->wanted_ns += now > from ? now - from : 0;
    l->heard_ns = now;
}

void xh_limits_answers(struct xh_limits *l, uint64_t wanted_ns, uint64_t now)
{
    count(l, wanted_ns, now);
    l->answered++;
    l->gap_ns = l->gap_ns < XH_GAP_LEAST_NS ? 0 : l->gap_ns - l->gap_ns / XH_GAP_SHRINKS;
}

void xh_limits_refuses(struct xh_limits *l, uint64_t wanted_ns, uint64_t sent_ns, uint64_t now)
{
    if (sent_ns <= l->counted_ns) /* it went out before that was known */
        return;
    count(l, wanted_ns, now);
    l->refused += l->counted_ns != 0;
    uint64_t took = l->gap_ns ? now - l->counted_ns : l->wanted_ns, each = l->answered ? took / l->answered : took;
    uint64_t gap = each + each / 8, most = l->gap_ns ? 2 * l->gap_ns : gap;
    int often = l->counted_ns && each <= XH_GAP_MOST_NS && (l->gap_ns || l->answered <= XH_PACED_TIMES * l->refused);
    int enough = l->answered >= XH_PACED_LEAST && (l->gap_ns || l->refused >= XH_PACED_LEAST);
    if (often && !enough && !l->gap_ns)
        return;
    l->gap_ns = !often || !enough ? 0 : gap < most ? gap : most;
    l->counted_ns = now;
    l->wanted_ns = l->answered = l->refused = 0;
}

void xh_limits_look(struct xh_limits *l, uint64_t now)
{
    if (l->counted_ns && now - l->counted_ns >= XH_WIDEN_NS)
        l->gap_ns = l->counted_ns = 0;
    for (; l->connections && now - l->refused_ns >= XH_WIDEN_NS; l->refused_ns += XH_WIDEN_NS)
        l->connections = l->connections > CONNECTIONS_FEW ? 0 : l->connections * XH_WIDEN_TIMES;
    if (l->changed_ns == 0 || now - l->changed_ns < XH_WIDEN_NS)
        return;
    l->max_ranges *= XH_WIDEN_TIMES;
    l->max_range_header *= XH_WIDEN_TIMES;
    l->changed_ns = now;
    if (l->max_ranges >= XH_RANGES_AT_FIRST)
        l->max_ranges = XH_RANGES_AT_FIRST;
    if (l->max_range_header >= XH_RANGE_HEADER_AT_FIRST)
        l->max_range_header = XH_RANGE_HEADER_AT_FIRST;
    if (l->max_ranges == XH_RANGES_AT_FIRST && l->max_range_header == XH_RANGE_HEADER_AT_FIRST)
        l->changed_ns = 0;
}

void xh_limits_cap(struct xh_limits *l, unsigned nranges, uint64_t now)
{
    unsigned most = nranges ? nranges : 1;
    if (most > l->max_ranges)
        return;
    l->max_ranges = most;
    l->changed_ns = now;
}

void xh_limits_halve(struct xh_limits *l, unsigned nranges, size_t header_bytes, uint64_t now)
{
    xh_limits_cap(l, nranges / 2, now);
    if (header_bytes / 2 < l->max_range_header && header_bytes / 2 >= RANGE_HEADER_LEAST)
        l->max_range_header = header_bytes / 2;
}

void xh_limits_doubt(struct xh_limits *l, uint64_t now)
{
    if (++l->doubts < XH_DOUBTS_MOST)
        return;
    l->doubts = 0;
    xh_limits_cap(l, 1, now);
}

void xh_limits_good(struct xh_limits *l, unsigned nranges, uint64_t sent_ns)
{
    l->doubts = 0;
    if (nranges > l->worked && sent_ns > l->worked_ns)
        l->worked = 0;
}

void xh_limits_worked(struct xh_limits *l, unsigned nranges, uint64_t sent_ns)
{
    if (nranges <= l->worked)
        return;
    l->worked = nranges;
    l->worked_ns = sent_ns;
}

int xh_limits_failed(struct xh_limits *l, unsigned nranges, uint64_t sent_ns, uint64_t now)
{
    if (l->worked == 0 || sent_ns <= l->worked_ns)
        return 0;
    if (nranges <= l->worked) {
        l->worked = 0; /* nor does that work now */
        return 0;
    }
    xh_limits_cap(l, l->worked, now);
    return 1;
}
