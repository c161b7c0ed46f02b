/* xhdf5 mount of a command that was built without libfuse. */
#include "tool.h"
#include "verbs.h"

int xh_tool_mount(int argc, char **argv, const struct xh_options *o)
{
    return xh_tool_fail(XH_EXIT_FAILED, "this xhdf5 cannot mount: it was built without libfuse 3.12 or newer");
}
