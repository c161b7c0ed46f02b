/* What the files of the tool share: exit codes, and how it speaks to its user. */
#ifndef XH_TOOL_H
#define XH_TOOL_H

#include <stddef.h>
#include <stdint.h>

enum {
    XH_EXIT_OK = 0,
    XH_EXIT_NO = 1,     /* done, and the answer is no: in use, different, not all of it kept */
    XH_EXIT_USAGE = 2,  /* the command line makes no sense */
    XH_EXIT_FAILED = 3, /* it could not be done: network, access, not there, no HDF5 file */
};

/* "xhdf5: …" on standard error. Returns |code|. */
int xh_tool_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The usage error of a command: what is wrong, and where help is. Returns XH_EXIT_USAGE. */
int xh_tool_usage(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The one URL of a command that takes no other word, and what is behind it in argv: |words| at most, from optind on.
 * Returns NULL when there is none, or too much: then that was said. */
const char *xh_tool_url(const char *command, int argc, char **argv, int words);

/* For getopt_long's '?' and ':'. */
int xh_tool_bad_option(const char *command, char **argv);

/* Flushes standard output. Returns |code|, or XH_EXIT_FAILED when what was printed is lost. */
int xh_tool_end(int code);

/* "12.3 MiB"; whole bytes below 1 KiB. Returns |buf|. */
#define XH_SIZE_TEXT 16
const char *xh_tool_size(uint64_t bytes, char buf[XH_SIZE_TEXT]);

/* What the word behind the number |n| ends in. */
#define XH_S(n) ((n) == 1 ? "" : "s")

/* Copies |text|, the name of something, with all that is no character (xh_utf8_length) as '?'. Returns |out|. */
const char *xh_tool_name(const char *text, char *out, size_t size);

/* Copies |text| with every byte that a terminal might act on as '?'. Returns |out|. */
const char *xh_tool_plain(const char *text, char *out, size_t size);

/* |url| as it may be shown, safe to print. Returns |out|. */
const char *xh_tool_shown(const char *url, char *out, size_t size);

#endif
