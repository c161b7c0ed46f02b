/* Letters and blanks of ASCII, as protocols, URLs and options have them. The C library's functions go by the program's
 * locale, which Python, Qt and others set to the user's: in a Turkish one I is not the capital of i, so "WRITABLE" is
 * not "writable"; in one of ISO 8859 bytes above 0x7f are letters. Pure. */
#ifndef XH_LETTERS_H
#define XH_LETTERS_H

#include <stddef.h>
#include <string.h>

#define XH_DIGITS  "0123456789"
#define XH_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static inline int xh_tolower(int c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

static inline int xh_toupper(int c)
{
    return c >= 'a' && c <= 'z' ? c & ~0x20 : c;
}

static inline int xh_isalpha(int c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static inline int xh_isalnum(int c)
{
    return xh_isalpha(c) || (c >= '0' && c <= '9');
}

static inline int xh_isspace(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* As the functions of these names without xh_. */
static inline int xh_strncasecmp(const char *a, const char *b, size_t n)
{
    for (; n; a++, b++, n--) {
        int x = xh_tolower((unsigned char)*a), y = xh_tolower((unsigned char)*b);
        if (x != y || !x)
            return x - y;
    }
    return 0;
}

static inline int xh_strcasecmp(const char *a, const char *b)
{
    return xh_strncasecmp(a, b, (size_t)-1);
}

/* 1 when |word| is one of those in |list|, which ends with NULL. */
static inline int xh_is_one_of(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list != NULL;
}

/* Where |word| is among the |n| bytes at |text|; NULL: nowhere. */
static inline char *xh_memcasestr(const char *text, size_t n, const char *word)
{
    for (size_t len = strlen(word); n >= len; text++, n--)
        if (xh_strncasecmp(text, word, len) == 0)
            return (char *)(size_t)text;
    return NULL;
}

static inline char *xh_strcasestr(const char *text, const char *word)
{
    return xh_memcasestr(text, strlen(text), word);
}

#endif
