#!/usr/bin/env python3
"""Programs that read HDF5, from pip, with this build's package at a real nginx: the cases of others.py. Prints TAP.

usage: programs.py H5PY    one of the box's versions. docs/programs.md has the table.
"""
import os
import subprocess
import sys
import tempfile
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402
import venvs  # noqa: E402
import warm_python  # noqa: E402

subprocess.Popen = warm_python.ORDINARY_POPEN
OTHERS = ("pytables", "pytables_with_h5py", "xarray_h5netcdf", "xarray_engine", "h5netcdf", "netcdf4", "jupyter", "filters",
          "pandas", "pynwb", "kerchunk", "virtualizarr", "datatree", "workers")
FILTERS = ("bitshuffle", "blosc", "blosc2", "lz4", "zstd", "zfp")
CHUNKS = 200            # of each file
MOST_REQUESTS = 0.2     # for a chunk. How many requests a stream takes depends on the machine's load: 0.05 to 0.1 seen
NOT_FORETOLD = 0.05     # of the file's bytes: its head and the first chunks
UNUSED = 1.05           # bytes fetched by the file's


def counted(python, name, env):
    """(requests, bytes fetched, bytes not foretold, bytes of the file), all in order, in a process and a shadow of its own."""
    with harness.shadow_dir() as shadow:
        status, out, err = harness.run([python, HERE / "others.py", "count_filter", name],
                                       env | {"XHDF5_SHADOW_DIR": str(shadow)})
    assert status == 0, out + err
    return tuple(map(int, out.split()))


def dumps(directory):
    """h5dump of HDF5 1.14 and, where the second root can be entered, 2.2."""
    if os.geteuid() != 0:
        return "h5dump"
    forky = pathlib.Path(directory, "h5dump-2.2")
    forky.write_text('#!/bin/sh\nexec chroot /opt/forky h5dump "$@"\n')
    forky.chmod(0o755)
    return f"h5dump:{forky}"


def main():
    tap = harness.Tap()
    python = venvs.python(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="xh-programs-") as data:
        os.chmod(data, 0o755)
        env = harness.clean_env() | {"DATA": data, "PYTHONPATH": str(harness.BUILD / "python"), "DUMPS": dumps(data),
                                     "TOOL": str(harness.BUILD / "vfd/tool/xhdf5")}
        for make in "make", "make_more":
            status, out, err = harness.run([python, HERE / "others.py", make], env)
            if not tap.ok(status == 0, f"netCDF4, PyTables, pandas and pynwb write: {make}", out + err):
                return tap.done()
        with harness.Server("nginx", data) as server:
            env |= {"SERVER": server.url, "CACERT": server.cacert}
            for case in OTHERS:
                with harness.shadow_dir() as shadow:
                    status, out, err = harness.run([python, HERE / "others.py", case],
                                                   env | {"XHDF5_SHADOW_DIR": str(shadow)})
                tap.ok(status == 0, f"{case}, h5py {sys.argv[1]}", out + err)
            for name in ("gzip", *FILTERS):
                with tap.claim(f"prefetch, h5py {sys.argv[1]}: chunks of {name} are foretold, and come many a request"):
                    requests, fetched, waited_for, size = counted(python, name, env)
                    print(f"# {name}: {requests} requests, {fetched} bytes of {size}, {waited_for} not foretold")
                    assert requests <= CHUNKS * MOST_REQUESTS
                    assert fetched <= size * UNUSED and waited_for <= size * NOT_FORETOLD
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
