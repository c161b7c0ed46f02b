#!/usr/bin/env python3
"""The disk cache: what was read stays when the machine's memory is gone, nothing damaged is believed, its budget holds,
and offline it alone is read.

Usage: disk_cache.py nginx|xrootd

The shadow's going with a reboot is imitated by a new directory for it; what a server was asked stands in its own log.
"""
import contextlib
import errno
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
PAGE = 4096
MIB = 1 << 20
READERS = 32
SEED = 20261126
# What a whole second reading may ask of the server: the opening, and, of XRootD, the date.
SECOND_REQUESTS = {"nginx": 2, "xrootd": 3}
SECOND_BYTES = 16384
OVER_BUDGET = 3 * MIB    # docs/shadow.md: a step of each process, and four more while it makes room

SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(int(sys.argv[2]))
most = int(sys.argv[3])
with h5py.File(sys.argv[1], "w") as f:
    f["raw"] = rng.integers(0, most, 12 << 20, np.uint8)
    f.create_dataset("zip", data=rng.integers(0, 2048, (64, 128, 128), np.uint16), chunks=(1, 128, 128),
                     compression="gzip", compression_opts=1)
    for i in range(60):
        g = f.create_group("g%d" % i)
        g.attrs["a"] = rng.integers(0, 9, 50)
        g["x"] = rng.integers(0, 9, 2000)
    f["last"] = rng.integers(0, most, 5 << 20, np.uint8)
"""
# Reads the named datasets, or all, of each URL that standard input names; "fork": in a child.
READ = """
import hashlib, os, sys, h5py
def digest(url, names):
    h = hashlib.sha256()
    with h5py.File(url, "r") as f:
        def add(name, obj):
            h.update(b"".join(v.tobytes() for _, v in sorted(obj.attrs.items())))
            if isinstance(obj, h5py.Dataset):
                step = max(1, obj.shape[0] // 8)
                for i in range(0, obj.shape[0], step):
                    h.update(obj[i:i + step].tobytes())
        for name in names:
            add(name, f[name])
        if not names:
            f.visititems(add)
    return h.hexdigest()
for line in sys.stdin:
    url, *names = line.split()
    try:
        print(digest(url, names), flush=True)
    except Exception as e:
        print("error", type(e).__name__, str(e).replace("\\n", " "), flush=True)
"""
FORK = """
import hashlib, os, sys, h5py
f = h5py.File(sys.argv[1], "r")
f["raw"][:1 << 20]
child = os.fork()
got = hashlib.sha256(f["raw"][:].tobytes() + f["last"][:].tobytes()).hexdigest()
f.close()
print(got, flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


def env_of(server, disk, shadow=None, **options):
    """A reader's environment. It has no shadow that outlives a file, unless |shadow| is one."""
    env = harness.driver_env(server, shadow, **{"stream_bytes": "1M", "disk_cache_dir": disk, **options})
    return env if shadow else {**env, "XHDF5_SHADOW": "off"}


class Skip(BaseException):
    """A claim that cannot be tried here; no failure to tap.claim."""


class Reader:
    """A process that reads what it is told."""

    def __init__(self, server, disk, shadow=None, preload=None, **options):
        env = env_of(server, disk, shadow, **options) | (preload or {})
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(harness.DATA_PYTHON), "-c", READ], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.said, text=True)

    def begin(self, url, *names):
        self.process.stdin.write(" ".join([url, *names]) + "\n")
        self.process.stdin.flush()

    def end(self):
        return self.process.stdout.readline().strip()

    def read(self, url, *names):
        self.begin(url, *names)
        return self.end()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        return os.pread(self.said.fileno(), 1 << 24, 0).decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait(60)


class Bench:
    def __init__(self, kind, root):
        self.kind, self.root = kind, pathlib.Path(root)
        self.n = 0
        self.sums = {}

    def make(self, name, seed, most=256):
        subprocess.run([harness.DATA_PYTHON, "-c", SAMPLE, self.root / name, str(seed), str(most)], check=True,
                       env=harness.clean_env())
        harness.age(self.root)
        r = subprocess.run([harness.DATA_PYTHON, "-c", READ], input=f"{self.root / name}\n", text=True, check=True,
                           env=harness.clean_env(), stdout=subprocess.PIPE)
        self.sums[name] = r.stdout.strip()
        assert len(self.sums[name]) == 64, r.stdout

    @contextlib.contextmanager
    def disk(self):
        """A new directory on a disk."""
        made = tempfile.mkdtemp(prefix="xh-disk-", dir="/var/tmp")
        try:
            yield pathlib.Path(made)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def url(self, server, name="a.h5"):
        return f"{server.url}/{name}"


def asked(server, before):
    return tuple(now - was for now, was in zip(server.requests(), before))


def taken(disk):
    return sum(p.stat().st_blocks * 512 for p in disk.rglob("*") if p.is_file())


