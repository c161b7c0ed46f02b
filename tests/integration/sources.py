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
           "2.2": harness.FORKY}
STALL_MS = 1000          # a busy machine's server of lies may take a third of that for an honest answer
HASTY = {"retries": 0, "stall_timeout_ms": STALL_MS, "connect_timeout_ms": 1000, "head_bytes": 4096}
DATA, FILL = [0, 1, 2, 3, 4, 5], [-1] * 6

FAR = "300000-400000"    # of the source: its group "far", and the data of its dataset "late"

# Each step of standard input is done, and what it gave printed: values, or the exception's name, number and text.
READER = """
import h5py, json, sys, time, urllib.request
f, out, held, d = None, [], [], None
for what, *words in json.load(sys.stdin):
    try:
        got = "done"
        if what == "open":
            f = h5py.File(*words)
        elif what == "open paged":
            f = h5py.File(*words, page_buf_size=1 << 20)
        elif what == "hold":    # open beside the others, to the end
            held.append(h5py.File(*words))
        elif what == "part":
            got = [int(x) for x in f[words[0]][words[1]:words[2]]]
        elif what == "same":    # a part, by the dataset that the first of them opened
            d = d if d else f[words[0]]
            got = [int(x) for x in d[words[1]:words[2]]]
        elif what == "forget":    # what a server was asked so far
            urllib.request.urlopen(words[0] + "/_reset", timeout=20).close()
        elif what == "close":
            f.close()
        elif what == "read":
            got = [int(x) for x in f[words[0]][()]]
        elif what == "read many":
            got, begun = [], time.monotonic()
            for i in range(words[1]):
                try:
                    f[words[0]][i % 6]
                    got.append("read")
                except OSError as e:
                    got.append(str(e))
            got = [sorted(set(got)), len(got), time.monotonic() - begun]
    except Exception as e:
        got = [type(e).__name__, getattr(e, "errno", None), str(e)]
    out.append(got)
json.dump([h5py.version.hdf5_version, out], sys.stdout)
"""
# Makes the source, then of each line of standard input (JSON: path, {name: source's URL}, its dataset, or [its name
# in the printf form]) a file that names it by a virtual data set "v/NAME" and a link "x/NAME".
MAKE = """
import h5py, json, numpy as np, sys
for line in sys.stdin:
    path, names, inside = json.loads(line)
    paged = {"fs_strategy": "page", "fs_page_size": 16384} if "paged" in path else {}
    with h5py.File(path, "w", libver="latest" if names else None, **paged) as f:
        if names is None:
            f["d"] = np.arange(6)
            late = f.create_dataset("late", (6,), int)    # its data comes behind all else, its header is in the beginning
            f["pad"] = np.zeros(40000)
            f["far/d"] = np.arange(6)
            f["far/e"] = np.arange(6)
            late[:] = np.arange(6)
            continue
        if paged:
            f["before"] = np.arange(6)    # else the page begins with the names
        for name, url in names.items():
            if "%b" in url:    # blocks of six, as many as there are files
                space, block = h5py.h5s.create_simple((6,), (h5py.h5s.UNLIMITED,)), h5py.h5s.create_simple((6,))
                space.select_hyperslab((0,), (h5py.h5s.UNLIMITED,), (6,), (6,))
                plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                plist.set_virtual(space, url.encode(), inside.encode(), block)
                h5py.h5d.create(f.id, name.encode(), h5py.h5t.NATIVE_INT64, h5py.h5s.create_simple((6,), (h5py.h5s.UNLIMITED,)), plist)
                continue
            if isinstance(url, list) and isinstance(url[0], list):    # one dataset over many sources
                layout = h5py.VirtualLayout((6 * len(url[0]),), int)
                for i, source in enumerate(url[0]):
                    layout[6 * i:6 * i + 6] = h5py.VirtualSource(source, inside, (6,))
                f.create_virtual_dataset("v/" + name, layout, fillvalue=-1)
                continue
            if isinstance(url, list):    # two datasets of one source
                layout = h5py.VirtualLayout((12,), int)
                for i, dataset in enumerate(inside):
                    layout[6 * i:6 * i + 6] = h5py.VirtualSource(url[0], dataset, (6,))
                f.create_virtual_dataset("v/" + name, layout, fillvalue=-1)
                continue
            layout = h5py.VirtualLayout((6,), int)
            layout[:] = h5py.VirtualSource(url.replace("%", "%%"), inside, (6,))
            f.create_virtual_dataset("v/" + name, layout, fillvalue=-1)
            f["x/" + name] = h5py.ExternalLink(url, inside)
"""
# Reads six integers of a dataset, and prints them; its libhdf5 is a part of the program.
STATIC = """
#include <hdf5.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    long long x[6] = {0};
    hid_t f = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, argv[2], H5P_DEFAULT);
    if (H5Dread(d, H5T_NATIVE_LLONG, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0)
        return 1;
    for (int i = 0; i < 6; i++)
        printf("%lld ", x[i]);
    return 0;
}
"""
# path: kind of exception, errno, what its text has
FAILS = {
    "401": ("PermissionError", 13, "401"),
    "403": ("PermissionError", 13, "403"),
    "500": ("OSError", 5, "500"),
    "503": ("OSError", 5, "503"),
    "stall-head": ("TimeoutError", 110, f"no byte for {STALL_MS} ms"),
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
        done = subprocess.run([harness.DATA_PYTHON, "-c", MAKE], input="\n".join(self.made), text=True,
                              env=harness.clean_env(),
                              capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        self.made = []

    def run(self, version, steps, **options):
        """(what the steps gave, standard error)"""
        env = harness.driver_env(None, None, **{**HASTY, **options})
        env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(self.directory), "no_proxy": "*",
                "XHDF5_SHADOW": "off"}
        done = subprocess.run([str(a) for a in [*PYTHONS[version], "-c", READER]], input=json.dumps(steps), text=True,
                              env=env,
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
        out, errors = bench.run(version, [["open", parent], ["read", "v/404"], ["read", "x/404"], ["read", "v/ok"]],
                                missing_sources="error")
        raised(out[1], "FileNotFoundError", 2, "404", f"{base}/404/v.h5")
        raised(out[2], "KeyError", None, "404", f"{base}/404/v.h5")
        assert out[3] == DATA and not errors, errors


def header(tap, bench, version, liar, parent):
    """The source opens; what it says of the dataset does not come."""
    base = liar.base
    liar.reset()
    with tap.claim(f"{version}: a source whose object header does not come raises OSError, and is read once it does"):
        out, errors = bench.run(version, [["open", parent], ["read", "v/far"], ["close"], ["open", parent],
                                          ["read", "v/far-once"], ["close"],
                                          ["open", parent], ["read", "v/far-once"], ["close"], ["open", parent],
                                          ["read", "v/ok"],
                                          ["read", "x/far"], ["read", "x/far"], ["close"]],
                                readahead="off")
        raised(out[1], "OSError", 5, "500", f"{base}/500~{FAR}/v.h5")
        raised(out[4], "OSError", 5, "500", f"{base}/500@1~{FAR}/v.h5")
        raised(out[11], "KeyError", None, "500", f"{base}/500~{FAR}/v.h5")
        raised(out[12], "KeyError", None, "500", f"{base}/500~{FAR}/v.h5")
        assert out[2] == out[13] == "done" and out[7] == DATA and out[10] == DATA, out


def behind_a_link(tap, bench, version, base, outer, chain):
    """The source is there, and what it has in the place of the dataset is a link to a file that is not."""
    for name, (path, inner) in outer.items():
        out, errors = bench.run(version, [["open", path], ["read", "v/near"], ["read", "v/far"], ["read", "x/far"]])
        at = f"{base}/{name}/v.h5"
        if name in FAILS:
            kind, number, text = FAILS[name]
            with tap.claim(f"{version}: a source whose dataset is a link to a file that answers {name} "
                           f"raises {kind} with the reason"):
                raised(out[1], kind, number, text, at)
                raised(out[2], kind, number, text, at)
                raised(out[3], "KeyError", None, text, at)
        else:
            with tap.claim(f"{version}: where the link of a source leads to {name}: HDF5's rule, and a line"):
                assert out[1] == out[2] == (FILL if name in GONE else DATA), out
                assert len(lines(errors, at)) == (name in GONE), errors
        if name in GONE:
            with tap.claim(f"{version}: where the link of a source leads to a file that answers {name}, "
                           "with missing_sources=error: an error"):
                out, errors = bench.run(version, [["open", path], ["read", "v/near"], ["read", "v/far"]],
                                        missing_sources="error")
                raised(out[1], "FileNotFoundError", 2, "404", at)
                raised(out[2], "FileNotFoundError", 2, "404", at)
    with tap.claim(f"{version}: the same behind two links"):
        out, errors = bench.run(version, [["open", chain], ["read", "v/near"]])
        raised(out[1], "PermissionError", 13, "403", f"{base}/403/v.h5")
    with tap.claim(f"{version}: where the source is in use otherwise: an error or a line"):
        path, inner = outer["403"]
        out, errors = bench.run(version, [["hold", inner], ["open", path], ["read", "v/near"]])
        assert isinstance(out[2][0], str) or len(lines(errors, f"{base}/403/v.h5")) == 1, (out, errors)
    with tap.claim(f"{version}: a link that fails spoils no other one of the same file"):
        path, inner = outer["403"]
        again = [["open", path], ["read", "v/near"], ["close"]]
        good = [["open", outer["ok"][0]], ["read", "x/near"], ["read", "v/near"], ["close"]]
        first = [["open", inner], ["read", "x/403"], ["read", "x/ok"], ["read", "v/ok"], ["close"]]
        out, errors = bench.run(version, [*first, *again, *good, *again, *good])
        assert all(out[i] == DATA for i in (2, 3, 9, 10, 16, 17)), out


def part_of_the_program(tap, bench, base, local, far, outer):
    """Where a libhdf5 begins in the stack cannot be told if it is a part of the program; so it cannot which call of
    HDF5's a failure belongs to."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5-serial"], capture_output=True, text=True,
                           check=True).stdout.split()
    static = pathlib.Path(next(f[2:] for f in flags if f.startswith("-L")), "libhdf5.a")
    claim = "a libhdf5 that is a part of the program: sources that fail, also behind a link: an error or a line"
    if not static.exists():
        return tap.skip(claim, f"no {static}")
    with tap.claim(claim):
        program, code = bench.directory / "static", bench.directory / "static.c"
        code.write_text(STATIC)
        subprocess.run(["cc", "-o", program, code, "-rdynamic", flags[0], "-Wl,--whole-archive", static,
                        "-Wl,--no-whole-archive", *"-lcrypto -lcurl -lpthread -lsz -laec -lz -ldl -lm".split()],
                       check=True)
        env = harness.driver_env(None, None, **HASTY, readahead="off") | {"no_proxy": "*", "XHDF5_SHADOW": "off"}
        for path, dataset, why in ((local, "v/403", "403"), (far, "v/far", "500"), (outer["403"][0], "v/near", "403")):
            status, out, err = harness.run([program, path, dataset], env)
            assert status == 1 or any(why in line for line in lines(err, base)), (path, dataset, status, out, err)
        for path, dataset in (local, "v/ok"), (outer["ok"][0], "v/near"):
            assert harness.run([program, path, dataset], env) == (0, "0 1 2 3 4 5 ", "")


def asked(liar, path):
    return sum(r["method"] == "GET" for r in liar.requests().get(path, ()))


def one_answer(tap, bench, liar, directory):
    """What changes while a file is open, and what another opening then finds."""
    names = {n: f"{liar.base}/{n}/once.h5" for n in ("404@1", "404@2-", "503@1", "404", "ok")}
    parent = str(bench.make(directory / "once.h5", names))
    bench.finish()
    for version in "1.14.5", "2.0":
        liar.reset()
        with tap.claim(f"{version}: a 404 that passes is one for as long as the file is open, without asking again"):
            out, errors = bench.run(version, [["open", parent], ["read", "v/404@1"], ["read", "v/404@1"],
                                              ["read", "v/404@1"]])
            assert out[1:] == [FILL] * 3 and asked(liar, "/404@1/once.h5") == 1, (out, liar.requests())
            assert len(lines(errors, "once.h5")) == 1, errors
        liar.reset()
        with tap.claim(f"{version}: it is read when the file is opened again, and said once in all"):
            again = [["open", parent], ["read", "v/404@1"], ["close"]]
            out, errors = bench.run(version, [*again, *again, *again])
            assert [out[i] for i in (1, 4, 7)] == [FILL, DATA,
                                                   DATA] and len(lines(errors, "once.h5")) == 1, (out, errors)
        liar.reset()
        with tap.claim(f"{version}: what was there and then answers 404 is no fill value in the same open file"):
            out, errors = bench.run(version, [["open", parent], ["read", "v/404@2-"], ["read", "v/ok"],
                                              ["read", "v/404@2-"], ["read", "x/404@2-"]])
            assert out[1:3] == [DATA] * 2, out
            raised(out[3], "FileNotFoundError", 2, "no longer there", "404@2-/once.h5")
            raised(out[4], "KeyError", None, "no longer there", "404@2-/once.h5")
            assert not errors, errors
        liar.reset()
        with tap.claim(f"{version}: one that is read again and again is opened once"):
            out, errors = bench.run(version, [["open", parent], *[["part", "v/404@2-", i, i + 2] for i in range(4)],
                                              ["read", "x/404@2-"], ["close"]])
            assert out[1:6] == [DATA[i:i + 2] for i in range(4)] + [DATA] and not errors, (out, errors)
            assert asked(liar, "/404@2-/once.h5") == 1, liar.requests()
        liar.reset()
        with tap.claim(f"{version}: a 503 that ends is remembered, and read when the file is opened again"):
            again = [["open", parent], ["read", "v/503@1"], ["read", "x/503@1"], ["close"]]
            out, errors = bench.run(version, [*again, *again])
            raised(out[1], "OSError", 5, "503", "503@1/once.h5")
            raised(out[2], "KeyError", None, "503", "503@1/once.h5")
            assert out[5:7] == [DATA, DATA] and not errors, (out, errors)


def silent_servers(tap, bench, liar, directory):
    """Two hundred reads wait for one time-out: one each would be more than a program has here."""
    names = {"before": f"{liar.base}/stall-head/silent.h5", "later": f"{liar.base}/stall-head~{FAR}/silent.h5"}
    parent = str(bench.make(directory / "silent.h5", names, "late"))
    bench.finish()
    for version in "1.14.5", "2.0":
        for name, what in {"before": "is silent from the beginning", "later": "opens and then falls silent"}.items():
            liar.reset()
            with tap.claim(f"{version}: two hundred reads of a source that {what} wait once"):
                out, errors = bench.run(version, [["open", parent], ["read many", f"v/{name}", 200]], readahead="off")
                texts, n, seconds = out[1]
                assert all(f"no byte for {STALL_MS} ms" in text for text in texts) and n == 200, out
                struck = [r for rs in liar.requests().values() for r in rs if r["struck"]]
                assert 1 <= len(struck) <= 1 + seconds // 5, (seconds, struck)    # a failure is forgotten after five seconds


def one_source_twice(tap, bench, liar, directory):
    """Two datasets of one file: one is in use while the other's header does not come."""
    parent = str(bench.make(directory / "twice.h5", {"both": [f"{liar.base}/500~{FAR}/twice.h5"]}, ["d", "far/e"]))
    bench.finish()
    for version in "1.14.5", "1.14.6", "2.0":
        with tap.claim(f"{version}: a dataset whose header does not come, of a file in use: an error where its neighbour is read, else a line"):
            out, errors = bench.run(version, [["open", parent], ["part", "v/both", 0, 6], ["read", "v/both"],
                                              ["part", "v/both", 6, 12]], readahead="off")
            assert out[1] == DATA, out
            raised(out[2], "OSError", 5, "500", "twice.h5")
            assert isinstance(out[3][0], str) or lines(errors, "twice.h5"), (out, errors)
        with tap.claim(f"{version}: the same while the neighbour stays open: an error, or fill values and a line"):
            liar.reset()
            out, errors = bench.run(version, [["open", parent], ["same", "v/both", 0, 6], ["same", "v/both", 6, 12]],
                                    readahead="off")
            assert out[1] == DATA, out
            assert out[2] == FILL and lines(errors, "twice.h5") or out[2][:2] == ["OSError", 5], (out, errors)


def names_that_hdf5_tries(tap, bench, parents):
    """Beside the one that is meant."""
    with tap.claim("an absolute URL in a file at a URL is not asked for behind that file's directory"):
        for query in "", "?signature=a/b":
            parents.reset()
            out, _ = bench.run("2.0", [["open", f"{parents.base}/ok/local.h5{query}"], ["read", "v/404"],
                                       ["read", "x/404"]])
            assert out[1] == FILL and not any("http" in path for path in parents.requests()), (out, parents.requests())


def beside_each_other(tap, bench, directory):
    """Relative names; names with %b, which end with the first file that is missing."""
    os.makedirs(directory / "served")
    for i in range(3):
        os.link(directory / "source.h5", directory / f"served/part-{i}.h5")
    bench.make(directory / "served/relative.h5", {n: f"{n}.h5" for n in ("none", "closed", "part-0")})
    bench.finish()
    (directory / "served/closed.h5").write_bytes((directory / "source.h5").read_bytes())
    (directory / "served/closed.h5").chmod(0)
    (directory / "served").chmod(0o755)
    with harness.Server("nginx", directory / "served") as server:
        parent = str(bench.make(directory / "printf.h5", {"all": f"{server.url}/part-%b.h5"}))
        bench.finish()
        ca = {"ca_bundle": server.cacert}
        with tap.claim("of a relative name the URL beside the parent counts"):
            out, errors = bench.run("2.0", [["open", f"{server.url}/relative.h5"],
                                            *[["read", f"v/{n}"] for n in ("none", "closed", "part-0")]], **ca)
            assert out[1] == FILL and out[3] == DATA, out
            assert len(lines(errors, f"{server.url}/none.h5")) == 1 and len(errors.splitlines()) == 1, errors
            raised(out[2], "PermissionError", 13, "403", f"{server.url}/closed.h5")
        for version in "1.14.5", "2.0":
            with tap.claim(f"{version}: a dataset of all files part-%b.h5 has what there is, and one line says which is missing"):
                out, errors = bench.run(version, [["open", parent], ["read", "all"], ["read", "all"], ["read", "all"]],
                                        **ca)
                assert out[1:] == [3 * DATA] * 3, out
                assert len(lines(errors, "part-3.h5")) == 1 and len(errors.splitlines()) == 1, errors
            with tap.claim(f"{version}: with missing_sources=error it cannot be opened, and the reason names the file"):
                out, _ = bench.run(version, [["open", parent], ["read", "all"]], missing_sources="error", **ca)
                raised(out[1], out[1][0], None, "404", "part-3.h5")


# Relative names that mean something else in a URL as they stand, or that servers refuse
ODD = ["a b.h5", "run#1.h5", "run?1.h5", "a%41b.h5", "50%.h5", "é+;&=:@~.h5", "../up.h5", "./here.h5",
       "../served/../up#2.h5", "d..d/x.h5"]


def names_without_an_end(tap, bench, liar, directory):
    """Names with %b at a server that has a file for each name, and, at an honest one, for many."""
    n = 600
    os.makedirs(directory / "long")
    for i in range(n):
        os.link(directory / "source.h5", directory / f"long/part-{i}.h5")
    (directory / "long").chmod(0o755)
    endless = str(bench.make(directory / "endless.h5", {"all": f"{liar.base}/ok/part-%b.h5"}))
    bench.make(directory / "long/all.h5", {"all": "part-%b.h5"})
    bench.finish()
    liar.reset()
    with tap.claim("names with %b at a server that has a file for each name: an error that says so, after 256 files"):
        out, errors = bench.run("2.0", [["open", endless], ["read", "all"]])
        raised(out[1], out[1][0], None, "would never end", "/ok/part-18446744073709551615.h5")
        assert "endless.h5 names files with %b" in out[1][2] and "404" in out[1][2], out
        assert len(liar.requests()) < 300, len(liar.requests())
    paged = str(bench.make(directory / "endless-paged.h5", {"all": f"{liar.base}/ok/part-%b.h5"}))
    bench.finish()
    for version in "1.14.5", "2.0":
        liar.reset()
        with tap.claim(f"{version}: so it is where HDF5 reads whole pages, which have the names within them"):
            out, errors = bench.run(version, [["open paged", paged], ["read", "all"]])
            raised(out[1], out[1][0], None, "would never end", "/ok/part-18446744073709551615.h5")
            assert len(liar.requests()) < 300, len(liar.requests())
    with harness.Server("nginx", directory / "long") as server:
        with tap.claim("names with %b of which there are many hundreds at an honest server: all of them are read"):
            out, errors = bench.run("2.0", [["open", f"{server.url}/all.h5"], ["read", "all"]], ca_bundle=server.cacert,
                                    sidecar="off")
            assert out[1] == n * DATA, (str(out)[:500], errors)
            assert len(lines(errors, f"part-{n}.h5")) == 1 and len(errors.splitlines()) == 1, errors


def names_are_of_files(tap, bench, directory):
    """What HDF5 finds beside the parent here, it finds at a server."""
    below = directory / "named/served"
    (below / "d..d").mkdir(parents=True)
    for name in ODD:
        os.link(directory / "source.h5", below / name)
    (below / "run").write_bytes(b"what stands before # and ?")
    bench.make(below / "parent.h5", {str(i): name for i, name in enumerate(ODD)})
    blocks = bench.make(below / "blocks.h5", {"all": "part#%b.h5"})
    for i in range(4):
        os.link(directory / "source.h5", below / f"part#{i}.h5")
    bench.finish()
    (directory / "named").chmod(0o755)
    below.chmod(0o755)
    for version, kind in ("1.14.5", "nginx"), ("2.0", "xrootd"):
        with harness.Server(kind, directory / "named") as server:
            url = f"{server.url}/served"
            with tap.claim(f"{version}, {kind}: # ? % and dots in a relative name are the file's, as in a directory"):
                steps = [["read", f"{how}/{i}"] for i in range(len(ODD)) for how in "vx"]
                out, errors = bench.run(version, [["open", f"{url}/parent.h5"], *steps], ca_bundle=server.cacert)
                wrong = [(ODD[i // 2], got) for i, got in enumerate(out[1:]) if got != DATA and
                         (kind, ODD[i // 2]) != ("xrootd", "run?1.h5")]     # XRootD takes %3F for a ?
                assert not wrong and not errors, (wrong, errors)
            with tap.claim(f"{version}, {kind}: so they are in names with %b, and in those that are opened ahead"):
                out, errors = bench.run(version, [["open", f"{url}/{blocks.name}"], ["read", "all"]],
                                        ca_bundle=server.cacert)
                assert out[1] == 4 * DATA, (out, errors)
                assert len(lines(errors, "part%234.h5")) == 1, errors


# Reads the first number of each dataset of standard input, by virtual_prefix and elink_prefix where there is one.
PREFIXED = """
import h5py, json, sys
f, prefix, out = h5py.File(sys.argv[1]), sys.argv[2].encode(), []
dapl, lapl = h5py.h5p.create(h5py.h5p.DATASET_ACCESS), h5py.h5p.create(h5py.h5p.LINK_ACCESS)
if prefix:
    dapl.set_virtual_prefix(prefix)
    lapl.set_elink_prefix(prefix)
for name in sys.argv[3:]:
    try:
        d = h5py.h5d.open(f.id, name.encode(), dapl) if name[0] == "v" else h5py.h5o.open(f.id, name.encode(), lapl)
        out.append(int(h5py.Dataset(d)[0]))
    except Exception as e:
        out.append([type(e).__name__, getattr(e, "errno", None), str(e)])
print(json.dumps(out))
"""
MAKE_PREFIXED = """
import h5py, os, sys
os.chdir(sys.argv[1])
for i, path in enumerate(["served/below/near.h5", "served/below/sub/near.h5", "served/below/sub/in#1.h5", "sub/near.h5",
                          "sub/in#1.h5"]):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    h5py.File(path, "w")["d"] = [i + 1]
for path, names in (("parent", ["near", "in#1", "deep"]), ("sub/deep", ["in#1"])):
    with h5py.File(f"served/below/{path}.h5", "w") as f:
        for name in names:
            layout = h5py.VirtualLayout((1,), int)
            layout[:] = h5py.VirtualSource(name + ".h5", "v/in#1" if name == "deep" else "d", (1,))
            f.create_virtual_dataset("v/" + name, layout, fillvalue=-1)
            f["x/" + name] = h5py.ExternalLink(name + ".h5", "d")
        f["x/elsewhere"] = h5py.ExternalLink(f"a/{sys.argv[2]}/ok//x.h5", "d")
"""


def prefixes(tap, bench, directory):
    """Directories in which the user has HDF5 look for what a file names: HDF5_VDS_PREFIX, HDF5_EXT_PREFIX, and
    H5Pset_virtual_prefix and H5Pset_elink_prefix."""
    top = directory / "prefixed"
    top.mkdir()
    elsewhere = Liar(__file__)
    status, _, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_PREFIXED, top, elsewhere.base], harness.clean_env())
    assert status == 0, err
    subprocess.run(["chmod", "-R", "a+rX", top], check=True)
    literal = Liar(top / "served/below/parent.h5")
    with harness.Server("nginx", top / "served") as server:
        def read(version, variable, prefix, *names, url="", **options):
            env = harness.driver_env(server, None, **options) | {"no_proxy": "*"}
            if variable:
                env |= {variable: prefix}
            words = [url or f"{server.url}/below/parent.h5", "" if variable else prefix, *names]
            status, out, err = harness.run(["env", "-C", top, *PYTHONS[version], "-c", PREFIXED, *words], env)
            assert status == 0, err
            return json.loads(out), err
        for version in "1.14.5", "2.0":
            for variable in "HDF5_VDS_PREFIX", "":
                how = f"{version}, {variable or 'H5Pset_virtual_prefix'}"
                with tap.claim(f"{how}: ${{ORIGIN}} is the directory of the URL, and a URL itself"):
                    for prefix in "${ORIGIN}/sub", f"{server.url}/below/sub", "${ORIGIN}/../below/sub/":
                        out, err = read(version, variable, prefix, "v/near", "v/in#1")
                        assert out == [2, 3] and not lines(err, ""), (prefix, out, err)
                        assert read(version, variable, prefix, "v/deep")[0] == [3], prefix
                    out, err = read(version, variable, "${ORIGIN}/none", "v/near", "v/in#1")
                    assert out == [1, -1] and len(lines(err, "/none/near.h5")) == 1, (out, err)
                    assert len(lines(err, "below/in%231.h5")) == 1, err
                with tap.claim(f"{how}: so it is where the URL's path has two slashes; no query is asked for"):
                    for query, asked in (("", 1), ("?t=SEC/RET", 0), ("?t=SEC//RET/S", 0)):
                        literal.reset()
                        url = f"{literal.base}/ok/a//b/parent.h5{query}"
                        out, err = read(version, variable, "${ORIGIN}/sub", "v/near", "x/near", url=url)
                        assert set(literal.requests()) == {
                            "/ok/a//b/" + n for n in ["parent.h5" + query, "near.h5", *["sub/near.h5"] * asked]}, (
                            query, list(literal.requests()))
                        assert "RET" not in err + str(out), (out, err)
                for prefix in "sub", str(top / "sub"):
                    with tap.claim(f"{how}: a local directory needs local_sources, and an error says so: "
                                   f"{'absolute' if prefix[0] == '/' else 'relative'}"):
                        out, err = read(version, variable, prefix, "v/in#1")
                        raised(out[0], "PermissionError", 13, "local_sources", f"{prefix}/in#1.h5")
                        assert read(version, variable, prefix, "v/near", "v/in#1", local_sources="on")[0] == [4, 5]
            with tap.claim(f"{version}: another server's URL within a relative name is not asked for"):
                read(version, "", "", "x/elsewhere")
                assert not elsewhere.requests(), elsewhere.requests()
            with tap.claim(f"{version}: H5Pset_elink_prefix: a URL; a local directory needs local_sources"):
                assert read(version, "", f"{server.url}/below/sub", "x/near", "x/in#1")[0] == [2, 3]
                raised(read(version, "", "sub", "x/in#1")[0][0], "KeyError", None, "local_sources", "sub/in#1.h5")
                assert read(version, "", "sub", "x/near", "x/in#1", local_sources="on")[0] == [4, 5]
            with tap.claim(f"{version}: a URL in HDF5_EXT_PREFIX, which HDF5 divides at its colons: a line says so"):
                out, err = read(version, "HDF5_EXT_PREFIX", f"{server.url}/below/sub", "x/near", "x/in#1")
                assert out[0] == 1 and out[1][0] == "KeyError", out
                assert len(lines(err, "HDF5_EXT_PREFIX")) == 1 and "H5Pset_elink_prefix" in err, err
    elsewhere.close()
    literal.close()


def many_are_missing(tap, bench, liar, directory):
    parent = str(bench.make(directory / "many.h5", {f"n{i}": f"{liar.base}/404/{i}.h5" for i in range(30)}))
    bench.finish()
    with tap.claim("thirty files that are missing are twenty lines, the last of which says that it is the last"):
        out, errors = bench.run("2.0", [["open", parent], *[["read", f"v/n{i}"] for i in range(30)]])
        assert out[1:] == [FILL] * 30, out
        said = errors.splitlines()
        assert len(said) == 20 and "no more lines" in said[-1] and not any("no more lines" in line
                                                                           for line in said[:-1]), errors
    both = str(bench.make(directory / "many-both.h5", {"both": [f"{liar.base}/500~{FAR}/many-both.h5"]},
                          ["d", "far/e"]))
    bench.finish()
    with tap.claim("after these, a failure of which HDF5 does not tell has its line all the same"):
        out, errors = bench.run("1.14.5", [["open", parent], *[["read", f"v/n{i}"] for i in range(30)], ["open", both],
                                           ["same", "v/both", 0, 6], ["same", "v/both", 6, 12]], readahead="off")
        assert out[-2] == DATA, out
        assert out[-1][:2] == ["OSError", 5] or len(lines(errors, "many-both.h5")) == 1, (out, errors)
    with tap.claim("a wrong value of missing_sources is an error where it counts, and says what is wanted"):
        out, errors = bench.run("2.0", [["open", parent], ["read", "v/n0"]], missing_sources="eror")
        raised(out[1], "OSError", 22, 'got "eror", want fill or error', "")


def opened_ahead(tap, bench, liar, directory):
    """One mapping over many sources: once two of them were opened in its order, the next ones are asked for ahead."""
    def across(name, urls):
        return str(bench.make(directory / f"{name}.h5", {"all": [urls]}, "d"))

    good = [f"{liar.base}/ok/{i}.h5" for i in range(12)]
    gone = [f"{liar.base}/404/{i}.h5" if i in (4, 7, 11) else url for i, url in enumerate(good)]
    failing = [f"{liar.base}/403/6.h5" if i == 6 else url for i, url in enumerate(good)]
    parents = [across(n, urls) for n, urls in (("ahead", good), ("ahead-gone", gone), ("ahead-failing", failing))]
    bench.finish()
    for version in ("1.14.5", "2.0"):
        with tap.claim(f"{version}: sources that are opened ahead are asked for no more often"):
            liar.reset()
            out, errors = bench.run(version, [["open", parents[0]], ["read", "v/all"]], log="read", sidecar="off")
            assert out[1] == DATA * 12, out
            assert errors.count(" expected taken=1 ") == 11, errors[-3000:]
            for path, requests in liar.requests().items():
                gets = [r for r in requests if r["method"] == "GET" and not r["range"]] if "/ok/" in path else []
                assert len(gets) <= 1, (path, requests)
        with tap.claim(f"{version}: what is missing ahead is a line, and only once HDF5 asks for it"):
            out, errors = bench.run(version, [["open", parents[1]], ["part", "v/all", 0, 18]])
            assert out[1] == DATA * 3 and not lines(errors, "/404/"), (out, errors)
            out, errors = bench.run(version, [["open", parents[1]], ["read", "v/all"]])
            want = [x for i in range(12) for x in (FILL if i in (4, 7, 11) else DATA)]
            assert out[1] == want, out
            assert len(lines(errors, "/404/")) == 3, errors
        with tap.claim(f"{version}: what fails ahead is an error, and only once HDF5 asks for it"):
            out, errors = bench.run(version, [["open", parents[2]], ["part", "v/all", 0, 18]])
            assert out[1] == DATA * 3, (out, errors)
            out, errors = bench.run(version, [["open", parents[2]], ["read", "v/all"]])
            raised(out[1], "PermissionError", 13, "403", failing[6])


def open_for_writing(tap, bench, local):
    with tap.claim("the sources of a file that is open for writing raise that URLs are read-only; they are not filled"):
        out, errors = bench.run("2.0", [["open", local, "r+"], ["read", "v/ok"], ["read", "x/ok"], ["close"],
                                        ["open", local], ["read", "v/ok"]])
        raised(out[1], "OSError", 30, "read-only", pathlib.Path(local).name)
        raised(out[2], "KeyError", None, "read-only", pathlib.Path(local).name)
        assert out[5] == DATA, out


def accounts(tap, bench, liar, parents):
    with tap.claim("stats=on: an opening that failed has an account, and is in that of the file that the program opened"):
        url = f"{parents.base}/ok/local.h5"
        out, errors = bench.run("2.0", [["open", url], ["read", "v/stall-head"], ["read", "v/503"], ["read", "v/404"],
                                        ["close"]], stats="on")
        unopened = re.findall(r"xhdf5: (\S+): not opened, after ([\d.]+) s\n.*\n  time      network ([\d.]+) s.*\n  advice    it could not be opened\. (.*)", errors)
        assert [u[0] for u in unopened] == [f"{liar.base}/{n}/v.h5" for n in ("stall-head", "503", "404")], errors
        assert float(unopened[0][2]) >= STALL_MS / 1000 and f"no byte for {STALL_MS} ms" in unopened[0][3], unopened
        whole = errors[errors.index(f"xhdf5: {url}: open for"):]
        lost = re.search(r"2 openings failed and 1 is not there: ([\d.]+) s", whole)
        assert lost and float(lost[1]) >= STALL_MS / 1000, whole
        assert float(re.search(r"time      network ([\d.]+) s", whole)[1]) >= float(lost[1]), whole
        assert "2 openings of files that this one names" in whole and "xhdf5 doctor" in whole and "nothing to gain" not in whole, whole


def doctor(tap, bench, liar, parents):
    with tap.claim("xhdf5 doctor tries all that a file names, and says what each answers"):
        env = harness.driver_env(None, None, **HASTY) | {"BEARER_TOKEN_FILE": os.devnull,
                                                         "XDG_RUNTIME_DIR": str(bench.directory), "no_proxy": "*"}
        status, out, err = harness.run([harness.BUILD / "vfd/tool/xhdf5", "doctor", "--quick", "--json",
                                        f"{parents.base}/ok/local.h5"], env)
        steps = json.loads(out)["steps"]
        said = {s["url"]: s["text"] for s in steps if s["step"] == "source"}
        assert set(said) == {f"{liar.base}/{n}/v.h5" for n in [*FAILS, *GONE]}, out
        for name, (_, _, text) in FAILS.items():
            assert text in said[f"{liar.base}/{name}/v.h5"], said
        whole = next(s for s in steps if s["step"] == "sources")
        assert (whole["named"], whole["tried"], whole["failed"]) == (len(FAILS) + len(GONE) + 1,) * 2 + (len(FAILS) +
                                                                                                         len(GONE),), whole
        assert status == 1, (status, err)
        assert "MISSING_SOURCES" in next(s for s in steps if s.get("url", "").endswith("/404/v.h5"))["advice"], out


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
        far = bench.make(d / "far.h5", {"far": f"{base}/500~{FAR}/v.h5", "far-once": f"{base}/500@1~{FAR}/v.h5",
                                        "ok": f"{base}/ok/far.h5"}, "far/d")
        bench.finish()
        parents = Liar(local)
        stack.callback(parents.close)
        outer = {n: (str(bench.make(d / f"outer-{n}.h5", {"near": str(local), "far": f"{parents.base}/ok/local.h5"},
                                    f"x/{n}")), str(local)) for n in ("403", "503", "stall-head", "404", "ok")}
        mid = bench.make(d / "mid.h5", {"403": str(local)}, "x/403")
        chain = str(bench.make(d / "chain.h5", {"near": str(mid)}, "x/403"))
        bench.finish()
        for version in versions:
            behind_a_link(tap, bench, version, base, outer, chain)
            if version != "1.14.6" or "--all" in sys.argv:    # daily 1.14.5 stands for it
                every_fault(tap, bench, version, base, str(local), "a file here")
                every_fault(tap, bench, version, base, f"{parents.base}/ok/local.h5", "a file at a URL")
            missing_is_error(tap, bench, version, base, str(local))
            header(tap, bench, version, liar, str(far))
        part_of_the_program(tap, bench, base, local, far, outer)
        one_answer(tap, bench, liar, d)
        silent_servers(tap, bench, liar, d)
        one_source_twice(tap, bench, liar, d)
        names_that_hdf5_tries(tap, bench, parents)
        beside_each_other(tap, bench, d)
        names_without_an_end(tap, bench, liar, d)
        names_are_of_files(tap, bench, d)
        prefixes(tap, bench, d)
        many_are_missing(tap, bench, liar, d)
        opened_ahead(tap, bench, liar, d)
        open_for_writing(tap, bench, str(local))
        accounts(tap, bench, liar, parents)
        doctor(tap, bench, liar, parents)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
