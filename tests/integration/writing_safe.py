#!/usr/bin/env python3
"""What may go wrong with files that are written at URLs, and must not go wrong in silence: several writers that commit in turns, servers that
answer from a cache, programs that are killed, that fail, or that change their mind.

Usage: writing_safe.py nginx|xrootd [WORD …]     with words: only the checks whose names hold one of them
"""
import contextlib
import errno
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from writing import COMMIT, TOOL, Place  # noqa: E402

# A program that runs another one in the middle.
OTHER = COMMIT + r"""
import subprocess
def other(code):
    code = "import sys, h5py, numpy as np\nurl = sys.argv[1]\n" + code
    subprocess.run([sys.executable, "-c", code, url], check=True)
"""


def plugin():
    os.environ["PLUGIN"] = str(harness.BUILD / "vfd" / "plugins" / "libhdf5_vfd_xhdf5.so")


# --- several writers that commit in turns ---------------------------------------------------------

def check_turns(tap, p):
    plugin()
    name = "turns.h5"
    url = f"{p.server.url}/{name}"
    with tap.claim("turns: a flag of the superblock that was left set, as by a writer that was killed, is no change of "
                   "another's"):
        p.good("f = h5py.File(url, 'w', libver='earliest'); f['a'] = np.zeros(9); f['b'] = np.zeros(9); f.close()", url)
        with open(p.root / name, "r+b") as f:
            f.seek(20)    # version 0
            f.write(b"\1")
        p.good(OTHER + """
f = h5py.File(url, "r+"); f["a"][0] = 1
other("with h5py.File(url, 'r+') as f: f['b'][0] = 2")
f.close()""", url)
        assert p.local("f = h5py.File(url); print(f['a'][0] + f['b'][0])", p.root / name) == "3.0\n"
    for how in ("libver='v110'", "libver='earliest'"):
        make = f"""
            with h5py.File(url, "w", {how}) as f:
                f.create_dataset("c", (5, 100), "i8", chunks=(5, 100))[:] = 0"""

        def shows():
            return p.local("print(h5py.File(url)['c'][:, 0].tolist())", p.root / name).strip()
        with tap.claim(f"turns, {how}: a commit merges with what another writer has changed in the same chunk; so does the first one"):
            p.good(make, url)
            p.good(OTHER + f"""
f = h5py.File(url, "r+", {how}); c = f["c"]
c[0] = 1
other("with h5py.File(url, 'r+', {how}) as f: f['c'][1] = 2")
assert commit(f) > 0, "it took over what another has changed"
f.close()""", url)
            assert shows() == "[1, 2, 0, 0, 0]", shows()
        with tap.claim(f"turns, {how}: HDF5 holds older bytes behind such a commit: what it writes of them then is a conflict; nobody's change is lost"):
            p.good(make, url)
            err = p.bad(OTHER + f"""
f = h5py.File(url, "r+", {how}); c = f["c"]
c[0] = 1; assert commit(f) == 0
other("with h5py.File(url, 'r+', {how}) as f: f['c'][1] = 2")
c[2] = 3; assert commit(f) > 0
print(c[:, 0].tolist(), flush=True)
c[3] = 4
print("commit", commit(f), flush=True)
f.close()""", url)
            assert shows() == "[1, 2, 3, 0, 0]", shows()
            assert "open it again" in err, err[-3000:]
            [left] = p.left()
            assert left["state"] == "conflict" and "conflict" in left["why"] and "sent" not in p.tool("retry", "--all") and "conflict" in p.tool("retry", left["id"], status=3) and shows() == "[1, 2, 3, 0, 0]"
            p.tool("export", left["id"], p.work / "turns-out.h5")
            assert p.local("print(h5py.File(url)['c'][:, 0].tolist())", p.work / "turns-out.h5") == "[1, 0, 3, 4, 0]\n"
            (p.work / "turns-out.h5").unlink()
            p.tool("drop", left["id"])
        with tap.claim(f"turns, {how}: the same where the other one commits, and keeps the file open"):
            p.good(make, url)
            err = p.bad(OTHER + f"""
g = subprocess.Popen([sys.executable, "-c", r'''import sys, os, h5py
url = sys.argv[1]
{COMMIT}
f = h5py.File(url, "r+", {how}); c = f["c"]
print("open", flush=True)
sys.stdin.readline()
c[1] = 2; print(commit(f), flush=True)
sys.stdin.readline()
f.close()
''', url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert g.stdout.readline() == "open\\n"
f = h5py.File(url, "r+", {how}); c = f["c"]
c[0] = 1; assert commit(f) == 0
g.stdin.write("\\n"); g.stdin.flush()
assert int(g.stdout.readline()) > 0
c[2] = 3; assert commit(f) > 0
g.communicate("\\n")
assert g.returncode == 0
c[3] = 4
f.close()""", url)
            assert shows() == "[1, 2, 3, 0, 0]", shows()
            assert "open it again" in err, err[-3000:]
            p.tool("drop", p.left()[0]["id"])
        with tap.claim(f"turns, {how}: a dataset that is closed before its file, in silence, makes closing the file fail"):
            p.good(make, url)
            err = p.bad(OTHER + f"""
f = h5py.File(url, "r+", {how}); c = f["c"]
c[0] = 1
other("with h5py.File(url, 'r+', {how}) as f: f['c'][1] = 2")
assert commit(f) > 0
c[3] = 4
del c
f.close()""", url)
            assert shows() == "[1, 2, 0, 0, 0]" and "open it again" in err, (shows(), err[-3000:])
            p.tool("drop", p.left()[0]["id"])
        with tap.claim(f"turns, {how}: opened again, it is written on; ten commits in turns of two that open it each time are all there"):
            p.good(make.replace("(5, 100)", "(5, 400)"), url)
            p.good(OTHER + f"""
for i in range(5):
    f = h5py.File(url, "r+", {how}); f["c"][0, i] = 10 + i
    other("with h5py.File(url, 'r+', {how}) as f: f['c'][1, %d] = %d" % (i, 20 + i))
    assert commit(f) > 0
    f.close()""", url)
            out = p.local("print(h5py.File(url)['c'][:2, :5].tolist())", p.root / name).strip()
            assert out == "[[10, 11, 12, 13, 14], [20, 21, 22, 23, 24]]", out
        assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())


def check_filters(tap, p):
    plugin()
    name = "filters.h5"
    url = f"{p.server.url}/{name}"
    # Two elements of 1, 255 apart: half of the checksum is the same for both; the other half differs in another byte.
    for filters in ("fletcher32=True", "compression='lzf'"):
        for how in ("libver='earliest'", "libver='v110'", "libver='latest'"):
            with tap.claim(f"filters, {filters}, {how}: a chunk that both have changed is a conflict, "
                           "also where it keeps its place and no byte is changed by both"):
                p.good(f"""
                    with h5py.File(url, "w", {how}) as f:
                        c = f.create_dataset("c", (1024,), "i2", chunks=(1024,), {filters})
                        c[:] = np.random.default_rng(1).integers(0, 999, 1024)
                        c[[768, 1023]] = 0""", url)
                err = p.bad(OTHER + f"""
f = h5py.File(url, "r+", {how}); f["c"][1023] = 1
other("with h5py.File(url, 'r+', {how}) as f: f['c'][768] = 1")
f.close()""", url)
                there = p.local("print(h5py.File(url)['c'][[768, 1023]])", p.root / name)
                assert "conflict" in err and there == "[1 0]\n", (there, err)
                p.tool("drop", p.left()[0]["id"])
    with tap.claim("filters that datasets share by an index of the file: two who change one chunk are a conflict"):
        (p.root / name).unlink()
        p.local("""
            import ctypes, re
            lib = ctypes.CDLL(re.search(r"\\S*/libhdf5[-.]\\S*", open("/proc/self/maps").read())[0])
            fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
            assert lib.H5Pset_shared_mesg_nindexes(ctypes.c_int64(fcpl.id), 1) == 0
            PLINE = 1 << 11
            assert lib.H5Pset_shared_mesg_index(ctypes.c_int64(fcpl.id), 0, PLINE, 1) == 0
            with h5py.File(h5py.h5f.create(sys.argv[1].encode(), h5py.h5f.ACC_TRUNC, fcpl)) as f:
                for n in "abc":
                    c = f.create_dataset(n, (1024,), "i2", chunks=(1024,), fletcher32=True)
                    c[:] = np.random.default_rng(1).integers(0, 999, 1024)
                    c[[768, 1023]] = 0""", p.root / name)
        err = p.bad(OTHER + """
f = h5py.File(url, "r+"); f["c"][1023] = 1
other("with h5py.File(url, 'r+') as f: f['c'][768] = 1")
f.close()""", url)
        there = p.local("print(h5py.File(url)['c'][[768, 1023]])", p.root / name)
        assert "conflict" in err and there == "[1 0]\n", (there, err)
        p.tool("drop", p.left()[0]["id"])
    with tap.claim("filters: two who change chunks of their own that keep their places are both there"):
        p.good("""
            with h5py.File(url, "w") as f:
                f.create_dataset("c", (4096,), "i2", chunks=(1024,), fletcher32=True)[:] = 0""", url)
        p.good(OTHER + """
f = h5py.File(url, "r+"); f["c"][0] = 1; f["c"][2048] = 1
other("with h5py.File(url, 'r+') as f: f['c'][1024] = 2; f['c'][4000] = 2")
f.close()""", url)
        assert p.local("print(np.nonzero(h5py.File(url)['c'][:])[0])", p.root / name) == "[   0 1024 2048 4000]\n"
    assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())


# --- programs that are killed ---------------------------------------------------------------------

def can_trace():
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


def dies_at_a_mib():
    """In a child: who makes a file larger is killed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def check_flush(tap, p):
    name = "flush.h5"
    url = f"{p.server.url}/{name}"

    def exported(left, what):
        """|what| of the file that |left| is exported to. Drops it then."""
        file = p.work / "flushed.h5"
        p.tool("export", left["id"], file)
        out = p.local(f"f = h5py.File(url); print({what})", file)
        file.unlink()
        p.tool("drop", left["id"])
        return out
    for how in ("libver='earliest'", "libver='latest'"):
        def killed(code):
            one = p.popen(code + "\nprint('w', flush=True); sys.stdin.readline()", url)
            assert one.stdout.readline() == "w\n", one.stderr.read()
            one.kill()
            one.communicate()
            assert one.returncode == -9
            [left] = p.left()
            return left
        with tap.claim(f"flush, {how}: killed before anything was flushed: its URL and time are listed, and it is only dropped"):
            begun = int(time.time())
            left = killed(f"f = h5py.File(url, 'w', {how}); f['a'] = np.arange(1000)")
            assert (left["state"], left["url"]) == ("never closed", url) and begun <= left["since"] <= time.time(), left
            assert url in p.tool("list")
            assert "never was whole" in p.tool("export", left["id"], p.work / "no.h5", status=3)
            p.tool("drop", left["id"])
        with tap.claim(f"flush, {how}: a new file that was flushed when its program was killed is listed, and is had as a "
                       "file, "
                       "whole or not at all"):
            left = killed(f"f = h5py.File(url, 'w', {how}); f['a'] = np.arange(1000000); f.flush(); f['b'] = 1")
            assert (left["state"], left["url"]) == ("flushed",
                                                    url) and left["size"] > 8000000 and left["written_bytes"] >= 8000000, left
            assert begun <= left["since"] <= time.time(), left
            assert "export" in p.tool("retry", left["id"], status=3) and "sent" not in p.tool("retry", "--all")
            assert not (p.root / name).exists()
            r = subprocess.run([TOOL, "recover", "export", left["id"], p.work / "flushed.h5"], env=p.env(),
                               preexec_fn=dies_at_a_mib)
            assert r.returncode == -signal.SIGXFSZ, r
            assert not (p.work / "flushed.h5").exists(), "half a file has its name"
            p.tool("export", left["id"], p.work / "flushed.h5")
            assert [q.name for q in p.work.glob("flushed*")] == ["flushed.h5"]
            before = (p.work / "flushed.h5").read_bytes()
            assert "File exists" in p.tool("export", left["id"], p.work / "flushed.h5", status=3)
            assert (p.work / "flushed.h5").read_bytes() == before
            assert [q.name for q in p.work.glob("flushed*")] == ["flushed.h5"]
            out = p.local("print(int(h5py.File(url)['a'][:].sum()))", p.work / "flushed.h5")
            assert out == f"{sum(range(1000000))}\n", out
            assert "no.h5" not in os.listdir(p.work)
            (p.work / "flushed.h5").unlink()
            p.tool("drop", left["id"])
        with tap.claim(f"flush, {how}: so is a change, over the version that is at the server"):
            p.good(f"f = h5py.File(url, 'w', {how}); f['a'] = np.arange(1000); f['big'] = np.ones(500000); f.close()",
                   url)
            left = killed("f = h5py.File(url, 'r+'); f['a'][5] = 55; f['new'] = 7; f.flush()")
            assert left["state"] == "flushed", left
            p.tool("export", left["id"], p.work / "flushed.h5")
            out = p.local("f = h5py.File(url); print(f['a'][4:7].tolist(), f['new'][()], f['big'][:].sum())",
                          p.work / "flushed.h5")
            assert out == "[4, 55, 6] 7 500000.0\n", out
            (p.work / "flushed.h5").unlink()
            p.tool("drop", left["id"])
        with tap.claim(f"flush, {how}: of a file that shrinks behind the flush there is a file, too"):
            left = killed("f = h5py.File(url, 'r+'); f['x'] = np.ones(300000); f.flush(); del f['x'], f['big']; f.flush(); f['a'][7] = 77; f.flush()")
            p.tool("export", left["id"], p.work / "flushed.h5")
            out = p.local("f = h5py.File(url); print(list(f), f['a'][7])", p.work / "flushed.h5")
            assert out == "['a'] 77\n", out
            (p.work / "flushed.h5").unlink()
            p.tool("drop", left["id"])
        (p.root / name).unlink()
    for how in ("w", "r+"):
        with tap.claim(f"flush: what was written behind a flush, to new places and over old ones (mode {how}), is in "
                       "the file in its order"):
            p.good("f = h5py.File(url, 'w'); f['x'] = 1; f.close()", url)
            one = p.popen(f"""
                f = h5py.File(url, '{how}'); c = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                c.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY); c.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                h5py.h5d.create(f.id, b'a', h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((100000,)), c)
                f['done'] = 0; f.flush()
                f['a'][...] = 7; f['done'][()] = 1
                print("w", flush=True); sys.stdin.readline()""", url)
            assert one.stdout.readline() == "w\n", one.stderr.read()
            one.kill()
            one.communicate()
            [left] = p.left()
            assert left["state"] == "flushed", left
            assert (out := exported(left, "f['done'][()], f['a'][:].sum()")) == "1 700000\n", out
    with tap.claim("flush: a commit that failed and was written on is not sent as it was"):
        plugin()
        p.good("f = h5py.File(url, 'w'); f['a'] = np.arange(1000); f.close()", url)
        p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
        one = p.popen(COMMIT + """
