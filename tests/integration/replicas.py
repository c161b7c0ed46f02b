#!/usr/bin/env python3
"""One file at several endpoints: all bring their share, the bytes are right whatever one of them does, and
another version is refused.

Usage: replicas.py [WORD …]     with words: only the claims that hold one of them
"""
import concurrent.futures
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

IMAGES = 40         # of 2 MiB, or of 256 KiB in the file that liars serve
AT_ONCE = 3
PYTHON = str(harness.H5PY["3.14.0"])

WRITE = """
import os, sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    n = int(sys.argv[2])
    d = f.create_dataset("images", (%d, n, 1024), "u2")
    d[...] = memoryview(os.urandom(%d * n << 11)).cast("H", (%d, n, 1024))
""".replace("%d", str(IMAGES))

# Reads images as standard input says ("FIRST COUNT" a line; "fork": in a child; "exit": ends with the file open), and
# prints a digest and the seconds after each line.
READ = """
import hashlib, os, sys, time, h5py
f = h5py.File(sys.argv[1], "r")
print("open", flush=True)
for line in sys.stdin:
    words, begun = line.split(), time.monotonic()
    if words[0] == "exit":
        sys.exit()
    h = hashlib.sha256()
    child = words[0] == "fork" and os.fork()
    if not child:
        for i in range(int(words[-2]), int(words[-2]) + int(words[-1])):
            h.update(f["images"][i].tobytes())
        print(h.hexdigest(), time.monotonic() - begun, flush=True)
    if words[0] == "fork":
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
f.close()
"""


class Reader:
    """Opens |target| in a process of its own."""

    def __init__(self, target, endpoints=None, ca=None, variables=None, **options):
        self.shadow = contextlib.ExitStack()
        directory = self.shadow.enter_context(harness.shadow_dir())
        env = dict(harness.driver_env(shadow_dir=directory, stats="on", **options), no_proxy="*")
        if endpoints:
            env["XHDF5_ENDPOINTS"] = " ".join(endpoints)
        if ca:
            env["XHDF5_CA_BUNDLE"] = str(ca)
        env.update(variables or {})
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PYTHON, "-c", READ, target], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.opened = self.process.stdout.readline().strip() == "open"

    def read(self, first, count, how=""):
        """(digest, seconds)"""
        with contextlib.suppress(OSError):      # it may have ended with an error
            self.process.stdin.write(f"{how} {first} {count}\n")
            self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return (words[0], float(words[1])) if words else (None, 0)

    def close(self, *last):
        """Returns the status and what it wrote to standard error."""
        with contextlib.suppress(OSError):
            for word in last:
                self.process.stdin.write(word + "\n")
            self.process.stdin.close()
        try:
            status = self.process.wait(60)
        finally:
            self.process.kill()
        self.errors.seek(0)
        self.shadow.close()
        return status, self.errors.read().decode(errors="backslashreplace")


def counters(log):
    found = collections.Counter()
    for k, v in re.findall(r"(?m)^xhdf5: \S+ (\w+)=(\d+) ", log):
        found[k] += int(v)
    return found


