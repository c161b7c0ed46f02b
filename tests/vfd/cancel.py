#!/usr/bin/env python3
"""Threads that are cancelled (pthread_cancel) while they read from a server that does not answer yet.

usage: cancel.py BUILD_OF_TESTS    (the directory of test_cancel)
"""
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/support"), str(TOP / "tests/integration")]
import faults  # noqa: E402
import harness  # noqa: E402

MAKE = "import h5py, numpy, sys; h5py.File(sys.argv[1], 'w')['d'] = numpy.full(100000, 7.0)"


def main():
    program = pathlib.Path(sys.argv[1]) / "test_cancel"
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-cancel-") as d:
        file = pathlib.Path(d, "x.h5")
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE, file], harness.clean_env())
        assert status == 0, out + err
        size = file.stat().st_size
        with faults.Liar(file) as liar:
            for how in "bytes", "hdf5":
                for shadow in "on", "off":
                    with tap.claim(f"{how}, shadow {shadow}: a thread is cancelled in a read; others read on"):
                        path = f"/held~{size - 500}-{size}/{how}-{shadow}.h5"
                        env = harness.driver_env(None, f"{d}/shadow-{how}", readahead="off", whole_file_bytes=0)
                        env["XHDF5_SHADOW"] = shadow
                        with subprocess.Popen([program, how, liar.base + path], env=env, text=True,
                                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
                            assert p.stdout.readline() == "reads\n"
                            harness.wait_for(lambda: any(r["struck"] for r in liar.requests().get(path, [])), "it")
                            p.stdin.write("it waits\n")
                            p.stdin.flush()
                            assert p.stdout.readline() == "cancelled\n"
                            liar.release(path)
                            rest, _ = p.communicate("answered\n", timeout=80)
                        assert (p.returncode, rest) == (0, "done\n"), (p.returncode, rest)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
