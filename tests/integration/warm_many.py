#!/usr/bin/env python3
"""xhdf5 cache warm of many files. TAP.

Usage: warm_many.py nginx|xrootd

What a server was asked stands in its own log. That files are opened side by side shows at a server that holds its
answers until it was asked for all of them (tests/support/liar.py, "held"): nothing here goes by time.
"""
import json
import os
import pathlib
import sys
import tempfile
import threading

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
FILES, LARGE = 50, 6    # small ones; ones of which --metadata-only leaves the data out
GUESSED = 8               # files behind the last one that are asked for, as names count (USUAL_AHEAD in alike.c)
AHEAD, AT_ONCE = 16, 8    # files that are opened ahead (XH_EXPECTED_MOST); requests for them at once, at least
MAKE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(5)
for i in range(int(sys.argv[2])):
    with h5py.File(f"{sys.argv[1]}/small{i}.h5", "w") as f:
        f.create_dataset("x", data=rng.integers(0, 1 << 40, (8, 8192)), chunks=(1, 8192), compression=1)
        f.attrs["number"] = i
for i in range(int(sys.argv[3])):
    with h5py.File(f"{sys.argv[1]}/large{i}.h5", "w") as f:
        for k in range(40):
            f[f"g/{k}"] = rng.integers(0, 1 << 60, 20000)
            f[f"g/{k}"].attrs["k"] = k
"""
READ = """
import sys, h5py, hashlib
h = hashlib.sha256()
for name in sys.argv[1:]:
    with h5py.File(name, "r") as f:
        h.update(f["x"][:].tobytes() + bytes([f.attrs["number"]]))
print(h.hexdigest())
"""
LIST = """
import sys, h5py
for name in sys.argv[1:]:
    with h5py.File(name, "r") as f:
        f.visititems(lambda name, o: print(name, dict(o.attrs)))
"""
READ_LARGE = """
import sys, h5py
for name in sys.argv[1:]:
    with h5py.File(name, "r") as f:
        [f[f"g/{k}"][:] for k in range(40)]
