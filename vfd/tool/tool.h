/* Shared by the files of the tool: exit codes, and messages to the user. */
#ifndef XH_TOOL_H
#define XH_TOOL_H

#include <stddef.h>

#include "../../cache/base/progress.h"
#include "verbs.h"

enum {
    XH_EXIT_OK = 0,
    XH_EXIT_NO = 1,     /* done, and the answer is no: in use, different, not everything kept */
    XH_EXIT_USAGE = 2,  /* wrong command line */
    XH_EXIT_FAILED = 3, /* failed: network, access, missing, not an HDF5 file */
};

/* Prints "xhdf5: …" on standard error. Returns |code|. */
int xh_tool_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints what is wrong with the command line, and where help is. Returns XH_EXIT_USAGE. */
int xh_tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Runs the one of |n| commands that argv[1] names. Returns the exit code. */
int xh_tool_command(const struct xh_verb *const *of, size_t n, int argc, char **argv, const struct xh_options *o);

/* Returns the one URL of a command. Behind it there may be at most |words| more words, from optind on. Ends the program
 * with a usage error when there is no URL, or too many words. */
const char *xh_tool_url(int argc, char **argv, int words);

/* Returns |name|; ends the program with a usage error if it is no URL. */
const char *xh_tool_is_url(const char *name);

/* An option of a command. With a flag, that becomes 1; with a place for a value, the value goes there. With both it may
 * come without a value. */
struct xh_tool_option {
    const char *name; /* without "--" */
    char letter;      /* its short form; 0: none */
    int *flag;
    const char **value;
    size_t *n; /* NULL, or the option may be repeated: counts the values, which go to value[0], value[1], … */
};

/* Reads the options of the command, of which |of| lists |n|. Ends the program at --help, or when they are wrong. */
void xh_tool_options(int argc, char **argv, const struct xh_tool_option *of, size_t n);
#define XH_TOOL_OPTIONS(argc, argv, of) xh_tool_options(argc, argv, of, sizeof(of) / sizeof *(of))

/* Flushes standard output. Returns |code|, or XH_EXIT_FAILED when output was lost. */
int xh_tool_end(int code);

/* Read, compared or written at once: one large request, and little memory. */
#define XH_BATCH_BYTES (16u << 20)
#define XH_BATCH_PAGES (XH_BATCH_BYTES / XH_PAGE_BYTES)

/* The plural ending for |n|. */
#define XH_S(n) ((n) == 1 ? "" : "s")

/* Copies |text|, a name. What is not a character (xh_utf8_length) becomes '?'. Returns |out|. */
const char *xh_tool_name(const char *text, char *out, size_t size);

#endif
