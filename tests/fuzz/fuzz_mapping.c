/* A collection of the global heap of hostile bytes, as the driver sees it when HDF5 reads one: the names in its
 * mappings. The first two bytes say where the read is cut in two. */
#include <stdlib.h>
#include <string.h>

#include "../../vfd/mapping.h"
#include "fuzz.h"

/* Each call of xh_mapping_next goes on behind an object of 16 bytes or more. */
#define OBJECT_LEAST 16u

static void judge(const struct xh_names *names, size_t n)
{
    size_t at = 0;
    hold(n >= 2 && n == names->n, "a mapping of fewer than two files");
    for (size_t i = 0; i < n; i++) {
        const char *end = memchr(names->text + at, '\0', names->bytes - at);
        hold(end != NULL, "a name without an end");
        hold(*(names->text + at) != '\0', "an empty name");
        at = (size_t)(end - names->text) + 1;
    }
    hold(at == names->bytes, "bytes that are no name");
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    if (size < 2)
        return 0;
    size_t cut = p[0] | (size_t)p[1] << 8, len = size - 2, bytes = 0, at = 0, rounds = 0, n;
    struct xh_names names = {0};
    struct xh_mapping_seen seen = {0};
    p += 2;
    cut = cut < len ? cut : len;
    while ((n = xh_mapping_next(p, len, &at, &names)) > 0) {
        judge(&names, n);
        free(names.text);
        names = (struct xh_names){0};
        hold(++rounds <= len / OBJECT_LEAST && at <= len, "mappings without an end");
    }
    hold(names.text == NULL, "names of nothing");
    /* In one piece or in two: the same bytes. */
    size_t from = 0;
    const uint8_t *first = xh_mapping_saw(&seen, 4096, p, cut, 0, &from, &bytes);
    hold(!first || bytes <= cut, "more than was read");
    if (!first) {
        from = 0;
        const uint8_t *both = xh_mapping_saw(&seen, 4096 + cut, p + cut, len - cut, 0, &from, &bytes);
        hold(!both || (bytes <= len && memcmp(both, p, bytes) == 0) || both == p + cut, "other bytes than were read");
    }
    rounds = from = 0;
    while (xh_mapping_saw(&seen, 4096, p, len, 1, &from, &bytes))
        hold(++rounds <= len && from <= len, "collections without an end");
    free(seen.p);
    return 0;
}
