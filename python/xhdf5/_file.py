"""A file at a URL as bytes: Python's file interface over the cache, without HDF5."""
from __future__ import annotations

import ctypes
import io
import operator
import os
import threading
import weakref
from typing import Any, Optional, Sequence, Union

from ._default import is_driver_s, is_url, shown
from ._hdf5 import Why, plugin
from ._options import written


def _error(why: Why) -> OSError:
    return OSError(why.sys_errno, why.text.decode(errors="replace"))


def _room(buffer: Any, size: int) -> ctypes.Array[ctypes.c_char]:
    """The first |size| bytes of a buffer of any type. TypeError: it cannot be written, or has gaps."""
    return (ctypes.c_char * size).from_buffer(buffer)


_files: weakref.WeakSet[File] = weakref.WeakSet()


def _in_child() -> None:
    """Threads that had a file's lock, or were reading it, are not here."""
    for f in list(_files):
        f._lock, f._readers = threading.Lock(), 0


os.register_at_fork(after_in_child=_in_child)


class File(io.RawIOBase):
    """See `xhdf5.file`. Its length is `size`."""

    mode = "rb"

    def __init__(self, name: Union[str, bytes, os.PathLike[str]], **options: Any) -> None:
        super().__init__()
        self._handle, self._readers, self._lock = None, 0, threading.Lock()
        _files.add(self)
        self.name, self._options = os.fsdecode(name), options
        if "\0" in self.name:
            raise ValueError("embedded null byte")  # as open() says
        if not is_url(name) and not is_driver_s(name):
            raise ValueError(f"{shown(name)} is no URL that xhdf5 reads: use Python's open() for local files")
        why, self._at = Why(), 0
        self._handle = plugin.H5FDxhdf5_bytes_open(os.fsencode(self.name), written(options).encode(), ctypes.byref(why))
        if not self._handle:
            raise _error(why) if is_url(name) else ValueError(why.text.decode(errors="replace"))
        self.size: int = plugin.H5FDxhdf5_bytes_size(self._handle)

    def __reduce__(self) -> Any:
        return _again, (type(self), self.name, self._options, self.tell())

    def __repr__(self) -> str:
        return f"<xhdf5.File {shown(self.name)}{' closed' if self.closed else ''}>"

    def _read(self, pieces: Sequence[tuple[int, ctypes.Array[ctypes.c_char]]]) -> None:
        n = len(pieces)
        offs = (ctypes.c_uint64 * n)(*(off for off, _ in pieces))
        lens = (ctypes.c_size_t * n)(*(len(room) for _, room in pieces))
        bufs = (ctypes.c_void_p * n)(*(ctypes.addressof(room) for _, room in pieces))
        why = Why()
        with self._lock:
            self._checkClosed()
            handle = self._handle
            self._readers += 1
        try:
            failed = plugin.H5FDxhdf5_bytes_read(handle, n, offs, lens, bufs, ctypes.byref(why))
        finally:  # also after KeyboardInterrupt
            with self._lock:
                self._readers -= 1
                last = self._readers == 0 and self.closed
            if last:
                plugin.H5FDxhdf5_bytes_close(handle)
        if failed:
            raise _error(why)

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to |size| bytes from |offset| on; fewer at the file's end. The position stays."""
        return self.read_ranges([offset], [size])[0]

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        """Several pieces in any order, which are fetched together. Those that leave the file are shorter."""
        self._checkClosed()
        if len(offsets) != len(sizes) or min(offsets, default=0) < 0 or min(sizes, default=0) < 0:
            raise ValueError("read_ranges takes as many sizes as offsets, none of them negative")
        found = [bytearray(max(0, min(size, self.size - off))) for off, size in zip(offsets, sizes)]
        wanted = [(off, _room(b, len(b))) for off, b in zip(offsets, found) if b]
        if wanted:
            self._read(wanted)
        return [bytes(b) for b in found]

    def readinto(self, buffer: Any) -> int:
        self._checkClosed()
        n = max(0, min(memoryview(buffer).nbytes, self.size - self._at))
        room = _room(buffer, n)
        if n:
            self._read([(self._at, room)])
        self._at += n
        return n

    def write(self, data: Any, /) -> int:
        self._checkClosed()
        raise io.UnsupportedOperation("xhdf5.file reads: files are written with the driver (docs/writing.md)")

    def read(self, size: Optional[int] = -1) -> bytes:
        """All of |size| bytes that there are, or the rest of the file."""
        size = self.size if size is None or size < 0 else size
        found = self.read_at(self._at, size)
        self._at += len(found)
        return found

    readall = read

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._checkClosed()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        at = operator.index(offset) + (self._at if whence == io.SEEK_CUR else self.size if whence == io.SEEK_END else 0)
        if at < 0:
            raise ValueError(f"there is no position {at}")
        self._at = at
        return at

    def tell(self) -> int:
        self._checkClosed()
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, None
            super().close()
            ours = handle and self._readers == 0  # else the last one that reads closes it
        if ours:
            plugin.H5FDxhdf5_bytes_close(handle)


def _again(kind: type[File], name: str, options: dict[str, Any], at: int) -> File:
    f = kind(name, **options)
    f.seek(at)
    return f