f = h5py.File(url, "r+"); f["a"][0] = 1
assert commit(f) < 0
f["a"][1] = 2
print("w", flush=True); sys.stdin.readline()""", f"{p.gate.url}/{name}")
        assert one.stdout.readline() == "w\n"
        one.kill()
        one.communicate()
        p.gate.arm(lambda *_: None)
        [left] = p.left()
        assert left["state"] == "flushed", left
        p.tool("drop", left["id"])
    for mode in ("w", "r+") if can_trace() else ():
        with tap.claim(f"flush: killed in closing, while what was written is synced (mode {mode}): there is a file "
                       "with all of it"):
            code = f"""if True:
                import h5py, os, signal, sys
                f = h5py.File(sys.argv[1], '{mode}')
                f.require_dataset('a', (1000,), 'i8')[5] = 55; f.flush()
                f['later'] = range(20000); f.close()"""
            status, _, err = harness.run(["strace", "-f", "-o", "/dev/null", "-e", "trace=fdatasync", "-e",
                                          "inject=fdatasync:signal=KILL", harness.H5PY["3.14.0"], "-c", code, url],
                                         p.env())
            [left] = p.left()
            assert status == -9 and left["state"] == "flushed", (status, left, err)
            assert (out := exported(left, "f['a'][5], f['later'][:].sum()")) == f"55 {sum(range(20000))}\n", out
    with tap.claim("flush: nor is one that was refused (withheld) and written on"):
        was = p.bytes(name)
        one = p.popen(COMMIT + """
f = h5py.File(url, "r+"); f["a"][0] = 1
far = f.create_dataset("far", (50,), "i4", external=[("far.raw", 0, 200)])
assert commit(f) < 0
f["a"][1] = 2; f["n"] = np.ones(20000)
print("w", flush=True); sys.stdin.readline()""", url)
        assert one.stdout.readline() == "w\n", one.stderr.read()
        one.kill()
        one.communicate()
        [left] = p.left()
        assert left["state"] == "flushed", left
        assert "export" in p.tool("retry", left["id"], status=3) and p.bytes(name) == was
        p.tool("drop", left["id"])
    with tap.claim("flush: a file that was made anew and could not be sent is sent by retry, also where it differs "
                   "from the old one in nothing that was written"):
        anew = "f = h5py.File(url, 'w'); d = f.create_dataset('d', (5000,), 'i8'); d[:9] = 1; d[-9:] = 1; {}; f.close()"
        p.good(anew.format("d[9:-9] = 5"), url)
        p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
        p.bad(anew.format("0"), f"{p.gate.url}/{name}")
        p.gate.arm(lambda *_: None)
        p.tool("retry", p.left()[0]["id"])
        assert p.local("print(h5py.File(url)['d'][:].sum())", p.root / name) == "18\n" and p.left() == []
    for how in ("libver='earliest'", "libver='latest'"):
        with tap.claim(f"flush, {how}: killed behind the last step of a commit, the file open: retry finds it done"):
            p.good(f"f = h5py.File(url, 'w', {how}); f['a'] = np.arange(1000); f.close()", url)
            p.gate.arm(lambda n, method, path:
                       os.kill(one.pid, signal.SIGKILL) if method == "DELETE" and "-lock/" in path else None)
            one = p.popen(COMMIT + "\nsys.stdin.readline(); f = h5py.File(url, 'r+'); f['n'] = 1; commit(f)",
                          f"{p.gate.url}/{name}")
            one.communicate("\n", timeout=60)
            p.gate.arm(lambda *_: None)
            [left] = p.left()
            assert one.returncode == -9 and left["state"] == "to be sent", (one.returncode, left)
            p.tool("retry", left["id"])
            assert p.local("print(h5py.File(url)['n'][()])", p.root / name) == "1\n" and p.left() == []
            for x in p.beside(name):
                shutil.rmtree(p.root / (name + x))


def check_disk(tap, p):
    """What is on the disk when the upload begins."""
    name, trace, seen = "disk.h5", p.work / "strace", []
    if not can_trace():
        tap.skip("what is sent is on the disk before", "strace cannot trace here")
        return
    overlay = p.work / "new-overlay"

    def rule(n, method, path):
        if method == "PUT" and "/data-" in path:
            seen.append(trace.read_text())
        return None
    with tap.claim("disk: the data, the record and their names are on the disk before the upload begins, the overlay's own name, too"):
        p.gate.arm(rule)
        code = "import sys, h5py\nwith h5py.File(sys.argv[1], 'w') as f: f['a'] = range(1000)"
        status, _, err = harness.run(["strace", "-f", "-y", "-o", trace, "-e",
                                      "trace=fsync,fdatasync,renameat,unlinkat", sys.executable, "-c",
                                      "import os, sys; os.execv(sys.argv[1], sys.argv[1:])", harness.H5PY["3.14.0"],
                                      "-c", code,
                                      f"{p.gate.url}/{name}"], p.env(overlay_dir=overlay))
        p.gate.arm(lambda *_: None)
        assert status == 0 and len(seen) == 1, (status, seen, err)
        calls = re.findall(r"(fsync|fdatasync|renameat)\(\d+<([^>]*)>(?:, \"([^\"]*))?[^=]*= 0$", seen[0], re.M)
        said = [(call, re.sub(r".*/new-overlay", "", re.sub("[0-9a-f]{16}", "ID", path)), what) for call, path,
                what in calls]
        wanted = [("fdatasync", "/ID/data", ""), ("fdatasync", "/ID/base", ""), ("fsync", "/ID/record.new", ""),
                  ("renameat", "/ID", "record.new"), ("fsync", "/ID", ""), ("fsync", "", "")]
        assert said[-len(wanted):] == wanted, said
    with tap.claim("disk: that it was sent is on the disk, too, when the file is closed, or committed and open"):
        def synced_behind(what):
            return re.search(what + r".*= 0\n(?:.*\n)*?.*fsync\(\d+<[^>]*/[0-9a-f]{16}>\) += 0\n", trace.read_text())
        assert synced_behind(r'unlinkat\(\d+<[^>]*/new-overlay/[0-9a-f]{16}>, "data"'), trace.read_text()
        plugin()
        status, _, err = harness.run(["strace", "-f", "-y", "-o", trace, "-e", "trace=fsync,fdatasync,renameat",
                                      harness.H5PY["3.14.0"], "-c", "import os\n" + COMMIT +
                                      "import sys, h5py\nf = h5py.File(sys.argv[1], 'r+'); f['a'][0] = 7\n"
                                      "assert commit(f) == 0\nos._exit(0)",
                                      f"{p.server.url}/{name}"], p.env(overlay_dir=overlay))
        last = re.findall(r"(fsync|fdatasync|renameat)\(\d+<[^>]*>(?:, \"([^\"]*))?[^=]*= 0$", trace.read_text(), re.M)
        assert status == 0 and last[-2:] == [("renameat", "record.new"), ("fsync", "")], (err, last)


def check_endless(tap, p):
    """Answers without an end."""
    name, hasty, drop = "endless.h5", {"retries": 0, "stall_timeout_ms": 500, "connect_timeout_ms": 2000}, 0.05
    make = "with h5py.File(url, mode) as f: f['a'] = np.arange(1000)"
    url = f"{p.gate.url}/{name}"
    p.good(make, f"{p.server.url}/{name}")
    before = p.bytes(name)

    def commit(method, rule):
        """With each request by |method| done so. Where the server is not asked, only the first one, and the others are
        refused: they would be made again and again. Of slow headers the first one, for time's sake."""
        said = []

        def once(n, m, path):
            said.append(m)
            first = said.count(method) == 1
            if m != method or (rule[0] == "headers" and rule[1] is None and not first):
                return None
            return rule if rule[1] is None or first else 403
        p.gate.arm(once)
        got, _, err = p.run(make, url, **hasty)
        p.gate.arm(lambda *_: None)
        assert got == ("What was written is kept" in err), (got, err[-2000:])
        for left in p.left():
            p.tool("drop", left["id"])
        return got
    for what, method, status, each_s in (
            ("endless", "MKCOL", 403, 0), ("endless", "PUT", 201, 0), ("endless", "PUT", 507, drop),
            ("endless", "MOVE", 500, drop), ("headers", "MOVE", 201, 0), ("headers", "MOVE", 201, drop)):
        if method == "MKCOL" and p.kind == "xrootd":
            continue    # it is not asked
        with tap.claim(f"endless: {method}, answered with {status} and {'text' if what == 'endless' else what} without "
                       f"an end, {'a piece each 50 ms' if each_s else 'at once'}: the commit ends, and what was "
                       "written is kept"):
            assert commit(method, (what, status, each_s)) and p.bytes(name) == before
    for what, method in ("endless", "PUT"), ("endless", "MOVE"), ("headers", "MOVE"), ("endless", "DELETE"):
        with tap.claim(f"endless: {method} is done, and the answer's "
                       f"{'text comes' if what == 'endless' else 'headers come'} slowly and without an end: the commit "
                       "ends, and has sent all"):
            assert not commit(method, (what, None, drop))
            p.valid(name)
    for x in p.beside(name):
        (shutil.rmtree if (p.root / (name + x)).is_dir() else os.unlink)(p.root / (name + x))


