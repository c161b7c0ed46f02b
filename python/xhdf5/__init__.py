"""HDF5 files at https URLs, read at the speed of the link and not of its latency.

    import h5py, xhdf5

    with h5py.File("https://host/data.h5", driver="xhdf5") as f:
        image = f["images"][0]

Importing the package is what makes the driver known to h5py, before or after h5py is imported. Every other file
name works with the driver as without it. What can be set is in `OPTIONS`; each option is a keyword of `open`
and of `h5py.File`, and can be set for a whole process as ``XHDF5_<NAME>`` in its environment.

Programs with another HDF5 library than h5py's (netCDF4, PyTables, h5dump) take the driver from the environment:
``eval "$(python -m xhdf5)"`` in a shell, or `enable` before they are imported.
"""
from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Iterable, TypeVar, Union, cast

from . import _default, _expect, _hdf5, _tool
from ._file import File
from ._tables import COUNTERS, OPTIONS, VERSION, Counters, Option, Options

if TYPE_CHECKING:
    import h5py

_default.help_environment()  # before h5py's HDF5 reads it


def _teach_h5py() -> tuple[Any, str]:
    """What h5py has been taught, or None and the reason: then what needs h5py raises it, and only then."""
    try:
        import h5py
    except ModuleNotFoundError as e:
        if e.name == "h5py":
            return None, "xhdf5: this needs h5py; `pip install h5py`, then start Python anew"
        return None, f"xhdf5: h5py cannot be imported: {e}"
    except ImportError as e:
        return None, f"xhdf5: h5py cannot be imported: {e}"
    try:
        from . import _h5py
        _h5py.register()
    except _hdf5.Unfit as e:
        why = str(e)

        def refuse(plist: Any, **options: Any) -> None:
            raise ImportError(why)
        h5py.register_driver("xhdf5", refuse)
        return None, why
    return _h5py, ""


_h5py, _why_not = _teach_h5py()

__version__ = VERSION
__all__ = ["open", "file", "expect", "warm", "prefetch", "stats", "commit", "discard", "enable", "disable",
           "environment", "plugin_path", "File", "OPTIONS", "COUNTERS", "Counters", "Option", "Options", "__version__"]


_Name = TypeVar("_Name", bound=Union[str, bytes, "os.PathLike[str]"])


def _with_h5py() -> ModuleType:
    if _h5py is None:
        raise ImportError(_why_not, name="h5py")
    return cast(ModuleType, _h5py)


def open(name: Union[str, bytes, os.PathLike[str]], mode: str = "r", **options: Any) -> h5py.File:
    """Opens a file at a URL, or a local one, as an `h5py.File`. Of the modes URLs take ``"r"`` alone, others too with ``writable=True``.

    Keywords are the driver's options (see `OPTIONS`) and those of `h5py.File`::

        f = xhdf5.open("https://host/data.h5", connections=8, readahead_bytes="64M", rdcc_nbytes=1 << 26)

    Raises FileNotFoundError, PermissionError or another OSError as `h5py.File` does, with the server's reason in
    its text; TypeError for a keyword that neither knows; ValueError for a value out of its bounds.
    """
    _with_h5py()
    import h5py
    if "\0" in os.fsdecode(name):  # h5py would open the name before it
        raise ValueError("embedded null byte")
    driver = options.pop("driver", "xhdf5")
    if driver != "xhdf5":
        raise TypeError(f"xhdf5.open opens by the driver xhdf5: for another call h5py.File(name, driver={driver!r})")
    return h5py.File(name, mode, driver="xhdf5", **options)


def file(name: Union[str, bytes, os.PathLike[str]], **options: Any) -> File:
    """Opens a file at a URL as bytes, for programs that read it without HDF5's driver: an `io.RawIOBase`.

        with xhdf5.file("https://host/run.h5") as f:
            references = SingleHdf5ToZarr(f, "https://host/run.h5").translate()

    It has the same cache, prediction and shadow as files that h5py opens, and needs no h5py. ``options`` are the driver's.
    Any number of threads may call `read_at` and `read_ranges`; `read` and `seek` have one position. It can be pickled: it is
    opened again there. Raises as `open` does; ValueError for a name that is no URL.
    """
    return File(name, **options)


def expect(names: Iterable[_Name], **options: Any) -> list[_Name]:
    """Says that the files of these names will be opened for reading, in this order. Returns them, at once.

    Sixteen at a time are opened ahead, on threads of their own, and further ones as the program opens them, so that
    each of its own openings finds the file open, and a small one all there. `open_mfdataset`, and any loop over many
    files, then takes the round trips of a few::

        for url in xhdf5.expect(urls):
            with xhdf5.open(url) as f: ...

    ``options`` are the driver's, and those of the openings. What was expected before and not opened yet is forgotten.
    Names of local files are passed over. A file that is not opened costs its bytes; one that cannot be opened is an
    error when the program opens it. Raises TypeError or ValueError for options as `open` does.
    """
    return _expect.files(names, options)


