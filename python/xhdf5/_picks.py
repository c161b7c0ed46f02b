"""Elements that a program picks by a list, an array or a mask. HDF5 is told of all of them at once, and asks the driver
for their chunks one after another, in an order that cannot be foreseen. So they are announced before they are read.

`chunks_of` is pure: which chunks a selection touches.
"""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, Optional

import h5py
import numpy as np
from h5py import h5s
from h5py._objects import phil

from ._default import is_url

# Most chunks that are announced for one read; of more, most are read anyway, and their order shows.
MOST = 65536
# HDF5 goes through the index to find the chunks. That is done where the index has at most so many chunks for each that
# is wanted: some 12 KB of index, and 0.1 ms, for what would else wait for the link.
INDEX_MOST = 256


def picks(args: Any) -> bool:
    """Whether some of h5py's selection is picked. Each read asks this: it is short."""
    return isinstance(args, (list, np.ndarray)) or (isinstance(args, tuple) and
                                                    any(isinstance(a, (list, np.ndarray)) for a in args))


def _of_slice(a: slice, n: int, chunk: int) -> Optional[np.ndarray]:
    start, stop, step = a.indices(n)
    last = stop - 1 - (stop - 1 - start) % step
    if step < 1 or last < start or (last - start) // max(step, chunk) >= MOST:
        return None
    if step <= chunk:
        return np.arange(start // chunk, last // chunk + 1)
    return np.unique(np.arange(start, last + 1, step) // chunk)


def _of_mask(mask: np.ndarray, chunk: tuple[int, ...]) -> Optional[np.ndarray]:
    """The chunks that have some of |mask|, a row for each. No list is made of what is picked: it may be all of a large
    dataset. 4 of 8 million in chunks of 10,000: 0.02 s; by such a list, 21."""
    if 0 in mask.shape:
        return None
    for d, c in enumerate(chunk):
        mask = np.logical_or.reduceat(mask, np.arange(0, mask.shape[d], c), axis=d)
    return np.argwhere(mask) if 0 < np.count_nonzero(mask) <= MOST else None


def _of_one(a: Any, n: int, chunk: int) -> Optional[np.ndarray]:
    """The numbers of the chunks that one dimension's selection touches. None: it is not known here."""
    if isinstance(a, slice):
        return _of_slice(a, n, chunk)
    at = np.asarray(a)
    if at.dtype.kind == "b" and at.shape == (n,):
        found = _of_mask(at, (chunk,))
        return None if found is None else found[:, 0]
    if at.dtype.kind not in "iu" or at.ndim > 1:
        return None
    at = np.atleast_1d(at).astype("i8", copy=False)    # in 8 bits there is no room for |n|
    at = np.where(at < 0, at + n, at)
    if at.size == 0 or at.min() < 0 or at.max() >= n:
        return None
    return np.unique(at // chunk)


def _across(chunks: list[np.ndarray]) -> Optional[np.ndarray]:
    """All combinations of the dimensions' chunks."""
    if math.prod(map(len, chunks)) > MOST:
        return None
    return np.stack(np.meshgrid(*chunks, indexing="ij"), -1).reshape(-1, len(chunks))


def chunks_of(shape: tuple[int, ...], chunk: tuple[int, ...], args: Any) -> Optional[np.ndarray]:
    """The chunks that h5py's selection |args| touches, by the number of each in each dimension: an array of one row a
    chunk. None: it is not known here, or there are too many."""
    words = [a for a in (args if isinstance(args, tuple) else (args,)) if not isinstance(a, str)]  # names of fields
    mask = words[0] if len(words) == 1 and isinstance(words[0], np.ndarray) and words[0].dtype.kind == "b" else None
    if mask is not None and mask.ndim > 1:    # of all dimensions
        return _of_mask(mask, chunk) if mask.shape == shape else None
    more = len(shape) - sum(a is not Ellipsis for a in words)
    at = next((i for i, a in enumerate(words) if a is Ellipsis), len(words))
    words[at:at + 1] = [slice(None)] * more
    if len(words) != len(shape):
        return None
    each = [_of_one(a, n, c) for a, n, c in zip(words, shape, chunk)]
    known = [one for one in each if one is not None]
    return _across(known) if len(known) == len(shape) else None


def _announce(dataset: h5py.Dataset, args: Any, prefetch: Callable[[int, int], bool]) -> None:
    with phil:
        shape, chunk = dataset.shape, dataset.chunks
        if not chunk or not shape or not is_url(dataset.file.filename):
            return
        all_chunks = math.prod(-(-n // c) for n, c in zip(shape, chunk))
        if all_chunks > INDEX_MOST * MOST:
            return
        found = chunks_of(shape, chunk, args)
        if found is None or len(found) < 2 or all_chunks > INDEX_MOST * len(found):
            return
        list_ = dataset.id.get_create_plist()
        if list_.get_nfilters() == 0 and (math.prod(chunk) * dataset.id.get_type().get_size() >
                                          dataset.id.get_access_plist().get_chunk_cache()[1]):
            return    # HDF5 reads the elements alone, those of a chunk together
        space = h5s.create_simple(shape)
        space.select_elements((found * chunk).astype("u8"))
        prefetch(dataset.id.id, space.id)


def announce_picks(prefetch: Callable[[int, int], bool]) -> None:
    """From now on h5py announces what it reads of a file at a URL, where elements are picked. |prefetch|: the driver's,
    of a dataset and a dataspace."""
    def wrapped(plain: Any, selection: Callable[..., Any]) -> Any:
        @functools.wraps(plain)
        def reads(self: h5py.Dataset, *args: Any, **kwds: Any) -> Any:
            try:
                chosen = selection(*args, **kwds)
                if picks(chosen):
                    _announce(self, chosen, prefetch)
            except Exception:    # h5py says best what is wrong with a call
                pass
            return plain(self, *args, **kwds)

        reads.xhdf5 = plain  # type: ignore[attr-defined]
        return reads

    if not hasattr(h5py.Dataset.__getitem__, "xhdf5"):
        h5py.Dataset.__getitem__ = wrapped(h5py.Dataset.__getitem__, lambda args, *_, **__: args)
        h5py.Dataset.read_direct = wrapped(h5py.Dataset.read_direct,
                                           lambda dest, source_sel=None, *_, **__: source_sel)
