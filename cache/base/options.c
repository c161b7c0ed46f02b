/* Options: parsing, bounds and precedence. See options.h; the table is options.def. */
#include "options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "letters.h"
#include "number.h"
#include "process.h"

#define DEF_BOOL(def) #def
#define DEF_INT(def) #def
#define DEF_SIZE(def) #def
#define DEF_STR(def) def
#define DEF_WORD(def) def

#define WORDS_BOOL(def) NULL
#define WORDS_INT WORDS_BOOL
#define WORDS_SIZE WORDS_BOOL
#define WORDS_STR WORDS_BOOL
#define WORDS_WORD(def) def
#define XH_OPT_WORD XH_OPT_STR

const struct xh_opt_row xh_opt_rows[XH_OPT_COUNT] = {
#define X(type, name, def, min, max, help) \
    {#name, XH_OPT_##type, DEF_##type(def), min, max, help, offsetof(struct xh_options, name), WORDS_##type(def)},
#include "options.def"
#undef X
};

/* XHDF5_* variables that are not options; the project's own tools read them. */
static const char *const foreign_env[] = {"BUILD", "WAN", "BOX", "TEST"};

/* The compiler checks that every default is within its bounds. */
#define CHECK_INT(def, min, max) ((def) >= (min) && (def) <= (max))
#define CHECK_BOOL CHECK_INT
#define CHECK_SIZE CHECK_INT
#define CHECK_STR(def, min, max) (sizeof(def) - 1 <= (max) && (max) < XH_OPT_STR_BYTES)
#define CHECK_WORD(def, min, max) ((min) > 0 && (max) < XH_OPT_STR_BYTES)
#define X(type, name, def, min, max, help) \
    _Static_assert(CHECK_##type(def, (long long)(min), (long long)(max)), "default of " #name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "options.def"
#pragma GCC diagnostic pop
#undef X

static uint64_t *number_of(struct xh_options *o, const struct xh_opt_row *row)
{
    return (uint64_t *)((char *)o + row->offset);
}

static char *string_of(struct xh_options *o, const struct xh_opt_row *row)
{
    return (char *)o + row->offset;
}

void xh_options_defaults(struct xh_options *o)
{
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < XH_OPT_COUNT; i++) {
        const struct xh_opt_row *row = &xh_opt_rows[i];
        if (row->type == XH_OPT_STR)
            snprintf(string_of(o, row), XH_OPT_STR_BYTES, "%.*s",
                     (int)(row->words ? strcspn(row->words, "|") : strlen(row->def)), row->def);
        else
            *number_of(o, row) = strtoull(row->def, NULL, 10);
    }
}

/* Edit distance of two short names, ignoring case: for the hint at the nearest name. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[64];
    size_t nb = strlen(b);
    if (strlen(a) >= 64 || nb >= 63)
        return 64;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            int same = xh_tolower((unsigned char)a[i - 1]) == xh_tolower((unsigned char)b[j - 1]);
            unsigned best = diagonal + !same;
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

/* The known name that |name| is most likely meant for: one of which it is a part, as cache_dir of disk_cache_dir, or
 * else the one with the least distance. */
static const char *nearest(const char *name)
{
    const char *best = xh_opt_rows[0].name;
    unsigned least = ~0u;
    for (size_t i = 0; i < XH_OPT_COUNT; i++) {
        const char *known = xh_opt_rows[i].name;
        unsigned d = xh_strcasestr(known, name) ? 1 : distance(name, known);
        if (d < least) {
            least = d;
            best = known;
        }
    }
    return best;
}

static const struct xh_opt_row *row_of(const char *name)
{
    for (size_t i = 0; i < XH_OPT_COUNT; i++)
        if (xh_strcasecmp(xh_opt_rows[i].name, name) == 0)
            return &xh_opt_rows[i];
    return NULL;
}

static int no_word(const struct xh_opt_row *row, const char *value, const char *where, struct xh_err *err)
{
    char want[80] = "";
    size_t at = 0;
    for (const char *w = row->words; *w && at < sizeof want;) {
        size_t n = strcspn(w, "|"), more = w[n] ? strcspn(w + n + 1, "|") + n + 1 : 0;
        at += (size_t)snprintf(want + at, sizeof want - at, "%.*s%s", (int)n, w,
                               !w[n] ? "" : w[more] ? ", " : " or ");
        w += n + (w[n] != '\0');
    }
    return xh_err_set(err, XH_E_INVAL, 0, "option %s (%s): got \"%.100s\", want %s", row->name, where, value, want);
}

/* Sets an option that is one of several words. Returns 0, or -1: |value| is none of them. */
static int set_word(struct xh_options *o, const struct xh_opt_row *row, const char *value)
{
    for (const char *w = row->words; *w;) {
        size_t n = strcspn(w, "|");
        if (strlen(value) == n && xh_strncasecmp(value, w, n) == 0) {
            snprintf(string_of(o, row), XH_OPT_STR_BYTES, "%.*s", (int)n, w);
            return 0;
        }
        w += n + (w[n] != '\0');
    }
    return -1;
}

static int out_of_bounds(const struct xh_opt_row *row, const char *value, const char *where,
                         struct xh_err *err)
{
    switch (row->type) {
    case XH_OPT_BOOL:
        return xh_err_set(err, XH_E_INVAL, 0,
                          "option %s (%s): got \"%.100s\", want on or off (also 1/0, yes/no, true/false)",
                          row->name, where, value);
    case XH_OPT_STR:
        return xh_err_set(err, XH_E_INVAL, 0,
                          "option %s (%s): the value is %zu bytes long, want %llu to %llu", row->name,
                          where, strlen(value), (unsigned long long)row->min,
                          (unsigned long long)row->max);
    default:
        return xh_err_set(err, XH_E_INVAL, 0,
                          "option %s (%s): got \"%.100s\", want a whole number from %llu to %llu%s",
                          row->name, where, value, (unsigned long long)row->min,
                          (unsigned long long)row->max,
                          row->type == XH_OPT_SIZE ? " (k, M and G may follow)" : "");
    }
}

static int parse_bool(const char *value, uint64_t *out)
{
    static const char *const words[][2] = {{"0", "1"}, {"off", "on"}, {"no", "yes"}, {"false", "true"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (unsigned b = 0; b < 2; b++)
            if (xh_strcasecmp(value, words[i][b]) == 0) {
                *out = b;
                return 0;
            }
    return -1;
}

static int parse_number(const char *value, int suffix, uint64_t *out)
{
    char *end;
    uint64_t v;
    if (xh_digits(value, &end, &v))
        return -1;
    unsigned shift = 0;
    if (suffix && *end) {
        const char *at = strchr("kKmMgG", *end);
        if (!at)
            return -1;
        shift = 10 * (1 + (unsigned)(at - "kKmMgG") / 2);
        end++;
    }
    if (*end || (shift && v > (UINT64_MAX >> shift)))
        return -1;
    *out = v << shift;
    return 0;
}

int xh_options_set_number(struct xh_options *o, enum xh_opt_id id, uint64_t value, const char *where,
                          struct xh_err *err)
{
    const struct xh_opt_row *row = &xh_opt_rows[id];
    if (row->type == XH_OPT_STR || value < row->min || value > row->max) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)value);
        return out_of_bounds(row, text, where, err);
    }
    *number_of(o, row) = value;
    return 0;
}

