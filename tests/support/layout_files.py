"""One small file for each way in which HDF5 can lay out, filter, link or type data.

Each function below writes the file of its name; a line in the tables at the end gives a family.
Sizes are chosen for the structure, not the data: the comment says which.
"""
import pathlib

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z
from mkdata import fill_tree, rng_of

ZIP = {"compression": "gzip", "compression_opts": 4, "shuffle": True}


def numbers(name, shape, dtype=np.int32):
    """Random but compressible."""
    return rng_of(name).integers(0, 1000, shape).astype(dtype)


# --- chunk indexes: (libver, shape, maxshape, chunks, early allocation) -----------------------------

INDEXES = {
    "btree1": ("earliest", (200, 300), (None, 300), (10, 20), False),
    "btree1_deep": ("earliest", (20000,), (None,), (4,), False),            # 5,000 chunks: three levels
    "single": ("latest", (200, 300), None, (200, 300), False),
    "implicit": ("latest", (200, 300), None, (10, 20), True),               # no filter possible
    "fixed": ("latest", (200, 300), None, (10, 20), False),
    "fixed_paged": ("latest", (20000,), None, (5,), False),                 # 4,000 entries > 1,024 a page
    "fixed_ragged": ("latest", (203, 307), None, (10, 20), False),          # chunks over the edge
    "extensible": ("latest", (40, 20), (None, 20), (10, 20), False),        # all in the index block
    "extensible_blocks": ("latest", (20000,), (None,), (4,), False),        # super blocks
    "extensible_paged": ("latest", (560000,), (None,), (4,), False),        # from the 131,060th: paged data blocks
    "extensible_2nd": ("latest", (200, 300), (200, None), (10, 20), False), # the unlimited one is not the first
    "btree2": ("latest", (200, 300), (None, None), (10, 20), False),
    "btree2_deep": ("latest", (400, 400), (None, None), (5, 5), False),     # 6,400 chunks
}
# Those of which not all is written: some of each level is, and 9,000 chunks of paged data blocks. All 140,000, to be
# read by each HDF5 from each place, have no more levels.
WRITTEN = {"extensible_paged": (slice(20000), slice(524000, None))}


def indexed(path, name, zipped):
    libver, shape, maxshape, chunks, early = INDEXES[name]
    with h5py.File(path, "w", libver=libver) as f:
        if early:
            dcpl = h5p.create(h5p.DATASET_CREATE)
            dcpl.set_chunk(chunks)
            dcpl.set_alloc_time(h5d.ALLOC_TIME_EARLY)
            d = h5py.Dataset(h5d.create(f.id, b"data", h5t.NATIVE_INT32, h5s.create_simple(shape), dcpl))
        else:
            d = f.create_dataset("data", shape, np.int32, maxshape=maxshape, chunks=chunks, **(ZIP if zipped else {}))
        values = numbers(name, shape)
        for where in WRITTEN.get(name, (...,)):
            d[where] = values[where]


# --- storage and filters ----------------------------------------------------------------------------

def contiguous(f):
    f["data"] = numbers("contiguous", (300, 500))
    f["one_dimension"] = numbers("line", 70000, np.float64)
    f["scalar"] = 42.5


def compact(f):
    dcpl = h5p.create(h5p.DATASET_CREATE)
    dcpl.set_layout(h5d.COMPACT)
    d = h5py.Dataset(h5d.create(f.id, b"data", h5t.NATIVE_INT32, h5s.create_simple((50, 60)), dcpl))
    d[...] = numbers("compact", (50, 60))


def fletcher32(f):
    f.create_dataset("data", data=numbers("fletcher", (200, 300)), chunks=(20, 30), fletcher32=True)
    f.create_dataset("zipped", data=numbers("fletcher", (200, 300)), chunks=(20, 30), fletcher32=True, **ZIP)


def scale_offset(f):
    f.create_dataset("integers", data=numbers("so", (200, 300)), chunks=(20, 30), scaleoffset=0)
    f.create_dataset("floats", data=numbers("so", (200, 300)) / 8, chunks=(20, 30), scaleoffset=3)


