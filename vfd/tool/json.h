/* JSON that the tool prints: values for jansson's objects. */
#ifndef XH_JSON_H
#define XH_JSON_H

#include <stdint.h>

#include <jansson.h>

/* Each returns NULL without memory. */

/* Returns |text| as a string, null if it is NULL. Of text that is no UTF-8, each byte is the character of that
 * number. */
json_t *xh_json_text(const char *text);

/* Returns |value| with three digits behind the point, null if JSON does not have it. */
json_t *xh_json_number(double value);

/* Returns |n| numbers as an array. UINT64_MAX, which means no bound, is null. */
json_t *xh_json_counts(const uint64_t *value, unsigned n);

/* Prints |before| and |value| to standard output, in ASCII, so that no name drives a terminal. Owns: takes |value|.
 * |value| NULL, as there was no memory: the program ends with a message. */
void xh_json_print(const char *before, json_t *value);

#endif
