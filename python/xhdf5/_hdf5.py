"""The plugin and the libhdf5s of this process, by ctypes: no part of the package is tied to one Python or one h5py.

A wheel's libhdf5 is its own: h5py, netCDF4 and PyTables bring one each. It is reached through an extension
module that is linked with it, so that no two are ever mixed up.
"""
from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Iterator

PLUGIN_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugins")
PLUGIN = os.path.join(PLUGIN_DIR, "libhdf5_vfd_xhdf5.so")
NEEDS = (1, 14)

hid_t = ctypes.c_int64


class Unfit(ImportError):
    """The driver cannot be used with this HDF5. The text says why, and what to do."""


INSTEAD = ("Install another h5py (`pip install h5py`, or a system's with a shared HDF5), or read the file without the "
           "driver: h5py.File(xhdf5.file(url))")


class Why(ctypes.Structure):
    """H5FDxhdf5_why_t."""
    _fields_ = [("sys_errno", ctypes.c_int), ("text", ctypes.c_char * 768)]


def _load_plugin() -> ctypes.CDLL:
    try:
        plugin = ctypes.CDLL(PLUGIN)
    except OSError as e:
        raise ImportError(f"xhdf5: cannot load the driver: {e}") from e
    plugin.H5FDxhdf5_call_for.argtypes = [ctypes.c_void_p]
    plugin.H5FDxhdf5_call_for.restype = None
    plugin.H5FD_xhdf5_init.restype = hid_t
    plugin.H5Dxhdf5_prefetch.argtypes = [hid_t, hid_t]
    plugin.H5FDxhdf5_get_stats.argtypes = [hid_t, ctypes.c_char_p, ctypes.c_size_t]
    plugin.H5FDxhdf5_get_stats.restype = ctypes.c_ssize_t
    plugin.H5FDxhdf5_bytes_open.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Why)]
    plugin.H5FDxhdf5_bytes_open.restype = ctypes.c_void_p
    plugin.H5FDxhdf5_bytes_size.argtypes = [ctypes.c_void_p]
    plugin.H5FDxhdf5_bytes_size.restype = ctypes.c_uint64
    plugin.H5FDxhdf5_bytes_read.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                                            ctypes.c_void_p, ctypes.POINTER(Why)]
    plugin.H5FDxhdf5_bytes_close.argtypes = [ctypes.c_void_p]
    plugin.H5FDxhdf5_bytes_close.restype = None
    plugin.H5FDxhdf5_bytes_expect.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Why)]
    plugin.H5FDxhdf5_bytes_shown.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    plugin.H5FDxhdf5_bytes_shown.restype = None
    plugin.H5FDxhdf5_commit.argtypes = [hid_t]
    plugin.H5FDxhdf5_discard.argtypes = [hid_t, ctypes.c_uint]
    return plugin


plugin = _load_plugin()


class _Entry(ctypes.Structure):
    """H5E_error2_t: one entry of HDF5's error stack."""
    _fields_ = [("cls_id", hid_t), ("maj_num", hid_t), ("min_num", hid_t), ("line", ctypes.c_uint),
                ("func_name", ctypes.c_char_p), ("file_name", ctypes.c_char_p), ("desc", ctypes.c_char_p)]


_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Entry), ctypes.c_void_p)


