"""What h5py is taught: the driver by its name, with options, and what belongs to open files."""
from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from typing import Any, Optional, cast

import h5py
import numpy as np
from h5py import defs, h5f, h5fd, h5p, h5s
from h5py._hl import selections
from h5py._objects import phil

from . import _default, _expect, _hdf5, _picks
from ._default import is_driver_s, is_url, refuse_broken, shown
from ._options import written

library = _hdf5.Library(defs)  # it makes h5py's calls; h5f may not be linked with HDF5
plugin_dirs: list[str] = []  # of the library, at the import: for callers without h5py's lock


def _set_fapl(plist: h5py.h5p.PropFAID, **options: Any) -> None:
    """h5py.File(name, driver="xhdf5", **options) calls this, with h5py's lock held."""
    library.set_driver(plist.id, written(options, "h5py.File nor of "))
    guard_h5netcdf()
    _expect.more()


def register() -> None:
    with phil:
        refuse_broken(library)
        library.register()
        plugin_dirs[:] = library.plugin_dirs()
        _default.defaults[:] = [] if os.environ.get("HDF5_PLUGIN_PATH") else plugin_dirs
    h5py.register_driver("xhdf5", _set_fapl)
    guard_with()
    guard_h5netcdf()
    guard_repr()
    _picks.announce_picks(library.prefetch)


# ---- enable(): h5py.File, h5f.open and h5f.create without driver=
#
# HDF5 takes one file for two when two drivers have it. So who opens a file that another driver has open gets that one.

_others: set[Any] = set()  # files that HDF5's own driver may have open, by _inode: see _left_to_hdf5
_enabled = False


def _inode(file: Any) -> Optional[tuple[int, int]]:
    """Which file this is, by its name or descriptor; None: there is none."""
    try:
        there = os.stat(file)
    except (OSError, ValueError):
        return None
    return there.st_dev, there.st_ino


def _files_of(driver: int) -> set[Any]:
    """The local files that h5py has open by a driver."""
    with phil:
        return {_inode(f.get_vfd_handle()) for f in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE)
                if f.get_access_plist().get_driver() == driver and not is_url(h5f.get_name(f))}


@functools.lru_cache(maxsize=None)
def _ours() -> int:
    """The driver, as HDF5 calls it."""
    with phil:
        example = h5p.create(h5p.FILE_ACCESS)
        _set_fapl(example)
        return cast(int, example.get_driver())


def _left_to_hdf5(name: Any) -> bool:
    """Whether HDF5's own driver has this file open."""
    inode = _inode(name) if _others else None
    if inode is None or inode not in _others:
        return False
    _others.intersection_update(_files_of(h5fd.SEC2))
    return inode in _others


def take_urls() -> None:
    """From now on h5py opens files by the driver, unless another one is named: URLs, and local files, as these may
    name files at URLs. For a local file nothing else changes that a program sees."""
    global _enabled
    plain = h5py.File.__init__
    if hasattr(plain, "xhdf5"):
        return
    words = {p.name for p in inspect.signature(plain).parameters.values() if p.kind != p.VAR_KEYWORD}
    with phil:
        local_too = h5p.create(h5p.FILE_ACCESS).get_driver() == h5fd.SEC2  # else the environment names a driver
    _others.update(_files_of(h5fd.SEC2))

    @functools.wraps(plain)
    def init(self: h5py.File, name: Any, mode: str = "r", driver: Any = None, *args: Any, **kwds: Any) -> None:
        def by(driver: Any) -> None:
            plain(self, name, mode, driver, *args, **kwds)

        is_name = isinstance(name, (str, bytes, os.PathLike)) and not hasattr(name, "read")
        if driver == "sec2":
            by("sec2")
            _others.add(_inode(self.id.get_vfd_handle()))
        elif driver is not None or not is_name:
            by(driver)
        elif is_driver_s(name):
            by("xhdf5")
        elif not local_too or not words.issuperset(kwds) or _left_to_hdf5(name):
            by(None)
        else:
            try:
                return by("xhdf5")
            except OSError:
                if mode != "a" or len(args) > 1 or not os.path.exists(name):
                    raise
            # When the file does not open, h5py tries to create it, and tells of that, unless it knows the driver.
            plain(self, name, "r+", "xhdf5", *args, **{**kwds, "userblock_size": None})

    init.xhdf5 = plain  # type: ignore[attr-defined]
    h5py.File.__init__ = init
    _enabled = True
    if not hasattr(h5py.is_hdf5, "xhdf5"):
        h5py.is_hdf5 = _ask_server(h5py.is_hdf5)
    if not hasattr(h5f.open, "xhdf5"):
        h5f.open, h5f.create = _with_driver(h5f.open, 1, local_too), _with_driver(h5f.create, 2, local_too)
        _name_driver()


