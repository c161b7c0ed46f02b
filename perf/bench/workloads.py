"""The workloads: which file, which calls, and by which clients.

A workload's name begins with its family (W1, W2, …), by which it is chosen.
"""
import dataclasses

from . import data

BLOCK = 10240               # a small read
IMAGES = f"1,{data.SIDE},{data.SIDE}"
ORDERED = 512               # pieces of T1
LATE_S = 0.3                # a process that is begun by hand or by a script after another, while that one streams
ROWS = 16                   # of an image, 64 KiB
SLAB = f"8,{data.CHUNK[1]},{data.SIDE}"     # across chunks: a band of eight images


@dataclasses.dataclass
class Workload:
    name: str
    what: str
    recipe: tuple                       # of the file that it reads
    words: tuple                        # for the client; {offsets} is a file made of |offsets|
    clients: tuple = ("C",)             # C, h5py
    offsets: tuple = ()                 # data.offsets' n, length, size, order
    raw: bool = False                   # measure the raw limit of its file; others that read it share that
    warm: bool = False                  # measure a second process over the first one's shadow too
    span: str = "work"                  # work: from before H5Fopen to after H5Fclose;
                                        # start: from the process's start to the last byte read
    bulk: bool = False                  # bytes per second is the figure, not seconds
    traced: bool = False                # draw a time line
    packed: bool = False                # unpacking takes its time: measure the local read beside a transfer too
    extra: bool = False                 # runs only when named
    processes: tuple = ()               # C clients at once, for each of these numbers
    share: bool = False                 # each of them has its part, else each has all
    apart: float = 0                    # seconds by which each of them begins after the one before
    ranks: tuple = ()                   # of one MPI program, for each of these numbers
    names: tuple = ()                   # {names} is a file made of |names|: data.names' n, of
    places: tuple = ()                  # {places} is a file of these: where pieces begin
    beside: tuple = ()                  # {beside} is a file of these names
    known: bool = False                 # the server is known: the process before read another file there
    logged: bool = False                # keep the lines of the server's log, and count its handshakes
    variants: tuple = ()                # xhdf5 with other options, always
    serial: bool = False                # measure the same reads by curl, one after another
    twins: bool = False                 # also from two servers at once, each behind a link of its own


def images(n, name=None):
    """W1 over so many images."""
    return Workload(name or f"W1-{n}", f"{n} contiguous images, one by one", ("images", n),
                    ("slabs", "images", IMAGES), ("C", "h5py"),
                    raw=True, bulk=True)


