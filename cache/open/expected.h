/* Files that are opened ahead: what is about to be opened is opened beside what its reader does, and handed over when
 * that asks for the same URL with the same options as the same reader.
 *
 * It asks the origin just what the opening itself would, a moment earlier. What fails before it is asked for is
 * forgotten, and says nothing: the opening then asks by itself. At most XH_EXPECTED_MOST are on their way, or wait to
 * be asked for.
 *
 * Lock: one for the process, a leaf. A fork's child begins without any. Threads: any. */
#ifndef XH_EXPECTED_H
#define XH_EXPECTED_H

#include <stdint.h>

#include "base/options.h"

#define XH_EXPECTED_MOST 16

struct xh_file;

/* How files are opened and closed: as xh_cache_open and xh_cache_close. */
struct xh_expected_how {
    int (*open)(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err);
    void (*close)(struct xh_file *f);
};

/* |url| is the next file of its family that is likely opened: notes it. |how| is constant. Never fails; does not
 * block. */
void xh_expected_note(const char *url, const struct xh_options *o, const struct xh_expected_how *how);

/* The next |n| files of |family| will soon be wanted: opens those of them that were noted and are not open yet, each on
 * a thread of its own. Never fails; does not block. */
void xh_expected_open(uint64_t family, size_t n);

/* The next number of an opening, for o->asked_as. */
uint64_t xh_expected_number(void);

/* Asks for |url| with |o|. Returns 1 and sets |*out| when it was opened ahead: the caller closes it; 0 when it was not,
 * or not with those options, too long ago, or in vain; or the code, with |err|, of an opening that failed while it was
 * waited for. |*waited_ns|: so long. Blocks while it is on its way. */
int xh_expected_take(const char *url, const struct xh_options *o, struct xh_file **out, uint64_t *waited_ns,
                     struct xh_err *err);

/* Closes what is expected for |family|, and waits for none. */
void xh_expected_forget(uint64_t family);

/* How many are on their way, or wait to be asked for; and how many threads are at work, also on what nobody wants any
 * more. For tests. */
unsigned xh_expected_count(void);
unsigned xh_expected_threads(void);

#endif
