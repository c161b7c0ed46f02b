#!/usr/bin/env python3
"""Hints and vectored reads against a real server: requests and bytes by the server's own log.

usage: hints.py nginx|xrootd BUILD_OF_TESTS [--all]    (the directory of test_hints)

What is read three times is read with all options at nginx; at XRootD with --all, else by default.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402

READ_BYTES = 2000 * 10000

# Every value follows from its number in row-major order, as in test_hints.c.
MAKE_DATA = """
import sys, h5py, numpy as np
def values(rows, width):
    v = np.arange(rows * width, dtype='u4') * np.uint32(2654435761)
    return ((v ^ v >> np.uint32(15)) * np.uint32(2246822519)).view('i4').reshape(rows, width)
def fill(f, grown):
    square = values(1024, 1024)
    f.create_dataset('gz', data=square, chunks=(64, 64), compression='gzip', shuffle=True)
    f.create_dataset('plain', data=square, chunks=(64, 64))
    g = f.create_dataset('grown', (0, 1024), 'i4', chunks=(64, 64), maxshape=grown, compression='gzip')
    for n in range(0, 1024, 128):
        g.resize(n + 128, axis=0)
        g[n:n + 128] = square[n:n + 128]
    f['scalar'] = 5
    f['nothing'] = h5py.Empty('i4')
    f.create_dataset('unwritten', (1000, 1000), 'i4', chunks=(100, 100))
    # chunks larger than the cache
    s = f.create_dataset('sparse', (10**12, 512), 'i4', chunks=(1024, 512), maxshape=(None, 512))
    s[0], s[5000] = np.arange(512), np.arange(512)
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(f.id, b'compact', h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((10,)), dcpl=p).write(
        h5py.h5s.ALL, h5py.h5s.ALL, np.arange(10, dtype='i4'))
    v = h5py.VirtualLayout((1024, 1024), 'i4')
    v[:] = h5py.VirtualSource(f['gz'])
    f.create_virtual_dataset('virtual', v)
with h5py.File(sys.argv[1] + '/old.h5', 'w', libver='earliest') as f:
    f['rows'] = values(16000, 2500)
    for i in range(100):
        f['many/%03d' % i] = np.arange(2500, dtype='i4') + 1000 * i
        f['pad/%03d' % i] = np.zeros(100000, 'i1')
    f.create_dataset('big', data=values(4096, 2048), chunks=(2048, 2048))
    s = f.create_dataset('short', (2**36, 4), 'i1', chunks=(2**29, 4))
    for i in range(128):
        s.id.write_direct_chunk((i * 2**29, 0), bytes(64))
    fill(f, (None, 1024))
for name, libver, most in (('many', 'earliest', (20000, 1024)), ('many-tree', 'latest', (None, None))):
    with h5py.File(sys.argv[1] + '/' + name + '.h5', 'w', libver=libver) as f: # space for chunks, and no data
        p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        p.set_chunk((1, 1024))
        p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        p.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        most = tuple(m or h5py.h5s.UNLIMITED for m in most)
        space = h5py.h5s.create_simple((20000, 1024), most)
        h5py.h5d.create(f.id, b'many chunks', h5py.h5t.NATIVE_INT32, space, dcpl=p)
for name, grown, block in (('new', (None, 1024), 0), ('tree', (None, None), 0), ('block', (None, 1024), 8192)):
    with h5py.File(sys.argv[1] + '/' + name + '.h5', 'w', libver='latest', userblock_size=block) as f:
        f['rows'] = values(16, 2500)
        f.create_dataset('big', data=values(8, 8), chunks=(8, 8))
        for i, turns in enumerate(('turns', 'other')):
            f.create_dataset(turns, data=np.repeat(np.arange(i, 300 + i), 3000).reshape(300, 3000), chunks=(1, 3000))
        fill(f, grown)
"""

# A version 1 B-tree of nine levels: each node of one leads 57 times to the same node of the next.
MAKE_TANGLED = """
import sys, struct, h5py
path, levels, head, each = sys.argv[1] + '/tangled.h5', 8, 24, 32
with h5py.File(path, 'w', libver='earliest') as f:
    d = f.create_dataset('d', (10000,), 'i1', chunks=(1,), maxshape=(None,))
    for i in range(200):
        d[3 * i] = 1
