#!/usr/bin/env python3
"""What a reader gets of files that a file names, by virtual data sets and external links, when they are not there, not to be had, or
break off: in every HDF5 of the box, from parents here and at a URL. Prints TAP.

tests/support/liar.py serves the sources; each case has a URL, and so a fault, of its own.
"""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

FORKY = pathlib.Path("/opt/forky")
PYTHONS = {"1.14.5": [sys.executable], "1.14.6": [harness.H5PY["3.14.0"]], "2.0": [harness.H5PY["3.16.0"]],
           "2.2": ["chroot", FORKY, "/usr/bin/python3"]}
HASTY = {"retries": 0, "stall_timeout_ms": 300, "connect_timeout_ms": 1000, "head_bytes": 4096}
DATA, FILL = [0, 1, 2, 3, 4, 5], [-1] * 6

# Each step of standard input is done, and what it gave printed: values, or the exception's name, number and text.
READER = """
import h5py, json, sys
f, out = None, []
for what, *words in json.load(sys.stdin):
    try:
        got = "done"
        if what == "open":
            f = h5py.File(*words)
        elif what == "close":
            f.close()
        elif what == "read":
            got = [int(x) for x in f[words[0]][()]]
        elif what == "read many":
            got = []
            for i in range(words[1]):
                try:
                    f[words[0]][i % 6]
                    got.append("read")
                except OSError as e:
                    got.append(str(e))
    except Exception as e:
        got = [type(e).__name__, getattr(e, "errno", None), str(e)]
    out.append(got)
json.dump([h5py.version.hdf5_version, out], sys.stdout)
"""
# Makes the source, then of each line of standard input (JSON: path, {name: source's URL}, its dataset, or [its name in the printf form])
# a file that names it by a virtual data set "v/NAME" and a link "x/NAME".
MAKE = """
import h5py, json, numpy as np, sys
for line in sys.stdin:
    path, names, inside = json.loads(line)
    with h5py.File(path, "w", libver="latest" if names else None) as f:
        if names is None:
            f["d"] = np.arange(6)
            f["pad"] = np.zeros(40000)
            f["far/d"] = np.arange(6)
            f["far/e"] = np.arange(6)
            continue
        for name, url in names.items():
            if "%b" in url:
                layout = h5py.VirtualLayout((6,), int, maxshape=(None,))
                layout[h5py.h5s.UNLIMITED and slice(None)] = h5py.VirtualSource(url, inside, (6,))
                continue
            layout = h5py.VirtualLayout((6,), int)
            layout[:] = h5py.VirtualSource(url, inside, (6,))
            f.create_virtual_dataset("v/" + name, layout, fillvalue=-1)
            f["x/" + name] = h5py.ExternalLink(url, inside)
"""
# path: kind of exception, errno, what its text has
FAILS = {
    "401": ("PermissionError", 13, "401"),
    "403": ("PermissionError", 13, "403"),
    "500": ("OSError", 5, "500"),
    "503": ("OSError", 5, "503"),
    "stall-head": ("TimeoutError", 110, "no byte for 300 ms"),
    "reset-head": ("OSError", 5, ""),
    "empty-reply": ("OSError", 5, ""),
}
GONE = ["404", "410"]


class Liar:
    """tests/support/liar.py on |file|."""

    def __init__(self, file):
        self.process = subprocess.Popen([sys.executable, str(harness.TOP / "tests/support/liar.py"), str(file)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base = "http://127.0.0.1:" + re.search(r"port=(\d+)", self.process.stdout.readline())[1]

    def requests(self):
        with urllib.request.urlopen(f"{self.base}/_stats", timeout=20) as reply:
            return json.load(reply)

    def reset(self):
        urllib.request.urlopen(f"{self.base}/_reset", timeout=20).close()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


class Bench:
    def __init__(self, directory):
        self.directory, self.made, self.n = directory, [], 0
        self.lock = threading.Lock()

    def make(self, path, names, inside="d"):
        self.made.append(json.dumps([str(path), names, inside]))
        return path

    def finish(self):
        done = subprocess.run([harness.DATA_PYTHON, "-c", MAKE], input="\n".join(self.made), text=True, env=harness.clean_env(),
                              capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        self.made = []

    def run(self, version, steps, **options):
        """(what the steps gave, standard error)"""
        env = harness.driver_env(None, None, **{**HASTY, **options})
        env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(self.directory), "no_proxy": "*", "XHDF5_SHADOW": "off"}
        done = subprocess.run([str(a) for a in [*PYTHONS[version], "-c", READER]], input=json.dumps(steps), text=True, env=env,
                              capture_output=True, timeout=60)
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-3000:]}"
        used, out = json.loads(done.stdout)
        assert used.startswith(version), f"HDF5 {used} is not {version}"
        return out, done.stderr