/* What stands behind the last password of URLs, if there is any. */
static const char *without_password(const char *value)
{
    const char *at = strrchr(value, '@');
    return at ? at + 1 : value;
}

/* A URL, or names with commas between them, would be the name of no host, and nothing would tell. */
static int is_no_host(const struct xh_opt_row *row, const char *value)
{
    int names_hosts = row == &xh_opt_rows[XH_OPT_ID_credential_hosts] || row == &xh_opt_rows[XH_OPT_ID_login_hosts];
    return names_hosts && value[strcspn(value, "/,")];
}

int xh_options_set(struct xh_options *o, const char *name, const char *value, const char *where,
                   struct xh_err *err)
{
    const struct xh_opt_row *row = row_of(name);
    uint64_t v = 0;
    if (!row) /* what was to be a name may be a secret: its first letters are shown */
        return xh_err_set(err, XH_E_INVAL, 0, "unknown option \"%.*s\" (%s); the nearest known one is %s",
                          (int)strspn(name, XH_LETTERS XH_DIGITS "_"), name, where, nearest(name));
    if (row->words)
        return set_word(o, row, value) ? no_word(row, value, where, err) : 0;
    if (row->type == XH_OPT_STR) {
        size_t len = strlen(value);
        if (len < row->min || len > row->max)
            return out_of_bounds(row, value, where, err);
        if (is_no_host(row, value))
            return xh_err_set(err, XH_E_INVAL, 0,
                              "option %s (%s): got \"%.200s\", want names of hosts, as host.example.org, separated "
                              "by blanks", row->name, where, without_password(value));
        memcpy(string_of(o, row), value, len + 1);
        return 0;
    }
    int bad = row->type == XH_OPT_BOOL ? parse_bool(value, &v)
                                       : parse_number(value, row->type == XH_OPT_SIZE, &v);
    if (bad || v < row->min || v > row->max)
        return out_of_bounds(row, value, where, err);
    *number_of(o, row) = v;
    return 0;
}