def table(p):
    """All workloads for the sizes |p|: images, chunked_images, small_reads, scalla, datasets, parallel_images, processes,
    ranks, sparse_chunks, sources, source_bytes, cube, samples, draws, small_files."""
    both = ("C", "h5py")
    many = 25000 * BLOCK                # 256 MB
    t = [dataclasses.replace(images(p.images, "W1"), traced=True), *(images(more) for more in p.more_images)]
    for index in ("btree1", "implicit", "farray", "earray", "btree2"):
        for how in ("none", "gzip"):
            if (index, how) == ("implicit", "gzip"):
                continue                # HDF5 has no such index
            recipe = ("chunked", index, how, p.chunked_images)
            for shape, block in (("images", IMAGES), ("slabs", SLAB)):
                quick = (index, how, shape) in (("btree1", "none", "images"), ("btree1", "gzip", "images"),
                                                ("earray", "gzip", "slabs"))
                t.append(Workload(f"W2-{index}-{how}-{shape}",
                                  f"{p.chunked_images} chunked images, {index}, filter {how}, by {shape}", recipe,
                                  ("slabs", "images", block), raw=shape == "images" or p.quick, bulk=True,
                                  traced=how == "gzip", packed=how == "gzip", extra=p.quick and not quick))
    small = (p.small_reads, BLOCK, many, "random")
    for how in ("one", "select", "multi", "hint"):
        t.append(Workload(f"W3-{how}", f"{p.small_reads} random reads of 10 KB, " + {
            "one": "one after another", "select": "known: one selection", "multi": "known: H5Dread_multi",
            "hint": "known: H5Dxhdf5_prefetch, then one after another"}[how],
            ("bytes", many), ("blocks", "bytes", BLOCK, "{offsets}", how), offsets=small,
            clients=both if how == "one" and not p.quick else ("C",), serial=how == "one",
            extra=p.quick and how == "multi", traced=how in ("select", "hint")))
    size = 25000 * p.scalla
    t.append(Workload("W3-scalla-file", f"{size // 1000000} MB in {p.scalla} reads in order (Scalla paper)",
                      ("bytes", size), ("blocks", "bytes", 25000, "{offsets}", "one"), raw=not p.quick, bulk=True,
                      offsets=(p.scalla, 25000, size, "sequential")))
    wide = BLOCK * 5 * p.scalla * 2
    for how in ("select", "hint"):
        t.append(Workload(f"W3-scalla-reads-{how}",
                          f"{5 * p.scalla} random reads of 10 KB, known (Scalla paper): {how}",
                          ("bytes", wide), ("blocks", "bytes", BLOCK, "{offsets}", how),
                          offsets=(5 * p.scalla, BLOCK, wide, "random")))
    t.append(Workload("W3-scalla-reads-one", "of those reads, one after another: the first 200, to be multiplied",
                      ("bytes", wide), ("blocks", "bytes", BLOCK, "{offsets}", "one"), extra=p.quick,
                      offsets=(200, BLOCK, wide, "random")))
    t.append(Workload("W4", f"metadata: a walk of {p.datasets} datasets with attributes", ("tree", p.datasets),
                      ("walk",), both, raw=True, warm=True, traced=True))
    t.append(Workload("W4b", "the same metadata in a file ten times as large", ("spread", p.datasets), ("walk",),
                      ("C",) if p.quick else both, warm=True))
    t.append(Workload("W5", "process start to the first 10 KB", ("bytes", many),
                      ("blocks", "bytes", BLOCK, "{offsets}", "one"), both, offsets=(1, BLOCK, many, "random"),
                      warm=True, span="start"))
    for name, megabytes, recipe in (("W4-4M", 4, ("tree", 5240)), ("W4-10M", 10, ("tree", 13100)),
                                    ("W4-40M", 40, ("spread", 13100, 4))):
        t.append(Workload(name, f"metadata: a walk of {recipe[1]} datasets in a file of {megabytes} MB", recipe,
                          ("walk",), both,
                          raw=True, extra=True))
    t.append(Workload("S1", f"one of {p.images} images, then close", ("images", p.images),
                      ("pieces", "images", IMAGES, "{places}", "one"),
                      both, places=((p.images // 2, 0, 0),), serial=True, extra=True))
    half, at = p.images // 2, [(i, r, 0) for i in range(p.images) for r in range(0, data.SIDE, ROWS)][:ORDERED]
    far = [(half + i, r, 0) for i, r, _ in at]
    for name, what, places in (("rows", "in order", at), ("turns", "from the beginning and from the middle, in turns",
                                                         [place for pair in zip(at, far) for place in pair]),
                               ("twice", "in order, each twice", [place for place in at for _ in range(2)])):
        t.append(Workload(f"T1-{name}", f"{len(places)} pieces of 64 KiB of {p.images} images, {what}",
                          ("images", p.images), ("pieces", "images", f"1,{ROWS},{data.SIDE}", "{places}", "one"), both,
                          places=tuple(places), serial=True, extra=True))
    t.append(Workload("T1-threads", f"{len(at)} pieces of 64 KiB of {p.images} images, by four threads",
                      ("images", p.images), ("pieces", "images", f"1,{ROWS},{data.SIDE}", "{places}", "threads"),
                      ("h5py",), places=tuple(at), serial=True, extra=True))
    deep, high, wide = data.CHUNK
    chunks = [(i, r, c) for i in range(0, p.chunked_images, deep) for r in range(0, data.SIDE, high)
              for c in range(0, data.SIDE, wide)]
    t.append(Workload("T1-chunks", f"{len(chunks)} gzip chunks of {p.chunked_images} images, by four threads",
                      ("chunked", "btree1", "gzip", p.chunked_images),
                      ("pieces", "images", f"{deep},{high},{wide}", "{places}", "threads"), ("h5py",),
                      places=tuple(chunks), extra=True))
    n, rows, columns = p.cube
    t.append(Workload("K1", f"three columns d[:, y, x] of a contiguous cube of {n} x {rows} x {columns} uint16",
                      ("cube", n, rows, columns),
                      ("pieces", "cube", f"{n},1,1", "{places}", "one"), both, extra=True,
                      places=tuple((0, rows * i // 4 + 1, columns * i // 5 + 3) for i in (1, 2, 3))))
    for per in (1, 64):
        drawn = data.draws(p.draws, p.samples)
        for how in ("one", "hint"):
            t.append(Workload(f"R1-{per}-{how}",
                              f"{p.draws} random ones of {p.samples} samples of 2 KiB, {per} a chunk, gzip, " + {
                "one": "one after another", "hint": "announced by H5Dxhdf5_prefetch, then one after another"}[how],
                ("samples", p.samples, data.SAMPLE, per), ("pieces", "samples", f"1,{data.SAMPLE},{data.SAMPLE}",
                                                           "{places}", how),
                both if how == "one" else ("C",), places=tuple((i, 0, 0) for i in drawn), serial=how == "one",
                              extra=True))
    t.append(Workload("M1", f"{p.small_files} files of 1.3 MB, one after another: open, an attribute, close",
                      ("many", p.small_files, 1300000),
                      ("each", "{beside}"), extra=True, beside=tuple(data.name_of_many(p.small_files, 1300000, i)
                                                                     for i in range(p.small_files)),
                      variants=("off:readahead=off",)))
    for name, what in (("O1", "at a server that is not known"), ("O1-known",
                                                                 "at a server where another file was read")):
        t.append(Workload(name, f"process start, opening and 12 KB, {what}", ("bytes", many),
                          ("blocks", "bytes", 12288, "{offsets}", "one"),
                          offsets=(1, 12288, many, "random"), known=name != "O1", logged=True, span="start",
                          extra=True))
    p1 = ("images", p.parallel_images)
    t.append(Workload("P1-slabs", f"{p.parallel_images} contiguous images by several processes, each a slab of them",
                      p1,
                      ("slabs", "images", IMAGES), processes=p.processes, share=True, bulk=True, raw=True, extra=True))
    t.append(Workload("P1-all", f"{p.parallel_images} contiguous images by several processes, each all of them (XHDF5 paper)", p1,
                      ("slabs", "images", IMAGES), processes=p.processes, bulk=True, extra=True))
    t.append(Workload("P1-late", f"{p.parallel_images} contiguous images by two processes, each all of them, the "
                      f"second {LATE_S:g} s after the first", p1, ("slabs", "images", IMAGES), processes=(1, 2),
                      apart=LATE_S, bulk=True, extra=True))
    t.append(Workload("P2", f"{p.datasets // 4} of {p.datasets} datasets in random order (Mig-drive)",
                      ("spread", p.datasets),
                      ("pick", "{names}"), names=(p.datasets // 4, p.datasets), warm=True,
                      variants=("off:shadow=off,readahead=off",), extra=True))
    t.append(Workload("P2-all", f"{p.datasets // 4} of {p.datasets} datasets in random order by several processes, each all",
                      ("spread", p.datasets), ("pick", "{names}"), names=(p.datasets // 4, p.datasets),
                      processes=p.processes, extra=True))
    t.append(Workload("P3", f"{p.chunked_images} gzip images by the ranks of an MPI program, each a slab of them",
                      ("chunked", "btree1", "gzip", p.chunked_images), ("images", "4"), ranks=p.ranks, raw=True,
                      bulk=True,
                      packed=True, extra=True))
    for name, recipe in (("W4i", "tree"), ("W4bi", "spread")):
        t.append(Workload(name, f"{name[:-1]} with a metadata image beside the file", (recipe, p.datasets, "imaged"),
                          ("walk",),
                          ("C",), raw=True, warm=True, extra=True))
    t.append(Workload("P2i", "P2 with a metadata image beside the file", ("spread", p.datasets, "imaged"),
                      ("pick", "{names}"),
                      names=(p.datasets // 4, p.datasets), warm=True, extra=True,
                      variants=("off:shadow=off,readahead=off,sidecar=off",)))
    chunk = 352256                      # 300,000 of them are 106 GB
    t.append(Workload("L1i", f"one chunk of {p.sparse_chunks} ({p.sparse_chunks * chunk / 1e9:.0f} GB, sparse), with a metadata image",
                      ("sparse", p.sparse_chunks, chunk, "imaged"), ("blocks", "bytes", chunk, "{offsets}", "one"),
                      warm=True,
                      offsets=(1, chunk, p.sparse_chunks * chunk, "random"), extra=True,
                      variants=("plain:sidecar=off",)))
    t.append(Workload("C1", f"{p.images} images of Poisson noise, one by one, with a compressed body",
                      ("poisson", p.images, "bodied"), ("slabs", "images", IMAGES), raw=True, bulk=True, extra=True,
                      variants=("plain:sidecar=off",)))
    for how, what, rows in (("one", "as one contiguous file", f"{p.sources * 128},4096"),
                            ("after", "one after another", f"{p.sources * 128},4096"),
                            ("beside", "side by side", f"128,{p.sources * 4096}")):
        t.append(Workload(f"V1-{how}", f"a virtual dataset over {p.sources} sources of {p.source_bytes >> 20} MiB, {what}",
                          ("virtual", how, p.sources, p.source_bytes), ("slabs", "x", rows), bulk=True,
                          raw=how == "one", extra=True))
    for name, what, recipe in (("E1", "contiguous", ("images", p.images)),
                               ("E2", "gzip-chunked", ("chunked", "btree1", "gzip", p.images))):
        t.append(Workload(name, f"{p.images} {what} images, one by one, from one endpoint and from two", recipe,
                          ("slabs", "images", IMAGES), bulk=True, extra=True, twins=True))
    return t


def chosen(all_of, names):
    """Those named, or of a named family; without names all but the extra ones."""
    if not names:
        return [w for w in all_of if not w.extra]
    found = [w for w in all_of if w.name in names or
             ((not w.extra or w.name.startswith(("P", "E", "V", "R", "T"))) and any(w.name.startswith(n + "-")
                                                                               for n in names))]
    for n in names:
        if not any(w.name == n or w.name.startswith(n + "-") for w in all_of):
            raise SystemExit(f"run: no workload {n}; there are {' '.join(w.name for w in all_of)}")
    return found
