/* The commands: each is a file with a function that takes the words behind its name, the name first, and returns the
 * exit code (tool.h). */
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
xh_verb_run xh_tool_publish; /* publish.c */
xh_verb_run xh_tool_recover; /* recover.c */
xh_verb_run xh_tool_cache;   /* shadows.c; its own commands: */
xh_verb_run xh_tool_warm;    /* warm.c */
xh_verb_run xh_tool_verify;  /* verify.c */

#endif