def check_names(tap, p):
    """The overlay's directory cannot be synced."""
    if not can_trace():
        tap.skip("directories that cannot be synced", "strace cannot trace here")
        return
    overlay = p.work / "odd-overlay"
    overlay.mkdir(mode=0o700)
    p.good("f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()", p.server.url + "/names.h5")
    for error in ("EBADF", "EINVAL", "EIO"):
        with tap.claim(f"names: fsync of a directory fails ({error}): a commit that fails is kept all the same, and sent later"):
            p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
            code = "import sys, h5py\nwith h5py.File(sys.argv[1], 'r+') as f: f['a'][0] += 1"
            status, _, err = harness.run(["strace", "-f", "-o", p.work / "odd", "-P", overlay, "-e",
                                          f"inject=fsync:error={error}", harness.H5PY["3.14.0"],
                                          "-c", code, f"{p.gate.url}/names.h5"],
                                         p.env(overlay_dir=overlay, log="vfd"))
            p.gate.arm(lambda *_: None)
            assert "INJECTED" in (p.work / "odd").read_text()
            assert status == 1 and "What was written is kept" in err and "NOT" not in err, err[-1500:]
            assert f"names_unsynced errno={getattr(errno, error)} " in err, err[-1500:]
            told = "could not be synced (Input/output error)" in err
            assert told == (error == "EIO"), "the disk failed, or is of a kind that never does it: " + err[-1500:]
            before = p.bytes("names.h5")
            [left] = json.loads(p.tool("list", "--json", overlay_dir=overlay))
            assert left["state"] == "to be sent", left
            p.tool("retry", left["id"], overlay_dir=overlay)
            assert p.bytes("names.h5") != before
    with tap.claim("names: fsync of a directory fails (EIO): what the program withdraws is kept all the same"):
        plugin()
        code = ("import ctypes, os, sys, h5py\nf = h5py.File(sys.argv[1], 'r+')\nf['a'][0] += 1\n"
                "lib = ctypes.CDLL(os.environ['PLUGIN'])\n"
                "assert lib.H5FDxhdf5_discard(ctypes.c_int64(f.id.id), 1) == 0\nf.close()")
        status, _, err = harness.run(["strace", "-f", "-o", p.work / "odd", "-P", overlay,
                                      "-e", "inject=fsync:error=EIO", harness.H5PY["3.14.0"], "-c", code,
                                      f"{p.server.url}/names.h5"],
                                     p.env(overlay_dir=overlay))
        assert "INJECTED" in (p.work / "odd").read_text()
        assert status == 0 and "What was written is kept" in err and "NOT" not in err, err[-1500:]
        assert "could not be synced (Input/output error)" in err, err[-1500:]
        [left] = json.loads(p.tool("list", "--json", overlay_dir=overlay))
        assert left["state"] == "withheld", left
        p.tool("drop", left["id"], overlay_dir=overlay)
    with tap.claim("names: a directory in which nothing can be locked is refused, and the error says what to do"):
        code = "import sys, h5py\nh5py.File(sys.argv[1], 'r+')"
        status, _, err = harness.run(["strace", "-f", "-o", p.work / "odd", "-e", "inject=flock:error=ENOSYS",
                                      harness.H5PY["3.14.0"], "-c", code, f"{p.server.url}/names.h5"],
                                     p.env(overlay_dir=overlay))
        assert "INJECTED" in (p.work / "odd").read_text()
        assert status == 1 and "cannot be locked" in err and "XHDF5_OVERLAY_DIR" in err, err[-1500:]
        assert not list(overlay.iterdir()), list(overlay.iterdir())


def check_blind(tap, p):
    """Metadata is written where none was read."""
    name = "blind.h5"
    with tap.claim("blind: metadata is written over bytes that cannot be read meanwhile: no write is lost by that"):
        p.good("""
            f = h5py.File(url, "w", fs_strategy="fsm", fs_persist=True); g = f.create_group("g")
            for i in range(3000): g.create_group("g%d" % i)
            f["y"] = np.arange(100); del f["g"]; f.close()""", f"{p.server.url}/{name}")
        p.gate.arm(lambda *_: None)
        one = p.popen("""
            f = h5py.File(url, "r+"); list(f); f["y"][0]; f.create_group("first"); f.flush()
            print("cut", flush=True); sys.stdin.readline()
            for i in range(3000): f.create_group("g%d" % i)
            f.flush()
            print("done", flush=True); sys.stdin.readline()
            f.close()""", f"{p.gate.url}/{name}", whole_file_bytes=0, head_bytes=4096, readahead="off",
            without_shadow=True, retries=0)
        assert one.stdout.readline() == "cut\n", one.stderr.read()
        p.gate.arm(lambda n, method, path: "cut")
        one.stdin.write("\n")
        one.stdin.flush()
        said, cut = one.stdout.readline(), len(p.gate.log)
        p.gate.arm(lambda *_: None)
        _, err = one.communicate("\n", timeout=60)
        assert cut and said == "done\n" and one.returncode == 0, (cut, said, err[-1500:])
        assert cut <= 4, "the way to the server is tried again and again"
        out = p.local("f = h5py.File(url); print(len(f), f['y'][:].sum())", p.root / name)
        assert out == "3002 4950\n" and p.left() == [], (out, p.left())


# --- the way to the server ------------------------------------------------------------------------

