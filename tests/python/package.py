#!/usr/bin/env python3
"""The Python package against a real nginx: every case of cases.py with the newest h5py, some with the others of the box.

The package is the build directory's, or the one that the interpreter has installed:
usage: package.py [--all | --installed PYTHON...]     --all: with Debian's h5py, too, all that depends on the h5py
"""
import os
import pathlib
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402
import warm_python  # noqa: E402

warm_python.use_unmapped()    # no libhdf5 is loaded before h5py or xhdf5 is

CASES = ("imported_first", "imported_last", "options", "configured", "errors", "prefetch", "expecting", "warming",
         "picked_chunks", "announced_picks", "picked_of_written", "bytes_file", "stats", "commit", "discard", "enabled",
         "enabled_local", "enabled_low", "threads",
         "piped", "forked_amid", "loader_fork_open", "loader_fork_lazy", "pool_spawn", "without_h5py", "unfit_hdf5",
         "wrong_path", "another_copy", "plugin_paths", "enabled_late", "other_options")
TOKENS = ("errors",)      # what needs a server that takes tokens: errors.py has the others
INSTALLED = ("command",)  # what a build directory has not
COMPILES = ("unfit_hdf5",)  # what takes a compiler
# what depends on the h5py
BRIEF = ("imported_first", "options", "configured", "prefetch", "announced_picks", "picked_of_written", "expecting",
         "warming", "bytes_file", "commit", "discard", "loader_fork_open", "wrong_path", "another_copy", "plugin_paths",
         "enabled_local", "enabled_low")
# what depends on the server
SERVED = ("imported_first", "prefetch", "announced_picks", "picked_of_written", "expecting", "warming", "bytes_file",
          "commit", "discard", "loader_fork_open")
# what depends on how an h5py is linked: daily Debian's has no more
LINKED = ("imported_first", "wrong_path", "another_copy", "plugin_paths", "enabled_local", "enabled_low")
# HDF5 2.2, and an h5f that is not linked with it
FORKY = ("imported_first", "enabled_local", "enabled_low", "stats", "wrong_path")


def words_of(python):
    return harness.FORKY if python == "HDF5 2.2" else [python]


def run_case(python, case, env, timeout=100):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shadow:
        os.chmod(shadow, 0o700)
        status, out, err = harness.run([*python, HERE / "cases.py", case], {**env, "XHDF5_SHADOW_DIR": shadow},
                                       timeout=timeout)
    return case, status == 0 and not err, out + err


def without_system_cas(python, server, env, work):
    """The package beside certifi, whose only certificate is the server's, on a machine that has none itself."""
    shutil.copytree(harness.BUILD / "python/xhdf5", f"{work}/site/xhdf5")  # the plugin too: it looks around itself
    os.mkdir(f"{work}/site/certifi")
    shutil.copy(server.cacert, f"{work}/site/certifi/cacert.pem")
    read = "import os, xhdf5; print(xhdf5.open(os.environ['URL'])['images'].shape)"
    return harness.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /etc/ssl && exec "$0" -c "$1"', python,
                        read],
                       {**env, "PYTHONPATH": f"{work}/site", "XHDF5_SHADOW": "off"})


def main():
    tap = harness.Tap()
    installed = sys.argv[1] == "--installed" if len(sys.argv) > 1 else False
    def cases_of(python):
        if installed:
            return tuple(c for c in CASES + INSTALLED if c not in COMPILES)
        if python == "/usr/bin/python3" and "--all" not in sys.argv:
            return LINKED
        return CASES if python == pythons[0] else BRIEF

    def run_cases(python, cases, env, server):
        with ThreadPoolExecutor(2) as pool:
            for case, good, said in pool.map(lambda c: run_case(words_of(python), c, env), cases):
                tap.ok(good, f"{case}, {pathlib.Path(python).name if installed else python}, {server.kind}", said)
    pythons = sys.argv[2:] if installed else [harness.H5PY["3.16.0"], harness.H5PY["3.14.0"], "/usr/bin/python3"]
    with tempfile.TemporaryDirectory(prefix="xh-python-") as data:
        os.chmod(data, 0o755)
        harness.run([pythons[0], harness.TOP / "tests/support/mkdata.py", "images", f"{data}/images.h5",
                     "--n", "12", "--side", "512"], harness.clean_env())
        os.mkdir(f"{data}/private")
        shutil.copy(f"{data}/images.h5", f"{data}/private")
        os.mkdir(f"{data}/written")
        os.chmod(f"{data}/written", 0o777)
        with harness.Server("nginx", data, words=["--token", "secret", "--writable"]) as server:
            env = harness.clean_env() | {"URL": f"{server.url}/images.h5", "CACERT": server.cacert, "DATA": data,
                                         "WRITE": f"{server.url}/written"}
            if not installed:
                env |= {"PYTHONPATH": str(harness.BUILD / "python"), "WARM_PYTHON": str(harness.TOP / "tests/support")}
            for python in pythons:
                run_cases(python, cases_of(python), env, server)
            if not installed and os.path.exists("/opt/forky/usr/bin/python3") and os.geteuid() == 0:
                run_cases("HDF5 2.2", FORKY, env, server)
            if not installed:
                status, out, err = without_system_cas(pythons[0], server, env, data)
                tap.ok(out.startswith("(12,") and not err, "certifi's certificates are used where the system has none",
                       out + err)
        with harness.Server("xrootd", data, words=["--writable"]) as server:
            env |= {"URL": f"{server.url}/images.h5", "CACERT": server.cacert, "WRITE": f"{server.url}/written"}
            if installed:
                for python in pythons:
                    if python.endswith("bookworm-3.16.0"):
                        run_cases(python, [c for c in cases_of(python) if c not in TOKENS], env, server)
            else:
                run_cases(pythons[0], SERVED, env, server)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
