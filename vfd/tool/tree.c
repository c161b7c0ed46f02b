/* The files of a mount: see tree.h.
 *
 * A name is what a directory shows. A node is one version of what the name means: the kernel keeps what it knows of a
 * node for as long as it wants, so a node never gets another version's bytes.
 *
 * Invariants 1. name->now is the node that the name shows; now->name is that name. A node of an older version has no
 * name; programs that have it open read it on.
 * 2. A node is freed when the kernel has forgotten it, nobody uses it, and no name shows it.
 * 3. At most one thread opens a name, or asks what it is (busy). The lock is not held meanwhile.
 * 4. A node without a validator was never open: the listing, or the server when asked, told its size and date. Opening
 * makes it that version if both are the same, else another node. */
#include "tree.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../unsaid.h"
#include "../../cache/base/now.h"
#include "../../cache/base/table.h"
#include "list_at.h"

/* A file that nobody has open stays open for so long from its opening on: a program looks at it, closes it, and opens
 * it with HDF5. Not from its last use on: a program that polls would never see that it has changed. */
#define LINGER_NS 5000000000u
/* For so long a failure is the answer for others that ask. */
#define FAILURE_NS 1000000000u
/* For so long what a listing said of a file's size and date is the answer: a program lists, and then asks for each. */
#define LISTED_NS 10000000000u
#define PAGED_MOST_BYTES (8u << 20) /* see is_direct */
#define NOTED_MOST 100000u /* names of a listing; a kilobyte each. Others are opened when they are asked for */
#define LOOKS_MOST 256u /* files whose size and date are asked for at once */

struct node {
    uint64_t id;
    struct name *name; /* NULL: the root, or an older version */
    uint64_t lookups;  /* the kernel's references */
    int directory;
    char *url; /* of a directory that a server has, with a slash at the end of its path; else NULL */
    size_t looks; /* of a directory: so many of its files were asked for since it was listed */
    uint64_t size;
    long long changed_s;
    char *validator; /* NULL: not known yet */
    int fleeting;
    struct xh_file *file; /* NULL: not open */
    unsigned users;       /* opens and reads */
    unsigned reading;     /* reads alone */
    uint64_t opened_ns;   /* when its file was opened */
    struct xh_unsaid unsaid; /* the kernel splits reads that are longer than XH_TREE_READ_BYTES */
    UT_hash_handle hh;
};

struct name {
    char *key; /* "directory's number/text" */
    const char *text;
    char *url;
    struct node *now; /* NULL: not known */
    uint64_t listed_ns; /* 0: not listed lately */
    struct xh_entry listed; /* what the listing said; its name is NULL */
    int busy;
    unsigned waiters;
    int of_server; /* in a directory that a server has */
    struct xh_err failed; /* code 0: the last opening did not fail */
    uint64_t failed_ns;
    UT_hash_handle hh;
};

struct xh_tree {
    struct xh_options o;
    void (*say)(const char *text);
    pthread_mutex_t lock; /* guards what follows, names and nodes */
    pthread_cond_t opened;
    struct node *nodes;
    struct name *names; /* in the order in which they came */
    uint64_t last_id;
};

/* ---- nodes; lock held */

static struct node *node_of(struct xh_tree *t, uint64_t id)
{
    struct node *n;
    HASH_FIND(hh, t->nodes, &id, sizeof id, n);
    return n;
}

static struct node *node_new(struct xh_tree *t)
{
    struct node *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->id = ++t->last_id;
    HASH_ADD(hh, t->nodes, id, sizeof n->id, n);
    if (xh_in_table(n))
        return n;
    free(n);
    return NULL;
}

/* The name shows |n| no more. */
static void supersede(struct node *n)
{
    if (n->name)
        n->name->now = NULL;
    n->name = NULL;
}

/* Takes the file of |n| if nobody uses it any more and |now| is late enough; an older version's at once. Frees |n| if
 * it is nobody's. Returns the file for the caller to close without the lock, or NULL. */
static struct xh_file *retire(struct xh_tree *t, struct node *n, uint64_t now)
{
    struct xh_file *file = NULL;
    if (n->directory || n->users)
        return NULL;
    if (n->file && (!n->name || now - n->opened_ns >= LINGER_NS)) {
        file = n->file;
        n->file = NULL;
    }
    if (!n->file && !n->lookups && !(n->name && n->name->busy)) {
        supersede(n);
        HASH_DEL(t->nodes, n);
        free(n->validator);
        free(n);
    }
    return file;
}

static void fill(const struct node *n, struct xh_tree_attr *out)
{
    *out = (struct xh_tree_attr){
        .node = n->id, .directory = n->directory, .size = n->size, .changed_s = n->changed_s};
}

