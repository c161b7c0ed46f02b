"""The programs of tests/integration/writing_random.py: random changes of HDF5 files, each made at a URL and in a local
file, and what the two hold then.

Usage: random_writes.py, with a command as JSON in each line of its input, and an answer in each of its output. Numbers
come from the commands' seeds alone.
"""
import ctypes
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import sys

import h5py
import numpy as np

TYPES = ["i4", "f8", "i8", ">i4", "f4", "u8"]
PAIR = np.dtype([("number", "i4"), ("value", "f8")])
MOST_BYTES = 400_000    # of a dataset
KEPT = "/kept"    # has a link to all that a reference leads to; else another object could take the place of that
NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"]


# --- what a file holds ----------------------------------------------------------------------------

def plain(value, file):
    """A value as Python's own: what two files have in common. References become the names that they lead to."""
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return ("array", value.shape, [plain(one, file) for one in value.ravel()])
    if isinstance(value, np.ndarray):
        return ("array", value.shape, value.dtype.str if not value.dtype.fields else str(value.dtype), value.tobytes())
    if isinstance(value, (h5py.Reference, h5py.RegionReference)):
        kind = type(value).__name__
        try:
            region = kind == "RegionReference" and value
            points = h5py.h5r.get_region(value, file.id).get_select_npoints() if region else 0
            name = PLACES.get(h5py.h5o.get_info(file[value].id).addr) if value else "none"
        except Exception:    # its object was removed
            name = None
        return (kind, name, points) if name else (kind, "to nothing")
    if isinstance(value, h5py.Empty):
        return ("empty", str(value.dtype))
    if isinstance(value, np.generic):
        return (str(value.dtype), value.tobytes())
    return (type(value).__name__, value if isinstance(value, (str, bytes, type(None))) else repr(value))


PLACES = {}    # of the file that is looked at: where its objects are, by address; of several links always the same one


def find_places(group, path):
    PLACES.setdefault(h5py.h5o.get_info(group.id).addr, path or "/")
    for name in sorted(group):
        if isinstance(group.get(name, getlink=True), h5py.HardLink):
            obj = group[name]
            if isinstance(obj, h5py.Group) and h5py.h5o.get_info(obj.id).addr not in PLACES:
                find_places(obj, f"{path}/{name}")
            PLACES.setdefault(h5py.h5o.get_info(obj.id).addr, f"{path}/{name}")


def attributes(obj, file):
    return [(name, plain(obj.attrs[name], file), str(obj.attrs.get_id(name).dtype)) for name in sorted(obj.attrs)]


def look(file):
    """{path: what is there}, of all that the file holds."""
    found, known = {}, {}
    PLACES.clear()
    find_places(file["/"], "")

    def visit(group, path):
        names = list(group)
        found[path + " order"] = names if group.id.get_create_plist().get_link_creation_order() else sorted(names)
        for name in names:
            here, link = f"{path}/{name}", group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                found[here] = ("soft", link.path)
                continue
            if isinstance(link, h5py.ExternalLink):
                found[here] = ("external", link.filename, link.path)
                continue
            obj = group[name]
            at = h5py.h5o.get_info(obj.id).addr
            if at in known:
                found[here] = ("hard", known[at])
                continue
            known[at] = here
            found[here + " attributes"] = attributes(obj, file)
            if isinstance(obj, h5py.Group):
                visit(obj, here)
            elif isinstance(obj, h5py.Dataset):
                how = obj.id.get_create_plist()
                found[here] = ("dataset", str(obj.dtype), obj.shape, obj.maxshape, obj.chunks, how.get_layout(),
                               [how.get_filter(i)[:3:2] for i in range(how.get_nfilters())], obj.is_virtual)
                found[here + " values"] = plain(obj[()] if obj.shape is None or obj.size else "none", file)
            else:
                found[here] = ("type", str(obj.dtype))
    found["userblock"] = file.userblock_size
    found["/ attributes"] = attributes(file, file)
    known[h5py.h5o.get_info(file["/"].id).addr] = "/"
    visit(file["/"], "")
    return found