def files(disk):
    return sorted(p for p in disk.rglob("s-*"))


class Store:
    """A file of the disk cache as bytes: cache/shadow/layout.h."""

    def __init__(self, path):
        self.path = path
        head = path.open("rb").read(80)
        assert head[:8] == b"XHSHADOW", head
        self.words, _, _ = struct.unpack_from("<III", head, 12)
        self.size, self.pages, self.sums, self.data, self.bytes = struct.unpack_from("<QQQQQ", head, 24)

    def get(self, at, n):
        with self.path.open("rb") as f:
            f.seek(at)
            return f.read(n)

    def put(self, at, what):
        with self.path.open("r+b") as f:
            f.seek(at)
            f.write(what)

    def ready(self):
        words = struct.unpack(f"<{self.pages}Q", self.get(self.words, self.pages * 8))
        return [i for i, w in enumerate(words) if w & 3 == 2]

    def page(self, i):
        return self.data + i * PAGE, min(PAGE, self.size - i * PAGE)


@contextlib.contextmanager
def small_tmpfs(base, size):
    made = base / "tmpfs"
    made.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", made], check=True)
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", made], check=True)


def reads_right(bench, server, disk, name="a.h5", shadow=None, **options):
    with Reader(server, disk, shadow, **options) as r:
        got = r.read(bench.url(server, name))
        said = r.close()
    assert got == bench.sums[name], (got, said)
    return said


def filled(bench, server, disk, *names):
    for name in names or ("a.h5",):
        reads_right(bench, server, disk, name)
    assert files(disk)


# ---- what it is for

def second_reading(bench, server):
    with bench.disk() as disk, harness.shadow_dir() as first, harness.shadow_dir() as second:
        with Reader(server, disk, first, log="stats") as r:
            assert r.read(bench.url(server)) == bench.sums["a.h5"]
            said = r.close()
        c = harness.counters(said)
        assert c["bytes_disk_stored"] >= 0.99 * bench.root.joinpath("a.h5").stat().st_size, c
        before = server.requests()
        with Reader(server, disk, second, log="stats") as r:
            assert r.read(bench.url(server)) == bench.sums["a.h5"]
            said = r.close()
        requests, came = asked(server, before)
        c = harness.counters(said)
        assert requests <= SECOND_REQUESTS[bench.kind] and came <= SECOND_BYTES, (requests, came, c)
        assert c["bytes_disk"] == c["bytes_hit"] == c["bytes_asked"], c


def without_a_hint(bench, server):
    """Nothing is known of the version: it is asked for as at a first opening. The disk has the bytes all the same."""
    with bench.disk() as disk:
        filled(bench, server, disk)
        for hint in disk.rglob("u-*"):
            hint.unlink()
        before = server.requests()
        reads_right(bench, server, disk)
        _, came = asked(server, before)
        assert came < MIB / 4, came


def part_of_it(bench, server):
    """What the disk has is read there, and only what it lacks is fetched, guesses included."""
    with bench.disk() as disk:
        with Reader(server, disk) as r:
            assert len(r.read(bench.url(server), "raw")) == 64
            r.close()
        before = server.requests()
        reads_right(bench, server, disk)
        _, came = asked(server, before)
        rest = bench.root.joinpath("a.h5").stat().st_size - 12 * MIB
        assert rest * 0.9 < came < rest + 2 * MIB, (came, rest)


def new_version(bench, server):
    with bench.disk() as disk:
        shutil.copy(bench.root / "a.h5", bench.root / "changing.h5")
        harness.age(bench.root / "changing.h5")
        bench.sums["changing.h5"] = bench.sums["a.h5"]
        filled(bench, server, disk, "changing.h5")
        shutil.copy(bench.root / "b.h5", bench.root / "changing.h5")
        day = time.time() - 43200
        os.utime(bench.root / "changing.h5", (day, day))
        bench.sums["changing.h5"] = bench.sums["b.h5"]
        reads_right(bench, server, disk, "changing.h5")
        reads_right(bench, server, disk, "changing.h5", offline="on")


