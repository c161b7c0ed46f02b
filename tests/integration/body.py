#!/usr/bin/env python3
"""Compressed bodies beside files: made, found, read; wrong, stale, cut and hostile ones: the right bytes every time.

Usage: body.py nginx|xrootd DYING, which is tests/support/dying_writes.c
"""
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
from sidecar import TOOL, CLIENT, bomb, counter, tool  # noqa: E402

SUFFIX = ".xhbody"
SIDE, IMAGES = 256, 24          # 3 MiB
FRAME = 32768
HEADER = "<8sIIQqIIIIQQ32s16s8x"
MAKE = """
import sys, h5py, numpy as np
n, side, kind = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = np.random.default_rng(1)
shape = n, side, side
mean = {"counts": 0.05, "bright": 20000}.get(kind, 300)
a = rng.integers(0, 65536, shape) if kind == "noise" else rng.poisson(mean, shape)
a = a.astype("u2")
with h5py.File(sys.argv[1], "w", libver="earliest") as f:
    f.create_dataset("images", data=a, chunks=(1, side // 2, side // 2) if kind == "chunked" else None)
"""


# ---- bodies made by hand: docs/sidecar.md in Python ------------------------------------------------

def xxh64(data):
    """The low half of XXH64, seed 0, as its public specification has it."""
    p1, p2, p3, p4, p5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
                          2870177450012600261)
    m = 2**64 - 1
    rotl = lambda x, r: (x << r | x >> 64 - r) & m  # noqa: E731
    turn = lambda acc, lane: rotl((acc + lane * p2) & m, 31) * p1 & m  # noqa: E731
    n, at = len(data), 0
    if n >= 32:
        acc = [(p1 + p2) & m, p2, 0, -p1 & m]
        at = n // 32 * 32
        for lanes in struct.iter_unpack("<4Q", data[:at]):
            acc = [turn(a, lane) for a, lane in zip(acc, lanes)]
        h = (rotl(acc[0], 1) + rotl(acc[1], 7) + rotl(acc[2], 12) + rotl(acc[3], 18)) & m
        for a in acc:
            h = ((h ^ turn(0, a)) * p1 + p4) & m
    else:
        h = p5
    h = (h + n) & m
    while at + 8 <= n:
        h = (rotl(h ^ turn(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & m
        at += 8
    if at + 4 <= n:
        h = (rotl(h ^ struct.unpack_from("<I", data, at)[0] * p1 & m, 23) * p2 + p3) & m
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * p5 & m, 11) * p1 & m
    for shift, p in ((33, p2), (29, p3), (32, 1)):
        h = (h ^ h >> shift) * p & m
    return h & 0xFFFFFFFF


def frame(data, says=None, of=None, flags=0xE4):
    """A zstd frame of raw blocks with a checksum. |says|: the size that it claims to unpack to; |of|: what the sum is of."""
    out = struct.pack("<IBQ", 0xFD2FB528, flags, len(data) if says is None else says)
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
    for piece in pieces:
        out += struct.pack("<I", (piece is pieces[-1]) | len(piece) << 3)[:3] + piece
    return out + struct.pack("<I", xxh64(data if of is None else of))


def packed(data):
    """The frame that the library makes, with a checksum."""
    lib = ctypes.CDLL("libzstd.so.1")
    lib.ZSTD_createCCtx.restype = ctypes.c_void_p
    lib.ZSTD_compress2.restype = ctypes.c_size_t
    z, room = ctypes.c_void_p(lib.ZSTD_createCCtx()), ctypes.create_string_buffer(2 * len(data) + 1024)
    lib.ZSTD_CCtx_setParameter(z, 201, 1)   # ZSTD_c_checksumFlag
    n = lib.ZSTD_compress2(z, room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)))
    lib.ZSTD_freeCCtx(z)
    return room.raw[:n]