def check_way(tap, p):
    url, name = p.gate.url + "/way.h5", "way.h5"
    p.good("f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()", url)
    with tap.claim("way: a server that stops answering in an upload fails the commit once; the upload is not sent four times"):
        puts, wait = [], threading.Event()

        def hang(n, method, path):
            if method == "PUT" and "/data-" in path:
                puts.append(path)
                wait.wait(60)
                return "cut"
            return None
        p.gate.arm(hang)
        err = p.bad("f = h5py.File(url, 'r+'); f['a'][0] = 1; f.close()", url, stall_timeout_ms=100,
                    connect_timeout_ms=1000, retries=1)
        wait.set()
        p.gate.arm(lambda *_: None)
        assert len(puts) == 1 and "no answer to PUT" in err, (puts, err)
        p.tool("retry", "--all")
        assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n" and p.left() == []
    with tap.claim("way: the answer to the last step of a new file is lost: it is there, and that is no conflict"):
        lost = []

        def deaf(n, method, path):
            if method == "MOVE" and "-lock/data-" in path:
                lost.append(path)
                return "deaf" if len(lost) == 1 else None
            return None
        p.gate.arm(deaf)
        p.good("f = h5py.File(url, 'x'); f['a'] = 1; f.close()", p.gate.url + "/lost.h5")
        p.gate.arm(lambda *_: None)
        assert lost and p.local("print(h5py.File(url)['a'][()])", p.root / "lost.h5") == "1\n"
        assert p.beside("lost.h5") == [] and p.left() == [], (p.beside("lost.h5"), p.left())
    with tap.claim("way: who cannot get a turn sends without it"):
        moves = []

        def refuse(n, method, path):
            if method == "MOVE" and re.search("-[0-9a-f]*t[0-9]*/$", path):
                moves.append(path)
                return 409
            return None
        p.gate.arm(refuse)
        p.good("f = h5py.File(url, 'r+'); f['a'][0] = 2; f.close()", url)
        p.gate.arm(lambda *_: None)
        assert len(moves) > 5 and p.local("print(h5py.File(url)['a'][0])", p.root / name) == "2.0\n"
        assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())
    with tap.claim("way: what changes something is not sent to another server; it is kept, and sent when it need not be"):
        for method in ("MKCOL", "PUT", "MOVE", "DELETE"):
            if (method, p.kind) == ("MKCOL", "xrootd"):
                continue    # it is not asked
            p.gate.arm(lambda n, m, path, method=method: ("to", 307, p.server.url + path) if m == method else None)
            before = p.bytes(name)
            status, out, err = p.run("f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()", url)
            p.gate.arm(lambda *_: None)
            if method == "DELETE":    # behind the commit
                assert status == 0 and p.bytes(name) != before, err
                continue
            assert status == 1 and "to another one" in err and p.bytes(name) == before, (method, status, err)
            p.tool("retry", "--all")
            assert p.bytes(name) != before and p.left() == []
    with tap.claim("way: where the server refuses DELETE, the file is sent, and a line says what stays there"):
        p.gate.arm(lambda n, method, path: 403 if method == "DELETE" else None)
        before = p.bytes(name)
        status, out, err = p.run("f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()", url)
        p.gate.arm(lambda *_: None)
        assert status == 0 and p.bytes(name) != before and err.count("refuses to remove") == 1, (status, err)
        assert "the right to delete" in err and p.left() == [], (err, p.left())
        for path in p.root.glob(f"{name}.xhdf5-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tap.claim("way: a file whose requests are redirected to another server is not opened to be written"):
        p.gate.arm(lambda n, m, path: ("to", 302, p.server.url + path) if m in ("HEAD", "GET", "PROPFIND") else None)
        err = p.bad("h5py.File(url, 'r+')", url)
        out = p.good("print(h5py.File(url, 'r')['a'][0])", url)
        p.gate.arm(lambda *_: None)
        assert "Files are written at one" in err and float(out) > 2, (out, err)
    with tap.claim("way: nor is a new file whose directory is at another server, as PROPFIND of it shows"):
        p.gate.arm(lambda n, m, path: ("to", 302, p.server.url + path) if m == "PROPFIND" else None)
        err = p.bad("h5py.File(url, 'x')", p.gate.url + "/nowhere.h5")
        p.gate.arm(lambda *_: None)
        assert "Files are written at one" in err and not (p.root / "nowhere.h5").exists(), err

    with tap.claim("way: a server that says when to ask again is left alone until then, whoever asks"):
        asked, times = [], []

        def later(n, method, path):
            times.append(time.monotonic())
            if method in ("MKCOL", "PUT") and not asked:
                asked.append(time.monotonic())
                return ("later", 503, 2)
            return None
        p.gate.arm(later)
        status, out, err = p.run("f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()", url)
        p.gate.arm(lambda *_: None)
        assert status == 0 and not [t for t in times if asked[0] < t < asked[0] +
                                    1.9] and max(times) > asked[0] + 1.9, (err, asked, times)
    with tap.claim("way: a redirect leads to a host for which the proxy cannot be used: the error says so"):
        other = p.server.url.replace("127.0.0.1", "localhost")
        p.gate.arm(lambda n, m, path: ("to", 302, other + path) if m in ("HEAD", "PROPFIND") else None)
        code = "import sys, h5py; h5py.File(sys.argv[1], 'w')"
        env = p.env() | {"https_proxy": "http://[bad", "no_proxy": "127.0.0.1"}
        status, out, err = harness.run([harness.H5PY["3.14.0"], "-c", code, p.gate.url + "/proxied.h5"], env)
        p.gate.arm(lambda *_: None)
        assert status == 1 and "the proxy that https_proxy names cannot be used" in err, err


# --- servers whose answers are old ----------------------------------------------------------------

def check_cached(tap, p):
    """nginx with an open_file_cache: HEAD and GET tell of the file that was there a minute ago."""
    if p.kind != "nginx":
        return
    for uses in (1, 2):
        with contextlib.ExitStack() as stack:
            q = Place("nginx", stack, ["--file-cache", str(uses)])
            url, name = q.server.url + "/cached.h5", "cached.h5"
            with tap.claim(f"cached, {uses} uses: two writers who close one file by turns: what is closed without an error is there; the error says why"):
                q.local("f = h5py.File(url, 'w'); f['d0'] = np.zeros(16); f['d1'] = np.zeros(16); f.close()",
                        q.root / name)
                (q.root / name).chmod(0o666)
                out = q.good("""
                    import multiprocessing as mp
                    def one(i, k):
                        f = h5py.File(url, "r+"); f["d%d" % i][k] = 1
                        try: f.close(); print("closed", i, k, flush=True)
                        except Exception as e: print("error", i, k, e, flush=True)
                        sys.stdout.flush(); os._exit(0)
                    for n in range(8):
                        p = mp.get_context("fork").Process(target=one, args=(n % 2, n)); p.start(); p.join()""", url)
                closed = re.findall(r"^closed (\d) (\d+)", out, re.M)
                there = q.local("f = h5py.File(url); print([('%d' % i, '%d' % k) for i in range(2) for k in range(16) if f['d%d' % i][k] == 1])",
                                q.root / name)
                assert set(closed) <= set(eval(there)), (closed, there)
                errors = re.findall(r"^error .*", out, re.M)
                assert len(closed) + len(errors) == 8 and all("open_file_cache" in x for x in errors), out
                q.tool("drop", *(x["id"] for x in q.left())) if q.left() else None
            with tap.claim(f"cached, {uses} uses: a new file can be made; when the server does not show it, that is an error"):
                status, out, err = q.run("f = h5py.File(url, 'x'); f['a'] = 1; f.close()", q.server.url + "/new.h5")
                assert status == 0 or "from memory" in err, err
                q.valid("new.h5")
            assert q.beside(name) == [] and q.beside("new.h5") == [], (q.beside(name), q.beside("new.h5"))
    for uses in (3, 6):
        with contextlib.ExitStack() as stack, \
                tap.claim(f"cached, {uses} uses, which shows only in the last step: a version that was not seen "
                          "stays, and the error says why"):
            q = Place("nginx", stack, ["--file-cache", str(uses)])
            url, name = q.server.url + "/late.h5", "late.h5"
            q.local("f = h5py.File(url, 'w'); f['d'] = np.zeros(16); f.close()", q.root / name)
            (q.root / name).chmod(0o666)
            there, errors, past = set(), [], time.time() - 1000
            for k in range(1, 7):
                before = set(there)
                os.utime(q.root / name, (past, past + k))    # nobody else's version is of the same second
                status, out, err = q.run(f"f = h5py.File(url, 'r+'); f['d'][{k}] = 1; f.close()", url)
                there = set(eval(q.local("print(np.nonzero(h5py.File(url)['d'][:])[0].tolist())", q.root / name)))
                assert before <= there and (status or k in there), (k, before, there, err)
                assert not status or "open_file_cache" in err, err
                errors += [err] if status else []
            assert errors and q.beside(name) == [], (errors, q.beside(name))


def check_foreign(tap, p):
    """Programs that take no lock."""
    url, name = p.gate.url + "/foreign.h5", "foreign.h5"
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()"
    p.good(make, url)
    p.local("f = h5py.File(url, 'w'); f['b'] = np.ones(200); f.close()", p.work / "foreign.h5")

    def put():
        subprocess.run(["curl", "-sS", "--fail", "--cacert", p.server.cacert, "-T", p.work / "foreign.h5",
                        f"{p.server.url}/{name}"], check=True,
                       stdout=subprocess.DEVNULL)  # XRootD answers with a smile
    with tap.claim("foreign: a curl -T that comes right behind the last step, before the end: the commit is no success, and is kept"):
        done = []

        def rule(n, method, path):
            if method in ("HEAD", "PROPFIND") and path == "/" + name and moved() and not done.append(1) and len(done) == 1:
                put()
            return None

        def moved():
            return any(m == "MOVE" and "-lock/data-" in path and status in (201, 204) for m, path, status in p.gate.log)
        p.gate.arm(rule)
        err = p.bad("f = h5py.File(url, 'r+'); f['a'][0] = 1; f.close()", url)
        p.gate.arm(lambda *_: None)
        assert done and "conflict" in err and len(p.left()) == 1, (done, err)
        assert p.local("print(list(h5py.File(url)))", p.root / name) == "['b']\n"
        p.tool("drop", p.left()[0]["id"])
    if p.kind != "nginx":
        return    # XRootD replaces a file in spite of "Overwrite: F"
    with tap.claim("foreign: a new file that somebody else has made behind the last look is not replaced"):
        (p.root / name).unlink()
        p.gate.arm(lambda n, method, path: put() if method == "MOVE" and "-lock/data-" in path else None)
        err = p.bad(make, url)
        p.gate.arm(lambda *_: None)
        assert "conflict" in err and p.local("print(list(h5py.File(url)))", p.root / name) == "['b']\n", err
        assert p.beside(name) == [], p.beside(name)
        p.tool("drop", p.left()[0]["id"])


def check_moment(tap, p):
    """Programs that take no lock write in the moment of the last step. nginx: XRootD takes no two requests as one piece."""
    if p.kind != "nginx":
        return
    url, name = p.gate.url + "/moment.h5", "moment.h5"
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()"
    change = "f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()"
    p.local("f = h5py.File(url, 'w'); f['b'] = np.ones(200); f.close()", p.work / "moment.h5")

    def put(of="moment.h5"):
        subprocess.run(["curl", "-sS", "--fail", "--cacert", p.server.cacert, "-T", p.work / of,
                        f"{p.server.url}/{name}"], check=True)

    def step(n):
        """A rule that calls the |n|th word of what it is given once, at the |n|th of the requests of the last step."""
        words = [("MOVE", "/" + name), ("MOVE", "-lock/data-"), ("HEAD", "w2"), ("HEAD", "/" + name)]
        return lambda method, path: method == words[n][0] and (path == words[n][1] if words[n][1][0] == "/"
                                                               else words[n][1] in path)
    for n, when in enumerate(("between the last look and it", "between the two requests of it")):
        with tap.claim(f"moment: a curl -T that comes {when}: a conflict; what it wrote is at the server, what was written here is kept"):
            p.good(make, url)
            done = []

            def rule(_, method, path, n=n):
                if step(n)(method, path) and not done.append(1) and len(done) == 1:
                    put()
                return None
            p.gate.arm(rule)
            err = p.bad(change, url)
            p.gate.arm(lambda *_: None)
            assert done and "conflict" in err, (done, err[-1500:], p.gate.log)
            assert p.bytes(name) == p.hash(p.work / "moment.h5"), "the other's bytes are gone"
            assert p.beside(name) == [] and len(p.left()) == 1, (p.beside(name), p.left())
            p.tool("drop", p.left()[0]["id"])
    with tap.claim("moment: the connection breaks before the last step, and a curl -T comes then: a conflict; what it "
                   "wrote is at the server"):
        p.good(make, url)
        cuts, puts = [], []

        def rule(_, method, path):
            if step(0)(method, path) and not cuts:
                cuts.append(1)
                return "cut"
            if cuts and not puts and method == "MOVE":
                puts.append(1)
                put()
            return None
        p.gate.arm(rule)
        err = p.bad(change, url)
        p.gate.arm(lambda *_: None)
        assert puts and "conflict" in err, (err[-1500:], p.gate.log)
        assert p.bytes(name) == p.hash(p.work / "moment.h5"), "the other's bytes are gone"
        assert p.beside(name) == [] and len(p.left()) == 1, (p.beside(name), p.left())
        p.tool("drop", p.left()[0]["id"])
    for old, words in ((False, "a new file is shown as missing"), (True, "a file is shown as it was")):
        with tap.claim(f"moment: {words} after the last step, as by a cache: the commit is no success, and is kept"):
            (p.root / name).unlink(missing_ok=True)
            shown, done = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", []
            if old:
                p.good(make, url)
                shown = subprocess.run(["curl", "-sS", "--fail", "--cacert", p.server.cacert, "-I",
                                        f"{p.server.url}/{name}"], check=True, stdout=subprocess.PIPE).stdout

            def rule(_, method, path, shown=shown):
                moved = any(m == "MOVE" and "-lock/data-" in at for m, at, _ in p.gate.log)
                return ("give", shown) if moved and step(3)(method, path) and not done.append(1) else None
            p.gate.arm(rule)
            err = p.bad(change if old else make, url)
            p.gate.arm(lambda *_: None)
            assert done and "but shows the one before" in err and len(p.left()) == 1, (done, err[-1500:], p.left())
            assert p.beside(name) == [], p.beside(name)
            p.tool("drop", p.left()[0]["id"])
    with tap.claim("moment: two of them, the second while the first is put back: the last one is at the server"):
        p.good(make, url)
        p.local("f = h5py.File(url, 'w'); f['c'] = np.ones(300); f.close()", p.work / "second.h5")
        moves = []

        def twice(_, method, path):
            if step(0)(method, path) and not moves.append(1) and len(moves) <= 2:
                put(("moment.h5", "second.h5")[len(moves) - 1])
            return None
        p.gate.arm(twice)
        err = p.bad(change, url)
        p.gate.arm(lambda *_: None)
        assert len(moves) >= 3 and "conflict" in err and p.bytes(name) == p.hash(p.work / "second.h5"), (moves, err[-1500:], p.gate.log)
        assert p.beside(name) == [], p.beside(name)
        p.tool("drop", p.left()[0]["id"])
    with tap.claim("moment: the server stops while it is put back: that is done again; what the other wrote is at the "
                   "server"):
        for at in (0, 1):
            p.good(make, url)
            moves, cuts = [], []

            def stop(_, method, path, at=at):
                if step(0)(method, path):
                    moves.append(0)
                    if len(moves) == 1:
                        put()
                elif len(moves) == 2 and method == "MOVE" and re.search(r"[vw]\d+$", path):
                    moves.append(1)
                if cuts or moves != ([0, 0], [0, 0, 1])[at]:
                    return None
                cuts.append(path)
                return "cut"
            p.gate.arm(stop)
            err = p.bad(change, url)
            p.gate.arm(lambda *_: None)
            assert cuts and "conflict" in err, (at, moves, err[-1500:], p.gate.log)
            assert p.bytes(name) == p.hash(p.work / "moment.h5"), "the other's bytes are gone"
            assert p.beside(name) == [] and len(p.left()) == 1, (p.beside(name), p.left())
            p.tool("drop", p.left()[0]["id"])
    for refused, words in ((False, "others come in each exchange of the last step"),
                           (True, "an exchange breaks off, and another's file cannot be put back")):
        with tap.claim(f"moment: {words}: no conflict; the error names the file to rename, and retry then sends"):
            p.good(make, url)
            mine = (p.root / name).read_bytes()
            at = int(p.local("print(h5py.File(url)['a'].id.get_offset())", p.root / name))
            others = []

            def other(mine=mine, at=at, others=others):
                """The file with another number changed, of a date of its own."""
                new = len(others) + 1
                there = p.work / "other"
                there.write_bytes(mine[:at + 8 * new] + b"\x01" * 8 + mine[at + 8 * new + 8:])
                os.utime(there, (time.time() - 100 + new,) * 2)
                os.replace(there, p.root / name)
                others.append((p.root / name).read_bytes())

            def rule(_, method, path, refused=refused, others=others, other=other):
                if step(0)(method, path) and (not others or not refused):
                    other()
                elif refused and step(1)(method, path):
                    return "cut"
                elif refused and method == "MOVE" and re.search(r"[vw]\d+$", path):
                    return 403
                return None
            p.gate.arm(rule)
            err = p.bad(change, url)
            p.gate.arm(lambda *_: None)
            [left] = p.left()
            lies = re.search(re.escape(url) + r"(\.xhdf5-[0-9a-f]+[vw]\d+)\b.*: rename it first\. ", err)
            assert lies and "conflict" not in err and f"recover retry {left['id']}" in err, (err[-1500:], p.gate.log)
            there = p.root / (name + lies[1])
            assert there.read_bytes() == others[-1], "it is not the newest one that is named"
            there.rename(p.root / name)
            p.tool("retry", left["id"])
            got = p.local("a = h5py.File(url)['a'][:]; print(np.nonzero(a)[0], a[0])", p.root / name)
            assert got == f"[0 {len(others)}] 1.0\n" and p.left() == [] and p.beside(name) == [], (got, p.beside(name))
    with tap.claim("moment: the server stops between the two requests: the old file goes back, and it is done again"):
        p.good(make, url)
        cuts = []
        p.gate.arm(lambda _, method, path: "cut" if step(1)(method, path) and not cuts.append(1)
                   and len(cuts) == 1 else None)
        p.good(change, url)
        p.gate.arm(lambda *_: None)
        assert cuts and p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n"
        assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())
    for how in ("recover retry", "the next writer"):
        with tap.claim(f"moment: and its client is killed there: {how} puts the file back"):
            p.good(make, url)
            p.gate.arm(lambda _, method, path: (os.kill(one.pid, signal.SIGKILL), "cut")[1] if step(1)(method, path)
                       else None)
            one = p.popen("sys.stdin.readline(); " + change, url)
            one.communicate("\n", timeout=60)
            p.gate.arm(lambda *_: None)
            [left] = p.left()
            assert one.returncode == -9 and not (p.root / name).exists() and len(p.beside(name)) == 3, (one.returncode,
                                                                                                        p.beside(name))
            if how == "recover retry":
                p.tool("retry", left["id"])
            else:
                p.good(change, url)
                p.tool("retry", left["id"])    # the same change
            assert p.local("print(h5py.File(url)['a'][0])",
                           p.root / name) == "1.0\n" and p.beside(name) == [], p.beside(name)
    for at, words in ((1, "between the two requests"), (2, "behind them")):
        with tap.claim(f"moment: the server stops {words}, and fails when it is asked what became of them: the new "
                       "file is put there, or found there"):
            p.good(make, url)
            cuts, fails = [], []

            def rule(_, method, path, at=at, cuts=cuts, fails=fails):
                if not cuts and step(at)(method, path):
                    cuts.append(1)
                    return "cut"
                return 500 if cuts and not fails and step(2)(method, path) and not fails.append(1) else None
            p.gate.arm(rule)
            p.good("f = h5py.File(url, 'r+'); f['a'][0] += 1; f['new'] = 2; f.close()", url)
            p.gate.arm(lambda *_: None)
            assert fails and p.local("f = h5py.File(url); print(f['a'][0], f['new'][()])", p.root / name) == "1.0 2\n"
            assert p.left() == [] and p.beside(name) == [], (p.left(), p.beside(name))
    with tap.claim("moment: a stranger that can write beside a file does not choose what its next writer moves"):
        (p.root / "privy").mkdir()
        (p.root / "privy").chmod(0o777)
        private = p.root / "privy" / "new1"
        p.good(make, f"{p.server.url}/privy/new1")
        lock = p.root / (name + ".xhdf5-lock")
        lock.mkdir()
        (lock / "owner").write_text("xhdf5 /././../privy/nen1 0\n")
        (p.root / name).unlink(missing_ok=True)
        p.bad(change, url)
        assert private.exists() and not (p.root / name).exists()
        shutil.rmtree(lock)
        shutil.rmtree(private.parent)
    with tap.claim("moment: a client is killed there while another one has the file open to make it anew: that one "
                   "puts the file back when it takes the lock, and replaces it"):
        p.good(make, url)
        other = p.popen("f = h5py.File(url, 'w'); f['c'] = 3; print('open', flush=True); sys.stdin.readline()\n"
                        "f.close()", p.server.url + "/" + name)
        assert other.stdout.readline() == "open\n", other.stderr.read()
        p.gate.arm(lambda _, method, path: (os.kill(one.pid, signal.SIGKILL), "cut")[1] if step(1)(method, path)
                   else None)
        one = p.popen("sys.stdin.readline(); " + change, url)
        one.communicate("\n", timeout=60)
        p.gate.arm(lambda *_: None)
        assert one.returncode == -9 and not (p.root / name).exists(), (one.returncode, p.beside(name))
        _, err = other.communicate("\n", timeout=60)
        assert other.returncode == 0, (err[-1500:], p.beside(name))
        assert p.local("print(list(h5py.File(url)))", p.root / name) == "['c']\n", p.beside(name)
        [left] = p.left()
        assert "conflict" in p.tool("retry", left["id"], status=3) and p.beside(name) == [], p.beside(name)
        p.tool("drop", left["id"])
    with tap.claim("moment: the same, and the connection breaks for the one that has just taken the lock away: it "
                   "knows of the file still"):
        p.good(make, url)
        cuts, kills = [], []

        def rule(_, method, path):
            if not kills and step(1)(method, path):
                kills.append(1)
                os.kill(one.pid, signal.SIGKILL)
                return "cut"
            if ".xhdf5-gone-" in path:
                kills.append(2)
            if 2 in kills and len(cuts) < 99 and method in ("HEAD", "PROPFIND") and "-lock/data" in path:
                cuts.append(1)
                return "cut"
            if cuts and method in ("MKCOL", "PUT"):    # the next attempt
                cuts.extend([1] * 99)
            return None
        other = p.popen("f = h5py.File(url, 'w'); f['c'] = 3; print('open', flush=True); sys.stdin.readline()\n"
                        "f.close()", url)
        assert other.stdout.readline() == "open\n", other.stderr.read()
        p.gate.arm(rule)
        one = p.popen("sys.stdin.readline(); " + change, url)
        one.communicate("\n", timeout=60)
        assert one.returncode == -9 and not (p.root / name).exists(), (one.returncode, p.beside(name))
        _, err = other.communicate("\n", timeout=90)
        p.gate.arm(lambda *_: None)
        assert cuts and other.returncode == 0, (err[-1500:], p.beside(name), p.gate.log)
        assert p.local("print(list(h5py.File(url)))", p.root / name) == "['c']\n", p.beside(name)
        [left] = p.left()
        p.tool("retry", left["id"], status=3)
        assert p.beside(name) == [], p.beside(name)
        p.tool("drop", left["id"])
    with tap.claim("moment: a client is killed behind the last step, and the file is removed then: the old one does "
                   "not come back"):
        p.good(make, url)
        p.gate.arm(lambda _, method, path: (os.kill(one.pid, signal.SIGKILL), "cut")[1] if method == "DELETE" and
                   ("-lock/" in path or step(2)("HEAD", path)) else None)
        one = p.popen("sys.stdin.readline(); " + change, url)
        one.communicate("\n", timeout=60)
        p.gate.arm(lambda *_: None)
        assert one.returncode == -9 and len(p.beside(name)) == 3, (one.returncode, p.beside(name))
        (p.root / name).unlink()
        p.bad(change, url)
        assert not (p.root / name).exists()
        p.tool("drop", p.left()[0]["id"])
        for x in p.root.glob(name + ".*"):
            shutil.rmtree(x) if x.is_dir() else x.unlink()
    with tap.claim("moment: the last step comes late, when another one has taken the lock and replaced the file, and "
                   "its client is killed: retry puts that one's file back, and merges with it"):
        p.good(make, url)
        moves = []

        def rule(_, method, path):
            if step(0)(method, path) and not moves:
                moves.append(1)
                lock = p.root / f"{name}.xhdf5-lock"
                owner = (lock / "owner").read_text().split()[1].replace("n", "u")
                (lock / "owner").rename(p.root / f"{name}.xhdf5-{owner}")
                for word in "lock", "turn":    # as a writer does that finds them stale
                    shutil.rmtree(p.root / f"{name}.xhdf5-{word}")
                p.good("f = h5py.File(url, 'r+'); f['a'][7] = 7; f.close()", p.server.url + "/" + name)
            elif moves == [1] and step(1)(method, path):
                moves.append(2)
                os.kill(one.pid, signal.SIGKILL)
                return "cut"
            return None
        p.gate.arm(rule)
        one = p.popen("sys.stdin.readline(); " + change, url)
        one.communicate("\n", timeout=60)
        p.gate.arm(lambda *_: None)
        assert one.returncode == -9 and moves == [1, 2] and not (p.root / name).exists(), (one.returncode, moves,
                                                                                          p.beside(name))
        [left] = p.left()
        p.tool("retry", left["id"])
        out = p.local("print(h5py.File(url)['a'][:8:7])", p.root / name)
        assert out == "[1. 7.]\n" and p.beside(name) == [] and p.left() == [], (out, p.beside(name))
    with tap.claim("moment: a server that does not move the old file aside: as it was done before"):
        p.good(make, url)
        p.gate.arm(lambda _, method, path: 403 if step(0)(method, path) else None)
        p.good(change, url)
        p.gate.arm(lambda *_: None)
        assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n"
        assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())
    with tap.claim("moment: the four requests are one piece, also with a token of 3 KB and with a password"):
        for how, user in ({"BEARER_TOKEN": "x" * 3000}, ""), ({}, "joe:p%40ss%3Aw%2Frd@"):
            p.good(make, p.server.url + "/" + name)
            at = p.server.url.replace("//", "//" + user)
            status, _, err = harness.run([harness.H5PY["3.14.0"], "-c",
                                          f"import sys, h5py; url = sys.argv[1]; {change}", f"{at}/{name}"],
                                         p.env(log="origin") | how)
            assert status == 0 and re.findall(r"dav-quick .*method=(\S+) status=(\d+)", err) == [
                ("HEAD", "200"), ("MOVE", "204"), ("MOVE", "204"), ("HEAD", "200"), ("HEAD", "200")], err[-3000:]
            assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n" and p.beside(name) == []


