/* Showing progress: see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../cache/base/now.h"
#include "tool.h"


void xh_progress_begin(struct xh_progress *p, const char *what, uint64_t total_bytes, const char *unit)
{
    *p = (struct xh_progress){.what = what, .total = total_bytes, .unit = unit, .terminal = isatty(STDERR_FILENO)};
    p->began_ns = xh_now_ns();
}

static void say(const struct xh_progress *p, uint64_t done, uint64_t now)
{
    char a[XH_SIZE_TEXT], b[XH_SIZE_TEXT], c[XH_SIZE_TEXT];
    double s = (double)(now - p->began_ns) / 1e9;
    if (p->total)
        fprintf(stderr, "%s of %s, %s/s", xh_tool_size(done, a), xh_tool_size(p->total, b),
                xh_tool_size(s > 0 ? (uint64_t)((double)(done - p->from) / s) : 0, c));
    else
        fprintf(stderr, "%" PRIu64 " %s, %.1f s", done, p->unit, s);
}

static void draw(const struct xh_progress *p, uint64_t done, uint64_t now)
{
    static const char full[] = "##############################", none[] = "..............................";
    const int most = sizeof full - 1, n = done < p->total ? (int)(done * (unsigned)most / p->total) : most;
    fprintf(stderr, "\r%s ", p->what);
    if (p->total)
        fprintf(stderr, "[%.*s%.*s] ", n, full, most - n, none);
    say(p, done, now);
    fputs("\033[K", stderr);
}

void xh_progress_at(struct xh_progress *p, uint64_t done)
{
    uint64_t now = xh_now_ns();
    if (p->terminal && now - p->drawn_ns >= XH_DRAW_EVERY_MS * UINT64_C(1000000)) {
        p->drawn_ns = now;
        draw(p, done, now);
    } else if (!p->terminal && p->total && done * 10 / p->total > p->tenth && done < p->total) {
        p->tenth = (unsigned)(done * 10 / p->total);
        fprintf(stderr, "%s: ", p->what);
        say(p, done, now);
        fputc('\n', stderr);
    }
}

void xh_progress_clear(struct xh_progress *p)
{
    if (p->terminal && p->drawn_ns)
        fputs("\r\033[K", stderr);
}

void xh_progress_end(struct xh_progress *p, uint64_t done)
{
    uint64_t now = xh_now_ns();
    if (p->terminal) {
        draw(p, done, now);
    } else {
        fprintf(stderr, "%s: ", p->what);
        say(p, done, now);
    }
    fputc('\n', stderr);
}
