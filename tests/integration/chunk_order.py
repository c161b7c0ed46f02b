#!/usr/bin/env python3
"""Compressed datasets of every index type, read image by image over https: the chunks are fetched ahead in
logical order, exactly, once, and the reader asks for almost none of them itself.

Usage: chunk_order.py nginx|xrootd
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

# name: (libver, maxshape); 120 images of four chunks each
KINDS = {
    "btree1": ("earliest", None),
    "fixed": ("latest", None),
    "extensible": ("latest", "(None, 256, 256)"),
    "btree2": ("latest", "(None, None, 256)"),
}
WRITE = """
import sys, h5py, numpy as np
path, libver, maxshape = sys.argv[1:]
with h5py.File(path, "w", libver=libver) as f:
    d = f.create_dataset("images", (120, 256, 256), np.uint16, maxshape=eval(maxshape), chunks=(1, 128, 128),
                         compression="gzip", compression_opts=1)
    rng = np.random.default_rng(1)
    for i in range(120):
        d[i] = rng.integers(0, 2048, (256, 256), dtype=np.uint16)
"""
# What the library says, in logical order.
CHUNKS = """
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    d = f["images"].id
    for i in range(120):
        for r in 0, 128:
            for c in 0, 128:
                s = d.get_chunk_info_by_coord((i, r, c))
                print(s.byte_offset, s.size)
"""
READ = """
import sys, h5py, hashlib
with h5py.File(sys.argv[1]) as f:
    h, d = hashlib.sha256(), f["images"]
    for i in eval(sys.argv[2]):
        h.update(d[i].tobytes())
    print(h.hexdigest())
"""


def python(code, *args, env=None):
    status, out, err = harness.run([harness.H5PY["3.14.0"], "-c", code, *args], env or harness.clean_env(), timeout=200)
    if status:
        raise RuntimeError(err[-3000:])
    return out, err


def behind_a_node(log):
    """The first chunk that HDF5 read, and each before which it read a node of the index that had been asked for: HDF5
    came to the node before it was here, and so to its first chunk."""
    asked, late, found = set(), True, set()
    for node, kind, off, size in re.findall(r"predict node off=(\d+)|vfd read kind=(\w+) pieces=\d+ first=(\d+)\+(\d+)",
                                            log):
        if node:
            asked.add(node)
        elif kind == "meta":
            late = late or off in asked
        else:
            found |= {(int(off), int(size))} if late else set()
            late = False
    return found


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-order-") as data:
        pathlib.Path(data).chmod(0o755)
        for name, (libver, maxshape) in KINDS.items():
            python(WRITE, f"{data}/{name}.h5", libver, str(maxshape))
        with harness.Server(sys.argv[1], data) as server:
            for name in KINDS:
                read(tap, server, f"{data}/{name}.h5", name)
    return tap.done()


def read(tap, server, path, name):
    truth = [tuple(map(int, line.split())) for line in python(CHUNKS, path)[0].splitlines()]
    place = {chunk: i for i, chunk in enumerate(truth)}
    for way, images in ("forwards", "range(120)"), ("backwards", "range(119, -1, -1)"):
        with harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow, log="predict,vfd,stats")
            before = server.requests()
            want, _ = python(READ, path, images)
            got, err = python(READ, f"{server.url}/{name}.h5", images, env=env)
            requests, size = (b - a for a, b in zip(before, server.requests()))
        tap.ok(got == want, f"{name}, {way}: the bytes are the file's")
        ahead = [tuple(map(int, m)) for m in re.findall(r"predict chunk off=(\d+) len=(\d+)", err)]
        strange = [a for a in ahead if a not in place]
        tap.ok(ahead and not strange, f"{name}, {way}: what is fetched ahead are chunks, whole",
               strange[:5] or err[-500:])
        ranks = [place[a] for a in ahead if a in place]
        if way == "forwards":
            tap.ok(ranks == sorted(set(ranks)), f"{name}: chunks are fetched ahead in logical order, once", ranks)
            missed = set(truth) - set(ahead) - behind_a_node(err)
            tap.ok(not missed, f"{name}: all chunks are, but those whose index node HDF5 came to before it was here",
                   f"{missed}; {len(ranks)} of {len(truth)}")
        else:
            # Each image's four chunks upwards, the images downwards, known after two or three of them.
            order = [(119 - rank // 4) * 4 + rank % 4 for rank in ranks]
            late = order[len(order) // 8:]
            tap.ok(late == sorted(set(late)), f"{name}, {way}: chunks are fetched ahead in the reader's order", late)
            tap.ok(len(set(ranks)) >= 0.9 * len(truth), f"{name}, {way}: nearly all are",
                   f"{len(set(ranks))} of {len(truth)}")
        file_size = pathlib.Path(path).stat().st_size
        tap.ok(size <= 1.1 * file_size, f"{name}, {way}: little crosses the link twice", f"{size} bytes of {file_size}")
        tap.ok(requests <= len(truth) / 2, f"{name}, {way}: many chunks share a request", f"{requests} requests")
        asked = harness.counters(err)
        tap.ok(asked["bytes_demand"] <= 0.1 * asked["bytes_asked"], f"{name}, {way}: hardly any is fetched on demand",
               asked)


if __name__ == "__main__":
    sys.exit(main())
