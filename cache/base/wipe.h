/* Text that is secret. */
#ifndef XH_WIPE_H
#define XH_WIPE_H

#include <stdlib.h>
#include <string.h>

/* Frees |text|, which may be NULL, when nothing of it is left in memory. */
static inline void xh_wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

#endif
