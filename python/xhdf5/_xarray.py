"""xarray's engine "xhdf5": h5netcdf's, over the driver. xarray finds it by the package's entry point."""
from __future__ import annotations

import inspect
from typing import Any

from xarray.backends import H5netcdfBackendEntrypoint

from . import _with_h5py
from ._tables import OPTIONS

_with_h5py()


class _Driver(str):
    """The driver's name, for what is sent to other processes: to read it there imports this package, and only then
    h5py knows the driver."""

    def __reduce__(self) -> Any:
        return _driver, ()


def _driver() -> _Driver:
    return _Driver("xhdf5")


class Xhdf5BackendEntrypoint(H5netcdfBackendEntrypoint):
    """Files at https URLs by the driver xhdf5, and local files as the engine h5netcdf opens them. The driver's options
    are keywords: ``xarray.open_dataset(url, engine="xhdf5", connections=8)``."""

    description = "Open HDF5 and netCDF-4 files at URLs at the speed of the link, using h5netcdf"
    open_dataset_parameters = (*list(inspect.signature(H5netcdfBackendEntrypoint.open_dataset).parameters)[1:],
                               *OPTIONS)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        return False  # each URL may be another engine's: it is named

    def open_dataset(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_dataset(filename_or_obj, **_with_driver(kwds))

    def open_datatree(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_datatree(filename_or_obj, **_with_driver(kwds))

    def open_groups_as_dict(self, filename_or_obj: Any, **kwds: Any) -> Any:
        return super().open_groups_as_dict(filename_or_obj, **_with_driver(kwds))


def _with_driver(kwds: dict[str, Any]) -> dict[str, Any]:
    options = {name: kwds.pop(name) for name in list(kwds) if name in OPTIONS}
    return {**kwds, "driver": _driver(), "driver_kwds": {**(kwds.get("driver_kwds") or {}), **options}}