data = bytearray(open(path, 'rb').read())
places = [i for i in range(len(data)) if data[i:i + 5] == b'TREE\\1']
root, leaf = (next(p for p in places if data[p + 5] == level) for level in (1, 0))
node, to = data[leaf:leaf + head + 24 + 64 * each], leaf
def lead(at, level, to):
    data[at + 5] = level
    for i in range(struct.unpack_from('<H', data, at + 6)[0]):
        struct.pack_into('<Q', data, at + head + i * each + 24, to)
for level in range(1, levels):
    at = len(data)
    data += node
    lead(at, level, to)
    to = at
lead(root, levels, to)
struct.pack_into('<Q', data, 40, len(data))
open(path, 'wb').write(data)
"""
READ_TANGLED = """
import sys, time, xhdf5
with xhdf5.open(sys.argv[1], ca_bundle=sys.argv[2]) as f:
    d = f["d"]
    was = d[0:5].tolist()
    began = time.monotonic()
    xhdf5.prefetch(d, slice(9990, 9995))
    assert time.monotonic() - began < 50 and d[0:5].tolist() == was
"""

# h5py's own libhdf5, which is another than the one that test_hints is linked with.
IN_H5PY = """
import ctypes, sys, h5py
driver = ctypes.CDLL(sys.argv[1])
driver.H5Dxhdf5_prefetch.argtypes = [ctypes.c_int64, ctypes.c_int64]
driver.H5FDxhdf5_prefetch.argtypes = [ctypes.c_int64, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64),
                                      ctypes.POINTER(ctypes.c_size_t)]
with h5py.File(sys.argv[2]) as f:
    d = f['gz']
    assert driver.H5Dxhdf5_prefetch(d.id.id, 0) >= 0
    assert driver.H5FDxhdf5_prefetch(f.id.id, 1, (ctypes.c_uint64 * 1)(100), (ctypes.c_size_t * 1)(5000)) >= 0
    for r in range(0, 1024, 64):
        assert (d[r] == f['plain'][r]).all(), r
"""

# HDF5 keeps none of the index in memory here, and reads it anew each time that it goes through it.
INDEX_AGAIN = """
import sys, xhdf5
with xhdf5.open(sys.argv[1], ca_bundle=sys.argv[2], shadow=False) as f:
    config = f.id.get_mdc_config()
    config.set_initial_size, config.initial_size, config.min_size, config.max_size = True, 1024, 1024, 1024
    f.id.set_mdc_config(config)
    d = f['many chunks']
    before = xhdf5.stats(f)['reads']
    for i in range(0, 20000, 100):
        xhdf5.prefetch(d, i)
    print(xhdf5.stats(f)['reads'] - before)
"""
# Pieces of several datasets in turns, so that what is known of one is of no use for the next.
IN_TURNS = """
import sys, xhdf5
with xhdf5.open(sys.argv[1], ca_bundle=sys.argv[2], shadow=False, readahead=False) as f:
    for d in f['turns'], f['other']:
        d[5, 5], d[299, 5]
    for row, name in (7, 'turns'), (7, 'other'), (107, 'turns'), (207, 'turns'), (207, 'other'), (299, 'other'):
        xhdf5.prefetch(f[name], row)
        start = xhdf5.stats(f)
        assert (f[name][row] == row + (name == 'other')).all(), (name, row)
        late = sum(xhdf5.stats(f)[n] - start[n] for n in ('bytes_demand', 'bytes_bypass'))
        assert late == 0, (name, row, late)