class Liar:
    """tests/support/liar.py serving |file|."""

    def __init__(self, file):
        self.process = subprocess.Popen([sys.executable, str(harness.TOP / "tests" / "support" / "liar.py"), file],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base = "http://127.0.0.1:" + re.search(r"port=(\d+)", self.process.stdout.readline())[1]

    def asked(self, path):
        """The requests so far for |path|."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.base + "/_stats", timeout=10) as r:
            return json.load(r).get(path, [])

    def close(self):
        self.process.kill()
        self.process.wait()


class Data:
    """A file at several places, and what is in it."""

    def __init__(self, directory, lines):
        self.directory = pathlib.Path(directory)
        for name in ("a", "b", "other", "longer"):
            (self.directory / name).mkdir(parents=True)
        self.local = str(self.directory / "a" / "x.h5")
        subprocess.run([PYTHON, "-c", WRITE, self.local, str(lines)], env=harness.clean_env(), check=True)
        data = pathlib.Path(self.local).read_bytes()
        self.image_bytes = lines << 11
        self.images = memoryview(data)[-IMAGES * self.image_bytes:]    # contiguous, at the end of the file
        os.link(self.local, self.directory / "b" / "x.h5")             # same date: nginx gives it the same ETag
        (self.directory / "other" / "x.h5").write_bytes(data[:-5000] + bytes(b ^ 255 for b in data[-5000:]))
        (self.directory / "longer" / "x.h5").write_bytes(data + b"more")
        for name in ("other", "longer"):
            os.utime(self.directory / name / "x.h5", (1, 1))

    def digest(self, first, count):
        return hashlib.sha256(self.images[first * self.image_bytes:(first + count) * self.image_bytes]).hexdigest()


def kill(server):
    """Ends all processes of a server started by server/serve, with SIGKILL."""
    state = json.loads((pathlib.Path(server.run) / "serve.json").read_text())
    for d in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ProcessLookupError):
            if os.getsid(int(d.name)) == os.getsid(state["pid"]) or int(d.name) == state["pid"]:
                os.kill(int(d.name), signal.SIGKILL)


@contextlib.contextmanager
def two(data, kinds=("nginx", "nginx"), roots=("a", "b")):
    """Two servers, and a file with both CAs."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(harness.Server(k, data.directory / d)) for k, d in zip(kinds, roots)]
        ca = pathlib.Path(servers[0].run) / "both.pem"
        ca.write_text("".join(pathlib.Path(s.cacert).read_text() for s in servers))
        yield (*servers, ca)


def check(data, got, first, count):
    assert got[0] == data.digest(first, count), f"other bytes: {got}"


def both_bring(data, kinds):
    with two(data, kinds) as (a, b, ca):
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca)
        for i in range(0, IMAGES, 4):
            check(data, r.read(i, 4), i, 4)
        status, log = r.close()
        assert status == 0, log
        shares = a.requests()[1], b.requests()[1]
        assert min(shares) > 0.15 * sum(shares), shares
        assert max(shares) + min(shares) < 1.3 * (IMAGES << 21), f"more was moved than must be: {shares}"


def one_dies(data, which, kinds=("nginx", "nginx")):
    with two(data, kinds) as (a, b, ca):
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca)
        check(data, r.read(0, 12), 0, 12)
        kill((a, b)[which])
        for i in range(12, IMAGES, 7):
            got = r.read(i, 7)
            check(data, got, i, 7)
            assert got[1] < 3, f"it waited {got[1]} s"
        status, log = r.close()
        assert status == 0, log


def refused(data, root, says):
    with two(data, roots=("a", root)) as (a, b, ca):
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca)
        check(data, r.read(0, 20), 0, 20)
        asked = b.requests()[0]
        check(data, r.read(20, IMAGES - 20), 20, IMAGES - 20)
        status, log = r.close()
        assert status == 0, log
        assert b.requests()[0] == asked, "it was asked after it was refused"
        warned = [line for line in log.splitlines() if "endpoint is not used" in line]
        assert len(warned) == 1 and re.search(says, warned[0]), log


def down_at_open(data, kinds=("nginx", "nginx")):
    with two(data, kinds) as (a, b, ca):
        kill(a)
        begun = time.monotonic()
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca)
        assert r.opened and time.monotonic() - begun < 3, "it took long"
        check(data, r.read(0, IMAGES), 0, IMAGES)
        status, log = r.close()
        assert status == 0, log


def both_down(data):
    with two(data) as (a, b, ca):
        kill(a), kill(b)
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca, retries=1)
        status, log = r.close()
        assert status != 0 and "no connection" in log and a.url in log, log


