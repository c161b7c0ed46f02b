#!/usr/bin/env python3
"""Looks at an HDF5 file or URL with h5py, which knows nothing of xhdf5.

  look.py tree FILE-OR-URL [--lines N]   prints the first N objects
  look.py largest FILE-OR-URL            prints the name of the largest dataset of numbers
  look.py read FILE-OR-URL DATASET       reads it along its first dimension, some MiB at a time;
                                         prints seconds=… bytes=… mb_per_s=… sum=…
The time runs from before the file is opened to after it is closed.
"""
import argparse
import sys
import time
import zlib

import h5py
import numpy as np

SLAB_BYTES = 8 << 20


def numbers(obj):
    return isinstance(obj, h5py.Dataset) and obj.shape is not None and not obj.dtype.hasobject


def tree(args):
    left = args.lines

    def visit(name, obj):
        nonlocal left
        if not left:
            print("…")
            return True
        left -= 1
        print(f"/{name}  {obj.shape} {obj.dtype}" if isinstance(obj, h5py.Dataset) else f"/{name}/")
        return None

    with h5py.File(args.file, "r") as f:
        f.visititems(visit)


def largest(args):
    best, size = None, -1

    def visit(name, obj):
        nonlocal best, size
        if numbers(obj) and obj.nbytes > size:
            best, size = name, obj.nbytes

    with h5py.File(args.file, "r") as f:
        f.visititems(visit)
    if best is None:
        sys.exit("look: no dataset of numbers in this file")
    print(f"/{best}")


def read(args):
    start = time.monotonic()
    total = check = 0
    with h5py.File(args.file, "r") as f:
        dataset = f.get(args.dataset)
        if not numbers(dataset):
            sys.exit(f"look: {args.dataset} is not a dataset of numbers")
        if dataset.ndim == 0:
            slabs = [()]
        else:
            row_bytes = dataset.dtype.itemsize * int(np.prod(dataset.shape[1:], dtype=np.int64))
            step = dataset.chunks[0] if dataset.chunks else 1
            step *= max(1, SLAB_BYTES // max(1, row_bytes * step))
            slabs = (slice(at, at + step) for at in range(0, dataset.shape[0], step))
        for slab in slabs:
            data = np.ascontiguousarray(dataset[slab])
            check = zlib.crc32(data.reshape(-1).view(np.uint8), check)
            total += data.nbytes
    seconds = time.monotonic() - start
    print(f"seconds={seconds:.3f} bytes={total} mb_per_s={total / 1e6 / seconds:.1f} sum={check:08x}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(required=True, metavar="COMMAND")
    for do in (tree, largest, read):
        s = sub.add_parser(do.__name__)
        s.add_argument("file", metavar="FILE-OR-URL")
        s.set_defaults(do=do)
    sub.choices["tree"].add_argument("--lines", type=int, default=24)
    sub.choices["read"].add_argument("dataset")
    args = p.parse_args()
    try:
        args.do(args)
    except OSError as why:
        sys.exit(f"look: {type(why).__name__}: {why}")


if __name__ == "__main__":
    main()
