"""fsspec's protocol "xhdf5", to be put before a URL: fsspec.open("xhdf5::https://host/file.h5"). fsspec finds it by the
package's entry point."""
from __future__ import annotations

import errno
import time
from typing import Any, Optional

from fsspec.implementations.chained import ChainedFileSystem

from . import _expect
from ._default import is_url
from ._file import File
from ._options import written

# fsspec's own for any file system
FSSPEC = {"asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths",
          "skip_instance_cache"}

# A file of which pieces were asked for stays open for the next ones: so many files, and so long. Then the server is
# asked again whether it is unchanged, as for a file that was announced (`xhdf5.expect`).
KEPT_FILES = 16
KEPT_SECONDS = 5.0


class Xhdf5FileSystem(ChainedFileSystem):
    """Files at URLs as bytes, to be read. The driver's options are fsspec's storage options. Nothing is listed."""

    protocol = "xhdf5"

    def __init__(self, fo: Any = None, target_protocol: Optional[str] = None, target_options: Any = None,
                 **options: Any) -> None:
        self._target = target_protocol
        self._options = {name: options.pop(name) for name in list(options) if name not in FSSPEC}
        self._config = written(self._options).encode()
        self._kept: dict[str, tuple[float, File]] = {}    # by path, with the moment of opening; used without a lock
        super().__init__(**options)

    def _url(self, path: str) -> str:
        return path if is_url(path) or not self._target else f"{self._target}://{path}"  # s3's paths come without

    def _open(self, path: str, mode: str = "rb", **kwds: Any) -> File:
        if mode != "rb":
            raise NotImplementedError("xhdf5 reads: files are written with the driver (docs/writing.md)")
        return File(self._url(path), **self._options)

    def ls(self, path: str, detail: bool = True, **kwds: Any) -> Any:
        raise NotImplementedError("xhdf5 lists no directories, so it finds no files by a pattern: name each file")

    def info(self, path: str, **kwds: Any) -> dict[str, Any]:
        with self._open(path) as f:
            return {"name": path, "size": f.size, "type": "file"}

    def exists(self, path: str, **kwds: Any) -> bool:
        """fsspec's own takes every error for "no": a server that does not answer, or refuses, says nothing of that."""
        try:
            return bool(self.info(path))
        except FileNotFoundError:
            return False

    isfile = exists

    def _open_yet(self, path: str) -> Optional[File]:
        at, file = self._kept.get(path, (0.0, None))
        return file if file and time.monotonic() - at < KEPT_SECONDS else None

    def _asked(self, path: str) -> tuple[File, bool]:
        """The file, and whether it was open before. A reader of references, as zarr of kerchunk's, asks for each chunk
        by a call of its own. If each opened the file, it would cost a round trip, and what the last chunks showed of
        their order would be lost. Nobody closes these files, as another thread may be reading: what nobody has any more
        is closed by Python. Two threads that come together may open a file twice."""
        file = self._open_yet(path)
        if file:
            return file, True
        now = time.monotonic()
        file = self._open(path)
        self._kept.pop(path, None)
        self._kept[path] = now, file
        for old in list(self._kept)[:-KEPT_FILES]:
            self._kept.pop(old, None)
        return file, False

    def _pieces(self, path: str, slices: list[slice]) -> list[bytes]:
        file, kept = self._asked(path)
        spans = [one.indices(file.size) for one in slices]
        try:
            return file.read_ranges([a for a, _, _ in spans], [max(0, b - a) for a, b, _ in spans])
        except OSError as e:
            self._kept.pop(path, None)
            if not kept or e.errno != errno.ESTALE:
                raise
        return self._pieces(path, slices)    # of the version that is there now: the call began after the change

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwds: Any) -> bytes:
        return self._pieces(path, [slice(start, end)])[0]

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return",
                   **kwds: Any) -> list[Any]:
        """The ranges of one file are fetched together, and the next files are opened ahead."""
        def each(value: Any) -> list[Any]:
            return list(value) if isinstance(value, (list, tuple)) else [value] * len(paths)
        begins, stops, found = each(starts), each(ends), [b""] * len(paths)

        def opened(path: str) -> str:
            return self._url(path) if is_url(self._url(path)) and not self._open_yet(path) else ""
        for path in _expect.in_turn(dict.fromkeys(paths), opened, self._config):
            mine = [i for i, p in enumerate(paths) if p == path]
            try:
                got: list[Any] = self._pieces(path, [slice(begins[i], stops[i]) for i in mine])
            except OSError as e:
                if on_error != "return":
                    raise
                got = [e] * len(mine)
            for i, one in zip(mine, got):
                found[i] = one
        return found
