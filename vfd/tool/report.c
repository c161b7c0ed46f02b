/* Reports: see report.h. */
#include "report.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "tool.h"

#define INDENT 19
#define WIDTH 110u

static const char *const states[] = {"ok", "note", "failed", "not tried"};

void xh_report_begin(struct xh_report *r, const char *url_shown, int json)
{
    *r = (struct xh_report){.json = json, .colour = !json && isatty(STDOUT_FILENO)};
    if (json) {
        xh_json_print("{\"url\": ", xh_json_text(url_shown));
        fputs(",\n \"steps\": [", stdout);
    } else {
        printf("%s\n\n", url_shown);
    }
}

void xh_report_add(char *to, size_t size, const char *fmt, ...)
{
    char piece[1024], safe[1024];
    size_t used = strlen(to);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(piece, sizeof piece, fmt, ap);
    va_end(ap);
    snprintf(to + used, size - used, "%s%s", used ? "; " : "", xh_tool_name(piece, safe, sizeof safe));
}

static void note(struct xh_report *r, const char *name, json_t *value)
{
    if (!r->facts)
        r->facts = json_object();
    json_object_set_new(r->facts, name, value);
}

void xh_report_text(struct xh_report *r, const char *name, const char *value)
{
    note(r, name, xh_json_text(value));
}

void xh_report_number(struct xh_report *r, const char *name, double value)
{
    note(r, name, xh_json_number(value));
}

void xh_report_count(struct xh_report *r, const char *name, uint64_t value)
{
    note(r, name, json_integer((json_int_t)value));
}

/* Prints |text| in lines of WIDTH columns; all lines but the first are indented. */
static void print_wrapped(const char *text)
{
    size_t column = INDENT;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > INDENT && column + 1 + n > WIDTH) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)n, text);
        column += n;
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static void print_people(struct xh_report *r, const char *name, enum xh_state state)
{
    static const char *const marks[] = {"  ok", "   !", "FAIL", "   -"}, *const colours[] = {"32", "33", "31", "2"};
    if (state == XH_STATE_UNTRIED && !r->text[0]) {
        size_t used = strlen(r->untried);
        snprintf(r->untried + used, sizeof r->untried - used, "%s%s", used ? ", " : "", name);
        return;
    }
    if (r->colour)
        printf("\033[%sm%s\033[0m  %-12s ", colours[state], marks[state], name);
    else
        printf("%s  %-12s ", marks[state], name);
    print_wrapped(r->text[0] ? r->text : states[state]);
    if (r->advice[0]) {
        printf("%*s", INDENT - 3, "");
        fputs("-> ", stdout);
        print_wrapped(r->advice);
    }
}

void xh_report_step(struct xh_report *r, const char *name, enum xh_state state)
{
    if (state == XH_STATE_OK && r->advice[0])
        state = XH_STATE_NOTE;
    if (r->json) {
        json_t *step = json_pack("{s:s, s:s, s:o, s:o}", "step", name, "state", states[state], "text",
                                 xh_json_text(r->text[0] ? r->text : NULL), "advice",
                                 xh_json_text(r->advice[0] ? r->advice : NULL));
        if (r->facts)
            json_object_update(step, r->facts);
        xh_json_print(r->steps ? ",\n  " : "\n  ", step);
    } else {
        print_people(r, name, state);
    }
    fflush(stdout);
    r->steps++;
    r->notes += state == XH_STATE_NOTE;
    r->failures += state == XH_STATE_FAILED;
    r->text[0] = r->advice[0] = '\0';
    json_decref(r->facts);
    r->facts = NULL;
}

void xh_report_end(struct xh_report *r)
{
    const char *verdict = r->failures ? "cannot be read"
                          : r->notes  ? "can be read; there is advice"
                                      : "can be read, and nothing is in the way";
    if (r->json) {
        xh_json_print("\n ],\n \"verdict\": ", json_string(verdict));
        puts("}");
    } else {
        if (r->untried[0]) {
            snprintf(r->text, sizeof r->text, "%s", r->untried);
            print_people(r, states[XH_STATE_UNTRIED], XH_STATE_UNTRIED);
        }
        printf("\nIt %s.\n", verdict);
    }
}
