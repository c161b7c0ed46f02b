#!/usr/bin/env python3
"""The driver against a real server: errors and their exceptions, refusals without requests,
links, forks, exits, two libhdf5s in one process.

usage: remote.py nginx|xrootd BUILD_OF_TESTS    (the directory of test_life, test_vector, sample.h5)
"""
import contextlib
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import harness  # noqa: E402

MAKE_LINKS = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1] + '/main.h5', 'w') as f:
    f['d'] = np.arange(100.)
    f['elsewhere'] = h5py.ExternalLink('sub/other.h5', '/d')
    layout = h5py.VirtualLayout((50,), 'f8')
    layout[:] = h5py.VirtualSource('sub/other.h5', 'd', (50,))
    f.create_virtual_dataset('virtual', layout)
with h5py.File(sys.argv[1] + '/sub/other.h5', 'w') as f:
    f['d'] = np.arange(50.)
"""

# What is no HDF5 file, its first bytes, and a word of what is said of it
OTHERS = (("classic.nc", b"CDF\001", "netCDF-3"), ("offset.nc", b"CDF\002", "netCDF-3"),
          ("data.nc", b"CDF\005", "netCDF-3"),
          ("lfs.h5", b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
          ("page.h5", b"<!DOCTYPE html>\n<html><title>Sign in", "web page"), ("x.h5.gz", b"\x1f\x8b\x08", "gzip"),
          ("x.zip", b"PK\x03\x04", "zip"), ("error.h5", b"<?xml version='1.0'?><Error><Code>", "in XML"),
          ("ref.json", b'{"version": 1, "refs": {', "kerchunk"), ("zeros.h5", bytes(9), "zeros"))


MAKE_LONG = "import sys, h5py, numpy as np\nwith h5py.File(sys.argv[1], 'w') as f: f['d'] = np.ones(1200000)"


def make_data(root, build):
    """sample.h5, the same cut short, and a file with links; readable by the servers' user."""
    os.makedirs(f"{root}/links/sub")
    os.makedirs(f"{root}/private")
    shutil.copy(build / "sample.h5", f"{root}/sample.h5")
    shutil.copy(build / "sample.h5", f"{root}/private/sample.h5")
    whole = (build / "sample.h5").read_bytes()
    pathlib.Path(f"{root}/short.h5").write_bytes(whole[:len(whole) // 2])
    pathlib.Path(f"{root}/text.h5").write_text("no HDF5 file\n" * 100)
    os.makedirs(f"{root}/others")
    for name, begins, _ in OTHERS:
        pathlib.Path(f"{root}/others/{name}").write_bytes(begins.ljust(3 << 20, b"\0"))
    pathlib.Path(f"{root}/others/empty.h5").write_bytes(b"")
    for name, begins in (("block.h5", b"CDF\001"), ("page_before.h5", b"<html>")):
        pathlib.Path(f"{root}/others/{name}").write_bytes(begins.ljust(4096, b" ") + whole)
    status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_LINKS, f"{root}/links"], harness.clean_env())
    assert status == 0, out + err
    for path in pathlib.Path(root).rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    pathlib.Path(root).chmod(0o755)


def without_shadow(server, **options):
    """The driver's environment; every process fetches for itself, so that requests can be counted."""
    return dict(harness.driver_env(server, None, **options), XHDF5_SHADOW="off")