static int is_foreign(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof foreign_env / sizeof *foreign_env; i++)
        if (strncmp(name, foreign_env[i], strlen(foreign_env[i])) == 0 && strlen(foreign_env[i]) <= len)
            return 1;
    return 0;
}

/* The HEPS system's variables for the option endpoints: a list of endpoints, and how many of them to use. */
static int endpoints_of_heps(struct xh_options *o, struct xh_err *err)
{
    static const char separators[] = ",; \t\r\n";
    const char *list = getenv("XRDMULTI_ENDPOINT"), *number = getenv("SERVER_NUM");
    uint64_t most = UINT64_MAX;
    if (!list)
        return 0;
    if (number && parse_number(number, 0, &most) != 0)
        most = UINT64_MAX; /* not a number: it belongs to another program */
    int rc = xh_options_set(o, "endpoints", list, "environment variable XRDMULTI_ENDPOINT", err);
    for (char *p = o->endpoints; rc == 0 && *(p += strspn(p, separators)); p += strcspn(p, separators))
        if (most-- == 0) {
            *p = '\0';
            break;
        }
    return rc;
}

/* HDF5_DRIVER_CONFIG, unless HDF5_DRIVER says that it is another driver's; NULL: it is not set. HDF5 itself hands it on
 * to files alone that are opened without a list that names a driver. */
static const char *config_of_env(void)
{
    const char *driver = getenv("HDF5_DRIVER");
    return driver && *driver && strcmp(driver, "xhdf5") != 0 ? NULL : getenv("HDF5_DRIVER_CONFIG");
}

int xh_options_from_env(struct xh_options *o, struct xh_err *err)
{
    /* With this each opening begins, by whatever door. When we are loaded is too early: HDF5 has a directory open. */
    xh_process_fill_standard();
    static const char prefix[] = "XHDF5_";
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    int unknown = 0, endpoints = 0, rc = 0; /* all are read, so that stats counts wherever it stands */
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, prefix, sizeof prefix - 1) != 0)
            continue;
        const char *name = *e + sizeof prefix - 1;
        const char *eq = strchr(name, '=');
        char key[64], where[96], known[64];
        if (!eq || is_foreign(name, (size_t)(eq - name)))
            continue;
        snprintf(key, sizeof key, "%.*s", (int)(eq - name), name);
        const struct xh_opt_row *row = row_of(key);
        if (row && !eq[1])
            continue; /* an empty value means unset; shells make the two easy to confuse */
        if (!row) {
            if (!unknown++ && !atomic_flag_test_and_set(&warned)) {
                size_t n = (size_t)snprintf(known, sizeof known, "%s", nearest(key));
                for (size_t i = 0; i < n && i < sizeof known; i++)
                    known[i] = (char)xh_toupper((unsigned char)known[i]);
                xh_say("the environment variable XHDF5_%s is no option; the nearest known one is XHDF5_%s", key, known);
            }
            continue;
        }
        snprintf(where, sizeof where, "environment variable XHDF5_%s", key);
        int bad = xh_options_set(o, key, eq + 1, where, rc ? XH_IGNORED : err);
        rc = rc ? rc : bad;
        endpoints |= xh_strcasecmp(key, "endpoints") == 0;
    }
    rc = rc || endpoints ? rc : endpoints_of_heps(o, err);
    return rc ? rc : xh_options_from_string(o, config_of_env(), "HDF5_DRIVER_CONFIG", err);
}

