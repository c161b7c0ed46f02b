#!/usr/bin/env python3
"""The files that the workloads read: made once, kept under a name that holds the recipe's hash.

As a program, run by a Python that has h5py: data.py OUT RECIPE WORD...
  images N            /images, uint16 N x 2048 x 2048, contiguous
  chunked INDEX FILTER N
                      the same in chunks of CHUNK; INDEX: btree1 btree2 farray earray implicit;
                      FILTER: none, or gzip (with shuffle)
  poisson N           the same, contiguous, of photons counted: Poisson noise about a mean that falls smoothly from 2,000 in
                      the middle to 135 at the corners. Eight such images, each time begun elsewhere
  bytes N             /bytes, uint8, N bytes of noise, contiguous
  virtual HOW N BYTES
                      /x, uint16, in rows of 8 KiB a source: a virtual dataset of N sources of so many bytes, which lie beside the
                      file; HOW: beside (their columns side by side), after (their rows one after another), or one, which is no
                      virtual dataset but the same data as after, contiguous in one file
  tree N | spread N [TIMES]
                      N small datasets with attributes; spread: in a file ten times as large, or TIMES
  cube N ROWS COLUMNS /cube, uint16, contiguous
  samples N SIDE PER  /samples, uint16 N x SIDE x SIDE, PER of them a chunk, gzip with shuffle
  many N BYTES        N files of about so many bytes, each with an attribute "number"; the first one is OUT as well
  sparse N BYTES      /bytes, uint8, in N chunks of so many bytes with a real index; holes, but for the one chunk that
                      offsets() chooses
  … imaged            the same with a metadata image beside it
  … bodied            the same with a metadata image and a compressed body beside it
  ranges FILE DSET N,N,… AT
                      no file for HDF5: where in FILE the pieces lie that begin at AT (a file of uint64), or the chunks
                      that hold them: pairs of uint64, offset and bytes
  names N OF          no file for HDF5: the names of N of the OF datasets of a tree, in an order that is
                      random and always the same
"""
import array
import hashlib
import os
import pathlib
import random
import re
import subprocess
import sys
import zlib

HERE = pathlib.Path(__file__).resolve().parent
SUPPORT = HERE.parents[1] / "tests" / "support"
SIDE = 2048
SAMPLE = 32
CHUNK = (1, 512, 1024)      # 1 MiB: as much as HDF5 1.14's chunk cache holds


class Store:
    """The cache of files. |python| has h5py."""

    def __init__(self, directory, python, publisher=None):
        """|publisher|: the tool that makes metadata images."""
        self.directory, self.python, self.publisher = pathlib.Path(directory), str(python), publisher
        self.directory.mkdir(parents=True, exist_ok=True)
        self.makers = b"".join(p.read_bytes() for p in (pathlib.Path(__file__), SUPPORT / "mkdata.py"))

    def path_of(self, recipe):
        """Where the file of |recipe|, a tuple of words, lies or will lie."""
        words = [str(w) for w in recipe]
        key = hashlib.sha256(self.makers + "\0".join(words).encode()).hexdigest()[:8]
        return self.directory / f"{'-'.join(words)}.{key}.h5"

    def body_bytes(self, recipe):
        """The size of its compressed body; 0: it has none."""
        beside = self.path_of(recipe).with_name(self.path_of(recipe).name + ".xhbody")
        return beside.stat().st_size if beside.exists() else 0

    def write(self, out, recipe):
        subprocess.run([self.python, __file__, str(out), *map(str, recipe)], check=True)

    def make(self, recipes, say=print):
        """Makes what is missing. Files of older makers go."""
        wanted = {self.path_of(r): r for r in recipes}
        for old in self.directory.glob("*.h5"):
            if old not in wanted and any(re.fullmatch(re.escape("-".join(map(str, r))) + r"\.[0-9a-f]{8}\.h5", old.name)
                                         for r in recipes):
                old.unlink()
        for path, recipe in wanted.items():
            if path.exists():
                continue
            say(f"making {path.name}")
            part = path.with_suffix(".part")
            self.write(part, recipe)
            os.replace(part, path)
        for path, recipe in wanted.items():
            if recipe[-1] in ("imaged", "bodied"):
                words = ["--body"] if recipe[-1] == "bodied" else []
                subprocess.run([self.publisher, "publish", *words, path], check=True, capture_output=True)
        beside = [p for path in wanted for p in [path.with_name(path.name + ".xhbody")] if p.exists()]
        for path in [*wanted, *beside]:     # into the page cache: the disk is not what is measured
            if path.stat().st_blocks * 512 < path.stat().st_size / 2:
                continue        # sparse
            with open(path, "rb", buffering=0) as f:
                while f.read(1 << 24):
                    pass