def last_opened(bench, server):
    """Offline no older version is read than the one that was opened last, though that one could not be kept."""
    def changes(age_s):
        shutil.copy(bench.root / "b.h5", bench.root / "latest.h5")
        os.utime(bench.root / "latest.h5", (time.time() - age_s,) * 2)
        bench.sums["latest.h5"] = bench.sums["b.h5"]

    def keeps(disk, shadow, **options):
        shutil.copy(bench.root / "a.h5", bench.root / "latest.h5")
        harness.age(bench.root / "latest.h5")
        bench.sums["latest.h5"] = bench.sums["a.h5"]
        reads_right(bench, server, disk, "latest.h5", shadow=shadow, **options)
        reads_right(bench, server, disk, "latest.h5", shadow=shadow, offline="on", **options)

    def offline_knows_none(disk, shadow):
        with Reader(server, disk, shadow, offline="on") as r:
            got = r.read(bench.url(server, "latest.h5"))
            r.close()
        assert got.startswith("error ") and "offline=on" in got, (got, bench.sums)

    for with_shadow in False, True:
        with bench.disk() as disk, harness.shadow_dir() as made:
            shadow = made if with_shadow else None
            keeps(disk, shadow)
            changes(-3600)    # of the future: it may change again within its date
            reads_right(bench, server, disk, "latest.h5", shadow=shadow)
            offline_knows_none(disk, shadow)
    if os.geteuid() == 0:
        with bench.disk() as base, small_tmpfs(base, "64m") as disk:
            keeps(disk, None, disk_cache_bytes="1G")
            changes(43200)    # another date than age() gives
            with (disk / "filler").open("wb") as f, contextlib.suppress(OSError):
                while True:
                    f.write(bytes(4096))
                    f.flush()
            reads_right(bench, server, disk, "latest.h5", disk_cache_bytes="1G")
            offline_knows_none(disk, None)


WRITE = """
import sys, h5py
with h5py.File(sys.argv[1], "r+") as f:
    f["last"][:100] = 0
"""


def own_writing(bench, server):
    """What was written to a file is not passed over offline: the version before it is not read any more."""
    root = bench.root / "written"
    root.mkdir()
    root.chmod(0o777)    # the server may be another user
    shutil.copy(bench.root / "a.h5", root)
    harness.age(root)
    with harness.Server(bench.kind, root, words=["--writable"]) as writable, bench.disk() as disk:
        url = f"{writable.url}/a.h5"
        reads_right(bench, writable, disk)
        code, out, err = harness.run([harness.DATA_PYTHON, "-c", WRITE, url], env_of(writable, disk, writable="on"))
        assert code == 0, (code, out, err)
        with Reader(writable, disk, offline="on") as r:
            got = r.read(url)
            r.close()
        assert got.startswith("error ") and "offline=on" in got, (got, bench.sums)


def closes_soon(bench, server):
    """A file that was just changed proves nothing to the next opening: it does not come to the disk."""
    with bench.disk() as disk:
        shutil.copy(bench.root / "a.h5", bench.root / "young.h5")
        bench.sums["young.h5"] = bench.sums["a.h5"]
        reads_right(bench, server, disk, "young.h5")
        if bench.kind == "xrootd":    # its date is all that tells
            assert not files(disk), files(disk)


def a_fork(bench, server):
    r = subprocess.run([harness.DATA_PYTHON, "-c", "import h5py,sys,hashlib\nf=h5py.File(sys.argv[1])\n"
                        "print(hashlib.sha256(f['raw'][:].tobytes()+f['last'][:].tobytes()).hexdigest())",
                        bench.root / "a.h5"], env=harness.clean_env(), text=True, stdout=subprocess.PIPE, check=True)
    with bench.disk() as disk:
        env = env_of(server, disk)
        for _ in range(3):
            code, out, err = harness.run([harness.DATA_PYTHON, "-c", FORK, bench.url(server)], env)
            assert code == 0 and set(out.split()) == {r.stdout.strip()}, (code, out, err)
        reads_right(bench, server, disk)


# ---- damage

def damage_pages(store, rng):
    """Each kind of damage to some pages of the file, by name."""
    ready = store.ready()
    some = rng.sample(ready, min(40, len(ready)))

    def flip(i):
        at, n = store.page(i)
        k = at + rng.randrange(n)
        store.put(k, bytes([store.get(k, 1)[0] ^ 1 << rng.randrange(8)]))

    def zero(i):
        at, n = store.page(i)
        store.put(at, bytes(n))

    def zero_all(i):
        zero(i)
        store.put(store.sums + 8 * i, bytes(8))

    def swap(i, with_sums=False):
        j = rng.choice(ready)
        a, b = store.get(store.page(i)[0], PAGE), store.get(store.page(j)[0], PAGE)
        if store.page(j)[1] < PAGE or store.page(i)[1] < PAGE:
            return
        store.put(store.page(i)[0], b)
        store.put(store.page(j)[0], a)
        if with_sums:
            a, b = store.get(store.sums + 8 * i, 8), store.get(store.sums + 8 * j, 8)
            store.put(store.sums + 8 * i, b)
            store.put(store.sums + 8 * j, a)

    def claim_it_is_there(i):
        store.put(store.words + 8 * i, struct.pack("<Q", 7 << 32 | 2))
        zero_all(i)

    def held(i):
        store.put(store.words + 8 * i, struct.pack("<Q", 7 << 32 | rng.randrange(1, 1 << 26) << 6 | rng.choice([1, 3])))

    kinds = {"flipped": flip, "zeroed": zero, "zeroed with its sum": zero_all, "swapped": swap,
             "swapped with its sum": lambda i: swap(i, True), "said to be there": claim_it_is_there,
             "held by nobody": held}
    return {name: (lambda do=do: [do(i) for i in some]) for name, do in kinds.items()}