int xh_options_agree(const struct xh_opt_row *row, const struct xh_options *a, const struct xh_options *b)
{
    const char *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    return row->type == XH_OPT_STR ? strcmp(x, y) == 0 : memcmp(x, y, sizeof(uint64_t)) == 0;
}

int xh_options_env_has(const char *name)
{
    size_t n = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "XHDF5_", 6) == 0 && xh_strncasecmp(*e + 6, name, n) == 0 && (*e)[6 + n] == '=')
            return 1;
    return xh_options_names(config_of_env(), name);
}

/* Removes white space at both ends, in place. Returns the start. */
static char *trim(char *s)
{
    while (xh_isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n && xh_isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
    return s;
}

/* Part |number| of a string sets no option, as |why| says. It may be the end of a secret with a comma in it, so it is
 * not shown. |text|: the last option before it that is a text without quotation marks; NULL: none. */
static int no_option(unsigned number, const char *why, const struct xh_opt_row *text, const char *where,
                     struct xh_err *err)
{
    xh_err_set(err, XH_E_INVAL, 0, "part %u (%s) %s", number, where, why);
    if (text) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n,
                 ". It is not shown, as it may belong to the value of %s: a comma divides options. If that value has "
                 "one, put it into quotation marks: %s=\"...\"",
                 text->name, text->name);
    }
    return err->code;
}

/* Sets the option in part |number|, "key=value". |*text|: see no_option; this option takes its place if it is one. */
static int set_part(struct xh_options *o, char *part, unsigned number, const struct xh_opt_row **text,
                    const char *where, struct xh_err *err)
{
    part = trim(part);
    if (!*part)
        return 0;
    char *eq = strchr(part, '='), why[120];
    if (!eq)
        return no_option(number, "is not of the form option=value", *text, where, err);
    *eq = '\0';
    char *value = trim(eq + 1), *name = trim(part);
    const struct xh_opt_row *row = row_of(name);
    if (!row && *text) {
        snprintf(why, sizeof why, "is an unknown option; the nearest known one is %s", nearest(name));
        return no_option(number, why, *text, where, err);
    }
    size_t n = strlen(value);
    int quoted = n >= 2 && value[0] == '"' && value[n - 1] == '"';
    if (quoted) {
        value[n - 1] = '\0';
        value++;
    }
    if (row && row->type == XH_OPT_STR && !quoted)
        *text = row;
    return xh_options_set(o, name, value, where, err);
}

#define UNCLOSED SIZE_MAX

/* Returns how long the part "key=value" is that |text| begins with, up to a comma or the end; inside quotation marks a
 * comma belongs to the value. Returns UNCLOSED when such a mark is not closed. */
static size_t part_length(const char *text)
{
    size_t n = 0;
    int quoted = 0;
    for (; text[n] && (quoted || text[n] != ','); n++)
        quoted ^= text[n] == '"';
    return quoted ? UNCLOSED : n;
}

int xh_options_from_string(struct xh_options *o, const char *text, const char *where, struct xh_err *err)
{
    char *copy = text ? strdup(text) : NULL;
    const struct xh_opt_row *unquoted = NULL;
    unsigned number = 1;
    int rc = 0;
    if (!text)
        return 0;
    if (!copy)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while reading %s", where);
    for (char *part = copy; rc == 0 && part;) {
        size_t n = part_length(part);
        if (n == UNCLOSED) {
            rc = xh_err_set(err, XH_E_INVAL, 0, "%s: a quotation mark is not closed", where);
            break;
        }
        char *next = part[n] ? part + n + 1 : NULL;
        part[n] = '\0';
        rc = set_part(o, part, number++, &unquoted, where, err);
        part = next;
    }
    free(copy);
    return rc;
}

int xh_options_names(const char *text, const char *name)
{
    static const char white[] = " \t\n\v\f\r";
    size_t len = strlen(name), n;
    for (; text && (n = part_length(text)) != UNCLOSED; text = text[n] ? text + n + 1 : NULL) {
        const char *key = text + strspn(text, white), *behind = key + len;
        if (xh_strncasecmp(key, name, len) == 0 && behind[strspn(behind, white)] == '=')
            return 1;
    }
    return 0;
}
