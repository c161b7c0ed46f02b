#!/usr/bin/env python3
"""One file at several endpoints: all bring their share, the bytes are right whatever one of them does, and
another version is refused. How soon a site is left, and what share it gets, is proved on a virtual clock
(tests/unit/test_sites.c); here no claim depends on time.

Usage: replicas.py READ_LINES [--all] [WORD …]     with words: only the claims that hold one of them
--all: with more faults
"""
import concurrent.futures
import contextlib
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

IMAGES = 40         # of 1 MiB, or of 128 KiB in the file that liars serve
AT_ONCE = 3
HANGS_S = 100       # what takes so long hangs
HEAD = 65536        # what an opening brings
NEVER = "slow:100000"   # a KiB, and the next one when the test is over
TAIL = f"~{1 << 20}-{1 << 30}"      # at a liar: what asks for anything behind the first MiB
PYTHON = str(harness.H5PY["3.14.0"])

WRITE = """
import os, sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    n = int(sys.argv[2])
    d = f.create_dataset("images", (%d, n, 1024), "u2")
    d[...] = memoryview(os.urandom(%d * n << 11)).cast("H", (%d, n, 1024))
""".replace("%d", str(IMAGES))

class Reader:
    """read_lines on |target|, whose bytes are to be those of |local|."""
    program = None

    def __init__(self, target, local, endpoints=None, ca=None, variables=None, **options):
        self.shadow = contextlib.ExitStack()
        if "shadow_dir" not in options:
            options["shadow_dir"] = self.shadow.enter_context(harness.shadow_dir())
        env = dict(harness.driver_env(log="origin,stats", **options), no_proxy="*")
        if endpoints:
            env["XHDF5_ENDPOINTS"] = " ".join(endpoints)
        if ca:
            env["XHDF5_CA_BUNDLE"] = str(ca)
        env.update(variables or {})
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([self.program, target, local], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.opened = self.process.stdout.readline().strip() == "open"

    def read(self, first, count, how="read"):
        """Seconds, or None when it has ended."""
        with contextlib.suppress(OSError):      # it may have ended with an error
            self.process.stdin.write(f"{how} {first} {count}\n")
            self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        assert not words or words[0] == "same", "WRONG BYTES"
        return float(words[1]) if words else None

    def until_live(self):
        """Waits until another endpoint was proved."""
        self.until("site-live")

    def until(self, said):
        end = time.monotonic() + HANGS_S
        while time.monotonic() < end:
            with open(f"/proc/self/fd/{self.errors.fileno()}", "rb") as f:
                if said.encode() in f.read():
                    return
            assert self.process.poll() is None, self.close()[1][-2000:]
            time.sleep(0.005)
        raise AssertionError(f"it never said {said}")

    def reads(self, first, count, step=None):
        """Reads so many images at a time."""
        for i in range(first, first + count, step or count):
            seconds = self.read(i, min(step or count, first + count - i))
            assert seconds is not None, self.close()[1][-2000:]
            assert seconds < HANGS_S, f"it waited {seconds} s"

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
        os.link(self.local, self.directory / "b" / "x.h5")             # same date: nginx gives it the same ETag
        (self.directory / "other" / "x.h5").write_bytes(data[:-5000] + bytes(b ^ 255 for b in data[-5000:]))
        (self.directory / "longer" / "x.h5").write_bytes(data + b"more")
        for name in ("other", "longer"):
            os.utime(self.directory / name / "x.h5", (1, 1))


def kill(server):
    """Ends all processes of a server started by server/serve, with SIGKILL."""
    state = json.loads((pathlib.Path(server.run) / "serve.json").read_text())
    session, killed = os.getsid(state["pid"]), 0
    assert session != os.getsid(0)
    for d in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(d.name)) == session:
                os.kill(int(d.name), signal.SIGKILL)
                killed += 1
    assert killed > 0