def aliases(data):
    with two(data) as (a, b, ca):
        both = ";".join(u.replace("https", "root") for u in (a.url, b.url))
        asked = b.requests()[0]
        r = Reader(a.url + "/x.h5", None, ca, {"XRDMULTI_ENDPOINT": both, "SERVER_NUM": "1"})
        check(data, r.read(0, 8), 0, 8)
        r.close()
        assert b.requests()[0] == asked, "SERVER_NUM=1, but the second was asked"
        r = Reader(a.url + "/x.h5", [a.url], ca, {"XRDMULTI_ENDPOINT": both})
        check(data, r.read(0, 8), 0, 8)
        r.close()
        assert b.requests()[0] == asked, "XHDF5_ENDPOINTS goes before the alias"
        r = Reader(a.url + "/x.h5", None, ca, {"XRDMULTI_ENDPOINT": both, "SERVER_NUM": "2"})
        check(data, r.read(0, IMAGES), 0, IMAGES)
        r.close()
        assert b.requests()[0] > asked, "the second was not asked"


def forks_and_exits(data):
    with two(data) as (a, b, ca):
        r = Reader(a.url + "/x.h5", [a.url, b.url], ca, shadow="off")
        check(data, r.read(0, 4), 0, 4)
        check(data, r.read(4, 10, "fork"), 4, 10)
        check(data, r.read(14, 10), 14, 10)
        status, log = r.close("exit")
        assert status == 0 and "Error" not in log, log


def hangs_at_open(data, liar):
    """The other one takes connections and says nothing: nobody waits for it, not even at the end."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        other = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        for last in ((), ("exit",)):
            begun = time.monotonic()
            r = Reader(liar.base + "/ok/x.h5", [liar.base + "/ok", other])
            check(data, r.read(0, 6), 0, 6)
            status, log = r.close(*last)
            assert status == 0 and time.monotonic() - begun < 3, (time.monotonic() - begun, log)
        begun = time.monotonic()
        r = Reader(other + "/x.h5", [liar.base + "/ok", other])
        assert r.opened and time.monotonic() - begun < 6, "it was waited for"
        check(data, r.read(0, 6), 0, 6)
        assert r.close()[0] == 0


def slow(data, one, another, way, own):
    """|way| is slow, at the URL's own server or at the other."""
    ways = (way, "ok") if own else ("ok", way)
    a, b = f"{one.base}/{ways[0]}", f"{another.base}/{ways[1]}"
    r = Reader(a + "/x.h5", [a, b])
    begun = time.monotonic()
    for i in range(0, IMAGES, 8):
        check(data, r.read(i, 8), i, 8)
    took = time.monotonic() - begun
    status, log = r.close()
    assert status == 0, log
    assert took < 6, f"{took} s"
    assert counters(log)["moved"] >= 1 or way.startswith("late"), log


def faulty(data, one, another, way, own):
    """The bytes are right though one server has the fault."""
    ways = (way, "ok") if own else ("ok", way)
    a, b = f"{one.base}/{ways[0]}", f"{another.base}/{ways[1]}"
    r = Reader(a + f"/{own}.h5", [a, b], retries=2, stall_timeout_ms=3000)
    for i in range(0, IMAGES, 8):
        got = r.read(i, 8)
        check(data, got, i, 8)
        assert got[1] < 6, f"it waited {got[1]} s"
    status, log = r.close()
    assert status == 0, log


def changed(data, one, another):
    """At the URL's own server the file becomes another."""
    a, b = f"{one.base}/etag-change@4-", f"{another.base}/ok"
    r = Reader(a + "/x.h5", [a, b])
    digests = [r.read(i, 1)[0] for i in range(IMAGES)]
    status, log = r.close()
    assert status != 0 and "changed" in log, log
    good = [data.digest(i, 1) for i in range(IMAGES)]
    assert all(d in (None, g) for d, g in zip(digests, good)), "other bytes"


