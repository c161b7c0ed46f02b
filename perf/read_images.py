#!/usr/bin/env python3
"""The same as read_images.c, with h5py: slab by slab, prints "seconds=… bytes=… sum=…".

The sum here is Adler-32 over all slabs: compare with that of the local file.
Usage: read_images.py FILE-OR-URL DATASET
"""
import sys
import time
import zlib

import h5py
import numpy as np

start = time.perf_counter()
with h5py.File(sys.argv[1], "r") as f:
    dset = f[sys.argv[2]]
    buf = np.empty(dset.shape[1:], dset.dtype)
    total, check = 0, 1
    for i in range(dset.shape[0]):
        dset.read_direct(buf, np.s_[i])
        check = zlib.adler32(buf, check)
        total += buf.nbytes
print(f"seconds={time.perf_counter() - start:.6f} bytes={total} sum={check:08x}")
