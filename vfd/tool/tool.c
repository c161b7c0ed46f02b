/* Functions that the files of the tool share: see tool.h. */
#include "tool.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/base/err.h"
#include "../../cache/open/mistaken.h"

/* Says |fmt| on standard error, made plain: it may have names of files, which whoever made them chose. */
static void say_plain(const char *before, const char *fmt, va_list ap, const char *behind)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    fprintf(stderr, "%s%s%s\n", before, text ? xh_text_plain(text) : "out of memory", behind);
    free(text);
}

int xh_tool_fail(int code, const char *fmt, ...)
{
    va_list ap;
    fflush(stdout);
    va_start(ap, fmt);
    say_plain("xhdf5: ", fmt, ap, "");
    va_end(ap);
    return code;
}

/* The command, as far as it is known, and its help. */
static char command[40] = "xhdf5";
static const char *help = "";

int xh_tool_command(const struct xh_verb *const *of, size_t n, int argc, char **argv, const struct xh_options *o)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(argv[1], of[i]->name) == 0) {
            size_t used = strlen(command);
            snprintf(command + used, sizeof command - used, " %s", of[i]->name);
            help = of[i]->help;
            return of[i]->run(argc - 1, argv + 1, o);
        }
    return xh_tool_usage("there is no command \"%s\"", argv[1]);
}

int xh_tool_usage(const char *fmt, ...)
{
    char before[64], behind[64];
    va_list ap;
    snprintf(before, sizeof before, "%s: ", command);
    snprintf(behind, sizeof behind, "; %s --help says more", command);
    va_start(ap, fmt);
    say_plain(before, fmt, ap, behind);
    va_end(ap);
    return XH_EXIT_USAGE;
}

#define OPTIONS_MOST 8
#define FIRST 256 /* getopt_long's number of the first option: no letter */

/* getopt_long() returned |c| for |word|. */
static int wrong_option(int c, const char *word, const struct option *longs, size_t n)
{
    size_t name = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    if (c == ':')
        return xh_tool_usage("\"%s\" lacks its value", word);
    for (size_t i = 0; name && word[2 + name] && i < n; i++)
        if (strncmp(longs[i].name, word + 2, name) == 0 && longs[i].has_arg == no_argument)
            return xh_tool_usage("\"%.*s\" takes no value", (int)name + 2, word);
    if (optopt > ' ' && optopt < 0x7f) /* a letter among several: |word| may be the one before them */
        return xh_tool_usage("there is no option \"-%c\"", optopt);
    return xh_tool_usage("there is no option \"%s\"", word);
}

void xh_tool_options(int argc, char **argv, const struct xh_tool_option *of, size_t n)
{
    struct option longs[OPTIONS_MOST + 2] = {{"help", no_argument, NULL, 'h'}};
    char letters[2 * OPTIONS_MOST + 3] = ":h";
    assert(n <= OPTIONS_MOST);
    opterr = 0;
    for (size_t i = 0, at = 2; i < n; i++) {
        int has = !of[i].value ? no_argument : of[i].flag ? optional_argument : required_argument;
        longs[i + 1] = (struct option){of[i].name, has, NULL, FIRST + (int)i};
        if (of[i].letter)
            at += (size_t)snprintf(letters + at, sizeof letters - at, "%c%s", of[i].letter,
                                   has == required_argument ? ":" : "");
    }
    for (int c; (c = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
        size_t i = 0;
        while (i < n && c != FIRST + (int)i && c != of[i].letter)
            i++;
        if (c == 'h')
            fputs(help, stdout), exit(xh_tool_end(XH_EXIT_OK));
        if (i == n)
            exit(wrong_option(c, argv[optind - 1], longs, n + 1));
        if (of[i].flag)
            *of[i].flag = 1;
        if (of[i].value && optarg)
            of[i].value[of[i].n ? (*of[i].n)++ : 0] = optarg;
    }
}

const char *xh_tool_is_url(const char *name)
{
    char why[XH_NO_URL_BYTES];
    if (!xh_cache_is_url(name))
        exit(xh_tool_usage("%s", xh_mistaken_no_url(name, why)));
    return name;
}

const char *xh_tool_url(int argc, char **argv, int words)
{
    if (optind >= argc || optind + words < argc)
        exit(xh_tool_usage("one URL is wanted"));
    return xh_tool_is_url(argv[optind]);
}

int xh_tool_end(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    return xh_tool_fail(XH_EXIT_FAILED, "standard output cannot be written: %s", strerror(errno));
}

const char *xh_tool_name(const char *text, char *out, size_t size)
{
    size_t used = 0;
    while (*text) {
        size_t n = xh_utf8_length(text), step = n ? n : 1;
        if (used + step >= size)
            break;
        if (n)
            memcpy(out + used, text, n);
        else
            out[used] = '?';
        used += step;
        text += step;
    }
    out[used] = '\0';
    return out;
}