/* ---- names; lock held, but where it is said */

static char *key_of(uint64_t directory, const char *text)
{
    char *key = NULL;
    return asprintf(&key, "%" PRIu64 "/%s", directory, text) < 0 ? NULL : key;
}

static struct name *name_of(struct xh_tree *t, uint64_t directory, const char *text)
{
    char *key = key_of(directory, text);
    struct name *name = NULL;
    if (key)
        HASH_FIND_STR(t->names, key, name);
    free(key);
    return name;
}

static struct name *name_new(struct xh_tree *t, uint64_t directory, const char *text, const char *url)
{
    struct name *name = calloc(1, sizeof *name);
    if (name) {
        name->key = key_of(directory, text);
        name->url = strdup(url);
        if (name->key && name->url) {
            name->text = strchr(name->key, '/') + 1;
            HASH_ADD_KEYPTR(hh, t->names, name->key, strlen(name->key), name);
            if (xh_in_table(name))
                return name;
        }
        free(name->key);
        free(name->url);
    }
    free(name);
    return NULL;
}

/* The name |text| in a directory; one of a server's may mean something. NULL: it means nothing. */
static struct name *name_below(struct xh_tree *t, uint64_t directory, const char *text)
{
    struct name *name = name_of(t, directory, text);
    const struct node *d = node_of(t, directory);
    if (name || !d || !d->url)
        return name;
    char *url = xh_listing_url(d->url, text, "");
    name = url ? name_new(t, directory, text, url) : NULL;
    free(url);
    if (name)
        name->of_server = 1;
    return name;
}

static int tell(struct xh_tree *t, const struct xh_err *err)
{
    t->say(err->text);
    return err->sys_errno ? err->sys_errno : EIO;
}

/* |name| shows a new node instead of the one that it shows. Returns it, or NULL without memory. */
static struct node *show_new(struct xh_tree *t, struct name *name)
{
    struct node *n = node_new(t);
    if (!n)
        return NULL;
    if (name->now)
        supersede(name->now);
    n->name = name;
    name->now = n;
    return n;
}

/* |f| was opened for |name|: shows it. Returns the node, or NULL without memory. */
static struct node *show(struct xh_tree *t, struct name *name, struct xh_file *f)
{
    struct node *n = name->now;
    const char *validator = xh_cache_validator(f);
    char *copy = strdup(validator);
    if (!copy)
        return NULL;
    int same = n && (n->validator ? !n->fleeting && strcmp(n->validator, validator) == 0
                                  : n->size == xh_cache_size(f) && n->changed_s == xh_cache_changed(f));
    /* The same version of the same file: what the kernel keeps of it is good. */
    if (!same && !(n = show_new(t, name))) {
        free(copy);
        return NULL;
    }
    if (!same)
        name->listed_ns = 0; /* what was listed is older than this */
    free(n->validator);
    n->validator = copy;
    n->size = xh_cache_size(f);
    n->changed_s = xh_cache_changed(f);
    n->fleeting = xh_cache_is_fleeting(f);
    n->file = f;
    n->opened_ns = xh_now_ns();
    return n;
}

/* Shows |name| as a directory. Returns 0, or -1 without memory. */
static int show_directory(struct xh_tree *t, struct name *name)
{
    size_t path = strcspn(name->url, "?#");
    char *url = NULL;
    struct node *n = asprintf(&url, "%.*s/%s", (int)path, name->url, name->url + path) < 0 ? NULL : show_new(t, name);
    if (!n) {
        free(url);
        return -1;
    }
    n->directory = 1;
    n->url = url;
    return 0;
}

/* Waits until nobody is busy with |name|, and keeps it meanwhile. The lock is released meanwhile. */
static void wait_for(struct xh_tree *t, struct name *name)
{
    name->waiters++;
    while (name->busy)
        pthread_cond_wait(&t->opened, &t->lock);
    name->waiters--;
}

