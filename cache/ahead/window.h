/* How far ahead of its reads a file's guesses may run now. */
#ifndef XH_WINDOW_H
#define XH_WINDOW_H

#include <stdint.h>

struct xh_file;

uint64_t xh_guess_window(const struct xh_file *f);

#endif
