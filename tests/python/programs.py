#!/usr/bin/env python3
"""Programs that read HDF5, from pip, with this build's package at a real nginx: the cases of others.py. Prints TAP.

usage: programs.py H5PY    one of the box's versions. docs/programs.md has the table.
       programs.py shared  Debian's h5py, PyTables, netCDF4, HDF5's tools, ncdump and nccopy, which share one libhdf5 as
                           conda's do
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402
import venvs  # noqa: E402
import warm_python  # noqa: E402

subprocess.Popen = warm_python.ORDINARY_POPEN
OTHERS = ("pytables", "pytables_with_h5py", "xarray_h5netcdf", "xarray_engine", "xarray_many",
          "h5netcdf", "netcdf4", "jupyter",
          "filters", "pandas", "pynwb", "kerchunk", "virtualizarr", "fsspec", "variables", "datatree", "workers")
FILTERS = ("bitshuffle", "blosc", "blosc2", "lz4", "zstd", "zfp")
CHUNKS = 200            # of each file
MOST_REQUESTS = 0.2     # for a chunk. How many requests a stream takes depends on the machine's load: 0.05 to 0.1 seen
NOT_FORETOLD = 0.05     # of the file's bytes: its head and the first chunks
UNUSED = 1.05           # bytes fetched by the file's


def counted(python, name, env):
    """(requests, bytes fetched, bytes not foretold, bytes of the file), all in order, in a process of its own."""
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


def shared(tap):
    extras = harness.TOP / "containers/extras"
    if importlib.util.find_spec("tables") is None and extras.exists():
        harness.run([extras, "shared"], dict(os.environ), timeout=300)
    if importlib.util.find_spec("tables") is None:
        return tap.skip("programs that share one libhdf5", "containers/extras could not fetch them")
    harness.run(["ldconfig"], dict(os.environ))     # PyTables asks it for Blosc2
    python = "/usr/bin/python3"
    with tempfile.TemporaryDirectory(prefix="xh-programs-") as data, harness.shadow_dir() as shadow:
        os.chmod(data, 0o755)
        env = harness.clean_env() | {"DATA": data, "PYTHONPATH": str(harness.BUILD / "python"),
                                     "XHDF5_SHADOW_DIR": str(shadow)}

        def run(*argv, **more):
            return harness.run(argv, env | more)
        status, out, err = run(python, HERE / "others.py", "make")
        if not tap.ok(status == 0, "netCDF4 and PyTables write", out + err):
            return None
        with harness.Server("nginx", data) as server:
            env |= {"SERVER": server.url, "CACERT": server.cacert, "XHDF5_CA_BUNDLE": server.cacert}
            with tap.claim("h5py, PyTables and netCDF4 have one libhdf5"):
                maps = "{l.split()[-1] for l in open('/proc/self/maps') if '/libhdf5_serial.so' in l}"
                got = run(python, "-c", f"import h5py, tables, netCDF4; print(len({maps}))")
                assert got == (0, "1\n", ""), got
            status, out, err = run(python, "-m", "xhdf5")
            driven = dict(line.removeprefix("export ").split("=", 1) for line in out.splitlines())
            for case in "pytables", "pytables_with_h5py", "netcdf4":
                status, out, err = run(python, HERE / "others.py", case, **driven)
                tap.ok(status == 0, f"{case}, with the variables of python -m xhdf5", out + err)
            with tap.claim("HDF5_DRIVER alone, before Python starts, is enough for PyTables after enable()"):
                status, out, err = run(python, HERE / "others.py", "pytables", HDF5_DRIVER="xhdf5")
                assert status == 0 and not err, out + err
            opened = f"tables.open_file('{server.url}/table.h5')"
            for order in "import xhdf5; xhdf5.enable(); import tables", "import tables, xhdf5; xhdf5.enable()":
                with tap.claim(f"without, a warning says what to do: {order}"):
                    status, out, err = run(python, "-c", f"{order}; {opened}")
                    assert status == 1 and "set HDF5_DRIVER=xhdf5 in the environment before" in err, out + err
                    assert err.rstrip().splitlines()[-1].startswith("FileNotFoundError"), err
            with tap.claim("ncdump and nccopy: local files pass through the driver, URLs do not reach it"):
                local, url = f"{data}/climate.nc", f"{server.url}/climate.nc"
                status, out, err = run("ncdump", "-h", local, **driven)
                assert status == 0 and "tas(time, lat, lon)" in out, out + err
                status, out, err = run("nccopy", "-d1", local, f"{data}/copy.nc", **driven)
                assert status == 0 and not err, err
                for words in ("ncdump", "-h", url), ("nccopy", url, f"{data}/other.nc"):
                    status, out, err = run(*words, **driven)
                    assert status and "NetCDF: I/O failure" in err and "xhdf5" not in err, (words, out, err)
            h5_tools(tap, run, server, data, driven)


def h5_tools(tap, run, server, data, driven):
    """HDF5's command line tools of Debian 13: of a URL they say what they say of the file, but for its name."""
    import h5py
    there, here = server.url, data
    with h5py.File(f"{data}/tree.h5", "w") as f:
        f["g/x"] = range(1000)
        f.create_dataset("packed", data=[[i * j for j in range(100)] for i in range(100)], chunks=(10, 10),
                         compression="gzip")
        f["soft"], f["linked"] = h5py.SoftLink("/g/x"), h5py.ExternalLink("table.h5", "/array")
    with h5py.File(f"{data}/block.h5", "w", userblock_size=512) as f:     # as MATLAB's 7.3 have
        f["x"] = range(1000)
    with h5py.File(f"{data}/parts%d.h5", "w", driver="family", memb_size=4096) as f:
        f["x"] = range(4000)

    def both(*words):
        said = []
        for place in there, here:
            status, out, err = run(*(word.replace("{}", place) for word in words), **driven)
            said.append((status, out.replace(place, "{}"), err.replace(place, "{}")))
        assert said[0] == said[1] and said[0][0] == 0, (words, *said)

    with tap.claim("h5ls, h5stat and h5dump say of a URL what they say of the file"):
        for file in "tree", "block", "table":
            for words in ("h5ls", "-r"), ("h5ls", "-rv"), ("h5stat",), ("h5dump",), ("h5dump", "-B", "-H"):
                both(*words, f"{{}}/{file}.h5")
        both("h5ls", "-d", "{}/tree.h5/g/x")
        both("h5ls", "-rE", "{}/tree.h5")
    with tap.claim("h5repack and h5copy copy from a URL, h5diff compares it, in either place"):
        for file in "tree", "table":
            status, out, err = run("h5repack", "-f", "GZIP=1", f"{there}/{file}.h5", f"{data}/repacked.h5", **driven)
            assert status == 0 and not err, out + err
            for words in ([f"{there}/{file}.h5", f"{data}/repacked.h5"], [f"{here}/{file}.h5", f"{there}/{file}.h5"]):
                status, out, err = run("h5diff", *words, **driven)
                assert (status, out, err) == (0, "", ""), out + err
        status, out, err = run("h5copy", "-i", f"{there}/tree.h5", "-o", f"{data}/copied.h5", "-s", "/g", "-d", "/g",
                               **driven)
        assert status == 0, out + err
        status, out, err = run("h5diff", f"{there}/tree.h5", f"{data}/copied.h5", "/g/x", "/g/x", **driven)
        assert (status, out, err) == (0, "", ""), out + err
    with tap.claim("h5repack of a file with a user block looks for that on the disk, past HDF5; it says so if asked"):
        status, out, err = run("h5repack", "--enable-error-stack", f"{there}/block.h5", f"{data}/block2.h5", **driven)
        assert status and "HDopen failed" in err, out + err
    with tap.claim("a file in parts of HDF5's family driver is read by h5py with the variables, a % of the URL as %%"):
        read = "import h5py, sys; print(sum(h5py.File(sys.argv[1], driver='family', memb_size=4096)['x'][:]))"
        os.mkdir(f"{data}/a b")
        for part in pathlib.Path(data).glob("parts?.h5"):
            shutil.copy(part, f"{data}/a b")
        for url in f"{there}/parts%d.h5", f"{there}/a%%20b/parts%d.h5":
            got = run("/usr/bin/python3", "-c", read, url, **driven)
            assert got == (0, f"{sum(range(4000))}\n", ""), got


def main():
    tap = harness.Tap()
    if sys.argv[1] == "shared":
        shared(tap)
        return tap.done()
    python = venvs.python(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="xh-programs-") as data:
        os.chmod(data, 0o755)
        env = harness.clean_env() | {"DATA": data, "PYTHONPATH": str(harness.BUILD / "python"), "DUMPS": dumps(data),
                                     "TOOL": str(harness.BUILD / "vfd/tool/xhdf5")}
        for make in "make", "make_more":
            status, out, err = harness.run([python, HERE / "others.py", make], env)
            if not tap.ok(status == 0, f"netCDF4, PyTables, pandas and pynwb write: {make}", out + err):
                return tap.done()
        os.mkdir(f"{data}/written")
        os.chmod(f"{data}/written", 0o777)
        with harness.Server("nginx", data, words=["--writable"]) as server:
            env |= {"SERVER": server.url, "CACERT": server.cacert, "WRITE": f"{server.url}/written"}
            for case in OTHERS:
                with harness.shadow_dir() as shadow:
                    status, out, err = harness.run([python, HERE / "others.py", case],
                                                   env | {"XHDF5_SHADOW_DIR": str(shadow)}, timeout=300)
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
