/* Logins of a netrc file: see auth.h. Read only when the option asks for it.
 *
 * Not by CURLOPT_NETRC_FILE: with that curl reads the file for each request, on the engine's threads, whomever the file
 * belongs to and whoever may read it, and takes the environment of that moment. Here it is read once, when a file is
 * opened, on the caller's thread.
 *
 * Invariant: nothing of the file reaches an error but its name. */
#include "auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/letters.h"
#include "base/wipe.h"

/* Takes the next word of |*p| in place: blanks before it are dropped, quotes and their backslashes undone. NULL at
 * the end. */
static char *word(char **p)
{
    char *s = *p + strspn(*p, " \t\r\n");
    if (!*s)
        return NULL;
    char *w = s, *from = s;
    if (*s == '"') {
        for (s++; *s && *s != '"'; s++) {
            if (*s == '\\' && s[1])
                s++;
            *w++ = *s;
        }
    } else {
        for (; *s && !xh_isspace((unsigned char)*s); s++)
            *w++ = *s;
    }
    *p = *s ? s + 1 : s;
    *w = '\0';
    return from;
}

/* Blanks out lines that are comments. */
static void drop_comments(char *text)
{
    for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (line[strspn(line, " \t")] == '#')
            memset(line, ' ', strcspn(line, "\n"));
}

/* Finds |host|'s login in |text|, which is taken apart. "default" stands for any host, if |defaults|. Returns 1 or
 * 0. */
static int find(char *text, const char *host, int defaults, const char **user, const char **password)
{
    int ours = 0;
    *user = *password = NULL;
    drop_comments(text);
    for (char *p = text, *w; (w = word(&p)) != NULL;) {
        if (strcmp(w, "machine") == 0 || strcmp(w, "default") == 0) {
            if (ours)
                break;
            ours = *w == 'd' ? defaults : (w = word(&p)) != NULL && xh_strcasecmp(w, host) == 0;
        } else if (strcmp(w, "macdef") == 0) { /* up to an empty line */
            char *end = strstr(p, "\n\n");
            p = end ? end : p + strlen(p);
        } else if (strcmp(w, "login") == 0 || strcmp(w, "password") == 0 || strcmp(w, "account") == 0) {
            char *value = word(&p);
            if (ours && *w == 'l')
                *user = value;
            else if (ours && *w == 'p')
                *password = value;
        }
    }
    return ours && *user && *password;
}

int xh_netrc_find(const struct xh_env *env, const char *host, int defaults, char **user, char **password,
                  struct xh_err *err)
{
    char path[XH_AUTH_PATH_BYTES];
    const char *why, *found_user, *found_password, *named = xh_env_get(env, "NETRC"), *home = xh_env_get(env, "HOME");
    if (!named && !home)
        return 0;
    snprintf(path, sizeof path, "%s%s", named ? named : home, named ? "" : "/.netrc");
    size_t len = 0;
    char *text = xh_auth_read(path, named != NULL, 1, &len, &why);
    if (!text && !named && errno == ENOENT)
        return 0;
    if (!text)
        return xh_err_set(err, XH_E_ACCES, 0, "the option netrc is on, but %.300s: %s", path, why);
    int rc = find(text, host, defaults, &found_user, &found_password);
    if (rc == 1) {
        char *u = strdup(found_user), *w = strdup(found_password);
        if (u && w) {
            *user = u;
            *password = w;
        } else {
            free(u);
            free(w);
            rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a login");
        }
    }
    xh_wipe_bytes(text, len);
    return rc;
}
