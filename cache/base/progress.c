/* Showing progress: see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "now.h"

static int silent;

const char *xh_size_text(uint64_t bytes, char buf[XH_SIZE_TEXT])
{
    static const char unit[] = "KMGTPE";
    double n = (double)bytes / 1024;
    int u = 0;
    while (n >= 1023.95 && u < 5) {
        n /= 1024;
        u++;
    }
    if (bytes < 1024)
        snprintf(buf, XH_SIZE_TEXT, "%u B", (unsigned)bytes);
    else
        snprintf(buf, XH_SIZE_TEXT, "%.1f %ciB", n, unit[u]);
    return buf;
}

int xh_progress_by(const char *option, enum xh_progress_mode *out, struct xh_err *err)
{
    static const char *const words[] = {"auto", "on", "off", "1", "0"};
    static const enum xh_progress_mode modes[] = {XH_PROGRESS_AUTO, XH_PROGRESS_ON, XH_PROGRESS_OFF, XH_PROGRESS_ON,
                                                  XH_PROGRESS_OFF};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(option, words[i]) == 0) {
            *out = modes[i];
            return 0;
        }
    return xh_err_set(err, XH_E_INVAL, 0, "progress=%.60s: there are auto, on and off", option);
}

int xh_progress_wanted(const char *option)
{
    enum xh_progress_mode mode = XH_PROGRESS_OFF;
    xh_progress_by(option, &mode, NULL);
    return mode == XH_PROGRESS_ON || (mode == XH_PROGRESS_AUTO && isatty(STDERR_FILENO));
}

void xh_progress_silence(void)
{
    silent = 1;
}

void xh_progress_begin(struct xh_progress *p, const char *what, uint64_t total_bytes, const char *unit)
{
    *p = (struct xh_progress){.what = what, .total = total_bytes, .unit = unit, .quiet = silent};
    p->terminal = !silent && isatty(STDERR_FILENO);
    p->began_ns = xh_now_ns();
}

static void say(const struct xh_progress *p, uint64_t done, uint64_t now)
{
    double s = (double)(now - p->began_ns) / 1e9;
    if (p->total)
        fprintf(stderr, "%s of %s, %s/s", xh_size(done), xh_size(p->total),
                xh_size(s > 0 ? (uint64_t)((double)(done - p->from) / s) : 0));
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
    if (p->quiet || (p->terminal && now - p->began_ns < p->after_ns))
        return;
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
    if (p->quiet || (p->terminal && p->after_ns && !p->drawn_ns))
        return;
    if (p->terminal) {
        draw(p, done, now);
    } else {
        fprintf(stderr, "%s: ", p->what);
        say(p, done, now);
    }
    fputc('\n', stderr);
}
