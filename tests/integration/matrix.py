#!/usr/bin/env python3
"""One plugin binary in every HDF5: Debian's serial and MPICH builds, h5py's wheels, the next suite's 2.x.

Usage: matrix.py READ_SERIAL READ_MPICH    (perf/read_images built against either)

Each reads the same file over https from nginx and from XRootD and must get the local sums.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

FORKY = pathlib.Path("/opt/forky")


def sum_of(argv, env, cwd=None):
    status, out, err = harness.run(argv, env, timeout=120, cwd=cwd)
    if status:
        raise RuntimeError(f"exit status {status}\n{out[-500:]}\n{err[-2500:]}")
    return re.search(r"sum=(\w+)", out).group(1)


def undefined_h5_symbols(plugin):
    out = subprocess.run(["nm", "-D", "--undefined-only", plugin], capture_output=True, text=True, check=True).stdout
    return [s for s in out.split() if re.match(r"H5", s)]


def exported(plugin):
    out = subprocess.run(["nm", "-D", "--defined-only", plugin], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[-1] for line in out.splitlines())


def forky_dump(target, env, plugin):
    """h5dump of the next suite in its own root; the plugin and the CA are copied in."""
    stage = pathlib.Path(tempfile.mkdtemp(prefix="xh-", dir=FORKY / "tmp"))
    inside = f"/tmp/{stage.name}"
    try:
        stage.chmod(0o755)
        (stage / "plugins").mkdir()
        shutil.copy(plugin, stage / "plugins")
        env = dict(env)
        if "XHDF5_CA_BUNDLE" in env:
            shutil.copy(env["XHDF5_CA_BUNDLE"], stage / "ca.pem")
            env["XHDF5_CA_BUNDLE"] = f"{inside}/ca.pem"
        if "HDF5_PLUGIN_PATH" in env:
            env["HDF5_PLUGIN_PATH"] = f"{inside}/plugins"
        env["XHDF5_SHADOW"] = "off"
        if not target.startswith("http"):
            shutil.copy(target, stage / "local.h5")
            target = f"{inside}/local.h5"
        status, out, err = harness.run(["chroot", FORKY, "h5dump", target], env, timeout=120)
        if status:
            raise RuntimeError(f"exit status {status}\n{err[-2500:]}")
        return out.replace(target, "FILE")
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def main():
    serial, mpich = sys.argv[1:3]
    tap = harness.Tap()
    plugin = pathlib.Path(harness.plugin_dir()) / "libhdf5_vfd_xhdf5.so"
    bad = undefined_h5_symbols(plugin)
    tap.ok(not bad, "the plugin has no undefined H5 symbol", bad)
    names = exported(plugin)
    strangers = [n for n in names if not re.match(r"H5PLget_plugin_(type|info)$|H5(P[sg]et_fapl_|FD_?|D)xhdf5", n)]
    tap.ok("H5PLget_plugin_info" in names and not strangers, "the plugin exports its interface and nothing else",
           strangers)
    libs = subprocess.run(["ldd", plugin], capture_output=True, text=True, check=True).stdout
    tap.ok("hdf5" not in libs.replace(str(plugin), "").replace("libhdf5_vfd_xhdf5", ""), "it links no libhdf5", libs)
    with tempfile.TemporaryDirectory(prefix="xh-matrix-") as data:
        pathlib.Path(data).chmod(0o755)
        path = f"{data}/images.h5"
        status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", "images", path,
                                        "--n", "6", "--side", "256", "--chunked", "gzip"], harness.clean_env())
        tap.ok(status == 0, "the sample is made", out + err)
        readers = {"Debian's serial HDF5 1.14": [serial], "Debian's MPICH HDF5 1.14": [mpich]}
        for version, py in harness.H5PY.items():
            readers[f"h5py {version}"] = [py, harness.TOP / "perf/read_images.py"]
        plain = harness.clean_env()
        for kind in ("nginx", "xrootd"):
            with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
                env = harness.driver_env(server, shadow)
                for name, argv in readers.items():
                    with tap.claim(f"{name} reads from {kind}"):
                        want = sum_of([*argv, path, "images"], plain)
                        assert sum_of([*argv, f"{server.url}/images.h5", "images"], env) == want
                claim = f"the next suite's HDF5 reads from {kind}"
                if not (FORKY / "usr/bin/h5dump").exists():
                    tap.skip(claim, f"{FORKY} is not there")
                    continue
                with tap.claim(claim):
                    version = harness.run(["chroot", FORKY, "h5dump", "--version"], plain)[1].strip()
                    print(f"# {version}")
                    assert re.search(r"Version 2\.", version), version
                    assert forky_dump(f"{server.url}/images.h5", env, plugin) == forky_dump(path, plain, plugin)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