def difference(one, two, limit=6):
    said = []
    for key in sorted(set(one) | set(two)):
        if one.get(key) != two.get(key):
            a, b = one.get(key, "is missing"), two.get(key, "is missing")
            where = ""
            if isinstance(a, tuple) and isinstance(b, tuple) and a[:-1] == b[:-1] and isinstance(a[-1], bytes):
                x, y = np.frombuffer(a[-1], "u1"), np.frombuffer(b[-1], "u1")
                if len(x) == len(y):
                    at = np.flatnonzero(x != y)
                    where = f"bytes {at[0]} to {at[-1]} of {len(x)}, {len(at)} in all: "
            if isinstance(a, tuple) and isinstance(b, tuple) and a[:-1] == b[:-1] and isinstance(a[-1], list):
                where = f"{[(x, y) for x, y in zip(a[-1], b[-1]) if x != y][:5]} "
            said.append(f"{key}: {where}{str(a)[:200]} | {str(b)[:200]}")
    return "\n".join(said[:limit])


def three(base, ours, theirs):
    """|theirs| with what |ours| has changed since |base|; None where that is more than numbers of datasets."""
    merged = dict(theirs)
    if set(base) != set(ours) or set(base) != set(theirs):
        return None
    for key in base:
        if ours[key] == base[key]:
            continue
        was, a, b = base[key], ours[key], theirs[key]
        if not key.endswith(" values") or not len(a) == len(b) == len(was) == 4 or not a[:3] == b[:3] == was[:3]:
            return None
        kind = eval(was[2]) if was[2].startswith("[") else np.dtype(was[2])
        x, y, z = (np.frombuffer(v[3], kind) for v in (was, a, b))
        merged[key] = (*was[:3], np.where(y != x, y, z).astype(kind).tobytes())
    return merged


# --- changes --------------------------------------------------------------------------------------