def mixture(f):
    """Long pipelines, and chunks that skip a filter: each chunk has a mask of its own."""
    f.create_dataset("scaled", data=numbers("mix", (200, 300)), chunks=(20, 30), scaleoffset=0, **ZIP)
    f.create_dataset("lzf", data=numbers("mix", (200, 300)), chunks=(20, 30), compression="lzf", shuffle=True,
                     fletcher32=True)
    values = numbers("masks", (40, 30))
    d = f.create_dataset("masked", (40, 30), np.int32, chunks=(10, 30), compression="gzip")
    d[...] = values
    d.id.write_direct_chunk((10, 0), values[10:20].tobytes(), filter_mask=1)


def lzf(f):
    f.create_dataset("data", data=numbers("lzf", (200, 300)), chunks=(20, 30), compression="lzf")


def szip(f):
    f.create_dataset("data", data=numbers("szip", (200, 320)), chunks=(20, 32), compression="szip",
                     compression_opts=("nn", 16))


def nbit(f):
    dcpl = h5p.create(h5p.DATASET_CREATE)
    dcpl.set_chunk((20, 30))
    dcpl.set_filter(h5z.FILTER_NBIT, h5z.FLAG_MANDATORY, ())
    kind = h5t.STD_I32LE.copy()
    kind.set_precision(20)
    d = h5py.Dataset(h5d.create(f.id, b"data", kind, h5s.create_simple((200, 300)), dcpl))
    d.id.write(h5s.ALL, h5s.ALL, numbers("nbit", (200, 300)))


def big_chunks(f):
    """Larger than any chunk cache, and read in part: HDF5 asks for rows of one chunk."""
    f.create_dataset("plain", data=numbers("big", (1200, 1000)), chunks=(600, 1000))
    f.create_dataset("zipped", data=numbers("big", (1200, 1000)), chunks=(600, 1000), **ZIP)


def unallocated(f):
    d = f.create_dataset("sparse", (200, 300), np.int32, chunks=(20, 30), maxshape=(None, None), fillvalue=-7)
    d[40:60, 60:90] = numbers("fill", (20, 30))
    f.create_dataset("never_written", (50, 60), np.float64, chunks=(10, 10), fillvalue=2.5)
    f.create_dataset("contiguous_never_written", (50, 60), np.float64, fillvalue=1.5)
    d = f.create_dataset("sparse_zipped", (200, 300), np.int32, chunks=(20, 30), fillvalue=9, **ZIP)
    d[::100, ::100] = 3


def empty(f):
    f["null"] = h5py.Empty("f8")
    f.create_dataset("no_rows", (0, 5), np.int32, maxshape=(None, 5), chunks=(4, 5))
    f.create_dataset("no_elements", (0,), np.float32)
    f.create_group("nobody").attrs["null"] = h5py.Empty("S10")


def swmr(path):
    with h5py.File(path, "w", libver="latest") as f:
        d = f.create_dataset("data", (0, 30), np.int32, maxshape=(None, 30), chunks=(4, 30))
        f.swmr_mode = True
        for i in range(25):
            d.resize((4 * (i + 1), 30))
            d[4 * i:] = numbers(f"swmr{i}", (4, 30))
            d.flush()


# --- types ------------------------------------------------------------------------------------------

def vlen(f):
    rng = rng_of("vlen")
    words = ["α" * int(n) + "word" * int(n % 7) for n in rng.integers(0, 60, 3000)]
    f.create_dataset("strings", data=words, dtype=h5py.string_dtype())
    f.create_dataset("ascii_chunked", data=[w.replace("α", "a").encode() for w in words],
                     dtype=h5py.string_dtype("ascii"), chunks=(100,), compression="gzip")
    for name, extra in (("arrays", {}), ("arrays_chunked", {"chunks": (50,)})):
        d = f.create_dataset(name, (1000,), h5py.vlen_dtype(np.int32), **extra)
        for i, n in enumerate(rng.integers(0, 40, 1000)):
            d[i] = rng.integers(0, 99, int(n))
    f["one"] = "a single string"
    f.create_dataset("unset", (10,), h5py.string_dtype())


