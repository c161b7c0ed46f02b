#!/usr/bin/env python3
"""xhdf5 cache: warm, ls, verify and rm against a real server; requests are counted in its own log.

Usage: cache_tool.py nginx|xrootd [--all]     without --all at XRootD what hangs on the server: warming
"""
import contextlib
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
COMMANDS = ([], ["cache"], ["cache", "ls"], ["cache", "rm"], ["cache", "warm"], ["cache", "verify"])

# All that a reader may ask of metadata: in both orders, with values and chunk indexes.
LIST_TREE = """
import sys, h5py
out = []
def visit(name, obj):
    out.append((name, sorted((k, str(v)) for k, v in obj.attrs.items())))
    if isinstance(obj, h5py.Dataset):
        out.append((obj.shape, str(obj.dtype), obj.chunks, obj.id.get_storage_size()))
    else:
        out.append([(k, str(obj.get(k, getlink=True).__class__)) for k in obj])
with h5py.File(sys.argv[1], "r") as f:
    f.visititems(visit)
print(len(out), hash(str(out)))
"""
READ_SETS = """
import sys, hashlib, h5py
h = hashlib.sha256()
with h5py.File(sys.argv[1], "r") as f:
    for name in sys.argv[2:]:
        d = f[name]
        for i in range(0, d.shape[0], max(1, d.shape[0] // 16)):
            v = d[i:i + max(1, d.shape[0] // 16)]
            h.update(str(v.tolist()).encode() if v.dtype.hasobject else v.tobytes())
print(h.hexdigest())
"""
FORK_AND_CLOSE = """
import os, sys, h5py
f = h5py.File(sys.argv[1], "r")
f["images"][:]
child = os.fork()
if child == 0:
    f.close()
    os._exit(0)
f.close()
assert os.waitpid(child, 0)[1] == 0
"""
# What each of the files is found to be, twice: cold, and with what the first opening left.
OPEN_ALL = """
import sys, h5py
for url in 2 * sys.argv[1:]:
    try:
        with h5py.File(url, "r") as f:
            print("opened", f["x"][:].tolist(), f.attrs["a"])
    except OSError as e:
        print(e)
"""
HOLD_OPEN = """
import sys, h5py
with h5py.File(sys.argv[1], "r") as f:
    print(len(f), flush=True)
    sys.stdin.read()
"""
# Metadata of every kind, with raw data between, so that the file does not come whole.
MIXED = """
import sys, h5py, numpy as np
rng = np.random.default_rng(1)
for libver, out in (("earliest", sys.argv[1]), ("latest", sys.argv[2])):
    with h5py.File(out, "w", libver=libver) as f:
        ordered = f.create_group("ordered", track_order=True)
        for i in range(120):
            g = ordered.create_group(f"z{997 * i % 120:03d}", track_order=True)
            for k in range(12):
                g.attrs[f"a{k}"] = "value of variable length " * (k + 1)
            g["chunked"] = h5py.SoftLink("/chunked")
            f.create_dataset(f"ballast{i}", data=rng.random(16384))
        f.create_dataset("strings", data=[f"text {i} " * 8 for i in range(20000)], dtype=h5py.string_dtype(), chunks=(1000,))
        f.create_dataset("chunked", data=rng.integers(0, 99, (512, 1024)), chunks=(16, 16), compression="gzip")
        f.create_dataset("growing", data=rng.random((200, 512)), chunks=(1, 512), maxshape=(None, 512))
        f.create_dataset("plain", data=rng.random((512, 1024)), chunks=(16, 1024))
        pair = np.dtype([("name", h5py.string_dtype()), ("n", "i4", (2,))])
        f.create_dataset("pairs", data=np.array([(f"text {i} " * 9, (i, i)) for i in range(2000)], dtype=pair))
        f["compact"] = np.arange(10)
        f["plainly"] = h5py.SoftLink("/plain")
        f["abroad"] = h5py.ExternalLink("spread.h5", "/")
        layout = h5py.VirtualLayout(shape=(512, 1024), dtype="f8")
        layout[:] = h5py.VirtualSource(f["plain"])
        f.create_virtual_dataset("virtual", layout)
"""


