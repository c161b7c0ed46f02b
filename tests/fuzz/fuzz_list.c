/* Where else a file may lie: a URL, below it what the user lists as endpoints. */
#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "replicas/list.h"

/* Takes the first line off, as a text. */
static char *line(const uint8_t **p, size_t *size)
{
    const uint8_t *eol = *size ? memchr(*p, '\n', *size) : NULL;
    size_t n = eol ? (size_t)(eol - *p) : *size;
    char *s = malloc(n + 1);
    hold(s != NULL, "out of memory");
    if (n)
        memcpy(s, *p, n);
    s[n] = '\0';
    *p += n + (eol != NULL);
    *size -= n + (eol != NULL);
    return s;
}

static void endpoints(const char *url, const char *list)
{
    char *site[XH_SITES_MAX], server[300];
    const char *bad;
    size_t bad_len, n = xh_list_sites(url, list, site, &bad, &bad_len);
    hold(n >= 1 && n <= XH_SITES_MAX && strcmp(site[0], url) == 0, "the URL itself is not the first");
    hold(!bad || (bad >= list && bad_len && bad_len <= strlen(list) - (size_t)(bad - list)),
         "a bad entry that is not in the list");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            hold(strcmp(site[i], site[k]) != 0, "one place twice");
        int s3 = strncmp(site[i], "s3://", 5) == 0, safe = s3 || strncmp(site[i], "https://", 8) == 0;
        hold(i == 0 || safe || strncmp(site[i], "http://", 7) == 0, "another scheme");
        hold(i == 0 || safe || (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "s3://", 5) != 0),
             "https falls to http");
        xh_list_server(site[i], server, sizeof server);
        hold(i == 0 || server[0], "no server");
    }
    while (n)
        free(site[--n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    char *url = line(&p, &size), *list = line(&p, &size);
    endpoints(url, list);
    free(url);
    free(list);
    return 0;
}
