#!/usr/bin/env python3
"""What fails raises what docs/python.md says that it raises: its table of errors, at a real nginx and a real XRootD. Prints TAP.

A row of the table that is not tried here fails, and so does what is tried here and has no row.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from gate import Gate  # noqa: E402

PYTHON = harness.H5PY["3.16.0"]
# Each line of standard input: JSON of URL, mode, options and what is done with |f|. Answers with the exception's
# name, number and text.
PROGRAM = """
import json, os, sys, time
import xhdf5
for line in sys.stdin:
    url, mode, options, code = json.loads(line)
    try:
        with xhdf5.open(url, mode, **options) as f:
            exec(code)
        said = ["none", 0, ""]
    except Exception as e:
        said = [type(e).__name__, getattr(e, "errno", None), str(e)]
    print(json.dumps(said), flush=True)
"""
HASTY = {"retries": 0, "stall_timeout_ms": 400, "connect_timeout_ms": 1000, "shadow": False}
READ = "f['x'][5]"


def table():
    """{what happens: exception} of docs/python.md."""
    text = (harness.TOP / "docs/python.md").read_text().split("<!-- errors: read by tests/python/errors.py -->")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| ([^|]+?) \| `(\w+)`", text, re.M))


class Program:
    def __init__(self, env):
        self.process = subprocess.Popen([PYTHON, "-c", PROGRAM], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def __call__(self, url, mode="r", code=READ, **options):
        self.process.stdin.write(json.dumps([url, mode, options, code]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def tried(data, server, gate, run):
    """(what happens, what was raised) of each situation."""
    url, behind = f"{server.url}/x.h5", f"{gate.url}/x.h5"
    enough = threading.Event()

    def gated(rule, *args, **options):
        gate.arm(rule)
        return run(behind, *args, **{"shadow": False, "retries": 1} | options)

    def silent(n, method, path):
        enough.wait(20)

    opened = data / f"opened-{server.kind}"

    def behind_opening(n, method, path):
        if opened.exists():
            enough.wait(20)

    yield "no such file", run(f"{server.url}/none.h5")
    yield "the server may not read the file", run(f"{server.url}/closed.h5")
    yield "401 Unauthorized", gated(lambda *a: 401)
    yield "403 Forbidden", gated(lambda *a: 403)
    yield "5xx, again and again", gated(lambda *a: 500)
    yield "the connection breaks, again and again", gated(lambda *a: "cut")
    yield "the server is silent at opening", gated(silent, **HASTY)
    yield "the server falls silent in mid-read", gated(behind_opening,
                                                       code=f"f['x'][0]; open({str(opened)!r}, 'w').close(); f['x'][1 << 20:]",
                                                      readahead=False, **HASTY)
    enough.set()
    yield "nobody listens there", run(f"https://127.0.0.1:{harness.free_port()}/x.h5", **HASTY)
    yield "no such host", run("https://nowhere.invalid/x.h5", **HASTY)
    yield "the certificate is not trusted", run(url, ca_bundle="/etc/ssl/certs/ca-certificates.crt",
                                                ca_dir="/etc/ssl/certs")
    yield "no HDF5 file", run(f"{server.url}/text.h5")
    change = f"f['x'][0]; os.utime({str(data / 'changing.h5')!r}, None); [(f['x'][i << 14], time.sleep(0.02)) for i in range(1, 190)]"
    os.utime(data / "changing.h5", (1e9, 1e9))
    yield "the file changed while it was open", run(f"{server.url}/changing.h5", code=change, shadow=False,
                                                    readahead=False, revalidate_ms=1)
    yield "opened for writing, without `writable`", run(url, "r+")
    yield "mode `x`, and the file is there", run(url, "x", writable=True)


def main():
    tap = harness.Tap()
    rows = table()
    seen = set()
    with tempfile.TemporaryDirectory(prefix="xh-errors-", dir="/var/tmp") as d:
        data = pathlib.Path(d)
        data.chmod(0o777)
        make = "import h5py, numpy as np, sys; h5py.File(sys.argv[1], 'w')['x'] = np.arange(3 << 20)"
        status, _, err = harness.run([PYTHON, "-c", make, data / "x.h5"], harness.clean_env())
        assert status == 0, err
        for name in "closed.h5", "changing.h5":
            shutil.copy(data / "x.h5", data / name)
        os.chmod(data / "closed.h5", 0)
        (data / "text.h5").write_text("no HDF5 file\n" * 1000)
        for kind in "nginx", "xrootd":
            with harness.Server(kind, data, words=["--writable"]) as server, Gate(server) as gate:
                env = harness.driver_env(server) | {"PYTHONPATH": str(harness.BUILD / "python"), "no_proxy": "*",
                                                    "XHDF5_OVERLAY_DIR": f"{d}/overlay-{kind}"}
                del env["HDF5_DRIVER"]
                run = Program(env)
                for what, (name, number, text) in tried(data, server, gate, run):
                    seen.add(what)
                    tap.ok(rows.get(what) == name, f"{kind}: {what}: {rows.get(what)}", f"{name} {number} {text}")
                run.close()
    tap.ok(seen == set(rows), "every row of the table was tried", seen ^ set(rows))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