def tried_again(data, one, another):
    """It fails for a while, and has its share later."""
    path = "/500@2-5/again.h5"
    a, b = f"{one.base}/ok", f"{another.base}/500@2-5"
    r = Reader(a + "/again.h5", [a, b], readahead="off", shadow="off", private_budget_bytes=1 << 20)
    at, end = 0, time.monotonic() + 15
    while len([q for q in another.asked(path) if q["status"] == 206]) < 12 and time.monotonic() < end:
        check(data, r.read(at, 8), at, 8)       # none of it is kept until its turn comes again
        at = (at + 8) % IMAGES
    seen = collections.Counter(q["status"] for q in another.asked(path))
    assert r.close()[0] == 0
    assert seen[500] == 4 and seen[206] >= 12, seen


def elsewhere(data, one, another):
    """A URL at none of them is read as without a list."""
    r = Reader(one.base + "/ok/elsewhere.h5", [another.base + "/ok", one.base + "/okay"])
    check(data, r.read(0, 4), 0, 4)
    assert r.close()[0] == 0 and not another.asked("/ok/elsewhere.h5")


def main():
    words = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-replicas-") as directory, contextlib.ExitStack() as stack:
        os.chmod(directory, 0o755)
        data, small = Data(directory + "/big", 1024), Data(directory + "/small", 128)
        one, another = Liar(small.local), Liar(small.local)
        stack.callback(one.close), stack.callback(another.close)
        claims = {
            "nginx and nginx: both bring a share, each byte once": lambda: both_bring(data, ("nginx", "nginx")),
            "nginx and XRootD: both bring a share, each byte once": lambda: both_bring(data, ("nginx", "xrootd")),
            "the other one is killed in mid-read: right bytes": lambda: one_dies(data, 1),
            "the URL's own is killed in mid-read: right bytes": lambda: one_dies(data, 0),
            "XRootD is killed in mid-read: right bytes from nginx": lambda: one_dies(data, 0, ("xrootd", "nginx")),
            "one with other bytes is refused": lambda: refused(data, "other", "other bytes"),
            "one with another length is refused": lambda: refused(data, "longer", "bytes"),
            "the URL's own is down at open: the other is read": lambda: down_at_open(data),
            "nginx is down at open: XRootD is read": lambda: down_at_open(data, ("nginx", "xrootd")),
            "all are down: an error that names the URL's own": lambda: both_down(data),
            "XRDMULTI_ENDPOINT and SERVER_NUM are aliases": lambda: aliases(data),
            "a fork's child reads right, an exit with the file open is silent": lambda: forks_and_exits(data),
            "one that says nothing delays neither opening nor end": lambda: hangs_at_open(small, one),
            "the URL's own server changes the file: an error": lambda: changed(small, one, another),
            "one that failed is tried again": lambda: tried_again(small, one, another),
            "a URL that is at none of them": lambda: elsewhere(small, one, another),
        }
        for own in (0, 1):
            whose = "own" if own else "other"
            for way in ("slow:20@4-", "slow:200@4-", "late:400"):
                claims[f"{way} at the {whose} server: it loses its share"] = \
                    lambda own=own, way=way: slow(small, one, another, way, own)
            for way in ("500@5-", "503@5-", "reset@5-", "stall@5-", "truncate@5-", "stall-head@5-", "empty-reply@5-"):
                claims[f"{way} at the {whose} server: right bytes"] = \
                    lambda own=own, way=way: faulty(small, one, another, way, own)
        for way in ("404", "403", "etag-change@5-", "garbage@5-", "no-range", "short-total@5-"):
            claims[f"{way} at the other server: right bytes"] = lambda way=way: faulty(small, one, another, way, 0)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            chosen = {c: pool.submit(f) for c, f in claims.items() if not words or any(w in c for w in words)}
            for claim, future in chosen.items():
                begun = time.monotonic()
                with tap.claim(claim):
                    future.result()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
