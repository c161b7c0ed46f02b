"""The driver as the default of libraries that read it from the environment when they start."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.abc
import importlib.util
import os
import re
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, List, Optional

from . import _hdf5

_path_found = os.environ.get("HDF5_PLUGIN_PATH", "")  # before help_environment
_before: Optional[Dict[str, Optional[str]]] = None  # variables that enable() has changed
_URL = re.compile(rb"(https?|s3)://", re.I)
# s3://…, htps:/…, simplecache::https://…, a blank or quote before it
_MISTAKEN = re.compile(rb"[^\w/.]*(\w[\w+.-]*:[/\\]|https?:|https?//|(\w[\w+.-]*::)+(https?|s3)://)", re.I)


def is_url(name: Any) -> bool:
    """Whether the driver would read this name over the network, of str, bytes or PathLike."""
    return isinstance(name, (str, bytes, os.PathLike)) and _URL.match(os.fsencode(name)) is not None


def is_driver_s(name: Any) -> bool:
    """Whether the driver opens this name, or says best why nothing can be opened: a name that was to be a URL."""
    if is_url(name) or not isinstance(name, (str, bytes, os.PathLike)):
        return is_url(name)
    return _MISTAKEN.match(os.fsencode(name)) is not None and not os.path.exists(name)


def shown(name: Any) -> str:
    """A name as messages have it: without user name and password, and without what stands behind it, which may be a
    signature. Also of a name that was to be a URL."""
    if not isinstance(name, (str, bytes, os.PathLike)):
        return repr(name)
    text = os.fsencode(name)
    out = ctypes.create_string_buffer(2 * len(text) + 4)  # "..." in place of a secret may be longer
    _hdf5.plugin.H5FDxhdf5_bytes_shown(text, out, len(out))
    return repr(os.fsdecode(out.value))


# Where HDF5 looks for plugins while HDF5_PLUGIN_PATH is not set, which replaces it: HDF5's own builds, Debian, Fedora,
# conda. Each libhdf5 knows its own; that of another program cannot be asked.
_USUAL = ("/usr/local/hdf5/lib/plugin", "/usr/local/lib/plugin",
          f"/usr/lib/{os.uname().machine}-linux-gnu/hdf5/serial/plugins", "/usr/lib64/hdf5/plugin",
          os.path.join(sys.prefix, "lib", "hdf5", "plugin"))
defaults: List[str] = []  # and those of h5py's libhdf5
NO_PLUGINS = "::"  # as HDF5_PLUGIN_PATH: no directory, so the user wants no filters


def filters(package: str = "hdf5plugin") -> list[str]:
    """The directory of a package's filters, if it is installed beside this one. It is not imported."""
    if os.environ.get("HDF5_PLUGIN_PATH") == NO_PLUGINS:
        return []
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    places = [os.path.join(p, "plugins") for p in (spec and spec.submodule_search_locations) or []]
    return [p for p in places if os.path.isdir(p) and ":" not in p]


def environment() -> dict[str, str]:
    """HDF5_PLUGIN_PATH leads to all that it led to before, and to the driver. HDF5's default is named in it, as what is
    set replaces it; and netCDF4's filters, whose place that package names only where nothing is set."""
    found = os.environ.get("HDF5_PLUGIN_PATH", "")
    others = [p for p in found.split(":") if p]
    if others or found == NO_PLUGINS:
        others += filters()
    else:
        others = [*defaults, *filter(os.path.isdir, _USUAL), *filters(), *filters("netCDF4")]
    return {"HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": ":".join(dict.fromkeys([_hdf5.PLUGIN_DIR, *others]))}


def _has_driver(extension: str) -> bool:
    """Whether the HDF5 of an imported package took the driver from the environment when it started."""
    lock = getattr(sys.modules.get("h5py._objects"), "phil", None) or contextlib.nullcontext()
    try:
        with lock:    # the library may be h5py's
            return _hdf5.Library(sys.modules[extension]).is_default()
    except (KeyError, OSError, ImportError):
        return False


def help_environment() -> None:
    """HDF5 breaks when HDF5_DRIVER names a driver that HDF5_PLUGIN_PATH does not lead to: HDF5 2.0 crashes when a
    file is opened, 1.14 makes `import h5py` fail. If the environment asks for this driver, its directory joins the
    path; so it does where the path leads to another copy, which would know nothing of what this package asks for."""
    if os.environ.get("HDF5_DRIVER") != "xhdf5":
        return
    dirs = os.environ.get("HDF5_PLUGIN_PATH", "").split(":")
    there = [p for p in (os.path.join(d, os.path.basename(_hdf5.PLUGIN)) for d in dirs if d) if os.path.exists(p)]
    if not there or not os.path.samefile(there[0], _hdf5.PLUGIN):
        os.environ.update(environment())


