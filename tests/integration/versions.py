#!/usr/bin/env python3
"""A file that changes while it is open, at a real server: every change, met by every kind of read. What is held to be
true is the table in docs/origin.md, "What a change comes to"; what is left open there is shown here as well.

Usage: versions.py nginx|xrootd [WORD …]        with words: only the claims that hold all of them
"""
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

IMAGES = 80             # of 512 KiB: a stream of them is larger than what the reader takes ahead and the sockets hold
BEYOND = 60             # of these, one that is not fetched ahead with the first ones, however slow the change is
OTHER = {"longer": IMAGES + 4, "shorter": IMAGES - 4}
TOLD = "was changed on the server", "was removed on the server", "there is no such file"
CHECK_MS = 200          # XRootD is asked for the date as often
LATE_S = 100            # what is not told by then never is
OLD, NEWER, OLDER = 1.5e9, 1.6e9, 1.4e9     # dates

WRITE = f"""
import sys, h5py, numpy as np
for path, version, images in zip(*[iter(sys.argv[1:])] * 3):
    with h5py.File(path, "w") as f:
        n = int(images) << 16
        f["images"] = (np.arange(n, dtype="u8") | np.uint64(int(version) << 40)).reshape(int(images), -1)
"""

# Does as standard input says and answers each line by one: "open URL NAME", "close NAME", "read NAME FIRST COUNT". An
# answer to read is the versions whose bytes came, or how it failed.
READ = """
import sys, h5py, numpy as np
files = {}
def do(verb, name, *words):
    if verb == "open":
        files[name] = h5py.File(words[0], "r")
        return f'{files[name]["images"].shape[0]}'
    if verb == "close":
        files.pop(name).close()
        return "closed"
    first, count = map(int, words)
    found = set()
    for i in range(first, first + count):
        image = files[name]["images"][i]
        assert np.array_equal(image & ((1 << 40) - 1), np.arange(i << 16, (i + 1) << 16)), "WRONG BYTES"
        found |= {int(v) for v in (image[image.argmin()] >> 40, image[image.argmax()] >> 40)}
    return " ".join(map(str, sorted(found)))
for line in sys.stdin:
    try:
        print(do(*line.split()), flush=True)
    except Exception as e:
        print("failed:", type(e).__name__, str(e).replace("\\n", " ")[:600], flush=True)
"""


class Reader:
    """One h5py process that has many files open; its shadow lies in |shadow|."""

    def __init__(self, server, shadow, check_ms=CHECK_MS):
        env = harness.driver_env(server, shadow, revalidate_ms=check_ms, readahead_bytes=16 << 20)
        self.url = server.url
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(harness.H5PY["3.14.0"]), "-c", READ], env=env, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer, "the reader has ended"
        return answer

    def open(self, name):
        return self.do("open", name, f"{self.url}/{name}")

    def read(self, name, first, count=1):
        return self.do("read", name, first, count)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0


class Files:
    """The two versions of a file, in the right form for each change, and what is made of them under names of their own."""

    def __init__(self, directory):
        self.root, self.store = directory / "root", directory / "store"
        for d in (self.root, self.store):
            d.mkdir(mode=0o755)
        self.root.chmod(0o755), self.store.chmod(0o755)
        words = []
        for name, version, images in (("old", 1, IMAGES), ("same", 2, IMAGES), *((k, 2, n) for k, n in OTHER.items())):
            words += [self.store / name, version, images]
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", WRITE, *words], harness.clean_env())
        assert status == 0, err
        for name in ("older", "dated"):
            shutil.copy(self.store / "same", self.store / name)
        dates = {"old": OLD, "older": OLDER, "dated": OLD + 0.9}
        for f in self.store.iterdir():
            f.chmod(0o644)
            os.utime(f, (dates.get(f.name, NEWER),) * 2)

    def make(self, name, alone):
        """|alone|: it is going to be changed where it is."""
        (shutil.copy2 if alone else os.link)(self.store / "old", self.root / name)

    def replace(self, name, by):
        """Another file takes the name: the old one is whole as long as somebody has it open."""
        os.link(self.store / by, self.root / f"{name}.part")
        os.rename(self.root / f"{name}.part", self.root / name)

    def rewrite(self, name):
        """The same file gets the new version's bytes."""
        with open(self.root / name, "r+b") as f:
            f.write((self.store / "same").read_bytes())
        os.utime(self.root / name, (NEWER, NEWER))

    def append(self, name):
        with open(self.root / name, "ab") as f:
            f.write(b"more")

    def cut(self, name):
        os.truncate(self.root / name, os.stat(self.root / name).st_size - (4 << 20))


class Change:
    def __init__(self, do, size, afterwards, in_place=False):
        """|size| of the new file beside the old one's: same, other, or none. |afterwards|: what opening it again gives, a
        version or an error."""
        self.do, self.size, self.afterwards, self.in_place = do, size, afterwards, in_place