def leave_urls() -> None:
    global _enabled
    h5py.File.__init__ = getattr(h5py.File.__init__, "xhdf5", h5py.File.__init__)
    h5py.is_hdf5 = getattr(h5py.is_hdf5, "xhdf5", h5py.is_hdf5)
    _enabled = False
    _leave_low()


def _ask_server(plain: Any) -> Any:
    """h5py.is_hdf5, which looks for a name on the disk alone, and says no of every URL. False: the server has no such
    file, or one of another kind. A server that refuses, or does not answer, has said nothing: that is raised."""
    @functools.wraps(plain)
    def is_hdf5(fname: Any) -> bool:
        if not is_url(fname):
            return bool(plain(fname))
        try:
            with h5py.File(fname, "r", driver="xhdf5"):
                return True
        except FileNotFoundError:
            return False
        except OSError as e:
            if e.errno is not None:
                raise
            return "signature not found" not in str(e)    # HDF5 itself: no HDF5 file, or a damaged one

    is_hdf5.xhdf5 = plain  # type: ignore[attr-defined]
    return is_hdf5


def _leave_low() -> set[Any]:
    """The local files that the driver has open. When disable() was called and there are none, all is as it was."""
    files = _files_of(_ours())
    if not files and not _enabled and hasattr(h5f.open, "xhdf5"):
        h5f.open, h5f.create = h5f.open.xhdf5, h5f.create.xhdf5
        h5py.File.driver = h5py.File.driver.fget.xhdf5
    return files


def _with_driver(plain: Any, at: int, local_too: bool) -> Any:
    """h5f.open or h5f.create: for a file that the driver has open, and after enable() if no list is given. |at|: where
    the list stands behind the name."""
    @functools.wraps(plain)
    def opens(name: Any, *args: Any, **kwds: Any) -> Any:
        fapl = args[at] if len(args) > at else kwds.pop("fapl", None)
        with phil:
            if fapl is None and _enabled and (is_driver_s(name) or (local_too and not _left_to_hdf5(name))):
                by_us = True
            elif fapl is None or fapl.get_driver() == h5fd.SEC2:
                by_us = _inode(name) in _leave_low()
            else:
                by_us = False
            if by_us:
                fapl = fapl.copy() if fapl else h5p.create(h5p.FILE_ACCESS)
                _set_fapl(fapl)
            return plain(name, *args[:at], fapl=fapl, **kwds)

    opens.xhdf5 = plain  # type: ignore[attr-defined]
    return opens


def _name_driver() -> None:
    """From now on h5py.File.driver names HDF5's own driver for local files, as without this package."""
    plain = h5py.File.driver

    @functools.wraps(plain.fget)
    def driver(self: h5py.File) -> Any:
        with phil:
            if self.id.get_access_plist().get_driver() == _ours() and not is_url(self.filename):
                return "sec2"
            return plain.fget(self)

    driver.xhdf5 = plain  # type: ignore[attr-defined]
    h5py.File.driver = property(driver)


def prefetch(dataset: h5py.Dataset, selection: Any) -> None:
    if not isinstance(dataset, h5py.Dataset):
        raise TypeError(f"prefetch takes an h5py.Dataset, not {type(dataset).__name__}")
    args = selection if isinstance(selection, tuple) else (selection,)
    args = tuple(a for a in args if not isinstance(a, str))  # names of fields, as in dataset["field", 3:5]
    with phil:
        if dataset.dtype.names is None and len(args) < (len(selection) if isinstance(selection, tuple) else 1):
            raise ValueError(f"{selection!r} names a field, and {dataset!r} has none")
        if dataset.shape is None:
            return
        mask = args[0] if len(args) == 1 and isinstance(args[0], np.ndarray) and args[0].dtype.kind == "b" else None
        if mask is not None and mask.ndim == 1 < len(dataset.shape):
            args = (mask, Ellipsis)    # alone, h5py before 3.16 takes a mask here for one of all dimensions
        everything = dataset.shape == () or (len(args) == 1 and args[0] is Ellipsis)
        chosen = h5s.ALL if everything else selections.select(dataset.shape, args, dataset).id
        if not library.prefetch(dataset.id.id, chosen.id):
            raise ValueError(f"cannot prefetch {selection!r} of {dataset!r}")


