/* Cookies as libcurl tells them, names and values as a server chose them: those that were sent, and below an empty line
 * those that are there now. */
#include <string.h>

#include "base/wipe.h"
#include "fuzz.h"
#include "origin/cookies.h"
#include "origin/login.h"

#define SERVER "https://h.example:443"

/* Each line is one that libcurl can be given: six tabs at least, and an end. */
static void check(const char *lines)
{
    for (const char *end; *lines; lines = end + 1) {
        size_t tabs = 0;
        end = strchr(lines, '\n');
        hold(end != NULL, "a line without an end");
        for (const char *c = lines; c < end; c++)
            tabs += *c == '\t';
        hold(tabs >= 6, "a line without all fields");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    const uint8_t *between = size ? memmem(p, size, "\n\n", 2) : NULL;
    size_t n = between ? (size_t)(between - p) + 1 : size;
    char *before = text_of(p, n), *after = text_of(p + n + (between != NULL), size - n - (between != NULL));
    char *changes = xh_cookies_changes(before, after), *none = xh_cookies_changes(after, after);
    struct xh_jar jar = {0}, chain = {0};
    hold(changes && none, "out of memory");
    check(changes);
    if (xh_jar_take(&chain, SERVER, changes, 1) == 0) {
        check(xh_jar_lines(&chain, SERVER));
        hold(strlen(xh_jar_lines(&chain, SERVER)) <= XH_COOKIES_MOST_BYTES, "more than is kept");
        hold(xh_jar_take(&jar, SERVER, xh_jar_lines(&chain, SERVER), 0) == 0, "a chain that no jar takes");
        char *once = text_of((const uint8_t *)xh_jar_lines(&jar, SERVER), strlen(xh_jar_lines(&jar, SERVER)));
        if (xh_jar_take(&jar, SERVER, xh_jar_lines(&chain, SERVER), 0) == 0)
            hold(strcmp(once, xh_jar_lines(&jar, SERVER)) == 0, "twice is not as once");
        free(once);
        hold(!xh_jar_lines(&jar, "https://other.example:443")[0], "another server's");
    }
    xh_jar_free(&jar);
    xh_jar_free(&chain);
    xh_wipe(changes);
    xh_wipe(none);
    const char *error = xh_login_error(before);
    hold(!error || strstr(before, error), "a word that is not there");
    xh_login_is_host(after, SERVER);
    free(before);
    free(after);
    return 0;
}