def changes(files):
    return {
        "another of the same size takes its place": Change(lambda n: files.replace(n, "same"), "same", "2"),
        "an older one of the same size takes its place": Change(lambda n: files.replace(n, "older"), "same", "2"),
        "a longer one takes its place": Change(lambda n: files.replace(n, "longer"), "other", "2"),
        "a shorter one takes its place": Change(lambda n: files.replace(n, "shorter"), "other", "2"),
        "it is rewritten where it is": Change(files.rewrite, "same", "2", in_place=True),
        "it is appended to": Change(files.append, "other", "1", in_place=True),
        "it is cut off": Change(files.cut, "other", "truncated", in_place=True),
        "it is removed": Change(lambda n: os.unlink(files.root / n), "none", "FileNotFoundError"),
    }


def noticed(said):
    """1 when the answer is the error that tells of a change."""
    assert not said.startswith("failed") or any(w in said for w in TOLD), said
    return said.startswith("failed")


class Case:
    """One file, one change, one kind of read."""

    def __init__(self, kind, files, reader, name, change):
        self.kind, self.reader, self.name, self.what = kind, reader, name, change
        files.make(name, change.in_place)
        assert reader.open(name) == str(IMAGES)

    def change(self):
        self.what.do(self.name)

    def read(self, first, count=1):
        return self.reader.read(self.name, first, count)

    def proved(self, streaming=False):
        """1 when no byte of the new version may come at all: each reply proves its version, or tells another size, or
        there is none. Not so what a server sends of a file that is rewritten while it sends it."""
        if self.kind == "nginx":
            return not (streaming and self.what.in_place and self.what.size == "same")
        return self.what.size != "same"

    def read_until_noticed(self, first, streaming=False):
        """Reads on, and round again, until the change is told. XRootD is asked for the date with what is asked for,
        once that is due: where all came before it was, nothing would be asked any more."""
        time.sleep(1.5e-3 * CHECK_MS)
        end, i = time.monotonic() + LATE_S, first
        while not noticed(said := self.read(i)):
            assert said == "1" or not self.proved(streaming), f"image {i} is of version {said}"
            assert time.monotonic() < end, f"not told for {LATE_S} s; the last was image {i}, of version {said}"
            i = i + 1 if i + 1 < IMAGES else first
            time.sleep(0.02)

    def opened_again(self):
        self.reader.do("close", self.name)
        said = self.reader.open(self.name)
        if not self.what.afterwards.isdigit():
            assert self.what.afterwards in said, said
            return
        for first in (0, 22, 35, int(said) - 3):
            assert (version := self.read(first, 3)) == self.what.afterwards, f"opened again: image {first}: {version}"
        self.reader.do("close", self.name)

    # --- the kinds of read

    def cached(self):
        """What was read and kept is the old version's as long as it is given out."""
        assert self.read(0, 3) == "1"
        self.change()
        for _ in range(3):
            assert (said := self.read(0, 3)) == "1" or noticed(said), said
        self.read_until_noticed(BEYOND)     # nothing of that is under way
        assert (said := self.read(0, 3)) == "1" or noticed(said), said

    def uncached(self):
        assert self.read(0) == "1"
        self.change()
        said = self.read(30)
        assert noticed(said) or not self.proved(), f"version {said}"
        if not noticed(said):
            self.read_until_noticed(31)

    def prefetched(self):
        """What was fetched ahead is the old version's; what comes behind it is refused."""
        for i in range(4):
            assert self.read(i) == "1"
        time.sleep(0.1)         # it may be here by now, or on its way: either is right
        self.change()
        self.read_until_noticed(4)

    def streamed(self):
        """A reply that is under way is the old version's, and no other stands beside it."""
        assert self.read(0, 20) == "1"
        self.change()
        self.read_until_noticed(20, streaming=True)


WAYS = {"a page that was read": Case.cached, "one that was not": Case.uncached, "one fetched ahead": Case.prefetched,
        "a stream under way": Case.streamed}


# --- what is left open: each of these is shown to go wrong, so that whoever mends it finds what to strike out in
# docs/origin.md

def until_quiet(server):
    """Waits until no request has ended for half a second: XRootD has a file open as long as one of it goes on, and
    sends what it has open."""
    before, looks = None, 0
    while looks < 5:
        now = server.requests()
        before, looks = now, looks + 1 if now == before else 0
        time.sleep(0.1)


def same_second(kind, files, reader, name, server):
    """The server's validator is a date in seconds, with the size or without: another file of the same is the same file."""
    case = Case(kind, files, reader, name, Change(lambda n: files.replace(n, "dated"), "same", "2"))
    assert case.read(0, 3) == "1"
    until_quiet(server)
    case.change()
    assert case.read(BEYOND) == "2" and case.read(0, 3) == "1", "it is told of now"
    reader.do("close", name)
    assert reader.open(name) == str(IMAGES)
    assert (case.read(0, 3), case.read(BEYOND)) == ("1", "2"), "the next opening gets over it now"
    reader.do("close", name)


