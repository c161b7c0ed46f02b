"""Programs with an HDF5 of their own, and those above h5py: each function is a case, in a process of its own.

usage: others.py CASE    with SERVER (its URL) and CACERT of one that has climate.nc and table.h5, DATA its directory,
                        WRITE a place there that may be written to
       others.py make    writes these two into DATA
       others.py make_more    and what the cases from `filters` on read
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

SERVER, WRITE, DATA = os.environ.get("SERVER"), os.environ.get("WRITE"), os.environ["DATA"]
DUMPS = [d for d in os.environ.get("DUMPS", "").split(":") if d]    # h5dump of several versions
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


FILTERS = ("bitshuffle", "blosc", "blosc2", "lz4", "zstd", "zfp")


def make_more():
    """Each filter's file has the same numbers, in as many chunks, as gzip's."""
    import datetime

    import h5py
    import hdf5plugin as p
    import numpy as np
    import pandas
    import pynwb
    values = np.random.default_rng(2).integers(0, 4096, (200, 128, 256)).astype("i4")
    kinds = dict(zip(FILTERS, (p.Bitshuffle(), p.Blosc(), p.Blosc2(), p.LZ4(), p.Zstd(), p.Zfp(reversible=True))))
    for name, kind in {**kinds, "gzip": "gzip"}.items():
        with h5py.File(f"{DATA}/{name}.h5", "w") as f:
            f.create_dataset("values", data=values, chunks=(1, 128, 256), compression=kind, shuffle=name == "gzip")
    pandas.DataFrame({"x": np.arange(5000.0), "s": ["a", "b"] * 2500}).to_hdf(
        f"{DATA}/frame.h5", key="frame", format="table")
    session = pynwb.NWBFile("a session", "id", datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc))
    session.add_acquisition(pynwb.TimeSeries(name="trace", data=np.arange(100000.0), unit="V", rate=10.0))
    with pynwb.NWBHDF5IO(f"{DATA}/session.nwb", "w") as io:
        io.write(session)
    with h5py.File(f"{DATA}/tree.nc", "w") as f:
        for name in "a", "b/c":
            f.create_group(name)["x"] = np.arange(5.0)


def pytables():
    """PyTables reads a URL after enable(), and local files as before. What it cannot do with a URL is said."""
    import xhdf5
    xhdf5.enable()
    import h5py
    import tables
    with tables.open_file(f"{SERVER}/table.h5") as there, tables.open_file(f"{DATA}/table.h5") as here:
        assert (there.root.array[:] == here.root.array[:]).all()
        assert (there.root.table[5:50] == here.root.table[5:50]).all()
        assert len(there.root.table.read_where("x > 0")) > 100
        assert f"{DATA}/table.h5" in repr(here) and f"{DATA}/table.h5" in str(here), repr(here)
    with tables.open_file(f"{SERVER}/table.h5?X-Amz-Signature=SECRET") as signed:
        for text in repr(signed), str(signed):
            assert f"{SERVER}/table.h5" in text and "SECRET" not in text and "Object Tree" in str(signed), text
    for name in (f"{SERVER}/none.h5", f"{DATA}/none.h5"):
        try:
            tables.open_file(name)
        except (tables.HDF5ExtError, OSError):
            pass
        else:
            raise AssertionError(name)
    for mode in "r+", "a", "w":    # it would take the file for one that is not there
        raises(tables.FileModeError, "mode 'r'", tables.open_file, f"{SERVER}/table.h5", mode)
    with h5py.File(f"{DATA}/names.h5", "w") as f:
        f["there"] = h5py.ExternalLink("table.h5", "/array")
    with tables.open_file(f"{SERVER}/names.h5") as f:
        raises(tables.HDF5ExtError, f"write {SERVER}/table.h5", f.root.there)
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


def raises(kind, word, call, *args, **kwds):
    """|call| raises |kind|, and the text has |word|."""
    try:
        call(*args, **kwds)
    except kind as e:
        assert word in str(e), e
    else:
        raise AssertionError(f"no {kind.__name__} with {word}")


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
    for way in xarray.open_dataset, xarray.open_datatree, xarray.open_groups:
        raises(TypeError, "did you mean 'connections'", way, f"{SERVER}/climate.nc", engine="xhdf5",
               conections=4)
        raises(TypeError, "driver_kwds={'rdcc_nbytes'", way, f"{SERVER}/climate.nc", engine="xhdf5",
               rdcc_nbytes=1 << 20)
    for name, word in ((pathlib.Path(f"{SERVER}/climate.nc"), "pathlib"), (f" {SERVER}/climate.nc", "blank")):
        raises(FileNotFoundError, word, xarray.open_dataset, name, engine="xhdf5")
    with xhdf5.file(f"{SERVER}/climate.nc") as f, open(f"{DATA}/climate.nc", "rb") as g:    # as with h5netcdf
        for thing in f, g:
            assert xarray.open_dataset(thing, engine="xhdf5").equals(here)
        raises(TypeError, "'connections'", xarray.open_dataset, f, engine="xhdf5", connections=4)
    with xhdf5.open(f"{WRITE}/made.nc", "w", writable=True) as f:
        here.isel(time=slice(3)).to_netcdf(f, engine="h5netcdf")
    with xarray.open_dataset(f"{WRITE}/made.nc", engine="xhdf5") as there:
        assert there.equals(here.isel(time=slice(3)))
    with tempfile.TemporaryDirectory() as gone:     # the current directory is no more
        os.chdir(gone)
    for place in SERVER, DATA:
        assert xarray.open_dataset(f"{place}/climate.nc", engine="xhdf5").equals(here)
    raises(FileNotFoundError, "none.nc", xarray.open_dataset, f"{DATA}/none.nc", engine="xhdf5")
    os.chdir("/")


def xarray_many():
    """More files at URLs than the process may have open: xarray closes what was not read for long, and reads it again,
    as of local files. There is room for others then."""
    import resource

    import xarray
    import xhdf5  # noqa: F401
    here = xarray.open_dataset(f"{DATA}/climate.nc", engine="h5netcdf").tas[5].mean().values
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))
    for words in {"engine": "xhdf5"}, {"engine": "h5netcdf", "driver": "xhdf5"}:
        with xarray.set_options(file_cache_maxsize=10):
            many = [xarray.open_dataset(f"{SERVER}/climate.nc?n={i}", **words) for i in range(90)]
            assert os.listdir("/proc/self/fd")
            assert all(one.tas[5].mean().values == here for one in many)
        for one in many:
            one.close()


def filters():
    """hdf5plugin's filters: driver="xhdf5", xarray's engine, as bytes, the driver's variables, and the command."""
    import h5py
    import hdf5plugin
    import xarray
    import xhdf5
    with h5py.File(f"{DATA}/gzip.h5") as f:
        want = f["values"][()]
    for name in FILTERS:
        with xhdf5.open(f"{SERVER}/{name}.h5") as f:
            assert (f["values"][()] == want).all(), name
        with h5py.File(xhdf5.file(f"{SERVER}/{name}.h5")) as f:
            assert (f["values"][7] == want[7]).all(), name
        with xarray.open_dataset(f"{SERVER}/{name}.h5", engine="xhdf5", phony_dims="sort") as there:
            assert (there["values"].values == want).all(), name
    # the variables, as a shell has them: whether the user has set the path to hdf5plugin's filters, or nothing
    plain = {k: v for k, v in os.environ.items() if not k.startswith("HDF5_")}
    read = ("import sys, h5py\nfor name in sys.argv[2:]:\n"
            " f = h5py.File(f'{sys.argv[1]}/{name}.h5'); print(int(f['values'][11].sum()))")
    for before in {}, {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGIN_PATH}:
        script = f'eval "$({sys.executable} -m xhdf5)"; "$@"'

        def shell(*words):
            done = subprocess.run(["sh", "-c", script, "sh", *words], env=plain | before, capture_output=True,
                                  text=True)
            assert done.returncode == 0 and not done.stderr, done
            return done.stdout
        assert shell(sys.executable, "-c", read, SERVER, *FILTERS) == f"{want[11].sum()}\n" * len(FILTERS)
        for name in FILTERS:
            for program in DUMPS:
                out = shell(program, "-d", "/values[11,0,0;;1,1,3]", f"{SERVER}/{name}.h5")
                assert f"(11,0,0): {', '.join(map(str, want[11, 0, :3]))}" in out, (program, name, out)
    command = os.environ.get("TOOL") or str(pathlib.Path(sys.executable).with_name("xhdf5"))
    lacking = "lacks"
    for env, lacks in (({**plain, **xhdf5.environment()} if "TOOL" in os.environ else plain, False), (plain, True)):
        if lacks and "TOOL" not in os.environ:
            continue        # the package's command finds them by itself
        for name in FILTERS:
            done = subprocess.run([command, "doctor", f"{SERVER}/{name}.h5"], env=env, capture_output=True, text=True)
            assert "/values" in done.stdout or not lacks, done
            assert (lacking in done.stdout) == lacks, (name, lacks, done.stdout)