def offsets(out, n, length, size, order):
    """Writes |n| offsets of blocks of |length| bytes in a file of |size|, no two overlapping: one after
    another, or at random (always the same)."""
    chosen = range(size // length)[:n] if order == "sequential" else chosen_slots(n, length, size)
    with open(out, "wb") as f:
        array.array("Q", (slot * length for slot in chosen)).tofile(f)


def places(out, wanted):
    """Writes the places |wanted|, each a tuple of indexes."""
    with open(out, "wb") as f:
        array.array("Q", [i for place in wanted for i in place]).tofile(f)


def draws(n, of):
    """|n| numbers below |of| at random, some of them more than once: always the same."""
    dice = random.Random(f"draws {n} {of}")
    return [dice.randrange(of) for _ in range(n)]


def name_of_many(n, size, i):
    return f"many-{n}-{size}-{i}.h5"


def chosen_slots(n, length, size):
    """Where |n| blocks of |length| bytes lie at random: always the same."""
    return random.Random(f"{n} {length} {size}").sample(range(size // length), n)


def sparse(out, n, length):
    import h5py
    import mkdata
    with h5py.File(out, "w", libver="earliest") as f:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk((length,))
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        d = h5py.h5d.create(f.id, b"bytes", h5py.h5t.NATIVE_UINT8, h5py.h5s.create_simple((n * length,)), dcpl)
        at = chosen_slots(1, length, n * length)[0] * length
        h5py.Dataset(d)[at:at + length] = mkdata.rng_of("sparse").integers(0, 256, length, dtype="uint8")


def poisson(out, n):
    import h5py
    import mkdata
    import numpy as np
    y, x = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1) * 2 - 1
    mean = 100 + 1900 * np.exp(-2 * (x ** 2 + y ** 2))
    rng = mkdata.rng_of("poisson")
    eight = [rng.poisson(mean).astype(np.uint16).ravel() for _ in range(min(n, 8))]
    with h5py.File(out, "w", libver="earliest") as f:
        d = f.create_dataset("images", (n, SIDE, SIDE), np.uint16)
        for i in range(n):
            d[i] = np.roll(eight[i % 8], 104729 * (i // 8)).reshape(SIDE, SIDE)


def chunked(out, index, how, n):
    import h5py
    import mkdata
    import numpy as np
    frames = mkdata.Frames("images", SIDE)
    maxshape = {"earray": (None, SIDE, SIDE), "btree2": (None, None, SIDE)}.get(index, (n, SIDE, SIDE))
    with h5py.File(out, "w", libver="earliest" if index == "btree1" else ("v110", "v114")) as f:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk(CHUNK)
        dcpl.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        if index == "implicit":
            dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        if how == "gzip":
            dcpl.set_shuffle()
            dcpl.set_deflate(1)
        unlimited = tuple(h5py.h5s.UNLIMITED if m is None else m for m in maxshape)
        space = h5py.h5s.create_simple((n, SIDE, SIDE), unlimited)
        d = h5py.h5d.create(f.id, b"images", h5py.h5t.NATIVE_UINT16, space, dcpl)
        for i in range(n):
            frame = frames[i]
            for r in range(0, SIDE, CHUNK[1]):
                for c in range(0, SIDE, CHUNK[2]):
                    data = np.ascontiguousarray(frame[r:r + CHUNK[1], c:c + CHUNK[2]])
                    if how == "gzip":
                        data = zlib.compress(data.view(np.uint8).reshape(-1, 2).T.tobytes(), 1)
                    d.write_direct_chunk((i, r, c), bytes(data))


def cube(out, n, rows, columns):
    import h5py
    import mkdata
    import numpy as np
    layer = mkdata.rng_of("cube").integers(0, 65536, (rows, columns), dtype=np.uint16)
    with h5py.File(out, "w") as f:
        d = f.create_dataset("cube", (n, rows, columns), np.uint16)
        for i in range(n):
            d[i] = layer + np.uint16(i)


def samples(out, n, side, per):
    import h5py
    import mkdata
    import numpy as np
    pool = mkdata.rng_of("samples").integers(0, 4096, (64, side, side), dtype=np.uint16)
    with h5py.File(out, "w", libver="earliest") as f:
        d = f.create_dataset("samples", (n, side, side), np.uint16, chunks=(per, side, side), compression="gzip",
                             compression_opts=1,
                             shuffle=True)
        for i in range(0, n, per):
            some = np.stack([pool[(i + k) % 64] ^ np.uint16((i + k) // 64) for k in range(per)])
            d.id.write_direct_chunk((i, 0, 0), zlib.compress(some.view(np.uint8).reshape(-1, 2).T.tobytes(), 1))


def many(out, n, size):
    import h5py
    import mkdata
    import numpy as np
    import shutil
    for i in range(n):
        path = pathlib.Path(out).with_name(name_of_many(n, size, i))
        with h5py.File(path, "w") as f:
            f.attrs["number"] = np.uint64(i)
            f.attrs["title"] = "one of many"
            f.create_dataset("data", data=mkdata.rng_of(f"many {i}").integers(0, 256, size - 20000, dtype=np.uint8))
            for k in range(8):
                f[f"of/it/{k}"] = np.arange(16) + k
    shutil.copy(pathlib.Path(out).with_name(name_of_many(n, size, 0)), out)


def ranges(out, file, dset, shape, at):
    import h5py
    import numpy as np
    shape = [int(n) for n in shape.split(",")]
    found = []
    with h5py.File(file) as f:
        d = f[dset]
        for place in np.fromfile(at, np.uint64).reshape(-1, len(shape)).tolist():
            if d.chunks:
                chunk = d.id.get_chunk_info_by_coord(tuple(p // c * c for p, c in zip(place, d.chunks)))
                found += [chunk.byte_offset, chunk.size]
            else:
                first = int(np.ravel_multi_index(place, d.shape)) * d.dtype.itemsize
                found += [d.id.get_offset() + first, int(np.prod(shape)) * d.dtype.itemsize]
    np.array(found, np.uint64).tofile(out)


def virtual(out, how, n, size):
    import h5py
    import mkdata
    import numpy as np
    rows, columns = size >> 13, 4096
    pool = mkdata.rng_of("virtual").integers(0, 2048, (rows, columns), dtype=np.uint16)
    names = [f"source-{n}-{size}-{i}.h5" for i in range(n)]
    for i, name in enumerate(names):
        path = pathlib.Path(out).with_name(name)
        if how != "one" and not path.exists():
            with h5py.File(path.with_suffix(".part"), "w") as f:
                f["x"] = pool + np.uint16(i)
            os.replace(path.with_suffix(".part"), path)
    with h5py.File(out, "w", libver="latest") as f:
        if how == "one":
            d = f.create_dataset("x", (n * rows, columns), np.uint16)
            for i in range(n):
                d[i * rows:(i + 1) * rows] = pool + np.uint16(i)
            return
        layout = h5py.VirtualLayout((rows, n * columns) if how == "beside" else (n * rows, columns), np.uint16)
        for i, name in enumerate(names):
            where = np.s_[:, i * columns:(i + 1) * columns] if how == "beside" else np.s_[i * rows:(i + 1) * rows]
            layout[where] = h5py.VirtualSource(name, "x", (rows, columns))
        f.create_virtual_dataset("x", layout)


def main():
    sys.path.insert(0, str(SUPPORT))
    import h5py
    import mkdata
    out, what, *words = sys.argv[1:]
    if what == "images":
        mkdata.images(out, int(words[0]), SIDE)
    elif what == "chunked":
        chunked(out, words[0], words[1], int(words[2]))
    elif what == "poisson":
        poisson(out, int(words[0]))
    elif what == "sparse":
        sparse(out, int(words[0]), int(words[1]))
    elif what == "names":
        n, of = map(int, words)
        chosen = random.Random(f"{n} {of}").sample(range(of), n)
        pathlib.Path(out).write_text("".join(f"{mkdata.name_in_tree(i)}\n" for i in chosen))
    elif what == "virtual":
        virtual(out, words[0], int(words[1]), int(words[2]))
    elif what == "tree":
        mkdata.tree(out, int(words[0]), "earliest")
    elif what == "spread":
        mkdata.spread(out, int(words[0]), "earliest", int(words[1]) if words[1:] and words[1].isdigit() else 10)
    elif what in ("cube", "samples", "many"):
        globals()[what](out, *map(int, words))
    elif what == "ranges":
        ranges(out, *words)
    else:
        with h5py.File(out, "w") as f:
            f["bytes"] = mkdata.rng_of("bytes").integers(0, 256, int(words[0]), dtype="uint8")


if __name__ == "__main__":
    main()