def rewritten_in_mid_reply(files, reader, name):
    """A reply tells its version at its beginning. What is rewritten where it is while a long one is under way comes
    behind the old bytes. nginx sends such a reply now and then, this server always."""
    liar = subprocess.Popen([sys.executable, harness.TOP / "tests/support/liar.py", files.store / "old"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = dict(word.split("=") for word in liar.stdout.readline().split())["port"]
        assert reader.do("open", name, f"http://127.0.0.1:{port}/torn:{20 << 20}/{name}") == str(IMAGES)
        said = [reader.read(name, i) for i in range(IMAGES)]
        assert said[0] == "1" and "WRONG BYTES" in said[-1], f"it is told of now: {said}"
        assert not any(word in line for word in TOLD for line in said), f"it is told of now: {said}"
        reader.do("close", name)
    finally:
        liar.kill()
        liar.wait()


@contextlib.contextmanager
def slow_client(server, name):
    """Has asked for all of it, and takes no more than the beginning."""
    host, _, port = server.url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=server.cacert)
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as s:
        s.sendall(f"GET /{name} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert b" 200 " in s.recv(1000)
        yield


def removed_but_open(kind, files, reader, name, server):
    """XRootD goes on serving it as long as somebody has it open."""
    case = Case(kind, files, reader, name, Change(lambda n: os.unlink(files.root / n), "none", "FileNotFoundError"))
    assert case.read(0) == "1"
    with slow_client(server, name):
        case.change()
        case.read_until_noticed(20)
    case.opened_again()


def held_open(files, reader, name, server):
    """XRootD opens a file once for all who read it: as long as one of them has it open, others get the old bytes behind the
    new date."""
    files.make(name, alone=False)
    with slow_client(server, name):
        files.replace(name, "same")
        assert reader.open(name) == str(IMAGES)
        before = reader.read(name, 30)
        reader.do("close", name)
    said, end = before, time.monotonic() + LATE_S
    for i in range(31, IMAGES):
        assert reader.open(name) == str(IMAGES)
        said = reader.read(name, i)
        reader.do("close", name)
        if said == "2" or time.monotonic() > end:
            break
        time.sleep(0.1)
    assert (before, said) == ("1", "2"), f"{before}, then {said}: it is told of now"
    assert reader.open(name) == str(IMAGES)
    assert reader.read(name, 30) == "1", "the next opening gets over it now"
    reader.do("close", name)


def told_by_an_opening(files, server):
    """XRootD: whoever opens the file anew in the same process finds another date, and does not keep that to himself."""
    with harness.shadow_dir() as shadow:
        reader = Reader(server, shadow, check_ms=24 * 3600 * 1000)
        files.make("told.h5", alone=False)
        assert reader.open("told.h5") == str(IMAGES) and reader.read("told.h5", 0) == "1"
        files.replace("told.h5", "same")
        assert reader.do("open", "new", f"{server.url}/told.h5") == str(IMAGES)
        for i in range(LATE_S * 10):
            if noticed(said := reader.read("told.h5", BEYOND + i % (IMAGES - BEYOND))):
                break
            time.sleep(0.1)
        assert noticed(said), f"not told; the last was of version {said}"
        assert reader.read("new", BEYOND) == "2"
        reader.close()


def main():
    kind, words = sys.argv[1], sys.argv[2:]
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-versions-")))
        directory.chmod(0o755)
        files = Files(directory)
        server = stack.enter_context(harness.Server(kind, files.root))
        reader = Reader(server, stack.enter_context(harness.shadow_dir()))
        claims = {}
        for what, change in changes(files).items():
            for way, read in WAYS.items():
                def case(name, change=change, read=read):
                    case = Case(kind, files, reader, name, change)
                    read(case)
                    case.opened_again()
                claims[f"{what}; {way}"] = case
        claims["it is removed while somebody else has it open"] = \
            lambda name: removed_but_open(kind, files, reader, name, server)
        claims["left open: another of the same size and second"] = \
            lambda name: same_second(kind, files, reader, name, server)
        if kind == "nginx":
            claims["left open: what is rewritten while the server sends it"] = \
                lambda name: rewritten_in_mid_reply(files, reader, name)
        if kind == "xrootd":
            claims["another of the same size takes its place, and the next opening tells those that have it open"] = \
                lambda name: told_by_an_opening(files, server)
            claims["left open: another of the same size, while somebody has the old one open"] = \
                lambda name: held_open(files, reader, name, server)
        for number, (claim, show) in enumerate(claims.items()):
            if all(w in claim for w in words):
                with tap.claim(f"{kind}: {claim}"):
                    show(f"f{number}.h5")
                (files.root / f"f{number}.h5").unlink(missing_ok=True)
        reader.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
