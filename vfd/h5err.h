/* Our errors on HDF5's error stack.
 *
 * An entry must be pushed by the last H5 call before a callback returns: most other public H5 calls clear the stack. A
 * text contains ", errno = N, error message = '…'", as sec2's do; h5py reads it to raise FileNotFoundError,
 * PermissionError and similar exceptions. */
#ifndef XH_H5ERR_H
#define XH_H5ERR_H

#include "../cache/base/err.h"
#include "h5bind.h"

/* Pushes one entry of the class "xhdf5", with the minor message for |code| (enum xh_code). Without |h5| the text goes
 * to standard error. Returns -1, so that a callback can end with `return xh_fail(…)`. Keeps errno. */
int xh_h5err_push(struct xh_h5 *h5, const char *file, const char *func, unsigned line, int code,
                  const char *fmt, ...) __attribute__((format(printf, 6, 7)));
#ifdef __clang_analyzer__ /* as in base/err.h */
#define xh_h5err_push(...) ((void)(xh_h5err_push)(__VA_ARGS__), -1)
#endif

#ifdef __FILE_NAME__ /* GCC has it from 12 on; RHEL 9 has 11 */
#define XH_FILE_NAME __FILE_NAME__
#else
#define XH_FILE_NAME __FILE__
#endif

#define xh_fail(h5, code, ...) \
    xh_h5err_push((h5), XH_FILE_NAME, __func__, (unsigned)__LINE__, (code), __VA_ARGS__)

/* The same for a failed system call: appends ", errno = N, error message = '…'" to |what|. */
#define xh_fail_sys(h5, what, sys_errno)                                                    \
    xh_fail((h5), xh_h5err_code(sys_errno), "%s, errno = %d, error message = '%s'", (what), \
            (sys_errno), strerror(sys_errno))

/* The same for an error of the cache, with its errno if it has one. */
#define xh_fail_cache(h5, err) \
    xh_h5err_push_cache((h5), XH_FILE_NAME, __func__, (unsigned)__LINE__, (err))
int xh_h5err_push_cache(struct xh_h5 *h5, const char *file, const char *func, unsigned line,
                        const struct xh_err *err);

/* The first call of a public function. Returns the libhdf5 that the code at |caller| uses, and clears its error stack,
 * as H5 functions do. Returns NULL when there is none; standard error has the reason. */
struct xh_h5 *xh_h5err_enter(const void *caller);

/* The error return of a public function whose fault is not an H5 function's; that one would have printed its error.
 * Evaluates to -1. */
#define xh_fail_api(h5, ...) (xh_fail((h5), __VA_ARGS__), xh_h5err_print(h5))

/* Between these two calls H5 functions print no errors. The second one also clears the stack. */
struct xh_h5err_quiet {
    H5E_auto2_t print;
    void *arg;
    int was;
};
void xh_h5err_quiet(struct xh_h5 *h5, struct xh_h5err_quiet *q);
void xh_h5err_aloud(struct xh_h5 *h5, const struct xh_h5err_quiet *q);

/* Prints the stack, unless the program has switched that off, as an H5 function does when it fails. For public
 * functions only; callbacks leave printing to their caller. Returns -1. */
int xh_h5err_print(struct xh_h5 *h5);

/* The code for an errno: ENOENT and EACCES have their own, all others are XH_E_SYS. */
int xh_h5err_code(int sys_errno);

#endif