def make(*words):
    status, out, err = harness.run([harness.DATA_PYTHON, *words], harness.clean_env(), timeout=300)
    if status:
        raise RuntimeError(out + err)


def mkdata(path, *words):
    make(harness.TOP / "tests/support/mkdata.py", words[0], path, *words[1:])


def python(code, env, *args, version="3.16.0", heard=None):
    """What it prints. |heard| gets its standard error."""
    status, out, err = harness.run([harness.H5PY[version], "-c", code, *args], dict(env, PYTHONHASHSEED="0"),
                                   timeout=200)
    if status:
        raise RuntimeError(err[-3000:])
    if heard:
        heard(err)
    return out.strip()


class Bench:
    """One server, one shadow directory, the tool and its readers."""

    def __init__(self, server, shadow, data):
        self.server, self.data, self.base = server, data, shadow
        self.shadow = shadow / "v6"    # of this layout
        self.env = harness.driver_env(server, shadow, log="stats")
        self.again = 0     # requests that were sent twice, as a reply straggled or failed
        self.opening = 3 if server.kind == "xrootd" else 2    # a known file: its version (XRootD: and a byte), and what may lie beside it

    def url(self, name):
        return f"{self.server.url}/{name}"

    def tool(self, *words, want=0, **env):
        """Standard output and error of `xhdf5 cache …`; the exit code is checked."""
        status, out, err = harness.run([TOOL, "cache", *words], dict(self.env, **env), timeout=200)
        assert status == want, f"exit code {status}, not {want}: {out}{err}"
        return out, self.heard(err)

    def heard(self, err):
        """Counts what was sent again. Returns |err| without the counters."""
        found = harness.counters(err)
        self.again += found["hedged"] + found["retries"]
        return re.sub(r"(?m)^\d+ \d+ \d+ stats .*\n", "", err)

    def list(self):
        return json.loads(self.tool("ls", "--json")[0])

    def entry(self, name):
        found = [e for e in self.list() if e["url"].endswith("/" + name)]
        assert len(found) == 1, found
        return found[0]

    @contextlib.contextmanager
    def at_most(self, requests, size=10000):
        """What the body asks the server for, by its own log. Not where a reply straggled, and was asked for again."""
        before, again = self.server.requests(), self.again
        yield
        if self.again > again:
            return
        after = self.server.requests()
        asked = after[0] - before[0], after[1] - before[1]
        assert asked[0] <= requests, f"{asked[0]} requests"
        assert asked[1] <= size, f"{asked[1]} bytes"

    def same_as_local(self, code, name, *args, version="3.16.0", **env):
        want = python(code, harness.clean_env(), f"{self.data}/{name}", *args)
        got = python(code, dict(self.env, **env), self.url(name), *args, version=version, heard=self.heard)
        assert got == want, f"{got} instead of {want}"


def helps(tap):
    env = harness.clean_env()
    with tap.claim("--version says it, and every command has its help"):
        status, out, err = harness.run([TOOL, "--version"], env)
        assert status == 0 and out.startswith("xhdf5 "), out + err
        for words in COMMANDS:
            status, out, err = harness.run([TOOL, *words, "--help"], env)
            assert status == 0 and "xhdf5 cache" in out and not err, (words, out, err)
    with tap.claim("a command line that makes no sense is told so with 2"):
        for words in ([], ["cash"], ["cache"], ["cache", "--json"], ["cache", "ls", "x"], ["cache", "ls", "--jsn"],
                      ["cache", "rm"], ["cache", "rm", "--all", "x"], ["cache", "warm"], ["cache", "warm", "/a/file"],
                      ["cache", "warm", "https://h/x", "--dataset"],
                      ["cache", "warm", "https://h/x", "--metadata-only", "--dataset", "d"],
                      ["cache", "verify"], ["cache", "verify", "file.h5"]):
            status, out, err = harness.run([TOOL, *words], env)
            assert status == 2 and "--help" in err and not out, (words, status, out, err)


