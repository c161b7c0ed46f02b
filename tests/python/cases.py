"""What the package xhdf5 promises to a Python program: each function is a case, run in a process of its own.

usage: cases.py CASE    with URL and CACERT of a server that has images.h5 (12 images), DATA its directory
"""
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings

URL, DATA = os.environ["URL"], os.environ["DATA"]
OPTIONS = {"ca_bundle": os.environ["CACERT"]}
LOCAL = f"{DATA}/images.h5"


def raises(kind, words, call, *args, **kwds):
    """|call| raises exactly |kind|, and the text has all of |words|."""
    try:
        call(*args, **kwds)
    except Exception as e:
        assert type(e) is kind, f"{type(e).__name__}: {e}"
        assert all(w in str(e) for w in words), str(e)
    else:
        raise AssertionError(f"no {kind.__name__}")


def secret_free(kind, word, call, *args):
    """It raises |kind| with |word| in its text, and without what the names here have as a password or a signature."""
    try:
        call(*args)
    except kind as e:
        assert word in str(e) and "SECRET" not in str(e), e
    else:
        raise AssertionError(f"{args} raised nothing")


def digest(file, images=slice(None)):
    return hashlib.sha256(file["images"][images].tobytes()).hexdigest()


def expected(images=slice(None)):
    import h5py
    with h5py.File(LOCAL, "r", driver="sec2") as f:
        return digest(f, images)


def imported_first():
    """xhdf5 before h5py: the driver is there by its name."""
    import xhdf5  # noqa: F401
    import h5py
    assert "xhdf5" in h5py.registered_drivers()
    with h5py.File(URL, driver="xhdf5", connections=8, **OPTIONS) as f:
        assert digest(f) == expected()
        assert f.filename == URL
    import xhdf5
    with xhdf5.open(URL, driver="xhdf5", **OPTIONS) as f:    # as h5py.File was called before
        assert f.filename == URL
    raises(TypeError, ["opens by the driver xhdf5", "h5py.File(name, driver='core')"], xhdf5.open, URL, driver="core")


def imported_last():
    """xhdf5 after h5py, which has files open already."""
    import h5py
    local = h5py.File(LOCAL, "r")
    import xhdf5
    with xhdf5.open(URL, rdcc_nbytes=1 << 22, **OPTIONS) as f:
        assert digest(f) == digest(local)
    with xhdf5.open(f"{DATA}/made.h5", "w") as f:  # any other name is a local file
        f["x"] = 7
    with h5py.File(f"{DATA}/made.h5") as f:
        assert f["x"][()] == 7


def options():
    """Each option by its name and type; what is none is named."""
    import pathlib

    import h5py
    import xhdf5
    table = (pathlib.Path(__file__).resolve().parents[2] / "cache/base/options.def").read_text()
    rows = re.findall(r'^X\((\w+),\s*(\w+),\s*"?([^",]*)"?,\s*(\d+),\s*(\d+),', table, re.M)
    rows = [(kind, name, default.split("|")[0], low, high) for kind, name, default, low, high in rows]
    assert [(o.type, n, str(o.default), str(o.min), str(o.max)) for n, o in xhdf5.OPTIONS.items()] == rows
    raises(TypeError, ["conections", "h5py.File nor", "'connections'"], h5py.File, URL, driver="xhdf5", conections=8)
    raises(TypeError, ["'cache_dir'", "did you mean 'disk_cache_dir'"], xhdf5.open, URL, cache_dir="/x")
    raises(TypeError, ["'headers'", "no header can be set", "BEARER_TOKEN_FILE"], xhdf5.open, URL, headers={"a": "b"})
    raises(TypeError, ["did you mean 'aws_access_key_id'"], h5py.File, URL, driver="xhdf5", secret_id=b"k")
    raises(TypeError, ["connections", "not str"], xhdf5.open, URL, connections="8")
    raises(TypeError, ["connections", "not bool"], xhdf5.open, URL, connections=True)
    raises(ValueError, ["from 0 to 64, not 65"], xhdf5.open, URL, connections=65)
    raises(ValueError, ["from 0 to 64, not -1"], xhdf5.open, URL, connections=-1)
    raises(TypeError, ["True or False", "'on' or 'off'", "'never'"], xhdf5.open, URL, readahead="never")
    raises(ValueError, ["'1x'"], xhdf5.open, URL, part_bytes="1x")
    raises(ValueError, ["quotation mark"], xhdf5.open, URL, log='"')
    raises(ValueError, ["sidecar is one of 'auto', 'off', 'require', 'body', not 'of'"], xhdf5.open, URL, sidecar="of")
    raises(TypeError, ["one of 'auto', 'off'", "not False"], xhdf5.open, URL, sidecar=False)
    raises(TypeError, ["did you mean 'shadow'"], xhdf5.open, URL, cache=False)
    raises(TypeError, ["'proxies'", "https_proxy"], xhdf5.open, URL, proxies={})
    raises(ValueError, ["at most 1000 bytes"], xhdf5.open, URL, ca_bundle="/" + "x" * 1000)
    kinds = {"BOOL": bool, "INT": int, "SIZE": int, "STR": str, "WORD": str}
    defaults = {name: kinds[o.type](o.default) for name, o in xhdf5.OPTIONS.items()}
    defaults["ca_bundle"] = pathlib.Path(OPTIONS["ca_bundle"])
    with xhdf5.open(URL, **defaults) as f:  # all at once, as the table has them
        assert digest(f) == expected()
    with xhdf5.open(URL, part_bytes="64k", readahead_bytes="1M", shadow="off", stats="OFF", log=None, **OPTIONS) as f:
        assert digest(f) == expected()


def configured():
    """HDF5_DRIVER_CONFIG in the environment holds whichever way a file is opened, if HDF5_DRIVER names no other driver;
    keywords are stronger."""
    import h5py
    import xhdf5
    doors = {"driver=": lambda **o: h5py.File(URL, driver="xhdf5", **o), "open": lambda **o: xhdf5.open(URL, **o),
             "file": lambda **o: xhdf5.file(URL, **o), "warm": lambda **o: xhdf5.warm([URL], **o)}
    for name, door in doors.items():
        os.environ["HDF5_DRIVER_CONFIG"] = "ca_bundle=/no/such.pem"
        raises(OSError, ["/no/such.pem"], door)
        door(**OPTIONS)
        os.environ["HDF5_DRIVER_CONFIG"] = f"ca_bundle={OPTIONS['ca_bundle']}"
        door(retries=2)
    os.environ["HDF5_DRIVER_CONFIG"] = "conections=4"
    raises(OSError, ["conections", "nearest known one is connections", "HDF5_DRIVER_CONFIG"], doors["open"], **OPTIONS)
    xhdf5.enable()
    raises(OSError, ["conections"], h5py.File, URL)
    xhdf5.disable()
    os.environ["HDF5_DRIVER"] = "sec2"
    for door in doors.values():
        door(**OPTIONS)


def errors():
    """What fails raises what Python has for it, with the server's reason."""
    import h5py
    import xhdf5
    raises(FileNotFoundError, ["404", "no such file on the server"], xhdf5.open, f"{URL}.none", **OPTIONS)
    raises(FileNotFoundError, ["No such file"], xhdf5.open, f"{DATA}/none.h5")
    private = URL.replace("images.h5", "private/images.h5")
    raises(PermissionError, ["401"], xhdf5.open, private, **OPTIONS)
    raises(OSError, ["certificate"], xhdf5.open, URL)
    raises(OSError, ["read-only"], xhdf5.open, URL, "r+", **OPTIONS)
    raises(TypeError, ["Dataset"], xhdf5.prefetch, "images")
    raises(TypeError, ["h5py.File"], xhdf5.stats, 5)
    with xhdf5.open(LOCAL) as f:
        raises(ValueError, ["not read over the network"], xhdf5.stats, f)
        xhdf5.prefetch(f["images"], 3)  # harmless
    raises(ValueError, ["closed"], xhdf5.stats, f)
    with xhdf5.open(URL, **OPTIONS) as f:
        raises(IndexError, ["out of range"], xhdf5.prefetch, f["images"], 12)
        raises(TypeError, [], xhdf5.prefetch, f["images"], {})
        raises(ValueError, ["has none"], xhdf5.prefetch, f["images"], "energy")
    os.environ["XHDF5_CA_BUNDLE"] = OPTIONS["ca_bundle"]
    xhdf5.enable()
    raises(PermissionError, ["401"], h5py.is_hdf5, private)    # that is no word on the file


