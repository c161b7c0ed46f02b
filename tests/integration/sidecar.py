#!/usr/bin/env python3
"""Metadata images beside files: made, found, used; wrong, stale, cut and hostile ones: the right bytes every time.

Usage: sidecar.py nginx|xrootd
"""
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd/tool/xhdf5"
CLIENT = harness.BUILD / "perf/bench_client"
SUFFIX = ".xhmeta"
HEADER = "<8sIIQqIIQIIII32sQ16x"
MAKE = """
import sys, h5py
sys.path.insert(0, sys.argv[2])
import mkdata
with h5py.File(sys.argv[1], "w", libver="earliest") as f:
    mkdata.fill_tree(f, 400, "tree", 2000)
"""


# ---- images made by hand: docs/sidecar.md in Python -----------------------------------------------

def zstd(data, says=None):
    """A zstd frame of raw blocks; |says|: the size that it claims to unpack to."""
    out = struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(data) if says is None else says)
    pieces = [data[i:i + 65536] for i in range(0, len(data), 65536)] or [b""]
    for piece in pieces:
        out += struct.pack("<I", (piece is pieces[-1]) | len(piece) << 3)[:3] + piece
    return out


def bomb(size, says, checksum=b""):
    """A zstd frame of |size| zeros in runs of 128 KiB, a few bytes each."""
    out, runs = struct.pack("<IBQ", 0xFD2FB528, 0xE4 if checksum else 0xE0, says), -(-size // 131072)
    for i in range(runs):
        out += struct.pack("<I", (i == runs - 1) | 1 << 1 | min(131072, size - 131072 * i) << 3)[:3] + b"\0"
    return out + checksum


def number(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def head(**f):
    raw = struct.pack(HEADER, b"\x89XHM\r\n\x1a\n", f.get("version", 1), 128, f["file_bytes"], f["mtime_s"],
                      f["mtime_ns"],
                      f["block_bytes"], f["image_bytes"], f["extents"], f["blocks"], f["index_bytes"],
                      f["index_raw_bytes"],
                      f["sha"], f["sidecar_bytes"])
    return raw + hashlib.sha256(raw).digest()[:8]


def differences(block, back):
    """|block| as it is packed where each word is its difference to the one |back| before."""
    words, rest = [int.from_bytes(block[i:i + 8], "little")
                   for i in range(0, len(block) - 7, 8)], block[len(block) // 8 * 8:]
    return b"".join(((w - (words[i - back] if back and i >= back else 0)) % 2**64).to_bytes(8, "little") for i,
                    w in enumerate(words)) + rest


def forge(path, some, gaps=None, packed=None, sums=None, index=None, back=0, **fields):
    """The image of the extents |some| of the file |path|, lied about as is asked for; all sums of the lies are right."""
    data, st = path.read_bytes(), path.stat()
    image = b"".join(data[off:off + n] for off, n in some)
    blocks = [image[i:i + 65536] for i in range(0, len(image), 65536)]
    frames = packed or [zstd(differences(b, back)) for b in blocks]
    raw, at = b"", 0
    for off, n in gaps or some:
        raw += number((off - at) % 2**63) + number(n)
        at = off + n
    for block, frame in zip(blocks, frames):
        raw += struct.pack("<I", len(frame) | back << 24) + hashlib.sha256(block).digest()[:16]
    index = zstd(raw) if index is None else index
    f = {"file_bytes": st.st_size, "mtime_s": int(st.st_mtime), "mtime_ns": st.st_mtime_ns % 10**9,
         "block_bytes": 65536,
         "image_bytes": len(image), "extents": len(some), "blocks": len(blocks), "index_bytes": len(index),
         "index_raw_bytes": len(raw), "sha": hashlib.sha256(raw).digest(),
         "sidecar_bytes": 128 + len(index) + sum(map(len, frames))}
    return head(**(f | fields)) + index + b"".join(frames)


def table(path, good):
    """Name, what lies beside |path|, whether it is used."""
    size, flip = path.stat().st_size, lambda at: good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]
    index = struct.unpack_from("<I", good, 56)[0]
    some = [(0, 8192), (20000, 100000)]
    yield "the right one", good, True
    yield "one made by hand", forge(path, some), True
    yield "one made by hand, of differences", forge(path, some, back=4), True
    yield "nothing but a header", good[:128], False
    yield "an empty file", b"", False
    yield "another kind of file", b"<html>404</html>" * 100, False
    yield "cut in its index", good[:128 + index // 2], False
    yield "cut in its blocks", good[:-1], False
    yield "grown", good + b"\0", False
    yield "a bit of the header flipped", flip(70), False
    yield "a bit of the index flipped", flip(140), False
    yield "a bit of its first block flipped", flip(128 + index + 40), False
    yield "a version that is not known", forge(path, some, version=2), False
    yield "of a smaller file", forge(path, some, file_bytes=size - 1), False
    yield "of another time", forge(path, some, mtime_s=1), False
    yield "of another file of this size and time", forge(path, some,
                                                         packed=[zstd(bytes(65536)), zstd(bytes(42656))]), False
    yield "extents that overlap", forge(path, some, gaps=[(0, 8192), (4096, 100000)]), False
    yield "extents behind the end", forge(path, some, gaps=[(0, 8192), (size - 10, 100000)]), False
    yield "extents that wrap", forge(path, some, gaps=[(0, 8192), (2**63 - 4096, 100000)]), False
    yield "more extents than its index holds", forge(path, some, extents=2**31), False
    yield "more blocks than it has bytes", forge(path, some, blocks=2**31), False
    yield "blocks that end behind it", forge(path, some, sidecar_bytes=300), False
    yield "an index that would fill the memory", forge(path, some, index=bomb(2**32, 2**32),
                                                       index_raw_bytes=2**32 - 1), False
    yield "an index that unpacks to more than it says", forge(path, some, index=bomb(2**30, 58)), False
    yield "a block that unpacks to more than it says", forge(path, some,
                                                             packed=[bomb(2**30, 65536), zstd(bytes(42656))]), False
    yield "differences that are none", forge(path, some, packed=[zstd(b"x" * 65536), zstd(bytes(42656))], back=3), False
    yield "a block that unpacks to less", forge(path, some, packed=[zstd(b""), zstd(bytes(42656))]), False


# ---- readers ----------------------------------------------------------------------------------------

def walk(target, env):
    """(sum of all that a walk reads, standard error) of the file at |target|."""
    status, out, err = harness.run([CLIENT, target, "walk"], env)
    return json.loads(out)["sum"] if status == 0 else None, err


def counter(err, name):
    """Of the original's counters on standard error."""
    return harness.counters("\n".join(line for line in err.splitlines() if ".xhmeta" not in line))[name]


def tool(*words):
    said = harness.run([TOOL, "publish", *words], harness.clean_env())
    made = (pathlib.Path(f"{word}{SUFFIX}") for word in words)
    harness.age(*(path for path in made if path.exists()))
    return said


class Room:
    """A directory that a server has, with a file and its sum, and shadows of its own."""

    def __init__(self, server, root):
        self.server, self.root = server, root
        self.file = root / "tree.h5"
        self.sum, _ = walk(self.file, harness.clean_env())
        assert self.sum

    def sidecar(self, name="tree.h5"):
        return self.root / (name + SUFFIX)

    def walk(self, name="tree.h5", shadow=None, log="", **options):
        with harness.shadow_dir() as fresh:
            env = harness.driver_env(self.server, shadow or fresh, log=f"stats,{log}".rstrip(","),
                                     **({"sidecar": "auto", "head_bytes": 8192, "whole_file_bytes": "512k"} | options))
            return walk(f"{self.server.url}/{name}", env)


def asks_for_no_metadata(room):
    """After the head, all metadata is the image's; whoever comes next asks once whether the file is the same (XRootD: and
    reads a byte beside that, as proof that this reader may)."""
    tool(room.file)
    with harness.shadow_dir() as shadow:
        got, err = room.walk(shadow=shadow, log="read", sidecar="require")
        assert got == room.sum, err[-2000:]
        missed = set(re.findall(r"read read .* off=(\d+) .*kind=meta", err.split(" sidecar used=1")[1]))
        assert not missed, missed
        assert counter(err, "bytes_sidecar") > 0.9 * counter(err, "bytes_asked"), err
        got, err = room.walk(shadow=shadow, sidecar="require")    # with "auto" a late one is not waited for
        assert got == room.sum and counter(err, "requests") == (1 if room.server.kind == "nginx"
                                                                else 2) and counter(err, "bytes_sidecar"), err


def in_time(look):
    """Walks until the image was there before the file was open, and returns what look() gave then: one that comes later is not
    waited for, and that is no fault. look() gives a true value when it was."""
    found = []
    harness.wait_for(lambda: found.append(look()) or found[-1], "an image in time", seconds=100)
    return found[-1]


def its_head_is_asked_for_once(room):
    """Where an image is used, nobody waits for a proof of the head that came beside the date (XRootD): it is not asked for, unless
    the image was late."""
    tool(room.file)

    def look():
        got, err = room.walk(log="origin,read", sidecar="require")
        assert got == room.sum, err[-2000:]
        asked = re.findall(r"origin send .*url=\S+/tree\.h5 method=GET ranges=(\d+) from=0 ", err)
        late = " sidecar-late " in err
        assert " sidecar used=1" in err and asked[0] == "0" and (late or len(asked) == 1), (late, asked)
        return not late
    in_time(look)


def looked_at(room, *args):
    """A walk that has used the sidecar or said why not."""
    def look():
        got, err = room.walk(*args)
        assert got == room.sum, err[-2000:]
        return (got, err) if counter(err, "bytes_sidecar") or "is ignored: " in err else None
    return in_time(look)


def right_bytes_every_time(room, tap):
    tool(room.file)
    good = room.sidecar().read_bytes()
    for name, content, used in table(room.file, good):
        with tap.claim(f"{name}: the right bytes, {'with' if used else 'without'} the image"):
            room.sidecar().write_bytes(content)
            got, err = looked_at(room)
            assert (counter(err, "bytes_sidecar") > 0) == used or "a block" in name or "block flipped" in name, err
            assert err.count("is ignored: ") == (not used), err
    room.sidecar().unlink()


# Runs the words behind it, and says on standard error how much memory that took at most, in KiB.
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print("maxrss", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def the_index_of_a_larger_file_takes_no_memory(room):
    """An index of a few KiB that unpacks to as many extents as fit, of a file of 1 TB, so it says."""
    extents, rows = 4_000_000, b"x" * 20 * 62
    runs, rest = divmod(2 * extents, 131072)
    packed = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2 * extents + len(rows))
    for n in [131072] * runs + [rest]:
        packed += struct.pack("<I", 1 << 1 | n << 3)[:3] + b"\1"    # gap 1, length 1
    packed += struct.pack("<I", 1 | len(rows) << 3)[:3] + rows
    raw = b"\1" * 2 * extents + rows
    lies = dict(index=packed, index_raw_bytes=len(raw), sha=hashlib.sha256(raw).digest(), extents=extents, blocks=62,
                image_bytes=extents, sidecar_bytes=128 + len(packed) + 62, packed=[b"x"] * 62)

    def memory(content):
        room.sidecar().write_bytes(content)

        def look():
            with harness.shadow_dir() as shadow:
                env = harness.driver_env(room.server, shadow, sidecar="auto", head_bytes=8192, whole_file_bytes="512k")
                words = [sys.executable, "-c", MEASURED, CLIENT, f"{room.server.url}/tree.h5", "walk"]
                status, _, err = harness.run(words, env)
                assert status == 0, err
                return int(re.search(r"maxrss (\d+)", err)[1]) if "is ignored: " in err else None
        return in_time(look)
    some = [(0, 8192)]
    plain = memory(forge(room.file, some, mtime_s=1))
    hostile = memory(forge(room.file, some, file_bytes=2**40, **lies))
    assert hostile < plain + 16 * 1024, f"{hostile} KiB, without it {plain}"
    room.sidecar().unlink()


def a_changed_file(room):
    """Of another size, or of another time alone: one warning, and the new file's bytes."""
    name, path = "changing.h5", room.root / "changing.h5"
    shutil.copy(room.file, path)
    tool(path)
    with harness.shadow_dir() as shadow:
        assert counter(room.walk(name, shadow, sidecar="require")[1], "bytes_sidecar"), "it was not used"
        os.utime(path, (1e9, 1e9))
        got, err = looked_at(room, name, shadow)
        assert not counter(err, "bytes_sidecar") and err.count("newer or older") == 1, err
        with open(path, "ab") as f:
            f.write(bytes(1000))
        got, err = looked_at(room, name, shadow)
        assert not counter(err, "bytes_sidecar") and err.count("newer or older") == 1, err
        assert tool("--check", path)[0] == 1
        tool(path)
        got, err = room.walk(name, shadow, sidecar="require")
        assert got == room.sum and counter(err, "bytes_sidecar") and "ignored" not in err, err
    tool("--remove", path)
    path.unlink()


# Stays until the look for a sidecar is over, by the driver's own trace: what closes before that does not know of it.
STAYS = """
import sys, time, h5py
with h5py.File(sys.argv[1]):
    while b" sidecar used=" not in open("/proc/self/fd/2", "rb").read():
        time.sleep(0.05)
"""
# The same where the file may not open, and no longer than 20 s: there may be no look.
STAYS_ANYWAY = """
import sys, time, h5py
try:
    f = h5py.File(sys.argv[1])
except OSError:
    pass
ends = time.monotonic() + 20
while b" sidecar used=" not in open("/proc/self/fd/2", "rb").read() and time.monotonic() < ends:
    time.sleep(0.05)
"""


def absence_is_remembered(room):
    """The first file of a directory without sidecars costs one small request more, for all processes of the node."""
    shutil.copy(room.file, room.root / "second.h5")

    def looked_for(err):
        return len(re.findall(rf"origin send .*{SUFFIX} ", err))

    def asked(name, shadow):
        got, err = room.walk(name, shadow, log="origin")
        assert got == room.sum, err
        return looked_for(err)
    with harness.shadow_dir() as a:
        env = harness.driver_env(room.server, a, log="stats,read,origin", sidecar="auto", head_bytes=8192)
        with tempfile.TemporaryFile() as said:
            subprocess.run([harness.DATA_PYTHON, "-c", STAYS, f"{room.server.url}/tree.h5"], env=env, check=True,
                           stdin=subprocess.DEVNULL, stderr=said, timeout=100)
            said.seek(0)
            err = said.read().decode(errors="replace")
        # XRootD, and who is not known yet, is asked for the date, too. What is not answered soon is asked again.
        again = err.count(" ask-again ") + sum(harness.counters(err)[name] for name in ("hedged", "retries"))
        assert 1 <= looked_for(err) <= 2 + again, err
        assert asked("second.h5", a) == 0 and asked("tree.h5", a) == 0
        assert room.walk("second.h5", a, sidecar="require")[0] is None
    (room.root / "second.h5").unlink()


def passing_trouble_is_no_absence(room):
    """What passes, as overload, a login, or no token yet, is kept for ten seconds, for which the server is spared."""
    def walk(liar, trouble, shadow):
        path = f"/{trouble}/tree.h5"
        env = harness.driver_env(None, shadow, log="stats,read,origin", sidecar="auto", head_bytes=8192)
        with tempfile.TemporaryFile() as said:
            subprocess.run([harness.DATA_PYTHON, "-c", STAYS_ANYWAY, liar.base + path], env=env, check=True,
                           stdin=subprocess.DEVNULL, stderr=said, timeout=100)
            return len(liar.requests().get(path + SUFFIX, ()))
    asked, files = {}, {}
    with faults.Liar(room.file) as liar:
        for trouble in ("502@1-2", "503:0@1-2", "login@1-2", "401@1-2"):
            with harness.shadow_dir() as shadow:
                first = walk(liar, trouble, shadow)
                noted = [path for path in pathlib.Path(shadow).rglob("n-*") if path.is_file()]
                for path in noted:
                    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))
                asked[trouble], files[trouble] = (first, walk(liar, trouble, shadow) - first), len(noted)
    print(f"# asked at first, and ten seconds later: {asked}; notes: {files}")
    assert all(first and then for first, then in asked.values()), asked
    assert files["502@1-2"] and files["503:0@1-2"], files
    assert asked["503:0@1-2"][0] == 1, f"a look is one request: {asked}"


def a_refused_image_is_one_that_is_absent(room):
    """As S3 says 403 of what is not there, to a reader that may not list the bucket: beside a file that is read."""
    tool(room.file)
    room.sidecar().chmod(0)
    with harness.shadow_dir() as shadow:
        in_time(lambda: len(re.findall(rf"origin send .*{SUFFIX} ", room.walk(shadow=shadow, log="origin")[1])) == 0)
    room.sidecar().chmod(0o644)


def options_say(room):
    got, err = room.walk(sidecar="require")
    assert got is None and "sidecar=require" in err, err
    got, err = room.walk(sidecar="perhaps")
    assert got is None and "want auto, off, require or body" in err, err
    tool(room.file)
    got, err = room.walk(sidecar="require")
    assert got == room.sum and counter(err, "bytes_sidecar"), err
    got, err = room.walk(sidecar="off")
    assert got == room.sum and not counter(err, "bytes_sidecar"), err


def many_fetch_it_once(room):
    tool(room.file)
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(room.server, shadow, log="origin", head_bytes=8192, whole_file_bytes="512k",
                                 sidecar="auto")
        all_of = [subprocess.Popen([CLIENT, f"{room.server.url}/tree.h5", "walk"], env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True) for _ in range(6)]
        ends = [p.communicate(timeout=60) for p in all_of]
        assert all(out and json.loads(out)["sum"] == room.sum for out, _ in ends), ends
        asked = [int(m[2]) - int(m[1]) for _, err in ends
                 for m in re.finditer(rf"origin send .*{SUFFIX} method=GET ranges=[1-9].* from=(\d+) to=(\d+)", err)]
        assert 0 < sum(asked) < 1.3 * room.sidecar().stat().st_size, (asked, room.sidecar().stat().st_size)


def a_child_reads_on(room):
    code = ("import h5py, os, sys\nf = h5py.File(sys.argv[1])\ndef all_of():\n    n = []\n"
            "    f.visititems(lambda name, o: n.append((name, sorted(o.attrs.items(), key=str))))\n    return len(n)\n"
            "p = os.fork()\nn = all_of()\nif p == 0:\n    os._exit(n != 436)\nassert os.waitpid(p, 0)[1] == 0 and n == 436, n\n")
    tool(room.file)
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(room.server, shadow, head_bytes=8192, whole_file_bytes="512k", sidecar="auto")
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", code, f"{room.server.url}/tree.h5"], env)
        assert status == 0, err


# ---- the publisher ----------------------------------------------------------------------------------

def the_tool(room, tap):
    tool("--remove", room.root)
    below = room.root / "below"
    below.mkdir()
    for i in range(4):
        shutil.copy(room.file, below / f"f{i}.h5")
    (below / "notes.txt").write_text("no HDF5 file")
    (below / "broken.h5").write_bytes(room.file.read_bytes()[:4096])
    made = lambda: sorted(p.name for p in below.iterdir() if p.name.endswith(SUFFIX))
    with tap.claim("a dry run writes nothing, and says what it would"):
        status, out, err = tool("--dry-run", below / "f0.h5")
        assert status == 0 and "of metadata in" in out and not made(), out + err
    with tap.claim("a directory is published, but for what is no HDF5 file or broken, and that fails"):
        status, out, err = tool("--jobs", "3", below)
        assert err.rstrip().splitlines()[-1].startswith("publishing: 5 of 5 files, "), err
        assert status == 3 and made() == [f"f{i}.h5{SUFFIX}" for i in range(4)] and "broken.h5" in err, out + err
        assert (below / f"f0.h5{SUFFIX}").stat().st_mode == (below / "f0.h5").stat().st_mode
    (below / "broken.h5").unlink()
    with tap.claim("what is there stays; what is stale is found, and made anew"):
        was = (below / f"f1.h5{SUFFIX}").stat().st_ino
        os.utime(below / "f2.h5", (1e9, 1e9))
        status, out, err = tool("--check", below)
        assert status == 1 and out.count("up to date") == 3 and "was changed" in out, out + err
        status, out, err = tool(below)
        assert status == 0 and out.count("up to date") == 3 and (below / f"f1.h5{SUFFIX}").stat().st_ino == was, out + err
        status, out, err = tool("--check", below)
        assert status == 0 and err.startswith("checking: 4 of 4 files, ") and "/s" not in err, err    # read in part
    with tap.claim("a date some seconds ahead is waited for, as a writer on another machine may set it; one far "
                   "ahead is not"):
        for ahead, waits in ((4, True), (3600, False)):
            date = int(time.time()) + ahead
            os.utime(below / "f2.h5", (date, date))
            status, out, err = tool(below / "f2.h5")
            assert status == 0 and (time.time() > date) == waits, (ahead, time.time() - date, out + err)
        os.utime(below / "f2.h5", (1e9, 1e9))
        assert tool(below / "f2.h5")[0] == 0
    with tap.claim("--check finds metadata that was changed behind size and time, and a damaged image"):
        st = (below / "f3.h5").stat()
        with open(below / "f3.h5", "r+b") as f:
            f.seek(60)
            f.write(b"\xee")
        os.utime(below / "f3.h5", ns=(st.st_mtime_ns, st.st_mtime_ns))
        side = below / f"f1.h5{SUFFIX}"
        side.write_bytes(side.read_bytes()[:-1] + b"\xee")
        status, out, err = tool("--check", below)
        assert status == 1 and "metadata is different" in out and "is damaged" in out, out + err
        for path in (side, below / "f3.h5", below / f"f3.h5{SUFFIX}"):
            path.unlink()
    with tap.claim("one that is killed leaves the old image or the new one, and the next run completes it"):
        for ms in range(0, 60, 6):
            p = subprocess.Popen([TOOL, "publish", below / "f0.h5", below / "f1.h5"], env=harness.clean_env(),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                p.wait(ms / 1000)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            assert "not usable" not in tool("--check", below / "f0.h5", below / "f1.h5")[1]
        assert tool(below)[0] == 0 and tool("--check", below)[0] == 0
        assert not list(below.glob(".*.part")), list(below.iterdir())
    with tap.claim("--remove removes the images and nothing else"):
        status, out, err = tool("--remove", below)
        assert status == 0 and not made() and len(list(below.glob("*.h5"))) == 3, out + err
        assert err.startswith("removing: 3 of 3 files, ") and "/s" not in err, err
    with tap.claim("wrong usage is told"):
        assert tool()[0] == 2 and tool("--check", "--remove", below)[0] == 2 and tool("--jobs")[0] == 2
        for jobs in ("all", "0", "-1", "", " 2", "+2", "2x", "2 ", "1.5", f"{2 ** 64 + 1}", "9" * 30):
            status, out, err = tool("--jobs", jobs, below)
            assert status == 2 and "--jobs takes a whole number" in err and not made(), f"{jobs}: {status} {out}{err}"
        status, out, err = tool("https://host.invalid/f.h5?secret")
        assert status == 3 and "where they lie" in err and "secret" not in err, out + err
        assert tool(below / "not-there.h5")[0] == 3 and tool(below / "notes.txt")[0] == 3


def main():
    kind, tap = sys.argv[1], harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-sidecar-") as d:
        os.chmod(d, 0o755)
        root = pathlib.Path(d)
        subprocess.run([harness.DATA_PYTHON, "-c", MAKE, root / "tree.h5", harness.TOP / "tests/support"], check=True)
        with harness.Server(kind, root) as server:
            room = Room(server, root)
            for claim in (absence_is_remembered, passing_trouble_is_no_absence if kind == "nginx" else None,
                          a_refused_image_is_one_that_is_absent if kind == "nginx" else None,
                          asks_for_no_metadata, its_head_is_asked_for_once, a_changed_file,
                          options_say if kind == "nginx" else None,
                          the_index_of_a_larger_file_takes_no_memory if kind == "nginx" else None,
                          many_fetch_it_once, a_child_reads_on if kind == "nginx" else None):
                if claim:
                    tool("--remove", root)
                    with tap.claim(claim.__name__.replace("_", " ")):
                        claim(room)
            if kind == "nginx":
                right_bytes_every_time(room, tap)
                the_tool(room, tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
