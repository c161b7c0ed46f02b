"""What remote.py has an h5py do, in a process of its own: h5py_cases.py CASE ARGUMENT...

Prints what it found; an exception that h5py raises is printed as "TYPE errno text".
"""
import multiprocessing
import os
import sys
import warnings

import h5py

warnings.simplefilter("ignore", DeprecationWarning)    # of forks that have threads


def attempt(name, mode="r", **kwargs):
    """Opens |name| and says how that ended."""
    try:
        with h5py.File(name, mode, **kwargs) as f:
            print("opened", f.mode, len(f))
    except Exception as e:  # whatever it is, it is the finding
        print(type(e).__name__, getattr(e, "errno", None), str(e).replace("\n", " "))


def is_hdf5(name):
    print(bool(h5py.h5f.is_hdf5(name.encode())))


def read(name):
    """The sum of data set d."""
    with h5py.File(name) as f:
        print(f["d"][:].sum())


def read_late(name):
    """Opens, reads metadata, then data: the error comes with the data."""
    f = h5py.File(name)
    d = f["d"]
    try:
        print(d[:].sum())
    except OSError as e:
        print(type(e).__name__, e.errno, e)


def links(name):
    """Follows an external link, then reads a virtual data set, both relative to |name|."""
    with h5py.File(name) as f:
        print(f["elsewhere"][:].sum(), f["virtual"][:].sum())


def _in_child(f, path, queue):
    with h5py.File(path) as again:
        queue.put((float(f["d"][:].sum()), float(again["d"][:].sum())))


def fork(name):
    """A forked child reads what its parent has opened, and opens it itself."""
    f = h5py.File(name)
    here = f["d"][:].sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_in_child, args=(f, name, queue)) for _ in range(3)]
    for c in children:
        c.start()
    found = [queue.get(timeout=60) for _ in children]
    for c in children:
        c.join(60)
    assert all(c.exitcode == 0 for c in children), [c.exitcode for c in children]
    print(here, f["d"][:].sum(), *[x for pair in found for x in pair])


def leave_open(name):
    """Ends with files, a data set and a fork's copy of them open."""
    global kept
    kept = [h5py.File(name), h5py.File(name)["d"]]
    print(kept[1][0:100].sum(), flush=True)
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0


def two_libraries(library, name):
    """h5py's libhdf5 and another one, by ctypes, read through the same driver in one process."""
    import ctypes
    other = ctypes.CDLL(library)
    for f, result, arguments in (
            ("H5open", ctypes.c_int, []), ("H5close", ctypes.c_int, []),
            ("H5Fopen", ctypes.c_int64, [ctypes.c_char_p, ctypes.c_uint, ctypes.c_int64]),
            ("H5Fclose", ctypes.c_int, [ctypes.c_int64]),
            ("H5Dopen2", ctypes.c_int64, [ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64]),
            ("H5Eset_auto2", ctypes.c_int, [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]),
            ("H5Dclose", ctypes.c_int, [ctypes.c_int64]),
            ("H5Dread", ctypes.c_int, [ctypes.c_int64] * 5 + [ctypes.c_void_p])):
        getattr(other, f).restype, getattr(other, f).argtypes = result, arguments
    double = lambda: ctypes.c_int64.in_dll(other, "H5T_NATIVE_DOUBLE_g").value  # noqa: E731
    assert other.H5open() >= 0
    mine = h5py.File(name)
    want = mine["d"][:].sum()
    for _ in range(2):  # the other library ends and begins again beside h5py's
        assert other.H5Eset_auto2(0, None, None) >= 0
        f = other.H5Fopen(name.encode(), 0, 0)
        assert f > 0
        d = other.H5Dopen2(f, b"d", 0)
        values = (ctypes.c_double * mine["d"].shape[0])()
        assert other.H5Dread(d, double(), 0, 0, 0, values) >= 0
        print(sum(values) == want, mine["d"][:].sum() == want)
        assert other.H5Fopen((name + ".none").encode(), 0, 0) < 0
        attempt(name + ".none")
        assert other.H5Dclose(d) >= 0 and other.H5Fclose(f) >= 0 and other.H5close() >= 0
        assert other.H5open() >= 0
    mine.close()
    read(name)


def set_fapl(library, name):
    """H5Pset_fapl_xhdf5 by ctypes on a property list of h5py's: finds the one libhdf5 there is."""
    import ctypes
    driver = ctypes.CDLL(library)
    driver.H5Pset_fapl_xhdf5.argtypes = [ctypes.c_int64, ctypes.c_void_p]
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    assert driver.H5Pset_fapl_xhdf5(fapl.id, None) >= 0
    f = h5py.File(h5py.h5f.open(name.encode(), h5py.h5f.ACC_RDONLY, fapl=fapl))
    print(f["d"][:].sum())


def swmr(name):
    attempt(name, swmr=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
