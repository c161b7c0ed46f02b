/* The time line's file: JSON whatever is drawn, and no longer than it says. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watch/timeline.h"
#include "watch/trace.h"

static char path[64];

static void begin(void)
{
    snprintf(path, sizeof path, "/tmp/xh-timeline-%d.json", (int)getpid());
    xh_timeline_start("/tmp/xh-timeline-%p.json");
    cr_assert(xh_timeline_on());
}

static void end(void)
{
    unlink(path);
}

/* 1 when the line is one JSON object with a comma behind it: strings closed, escapes known, brackets paired, ASCII
 * alone. */
static int is_event(const char *p)
{
    int depth = 0, inside = 0;
    if (*p != '{')
        return 0;
    for (; *p && *p != '\n'; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            return 0;
        if (inside && *p == '\\') {
            if (!strchr("\"\\u", *++p) || (*p == 'u' && strspn(p + 1, "0123456789abcdef") < 4))
                return 0;
        } else if (*p == '"') {
            inside = !inside;
        } else if (!inside) {
            depth += (*p == '{') - (*p == '}');
        }
        if (depth == 0 && !inside)
            return strcmp(p, "},\n") == 0;
    }
    return 0;
}

Test(timeline, is_json_whatever_the_words, .init = begin, .fini = end)
{
    char line[8192], words[900];
    size_t n = 0, events = 0;
    srand(11);
    for (int i = 0; i < 20000; i++) {
        for (n = 0; n < (size_t)rand() % (sizeof words - 1); n++)
            words[n] = (char)(rand() % 3 ? 1 + rand() % 255 : "=\" \\a7"[rand() % 6]);
        words[n] = '\0';
        xh_timeline_slice(i % 2 ? xh_timeline_connection((unsigned)rand()) : 0, "slice", 5, i % 3 ? 900 : 1, "%s",
                          words);
        xh_trace(XH_T_SHADOW, "moment", "%s", words);
        if (i % 500 == 0)
            xh_timeline_write(1);
    }
    xh_timeline_slice(0, "numbers", 1, 2, "a=12 b=012 c= d=1.5 e=99999999999999999999 f=\"two words\" g");
    xh_timeline_write(1);
    FILE *f = fopen(path, "r");
    cr_assert(f && fgets(line, sizeof line, f));
    cr_assert_str_eq(line, "[\n");
    for (; fgets(line, sizeof line, f); events++)
        cr_assert(is_event(line), "no event: %s", line);
    fclose(f);
    cr_assert_gt(events, 40000);
}

Test(timeline, ends_where_it_is_full, .init = begin, .fini = end)
{
    struct stat st;
    for (int i = 0; xh_timeline_on(); i++) {
        cr_assert_lt(i, 2000000);
        xh_timeline_slice(0, "read", 1000, 2000, "bytes=%d", i);
        if (i % 64 == 0)
            xh_timeline_write(0);
    }
    cr_assert_eq(stat(path, &st), 0);
    cr_assert(st.st_size > (off_t)XH_TIMELINE_MOST_BYTES && st.st_size < (off_t)XH_TIMELINE_MOST_BYTES + (64 << 10));
}