class Changes:
    """Chooses by a local file, so that the same can be done to both."""

    def __init__(self, seed, what):
        """|what|: "all"; "data", which others' changes are merged with; or "make": datasets that this is done with."""
        self.rng, self.only_data, self.simple = random.Random(f"changes {seed}"), what == "data", what == "make"
        self.dice = np.random.default_rng(self.rng.getrandbits(32))

    def objects(self, file):
        groups, datasets, links = ["/"], [], []

        def visit(group, path, depth):
            for name in sorted(group):
                link = group.get(name, getlink=True)
                here = f"{path}/{name}"
                if here == KEPT:
                    continue
                links.append(here)
                if not isinstance(link, h5py.HardLink):
                    continue
                obj = group[name]
                if isinstance(obj, h5py.Dataset):
                    datasets.append(here)
                elif isinstance(obj, h5py.Group) and depth < 3:
                    groups.append(here)
                    visit(obj, here, depth + 1)
        visit(file["/"], "", 0)
        return groups, datasets, links

    def keeper(self):
        """Returns f: f(file, path) lets the object at |path| stay for ever."""
        number = self.rng.getrandbits(40)

        def keep(f, path):
            name = f"{KEPT}/{number}{path.replace('/', '.')}"
            if path != "/" and name not in f:
                f[name] = f[path]
        return keep

    def one(self, file):
        """Returns (name, f): f changes a file, or reads it and returns what it read."""
        groups, datasets, links = self.objects(file)
        r = self.rng
        steps = {self.write: 8, self.read: 4}
        if self.simple:
            steps |= {self.create: 30, self.attribute: 3}
        elif not self.only_data:
            steps |= {self.create: 10, self.resize: 5, self.attribute: 8, self.group: 4, self.remove: 4, self.move: 2,
                      self.link: 3, self.many: 1, self.copy: 1, self.type: 1, self.flush: 1, self.grow: 2}
        for _ in range(20):
            made = r.choices(list(steps), list(steps.values()))[0](file, groups, datasets, links)
            if made:
                return made
        return self.flush(file, groups, datasets, links)

    def name(self, groups):
        return self.rng.choice(groups).rstrip("/") + "/" + self.rng.choice(NAMES) + self.rng.choice(["", "1", "_" * 40])

    def values(self, shape, kind):
        n = int(np.prod(shape, dtype="i8"))
        if kind == "text":
            texts = [self.rng.choice(["", "x", "äöü" * self.rng.randrange(400)]) + str(self.rng.randrange(99))
                     for _ in range(n)]
            return np.array(texts, dtype=object).reshape(shape)
        if kind == "ragged":
            out = np.empty(n, dtype=object)
            for i in range(n):
                out[i] = self.dice.integers(0, 99, self.rng.randrange(30)).astype("i4")
            return out.reshape(shape)
        if kind == PAIR:
            out = np.zeros(n, PAIR)
            out["number"], out["value"] = self.dice.integers(-2**31, 2**31, n), self.dice.random(n)
            return out.reshape(shape)
        return (self.dice.integers(-2**31, 2**31, n) % 2**31).astype(kind).reshape(shape)

    def create(self, file, groups, datasets, links):
        r, path = self.rng, self.name(groups)
        if path in links:
            return None
        rank = r.choice([0, 1, 1, 1, 2, 2, 3])
        sizes = [1, 3, 10, 100, 1000, 30000][:6 if rank == 1 else 4 if rank == 2 else 3]
        shape = tuple(r.choice(sizes) for _ in range(rank))
        kind = r.choice([*TYPES, *TYPES, PAIR, "text", "ragged", "reference", "region"])
        how = {}
        if self.simple and (kind in ("text", "ragged", "reference", "region") or r.random() < 0.5):
            kind = r.choice(TYPES)
        if kind in ("reference", "region") and (not datasets or rank == 0):
            kind = "i4"
        if kind in ("text", "ragged", "reference", "region"):
            shape = tuple(min(one, 12) for one in shape)
        layout = r.choice(["contiguous", "chunked", "chunked", "chunked", "compact"]) if rank else "contiguous"
        if layout == "chunked":
            how["chunks"] = tuple(r.randint(max(1, one // 8), one) for one in shape)
            ends = r.choice(["fixed", "one", "all", "bound"])
            how["maxshape"] = {"fixed": shape, "one": (None, *shape[1:]), "all": (None,) * rank,
                               "bound": tuple(2 * one for one in shape)}[ends]
            if not self.simple and r.random() < 0.5 and kind not in ("text", "ragged", "reference", "region"):
                how |= r.choice([{"compression": "gzip"}, {"compression": "lzf"}, {"fletcher32": True},
                                 {"shuffle": True}, {"compression": "gzip", "shuffle": True, "fletcher32": True}])
        if r.random() < 0.2 and kind in TYPES:
            how["fillvalue"] = 7
        if r.random() < 0.2:
            how["track_order"] = True
        if r.random() < 0.2:
            how["track_times"] = False
        early, keep = r.random() < 0.3, self.keeper()
        sparse = r.random() < 0.3 and not self.simple
        # "i4" in place of a type that needs more
        if kind == "reference":
            to = [r.choice([*datasets, *groups]) for _ in range(int(np.prod(shape)))]
            def make(f):
                for one in to:
                    keep(f, one)
                data = np.array([f[one].ref for one in to] or [None], dtype=h5py.ref_dtype)[:len(to)].reshape(shape)
                f.create_dataset(path, data=data, dtype=h5py.ref_dtype, **how)
            return f"create {path} {kind}", make
        if kind == "region":
            to = [one for one in datasets if file[one].ndim and file[one].size]
            if not to:
                return None
            to = [r.choice(to) for _ in range(int(np.prod(shape)))]
            def make(f):
                d = f.create_dataset(path, shape, dtype=h5py.regionref_dtype, **how)
                for at, one in zip(np.ndindex(shape), to):
                    keep(f, one)
                    d[at] = f[one].regionref[:1]
            return f"create {path} {kind}", make
        dtype = h5py.string_dtype() if kind == "text" else h5py.vlen_dtype("i4") if kind == "ragged" else np.dtype(kind)
        data = self.values(shape, kind)

        def make(f):
            most = tuple(h5py.h5s.UNLIMITED if m is None else m for m in how.get("maxshape", shape))
            space = h5py.h5s.create_simple(shape, most) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
            if (layout == "compact" or early) and not set(how) - {"chunks", "maxshape"}:
                dcpl, lcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE), h5py.h5p.create(h5py.h5p.LINK_CREATE)
                if layout == "compact" and data.size * dtype.itemsize < 60000:
                    dcpl.set_layout(h5py.h5d.COMPACT)
                elif early:
                    dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                    if "chunks" in how:
                        dcpl.set_chunk(how["chunks"])
                d = h5py.Dataset(h5py.h5d.create(f.id, path.encode(), h5py.h5t.py_create(dtype, logical=True), space,
                                                 dcpl=dcpl, lcpl=lcpl))
            else:
                d = f.create_dataset(path, shape, dtype=dtype, **how)
            if not sparse:
                d[()] = data if shape else data.reshape(())[()]
        return f"create {path} {kind} {shape} {layout} {how} early={early} sparse={sparse}", make

    def part(self, shape):
        """A part of a dataset, and its shape."""
        where, size = [], []
        for n in shape:
            a = self.rng.randrange(n)
            b = self.rng.randint(a + 1, n)
            step = self.rng.choice([1, 1, 1, 2, 3])
            where.append(slice(a, b, step))
            size.append(len(range(a, b, step)))
        return tuple(where), tuple(size)

    def numbers(self, file, datasets):
        return [one for one in datasets if file[one].size and file[one].ndim and file[one].dtype.kind in "iuf"]

    def write(self, file, groups, datasets, links):
        fit = [one for one in datasets if file[one].shape is not None and file[one].size and not file[one].is_virtual]
        if self.only_data:
            fit = self.numbers(file, fit)
        if not fit:
            return None
        path = self.rng.choice(fit)
        d = file[path]
        kind = "text" if h5py.check_string_dtype(d.dtype) else "ragged" if h5py.check_vlen_dtype(d.dtype) else d.dtype
        if h5py.check_ref_dtype(d.dtype):
            return None
        where, size = self.part(d.shape) if self.rng.random() < 0.8 else ((slice(None),) * d.ndim, d.shape)
        data = self.values(size, kind)

        def do(f):
            f[path][where] = data if size else data.reshape(())[()]
        return f"write {path} {where} {size}", do

    def read(self, file, groups, datasets, links):
        fit = [one for one in datasets if file[one].shape is not None and file[one].size]
        if not fit:
            return None
        path = self.rng.choice(fit)
        where, _ = self.part(file[path].shape)
        # Behind a merge it may be what others have written.
        def do(f):
            if isinstance(f[path][where], np.ndarray) and f[path].dtype.kind in "iuf" and not self.only_data:
                return plain(f[path][where], f)
        return f"read {path} {where}", do

    def resize(self, file, groups, datasets, links):
        fit = [one for one in datasets if file[one].chunks]
        if not fit:
            return None
        path = self.rng.choice(fit)
        d = file[path]
        shape = tuple(max(0, int(n * self.rng.choice([0.3, 0.5, 1, 1, 1.5, 2]))) if m is None or m > n
                      else self.rng.choice([n, n // 2]) for n, m in zip(d.shape, d.maxshape))
        if np.prod(shape, dtype="i8") * 8 > MOST_BYTES:
            return None
        return f"resize {path} {shape}", lambda f: f[path].resize(shape)

    def grow(self, file, groups, datasets, links):
        """Appends rows, and writes them."""
        fit = [one for one in datasets if file[one].chunks and file[one].maxshape[0] is None]
        fit = [one for one in fit if file[one].dtype.kind in "iuf"]
        if not fit:
            return None
        path, n = self.rng.choice(fit), self.rng.randint(1, 20)
        d = file[path]
        if d.nbytes > MOST_BYTES:
            return None
        data = self.values((n, *d.shape[1:]), d.dtype)

        def do(f):
            f[path].resize(f[path].shape[0] + n, axis=0)
            f[path][-n:] = data
        return f"grow {path} {n}", do

    def attribute(self, file, groups, datasets, links):
        r, path = self.rng, self.rng.choice([*groups, *datasets])
        name = r.choice(["x", "y", "z", "long" * 20, f"n{r.randrange(30)}"])
        what = r.choice(["number", "array", "text", "big", "ragged", "reference", "remove", "modify", "rename"])
        other = f"m{r.randrange(30)}"
        if what in ("remove", "modify", "rename") and (name not in file[path].attrs or other in file[path].attrs):
            return None
        keep = self.keeper()
        value = {"number": 1, "array": self.values((r.randrange(1, 50),), "i8"), "text": "text" * r.randrange(1, 200),
                 "big": self.values((r.randrange(1000, 12000),), "f8"), "modify": 5}.get(what, 1)
        if what == "number":
            value = r.randrange(10**9)

        def do(f):
            a = f[path].attrs
            if what == "remove":
                del a[name]
            elif what == "rename":
                h5py.h5a.rename(f[path].id, name.encode(), other.encode())
            elif what == "modify":
                a.modify(name, value)
            elif what == "reference":
                keep(f, path)
                a[name] = f[path].ref
            elif what == "ragged":
                a.create(name, ["eins", "zwei" * 50], dtype=h5py.string_dtype())
            else:
                a[name] = value
        return f"attribute {path} {name} {what}", do

    def group(self, file, groups, datasets, links):
        path, order = self.name(groups), self.rng.random() < 0.3
        if path in links:
            return None
        return f"group {path} {order}", lambda f: f.create_group(path, track_order=order) and None

    def many(self, file, groups, datasets, links):
        path, n = self.name(groups), self.rng.choice([20, 80, 300])
        if path in links:
            return None
        tiny = self.rng.random() < 0.5

        def do(f):
            g = f.create_group(path)
            for i in range(n):
                if tiny:
                    g[f"s{i}"] = h5py.SoftLink(f"/none/{i}")
                else:
                    g.attrs[f"a{i}"] = i
        return f"many {path} {n} {tiny}", do

    def remove(self, file, groups, datasets, links):
        if not links:
            return None
        path = self.rng.choice(links)

        def do(f):
            del f[path]
        return f"remove {path}", do

    def move(self, file, groups, datasets, links):
        path = self.name(groups)
        if not links or path in links:
            return None
        old = self.rng.choice(links)
        if path.startswith(old + "/"):
            return None
        return f"move {old} {path}", lambda f: f.move(old, path)

    def link(self, file, groups, datasets, links):
        path = self.name(groups)
        if path in links:
            return None
        what, to = self.rng.choice(["hard", "soft", "external"]), self.rng.choice([*datasets, *groups[1:]] or ["/"])
        if what == "hard" and (to == "/" or path.startswith(to + "/")):
            return None

        def do(f):
            made = {"soft": h5py.SoftLink(to), "external": h5py.ExternalLink("other.h5", to)}
            f[path] = made[what] if what in made else f[to]
        return f"link {path} {what} {to}", do

    def copy(self, file, groups, datasets, links):
        path = self.name(groups)
        if path in links or not datasets:
            return None
        old = self.rng.choice(datasets)
        return f"copy {old} {path}", lambda f: f.copy(f[old], path)

    def type(self, file, groups, datasets, links):
        path = self.name(groups)
        if path in links:
            return None

        def do(f):
            f[path] = PAIR
        return f"type {path}", do

    def flush(self, file, groups, datasets, links):
        return "flush", lambda f: f.flush()


# --- commands -------------------------------------------------------------------------------------

def committer():
    lib = ctypes.CDLL(os.environ["PLUGIN"])
    lib.H5FDxhdf5_call_for.argtypes = [ctypes.c_void_p]
    lib.H5FDxhdf5_commit.argtypes = [ctypes.c_int64]
    lib.H5FDxhdf5_discard.argtypes = [ctypes.c_int64, ctypes.c_uint]
    path = next(line.split()[-1] for line in open("/proc/self/maps") if re.search(r"libhdf5-[^/]*$", line.strip()))
    lib.H5FDxhdf5_call_for(ctypes.cast(ctypes.CDLL(path).H5Fflush, ctypes.c_void_p))
    return lib


class Both:
    """One file at a URL, and one on this machine."""

    def open(self, url, local, mode, how):
        there = self.there = None
        if isinstance(how.get("libver"), list):
            how["libver"] = tuple(how["libver"])
        here_how = dict(how)
        if how.get("driver") is None:
            here_how["driver"] = "sec2"
        try:
            there = h5py.File(url, mode, **how)
        except Exception as e:
            there = e
        try:
            here = h5py.File(local, mode, **here_how)
        except Exception as e:
            here = e
        if isinstance(there, Exception) or isinstance(here, Exception):
            both = isinstance(there, Exception) and isinstance(here, Exception)
            for one in (there, here):
                if isinstance(one, h5py.File):
                    one.close()
            return {"opened": 0, "same": both, "there": repr(there)[:600], "here": repr(here)[:600]}
        self.there, self.here = there, here
        return {"opened": 1}

    def change(self, seed, n, what, says=0):
        changes, done = Changes(seed, what), []
        for i in range(n):
            said, f = changes.one(self.here)
            done.append(said[:300])
            if says:
                print(said, file=sys.stderr, flush=True)
            got = []
            for file in (self.here, self.there):
                try:
                    got.append((1, f(file)))
                except Exception as e:
                    got.append((0, repr(e)[:900]))
            if what == "data" and "changed on the server while" in str(got[1][1]):
                return {"done": done, "changed": 1}
            if got[0][0] != got[1][0] or (got[0][0] and got[0][1] != got[1][1]):
                return {"done": done, "bad": f"{said}: here {str(got[0])[:900]}, there {str(got[1])[:900]}"}
        return {"done": done}

    def close(self):
        why = ""
        try:
            self.there.close()
        except Exception as e:
            why = str(e)[:900] or repr(e)
            self.there = None
        self.here.close()
        return {"why": why}

    def commit(self):
        self.here.flush()    # what was never written shows what a flush has left there
        return {"rc": committer().H5FDxhdf5_commit(self.there.id.id)}

    def discard(self, how):
        return {"rc": committer().H5FDxhdf5_discard(self.there.id.id, how)}

    def note(self, to):
        """What the local file holds now, also while it is open."""
        self.here.flush()
        with open(to, "wb") as out:
            pickle.dump(look(self.here), out)
        return {}

    def flush(self):
        self.there.flush()
        return {}

    def same(self):
        return {"bad": difference(look(self.here), look(self.there))}


def note(path, to, how={}):
    with h5py.File(path, "r", **({"driver": "sec2"} | how)) as f:
        found = look(f)
    with open(to, "wb") as out:
        pickle.dump(found, out)
    return {}


def compare(one, two):
    with open(one, "rb") as a, open(two, "rb") as b:
        return {"bad": difference(pickle.load(a), pickle.load(b))}


def merge(base, ours, theirs, to):
    merged = three(*(pickle.loads(pathlib.Path(p).read_bytes()) for p in (base, ours, theirs)))
    if merged is not None:
        with open(to, "wb") as out:
            pickle.dump(merged, out)
    return {"merged": merged is not None}


def main():
    both = Both()
    commands = {"open": both.open, "change": both.change, "close": both.close, "commit": both.commit, "note": both.note,
                "flush": both.flush, "discard": both.discard, "same": both.same, "note_file": note, "compare": compare,
                "merge": merge}
    for line in sys.stdin:
        words = json.loads(line)
        try:
            answer = commands[words.pop("do")](**words)
        except Exception:
            import traceback
            answer = {"raised": traceback.format_exc()[-3000:]}
        print(json.dumps(answer), flush=True)


main()