def count_filter():
    """Reads sys.argv[2]'s file in the order of its chunks; prints requests, bytes fetched, bytes of them that were not
    foretold, bytes of the file."""
    import hdf5plugin  # noqa: F401
    import xhdf5
    name = sys.argv[2]
    with xhdf5.open(f"{SERVER}/{name}.h5", whole_file_bytes=0) as f:
        for i in range(len(f["values"])):
            f["values"][i]
        found = xhdf5.stats(f)
    print(found["requests"], found["bytes_fetched"], found["bytes_demand"] + found["bytes_bypass"],
          os.path.getsize(f"{DATA}/{name}.h5"))


def pandas():
    """pandas: read_hdf of a store; of a URL it says itself that there is no such file."""
    import xhdf5
    xhdf5.enable()
    import pandas as pd
    here = pd.read_hdf(f"{DATA}/frame.h5", "frame")
    with pd.HDFStore(f"{SERVER}/frame.h5", "r") as store:
        assert pd.read_hdf(store, "frame").equals(here)
        assert len(pd.read_hdf(store, "frame", where="index < 7")) == 7
    try:
        pd.read_hdf(f"{SERVER}/frame.h5", "frame")
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("pandas takes URLs now: docs/python.md says that it does not")


def pynwb():
    """pynwb: over a file that the driver opened. Its own opening looks for the path on the disk."""
    import pynwb as p
    import xhdf5
    with xhdf5.open(f"{SERVER}/session.nwb") as f, p.NWBHDF5IO(file=f, mode="r") as io:
        assert io.read().acquisition["trace"].data[99999] == 99999
    try:
        p.NWBHDF5IO(f"{SERVER}/session.nwb", "r", driver="xhdf5")
    except Exception as e:
        assert "does not exist" in str(e), e
    else:
        raise AssertionError("pynwb takes URLs now: docs/python.md says that it does not")


