"""fsspec's protocol "xhdf5", to be put before a URL: fsspec.open("xhdf5::https://host/file.h5"). fsspec finds it by the
package's entry point."""
from __future__ import annotations

from typing import Any, Optional

from fsspec.implementations.chained import ChainedFileSystem

from ._default import is_url
from ._file import File
from ._options import written

# fsspec's own for any file system
FSSPEC = {"asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths",
          "skip_instance_cache"}


class Xhdf5FileSystem(ChainedFileSystem):
    """Files at URLs as bytes, to be read. The driver's options are fsspec's storage options. Nothing is listed."""

    protocol = "xhdf5"

    def __init__(self, fo: Any = None, target_protocol: Optional[str] = None, target_options: Any = None,
                 **options: Any) -> None:
        self._target = target_protocol
        self._options = {name: options.pop(name) for name in list(options) if name not in FSSPEC}
        written(self._options)
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

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return",
                   **kwds: Any) -> list[Any]:
        """The ranges of one file are fetched together."""
        def each(value: Any) -> list[Any]:
            return list(value) if isinstance(value, (list, tuple)) else [value] * len(paths)
        begins, stops, found = each(starts), each(ends), [b""] * len(paths)
        for path in dict.fromkeys(paths):
            mine = [i for i, p in enumerate(paths) if p == path]
            try:
                with self._open(path) as f:
                    spans = [slice(begins[i], stops[i]).indices(f.size) for i in mine]
                    got: list[Any] = f.read_ranges([a for a, _, _ in spans], [max(0, b - a) for a, b, _ in spans])
            except OSError as e:
                if on_error != "return":
                    raise
                got = [e] * len(mine)
            for i, one in zip(mine, got):
                found[i] = one
        return found