def check_stranded(tap, p):
    """The server is stopped within the last step, and more than one client dies."""
    if p.kind == "xrootd":
        return
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()"
    change = "f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()"
    with tap.claim("stranded: a client is killed between the two requests of the last step, and another one at each of "
                   "the requests by which it takes the lock away: the next one that opens the file finds it"):
        first, dead, asked, names = {}, set(), {}, [f"strand-{i}.h5" for i in range(8)]

        def rule(_, method, path):
            i, what = int(path[8]), path[12:]
            if i not in dead:
                if method != "MOVE" or not what.startswith(".xhdf5-lock/data-"):
                    return None
                os.kill(first[i].pid, signal.SIGKILL)
                dead.add(i)
                return "cut"
            if re.fullmatch(r"\.xhdf5-[0-9a-f]+n\d+/", what) and method == "MOVE":
                asked.setdefault(i, 0)
            elif i in asked and (method, what) != ("GET", ".xhdf5-lock/owner"):
                asked[i] += 1
                if asked[i] == i + 1:
                    os.kill(other[i].pid, signal.SIGKILL)
                    return "cut"
            return None
        for one in names:
            p.good(make, f"{p.server.url}/{one}")
        other = [p.popen("f = h5py.File(url, 'w'); f['c'] = 3; print('open', flush=True); sys.stdin.readline()\n"
                         "f.close()", f"{p.gate.url}/{one}") for one in names]
        assert [one.stdout.readline() for one in other] == ["open\n"] * len(names)
        p.gate.arm(rule)
        for i, one in enumerate(names):
            first[i] = p.popen("sys.stdin.readline(); " + change, f"{p.gate.url}/{one}")
        for one in first.values():
            one.communicate("\n", timeout=60)
        assert dead == set(range(len(names))) and not any((p.root / one).exists() for one in names)
        for one in other:
            one.stdin.write("\n")
            one.stdin.flush()
        ends = [one.communicate(timeout=60) and one.returncode for one in other]
        p.gate.arm(lambda *_: None)
        assert -9 in ends and set(ends) <= {-9, 0}, (ends, asked)
        found = [p.run("print(list(h5py.File(url, 'r+')))", f"{p.server.url}/{one}") for one in names]
        assert all(out in ("['a']\n", "['c']\n") for _, out, _ in found), (ends, asked, found)
        p.drop_all()
        for x in p.root.glob("strand-*"):
            shutil.rmtree(x) if x.is_dir() else x.unlink()


def check_uploads(tap, p):
    """How often a file is sent that the server takes, and does not put in its place."""
    if p.kind == "xrootd":
        return
    url, name = p.gate.url + "/uploads.h5", "uploads.h5"
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()"
    change = "f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()"

    def place(method, path):
        return method == "MOVE" and "-lock/data-" in path

    def lock(method, path):
        return method == "MOVE" and re.search(r"n\d+/$", path)

    def aside(method, path):
        return (method, path) == ("MOVE", "/" + name) or (method == "HEAD" and re.search(r"w\d+$", path))

    def one(answer, at):
        """A commit in which each request that |at| is true for is answered so: its status, error, and uploads."""
        p.good(make, f"{p.server.url}/{name}")
        puts = []

        def rule(_, method, path):
            puts.extend([path] if method == "PUT" and "/data-" in path else [])
            return answer if at(method, path) else None
        p.gate.arm(rule)
        status, _, err = p.run(change, url, stall_timeout_ms=5000)
        p.gate.arm(lambda *_: None)
        return status, err, len(puts)

    def kept(status):
        return "give", f"HTTP/1.1 {status} So\r\nContent-Length: 0\r\n\r\n".encode()
    for answer, status, words in ((403, 403, "and hangs up"), (kept(403), 403, "403"), (kept(500), 500, "500"),
                                  (kept(412), 412, "412, as if a file were there")):
        with tap.claim(f"uploads: the server refuses the last step for good ({words}): the file is sent once, the "
                       "error says so, the old one is there, and retry sends it later"):
            ended, err, puts = one(answer, place)
            assert (ended, puts) == (1, 1) and f"{status} at MOVE" in err and "others" not in err, (ended, puts, err)
            assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "0.0\n" and p.beside(name) == []
            p.tool("retry", p.left()[0]["id"])
            assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n" and p.beside(name) == []
    for answer, words in (403, "and hangs up"), (kept(500), "500"):
        with tap.claim(f"uploads: the server does not move the old file aside, nor tell whether it lies there ({words})"
                       ": the file is sent once, and there"):
            ended, err, puts = one(answer, aside)
            assert (ended, puts) == (0, 1), (ended, puts, err)
            assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "1.0\n" and p.beside(name) == []
    for at in lock, place:
        with tap.claim(f"uploads: a server that says that it moves ({at.__name__}), and does not: not sent for ever"):
            ended, err, puts = one(kept(201), at)
            assert ended == 1 and puts <= 3 and "others" not in err, (ended, puts, err)
            assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "0.0\n" and p.beside(name) == []
            p.tool("retry", p.left()[0]["id"])