class Library:
    """The libhdf5 that an extension module is linked with. Its functions are called with the lock held that
    the module's package holds when it calls HDF5."""

    def __init__(self, module: ModuleType):
        path = module.__file__ or ""
        self._handle = ctypes.CDLL(path)  # loaded already: this only finds it
        try:
            self._find(module.__name__)
        except (AttributeError, ValueError) as e:    # of a function, of a variable
            raise Unfit(f"xhdf5: {path} shows no libhdf5 that the driver can use ({e}). Is HDF5 linked into it "
                        f"statically? {INSTEAD}") from None

    def _find(self, name: str) -> None:
        """AttributeError: the library lacks a function."""
        get = self._handle.H5get_libversion
        numbers = [ctypes.c_uint() for _ in range(3)]
        get(*map(ctypes.byref, numbers))
        self.version = tuple(n.value for n in numbers)
        if self.version < NEEDS:
            raise Unfit(f"xhdf5: {name} has HDF5 {'.'.join(map(str, self.version))}; the driver needs "
                        f"{NEEDS[0]}.{NEEDS[1]} or newer. {INSTEAD}")
        self._address = ctypes.cast(get, ctypes.c_void_p)
        self._set_driver_by_name = self._handle.H5Pset_driver_by_name
        self._set_driver_by_name.argtypes = [hid_t, ctypes.c_char_p, ctypes.c_char_p]
        self._is_registered = self._handle.H5FDis_driver_registered_by_name
        self._is_registered.argtypes = [ctypes.c_char_p]
        self._has_connector = self._handle.H5VLis_connector_registered_by_name
        self._has_connector.argtypes = [ctypes.c_char_p]
        self._plugin_dir = self._handle.H5PLget
        self._plugin_dir.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t]
        self._plugin_dir.restype = ctypes.c_ssize_t
        self._plugin_dirs = self._handle.H5PLsize
        self._plugin_dirs.argtypes = [ctypes.POINTER(ctypes.c_uint)]
        self._new_list, self._driver_of, self._end_list = (
            self._handle.H5Pcreate, self._handle.H5Pget_driver, self._handle.H5Pclose)
        for function in self._new_list, self._driver_of, self._end_list:
            function.argtypes, function.restype = [hid_t], hid_t
        self._end_list.restype = ctypes.c_int
        self._file_access = hid_t.in_dll(self._handle, "H5P_CLS_FILE_ACCESS_ID_g")
        self._walk_errors = self._handle.H5Ewalk2
        self._walk_errors.argtypes = [hid_t, ctypes.c_int, _Visit, ctypes.c_void_p]

    def path(self) -> str:
        """The file that the library was loaded from."""
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                where, _, _, _, _, *name = line.rstrip("\n").split(maxsplit=5)
                start, end = (int(n, 16) for n in where.split("-"))
                if name and start <= (self._address.value or 0) < end:
                    return name[0]
        raise RuntimeError("xhdf5: libhdf5 is not among this process's mappings")

    @contextmanager
    def _meant(self) -> Iterator[None]:
        """The plugin's functions mean this library, in this thread."""
        plugin.H5FDxhdf5_call_for(self._address)
        try:
            yield
        finally:
            plugin.H5FDxhdf5_call_for(None)

    def has_started(self) -> bool:
        """Whether the library's initialisation came to its end, where it makes its native connector known."""
        return bool(self._has_connector(b"native") > 0)

    def has_driver(self) -> bool:
        """Whether the library knows the driver, from its environment or from `register`."""
        return bool(self._is_registered(b"xhdf5") > 0)

    def is_default(self) -> bool:
        """Whether files go by the driver that are opened without a word of one: as the environment said when the
        library started. It starts once, for all packages that are linked with it."""
        if not (self.has_started() and self.has_driver()):
            return False
        lists = [self._new_list(self._file_access.value) for _ in range(2)]
        self.set_driver(lists[1], "")
        drivers = [self._driver_of(fapl) for fapl in lists]
        for fapl in lists:
            self._end_list(fapl)
        return bool(drivers[0] == drivers[1])

    def plugin_dirs(self) -> list[str]:
        """Where the library looks for plugins now: HDF5_PLUGIN_PATH as it was at its start, or its own default, and
        what the program has added."""
        n, text, found = ctypes.c_uint(), ctypes.create_string_buffer(4097), []
        self._plugin_dirs(ctypes.byref(n))
        for i in range(n.value):
            if 0 < self._plugin_dir(i, text, len(text)) < len(text):
                found.append(os.fsdecode(text.value))
        return found

    def register(self) -> None:
        """The driver becomes known to the library, under the name xhdf5."""
        with self._meant():
            if plugin.H5FD_xhdf5_init() < 0:
                why = "; ".join(self._errors())
                if self.has_driver():  # another copy of it, from the environment that HDF5 was started with
                    raise Unfit(f"xhdf5: {why}. In Python: import xhdf5 before h5py")
                raise Unfit(f"xhdf5: HDF5 {'.'.join(map(str, self.version))} did not take the driver: "
                            f"{why or 'it does not say why'}. {INSTEAD}")

    def set_driver(self, fapl: int, config: str) -> None:
        """Files opened with this list use the driver, with options as HDF5_DRIVER_CONFIG has them."""
        if self._set_driver_by_name(fapl, b"xhdf5", config.encode()) < 0:
            raise RuntimeError("xhdf5: HDF5 did not set the driver")

    def prefetch(self, dataset: int, space: int) -> bool:
        with self._meant():
            return bool(plugin.H5Dxhdf5_prefetch(dataset, space) >= 0)

    def stats(self, anything: int) -> str:
        """Lines "name=number"; "" where the driver reads nothing of the file."""
        with self._meant():
            size = plugin.H5FDxhdf5_get_stats(anything, None, 0)
            if size < 0:
                raise ValueError("not an open file, nor anything in one")
            text = ctypes.create_string_buffer(size + 1024)  # a counter may have grown by a digit
            plugin.H5FDxhdf5_get_stats(anything, text, len(text))
        return text.value.decode()

    def _errors(self) -> list[str]:
        """The texts of this thread's error stack, the cause first."""
        found: list[str] = []

        def visit(n: int, entry: Any, data: Any) -> int:
            found.append((entry[0].desc or b"").decode(errors="replace"))
            return 0
        self._walk_errors(0, 0, _Visit(visit), None)  # H5E_DEFAULT, H5E_WALK_UPWARD
        return found

    def commit(self, file: int) -> tuple[bool, str]:
        """Sends what was written. Returns whether HDF5 may hold older data than the server has now; and "", or why it failed."""
        with self._meant():
            done = plugin.H5FDxhdf5_commit(file)
            found = self._errors() if done < 0 else [""]
        return done > 0, found[0] if found else "HDF5 does not say why"

    def discard(self, file: int, keep: bool) -> tuple[bool, str]:
        """Closing the file sends nothing. Returns False where it is not written at a URL, or cannot be kept from being
        sent; and "", or why."""
        with self._meant():
            done = plugin.H5FDxhdf5_discard(file, keep)
            found = self._errors() if done < 0 else [""]
        return done == 0, found[0] if found else "HDF5 does not say why"