def xxh32(data):
    """XXH32, seed 0, as its public specification has it."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    m = 2**32 - 1
    rotl = lambda x, r: (x << r | x >> 32 - r) & m  # noqa: E731
    n, at = len(data), 0
    if n >= 16:
        acc = [(p1 + p2) & m, p2, 0, -p1 & m]
        at = n // 16 * 16
        for lanes in struct.iter_unpack("<4I", data[:at]):
            acc = [rotl((a + lane * p2) & m, 13) * p1 & m for a, lane in zip(acc, lanes)]
        h = (rotl(acc[0], 1) + rotl(acc[1], 7) + rotl(acc[2], 12) + rotl(acc[3], 18)) & m
    else:
        h = p5
    h = (h + n) & m
    while at + 4 <= n:
        h = rotl((h + struct.unpack_from("<I", data, at)[0] * p3) & m, 17) * p4 & m
        at += 4
    for byte in data[at:]:
        h = rotl((h + byte * p5) & m, 11) * p1 & m
    for shift, p in ((15, p2), (13, p3), (16, 1)):
        h = (h ^ h >> shift) * p & m
    return h


def lz4_head(says, flags=0x4C):
    """What stands before the blocks of an lz4 frame. |flags|: 0x4C, the size and the checksum of the content are there."""
    head = bytes([flags, 0x40]) + (struct.pack("<Q", says) if flags & 8 else b"") + (bytes(4) if flags & 1 else b"")
    return struct.pack("<I", 0x184D2204) + head + bytes([xxh32(head) >> 8 & 255])


def lz4_frame(data, says=None, of=None, flags=0x4C):
    """An lz4 frame of blocks that are stored as they are. |says|, |of|: as of frame()."""
    out = lz4_head(len(data) if says is None else says, flags)
    for i in range(0, len(data), 65536):
        out += struct.pack("<I", len(data[i:i + 65536]) | 1 << 31) + data[i:i + 65536]
    return out + bytes(4) + (struct.pack("<I", xxh32(data if of is None else of)) if flags & 4 else b"")


def lz4_packed(data, says=None):
    """The frame that the library makes, with size and checksum of the content. |says|: another size than it has."""
    lib = ctypes.CDLL("liblz4.so.1")
    lib.LZ4F_compressFrame.restype = ctypes.c_size_t
    how = struct.pack("<4iQIiiIIIII", 4, 0, 1, 0, len(data), 0, 0, 1, 0, 0, 0, 0, 0)
    room = ctypes.create_string_buffer(len(data) + len(data) // 64 + 1024)
    n = lib.LZ4F_compressFrame(room, ctypes.c_size_t(len(room)), data, ctypes.c_size_t(len(data)), how)
    assert n <= len(room), "lz4 cannot pack it"
    head = lz4_head(len(data), room.raw[4])
    return lz4_head(len(data) if says is None else says, room.raw[4]) + room.raw[len(head):n]


ZSTD, LZ4 = 0, 1


def forge(path, change=None, lens=None, sums=None, start=None, how=packed, **fields):
    """The body of the file |path|, lied about as is asked for; all sums of the lies are right. |change|: other frames by number."""
    data, st = path.read_bytes(), path.stat()
    if (path, how) not in forge.frames:
        forge.frames[path, how] = [how(data[i:i + FRAME]) for i in range(0, len(data), FRAME)]
    frames = list(forge.frames[path, how])
    for i, other in (change or {}).items():
        frames[i] = other
    rows = b"".join(struct.pack("<II", (lens or {}).get(i, len(f)), (sums or {}).get(i, struct.unpack("<I", f[-4:])[0]))
                    for i, f in enumerate(frames))
    body = b"".join(frames)
    codec = LZ4 if how in (lz4_packed, lz4_frame) else ZSTD
    f = {"version": codec + 1, "codec": codec, "file_bytes": st.st_size, "mtime_s": int(st.st_mtime),
         "mtime_ns": st.st_mtime_ns % 10**9,
         "frame_bytes": FRAME, "frames": len(frames), "sidecar_bytes": 8 + 128 + len(rows) + len(body)} | fields
    raw = struct.pack(HEADER, b"\x89XHB\r\n\x1a\n", f["version"], 128, f["file_bytes"], f["mtime_s"], f["mtime_ns"],
                      f["frame_bytes"], f["frames"], f["codec"], f["sidecar_bytes"], 0, hashlib.sha256(rows).digest(),
                      hashlib.sha256(start or data[:4096]).digest()[:16])
    raw += hashlib.sha256(raw).digest()[:8]
    return struct.pack("<II", 0x184D2A50, 128 + len(rows)) + raw + rows + body


forge.frames = {}
ALL, MOST, SOME, NOT = "all", "most", "some", "nothing"


def table(path, good):
    """Name, what lies beside |path|, how much is read through it."""
    size, flip = path.stat().st_size, lambda at: good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]
    frames = struct.unpack_from("<I", good, 8 + 40)[0]
    first = 8 + 128 + 8 * frames
    zeros = bytes(FRAME)
    yield "the right one", good, ALL
    yield "one made by hand", forge(path, how=frame), MOST
    yield "frames of 32 KiB", forge(path), ALL
    yield "nothing but a header", good[:136], NOT
    yield "an empty file", b"", NOT
    yield "another kind of file", b"<html>404</html>" * 100, NOT
    yield "compressed, but no body", frame(zeros), NOT
    yield "cut in its table", good[:140], NOT
    yield "cut in its frames", good[:-1], NOT
    yield "grown", good + b"\0", NOT
    yield "a bit of the header flipped", flip(70), NOT
    yield "a bit of the table flipped", flip(139), NOT
    yield "a bit of a frame flipped", flip(first + len(good) // 2), SOME
    yield "all frames damaged", good[:first] + bytes(len(good) - first), SOME
    yield "a version that is not known", forge(path, version=2), NOT
    yield "of a smaller file", forge(path, file_bytes=size - 1), NOT
    yield "of another time", forge(path, mtime_s=1), NOT
    yield "of another file of this size and time", forge(path, start=b"x" * 4096), NOT
    yield "frames of no size", forge(path, frame_bytes=0), NOT
    yield "frames of a size that is no power of 2", forge(path, frame_bytes=FRAME + 4096), NOT
    yield "frames of 2 GiB", forge(path, frame_bytes=2**31, frames=1), NOT
    yield "more frames than the file has", forge(path, frames=2**31), NOT
    yield "fewer frames than the file has", forge(path, frames=3), NOT
    yield "a frame of no bytes", forge(path, lens={3: 0}), NOT
    yield "a frame of 4 GiB", forge(path, lens={3: 2**32 - 1}), NOT
    yield "frames that end behind it", forge(path, sidecar_bytes=70000), NOT
    yield "a frame that ends too early, so that all behind it begin within others", forge(path, lens={3: 1000}), SOME
    yield "a frame that unpacks to 1 GiB", forge(path, {3: bomb(2**30, FRAME, b"sums")}), SOME
    yield "a frame that says it unpacks to 1 GiB", forge(path, {3: bomb(2**30, 2**30, b"sums")}), SOME
    yield "a frame that unpacks to less", forge(path, {3: frame(zeros[:100])}), SOME
    yield "a frame that says less than it unpacks to", forge(path, {3: frame(zeros, says=100)}), SOME
    yield "a frame of two", forge(path, {3: frame(zeros[:FRAME // 2]) + frame(zeros[FRAME // 2:])}), SOME
    yield "a frame that holds nothing", forge(path, {3: struct.pack("<II", 0x184D2A51, 100) + bytes(100)}), SOME
    yield "a frame without a checksum", forge(path, {3: frame(zeros, flags=0xE0)[:-4]}), SOME
    yield "a frame with another's checksum", forge(path, {3: frame(zeros, of=b"something else")}), SOME
    yield "another frame than the table says", forge(path, {3: frame(zeros)}, sums={3: 1}), SOME
    yield "a codec that is not known", forge(path, version=2, codec=2), NOT
    yield "frames of lz4 in version 1, which has zstd alone", forge(path, how=lz4_packed, version=1), NOT
    yield "all frames of zstd, said to be of lz4", forge(path, version=2, codec=LZ4), SOME
    yield "all frames of lz4, said to be of zstd", forge(path, how=lz4_packed, version=1, codec=ZSTD), SOME
    yield from lz4_table(path)


def lz4_table(path):
    def lies(name, change):
        return f"lz4: {name}", forge(path, {3: change}, how=lz4_packed), SOME
    good, zeros = forge(path, how=lz4_packed), bytes(FRAME)
    first = 8 + 128 + 8 * struct.unpack_from("<I", good, 8 + 40)[0]
    flip = lambda at: good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]  # noqa: E731
    yield "lz4: the right one", good, ALL
    yield "lz4: one made by hand", forge(path, how=lz4_frame), MOST
    yield "lz4: cut in its frames", good[:-1], NOT
    yield "lz4: a bit of a frame flipped", flip(first + len(good) // 2), SOME
    yield "lz4: a bit of a frame's header flipped", flip(first + 12), SOME
    yield "lz4: a bit of a frame's checksum flipped", flip(first + struct.unpack_from("<I", good, 136)[0] - 1), SOME
    yield "lz4: all frames damaged", good[:first] + bytes(len(good) - first), SOME
    yield lies("a frame that unpacks to 4 MiB", lz4_packed(bytes(2**22)))
    yield lies("a frame that unpacks to 4 MiB, and does not say so", lz4_packed(bytes(2**22), says=FRAME))
    yield lies("a frame that unpacks to less", lz4_frame(zeros[:100]))
    yield lies("a frame that unpacks to less than it says", lz4_frame(zeros[:100], says=FRAME))
    yield lies("a frame of two", lz4_frame(zeros[:FRAME // 2]) + lz4_frame(zeros[FRAME // 2:]))
    yield lies("a frame that holds nothing", struct.pack("<II", 0x184D2A51, 100) + bytes(100))
    yield lies("a frame without a checksum", lz4_frame(zeros, flags=0x48))
    yield lies("a frame that does not say its size", lz4_frame(zeros, flags=0x44))
    yield lies("a frame that needs a dictionary", lz4_frame(zeros, flags=0x4D))
    yield lies("a frame with another's checksum", lz4_frame(zeros, of=b"something else"))
    yield lies("a frame of zstd", packed(zeros))


def unpack(packed):
    """What zstd's own stream reader gives of a file, as `zstd -d` does."""
    lib = ctypes.CDLL("libzstd.so.1")

    class Buffer(ctypes.Structure):
        _fields_ = [("p", ctypes.c_char_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    z, room, out = ctypes.c_void_p(lib.ZSTD_createDStream()), ctypes.create_string_buffer(1 << 20), b""
    take = Buffer(packed, len(packed), 0)
    while take.pos < take.size:
        give = Buffer(ctypes.cast(room, ctypes.c_char_p), len(room), 0)
        n = lib.ZSTD_decompressStream(z, ctypes.byref(give), ctypes.byref(take))
        assert not lib.ZSTD_isError(ctypes.c_size_t(n)), "zstd cannot read it"
        out += room.raw[:give.pos]
    lib.ZSTD_freeDStream(z)
    return out


def unpack_lz4(packed):
    """What lz4's own reader of frames gives of a file, as `lz4 -d` does."""
    lib = ctypes.CDLL("liblz4.so.1")
    lib.LZ4F_decompress.restype = ctypes.c_size_t
    z, room, out, at = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20), b"", 0
    assert lib.LZ4F_createDecompressionContext(ctypes.byref(z), 100) == 0
    while at < len(packed):
        made, took = ctypes.c_size_t(len(room)), ctypes.c_size_t(len(packed) - at)
        n = lib.LZ4F_decompress(z, room, ctypes.byref(made), packed[at:], ctypes.byref(took), None)
        assert not lib.LZ4F_isError(ctypes.c_size_t(n)), "lz4 cannot read it"
        out, at = out + room.raw[:made.value], at + took.value
    assert n == 0, "it ends within a frame"
    lib.LZ4F_freeDecompressionContext(z)
    return out


def seek_table(packed):
    """(packed size, size, sum) of each frame, by the table at the end that the public seekable format has."""
    n, kind, end = struct.unpack("<IBI", packed[-9:])
    assert end == 0x8F92EAB1 and kind == 0x80
    magic, size = struct.unpack_from("<II", packed, len(packed) - 17 - 12 * n)
    assert magic == 0x184D2A5E and size == 12 * n + 9
    return list(struct.iter_unpack("<III", packed[-9 - 12 * n:-9]))


# ---- readers ----------------------------------------------------------------------------------------

class Room:
    """A directory that a server has, with two files, and their sums."""

    def __init__(self, server, root):
        self.server, self.root, self.sums = server, root, {}
        for kind in ("plain", "chunked"):
            self.make(kind, kind)
        self.file = root / "plain.h5"

    def make(self, name, kind, images=IMAGES):
        path = self.root / f"{name}.h5"
        subprocess.run([harness.DATA_PYTHON, "-c", MAKE, path, str(images), str(SIDE), kind], check=True)
        harness.age(path)
        self.sums[name] = self.local(name)
        return path

    def local(self, name, *words):
        status, out, err = harness.run([CLIENT, self.root / f"{name}.h5",
                                        *(words or ("slabs", "images", f"1,{SIDE},{SIDE}"))],
                                       harness.clean_env() | {"BENCH_CHECK": "all"})
        assert status == 0, err
        return json.loads(out)["sum"]

    def body(self, name="plain"):
        return self.root / f"{name}.h5{SUFFIX}"

    def read(self, name="plain", shadow=None, words=None, log="", private=False, **options):
        with harness.shadow_dir() as fresh:
            env = harness.driver_env(self.server, shadow or fresh, log=f"stats,{log}".rstrip(","),
                                     **({"sidecar": "body", "head_bytes": 8192, "whole_file_bytes": "512k"} |
                                        options)) | {"BENCH_CHECK": "all"}
            env |= {"XHDF5_SHADOW": "off"} if private else {}
            words = words or ("slabs", "images", f"1,{SIDE},{SIDE}")
            status, out, err = harness.run([CLIENT, f"{self.server.url}/{name}.h5", *words], env)
            assert status == 0, f"exit status {status}\n{err[-3000:]}"
            return json.loads(out)["sum"], err


def count(err, name):
    """Of the original's counters on standard error."""
    return counter("\n".join(line for line in err.splitlines() if not line.endswith(SUFFIX)), name)


def what_is_read_comes_through_it(room):
    more = ({"private": True}, {"stream_bytes": 0}, {"readahead_bytes": 0}, {"connections": 1})
    for name, codec, options_of in (("plain", "zstd", more), ("plain", "lz4", ({"private": True},)),
                                    ("chunked", "zstd", more)):
        tool(f"--body={codec}", room.root / f"{name}.h5")
        raw, side = 2 * IMAGES * SIDE * SIDE, room.body(name).stat().st_size
        for options in ({}, *options_of):
            got, err = room.read(name, log="read", **options) # says why, if it is not used
            assert got == room.sums[name], err[-2000:]
            assert count(err, "bytes_body") > 0.9 * raw, (name, options, err)
            assert count(err, "bytes_fetched") < 1.2 * side, (name, options, side, err)
            assert "ignored" not in err, err


def its_pages_stay(room):
    tool("--body=zstd", room.file)
    with harness.shadow_dir() as shadow:
        got, err = room.read(shadow=shadow)
        assert got == room.sums["plain"] and count(err, "bytes_body"), err
        got, err = room.read(shadow=shadow)
        assert got == room.sums["plain"] and not count(err, "bytes_body") and count(err, "bytes_hit") > 3 << 20, err


def many_processes_share_it(room):
    tool("--body=zstd", room.file)
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(room.server, shadow, log="stats", sidecar="body", head_bytes=8192,
                                 whole_file_bytes="512k") | {"BENCH_CHECK": "all"}
        all_of = [subprocess.Popen([CLIENT, f"{room.server.url}/plain.h5", "slabs", "images", f"1,{SIDE},{SIDE}"],
                                   env=env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        ends = [p.communicate(timeout=60) for p in all_of]
        assert all(out and json.loads(out)["sum"] == room.sums["plain"] for out, _ in ends), ends


def small_reads_take_the_smaller_way(room):
    """A read of some bytes of a frame of 128 KiB fetches its pages."""
    tool("--body=zstd", room.file)
    code = ("import h5py, sys\nf = h5py.File(sys.argv[1])\nd = f['images']\n"
            "print(sum(int(d[i, 7, 5]) for i in (17, 3, 11, 20)))\n")
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(room.server, shadow, log="stats", sidecar="body", head_bytes=8192,
                                 whole_file_bytes="512k")
        far = harness.run([harness.DATA_PYTHON, "-c", code, f"{room.server.url}/plain.h5"], env)
        near = harness.run([harness.DATA_PYTHON, "-c", code, room.file], harness.clean_env())
        assert far[0] == 0 and far[1] == near[1], (far, near)
        assert count(far[2], "bytes_body") == 0, far[2]


def auto_leaves_it_where_the_link_is_fast(room):
    tool("--body=zstd", room.file)
    got, err = room.read(sidecar="auto")
    assert got == room.sums["plain"] and not count(err, "bytes_body"), err
    got, err = room.read(sidecar="off")
    assert got == room.sums["plain"] and not count(err, "bytes_body"), err


class Narrow:
    """A way to a server that carries so many bytes a second, all connections together."""

    def __init__(self, port, rate):
        self.port, self.rate, self.free, self.lock = port, rate, 0.0, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.at = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                here, there = self.listener.accept()[0], socket.create_connection(("127.0.0.1", self.port))
                here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
                there.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                threading.Thread(target=self.carry, args=(here, there, False), daemon=True).start()
                threading.Thread(target=self.carry, args=(there, here, True), daemon=True).start()

    def carry(self, of, to, slowly):
        with contextlib.suppress(OSError):
            while piece := of.recv(32768):
                if slowly:
                    with self.lock:
                        self.free = max(self.free, time.monotonic()) + len(piece) / self.rate
                        until = self.free
                    time.sleep(max(0, until - time.monotonic()))
                to.sendall(piece)
        for s in (of, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def auto_takes_it_where_the_link_is_slow(room):
    """Whether what comes is kept, or not. What the link's rates lead to is test_judge's; here they are steady for so long that
    a busy machine does not matter."""
    path = room.make("longer", "plain", 160)        # 20 MiB
    tool("--body=zstd", path)
    narrow = Narrow(int(room.server.url.rsplit(":", 1)[1]), 5e6)
    url, words = f"https://127.0.0.1:{narrow.at}/longer.h5", ("slabs", "images", f"4,{SIDE},{SIDE}")
    want = room.local("longer", *words)

    def check(options):
        with harness.shadow_dir() as shadow:
            env = harness.driver_env(room.server, shadow, log="stats,read", sidecar="auto",
                                     **options) | {"BENCH_CHECK": "all"}
            status, out, err = harness.run([CLIENT, url, *words], env)
            assert status == 0 and json.loads(out)["sum"] == want, err
            assert "body used=1" in err and count(err, "bytes_body") > 1 << 20, err[-3000:]
    try:
        for options in ({}, {"stream_bytes": 0}):
            check(options)
    finally:
        narrow.listener.close()
        tool("--remove", path)
        path.unlink()


def a_child_reads_on(room):
    code = ("import h5py, os, sys\nf = h5py.File(sys.argv[1])\nd = f['images']\nn = int(d[:12].astype('u8').sum())\n"
            "p = os.fork()\nn += int(d[12:].astype('u8').sum())\nprint(n, flush=True)\n"
            "if p == 0:\n    os._exit(0)\nassert os.waitpid(p, 0)[1] == 0\n")
    tool("--body=zstd", room.file)
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(room.server, shadow, head_bytes=8192, whole_file_bytes="512k", sidecar="body",
                                 log="stats")
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", code, f"{room.server.url}/plain.h5"], env)
        here = harness.run([harness.DATA_PYTHON, "-c", code, room.file], harness.clean_env())[1]
        assert status == 0 and out == here and len(set(out.split())) == 1, (out, here, err)


def a_changed_file(room):
    """Of another size, or of another time alone: one warning, and the new file's bytes."""
    path = room.make("changing", "plain")
    tool("--body=zstd", path)
    try:
        with harness.shadow_dir() as shadow:
            assert count(room.read("changing", shadow)[1], "bytes_body"), "it was not used"
            os.utime(path, (1e9, 1e9))
            got, err = room.read("changing", shadow)
            assert got == room.sums["changing"] and not count(err, "bytes_body") and err.count(f"{SUFFIX} is ignored") == 1, err
            room.make("changing", "plain", IMAGES + 1)
            got, err = room.read("changing", shadow)
            assert got == room.sums["changing"] and not count(err, "bytes_body") and err.count(f"{SUFFIX} is ignored") == 1, err
    finally:
        tool("--remove", path)
        path.unlink()


def right_bytes_every_time(room, tap):
    tool("--body=zstd", room.file)
    good = room.body().read_bytes()
    for name, content, used in table(room.file, good):
        with tap.claim(f"{name}: the right bytes, {used} through the body"):
            room.body().write_bytes(content)
            for stream in (None, 0):    # kept in the shadow, and not
                got, err = room.read(**({} if stream is None else {"stream_bytes": stream}))
                assert got == room.sums["plain"], err[-2000:]
                through = count(err, "bytes_body")
                least = {ALL: 3100000, MOST: 2 << 20, SOME: 1 << 20 if "all" not in name else 0, NOT: 0}[used]
                assert through >= least and (through == 0 or used != NOT), (through, err)
                assert err.count(f"{SUFFIX} is ignored: ") == (used in (SOME, NOT)), err
    room.body().unlink()


# ---- the publisher ----------------------------------------------------------------------------------

def the_tool(room, tap):
    tool("--remove", room.root)
    noise = room.make("noise", "noise")
    with tap.claim("a dry run writes nothing, and says what it would"):
        status, out, err = tool("--dry-run", "--body", room.file)
        assert status == 0 and re.search(r"in frames of \d+ KiB\), \d\.\d\d times less",
                                         out) and not room.body().exists(), out + err
    with tap.claim("a body is the file, for any reader of zstd, and its frames are where the seek table says"):
        status, out, err = tool("--body=zstd", room.file)
        packed, data = room.body().read_bytes(), room.file.read_bytes()
        assert status == 0 and unpack(packed) == data, out + err
        at = off = 0
        for size, raw, total in seek_table(packed):
            assert unpack(packed[at:at + size]) == data[off:off + raw] and total == xxh64(data[off:off + raw]), at
            at, off = at + size, off + raw
        assert off == len(data) and room.body().stat().st_mode == room.file.stat().st_mode
    with tap.claim("--body=lz4 makes what any reader of lz4 reads; a copy of another codec is replaced only if asked for"):
        counts = room.make("counts", "counts")
        for name, codec in (("lz4", LZ4), ("auto", LZ4), ("zstd", ZSTD), ("auto", ZSTD), ("lz4", LZ4)):
            status, out, err = tool(f"--body={name}", counts)
            body = room.body("counts").read_bytes()
            assert status == 0 and struct.unpack_from("<II", body, 8 + 8)[0] == codec + 1, (name, out + err)
            assert ("up to date" in out.splitlines()[-1]) == (name == "auto"), (name, out)
            assert (unpack_lz4 if codec == LZ4 else unpack)(body) == counts.read_bytes(), name
            assert tool("--check", "--body", counts)[0] == 0, name
        tool("--remove", counts)
        counts.unlink()
    with tap.claim("what lz4 does not pack is packed with zstd unless lz4 is asked for"):
        bright = room.make("bright", "bright")
        status, out, err = tool("--body=lz4", bright)
        assert status == 0 and "no compressed copy: samples of it pack 1.0" in out, out + err
        assert not room.body("bright").exists()
        status, out, err = tool("--body", bright)
        assert status == 0 and "zstd, level" in out and struct.unpack_from("<I", room.body("bright").read_bytes(),
                                                                           16)[0] == 1, out + err
        tool("--remove", bright)
        bright.unlink()
    with tap.claim("what does not pack gets none, with the reason"):
        status, out, err = tool("--body=zstd", noise)
        assert status == 0 and "no compressed copy: samples of it pack 1.0" in out and not room.body("noise").exists(), out + err
        noise.unlink()
        noise.with_name("noise.h5.xhmeta").unlink()
    with tap.claim("what is there stays; what is stale is found, and made anew"):
        was = room.body().stat().st_ino
        assert tool("--check", room.root)[0] == 1       # chunked.h5 has no image
        status, out, err = tool("--body=zstd", room.root)
        assert status == 0 and room.body().stat().st_ino == was and out.count("the compressed copy is up to date") == 1, out + err
        status, out, err = tool("--check", "--body", room.root)
        last = err.rstrip().splitlines()[-1]
        read = sum(f.with_suffix("").stat().st_size for f in room.root.glob("*.h5.xhbody")) / 2 ** 20    # it alone
        assert status == 0 and last.startswith(f"checking: {read:.1f} MiB of {read:.1f} MiB, "), (read, err)
        os.utime(room.file, (1e9, 1e9))
        status, out, err = tool("--check", room.root)
        assert status == 1 and "the compressed copy is not usable: the file was changed" in out, out + err
        assert tool("--body=zstd", room.root)[0] == 0 and tool("--check", "--body", room.root)[0] == 0
    with tap.claim("--check finds bytes that were changed behind size and time, a damaged frame, a damaged seek table"):
        good, st, side = room.body().read_bytes(), room.file.stat(), room.body()
        for at, what in ((len(good) // 2, "is damaged"), (len(good) - 30, "table at its end is damaged")):
            side.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
            status, out, err = tool("--check", room.file)
            assert status == 1 and what in out, out + err
        side.write_bytes(good)
        with open(room.file, "r+b") as f:
            f.seek(1 << 20)
            byte = f.read(1)
            for write, code in ((bytes([byte[0] ^ 1]), 1), (byte, 0)):
                f.seek(1 << 20)
                f.write(write)
                f.flush()
                os.utime(room.file, ns=(st.st_mtime_ns, st.st_mtime_ns))
                status, out, err = tool("--check", room.file)
                assert status == code and ("bytes are different" in out) == code, out + err
    with tap.claim("one that is killed leaves the old body or the new one, and the next run completes it"):
        for ms in range(0, 100, 10):
            os.utime(room.file, (1e9 + ms, 1e9 + ms))
            p = subprocess.Popen([TOOL, "publish", "--body=zstd", room.file], env=harness.clean_env(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                p.wait(ms / 1000)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            out = tool("--check", room.file)[1]
            assert "damaged" not in out and "cut" not in out, out
        assert tool("--body=zstd", room.file)[0] == 0 and tool("--check", "--body", room.file)[0] == 0
        assert not list(room.root.glob(".*.part")), list(room.root.iterdir())
    with tap.claim("who may read the file may read what lies beside it, and nobody else"):
        its_rights(room)
    with tap.claim("--remove --body removes the bodies alone, --remove all"):
        assert tool("--remove", "--body", room.root)[0] == 0 and not list(room.root.glob("*" + SUFFIX))
        assert len(list(room.root.glob("*.xhmeta"))) == 2
        assert tool("--remove", room.root)[0] == 0 and not list(room.root.glob("*.xhmeta"))
        assert tool("--body=gzip", room.file)[0] == 2


def rights(path):
    st, name = path.stat(), "system.posix_acl_access"
    return st.st_uid, st.st_gid, oct(st.st_mode), os.getxattr(path, name) if name in os.listxattr(path) else None


def acl(*entries):
    """A list of users and groups, as Linux keeps it: (kind, rights, number)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def its_rights(room):
    nobody = 2**32 - 1
    listed = acl((1, 6, nobody), (2, 4, os.getuid()), (4, 0, nobody), (16, 4, nobody), (32, 0, nobody))
    was, beside = room.file.stat(), (room.body(), pathlib.Path(f"{room.file}.xhmeta"))
    other = os.getgid()
    with contextlib.suppress(OSError):  # where we may
        os.chown(room.file, 1234, 4321)
    room.file.chmod(0o640)
    part = room.root / f".{room.file.name}{SUFFIX}.part"
    for i, change in enumerate((None, listed)):
        if change:
            try:
                os.setxattr(room.file, "system.posix_acl_access", change)
            except OSError:  # a file system without such lists
                break
        os.utime(room.file, (1e9 + i, 1e9 + i))
        (room.root / "other").write_text("not the publisher's alone")
        os.link(room.root / "other", part)
        status, out, err = tool("--body=zstd", room.file)
        assert status == 0 and (room.root / "other").read_text() == "not the publisher's alone", out + err
        assert [rights(path) for path in beside] == 2 * [rights(room.file)], (rights(room.file), *map(rights, beside))
        (room.root / "other").unlink()
    with contextlib.suppress(OSError):
        os.removexattr(room.file, "system.posix_acl_access")
    for path in beside:
        path.unlink()
    if os.geteuid() == 0:    # the publisher is no member of the file's group
        room.root.chmod(0o777)
        for mode in 0o640, 0o604, 0o664:    # who may not read it; where all may read, no group may write
            room.file.chmod(mode)
            status, out, err = harness.run(["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", TOOL,
                                            "publish", "--body=zstd", room.file], harness.clean_env())
            modes = [path.stat().st_mode & 0o777 for path in beside if path.exists()]
            assert (status, modes) == ((0, [0o644] * 2) if mode == 0o664 else (3, [])), (oct(mode), modes, out, err)
            assert status == 0 or "be given to that group" in err, err
        room.root.chmod(0o755)
    with contextlib.suppress(OSError):
        os.chown(room.file, was.st_uid, other)
    room.file.chmod(was.st_mode & 0o777)


def changed_just_now(room, name):
    """A file that was last changed in the first third of a second."""
    path = room.make(name, "plain")
    data = path.read_bytes()
    while time.time() % 1 > 0.3:
        time.sleep(0.01)
    path.write_bytes(data)
    return path


def a_change_within_the_second_of_the_last_one_shows(room):
    """A script writes a file, publishes it, and writes to it, all in one second: readers see dates to the second."""
    path = changed_just_now(room, "second")
    assert tool("--body=zstd", path)[0] == 0 and room.body("second").exists()
    with open(path, "r+b") as f:
        f.seek(-1000000, os.SEEK_END)
        f.write(bytes([1]) * 1000)
    now = room.local("second")
    got, err = room.read("second", log="read")
    assert now != room.sums["second"] and got == now and "newer or older" in err, err
    tool("--remove", path)
    path.unlink()


def a_file_servers_clock_is_behind(room):
    """The second of the last change is over when it is by the clock that dates the changes."""
    path = changed_just_now(room, "behind")
    status, out, err = at_server(path, DYING_AGED_S="5")
    assert status == 0 and int(time.time()) > int(path.stat().st_mtime), out + err
    tool("--remove", path)
    path.unlink()


def a_file_system_may_have_one_owner_for_all_files(room):
    """As of a CIFS mount, and of sshfs."""
    status, out, err = at_server(room.file, DYING_OWNER="4711")
    assert status == 0 and room.body().exists() and not list(room.root.glob(".*.part")), out + err


def at_server(path, **how):
    return harness.run([TOOL, "publish", "--body=zstd", path], harness.clean_env() | {"LD_PRELOAD": sys.argv[2]} | how)


def main():
    kind, tap = sys.argv[1], harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-body-") as d:
        os.chmod(d, 0o755)
        root = pathlib.Path(d)
        with harness.Server(kind, root) as server:
            room = Room(server, root)
            claims = (what_is_read_comes_through_it, a_changed_file) if kind != "nginx" else \
                     (what_is_read_comes_through_it, its_pages_stay, many_processes_share_it,
                      small_reads_take_the_smaller_way,
                      auto_leaves_it_where_the_link_is_fast, auto_takes_it_where_the_link_is_slow, a_child_reads_on,
                      a_changed_file, a_change_within_the_second_of_the_last_one_shows,
                      a_file_servers_clock_is_behind, a_file_system_may_have_one_owner_for_all_files)
            for claim in claims:
                tool("--remove", root)
                with tap.claim(claim.__name__.replace("_", " ")):
                    claim(room)
            if kind == "nginx":
                right_bytes_every_time(room, tap)
                the_tool(room, tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
