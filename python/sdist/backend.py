"""pyproject.toml's build backend: meson-python's, and source packages also where there is no git.

meson-python asks git which files belong to the project, so it makes none of a tree that was unpacked from an archive
("Dist currently only works with Git or Mercurial repos"). There all files belong to it, but for what builds leave, and
hidden ones that are not the project's.
"""
import io
import os
import pathlib
import re
import tarfile

import mesonpy
import pyproject_metadata
from mesonpy import (build_editable, build_wheel, get_requires_for_build_editable,  # noqa: F401
                     get_requires_for_build_sdist, get_requires_for_build_wheel)

try:
    import tomllib
except ModuleNotFoundError:    # Python 3.10; meson-python brings it there
    import tomli as tomllib

BUILT = {"build", "dist", "__pycache__", "ci-logs"}
# Of hidden files these are the project's. Others are somebody's own: .env, .netrc, .idea.
HIDDEN = {".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore"}


def _is_ours(name):
    return name in HIDDEN or not name.startswith(".")


def _files(top):
    for directory, names, files in os.walk(top):
        here = pathlib.Path(directory)
        names[:] = sorted(n for n in names if _is_ours(n) and n not in BUILT and not n.startswith("build-")
                          and not (here / n / "meson-info").exists() and not (here / n / "pyvenv.cfg").exists())
        yield from (here / f for f in sorted(files) if _is_ours(f))


def _nobodys(entry):
    """Without the name of the user that unpacked the archive."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def build_sdist(sdist_directory, config_settings=None):
    top = pathlib.Path.cwd()
    if (top / ".git").exists():
        return mesonpy.build_sdist(sdist_directory, config_settings)
    files = list(_files(top))    # before there is one more
    project = tomllib.loads((top / "pyproject.toml").read_text())
    metadata = pyproject_metadata.StandardMetadata.from_pyproject(project, top)
    metadata.version = re.search(r"^project\(.*?version: '([^']+)'", (top / "meson.build").read_text(), re.M | re.S)[1]
    metadata.dynamic = []
    name = f"{metadata.name}-{metadata.version}"
    with tarfile.open(pathlib.Path(sdist_directory, f"{name}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = bytes(metadata.as_rfc822())
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size = len(info)
        tar.addfile(entry, io.BytesIO(info))
        for file in files:
            tar.add(file, f"{name}/{file.relative_to(top)}", recursive=False, filter=_nobodys)
    return f"{name}.tar.gz"
