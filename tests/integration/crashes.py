#!/usr/bin/env python3
"""What happens to the shadow's files and processes, end to end: right bytes, or a clear error, and a shadow that heals.

Usage: crashes.py [--all | WORD …]     with words: only the claims that hold one of them; with neither those of every day

A real nginx, h5py and the C reader, real mounts, pid namespaces and control groups; each is skipped with a
reason where this user may not make one. docs/shadow.md has the table of all that is tried, here and below.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

H5PY, READ_IMAGES = faults.H5PY, faults.READ_IMAGES
KEEP_ALL = {"stream_bytes": 1 << 40}
MIB = 1 << 20
PAGE = 4096

# 24 MiB of raw data, and metadata that fill some hundred pages.
MAKE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(int(sys.argv[2]))
with h5py.File(sys.argv[1], "w") as f:
    d = f.create_dataset("images", (24, 512, 1024), np.uint16)
    for i in range(24):
        d[i] = rng.integers(0, 65535, d.shape[1:], np.uint16)
    for i in range(300):
        s = f.create_dataset(f"g{i % 7}/s{i}", data=rng.integers(0, 999, 50))
        s.attrs["number"] = int(sys.argv[2]) + i
"""
# Each line on standard input reads the whole file once, or a part, and prints its digest.
READ = """
import hashlib, os, sys, h5py
taken = b"x" * int(os.environ.get("OWN_BYTES", "0"))
def digest(f, part):
    h = hashlib.sha256()
    if part != "metadata":
        d = f["images"]
        for i in range(8 if part == "begin" else d.shape[0]):
            h.update(d[i].tobytes())
    if part != "begin":
        names = []
        f.visititems(lambda name, o: names.append(name))
        for n in sorted(n for n in names if n != "images"):
            for k, v in sorted(f[n].attrs.items()):
                h.update(f"{n} {k} {v}".encode())
            if part == "all" and isinstance(f[n], h5py.Dataset):
                h.update(f[n][...].tobytes())
    return h.hexdigest()
f = h5py.File(sys.argv[1], "r")
for line in sys.stdin:
    print(digest(f, line.strip()), flush=True)
f.close()
"""


