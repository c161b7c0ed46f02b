"""A random program of reads of one file, at a URL and, for comparison, at local paths: `random_reads.py JSON`, with

  seed, ops     what the program is
  url, locals   the file, and its versions at paths that HDF5's own driver reads
  faulty        reads may fail
  replaces      (from, to): the program itself replaces the file at the server at some moment by the second version
  forks, threads   whether it may
  says          each failure is printed

Each read must bring what a local file has, all reads of one opening the same version's, or fail where that may be.
Prints a line for each difference, and then how many reads there were and how many failed. Needs h5py.
"""
import json
import os
import random
import sys
import threading
import time
import zlib

import h5py
import numpy as np
from h5py import h5s

MOST_BYTES = 8 << 20    # of one read, mostly
MOST_S = 20    # of a program: at a server that fails each read may take seconds


def canonical(value):
    """Bytes that are the same if and only if the values are."""
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.hasobject:
        value = np.asarray(value)
        return repr((value.shape, str(value.dtype), [canonical(v) for v in value.ravel().tolist()])).encode()
    if isinstance(value, (np.ndarray, np.generic)):
        return repr((value.shape, value.dtype.str, value.dtype.descr)).encode() + value.tobytes()
    if isinstance(value, h5py.Reference):
        return b"a reference" if value else b"none"
    if isinstance(value, (list, tuple)):
        return repr([canonical(v) for v in value]).encode()
    if isinstance(value, dict):
        return repr([(k, canonical(v)) for k, v in value.items()]).encode()
    return repr(value).encode()


# --- what there is, and choices among it

def objects(f):
    """Paths of groups and datasets, through all links, three levels deep."""
    groups, sets = ["/"], []
    def into(g, path, depth):
        for name in list(g)[:60]:
            full = f"{path}/{name}"
            o = g.get(name)
            if isinstance(o, h5py.Dataset):
                sets.append(full)
            elif isinstance(o, h5py.Group) and depth:
                groups.append(full)
                into(o, full, depth - 1)
    into(f, "", 3)
    return groups, sets


