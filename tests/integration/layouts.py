#!/usr/bin/env python3
"""Every layout, filter, link and type: the same digests over https as from the local file.

Usage: layouts.py nginx|xrootd

tests/support/mkdata.py writes a file a layout; tests/support/dump.py reads everything in it
with h5py and prints a digest an object. Local digests come from the sec2 driver.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

SUPPORT = harness.TOP / "tests" / "support"


def digests(python, target, env):
    status, out, err = harness.run([python, SUPPORT / "dump.py", target], env, timeout=300)
    if status:
        raise RuntimeError(f"dump.py {target}: exit status {status}\n{out[-500:]}\n{err[-2500:]}")
    return out.replace(str(target), "FILE")


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-layouts-") as data:
        pathlib.Path(data).chmod(0o755)
        status, out, err = harness.run(
            [harness.DATA_PYTHON, SUPPORT / "mkdata.py", "layouts", data], harness.clean_env(), timeout=300)
        tap.ok(status == 0, "the files of all layouts are made", out + err)
        files = sorted(pathlib.Path(data).rglob("*.h5"))
        tap.ok(len(files) >= 30, f"there are many of them ({len(files)})")
        with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
            for version, python in harness.H5PY.items():
                for f in files:
                    rel = f.relative_to(data).as_posix()
                    with tap.claim(f"{rel} reads the same over https from {kind}, h5py {version}"):
                        want = digests(python, f, harness.clean_env())
                        got = digests(python, f"{server.url}/{rel}", harness.driver_env(server, shadow))
                        if want != got:
                            rows = [f"- {a}\n+ {b}" for a, b in zip(want.splitlines(), got.splitlines()) if a != b]
                            raise AssertionError("\n".join(rows[:10]) or "different number of objects")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