def check_landing(tap, p):
    """The new file is in its place, or is not, and its program does not hear of it."""
    plugin()
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(9); f.close()"
    change = "sys.stdin.readline(); f = h5py.File(url, 'r+'); f['a'][3] = 5; f['a'][4] = 6; f.close()"

    def killed(name, lands):
        """A program that changes the file is killed in the last step, or behind it."""
        url, moved, dead = f"{p.gate.url}/{name}", [], []
        p.good(make, f"{p.server.url}/{name}")

        def rule(_, method, path):
            first = method == "MOVE" and path == "/" + name    # nginx: one piece with the next
            if method == "MOVE" and "-lock/data-" in path:
                moved.append(path)
            if dead or (first and not lands) or (moved and (not lands or method != "MOVE")):
                dead.append(path)  # first: whoever waits for the program's end looks at it
                len(dead) > 1 or os.kill(one.pid, signal.SIGKILL)
                return "cut"
            return None
        p.gate.arm(rule)
        one = p.popen(change, url)
        _, err = one.communicate("\n", timeout=60)
        p.gate.arm(lambda *_: None)
        assert one.returncode == -9 and dead, (one.returncode, dead, err)
        return p.left()[0]["id"]

    def shown(name):
        return p.local("print(h5py.File(url)['a'][3:8].tolist())", p.root / name).strip()

    def other(name, code, stale=False):
        """Another writer, who finds the lock and the turn stale, or gone, as if a third had found them so."""
        for word in () if stale else ("lock", "turn"):
            shutil.rmtree(p.root / f"{name}.xhdf5-{word}")
        p.good(f"f = h5py.File(url, 'r+'); {code}; f.close()", f"{p.server.url}/{name}")
    with tap.claim("landing: killed behind the last step, and others have written over that: retry does not undo it"):
        left = killed("over.h5", True)
        assert shown("over.h5") == "[5.0, 6.0, 0.0, 0.0, 0.0]"
        other("over.h5", "f['a'][3] = 9")
        assert "conflict" in p.tool("retry", left, status=3)
        assert shown("over.h5") == "[9.0, 6.0, 0.0, 0.0, 0.0]" and len(p.left()) == 1
        p.tool("drop", left)
    with tap.claim("landing: the answer to the last step is lost, and before its program asks others have taken the "
                   "lock away and written over that: it does not undo it"):
        steps = []
        p.good(make, f"{p.server.url}/lives.h5")

        def rule(_, method, path):
            if method == "MOVE" and "-lock/data-" in path and not steps:
                steps.append(1)
                return "deaf"
            if steps == [1]:
                steps.append(2)
                other("lives.h5", "f['a'][3] = 9")
            return None
        p.gate.arm(rule)
        err = p.bad(change.partition("; ")[2], f"{p.gate.url}/lives.h5")
        p.gate.arm(lambda *_: None)
        assert "conflict" in err and shown("lives.h5") == "[9.0, 6.0, 0.0, 0.0, 0.0]", (err, shown("lives.h5"))
        p.tool("drop", p.left()[0]["id"])
    with tap.claim("landing: the same where others have written beside it: retry finds it done"):
        left = killed("beside.h5", True)
        other("beside.h5", "f['a'][7] = 9")
        p.tool("retry", left)
        assert shown("beside.h5") == "[5.0, 6.0, 0.0, 0.0, 9.0]" and p.left() == []
    with tap.claim("landing: killed before it, and another one takes the lock away and changes the file: retry knows "
                   "that it is not done, and merges"):
        left = killed("before.h5", False)
        assert shown("before.h5") == "[0.0, 0.0, 0.0, 0.0, 0.0]"
        other("before.h5", "f['a'][7] = 9", stale=True)
        p.tool("retry", left)
        assert shown("before.h5") == "[5.0, 6.0, 0.0, 0.0, 9.0]" and p.left() == []
        assert p.beside("before.h5") == [], p.beside("before.h5")
    if p.kind != "xrootd":
        for again in "", "; so does a retry behind one that was killed in that, of a later attempt":
            with tap.claim("landing: killed in the last step, in which another's version went aside unseen: retry puts "
                           f"that one back, and it is a conflict{again}"):
                name, steps = "aside.h5", []
                p.local("f = h5py.File(url, 'w'); f['b'] = np.ones(200); f.close()", p.work / name)
                p.good(make, f"{p.server.url}/{name}")

                def rule(_, method, path):
                    if method == "MOVE" and path == "/" + name and not steps:
                        steps.append(1)
                        subprocess.run(["curl", "-sS", "--fail", "--cacert", p.server.cacert, "-T", p.work / name,
                                        f"{p.server.url}/{name}"], check=True)
                    elif steps and method != "MOVE":
                        len(steps) > 1 or os.kill(one.pid, signal.SIGKILL)
                        steps.append(2)
                        return "cut"
                    return None
                p.gate.arm(rule)
                one = p.popen(change, f"{p.gate.url}/{name}")
                one.communicate("\n", timeout=60)
                p.gate.arm(lambda *_: None)
                assert one.returncode == -9 and shown(name) == "[5.0, 6.0, 0.0, 0.0, 0.0]"
                for word in "lock", "turn":
                    shutil.rmtree(p.root / f"{name}.xhdf5-{word}")
                left = p.left()[0]["id"]
                if again:
                    [aside] = p.root.glob(name + ".xhdf5-*w*")
                    (p.root / name).rename(aside.with_name(aside.name.replace("w", "v")))
                    record = p.overlay / left / "record"
                    record.write_text(re.sub(r"(?m)^left .*", "left ", record.read_text()))
                assert "conflict" in p.tool("retry", left, status=3)
                assert p.bytes(name) == p.hash(p.work / name) and p.beside(name) == [], p.beside(name)
                p.tool("drop", left)
    with tap.claim("landing: the network is gone behind the last step of a commit: what the program writes then is "
                   "sent when it closes the file, and that is no conflict"):
        for mode, url in (("r+", f"{p.gate.url}/beside.h5"), ("x", f"{p.gate.url}/fresh.h5")):
            moved = []

            def rule(_, method, path, moved=moved):
                if method == "MOVE" and "-lock/data-" in path:
                    moved.append(path)
                return "cut" if moved and method != "MOVE" else None
            one = p.popen(COMMIT + """
f = h5py.File(url, mode); f.require_dataset("a", (9,), "f8"); f["n"] = 1
print("go", flush=True); sys.stdin.readline()
print(commit(f), flush=True); sys.stdin.readline()
f["a"][8] = 8; f["m"] = 2
f.close()""", url, mode, retries=0, stall_timeout_ms=500)
            assert one.stdout.readline() == "go\n", one.stderr.read()
            p.gate.arm(rule)
            one.stdin.write("\n"), one.stdin.flush()
            assert int(one.stdout.readline()) < 0 and moved
            p.gate.arm(lambda *_: None)
            _, err = one.communicate("\n", timeout=100)
            name = url.rsplit("/", 1)[1]
            assert one.returncode == 0 and p.left() == [], err
            assert p.local("f = h5py.File(url); print(f['a'][8], f['n'][()], f['m'][()])", p.root / name) == "8.0 1 2\n"
            assert p.beside(name) == [], p.beside(name)
    with tap.claim("landing: the same, and nothing is written then: closing the file finds it there, and sends none"):
        moved, puts, name = [], [], "beside.h5"

        def rule(_, method, path):
            puts.extend([path] if method == "PUT" and "/data-" in path else [])
            if method == "MOVE" and "-lock/data-" in path:
                moved.append(path)
            return "cut" if moved and method != "MOVE" and len(moved) < 2 else None
        one = p.popen(COMMIT + """
f = h5py.File(url, "r+"); f["k"] = 1
print("go", flush=True); sys.stdin.readline()
print(commit(f), flush=True); sys.stdin.readline()
f.close()""", f"{p.gate.url}/{name}", retries=0, stall_timeout_ms=500)
        assert one.stdout.readline() == "go\n", one.stderr.read()
        p.gate.arm(rule)
        one.stdin.write("\n"), one.stdin.flush()
        assert int(one.stdout.readline()) < 0 and moved
        moved.append("back")
        _, err = one.communicate("\n", timeout=100)
        p.gate.arm(lambda *_: None)
        assert one.returncode == 0 and p.left() == [] and len(puts) == 1, (one.returncode, puts, err)
        assert p.local("f = h5py.File(url); print(f['k'][()])", p.root / name) == "1\n"
        assert [x for x in p.beside(name) if "lock" not in x and "turn" not in x] == [], p.beside(name)


def check_odd(tap, p):
    """Servers that say something else than they do."""
    name, url = "odd.h5", p.gate.url + "/odd.h5"
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(100); f.close()"
    change = "f = h5py.File(url, 'r+'); f['a'][0] += 1; f['n'] = 1; f.close()"
    create = "f = h5py.File(url, 'x'); f['a'] = np.ones(100); f['n'] = 1; f.close()"

    def one(code, rule):
        """A commit with that rule: its status, error, and uploads."""
        (p.root / name).unlink(missing_ok=True)
        if code != create:
            p.good(make, f"{p.server.url}/{name}")
        p.gate.arm(rule)
        status, _, err = p.run(code, url, stall_timeout_ms=5000)
        puts = sum(method == "PUT" and "/data-" in path for method, path, _ in p.gate.log)
        p.gate.arm(lambda *_: None)
        return status, err, puts

    def shown():
        return p.local("f = h5py.File(url); print(f['a'][0], 'n' in f)", p.root / name)
    for how, code in (("a change", change), ("a new file", create)):
        for step, at in (("lock", r"n\d+/$"), ("last step", r"-lock/data-")):
            for status in (412, 207, 500):
                with tap.claim(f"odd: {how}, {step}: the server does it, and answers {status}: it is there, sent once"):
                    ended, err, puts = one(code, lambda _, method, path, at=at, status=status: ("instead", status)
                                           if method == "MOVE" and re.search(at, path) else None)
                    assert (ended, puts, shown()) == (0, 1, "1.0 True\n"), (ended, puts, err)
                    assert p.beside(name) == [] and p.left() == [], (p.beside(name), p.left())
        with tap.claim(f"odd: {how}: the server tells of fewer bytes than were sent: sent once, kept, none replaced"):
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nLast-Modified: Mon, 01 Jan 2035 00:00:00 GMT\r\n\r\n"
            if p.kind == "xrootd":
                break    # it is asked by PROPFIND
            ended, err, puts = one(code, lambda _, method, path: ("give", head)
                                   if method == "HEAD" and "-lock/data-" in path else None)
            assert (ended, puts) == (1, 1) and "7 bytes" in err, (ended, puts, err)
            assert (shown() == "0.0 False\n" if code == change else not (p.root / name).exists())
            assert p.beside(name) == [], p.beside(name)
            p.tool("retry", p.left()[0]["id"])
            assert shown() == "1.0 True\n" and p.left() == []
    if p.kind != "xrootd":
        with tap.claim("odd: the server refuses to move anything to the file's name, as if a file were there (412): "
                       "the old version is not removed, and the error names it"):
            refusal = b"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n"
            was = []

            def rule(_, method, path):
                was or was.append(p.bytes(name))
                return ("give", refusal) if method == "MOVE" and re.search(r"-lock/data-|[vw]\d+$", path) else None
            ended, err, puts = one(change, rule)
            lies = re.search(re.escape(name) + r"(\.xhdf5-[0-9a-f]+w\d+)\b.*: rename it first", err)
            assert ended == 1 and puts == 1 and lies, (ended, puts, err, p.beside(name))
            assert p.bytes(name + lies[1]) == was[0]
            p.tool("retry", p.left()[0]["id"])    # puts it back itself
            assert shown() == "1.0 True\n" and p.beside(name) == [] and p.left() == [], p.beside(name)
    with tap.claim("odd: the look at the file is sent to another server, which shows an older version: what somebody "
                   "else has written meanwhile stays"):
        old = p.root / "older.h5"
        asks = ("PROPFIND",) if p.kind == "xrootd" else ("HEAD",)
        stolen = []

        def rule(_, method, path):
            if method == "PUT" and "/data-" in path and not stolen:
                stolen.append(1)
                shutil.copy2(p.root / name, old)
                p.good("f = h5py.File(url, 'r+'); f['a'][9] = 9; f.close()", f"{p.server.url}/{name}")
            if stolen and method in asks and path == "/" + name:
                return "to", 302, p.server.url.replace("127.0.0.1", "localhost") + "/older.h5"
            return None
        # without a turn, which the other one would wait for
        ended, err, _ = one(change.replace("'r+'", "'w'").replace("f['a'][0] += 1", "f['a'] = np.ones(100)"), rule)
        assert stolen and ended == 1 and "to another one" in err, (stolen, ended, err)
        assert p.local("print(h5py.File(url)['a'][9])", p.root / name) == "9.0\n"
        p.tool("drop", p.left()[0]["id"])