def compound(f):
    inner = np.dtype([("x", "<f4"), ("y", ">f8")])
    kind = np.dtype([("id", "<u8"), ("name", "S12"), ("pair", inner), ("grid", "<i2", (3, 4)), ("flag", "?")])
    rows = np.zeros(2000, kind)
    rng = rng_of("compound")
    rows["id"] = np.arange(2000)
    rows["name"] = [f"row {i}".encode() for i in range(2000)]
    rows["pair"]["x"], rows["pair"]["y"] = rng.random(2000), rng.random(2000)
    rows["grid"] = rng.integers(0, 99, (2000, 3, 4))
    f["table"] = rows
    f.create_dataset("chunked", data=rows, chunks=(100,), **ZIP)
    text = np.dtype([("n", "<i4"), ("text", h5py.string_dtype())])
    f.create_dataset("with_strings", data=np.array([(i, "t" * (i % 50)) for i in range(500)], dtype=text))


def big_endian(f):
    for kind in (">i2", ">u4", ">i8", ">f4", ">f8"):
        f[f"be_{kind[1:]}"] = numbers(kind, (30, 40), kind)


def other_types(f):
    for kind in ("i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16", "?"):
        f[f"kind_{kind.replace('?', 'bool')}"] = numbers(kind, (30, 40)).astype(kind)
    f.create_dataset("enum", data=numbers("enum", 200) % 3, dtype=h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}))
    f.create_dataset("array", (20,), np.dtype(("<i4", (2, 3))))[...] = numbers("array", (20, 2, 3), "<i4")
    f["fixed_strings"] = np.array([b"abc", b"defgh", b""], "S5")
    f["opaque"] = numbers("opaque", 30).astype("V4")


def references(f):
    f["a/data"] = numbers("ref", (40, 50))
    f["b"] = numbers("ref2", 10)
    d = f.create_dataset("objects", (3,), h5py.ref_dtype)
    d[0], d[1] = f["a/data"].ref, f["a"].ref
    r = f.create_dataset("regions", (3,), h5py.regionref_dtype)
    r[0], r[1] = f["a/data"].regionref[3:9, 10:20], f["b"].regionref[::2]
    f["b"].attrs["points_to"] = f["a/data"].ref
    f["b"].dims[0].label = "x"
    f["scale"] = np.arange(10.0)
    f["scale"].make_scale("x")
    f["b"].dims[0].attach_scale(f["scale"])


def committed(f):
    f["kinds/point"] = np.dtype([("x", "<f8"), ("y", "<f8")])
    f["kinds/point"].attrs["meaning"] = "a place"
    f.create_dataset("points", (100,), f["kinds/point"])[...] = np.ones(100, [("x", "<f8"), ("y", "<f8")])
    f.attrs.create("origin", np.zeros((), [("x", "<f8"), ("y", "<f8")]), dtype=f["kinds/point"])


# --- groups, attributes and links -------------------------------------------------------------------

def dense_attributes(f):
    d = f.create_dataset("data", data=numbers("attrs", 20))
    for i in range(40):                                      # more than 8: fractal heap and B-tree v2
        d.attrs[f"attribute{i:02d}"] = numbers(f"attr{i}", 10 + i)
    d.attrs["long"] = numbers("long", 30000)                 # more than 64 KiB
    d.attrs["strings"] = [f"text {i}" for i in range(100)]
    f.attrs["few"] = "compact"


def groups(f):
    f.create_group("empty")
    for i in range(5):
        f.create_group(f"few/g{i}").attrs["i"] = i
    for i in range(60):
        f[f"many/name{i:03d}"] = np.int32(i)
    f.create_group("/".join("deep" for _ in range(40)))["bottom"] = 1


def thousands(f):
    """Old: a B-tree of three levels over the symbol tables; new: a B-tree of three levels over a fractal heap."""
    g = f.create_group("members")
    for i in range(4000 if f.libver[0] == "earliest" else 1000):
        g.create_dataset(f"member{i:05d}", data=np.int32(i))


def creation_order(f):
    g = f.create_group("ordered", track_order=True)
    for name in "zebra apple mango".split() + [f"n{i}" for i in range(30, 0, -1)]:
        g[name] = len(name)
        g.attrs[name] = len(name)


def links(f):
    f["real/data"] = numbers("links", (20, 30))
    f["hard"] = f["real/data"]
    f["real/loop"] = f["real"]
    f["soft"] = h5py.SoftLink("/real/data")
    f["real/soft_relative"] = h5py.SoftLink("data")
    f["dangling"] = h5py.SoftLink("/nowhere")


def tree(f):
    fill_tree(f, 300, "layouts")


# --- several files ----------------------------------------------------------------------------------