@contextlib.contextmanager
def liar(path):
    """The server that has every fault, over plain HTTP; gives its URL."""
    p = subprocess.Popen([sys.executable, HERE.parent / "support" / "liar.py", path], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        yield "http://127.0.0.1:" + re.search(r"http=(\d+)", p.stdout.readline()).group(1)
    finally:
        p.stdin.close()
        p.wait(20)
        p.stdout.close()


class Case:
    """One h5py on one server."""

    def __init__(self, tap, server, python, version):
        self.tap, self.server, self.python, self.version = tap, server, python, version

    def env(self, **options):
        return without_shadow(self.server, **options)

    def h5py(self, *words, env=None, cwd=None):
        status, out, err = harness.run([self.python, HERE / "h5py_cases.py", *words], env or self.env(),
                                       timeout=120, cwd=cwd)
        assert status == 0, f"exit status {status}\n{out}\n{err[-2500:]}"
        assert err == "", f"on standard error: {err[-2500:]}"
        return out

    def claim(self, text):
        return self.tap.claim(f"{text}, h5py {self.version}, {self.server.kind if self.server else 'liar'}")


def check_errors(c):
    url = c.server.url
    with c.claim("a missing file is FileNotFoundError, and the text has the URL without its query"):
        said = c.h5py("attempt", f"{url}/none.h5?secret=1")
        assert said.startswith("FileNotFoundError 2 "), said
        assert f"{url}/none.h5" in said and "404" in said and "secret" not in said, said
    with c.claim("a file that is cut short is an OSError that says so"):
        said = c.h5py("attempt", f"{url}/short.h5")
        assert said.startswith("OSError") and "truncated file" in said, said
    with c.claim("a file that is no HDF5 file is an OSError that says so"):
        said = c.h5py("attempt", f"{url}/text.h5")
        assert said.startswith("OSError") and "file signature not found" in said, said
    with c.claim("what it is instead is said, also of an empty file; h5py.is_hdf5 is False of it, and finding out costs "
                 "no request"):
        for name, _, word in (*OTHERS, ("empty.h5", b"", "0 bytes")):
            asked = []
            for how in "attempt", "is_hdf5":
                log = pathlib.Path(c.server.run) / f"{how}.log"
                log.unlink(missing_ok=True)
                said = c.h5py(how, f"{url}/others/{name}?secret=1",
                              env=c.env(sidecar="off", readahead="off", trace=log))
                asked.append(log.read_text().count("first byte"))
                if how == "is_hdf5":
                    assert said == "False\n", (name, said)
                    continue
                assert said.startswith("OSError None ") and "file signature not found" in said and word in said, said
                assert f"{url}/others/{name} is no HDF5 file" in said and "secret" not in said, said
            assert asked[0] == asked[1] > 0, (name, asked)
    with c.claim("a user block may hold anything"):
        for name in "block.h5", "page_before.h5":
            assert c.h5py("attempt", f"{url}/others/{name}").startswith("opened r "), name
            assert c.h5py("is_hdf5", f"{url}/others/{name}") == "True\n", name
    if c.server.kind == "nginx":
        with c.claim("a file that wants a token is PermissionError, and with the token it opens"):
            said = c.h5py("attempt", f"{url}/private/sample.h5")
            assert said.startswith("PermissionError 13 ") and re.search("40[13]", said), said
            env = dict(c.env(), BEARER_TOKEN=c.server.facts["token"])
            assert c.h5py("attempt", f"{url}/private/sample.h5", env=env).startswith("opened r"), "with the token"


def check_certificates(c):
    url = f"{c.server.url}/sample.h5"
    for claim, path in (("missing", "/nowhere/ca.pem"), ("unreadable", str(HERE)), ("wrong", __file__)):
        with c.claim(f"a {claim} CA file is an OSError that names the option"):
            said = c.h5py("attempt", url, env=c.env(ca_bundle=path))
            assert said.startswith(("OSError", "FileNotFoundError", "PermissionError")), said
            assert "ca_bundle" in said.lower() or path in said, said
            assert "not accepted" not in said and (claim != "wrong" or "PEM" in said), f"the server is blamed: {said}"
    with c.claim("a server whose CA is not known is an OSError that says what to set"):
        env = c.env()
        del env["XHDF5_CA_BUNDLE"]
        said = c.h5py("attempt", url, env=env)
        assert said.startswith("OSError") and "CA_BUNDLE" in said.upper(), said


def check_refusals(c):
    url = f"{c.server.url}/sample.h5"
    with c.claim("writing, creating and SWMR are refused with a clear text and without a request"):
        before = c.server.requests()[0]
        for mode in ("a", "r+", "w", "x", "w-"):
            said = c.h5py("attempt", url, mode)
            assert said.startswith("OSError 30 ") and "URLs are read-only" in said and "mode 'r'" in said, said
        said = c.h5py("swmr", url)
        assert said.startswith("OSError 95 ") and "SWMR" in said, said
        assert c.server.requests()[0] == before, "a request was sent"
    with c.claim("an option that is wrong is named, with its value and bounds, without a request"):
        before = c.server.requests()[0]
        said = c.h5py("attempt", url, env=c.env(connections=99))
        assert "XHDF5_CONNECTIONS" in said and "99" in said and "0 to 64" in said, said
        env = dict(c.env(), HDF5_DRIVER_CONFIG="conections=4")
        said = c.h5py("attempt", url, env=env)
        assert "conections" in said and "nearest known one is connections" in said, said
        assert c.server.requests()[0] == before, "a request was sent"


def check_links(c):
    with c.claim("relative external links and virtual sources are found, and nothing else is asked for"):
        with tempfile.TemporaryDirectory() as cwd:
            said = c.h5py("links", f"{c.server.url}/links/main.h5", cwd=cwd).split()
        assert said == ["1225.0", "1225.0"], said
        log = pathlib.Path(c.server.facts["log"]).read_text(errors="replace")
        assert "/links/sub/other.h5" in log, "the log does not show the source's path"
        strange = [line for line in log.splitlines() if re.search(r"/https?:|//sub/", line.split("GET", 1)[-1])
                   and "GET" in line]
        assert not strange, strange[:3]


def check_processes(c):
    url = f"{c.server.url}/sample.h5"
    want = c.h5py("read", url).strip()
    with c.claim("forked children read what their parent opened, and open it themselves"):
        said = c.h5py("fork", url).split()
        assert len(said) == 8 and set(said) == {want}, said
    with c.claim("an interpreter that ends with files open ends in silence"):
        assert float(c.h5py("leave_open", url).split()[0]) > 0
    system = [p for p in glob.glob("/usr/lib/*/libhdf5_serial.so.3*") if os.path.exists(p)]
    with c.claim("two libhdf5s in one process read through one driver"):
        assert system, "no libhdf5_serial on this machine"
        said = c.h5py("two_libraries", system[0], url).splitlines()
        assert said[0] == said[2] == "True True" and said[4] == want, said
        assert said[1].startswith("FileNotFoundError 2") and said[3].startswith("FileNotFoundError 2"), said
    with c.claim("H5Pset_fapl_xhdf5 called through ctypes finds h5py's libhdf5"):
        env = c.env()
        del env["HDF5_DRIVER"], env["HDF5_PLUGIN_PATH"]
        said = c.h5py("set_fapl", f"{harness.plugin_dir()}/libhdf5_vfd_xhdf5.so", url, env=env)
        assert said.strip() == want, said


def check_statuses(c, url):
    """How each answer ends, when the file is opened and when it is read."""
    env = c.env(retries=0)
    for fault, kind, errno in (("403", "PermissionError", 13), ("404", "FileNotFoundError", 2),
                               ("500", "OSError", None), ("503", "OSError", None)):
        with c.claim(f"{fault} at open is {kind}"):
            said = c.h5py("attempt", f"{url}/{fault}/x.h5?secret=1", env=env)
            assert said.startswith(f"{kind} {errno or ''}") and fault in said, said
            assert f"{url}/{fault}/x.h5" in said and "secret" not in said, said
    with c.claim("401 at open is PermissionError that speaks of the token"):
        said = c.h5py("attempt", f"{url}/token/x.h5", env=env)
        assert said.startswith("PermissionError 13") and "401" in said and "token" in said, said
    for fault, kind in (("403", "PermissionError"), ("500", "OSError"), ("etag-change", "OSError")):
        with c.claim(f"{fault} while data is read is {kind}, after the file was opened"):
            said = c.h5py("read_late", f"{url}/{fault}@2-/x.h5?secret=1", env=env)
            assert said.startswith(f"{kind} ") and "/x.h5" in said and "secret" not in said, said


def check_short(tap, python, version):
    """A server may send less than it was asked for (RFC 9110, 15.3.7)."""
    with tempfile.TemporaryDirectory(prefix="xh-long-") as d:
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_LONG, f"{d}/long.h5"], harness.clean_env())
        assert status == 0, out + err
        with liar(f"{d}/long.h5") as url:
            c = Case(tap, None, python, version)
            with c.claim("a long read of which each reply brings 4 KiB comes whole, however many it takes"):
                said = c.h5py("read", f"{url}/partial:4096/long.h5",
                              env=c.env(part_bytes=67108864, connections=1, readahead="off", whole_file_bytes=0))
                assert said == "1200000.0\n", said


