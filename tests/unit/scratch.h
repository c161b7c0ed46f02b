/* A directory of the test's own, for shadows, and options to be pointed at it. */
#ifndef XH_SCRATCH_H
#define XH_SCRATCH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/options.h"

static char dir[128];
static struct xh_options opt; /* the defaults, when the test begins */

static void remove_dir(const char *path)
{
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", path);
    (void)!system(cmd);
}

/* |place| is the beginning of the directory's name. It does not exist yet. */
static void scratch_begin(const char *place)
{
    snprintf(dir, sizeof dir, "%s-%d", place, (int)getpid());
    remove_dir(dir);
    xh_options_defaults(&opt);
}

static void scratch_end(void)
{
    remove_dir(dir);
}

#endif
