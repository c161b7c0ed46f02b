"""The command xhdf5 of the package: becomes the program in tool/, with h5py's libhdf5 loaded before it.

That program names HDF5's functions and brings no HDF5, so it reads files with the library, and the filters, that h5py
reads them with.
"""
from __future__ import annotations

import os
import sys
from typing import NoReturn

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tool", "xhdf5")
CANNOT = 3  # the tool's exit code for it


def _fail(why: str) -> NoReturn:
    print(f"xhdf5: {why}", file=sys.stderr)
    sys.exit(CANNOT)


def main() -> NoReturn:
    from . import _default, _h5py, _why_not
    if _h5py is None:
        _fail(f"the command needs h5py, whose HDF5 it uses: {_why_not.split('xhdf5: ', 1)[-1]}")
    library = _h5py.library.path()
    if not os.access(TOOL, os.X_OK):
        _fail(f"{TOOL} is not there, or may not be run (a file system mounted noexec?)")
    if any(c in library for c in " :"):
        _fail(f"blanks and colons in the path of h5py's libhdf5 keep it from being loaded: {library}")
    def before(name: str, first: str) -> str:
        return ":".join([first, *filter(None, [os.environ.get(name)])])

    # It finds the filters that h5py finds, and hdf5plugin's.
    plugins = ":".join(dict.fromkeys([*_h5py.library.plugin_dirs(), *_default.filters()]))
    if os.environ.get("HDF5_PLUGIN_PATH") == _default.NO_PLUGINS:
        plugins = _default.NO_PLUGINS

    # What libhdf5 is linked with lies beside it, and not every wheel's says so. HDF5 would end a program that was built
    # with the headers of another version than it runs with; what the tool calls is the same from 1.14 to 2.x.
    os.execve(TOOL, ["xhdf5", *sys.argv[1:]],
              {**os.environ, "LD_PRELOAD": before("LD_PRELOAD", library), "HDF5_DISABLE_VERSION_CHECK": "2",
               "HDF5_PLUGIN_PATH": plugins,
               "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", os.path.dirname(library))})
