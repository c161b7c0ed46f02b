#!/usr/bin/env python3
"""Files of servers that send no parts: what is small is read whole, what is large is fetched to a disk. TAP.

Usage: whole_files.py

The server is tests/support/liar.py, whose log tells what it was asked.
"""
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
SAMPLE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["a"], f["b"] = np.arange(300000), np.arange(500000)
    f.create_dataset("c", data=np.arange(200000), chunks=(5000,))
"""
READ = """
import sys, h5py
for url in sys.argv[1:]:
    try:
        with h5py.File(url, "r") as f:
            print(*[int(f[n][...].sum()) for n in "abc"], int(f["c"][::3].sum()))
    except OSError as e:
        print(type(e).__name__, e)
"""
NOTICE = "sends all of a file where a part is asked for"


class Test:
    def __init__(self, file, liar, shadow, right):
        self.file, self.liar, self.shadow, self.right = file, liar, shadow, right
        self.size = file.stat().st_size
        self.n = 0

    def url(self, fault):
        self.n += 1
        return f"{self.liar.base}/{fault}/f{self.n}.h5"

    def bodies(self, url):
        """How many times the server sent all of the file."""
        asked = self.liar.requests()[url.removeprefix(self.liar.base)]
        return sum(r["method"] == "GET" and r["status"] == 200 for r in asked)

    def read(self, *urls, **options):
        private = {"XHDF5_SHADOW": options.pop("shadow", "on"), "XHDF5_CA_BUNDLE": self.liar.cacert}
        out, err = harness.run([H5PY, "-c", READ, *urls],
                               harness.driver_env(None, self.shadow, **options) | private)[1:]
        return out.splitlines(), err

    def get(self, url, to, **options):
        return harness.run([harness.BUILD / "vfd/tool/xhdf5", "get", url, "-o", to],
                           harness.driver_env(None, self.shadow, **options) |
                           {"XHDF5_CA_BUNDLE": self.liar.cacert})


def small(tap, t):
    url, other = t.url("no-range"), t.url("no-range")
    with tap.claim("a file up to the limit is read whole, by one request, with one line on standard error for all of a server's"):
        out, err = t.read(url, other, sidecar="auto")
        assert out == [t.right] * 2, out
        assert err.count(NOTICE) == 1 and "whole_file_bytes" in err, err
        assert t.bodies(url) == t.bodies(other) == 1, (t.bodies(url), t.bodies(other))
    with tap.claim("the next process finds it in the shadow: it asks whether it may, and whether it is the same"):
        out, err = t.read(url)
        assert out == [t.right] and t.bodies(url) == 1, (out, t.bodies(url))
    with tap.claim("without a shadow, without reading ahead, with one connection: right, and by one request"):
        for options in ({"shadow": "off"}, {"readahead": "off"}, {"connections": 1}):
            url = t.url("no-range")
            out, err = t.read(url, **options)
            assert out == [t.right] and t.bodies(url) == 1, (options, out, t.bodies(url))
    with tap.claim("with memory for less than the file: right, by as many requests as it takes"):
        url = t.url("no-range")
        out, err = t.read(url, shadow="off", private_budget_bytes=1 << 20)
        assert out == [t.right], out
    with tap.claim("one that takes longer than a question may be without an answer is asked for once: it comes"):
        url = t.url("no-range-slow")
        out, err = t.read(url)
        assert out == [t.right], (out, err)
        asked = t.liar.requests()[url.removeprefix(t.liar.base)]
        assert len(asked) == 1, asked
    with tap.claim("an opening whose answer trickles is asked for again, long before it is given up"):
        url = t.url("trickle@1")
        begun = time.monotonic()
        out, err = t.read(url)
        assert out == [t.right] and time.monotonic() - begun < 20, (out, err, time.monotonic() - begun)
    with tap.claim("a file that is replaced while it is open is an error, not two versions"):
        for behind in (1, 15):    # the file takes some forty requests; the opening a few of them
            url = t.url(f"no-range-changes:{behind}")
            out, err = t.read(url, shadow="off", private_budget_bytes=1 << 20)
            assert len(out) == 1 and "changed on the server" in out[0] and t.bodies(url) == behind + 1, (behind, out,
                                                                                                         t.bodies(url))
            assert behind == 1 or "open file" not in out[0], out


def large(tap, t, directory):
    limit = {"whole_file_bytes": t.size - 1}
    url = t.url("no-range")
    with tap.claim("a file beyond the limit: an error that names the limit and xhdf5 get"):
        out, err = t.read(url, **limit)
        assert re.search(f"OSError .*only files up to {t.size - 1} bytes.*whole_file_bytes.*xhdf5 get",
                         out[0]) and NOTICE not in err, (out, err)
    with tap.claim("it is asked for twice, as a cache that fills sends all of it the first time: 206 then is an ordinary file"):
        url = t.url("no-range@1")
        out, err = t.read(url, **limit)
        assert out == [t.right] and NOTICE not in err, (out, err)
        url = t.url("no-range@1")
        out, err = t.read(url, retries=0, **limit)
        assert "only files up to" in out[0], out
    for fault, way in (("no-range", "with its length"), ("chunked-200", "in chunks"),
                       ("redirect-whole", "where it is redirected to")):
        with tap.claim(f"xhdf5 get fetches it in one piece, {way}"):
            to = directory / "got.h5"
            status, out, err = t.get(t.url(fault), to, **limit)
            assert status == 0 and "one piece" in err, out + err
            assert hashlib.sha256(to.read_bytes()).digest() == hashlib.sha256(t.file.read_bytes()).digest()
            to.unlink()
            assert not list(directory.glob("got.h5*")), list(directory.glob("got.h5*"))
    with tap.claim("xhdf5 get of one that breaks off: an error, and nothing stays"):
        status, out, err = t.get(t.url("cut-200"), directory / "got.h5", **limit)
        assert status == 3 and "broke off" in err and not list(directory.glob("got.h5*")), (out, err)


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-whole-") as d, harness.shadow_dir() as shadow:
        directory = pathlib.Path(d)
        file = directory / "x.h5"
        subprocess.run([str(H5PY), "-c", SAMPLE, str(file)], check=True, env=harness.clean_env())
        right = harness.run([H5PY, "-c", READ, file], harness.clean_env())[1].strip()
        with faults.Liar(file, directory / "tls") as liar:
            t = Test(file, liar, shadow, right)
            small(tap, t)
            large(tap, t, directory)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