def lines(errors, url):
    return [line for line in errors.splitlines() if line.startswith("xhdf5: ") and url in line]


def raised(got, kind, number, text, url):
    assert isinstance(got[0], str), f"no exception, but {got}"
    assert got[0] == kind and (number is None or got[1] == number), got
    assert url in got[2] and text in got[2], got


def every_fault(tap, bench, version, base, parent, where):
    """Each fault in one open file: virtual data set, link."""
    names = [*FAILS, *GONE, "ok"]
    steps = [["open", parent], *[["read", f"{k}/{n}"] for n in names for k in "vx"], ["close"]]
    out, errors = bench.run(version, steps)
    out = dict(zip([f"{k}/{n}" for n in names for k in "vx"], out[1:]))
    for name, (kind, number, text) in FAILS.items():
        with tap.claim(f"{version}, {where}: a source that answers {name} raises {kind} with the reason"):
            raised(out[f"v/{name}"], kind, number, text, f"{base}/{name}/v.h5")
        with tap.claim(f"{version}, {where}: a link's target that answers {name} is told of with the reason"):
            raised(out[f"x/{name}"], "KeyError", None, text, f"{base}/{name}/v.h5")
    for name in GONE:
        with tap.claim(f"{version}, {where}: a source that answers {name} gives fill values, and one line says so"):
            assert out[f"v/{name}"] == FILL, out[f"v/{name}"]
            raised(out[f"x/{name}"], "KeyError", None, "", "")
            said = lines(errors, f"{base}/{name}/v.h5")
            assert len(said) == 1 and "XHDF5_MISSING_SOURCES=error" in said[0] and pathlib.Path(parent).name in said[0], errors
    with tap.claim(f"{version}, {where}: the source that is there is read, and nothing else is said"):
        assert out["v/ok"] == DATA and out["x/ok"] == DATA, out
        assert len(errors.splitlines()) == len(GONE), errors


def missing_is_error(tap, bench, version, base, parent):
    with tap.claim(f"{version}: with missing_sources=error a source that answers 404 raises FileNotFoundError, a link says why"):
        out, errors = bench.run(version, [["open", parent], ["read", "v/404"], ["read", "x/404"], ["read", "v/ok"]], missing_sources="error")
        raised(out[1], "FileNotFoundError", 2, "404", f"{base}/404/v.h5")
        raised(out[2], "KeyError", None, "404", f"{base}/404/v.h5")
        assert out[3] == DATA and not errors, errors


def header(tap, bench, version, liar, parent):
    """The source opens; what it says of the dataset does not come."""
    base = liar.base
    liar.reset()
    with tap.claim(f"{version}: a source whose object header does not come raises OSError, and is read once it does"):
        out, errors = bench.run(version, [["open", parent], ["read", "v/far"], ["close"], ["open", parent], ["read", "v/far-once"], ["close"],
                                          ["open", parent], ["read", "v/far-once"], ["close"], ["open", parent], ["read", "v/ok"]],
                                readahead="off")
        raised(out[1], "OSError", 5, "500", f"{base}/500~300000-400000/v.h5")
        raised(out[4], "OSError", 5, "500", f"{base}/500@1~300000-400000/v.h5")
        assert out[2] == "done" and out[7] == DATA and out[10] == DATA, out


def main():
    tap = harness.Tap()
    versions = [v for v in PYTHONS if v != "2.2" or (FORKY / "usr/bin/h5dump").exists()]
    with tempfile.TemporaryDirectory(prefix="xh-sources-", dir="/tmp") as d, contextlib.ExitStack() as stack:
        d = pathlib.Path(d)
        d.chmod(0o755)
        bench = Bench(d)
        source = bench.make(d / "source.h5", None)
        bench.finish()
        liar = Liar(source)
        stack.callback(liar.close)
        base = liar.base
        local = bench.make(d / "local.h5", {n: f"{base}/{n}/v.h5" for n in [*FAILS, *GONE, "ok"]})
        far = bench.make(d / "far.h5", {"far": f"{base}/500~300000-400000/v.h5", "far-once": f"{base}/500@1~300000-400000/v.h5",
                                        "ok": f"{base}/ok/far.h5"}, "far/d")
        bench.finish()
        parents = Liar(local)
        stack.callback(parents.close)
        for version in versions:
            every_fault(tap, bench, version, base, str(local), "a file here")
            every_fault(tap, bench, version, base, f"{parents.base}/ok/local.h5", "a file at a URL")
            missing_is_error(tap, bench, version, base, str(local))
            header(tap, bench, version, liar, str(far))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
