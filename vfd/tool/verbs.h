/* The commands. Each is a function in its own file. It gets the command line from the command's name on, and returns
 * the exit code (tool.h). */
#ifndef XH_VERBS_H
#define XH_VERBS_H

#include "../../cache/base/options.h"

typedef int xh_verb_run(int argc, char **argv, const struct xh_options *o);

struct xh_verb {
    const char *name;
    xh_verb_run *run;
};

xh_verb_run xh_tool_doctor;  /* doctor.c */
xh_verb_run xh_tool_stat;    /* stat.c */
xh_verb_run xh_tool_list;    /* list.c */
xh_verb_run xh_tool_get;     /* get.c */
xh_verb_run xh_tool_mount;   /* mount.c */
xh_verb_run xh_tool_publish; /* publish.c */
xh_verb_run xh_tool_recover; /* recover.c */
xh_verb_run xh_tool_cache;   /* shadows.c; its subcommands: */
xh_verb_run xh_tool_warm;    /* warm.c */
xh_verb_run xh_tool_verify;  /* verify.c */

#endif