def warm(names: Iterable[Union[str, bytes, os.PathLike[str]]], metadata_only: bool = True, **options: Any) -> None:
    """Fetches the files at the URLs into the shadow, for all processes of this node that open them later.

    Waits until they are there: their metadata, and all of files of up to 4 MiB; with ``metadata_only=False`` all of
    their data. The command ``xhdf5 cache warm`` does it, in a process of its own: up to sixteen files are opened
    ahead, and h5py's lock is not held meanwhile. What opens them later still asks the server, with a request or two
    for each file, whether it may read it and whether it is unchanged; `expect` makes those side by side.

    ``options`` are the driver's. Names of local files are passed over, but not names that were to be URLs, as
    ``pathlib.Path(url)`` is one. Raises OSError that names each file that is not there, or not all, with the reason;
    the others are. Raises TypeError or ValueError for options as `open` does.
    """
    _tool.warm(names, metadata_only, options)


def prefetch(dataset: h5py.Dataset, selection: Any = ...) -> None:
    """Says that ``dataset[selection]`` will be read. Returns when the bytes are on their way.

    What is hinted first is fetched first, each byte once, as far ahead of the reads as three quarters of the
    option ``readahead_bytes``; the rest follows as the program reads. Data is not waited for; HDF5 reads the
    index of a chunked dataset first. On a local file nothing happens. A hint that turns out wrong costs its bytes.

    Raises IndexError, TypeError or ValueError where ``dataset[selection]`` would.
    """
    _with_h5py().prefetch(dataset, selection)


def stats(file: Union[h5py.File, h5py.Group, h5py.Dataset]) -> Counters:
    """The counters of an open file so far, by name; `COUNTERS` has each one's unit and meaning.

    ``bytes_asked`` is what HDF5 read, ``bytes_fetched`` what crossed the network, ``requests`` how often a server
    was asked. Raises ValueError for a file that is closed, local, or another driver's.
    """
    return cast(Counters, _with_h5py().stats(file))


def commit(file: h5py.File) -> bool:
    """Sends what was written to a file at a URL (option ``writable``), which stays open; when it returns, others read it.

    Closing sends as well, but what h5py raises when that fails is a RuntimeError. So a program that wants to know why
    calls this before it closes the file: then there is nothing left to send::

        with xhdf5.open("https://host/out.h5", "w", writable=True) as f:
            f["x"] = data
            xhdf5.commit(f)

    Returns True when somebody else had changed data meanwhile that this program has read or written. The server has both changes then,
    but HDF5 may have older data in memory: close the file and open it again to see theirs, and before you write such data.

    Raises PermissionError, FileNotFoundError, TimeoutError or another OSError, with the server's reason and how to recover what was
    written in its text; ValueError for a file that is closed. A local file is flushed.
    """
    return cast(bool, _with_h5py().commit(file))


def discard(file: h5py.File, keep: bool = False) -> None:
    """Closing the file will not send what was written to it at a URL (option ``writable``) since it was opened, or last committed.

    It is removed when the file is closed, or with ``keep`` stays on this machine: ``xhdf5 recover retry`` sends it, or a later `commit`.
    A with-statement that is left by an exception does the second for the file at a URL that it has opened.

    Raises ValueError for a file that is closed, local, only read, or kept in parts by HDF5's family driver.
    """
    _with_h5py().discard(file, keep)


def plugin_path() -> str:
    """The directory that programs with an HDF5 of their own need in ``HDF5_PLUGIN_PATH``."""
    return _hdf5.PLUGIN_DIR


def environment() -> dict[str, str]:
    """The environment variables that switch the driver on in any program with HDF5 1.14 or newer.

        subprocess.run(["h5dump", "-H", url], env={**os.environ, **xhdf5.environment()})
    """
    return _default.environment()


def enable() -> None:
    """Makes the driver the default for URLs, in this process and those it starts.

    - ``h5py.File(url)``, and what opens files with it, needs no ``driver=`` any more. Local files may name files at
      URLs; otherwise they are as before. ``h5py.is_hdf5(url)`` asks the server.
    - Libraries with an HDF5 of their own (netCDF4, PyTables) that are imported afterwards have the driver for all
      files, as have child processes: ``HDF5_DRIVER`` and ``HDF5_PLUGIN_PATH`` are set in ``os.environ``. One that
      was imported before gets a RuntimeWarning; it has read its environment already.
    - PyTables asks itself whether a file exists; for URLs that is left to HDF5.

    Calling it again does no harm; `disable` takes it back.
    """
    _default.enable()
    if _h5py is not None:
        _h5py.take_urls()


def disable() -> None:
    """Takes back `enable`. A library that has read its environment meanwhile keeps the driver."""
    _default.disable()
    if _h5py is not None:
        _h5py.leave_urls()
