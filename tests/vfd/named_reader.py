"""What named.py has an h5py do: named_reader.py DOOR FILE OPTIONS DATASET...

DOOR: env (HDF5_DRIVER is set), keyword (options are keywords of h5py.File), enable (xhdf5.enable()), elink (as env, and
external links are followed with a list of the program's own). OPTIONS: JSON, for the keywords. Prints a line for each dataset: its name, then the sum of its values, or "error", the exception and its text.
"""
import json
import sys

import h5py

door, name, options = sys.argv[1:4]
words = {}
if door == "keyword":
    import xhdf5  # noqa: F401
    words = dict(json.loads(options), driver="xhdf5")
if door == "enable":
    import xhdf5
    xhdf5.enable()
lapl = None
if door == "elink":
    lapl = h5py.h5p.create(h5py.h5p.LINK_ACCESS)
    lapl.set_elink_fapl(h5py.h5p.create(h5py.h5p.FILE_ACCESS))
with h5py.File(name, "r", **words) as f:
    for path in sys.argv[4:]:
        try:
            d = h5py.Dataset(h5py.h5o.open(f.id, path.encode(), lapl)) if lapl else f[path]
            print(path, f"{d[:].sum():.0f}")
        except Exception as e:  # whatever it is, it is the finding
            print(path, "error", type(e).__name__, str(e).replace("\n", " "))