def selection(rng, shape, most):
    """For d[…]: a tuple of what each dimension may be indexed by."""
    sel, listed = [], False
    for n in shape:
        how = rng.random()
        if how < 0.35 or n == 0:
            sel.append(slice(None))
        elif how < 0.5:
            sel.append(rng.randrange(n))
        elif how < 0.55 and not listed and n > 3:
            sel.append(sorted(rng.sample(range(n), min(n, rng.randint(1, 40)))))
            listed = True
        else:
            a, b = sorted((rng.randint(0, n), rng.randint(0, n)))
            sel.append(slice(a, b, rng.choice((1, 1, 2, 3, 7, max(1, n // 9)))))
    n = 1
    for i, (s, size) in enumerate(zip(sel, shape)):
        if isinstance(s, slice):
            count = len(range(*s.indices(size)))
            if n * count > most:
                a = s.indices(size)[0]
                sel[i] = slice(a, min(size, a + max(1, most // n)))
                count = max(1, most // n)
            n *= max(1, count)
    return tuple(sel)


def reads_of(rng, path, d):
    """One read of the dataset, or several that follow each other, as operations (name, path, …)."""
    shape, item = d.shape, d.dtype.itemsize
    if not shape:
        return [("value", path)]
    most = MOST_BYTES // item if rng.random() < 0.2 else rng.choice((100, 5000, 100000))
    if d.dtype.hasobject:
        most = min(most, 3000)
    how = rng.random()
    n = shape[0]
    if how < 0.35 or not n or 0 in shape:
        return [("value", path, selection(rng, shape, most))]
    if how < 0.45 and not d.dtype.hasobject:
        points = [[rng.randrange(m) for m in shape] for _ in range(rng.randint(1, 200))]
        return [("points", path, points)]
    if how < 0.55 and not d.dtype.hasobject:
        blocks = []
        for _ in range(rng.randint(1, 6)):
            start = [rng.randrange(m) for m in shape]
            blocks.append((start, [rng.randint(1, max(1, min(m - a, 50))) for a, m in zip(start, shape)]))
        return [("union", path, blocks)]
    if how < 0.62 and not d.dtype.hasobject and d.dtype.kind != "V":
        return [("direct", path, rng.randint(0, n // 2), rng.randint(1, 3))]
    if how < 0.7 and d.chunks:
        return [("raw_chunks", path, rng.random(), rng.randint(1, 30))]
    if how < 0.73 and d.chunks:
        return [("each_chunk", path, rng.randint(1, 60))]
    if how < 0.76:
        return [("facts", path)]
    step = max(1, rng.choice((1, 1, 3, n // 50, n // 10)))
    starts = list(range(rng.randrange(n) if rng.random() < 0.5 else 0, n, step * rng.choice((1, 1, 1, 2, 5))))[:60]
    order = rng.random()
    if order < 0.15:
        starts.reverse()
    elif order < 0.3:
        rng.shuffle(starts)
    rest = tuple(slice(None) if rng.random() < 0.7 else slice(m // 3, m // 2 + 1) for m in shape[1:])
    width = max(1, min(step, most // max(1, int(np.prod(shape[1:])))))
    return [("value", path, (slice(a, a + width), *rest)) for a in starts]


def operations(rng, local, about, how):
    """The program: a list of operations."""
    groups, sets = objects(local)
    ops, replaced = [], False
    while len(ops) < about:
        what = rng.random()
        if what < 0.68 and sets:
            some = reads_of(rng, path := rng.choice(sets), local[path])
            if len(some) > 1 and rng.random() < 0.4:      # two in turns
                other = reads_of(rng, path := rng.choice(sets), local[path])
                some = [op for pair in zip(some, other * len(some)) for op in pair]
            ops += some
        elif what < 0.72:
            ops.append(("list", rng.choice(groups)))
        elif what < 0.76:
            ops.append(("links", rng.choice(groups)))
        elif what < 0.82:
            ops.append(("attrs", rng.choice(groups + sets)))
        elif what < 0.84:
            ops.append(("visit", rng.choice(groups)))
        elif what < 0.86:
            ops.append(("dereference", rng.choice(sets) if sets else "/"))
        elif what < 0.87:
            ops.append(("image",))
        elif what < 0.93:
            chunk_cache = rng.choice((None, None, 0, 1 << 16, 1 << 20))
            ops.append(("reopen", chunk_cache, rng.random() < 0.2))
        elif what < 0.96:
            ops.append(("pause", rng.choice((0.001, 0.01, 0.05))))
        elif what < 0.975 and how["forks"]:
            ops.append(("fork", operations(rng, local, 8, dict(how, forks=False, threads=False, replaces=None))))
        elif what < 0.985 and how["threads"]:
            one = dict(how, forks=False, threads=False, replaces=None)
            some = [operations(rng, local, 12, one) for _ in range(3)]
            ops.append(("threads", [[o for o in program if o[0] not in ("reopen", "pause")] for program in some]))
        elif how["replaces"] and not replaced and len(ops) > about // 4:
            replaced = True
            ops.append(("replace",))
    return ops


# --- doing it

def array_of(d, space, count):
    out = np.empty(count, d.dtype)
    d.id.read(h5s.create_simple((count,)), space, out)
    return out


def do(op, f):
    kind, *words = op
    o = f[words[0]] if words and isinstance(words[0], str) and kind not in ("list", "links") else None
    if kind == "value":
        return o[words[1] if len(words) > 1 else ()]
    if kind == "points":
        space = o.id.get_space()
        space.select_elements(words[1])
        return array_of(o, space, len(words[1]))
    if kind == "union":
        space = o.id.get_space()
        for i, (start, count) in enumerate(words[1]):
            space.select_hyperslab(tuple(start), tuple(count), op=h5s.SELECT_OR if i else h5s.SELECT_SET)
        return array_of(o, space, space.get_select_npoints())
    if kind == "direct":
        start, step = words[1:]
        rows = len(range(start, o.shape[0], step))
        out = np.zeros((2 * rows + 3, *o.shape[1:]), o.dtype)
        o.read_direct(out, np.s_[start::step], np.s_[1:1 + 2 * rows:2])
        return out
    if kind == "raw_chunks":
        n = o.id.get_num_chunks()
        found = [n]
        for i in range(int(n * words[1]), min(n, int(n * words[1]) + words[2])):
            info = o.id.get_chunk_info(i)
            found.append((info.chunk_offset, info.size, o.id.read_direct_chunk(info.chunk_offset)))
        return found
    if kind == "each_chunk":
        return [o[s] for s, _ in zip(o.iter_chunks(), range(words[1]))]
    if kind == "facts":
        return [o.shape, str(o.dtype), o.chunks, o.compression, o.maxshape, o.is_virtual, o.id.get_storage_size(),
                canonical(o.fillvalue)]
    if kind == "list":
        g = f[words[0]]
        return [list(g), len(g), "nothing like this" in g, [name in g for name in list(g)[:20]]]
    if kind == "links":
        g = f[words[0]]
        return [(name, type(l := g.get(name, getlink=True)).__name__, getattr(l, "path", None),
                 getattr(l, "filename", None), g.get(name, getclass=True) if len(g) < 40 else None)
                for name in list(g)[:50]]
    if kind == "attrs":
        return [(k, canonical(v)) for k, v in o.attrs.items()]
    if kind == "visit":
        seen = []
        o.visititems(lambda name, x: seen.append((name, getattr(x, "shape", None), str(getattr(x, "dtype", "")))))
        return seen
    if kind == "dereference":
        refs = o[()] if isinstance(o, h5py.Dataset) and o.dtype.hasobject and h5py.check_dtype(ref=o.dtype) else []
        return [(named(f[r]), f[r][r] if isinstance(r, h5py.RegionReference) else f[r].shape) if r else None
                for r in refs]
    if kind == "image":
        return f.id.get_file_image() if f.id.get_filesize() < 6 << 20 else None
    raise AssertionError(kind)


def named(o):
    """HDF5 searches the file for the name of what a reference leads to; h5py says None if a read fails meanwhile."""
    if o.name is None:
        raise OSError("no name was found")
    return o.name


class Reader:
    def __init__(self, how):
        self.how = how
        self.may_fail = how["faulty"]
        self.names = how["locals"]
        self.reads = self.failed = self.different = 0
        self.remote = None
        self.lock = threading.Lock()
        self.end = time.monotonic() + MOST_S
        self.open(("reopen", None, False))

    def open_locals(self, words):
        self.locals = [h5py.File(name, "r", driver="sec2", **words) for name in self.names]

    def open(self, op):
        words = {}
        if op[1] is not None:
            words["rdcc_nbytes"] = op[1]
        if self.remote and not op[2]:
            try:
                self.remote.close()
            except (RuntimeError, OSError, ValueError):
                if not self.failed:
                    raise
        self.remote = None
        self.open_locals(words)
        self.versions = set(range(len(self.names)))
        for _ in range(10):
            if time.monotonic() > self.end:
                return
            try:
                self.remote = h5py.File(self.how["url"], "r", **words)
                return
            except (OSError, ValueError) as e:
                if not self.may_fail:
                    self.tell(op, f"does not open: {type(e).__name__}: {e}")
                    sys.exit(1)
                else:
                    self.failed += 1

    def tell(self, op, what):
        self.different += 1
        if self.different < 5:
            print(f"DIFFERENT pid {os.getpid()} read {self.reads} {str(op)[:400]}: {what[:1500]}", flush=True)

    def crashes(self, op):
        """Listing many links or attributes: where a read fails meanwhile, HDF5 1.14 may crash (docs/upstream.md)."""
        if h5py.version.hdf5_version_tuple >= (2, 0, 0) or op[0] not in ("list", "links", "visit", "attrs"):
            return False
        try:
            o = self.locals[0][op[1]]
            return len(o.attrs if op[0] == "attrs" else o) > 8 or op[0] == "visit"
        except Exception:
            return True

    def one(self, op):
        if self.may_fail and self.crashes(op):
            return
        with self.lock:
            self.reads += 1
        want = []
        for f in self.locals:
            try:
                want.append(canonical(do(op, f)))
            except Exception as e:
                want.append(e)
        try:
            got = canonical(do(op, self.remote))
        except Exception as e:
            got = e
        if isinstance(got, Exception):
            if all(isinstance(w, Exception) for w in want):
                return
            self.failed += 1
            if "is in the external file" in str(got):      # what files at URLs may not name (docs/driver.md)
                return
            if not self.may_fail:
                self.tell(op, f"{type(got).__name__}: {got}")
                return
            if self.how.get("says"):
                print(f"failed {str(op)[:200]}: {type(got).__name__}: {got}", flush=True)
            return "failed"
        fits = {i for i, w in enumerate(want) if not isinstance(w, Exception) and w == got}
        with self.lock:
            self.versions &= fits
            left = bool(self.versions)
        if not left:
            w = want[min(fits, default=0)]
            if isinstance(w, Exception) and self.failed:    # HDF5 itself is no longer what it was
                pass
            elif isinstance(w, Exception):
                self.tell(op, f"local: {type(w).__name__}: {w}; remote: {got[:300]}")
            elif fits:
                self.tell(op, f"another version's than before ({fits})")
            else:
                at = next((i for i, (x, y) in enumerate(zip(w, got)) if x != y), min(len(w), len(got)))
                many = sum(x != y for x, y in zip(w, got))
                self.tell(op, f"{len(w)} and {len(got)} bytes, {many} differ, first at {at}: "
                              f"{w[at:at + 60]} {got[at:at + 60]}")
            self.versions = set(range(len(self.names)))

    def run(self, ops):
        for op in ops:
            if time.monotonic() > self.end:
                return
            if op[0] == "reopen" or not self.remote:
                self.open(op if op[0] == "reopen" else ("reopen", None, False))
                if not self.remote:
                    return
            if op[0] == "pause":
                time.sleep(op[1])
            elif op[0] == "replace":
                os.replace(*self.how["replaces"])
                self.may_fail = True
            elif op[0] == "threads":
                some = [threading.Thread(target=lambda program: [self.one(x) for x in program], args=(program,))
                        for program in op[1]]
                for t in some:
                    t.start()
                for t in some:
                    t.join()
            elif op[0] == "fork":
                self.fork(op[1])
            elif op[0] != "reopen":
                if self.one(op) == "failed" and zlib.crc32(str(op).encode()) % 3 == 0:
                    self.open(("reopen", None, False))
                    if not self.remote:
                        return

    def fork(self, ops):
        child = os.fork()
        if child == 0:
            self.different = 0
            status = 1
            try:
                self.run(ops)
                status = 0 if not self.different else 3
            except BaseException as e:
                print(f"DIFFERENT child: {type(e).__name__}: {e}", flush=True)
            finally:
                os._exit(status)
        for op in ops[:3]:
            if op[0] not in ("reopen", "pause"):
                self.one(op)
        ended = os.waitpid(child, 0)[1]
        if ended:
            self.different += 1
            print(f"DIFFERENT child ended with {ended}", flush=True)


def main():
    how = json.loads(sys.argv[1])
    rng = random.Random(f"reads {how['seed']}")
    with h5py.File(how["locals"][0], "r", driver="sec2") as local:
        ops = operations(rng, local, how["ops"], how)
    reader = Reader(how)
    reader.run(ops)
    print(f"reads={reader.reads} failed={reader.failed} different={reader.different}", flush=True)
    sys.exit(1 if reader.different else 0)


if __name__ == "__main__":
    main()
