"""Programs with an HDF5 of their own, and those above h5py: each function is a case, in a process of its own.

usage: others.py CASE    with SERVER (its URL) and CACERT of one that has climate.nc and table.h5, DATA its directory
       others.py make    writes these two into DATA
"""
import os
import sys
import warnings

SERVER, DATA = os.environ.get("SERVER"), os.environ["DATA"]
os.environ["XHDF5_CA_BUNDLE"] = os.environ.get("CACERT", "")


def make():
    import netCDF4
    import numpy as np
    import tables
    rng = np.random.default_rng(1)
    with netCDF4.Dataset(f"{DATA}/climate.nc", "w") as f:
        for name, size in (("time", None), ("lat", 90), ("lon", 180)):
            f.createDimension(name, size)
        time = f.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        time[:] = np.arange(60)
        tas = f.createVariable("tas", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 90, 180))
        tas.units = "K"
        tas[:] = rng.normal(280, 9, (60, 90, 180))
    with tables.open_file(f"{DATA}/table.h5", "w") as f:
        f.create_array("/", "array", rng.normal(size=100000))
        f.create_table("/", "table", np.rec.array(rng.normal(size=(1000, 2)), dtype=[("x", "f8")]))


def pytables():
    """PyTables reads a URL after enable(), and local files as before."""
    import xhdf5
    xhdf5.enable()
    import tables
    with tables.open_file(f"{SERVER}/table.h5") as there, tables.open_file(f"{DATA}/table.h5") as here:
        assert (there.root.array[:] == here.root.array[:]).all()
        assert (there.root.table[5:50] == here.root.table[5:50]).all()
        assert len(there.root.table.read_where("x > 0")) > 100
    for name in (f"{SERVER}/none.h5", f"{DATA}/none.h5"):
        try:
            tables.open_file(name)
        except (tables.HDF5ExtError, OSError):
            pass
        else:
            raise AssertionError(name)
    xhdf5.disable()
    try:
        tables.open_file(f"{SERVER}/table.h5")
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("PyTables still takes URLs")


def pytables_with_h5py():
    """Three libhdf5s in one process, h5py's, PyTables' and netCDF's, and each its own driver."""
    import h5py
    import xhdf5
    xhdf5.enable()
    import netCDF4  # noqa: F401
    import tables
    with h5py.File(f"{SERVER}/table.h5") as one, tables.open_file(f"{SERVER}/table.h5") as two:
        xhdf5.prefetch(one["array"])
        assert (one["array"][:] == two.root.array[:]).all()
        assert xhdf5.stats(one)["requests"]


def xarray_h5netcdf():
    """xarray by h5netcdf, with options, lazily and whole; no word of enable()."""
    import xarray
    import xhdf5  # noqa: F401
    there = xarray.open_dataset(f"{SERVER}/climate.nc", engine="h5netcdf", driver="xhdf5",
                                driver_kwds={"connections": 4})
    here = xarray.open_dataset(f"{DATA}/climate.nc", engine="h5netcdf")
    assert there.tas.sel(time="2000-01-11").equals(here.tas[10])
    assert there.equals(here)
    there.close()


def _served_by_workers(there, here):
    import distributed
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            assert (there.tas.max("time").compute() == here.tas.max("time")).all()


def xarray_engine():
    """xarray's engine xhdf5, by its name: one file, groups, many files, other processes; it takes no URL of others."""
    import pickle

    import xarray
    import xhdf5
    here = xarray.open_dataset(f"{DATA}/climate.nc", engine="h5netcdf")
    there = xarray.open_dataset(f"{SERVER}/climate.nc", engine="xhdf5", connections=4, chunks={"time": 10})
    assert there.equals(here)
    assert pickle.loads(pickle.dumps(there)).equals(here)
    _served_by_workers(there, here)
    there.close()
    assert xarray.open_dataset(f"{DATA}/climate.nc", engine="xhdf5").equals(here)
    tree = xarray.open_datatree(f"{SERVER}/climate.nc", engine="xhdf5", drop_variables="lat")
    assert "lat" not in tree.variables and (tree.tas == here.tas).all()
    engine = xarray.backends.list_engines()["xhdf5"]
    assert not engine.guess_can_open(f"{SERVER}/climate.nc")
    parts = []
    step = len(here.time) // 20 + 1
    for i in range(-(len(here.time) // -step)):
        here.isel(time=slice(i * step, (i + 1) * step)).to_netcdf(f"{DATA}/part{i}.nc", engine="h5netcdf")
        parts.append(f"{SERVER}/part{i}.nc")
    for names in (parts, xhdf5.expect(parts)):
        for parallel in (False, True):
            with xarray.open_mfdataset(names, engine="xhdf5", parallel=parallel) as many:
                assert (many.tas.values == here.tas.values).all()
    try:
        xarray.open_dataset(f"{SERVER}/climate.nc", engine="xhdf5", conections=4)
    except TypeError as e:
        assert "conections" in str(e)
    else:
        raise AssertionError("an option that there is not")


def h5netcdf():
    """h5netcdf itself, and its stand-in for netCDF4."""
    import h5netcdf as h
    import h5netcdf.legacyapi as netCDF4
    import xhdf5  # noqa: F401
    with h.File(f"{SERVER}/climate.nc", "r", driver="xhdf5") as f, netCDF4.Dataset(f"{DATA}/climate.nc", "r") as here:
        assert (f.variables["tas"][3] == here["tas"][3]).all()
    with netCDF4.Dataset(f"{SERVER}/climate.nc", "r", driver="xhdf5") as f:
        assert f["tas"].shape == (60, 90, 180)


def jupyter():
    """Cells of a notebook, in a kernel that nbclient starts: what one opened the next reads, and what is asked at its end is the same."""
    import h5py
    import nbclient
    import nbformat
    cells = [f"import h5py, xhdf5\nf = h5py.File('{SERVER}/climate.nc', driver='xhdf5')",
             "print(float(f['tas'][7].sum()))",
             "print(xhdf5.stats(f)['requests'] > 0)"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
    said = [c.outputs[0].text.strip() for c in book.cells[1:]]
    with h5py.File(f"{DATA}/climate.nc") as here:
        assert said == [str(float(here["tas"][7].sum())), "True"], said


def netcdf4():
    """netCDF4: local files pass through the driver; URLs are netCDF's own business and never reach HDF5's."""
    import xhdf5
    xhdf5.enable()
    import netCDF4
    with netCDF4.Dataset(f"{DATA}/climate.nc") as f:
        assert f["tas"].shape == (60, 90, 180)
    with netCDF4.Dataset(f"{DATA}/copy.nc", "w") as f:
        f.createDimension("x", 3)
        f.createVariable("x", "i4", ("x",))[:] = [1, 2, 3]
    with netCDF4.Dataset(f"{DATA}/copy.nc") as f:
        assert list(f["x"][:]) == [1, 2, 3]
    for name in (f"{SERVER}/climate.nc", f"{SERVER}/climate.nc#mode=bytes"):
        try:
            netCDF4.Dataset(name)
        except OSError:  # netCDF's own reader does not know the CA
            continue
        raise AssertionError("netCDF4 reads URLs with the driver: docs/python.md says that it cannot")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[sys.argv[1]]()
