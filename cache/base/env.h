/* The environment, as it was when a file was opened.
 *
 * getenv() on one of our threads would race with setenv() on one of the program's. And what a program sets between two
 * openings is not meant for the first one. So the thread that opens a file reads the variables for credentials, CAs and
 * proxies once. Everything that is opened later for this file (its sidecar, other endpoints, a commit) uses these
 * values. */
#ifndef XH_ENV_H
#define XH_ENV_H

struct xh_env; /* constant once taken; counted */

/* Returns the value of |name|, which must be in env.c's table; NULL when it is unset or empty. |e| NULL: the current
 * environment; only on the program's own threads. Owns: |e|, or the environment. */
const char *xh_env_get(const struct xh_env *e, const char *name);

/* Returns 1 when all variables have the same values in |a|, not NULL, and in |b|. |b| NULL: the current environment;
 * only on the program's own threads. */
int xh_env_is_same(const struct xh_env *a, const struct xh_env *b);

struct xh_options;

/* hold gives |o|, a copy of other options, its own reference to their environment. If they have none, the current
 * environment is read; if there is no memory, |o| has none. Call release once. */
void xh_env_hold(struct xh_options *o);
void xh_env_release(struct xh_options *o);

/* For who outlives the options. */
struct xh_env *xh_env_ref(struct xh_env *e); /* NULL allowed */
void xh_env_unref(struct xh_env *e);         /* NULL allowed */

/* All variables, for a program that is started; empty when nothing could start any: no ~/.aws, no file that AWS_*
 * names. |e| NULL: the current ones; only on the program's own threads. */
char *const *xh_env_all(const struct xh_env *e);

#endif