def stats(thing: Any) -> dict[str, int]:
    if not isinstance(thing, h5py.HLObject):
        raise TypeError(f"stats takes an h5py.File, or an object of one, not {type(thing).__name__}")
    with phil:
        if not thing:
            raise ValueError("the file is closed")
        lines = library.stats(thing.id.id).split()
    if not lines:
        raise ValueError(f"{shown(thing.file.filename)} is not read over the network by xhdf5")
    return {name: int(number) for name, number in (line.split("=") for line in lines)}


# The last one: what stands before it may tell of another. strerror() may say anything ("délai d'attente").
_ERRNO = re.compile(r", errno = (\d+), error message = '(?!.*, errno = \d).*'$", re.S)


def _opened(file: Any, what: str) -> None:
    if not isinstance(file, h5py.File):
        raise TypeError(f"{what} takes an h5py.File, not {type(file).__name__}")
    if not file:
        raise ValueError("the file is closed")


def commit(file: h5py.File) -> bool:
    with phil:
        _opened(file, "commit")
        behind, why = library.commit(file.id.id)
    if why:
        number = _ERRNO.search(why)
        raise OSError(int(number[1]), why[:number.start()]) if number else OSError(why)
    return behind


def discard(file: h5py.File, keep: bool) -> None:
    with phil:
        _opened(file, "discard")
        done, why = library.discard(file.id.id, keep)
        if not done:
            raise ValueError(why or f"{shown(file.filename)} is not written at a URL: what was written is in the file")


def guard_with() -> None:
    """From now on a file at a URL whose with-statement is left by an exception is not sent: it may be half a file.
    A file that the program has open once more goes on: what becomes of it is settled where it is closed last.
    Neither sys.exit() nor the end of a generator (close(), or nobody has it any more) is a failure of what is in the with-statement."""
    plain = h5py.File.__exit__
    if hasattr(plain, "xhdf5"):
        return

    @functools.wraps(plain)
    def leave(self: h5py.File, kind: Any = None, error: Any = None, *args: Any) -> Any:
        _left(self, kind, error)
        return plain(self, kind, error, *args)

    leave.xhdf5 = plain  # type: ignore[attr-defined]
    h5py.File.__exit__ = leave


def _left(file: h5py.File, kind: Any, error: Any) -> None:
    """A with-statement ends that would close the file."""
    ended = isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
    if kind is not None and not ended:
        with phil:
            if file and h5f.get_obj_count(file.id, h5f.OBJ_FILE) == 1:
                library.discard(file.id.id, True)


def guard_h5netcdf() -> None:
    """The same for h5netcdf.File, which closes its h5py.File without a with-statement. And its repr has no query, as
    h5py.File's below. Called when a file is opened, as h5netcdf may be imported at any time; never imports it."""
    kind_of_file = getattr(sys.modules.get("h5netcdf.core"), "File", None)
    plain, shows = getattr(kind_of_file, "__exit__", None), getattr(kind_of_file, "__repr__", None)
    if plain is None or shows is None or hasattr(plain, "xhdf5"):
        return

    @functools.wraps(plain)
    def leave(self: Any, kind: Any = None, error: Any = None, *args: Any) -> Any:
        file = None if getattr(self, "_closed", True) else getattr(self, "_h5file", None)
        if isinstance(file, h5py.File) and getattr(self, "_close_h5file", False):
            _left(file, kind, error)
        return plain(self, kind, error, *args)

    @functools.wraps(shows)
    def text(self: Any) -> str:
        said, name = cast(str, shows(self)), "" if getattr(self, "_closed", True) else getattr(self, "filename", "")
        own, ours = os.path.basename(name), os.path.basename(shown(name)[1:-1])
        return said.replace(repr(own), f"'{ours}'", 1) if own and is_url(name) else said

    leave.xhdf5 = plain  # type: ignore[attr-defined]
    setattr(kind_of_file, "__exit__", leave)
    setattr(kind_of_file, "__repr__", text)


def guard_repr() -> None:
    """From now on a file at a URL is shown without the URL's query, which may be a signature: a notebook shows what a
    cell ends with, and keeps it."""
    plain = h5py.File.__repr__
    if hasattr(plain, "xhdf5"):
        return

    @functools.wraps(plain)
    def text(self: h5py.File) -> str:
        with phil:
            if not self or not is_url(self.filename):
                return cast(str, plain(self))
            url = shown(self.filename)[1:-1]
            return f'<HDF5 file "{os.path.basename(url) or url}" (mode {self.mode})>'

    text.xhdf5 = plain  # type: ignore[attr-defined]
    h5py.File.__repr__ = text
