/* xhdf5 mount of a command that was built without libfuse. */
#include "tool.h"

static int run(int argc, char **argv, const struct xh_options *o)
{
    return xh_tool_fail(XH_EXIT_FAILED, "this xhdf5 cannot mount: it was built without libfuse 3.12 or newer");
}

const struct xh_verb xh_tool_mount = {"mount", NULL, run};