"""


class Bench:
    def __init__(self, server, shadow, data, base):
        self.server, self.shadow, self.data, self.base = server, shadow, data, base
        self.env = harness.driver_env(server, shadow, log="origin")
        self.opening = 3 if server.kind == "xrootd" else 2

    def url(self, name):
        return f"{self.server.url}/{name}"

    def warm(self, *words, want=0, text=None, **env):
        status, out, err = harness.run([TOOL, "cache", "warm", *words], {**self.env, **env}, timeout=200, text=text)
        assert status == want, f"exit code {status}, not {want}: {out}{err[-3000:]}"
        return out, err

    def python(self, code, *args, heard=None):
        status, out, err = harness.run([harness.H5PY["3.16.0"], "-c", code, *args], self.env, timeout=200)
        assert status == 0, err[-3000:]
        if heard is not None:
            heard.append(err)
        return out

    def forget(self):
        status, out, err = harness.run([TOOL, "cache", "rm", "--all"], self.env)
        assert status == 0, out + err

    def asked(self, before):
        after = self.server.requests()
        return after[0] - before[0], after[1] - before[1]


def again(err):
    """Requests that were sent twice, as a loaded machine was slow to answer."""
    return err.count(" ask-again ") + err.count(" retry ") + err.count(" hedge ")


def small(tap, b):
    names = [f"small{i}.h5" for i in range(FILES)]
    urls = [b.url(n) for n in names]
    size = sum(os.path.getsize(f"{b.data}/{n}") for n in names)
    local = harness.run([harness.H5PY["3.16.0"], "-c", READ, *(f"{b.data}/{n}" for n in names)],
                        harness.clean_env())[1]
    for words, text in (([*urls, "--metadata-only"], None), (["-"], "# all\n\n" + "\n  ".join(urls) + "\n")):
        b.forget()
        with tap.claim(f"cache warm {' '.join(words[FILES:]) or '-'}: {FILES} files by {b.opening} requests each, "
                       "and each byte comes once"):
            before = b.server.requests()
            out, err = b.warm(*words, text=text)
            asked = b.asked(before)
            assert asked[0] <= b.opening * FILES + 3 + again(err), (asked, again(err))
            assert size <= asked[1] <= size * 1.02 + (b.opening - 2) * FILES * 65536, (asked, size)
            assert out.count("2 objects; the shadow holds") == FILES, out
        with tap.claim("the next process finds them: it asks for each whether it may, and what it is"):
            before, heard = b.server.requests(), []
            assert b.python(READ, *urls, heard=heard) == local
            asked = b.asked(before)
            assert asked[0] <= b.opening * FILES + again(heard[0]) and asked[1] <= 1000 * FILES, asked


def large(tap, b):
    urls = [b.url(f"large{i}.h5") for i in range(LARGE)]
    size = sum(os.path.getsize(f"{b.data}/large{i}.h5") for i in range(LARGE))
    b.forget()
    with tap.claim("of large files --metadata-only brings the metadata, and the next process walks them by that"):
        before = b.server.requests()
        b.warm(*urls, "--metadata-only")
        brought = b.asked(before)[1]
        assert brought < size / 2, (brought, size)
        before, heard = b.server.requests(), []
        out = b.python(LIST, *urls, heard=heard)
        assert out.count("'k'") == 40 * LARGE, out
        asked = b.asked(before)
        assert asked[0] <= b.opening * LARGE + GUESSED + again(heard[0]), asked
    with tap.claim("without it, all of them"):
        out, _ = b.warm(*urls)
        assert out.count("41 objects") + out.count("42 objects") == LARGE, out
        before, heard = b.server.requests(), []
        b.python(READ_LARGE, *urls, heard=heard)
        asked = b.asked(before)
        assert asked[0] <= b.opening * LARGE + GUESSED + again(heard[0]) and asked[1] < 10000, asked


def failing(tap, b):
    good = [b.url(f"small{i}.h5") for i in (3, 4, 5)]
    text = "\n".join([good[0], b.url("none.h5") + "?key=SECRET", good[1], "/a/local/file", b.url("text.h5"), good[2]])
    b.forget()
    with tap.claim("what fails is named with its reason, the others are fetched, and the exit code says so"):
        out, err = b.warm("-", text=text, want=3)
        assert out.count("the shadow holds") == 3, out
        assert "none.h5" in err and "404" in err and "/a/local/file" in err and "text.h5" in err, err
        assert "of 6 files, 3 are not in the shadow" in err and "SECRET" not in out + err, err
    with tap.claim("--json: one entry for each, in their order"):
        out, err = b.warm("-", "--json", text=text, want=3)
        found = json.loads(out)
        assert [e["state"] for e in found] == ["kept", "failed", "kept", "failed", "failed", "kept"], found
        assert [e["why"] is None for e in found] == [e["state"] == "kept" for e in found] and "404" in found[1]["why"]
        assert found[0]["url"] == good[0] and found[0]["objects"] == 2 and "SECRET" not in out + err, out
        assert json.loads(b.warm("-", "--json", text="# none\n")[0]) == []
    with tap.claim("of a command line with something that is no URL nothing is fetched"):
        assert "no URL" in b.warm(good[0], "/a/file", want=2)[1]


def side_by_side(tap, b):
    """At a server that answers only when it was asked for AT_ONCE of them."""
    with faults.Liar(pathlib.Path(b.data) / "small0.h5") as liar:
        paths = [f"/held@1/{i}.h5" for i in range(AHEAD)]
        with tap.claim(f"{AT_ONCE} files at least are opened at once"):
            got = []
            run = threading.Thread(target=lambda: got.append(harness.run(
                [TOOL, "cache", "warm", *(liar.base + p for p in paths)],
                {**b.env, "XHDF5_STALL_TIMEOUT_MS": "100000"}, timeout=200)))
            run.start()
            try:
                harness.wait_for(lambda: sum(p in liar.requests() for p in paths) >= AT_ONCE, "the openings", 60)
            finally:
                while run.is_alive():
                    for p in paths:
                        liar.release(p)
                    run.join(0.2)
            status, out, err = got[0]
            assert status == 0 and out.count("the shadow holds") == AHEAD, out + err[-2000:]


def main():
    kind, tap = sys.argv[1], harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-many-") as data:
        pathlib.Path(data).chmod(0o755)
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE, data, FILES, LARGE], harness.clean_env())
        assert status == 0, err
        pathlib.Path(data, "text.h5").write_text("no HDF5 file\n" * 1000)
        for p in pathlib.Path(data).iterdir():
            harness.age(p)
        with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
            b = Bench(server, shadow, data, data)
            small(tap, b)
            large(tap, b)
            failing(tap, b)
            if kind == "nginx":
                side_by_side(tap, b)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
