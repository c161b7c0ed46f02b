#!/usr/bin/env python3
"""The table of docs/archives.md at one stock server: what a reader does there, each with the right bytes. TAP.

Usage: servers.py apache|lighttpd|nginx|xrootd|nginx-cache|squid-cache|xcache [CELL …]       with cells: only these

Requests and bytes are those of the server's own log.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

PYTHON = harness.H5PY["3.16.0"]
TOOL = harness.BUILD / "vfd/tool/xhdf5"
IMAGES, SIDE, DATASETS = 24, 1024, 600
IMAGE_BYTES = SIDE * SIDE * 2
BUFFERED = 4 << 20      # what the kernel takes of a reply before the reader cuts it off: a socket's send buffer
TOLD = "was changed on the server"
FRESH = {"nginx-cache": "1s", "squid-cache": "0s", "xcache": "-"}  # so long it does not ask its origin

# Does one thing with the file and prints what it saw: the same of the local file is what is right.
READ = """
import hashlib, sys, h5py, numpy as np
what, path = sys.argv[1:]
def seen(*arrays):
    print(hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest())
with h5py.File(path, "r") as f:
    if what == "walk":
        found = []
        f.visititems(lambda name, o: found.append((name, sorted(o.attrs), hasattr(o, "shape") and o[()].sum())))
        print(len(found), hashlib.sha256(repr(found).encode()).hexdigest())
    elif what == "open":
        seen(f["images"][3, 100, :3000])
    elif what == "stream":
        seen(*(f["images"][i] for i in range(len(f["images"]))))
    elif what == "random":      # one selection: small pieces, 2 MiB apart
        seen(f["images"][:, 500, 8:24])
"""

# Answers each line of standard input, "open" or the number of an image, by the version whose bytes came or the error.
FOLLOW = """
import sys, h5py, numpy as np
file = None
for line in sys.stdin:
    try:
        if line == "open\\n":
            if file:
                file.close()
            file = h5py.File(sys.argv[1], "r")
            print("opened", flush=True)
        else:
            image = file["images"][int(line)]
            assert image.min() == image.max(), "MIXED"
            print(image.min(), flush=True)
    except Exception as e:
        print(type(e).__name__, str(e).replace("\\n", " "), flush=True)
"""
VERSION = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["images"] = np.full((20, 1 << 20), int(sys.argv[2]), "u1")
"""
WRITE = """
import sys, h5py, numpy as np
what, url = sys.argv[1:]
with h5py.File(url, "w" if what == "create" else "r+") as f:
    if what == "create":
        f["a"], f["b"] = np.arange(100000), np.arange(100000)
        f.create_dataset("packed", data=np.arange(90000).reshape(300, 300), chunks=(50, 50), compression="gzip")
    else:
        f[what][:1000] = 7
"""