def external_links(out):
    (out / "sub").mkdir(exist_ok=True)
    with h5py.File(out / "sub" / "target.h5", "w") as f:
        f["group/data"] = numbers("target", (30, 40))
        f["beside"] = h5py.ExternalLink("beside.h5", "/data")         # relative to sub/
    with h5py.File(out / "sub" / "beside.h5", "w") as f:
        f["data"] = numbers("beside", 50)
    with h5py.File(out / "external_links.h5", "w") as f:
        f["same_directory"] = h5py.ExternalLink("contiguous.h5", "/data")
        f["sub_directory"] = h5py.ExternalLink("sub/target.h5", "/group")
        f["two_steps"] = h5py.ExternalLink("sub/target.h5", "/beside")
        f["no_file"] = h5py.ExternalLink("nowhere.h5", "/data")
        f["no_object"] = h5py.ExternalLink("contiguous.h5", "/nowhere")


def virtual(out):
    """Mappings onto files beside, in a sub-directory, one that is missing, and the file itself."""
    for where in ("vds_source", "sub/vds_source"):
        for i in range(4):
            with h5py.File(out / f"{where}{i}.h5", "w") as f:
                f.create_dataset("data", data=numbers(f"{where}{i}", (25, 100)), chunks=(5, 100) if i % 2 else None)
        layout = h5py.VirtualLayout((5, 25, 100), np.int32)
        for i in range(4):
            layout[i] = h5py.VirtualSource(f"{where}{i}.h5", "data", (25, 100))
        layout[4] = h5py.VirtualSource(f"{where}_missing.h5", "data", (25, 100))
        with h5py.File(out / f"virtual_{'sub' if '/' in where else 'same'}.h5", "w", libver="latest") as f:
            f.create_virtual_dataset("data", layout, fillvalue=-1)
    with h5py.File(out / "virtual_own.h5", "w", libver="latest") as f:
        f["source"] = numbers("own", (10, 20))
        layout = h5py.VirtualLayout((20, 10), np.int32)
        for i in range(10):
            layout[2 * i] = h5py.VirtualSource(".", "source", (10, 20))[i, :10]
        f.create_virtual_dataset("data", layout, fillvalue=-2)


# --- all of them ------------------------------------------------------------------------------------

# function -> what h5py.File gets beside the defaults; a list writes one file for each entry
LATEST, EARLIEST = {"libver": "latest"}, {"libver": "earliest"}
BOTH = {"old": EARLIEST, "new": LATEST}
FILES = {
    contiguous: {"": {}, "user_block_512": {"userblock_size": 512}, "user_block_4096": {"userblock_size": 4096},
                 "user_block_512_new": {"userblock_size": 512, **LATEST}},
    compact: {"": {}}, fletcher32: {"": {}}, scale_offset: {"": {}}, mixture: BOTH, lzf: {"": {}}, nbit: {"": {}},
    big_chunks: BOTH, unallocated: BOTH, empty: {"": {}}, vlen: BOTH, compound: {"": {}}, big_endian: {"": {}},
    other_types: {"": {}}, references: BOTH, committed: BOTH, dense_attributes: {"": LATEST}, groups: BOTH,
    thousands: BOTH, creation_order: {"": LATEST}, links: BOTH,
    tree: {"earliest": EARLIEST, "v108": {"libver": ("earliest", "v108")}, "v110": {"libver": ("v110", "v110")},
           "latest": LATEST,
           "paged_4096": {"fs_strategy": "page", "fs_page_size": 4096, "fs_persist": True},
           "paged_65536": {"fs_strategy": "page", "fs_page_size": 65536, **LATEST}},
}


def has_szip():
    return h5z.filter_avail(h5z.FILTER_SZIP) and \
        h5z.get_filter_info(h5z.FILTER_SZIP) & h5z.FILTER_CONFIG_ENCODE_ENABLED


def write(out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for name in INDEXES:
        indexed(out / f"chunks_{name}.h5", name, False)
        if name != "implicit":
            indexed(out / f"chunks_{name}_gzip.h5", name, True)
    for make, variants in {**FILES, **({szip: {"": {}}} if has_szip() else {})}.items():
        for suffix, how in variants.items():
            with h5py.File(out / f"{make.__name__}{'_' if suffix else ''}{suffix}.h5", "w", **how) as f:
                make(f)
    swmr(out / "swmr.h5")
    external_links(out)
    virtual(out)
