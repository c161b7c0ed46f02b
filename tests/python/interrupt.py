#!/usr/bin/env python3
"""Ctrl-C while the driver waits: a real SIGINT to a real process, whose server holds its answers
(tests/support/liar.py, "held"). TAP.

usage: interrupt.py
"""
import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "integration")]
import faults  # noqa: E402
import harness  # noqa: E402
import warm_python  # noqa: E402
from gate import Gate  # noqa: E402

subprocess.Popen = warm_python.ORDINARY_POPEN    # a process group, and signals, of its own
WAIT_S = 60    # for what comes soon, on a loaded machine; the driver would wait for longer
SILENCE = {"XHDF5_STALL_TIMEOUT_MS": "300000", "XHDF5_CONNECT_TIMEOUT_MS": "300000"}
MAKE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["x"] = np.arange(3_000_000)
"""
SUM = sum(range(3_000_000))
BEGIN = """
import sys, threading
import h5py, xhdf5
def tell(*words):
    print(*words, flush=True)
"""
# Without the package: the driver comes by the environment.
PLAIN = BEGIN.replace(", xhdf5", "") + """
f = h5py.File(sys.argv[1])
try:
    tell("waits")
    f["x"][:]
except BaseException as e:
    tell(type(e).__name__)
try:
    tell(f["x"][:].sum())
except KeyboardInterrupt:
    tell("late", f["x"][:].sum())
"""
# What each program does. It tells "waits" before it comes to wait, "KeyboardInterrupt" when that was raised, and then
# the sum of what it reads. What is fetched ahead may be held before that: the signal may come while it tells.
READS = BEGIN + """
f = xhdf5.open(sys.argv[1])
try:
    tell("waits")
    f["x"][:]
except BaseException as e:
    tell(type(e).__name__)
tell(f["x"][:].sum())
f.close()
"""
READS_ON = BEGIN + """
import signal
came = []
signal.signal(signal.SIGINT, lambda *args: came.append(1))
f = xhdf5.open(sys.argv[1])
tell("waits")
try:
    total = f["x"][:].sum()
    tell("KeyboardInterrupt" if came else "no handler")
except BaseException as e:
    tell(type(e).__name__, e)
tell(total)
"""
OPENING = """
try:
    tell("waits")
    xhdf5.open(sys.argv[1])
except BaseException as e:
    tell(type(e).__name__)
with xhdf5.open(sys.argv[1]) as f:
    tell(f["x"][:].sum())
"""
OPENS = BEGIN + OPENING
EXPECTS = BEGIN + "xhdf5.expect([sys.argv[1]])\n" + OPENING
BYTES = BEGIN + """
import numpy
f = xhdf5.file(sys.argv[1])
at = f.size - 24_000_000
try:
    tell("waits")
    f.read_at(at, 24_000_000)
except BaseException as e:
    tell(type(e).__name__)
assert f._readers == 0
tell(numpy.frombuffer(f.read_at(at, 24_000_000), "i8").sum())
f.close()
"""
# A thread reads; the main thread gets the signal, and the read goes on.
THREAD = BEGIN + """
f = xhdf5.open(sys.argv[1])
got = []
t = threading.Thread(target=lambda: got.append(f["x"][:].sum()))
tell("waits")
t.start()
try:
    t.join()
except BaseException as e:
    tell(type(e).__name__)
t.join()
tell(*got)
"""
# Another thread reads the same while the main thread's read is interrupted.
TWO = BEGIN + """
f, g = xhdf5.file(sys.argv[1]), []
at = f.size - 24_000_000
import numpy
def other():
    g.append(numpy.frombuffer(f.read_at(at, 24_000_000), "i8").sum())
t = threading.Thread(target=other)
t.start()
try:
    tell("waits")
    f.read_at(at, 24_000_000)
except BaseException as e:
    tell(type(e).__name__)
t.join()
tell(*g)
"""
# A thread has the interpreter's lock and waits for HDF5's, which the read has: the look for a signal must not wait for the
# first. The read ends when the server answers. Only Debian's HDF5 has such a lock.
LOCKED = BEGIN + """
import ctypes, time
hdf5 = ctypes.PyDLL(xhdf5._h5py.library.path())
f = xhdf5.open(sys.argv[1])
def other():
    time.sleep(1)    # the read has begun; before, nobody would wait
    hdf5.H5open()
t = threading.Thread(target=other)
t.start()
try:
    tell("waits")
    f["x"][:]
except BaseException as e:
    tell(type(e).__name__)
t.join()
tell(f["x"][:].sum())
"""
# Closing sends what was written: that is given up, and kept.
CLOSES = BEGIN + """
f = xhdf5.open(sys.argv[1], "w", writable=True)
f["x"] = range(1_000_000)
tell("waits")
try:
    f.close()
except BaseException as e:
    tell(type(e).__name__)
