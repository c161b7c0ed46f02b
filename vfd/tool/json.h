/* JSON that the tool prints. */
#ifndef XH_JSON_H
#define XH_JSON_H

#include <stdint.h>
#include <stdio.h>

/* |text| as a string, with its quotation marks. UTF-8 passes; other bytes stand as the characters of those numbers. */
void xh_json_string(FILE *to, const char *text);

/* |"name": | and the value. A number that JSON has not, and a NULL text, are null. */
void xh_json_text(FILE *to, const char *name, const char *text);
void xh_json_number(FILE *to, const char *name, double value);
void xh_json_count(FILE *to, const char *name, uint64_t value);

/* |"name": [1, 2]|; UINT64_MAX, which means no bound, is null. */
void xh_json_counts(FILE *to, const char *name, const uint64_t *value, unsigned n);

#endif
