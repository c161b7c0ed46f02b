/* The directory of the shadows, of this layout and of others. Threads: any. */
#ifndef XH_SHADOW_DIRECTORY_H
#define XH_SHADOW_DIRECTORY_H

#include <dirent.h>

#include "impl.h"

#define XH_PLACES_MOST 16u
#define XH_PLACE_BYTES 20

/* Why a directory cannot be used, and what helps: another directory; fewer open files in the process; longer files that
 * it may write; more room. */
struct xh_unfit {
    const char *why; /* a static text, or |text|; NULL: it can be used */
    enum { XH_CURE_DIRECTORY, XH_CURE_FILES, XH_CURE_LENGTH, XH_CURE_ROOM } cure;
    char text[80];
};

/* Returns what to do about it; |on_disk|: it is the disk cache's. */
const char *xh_directory_cure(const struct xh_unfit *u, int on_disk);

/* Fills |out| for a call that failed with the errno |bad|. */
void xh_directory_unfit(struct xh_unfit *out, int bad);

/* As xh_directory_open, but says nothing: fills |out|. */
int xh_directory_try(const struct xh_options *o, int create, struct xh_unfit *out);

/* Opens this layout's directory; |create| makes it. Returns a descriptor, which marks the directory as used while it is
 * open. Returns -1 when no directory can be trusted. With |create| the reason is traced, and, for a directory that the
 * user named, printed to standard error once a process. */
int xh_directory_open(const struct xh_options *o, int create);
/* The same, and sets |file| to the name of the file there of the kind |letter| (xh_store_is_name) that is |name|'s. -1
 * also where |o| has no shadows. */
int xh_directory_place(char letter, const char *name, const struct xh_options *o, int create,
                       char file[XH_NAME_BYTES]);
/* Sets |path| to the directory that the options name. */
void xh_directory_base(const struct xh_options *o, char path[XH_DIR_BYTES]);
/* Sets |path| to the directory of this layout's shadows, inside that one. */
void xh_directory_path(const struct xh_options *o, char path[XH_DIR_BYTES]);

/* Lists the places of the shadows of all layouts, relative to this layout's directory: "" itself, "../" for layouts
 * before 6, "../v<layout>/" for the others; |on_disk|, of the disk cache, "" and "../d<layout>/". Returns their
 * number. All layouts share the names of files and the meaning of XH_LOCK_OPEN. So a file of another layout can be
 * counted, and removed when no process has it open; its content is not read. */
size_t xh_directory_places(int dirfd, int on_disk, char place[XH_PLACES_MOST][XH_PLACE_BYTES]);
/* Says once in a process on standard error that the disk cache cannot be used, or takes no more, and why. */
void xh_directory_say_disk(const char *path, const struct xh_unfit *u);

/* Lists a place. Returns NULL when it is gone. Owns: the caller closes it with closedir. */
DIR *xh_directory_list(int dirfd, const char *place);
/* Removes the directories of other layouts that have no shadow and that no process uses. */
void xh_directory_tidy(int base, int on_disk);

/* Opens the file |name| of the directory that several processes write, and makes it. Returns -1 unless it is a regular
 * file of this user. */
int xh_directory_common(int dirfd, const char *name);

#endif
