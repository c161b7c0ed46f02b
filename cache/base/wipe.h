/* Text that is secret. */
#ifndef XH_WIPE_H
#define XH_WIPE_H

#include <stdlib.h>
#include <string.h>

/* Each frees |text|, which may be NULL, when nothing of it is left in memory. */
static inline void xh_wipe_bytes(void *text, size_t len)
{
    if (text)
        explicit_bzero(text, len);
    free(text);
}

static inline void xh_wipe(char *text)
{
    xh_wipe_bytes(text, text ? strlen(text) : 0);
}

#endif
