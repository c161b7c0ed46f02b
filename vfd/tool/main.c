/* xhdf5: the command line. Options come from XHDF5_* and HDF5_DRIVER_CONFIG, as in the driver. There is no property
 * list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/base/err.h"
#include "tool.h"

static const char help[] =
    "xhdf5 looks at HDF5 files at URLs, says why reading one is slow, fetches them, and looks after what the\n"
    "xhdf5 driver for HDF5 keeps of them on this machine.\n"
    "\n"
    "  xhdf5 doctor URL     looks at all that a read depends on, from the name to the layout, and advises\n"
    "  xhdf5 stat URL       size, version, kind of file, how much metadata\n"
    "  xhdf5 ls URL [PATH]  what is in it: shapes, types, layouts, chunks, filters\n"
    "  xhdf5 get URL        downloads it, by several connections\n"
    "  xhdf5 mount URL DIR  shows it in a directory, to be read by any program\n"
    "\n"
    "  xhdf5 cache ls       lists the shadows: what is kept of which remote file\n"
    "  xhdf5 cache warm     fetches files' metadata and data before they are needed\n"
    "  xhdf5 cache verify   compares what is kept with the server's bytes\n"
    "  xhdf5 cache rm       removes shadows\n"
    "  xhdf5 cache trim     makes the disk cache smaller\n"
    "  xhdf5 publish        puts metadata images beside files, so that others read them faster from afar\n"
    "  xhdf5 recover        sends what programs wrote to URLs and could not send, or writes it to a file\n"
    "\n"
    "  -h, --help           this; behind a command, the command's help\n"
    "  -V, --version        the version\n"
    "\n"
    "Options of the driver hold here too: XHDF5_SHADOW_DIR, XHDF5_CA_BUNDLE, … and HDF5_DRIVER_CONFIG: xhdf5(7).\n"
    "Exit codes: 0 done; 1 done, and the answer is no (in use, different, not all kept; advice); 2 wrong usage;\n"
    "3 it could not be done (network, access, nothing there).\n";

static const struct xh_verb *const verbs[] = {&xh_tool_doctor, &xh_tool_stat,  &xh_tool_list,    &xh_tool_get,
                                              &xh_tool_mount,  &xh_tool_cache, &xh_tool_publish, &xh_tool_recover};

/* Sets the options that a program with the driver would have. */
static int options(struct xh_options *o)
{
    struct xh_err err = {0};
    enum xh_progress_mode progress;
    xh_options_defaults(o);
    if (xh_options_from_env(o, &err) || xh_progress_by(o->progress, &progress, &err))
        return xh_tool_fail(XH_EXIT_USAGE, "%s", err.text);
    if (progress == XH_PROGRESS_OFF)
        xh_progress_silence();
    /* The driver is linked in. HDF5 must not look for another one, nor give this one the options that are in |o|
     * already. */
    unsetenv("HDF5_DRIVER");
    unsetenv("HDF5_DRIVER_CONFIG");
    return 0;
}

/* The Python package runs this program with h5py's libhdf5, by these variables, and says what the user had in them:
 * that is what a credential_process gets. The loader has read them. */
static void give_back(const char *name, const char *kept)
{
    const char *users = getenv(kept);
    if (users && *users)
        setenv(name, users, 1);
    else if (users)
        unsetenv(name);
    unsetenv(kept);
}

static int wants(const char *word, const char *name, const char *letter)
{
    return strcmp(word, name) == 0 || strcmp(word, letter) == 0;
}

/* Whether the command line is words and then --help. Help is given however wrong the options in the environment are. */
static int asks_help(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] != '-')
        i++;
    return i == argc - 1 && wants(argv[i], "--help", "-h");
}

int main(int argc, char **argv)
{
    struct xh_options o;
    give_back("LD_PRELOAD", "XHDF5TOOL_LD_PRELOAD");
    give_back("LD_LIBRARY_PATH", "XHDF5TOOL_LD_LIBRARY_PATH");
    if (argc > 1 && wants(argv[1], "--version", "-V")) {
        puts("xhdf5 " XH_VERSION);
        return xh_tool_end(XH_EXIT_OK);
    }
    if (argc > 2 && strcmp(argv[1], "help") == 0) { /* help COMMAND: COMMAND --help */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = "--help";
    }
    if (argc > 1 && (wants(argv[1], "--help", "-h") || strcmp(argv[1], "help") == 0)) {
        fputs(help, stdout);
        return xh_tool_end(XH_EXIT_OK);
    }
    if (argc < 2)
        return xh_tool_usage("a command is missing");
    int rc = 0;
    if (asks_help(argc, argv))
        xh_options_defaults(&o);
    else
        rc = options(&o);
    return rc ? rc : xh_tool_end(xh_tool_command(verbs, sizeof verbs / sizeof *verbs, argc, argv, &o));
}
