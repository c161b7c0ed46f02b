#!/usr/bin/env python3
"""The bench's reader in h5py, and the rivals that h5py reads through. The verbs and the line of JSON
are those of client.c; the sums are its own, to be compared with those of a local run of it.

  client.py [--via fsspec|s3fs|remfile|netcdf] FILE slabs DSET N,N,...
  client.py [--via ...]                   FILE blocks DSET LEN OFFSETS one
  client.py [--via ...]                   FILE pieces DSET N,N,... AT one
  client.py [--via ...]                   FILE walk

Without --via the file is opened by h5py as the environment's driver has it.
BENCH_CA names the trusted certificates for rivals that cannot learn them from the environment.
"""
import time

moments = {"main": time.clock_gettime(time.CLOCK_MONOTONIC)}

import argparse
import concurrent.futures
import contextlib
import itertools
import json
import os
import ssl
import zlib

import numpy as np


def moment(name):
    moments[name] = time.clock_gettime(time.CLOCK_MONOTONIC)


class Sum:
    """All bytes, or a word of every sector, so that summing does not become what is measured."""

    def __init__(self, everything):
        self.everything, self.value, self.bytes = everything, 1, 0

    def add(self, array):
        data = array.reshape(-1).view(np.uint8)
        self.bytes += data.nbytes
        if not self.everything:
            data = np.ascontiguousarray(data[: data.nbytes // 512 * 512].view(np.uint64)[::64])
        self.value = zlib.crc32(data, self.value)

    def note(self, *things):
        self.value = zlib.crc32(repr(things).encode(), self.value)


@contextlib.contextmanager
def opened(name, via):
    """Yields the open file: h5py's, or netCDF's, which has datasets by name too."""
    ca = os.environ.get("BENCH_CA")
    if via == "netcdf":
        import netCDF4
        moment("init")
        with netCDF4.Dataset(name + "#mode=bytes") as f:
            f.set_auto_maskandscale(False)
            yield f
        return
    import h5py
    if via == "fsspec":
        import aiohttp
        import fsspec

        async def session(**kwargs):
            connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
            return aiohttp.ClientSession(connector=connector, **kwargs)
        moment("init")
        # As xarray opens a URL for h5netcdf (pydata/xarray pull request 11216, March 2026).
        with fsspec.filesystem("https", get_client=session).open(name, "rb", cache_type="blockcache",
                                                                 block_size=4 << 20) as raw, \
                h5py.File(raw, "r") as f:
            yield f
    elif via == "s3fs":
        import s3fs
        moment("init")
        place = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"], client_kwargs={"verify": ca})
        with place.open(name.split("/", 3)[3], "rb", cache_type="blockcache", block_size=4 << 20) as raw, \
                h5py.File(raw, "r") as f:
            yield f
    elif via == "remfile":
        import remfile
        # remfile opens a session of its own; certificates come from REQUESTS_CA_BUNDLE.
        moment("init")
        with h5py.File(remfile.File(name), "r") as f:
            yield f
    else:
        moment("init")
        with h5py.File(name, "r") as f:
            yield f


def slabs(f, total, dset, shape):
    d = f[dset]
    moment("open")
    block = [min(int(n), size) for n, size in zip(shape.split(","), d.shape, strict=True)]
    buf = np.empty(block, d.dtype)
    n = 0
    for at in itertools.product(*(range(0, size, step) for size, step in zip(d.shape, block))):
        where = tuple(slice(a, min(a + step, size)) for a, step, size in zip(at, block, d.shape))
        if hasattr(d, "read_direct") and all(s.stop - s.start == step for s, step in zip(where, block)):
            d.read_direct(buf, where)
            total.add(buf)
        else:
            total.add(np.ascontiguousarray(d[where]))
        n += 1
    return n


def blocks(f, total, dset, length, offsets, how):
    if how != "one":
        raise SystemExit(77)
    d = f[dset]
    moment("open")
    length = int(length)
    offsets = np.fromfile(offsets, np.uint64).tolist()
    for at in offsets:
        total.add(np.ascontiguousarray(d[at:at + length]))
    return len(offsets)


def pieces(f, total, dset, shape, at, how):
    """One after another, or each by the next of four threads that is free, as dask reads."""
    if how not in ("one", "threads"):
        raise SystemExit(77)
    d = f[dset]
    moment("open")
    shape = [int(n) for n in shape.split(",")]
    places = np.fromfile(at, np.uint64).reshape(-1, len(shape)).tolist()

    def read(place):
        return np.ascontiguousarray(d[tuple(slice(a, a + n) for a, n in zip(place, shape))])
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for piece in (pool.map if how == "threads" else map)(read, places):
            total.add(piece)
    return len(places)


def walk(f, total):
    import h5py
    moment("open")
    seen = [0]

    def visit(name, o):
        seen[0] += 1
        total.note(name, *((o.shape, o.dtype.str) if isinstance(o, h5py.Dataset) else ()))
        for key, value in o.attrs.items():
            total.note(key, value.tolist() if hasattr(value, "tolist") else value)
            total.bytes += getattr(value, "nbytes", 8)
    f.visititems(visit)
    return seen[0]


def resident_bytes():
    """The most memory this process has had; wait4's figure would have the parent's as its floor."""
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("VmHWM:"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--via", choices=["fsspec", "s3fs", "remfile", "netcdf"])
    p.add_argument("file")
    p.add_argument("verb", choices=["slabs", "blocks", "pieces", "walk"])
    p.add_argument("words", nargs="*")
    a = p.parse_args()
    total = Sum(a.verb != "slabs" or os.environ.get("BENCH_CHECK") == "all")
    with opened(a.file, a.via) as f:
        operations = {"slabs": slabs, "blocks": blocks, "pieces": pieces, "walk": walk}[a.verb](f, total, *a.words)
        moment("read")
    moment("end")
    print(json.dumps(moments | {"bytes": total.bytes, "operations": operations, "sum": f"{total.value:08x}",
                                "rss_bytes": resident_bytes()}))


if __name__ == "__main__":
    main()