# --- one program, one file ------------------------------------------------------------------------

def check_head(tap, p):
    """A server tells a file's date apart from its bytes, and the file is replaced between the two replies."""
    if p.kind != "xrootd":
        return
    name, url = "head.h5", p.gate.url + "/head.h5"
    make = "f = h5py.File(url, 'w'); f['a'] = np.zeros(9); f['b'] = np.zeros(9); f.close()"
    p.local("f = h5py.File(url, 'w'); f['a'] = np.zeros(9); f['b'] = np.ones(9); f.close()", p.work / name)
    replaced = []

    def between(_, method, path):
        if method == "PROPFIND" and path == "/" + name and not replaced:
            replaced.append(1)
            end = time.monotonic() + 20
            while not any(m == "GET" and at == path and s in (200, 206) for m, at, s in p.gate.log):
                assert time.monotonic() < end, p.gate.log
                time.sleep(0.01)
            shutil.copy(p.work / name, p.root / name)
        return None
    with tap.claim("head: a small file is replaced after its bytes came and before its date: it is opened again, and "
                   "what another wrote is not undone"):
        p.good(make, url)
        p.gate.arm(between)
        p.good("f = h5py.File(url, 'r+'); f['a'][0] += 1; f.close()", url)
        p.gate.arm(lambda *_: None)
        assert replaced, p.gate.log
        said = p.local("f = h5py.File(url); print(f['a'][0], f['b'][0])", p.root / name)
        assert said == "1.0 1.0\n", f"the other's bytes are gone: {said}"
    with tap.claim("head: the same while `xhdf5 get` opens it: the older bytes are not kept as the newer version"):
        p.good(make, url)
        replaced.clear()
        p.gate.arm(between)
        status, _, err = harness.run([TOOL, "get", url, "-o", p.work / "got.h5"], p.env())
        p.gate.arm(lambda *_: None)
        assert replaced, p.gate.log
        assert status and "was changed on the server while" in err and not (p.work / "got.h5").exists(), (status, err)


def check_again(tap, p):
    url, name = p.server.url + "/again.h5", "again.h5"
    with tap.claim("again: a new file that is written and not committed is opened again in its program, as a local one is"):
        code = """
            f = h5py.File(url, "w"); f["a"] = np.arange(10)
            for mode in "r", "r+", "a":
                with h5py.File(url, mode) as g:
                    print(mode, g["a"][5], g == f)
                    if mode != "r": g["in_" + mode] = 1
            for mode in "w", "x":
                try: h5py.File(url, mode)
                except OSError as e: print(type(e).__name__, "already open" in str(e))
            print(sorted(f)); f.close()
            with h5py.File(url, "r") as g: print(sorted(g), g["a"][9])"""
        out = p.good(code, url)
        here = p.local(textwrap.dedent(code).replace("import sys, h5py", ""), p.work / "again.h5")
        assert out == here and "r 5 True" in out and "['a', 'in_a', 'in_r+'] 9" in out, (out, here)
        p.valid(name)
        assert p.left() == [] and p.beside(name) == []
    with tap.claim("again: one that is changed is opened again without a request; the last to close sends it"):
        p.gate.arm(lambda *_: None)
        out = p.good("""
            f = h5py.File(url, "r+"); f["n"] = 5
            print("opened", flush=True); sys.stdin.readline()
            g = h5py.File(url, "r"); h = h5py.File(url, "r+"); print(g["n"][()], h["n"][()]); h["m"] = 6; f.close(); print(g["m"][()])
            g.close(); h.close()""".replace("sys.stdin.readline()", "pass"), f"{p.gate.url}/{name}", connections=1)
        looks = [m for m, path, _ in p.gate.log if m in ("HEAD", "GET") and path == "/" + name]
        assert out.split() == ["opened", "5", "5", "6"], out
        assert p.local("print(sorted(h5py.File(url)))",
                       p.root / name) == "['a', 'in_a', 'in_r+', 'm', 'n']\n" and p.left() == []
        first = [m for m, _, _ in p.gate.log].index("MKCOL" if p.kind == "nginx" else "PUT")
        assert len([m for m, _, _ in p.gate.log[:first]]) <= 6, (looks, p.gate.log[:first])


# --- a file that is made anew within a second -----------------------------------------------------

def check_young(tap, p):
    """Its version looks as it did before. A date of the server's future is as young as one of this second, and stays so."""
    name = "young.h5"
    url, soon = f"{p.server.url}/{name}", time.time() + 3600
    with tap.claim("young: another file of the same size and second takes the name: who opens it then, also to write, "
                   "reads it, and nothing of what another process has read of the first"):
        for n in (1, 2):
            p.local(f"with h5py.File(url, mode) as f: f['x'] = np.full(100000, {n})", p.work / f"{n}.h5")
        for n, mode in ((1, "r"), (2, "r"), (2, "r+"), (1, "r+")):
            shutil.copy(p.work / f"{n}.h5", p.root / "part")
            os.utime(p.root / "part", (soon, soon))
            os.rename(p.root / "part", p.root / name)
            got = p.good("with h5py.File(url, mode) as f: print(set(f['x'][...].tolist()))", url, mode)
            assert got == f"{{{n}}}\n", (n, mode, got)
        (p.root / name).unlink()


# --- data that HDF5 writes past the driver --------------------------------------------------------

MADE = """
import ctypes, h5py, os, struct, sys
import numpy as np
url, mode, words, do = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4]


def with_image():
    # closing it leaves an image of the metadata cache, which h5py has no word for
    lib = next(x.split()[-1] for x in open("/proc/self/maps") if "/libhdf5" in x and "_hl" not in x and "vfd" not in x)
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    fapl.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    set_image = ctypes.CDLL(lib).H5Pset_mdc_image_config
    assert set_image(ctypes.c_int64(fapl.id), struct.pack("i??i", 1, True, False, -1)) >= 0
    if mode == "w":
        return h5py.File(h5py.h5f.create(url.encode(), h5py.h5f.ACC_TRUNC, fapl=fapl))
    return h5py.File(h5py.h5f.open(url.encode(), h5py.h5f.ACC_RDWR, fapl=fapl))


f = with_image() if words == "image" else h5py.File(url, mode, **words)
if do != "looks":
    d = f.create_dataset("far", (50,), "f8", external=[("far.raw", 0, 400)])
if do == "many":    # in a later part of the object header
    for i in range(40):
        d.attrs["a%d" % i] = np.arange(20.)
if do == "flush":
    f.flush()
if do != "looks":
    d[:] = 7
if do == "attributes":
    del f["far"]
if do in ("attributes", "looks"):    # bytes that look like the message, but name no heap
    looks = [7, 0, 40, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0]
    x = f.require_dataset("x", (), "i4")
    for name, heap in (("odd", 32 * [200]), ("near", [96] + 31 * [0])):
        x.attrs[name] = np.frombuffer(bytes(looks + heap), "u1")
f.close()
"""


REWRITTEN = """
import h5py, sys
import numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["x"] = 1
    looks = np.frombuffer(bytes([7, 0, 40, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0] + 32 * [200]), "u1").copy()
    for i in range(int(sys.argv[2])):
        looks[-1] = i
        f["x"].attrs["odd"] = looks
        f.flush()
"""


def check_made_once(tap, p):
    """What may name external files is looked at when the file is sent."""
    if not can_trace():
        tap.skip("a header that is written many times", "strace cannot trace here")
        return
    with tap.claim("made: a header that is written many times is looked at once"):
        looks = []
        for n in (1, 200):
            status, _, err = harness.run(["strace", "-f", "-y", "-o", p.work / "looks", "-e", "trace=pread64,pwrite64",
                                          harness.H5PY["3.14.0"], "-c", REWRITTEN, f"{p.server.url}/rewritten.h5",
                                          str(n)], p.env())
            assert status == 0 and not p.left(), err
            calls = re.findall(r"(pread64|pwrite64)\(\d+<[^>]*/data>", (p.work / "looks").read_text())
            looks.append(calls[::-1].index("pwrite64"))
        assert 0 < looks[1] < looks[0] + 5, looks


def check_made(tap, p):
    """External raw data of a dataset that is made in a file at a URL."""
    import sources
    for version, exe in sources.PYTHONS.items():
        if version == "2.2" and not (pathlib.Path(exe[1]) / "usr/bin/python3").exists():
            continue
        cases = {"": ("w", {}, "plain"), ", flushed before": ("w", {}, "flush"),
                 ", in a late part of its header": ("w", {}, "many"),
                 ", libver latest": ("w", {"libver": "latest"}, "many"),
                 ", in a file that was there": ("r+", {}, "plain"),
                 ", paged": ("w", {"fs_strategy": "page", "page_buf_size": 65536}, "plain"),
                 ", with an image of the metadata cache": ("w", "image", "plain")}
        for words, (mode, how, do) in cases.items():
            name = f"made-{version}.h5"
            url, cwd = f"{p.server.url}/{name}", p.work / "cwd"
            cwd.mkdir(exist_ok=True)

            def run(url, **options):
                return harness.run([*exe, "-c", MADE, url, mode, repr(how), do], p.env(**options), cwd=cwd)
            if mode == "r+":
                p.good("with h5py.File(url, 'w') as f: f['x'] = 1", url)
            was = p.bytes(name)
            with tap.claim(f"made, HDF5 {version}: a dataset of external raw data: not sent, and kept{words}"):
                status, out, err = run(url)
                named = "?" if how == "image" else "far.raw"
                assert status == 1 and all(w in err for w in (f"'{named}'", "local_sources", "H5Pset_external")), err
                assert p.bytes(name) == was and name in err, err
                [left] = p.left()
                assert left["state"] == "withheld" and named in left["why"], left
                p.tool("export", left["id"], p.work / "made-out.h5")
                assert p.local("print(h5py.File(url)['far'].shape)", p.work / "made-out.h5") == "(50,)\n"
                (p.work / "made-out.h5").unlink()
                p.tool("drop", left["id"])
            (p.root / name).unlink(missing_ok=True)
        with tap.claim(f"made, HDF5 {version}: with local_sources it is sent"):
            mode, how, do = "w", {}, "plain"
            status, out, err = run(url, local_sources="on")
            assert status == 0 and p.bytes(name) and not p.left(), err
        with tap.claim(f"made, HDF5 {version}: so is what only looks like it, and one that was removed again"):
            mode, how, do = "w", {}, "attributes"
            status, out, err = run(url)
            assert status == 0 and p.bytes(name) and not p.left(), err
        with tap.claim(f"made, HDF5 {version}: so is what only looks like it in an image of the metadata cache"):
            for mode in ("w", "r+", "r+"):
                how, do = "image", "looks"
                status, out, err = run(url)
                assert status == 0 and b"MDCI" in (p.root / name).read_bytes() and not p.left(), mode + err


# --- a fork's child ---------------------------------------------------------------------------------

def check_child(tap, p):
    plugin()
    name = "child.h5"
    url = f"{p.server.url}/{name}"
    with tap.claim("child: what a child of a fork reads of the version before is no part of its parent's merge"):
        p.local("""
            with h5py.File(url, "w") as f:
                f["a"] = np.ones(1000, "i8"); f["b"] = np.zeros(1000, "i8")""", p.root / name)
        harness.age(p.root / name)
        p.good("f = h5py.File(url, 'r'); f['a'][:], f['b'][:]", url)    # it is in the shadow
        p.good(OTHER + """
f = h5py.File(url, "r+"); a = f["a"]; f["b"]
there, here = os.pipe()
child = os.fork()
if child == 0:
    os.read(there, 1)
    os._exit(int(a[0]) != 1)
a[0] = 2
assert commit(f) == 0
os.write(here, b"x")
assert os.waitpid(child, 0)[1] == 0
a[0] = 1
other("with h5py.File(url, 'r+') as f: f['b'][5] = 5")
f.close()""", url)
        got = p.local("f = h5py.File(url); print(f['a'][0], f['b'][5])", p.root / name)
        assert got == "1 5\n" and p.left() == [], got
    with tap.claim("child: what its parent could not send is sent by `recover retry`, though the child runs on"):
        p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
        one = p.popen("""
f = h5py.File(url, "r+"); f["a"][0] = 7
there, here = os.pipe()
if os.fork() == 0:
    os.close(here)
    os.read(there, 1)
    os._exit(0)
try:
    f.close()
except Exception:
    print("kept", flush=True)
sys.stdin.readline()""", f"{p.gate.url}/{name}")
        assert one.stdout.readline() == "kept\n"
        p.gate.arm(lambda *_: None)
        [left] = p.left()
        assert left["state"] == "to be sent", left
        p.tool("retry", left["id"])
        one.communicate("\n", timeout=60)
        assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "7\n" and p.left() == []