/* Opens what |name| means, unless it is open. Returns 0 or a code of the cache. The lock is released meanwhile. */
static int open_name(struct xh_tree *t, struct name *name, struct xh_err *err)
{
    struct xh_file *f = NULL;
    wait_for(t, name);
    if (name->now && (name->now->file || name->now->directory))
        return 0;
    if (name->listed.directory)
        return show_directory(t, name) ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a directory") : 0;
    if (name->failed.code && xh_now_ns() - name->failed_ns < FAILURE_NS) {
        *err = name->failed;
        return err->code;
    }
    name->busy = 1;
    pthread_mutex_unlock(&t->lock);
    int rc = xh_cache_open(name->url, &t->o, &f, err);
    int directory = rc && (err->directory || (rc == XH_E_NOENT && xh_list_is_prefix(name->url, &t->o)));
    pthread_mutex_lock(&t->lock);
    name->busy = 0;
    pthread_cond_broadcast(&t->opened);
    if (directory && !name->now && show_directory(t, name) == 0)
        return 0;
    if (rc == 0 && !show(t, name, f)) {
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a file");
        xh_cache_close(f);
    }
    name->failed = rc ? *err : (struct xh_err){0};
    name->failed_ns = xh_now_ns();
    if (rc && !(rc == XH_E_NOENT && name->of_server)) /* programs look for many names in a directory */
        tell(t, err);
    return rc;
}

/* ---- what a listing told */

static int is_listed(const struct name *name, uint64_t now)
{
    return name->listed_ns && now - name->listed_ns < LISTED_NS;
}

/* Up to |most| files of the directory |id|, from |first| on, whose listing did not say what they are. */
static size_t gather(struct xh_tree *t, uint64_t id, struct name *first, size_t most, struct name **out)
{
    char *key = key_of(id, "");
    uint64_t now = xh_now_ns();
    size_t n = 0;
    struct name *name = first;
    do {
        if (name == first || (strncmp(name->key, key, strlen(key)) == 0 && is_listed(name, now) && !name->busy &&
                              !name->now && !name->listed.told && !name->listed.directory))
            out[n++] = name;
        name = name->hh.next ? name->hh.next : t->names;
    } while (key && n < most && name != first);
    free(key);
    return n;
}

/* Asks what |name| of the directory |d| is, and others of it along with it: as many as were asked for before, as a
 * program that has asked for some will ask for all. What is not told then is opened when it is asked for. The lock is
 * released meanwhile. */
static void look_at(struct xh_tree *t, struct node *d, struct name *name)
{
    struct name *names[LOOKS_MOST];
    char *urls[LOOKS_MOST];
    struct xh_entry found[LOOKS_MOST] = {0};
    size_t most = d->looks < 1 ? 1 : d->looks < LOOKS_MOST ? d->looks : LOOKS_MOST;
    size_t n = gather(t, d->id, name, most, names);
    d->looks += n;
    for (size_t i = 0; i < n; i++) {
        names[i]->busy = 1;
        urls[i] = names[i]->url; /* constant, and the name stays while it is busy */
    }
    pthread_mutex_unlock(&t->lock);
    xh_list_look(urls, n, &t->o, found);
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < n; i++) {
        names[i]->busy = 0;
        names[i]->listed = found[i];
        names[i]->listed_ns = found[i].told ? xh_now_ns() : 0;
    }
    pthread_cond_broadcast(&t->opened);
}

/* Shows what the listing of the directory |d| said of |name|. Returns 1, or 0: it is to be opened. The lock is released
 * meanwhile. */
static int show_listed(struct xh_tree *t, struct node *d, struct name *name)
{
    wait_for(t, name);
    if ((name->now && (name->now->file || name->now->directory)) || name->listed.directory ||
        !is_listed(name, xh_now_ns()))
        return 0;
    if (!name->listed.told)
        look_at(t, d, name);
    if (!name->listed.told)
        return 0;
    struct node *n = name->now;
    if (!n || n->size != name->listed.size || n->changed_s != name->listed.changed_s) {
        if (!(n = show_new(t, name)))
            return 0;
        n->size = name->listed.size;
        n->changed_s = name->listed.changed_s;
    }
    return 1;
}

/* ---- what the kernel asks for */