def damage(bench, server):
    rng = random.Random(SEED)
    with bench.disk() as disk:
        filled(bench, server, disk)
        with Reader(server, disk) as r:
            for kind in damage_pages(Store(files(disk)[0]), rng):
                damage_pages(Store(files(disk)[0]), rng)[kind]()
                got = r.read(bench.url(server))
                assert got == bench.sums["a.h5"], (kind, got)
                store = Store(files(disk)[0])
                assert len(store.ready()) > 0.99 * store.pages, (kind, len(store.ready()), store.pages)    # it heals
            r.close()


def damage_of_files(bench, server):
    """All of the file shifted, cut, grown; its words, sums or head from another time, or another file's pages."""
    rng = random.Random(SEED + 1)
    with bench.disk() as disk, bench.disk() as other, bench.disk() as saved:
        filled(bench, server, disk)
        filled(bench, server, other, "b.h5")
        whole = files(disk)[0]
        saved = saved / "whole"
        shutil.copy(whole, saved)
        s, theirs = Store(saved), Store(files(other)[0])
        assert s.bytes == theirs.bytes, (s.bytes, theirs.bytes)
        every = theirs.get(theirs.data, s.bytes - s.data)
        kinds = {
            "shifted by a page": lambda: s2.put(s.data + PAGE, s.get(s.data, s.bytes - s.data - PAGE)),
            "shifted by a sector": lambda: s2.put(s.data + 512, s.get(s.data, s.bytes - s.data - 512)),
            "another file's pages": lambda: s2.put(s.data, every),
            "another file's pages, sums and words": lambda: s2.put(s.words, theirs.get(s.words, s.bytes - s.words)),
            "another file": lambda: s2.put(0, theirs.get(0, s.bytes)),
            "no sums": lambda: s2.put(s.sums, bytes(8 * s.pages)),
            "random sums": lambda: s2.put(s.sums, rng.randbytes(8 * s.pages)),
            "random words": lambda: s2.put(s.words, rng.randbytes(8 * s.pages)),
            "head flipped": lambda: s2.put(100, bytes([s.get(100, 1)[0] ^ 4])),
            "no head": lambda: s2.put(0, bytes(4096)),
            "cut among the pages": lambda: os.truncate(whole, s.data + 5 * MIB + 17),
            "cut among the words": lambda: os.truncate(whole, s.words + 100),
            "cut to nothing": lambda: os.truncate(whole, 0),
            "cut and grown again": lambda: (os.truncate(whole, s.data + 5 * MIB), os.truncate(whole, s.bytes)),
        }
        with Reader(server, disk) as r:
            for kind, do in kinds.items():
                for stale in disk.rglob("s-*"):
                    stale.unlink()
                shutil.copy(saved, whole)
                s2 = Store(whole)
                do()
                got = r.read(bench.url(server))
                assert got == bench.sums["a.h5"], (kind, got)
            r.close()


def hints(bench, server):
    """A hint that a disk garbled costs a request, and offline an error."""
    with bench.disk() as disk:
        filled(bench, server, disk)
        hint = next(disk.rglob("u-*"))
        good = hint.read_bytes()
        for at in range(0, len(good), 3):
            bad = bytearray(good)
            bad[at] ^= 1
            hint.write_bytes(bad)
            if at % 30 == 0:
                reads_right(bench, server, disk)
            hint.write_bytes(bad)
        with Reader(server, disk, offline="on") as r:
            for at in range(0, len(good), 3):
                bad = bytearray(good)
                bad[at] ^= 1
                hint.write_bytes(bad)
                got = r.read(bench.url(server))
                assert got == bench.sums["a.h5"] or got.startswith("error"), got
            r.close()


