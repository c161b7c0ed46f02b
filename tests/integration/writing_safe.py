#!/usr/bin/env python3
"""What may go wrong with files that are written at URLs, and must not go wrong in silence: several writers that commit in turns, servers that
answer from a cache, programs that are killed, that fail, or that change their mind.

Usage: writing_safe.py nginx|xrootd [WORD …]     with words: only the checks whose names hold one of them
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from writing import COMMIT, Place  # noqa: E402

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
            assert "conflict" in left["why"] and "conflict" in p.tool("retry", left["id"], status=3) and shows() == "[1, 2, 3, 0, 0]"
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


def main():
    kind = sys.argv[1]
    words = sys.argv[2:]
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        p = Place(kind, stack)
        for check in (check_turns,):
            if not words or any(w in check.__name__ for w in words):
                check(tap, p)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
