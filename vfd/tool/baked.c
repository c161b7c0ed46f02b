/* The result for one file: see baked.h. */
#include "baked.h"

#include <stdarg.h>
#include <stdio.h>

void xh_baked_tell(struct xh_baked *out, enum xh_baked_as as, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->text, sizeof out->text, fmt, ap);
    va_end(ap);
    out->as = as;
}
