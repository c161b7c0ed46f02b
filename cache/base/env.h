/* The environment, as it was when a file was opened.
 *
 * getenv() on a thread of ours would meet setenv() on one of the program's, and what a program sets between two
 * openings is not meant for the first. So the variables that name credentials, CAs and proxies are read once, by the
 * thread that opens, and all that is opened on the file's behalf later (its sidecar, other endpoints, a commit) goes
 * by those. */
#ifndef XH_ENV_H
#define XH_ENV_H

struct xh_env; /* constant once taken; counted */

/* Reads them. For the program's own threads alone. Returns NULL without memory. Owns: the caller unrefs it. */
struct xh_env *xh_env_take(void);

struct xh_env *xh_env_ref(struct xh_env *e); /* NULL allowed */
void xh_env_unref(struct xh_env *e);         /* NULL allowed; forgets the values */

/* The value of |name|, which must be in env.c's table; NULL when it is unset or empty. |e| NULL: as it is now, for the
 * program's own threads alone. Owns: |e|, or the environment. */
const char *xh_env_get(const struct xh_env *e, const char *name);

/* 1 when all of them have the same values in |a|, not NULL, and |b|; |b| NULL: as it is now, for the program's own threads alone. */
int xh_env_is_same(const struct xh_env *a, const struct xh_env *b);

struct xh_options;

/* |o|, a copy of another's options, gets a reference of its own to their environment; where they have none, one that is
 * taken now. Without memory there is none. To be released once. */
void xh_env_hold(struct xh_options *o);
void xh_env_release(struct xh_options *o);

#endif
