#!/usr/bin/env python3
"""Random selections, in the file and in memory, read by every HDF5 of the box: through sec2, through the driver from the local
file, and from a server, from cold, out of the shadow, without one, and with the file open to be written. All must be the same.
A stride must not cost more requests than all of the dataset, and what cannot be read half way must be an exception.

usage: selections.py [--all]     with --all twice as many selections in each HDF5; else in one of them
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402

FORKY = pathlib.Path("/opt/forky")
READER = HERE / "selection_reader.py"
ROUNDS = 4

MAKE = """
import sys, h5py, numpy as np
r = np.random.default_rng(1)
def fill(f):
    f['large'] = r.random(1_500_000, dtype='f4')
    f['line'] = r.random(300_000, dtype='f4')
    f['table'] = r.integers(-9999, 9999, (700, 300), 'i2')
    f['cube'] = r.random((40, 50, 60))
    f['records'] = np.frombuffer(r.bytes(5000 * 24), [('x', 'i4'), ('y', 'i8'), ('z', 'i4', (3,))])
    f['foreign'] = r.random(60_000, dtype='f4').astype('>f4')
    f['scalars'] = np.arange(3)
    f.create_dataset('chunks', data=r.integers(-9999, 9999, (700, 300), 'i4'), chunks=(64, 61))
    f.create_dataset('gzip', data=r.integers(0, 9, (300, 300), 'i4'), chunks=(50, 50), compression='gzip')
    holes = f.create_dataset('holes', (400, 400), 'i4', chunks=(40, 40), fillvalue=7)
    holes[50:90, 50:300] = 3
with h5py.File(sys.argv[1] + '/plain.h5', 'w') as f:
    fill(f)
    v = h5py.VirtualLayout((2, 700, 300), 'i2')
    v[0] = h5py.VirtualSource('plain.h5', 'table', (700, 300))
    v[1] = h5py.VirtualSource('user.h5', 'table', (700, 300))
    f.create_virtual_dataset('virtual', v)
with h5py.File(sys.argv[1] + '/user.h5', 'w', userblock_size=1024, libver='latest') as f:
    fill(f)
with h5py.File(sys.argv[1] + '/pages.h5', 'w', fs_strategy='page', fs_page_size=4096) as f:
    fill(f)
"""


def hdf5s():
    """Name and command of each HDF5 that is there."""
    yield "Debian's 1.14.5", [sys.executable]
    for version, py in harness.H5PY.items():
        yield f"h5py {version}'s", [py]
    if (FORKY / "usr/bin/python3").exists() and os.geteuid() == 0:
        yield "the next suite's 2.2", harness.FORKY


def read(argv, env, place, seed, mode="r", rounds=ROUNDS // 2):
    status, out, err = harness.run([*argv, READER, place, seed, rounds, mode], env, timeout=240)
    assert status == 0, (out[-300:], err[-2500:])
    return out.splitlines()


def same(got, want):
    assert len(got) == len(want) and len(want) > 50, (len(got), len(want))
    for a, b in zip(got, want):
        assert a == b, (a, b)


def check(tap, name, argv, root, server, shadow, thorough):
    plain = harness.clean_env()
    remote = harness.driver_env(server, shadow)
    local = {k: v for k, v in remote.items() if not k.startswith("XHDF5_")} | {"XHDF5_BUILD": remote["XHDF5_BUILD"]}
    n = ROUNDS if thorough or "--all" in sys.argv else ROUNDS // 2
    want = {seed: read(argv, plain, root, seed, rounds=n) for seed in (1, 3)}
    with tap.claim(f"{name} HDF5: selections of local files are sec2's"):
        same(read(argv, local, root, 1, rounds=n), want[1])
    with tap.claim(f"{name} HDF5: selections from a server, from cold"):
        same(read(argv, remote, server.url, 1, rounds=n), want[1])
    with tap.claim(f"{name} HDF5: others, of which the shadow has a part"):
        same(read(argv, remote, server.url, 3, rounds=n), want[3])
    if not thorough:
        return
    with tap.claim(f"{name} HDF5: again, where it has all"):
        same(read(argv, remote, server.url, 3, rounds=n), want[3])
    with tap.claim(f"{name} HDF5: selections where the shadow keeps next to nothing"):
        few = remote | {"XHDF5_SHADOW": "off", "XHDF5_STREAM_BYTES": "0"}
        same(read(argv, few, server.url, 1, rounds=n), want[1])


def check_edited(tap, argv, root, shadow):
    """What is read of a file that is open to be written comes from the server and from what was written."""
    pathlib.Path(root).chmod(0o777)
    with harness.Server("nginx", root, words=["--writable"]) as server:
        with tap.claim("selections of files that are open to be written"):
            want = read(argv, harness.clean_env(), root, 3, "r+", rounds=2)
            env = harness.driver_env(server, shadow, writable="on", overlay_dir=shadow)
            same(read(argv, env, server.url, 3, "r+", rounds=2), want)


def check_failure(tap, argv, root, shadow):
    """A server that goes away between what the shadow has and what it has not."""
    env = harness.clean_env()
    with harness.Server("nginx", root) as server:
        env = harness.driver_env(server, shadow, retries=1, connect_timeout_ms=1000, readahead="off", stream_bytes="1G")
        p = subprocess.Popen([*map(str, argv), READER, server.url, "0", "0", "half"], env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = p.stdout.readline()
    out, err = p.communicate("\n", timeout=120)
    with tap.claim("what is missing half way is an exception with the reason, and no data"):
        assert first == "half\n" and p.returncode == 0, (first, out, err[-2000:])
        assert out.startswith("OSError") and "plain.h5" in out, out


def check_requests(tap, argv, server):
    """A stride brings no more than all of the dataset would, and not in more requests."""
    script = "import sys, h5py; d = h5py.File(sys.argv[1])['large']; d[eval(sys.argv[2])]"
    seen = {}
    for what in ("slice(None)", "slice(None, None, 10)", "slice(None, None, 3)"):
        with harness.shadow_dir() as shadow:
            # With more connections the parts of a long range follow from how fast it was found to come.
            env = harness.driver_env(server, shadow, log="stats", connections=1)
            status, out, err = harness.run([*argv, "-c", script, f"{server.url}/plain.h5", what], env)
            assert status == 0, err[-2000:]
            seen[what] = harness.counters(err)
    with tap.claim("from cold a stride takes no more requests and bytes than all of it"):
        print("#", {k: [v[c] for c in ("requests", "bytes_fetched", "reads", "extents")] for k, v in seen.items()})
        for k, v in seen.items():
            assert v["extents"] <= seen["slice(None)"]["extents"] + 2, (k, v, seen)
            assert v["requests"] and v["requests"] <= seen["slice(None)"]["requests"] + 2, (k, v, seen)
            assert v["bytes_fetched"] <= 1.1 * seen["slice(None)"]["bytes_fetched"], (k, v, seen)


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-selections-", dir="/dev/shm") as root:
        pathlib.Path(root).chmod(0o755)
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE, root], harness.clean_env())
        tap.ok(status == 0, "the samples are made", out + err)
        with harness.Server("nginx", root) as server:
            for number, (name, argv) in enumerate(hdf5s()):
                with harness.shadow_dir() as shadow:
                    check(tap, name, argv, root, server, shadow, thorough=number == 2)
            check_requests(tap, [harness.DATA_PYTHON], server)
        with harness.shadow_dir() as shadow:
            check_edited(tap, [harness.H5PY["3.16.0"]], root, shadow)
        with harness.shadow_dir() as shadow:
            check_failure(tap, [harness.DATA_PYTHON], root, shadow)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