tell("goes on")
"""


class Bench:
    def __init__(self, liar, shadow):
        self.liar, self.shadow, self.n = liar, shadow, 0

    def interrupted(self, python, program, fault, ends=True, after_s=0, **env):
        """What |program| tells, from the moment when the server holds a request of it. Only then the server answers;
        without |ends| at once. The signal is sent |after_s| later, and what is held is held for as long after it."""
        self.n += 1
        path = f"/{fault}/{self.n}.h5"
        env = harness.driver_env(None, self.shadow, **env) | SILENCE | {"PYTHONPATH": str(harness.BUILD / "python")}
        if "xhdf5" in program:
            del env["HDF5_DRIVER"]
        with subprocess.Popen([str(python), "-c", program, self.liar.base + path], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout.readline() == "waits\n"
                harness.wait_for(lambda: any(r["struck"] for r in self.liar.requests().get(path, [])), "the wait",
                                 WAIT_S)
                time.sleep(after_s)
                child.send_signal(signal.SIGINT)
                time.sleep(after_s)
                told = [self._line(child, path, releases) for releases in (not ends, True)]
                self._end(child, path)
                return told, child.stderr.read()
            finally:
                child.kill()

    def _line(self, child, path, releases):
        found = []
        reader = threading.Thread(target=lambda: found.append(child.stdout.readline().strip()))
        reader.start()
        for _ in range(WAIT_S * 5):
            reader.join(0.2)
            if not reader.is_alive():
                return found[0]
            if releases:
                self.liar.release(path)
        child.kill()
        reader.join()
        return "nothing"

    def _end(self, child, path):
        for _ in range(WAIT_S * 5):
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(0.2)
            self.liar.release(path)
        raise AssertionError("it does not end")


def uploads(tap, python, data, shadow):
    """A server that takes the body of no PUT."""
    with harness.Server("nginx", data, words=["--writable"]) as server, Gate(server) as gate:
        asked, ends = threading.Event(), threading.Event()

        def rule(n, method, path):
            if method == "PUT":
                asked.set()
                ends.wait(WAIT_S)
                return "cut"
        gate.arm(rule)
        env = harness.driver_env(server, shadow, overlay_dir=f"{data}/overlay") | SILENCE
        env |= {"PYTHONPATH": str(harness.BUILD / "python")}
        del env["HDF5_DRIVER"]
        with subprocess.Popen([str(python), "-c", CLOSES, f"{gate.url}/written/w.h5"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout.readline() == "waits\n" and asked.wait(WAIT_S)
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=WAIT_S)
            finally:
                child.kill()
                ends.set()
        with tap.claim("Ctrl-C while closing sends: KeyboardInterrupt, and nothing is lost"):
            assert out.split("\n")[:2] == ["KeyboardInterrupt", "goes on"] and "xhdf5 recover" in err, (out, err)
            gate.arm(lambda *_: None)
            tool = harness.BUILD / "vfd/tool/xhdf5"
            status, out, err = harness.run([tool, "recover", "retry", "--all"], env)
            assert status == 0, out + err
            read = "import sys, h5py; print(h5py.File(sys.argv[1])['x'][:].sum())"
            assert harness.run([python, "-c", read, f"{data}/written/w.h5"],
                               harness.clean_env())[1].strip() == str(sum(range(1_000_000)))


def main():
    tap = harness.Tap()
    pythons = [harness.H5PY["3.16.0"], harness.H5PY["3.14.0"], "/usr/bin/python3"]
    with tempfile.TemporaryDirectory(prefix="xh-int-") as d, harness.shadow_dir() as shadow:
        file = pathlib.Path(d) / "x.h5"
        status, out, err = harness.run([pythons[0], "-c", MAKE, file], harness.clean_env())
        assert status == 0, err
        with faults.Liar(file) as liar:
            b = Bench(liar, shadow)
            for python in pythons:
                for what, program, fault, env in (
                        ("while a read waits", READS, "held@2-", {}),
                        ("while a read waits, without readahead", READS, "held@2-", {"readahead": "off"}),
                        ("while a file is opened", OPENS, "held@1-", {}),
                        ("while an expected file is opened", EXPECTS, "held@1-", {}),
                        ("by the environment alone", PLAIN, "held@2-", {}),
                        ("in xhdf5.file", BYTES, "held@2-", {})):
                    with tap.claim(f"{python}: Ctrl-C {what} raises KeyboardInterrupt, and the same is read again"):
                        told, err = b.interrupted(python, program, fault, **env)
                        assert told == ["KeyboardInterrupt", str(SUM)] and not err, (told, err)
            with tap.claim("where the program has a handler of its own, that runs, behind the read"):
                told, err = b.interrupted(pythons[0], READS_ON, "held@2-", ends=False)
                assert told == ["KeyboardInterrupt", str(SUM)] and not err, (told, err)
            with tap.claim("nothing hangs where another thread has the interpreter's lock and waits for HDF5's"):
                told, err = b.interrupted(pythons[2], LOCKED, "held@2-", ends=False, after_s=2)
                assert told == ["KeyboardInterrupt", str(SUM)] and not err, (told, err)
            with tap.claim("a read in another thread goes on"):
                told, err = b.interrupted(pythons[0], THREAD, "held@2-")
                assert told == ["KeyboardInterrupt", str(SUM)] and not err, (told, err)
            with tap.claim("a read of the same bytes in another thread goes on when the main one's is interrupted"):
                told, err = b.interrupted(pythons[0], TWO, "held@2-")
                assert told == ["KeyboardInterrupt", str(SUM)] and not err, (told, err)
            pathlib.Path(d, "written").mkdir()
            for p in (d, f"{d}/written"):
                pathlib.Path(p).chmod(0o777)
            uploads(tap, pythons[0], d, shadow)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
