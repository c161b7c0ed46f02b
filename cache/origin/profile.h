/* The files ~/.aws/credentials and ~/.aws/config: sections in brackets, lines "name = value", and indented ones below a
 * line without a value. Pure. */
#ifndef XH_PROFILE_H
#define XH_PROFILE_H

#include <stddef.h>

/* Copies the value of |name| in [section] of |text| to |out|: the last one, as other tools do; "a.b" is b, indented
 * below "a =". Blanks around it and comments behind it (" #", " ;") are dropped. One that is too long counts as absent.
 * Returns 1, or 0 and "". */
int xh_profile_get(const char *text, const char *section, const char *name, char *out, size_t size);

/* 1 when |text| has [section]. */
int xh_profile_has(const char *text, const char *section);

/* Splits a command line in place as a shell would, without being one: blanks, quotes and backslashes alone. Fills
 * |words|, a NULL behind them. Returns how many there are, or -1: too many, or a quote is not closed. */
int xh_profile_words(char *line, char **words, int most);

#endif
