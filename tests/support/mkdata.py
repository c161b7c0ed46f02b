#!/usr/bin/env python3
"""Writes the HDF5 files that tests and benches read. Same arguments, same content: all data come
from seeds; only the times that HDF5 notes in newer headers differ. Needs h5py.

  mkdata.py layouts OUTDIR                 a small file for each layout, filter, link and type
  mkdata.py images OUT [--n 100] [--side 2048] [--chunked gzip|none] [--chunk-rows R]
                                           W1: /images, uint16, contiguous unless --chunked
  mkdata.py tree OUT [--datasets 5000] [--libver earliest|latest]
                                           W4: a deep tree of small datasets with attributes
  mkdata.py spread OUT [--datasets 5000] [--libver earliest|latest] [--times 10]
                                           W4b: the same metadata, but the datasets are longer, so
                                           that raw data lies between and the file is so many times
                                           as large
  mkdata.py demo OUT                       a beamline's file, some 150 MB: images compressed and
                                           not, a tree, small metadata
"""
import argparse
import pathlib
import zlib

import h5py
import numpy as np


def rng_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


class Frames:
    """Detector-like frames: 11 bits of noise in 16, which gzip shrinks by a third. Each is a window
    of one pool of noise, plus its number, so that no two are alike and none costs more than a copy."""

    def __init__(self, name, side):
        self.side = side
        self.pool = rng_of(name).integers(0, 2048, side * side + 4096, dtype=np.uint16)

    def __getitem__(self, i):
        start = i * 61 % 4096
        return self.pool[start:start + self.side ** 2].reshape(self.side, self.side) + np.uint16(i % 512)


def images(out, n, side, chunked=None, chunk_rows=0):
    frames = Frames("images", side)
    kwargs = {}
    if chunked:
        kwargs["chunks"] = (1, chunk_rows or side, side)
    if chunked == "gzip":
        kwargs |= {"compression": "gzip", "compression_opts": 1, "shuffle": True}
    with h5py.File(out, "w") as f:
        d = f.create_dataset("images", (n, side, side), np.uint16, **kwargs)
        for i in range(n):
            d[i] = frames[i]


def name_in_tree(i):
    """The |i|-th dataset of a tree."""
    n = i // 25
    levels = ("run", "scan", "module", "panel")[:n % 5]
    path = "/".join(f"{level}{n % (3 + k)}" for k, level in enumerate(levels))
    return f"{path}/set{n:04d}/value{i:05d}".lstrip("/")


def fill_tree(top, datasets, name, ballast=0):
    """Groups of up to 25 datasets at depths 1 to 5, with attributes on all of them. Each dataset is
    |ballast| numbers longer than it would be, and written before the next one's metadata."""
    rng = rng_of(name)
    noise = rng_of(name + " ballast").random(2 * ballast)
    group = None
    for i in range(datasets):
        if i % 25 == 0:
            group = top.require_group(name_in_tree(i).rsplit("/", 1)[0])
            group.attrs["NX_class"] = "NXcollection"
            group.attrs["number"] = i // 25
        data = rng.random(int(rng.integers(1, 64)))
        if ballast:
            start = i * 61 % ballast
            data = np.concatenate([data, noise[start:start + ballast]])
        d = group.create_dataset(name_in_tree(i).rsplit("/", 1)[1], data=data)
        d.attrs["units"] = ("mm", "keV", "deg", "s")[i % 4]
        d.attrs["offset"] = rng.random(3)


def tree(out, datasets, libver):
    with h5py.File(out, "w", libver=libver) as f:
        fill_tree(f, datasets, "tree")


def spread(out, datasets, libver, times):
    tree(out, datasets, libver)
    ballast = (times - 1) * pathlib.Path(out).stat().st_size // datasets // 8
    with h5py.File(out, "w", libver=libver) as f:
        fill_tree(f, datasets, "tree", ballast)


def demo(out, n=40, side=1024):
    frames = Frames("demo", side)
    with h5py.File(out, "w") as f:
        f.attrs["default"] = "entry"
        entry = f.create_group("entry")
        for path, kind in (("", "NXentry"), ("instrument", "NXinstrument"), ("instrument/beam", "NXbeam"),
                           ("instrument/detector", "NXdetector"), ("sample", "NXsample"), ("data", "NXdata"),
                           ("log", "NXcollection")):
            (entry.require_group(path) if path else entry).attrs["NX_class"] = kind
        entry["title"] = "a sample that looks like a beamline's"
        entry["start_time"] = "2026-11-02T08:00:00+01:00"
        entry["sample/name"] = "lysozyme"
        beam = entry["instrument/beam"]
        beam["incident_energy"] = 12.398
        beam["incident_energy"].attrs["units"] = "keV"
        detector = entry["instrument/detector"]
        for name, value, unit in (("distance", 180.0, "mm"), ("x_pixel_size", 0.075, "mm"), ("count_time", 0.01, "s")):
            detector[name] = value
            detector[name].attrs["units"] = unit
        detector["pixel_mask"] = (frames[0] > 2040).astype(np.uint32)
        compressed = detector.create_dataset("data", (n, side, side), np.uint16, chunks=(1, side, side),
                                             maxshape=(None, side, side), compression="gzip", compression_opts=1,
                                             shuffle=True)
        raw = detector.create_dataset("data_contiguous", (n, side, side), np.uint16)
        for i in range(n):
            compressed[i] = raw[i] = frames[i]
        compressed.attrs["signal"] = 1
        entry["data/data"] = h5py.SoftLink("/entry/instrument/detector/data")
        entry["data/omega"] = np.arange(n) * 0.1
        fill_tree(entry["log"], 1000, "demo")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    sub.add_parser("layouts").add_argument("out", metavar="OUTDIR")
    for name in ("images", "tree", "spread", "demo"):
        sub.add_parser(name).add_argument("out", metavar="OUT")
    s = sub.choices["images"]
    s.add_argument("--n", type=int, default=100)
    s.add_argument("--side", type=int, default=2048)
    s.add_argument("--chunked", choices=["gzip", "none"], help="chunks of an image, compressed or not")
    s.add_argument("--chunk-rows", type=int, default=0, help="chunks of so many rows of an image")
    for name in ("tree", "spread"):
        sub.choices[name].add_argument("--datasets", type=int, default=5000)
        sub.choices[name].add_argument("--libver", choices=["earliest", "latest"], default="earliest")
    sub.choices["spread"].add_argument("--times", type=int, default=10, help="size, in files of tree's size")
    words = vars(p.parse_args())
    what = words.pop("what")
    if what == "layouts":
        import layout_files
        layout_files.write(words["out"])
    else:
        {"images": images, "tree": tree, "spread": spread, "demo": demo}[what](**words)


if __name__ == "__main__":
    main()
