"""Files that will be opened: the driver opens some of them ahead at a time. Without HDF5, so without h5py's lock."""
from __future__ import annotations

import collections
import ctypes
import os
import threading
from typing import Any, Callable, Iterable, Iterator

from ._default import is_url
from ._hdf5 import Why, plugin
from ._options import written

_lock = threading.RLock()
_waiting: collections.deque[tuple[bytes, bytes]] = collections.deque()  # names and options


def _in_child() -> None:
    """The thread that has the lock may not be here, nor is what was opened ahead: a child expects nothing yet."""
    global _lock
    _lock = threading.RLock()
    _waiting.clear()


os.register_at_fork(after_in_child=_in_child)


def one(name: bytes, config: bytes) -> bool:
    """Whether the file is opened ahead now; it is not, where many are."""
    why = Why()
    found = plugin.H5FDxhdf5_bytes_expect(name, config, ctypes.byref(why))
    if found < 0:
        raise ValueError(why.text.decode(errors="replace"))
    return bool(found)


def more() -> None:
    """An opening: there may be room for those that wait."""
    if not _waiting:
        return
    with _lock:
        try:
            while _waiting and one(*_waiting[0]):
                _waiting.popleft()
        except ValueError:    # of the options, which are those of all: later openings are not to tell of it again
            _waiting.clear()
            raise


def in_turn(names: Iterable[str], url_of: Callable[[str], str], config: bytes) -> Iterator[str]:
    """The names, one after the other. Those that come next are opened ahead meanwhile. |url_of|: what is opened of a
    name; "" where nothing is to be opened."""
    each = list(names)
    coming = collections.deque((name, url_of(name)) for name in each if len(each) > 1)
    for name in each:
        while coming and (not coming[0][1] or one(os.fsencode(coming[0][1]), config)):
            coming.popleft()
        if coming and coming[0][0] == name:    # not ahead: it is opened now
            coming.popleft()
        yield name


def several(names: Iterable[Any], function: str) -> list[Any]:
    """The names that a function was given."""
    if isinstance(names, (str, bytes, os.PathLike)):
        raise TypeError(f"{function} takes several names, not one (a {type(names).__name__})")
    return list(names)


def files(names: Iterable[Any], options: dict[str, Any]) -> list[Any]:
    """See `xhdf5.expect`."""
    given, config = several(names, "expect"), written(options).encode()
    found = [os.fsencode(n) for n in given]
    with _lock:
        _waiting.clear()
        _waiting.extend((n, config) for n in found if is_url(n))
        more()
    return given
