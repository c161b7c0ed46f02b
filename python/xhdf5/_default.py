"""The driver as the default of libraries that read it from the environment when they start."""
from __future__ import annotations

import os
import sys
import warnings
from typing import Dict, Optional

from . import _hdf5

_before: Optional[Dict[str, Optional[str]]] = None  # variables that enable() has changed


def environment() -> dict[str, str]:
    others = [p for p in os.environ.get("HDF5_PLUGIN_PATH", "").split(":") if p and p != _hdf5.PLUGIN_DIR]
    return {"HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": ":".join([_hdf5.PLUGIN_DIR, *others])}


def enable() -> None:
    global _before
    if _before is not None:
        return
    if os.environ.get("HDF5_DRIVER") != "xhdf5":
        for name in ("netCDF4", "tables"):
            if name in sys.modules:
                warnings.warn(f"{name} was imported before xhdf5.enable(): it opens no URLs in this process",
                              RuntimeWarning, stacklevel=3)
    wanted = environment()
    _before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)


def disable() -> None:
    global _before
    for name, value in (_before or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before = None
