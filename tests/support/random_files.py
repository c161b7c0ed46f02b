"""A random family of HDF5 files: `random_files.py SEED DIR` writes DIR/main.h5 and what that one names, in DIR/sub and
DIR/beside. The same seed makes the same objects; another CONTENT (third argument) gives the same files other numbers.
"""
import pathlib
import random
import sys

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

BORDERS = (4096, 8192, 65536, 65536, 1 << 20)
LARGE = (1 << 20, 4 << 20, 16 << 20)
LIBVERS = ("earliest", "latest", ("earliest", "v110"), ("v108", "latest"), ("v110", "latest"), ("earliest", "latest"))
KINDS = ("u1", "<i2", ">i2", "<i4", ">u4", "<f4", ">f8", "<i8", "c8", "c16", "?", "S7", "V5")


class Family:
    def __init__(self, seed, top, content):
        self.rng = random.Random(f"files {seed}")
        self.np = np.random.default_rng([seed, content])
        self.top = pathlib.Path(top)
        self.left = 24 << 20    # bytes that may still be written
        self.number = 0

    # --- values

    def near(self, large=False):
        border = self.rng.choice(LARGE if large and self.left > 17 << 20 else BORDERS)
        return max(1, border * self.rng.choice((1, 1, 2) if border < LARGE[0] else (1,)) + self.rng.choice((-1, 0, 1)))

    def values(self, shape, kind):
        kind = np.dtype(kind)
        n = int(np.prod(shape))
        self.left -= n * kind.itemsize
        if kind.fields:
            out = np.zeros(shape, kind)
            for name in kind.fields:
                out[name] = self.values(out[name].shape, out[name].dtype)
            return out
        if kind.kind == "b":
            return self.np.integers(0, 2, n).astype("?").reshape(shape)
        if kind.kind in "SV":
            return np.frombuffer(self.np.integers(97, 122, n * kind.itemsize, np.uint8).tobytes(), kind).reshape(shape)
        if kind.kind in "fc":
            return self.np.integers(-9999, 9999, n).astype(kind).reshape(shape)
        most = min(30000, np.iinfo(kind).max)
        return self.np.integers(0, most, n).astype(kind).reshape(shape)

    def kind(self):
        if self.rng.random() < 0.15:
            return np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S5"), ("d", "<i2", (3,))])
        return np.dtype(self.rng.choice(KINDS))

    def shape(self, kind, large=False):
        n = max(1, self.near(large) // kind.itemsize)
        if n > 64 and self.rng.random() < 0.7:
            side = self.rng.randint(1, min(n, 400))
            if self.rng.random() < 0.4:
                other = self.rng.randint(1, 7)
                return max(1, n // side // other), side, other
            return max(1, n // side), side
        return (n,)

    def name(self, what):
        self.number += 1
        return f"{what}{self.number}"

    def odd(self, what):
        """A file's name, which may have characters that mean something else in a URL."""
        return self.name(what + self.rng.choice(("", "", "", " a", "#", "é&", "%41")))

    # --- datasets

    def contiguous(self, g):
        kind = self.kind()
        shape = self.shape(kind, True)
        d = g.create_dataset(self.name("contiguous"), shape, kind)
        if self.rng.random() < 0.9:
            d[...] = self.values(shape, kind)

    def bytes_at_border(self, g):
        n = self.near(True)
        g.create_dataset(self.name("bytes"), data=self.values((n,), "u1"))

    def compact(self, g):
        kind = self.kind()
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_layout(h5d.COMPACT)
        shape = (max(1, self.rng.choice((10, 100, 4000, 60000)) // kind.itemsize),)
        made = h5d.create(g.id, self.name("compact").encode(), h5t.py_create(kind, logical=True),
                          h5s.create_simple(shape), dcpl)
        h5py.Dataset(made)[...] = self.values(shape, kind)

    def chunked(self, g):
        r = self.rng
        kind = self.kind()
        shape = self.shape(kind, r.random() < 0.3)
        chunks = tuple(r.randint(max(1, n // 30), max(1, min(n, max(1, n // r.choice((1, 2, 4, 10)))))) for n in shape)
        most = [n if r.random() < 0.5 else None for n in shape]
        filters = {}
        if r.random() < 0.6:
            if kind.kind not in "V" and r.random() < 0.7:
                filters["compression"] = r.choice(("gzip", "lzf", "gzip"))
            filters["shuffle"] = r.random() < 0.5
            filters["fletcher32"] = r.random() < 0.5
            if kind.kind in "iu" and r.random() < 0.2:
                filters = {"scaleoffset": 0}
        if kind.kind in "iuf" and not filters and r.random() < 0.3:
            filters["fillvalue"] = 7
        name = self.name("chunked")
        early = not filters and r.random() < 0.2
        if early:
            dcpl = h5p.create(h5p.DATASET_CREATE)
            dcpl.set_chunk(chunks)
            dcpl.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            d = h5py.Dataset(h5d.create(g.id, name.encode(), h5t.py_create(kind, logical=True),
                                        h5s.create_simple(shape), dcpl))
        else:
            d = g.create_dataset(name, shape, kind, chunks=chunks, maxshape=r.choice((None, tuple(most))), **filters)
        values = self.values(shape, kind)
        if r.random() < 0.6:
            d[...] = values
        else:       # some of it, in any order, with the rest never written
            rows = [slice(a, a + chunks[0]) for a in range(0, shape[0], chunks[0])]
            r.shuffle(rows)
            for s in rows[:max(1, len(rows) * 2 // 3)]:
                d[s] = values[s]
        if d.maxshape != d.shape and not early and r.random() < 0.4:
            d.resize(tuple(n if m is not None else max(1, n + r.randint(-n // 2, n // 4))
                           for n, m in zip(shape, d.maxshape)))
        if filters.get("compression") == "gzip" and r.random() < 0.3:
            raw = self.values(chunks, kind).tobytes()
            d.id.write_direct_chunk((0,) * len(shape), raw, filter_mask=0xffffffff)
        if r.random() < 0.3:
            self.junk(g)

    def many_chunks(self, g):
        r = self.rng
        n = r.choice((3000, 5000, 9000))
        more = r.choice(((None,), (n,), None))
        packed = r.choice(({}, {"compression": "gzip"}))
        if r.random() < 0.4:
            d = g.create_dataset(self.name("tiles"), (n // 50, 50), "<i2", chunks=(3, 3), maxshape=(None, None),
                                 **packed)
        else:
            d = g.create_dataset(self.name("many"), (n,), "<i2", chunks=(r.choice((3, 4, 7)),), maxshape=more, **packed)
        d[...] = self.values(d.shape, "<i2")

    def nbit(self, g):
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_chunk((20, 30))
        dcpl.set_filter(h5z.FILTER_NBIT, h5z.FLAG_MANDATORY, ())
        kind = h5t.STD_I32LE.copy()
        kind.set_precision(20)
        made = h5d.create(g.id, self.name("nbit").encode(), kind, h5s.create_simple((200, 100)), dcpl)
        made.write(h5s.ALL, h5s.ALL, self.values((200, 100), "<i4"))

    def strings(self, g):
        r = self.rng
        n = r.choice((1, 10, 500, 3000))
        words = ["é" * int(k % 9) + "w" * int(k) for k in self.np.integers(0, r.choice((5, 60, 600)), n)]
        how = r.choice(({}, {"chunks": (max(1, n // 7),)}, {"chunks": (max(1, n // 3),), "compression": "gzip"}))
        g.create_dataset(self.name("strings"), data=words, dtype=h5py.string_dtype(), **how)

    def vlens(self, g):
        n = self.rng.choice((10, 300, 1000))
        how = self.rng.choice(({}, {"chunks": (max(1, n // 7),)}))
        d = g.create_dataset(self.name("vlens"), (n,), h5py.vlen_dtype(np.int32), **how)
        for i, k in enumerate(self.np.integers(0, 90, n)):
            if k:
                d[i] = self.values((int(k),), "<i4")

    def mixed(self, g):
        kind = np.dtype([("n", "<i4"), ("text", h5py.string_dtype()), ("x", "<f8", (2, 2))])
        rows = np.empty(self.rng.choice((5, 400)), kind)
        for i in range(len(rows)):
            rows[i] = (i, "t" * (i % 50), self.values((2, 2), "<f8"))
        g.create_dataset(self.name("mixed"), data=rows, chunks=self.rng.choice((None, True)))

    def references(self, g):
        there = [o for o in g.file["sets"].values() if isinstance(o, h5py.Dataset) and o.shape]
        if not there:
            return
        chosen = [self.rng.choice(there) for _ in range(20)]
        d = g.create_dataset(self.name("refs"), (22,), h5py.ref_dtype)
        d[:20] = [o.ref for o in chosen]
        d = g.create_dataset(self.name("regions"), (12,), h5py.regionref_dtype)
        for i, o in enumerate(chosen[:10]):
            d[i] = o.regionref[tuple(slice(n // 3, n // 2 + 1) for n in o.shape)]

    def empties(self, g):
        g[self.name("null")] = h5py.Empty("f8")
        g.create_dataset(self.name("no_rows"), (0, 5), np.int32, maxshape=(None, 5), chunks=(4, 5))
        g[self.name("scalar")] = self.values((), "<f8")

    def external_storage(self, g):
        n = self.near()
        g.create_dataset(self.name("outside"), data=self.values((n,), "u1"),
                         external=[(str(self.top / self.name("raw")), 0, h5py.h5f.UNLIMITED)])

    def virtual(self, g):
        """Over files in several directories; some are missing, some lack the dataset."""
        r = self.rng
        n, rows, cols = r.randint(2, 6), r.randint(1, 40), r.randint(1, 3000)
        kind = np.dtype(r.choice(("u1", "<i4", ">f8")))
        axis_first = r.random() < 0.5
        layout = h5py.VirtualLayout((n * rows, cols) if axis_first else (rows, n * cols), kind)
        name = self.odd("source")
        for i in range(n):
            where = r.choice(("", "sub/", "beside/")) + f"{name}_{i}.h5"
            fate = r.random()
            if fate > 0.2:
                path = self.top / where
                path.parent.mkdir(exist_ok=True)
                with h5py.File(path, "w", libver=r.choice(LIBVERS)) as f:
                    how = r.choice(({}, {"chunks": True}, {"chunks": True, "compression": "gzip"}))
                    if fate > 0.3:
                        f.create_dataset("data", data=self.values((rows, cols), kind), **how)
                    else:
                        f["other"] = 1
            source = h5py.VirtualSource(where.replace("%", "%%"), "data", (rows, cols))
            if axis_first:
                layout[i * rows:(i + 1) * rows] = source
            else:
                layout[:, i * cols:(i + 1) * cols] = source
        g.create_virtual_dataset(self.name("virtual"), layout, fillvalue=self.rng.choice((None, 3)))

    def printf(self, g):
        """Blocks by printf names, unlimited; the first that is missing ends it."""
        r = self.rng
        rows, cols, n = r.randint(1, 20), r.randint(1, 1000), r.randint(0, 5)
        name = r.choice(("", "sub/")) + self.odd("series")
        (self.top / "sub").mkdir(exist_ok=True)
        for i in range(n):
            with h5py.File(self.top / f"{name}_{i}.h5", "w") as f:
                f.create_dataset("data", data=self.values((rows, cols), "<i4"), chunks=r.choice((None, True)))
        dcpl = h5p.create(h5p.DATASET_CREATE)
        dcpl.set_layout(h5d.VIRTUAL)
        space = h5s.create_simple((0, cols), (h5s.UNLIMITED, cols))
        space.select_hyperslab((0, 0), (h5s.UNLIMITED, 1), (rows, 1), (rows, cols))
        dcpl.set_virtual(space, (name.replace("%", "%%") + "_%b.h5").encode(), b"data", h5s.create_simple((rows, cols)))
        h5d.create(g.id, self.name("printf").encode(), h5t.STD_I32LE,
                   h5s.create_simple((0, cols), (h5s.UNLIMITED, cols)), dcpl)

    def inner_virtual(self, g):
        """Over datasets of the same file."""
        there = [o for o in g.file["sets"].values() if isinstance(o, h5py.Dataset) and not o.is_virtual
                 and o.ndim == 1 and o.dtype.kind in "iuf" and o.shape[0]]
        if not there:
            return
        o = self.rng.choice(there)
        half = max(1, o.shape[0] // 2)
        layout = h5py.VirtualLayout((half,), o.dtype)
        layout[...] = h5py.VirtualSource(".", o.name, o.shape)[o.shape[0] - half:]
        g.create_virtual_dataset(self.name("inner"), layout)

    def links(self, g):
        r = self.rng
        for where in ("sub/", "beside/", ""):
            if r.random() < 0.5:
                continue
            name = where + self.odd("linked") + ".h5"
            (self.top / name).parent.mkdir(exist_ok=True)
            with h5py.File(self.top / name, "w", libver=r.choice(LIBVERS)) as f:
                one = f.create_group("sets")
                for _ in range(r.randint(1, 3)):
                    r.choice((self.contiguous, self.chunked, self.strings, self.vlens))(one)
                one.attrs["who"] = name
                one["back"] = h5py.ExternalLink("../main.h5" if where else "main.h5", "/sets")
            g[self.name("external")] = h5py.ExternalLink(name, "/sets")
        g[self.name("dangling")] = h5py.ExternalLink("sub/nothing_there.h5", "/x")
        g[self.name("soft")] = h5py.SoftLink("/sets")
        g[self.name("broken")] = h5py.SoftLink("/nowhere")

    def attributes(self, o):
        r = self.rng
        for _ in range(r.choice((0, 1, 3, 20))):
            name = self.name("attr")
            o.attrs[name] = r.choice((lambda: "text" * r.randint(0, 30),
                                      lambda: self.values((r.randint(1, 900),), "<f8"),
                                      lambda: ["a", "bcd", "é" * r.randint(0, 9)], lambda: h5py.Empty("S3"),
                                      lambda: r.randint(0, 99)))()

    def junk(self, g):
        """What is deleted again leaves holes."""
        name = self.name("junk")
        g[name] = self.values((self.rng.choice((10, 5000, 20000)),), "<i4")
        del g[name]

    def tree(self, g):
        for i in range(self.rng.choice((5, 100, 700))):
            d = g.create_dataset(f"value{i:04d}", data=self.values((self.rng.randint(1, 30),), "<f8"))
            if self.rng.random() < 0.3:
                d.attrs["units"] = "mm"

    def main_file(self):
        r = self.rng
        how = {"libver": r.choice(LIBVERS), "track_order": r.random() < 0.3}
        if r.random() < 0.3:
            how["userblock_size"] = r.choice((512, 1024, 4096, 65536, 1 << 20))
        if r.random() < 0.35:
            how |= {"fs_strategy": r.choice(("page", "page", "fsm", "aggregate")), "fs_persist": r.random() < 0.5}
            if how["fs_strategy"] == "page":
                page = r.choice((512, 4096, 5000, 65536, 1 << 20))
                how["fs_page_size"] = min(page, how.get("userblock_size", page))
        elif r.random() < 0.3 and "userblock_size" not in how:
            how |= {"alignment_threshold": r.choice((0, 1000)), "alignment_interval": r.choice((512, 4096, 65536))}
        if r.random() < 0.2:
            how["meta_block_size"] = r.choice((2048, 65536, 1 << 20))
        with h5py.File(self.top / "main.h5", "w", **how) as f:
            sets = f.create_group("sets")
            plenty = [self.contiguous, self.contiguous, self.bytes_at_border, self.compact, self.chunked, self.chunked,
                      self.chunked, self.many_chunks, self.nbit, self.strings, self.vlens, self.mixed, self.empties]
            named = [self.virtual, self.virtual, self.printf, self.inner_virtual, self.references, self.links]
            for make in [r.choice(plenty) for _ in range(r.randint(3, 10))] + [m for m in named if r.random() < 0.5]:
                if self.left > 0:
                    make(sets)
            if r.random() < 0.4:
                self.tree(f.create_group("tree"))
            if r.random() < 0.05:
                self.external_storage(sets)
            hard = [sets[name] for name in sets if isinstance(sets.get(name, getlink=True), h5py.HardLink)]
            for o in [f, sets, *hard]:
                if r.random() < 0.4:
                    self.attributes(o)
        if how.get("userblock_size"):
            with open(self.top / "main.h5", "r+b") as f:
                f.write(b"a user's block " * 30)


if __name__ == "__main__":
    Family(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])).main_file()
