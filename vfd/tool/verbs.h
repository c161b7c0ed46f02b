/* The commands, each in its own file. */
#ifndef XH_VERBS_H
#define XH_VERBS_H

#include "../../cache/base/options.h"

/* |run| gets the command line from the command's name on, and returns the exit code (tool.h). */
struct xh_verb {
    const char *name, *help;
    int (*run)(int argc, char **argv, const struct xh_options *o);
};

extern const struct xh_verb xh_tool_doctor, xh_tool_stat, xh_tool_list, xh_tool_get, xh_tool_mount, xh_tool_publish,
    xh_tool_recover, xh_tool_cache;
extern const struct xh_verb xh_tool_warm, xh_tool_verify; /* of xh_tool_cache */

#endif