int xh_tree_lookup(struct xh_tree *t, uint64_t directory, const char *text, struct xh_tree_attr *out)
{
    struct xh_err err = {0};
    pthread_mutex_lock(&t->lock);
    struct name *name = name_below(t, directory, text);
    struct node *d = node_of(t, directory); /* directories stay */
    int rc = !name ? ENOENT : show_listed(t, d, name) ? 0 : open_name(t, name, &err) ? err.sys_errno : 0;
    if (rc == 0) {
        name->now->lookups++;
        fill(name->now, out);
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void xh_tree_forget(struct xh_tree *t, uint64_t id, uint64_t times)
{
    pthread_mutex_lock(&t->lock);
    struct node *n = node_of(t, id);
    struct xh_file *file = NULL;
    if (n) {
        n->lookups -= times < n->lookups ? times : n->lookups;
        file = retire(t, n, xh_now_ns());
    }
    pthread_mutex_unlock(&t->lock);
    xh_cache_close(file);
}

int xh_tree_attr(struct xh_tree *t, uint64_t id, struct xh_tree_attr *out)
{
    pthread_mutex_lock(&t->lock);
    const struct node *n = node_of(t, id);
    if (n)
        fill(n, out);
    pthread_mutex_unlock(&t->lock);
    return n ? 0 : ESTALE;
}

/* Large files are not read by the kernel's pages: it would ask for 128 KiB at most, in pieces that start and end where
 * no dataset does, and the cache's guesses go by what a program asks for. Small ones are: they come whole, or nearly,
 * and a walk through metadata is thousands of reads, of which each would be a request of the kernel's. docs/mount.md
 * has what both cost. */
static int is_direct(const struct node *n)
{
    return n->size > PAGED_MOST_BYTES;
}

/* ESTALE makes the kernel look the name up anew, and open what it means by then. */
int xh_tree_open(struct xh_tree *t, uint64_t id, int *direct)
{
    struct xh_err err = {0};
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    struct node *n = node_of(t, id);
    if (!n || (!n->file && !n->name)) {
        rc = ESTALE;
    } else if (n->directory) {
        rc = EISDIR;
    } else if (!n->file) {
        struct name *name = n->name;
        rc = open_name(t, name, &err) ? err.sys_errno : name->now == n ? 0 : ESTALE;
    }
    if (rc == 0) {
        n->users++;
        *direct = is_direct(n);
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* One use of |n| less. Lock held. Returns as retire does. */
static struct xh_file *leave(struct xh_tree *t, struct node *n)
{
    n->users--;
    return retire(t, n, xh_now_ns());
}

void xh_tree_release(struct xh_tree *t, uint64_t id)
{
    pthread_mutex_lock(&t->lock);
    struct node *n = node_of(t, id);
    struct xh_file *file = n && n->users ? leave(t, n) : NULL;
    pthread_mutex_unlock(&t->lock);
    xh_cache_close(file);
}

int xh_tree_read(struct xh_tree *t, uint64_t id, uint64_t off, void *buf, size_t *len)
{
    struct xh_err err = {0};
    struct xh_extent e = {.off = off, .buf = buf};
    pthread_mutex_lock(&t->lock);
    struct node *n = node_of(t, id);
    struct xh_file *f = n ? n->file : NULL;
    enum xh_kind kind = XH_KIND_RAW;
    if (f) {
        e.len = off >= n->size ? 0 : *len < n->size - off ? *len : n->size - off;
        kind = xh_unsaid_kind(&n->unsaid, &e, 1);
        n->users++;
        n->reading++;
    }
    pthread_mutex_unlock(&t->lock);
    if (!f)
        return ESTALE;
    int rc = xh_cache_read(f, kind, &e, 1, &err);
    *len = e.len;
    pthread_mutex_lock(&t->lock);
    /* The name means something else by now, or nothing, or not for us: the next one who asks for it will see. */
    if (rc == XH_E_CHANGED || rc == XH_E_NOENT || rc == XH_E_ACCES)
        supersede(n);
    rc = rc ? tell(t, &err) : 0;
    n->reading--;
    struct xh_file *file = leave(t, n);
    pthread_mutex_unlock(&t->lock);
    xh_cache_close(file);
    return rc;
}

/* Adds the names of the directory |id| that are known. Lock held. */
static int list_known(struct xh_tree *t, uint64_t id, int shown, struct xh_entries *out)
{
    char *key = key_of(id, "");
    int rc = key ? 0 : ENOMEM;
    for (struct name *name = t->names; name && rc == 0; name = name->hh.next)
        if (strncmp(name->key, key, strlen(key)) == 0 && (!shown || name->now))
            rc = xh_entries_add(out, &(struct xh_entry){.name = (char *)name->text,
                                                        .directory = name->now && name->now->directory})
                     ? ENOMEM
                     : 0;
    free(key);
    return rc;
}

/* Notes what the listing of the directory |id| said. Lock held. */
static void note_listed(struct xh_tree *t, uint64_t id, const struct xh_entries *names)
{
    struct node *d = node_of(t, id);
    uint64_t now = xh_now_ns();
    if (d)
        d->looks = 0;
    for (size_t i = 0; i < names->n && i < NOTED_MOST; i++) {
        struct name *name = name_below(t, id, names->of[i].name);
        if (!name)
            continue;
        name->listed = names->of[i];
        name->listed.name = NULL;
        name->listed_ns = now;
    }
}

int xh_tree_list(struct xh_tree *t, uint64_t id, struct xh_entries *out)
{
    struct xh_err err = {0};
    pthread_mutex_lock(&t->lock);
    const struct node *n = node_of(t, id);
    char *url = n && n->url ? strdup(n->url) : NULL;
    int rc = n && n->url && !url ? ENOMEM : 0;
    if (rc == 0 && url) {
        pthread_mutex_unlock(&t->lock);
        int bad = xh_list_at(url, &t->o, out, &err);
        pthread_mutex_lock(&t->lock);
        if (bad) {
            tell(t, &err);
            rc = bad == XH_E_ACCES || bad == XH_E_PROTO ? list_known(t, id, 1, out) : err.sys_errno;
        } else {
            note_listed(t, id, out);
        }
    } else if (rc == 0) {
        rc = list_known(t, id, 0, out);
    }
    pthread_mutex_unlock(&t->lock);
    free(url);
    return rc;
}

/* ---- the tree */

struct xh_tree *xh_tree_new(const struct xh_options *o, void (*say)(const char *text))
{
    struct xh_tree *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->o = *o;
    t->o.is_kept = 1; /* the kernel keeps the bytes for as long as the version lasts */
    t->say = say;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->opened, NULL);
    struct node *root = node_new(t);
    if (!root) {
        free(t);
        return NULL;
    }
    root->directory = 1;
    return t;
}

int xh_tree_add(struct xh_tree *t, const char *name, const char *url, struct xh_err *err)
{
    if (name_of(t, XH_TREE_ROOT, name))
        return xh_err_set(err, XH_E_INVAL, 0, "two URLs end in the same name, %s", name);
    return name_new(t, XH_TREE_ROOT, name, url) ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
}

int xh_tree_root(struct xh_tree *t, const char *url, struct xh_err *err)
{
    struct node *root = node_of(t, XH_TREE_ROOT);
    if (asprintf(&root->url, "%s%s", url, xh_list_is_bucket(url) ? "/" : "") < 0)
        root->url = NULL;
    return root->url ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
}

int xh_tree_begin(struct xh_tree *t, struct xh_err *err)
{
    struct node *root = node_of(t, XH_TREE_ROOT);
    if (!root->url && !t->names)
        return 0;
    if (root->url) {
        struct xh_entries names = {0};
        int rc = xh_list_at(root->url, &t->o, &names, err);
        xh_entries_free(&names);
        if (rc)
            tell(t, err);
        return rc == XH_E_ACCES || rc == XH_E_PROTO ? 0 : rc;
    }
    pthread_mutex_lock(&t->lock);
    int rc = open_name(t, t->names, err);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* Closes the files that are not used, at |now|, one after the other; |all|: also those that a program has open and does
 * not read just now. */
static void close_files(struct xh_tree *t, uint64_t now, int all)
{
    struct xh_file *file;
    do {
        struct node *n, *next;
        file = NULL;
        pthread_mutex_lock(&t->lock);
        HASH_ITER(hh, t->nodes, n, next) {
            if (all && n->file && !n->reading) {
                file = n->file;
                n->file = NULL;
            } else {
                file = retire(t, n, now);
            }
            if (file)
                break;
        }
        pthread_mutex_unlock(&t->lock);
        xh_cache_close(file);
    } while (file);
}

/* Forgets names of servers' directories that meant nothing, or were listed and not asked for. Lock held. */
static void forget_names(struct xh_tree *t, uint64_t now)
{
    struct name *name, *next;
    HASH_ITER(hh, t->names, name, next) {
        if (name->now || name->busy || name->waiters || !name->of_server || is_listed(name, now) ||
            now - name->failed_ns < FAILURE_NS)
            continue;
        HASH_DEL(t->names, name); // NOLINT(clang-analyzer-unix.Malloc): the macro moves the head
        free(name->key);
        free(name->url);
        free(name);
    }
}

void xh_tree_tidy(struct xh_tree *t)
{
    uint64_t now = xh_now_ns();
    close_files(t, now, 0);
    pthread_mutex_lock(&t->lock);
    forget_names(t, now);
    pthread_mutex_unlock(&t->lock);
}

void xh_tree_close(struct xh_tree *t)
{
    close_files(t, UINT64_MAX, 1); /* of open ones, the kernel tells the program that they are gone */
}

/* ---- names from URLs */

int xh_tree_is_directory(const char *url)
{
    size_t n = strcspn(url, "?#");
    return (n && url[n - 1] == '/') || xh_list_is_bucket(url);
}

int xh_tree_name(const char *url, char out[XH_ENTRY_NAME_BYTES + 1])
{
    size_t n = strcspn(url, "?#"), from = xh_url_directory_bytes(url);
    return from > xh_url_server_bytes(url) ? xh_listing_name(url + from, n - from, out) : -1;
}
