"""The program xhdf5 in tool/, with h5py's libhdf5 loaded before it: the package's command becomes it, `warm` runs it.

That program names HDF5's functions and brings no HDF5, so it reads files with the library, and the filters, that h5py
reads them with.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, Iterable, NoReturn

from ._default import is_driver_s
from ._expect import several
from ._options import written

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tool", "xhdf5")
CANNOT = 3  # the tool's exit code for it


class Unable(Exception):
    """Why the program cannot be run here."""


def _program() -> tuple[str, dict[str, str]]:
    """The program, and its environment."""
    from . import _default, _h5py, _why_not
    if _h5py is None:
        raise Unable(f"the command needs h5py, whose HDF5 it uses: {_why_not.split('xhdf5: ', 1)[-1]}")
    library = _h5py.library.path()
    if not os.access(TOOL, os.X_OK):
        raise Unable(f"{TOOL} is not there, or may not be run (a file system mounted noexec?)")
    if any(c in library for c in " :"):
        raise Unable(f"blanks and colons in the path of h5py's libhdf5 keep it from being loaded: {library}")

    def before(name: str, first: str) -> str:
        return ":".join([first, *filter(None, [os.environ.get(name)])])

    # It finds the filters that h5py finds, and hdf5plugin's.
    plugins = ":".join(dict.fromkeys([*_h5py.plugin_dirs, *_default.filters()]))
    if os.environ.get("HDF5_PLUGIN_PATH") == _default.NO_PLUGINS:
        plugins = _default.NO_PLUGINS

    # What the user has in these is for what the tool runs: a credential_process.
    kept = {f"XHDF5TOOL_{name}": os.environ.get(name, "") for name in ("LD_PRELOAD", "LD_LIBRARY_PATH")}

    # What libhdf5 is linked with lies beside it, and not every wheel's says so. HDF5 would end a program that was built
    # with the headers of another version than it runs with; what the tool calls is the same from 1.14 to 2.x.
    return TOOL, {**os.environ, **kept, "LD_PRELOAD": before("LD_PRELOAD", library), "HDF5_DISABLE_VERSION_CHECK": "2",
                  "HDF5_PLUGIN_PATH": plugins,
                  "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", os.path.dirname(library))}


def warm(names: Iterable[Any], metadata_only: bool, options: dict[str, Any]) -> None:
    """See `xhdf5.warm`."""
    # what was to be a URL is not passed over: the tool says what is wrong with it
    urls = [n for n in map(os.fsdecode, several(names, "warm")) if is_driver_s(n)]
    config = written(options)
    if any("\n" in u or "\0" in u or u.strip() != u for u in urls):
        raise ValueError("a URL has no blanks at its ends, and no newlines or null bytes")
    try:
        program, env = _program()
    except Unable as why:
        raise OSError(f"xhdf5.warm: {why}") from None
    ours = env.pop("HDF5_DRIVER", "") in ("", "xhdf5")     # else what the user has there is for another driver
    env["HDF5_DRIVER_CONFIG"] = ",".join([env.get("HDF5_DRIVER_CONFIG", "") if ours else "", config])
    words = [program, "cache", "warm", "--json", *(["--metadata-only"] if metadata_only else []), "-"]
    done = subprocess.run(words, input=os.fsencode("\n".join(urls)), stdout=subprocess.PIPE, env=env)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise OSError(f"xhdf5.warm: {program} ended with {done.returncode}; standard error has the reason") from None
    lacking = [f"{one['url']}: {one['why']}" for one in found if one["state"] != "kept"]
    if lacking:
        raise OSError("\n".join([f"{len(lacking)} of {len(urls)} files are not in the shadow as wanted", *lacking]))


def main() -> NoReturn:
    try:
        program, env = _program()
    except Unable as why:
        print(f"xhdf5: {why}", file=sys.stderr)
        sys.exit(CANNOT)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)   # Python ignores it, and so would what it becomes: xhdf5 ls | head
    os.execve(program, ["xhdf5", *sys.argv[1:]], env)