def check_c_programs(tap, server, build):
    env = without_shadow(server)
    url = f"{server.url}/sample.h5"
    for case in ("reopen", "twice", "fork", "fork_exit", "threads", "stack", "exit"):
        with tap.claim(f"C programs: {case}, {server.kind}"):
            status, out, err = harness.run([build / "test_life", case, url, "d"], env, timeout=60)
            assert status == 0 and err == "", f"exit status {status}\n{out}{err}"
    with tap.claim(f"C programs: vectored reads equal a naive model, {server.kind}"):
        linked = {k: v for k, v in env.items() if not k.startswith("HDF5_")}
        status, out, err = harness.run([build / "test_vector", build / "sample.h5", url], linked, timeout=120)
        assert status == 0, f"exit status {status}\n{out}{err}"
    with tap.claim(f"C programs: links are followed with the settings of the file that holds them, {server.kind}"):
        status, out, err = harness.run([build / "test_links", f"{server.url}/links/main.h5", server.cacert],
                                       harness.clean_env(), timeout=60)
        assert status == 0, f"exit status {status}\n{out}{err}"
    with tap.claim(f"HDF5's tools find an object behind a file's name, {server.kind}"):
        before = server.requests()[0]
        status, out, err = harness.run(["h5ls", f"{url}/d"], env, timeout=60)
        assert status == 0 and "Dataset {20000}" in out, f"exit status {status}\n{out}{err}"
        print(f"# h5ls file.h5/d: {server.requests()[0] - before} requests")
    with tap.claim(f"h5dump takes the driver and its options as arguments, {server.kind}"):
        bare = {k: v for k, v in env.items() if not k.startswith(("HDF5_DRIVER", "XHDF5_"))}
        info = f"ca_bundle={server.cacert},shadow=off,connections=2"
        status, out, err = harness.run(["h5dump", "-H", "--vfd-name", "xhdf5", "--vfd-info", info, url], bare,
                                       timeout=60)
        assert status == 0 and "DATASET" in out, f"exit status {status}\n{out}{err}"


def main():
    kind, build = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-remote-") as root:
        make_data(root, build)
        with harness.Server(kind, root) as server:
            check_c_programs(tap, server, build)
            for version, python in harness.H5PY.items():
                c = Case(tap, server, python, version)
                for check in (check_errors, check_certificates, check_refusals, check_links, check_processes):
                    check(c)
        for version, python in harness.H5PY.items():
            with liar(build / "sample.h5") as url:
                check_statuses(Case(tap, None, python, version), url)
    check_short(tap, python, version)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
