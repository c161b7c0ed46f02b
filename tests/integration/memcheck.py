#!/usr/bin/env python3
"""Under valgrind: no byte is used before it was set, none after it was freed, none lost.

Usage: memcheck.py PROGRAM…     unit tests and race programs, origin_read and read_lines, which read over nginx, and local_writer, which
                                 writes to both servers
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import writing_native  # noqa: E402

WRITE = """
import os, sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("images", data=memoryview(os.urandom(12 << 17)).cast("H", (12, 64, 1024)))
"""
FOUND = 99


def checked(argv, env, directory, lines=None, leaks="full"):
    """Runs a command and all that it starts. Returns its status, and what was found in any of them."""
    logs = tempfile.mkdtemp(dir=directory)
    done = subprocess.run(["valgrind", "--quiet", f"--error-exitcode={FOUND}", f"--leak-check={leaks}",
                           "--trace-children=yes", "--trace-children-skip=*/localedef",  # not ours
                           "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", "--num-callers=30",
                           f"--log-file={logs}/%p", *map(str, argv)], env=env, input=lines, text=True, timeout=900,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = "".join(p.read_text(errors="replace") for p in sorted(pathlib.Path(logs).iterdir()))
    return done.returncode, found + done.stdout[-3000:] if done.returncode else found


def main():
    programs = {pathlib.Path(p).name: pathlib.Path(p).resolve() for p in sys.argv[1:]}
    reads = [programs.pop(name) for name in ("origin_read", "read_lines")]
    writer = programs.pop("local_writer")
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-memcheck-") as directory:
        os.chmod(directory, 0o755)
        data = pathlib.Path(directory, "data")
        data.mkdir()
        (data / "mid").write_bytes(random.Random(1).randbytes(1_500_000))
        subprocess.run([harness.H5PY["3.14.0"], "-c", WRITE, data / "x.h5"], env=harness.clean_env(), check=True)
        for name, program in programs.items():
            words = ["--tap=-", "--timeout", "600"] if name.startswith("test_") else []
            status, found = checked([program, *words], harness.clean_env(), directory)
            tap.ok(status == 0 and not found, f"{name}", found)
        with harness.Server("nginx", data) as server, harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow, stall_timeout_ms=120000)
            # It forks, and the child leaves the parent's engine where it is: to free that would end the parent's
            # connections.
            status, found = checked([reads[0], f"{server.url}/mid", data / "mid", 1, 2], env, directory, leaks="no")
            tap.ok(status == 0 and not found, "origin_read over nginx", found)
            for how in ("cold", "from the shadow"):
                status, found = checked([reads[1], f"{server.url}/x.h5", data / "x.h5"], env, directory,
                                        "read 0 6\nread 3 9\n")
                tap.ok(status == 0 and not found, f"read_lines over nginx, {how}", found)
        def run(argv, env):
            status, found = checked(argv, env, directory)
            return ("found", found) if status == FOUND else (status, found)
        for kind in ("nginx", "xrootd"):
            writing_native.check(tap, kind, writer, run)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
