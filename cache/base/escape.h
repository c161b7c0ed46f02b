/* Percent-encoded text (RFC 3986, 2.1). */
#ifndef XH_ESCAPE_H
#define XH_ESCAPE_H

/* Returns what the hexadecimal digit |c| stands for, or -1. */
static inline int xh_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* Takes a byte of the text from |*p| to |end|, which is not empty: what an escape stands for, else what is there. */
static inline unsigned char xh_unescape(const char **p, const char *end)
{
    const char *at = *p;
    int escape = *at == '%' && end - at > 2 && xh_hex_digit(at[1]) >= 0 && xh_hex_digit(at[2]) >= 0;
    *p += escape ? 3 : 1;
    return (unsigned char)(escape ? xh_hex_digit(at[1]) << 4 | xh_hex_digit(at[2]) : *at);
}

#endif