@contextlib.contextmanager
def two(data, kinds=("nginx", "nginx"), roots=("a", "b")):
    """Two servers, and a file with both CAs."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(harness.Server(k, data.directory / d)) for k, d in zip(kinds, roots)]
        ca = pathlib.Path(servers[0].run) / "both.pem"
        ca.write_text("".join(pathlib.Path(s.cacert).read_text() for s in servers))
        yield (*servers, ca)


def both_bring(data, kinds):
    with two(data, kinds) as (a, b, ca):
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca)
        r.until_live()
        r.reads(0, IMAGES, 4)
        status, log = r.close()
        assert status == 0, log
        shares, found = (a.requests()[1], b.requests()[1]), harness.counters(log)
        assert min(shares) > 4 * HEAD, shares
        assert sum(shares) < 2.3 * (IMAGES << 20), shares
        # What one of them was asked for and the other brought may have come twice.
        if not found["moved"] + found["retries"] + found["hedged"]:
            assert sum(shares) < 1.3 * (IMAGES << 20), shares


def one_dies(data, which, kinds=("nginx", "nginx")):
    with two(data, kinds) as (a, b, ca):
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca)
        r.until_live()
        r.reads(0, 12)
        kill((a, b)[which])
        r.reads(12, IMAGES - 12, 7)
        status, log = r.close()
        assert status == 0, log


def refused(data, root, says):
    with two(data, roots=("a", root)) as (a, b, ca):
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca)
        r.until("site-refused")
        r.reads(0, 20)
        asked = b.requests()[0]
        r.reads(20, IMAGES - 20)
        status, log = r.close()
        assert status == 0, log
        assert b.requests()[0] == asked, "it was asked after it was refused"
        warned = [line for line in log.splitlines() if "endpoint is not used" in line]
        assert len(warned) == 1 and re.search(says, warned[0]), log


def down_at_open(data, kinds=("nginx", "nginx")):
    with two(data, kinds) as (a, b, ca):
        kill(a)
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca)
        r.reads(0, IMAGES)
        status, log = r.close()
        assert status == 0 and log.count(f"site-open url={a.url}/") == 1, log


def both_down(data):
    with two(data) as (a, b, ca):
        kill(a), kill(b)
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca, retries=1)
        status, log = r.close()
        assert status != 0 and "no connection" in log and a.url in log, log


def aliases(data):
    with two(data) as (a, b, ca):
        both = ";".join(u.replace("https", "root") for u in (a.url, b.url))
        asked = b.requests()[0]
        r = Reader(a.url + "/x.h5", data.local, None, ca, {"XRDMULTI_ENDPOINT": both, "SERVER_NUM": "1"})
        r.reads(0, 8)
        r.close()
        assert b.requests()[0] == asked, "SERVER_NUM=1, but the second was asked"
        r = Reader(a.url + "/x.h5", data.local, [a.url], ca, {"XRDMULTI_ENDPOINT": both})
        r.reads(0, 8)
        r.close()
        assert b.requests()[0] == asked, "XHDF5_ENDPOINTS goes before the alias"
        r = Reader(a.url + "/x.h5", data.local, None, ca, {"XRDMULTI_ENDPOINT": both, "SERVER_NUM": "2"})
        r.until_live()
        r.close()
        assert b.requests()[0] > asked, "the second was not asked"


def forks_and_exits(data):
    with two(data) as (a, b, ca):
        r = Reader(a.url + "/x.h5", data.local, [a.url, b.url], ca, shadow="off")
        r.reads(0, 4)
        assert r.read(4, 10, "fork") is not None
        r.reads(14, 10)
        status, log = r.close("exit")
        assert status == 0 and "Error" not in log, log


def hangs_at_open(data, liar):
    """The other one takes connections and says nothing: it is read, opened and closed all the same."""
    with contextlib.ExitStack() as stack:
        deaf = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        other = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        for last in ((), ("exit",)):
            if last:        # from here on it does not even take connections
                for s in [stack.enter_context(socket.socket()) for _ in range(4)]:
                    s.setblocking(False)
                    s.connect_ex(deaf.getsockname())
            r = Reader(liar.base + "/ok/x.h5", data.local, [liar.base + "/ok", other])
            r.reads(0, 6)
            status, log = r.close(*last)
            assert status == 0, log
        r = Reader(other + "/x.h5", data.local, [liar.base + "/ok", other])
        r.reads(0, 6)
        assert r.close()[0] == 0


def slow(data, one, another, way, own):
    """|way| is slow, at the URL's own server or at the other: what would take minutes there is asked of the other one."""
    name = f"/slow{own}.h5"
    ways = (way, "ok") if own else ("ok", way)
    a, b = f"{one.base}/{ways[0]}", f"{another.base}/{ways[1]}"
    r = Reader(a + name, data.local, [a, b])
    r.until_live()
    r.reads(0, IMAGES, 8)
    status, log = r.close()
    assert status == 0, log
    # The keeper's looks ask for the beginning.
    struck = [q for q in (one if own else another).asked(f"/{way}{name}") if q["struck"] and "=0-" not in q["range"]]
    assert harness.counters(log)["moved"] or not struck or not way.startswith(NEVER), log


