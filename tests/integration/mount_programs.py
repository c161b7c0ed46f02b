#!/usr/bin/env python3
"""Programs that can have no driver read files at URLs over xhdf5 mount: netCDF4's wheel, which has an HDF5 of its own
inside, and h5dump of HDF5 1.10, which loads no drivers. TAP.

A venv from pip, once a build directory; Debian 12's h5dump by containers/extras.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import harness  # noqa: E402
import mount  # noqa: E402

H5DUMP = pathlib.Path("/usr/lib/hdf5-1.10/h5dump")
MAKE = """
import sys, netCDF4, numpy as np
rng = np.random.default_rng(5)
with netCDF4.Dataset(sys.argv[1], "w") as f:
    f.createDimension("time", None)
    f.createDimension("x", 50000)
    v = f.createVariable("tas", "f4", ("time", "x"), zlib=True, chunksizes=(1, 50000))
    v.units = "K"
    for i in range(100):
        v[i] = np.round(rng.normal(280, 10, 50000), 1)
    f.createGroup("more").title = "a group"
"""
READ = """
import sys, netCDF4
with netCDF4.Dataset(sys.argv[1]) as f:
    v = f["tas"]
    print(v.shape, v.units, f["more"].title, float(v[:].sum(dtype="f8")), v[50, :5].tolist())
"""
URL = """
import sys, netCDF4
try:
    netCDF4.Dataset(sys.argv[1])
except OSError as e:
    print(e)
"""


def python():
    """A Python with netCDF4's wheel, made when it is not there."""
    where = harness.BUILD / "venv-netcdf4"
    if not (where / "ready").exists():
        pins = [w for w in (harness.TOP / "containers/wheel-tried.txt").read_text().split() if w.startswith("netCDF4==")]
        subprocess.run([sys.executable, "-m", "venv", "--clear", where], check=True)
        subprocess.run([where / "bin/pip", "install", "--quiet", "--only-binary", ":all:", *pins], check=True)
        (where / "ready").touch()
    return where / "bin/python"


def main():
    tap = harness.Tap()
    if not mount.may_mount():
        print("1..0 # SKIP no right to mount, or no /dev/fuse")
        return 0
    with tempfile.TemporaryDirectory(prefix="xh-programs-") as place, harness.shadow_dir() as shadow:
        data = pathlib.Path(place)
        data.chmod(0o755)
        status, _, err = harness.run([python(), "-c", MAKE, data / "climate.nc"], harness.clean_env())
        assert status == 0, err
        with harness.Server("nginx", data) as server, \
                mount.Mount(harness.driver_env(server, shadow), f"{server.url}/") as m:
            with tap.claim("netCDF4's wheel reads a file at a URL by its path, which by its URL it does not"):
                assert mount.output(python(), "-c", READ, m / "climate.nc") == \
                    mount.output(python(), "-c", READ, data / "climate.nc")
                assert mount.output(python(), "-c", URL, f"{server.url}/climate.nc").strip()
            harness.run([harness.TOP / "containers/extras", "hdf5-1.10"], dict(os.environ))
            claim = "h5dump 1.10 prints what it prints of the local file"
            if not H5DUMP.exists():
                tap.skip(claim, "containers/extras could not fetch it")
                return tap.done()
            with tap.claim(claim):
                old = ["env", f"LD_LIBRARY_PATH={H5DUMP.parent}", H5DUMP]
                assert "Version 1.10." in mount.output(*old, "--version")
                there, here = (mount.output(*old, "-d", "/tas", at / "climate.nc") for at in (m, data))
                assert len(here) > 10000 and there.split("\n", 1)[1] == here.split("\n", 1)[1]
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