def kerchunk():
    """kerchunk scans a file as bytes; what it found is what it finds in the local file. So are the chunks read then."""
    import fsspec
    import kerchunk.hdf
    import xarray
    import xhdf5
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
    found = []
    with xhdf5.file(f"{SERVER}/climate.nc") as there, open(f"{DATA}/climate.nc", "rb") as here:
        for file in there, here:
            found.append(kerchunk.hdf.SingleHdf5ToZarr(file, "name").translate())
    assert found[0] == found[1] and len(found[0]["refs"]) > 60
    with xhdf5.file(f"{SERVER}/climate.nc") as there:
        refs = kerchunk.hdf.SingleHdf5ToZarr(there, f"{SERVER}/climate.nc").translate()
    chunks = AsyncFileSystemWrapper(fsspec.filesystem("xhdf5", connections=4))
    store = fsspec.filesystem("reference", fo=refs, fs={"https": chunks}).get_mapper("")
    with xarray.open_dataset(store, engine="zarr", consolidated=False, chunks=None) as by_references:
        with xarray.open_dataset(f"{DATA}/climate.nc", engine="h5netcdf") as local:
            assert (by_references["tas"].values == local["tas"].values).all()


def virtualizarr():
    """VirtualiZarr's HDF parser takes a reader: a file as bytes. What it found is what it finds in the local file."""
    import obspec_utils.registry
    import obstore.store
    import virtualizarr as v
    import xhdf5
    store = obstore.store.HTTPStore.from_url(SERVER, client_options={"allow_invalid_certificates": True})
    registry = obspec_utils.registry.ObjectStoreRegistry({"file://": obstore.store.LocalStore(), SERVER: store})
    ours = v.parsers.HDFParser(reader_factory=lambda store, path: xhdf5.file(f"{SERVER}/{path}"))
    found = []
    for place, parser in (SERVER, ours), (f"file://{DATA}", v.parsers.HDFParser()):
        data = v.open_virtual_dataset(f"{place}/climate.nc", registry=registry, parser=parser)
        refs = data.vz.to_kerchunk(format="dict")["refs"]
        found.append({name: what[1:] if isinstance(what, list) else what for name, what in refs.items()})
    assert found[0] == found[1] and len([name for name in found[0] if name.startswith("tas/")]) > 60, found