def refuse_broken(library: _hdf5.Library) -> None:
    """ImportError where |library| did not start, as HDF5_DRIVER named a driver that it did not find: opening a file
    would crash. The library is asked, not the variable: that may have been set before it started, or after."""
    if not library.has_started():
        name = os.environ.get("HDF5_DRIVER", "…")
        raise ImportError(f"xhdf5: HDF5_DRIVER={name} was set when h5py was imported, and h5py's HDF5 did not find the "
                          f"driver in HDF5_PLUGIN_PATH={_path_found!r}. HDF5 cannot be used in this process: it would "
                          'crash. Set both variables with eval "$(python3 -m xhdf5)", or import xhdf5 before h5py, '
                          "or unset HDF5_DRIVER")


def _warn_late(name: str, level: int) -> None:
    effect = f"{name} opens no URLs in this process"
    if name == "netCDF4":    # it handles URLs itself, in any case
        effect = ("netCDF4 has not the driver in this process, so its local files name no files at URLs (URLs it opens "
                  "without the driver in any case: use h5netcdf.legacyapi)")
    warnings.warn(f"xhdf5.enable() came after the HDF5 of {name} had started: {effect}. "
                  "Where it shares h5py's HDF5 (conda, Debian), `import xhdf5` starts it: set HDF5_DRIVER=xhdf5 in the "
                  'environment before, or in the shell with eval "$(python3 -m xhdf5)"',
                  RuntimeWarning, stacklevel=level)


def enable() -> None:
    global _before
    if _before is not None:
        return
    late = [name for name, extension in (("netCDF4", "netCDF4._netCDF4"), ("tables", "tables.hdf5extension"))
            if name in sys.modules and not _has_driver(extension)]
    for name in late:
        _warn_late(name, 4)
    wanted = environment()
    _before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    for name in ("tables.utils", "tables.hdf5extension"):
        if name in sys.modules and "tables" not in late:
            _admit_urls(sys.modules[name])
    sys.meta_path.insert(0, _tables)


def disable() -> None:
    global _before
    for name, value in (_before or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if _before is not None:
        sys.meta_path.remove(_tables)
        for name in ("tables.utils", "tables.hdf5extension"):
            module: Any = sys.modules.get(name)
            if hasattr(getattr(module, "check_file_access", None), "xhdf5"):
                module.check_file_access = module.check_file_access.xhdf5
    _before = None


# ---- PyTables looks for a file's name on the disk before HDF5 hears of it

def _admit_urls(module: ModuleType) -> None:
    plain = getattr(module, "check_file_access", None)
    if plain is None or hasattr(plain, "xhdf5"):
        return

    @functools.wraps(plain)
    def check(filename: Any, mode: str = "r") -> None:
        if mode != "r" and is_url(filename):
            raise sys.modules["tables.exceptions"].FileModeError(
                f"PyTables reads files at URLs, and writes none: open {shown(filename)} with mode 'r' "
                "(pandas.HDFStore(url, 'r'))")
        if mode == "r" and is_driver_s(filename):
            _guard_tables()
        else:
            plain(filename, mode)

    check.xhdf5 = plain  # type: ignore[attr-defined]
    module.check_file_access = check  # type: ignore[attr-defined]


def _guard_tables() -> None:
    """From now on PyTables shows a file at a URL without the URL's query, which may be a signature, as h5py does
    (_h5py.guard_repr). Called when a file is opened: then tables.file is there."""
    kind: Any = getattr(sys.modules.get("tables.file"), "File", None)

    def guarded(plain: Any) -> Any:
        @functools.wraps(plain)
        def text(self: Any) -> str:
            said, name = str(plain(self)), getattr(self, "filename", "")
            return said.replace(name, shown(name)[1:-1]) if is_url(name) else said

        text.xhdf5 = plain  # type: ignore[attr-defined]
        return text

    for method in ("__str__", "__repr__"):
        plain = getattr(kind, method, None)
        if kind is not None and not hasattr(plain, "xhdf5"):
            setattr(kind, method, guarded(plain))


class _Tables(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports tables.utils as it is, then lets URLs pass; the modules that use it take it from there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if name != "tables.utils":
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec and spec.loader:
                self.loader, spec.loader = spec.loader, self
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if _has_driver("tables.utilsextension"):
            _admit_urls(module)
        else:
            _warn_late("tables", 2)


_tables = _Tables()
