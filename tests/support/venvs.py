"""Pythons with programs that use HDF5, from pip, and this build's package beside them. Made once a build directory."""
import contextlib
import fcntl
import subprocess
import sys
import tomllib

import harness

PINS = [harness.TOP / "containers" / name for name in ("wheel-tried.txt", "programs-tried.txt")]
NEWEST = "3.16.0"


def pins():
    lines = [line for file in PINS for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _install_engine(where):
    """What pip would tell other packages of this one, which is the build directory's: its entry points."""
    project = tomllib.loads((harness.TOP / "pyproject.toml").read_text())["project"]
    info = next(where.glob("lib/python3*/site-packages")) / "xhdf5-0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xhdf5\nVersion: 0\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in points.items())
        for group, points in project["entry-points"].items()))


def _made(where, what, make):
    """Makes a venv unless it is there, with |what| in it."""
    with open(harness.BUILD / f"{where.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if (where / "ready").read_text() == what:
                return
        subprocess.run([sys.executable, "-m", "venv", "--clear", where], check=True)
        make(where / "bin/pip")
        (where / "ready").write_text(what)


def python(h5py=NEWEST):
    """The interpreter of a venv with that h5py. The programs are installed once: the venv of an older h5py finds its
    own h5py first, then what lies beside the newest."""
    newest = harness.BUILD / "venv-programs"
    _made(newest, "\n".join(pins()), lambda pip: subprocess.run(
        [pip, "install", "--quiet", "--only-binary", ":all:", f"h5py=={NEWEST}", *pins()], check=True))
    _install_engine(newest)
    if h5py == NEWEST:
        return newest / "bin/python"
    where = harness.BUILD / f"venv-programs-{h5py}"

    def make(pip):
        subprocess.run([pip, "install", "--quiet", "--no-deps", "--only-binary", ":all:", f"h5py=={h5py}"], check=True)
        site = next(where.glob("lib/python3*/site-packages"))
        (site / "programs.pth").write_text(f"{next(newest.glob('lib/python3*/site-packages'))}\n")
    _made(where, h5py, make)
    return where / "bin/python"
