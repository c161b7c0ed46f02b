/* The first thing that a test finds wrong. For one source file each, which owns the text's place. */
#ifndef SIM_WRONG_H
#define SIM_WRONG_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static char *wrong_text;
static size_t wrong_size;

__attribute__((format(printf, 1, 2))) static void wrong(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!wrong_text[0])
        vsnprintf(wrong_text, wrong_size, fmt, ap);
    va_end(ap);
}

#endif
