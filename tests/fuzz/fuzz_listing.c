/* What a server lists of a directory, in each of its forms. */
#include <string.h>

#include "fuzz.h"
#include "../../vfd/tool/listing.h"

/* All that is listed may be shown. */
static void check(struct xh_entries *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->of[i].name;
        hold(name[0] && strlen(name) <= XH_ENTRY_NAME_BYTES, "no length for a name");
        hold(!names->of[i].told || (!names->of[i].directory && names->of[i].size <= INT64_MAX), "no size of a file");
        hold(strcmp(name, ".") != 0 && strcmp(name, "..") != 0, "a name that leads elsewhere");
        for (; *name; name++)
            hold(*name != '/' && (unsigned char)*name >= 0x20 && *name != 0x7f, "a byte that no name has");
    }
    xh_entries_free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    struct xh_entries names = {0};
    char *copy = malloc(size + 1), name[XH_ENTRY_NAME_BYTES + 1];
    hold(copy != NULL, "out of memory");
    memcpy(copy, p, size);
    copy[size] = '\0';
    xh_listing_propfind(copy, size, "https://host/data/", &names);
    check(&names);
    xh_listing_page(copy, size, &names);
    check(&names);
    xh_listing_json(copy, size, &names);
    check(&names);
    char token[XH_LISTING_TOKEN_BYTES];
    xh_listing_s3(copy, size, "d/", &names, token);
    hold(memchr(token, '\0', sizeof token) != NULL, "a token without an end");
    check(&names);
    if (xh_listing_name(copy, size, name) == 0) {
        xh_entries_add(&names, &(struct xh_entry){.name = name});
        check(&names);
    }
    free(copy);
    return 0;
}
