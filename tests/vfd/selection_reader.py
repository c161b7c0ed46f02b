"""Reads random selections of the files that selections.py makes, and prints a sum of each buffer, untouched bytes included.

usage: selection_reader.py DIRECTORY-OR-URL SEED ROUNDS [r | r+ | half]    (any h5py)

half: says when half of a dataset was read, and reads the rest once a line comes on standard input.
"""
import hashlib
import random
import sys

import h5py
import numpy as np
from h5py import h5s, h5t

FILES = {  # opened with
    "plain.h5": {}, "plain.h5 ": {"rdcc_nbytes": 0}, "user.h5": {"rdcc_nbytes": 0},
    "pages.h5": {"page_buf_size": 65536}}


def hyperslab(rnd, dims):
    """start, count, stride, block of something that lies in |dims|."""
    out = []
    for n in dims:
        block = min(n, rnd.choice((1, 1, 1, 2, rnd.randint(1, n))))
        stride = block + rnd.choice((0, 1, 2, 9, rnd.randint(0, n)))
        start = rnd.randint(0, n - block)
        count = rnd.choice((1, 2, n)) if rnd.random() < 0.8 else n
        out.append((start, max(1, min(count, (n - start - block) // stride + 1)), stride, block))
    return tuple(zip(*out))


def selected(rnd, dims, ordered):
    """A dataspace of |dims| with something selected. |ordered|: points in their order, each once."""
    s, kind = h5s.create_simple(dims), rnd.random()
    if kind < 0.05:
        s.select_none()
    elif kind < 0.15:
        n = rnd.choice((1, 10, 5000))
        points = [[rnd.randrange(d) for d in dims] for _ in range(n)]
        s.select_elements(sorted(map(list, set(map(tuple, points)))) if ordered else points)
    elif kind < 0.9:
        start, count, stride, block = hyperslab(rnd, dims)
        s.select_hyperslab(start, count, stride, block)
        if kind > 0.6:
            for _ in range(rnd.randint(1, 4)):
                start, count, stride, block = hyperslab(rnd, dims)
                s.select_hyperslab(start, count, stride, block,
                                   op=rnd.choice((h5s.SELECT_OR, h5s.SELECT_OR, h5s.SELECT_XOR, h5s.SELECT_AND,
                                                  h5s.SELECT_NOTB)))
    return s


def memory(rnd, n):
    """A dataspace with |n| elements selected, and how many it has."""
    kind = rnd.random()
    if n == 0:
        s = h5s.create_simple((7,))
        s.select_none()
        return s, 7
    if kind < 0.4:
        return h5s.create_simple((n,)), n
    if kind < 0.6 and n <= 5000:
        at = rnd.sample(range(2 * n + 3), n)
        s = h5s.create_simple((2 * n + 3,))
        s.select_elements([[i] for i in at])
        return s, 2 * n + 3
    across = rnd.choice([k for k in (1, 2, 3, 5, 7, 100, n) if n % k == 0])
    step = rnd.choice((1, 2, 3))
    dims = (n // across, step * across + 2)
    s = h5s.create_simple(dims)
    s.select_hyperslab((0, 1), (dims[0], across), (1, step))
    return s, dims[0] * dims[1]


def sum_of(a):
    return hashlib.sha256(a.tobytes()).hexdigest()[:16]


def types_of(d):
    yield d.dtype
    if d.dtype.names:
        yield np.dtype([("y", d.dtype["y"])])
    elif d.dtype.byteorder == ">":
        yield d.dtype.newbyteorder("=")
    elif d.dtype.kind == "i":
        yield np.dtype("f8")


def one(rnd, d):
    # Others of a virtual dataset are an error or end the program, in HDF5 itself: docs/upstream.md.
    of_file = selected(rnd, d.shape, ordered=d.is_virtual)
    n = of_file.get_select_npoints()
    of_memory, size = memory(rnd, n)
    dtype = rnd.choice(list(types_of(d)))
    a = np.frombuffer(bytearray(b"\xa5") * (size * dtype.itemsize), dtype)
    try:
        d.id.read(of_memory, of_file, a, h5t.py_create(dtype))
    except OSError as e:  # HDF5 itself cannot do all that it should, of virtual datasets
        return f"{n} of {d.size} as {dtype}: {str(e)[:60]}"
    return f"{n} of {d.size} as {dtype}: {sum_of(a)}"


# start, stride, count, block: few and many pieces; dense, just dense, just not; up to the dataset's last element.
EDGES = {
    "large": [((0,), (3,), (500_000,), (1,)), ((9,), (10,), (149_999,), (2,)), ((0,), (1024,), (1464,), (1,)),
              ((0,), (1025,), (1463,), (1,)),
              ((7,), (4000,), (300,), (2048,)),
              ((7,), (4000,), (300,), (2049,)), ((1_499_999,), (1,), (1,), (1,)), ((0,), (2,), (17,), (1,)),
              ((1,), (2,), (749_999,), (1,)), ((0,), (200,), (7_000,), (200,)), ((3,), (900_000,), (2,), (500_000,))],
    "table": [((0, 5), (1, 1), (700, 1), (1, 1)), ((0, 0), (1, 3), (700, 100), (1, 1)),
              ((1, 1), (2, 7), (350, 42), (1, 3)),
              ((0, 299), (3, 1), (234, 1), (1, 1)), ((2, 0), (4, 1), (174, 300), (2, 1)),
              ((0, 1), (1, 1), (700, 1), (1, 299))],
    "cube": [((0, 0, 3), (1, 2, 1), (40, 25, 1), (1, 1, 1)), ((1, 1, 1), (3, 4, 5), (13, 12, 11), (2, 3, 4)),
             ((0, 0, 0), (2, 2, 1), (20, 25, 60), (1, 1, 1)),
             ((39, 0, 0), (1, 7, 3), (1, 7, 20), (1, 2, 1)),
             ((0, 49, 0), (1, 1, 1), (1, 1, 1), (40, 1, 60)), ((0, 0, 0), (2, 1, 1), (20, 1, 1), (1, 50, 60))],
}


def edges(f):
    """Regular hyperslabs, into memory in one piece and in pieces that end where those of the file do not."""
    for key, slabs in EDGES.items():
        for i, (start, stride, count, block) in enumerate(slabs):
            of_file = h5s.create_simple(f[key].shape)
            of_file.select_hyperslab(start, count, stride, block)
            n = of_file.get_select_npoints()
            for across in (n, 7):
                dtype = f[key].dtype
                a = np.full((n // across + 1, (across + 1) * dtype.itemsize), 0xa5, "u1").view(dtype)
                of_memory = h5s.create_simple(a.shape)
                of_memory.select_hyperslab((0, 0), (n // across, across))
                if n % across:
                    of_memory.select_hyperslab((n // across, 0), (1, n % across), op=h5s.SELECT_OR)
                f[key].id.read(of_memory, of_file, a)
                yield f"{key} edge {i} {across}: {sum_of(a)}"


def all_rounds(place, seed, rounds, mode):
    rnd = random.Random(seed)
    for name, words in FILES.items():
        if mode != "r" and "page_buf_size" in words:
            continue
        with h5py.File(f"{place}/{name.strip()}", mode, **words) as f:
            if name == "plain.h5":
                print("\n".join(edges(f)))
            for i in range(rounds):
                for key in sorted(f):
                    print(name, key, i, one(random.Random(rnd.random()), f[key]))


def half(place):
    with h5py.File(f"{place}/plain.h5", "r") as f:
        d = f["large"]
        d[:d.size // 2]
        print("half", flush=True)
        sys.stdin.readline()
        try:
            print("read", sum_of(d[::7]))
        except OSError as e:
            print("OSError", e)


def main():
    place, seed, rounds, mode = [*sys.argv[1:], "r"][:4]
    if mode == "half":
        half(place)
    else:
        all_rounds(place, int(seed), int(rounds), mode)


if __name__ == "__main__":
    main()