def prefetch():
    """What was hinted is there when it is read, in whatever way it is selected."""
    import numpy as np
    import xhdf5
    with xhdf5.open(URL, readahead=False, shadow=False, **OPTIONS) as f:
        d = f["images"]
        d[11, 0, 0]  # at XRootD the file's first bytes may wait to be proved; from here on nothing does
        start = xhdf5.stats(f)
        xhdf5.prefetch(d, 3)
        xhdf5.prefetch(d, (slice(5, 7), slice(0, 10)))
        xhdf5.prefetch(d, np.s_[8, ..., :5])
        xhdf5.prefetch(d, ([9, 10], 4))
        assert hashlib.sha256(d[3].tobytes()).hexdigest() == expected(3)
        d[5:7, :10], d[8, ..., :5], d[[9, 10], 4]
        s = xhdf5.stats(d)
        # bytes_waited: long pieces come to where they are kept, and may be on their way there
        assert all(s[late] == start[late] for late in ("bytes_demand", "bytes_bypass")) and s["bytes_staged"], s
        every_second = np.arange(12) % 2 == 0    # of the first dimension
        xhdf5.prefetch(d, every_second)
        assert hashlib.sha256(d[every_second].tobytes()).hexdigest() == expected(slice(0, 12, 2))
        xhdf5.prefetch(d)
        assert digest(f) == expected()
    with tempfile.TemporaryDirectory() as there, xhdf5.open(there + "/line.h5", "w") as f:
        f["line"] = np.arange(12)
        xhdf5.prefetch(f["line"], every_second)     # all dimensions that there are
        assert (f["line"][every_second] == np.arange(0, 12, 2)).all()