def faulty(data, one, another, way, own):
    """The bytes are right though one server has the fault."""
    ways = (way, "ok") if own else ("ok", way)
    a, b = f"{one.base}/{ways[0]}", f"{another.base}/{ways[1]}"
    r = Reader(a + f"/{own}.h5", data.local, [a, b], retries=2, stall_timeout_ms=3000)
    r.reads(0, IMAGES, 8)
    status, log = r.close()
    assert status == 0, log


def changed(data, one, another):
    """At the URL's own server the file becomes another. What lies there is nowhere else: the other one says nothing."""
    a, b = f"{one.base}/etag-change{TAIL}", f"{another.base}/held{TAIL}"
    r = Reader(f"{a}/changed.h5", data.local, [a, b])
    r.until_live()
    reads = [r.read(i, 1) for i in range(IMAGES)]
    status, log = r.close()
    assert reads[0] is not None and reads[-1] is None and status != 0 and "was changed" in log, log


def asked_again(data):
    """It fails for a while. Later it brings what the other one keeps back."""
    with contextlib.closing(Liar(data.local)) as one, contextlib.closing(Liar(data.local)) as another:
        a, b = f"{one.base}/held~{4 << 20}-{1 << 30}", f"{another.base}/500@2-3"
        r = Reader(a + "/x.h5", data.local, [a, b], readahead_bytes=1 << 20, part_bytes=65536)
        r.until_live()
        r.reads(0, 12, 4)

        def answers(status=206):
            return sum(q["status"] == status for q in another.asked("/500@2-3/x.h5"))
        # The head, and a look some seconds after the failure.
        harness.wait_for(lambda: answers() >= 2, "a look at what failed", HANGS_S)
        before = answers()
        r.reads(12, IMAGES - 12, 4)
        assert answers() > before and answers(500) == 2, another.asked("/500@2-3/x.h5")
        assert r.close()[0] == 0


def elsewhere(data, one, another):
    """A URL at none of them is read as without a list."""
    r = Reader(one.base + "/ok/elsewhere.h5", data.local, [another.base + "/ok", one.base + "/okay"])
    r.reads(0, 4)
    assert r.close()[0] == 0 and not another.asked("/ok/elsewhere.h5")


def main():
    Reader.program, more, words = sys.argv[1], "--all" in sys.argv, [w for w in sys.argv[2:] if w != "--all"]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-replicas-") as directory, contextlib.ExitStack() as stack:
        os.chmod(directory, 0o755)
        data, small = Data(directory + "/big", 512), Data(directory + "/small", 64)
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
            "one that says nothing: opened, read and closed all the same": lambda: hangs_at_open(small, one),
            "the URL's own server changes the file: an error": lambda: changed(small, one, another),
            "one that failed is tried again": lambda: asked_again(data),
            "a URL that is at none of them": lambda: elsewhere(small, one, another),
        }
        # Some of them each day.
        slowness, faults = ["slow:20@4-", NEVER + "@4-"], ["503@5-", "reset@5-", "stall@5-"]
        others = ["etag-change@5-", "no-range"]
        if more:
            slowness += ["slow:200@4-", "late:400"]
            faults += ["500@5-", "truncate@5-", "stall-head@5-", "empty-reply@5-"]
            others += ["404", "403", "garbage@5-", "short-total@5-"]
        for own, whose in enumerate(("other", "own")):
            for way in slowness:
                claims[f"{way} at the {whose} server: right bytes, and nothing waits for it for long"] = \
                    lambda own=own, way=way: slow(small, one, another, way, own)
            for way in faults:
                claims[f"{way} at the {whose} server: right bytes"] = \
                    lambda own=own, way=way: faulty(small, one, another, way, own)
        for way in others:
            claims[f"{way} at the other server: right bytes"] = lambda way=way: faulty(small, one, another, way, 0)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            chosen = {c: pool.submit(f) for c, f in claims.items() if not words or any(w in c for w in words)}
            for claim, future in chosen.items():
                with tap.claim(claim):
                    future.result()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
