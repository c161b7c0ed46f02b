#!/usr/bin/env python3
"""A long sequential reading streams: the bytes are right, the requests few; a reader who pauses, comes
back, finds that the server has hung up meanwhile, or goes elsewhere, goes on without an error.

Usage: streams.py nginx|xrootd [--all]     without --all at XRootD one file alone, not many that one names
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

IMAGES = 70     # of 2 MiB: 147 MB, more than the windows and first bytes of the streams together
KEPT = 32 << 20 # stream_bytes as it is set: so much goes to the shadow, and a window that was on its way

# Reads images as standard input says ("FIRST COUNT STEP" a line), and prints a digest after each line.
READ = """
import hashlib, sys, h5py, numpy as np
with h5py.File(sys.argv[1], "r") as f:
    d = f["images"]
    image = np.zeros((1, *d.shape[1:]), d.dtype)    # one place for all: new memory costs as much as reading it
    for line in sys.stdin:
        first, count, step = map(int, line.split())
        h = hashlib.sha256()
        for i in range(count):
            d.read_direct(image, np.s_[(first + i * step) % %d])
            h.update(image)
        print(h.hexdigest(), flush=True)
""".replace("%d", str(IMAGES))

# The same images in chunks, four an image, and behind them what nobody reads. With gzip a chunk in seven is smaller by
# a third, the others are a few bytes larger: all of them packed take zlib six times as long, here and in each reader.
WRITE = """
import sys, zlib, h5py, numpy as np
path, filter = sys.argv[1:]
rng = np.random.default_rng(1)
with h5py.File(path, "w", libver="latest" if filter == "gzip" else "earliest") as f:
    d = f.create_dataset("images", (%d, 1024, 1024), np.uint16, maxshape=(None, 1024, 1024), chunks=(1, 256, 1024),
                         compression=filter or None, compression_opts=1 if filter else None)
    for i in range(%d):
        image = rng.integers(0, 2048, (1024, 1024), dtype=np.uint16)
        if filter:
            for row in range(0, 1024, 256):
                packed = (4 * i + row // 256) % 7 == 0
                d.id.write_direct_chunk((i, row, 0), zlib.compress(image[row:row + 256].tobytes(), int(packed)))
        else:
            d[i] = image
    print(d.id.get_storage_size())
    f["behind"] = rng.integers(0, 2048, 16 << 20, dtype=np.uint16)
""".replace("%d", str(IMAGES))


# A virtual dataset over sources whose columns lie side by side.
SOURCES, SOURCE_BYTES = 12, 16 << 20
WRITE_SOURCES = """
import sys, h5py, numpy as np
data, n, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
shape = (size >> 13, 4096)
layout = h5py.VirtualLayout((shape[0], n * shape[1]), np.uint16)
for i in range(n):
    with h5py.File(f"{data}/source{i}.h5", "w") as f:
        f["x"] = np.random.default_rng(i).integers(0, 2048, shape, dtype=np.uint16)
    layout[:, i * shape[1]:(i + 1) * shape[1]] = h5py.VirtualSource(f"source{i}.h5", "x", shape)
with h5py.File(f"{data}/all.h5", "w", libver="latest") as f:
    f.create_virtual_dataset("x", layout)
"""

# Reads all of it, 16 rows at a time. Prints a digest, and by how much its memory grew at most while it read.
READ_SOURCES = """
import hashlib, re, sys, h5py, numpy as np
def memory(of):
    return 1024 * int(re.search(of + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
with h5py.File(sys.argv[1], "r") as f:
    d, h = f["x"], hashlib.sha256()
    buf = np.zeros((16, d.shape[1]), d.dtype)
    before = memory("VmRSS")
    for row in range(0, d.shape[0], 16):
        d.read_direct(buf, np.s_[row:row + 16])
        h.update(buf)
    print(h.hexdigest(), memory("VmHWM") - before)
"""


class Reader:
    def __init__(self, target, env):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(harness.H5PY["3.14.0"]), "-c", READ, target], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)

    def read(self, first, count, step=1):
        self.process.stdin.write(f"{first} {count} {step}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stands(self):
        """Whether one of its requests stands still, and has not gone on since."""
        with open(f"/proc/self/fd/{self.errors.fileno()}", "rb") as f:
            last = {id: what for what, id in re.findall(rb" origin (stands|goes-on|request) (id=\S+) ", f.read())}
        return b"stands" in last.values()

    def close(self):
        """Returns what it wrote to standard error."""
        self.process.stdin.close()
        status = self.process.wait(60)
        self.errors.seek(0)
        text = self.errors.read().decode(errors="backslashreplace")
        if status:
            raise RuntimeError(text[-3000:])
        return text


class Local(Reader):
    """Of a local file: what was read once is known."""

    def __init__(self, path):
        super().__init__(path, harness.clean_env())
        self.known = {}

    def read(self, *words):
        if words not in self.known:
            self.known[words] = super().read(*words)
        return self.known[words]


def streams_in(log):
    return sum(" read stream " in line for line in log.splitlines())


def chunks(tap, server, data, name, filter, local):
    """Chunks that lie one behind the other come as a contiguous dataset does. |local|: of a file with the same images, or None. Returns
    that, or one of this file."""
    path = f"{data}/{name}.h5"
    status, out, err = harness.run([harness.DATA_PYTHON, "-c", WRITE, path, filter], harness.clean_env(), timeout=300)
    assert status == 0, err
    stored = int(out)
    local = local or Local(path)

    def remote(shadow):
        return Reader(f"{server.url}/{name}.h5", harness.driver_env(server, shadow, log="read,stats"))

    for way, steps in ("all at once", [(0, IMAGES)]), ("with pauses", [(i, 10) for i in range(0, IMAGES, 10)]):
        with tap.claim(f"{name}, {way}: chunks in order stream, in few requests"), harness.shadow_dir() as shadow:
            r = remote(shadow)
            for step in steps:
                assert r.read(*step) == local.read(*step), step
                time.sleep(0.2 if len(steps) > 1 else 0)
            log = r.close()
            c = harness.counters(log)
            assert streams_in(log) > 0, log[-2000:]
            assert c["requests"] <= 100, c  # some 30; on a busy machine the server looks far, and each window has 16
            assert c["bytes_asked"] <= c["bytes_fetched"] <= stored + (2 << 20), (stored, c)
            assert c["bytes_staged"] >= stored - 1.25 * KEPT, (stored, c)
            assert c["bytes_unused"] <= 1 << 20, c
    with tap.claim(f"{name}: one image costs a few, not all"), harness.shadow_dir() as shadow:
        r = remote(shadow)
        assert r.read(0, 1) == local.read(0, 1)
        c = harness.counters(r.close())
        assert c["bytes_fetched"] <= 10 * stored / IMAGES, c
    return local


def sources(tap, server, data):
    """What is fetched ahead of many files has one bound."""
    status, out, err = harness.run([harness.DATA_PYTHON, "-c", WRITE_SOURCES, data, str(SOURCES), str(SOURCE_BYTES)],
                                   harness.clean_env(), timeout=300)
    assert status == 0, err
    reader = [harness.H5PY["3.16.0"], "-c", READ_SOURCES]
    status, local, err = harness.run([*reader, f"{data}/all.h5"], harness.clean_env(), timeout=100)
    assert status == 0, err
    with tap.claim("sources side by side: memory for what is fetched ahead has one bound"), harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow, log="predict,stats", stream_bytes=0, readahead_bytes=16 << 20)
        status, out, err = harness.run([*reader, f"{server.url}/all.h5"], env, timeout=200)
        assert status == 0, err[-2000:]
        (want, _), (got, grown) = local.split(), out.split()
        assert got == want
        assert int(grown) < (16 << 20) + SOURCES * (4 << 20), f"{int(grown) >> 20} MiB"     # and each connection's buffers
        assert harness.counters(err)["bytes_staged"] > SOURCES * SOURCE_BYTES / 4, harness.counters(err)
        assert " siblings " in err, "first reads were not foreseen"
    with tap.claim("sources side by side: but for the first, each is opened before HDF5 asks for it, and asked for once"), \
            harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow, log="read,origin,stats", sidecar="off")
        status, out, err = harness.run([*reader, f"{server.url}/all.h5"], env, timeout=200)
        assert status == 0, err[-2000:]
        assert out.split()[0] == local.split()[0]
        assert err.count(" expected taken=1 ") == SOURCES - 1, err.count(" expected taken=1 ")
        opened = re.findall(r" read open url=\S*/(source\d+)\.h5", err)
        assert sorted(opened) == sorted(f"source{i}" for i in range(SOURCES)), opened
        heads = re.findall(r" origin send \S+ url=\S*/source\d+\.h5 method=GET ranges=0 ", err)
        assert len(heads) <= SOURCES, heads


def hang_up(server):
    """Kills nginx's workers: their connections break, the master starts others."""
    master = server.facts["pid"]

    def workers():
        return set(pathlib.Path(f"/proc/{master}/task/{master}/children").read_text().split())
    before = workers()
    assert before
    for pid in before:
        os.kill(int(pid), signal.SIGKILL)
    harness.wait_for(lambda: len(workers() - before) == len(before), "new workers")


def main():
    kind, *everything = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-streams-") as data:
        pathlib.Path(data).chmod(0o755)
        file = f"{data}/images.h5"
        status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", "images", file,
                                        "--n", str(IMAGES), "--side", "1024"], harness.clean_env(), timeout=300)
        assert status == 0, out + err
        local = Local(file)
        with harness.Server(kind, data) as server:
            url = server.url + "/images.h5"

            def remote(directory, **options):
                return Reader(url, harness.driver_env(server, directory, log="read,origin") |
                              {f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})

            for name, options in (("as it is", {}), ("one range a request", {"multirange": "off"}),
                                  ("one connection: no stream", {"connections": 1}), ("no shadow", {"shadow": "off"})):
                with tap.claim(f"{name}: in order, few requests"), harness.shadow_dir() as shadow:
                    before = server.requests()[0]
                    r = remote(shadow, **options)
                    assert r.read(0, IMAGES) == local.read(0, IMAGES)
                    streams = streams_in(r.close())
                    assert (streams > 0) == ("connection" not in name), streams
                    asked = server.requests()[0] - before
                    assert not streams or asked < 60, asked
            with tap.claim("a pause, and on"), harness.shadow_dir() as shadow:
                r = remote(shadow)
                for first in range(0, IMAGES, 10):
                    assert r.read(first, 10) == local.read(first, 10)
                    time.sleep(0.3)
                assert streams_in(r.close()) > 0
            with tap.claim("elsewhere, backwards, at random, and on in order"), harness.shadow_dir() as shadow:
                r = remote(shadow)
                for words in ((0, 20, 1), (60, 5, 1), (30, 20, -1), (3, 40, 37), (10, 50, 1)):
                    assert r.read(*words) == local.read(*words), words
                r.close()
            chunked = None
            for name, filter in ("unfiltered", ""), ("gzip", "gzip"):
                chunked = chunks(tap, server, data, name, filter, chunked)
            chunked.close()
            if kind == "nginx" or everything:
                sources(tap, server, data)
            if kind == "nginx":
                with tap.claim("the server hangs up while the stream stands still"), harness.shadow_dir() as shadow:
                    # One stream of 105 MB, of which some 25 are on the way or in sockets: the server has more to send.
                    r = remote(shadow, connections=2, readahead_bytes=16 << 20)
                    assert r.read(0, 20) == local.read(0, 20)
                    harness.wait_for(r.stands, "a stream that stands still")
                    hang_up(server)
                    assert r.read(20, 50) == local.read(20, 50)
                    assert " from=running to=delayed " in r.close(), "no request had to be sent again"
        local.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
