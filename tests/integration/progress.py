#!/usr/bin/env python3
"""Progress on standard error: what is sent when a file is closed, and the tool's commands; on a terminal, in a file,
and where it is switched off. TAP.

Usage: progress.py
"""
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from gate import Gate  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
SIZE = 40_000_000
WRITE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["x"] = np.zeros(5_000_000)
print("done")
"""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
LINE = re.compile(r"^sending w\.h5: [\d.]+ .?i?B of 38\.\d MiB, [\d.]+ .?i?B/s$", re.M)


def run(argv, env, terminal=False):
    """(standard output, standard error): the latter a file, or a terminal."""
    if not terminal:
        status, out, err = harness.run(argv, env)
        assert status == 0, err
        return out, err
    leader, follower = pty.openpty()
    said = []

    def hear():
        try:
            while data := os.read(leader, 1 << 16):
                said.append(data)
        except OSError:    # nobody has the other end any more
            pass
    with subprocess.Popen([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=follower, text=True) as p:
        os.close(follower)
        listener = threading.Thread(target=hear)
        listener.start()
        out, _ = p.communicate(timeout=100)
        listener.join()
    os.close(leader)
    assert p.returncode == 0, said
    return out, b"".join(said).decode()


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-progress-") as d, harness.shadow_dir() as shadow:
        os.chmod(d, 0o777)
        with harness.Server("nginx", d, words=["--writable"]) as server, Gate(server) as gate:
            def write(terminal=False, **options):
                env = harness.driver_env(server, shadow, writable="on", overlay_dir=f"{d}/overlay", **options)
                return run([harness.H5PY["3.16.0"], "-c", WRITE, f"{gate.url}/w.h5"], env, terminal)
            with tap.claim("what is sent is shown in a file where it is wanted: by lines, without control characters"):
                out, err = write(progress="1")
                lines = LINE.findall(err)
                assert out == "done\n" and 2 <= len(lines) <= 11 and not CONTROL.search(err), (out, err)
                assert err.count("38.1 MiB of 38.1 MiB") == 1, err
            with tap.claim("else nothing is shown there"):
                assert write() == ("done\n", "") and write(progress="off") == ("done\n", "")

            def slow(n, method, path):    # a bar is drawn once an upload has taken a second
                if method == "PUT" and "owner" not in path:
                    time.sleep(1.5)
            gate.arm(slow)
            with tap.claim("on a terminal it is a bar, and nothing of it is on standard output"):
                out, err = write(terminal=True)
                assert out == "done\n" and re.search(r"\rsending w\.h5 \[#+\.*\] [\d.]+ MiB of 38\.\d MiB, ", err), err
                assert err.endswith("\r\n"), err
            with tap.claim("but where it is switched off"):
                assert write(terminal=True, progress="0") == ("done\n", "")
            gate.arm(lambda *_: None)
            with tap.claim("an upload that is over soon draws nothing on a terminal"):
                out, err = write(terminal=True)
                assert out == "done\n" and (err == "" or "[####" in err), (out, err)    # a loaded machine takes long
            harness.age(d)
            env = harness.driver_env(server, shadow)
            url = f"{server.url}/w.h5"
            with tap.claim("get, warm and warm of many: a bar on a terminal, lines in a file, nothing where it is off"):
                for words in (["get", url, "--force", "-o", f"{d}/got.h5"], ["cache", "warm", url],
                              ["cache", "warm", url, f"{url}?again"]):
                    err = run([TOOL, *words], env, terminal=True)[1]
                    assert "\r" in err and "\033[K" in err, (words, err)
                    out, err = run([TOOL, *words], env)
                    assert err and not CONTROL.search(out + err), (words, err)
                    for terminal in (False, True):
                        out, err = run([TOOL, *words], env | {"XHDF5_PROGRESS": "off"}, terminal)
                        assert not err, (words, err)
            with tap.claim("--json: only on a terminal, or where it is wanted"):
                words = [TOOL, "cache", "warm", "--json", url]
                assert run(words, env)[1] == ""
                assert "metadata" in run(words, env | {"XHDF5_PROGRESS": "on"})[1]
            with tap.claim("what the option does not know is said"):
                status, out, err = harness.run([TOOL, "cache", "ls"], env | {"XHDF5_PROGRESS": "yes"})
                assert status == 2 and "want auto, on, off, 1 or 0" in err, err
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