def power_loss(bench, server):
    """Copies of the directory while a writer runs, each cut off and with blocks zeroed at random, as a power loss
    leaves it: what one has is right, or is fetched."""
    rng = random.Random(SEED + 2)
    with bench.disk() as disk, bench.disk() as copies:
        made = []
        with Reader(server, disk) as r:
            r.begin(bench.url(server))
            for i in range(6):
                harness.wait_for(lambda: taken(disk) > i * MIB or r.process.poll() is not None, "bytes on the disk")
                to = copies / str(i)
                subprocess.run(["cp", "-a", "--sparse=always", disk, to], check=False, stderr=subprocess.DEVNULL)
                made.append(to)
            assert r.end() == bench.sums["a.h5"]
            r.close()
        for to in made:
            os.chmod(to, 0o700)
            for path in files(to):
                size = path.stat().st_size
                store = Store(path) if path.open("rb").read(8) == b"XHSHADOW" else None
                if rng.random() < 0.5:
                    os.truncate(path, rng.randrange(size))
                    os.truncate(path, size)
                with path.open("r+b") as f:
                    for _ in range(200):
                        f.seek(rng.randrange(store.words if store else 0, size) // 512 * 512)
                        f.write(bytes(512))
            reads_right(bench, server, to)
            reads_right(bench, server, to)


def killed(bench, server):
    """Writers that are killed at any moment leave nothing wrong, and nothing that stays missing."""
    rng = random.Random(SEED + 3)
    with bench.disk() as disk:
        for _ in range(6):
            with Reader(server, disk) as one, Reader(server, disk) as two:
                for r in (one, two):
                    r.begin(bench.url(server))
                harness.wait_for(lambda: files(disk), "a file on the disk")
                time.sleep(rng.random() * 0.3)
                for r in (one, two):
                    r.process.send_signal(signal.SIGKILL)
        filled(bench, server, disk)
        before = server.requests()
        reads_right(bench, server, disk)
        _, came = asked(server, before)
        assert came <= SECOND_BYTES, came


# ---- a disk that fails

@contextlib.contextmanager
def failing(disk):
    """A file system over the directory |disk| that fails as it is told: (where it is, what tells it)."""
    program, control = harness.BUILD / "tests" / "integration" / "failing_disk", disk / "control"
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK) or not program.exists():
        raise Skip("no FUSE here")
    for name in "below", "mounted":
        (disk / name).mkdir(mode=0o700)
    p = subprocess.Popen([program, disk / "below", control, "-f", disk / "mounted"])

    def tell(*lines):
        control.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))

    try:
        harness.wait_for(lambda: os.path.ismount(disk / "mounted"), "the file system")
        yield disk / "mounted", tell
    finally:
        subprocess.run(["umount", "-l", disk / "mounted"], check=True)
        p.wait(20)