class At:
    """One server, with the files that it serves: |root|; of a cache also what it stands before."""

    def __init__(self, kind, server, root, ca, origin=None):
        self.kind, self.server, self.root, self.ca, self.origin = kind, server, root, str(ca), origin or server
        self.held = {}

    def hold(self, name):
        """Leaves a reply of this XCache unread, more than kernels buffer. Once in some 80 streams it hangs on a file
        whose last reader goes while the next comes (xrootd's issue 2561), and each HTTP request is such a reader."""
        if name in self.held:
            return
        size, trust = (self.root / name).stat().st_size, ssl.create_default_context(cafile=self.server.cacert)
        host, port = re.fullmatch(r"https://(.+):(\d+)", self.server.url).groups()
        self.held[name] = held = trust.wrap_socket(socket.create_connection((host, port), 20), server_hostname=host)
        ranges = ",".join([f"0-{size - 1}"] * (1 + (32 << 20) // size))
        held.sendall(f"GET /{name} HTTP/1.1\r\nHost: {host}\r\nRange: bytes={ranges}\r\n\r\n".encode())
        assert held.recv(12) == b"HTTP/1.1 206"

    def release(self):
        while self.held:
            self.held.popitem()[1].close()

    def read(self, what, name, env={}, **options):
        """(exit status, what it printed, counters and errors, requests, bytes): by a reader that knows nothing yet"""
        with harness.shadow_dir() as shadow:
            before = self.server.requests()
            status, out, err = harness.run([PYTHON, "-c", READ, what, f"{self.server.url}/{name}"],
                                           harness.driver_env(self.server, shadow, log="stats", **options) | env)
            return status, out, err, *(b - a for a, b in zip(before, self.server.requests()))

    def right(self, what, name, most_requests, most_bytes, **options):
        want = harness.run([PYTHON, "-c", READ, what, self.root / name], harness.clean_env())[1]
        if self.kind == "xcache":
            self.hold(name)
        status, out, err, requests, sent = self.read(what, name, **options)
        assert status == 0 and want and out == want, f"{out}, not {want}{err[-3000:]}"
        if self.held:       # the server's bytes are also those of what is held, whenever it comes to send them
            sent = sum(map(int, re.findall(r" bytes_fetched=(\d+)", err)))
            assert sent, err[-3000:]
        assert requests <= most_requests and sent <= most_bytes, f"{requests} requests, {sent} bytes"

    def origin_bytes(self):
        """What a cache's origin has sent, or, of an XRootD, whose log tells of http alone, read."""
        if self.origin.kind == "nginx":
            return self.origin.requests()[1]
        return int(re.search(r"rchar: (\d+)", pathlib.Path(f"/proc/{self.origin.facts['pid']}/io").read_text())[1])

    def run(self, code, *words, env={}, shadow=None, **options):
        return harness.run([PYTHON, "-c", code, *words], harness.driver_env(self.server, shadow, **options) | env)

    @contextlib.contextmanager
    def follower(self, name, **options):
        """A reader that does as it is told, and asks the server for all that it reads: a function."""
        env = harness.driver_env(self.server, **options) | {"XHDF5_SHADOW": "off", "XHDF5_READAHEAD": "off"}
        child = subprocess.Popen([str(PYTHON), "-c", FOLLOW, f"{self.server.url}/{name}"], env=env, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def tell(word):
            child.stdin.write(f"{word}\n")
            child.stdin.flush()
            said = child.stdout.readline().strip()
            assert said and "MIXED" not in said, said or "it has ended"
            return said
        try:
            yield tell
        finally:
            child.kill()
            child.wait()


def opened(at):
    at.right("open", "images.h5", 5 if at.kind == "xcache" else 4, 200_000)


def walked(at):
    size = (at.root / "tree.h5").stat().st_size
    # What a server sends before its answer of the whole file to several ranges is cut off.
    more = 0 if at.kind in MANY_RANGES else 1 << 20
    at.right("walk", "tree.h5", DATASETS / 10, 1.5 * size + more, head_bytes=16384, whole_file_bytes=16384)


def streamed(at):
    # A busy machine's server looks far: what comes ahead is dealt to 16 connections then, 8 MB and more at a time.
    at.right("stream", "images.h5", 5 * IMAGES, 1.1 * IMAGES * IMAGE_BYTES)


def scattered(at):
    more = BUFFERED if at.kind == "nginx-cache" else 0  # its log: 4.1 MB of 50 in the reply to several ranges, else 0.1
    at.right("random", "images.h5", 8 if at.kind in MANY_RANGES else IMAGES + 8, 2 * IMAGE_BYTES + more,
             head_bytes=16384)


def private(at):
    """By a token, by a name and a password; without either, or with wrong ones, it is a refusal."""
    host = re.match(r"https://([^:/]+)", at.server.url)[1]
    token = at.server.facts["token"]
    with tempfile.TemporaryDirectory() as d:
        def netrc(password):
            file = pathlib.Path(d, "netrc")
            file.write_text(f"machine {host} login reader password {password}\n")
            file.chmod(0o600)
            return {"XHDF5_NETRC": "on", "NETRC": str(file)}
        if at.kind != "lighttpd":
            at.right("open", "private/images.h5", 5, 100_000, env={"BEARER_TOKEN": token})
        at.right("open", "private/images.h5", 5, 100_000, env=netrc(token))
        for env in ({}, {"BEARER_TOKEN": "wrong"}, netrc("wrong")):
            status, _, err, *_ = at.read("open", "private/images.h5", env)
            assert status and "PermissionError" in err, err[-2000:]
            assert token not in err


def passed_through(at):
    """A cache hands a token on, in a header or in the URL, keeps nothing of what came for it, and logs none."""
    token = at.origin.facts["token"]
    at.right("open", "private/images.h5", 6, 4 << 20, env={"BEARER_TOKEN": token})
    status, _, err, *_ = at.read("open", "private/images.h5")
    assert status and "PermissionError" in err, err[-2000:]
    (at.root / "new.h5").hardlink_to(at.root / "images.h5")     # which nobody has read here
    kept = list(pathlib.Path(at.server.run, "cache").glob("*/*/*"))
    status, _, err, *_ = at.read("open", "new.h5?authz=SECRET")
    now = list(pathlib.Path(at.server.run, "cache").glob("*/*/*"))
    (at.root / "new.h5").unlink()
    assert status == 0 and now == kept, err[-2000:]
    no_query_logged(at)


def no_query_logged(at):
    assert at.read("open", "images.h5?authz=SECRET")[0] == 0
    for log in pathlib.Path(at.server.run).glob("*.log"):
        assert "SECRET" not in log.read_text(), f"{log.name} has it"


def steady(at):
    """A file that is still on its way into the cache is not one that changes, whenever the reader checks."""
    made(at, "s.h5", 1, 7200)
    with at.follower("s.h5", revalidate_ms=100) as tell:
        assert tell("open") == "opened"
        for image in range(0, 20, 2):
            assert (said := tell(image)) == "1", said
            time.sleep(0.12)    # a check a read


def made(at, name, version, age_s):
    """A version of a file takes the name; its date is so long ago."""
    status, out, err = harness.run([PYTHON, "-c", VERSION, at.root / "part", str(version)], harness.clean_env())
    assert status == 0, out + err
    then = time.time() - age_s
    os.utime(at.root / "part", (then, then))
    (at.root / "part").rename(at.root / name)


def changed(at):
    """Another takes the name while it is open: what is read is the old one's, or an error; then the new one's."""
    made(at, "v.h5", 1, 7200)
    with at.follower("v.h5", revalidate_ms=200) as tell:
        assert tell("open") == "opened" and tell(3) == "1" and tell(4) == "1"
        made(at, "v.h5", 2, 3600)
        end, image = time.monotonic() + 20, 5
        while (said := tell(image)) == "1":
            assert time.monotonic() < end, "it is not told"
            image = image + 1 if image < 19 else 5
            time.sleep(0.15)    # lighttpd knows a file for up to two seconds
        assert TOLD in said, said
        end = time.monotonic() + 20     # a cache may show the old one so long: then all of it, or an error
        while True:
            said = [tell("open"), *(tell(n) for n in (3, 10, 19))]
            versions = {word for word in said if word.isdigit()}
            assert len(versions) <= 1 and said[0] == "opened", said
            if versions == {"2"}:
                break
            assert at.origin is not at.server and time.monotonic() < end, said
            time.sleep(0.2)


def written(at):
    """A new file, a change, and two at once; what is there is what was written, and nothing lies beside it."""
    url = f"{at.server.url}/new.h5"
    with harness.shadow_dir() as shadow, tempfile.TemporaryDirectory() as overlay:
        options = {"shadow": shadow, "writable": "on", "overlay_dir": overlay}
        for what in ("create", "a"):
            status, out, err = at.run(WRITE, what, url, **options)
            assert status == 0, out + err[-3000:]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            both = list(pool.map(lambda what: at.run(WRITE, what, url, **options), ("a", "b")))
        assert all(status == 0 for status, *_ in both), both
    said = harness.run([PYTHON, "-c", "import sys, h5py; f = h5py.File(sys.argv[1]); "
                        "print((f['a'][:] == 7).sum(), (f['b'][:] == 7).sum(), f['packed'][299, 299])",
                        at.root / "new.h5"], harness.clean_env())[1]
    assert said == "1000 1000 89999\n", said
    assert [f.name for f in at.root.glob("new*")] == ["new.h5"], list(at.root.glob("new*"))


def refused(at):
    """It takes no writing: that is said when the file is opened, by name, and the file is as it was."""
    made(at, "w.h5", 1, 7200)
    before = (at.root / "w.h5").read_bytes()
    with harness.shadow_dir() as shadow, tempfile.TemporaryDirectory() as overlay:
        for what, name in (("create", "new.h5"), ("images", "w.h5")):
            status, out, err = at.run(WRITE, what, f"{at.server.url}/{name}", shadow=shadow, writable="on",
                                      overlay_dir=overlay)
            assert status and at.server.url in err and re.search(REFUSALS[at.kind], err), err[-3000:]
    assert (at.root / "w.h5").read_bytes() == before and not (at.root / "new.h5").exists()


def failing(at):
    """No such file; the server is stopped while a file is open, and started again."""
    status, _, err, *_ = at.read("open", "nothere.h5")
    assert status and "FileNotFoundError" in err, err[-2000:]
    made(at, "f.h5", 1, 7200)
    with at.follower("f.h5", retries=1, connect_timeout_ms=2000) as tell:
        assert tell("open") == "opened"
        at.release()
        at.server.stop()
        try:
            said = tell(3)
            assert said.startswith(("ConnectionError", "ConnectionRefusedError", "OSError", "TimeoutError")), said
        finally:
            at.server.start_again()
        assert tell("open") == "opened" and tell(5) == "1"


def said_of_cache(at, name, base=None, **env):
    out = harness.run([TOOL, "doctor", "--quick", "--json", f"{base or at.server.url}/{name}"],
                      harness.driver_env(at.server, **env) | env)[1]
    said, = (s for s in json.loads(out)["steps"] if s["step"] == "cache")
    return said["cache"], said.get("kept"), said["state"], said["text"], said["advice"] or ""


def cached(at):
    """Two hosts read at once: the origin sends each byte once. A third reads what is here while the origin is down."""
    at.release()
    at.server.stop()        # and with it what it holds
    at.server.start_again()
    for what, name in (("stream", "images.h5"), ("walk", "tree.h5")):     # the latter is small
        before, size = at.origin_bytes(), (at.root / name).stat().st_size
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: at.right(what, name, 1000, 1e9, stall_timeout_ms=10000), range(2)))
        sent = at.origin_bytes() - before
        assert sent < (1.01 if size > 1 << 24 else 1.05) * size, f"{name}: {sent} bytes, it has {size}"
    if at.kind == "nginx-cache":    # nor is it asked by each for what it lacks, as most sidecars
        before = at.origin.requests()[0]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            assert all("FileNotFoundError" in err for _, _, err, *_ in pool.map(
                lambda _: at.read("open", "lacks.h5"), range(4)))
        asked = at.origin.requests()[0] - before
        assert asked <= 2, f"{asked} requests"
    if at.kind == "xcache":     # it writes what came some time after it has sent it on
        harness.wait_for(lambda: said_of_cache(at, "images.h5")[1] == "yes", "that all of it is there", 40)
        os.kill(int(at.origin.facts["pid"]), signal.SIGSTOP)
    else:
        at.origin.stop()
    # Requests that wait in a Squid while another asks the origin are answered with 504, although it has the file.
    again = {} if at.kind == "squid-cache" else {"retries": 0}
    try:
        at.right("stream", "images.h5", 1000, 1e9, stall_timeout_ms=10000, **again)
    finally:
        if at.kind == "xcache":
            os.kill(int(at.origin.facts["pid"]), signal.SIGCONT)
        else:
            at.origin.start_again()


def left_open(at):
    """A file that changes under its name is of two versions in an XCache: docs/servers.md tells owners."""
    trust = ssl.create_default_context(cafile=at.server.cacert)

    def piece(mebibyte):
        start = mebibyte << 20
        ask = urllib.request.Request(f"{at.server.url}/x.h5", headers={"Range": f"bytes={start}-{start + 1048575}"})
        with urllib.request.urlopen(ask, context=trust, timeout=20) as reply:
            return reply.read()
    made(at, "x.h5", 1, 7200)
    for mebibyte in (0, 3, 4):
        piece(mebibyte)
    made(at, "x.h5", 2, 3600)

    def holds_old():
        """The origin has the old file open as long as the cache has."""
        for fd in pathlib.Path(f"/proc/{at.origin.facts['pid']}/fd").iterdir():
            with contextlib.suppress(OSError):
                if "x.h5" in os.readlink(fd):
                    return True
        return False
    harness.wait_for(lambda: not holds_old(), "that the old one is closed", 40)
    with at.follower("x.h5") as tell:
        assert (tell("open"), tell(3), tell(19)) == ("opened", "1", "2"), "it is told of now"


def limited(at):
    """By nginx-limits.conf.in or xrootd-limits.cfg.in: all of it comes, and those that were told to wait do."""
    began = time.monotonic()
    at.right("stream", "images.h5", 1000, 1e9)
    took_s = time.monotonic() - began
    at.right("walk", "tree.h5", 1000, 1e9, head_bytes=16384, whole_file_bytes=16384)
    if at.kind == "xrootd":
        assert took_s > IMAGES * IMAGE_BYTES / 2 / (LIMITS[at.kind][1] << 20), f"{took_s} s: it is not limited"
        return
    log = pathlib.Path(at.server.facts["log"]).read_text()
    asked, refused = log.count(" status="), log.count(" status=429 ")
    assert 0 < refused <= asked / 3, f"{refused} of {asked} requests were refused"


def examined(at):
    """xhdf5 doctor says what stands in front, whether it keeps the file, and, where it is not told, nothing of it."""
    def step(name, base=None, **env):
        return said_of_cache(at, name, base, **env)

    (at.root / "seen.h5").hardlink_to(at.root / "images.h5")        # which nobody has read here
    first, second = step("seen.h5"), step("seen.h5")
    (at.root / "seen.h5").unlink()
    if at.server is at.origin:
        assert first[:3] == ("none seen", None, "ok"), first
    elif at.kind == "xcache":
        assert first[:3] == ("XCache", "not all", "note") and "another name" in first[4], first
        at.right("stream", "images.h5", 1000, 1e9)
        harness.wait_for(lambda: step("images.h5")[1] == "yes", "that all of it is there")
        assert step("images.h5")[2] == "note"
    else:
        word = {"nginx-cache": "X-Cache-Status: HIT", "squid-cache": "(squid/"}[at.kind]
        assert first[:3] == ("yes", "yes", "ok") and word in first[3], first
        assert "had to ask the origin at first" in first[3] and "came out of it" in second[3], (first, second)
    if at.kind == "nginx-cache":
        private = step("private/images.h5", BEARER_TOKEN=at.origin.facts["token"])
        assert private[:3] == ("yes", "no", "note") and "keeps nothing of them" in private[3], private
        with harness.Server("xrootd", at.root, words=["--ca", at.ca]) as origin, harness.Server(
                "nginx-cache", None, words=["--ca", at.ca, "--origin",
                                            origin.url.removeprefix("https://")]) as unproved:
            said = step("images.h5", unproved.url)
        assert said[:3] == ("yes", "no", "note") and "asked the origin again" in said[3], said


READING = {"open": opened, "walk": walked, "stream": streamed, "random": scattered}
CELLS = {kind: READING | {"version": changed, "failure": failing, "doctor": examined} | more for kind, more in {
    "apache": {"private": private, "write": written},
    "lighttpd": {"private": private, "write": refused},
    "nginx-cache": {"private": passed_through, "write": refused, "cached": cached},
    "squid-cache": {"private": no_query_logged, "write": refused, "cached": cached},
    "xcache": {"version": left_open, "steady": steady, "write": refused, "cached": cached}}.items()}
CELLS |= {"nginx": {"limited": limited}, "xrootd": {"limited": limited}}
LIMITS = {"nginx": (2, 8), "xrootd": (4, 20)}   # how many at once; requests a second, or MiB
REFUSALS = {"lighttpd": "404 Not Found at MKCOL, as where there is no such directory|412|405|501",
            "nginx-cache": "403.*MKCOL", "squid-cache": "403.*MKCOL",
            "xcache": "read-only file system|does not tell its version"}
MANY_RANGES = "apache", "lighttpd", "squid-cache", "xcache"


@contextlib.contextmanager
def serving(kind, root, ca):
    words = ["--ca", str(ca)]
    if kind not in ("nginx-cache", "squid-cache", "xcache"):
        words += ["--writable"] * ("write" in CELLS[kind])
        if kind in LIMITS:
            at_once, rate = LIMITS[kind]
            words += ["--limits", str(at_once), f"{rate}m" if kind == "xrootd" else str(rate)]
        with harness.Server(kind, root, words=words) as server:
            yield At(kind, server, root, ca)
        return
    with harness.Server("xrootd" if kind == "xcache" else "nginx", root, words=words) as origin:
        where = origin.facts["xroot"] if kind == "xcache" else origin.url.removeprefix("https://")
        with harness.Server(kind, None, words=[*words, "--origin", where, "--fresh", FRESH[kind]]) as server:
            at = At(kind, server, root, ca, origin)
            yield at
            at.release()


def main():
    kind, cells = sys.argv[1], sys.argv[2:] or CELLS[sys.argv[1]]
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        top = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-servers-")))
        root, ca = top / "data", top / "ca"
        (root / "private").mkdir(parents=True)
        ca.mkdir()
        for path in (top, root / "private"):
            path.chmod(0o755)
        root.chmod(0o777)
        sys.path.append(str(harness.TOP / "server"))
        import throwaway_ca
        throwaway_ca.make_ca(ca)
        for name, words in (("images", ("--n", IMAGES, "--side", SIDE)), ("tree", ("--datasets", DATASETS))):
            status, out, err = harness.run([PYTHON, harness.TOP / "tests/support/mkdata.py", name, root / f"{name}.h5",
                                            *words], harness.clean_env())
            assert status == 0, out + err
        (root / "private/images.h5").hardlink_to(root / "images.h5")
        try:
            at = stack.enter_context(serving(kind, root, ca))
        except harness.serve().Impossible as why:
            tap.skip(kind, why)
            return tap.done()
        for cell in cells:
            with tap.claim(f"{kind}: {cell}"):
                CELLS[kind][cell](at)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
