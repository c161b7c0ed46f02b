#!/usr/bin/env python3
"""The examples of docs/examples that need more than the box's Python: their answers are those of the local file. Prints TAP.

usage: examples.py mpi MPIEXEC MPI_SLABS | examples.py gzip | examples.py xarray
The last one makes a venv of programs from pip, once a build directory (tests/support/venvs.py).
"""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import venvs  # noqa: E402

MAKE_IMAGES = """
import h5py, numpy as np
with h5py.File("images.h5", "w") as f:
    f.create_dataset("images", data=np.arange(50 * 64 * 64).reshape(50, 64, 64) % 1000, chunks=(1, 64, 64), compression="gzip")
"""
MAKE_PACKED = """
import h5py, numpy as np
a = np.arange(70 * 90, dtype="<i4").reshape(70, 90) * 7919 % 10007
how = {"chunks": (16, 32), "compression": "gzip"}
with h5py.File("packed.h5", "w") as f:
    f.create_dataset("gzip", data=a, **how)
    f.create_dataset("shuffled", data=a.astype(">f8"), shuffle=True, **how)
    f.create_dataset("summed", data=a, fletcher32=True, **how)
    f.create_dataset("whole", data=a)
    f.create_dataset("words", data=np.array([str(i) for i in a[0]], object), dtype=h5py.string_dtype(), chunks=(16,),
                     compression="gzip")
    part = f.create_dataset("part", (70, 90), "<i4", fillvalue=-1, shuffle=True, **how)
    part[5:40] = a[5:40]
    part.id.write_direct_chunk((48, 32), np.ascontiguousarray(a[48:64, 32:64]).tobytes(), filter_mask=3)
"""
MAKE_CLIMATE = """
import numpy as np, xarray
days = np.arange("1990-01", "1993-01", dtype="datetime64[D]")
lat, lon = np.linspace(-90, 90, 91), np.arange(0, 360, 2.0)
season = 15 * np.cos(2 * np.pi * (days.astype(int) % 365 - 200) / 365)
tas = (288 + season[:, None, None] - 0.3 * np.abs(lat)[None, :, None] + 0 * lon).astype("f4")
data = xarray.Dataset({"tas": (("time", "lat", "lon"), tas, {"units": "K"})}, {"time": days, "lat": lat, "lon": lon})
data.to_netcdf("climate.nc", engine="h5netcdf", encoding={"tas": {"zlib": True, "chunksizes": (30, 91, 180)}})
"""


def mpi(tap, data, mpiexec, program):
    status, _, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_IMAGES], harness.clean_env(), cwd=data)
    assert status == 0, err
    with harness.Server("nginx", data) as server, harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        del env["HDF5_DRIVER"]
        for ranks in "1", "3":
            with tap.claim(f"mpi_slabs, {ranks} ranks"):
                want, got = (harness.run([mpiexec, "-n", ranks, program, name, "/images"], env) for name in
                             (f"{data}/images.h5", f"{server.url}/images.h5"))
                assert got[0] == 0 and got[1].startswith(f"{ranks} ranks, sum 1.02") and got[1] == want[1], (want, got)


def gzip(tap, data):
    status, _, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_PACKED], harness.clean_env(), cwd=data)
    assert status == 0, err
    code = f"""
import sys, h5py
sys.path.insert(0, {str(harness.TOP / "docs/examples")!r})
import parallel_gzip
with h5py.File(sys.argv[1], driver="xhdf5") as there, h5py.File({data + "/packed.h5"!r}) as here:
    for name in here:
        got = parallel_gzip.read(there[name], 3)
        assert got.dtype == here[name].dtype and (got == here[name][()]).all(), name
print(len(here) if here else "all")"""
    with harness.Server("nginx", data) as server, harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow) | {"PYTHONPATH": str(harness.BUILD / "python")}
        del env["HDF5_DRIVER"]
        for python in "3.14.0", "3.16.0":
            with tap.claim(f"parallel_gzip, h5py {python}: gzip, shuffled, chunks without filters, missing ones, others"):
                got = harness.run([harness.H5PY[python], "-c", code, f"{server.url}/packed.h5"], env)
                assert got == (0, "all\n", ""), got


def xarray(tap, data):
    python, program = venvs.python(), harness.TOP / "docs/examples/climate_slice.py"
    status, _, err = harness.run([python, "-c", MAKE_CLIMATE], harness.clean_env(), cwd=data)
    assert status == 0, err
    written = pathlib.Path(data, "written")
    written.mkdir()
    written.chmod(0o777)
    for kind in "nginx", "xrootd":
        with harness.Server(kind, data, words=["--writable"]) as server, harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow) | {"PYTHONPATH": str(harness.BUILD / "python")}
            del env["HDF5_DRIVER"]
            with tap.claim(f"climate_slice, {kind}: a region, its summers, and not the whole file"):
                want, got = (harness.run([python, program, name, "tas", "35", "60", "0", "30"], env) for name in
                             (f"{data}/climate.nc", f"{server.url}/climate.nc"))
                assert got[0] == 0 and got[1] == want[1] and re.match(r"1990 28\d\.\d\d K\n1991 ", got[1]), (want, got)
                assert re.search(r"\n  advice    \w", got[2]), got[2]
            with tap.claim(f"xarray's engine, {kind}: one file, many, groups, dask's workers"):
                others = {"SERVER": server.url, "CACERT": server.cacert, "DATA": data,
                          "WRITE": f"{server.url}/written"}
                status, out, err = harness.run([python, harness.TOP / "tests/python/others.py", "xarray_engine"],
                                               env | others, timeout=280)
                assert status == 0, out + err


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-examples-") as data:
        os.chmod(data, 0o755)
        {"mpi": mpi, "gzip": gzip, "xarray": xarray}[sys.argv[1]](tap, data, *sys.argv[2:])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
