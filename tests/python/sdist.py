#!/usr/bin/env python3
"""`python -m build --sdist` in an unpacked archive, which has no .git, and pip install of what it makes. Prints TAP.

pip brings build and meson-python; the libraries are the box's. The package is tried with h5py 3.16 at a real nginx, and
pip uninstall leaves nothing of it.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402


def unpacked(where):
    """The project's files as `git archive` has them, with what is changed and not committed yet; and what builds, and
    who builds, leave there. Returns the names of the first."""
    listed = subprocess.run(["git", "-C", harness.TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, listed.split(b"\0")):
        to = os.path.join(os.fsencode(where), name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if os.path.exists(os.path.join(os.fsencode(harness.TOP), name)):
            shutil.copy2(os.path.join(os.fsencode(harness.TOP), name), to)
    project = {str(p.relative_to(where)) for p in where.rglob("*") if not p.is_dir()}
    (where / "build/left").mkdir(parents=True)
    (where / "build/left/object.o").touch()
    (where / "docs/.aws").mkdir()
    for own in ".env", "tests/.netrc", "docs/.aws/credentials":
        (where / own).write_text("SECRET\n")
    return project


def files_of(venv):
    """All files there but what Python compiled, and pip's own record of them."""
    return {str(p.relative_to(venv)) for p in venv.rglob("*") if not p.is_dir() and "__pycache__" not in p.parts}


def main():
    tap = harness.Tap()
    env = harness.clean_env()
    with tempfile.TemporaryDirectory(prefix="xh-sdist-", dir="/var/tmp") as work:
        work = pathlib.Path(work)
        os.chmod(work, 0o755)
        tree, venv = work / "xhdf5", work / "venv"
        tree.mkdir()
        project = unpacked(tree)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "--quiet", "build", "h5py==3.16.0"], check=True, env=env)
        with tap.claim("python -m build --sdist makes a source package of an unpacked archive"):
            status, out, err = harness.run([venv / "bin/python", "-m", "build", "--sdist"], env, cwd=tree, timeout=200)
            assert status == 0, out + err
            made = list((tree / "dist").glob("*.tar.gz"))
            assert len(made) == 1, made
            with tarfile.open(made[0]) as tar:
                names = {n.split("/", 1)[1] for n in tar.getnames()}
                top = {n.split("/", 1)[0] for n in tar.getnames()}
                assert {(e.uid, e.uname) for e in tar} == {(0, "")}
            assert top == {made[0].name.removesuffix(".tar.gz")}, top
            assert names == project | {"PKG-INFO"}, names ^ project
        before = files_of(venv)
        with tap.claim("pip install of it builds with this machine's libcurl and OpenSSL, and the package reads"):
            status, out, err = harness.run([venv / "bin/pip", "install", made[0]], env, timeout=400)
            assert status == 0, out + err
            (work / "data").mkdir()
            os.chmod(work / "data", 0o755)
            subprocess.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", "images",
                            work / "data/images.h5", "--n", "3", "--side", "128"], check=True, env=env)
            with harness.Server("nginx", work / "data") as server, harness.shadow_dir() as shadow:
                more = {"URL": f"{server.url}/images.h5", "XHDF5_CA_BUNDLE": server.cacert,
                        "XHDF5_SHADOW_DIR": str(shadow)}
                read = "import os, xhdf5; print(xhdf5.open(os.environ['URL'])['images'].shape)"
                got = harness.run([venv / "bin/python", "-c", read], env | more, cwd=work)
                assert got == (0, "(3, 128, 128)\n", ""), got
                status, out, err = harness.run([venv / "bin/xhdf5", "stat", more["URL"]], env | more)
                assert status == 0, out + err
        with tap.claim("pip uninstall leaves nothing"):
            assert files_of(venv) - before, "pip installed nothing"
            status, out, err = harness.run([venv / "bin/pip", "uninstall", "--yes", "xhdf5"], env)
            assert status == 0, out + err
            assert files_of(venv) == before, files_of(venv) ^ before
            left = [p for p in venv.rglob("*xhdf5*")]
            assert not left, left
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