def picked_chunks():
    """Which chunks h5py's selections touch is known beforehand, of all kinds of selections that pick elements."""
    import h5py
    import numpy as np
    from xhdf5._picks import chunks_of, picks
    rng, found = np.random.default_rng(1), 0
    for shape, chunk in ((40,), (7,)), ((30, 20), (4, 20)), ((9, 8, 7), (2, 3, 7)):
        with h5py.File(f"{shape}", "w", driver="core", backing_store=False) as f:
            across = [-(-n // c) for n, c in zip(shape, chunk)]
            each = np.indices(shape).reshape(len(shape), -1) // np.array(chunk)[:, None]
            d = f.create_dataset("d", data=np.ravel_multi_index(each, across).reshape(shape), chunks=chunk)
            for _ in range(400):
                def one(n):
                    some = np.flatnonzero(rng.random(n) < 0.2)
                    return [some, some.tolist(), some.astype("i1"), rng.random(n) < 0.3, int(rng.integers(n)),
                            slice(None), slice(-5, -1), slice(int(rng.integers(n)), None, int(rng.integers(1, 9)))
                            ][rng.integers(8)]
                args = tuple(map(one, shape))
                args = [args, args[:rng.integers(1, len(shape) + 1)], args[:1] + (Ellipsis,), (Ellipsis,) + args[-1:],
                        args[0], rng.random(shape) < 0.1][rng.integers(6)]
                try:
                    want = np.unique(d[args])
                except (TypeError, ValueError):    # h5py takes no such selection
                    continue
                got = chunks_of(shape, chunk, args)
                if got is not None:
                    assert np.array_equal(np.ravel_multi_index(got.T, across), want), (shape, args)
                    found += picks(args)
            for args in ([3, 99], [-1, 2], [], [[1], [2]], [0.5], np.ones(99, bool), np.ones((3, 3, 3, 3), bool),
                         (0,) * 9):
                assert chunks_of(shape, chunk, args) is None or np.size(args) == 2, args
    assert found > 500, found
    assert chunks_of((1000,), (300,), np.array([5, -1], "i1")).tolist() == [[0], [3]]
    assert chunks_of((0, 5), (2, 2), np.ones((0, 5), bool)) is None
    start, mask = time.process_time(), np.ones((4000, 4000), bool)
    assert len(chunks_of(mask.shape, (100, 100), mask)) == 1600
    assert time.process_time() - start < 5     # 0.03; by a list of what is picked, 40
    assert len(chunks_of((1 << 40, 8), (1, 8), [5, 1 << 39])) == 2
    assert chunks_of((1 << 40, 8), (1, 8), (slice(None), [1])) is None    # too many


def announced_picks():
    """Elements that are picked come at once, in whatever way they are picked: none is asked for when HDF5 comes to it.
    A selection that is wrong says what it says without the driver."""
    import h5py
    import numpy as np
    import xhdf5
    name = f"picks-{os.getpid()}.h5"
    local, rng = f"{DATA}/{name}", np.random.default_rng(2)
    with h5py.File(local, "w") as f:
        for d, more in ("gzip", {"compression": "gzip"}), ("plain", {}), ("large", {"chunks": (2000, 2000)}):
            f.create_dataset(d, data=rng.integers(0, 99, (4000, 2000), "i1"), **{"chunks": (50, 200), **more})
        f.create_dataset("words", data=[f"word {i}" for i in range(9000)], dtype=h5py.string_dtype(), chunks=(300,))
    mask, out = np.arange(4000) % 83 == 5, np.zeros((4, 2000), "i1")
    selections = ([7, 900, 2500, 3999], mask, (mask, 7), (slice(3), [1, 1500]), np.s_[..., [0, 700, 1999]],
                  np.outer(mask, np.arange(2000) == 9), (np.array([1, 3000]), slice(0, 2000, 500)))
    with xhdf5.open(URL.replace("images.h5", name), readahead=False, shadow=False, **OPTIONS) as f, \
            h5py.File(local, driver="sec2") as there:
        for d in "gzip", "plain":
            f[d][0, 0], f[d][3999, 1999]    # the index; and at XRootD the file's first bytes may wait to be proved
            for wanted in selections:
                f[d].id.get_num_chunks()
                start = xhdf5.stats(f)
                assert np.array_equal(f[d][wanted], there[d][wanted]), (d, wanted)
                s = xhdf5.stats(f)
                late = sum(s[n] - start[n] for n in ("bytes_demand", "bytes_bypass"))
                # One by one it would be 40 and more; over how many connections they come depends on their speed.
                assert late == 0 and s["requests"] - start["requests"] <= 16, (d, wanted, late, start, s)
            f[d].read_direct(out, np.s_[[5, 6, 2000, 3500]])
            assert np.array_equal(out, there[d][[5, 6, 2000, 3500]])
        assert np.array_equal(f["large"][[5, 2500]], there["large"][[5, 2500]])
        assert (f["words"].asstr()[[1, 8000]] == ["word 1", "word 8000"]).all()
        for wrong in [3, 9999], np.ones(5, bool), [3, 2], ([1], [2], [3]), [[1, 2], [3, 4]]:
            said = []
            for file in f, there:
                try:
                    file["gzip"][wrong]
                except Exception as e:
                    said.append((type(e), str(e)))
                else:
                    said.append(None)
            assert said[0] == said[1], said
        start = xhdf5.stats(f)
        assert there["gzip"][mask].sum() and xhdf5.stats(f) == start    # a local file is read as ever


def forked_beside(lock, works):
    """A child of fork does |works|, though another thread had |lock| at the fork."""
    held, forked = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            forked.wait()
    threading.Thread(target=hold).start()
    held.wait()
    with warnings.catch_warnings():    # Python's, of a fork beside threads
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            works()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    forked.set()
    assert os.waitpid(child, 0)[1] == 0, "a child of fork waits for a thread that it has not"


def latin(name, written=None):
    """The URL of another name of the file, which is not UTF-8; it is |written| so, as it is."""
    there = os.path.dirname(LOCAL).encode() + b"/" + name
    if not os.path.exists(there):
        os.link(LOCAL, there)
    return URL.rsplit("/", 1)[0].encode() + b"/" + (written or name)


def bytes_file():
    """A file as bytes: Python's file interface, pieces together, threads, errors; also what h5py makes of it."""
    import io
    import pickle

    import h5py
    import numpy as np
    import xhdf5
    right = pathlib.Path(LOCAL).read_bytes()
    with xhdf5.file(URL, **OPTIONS) as f:
        assert f.size == len(right) and f.readable() and f.seekable() and not f.writable() and f.name == URL
        assert f.read(100) == right[:100] and f.tell() == 100
        assert f.seek(-7, io.SEEK_END) == len(right) - 7 and f.read(100) == right[-7:] and f.read(5) == b""
        assert f.seek(len(right) + 9) and f.read(4) == b"" and f.readinto(bytearray(3)) == 0
        f.seek(1000)
        buffer = bytearray(5000)
        assert f.readinto(memoryview(buffer)[10:]) == 4990 and buffer[10:] == right[1000:5990] and f.tell() == 5990
        assert f.read_ranges([len(right) - 3, 70000, 5, 9], [10, 300000, 0, 1]) == [
            right[-3:], right[70000:370000], b"", right[9:10]]
        f.seek(8)
        for kind in ">i4", "i1,>f8", "S3":  # as open() does, whatever the type
            array = np.empty((4, 2), kind)
            at = f.tell()
            assert f.readinto(array) == array.nbytes and array.tobytes() == right[at:f.tell()], kind
        assert f.readinto(np.empty((3, 0))) == f.readinto(bytearray()) == 0 and f.tell() == at + array.nbytes
        for none in b"abc", b"", np.empty(9)[::2], None:    # not writable, with gaps, no buffer
            raises(TypeError, [], f.readinto, none)
        raises(io.UnsupportedOperation, ["docs/writing.md"], f.write, b"x")
        raises(io.UnsupportedOperation, ["docs/writing.md"], f.writelines, [b"x"])
        raises(io.UnsupportedOperation, ["truncate"], f.truncate, 3)
        f.seek(5990)
        again = pickle.loads(pickle.dumps(f))
        assert again.tell() == 5990 and again.read(10) == right[5990:6000]
        again.close()
        found = {}
        threads = [threading.Thread(target=lambda i=i: found.update({i: f.read_at(i * 100000, 100000)})) for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert all(found[i] == right[i * 100000:(i + 1) * 100000] for i in range(20))
        with h5py.File(f, "r") as h:
            assert digest(h) == expected()
        assert io.BufferedReader(f, 65536).read() is not None
    raises(ValueError, ["closed"], f.read, 3)
    raises(ValueError, ["closed"], f.write, b"x")
    f.close()
    secret = URL.replace("://", "://me:SECRET@") + "?sig=SECRET/SECRET"
    with xhdf5.file(secret, **OPTIONS) as f:
        assert "SECRET" not in repr(f) and URL in repr(f), repr(f)
    with xhdf5.open(secret, **OPTIONS) as f:
        assert repr(f) == f'<HDF5 file "{os.path.basename(URL)}" (mode r)>', repr(f)
    assert repr(f) == "<Closed HDF5 file>", repr(f)
    with h5py.File(LOCAL) as f:
        assert repr(f) == f'<HDF5 file "{os.path.basename(LOCAL)}" (mode r)>', repr(f)
    for name in (" https://me:SECRET@host/x.h5?sig=SECRET", "https//me:SECRET@host/x.h5",
                 "htps://me:SECRET@host/x?SECRET",
                 b"\x20https://me:SECRET@host/\xe9.h5", pathlib.Path("https://me:SECRET@host/x.h5")):
        secret_free(ValueError, "no URL", xhdf5.file, name)
    for name in ("https://me:pa/SECRET@host/x.h5", "https://me:pa?SECRET@host/x.h5",
                 "https://me@m.org:a#SECRET@h/x.h5", "https://me:123456/SECRET@host/x.h5"):
        secret_free(OSError, "%2F %3F %23", xhdf5.file, name)
        secret_free(OSError, "%2F %3F %23", xhdf5.open, name)
        secret_free(ValueError, "no URL", xhdf5.file, name.replace("//", "/", 1))
    for chain, word in ("xhdf5::", "write the URL alone"), ("a::b::", "write the URL alone"), ("a::q", "No such file"):
        for name in "https://me:SECRET@host/x.h5?SECRET", "https://me:SEC/SECRET@host/x.h5":    # fsspec's chains
            secret_free(FileNotFoundError, word, xhdf5.open, chain + name)
            secret_free(ValueError, "no URL", xhdf5.file, chain + name)
    from xhdf5._default import shown
    for name in ("https://me:1/SECRET@host/x.h5", "https://me:1?SECRET@host/x.h5", "https://me:a/SECRET@h/x?s=SECRET@b",
                 "https://me:SECRET", "https:///me:SECRET@h/x.h5", "https://SEC+SECRET/a@h/x.h5",
                 "https://h/d/https://me:SECRET@h2/x.h5", "https://h/x.h5%3FX-Amz-Signature=SECRET"):
        assert "SECRET" not in shown(name) and "SECRET" not in shown(name.replace("//", "/", 1)), shown(name)
    for name in ("https://h:8443/a@b.h5", "https://h/me@site/x.h5", "https://[::1]:84/a@b/x.h5", "https://h/a%3Fb.h5"):
        assert shown(name) == repr(name), shown(name)
    with xhdf5.file(latin(b"\xe9 +%.h5", b"\xe9 +%25.h5"), **OPTIONS) as f:
        assert f.read(100) == right[:100] and pickle.loads(pickle.dumps(f)).read_at(0, 9) == right[:9]
    with xhdf5.file(URL, shadow=False, **OPTIONS) as f:  # closed while others read: they have their bytes, or an error
        def one(i):
            try:
                assert f.read_at(i * 200000, 200000) == right[i * 200000:(i + 1) * 200000]
            except ValueError:
                pass
        threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
        for t in threads:
            t.start()
        f.close()
        for t in threads:
            t.join()
    with xhdf5.file(URL, **OPTIONS) as f:
        def read_and_close():
            assert f.read_at(5, 100) == right[5:105]
            f.close()
        forked_beside(f._lock, read_and_close)
        assert f.read_at(500000, 9) == right[500000:500009]
    raises(FileNotFoundError, ["404"], xhdf5.file, URL + ".none", **OPTIONS)
    raises(OSError, ["certificate"], xhdf5.file, URL)
    raises(ValueError, ["no URL", "Python's open()"], xhdf5.file, LOCAL)
    raises(ValueError, ["two slashes", f"write {URL}"], xhdf5.file, pathlib.Path(URL))
    raises(ValueError, ["begins with a blank"], xhdf5.file, f" {URL}")
    raises(ValueError, ["XRootD servers serve the same paths over https"], xhdf5.file, "root://host//x.h5")
    raises(TypeError, ["'conections' is no option of the driver"], xhdf5.file, URL, conections=3)
    raises(TypeError, ["'mode' is no option of the driver"], xhdf5.file, URL, mode="rb")
    with xhdf5.file(URL, **OPTIONS) as f:
        raises(ValueError, ["as many sizes"], f.read_ranges, [1], [])
        raises(ValueError, ["no position"], f.seek, -1)
        raises(TypeError, ["float"], f.seek, 1.5)
    raises(ValueError, ["null byte"], xhdf5.open, URL + "\0.h5", **OPTIONS)


def picked_of_written():
    """A file that is written has nothing announced: HDF5 would write its chunks for that, again and again."""
    import numpy as np
    import xhdf5
    url, rng = f"{os.environ['WRITE']}/{os.getpid()}-picks.h5", np.random.default_rng(3)
    with xhdf5.open(url, "w", writable=True, **OPTIONS) as f:
        d = f.create_dataset("d", data=rng.integers(0, 99, 20000), chunks=(1000,), compression="gzip")
        f.flush()
        before = xhdf5.stats(f)["bytes_written"]
        for i in range(50):
            d[i] = i
            assert d[[i, 1500]][0] == i
            xhdf5.prefetch(d, i)
        assert xhdf5.stats(f)["bytes_written"] == before


EXPECTING = """
import os, sys, h5py, xhdf5
base, n, options = sys.argv[1], int(sys.argv[2]), {"ca_bundle": sys.argv[3]}
urls = [f"{base}/many/{i}.h5" for i in range(n)]
assert xhdf5.expect(iter([*urls, sys.argv[4]]), **options) == [*urls, sys.argv[4]]
waits = len(xhdf5._expect._waiting)
assert waits == n - 16, waits
asked = []
for i, url in enumerate(urls):
    with h5py.File(url, driver="xhdf5", **options) as f:
        assert f["x"][()].sum() == 20000 * i
        asked.append(xhdf5.stats(f)["requests"])
assert sum(asked) <= 4 * n, asked  # two at nginx; nine without being expected
assert not xhdf5._expect._waiting
print(url)
"""


# What is written between the announcement and the opening is read.
WRITTEN_MEANWHILE = """
import os, sys, xhdf5
url, options = sys.argv[1], {"ca_bundle": sys.argv[2]}
with xhdf5.open(url, "w", writable=True, log="", **options) as f:
    f["x"] = 1
xhdf5.expect([url], **options)
print("expects", flush=True)
sys.stdin.readline()
with xhdf5.open(url, "r+", writable=True, **options) as f:
    f["x"][()] = 2
with xhdf5.open(url, **options) as f:
    print(f["x"][()])
"""


# A file that is replaced after the announcement, in another process's time: what the opening finds is read to its end.
REPLACED_MEANWHILE = """
import os, sys, time, xhdf5
url, options = sys.argv[1], {"ca_bundle": sys.argv[2]}
print(time.monotonic(), flush=True)
xhdf5.expect([url, *sys.argv[3:]], **options)
sys.stdin.readline()
for url in (url, *sys.argv[3:]):
    with xhdf5.open(url, **options) as f:
        print(*map(int, set(f["x"][::100000])), int(f["x"][-1]))
"""


def until_idle(pid):
    """Waits until no thread of it runs, nor waits for a processor: at three looks, one after another."""
    looks = 0
    while looks < 3:
        states = []
        for n in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{n}/stat") as f:   # it may end just now
                states.append(f.read().rsplit(")", 1)[1].split()[0])
        looks = 0 if {"R", "D"} & set(states) else looks + 1
        time.sleep(0.05)


def replaced_meanwhile():
    """An opening that was announced takes what is there now, if that is older than five seconds and eight openings."""
    import h5py
    import numpy as np
    names = [f"replaced-{os.getpid()}-{i}.h5" for i in range(4)]
    new = names[::3]
    for made, date, value in (names, 1e9, 1), (new, 1.1e9, 2):
        for name in made:
            with h5py.File(f"{DATA}/{name}.part", "w") as f:
                f["x"] = np.full(1500000, value)
            os.utime(f"{DATA}/{name}.part", (date, date))
            if made is names:
                os.rename(f"{DATA}/{name}.part", f"{DATA}/{name}")
    urls = [f"{URL.rsplit('/', 1)[0]}/{name}" for name in names]
    words = [sys.executable, "-c", REPLACED_MEANWHILE, urls[0], os.environ["CACERT"], *urls[1:]]
    with subprocess.Popen(words, text=True, env={**os.environ, "XHDF5_LOG": "read"}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        began = float(child.stdout.readline())
        for _ in names:
            assert any(" open url=" in line for line in child.stderr)
        until_idle(child.pid)   # its openings may end a little later
        for name in new:
            os.rename(f"{DATA}/{name}.part", f"{DATA}/{name}")
        old = time.monotonic() + max(6, 9 * (time.monotonic() - began))
        while time.monotonic() < old:   # their age is what counts
            time.sleep(0.05)
        out, err = child.communicate("they are replaced\n", timeout=120)
    assert (child.returncode, out.split()) == (0, list("22111122")), (out, err[-3000:])


def make_many(directory, n):
    """Small files 0.h5, 1.h5 … that were changed long ago, in each of which all of x is the file's number."""
    import h5py
    import numpy as np
    os.makedirs(f"{DATA}/{directory}", exist_ok=True)
    for i in range(n):
        with h5py.File(f"{DATA}/{directory}/{i}.h5", "w") as f:
            f["x"] = np.full(20000, i)
        os.utime(f"{DATA}/{directory}/{i}.h5", (1e9, 1e9))


def expecting():
    """Files that the program will open are open when it comes to them, each by two or three requests; what is no such
    file is an error when it is opened, and no other."""
    import xhdf5
    base = URL.rsplit("/", 1)[0]
    make_many("many", 40)
    r = subprocess.run([sys.executable, "-c", EXPECTING, base, "40", OPTIONS["ca_bundle"], LOCAL], text=True,
                       env={**os.environ, "XHDF5_LOG": "read"}, capture_output=True, timeout=60)
    assert r.returncode == 0, r.stdout + r.stderr
    assert r.stderr.count("expected taken=1") == 40, r.stderr
    xhdf5.expect([f"{base}/many/none.h5", f"{base}/many/7.h5"], **OPTIONS)
    raises(FileNotFoundError, ["404"], xhdf5.open, f"{base}/many/none.h5", **OPTIONS)
    with xhdf5.open(f"{base}/many/7.h5", connections=2, **OPTIONS) as f:  # other options: as always
        assert f["x"][5] == 7
    xhdf5.expect(f"{base}/many/{i}.h5" for i in range(20))  # without the CA: none can be opened
    with xhdf5.open(f"{base}/many/3.h5", **OPTIONS) as f:
        assert f["x"][5] == 3
    xhdf5.expect([])
    assert not xhdf5._expect._waiting
    raises(TypeError, ["several names, not one (a str)"], xhdf5.expect, URL)
    raises(TypeError, ["'rdcc_nbytes' is no option of the driver"], xhdf5.expect, [URL], rdcc_nbytes=3)
    forked_beside(xhdf5._expect._lock, lambda: xhdf5.expect([]))
    written = f"{os.environ['WRITE']}/{os.getpid()}-x.h5"
    with subprocess.Popen([sys.executable, "-c", WRITTEN_MEANWHILE, written, os.environ["CACERT"]], text=True,
                          env={**os.environ, "XHDF5_LOG": "read", "XHDF5_OVERLAY_DIR": os.environ["XHDF5_SHADOW_DIR"]},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout.readline() == "expects\n"
        assert any(" open url=" in line for line in child.stderr)
        out, err = child.communicate("it is opened ahead\n", timeout=60)
    assert (child.returncode, out) == (0, "2\n"), (out, err[-3000:])
    replaced_meanwhile()
    raises(ValueError, ["s3_addressing"], xhdf5.expect, [URL], s3_addressing="x")
    with xhdf5.open(URL, **OPTIONS):    # what was wrong with those options is no affair of other openings
        pass


def forked_amid():
    """A fork while the driver's own threads make connections: the child makes its own."""
    import xhdf5
    warnings.simplefilter("ignore", DeprecationWarning)    # of a fork, and threads
    for i in range(10):
        xhdf5.expect([f"{URL}?{i}.{n}" for n in range(16)], shadow=False, **OPTIONS)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            with xhdf5.open(URL, shadow=False, **OPTIONS) as f:
                os._exit(f["images"].shape[0] != 12)
        ended = os.waitpid(pid, 0)[1]
        assert ended == 0, f"fork {i}: {ended}"


def warming():
    """After xhdf5.warm files are in the shadow: each opening asks whether it may read, and fetches nothing. What fails
    is named, the others are there. h5py's lock is not held meanwhile."""
    import xhdf5
    from h5py._objects import phil
    base = URL.rsplit("/", 1)[0]
    make_many("warmed", 20)
    urls = [f"{base}/warmed/{i}.h5" for i in range(20)]

    def found(name):
        with xhdf5.open(name, **OPTIONS) as f:
            assert f["x"][5] == int(name.rsplit("/", 1)[1][:-3])
            return xhdf5.stats(f)

    def hdf5_is_called(*args):
        raise AssertionError("HDF5 is called without h5py's lock")
    library = xhdf5._h5py.library
    with phil:
        library._plugin_dirs, kept = hdf5_is_called, library._plugin_dirs
        other = threading.Thread(target=xhdf5.warm, args=(urls[:5],), kwargs=OPTIONS)
        other.start()
        other.join(100)
        assert not other.is_alive()
        library._plugin_dirs = kept
    mixed = [urls[i] for i in (0, 3, 1, 4, 2)]  # in no order, in which the next ones would be opened ahead
    assert all(c["bytes_fetched"] < 4096 and c["requests"] <= 3 for c in map(found, mixed))  # XRootD: and a byte
    assert found(urls[7])["bytes_fetched"] > 0
    raises(OSError, [f"2 of 17 files", "warmed/none.h5: ", "404", "images.h5/none: "], xhdf5.warm,
           [LOCAL, *urls[5:], f"{base}/warmed/none.h5?key=SECRET", f"{URL}/none"], **OPTIONS)
    assert all(c["bytes_fetched"] < 4096 for c in map(found, urls))
    xhdf5.warm([URL], metadata_only=False, **OPTIONS)
    with xhdf5.open(URL, **OPTIONS) as f:
        assert digest(f) == expected() and xhdf5.stats(f)["bytes_fetched"] < 4096
    xhdf5.warm([])
    raises(OSError, ["1 of 2 files", "pathlib"], xhdf5.warm, [urls[0], pathlib.Path(URL)], **OPTIONS)
    raises(OSError, ["1 of 1 files", "write the URL alone"], xhdf5.warm, ["xhdf5::" + URL], **OPTIONS)
    raises(ValueError, ["blanks"], xhdf5.warm, [" " + URL])
    raises(TypeError, ["NoneType"], xhdf5.warm, [None])
    raises(TypeError, ["several names, not one (a str)"], xhdf5.warm, URL)
    raises(TypeError, ["conections"], xhdf5.warm, [URL], conections=3)
    raises(ValueError, ["newlines"], xhdf5.warm, [URL + "\nhttps://other/x"])
    xhdf5.warm([latin(b"\xe8.h5")], **OPTIONS)
    for call in xhdf5.file, lambda url: xhdf5.warm([url]):
        raises(ValueError, ["null byte"], call, URL + "\0x")    # not the file whose name ends there
    helper_is_left_alone(xhdf5)


def helper_is_left_alone(xhdf5):
    """The tool runs with h5py's libhdf5; a credential_process of the user's runs without."""
    with tempfile.TemporaryDirectory() as d:
        helper, config = pathlib.Path(d, "helper"), pathlib.Path(d, "config")
        helper.write_text('#!/bin/sh\nexport -p >"$0.env"\necho "{}"\n')
        helper.chmod(0o755)
        config.write_text(f"[default]\ncredential_process = {helper}\n")
        kept = dict(os.environ)
        os.environ.update(AWS_CONFIG_FILE=str(config), AWS_SHARED_CREDENTIALS_FILE=str(config),
                          LD_LIBRARY_PATH="/of-the-user")
        os.environ.pop("LD_PRELOAD", None)
        raises(OSError, ["1 of 1 files"], xhdf5.warm, ["s3://bucket/x.h5"], retries=0,
               aws_endpoint_url_s3="https://127.0.0.1:1", **OPTIONS)
        os.environ.clear()
        os.environ.update(kept)
        said = pathlib.Path(f"{helper}.env").read_text()
        assert "LD_PRELOAD" not in said and "LD_LIBRARY_PATH='/of-the-user'" in said.replace('"', "'"), said


def stats():
    """Counters by name, each of the table, of the file and of what is in it."""
    import xhdf5
    with xhdf5.open(URL, **OPTIONS) as f, xhdf5.open(URL, **OPTIONS) as again:
        before = xhdf5.stats(f)
        assert set(before) == set(xhdf5.COUNTERS) and before["requests"] >= 1
        size = f["images"][0].nbytes
        after = xhdf5.stats(f["images"])
        assert after["bytes_asked"] - before["bytes_asked"] >= size
        assert set(xhdf5.stats(again)) == set(after)
    with xhdf5.open(URL, readahead=False, sidecar="off", shadow=False, **OPTIONS) as f:  # nothing comes unasked
        f["images"][0]
        assert xhdf5.stats(f["/"]) == xhdf5.stats(f)


def commit():
    """What was written is at the server when it returns; else OSError says why."""
    import numpy as np
    import xhdf5
    url, options = f"{os.environ['WRITE']}/{os.getpid()}.h5", OPTIONS | {"writable": True,
                                                                         "overlay_dir": os.environ["XHDF5_SHADOW_DIR"]}
    with xhdf5.open(url, "w", **options) as f:
        f["x"] = np.arange(1000)
        assert xhdf5.commit(f) is False
        with xhdf5.open(url, **OPTIONS) as g:
            assert g["x"][999] == 999
        f["x"][0] = 5
        xhdf5.commit(f)
        xhdf5.commit(f)  # there is nothing to send
    with xhdf5.open(url, **OPTIONS) as g:
        assert g["x"][0] == 5
    raises(ValueError, ["closed"], xhdf5.commit, f)
    raises(TypeError, ["h5py.File"], xhdf5.commit, 5)
    with xhdf5.open(LOCAL) as f:
        xhdf5.commit(f)  # harmless
        library = xhdf5._h5py.library  # a program's locale may be French, as Qt sets the user's
        text = "no answer, errno = 2, error message = 'é', errno = 110, error message = 'délai d'attente'"
        plain, library.commit = library.commit, lambda file: (False, text)
        raises(TimeoutError, ["no answer, errno = 2, error message = 'é'"], xhdf5.commit, f)
        library.commit = plain
    second = xhdf5.open(url, "r+", **options)
    second["z"] = 2
    other = "import sys, xhdf5\nwith xhdf5.open(sys.argv[1], 'r+', writable=True) as f: f['y'] = 1"
    subprocess.run([sys.executable, "-c", other, url], check=True, env=os.environ | {
        "XHDF5_CA_BUNDLE": os.environ["CACERT"], "XHDF5_OVERLAY_DIR": os.environ["XHDF5_SHADOW_DIR"]})
    raises(OSError, ["conflict", "xhdf5 recover"], xhdf5.commit, second)
    null, keep = os.open("/dev/null", os.O_WRONLY), os.dup(2)
    os.dup2(null, 2)  # the driver says it on standard error as well
    raises(RuntimeError, ["conflict"], second.close)
    os.dup2(keep, 2)


def discard():
    """What a with-statement that fails has written is not sent, but kept; what is discarded is gone; commit has the last word."""
    import h5py
    import xhdf5
    overlay = os.environ["XHDF5_SHADOW_DIR"] + "/overlay"
    url, options = f"{os.environ['WRITE']}/{os.getpid()}-d.h5", OPTIONS | {"writable": True, "overlay_dir": overlay}
    with xhdf5.open(url, "w", **options) as f:
        f["x"] = 1

    def values():
        with xhdf5.open(url, **OPTIONS) as g:
            return sorted(g)

    null, keep = os.open("/dev/null", os.O_WRONLY), os.dup(2)
    os.dup2(null, 2)  # the driver says on standard error what is kept
    kept = 0
    for error in (RuntimeError("no"), KeyboardInterrupt(), SystemExit("no"), SystemExit(1)):
        for how in (xhdf5.open, lambda *a, **k: h5py.File(*a, driver="xhdf5", **k)):
            try:
                with how(url, "r+", **options) as f:
                    f["half"] = 2
                    raise error
            except BaseException as e:
                assert e is error, e
            kept += 1
            assert not f and values() == ["x"] and len(os.listdir(overlay)) == kept, (values(), os.listdir(overlay))
    os.dup2(keep, 2)
    for error in (SystemExit(), SystemExit(0)):  # the program's proper end
        try:
            with xhdf5.open(url, "r+", **options) as f:
                f.attrs["ends"] = 1 if "ends" not in f.attrs else f.attrs["ends"] + 1
                raise error
        except SystemExit:
            pass
    def writer():  # its close() ends it; that is no failure
        with xhdf5.open(url, "r+", **options) as f:
            while True:
                f.attrs["ends"] += (yield)
    one = writer()
    next(one)
    one.send(5)
    one.close()
    with xhdf5.open(url, **OPTIONS) as g:
        assert g.attrs["ends"] == 7
    with xhdf5.open(url, "r+", **options) as f:
        f["y"] = 2
        xhdf5.commit(f)
        f["z"] = 3
        xhdf5.discard(f)
        raises(OSError, ["discarded"], xhdf5.commit, f)
    assert values() == ["x", "y"] and len(os.listdir(overlay)) == kept
    with xhdf5.open(url, "r+", **options) as f:
        f["w"] = 2
        xhdf5.discard(f, keep=True)
        xhdf5.commit(f)
    assert values() == ["w", "x", "y"] and len(os.listdir(overlay)) == kept
    with xhdf5.open(f"{url}.new", "w", **options) as f:
        xhdf5.discard(f)
    raises(FileNotFoundError, [], xhdf5.open, f"{url}.new", **OPTIONS)
    raises(ValueError, ["closed"], xhdf5.discard, f)
    raises(TypeError, ["h5py.File"], xhdf5.discard, 5)
    with xhdf5.open(LOCAL) as f:
        raises(ValueError, ["not written at a URL"], xhdf5.discard, f)
    with xhdf5.open(url.replace("://", "://me:SECRET@") + "?sig=SECRET", **OPTIONS) as f:
        secret_free(ValueError, "-d.h5' is not written at a URL", xhdf5.discard, f)
    with xhdf5.open(url, "r+", **options) as f:  # another opening that fails does not withhold this
        f["v"] = 1
        for mode in "r", "r+":
            try:
                with xhdf5.open(url, mode, **options) as g:
                    g["no such thing"]
            except KeyError:
                pass
    assert values() == ["v", "w", "x", "y"] and len(os.listdir(overlay)) == kept
    try:  # a local file is as ever
        with h5py.File(f"{os.environ['XHDF5_SHADOW_DIR']}/local.h5", "w", driver="xhdf5") as f:
            f["x"] = 1
            raise RuntimeError
    except RuntimeError:
        pass
    with h5py.File(f"{os.environ['XHDF5_SHADOW_DIR']}/local.h5") as f:
        assert list(f) == ["x"]


def enabled():
    """After enable(), URLs need no driver; disable() takes it back."""
    import h5py
    import xhdf5
    os.environ["XHDF5_CA_BUNDLE"] = OPTIONS["ca_bundle"]
    raises(FileNotFoundError, [], h5py.File, URL)
    before = all_of_h5py(h5py)
    xhdf5.enable()
    xhdf5.enable()
    assert os.environ["HDF5_DRIVER"] == "xhdf5" and xhdf5.plugin_path() in os.environ["HDF5_PLUGIN_PATH"]
    for name in (URL, URL.encode()):
        with h5py.File(name) as f:
            assert digest(f) == expected() and xhdf5.stats(f)["requests"]
    with h5py.File(LOCAL) as f:
        assert f.driver == "sec2"
    for name, word in (("s3a://bucket/x.h5", "s3://"), ("htps://h/x.h5", "write https://h"), (" " + URL, "blank"),
                       ("xhdf5::" + URL, "write the URL alone"), (pathlib.Path(URL), "pathlib")):
        raises(FileNotFoundError, ["no such local file", word], h5py.File, name)
    raises(ValueError, ["nonsense"], h5py.File, URL, driver="nonsense")
    base = URL.rsplit("/", 1)[0]
    pathlib.Path(DATA, "text.h5").write_text("no HDF5 file")
    assert h5py.is_hdf5(URL) and h5py.is_hdf5(LOCAL) and not h5py.is_hdf5(f"{DATA}/text.h5")
    assert not h5py.is_hdf5(f"{base}/text.h5") and not h5py.is_hdf5(f"{base}/none.h5")
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # a child that never hears of xhdf5
        assert pool.apply(spawned_plainly, (URL,)) == expected()
    xhdf5.disable()
    assert "HDF5_DRIVER" not in os.environ and all_of_h5py(h5py) == before
    raises(FileNotFoundError, [], h5py.File, URL)
    sys.modules["tables"] = sys
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        xhdf5.enable()
    assert len(said) == 1 and "tables" in str(said[0].message) and said[0].filename == __file__, said


def all_of_h5py(h5py):
    """What its class File and its module for files have now."""
    return dict(vars(h5py.File)), dict(vars(h5py.h5f)), h5py.is_hdf5


def enabled_low():
    """After enable(), and while such a file is open, h5py's low-level functions open local files as h5py.File does."""
    import h5py
    import numpy as np
    import xhdf5
    os.environ["XHDF5_CA_BUNDLE"] = OPTIONS["ca_bundle"]
    plain = f"{os.environ['XHDF5_SHADOW_DIR']}/plain.h5"
    sec2 = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    sec2.set_fapl_sec2()

    def same(f):
        """Whoever opens what |f| has open has the same file."""
        f["x"][0] += 1
        low, h5f = os.fsencode(plain), h5py.h5f
        for other in (h5py.File(h5f.open(low)), h5py.File(h5f.open(low, fapl=sec2)),
                      h5py.File(h5f.open(low, h5f.ACC_RDWR, h5py.h5p.create(h5py.h5p.FILE_ACCESS))),
                      h5py.File(plain, "r+", driver="sec2")):
            with other:
                assert other["x"][0] == f["x"][0] and other.driver == "sec2"
        raises(OSError, ["already open"], h5f.create, low)
        raises(OSError, ["already open"], h5f.create, low, h5f.ACC_TRUNC, None, sec2)

    before = all_of_h5py(h5py)
    xhdf5.enable()
    with h5py.File(plain, "w") as f:
        f["x"] = np.arange(5)
        layout = h5py.VirtualLayout((12, 512, 512), "u2")
        layout[:] = h5py.VirtualSource(URL, "images", (12, 512, 512))
        f.create_virtual_dataset("there", layout, fillvalue=7)
        same(f)
    with h5py.File(h5py.h5f.open(os.fsencode(plain), h5py.h5f.ACC_RDONLY)) as f:
        assert hashlib.sha256(f["there"][()].tobytes()).hexdigest() == expected()
    with h5py.File(h5py.h5f.open(URL.encode(), h5py.h5f.ACC_RDONLY)) as f:
        assert digest(f) == expected()
    with h5py.File(plain, "r+", driver="sec2"):
        with h5py.File(h5py.h5f.open(os.fsencode(plain))) as f:
            same(f)
    with h5py.File(plain, "r+") as f:
        xhdf5.disable()
        same(f)
        xhdf5.enable()
        xhdf5.disable()
        with h5py.File(plain) as g:
            assert g["x"][0] == f["x"][0]
        same(f)
    with h5py.File(plain) as f:
        assert f["x"][0] == 4 and f.driver == "sec2" and f["there"][0, 0, 0] == 7
    assert all_of_h5py(h5py) == before
    raises(FileNotFoundError, [], h5py.h5f.open, URL.encode())


def enabled_local():
    """After enable(), what a local file names at URLs is read, or is an error; else local files are as ever."""
    import h5py
    import numpy as np
    import xhdf5
    made = os.environ["XHDF5_SHADOW_DIR"]
    os.environ["XHDF5_CA_BUNDLE"] = OPTIONS["ca_bundle"]
    before = h5py.File(f"{made}/before.h5", "w")  # open by HDF5's own driver when the other takes over
    before["x"] = 1
    xhdf5.enable()
    with h5py.File(URL) as f:
        shape, dtype = f["images"].shape, f["images"].dtype
    os.environ["XHDF5_RETRIES"] = "0"
    nobody = "https://127.0.0.1:9/images.h5"
    with h5py.File(f"{made}/names.h5", "w") as f:
        for name, url in ("there", URL), ("nobody", nobody):
            layout = h5py.VirtualLayout(shape, dtype)
            layout[:] = h5py.VirtualSource(url, "images", shape)
            f.create_virtual_dataset(name, layout, fillvalue=7)
        f["link"] = h5py.ExternalLink(URL, "images")
        raises(OSError, ["read-only"], lambda: f["there"][0])
    for mode in "r", "r+", "a":
        with h5py.File(f"{made}/names.h5", mode) as f:
            assert f.driver == "sec2" and f["there"].file.driver == "sec2"
            if mode == "r":
                assert hashlib.sha256(f["there"][()].tobytes()).hexdigest() == expected() == digest({"images": f["link"]})
                raises(OSError, [nobody], lambda: f["nobody"][0])
            else:
                raises(OSError, ["read-only"], lambda: f["there"][0])
    plain = f"{made}/plain.h5"
    with h5py.File(plain, "w", userblock_size=512, libver="latest", track_order=True) as f:
        f["x"] = np.arange(5)
        f.flush()
        f.swmr_mode = True
        with h5py.File(plain, "r", swmr=True) as g:
            assert g["x"][4] == 4 and g.userblock_size == 512
        assert os.fstat(f.id.get_vfd_handle()).st_ino == os.stat(plain).st_ino and h5py.is_hdf5(plain)
        raises(OSError, ["already open"], h5py.File, plain, "w")
    text = f"{made}/text.h5"
    pathlib.Path(text).write_text("no HDF5 file")
    for mode in "r", "r+", "a":
        raises(OSError, ["signature not found"], h5py.File, text, mode)
    assert pathlib.Path(text).read_text() == "no HDF5 file"
    with h5py.File(plain) as f:
        raises(OSError, ["already open for read-only"], h5py.File, plain, "a")
    raises(FileNotFoundError, ["No such file"], h5py.File, f"{made}/none.h5")
    raises(FileExistsError, [], h5py.File, plain, "x")
    raises(TypeError, ["'connections' is an invalid keyword"], h5py.File, plain, connections=8)
    with open(plain, "rb") as stream, h5py.File(stream) as f:
        assert f.driver == "fileobj"
    with h5py.File(plain, driver="core", backing_store=False) as f:
        assert f.driver == "core"
    # the same file by two drivers: HDF5 would take it for two
    os.symlink("before.h5", f"{made}/link.h5")
    with h5py.File(f"{made}/link.h5", "r+") as f:
        assert f["x"][()] == 1
        f["y"] = 2
        assert before["y"][()] == 2
    raises(OSError, ["already open"], h5py.File, f"{made}/before.h5", "w")
    with h5py.File(plain, "r+", driver="sec2") as f:
        f["z"] = 3
        assert h5py.File(pathlib.Path(plain))["z"][()] == 3
    before.close()
    with h5py.File(f"{made}/before.h5") as f:
        assert list(f) == ["x", "y"]


def spawned_plainly(url):
    import h5py
    with h5py.File(url) as f:
        return digest(f)


def threads():
    """Threads that read, hint and count at once, on files of their own."""
    import xhdf5
    want = [expected(i) for i in range(12)]
    failures = []

    def work(n):
        try:
            for i in range(n, 12, 2):
                with xhdf5.open(URL, **OPTIONS) as f:
                    xhdf5.prefetch(f["images"], i)
                    assert digest(f, i) == want[i]
                    assert xhdf5.stats(f)["reads"]
        except BaseException as e:  # reported by the main thread
            failures.append(e)

    pool = [threading.Thread(target=work, args=(n % 2,)) for n in range(6)]
    [t.start() for t in pool]
    [t.join() for t in pool]
    assert not failures, failures


class Images:
    """A dataset as PyTorch's DataLoader gets one: made in the parent, asked by index in the workers."""

    def __init__(self, lazy):
        import xhdf5
        self.open = lambda: xhdf5.open(URL, **OPTIONS)["images"]
        self.images = None if lazy else self.open()

    def __getitem__(self, i):
        if self.images is None:
            self.images = self.open()
        return hashlib.sha256(self.images[i].tobytes()).hexdigest()


def _worker(data, todo, done):
    for i in iter(todo.get, None):
        done.put((i, data[i]))


def _load(context, data):
    """Four workers, each index given to whoever is free: what DataLoader(num_workers=4) does."""
    todo, done = context.Queue(), context.Queue()
    workers = [context.Process(target=_worker, args=(data, todo, done)) for _ in range(4)]
    [w.start() for w in workers]
    for i in [*range(12), *[None] * 4]:
        todo.put(i)
    got = dict(done.get(timeout=60) for _ in range(12))
    [w.join(60) for w in workers]
    assert [w.exitcode for w in workers] == [0] * 4
    assert got == {i: expected(i) for i in range(12)}


def loader_fork_open():
    """Forked workers read the file that their parent opened and read, and the parent goes on."""
    data = Images(lazy=False)
    first = data[0]
    _load(multiprocessing.get_context("fork"), data)
    assert data[0] == first and data[11] == expected(11)


def loader_fork_lazy():
    """Forked workers open it themselves; the parent had it open."""
    assert Images(lazy=False)[1] == expected(1)
    _load(multiprocessing.get_context("fork"), Images(lazy=True))


def _read(i):
    import xhdf5
    with xhdf5.open(URL, **OPTIONS) as f:
        return digest(f, i)


def pool_spawn():
    """A spawned pool, as on every platform from Python 3.14 on (forkserver)."""
    for kind in ("spawn", "forkserver"):
        with multiprocessing.get_context(kind).Pool(2) as pool:
            assert pool.map(_read, range(12)) == [expected(i) for i in range(12)]


def command():
    """The package's command xhdf5, with h5py's HDF5: each of its verbs that reads, and its exit codes."""
    def run(*words, want=0):
        env = {**os.environ, "XHDF5_CA_BUNDLE": OPTIONS["ca_bundle"], "BEARER_TOKEN": ""}
        done = subprocess.run([os.path.join(os.path.dirname(sys.executable), "xhdf5"), *words], env=env,
                              capture_output=True, text=True)
        assert done.returncode == want, (words, done)
        return done.stdout

    import h5py
    import xhdf5
    assert run("--version").split()[-1] == xhdf5.__version__
    assert json.loads(run("stat", URL, "--json"))["datasets"] == 1
    listed = {o["path"]: o for o in json.loads(run("ls", URL, "--json"))}
    assert listed["/images"]["shape"][0] == 12, listed
    steps = {s["step"]: s["state"] for s in json.loads(run("doctor", URL, "--quick", "--json"))["steps"]}
    assert steps["TLS"] == steps["opening"] == steps["datasets"] == "ok", steps
    assert run("get", URL, "-o", f"{DATA}/got-{os.getpid()}.h5") and digest(h5py.File(f"{DATA}/got-{os.getpid()}.h5")) == expected()
    run("cache", "warm", URL)
    assert URL in run("cache", "ls")
    run("get", f"{URL}.none", want=3)
    run("nonsense", want=2)
    assert "fusermount3" in run("mount", "--help")  # built with libfuse
    with h5py.File(f"{DATA}/publish-{os.getpid()}.h5", "w") as f:
        [f.create_group(f"group {i}") for i in range(100)]
    run("publish", f"{DATA}/publish-{os.getpid()}.h5")
    run("publish", "--check", f"{DATA}/publish-{os.getpid()}.h5")


def piped():
    """xhdf5 ls URL | head: the command ends as others do when nobody reads on, without a word. Python ignores SIGPIPE,
    and what it becomes would, too."""
    words = [sys.executable, "-c", "from xhdf5._tool import main; main()", "ls", URL]
    with subprocess.Popen(words, env={**os.environ, "XHDF5_CA_BUNDLE": OPTIONS["ca_bundle"]}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as child:
        child.stdout.close()
        said = child.stderr.read()
    assert (child.returncode, said) == (-signal.SIGPIPE, ""), (child.returncode, said)


def start_many():
    """This interpreter is started many times: in the box from one that has imported numpy."""
    if "WARM_PYTHON" in os.environ:
        sys.path.append(os.environ["WARM_PYTHON"])
        import warm_python
        warm_python.use([[sys.executable]])
        warm_python.use_unmapped()


def wrong_path():
    """HDF5_DRIVER without a path to the plugin breaks HDF5; importing xhdf5 first mends it, importing it last says so."""
    import xhdf5
    start_many()
    env = {**os.environ, "HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": "/nowhere",
           "XHDF5_CA_BUNDLE": OPTIONS["ca_bundle"]}

    def python(*args):
        return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True)
    done = python("-c", f"import xhdf5, h5py; print(h5py.File({URL!r})['images'].shape[0])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", ""), done
    done = python("-m", "xhdf5")
    assert done.returncode == 0 and not done.stderr and xhdf5.plugin_path() in done.stdout, done
    done = python("-m", "xhdf5", "--help")
    assert done.returncode == 0 and not done.stderr and done.stdout.startswith("usage: eval"), done
    done = python("-m", "xhdf5", "doctor", URL)
    assert done.returncode == 2 and not done.stdout and f"the command xhdf5: xhdf5 doctor {URL}" in done.stderr, done
    done = python("-c", "import h5py, xhdf5")
    assert done.returncode == 1, done  # h5py 3.14 fails by itself
    assert "Not a datatype" in done.stderr or "did not find the driver in HDF5_PLUGIN_PATH='/nowhere'" in done.stderr, done
    del env["HDF5_PLUGIN_PATH"]
    assert python("-c", "import xhdf5, h5py").returncode == 0
    del env["HDF5_DRIVER"]
    setting = "import os; os.environ['HDF5_DRIVER'] = "
    done = python("-c", f"{setting}'xhdf5'; import h5py, xhdf5")  # the program sets it itself
    assert done.returncode == 1, done
    assert "Not a datatype" in done.stderr or "did not find the driver in HDF5_PLUGIN_PATH=''" in done.stderr, done
    done = python("-c", f"{setting}'nonsense'; import h5py, xhdf5")
    assert done.returncode == 1 and ("Not a datatype" in done.stderr or "HDF5_DRIVER=nonsense" in done.stderr), done
    done = python("-c", f"{setting}'xhdf5'; import xhdf5, h5py; print(h5py.File({URL!r})['images'].shape[0])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", ""), done
    done = python("-c", f"import h5py; {setting}'xhdf5'; import xhdf5; print(xhdf5.open({URL!r})['images'].shape[0])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", ""), done  # HDF5 had started


def another_copy():
    """The environment leads to another copy of the driver, as that of another Python or of a module. Importing xhdf5
    first takes the package's own; importing it last says so: commit() and discard() would not reach the files."""
    import xhdf5
    with tempfile.TemporaryDirectory() as others:
        shutil.copy(f"{xhdf5.plugin_path()}/libhdf5_vfd_xhdf5.so", others)
        url = f"{os.environ['WRITE']}/{os.getpid()}-copy.h5"
        env = {**os.environ, "HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": f"{others}:/my/filters",
               "XHDF5_CA_BUNDLE": os.environ["CACERT"], "XHDF5_OVERLAY_DIR": f"{others}/overlay"}
        code = ("import os, sys\n"
                "try:\n"
                f"    with xhdf5.open({url!r}, 'w', writable=True) as f:\n"
                "        f['whole'] = 1\n"
                "        xhdf5.commit(f)\n"
                "        f['half'] = 1\n"
                "        raise KeyError\n"
                "except KeyError: pass\n"
                f"with h5py.File({url!r}) as f: print(*f)\n"
                "print(os.environ['HDF5_PLUGIN_PATH'])\n")

        def python(imports):
            return subprocess.run([sys.executable, "-c", imports + code], env=env, capture_output=True, text=True)
        done = python("import xhdf5, h5py\n")
        assert done.returncode == 0, done
        there, path = done.stdout.splitlines()
        assert there == "whole", done
        assert path.startswith(xhdf5.plugin_path()) and f"{others}:/my/filters" in path, path
        done = python("import h5py, xhdf5\n")
        assert done.returncode == 1 and "ImportError" in done.stderr, done
        assert "another copy of the driver" in done.stderr and "import xhdf5 before h5py" in done.stderr, done


def plugin_paths():
    """HDF5_PLUGIN_PATH is extended: HDF5's own directory, the user's, hdf5plugin's and netCDF4's filters stay in it."""
    start_many()
    with tempfile.TemporaryDirectory() as site:
        beside = [f"{site}/{name}/plugins" for name in ("hdf5plugin", "netCDF4")]
        for path in beside:
            os.makedirs(path)
            pathlib.Path(path).with_name("__init__.py").write_text("raise SystemExit('it was imported')\n")
        env = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{site}"}
        env.pop("HDF5_PLUGIN_PATH", None)

        def python(code, **more):
            done = subprocess.run([sys.executable, "-c", code], env=env | more, capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr, done
            return [p for p in done.stdout.strip().split(":") if p]
        asked = "print(':'.join(os.fsdecode(h5py.h5pl.get(i)) for i in range(h5py.h5pl.size())))"
        usual = python(f"import os, h5py; {asked}")
        shown = "import os, runpy; runpy.run_module('xhdf5', run_name='__main__')"
        for how in ("import xhdf5; print(xhdf5.environment()['HDF5_PLUGIN_PATH'])",
                    "import os, xhdf5; xhdf5.enable(); print(os.environ['HDF5_PLUGIN_PATH'])"):
            ours, *others = python(how)
            assert os.path.exists(f"{ours}/libhdf5_vfd_xhdf5.so")
            assert usual and others[:len(usual)] == usual and others[-2:] == beside, others
            assert python(how, HDF5_PLUGIN_PATH="/my/filters:/more") == [ours, "/my/filters", "/more", beside[0]]
            assert python(how, HDF5_PLUGIN_PATH="::") == [ours]     # no directory: no filters
            again = ":".join([ours, *others])     # in a shell that has it already
            assert python(how, HDF5_PLUGIN_PATH=again) == again.split(":")
        for set_before in {}, {"HDF5_PLUGIN_PATH": "/my/filters"}:
            want = "/my/filters" if set_before else usual[-1]
            for line in python(shown, **set_before)[-1:]:
                assert line == beside[0 if set_before else 1], line
            # h5py looks there too where the driver comes from the environment and the path does not lead to it
            found = python(f"import os, xhdf5, h5py; {asked}", HDF5_DRIVER="xhdf5", **set_before)
            assert found[0] == ours and beside[0] in found, found
            assert not (set_before or os.path.isdir(want)) or want in found, found


def unfit_hdf5():
    """An h5py whose HDF5 is too old, another one or linked in: importing does no harm; what needs it says what to do."""
    import types

    import h5py
    with tempfile.TemporaryDirectory() as d:
        old = f"{d}/old.so"
        code = "int H5get_libversion(unsigned *a, unsigned *b, unsigned *c) { *a = 1; *b = 12; *c = 3; return 0; }"
        subprocess.run(["gcc", "-shared", "-o", old, "-x", "c", "-"], input=code, text=True, check=True)
        newer = f"{d}/newer.so"
        code = code.replace("*b = 12", "*b = 99")
        subprocess.run(["gcc", "-shared", "-o", newer, "-x", "c", "-"], input=code, text=True, check=True)
        linked_in = next(m.__file__ for name, m in sys.modules.items() if name.endswith("_umath") and m.__file__)
        for file, words in ((old, ["HDF5 1.12.3", "1.14 or newer"]),
                            (newer, ["shows no libhdf5 that the driver can use"]),
                            (linked_in, ["linked into it statically?"])):
            for name in [n for n in sys.modules if n.split(".")[0] == "xhdf5"]:
                del sys.modules[name]
            h5py.defs = types.ModuleType("h5py.defs")
            h5py.defs.__file__ = file
            import xhdf5
            words += ["pip install h5py", "h5py.File(xhdf5.file(url))"]
            raises(ImportError, words, xhdf5.open, URL, **OPTIONS)
            raises(ImportError, words, h5py.File, URL, driver="xhdf5")
            assert xhdf5.expect([URL], **OPTIONS) == [URL]     # needs no HDF5
            with h5py.File(xhdf5.file(URL, **OPTIONS)) as f:
                assert f["images"].shape[0] == 12
            xhdf5.enable()
            assert xhdf5.environment()["HDF5_DRIVER"] == os.environ["HDF5_DRIVER"] == "xhdf5"
            xhdf5.disable()


def other_options():
    """A URL that is open already is opened with other options: the first ones hold, and a line says so, once."""
    code = ("import os, sys, xhdf5\n"
            "first = xhdf5.open(os.environ['URL'], connections=8, ca_bundle=os.environ['CACERT'])\n"
            "for i in 1, 2: xhdf5.open(os.environ['URL'], connections=8, ca_bundle=os.environ['CACERT']).close()\n"
            "print('alike', file=sys.stderr)\n"
            "for i in 1, 2: xhdf5.open(os.environ['URL'], connections=4, ca_bundle=os.environ['CACERT']).close()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    first, *others = done.stderr.splitlines()
    assert done.returncode == 0 and first == "alike" and len(others) == 1, done
    assert f"{URL} is open already, with other options (connections): those of its first opening hold" in others[0], done


def enabled_late():
    """enable() warns of a package whose HDF5 started without the driver, also where the variables were set in between."""
    import types

    import xhdf5
    for name in "netCDF4", "tables":
        sys.modules[name] = types.ModuleType(name)
    os.environ["HDF5_DRIVER"] = "xhdf5"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        xhdf5.enable()
    assert [w.category for w in seen] == [RuntimeWarning] * 2, seen
    netcdf4, tables = (str(w.message) for w in seen)
    assert "after the HDF5 of netCDF4 had started" in netcdf4 and "h5netcdf.legacyapi" in netcdf4, netcdf4
    assert "after the HDF5 of tables had started: tables opens no URLs in this process." in tables, tables
    assert {w.filename for w in seen} == {__file__}


def without_h5py():
    """No h5py: the environment is there all the same, and the rest says what is missing."""
    sys.modules["h5py"] = None  # type: ignore[assignment]
    import xhdf5
    assert os.path.exists(f"{xhdf5.plugin_path()}/libhdf5_vfd_xhdf5.so")
    assert xhdf5.environment()["HDF5_PLUGIN_PATH"].startswith(xhdf5.plugin_path())
    raises(ImportError, ["pip install h5py"], xhdf5.open, URL)
    xhdf5.enable()
    xhdf5.disable()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
