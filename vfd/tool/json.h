/* JSON that the tool prints. */
#ifndef XH_JSON_H
#define XH_JSON_H

#include <stdint.h>
#include <stdio.h>

/* Prints |text| as a string with quotation marks. UTF-8 passes unchanged. Other bytes are printed as the characters
 * with those numbers. */
void xh_json_string(FILE *to, const char *text);

/* Prints |"name": | and the value. NULL, and a number that JSON does not have, are printed as null. */
void xh_json_text(FILE *to, const char *name, const char *text);
void xh_json_number(FILE *to, const char *name, double value);
void xh_json_count(FILE *to, const char *name, uint64_t value);

/* Prints |"name": [1, 2]|. UINT64_MAX, which means no bound, is printed as null. */
void xh_json_counts(FILE *to, const char *name, const uint64_t *value, unsigned n);

#endif
