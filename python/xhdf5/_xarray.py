"""xarray's engine "xhdf5": h5netcdf's, over the driver. xarray finds it by the package's entry point."""
from __future__ import annotations

import contextlib
import inspect
import os
import resource
from typing import Any

from xarray.backends import CachingFileManager, H5netcdfBackendEntrypoint, h5netcdf_

from . import _expect, _with_h5py
from . import open as open_by_driver
from ._default import is_driver_s, is_url
from ._options import hint, written
from ._tables import OPTIONS

_with_h5py()


class _Driver(str):
    """The driver's name, for what is sent to other processes: to read it there imports this package, and only then
    h5py knows the driver."""

    def __reduce__(self) -> Any:
        return _driver, ()


def _driver() -> _Driver:
    return _Driver("xhdf5")


def _files_are_scarce() -> bool:
    """Whether this process has half as many files open as it may (ulimit -n)."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with contextlib.suppress(OSError):
        return limit != resource.RLIM_INFINITY and len(os.listdir("/proc/self/fd")) > limit // 2
    return False


def _close_unread() -> None:
    """From now on of many files that the driver reads those that were not read for long are closed when files are
    scarce, and opened again when they are read, as xarray does with local files. By itself it keeps open all that have
    a URL; each takes two of the process's files, so that some five hundred would leave it none."""
    plain: Any = getattr(h5netcdf_, "PickleableFileManager", None)    # xarray before 2025.9.1 does so for all
    if plain is None or hasattr(plain, "xhdf5"):
        return

    def manager(opener: Any, *args: Any, **kwds: Any) -> Any:
        ours = kwds.get("mode") == "r" and (kwds.get("kwargs") or {}).get("driver") == "xhdf5"
        return (CachingFileManager if ours and _files_are_scarce() else plain)(opener, *args, **kwds)

    manager.xhdf5 = plain  # type: ignore[attr-defined]
    setattr(h5netcdf_, "PickleableFileManager", manager)


_close_unread()


class Xhdf5BackendEntrypoint(H5netcdfBackendEntrypoint):
    """Files at https URLs by the driver xhdf5, and local files as the engine h5netcdf opens them. The driver's options
    are keywords: ``xarray.open_dataset(url, engine="xhdf5", connections=8)``."""

    description = "Open HDF5 and netCDF-4 files at URLs at the speed of the link, using h5netcdf"
    open_dataset_parameters = (*list(inspect.signature(H5netcdfBackendEntrypoint.open_dataset).parameters)[1:],
                               *OPTIONS)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        return False  # each URL may be another engine's: it is named

    def open_dataset(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_dataset(filename_or_obj, **_with_driver(filename_or_obj, kwds))

    def open_datatree(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_datatree(filename_or_obj, **_with_driver(filename_or_obj, kwds))

    def open_groups_as_dict(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_groups_as_dict(filename_or_obj, **_with_driver(filename_or_obj, kwds))


def _refuse_mistaken(name: str) -> None:
    """xarray makes an absolute path of what is no URL to it: of what pathlib makes of a URL, or a blank before one.
    The driver says what is wrong with such a name."""
    if is_url(name) or os.path.exists(name):
        return
    with contextlib.suppress(FileNotFoundError):    # the current directory is no more
        name = name.removeprefix(os.path.join(os.getcwd(), ""))
    if is_driver_s(name):
        open_by_driver(name)


_KNOWN = {name for method in (H5netcdfBackendEntrypoint.open_dataset, H5netcdfBackendEntrypoint.open_datatree,
                              H5netcdfBackendEntrypoint.open_groups_as_dict)
          for name in inspect.signature(method).parameters}


def _refuse_misspelt(kwds: dict[str, Any]) -> None:
    """What is nearly an option: xarray names its own class for one, and its store's. And what is h5py's."""
    import h5py
    of_h5py = list(inspect.signature(h5py.File.__init__).parameters)[3:]
    for name in kwds.keys() - _KNOWN - OPTIONS.keys():
        if name in of_h5py:
            raise TypeError(f"{name!r} is an option of h5py.File: write driver_kwds={{{name!r}: …}}")
        if hint(name):
            raise TypeError(f"{name!r} is no option of xarray's engine nor of the driver xhdf5{hint(name)}")


def _with_driver(name: Any, kwds: dict[str, Any]) -> dict[str, Any]:
    """The keywords for h5netcdf's engine. A file that will be opened is expected: a small one then comes whole, by one
    request behind that of its opening, and with ``parallel=True`` several are opened at once, as h5py's lock is not
    held yet."""
    _refuse_misspelt(kwds)
    options = {name: kwds.pop(name) for name in list(kwds) if name in OPTIONS}
    if not isinstance(name, (str, os.PathLike)):    # a file object, or the file's bytes: no driver opens it
        if options:
            raise TypeError(f"{next(iter(options))!r} is an option for files at URLs; this is a {type(name).__name__}")
        return kwds
    _refuse_mistaken(os.fspath(name))
    options = {**(kwds.get("driver_kwds") or {}), **options}
    if is_url(name):
        _expect.one(os.fsencode(name), written({n: v for n, v in options.items() if n in OPTIONS}).encode())
    return {**kwds, "driver": _driver(), "driver_kwds": options}