"""


class Cases:
    def __init__(self, build, server):
        self.build, self.server = build, server

    def env(self, **options):
        env = dict(harness.clean_env(), XHDF5_SHADOW="off")
        env.update({f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
        return env

    def counted(self, case, name="old", **options):
        """Runs a case that stops twice; returns the (requests, bytes) between."""
        p = subprocess.Popen([self.build / "test_hints", case, f"{self.server.url}/{name}.h5", self.server.cacert],
                             env=self.env(**options), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        counts = []
        for _ in range(2):
            line = p.stdout.readline()
            if line != "now\n":
                break
            counts.append(self.server.requests())
            p.stdin.write("go\n")
            p.stdin.flush()
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0 and err == "" and len(counts) == 2, f"exit status {p.returncode}\n{out}{err}"
        n, size = (b - a for a, b in zip(*counts))
        print(f"# {case} {name} {options or ''}: {n} requests, {size} bytes")
        return n, size

    def run(self, case, name, cacert="", **options):
        status, out, err = harness.run([self.build / "test_hints", case, name, cacert], self.env(**options), timeout=120)
        assert status == 0 and err == "", f"exit status {status}\n{out}{err}"

    def remote(self, case, name="old", **options):
        self.run(case, f"{self.server.url}/{name}.h5", self.server.cacert, **options)


def check_counts(tap, c):
    kind = c.server.kind
    with tap.claim(f"2,000 random reads of 10 KB known beforehand are some 20 requests, {kind}"):
        n, size = c.counted("known")
        assert n <= 30 and size <= 1.5 * READ_BYTES, (n, size)
    with tap.claim(f"so they are with prediction switched off, {kind}"):
        n, size = c.counted("known", readahead="off")
        assert n <= 30 and size <= 1.5 * READ_BYTES, (n, size)
    with tap.claim(f"one selection of 2,000 rows is one burst, {kind}"):
        n, size = c.counted("selection", readahead="off")
        assert n <= 40 and size <= 2 * READ_BYTES, (n, size)
    with tap.claim(f"one selection of 2,000 points is one burst, {kind}"):
        n, size = c.counted("points", readahead="off")
        assert n <= 40 and size <= 2000 * 20000, (n, size)
    with tap.claim(f"H5Dread_multi of 100 data sets is one burst, {kind}"):
        n, size = c.counted("multi", readahead="off")
        assert n <= 20, (n, size)


def check_chunks(tap, c):
    kind = c.server.kind
    with tap.claim(f"chunks of a selection are fetched ahead: few requests instead of one each, {kind}"):
        for name in ("old", "new", "tree", "block"):
            untold, plain = c.counted("gz_untold", name, readahead="off")
            told, size = c.counted("gz_told", name, readahead="off")
            assert 4 * told <= untold and size <= 1.2 * plain, (name, untold, told, plain, size)
            told, size = c.counted("grown_told", name, readahead="off")
            assert 4 * told <= untold, (name, untold, told)
    with tap.claim(f"three points are three chunks, not all between, {kind}"):
        n, size = c.counted("some_chunks", readahead="off")
        whole = c.counted("gz_untold", readahead="off")[1]
        assert size <= whole / 2, (n, size, whole)
    with tap.claim(f"of chunks too large for HDF5 to read whole come the selected bytes alone, {kind}"):
        n, size = c.counted("big_chunks", readahead="off")
        assert size <= 3 * 8192 + 200000, (n, size)


def check_again(tap, c):
    """What is read three times comes as often as if nothing had been said. With a budget of 2.5 MB it does not fit."""
    kind = c.server.kind
    every = ({}, {"readahead": "off"}, {"stream_bytes": 0}, {"readahead": "off", "stream_bytes": 0},
             {"readahead_bytes": "1M"}, {"private_budget_bytes": "2500k"})
    for options in every if kind == "nginx" or "--all" in sys.argv else every[:1]:
        with tap.claim(f"hints bring no more bytes of what is read three times, {options or 'by default'}, {kind}"):
            for name in ("rows", "gz", "plain"):
                untold = c.counted(f"{name}_thrice", **options)[1]
                for said in ("once", "each"):
                    told = c.counted(f"{name}_thrice_{said}", **options)[1]
                    assert told <= 1.05 * untold + 100000, (name, said, told, untold)
    with tap.claim(f"rows that lie apart, told of six times, come to the byte once, and once in pages, {kind}"):
        for options in ({}, {"stream_bytes": 0}):
            n, size = c.counted("apart_again", readahead="off", **options)
            assert size <= 200 * (10000 + 10000 + 2 * 4096) + 100000, (n, size)


def check_large_index(tap, c):
    kind = c.server.kind
    leaves = 20000 // 64  # at least, of a B-tree whose nodes have up to 64 chunks; of version 2, 20000 // 84
    for name, what in (("many", "version 1"), ("many-tree", "version 2")):
        with tap.claim(f"the leaves of a large chunk index, a B-tree of {what}, come many at once when a selection is "
                       f"hinted, {kind}"):
            n, _ = c.counted("large_index", name)
            assert n <= leaves / 4, n
    with tap.claim(f"and for a reader of which nothing is known, who reads rows in any order, {kind}"):
        n, size = c.counted("large_index_untold", "many")
        assert n <= 300 + leaves / 4 and size <= 20 << 20, (n, size)


def check_rest(tap, c, root):
    kind = c.server.kind

    def in_python(code, name):
        argv = [harness.H5PY["3.16.0"], "-c", code, f"{c.server.url}/{name}.h5", c.server.cacert]
        status, out, err = harness.run(argv, harness.clean_env() | {"PYTHONPATH": str(harness.BUILD / "python")})
        assert status == 0 and not err, out + err
        return out
    for name in "many", "many-tree":
        with tap.claim(f"HDF5 goes through the index a few times for 200 pieces that are hinted one by one: {name}, "
                       f"{kind}"):
            reads = int(in_python(INDEX_AGAIN, name))
            print(f"# {reads} reads for 200 hints")
            assert reads < 5000     # once: some 300 leaves and more
    with tap.claim(f"pieces of two datasets may be hinted in turns, {kind}"):
        in_python(IN_TURNS, "new")
    with tap.claim(f"every layout may be hinted, {kind}"):
        for name in ("old", "new", "tree", "block"):
            c.remote("layouts", name)
            c.remote("layouts", name, readahead_bytes=0)
            c.remote("layouts", name, readahead_bytes="100k")
    with tap.claim(f"rows that lie behind their chunk's end, as the index has it, take no time, {kind}"):
        began = time.monotonic()
        c.remote("short_chunks", "old")
        assert time.monotonic() - began < 20
    with tap.claim(f"an index whose nodes lead to each other is not gone through for ever, {kind}"):
        in_python(READ_TANGLED, "tangled")
    with tap.claim(f"nonsense is an error that says so, or has no effect, {kind}"):
        c.remote("nonsense")
    with tap.claim(f"a file may be closed with hints on their way, {kind}"):
        c.remote("closed_at_once")
    with tap.claim(f"hints have no effect on local files and with other drivers, {kind}"):
        before = c.server.requests()
        c.run("layouts", f"{root}/old.h5")
        c.run("nonsense", f"{root}/new.h5")
        c.run("closed_at_once", f"{root}/old.h5")
        c.run("other_driver", f"{root}/old.h5")
        assert c.server.requests() == before
    for version, python in harness.H5PY.items():
        with tap.claim(f"hints work with the libhdf5 of h5py {version}, {kind}"):
            env = dict(harness.driver_env(c.server, readahead="off"), XHDF5_SHADOW="off")
            before = c.server.requests()[0]
            status, out, err = harness.run([python, "-c", IN_H5PY, f"{harness.plugin_dir()}/libhdf5_vfd_xhdf5.so",
                                            f"{c.server.url}/block.h5"], env)
            assert status == 0, f"exit status {status}\n{out}{err}"
            n = c.server.requests()[0] - before
            print(f"# h5py {version}: {n} requests")
            assert n <= 300, f"{n} requests for 256 chunks told and 256 not"


def main():
    kind, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-hints-", dir="/var/tmp") as root:
        os.chmod(root, 0o755)
        for make in MAKE_DATA, MAKE_TANGLED:
            status, out, err = harness.run([harness.DATA_PYTHON, "-c", make, root], harness.clean_env())
            assert status == 0, out + err
        with harness.Server(kind, root) as server:
            c = Cases(build, server)
            check_counts(tap, c)
            check_chunks(tap, c)
            check_again(tap, c)
            check_large_index(tap, c)
            check_rest(tap, c, root)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