def _fsspec_pieces():
    """Pieces that are asked for one by one, as zarr asks for kerchunk's chunks: the file is opened once for five
    seconds, and anew when it was replaced. Of several files the next ones are opened ahead."""
    import fsspec as fs
    import xhdf5._fsspec as ours
    made, path, opened = pathlib.Path(DATA, "pieces.bin"), f"{SERVER}/pieces.bin", []
    system = fs.filesystem("xhdf5", whole_file_bytes=0, readahead=False, skip_instance_cache=True)
    plain, kept_s = system._open, ours.KEPT_SECONDS
    system._open = lambda name: opened.append(name) or plain(name)

    def put(data, date):
        made.with_suffix(".part").write_bytes(data)
        os.utime(made.with_suffix(".part"), (date, date))
        os.rename(made.with_suffix(".part"), made)
    old, new = (bytes([byte]) * 3000000 for byte in (1, 2))
    put(old, 1e9)
    ours.KEPT_SECONDS = 1e9    # however slow the machine is
    for i in range(20):
        assert system.cat_file(path, i * 1000, i * 1000 + 999) == old[:999]
    assert system.cat_ranges([path] * 2, [5, -5], [9, None]) == [old[:4], old[:5]] and opened == [path], opened
    put(new, 1.1e9)
    assert system.cat_file(path, 2000000, 2001000) == new[:1000] and len(opened) == 2, opened
    ours.KEPT_SECONDS = 0
    put(old, 1.2e9)
    assert system.cat_file(path, 2000000, 2001000) == old[:1000] and len(opened) == 3, opened
    ours.KEPT_SECONDS = kept_s
    for n in range(ours.KEPT_FILES + 4):
        assert system.cat_file(f"{path}?{n}", 7, 9) == old[:2]
    assert len(system._kept) == ours.KEPT_FILES
    raises(FileNotFoundError, "404", system.cat_file, f"{SERVER}/none.bin", 0, 9)
    announced, plain_one = [], ours._expect.one
    ours._expect.one = lambda url, config: announced.append(url) or plain_one(url, config)
    names = [f"{path}?{n}" for n in (1000, 1001, 1002)]
    ours.KEPT_SECONDS = 1e9
    system.cat_file(names[1], 0, 1)
    assert system.cat_ranges([*names, names[0]], [0, 1, 2, 3], 4) == [old[:4 - i] for i in range(4)]
    assert set(announced) == {names[0].encode(), names[2].encode()}, announced
    announced.clear()
    system.cat_ranges(names, 0, 4)
    system.cat_ranges([f"{path}?1003"], 0, 4)
    assert not announced, announced
    ours._expect.one, ours.KEPT_SECONDS = plain_one, kept_s


def fsspec():
    """fsspec's protocol xhdf5 before a URL: as a file, in pieces, in xarray and kerchunk; not to be written."""
    import fsspec as fs
    import kerchunk.hdf
    import xarray
    here, url = pathlib.Path(DATA, "climate.nc"), f"xhdf5::{SERVER}/climate.nc"
    with fs.open(url, connections=4) as f:
        assert f.read() == here.read_bytes()
    system, path = fs.core.url_to_fs(url)
    assert system.size(path) == here.stat().st_size and system.exists(path) and not system.exists(f"{SERVER}/none.nc")
    nowhere = "https://127.0.0.1:1/x.nc"  # nobody answers: that is no word on the file
    quick = fs.filesystem("xhdf5", retries=0)
    for call in (quick.exists, quick.isfile):
        try:
            raise AssertionError(f"exists: {call(nowhere)}")
        except OSError:
            pass
    want = here.read_bytes()
    assert system.cat_ranges([path, path, path], [0, 100, -8], [8, 200, None]) == [want[:8], want[100:200], want[-8:]]
    assert system.cat_file(path, 3, 9) == want[3:9]
    found = system.cat_ranges([f"{SERVER}/none.nc", path], 0, 4)
    assert isinstance(found[0], FileNotFoundError) and found[1] == want[:4], found
    _fsspec_pieces()
    local = xarray.open_dataset(here, engine="h5netcdf")
    with xarray.open_dataset(url, engine="h5netcdf") as there:
        assert there.equals(local)
    got = kerchunk.hdf.SingleHdf5ToZarr(url).translate()
    assert len(got["refs"]) > 60
    for call in (system.ls, system.glob, system.find):
        raises(NotImplementedError, "name each file", call, f"{SERVER}/*.nc")
    for call in (lambda: fs.open(url, "wb").open(), lambda: fs.open(url, conections=4).open()):
        try:
            call()
        except (NotImplementedError, TypeError):
            pass
        else:
            raise AssertionError("it was written, or took an option that there is not")


# What opens a URL where the variables are set and nothing of xhdf5 is imported; else words of the error.
BY_VARIABLES = {
    "import h5py; f = h5py.File(url)": "",
    "import h5netcdf; f = h5netcdf.File(url, 'r', backend='h5py')": "",
    "import h5netcdf; f = h5netcdf.File(url, 'r')": "No module named 'h5pyd'",
    "import xarray; f = xarray.open_dataset(url, engine='h5netcdf')": "fsspec",
    "import tables; f = tables.open_file(url)": "does not exist",
    "import pandas; f = pandas.HDFStore(url, 'r')": "does not exist",
    "import pynwb; f = pynwb.NWBHDF5IO(url, 'r')": "File does not exist",
    "import netCDF4; f = netCDF4.Dataset(url)": "NetCDF: I/O failure",
}