class Reader:
    """A process that reads what it is told to."""

    def __init__(self, url, env, before=()):
        self.process = subprocess.Popen([*before, str(H5PY), "-c", READ, str(url)], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ask(self, part):
        self.process.stdin.write(part + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise AssertionError(f"the reader ended: {self.process.wait(20)}\n{self.process.stderr.read()[-3000:]}")
        return line

    def read(self, part="all"):
        self.ask(part)
        return self.answer()

    def end(self):
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, f"exit status {self.process.returncode}\n{err[-3000:]}"

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate()


class Place:
    """The server's file, and what is right."""

    def __init__(self, server, directory):
        self.server, self.directory, self.runs = server, directory, 0
        self.file = directory / "f.h5"
        self.make(1)

    def make(self, seed):
        self.right = {}
        status, out, err = harness.run([H5PY, "-c", MAKE, self.file, seed], harness.clean_env())
        assert status == 0, out + err
        self.file.chmod(0o644)
        harness.age(self.file)
        with Reader(self.file, harness.clean_env()) as r:
            for part in ("begin", "metadata", "all"):
                self.right[part] = r.read(part)
            r.end()

    def env(self, shadow, **options):
        env = harness.driver_env(self.server, shadow, **{**KEEP_ALL, **options})
        # No token of the user who runs this
        return env | {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(self.directory)}

    @property
    def url(self):
        return f"{self.server.url}/f.h5"

    def whole(self, env, before=()):
        with Reader(self.url, env, before) as r:
            assert r.read() == self.right["all"], "wrong bytes"
            r.end()


def shadow_file(directory):
    found = list(directory.glob("v*/s-*"))
    assert len(found) == 1, found
    return found[0]


def layout(path):
    """Where words, sums and pages begin: docs/shadow.md."""
    head = path.read_bytes()[:80]
    return dict(zip(("words", "sums", "pages"), (int.from_bytes(head[a:b], "little") for a, b in
                                                 ((12, 16), (40, 48), (48, 56)))))


# --- damage -----------------------------------------------------------------------------------------

def write(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)


def regrown(path):
    size = path.stat().st_size
    os.truncate(path, layout(path)["pages"] + 5 * MIB)
    os.truncate(path, size)


NOISE = random.Random(1).randbytes(3 * MIB)
DAMAGES = {
    "truncated to nothing": lambda p: os.truncate(p, 0),
    "truncated among its words": lambda p: os.truncate(p, layout(p)["words"] + 8),
    "truncated among its pages": lambda p: os.truncate(p, layout(p)["pages"] + 3 * MIB + 77),
    "truncated and grown again": regrown,
    "scribbled over in its head": lambda p: write(p, 300, b"rubbish"),
    "scribbled over in its words": lambda p: write(p, layout(p)["words"], NOISE[:30000]),
    "scribbled over in its sums": lambda p: write(p, layout(p)["sums"], NOISE[:30000]),
    "scribbled over in its pages": lambda p: write(p, layout(p)["pages"] + 1000, NOISE),
    "scribbled over everywhere": lambda p: write(p, 0, NOISE),
    "filled with zeros behind its words": lambda p: write(p, layout(p)["pages"], bytes(20 * MIB)),
    "of another layout version": lambda p: write(p, 8, b"\x63"),
    "removed": lambda p: p.unlink(),
    "replaced by an empty file": lambda p: (p.unlink(), p.touch(0o600)),
    "replaced by a directory": lambda p: (p.unlink(), p.mkdir()),
    "made readable by others": lambda p: p.chmod(0o644),
}


def heals(place, env):
    """Readers that come later are right, and then one of them needs almost nothing from the server."""
    place.whole(env)
    before = place.server.requests()
    place.whole(env)
    after = place.server.requests()
    assert after[0] - before[0] <= 3 and after[1] - before[1] < 100_000, f"{before} {after}: nothing is shared"


def damaged_while_mapped(place, damage):
    with harness.shadow_dir() as shadow:
        env = place.env(shadow)
        with Reader(place.url, env) as r, Reader(place.url, env) as late:
            assert r.read("begin") == place.right["begin"]
            assert r.read("metadata") == place.right["metadata"]
            late.ask("all")
            time.sleep(0.05)    # a moment in which it may be anywhere, also on the engine's thread
            damage(shadow_file(shadow))
            assert late.answer() == place.right["all"], "wrong bytes of one who was reading"
            for part in ("metadata", "begin", "all"):
                assert r.read(part) == place.right[part], f"wrong bytes of {part}"
            place.whole(env)
            assert r.read() == place.right["all"]
            r.end()
            late.end()
        heals(place, env)


def damaged_at_rest(place, damage):
    with harness.shadow_dir() as shadow:
        env = place.env(shadow)
        place.whole(env)
        damage(shadow_file(shadow))
        heals(place, env)


# What the others are kinds of.
DAILY = ("truncated among its words while", "truncated and grown again while", "scribbled over in its words while",
         "scribbled over in its pages at rest", "of another layout version while")


# --- death ------------------------------------------------------------------------------------------

def killed_at_random(place, rounds):
    """Readers of both kinds share a small shadow, are killed and suspended; whoever comes to an end is right."""
    rng = random.Random(3)
    with harness.shadow_dir() as shadow:
        env = place.env(shadow, shadow_budget_bytes=8 * MIB, stall_timeout_ms=2000)
        want = re.search(r"sum=(\w+)", harness.run([READ_IMAGES, place.file, "images"], harness.clean_env())[1])[1]
        ended = 0
        for _ in range(rounds):
            running = [subprocess.Popen([str(READ_IMAGES), place.url, "images"], env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
            stopped = running[0]
            time.sleep(rng.random() * 0.15)     # a moment, not a wait for something
            stopped.send_signal(signal.SIGSTOP)
            for p in running[1:3]:
                time.sleep(rng.random() * 0.05)
                p.kill()
            out, err = running[3].communicate(timeout=60)
            assert f"sum={want}" in out, out + err[-2000:]
            stopped.send_signal(signal.SIGCONT)
            out, err = stopped.communicate(timeout=60)
            assert f"sum={want}" in out, "the one that was suspended: " + out + err[-2000:]
            for p in running[1:3]:
                out, _ = p.communicate(timeout=60)
                assert p.returncode == -signal.SIGKILL or f"sum={want}" in out, out
            ended += 2
        place.whole(env)
        place.whole(env)


def claims_across_namespaces(place, liar, bench):
    """Two pid namespaces and one tmpfs. The claim of one who is suspended is waited for, and then fetched privately; the
    claim of one who was killed is taken over at once."""
    sample = json.loads(harness.run([H5PY, "-c", faults.READ, bench], harness.clean_env())[1])["digest"]
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        with harness.shadow_dir() as shadow:
            # Its second request stalls: it holds claims then.
            path = f"/stall@2-2/{sign.name}.h5"
            env = harness.driver_env(None, shadow, stall_timeout_ms=1500 if sign == signal.SIGSTOP else 100000)
            env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(place.directory)}
            argv = [str(H5PY), "-c", faults.READ, liar.base + path]
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            first = subprocess.Popen([*unshare, *argv], env=env | {"XHDF5_STALL_TIMEOUT_MS": "6000"}, **pipes)
            try:
                end = time.monotonic() + 60
                while sum(r["method"] == "GET" for r in liar.requests().get(path, ())) < 2:
                    assert time.monotonic() < end, "the first process does not read"
                    time.sleep(0.01)
                inner = children(first.pid)
                assert inner, "no process in the other namespace"
                for pid in inner:
                    os.kill(pid, sign)
                began = time.monotonic()
                done = subprocess.run([*unshare, *argv], env=env, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=100)
                took = time.monotonic() - began
                assert json.loads(done.stdout).get("digest") == sample, done.stdout + done.stderr[-2000:]
                assert took < 60, f"{took:.1f} s\n{done.stderr[-6000:]}"
                if sign == signal.SIGSTOP:
                    for pid in inner:
                        os.kill(pid, signal.SIGCONT)
                    out, err = first.communicate(timeout=60)
                    assert json.loads(out).get("digest") == sample, "who was suspended: " + out + err[-2000:]
            finally:
                first.kill()
                first.communicate()


def children(pid):
    """All processes below |pid|."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children(int(child))]
    return found


# --- places that are full, read-only, small, another's -------------------------------------------------

def in_mounts(script, *words):
    """Words before a command that runs it after |script|, in mounts of its own; "$@" is the command."""
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c",
            f'set -e; {script}\nshift {len(words)}; exec "$@"',
            "sh", *map(str, words)]


def can(words):
    r = subprocess.run([*words, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return r.stderr.strip() or "not permitted" if r.returncode else ""


def full_tmpfs(place):
    with harness.shadow_dir() as shadow:
        place.whole(place.env(shadow), in_mounts(
            'mount -t tmpfs -o size=2m,mode=700 none "$1"; head -c 9m /dev/zero >"$1/other" 2>/dev/null || :', shadow))


def nearly_full_tmpfs(place):
    with harness.shadow_dir() as shadow:
        env = place.env(shadow, shadow_budget_bytes=1 << 30)
        place.whole(env, in_mounts('mount -t tmpfs -o size=6m,mode=700 none "$1"', shadow))


def small_tmpfs(place):
    """As in a container: 64 MB at /dev/shm, all options as they are. A file of some 100 MB."""
    big = place.directory / "big.h5"
    status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", "images", big, "--n",
                                    "12"],
                                   harness.clean_env())
    assert status == 0, out + err
    big.chmod(0o644)
    harness.age(big)
    argv = [str(READ_IMAGES), "{}", "images"]
    want = re.search(r"sum=\w+", harness.run([READ_IMAGES, big, "images"], harness.clean_env())[1])[0]
    env = place.env(None)
    script = ('mount -t tmpfs -o size=64m none /dev/shm; for i in 1 2 3; do "$@" || exit; done; '
              'ls /dev/shm/xhdf5-*/v*/s-* >&2; du -sk /dev/shm >&2; true')
    done = subprocess.run(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script, "sh", argv[0],
                           f"{place.server.url}/big.h5", "images"], env=env, stdin=subprocess.DEVNULL,
                           capture_output=True,
                          text=True, timeout=120)
    big.unlink()
    assert done.stdout.count(want) == 3, done.stdout + done.stderr
    kib = int(re.search(r"(?m)^(\d+)\s+/dev/shm", done.stderr)[1])
    assert 8 * 1024 < kib <= 33 * 1024, f"{kib} KiB of the tmpfs are taken"


def read_only_tmpfs(place, filled):
    with harness.shadow_dir() as shadow:
        script = 'mount -t tmpfs -o mode=700 none "$1"; '
        if filled:
            script += f'echo all | {H5PY} -c "$2" "$3" >/dev/null; ls "$1"/v*/s-* >/dev/null; '
        place.whole(place.env(shadow), in_mounts(script + 'mount -o remount,ro "$1"', shadow, READ, place.url))


def anothers_directory(place):
    """At the place of the default one, open to all and full of promises."""
    script = ('mount -t tmpfs none /dev/shm; d=/dev/shm/xhdf5-$(id -u); mkdir -m 777 "$d"; chown 12345:12345 "$d"; '
              'touch "$d/turns"; chown 12345:12345 "$d/turns"; chmod 000 "$d/turns"')
    place.whole(place.env(None), in_mounts(script))


def links_in_the_way(place):
    with harness.shadow_dir() as shadow, tempfile.TemporaryDirectory() as victim:
        precious = pathlib.Path(victim) / "precious"
        env = place.env(shadow)
        place.whole(env)
        for p in list(shadow.glob("v*/*")):
            p.unlink()
            p.symlink_to(precious)
        precious.write_bytes(b"precious")
        heals(place, env)
        assert precious.read_bytes() == b"precious"


# --- control groups ---------------------------------------------------------------------------------

@contextlib.contextmanager
def control_group(limit):
    """A group below our own with that limit of memory, version 1 or 2."""
    lines = dict(line.split(":", 2)[1:3] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    name = f"xhdf5-test-{os.getpid()}"
    v1 = pathlib.Path("/sys/fs/cgroup/memory" + lines.get("memory", "/none")) / name
    v2 = pathlib.Path("/sys/fs/cgroup" + lines.get("", "/none")) / name
    group, file = (v1, "memory.limit_in_bytes") if "memory" in lines else (v2, "memory.max")
    group.mkdir()
    try:
        (group / file).write_text(str(limit))
        yield group
    finally:
        end = time.monotonic() + 5
        while True:     # its last process may be on its way out
            try:
                group.rmdir()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def in_group(group):
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs"; exec "$@"', str(group)]


def no_group():
    try:
        with control_group(64 * MIB) as group:
            return can(in_group(group))
    except OSError as e:
        return str(e)


def small_group(place, readers, limit, own, most):
    """Readers in a group of |limit| bytes, who have taken |own| themselves, read 24 MiB; the shadow keeps to |most|."""
    with harness.shadow_dir() as shadow, control_group(limit) as group:
        env = place.env(shadow, readahead_bytes=4 * MIB) | {"OWN_BYTES": str(own)}
        began = [Reader(place.url, env, in_group(group)) for _ in range(readers)]
        try:
            for _ in range(2):
                for r in began:
                    r.ask("all")
                for r in began:
                    assert r.answer() == place.right["all"], "wrong bytes"
            for r in began:
                r.end()
        finally:
            for r in began:
                r.__exit__()
        taken = sum(p.stat().st_blocks * 512 for p in shadow.glob("v*/*"))
        assert 3 * MIB < taken <= most, f"{taken} bytes of tmpfs"
        for p in shadow.glob("v*/*"):
            p.unlink()      # what is charged to a group goes with it


GROWS = """
import hashlib, sys, h5py
with h5py.File(sys.argv[1]) as f:
    d, h = f["images"], hashlib.sha256()
    d[0]
    taken = b"x" * int(sys.argv[2])
    for _ in range(3):
        for i in range(d.shape[0]):
            h.update(d[i].tobytes())
print(h.hexdigest())
"""


def group_that_fills_up(place, *owns):
    """A file is open, with all of the group's memory free; then the program takes |owns| of it, and reads on. What is
    fetched ahead, the shadow, private memory and what waits for the disk make way."""
    large = place.directory / "large.h5"
    status, out, err = harness.run([H5PY, "-c", MAKE.replace("24", "96"), large, 3], harness.clean_env())
    assert status == 0, out + err
    large.chmod(0o644)
    harness.age(large)
    right = harness.run([H5PY, "-c", GROWS, large, 0], harness.clean_env())[1]
    for own in owns:
        for options in {}, {"STREAM_BYTES": 1 << 40}, {"SHADOW": "off"}, {"DISK_CACHE_DIR": None}:
            with harness.shadow_dir() as shadow, control_group(256 * MIB) as group, \
                 tempfile.TemporaryDirectory(dir="/var/tmp") as disk:
                env = harness.driver_env(place.server, shadow) | {"BEARER_TOKEN_FILE": os.devnull}
                env |= {f"XHDF5_{k}": str(v or disk) for k, v in options.items()}
                url = f"{place.server.url}/large.h5"
                status, out, err = harness.run([*in_group(group), H5PY, "-c", GROWS, url, own], env)
                assert (status, out) == (0, right), (own, options, status, out, err)
                for p in shadow.glob("v*/*"):
                    p.unlink()
    large.unlink()


CACHES = """
import sys, h5py
with open(sys.argv[2], "wb+", buffering=0) as f:
    for _ in range(int(sys.argv[3])):
        f.write(b"x" * (1 << 20))
    for _ in range(3):
        f.seek(0)
        while f.read(1 << 20):
            pass
with h5py.File(sys.argv[1]) as f:
    for i in range(f["images"].shape[0]):
        f["images"][i]
"""


def group_full_of_page_cache(place):
    """What the kernel keeps of local files gives way: as much is fetched ahead as where there is none of it."""
    large, asked = place.directory / "large.h5", []
    status, out, err = harness.run([H5PY, "-c", MAKE.replace("24", "96"), large, 3], harness.clean_env())
    assert status == 0, out + err
    large.chmod(0o644)
    harness.age(large)
    for mib in 0, 220:
        with harness.shadow_dir() as shadow, control_group(256 * MIB) as group, \
             tempfile.NamedTemporaryFile(dir="/var/tmp") as local:
            env = harness.driver_env(place.server, shadow) | {"BEARER_TOKEN_FILE": os.devnull}
            before = place.server.requests()[0]
            status, out, err = harness.run([*in_group(group), H5PY, "-c", CACHES, f"{place.server.url}/large.h5",
                                            local.name, mib], env)
            assert status == 0, (out, err)
            asked.append(place.server.requests()[0] - before)
            for p in shadow.glob("v*/*"):
                p.unlink()
    large.unlink()
    assert asked[1] <= 2 * asked[0] + 4, f"{asked[0]} requests, {asked[1]} where the group was full of page cache"


# --- access -----------------------------------------------------------------------------------------

def who_may_not_read_does_not(place):
    """One has the right token and fills the shadow; others of the same account have none, a wrong one, or one that is
    no longer good. With the file open elsewhere, and not."""
    private = place.directory / "private"
    private.mkdir(exist_ok=True)
    private.chmod(0o755)
    os.link(place.file, private / "f.h5")
    url = f"{place.server.url}/private/f.h5"
    token = place.server.facts["token"]
    with harness.shadow_dir() as shadow:
        env = place.env(shadow)
        good = env | {"BEARER_TOKEN": token}

        def refused(env, url=url):
            bench = subprocess.run([str(H5PY), "-c", faults.READ_LAST, url], env=env, stdin=subprocess.DEVNULL,
                                   capture_output=True, text=True, timeout=60)
            said = json.loads(bench.stdout)
            assert "digest" not in said and "PermissionError" in said["kinds"], said
            assert re.search("40[13]", said["text"]) and token not in bench.stdout + bench.stderr, said
            done = subprocess.run([str(READ_IMAGES), url, "images"], env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and "sum=" not in done.stdout, done.stdout

        with Reader(url, good) as r:
            assert r.read() == place.right["all"]
            for wrong in ({}, {"BEARER_TOKEN": "wrong"}, {"BEARER_TOKEN": token + "x"}, {"BEARER_TOKEN": token[:-1]}):
                refused(env | wrong)
            r.end()
        shadow_file(shadow)     # it is there, and full
        for wrong in ({}, {"BEARER_TOKEN": "wrong"}):
            refused(env | wrong)
            refused(env | wrong, url + "?authz=Bearer%20" + token)     # nginx knows no such thing
        # All at once: nobody gets in on another's opening.
        racers = [(kind, subprocess.Popen([str(READ_IMAGES), url, "images"], env=e, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
                  for _ in range(4) for kind, e in (("good", good), ("none", env),
                                                    ("wrong", env | {"BEARER_TOKEN": "wrong"}))]
        for kind, p in racers:
            out, err = p.communicate(timeout=60)
            assert ("sum=" in out) == (kind == "good"), f"{kind}: {out}{err[-1000:]}"
        before = place.server.requests()
        with Reader(url, good) as r:
            assert r.read() == place.right["all"]
            r.end()
        after = place.server.requests()
        assert after[0] - before[0] <= 3, "who may read needs the server for leave alone"


# --- all --------------------------------------------------------------------------------------------

def claims(place, liar, sample, everything):
    """(claim, why it cannot be tried here or "", function, arguments)"""
    mounts = can(in_mounts("mount -t tmpfs none /mnt"))
    chown = mounts or can(in_mounts("mount -t tmpfs none /mnt; touch /mnt/x; chown 12345 /mnt/x"))
    pids = can(["unshare", "--pid", "--fork", "--mount-proc"])
    group = no_group()
    for what, damage in DAMAGES.items():
        yield f"a shadow that is {what} while it is mapped", "", damaged_while_mapped, damage
        yield f"a shadow that is {what} at rest", "", damaged_at_rest, damage
    yield "links where shadow, hint and turns should be are not followed", "", links_in_the_way
    rounds = 40 if everything else 4
    yield "readers killed and suspended at random moments leave right bytes", "", killed_at_random, rounds
    yield "claims across pid namespaces are waited for, and taken over", pids, claims_across_namespaces, liar, sample
    yield "a full tmpfs", mounts, full_tmpfs
    yield "a tmpfs smaller than the budget and the file", mounts, nearly_full_tmpfs
    yield "64 MB of /dev/shm: half of it is used at most", mounts, small_tmpfs
    yield "a read-only tmpfs", mounts, read_only_tmpfs, False
    yield "a read-only tmpfs with a shadow on it", mounts, read_only_tmpfs, True
    yield "another user's directory in the way", chown, anothers_directory
    yield "a small control group: four readers at once", group, small_group, 4, 256 * MIB, 0, 26 * MIB
    yield "a control group whose member takes most of it", group, small_group, 1, 224 * MIB, 160 * MIB, 15 * MIB
    owns = (120 * MIB, 160 * MIB) if everything else (160 * MIB,)
    yield "a program that takes most of its control group behind opening a file", group, group_that_fills_up, *owns
    yield "a control group that is full of page cache", group, group_full_of_page_cache
    yield "who may not read the origin does not read the shadow", "", who_may_not_read_does_not


def chosen(claim, test, words):
    if words == ["--all"]:
        return True
    if words:
        return any(w in claim for w in words)
    return test not in (damaged_while_mapped, damaged_at_rest) or any(w in claim for w in DAILY)


def main():
    words, tap = sys.argv[1:], harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-crashes-") as d:
        directory = pathlib.Path(d)
        directory.chmod(0o755)
        sample = directory / "sample.h5"
        status, out, err = harness.run([H5PY, "-c", faults.SAMPLE, sample], harness.clean_env())
        assert status == 0, out + err
        with harness.Server("nginx", directory) as server, faults.Liar(sample) as liar:
            place = Place(server, directory)
            for claim, why, test, *args in claims(place, liar, sample, words == ["--all"]):
                if not chosen(claim, test, words):
                    continue
                if why:
                    tap.skip(claim, why)
                    continue
                with tap.claim(claim):
                    test(place, *args)
    return tap.done()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
