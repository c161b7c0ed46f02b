#!/usr/bin/env python3
"""A C program makes and changes files at URLs, is refused, and `xhdf5 recover` sends what it kept. Without Python in the process, so
that sanitizers (the build's) and valgrind (memcheck.py) see all of it.

Usage: writing_native.py nginx|xrootd LOCAL_WRITER
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"


def check(tap, kind, writer, run):
    """|run|(argv, env) returns (status, all that was said and found)."""
    with tempfile.TemporaryDirectory(prefix="xh-native-") as directory, harness.shadow_dir() as shadow:
        root, work = pathlib.Path(directory, "root"), pathlib.Path(directory)
        work.chmod(0o755)
        root.mkdir()
        root.chmod(0o777)
        with harness.Server(kind, root, words=["--writable", "--no-count"]) as server:
            env = harness.driver_env(server, shadow, writable="on", overlay_dir=work / "kept", stall_timeout_ms=120000,
                                     log="all")

            def good(*argv, status=0):
                got, said = run(argv, env)
                assert got == status, (argv, got, said[-3000:])
                return said

            def holds(path):
                return harness.run([writer, "check", path], harness.clean_env())[1].strip()
            with tap.claim(f"{kind}: a file is made"):
                good(writer, "make", f"{server.url}/a.h5")
                assert holds(root / "a.h5") == "opens 32 0 0", holds(root / "a.h5")
            for how in ([], ["latest"]):
                with tap.claim(f"{kind}: a file is changed {' '.join(how)}"):
                    good(writer, "make", f"{server.url}/b.h5", *how)
                    good(writer, "change", f"{server.url}/b.h5", *how)
                    assert holds(root / "b.h5") == "opens 32 20 20", holds(root / "b.h5")
            with tap.claim(f"{kind}: refused, it is kept, exported, and sent later"):
                root.chmod(0o555)
                said = good(writer, "change", f"{server.url}/a.h5", status=1)
                root.chmod(0o777)
                assert "recover" in said and holds(root / "a.h5") == "opens 32 0 0", said[-2000:]
                [one] = [p.name for p in (work / "kept").iterdir()]
                good(TOOL, "recover", "list")
                good(TOOL, "recover", "export", one, work / "out.h5")
                assert holds(work / "out.h5") == "opens 32 20 20", holds(work / "out.h5")
                good(TOOL, "recover", "retry", "--all")
                assert holds(root / "a.h5") == "opens 32 20 20" and not list((work / "kept").iterdir())
            with tap.claim(f"{kind}: where HDF5 does not close the file, a line at the program's end says so"):
                good(writer, "make", f"{server.url}/b.h5")
                said = good(writer, "forget", f"{server.url}/b.h5")
                [one] = [p.name for p in (work / "kept").iterdir()]
                assert holds(root / "b.h5") == "opens 32 0 0" and '"xhdf5 recover list"' in said, said[-2000:]
                assert f"XHDF5_OVERLAY_DIR={work}/kept" in said, said[-2000:]
                good(TOOL, "recover", "export", one, work / "left.h5")
                assert holds(work / "left.h5") == "opens 32 0 20", holds(work / "left.h5")
                good(TOOL, "recover", "drop", one)
            with tap.claim(f"{kind}: nothing is left beside the files"):
                assert sorted(p.name for p in root.iterdir()) == ["a.h5", "b.h5"], list(root.iterdir())


def main():
    def run(argv, env):
        status, out, err = harness.run(argv, env, timeout=200)
        found = [line for line in err.splitlines() if "runtime error" in line or "Sanitizer" in line]
        return ("found", err) if found else (status, out + err)
    tap = harness.Tap()
    check(tap, sys.argv[1], sys.argv[2], run)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
