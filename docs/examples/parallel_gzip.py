#!/usr/bin/env python3
"""Reads a gzip dataset and unpacks its chunks in several threads, which HDF5 does in one.

usage: parallel_gzip.py URL-OR-FILE DATASET [THREADS]
"""
import collections
import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import xhdf5

KNOWN = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE}


def read(dataset, threads):
    """All of a chunked dataset. HDF5 reads the chunks, one after another, as they lie in the file; while the driver
    fetches those behind, the threads unpack what has come: zlib and NumPy let other threads run."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
    if not filters or not set(filters) <= KNOWN or dataset.dtype.hasobject:     # strings of any length, references
        return dataset[()]      # HDF5 knows how
    out = np.full(dataset.shape, dataset.fillvalue, dataset.dtype)

    def unpack(offset, mask, packed):
        for i, one in reversed(list(enumerate(filters))):
            if mask >> i & 1:   # this chunk was written without it
                continue
            if one == h5py.h5z.FILTER_DEFLATE:
                packed = zlib.decompress(packed)
            else:               # the first bytes of all elements, then the second ones, …
                packed = np.frombuffer(packed, "u1").reshape(dataset.dtype.itemsize, -1).T.tobytes()
        chunk = np.frombuffer(packed, dataset.dtype).reshape(dataset.chunks)
        here = tuple(slice(o, min(o + c, n)) for o, c, n in zip(offset, dataset.chunks, dataset.shape))
        out[here] = chunk[tuple(slice(s.stop - s.start) for s in here)]

    xhdf5.prefetch(dataset)
    chunks, running = [], collections.deque()
    dataset.id.chunk_iter(lambda chunk: chunks.append((chunk.byte_offset, chunk.chunk_offset)))
    with ThreadPoolExecutor(threads) as pool:
        for _, offset in sorted(chunks):
            mask, packed = dataset.id.read_direct_chunk(offset)
            running.append(pool.submit(unpack, offset, mask, packed))
            if len(running) > 4 * threads:      # packed chunks in memory
                running.popleft().result()
        for one in running:
            one.result()
    return out


def main(url, name, threads=os.cpu_count()):
    with h5py.File(url, driver="xhdf5") as file:
        data = read(file[name], int(threads))
        print(data.shape, data.dtype, f"sum {data.sum(dtype='f8'):.0f}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