def check_parts(tap, p):
    plugin()
    name = "parts%05d.h5"
    url = f"{p.server.url}/{name}"
    with tap.claim("parts: what another driver keeps in several files at URLs can be neither committed nor "
                   "discarded, and errors say so; closing sends them"):
        p.good(OTHER + """
f = h5py.File(url, "w", driver="family", memb_size=100000)
f["a"] = np.arange(50000)
assert commit(f) < 0, "it was told that the parts were sent"
lib.H5FDxhdf5_discard.argtypes = [ctypes.c_int64, ctypes.c_uint]
assert lib.H5FDxhdf5_discard(f.id.id, 0) < 0, "it was told that nothing is written at a URL"
f.close()
with h5py.File(url, driver="family", memb_size=100000) as f:
    assert (f["a"][:] == np.arange(50000)).all()
f = h5py.File(sys.argv[0] + ".h5", "w", driver="core", backing_store=False)
assert commit(f) == 0    # a file that is at no URL""", url)
        assert len(list(p.root.glob("parts*.h5"))) > 2 and p.left() == []
    with tap.claim("parts: what a new file in parts asks for: its parts, and one that is not there"):
        p.gate.arm(lambda *_: None)
        p.good("f = h5py.File(url, 'w', driver='family', memb_size=100000); f['a'] = np.arange(50000); f.close()",
               f"{p.gate.url}/new-%05d.h5")
        asked = {found[0] for _, path, *_ in p.gate.log if (found := re.findall(r"new-\d+", path))}
        assert asked == {f"new-{i:05d}" for i in range(5)}, sorted(asked)[:20]
    split = OTHER + """
HDF5_DRIVER = os.environ.pop("HDF5_DRIVER", None)
lib = ctypes.CDLL(next(x.split()[-1] for x in open("/proc/self/maps") if "/libhdf5" in x and "_hl" not in x
                       and "vfd" not in x))
member, fapl = (h5py.h5p.create(h5py.h5p.FILE_ACCESS) for _ in range(2))
assert lib.H5Pset_driver_by_name(ctypes.c_int64(member.id), b"xhdf5", None) >= 0
assert lib.H5Pset_fapl_split(ctypes.c_int64(fapl.id), b"-m.h5", ctypes.c_int64(member.id), b"-r.h5",
                             ctypes.c_int64(member.id)) >= 0
def opened(flags):
    return h5py.File(h5py.h5f.open(url.encode(), flags, fapl=fapl))
def made():
    return h5py.File(h5py.h5f.create(url.encode(), h5py.h5f.ACC_TRUNC, fapl=fapl))
"""
    read = split + "f = opened(h5py.h5f.ACC_RDONLY); print(list(f), f['a'][3], f['a'][-1])"
    with tap.claim("parts: HDF5's split driver makes, changes and reads its two files at URLs"):
        p.good(split + "f = made(); f['a'] = np.arange(50000); f.close()", f"{p.server.url}/split")
        p.good(split + "f = opened(h5py.h5f.ACC_RDWR); f['a'][3] = 7; f['b'] = 1; f.close()", f"{p.server.url}/split")
        assert p.good(read, f"{p.server.url}/split") == "['a', 'b'] 7 49999\n"
        assert sorted(q.name for q in p.root.glob("split*")) == ["split-m.h5", "split-r.h5"] and p.left() == []
    with tap.claim("parts: one of the two that the server does not take is an error and a line, and is kept; retry "
                   "makes the whole"):
        for part in "-m.h5", "-r.h5":
            p.gate.arm(lambda _, method, path, part=part: 507 if method == "PUT" and f"{part}.xhdf5" in path and
                       "/data-" in path else None)
            err = p.bad(split + "f = made(); f['a'] = np.arange(50000); f.close()", f"{p.gate.url}/half{part[1]}")
            p.gate.arm(lambda *_: None)
            [left] = p.left()
            assert left["url"].endswith(part) and f"xhdf5: {left['url']}: 507 at PUT" in err, (left, err[-2000:])
            p.tool("retry", left["id"])
            assert p.good(read, f"{p.server.url}/half{part[1]}") == "['a'] 3 49999\n"


# --- a commit that is done, and whose version cannot be opened --------------------------------------

def check_behind(tap, p):
    plugin()
    name = "behind.h5"
    with tap.claim("behind: the new version cannot be opened behind a commit: closing sends what is written then"):
        p.local("""
            with h5py.File(url, "w") as f:
                f["a"] = np.ones(1000, "i8"); f["b"] = np.arange(300000)""", p.root / name)
        harness.age(p.root / name)
        one = p.popen(COMMIT + """
f = h5py.File(url, "r+"); a = f["a"]
a[0] = 2
print("go", flush=True); sys.stdin.readline()
print(commit(f) < 0, flush=True); sys.stdin.readline()
a[0] = 1
f.close()""", f"{p.gate.url}/{name}", retries=0)
        assert one.stdout.readline() == "go\n", one.stderr.read()
        moved = []

        def rule(n, method, path):
            if method == "DELETE":
                moved.append(n)
            return 503 if method == "GET" and path.endswith(name) and moved else None
        p.gate.arm(rule)
        one.stdin.write("\n"), one.stdin.flush()
        assert one.stdout.readline() == "True\n", one.stderr.read()
        assert p.local("print(h5py.File(url)['a'][0])", p.root / name) == "2\n"
        p.gate.arm(lambda *_: None)
        _, err = one.communicate("\n", timeout=100)
        got = p.local("print(h5py.File(url)['a'][0])", p.root / name)
        assert one.returncode == 0 and got == "1\n" and p.left() == [], (one.returncode, got, err)
        assert sum(method == "PUT" and "/data-" in path for method, path, *_ in p.gate.log) <= 2, p.gate.log
    with tap.claim("behind: another's version comes in that moment: the error says so, and not that what is at the "
                   "server is kept"):
        other = p.root / "behind-other.h5"
        other.write_bytes((p.root / name).read_bytes())
        p.local("""
            with h5py.File(url, "r+") as f: f["a"][1] = 9""", other)
        harness.age(p.root / name)
        os.utime(other, (10 ** 9, 10 ** 9))    # no other version has this date
        removed = []

        def replaced(n, method, path):
            if method == "DELETE" and path.endswith("-turn/"):    # the last request of the commit
                removed.append(n)
            elif method in ("GET", "PROPFIND") and path.endswith(name) and removed and other.exists():
                other.replace(p.root / name)
        p.gate.arm(replaced)
        status, out, err = p.run(COMMIT + """
f = h5py.File(url, "r+"); a = f["a"]
a[0] = 3
print(commit(f) < 0, flush=True)
path = next(l.split()[-1] for l in open("/proc/self/maps") if "libhdf5-" in l)
ctypes.CDLL(path).H5Eprint2(ctypes.c_int64(0), None)
f.close()""", f"{p.gate.url}/{name}", retries=0)
        p.gate.arm(lambda *_: None)
        assert (status, out) == (0, "True\n") and not other.exists(), (status, out, err)
        assert "changed there since" in err and "is kept" not in err and p.left() == [], (err, p.left())
        got = p.local("print(h5py.File(url)['a'][:2])", p.root / name)
        assert got == "[1 9]\n", got


# --- reads that fail while HDF5 writes -------------------------------------------------------------

# Free space is kept in the file, so HDF5 reads about it when it makes room for a chunk, and when it closes the file.
WITH_SPACE = """
f = h5py.File(url, "w", fs_strategy="fsm", fs_persist=True)
f["x"] = np.arange(3000)
f.create_dataset("c", (4000,), "i8", chunks=(1000,), compression="gzip")[:] = 7
f["y"] = np.arange(300000)
for i in range(3000): f.create_group("g%d" % i)
for i in range(0, 3000, 7): del f["g%d" % i]
del f["x"]
f.close()
"""

FAILING = """
import sys, os, h5py, numpy as np
url, what = sys.argv[1:3]
f = h5py.File(url, "r+", rdcc_nbytes=8000)    # one chunk
if what == "close":
    f["y"][5] = 7
else:
    c = f["c"]
    c[:1000] = np.random.default_rng(1).integers(0, 1 << 40, 1000)
print("fails", flush=True); sys.stdin.readline()
if what == "dataset":
    del c
elif what == "chunk":
    try:
        c[2000:3000] = 1
    except OSError:
        pass
print("goes on", flush=True); sys.stdin.readline()
f.close()
"""


def check_lost(tap, p):
    import sources
    whats = {"close": "closes the file: nothing is sent", "dataset": "closes a dataset, in silence: nothing is sent",
             "chunk": "makes room for a chunk, and the program goes on: closing the file sends nothing, and fails"}
    for version, exe in sources.PYTHONS.items():
        if version == "2.2" and not (pathlib.Path(exe[1]) / "usr/bin/python3").exists():
            continue
        for what, nth in ((what, nth) for what in whats for nth in (0, 1)):
            name = "lost.h5"
            p.local(WITH_SPACE, p.root / name)
            harness.age(p.root / name)
            was = p.bytes(name)
            p.gate.arm(lambda *_: None)
            env = p.env(whole_file_bytes=0, head_bytes=4096, readahead="off", without_shadow=True, retries=0,
                        sidecar="off")
            one = subprocess.Popen([*map(str, exe), "-c", FAILING, f"{p.gate.url}/{name}", what], env=env,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert one.stdout.readline() == "fails\n", one.stderr.read()
            gets = []

            def rule(n, method, path):
                if method != "GET" or not path.endswith(name):
                    return None
                gets.append(n)
                # what closes the file also sends it: that is to succeed
                return 503 if len(gets) == nth + 1 or (what != "close" and len(gets) > nth) else None

            def step():
                one.stdin.write("\n"), one.stdin.flush()
            if what == "close":
                step()
                assert one.stdout.readline() == "goes on\n", one.stderr.read()
                p.gate.arm(rule)
            else:
                p.gate.arm(rule)
                step()
                assert one.stdout.readline() == "goes on\n", one.stderr.read()
                p.gate.arm(lambda *_: None)
            _, err = one.communicate("\n", timeout=100)
            with tap.claim(f"lost, HDF5 {version}: read {nth + 1} fails while HDF5 {whats[what]}"):
                assert p.bytes(name) == was and len(gets) > nth and one.returncode != 0, (len(gets), err)
                left = p.left()
                for one_left in left:
                    p.tool("drop", one_left["id"])
                crashed = what == "dataset" and one.returncode in (-11, -6)    # HDF5 itself, behind such a dataset
                assert crashed or ("is not sent" in err and [x["state"] for x in left] == ["withheld"]), (
                    one.returncode, left, err[-2000:])


# --- a program that gets many signals ---------------------------------------------------------------

def check_signals(tap, p):
    name = "signals.h5"
    with tap.claim("signals: a file that was changed just now is changed again, whatever signals come"):
        p.good("""
            import signal
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
            for mode in "w", "r+", "r+":
                with h5py.File(url, mode) as f:
                    f.require_dataset("a", (1000,), "i8")[5] = len(mode)""", f"{p.server.url}/{name}")
        assert p.local("print(h5py.File(url)['a'][5])", p.root / name) == "2\n"


def main():
    kind = sys.argv[1]
    words = sys.argv[2:]
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        p = Place(kind, stack)
        tap.tidy = p.drop_all
        for check in (check_turns, check_filters, check_flush, check_disk, check_endless, check_names, check_blind,
                      check_way, check_cached, check_foreign, check_moment, check_stranded, check_uploads,
                      check_landing, check_odd, check_head, check_again, check_young, check_made, check_made_once,
                      check_child, check_parts, check_behind, check_lost, check_signals):
            if not words or any(w in check.__name__ for w in words):
                check(tap, p)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