def failing_disk(bench, server):
    """EIO at the pages, at a few of them, at the page states and at the head; at writing; and no quota left."""
    preload = {"LD_PRELOAD": str(harness.BUILD / "tests" / "integration" / "seems_ext4.so")}

    def reads(disk, *names, **options):
        with Reader(server, disk, preload=preload, **options) as r:
            got = r.read(bench.url(server), *names)
            said = r.close()
        return got, said

    def right(disk, **options):
        got, said = reads(disk, **options)
        assert got == bench.sums["a.h5"], (got, said)
        return said

    with bench.disk() as base, failing(base) as (disk, tell):
        tell()
        said = reads_right(bench, server, disk)    # FUSE, and not ext4
        assert said.count("xhdf5: the disk cache in") == 1 and "on a local disk" in said and not files(disk), said
        right(disk)
        s = Store(files(disk)[0])
        assert len(s.ready()) > 0.99 * s.pages
        some = [s.page(i)[0] for i in random.Random(SEED + 4).sample(s.ready(), 20)]
        for what, bad in {"all pages": [(s.data, s.bytes)], "some pages": [(at, at + PAGE) for at in some],
                          "page states": [(s.words, s.sums)],
                          "one page of states": [(s.words + PAGE, s.words + PAGE + 1)],
                          "sums": [(s.sums, s.data)], "the head": [(0, s.words)], "all": [(0, s.bytes)]}.items():
            inode = files(base / "below")[0].stat().st_ino
            tell(*(["read", errno.EIO, *b, inode] for b in bad))
            right(disk)
            right(disk)
            before = server.requests()
            said = right(disk)
            came = asked(server, before)[1]
            assert came <= SECOND_BYTES, (what, came, said)    # a disk has another sector for what is written again
        for error in errno.ENOSPC, errno.EDQUOT:    # far below the budget: what is used no more gives way
            right(disk)
            tell(["quota", error, 0, s.bytes * 3 // 2, 0])
            with Reader(server, disk, preload=preload) as r:
                assert r.read(bench.url(server, "b.h5")) == bench.sums["b.h5"]
                said = r.close()
            kept = files(disk)
            assert not said and len(kept) == 1 and len(Store(kept[0]).ready()) > 0.9 * s.pages, (error, said, kept)
            tell()
            kept[0].unlink()
        for error, text in (errno.EIO, "error"), (errno.EDQUOT, "quota"), (errno.ENOSPC, "No space"):
            for path in files(disk):
                path.unlink()
            tell(["write", error, 1 << 20, s.bytes, 0])
            said = right(disk)
            assert said.count("xhdf5: the disk cache in") == 1 and text in said, said
            tell()
            right(disk)


# ---- many, and a budget

def many(bench, server):
    with bench.disk() as disk, contextlib.ExitStack() as stack, harness.shadow_dir() as shadow:
        with_shadow = [stack.enter_context(Reader(server, disk, shadow)) for _ in range(READERS // 2)]
        without = [stack.enter_context(Reader(server, disk)) for _ in range(READERS // 2)]
        for r in with_shadow + without:
            r.begin(bench.url(server))
        got = {r.end() for r in with_shadow + without}
        assert got == {bench.sums["a.h5"]}, got
        for r in with_shadow + without:
            r.close()
        before = server.requests()
        reads_right(bench, server, disk)
        _, came = asked(server, before)
        assert came <= SECOND_BYTES, came


def budget(bench, server):
    size = bench.root.joinpath("a.h5").stat().st_size
    most = int(1.6 * size)
    with bench.disk() as disk:
        for name in ("a.h5", "b.h5", "a.h5", "c.h5"):
            reads_right(bench, server, disk, name, disk_cache_bytes=most)
            assert taken(disk) <= most + OVER_BUDGET, (name, taken(disk), most)
        before = server.requests()
        reads_right(bench, server, disk, "c.h5", disk_cache_bytes=most)
        assert asked(server, before)[1] <= SECOND_BYTES, "what was read last has given way"
        reads_right(bench, server, disk, "a.h5", disk_cache_bytes=size // 2)    # less than one file
        assert taken(disk) <= size // 2 + OVER_BUDGET, taken(disk)


# ---- where it cannot be had

def unusable(bench, server):
    with bench.disk() as base:
        full, link, file, of_others = base / "full", base / "link", base / "file", base / "open"
        file.write_text("x")
        link.symlink_to(base)
        of_others.mkdir()
        os.chmod(of_others, 0o755)
        foreign = base / "foreign"
        foreign.mkdir()
        if os.geteuid() == 0:
            os.chown(foreign, 12345, 12345)
        places = [link, file, of_others, base / "no" / "where", "/proc/sys", *([foreign] if os.geteuid() == 0 else [])]
        for place in places:
            said = reads_right(bench, server, place)
            assert said.count("xhdf5: the disk cache in") == 1 and str(place) in said, (place, said)
        if os.geteuid() == 0:
            full.mkdir(mode=0o700)
            if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", full]).returncode == 0:
                try:
                    reads_right(bench, server, full, disk_cache_bytes="1G")
                    subprocess.run(["mount", "-o", "remount,ro", full], check=True)
                    said = reads_right(bench, server, full, "b.h5")
                    assert said.count("xhdf5: the disk cache in") == 1, said
                finally:
                    subprocess.run(["umount", "-l", full], check=True)


# ---- offline

def offline(bench, server):
    with bench.disk() as disk, harness.shadow_dir() as shadow:
        filled(bench, server, disk)
        with Reader(server, disk) as r:
            assert len(r.read(bench.url(server, "b.h5"), "raw")) == 64
            r.close()
        server.stop()
        said = reads_right(bench, server, disk, offline="on")
        assert not said, said
        with Reader(server, disk, shadow, offline="on") as r:
            assert r.read(bench.url(server)) == bench.sums["a.h5"]
            assert len(r.read(bench.url(server, "b.h5"), "raw")) == 64
            lacks, none = r.read(bench.url(server, "b.h5"), "last"), r.read(bench.url(server, "c.h5"))
            r.close()
        assert lacks.startswith("error ") and "b.h5: bytes" in lacks and "offline=on" in lacks, lacks
        assert none.startswith("error OSError") and "c.h5" in none and "offline=on" in none, none


def offline_asks_nobody(bench, server):
    with bench.disk() as disk:
        filled(bench, server, disk)
        env = env_of(server, disk, offline="on", sidecar="auto")
        code, out, err = harness.run(["strace", "-f", "-qq", "-e", "trace=socket,connect,sendto", "-o", disk / "trace",
                                      harness.DATA_PYTHON, "-c", READ], env, text=bench.url(server) + "\n" +
                                     bench.url(server, "c.h5") + "\n")
        assert code == 0 and out.split()[0] == bench.sums["a.h5"], (code, out, err)
        calls = (disk / "trace").read_text()
        assert "AF_INET" not in calls and "socket(" not in calls, calls


def offline_beside(bench, server):
    """A metadata image and a compressed copy stay as the file does: what came by them is read offline by them."""
    made = bench.root / "beside.h5"
    bench.make("beside.h5", 9, 3)
    code, out, err = harness.run([TOOL, "publish", "--body=zstd", made], harness.clean_env())
    assert code == 0 and len(list(bench.root.glob("beside.h5.*"))) == 2, (code, out, err)
    harness.age(bench.root)
    with bench.disk() as disk:
        for how in "auto", "body":
            reads_right(bench, server, disk, "beside.h5", sidecar=how)
            reads_right(bench, server, disk, "beside.h5", sidecar=how, offline="on")


def offline_neighbours(bench, server):
    """What came by a metadata image is read by it offline, though a neighbour that has none was opened since."""
    bench.make("imaged.h5", 12, 3)
    code, out, err = harness.run([TOOL, "publish", bench.root / "imaged.h5"], harness.clean_env())
    assert code == 0, (code, out, err)
    harness.age(bench.root)
    names = [f"g{i}/x" for i in range(0, 60, 7)]
    with bench.disk() as disk, harness.shadow_dir() as shadow, harness.shadow_dir() as next_boot:
        def read(where, name, **options):
            with Reader(server, disk, where, sidecar="auto", **options) as r:
                got = r.read(bench.url(server, name), *names)
                r.close()
            return got

        online = read(shadow, "imaged.h5")
        assert len(online) == 64, online
        assert len(read(next_boot, "b.h5")) == 64
        assert list(pathlib.Path(next_boot).rglob("n-*")), "the directory is noted as one without images"
        got = read(next_boot, "imaged.h5", offline="on")
        assert got == online, got


def offline_sources(bench, server):
    """A source of a virtual dataset that is not here is an error, not fill values; nothing is opened to be written."""
    subprocess.run([harness.DATA_PYTHON, "-c", """
import sys, h5py
with h5py.File(sys.argv[1] + "/virtual.h5", "w") as f:
    layout = h5py.VirtualLayout(2 << 20, "u1")
    for i, name in enumerate(("a.h5", "b.h5")):
        layout[i << 20:i + 1 << 20] = h5py.VirtualSource(name, "raw", 12 << 20, "u1")[:1 << 20]
    f.create_virtual_dataset("raw", layout)
""", bench.root], check=True, env=harness.clean_env())
    harness.age(bench.root)
    with bench.disk() as disk:
        filled(bench, server, disk)
        with Reader(server, disk) as r:
            assert len(r.read(bench.url(server, "virtual.h5"), "raw")) == 64
            r.close()
        for hint in disk.rglob("u-*"):    # of b.h5, all that is known
            if hint.name != "u-" + hashlib.sha256(bench.url(server, "b.h5").encode()).hexdigest():
                continue
            hint.unlink()
        with Reader(server, disk, offline="on", writable="on") as r:
            got = r.read(bench.url(server, "virtual.h5"), "raw")
            said = r.close()
        assert got.startswith("error"), (got, said)
        code, out, err = harness.run([harness.DATA_PYTHON, "-c", "import h5py, sys\nh5py.File(sys.argv[1], 'r+')",
                                      bench.url(server)], env_of(server, disk, offline="on", writable="on"))
        assert code == 1 and "offline=on" in err, (code, out, err)


def warmed_for_offline(bench, server):
    """What the shadow had before there was a disk cache is there after "xhdf5 cache warm", without being fetched again;
    also what is beside the file. When the disk cannot hold it, the tool says so."""
    bench.make("image.h5", 11, 3)
    code, out, err = harness.run([TOOL, "publish", bench.root / "image.h5"], harness.clean_env())
    assert code == 0, (code, out, err)
    harness.age(bench.root)
    for name, sidecar in ("a.h5", "off"), ("image.h5", "auto"):
        with bench.disk() as disk, bench.disk() as full, harness.shadow_dir() as shadow:
            env = env_of(server, disk, shadow, sidecar=sidecar, stream_bytes="1G")
            del env["XHDF5_DISK_CACHE_DIR"]
            r = subprocess.run([harness.DATA_PYTHON, "-c", READ], input=bench.url(server, name), text=True, env=env,
                               stdout=subprocess.PIPE, check=True)
            assert r.stdout.strip() == bench.sums[name], r.stdout
            before = server.requests()
            code, out, err = harness.run([TOOL, "cache", "warm", bench.url(server, name)],
                                         env | {"XHDF5_DISK_CACHE_DIR": str(disk)})
            assert code == 0 and asked(server, before)[1] < MIB, (code, out, err, asked(server, before))
            reads_right(bench, server, disk, name, sidecar=sidecar, offline="on")
            code, out, err = harness.run([TOOL, "cache", "warm", bench.url(server, name)],
                                         env | {"XHDF5_DISK_CACHE_DIR": str(full), "XHDF5_DISK_CACHE_BYTES": "8M"})
            assert code == 1 and "disk" in out + err, (code, out, err)
            code, out, err = harness.run([TOOL, "cache", "warm", "--metadata-only", bench.url(server, name)],
                                         env | {"XHDF5_DISK_CACHE_DIR": str(full), "XHDF5_DISK_CACHE_BYTES": "8K",
                                                "XHDF5_SIDECAR": "off"})
            assert code == 1 and "metadata" in err and "DISK_CACHE_BYTES" in err, (code, out, err)
            code, out, err = harness.run([TOOL, "cache", "warm", bench.url(server, name)],
                                         env | {"XHDF5_DISK_CACHE_DIR": "/proc/sys"})
            assert code == 3 and "disk" in out + err, (code, out, err)


def the_tool(bench, server):
    def tool(*words, **options):
        return harness.run([TOOL, *words], env_of(server, disk, shadow, **options))

    size = bench.root.joinpath("a.h5").stat().st_size
    with bench.disk() as disk:
        filled(bench, server, disk, "a.h5", "b.h5")
        with harness.shadow_dir() as shadow:
            code, out, err = tool("cache", "ls", "--json")
            kept = json.loads(out)
            assert code == 0 and {k["where"] for k in kept} == {"disk"} and len(kept) == 2, (code, out, err)
            assert all(k["bytes"] == size and not k["flaw"] for k in kept), kept
            code, out, err = tool("cache", "ls")
            assert code == 0 and out.startswith(f"disk cache {disk}: ") and out.count("/a.h5") == 1, (code, out, err)
            code, out, err = tool("doctor", "--quick", bench.url(server))
            assert "disk cache" in out and str(disk) in out, (code, out, err)
            before = server.requests()
            code, out, err = tool("cache", "warm", bench.url(server))
            assert code == 0 and asked(server, before)[1] < MIB, (code, out, err, asked(server, before))
            code, out, err = tool("cache", "verify", bench.url(server))
            assert code == 0 and "0 differ" in out, (code, out, err)
            first = next(p for p in files(disk) if b"/a.h5" in p.read_bytes()[:4096])
            store = Store(first)
            store.put(store.page(9)[0], b"x")
            code, out, err = tool("cache", "verify", bench.url(server))
            assert code == 1 and "1 differ" in out, (code, out, err)
            os.utime(first, (1, 1))
            code, out, err = tool("cache", "trim", f"{size + 2 * MIB}")
            assert code == 0 and len(files(disk)) == 1 and not first.exists(), (code, out, err)
            code, out, err = tool("cache", "trim", "0")
            assert code == 0 and not files(disk) and "takes 0 B" in out, (code, out, err)
            filled(bench, server, disk, "a.h5", "b.h5")
            assert len(files(disk)) == 2
            os.utime(next(p for p in files(disk) if b"/a.h5" in p.read_bytes()[:4096]), (2e9, 2e9))
            code, out, err = tool("cache", "trim", f"{size + 2 * MIB}")    # the clock was wrong when a.h5 was used
            assert code == 0 and b"/b.h5" in files(disk)[0].read_bytes()[:4096], (code, out, err)
            code, out, err = tool("cache", "trim", "lots")
            assert code == 2, (code, out, err)
            code, out, err = tool("cache", "rm", bench.url(server, "b.h5"))
            assert code == 0 and not files(disk), (code, out, err)
            for words in (["doctor", bench.url(server)], ["cache", "verify", bench.url(server)],
                          ["ls", bench.url(server)], ["cache", "warm", bench.url(server)]):
                code, out, err = tool(*words, offline="on")
                assert code == 3 and "offline=on" in err + out, (words, code, out, err)


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-disk-data-") as root:
        bench = Bench(kind, root)
        for i, name in enumerate(("a.h5", "b.h5", "c.h5")):
            bench.make(name, i)
        with harness.Server(kind, root) as server:
            claims = [
                (second_reading, "the second reading after the shadow is gone asks the server for the version alone"),
                (without_a_hint, "without its hint the version is asked for, and its bytes are read from the disk"),
                (part_of_it, "what the disk lacks is fetched, and nothing else"),
                (new_version, "a file that has changed is another one; offline the one that was opened last is read"),
                (last_opened, "offline no older version is read than the one that was opened last"),
                (own_writing, "offline no older version is read than the one that was written"),
                (closes_soon, "a file that was just changed leaves nothing that proves nothing"),
                (a_fork, "a fork's child and its parent read and keep"),
                (damage, "pages that are damaged, swapped or only said to be there are fetched again, and heal"),
                (damage_of_files, "a file that is shifted, cut, or has another's pages is not believed"),
                (hints, "a garbled hint is no hint"),
                (power_loss, "what a power loss leaves is right, or fetched"),
                (killed, "writers that are killed leave nothing wrong and nothing missing"),
                (failing_disk, "a disk that fails to read or to write costs speed, and heals"),
                (many, f"{READERS} processes read and keep one file"),
                (budget, "the budget holds over all files; what was used last stays"),
                (unusable, "a directory that cannot be used is told of once, and reading goes on"),
                (the_tool, "the tool shows it, checks it, makes it smaller and removes from it"),
                (warmed_for_offline, "the tool's warm brings to the disk what the shadow has"),
                (offline_beside, "offline: metadata images and compressed copies serve"),
                (offline_neighbours, "offline: a metadata image serves, whatever was found of its neighbours"),
                (offline_sources, "offline: a source that is not here is an error; nothing is opened to be written"),
                (offline_asks_nobody, "offline: no socket is made"),
                # The last, as the server stops.
                (offline, "offline: what is there is read; what is not is an error that names URL, bytes and option"),
            ]
            wanted = sys.argv[2:]
            for do, text in claims:
                if not wanted or do.__name__ in wanted:
                    begun = time.monotonic()
                    try:
                        with tap.claim(text):
                            do(bench, server)
                    except Skip as why:
                        tap.skip(text, why)
                    print(f"# {do.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