def variables():
    """What a program gets of a URL that has nothing of us but the variables."""
    import xhdf5
    env = {**os.environ, **xhdf5.environment()}
    for code, words in BY_VARIABLES.items():
        code = f"url = {SERVER + '/climate.nc'!r}; {code}"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True)
        assert (done.returncode == 0) == (not words) and words in done.stderr, (code, done)


def datatree():
    """open_datatree, and open_groups, of a file with groups."""
    import xarray
    tree = xarray.open_datatree(f"{SERVER}/tree.nc", engine="xhdf5", phony_dims="access")
    assert tree["b/c"]["x"].values.tolist() == [0, 1, 2, 3, 4] and "a" in tree.children
    assert "/b/c" in xarray.open_groups(f"{SERVER}/tree.nc", engine="xhdf5", phony_dims="access")


def workers():
    """Dask's workers, started by spawn, that have imported nothing of ours: datasets of the engine, by either way.
    And dask's arrays of h5py's datasets."""
    import dask.array
    import distributed
    import xarray
    import xhdf5
    here = xarray.open_dataset(f"{DATA}/climate.nc", engine="h5netcdf")

    def imported():
        return sorted(m for m in sys.modules if m.split(".")[0] == "xhdf5")

    def summed(data):
        return float(data.tas.sum())
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert not any(client.run(imported).values())
            with xarray.open_dataset(f"{SERVER}/climate.nc", engine="xhdf5", chunks={"time": 10}) as there:
                assert (there.tas.max("time").compute() == here.tas.max("time")).all()
            assert all(client.run(imported).values())
            with xarray.open_dataset(f"{SERVER}/climate.nc", engine="xhdf5") as there:    # the data set itself
                assert client.submit(summed, there).result() == float(here.tas.sum())
            with xhdf5.file(f"{SERVER}/climate.nc") as there:     # bytes
                got = client.submit(lambda f: f.read_at(0, 8), there).result()
                assert got == b"\x89HDF\r\n\x1a\n", got
    xhdf5.enable()      # dask opens a dataset's file anew, by its name and nothing else
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster), xhdf5.open(f"{SERVER}/climate.nc") as f:
            there = dask.array.from_array(f["tas"], chunks=(10, 90, 180))
            assert there.max().compute() == dask.array.from_array(here.tas.values).max().compute()


def h5netcdf():
    """h5netcdf itself, and its stand-in for netCDF4."""
    import h5netcdf as h
    import h5netcdf.legacyapi as netCDF4
    import xhdf5  # noqa: F401
    with h.File(f"{SERVER}/climate.nc", "r", driver="xhdf5") as f, netCDF4.Dataset(f"{DATA}/climate.nc", "r") as here:
        assert (f.variables["tas"][3] == here["tas"][3]).all()
    with netCDF4.Dataset(f"{SERVER}/climate.nc", "r", driver="xhdf5") as f:
        assert f["tas"].shape == (60, 90, 180)
    for query in "?X-Amz-Signature=secret", "?Key-Pair-Id=a/b&Signature=secret/secret":    # as a notebook shows it
        for opens in h.File, netCDF4.Dataset:
            with opens(f"{SERVER}/climate.nc{query}", "r", driver="xhdf5") as f:
                assert "'climate.nc' (mode r" in repr(f) and "tas" in repr(f) and "ecret" not in repr(f), repr(f)
            assert "Closed" in repr(f), repr(f)
    with h.File(f"{DATA}/climate.nc", "r") as here:
        assert "'climate.nc' (mode r" in repr(here), repr(here)
    options = {"driver": "xhdf5", "writable": True, "overlay_dir": f"{os.environ['XHDF5_SHADOW_DIR']}/overlay"}
    for kind, sent in ((None, True), (SystemExit, True), (KeyError, False)):    # as with h5py.File
        for number, opens in enumerate((h.File, netCDF4.Dataset)):
            url = f"{WRITE}/{kind and kind.__name__}{number}.nc"
            try:
                with opens(url, "w", **options) as f:
                    f.dimensions["x"] = 3
                    if kind:
                        raise kind
            except (KeyError, SystemExit):
                pass
            try:
                h.File(url, "r", driver="xhdf5").close()
                assert sent, f"{url} was left by an exception, and is at the server"
            except FileNotFoundError:
                assert not sent, url


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
