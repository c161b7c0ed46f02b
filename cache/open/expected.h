/* Files that are opened ahead: an expected file is opened while the program is still busy with others. The opening is
 * handed over when the program opens the same URL with the same options as the same reader.
 *
 * An opening ahead asks the origin what the program's own would, a moment earlier. When that was longer ago than
 * XH_FRESH_LEAST_NS, and XH_FRESH_TIMES what it took, the origin is asked again before it is handed over: what the
 * program opens is there now, unless no thread can be had for the question. That costs a program that goes through its
 * files at most an eighth of its time. A failure ahead is forgotten, without a message: the program's own opening then
 * asks again. At most XH_EXPECTED_MOST openings are under way or wait to be handed over.
 *
 * Where nobody has asked for a file, as its name was guessed, it may be one that is being written. So the origin is
 * asked again also where it changed lately, or where another one did that the program opened since; and the program's
 * own opening asks where that cannot be, or where the guess failed while it waited: the file may be there by now. A
 * guess that nobody comes for is closed after a minute: nobody may come for it ever.
 *
 * A file that another one names is closed with the dataset through which it was read, and mostly opened again for the
 * next read. So the one that was closed last is expected, too, as it is: with what it has on its way. One for each
 * family, until the program opens another one of it.
 *
 * Lock: one for the process, a leaf; held across a fork. The child expects nothing, and closes what its parent had open
 * for it at its first opening. Threads: any. */
#ifndef XH_EXPECTED_H
#define XH_EXPECTED_H

#include <stdint.h>

#include "base/options.h"
#include "cache.h"

struct xh_file;

#define XH_FRESH_TIMES 8u
/* But not before: with 50 ms, a loop over 50 files at a near server asked for most of them twice (`warm_many`), and a
 * virtual dataset's sources waited for it (V1 at 160 ms 1.03 of the time). */
#define XH_FRESH_LEAST_NS UINT64_C(5000000000)

/* How files are opened and closed: as xh_cache_open and xh_cache_close. |is_current| asks the origin whether it still
 * has the version that was opened; |is_settled|, which does not, whether that had not changed for some time. */
struct xh_expected_how {
    int (*open)(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_err *err);
    void (*close)(struct xh_file *f);
    int (*is_current)(struct xh_file *f);
    int (*is_settled)(const struct xh_file *f);
};

/* |url| is the file of its family that is likely opened next: notes it. |how| is constant. Returns 1 when it is noted,
 * or was before. Never fails; does not block. */
int xh_expected_note(const char *url, const struct xh_options *o, const struct xh_expected_how *how);

/* Returns 1 when |url| was noted, and is not known to fail. */
int xh_expected_is(const char *url);

/* Returns 1 when some were noted that neither a file names nor anybody guessed: the program has announced them. */
int xh_expected_are_announced(void);

/* A file of |family| changed lately: those beside it may be written next. What was guessed by now is asked for again
 * before it is handed over. Does not block. */
void xh_expected_doubt(uint64_t family);

/* The next |n| files of |family| will soon be wanted: opens those that were noted and are not open yet, each on a
 * thread of its own. Never fails; does not block. */
void xh_expected_open(uint64_t family, size_t n);

/* The same for all that were noted of |family|: they are wanted for one read, with |others| that are open. */
void xh_expected_open_beside(uint64_t family, unsigned others);

/* The next number of an opening, for o->asked_as. */
uint64_t xh_expected_number(void);

/* Expects |f|, which the program has closed: it was opened with |o| by |reader|, and the origin was last asked for it
 * at |asked_ns| and answered at |opened_ns|. Closes the file of its family that was kept before. It is not kept where a
 * token file, say, has another reader's by now, or this process has written a file since. Returns 1 when it is kept,
 * and the caller has it no more. Does not block. */
int xh_expected_keep(struct xh_file *f, const char *url, const struct xh_options *o, const char *reader,
                     const struct xh_expected_how *how, uint64_t asked_ns, uint64_t opened_ns);

struct xh_handed {
    uint64_t waited_ns;           /* for the opening, or until the origin had answered again */
    uint64_t asked_ns, opened_ns; /* when the origin was last asked, and had answered */
    int kept;                     /* 1: the program has read it before */
};

/* Asks for |url| with |o|. Closes what is kept of the family if it is another file. Returns
 *   1, and sets |*out|, when it was opened ahead or kept: the caller closes it;
 *   0 when it was not opened ahead, or with other options, too long ago, or in vain;
 *   the code of an opening, with |err|, that failed while the caller waited for it; of a guess, if that was asked for
 *   after the caller came.
 * Sets |*how|. Blocks while the opening is under way, or is asked for again. */
int xh_expected_take(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_handed *how,
                     struct xh_err *err);

/* Closes the files that are expected of |family|. Waits for no opening. */
void xh_expected_forget(uint64_t family);

/* The program has written |object| (see xh_origin_object; NULL: out of memory, then any may be meant). What was opened
 * ahead of it, or is being opened, may be of the version before: it is not handed over. Waits for no opening. */
void xh_expected_outdated(const char *object);

/* So long a guess is kept open for a program that does not come. For tests. */
extern uint64_t xh_expected_guess_ns;

/* How many openings are under way or wait to be handed over; how many threads are at work, also for openings that are
 * no longer wanted. For tests. */
unsigned xh_expected_count(void);
unsigned xh_expected_threads(void);

#endif