def warms(tap, b):
    size = {name: os.path.getsize(f"{b.data}/{name}") for name in os.listdir(b.data)}
    with tap.claim(f"after warm --metadata-only a reader walks the tree with at most {b.opening} requests"):
        with b.at_most(200, size["spread.h5"] // 2):
            b.tool("warm", b.url("spread.h5") + "?token=hidden", "--metadata-only")
            b.tool("warm", b.url("spread.h5"), "--metadata-only")
        for version in harness.H5PY:
            with b.at_most(b.opening):
                b.same_as_local(LIST_TREE, "spread.h5", version=version)
    for name in ("mixed.h5", "mixed_new.h5"):
        sets = ("strings", "pairs", "chunked", "growing", "plain", "ballast7", "compact")
        with tap.claim(f"{name}: metadata of every kind is there after warm --metadata-only"):
            b.tool("warm", b.url(name), "--metadata-only", XHDF5_READAHEAD="off")  # what it asks for, and no more
            for version in harness.H5PY:
                with b.at_most(b.opening):  # and no guesses: global heaps in equal steps look like raw data to come
                    b.same_as_local(LIST_TREE, name, version=version, XHDF5_READAHEAD="off")
        with tap.claim(f"{name}: after warm every kind of raw data is there"):
            with b.at_most(300, size[name] * 1.02):
                assert "in other files" in b.tool("warm", b.url(name))[0]
            for version in harness.H5PY:
                with b.at_most(b.opening):
                    b.same_as_local(READ_SETS, name, *sets, version=version)
    for name in ("images.h5", "gzip.h5"):
        with tap.claim(f"{name}: a file larger than a stream comes once, and a reader sends at most {b.opening} requests"):
            with b.at_most(200, size[name] * 1.02 + 200000):
                b.tool("warm", b.url(name), XHDF5_STREAM_BYTES="1M")
            with b.at_most(b.opening):
                b.same_as_local(READ_SETS, name, "images")
    with tap.claim("warm --dataset brings that dataset, or those of a group, and no other"):
        b.tool("rm", b.url("mixed.h5"))
        with b.at_most(200, size["mixed.h5"] / 2):
            b.tool("warm", b.url("mixed.h5"), "--dataset", "/ordered/z000/chunked", "--dataset", "plainly")
        with b.at_most(b.opening):
            b.same_as_local(READ_SETS, "mixed.h5", "plain", "chunked")
        before = b.server.requests()
        b.same_as_local(READ_SETS, "mixed.h5", "growing", "ballast3")
        assert b.server.requests()[0] - before[0] > b.opening, "nothing was left to fetch"
    with tap.claim("datasets behind an external link are left to their own file"):
        out, _ = b.tool("warm", b.url("mixed.h5"), "--dataset", "abroad")
        assert "600 of 600 datasets have their data in other files" in out, out
    with tap.claim("metadata beyond the budget is said to be so, with 1"):
        with tempfile.TemporaryDirectory(prefix="xh-small-", dir="/dev/shm") as small:
            out, err = b.tool("warm", b.url("mixed.h5"), "--metadata-only", want=1, XHDF5_SHADOW_DIR=small,
                              XHDF5_SHADOW_BUDGET_BYTES="16K")
            assert "not all of the metadata stayed" in err and "SHADOW_BUDGET_BYTES" in err, out + err
    with tap.claim("raw data beyond the budget is not fetched, and said to be so with 1"):
        with tempfile.TemporaryDirectory(prefix="xh-small-", dir="/dev/shm") as small:
            with b.at_most(100, 2_000_000):
                out, err = b.tool("warm", b.url("images.h5"), want=1, XHDF5_SHADOW_DIR=small,
                                  XHDF5_SHADOW_BUDGET_BYTES="16M")
            assert "nothing of it was fetched" in err and "SHADOW_BUDGET" in err, err
    with tap.claim("where nothing can be shared, warm says so with 3"):
        assert "shadow is off" in b.tool("warm", b.url("mixed.h5"), want=3, XHDF5_SHADOW="off")[1]
        assert "no shadow" in b.tool("warm", b.url("mixed.h5"), want=3, XHDF5_SHADOW_DIR="/proc/nowhere")[1]
    with tap.claim("what is not there, and what is no HDF5 file, is said with 3"):
        assert "404" in b.tool("warm", b.url("nothing.h5"), want=3)[1]
        assert "/nowhere" in b.tool("warm", b.url("mixed.h5"), "--dataset", "/nowhere", want=3)[1]
        assert "no dataset" in b.tool("warm", b.url("mixed.h5"), "--dataset", "ordered/z001/none", want=3)[1]
        assert "text.h5" in b.tool("warm", b.url("text.h5"), want=3)[1]
    with tap.claim("progress is a bar on a terminal, and lines elsewhere"):
        _, err = b.tool("warm", b.url("gzip.h5"))
        assert "\r" not in err and "raw data: " in err, err
        leader, follower = pty.openpty()
        with subprocess.Popen([TOOL, "cache", "warm", b.url("gzip.h5")], env=b.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=follower) as p:
            assert p.wait(timeout=100) == 0
        os.close(follower)
        text = os.read(leader, 1 << 16).decode()
        os.close(leader)
        assert "\r" in text and "[####" in text and "of " in text, text


def lists(tap, b):
    with tap.claim("ls tells what is held of each URL, and shows no secret"):
        out, _ = b.tool("ls")
        text = out + b.tool("ls", "--json")[0]
        assert "hidden" not in text and "token" not in text, text
        e, size = b.entry("gzip.h5"), os.path.getsize(f"{b.data}/gzip.h5")
        assert e["size"] == size and e["flaw"] is None and e["readers"] == 0, e
        assert e["metadata_bytes"] + e["raw_bytes"] == e["bytes"] <= size, e
        assert e["bytes"] >= 0.95 * size and e["raw_pages"] > e["metadata_pages"] > 0, e
        assert e["hit_bytes"] >= size - 200000, e
        assert e["version"] and e["url"] == b.url("gzip.h5"), e
        assert sum(1 for i in b.list() if i["url"] == b.url("spread.h5")) == 2
    with tap.claim("what was found before a fork is told once"):
        before, raw = (b.entry("gzip.h5")[k] for k in ("hit_bytes", "raw_bytes"))
        python(FORK_AND_CLOSE, b.env, b.url("gzip.h5"))
        told = b.entry("gzip.h5")["hit_bytes"] - before
        assert 0.9 * raw < told < 1.5 * raw, f"{told} of {raw}"
    with tap.claim("ls counts the processes that have a shadow open, and rm leaves it to them with 1"):
        hold = [subprocess.Popen([harness.H5PY["3.14.0"], "-c", HOLD_OPEN, b.url("gzip.h5")], env=b.env,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
        for p in hold:
            assert p.stdout.readline()
        assert b.entry("gzip.h5")["readers"] == 2
        assert "in use" in b.tool("rm", b.url("gzip.h5"), want=1)[1]
        before = len(b.list())
        out, err = b.tool("rm", "--all", want=1)
        assert f"{before - 1} removed" in out and "1 in use" in out and "gzip.h5" in err, out + err
        with b.at_most(b.opening):
            b.same_as_local(READ_SETS, "gzip.h5", "images")
        for p in hold:
            p.stdin.close()
            assert p.wait(timeout=60) == 0
        assert "1 removed" in b.tool("rm", b.url("gzip.h5"))[0]
        assert b.list() == [] and "nothing is kept" in b.tool("ls")[1]
        assert "no shadow" in b.tool("rm", b.url("gzip.h5"), want=3)[1]
    with tap.claim("files that are no sound shadows are listed as such, and rm --all removes them"):
        b.tool("warm", b.url("mixed.h5"), "--metadata-only")
        name = b.shadow / b.entry("mixed.h5")["name"]
        os.truncate(name, 5000)
        (b.shadow / ("s-" + 64 * "0")).symlink_to("/etc/passwd")
        (b.shadow / ("s-" + 64 * "1")).write_bytes(os.urandom(9000))
        os.mkfifo(b.shadow / ("s-" + 64 * "2"))
        assert sorted(e["flaw"] is None for e in b.list()) == [False] * 4
        assert b.tool("ls")[0].count("unusable") == 4
        assert "4 removed" in b.tool("rm", "--all")[0]
        assert os.path.exists("/etc/passwd")
    with tap.claim("a directory that is open to others is not believed"):
        os.chmod(b.base, 0o755)
        assert "0700" in b.tool("ls", want=3)[1]
        os.chmod(b.base, 0o700)


def verifies(tap, b):
    url = b.url("mixed.h5")
    with tap.claim("verify finds every page right after warm, and fetches only those"):
        b.tool("warm", url)
        pages = b.entry("mixed.h5")["pages"]
        with b.at_most(300, os.path.getsize(f"{b.data}/mixed.h5") * 1.02 + 200000):
            out, _ = b.tool("verify", url)
        assert f" {pages} pages" in out and "0 differ" in out, out
    with tap.claim("verify names the page that was scribbled over, with 1"):
        path = b.shadow / b.entry("mixed.h5")["name"]
        with open(path, "r+b") as f:
            data_off = struct.unpack_from("=Q", f.read(56), 48)[0]
            for page in (3, 1000):
                f.seek(data_off + 4096 * page + 17)
                old = f.read(1)
                f.seek(-1, 1)
                f.write(bytes([old[0] ^ 1]))
        out, err = b.tool("verify", url, want=1)
        assert "page 3 " in out and "page 1000 " in out and "2 differ" in out and "cache rm" in err, out + err
        b.tool("rm", url)
    with tap.claim("verify of a URL with a signature compares what is kept of the file, which the others find, too"):
        signed = url + "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=me&X-Amz-Date=20261127T000000Z" \
                       "&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature=" + "ab" * 32
        b.tool("warm", signed, "--metadata-only")
        assert "0 differ" in b.tool("verify", signed)[0]
        assert "0 differ" in b.tool("verify", url)[0]
        b.tool("rm", signed)
    with tap.claim("verify without a shadow says so with 3"):
        assert "no shadow" in b.tool("verify", url, want=3)[1]
    with tap.claim("verify of a file that changed says that the shadow is another version's, with 3"):
        b.tool("warm", url, "--metadata-only")
        mkdata(f"{b.data}/mixed.h5", "tree", "--datasets", "100")
        assert "another version" in b.tool("verify", url, want=3)[1]
        assert "1 removed" in b.tool("rm", url)[0]


def tiny(tap, b):
    names = ("empty.h5", "byte.h5", "cut.h5", "small.h5")
    make("-c", "import h5py, sys\nwith h5py.File(sys.argv[1], 'w', libver='latest') as f:\n f.attrs['a'] = 7\n f['x'] = range(20)",
         f"{b.data}/small.h5")
    whole = pathlib.Path(f"{b.data}/small.h5").read_bytes()
    assert len(whole) < 4096
    for name, content in zip(names, (b"", whole[:1], whole[:100])):
        pathlib.Path(f"{b.data}/{name}").write_bytes(content)
    harness.age(b.data)
    with tap.claim("an empty file, one of a byte and one that is cut within its first page are errors that say so; a whole one shorter "
                   "than a page is read; what they leave in the shadow is sound"):
        for sidecar in ("off", "auto"):
            found = python(OPEN_ALL, dict(b.env, XHDF5_SIDECAR=sidecar), *map(b.url, names)).split("\n")
            assert found[:4] == found[4:], found
            for said, want in zip(found, ("file signature not found", "file signature not found",
                                          "truncated file: eof = 100",
                                          f"opened {list(range(20))} 7")):
                assert want in said, found
        left = {e["url"].rsplit("/", 1)[1]: (e["flaw"], e["size"], e["pages"]) for e in b.list()}
        assert left == {"byte.h5": (None, 1, 1), "cut.h5": (None, 100, 1), "small.h5": (None, len(whole), 1)}, left
        for name in names[1:]:
            assert "0 differ" in b.tool("verify", b.url(name))[0]
        assert "signature not found" in b.tool("warm", b.url("empty.h5"), want=3)[1]
        assert "3 removed" in b.tool("rm", "--all")[0]
    with tap.claim("files that come with their opening are kept by warm, the first time, too; so is the metadata at "
                   "the beginning of a large one"):
        some = [f"small{i}.h5" for i in range(6)]
        for name in some:
            os.link(f"{b.data}/small.h5", f"{b.data}/{name}")
        for name in some:
            b.tool("warm", b.url(name), *(["--metadata-only"] if name > "small3" else []))
        b.tool("warm", b.url("images.h5"), "--metadata-only")
        kept = {e["url"].rsplit("/", 1)[1]: e["pages"] for e in b.list()}
        assert set(kept) == {*some, "images.h5"} and all(kept.values()), kept
        b.tool("rm", "--all")


LARGE = """
import h5py, numpy as np, sys
with h5py.File(sys.argv[1], 'w') as f:
    for i in range(6000):
        f.create_group(f'g{i}').attrs['a'] = np.arange(8.)
    f['d'] = np.arange(1000000)
"""


def walks_once(tap, b):
    """HDF5 walks through the metadata a second time, to see whether all of it stayed."""
    with tap.claim("metadata of more than 4 MiB crosses the link once, though it is walked through twice; so with a disk "
                   "cache"):
        make("-c", LARGE, f"{b.data}/large.h5")
        harness.age(b.data)
        for env in {}, {"XHDF5_DISK_CACHE_DIR": f"{b.base}/disk"}:
            pathlib.Path(f"{b.base}/disk").mkdir(mode=0o700, exist_ok=True)
            for words in ["--metadata-only"], []:
                before, again = b.server.requests(), b.again
                b.tool("warm", b.url("large.h5"), *words, XHDF5_SIDECAR="off", **env)
                came = b.server.requests()[1] - before[1]
                kept = max(e["bytes"] for e in json.loads(b.tool("ls", "--json", **env)[0]))
                b.tool("rm", "--all", **env)
                assert kept > 5 << 20 and (came < 1.2 * kept or b.again > again), (words, came, kept)


def main():
    kind, *everything = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-tool-") as data:
        pathlib.Path(data).chmod(0o755)
        mkdata(f"{data}/spread.h5", "spread", "--datasets", "600")
        mkdata(f"{data}/images.h5", "images", "--n", "10", "--side", "2048")
        mkdata(f"{data}/gzip.h5", "images", "--n", "12", "--side", "1024", "--chunked", "gzip")
        make("-c", MIXED, f"{data}/mixed.h5", f"{data}/mixed_new.h5")
        pathlib.Path(f"{data}/text.h5").write_text("no HDF5 file\n" * 1000)
        with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
            b = Bench(server, shadow, data)
            warms(tap, b)
            if kind == "nginx" or everything:
                helps(tap)
                lists(tap, b)
                verifies(tap, b)
            b.tool("rm", "--all")
            tiny(tap, b)
            if kind == "nginx" or everything:
                walks_once(tap, b)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
