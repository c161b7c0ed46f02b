#!/usr/bin/env python3
"""Files at URLs are created and changed: what a program closes is at the server, whole, or is kept, and nothing else is lost.

Usage: writing.py nginx|apache|xrootd [--faults] [WORD …]     with words: only the claims that hold one of them
    --faults: every request of a commit fails in every way, instead of the rest

Real servers, h5py, and a gate before the server (tests/support/gate.py) that fails chosen requests. After each fault the
file at the server is the old version or the new one, byte by byte, and what was written comes there by `xhdf5 recover
retry`, or is there.
"""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import warm_python  # noqa: E402
from gate import Gate  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
HASTY = {"retries": 1, "connect_timeout_ms": 2000, "stall_timeout_ms": 2000}

MAKE = """
with h5py.File(url, mode) as f:
    f["a"] = np.arange(20000)
    f.create_dataset("chunks", data=np.arange(90000.).reshape(300, 300), chunks=(50, 50))
    f.create_dataset("packed", data=np.arange(90000).reshape(300, 300), chunks=(50, 50), compression="gzip")
    f.create_dataset("text", data=["eins", "zwei", "drei"], dtype=h5py.string_dtype())
    f.create_group("g/h").attrs["x"] = 5
"""
CHANGE = """
with h5py.File(url, "r+") as f:
    f["a"][100:200] = -1
    f["g/new"] = np.arange(1000.)
    f["g/h"].attrs["x"] = 6
"""


class Place:
    """A server that takes writes, an overlay directory, a shadow, and programs that use them."""

    def __init__(self, kind, stack, words=()):
        self.kind = kind
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="xh-writing-"))
        stack.callback(shutil.rmtree, self.root, ignore_errors=True)
        self.root.chmod(0o777)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="xh-overlay-"))
        stack.callback(shutil.rmtree, self.work, ignore_errors=True)
        self.overlay = self.work / "overlay"
        self.server = stack.enter_context(harness.Server(kind, self.root, words=["--writable", *words]))
        self.shadow = stack.enter_context(harness.shadow_dir())
        self.gate = stack.enter_context(Gate(self.server))

    def env(self, without_shadow=False, **options):
        if without_shadow:
            return self.env(**options) | {"XHDF5_SHADOW": "off"}
        return harness.driver_env(self.server, self.shadow, **{"writable": "on", "overlay_dir": self.overlay} | options)

    def popen(self, code, url, mode="w", **options):
        code = "import sys, os, h5py, numpy as np\nurl, mode = sys.argv[1:3]\n" + textwrap.dedent(code)
        return subprocess.Popen([H5PY, "-c", code, url, mode], env=self.env(**options), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, code, url, mode="w", **options):
        p = self.popen(code, url, mode, **options)
        out, err = p.communicate(timeout=100)
        return p.returncode, out, err

    def good(self, *args, **options):
        status, out, err = self.run(*args, **options)
        assert status == 0, err[-3000:]
        return out

    def bad(self, *args, **options):
        status, out, err = self.run(*args, **options)
        assert status == 1, (status, out, err[-2000:])
        return err

    def local(self, code, path, mode="w"):
        """Runs it on a local file, with HDF5's own driver."""
        code = "import sys, h5py, numpy as np\nurl, mode = sys.argv[1:3]\n" + textwrap.dedent(code)
        status, out, err = harness.run([H5PY, "-c", code, path, mode], harness.clean_env())
        assert status == 0, err
        return out

    def tool(self, *words, status=0, **options):
        got, out, err = harness.run([TOOL, "recover", *words], self.env(**options))
        assert got == status, (words, got, out, err)
        return out + err

    def left(self):
        """What is kept, by the tool."""
        return json.loads(self.tool("list", "--json"))

    def drop_all(self):
        for left in self.left():
            self.tool("drop", left["id"])

    def beside(self, name):
        """What lies beside a file at the server."""
        return sorted(p.name[len(name):] for p in self.root.iterdir() if p.name.startswith(name) and p.name != name)

    def valid(self, name):
        """h5dump reads all of it."""
        status, _, err = harness.run(["h5dump", self.root / name], harness.clean_env())
        assert status == 0, err

    def same(self, name, path):
        """The file at the server and the local one hold the same, by h5diff."""
        status, out, err = harness.run(["h5diff", self.root / name, path], harness.clean_env())
        assert status == 0, out + err

    @staticmethod
    def hash(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def bytes(self, name):
        path = self.root / name
        return self.hash(path) if path.exists() else None


# --- what works -----------------------------------------------------------------------------------

def check_creating(tap, p):
    url = p.server.url + "/new.h5"
    with tap.claim("creating: the file at the server is the one that a local program makes; nothing else stays"):
        p.good(MAKE, url)
        p.local(MAKE, p.work / "local.h5")
        p.same("new.h5", p.work / "local.h5")
        p.valid("new.h5")
        assert p.beside("new.h5") == [] and p.left() == [], (p.beside("new.h5"), p.left())
    with tap.claim("creating: mode x refuses a file that is there, mode w replaces it"):
        assert "FileExistsError" in p.bad(MAKE, url, "x")
        p.good("with h5py.File(url, 'w') as f: f['only'] = 1", url)
        assert p.local("print(list(h5py.File(url)))", p.root / "new.h5") == "['only']\n"
        p.good(MAKE, p.server.url + "/x.h5", "x")
    with tap.claim("creating: files that end a little behind a whole MiB, where TLS cut badly makes XRootD wait"):
        p.good("""
for extra in (-2000, 1, 1000, 8000, 14000, 17000):
    with h5py.File(f"{url}-{extra}.h5", "w") as f:
        f["a"] = np.ones((1 << 20) + extra, "u1")""", p.server.url + "/mib")
        assert len(p.beside("mib")) == 6, p.beside("mib")
    with tap.claim("creating: where HDF5 cannot make the file, the one that is there stays, and none is made"):
        was = p.bytes("x.h5")
        for mode, name in (("w", "x.h5"), ("w", "none.h5"), ("x", "none.h5")):
            err = p.bad("h5py.File(url, mode, libver=('earliest', 'v108'), fs_strategy='page', fs_persist=True)",
                        f"{p.server.url}/{name}", mode)
            assert "version out of bounds" in err and f"/{name}: closed before HDF5 had finished" in err, err
            assert p.bytes("x.h5") == was and p.bytes("none.h5") is None and p.left() == [], (mode, name, p.left())
    with tap.claim("creating: two who create one file with mode x: one of them has it, the other is told"):
        other = p.popen("f = h5py.File(url, 'x'); f['mine'] = 1; print('open', flush=True); sys.stdin.readline(); f.close()",
                        p.server.url + "/both.h5")
        assert other.stdout.readline() == "open\n"
        p.good(MAKE, p.server.url + "/both.h5", "x")
        _, err = other.communicate("\n", timeout=60)
        assert other.returncode == 1 and "errno = 17" in err and "recover" in err, err
        p.valid("both.h5")
        assert [one["url"] for one in p.left()] == [p.server.url + "/both.h5"]
        p.tool("drop", p.left()[0]["id"])
    with tap.claim("creating: five requests are waited for beside the upload, and no handshake"):
        p.gate.arm(lambda *_: None)
        out = p.good("f = h5py.File(url, 'w'); f['a'] = 1; print('w', flush=True); f.close()", p.gate.url + "/steps.h5",
                     log="origin")
        names = [(m, re.sub(r"^/steps.h5|[0-9a-f]{16}", "", path)) for m, path, _ in p.gate.log]
        place = [("MKCOL", ".xhdf5-n1/")] if p.kind != "xrootd" else []    # which makes it for what is put
        unlock = [("DELETE", ".xhdf5-lock/owner")] if p.kind == "xrootd" else []
        waited = [*place, ("PUT", ".xhdf5-n1/data-n1"), ("MOVE", ".xhdf5-n1/"),
                  ("PROPFIND" if p.kind == "xrootd" else "HEAD", ".xhdf5-lock/data-n1"),
                  ("MOVE", ".xhdf5-lock/data-n1"), *unlock, ("DELETE", ".xhdf5-lock/")]
        assert [x for x in names if x in waited] == waited and ("PROPFIND", "/") in names, names
        assert not [m for m, _ in names if m == "MKCOL"][len(place):], names
        assert out == "w\n" and p.beside("steps.h5") == [], p.beside("steps.h5")
    if p.kind == "xrootd":
        with tap.claim("creating: a server of XRootD's name that makes no directories is asked to make them"):
            for code in ("f = h5py.File(url, 'w'); f['a'] = 1; f.close()",
                         "f = h5py.File(url, 'r+'); f['b'] = 2; f.close()"):
                made = set()

                def rule(n, method, path):
                    there = path.rsplit("/", 1)[0]
                    made.update({there} if method == "MKCOL" else set())
                    return 409 if method == "PUT" and ".xhdf5-" in path and there not in made and "-turn/" not in path else None
                p.gate.arm(rule)
                p.good(code, p.gate.url + "/dirs.h5")
                p.gate.arm(lambda *_: None)
                assert made and p.beside("dirs.h5") == [], (made, p.beside("dirs.h5"))
            assert p.local("print(*h5py.File(url))", p.root / "dirs.h5") == "a b\n"
    if p.kind != "xrootd":    # which makes directories by itself
        with tap.claim("creating: in a directory that is not there: the error says so, and retry sends it later"):
            said = p.bad(MAKE, p.server.url + "/none/new.h5")
            assert "409 Conflict at MKCOL: the directory of the file does not exist there" in said, said
            (p.root / "none").mkdir()
            (p.root / "none").chmod(0o777)
            p.tool("retry", p.left()[0]["id"])
            p.same("none/new.h5", p.work / "local.h5")
    with tap.claim("creating: the option is off: as ever"):
        assert "read-only" in p.bad(MAKE, url, writable="off")
    with tap.claim("creating: http and a query are refused; so is a directory of the overlay that others can read, or "
                   "what somebody else has made in its place, and the error names the option"):
        assert "https" in p.bad(MAKE, url.replace("https", "http"))
        assert "query" in p.bad(MAKE, url + "?a=b")
        shared = p.work / "shared"
        shared.mkdir(mode=0o755)
        assert "not this user's alone" in p.bad(MAKE, url, overlay_dir=shared)
        shared.rmdir()
        for make in os.mkfifo, lambda name: name.symlink_to(p.work), lambda name: name.write_text(""):
            make(shared)
            assert "XHDF5_OVERLAY_DIR" in p.bad(MAKE, url, overlay_dir=shared)
            shared.unlink()
    with tap.claim("creating: a relative directory of the overlay is one of the directory at opening; nothing stays"):
        p.good(f"os.chdir({str(p.work)!r}); f = h5py.File(url, 'w'); f['a'] = 1; os.chdir('/'); f.close()",
               p.server.url + "/elsewhere.h5", overlay_dir="relative")
        assert not list((p.work / "relative").iterdir())
    with tap.claim("creating: where the program has named the directory of the overlay, the error names it, and the "
                   "command finds it by that"):
        p.gate.arm(lambda _, method, *more: 507 if method == "PUT" else None)
        err = p.bad(f"os.environ['HDF5_DRIVER_CONFIG'] = 'overlay_dir=its own'; os.chdir({str(p.work)!r})\n"
                    "f = h5py.File(url, 'w'); f['a'] = 1; os.chdir('/'); f.close()", p.gate.url + "/named.h5")
        p.gate.arm(lambda *_: None)
        named = re.search(r"recover retry ([0-9a-f]+)\b.*XHDF5_OVERLAY_DIR=(.*?/its own)", err)
        assert named and named[2] == f"{p.work}/its own", err[-2000:]
        p.tool("retry", named[1], overlay_dir=named[2])
        assert (p.root / "named.h5").exists()
    with tap.claim("creating: recover, where there is no such overlay, says that it may be in another directory"):
        assert "XHDF5_OVERLAY_DIR" in p.tool("retry", "0123456789abcdef", status=3)
    with tap.claim("creating: more than the budget is refused where it is written, and the file is not sent"):
        err = p.bad("f = h5py.File(url, 'w'); f['a'] = np.zeros(100000); f.close()", p.server.url + "/much.h5",
                    overlay_budget_bytes=100000)
        assert "OVERLAY_BUDGET" in err, err
        assert not (p.root / "much.h5").exists()
        [one] = p.left()
        assert one["state"] == "a write failed", one
        assert "no whole file" in p.tool("retry", one["id"], status=3) and not (p.root / "much.h5").exists()
        p.tool("drop", one["id"])
    claim = "creating: a tmpfs without a limit, which reports no blocks, has room"
    mount = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=0,mode=700 none "$1" && shift && exec "$@"',
             "sh", str(p.work)]
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        return tap.skip(claim, "mounting is not permitted")
    with tap.claim(claim):
        code = "import sys, h5py, numpy as np\nurl, mode = sys.argv[1:]\n" + textwrap.dedent(MAKE)
        status, _, err = harness.run([*mount, H5PY, "-c", code, p.server.url + "/room.h5", "w"], p.env())
        assert status == 0, err[-2000:]
        p.same("room.h5", p.work / "local.h5")


def check_guarded(tap, p):
    """A guard holds for its place by every name, where a request begins and where a MOVE leads to."""
    if p.kind == "xrootd":    # has no guarded place as it is started here
        return
    guarded, server, holes = p.root / "private", p.server.url.removeprefix("https://"), []
    context = ssl.create_default_context(cafile=p.server.cacert)

    def ask(method, path, body=None, **headers):
        connection = http.client.HTTPSConnection(server, timeout=20, context=context)
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in ({"Content-Length": str(len(body or b""))} | headers).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        status = connection.getresponse().status
        connection.close()
        return status

    def places():
        return {x.name: sorted(y.name for y in x.iterdir()) if x.is_dir() else "a file"
                for x in (guarded, p.root / "out") if x.exists()}

    def clean():
        for x in (guarded, p.root / "out"):
            shutil.rmtree(x) if x.is_dir() else x.unlink(missing_ok=True)

    def refused(method, path, **headers):
        clean()
        guarded.mkdir()
        guarded.chmod(0o777)
        (guarded / "kept").write_bytes(b"k")
        status = ask(method, path, **headers)
        if status < 300 or places() != {"private": ["kept"]}:
            holes.append((method, path, headers, status, places()))

    with tap.claim("guarded: what is guarded stays, and no MOVE leads there, however its name is written"):
        for way in ("/private/x", "/%70rivate/x", "/priv%61te/x", "//private/x", "/./private/x", "/%2e/private/x",
                    "/a/../private/x", "/private%2fx", "/PRIVATE/../private/x", "/private", "/private/", "/private?x"):
            for destination in (p.server.url + way, way):
                assert ask("PUT", "/moved.h5", b"x") in (201, 204)
                refused("MOVE", "/moved.h5", Destination=destination)
        for way in ("/private", "/private/", "/%70rivate", "//private", "/./private", "/a/../private", "/private?x",
                    "/private/kept", "/", "//", "/private/.."):
            refused("DELETE", way)
            for method in ("MOVE", "COPY"):
                for out in ("/out", "/out/"):
                    refused(method, way, Destination=p.server.url + out)
        for way in "/", "//", "/./", "/%2e", "/folder/..":    # what is there goes first: the whole tree
            for method in ("MOVE", "COPY"):
                (p.root / "folder").mkdir(exist_ok=True)
                (p.root / "folder").chmod(0o777)
                refused(method, "/folder/", Destination=p.server.url + way)
        (p.root / "folder").rmdir()
        assert ask("PUT", "/moved.h5", b"x") in (201, 204)
        for name, way in ("a b\u00e4.h5", "a%20b%C3%A4.h5"), (".hidden..h5", ".hidden..h5"):
            status = ask("MOVE", "/moved.h5", Destination=f"{p.server.url}/{way}")
            assert status in (201, 204), (status, way, [x.name for x in p.root.iterdir()], holes)
            (p.root / name).rename(p.root / "moved.h5")
        (p.root / "moved.h5").unlink()
        clean()
        assert not holes, "\n".join(map(str, holes))


def check_full(tap, p):
    """The overlay's disk is full: a small tmpfs."""
    url, disk = p.server.url + "/full.h5", p.work / "disk"
    disk.mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", disk],
                      capture_output=True).returncode:
        tap.skip("the overlay's disk is full", "nothing can be mounted here")
        return
    at = {"overlay_dir": disk}
    try:
        p.good("f = h5py.File(url, 'w'); f['a'] = np.arange(9000); f['b'] = np.zeros(200000); f.close()", url)
        for what, code in (("creating", "f = h5py.File(url, 'w'); f['much'] = np.ones(300000); f.close()"),
                           ("changing", "f = h5py.File(url, 'r+'); f['a'][:] = 1; f['b'][:] = 1; f.close()")):
            with tap.claim(f"the overlay's disk is full, {what}: the write fails, closing sends nothing, nothing can be sent later"):
                before = p.bytes("full.h5")
                err = p.bad(code, url, **at)
                assert "No space left" in err and p.bytes("full.h5") == before, err
                [one] = json.loads(p.tool("list", "--json", **at))
                assert one["state"] in ("a write failed", "never closed"), one
                p.tool("retry", one["id"], status=3, **at)
                assert p.bytes("full.h5") == before
                p.tool("drop", one["id"], **at)
        with tap.claim("the overlay's disk is full at closing, and all was written before: it is sent, or kept"):
            code = """
                f = h5py.File(url, "r+"); f["a"][:] = 7; f.flush()
                with open(os.environ["XHDF5_OVERLAY_DIR"] + "/full", "wb", 0) as x:
                    try:
                        while x.write(bytes(512)): pass
                    except OSError: pass
                f.close()"""
            p.good(code, url, **at)
            assert p.local("print(h5py.File(url)['a'][5])", p.root / "full.h5") == "7\n"
            assert os.listdir(disk) == ["full"]
        with tap.claim("the overlay's disk is full at closing, and the server refuses: that nothing was saved is said"):
            (disk / "full").unlink()
            p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
            err = p.bad(code.replace("= 7", "= 8"), p.gate.url + "/full.h5", **at)
            p.gate.arm(lambda *_: None)
            assert "NOT saved" in err and "507" in err, err
            assert p.local("print(h5py.File(url)['a'][5])", p.root / "full.h5") == "7\n"
        read_on = """
            f = h5py.File(url, "r+")
            assert all((f["b"][i:i + 10000] == 0).all() for i in range(0, 200000, 10000))
            top = os.environ["XHDF5_OVERLAY_DIR"]
            print(max(os.stat(f"{top}/{x}/base").st_blocks * 512 for x in os.listdir(top)))
            f["a"][6] = 66; f.close()"""
        with tap.claim("the overlay's disk is full: data is read on, though it cannot be kept for a merge"):
            shutil.rmtree(disk, ignore_errors=True)    # all but the mount
            p.good(read_on, url, overlay_budget_bytes=10000000, **at)
            assert p.local("print(h5py.File(url)['a'][6])", p.root / "full.h5") == "66\n" and os.listdir(disk) == []
        with tap.claim("so it is where a program may write no files of that length, which does not end it"):
            limited = ("import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
                       "resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))\n")
            p.good(limited + textwrap.dedent(read_on), url)
            assert p.local("print(h5py.File(url)['a'][6])", p.root / "full.h5") == "66\n"
        with tap.claim("what is read of a file open to write takes no more of the overlay's disk than its budget"):
            kept = int(p.good(read_on, url, overlay_budget_bytes=400000))
            assert 300000 < kept < 600000, kept
        with tap.claim("the overlay's disk is full behind a commit's last step: it has succeeded, and goes on"):
            os.environ["PLUGIN"] = str(harness.BUILD / "vfd" / "plugins" / "libhdf5_vfd_xhdf5.so")
            shutil.rmtree(disk, ignore_errors=True)
            go_on = COMMIT + textwrap.dedent(code.replace("= 7", "= 9").replace("f.close()", """
                assert commit(f) == 0
                os.unlink(os.environ["XHDF5_OVERLAY_DIR"] + "/full")
                sys.stdin.readline(); f["a"][5] = 10
                f.close()"""))
            shown = "f = h5py.File(url); print(f['a'][5], f['a'][6], f['b'][3])"
            p.good(go_on, url, **at)
            assert p.local(shown, p.root / "full.h5") == "10 9 0.0\n" and os.listdir(disk) == []
        with tap.claim("what it could not keep of that is a conflict, where somebody else changes the file"):
            one = p.popen(go_on.replace("sys.stdin", "print('sent', flush=True); sys.stdin"), url, **at)
            assert one.stdout.readline() == "sent\n", one.stderr.read()
            p.good("f = h5py.File(url, 'r+'); f['b'][3] = 3; f.close()", url)
            _, err = one.communicate("\n", timeout=100)
            assert one.returncode == 1 and "conflict" in err, (one.returncode, err)
            assert p.local(shown, p.root / "full.h5") == "9 9 3.0\n"
    finally:
        subprocess.run(["umount", disk], check=True)


def check_changing(tap, p):
    url, name = p.server.url + "/change.h5", "change.h5"
    p.good(MAKE, url)
    with tap.claim("changing: what HDF5 does to a local file it does to the remote one"):
        shutil.copy(p.root / name, p.work / "local.h5")
        p.good(CHANGE, url)
        p.local(CHANGE, p.work / "local.h5")
        p.same(name, p.work / "local.h5")
        p.valid(name)
    with tap.claim("changing: written bytes are read back before they are sent, and the others show through"):
        out = p.good("""
            f = h5py.File(url, "r+")
            f["a"][5] = 55
            f["chunks"][7] = 1
            print(int(f["a"][5]), int(f["a"][4]), float(f["chunks"][7].sum()), float(f["chunks"][8, 1]), f["text"].asstr()[1])
            f.close()""", url)
        assert out.split() == ["55", "4", "300.0", "2401.0", "zwei"], out
    with tap.claim("changing: a file that was opened for writing and not changed is not sent"):
        before, was = p.bytes(name), os.stat(p.root / name).st_mtime_ns
        p.gate.arm(lambda *_: None)
        p.good("f = h5py.File(url, 'r+'); f['a'][5] = 55; print(f['g/new'][3]); f.close()", p.gate.url + "/" + name)
        assert not [m for m, _, _ in p.gate.log if m in ("PUT", "MOVE", "MKCOL", "DELETE")], p.gate.log
        assert (p.bytes(name), os.stat(p.root / name).st_mtime_ns) == (before, was)
    with tap.claim("changing: the newest format with its flags, a user block, and pages, are as they are locally"):
        for how in ("libver='latest'", "userblock_size=1024", "fs_strategy='page', fs_page_size=4096"):
            make = f"with h5py.File(url, 'w', {how}) as f:\n    f['a'] = np.arange(1000); f.create_group('g')\n"
            p.good(make, p.server.url + "/format.h5")
            p.good("with h5py.File(url, 'r+') as f: f['b'] = f['a'][:] * 2; del f['g']", p.server.url + "/format.h5")
            assert p.local("f = h5py.File(url); print(list(f), int(f['b'][9]))",
                           p.root / "format.h5") == "['a', 'b'] 18\n", how
            p.valid("format.h5")
    with tap.claim("changing: shrinking and growing, attributes, deleting, resizing"):
        p.good("""
            with h5py.File(url, "w") as f:
                f.create_dataset("r", (10, 10), maxshape=(None, 10), chunks=(5, 10), data=np.ones((10, 10)))
                f["big"] = np.zeros(200000)
            with h5py.File(url, "r+") as f:
                del f["big"]
                f["r"].resize((50, 10))
                f["r"][40:] = 3
            with h5py.File(url, "r") as f:
                assert f["r"][:].sum() == 100 + 300 and list(f) == ["r"]""", p.server.url + "/size.h5")
        p.valid("size.h5")
    with tap.claim("changing: a reader who has the old version open is told that it has changed"):
        # Larger than what comes whole at opening.
        p.good("f = h5py.File(url, 'w'); f['x'] = np.ones((1000, 3000)); f.close()", p.server.url + "/read.h5")
        reader = p.popen("""
            f = h5py.File(url); print(f["x"][0, 0], flush=True); sys.stdin.readline()
            try: f["x"][:].sum(); f["x"][:].sum(); print("read on")
            except OSError as e: print(e)""", p.server.url + "/read.h5", readahead="off", revalidate_ms=1,
            without_shadow=True)
        assert reader.stdout.readline() == "1.0\n"
        p.good("f = h5py.File(url, 'r+'); f['y'] = 1; f.close()", p.server.url + "/read.h5")
        out, _ = reader.communicate("\n", timeout=60)
        assert "changed on the server" in out, out
    with tap.claim("changing: by h5py of HDF5 2.0 too"):
        code = "import sys, h5py\nwith h5py.File(sys.argv[1], 'r+') as f: f['a'][7] = 70; f['two'] = 2"
        status, _, err = harness.run([harness.H5PY["3.16.0"], "-c", code, url], p.env())
        assert status == 0, err
        assert p.local("f = h5py.File(url); print(f['a'][7], f['two'][()])", p.root / name) == "70 2\n"


COMMIT = """
import ctypes
lib = ctypes.CDLL(os.environ["PLUGIN"])
lib.H5FDxhdf5_call_for.argtypes = [ctypes.c_void_p]
lib.H5FDxhdf5_commit.argtypes = [ctypes.c_int64]
def commit(f):
    import re
    path = next(l.split()[-1] for l in open("/proc/self/maps") if re.search(r"libhdf5-[^/]*$", l))
    lib.H5FDxhdf5_call_for(ctypes.cast(ctypes.CDLL(path).H5Fflush, ctypes.c_void_p))
    return lib.H5FDxhdf5_commit(f.id.id)
"""


def check_commit(tap, p):
    os.environ["PLUGIN"] = str(harness.BUILD / "vfd" / "plugins" / "libhdf5_vfd_xhdf5.so")
    for how in ("", ", libver='latest'"):
        with tap.claim(f"commit on request: others read it while it stays open, again and again{how}"):
            url = p.server.url + "/commit.h5"
            out = p.good(COMMIT + f"""
                import subprocess
                def seen():
                    code = "import h5py, sys; print(*['%s=%d' % (k, v[()].sum()) for k, v in sorted(h5py.File(sys.argv[1]).items())])"
                    return subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True).stdout.strip()
                f = h5py.File(url, "w"{how})
                for i in range(3):
                    f["d%d" % i] = np.arange(100 + i)
                    f["d0"][0] = i
                    assert commit(f) == 0
                    print(seen(), f["d0"][0], f["d%d" % i][5])
                assert commit(f) == 0
                f.close()
                print(seen())""".replace("\n                ", "\n"), url)
            assert out.splitlines() == ["d0=4950 0 5", "d0=4951 d1=5050 1 5", "d0=4952 d1=5050 d2=5151 2 5",
                                        "d0=4952 d1=5050 d2=5151"], out
            p.valid("commit.h5")


# --- several writers ------------------------------------------------------------------------------

def check_merging(tap, p):
    url, name = p.server.url + "/merge.h5", "merge.h5"
    make = """
        with h5py.File(url, "w") as f:
            for i in range(4): f.create_dataset("d%d" % i, data=np.zeros(40, "i8"))
            f.create_dataset("c", data=np.zeros((8, 100)), chunks=(4, 100))
            f.create_dataset("n", data=np.zeros((8, 99), "i8"), chunks=(4, 99))
            f.create_dataset("b", data=np.zeros((8, 99), "u1"), chunks=(4, 99))
            f.create_dataset("z", data=np.zeros((8, 100)), chunks=(4, 100), compression="gzip")
            f.create_dataset("v", data=["a", "b"], dtype=h5py.string_dtype())"""

    def two(first, second, make=make, how=""):
        """The second opens before the first commits, and closes after. Returns the second's status and standard error."""
        p.good(make, url)
        wait = "print('written', flush=True); sys.stdin.readline()"
        late = p.popen(f"f = h5py.File(url, 'r+'{how})\n{second}\n{wait}; f.close()", url)
        assert late.stdout.readline() == "written\n"
        p.good(f"f = h5py.File(url, 'r+'{how})\n{first}\nf.close()", url)
        _, err = late.communicate("\n", timeout=60)
        return late.returncode, err

    def shows(code, wanted):
        out = p.local(f"f = h5py.File(url); print({code})", p.root / name)
        assert out.strip() == wanted, out
        p.valid(name)

    with tap.claim("merging: distinct datasets, close together"):
        assert two("f['d1'][:] = 1", "f['d2'][:] = 2")[0] == 0
        shows("[int(f['d%d' % i][:].sum()) for i in range(4)]", "[0, 40, 80, 0]")
    with tap.claim("merging: behind reads that are longer than the overlay's budget"):
        merges_behind_long_reads(p)
    with tap.claim("merging: different rows of one dataset"):
        assert two("f['d1'][:10] = 1", "f['d1'][20:30] = 2")[0] == 0
        shows("int(f['d1'][:].sum())", "30")
    with tap.claim("merging: different rows of one chunk, which each has read and written whole"):
        assert two("f['c'][0] = 1", "f['c'][1] = 2")[0] == 0
        shows("f['c'][:].sum(axis=1)[:3].tolist()", "[100.0, 200.0, 0.0]")

    with tap.claim("merging: neighbouring numbers of one chunk, large and small ones"):
        assert two("f['n'][:, 0::2] = 1", "f['n'][:, 1::2] = 256")[0] == 0
        shows("f['n'][:].sum(axis=0)[:4].tolist()", "[8, 2048, 8, 2048]")
        assert two("f['b'][:, 0::2] = 1", "f['b'][:, 1::2] = 2")[0] == 0
        shows("f['b'][:].sum(axis=0)[:4].tolist()", "[8, 16, 8, 16]")
    with tap.claim("merging: with HDF5's page buffer, numbers of one page that lie apart; not one number, nor strings"):
        paged = """
            with h5py.File(url, "w", fs_strategy="page", fs_page_size=16384) as f:
                f["odd"] = np.zeros(3, "i4")
                f.create_dataset("n", data=np.zeros(16, "i8"), chunks=(16,))"""
        strings = paged + """
                f.create_dataset("v", (100,), dtype=h5py.string_dtype())[50] = 'b'"""
        for what, first, second, merges in ((paged, "f['n'][1] = 1", "f['n'][4] = 2**40", True),
                                            (paged, "f['n'][1] = 1", "f['n'][1] = 2**40", False),
                                            (strings, "f['v'][0] = 'x'", "f['v'][90] = 'x'", False)):
            status, err = two(first, second, what, ", page_buf_size=65536")
            shows("f['n'][[1, 4]].tolist()", str([int("'n'" in first), 2**40 * merges]))
            assert (status == 0) if merges else (status == 1 and "conflict" in err), (first, second, status, err)
            if not merges:
                p.tool("drop", p.left()[0]["id"])

    def conflict(claim, first, second, *shown):
        with tap.claim(f"merging: {claim}: a conflict, the first's version stays, what the second wrote is kept"):
            status, err = two(first, second)
            assert status == 1 and "conflict" in err and "recover retry" not in err, (status, err)
            assert re.search(r'"xhdf5 recover export (\w+) FILE".*"xhdf5 recover drop \1"', err), err
            shows(*shown)
            [one] = p.left()
            assert one["state"] == "to be sent" and "conflict" in one["why"], one
            assert "conflict" in p.tool("retry", one["id"], status=3)
            out = p.work / "out.h5"
            p.tool("export", one["id"], out, status=1)
            p.tool("drop", one["id"])
            out.unlink()
            assert p.left() == [] and p.beside(name) == [], (p.left(), p.beside(name))
    conflict("the same rows of one chunk", "f['c'][0] = 1", "f['c'][0] = 2", "float(f['c'][0, 0])", "1.0")
    conflict("one number of a chunk, in which each changed other bytes", "f['n'][5, 1] = 1", "f['n'][5, 1] = 256",
             "int(f['n'][5, 1])", "1")
    conflict("one number of a chunk, of which the other changed fewer bytes", "f['n'][5, 1] = 257", "f['n'][5, 1] = 1",
             "int(f['n'][5, 1])", "257")
    conflict("a new object in both", "f['n1'] = 1", "f['n2'] = 2", "'n1' in f, 'n2' in f", "True False")
    conflict("a new object there, data here", "f['n1'] = 1", "f['d2'][:] = 2", "'n1' in f, int(f['d2'][0])", "True 0")
    conflict("data there, an attribute here", "f['d2'][:] = 2", "f.attrs['x'] = 1", "'x' in f.attrs, int(f['d2'][0])",
             "False 2")
    conflict("compressed chunks that change their place", "f['z'][0] = np.random.rand(100)",
             "f['z'][5] = np.random.rand(100)",
             "float(f['z'][5].sum())", "0.0")
    conflict("strings, which share a heap", "f['v'][0] = 'longer'", "f['v'][1] = 'another'",
             "f['v'].asstr()[:].tolist()",
             "['longer', 'b']")
    with tap.claim("merging: a version that is replaced while it is looked at is no conflict: the next one is merged with"):
        p.good(make.replace("np.zeros(40,", "np.zeros(40000,"), url)    # several requests long
        late = p.popen("f = h5py.File(url, 'r+'); f['d2'][:] = 2; print('w', flush=True); sys.stdin.readline(); f.close()",
                       p.gate.url + "/" + name)
        assert late.stdout.readline() == "w\n"
        p.good("f = h5py.File(url, 'r+'); f['d1'][:] = 1; f.close()", url)
        shutil.copy(p.root / name, p.root / "new.h5")
        p.local("f = h5py.File(url, 'r+'); f['d3'][:] = 3; f.close()", p.root / "new.h5")
        os.utime(p.root / "new.h5", (time.time() + 1, time.time() + 1))    # dates have seconds
        got = []

        def replace(n, method, path):
            if method == "GET" and path.endswith("/" + name):
                got.append(n)
                if len(got) == 2:    # by no writer of ours, who would wait for his turn
                    (p.root / "new.h5").rename(p.root / name)
            return None
        p.gate.arm(replace)
        _, err = late.communicate("\n", timeout=60)
        p.gate.arm(lambda *_: None)
        assert late.returncode == 0 and len(got) > 2, (late.returncode, got, err)
        shows("*[int(f['d%d' % i][:].min()) for i in range(4)]", "0 1 2 3")
    with tap.claim("merging: replaced by another file, removed: conflicts"):
        for what in (lambda: shutil.copyfile(p.root / "other.h5", p.root / name), lambda: (p.root / name).unlink()):
            p.good(make, url)
            p.good(MAKE, p.server.url + "/other.h5")
            late = p.popen("f = h5py.File(url, 'r+'); f['d1'][:] = 1; print('w', flush=True); sys.stdin.readline(); f.close()", url)
            late.stdout.readline()
            what()
            before = p.bytes(name)
            _, err = late.communicate("\n", timeout=60)
            assert late.returncode == 1 and "conflict" in err and p.bytes(name) == before, err
            p.tool("drop", p.left()[0]["id"])


LOCKED = "f = h5py.File(url, 'w'); f['d1'] = np.zeros(40); f['d2'] = np.zeros(40); f.close()"


def late_move(p, name, when):
    """The first writer's last request is held up, he is suspended, and it goes on when the second's last one comes, or is through."""
    url, state, moves = f"{p.gate.url}/{name}", {}, []

    def hold(n, method, path):
        if method == "MOVE" and "-lock/data-" in path:
            moves.append(path)
            if len(moves) == 1:
                os.kill(state["pid"], signal.SIGSTOP)    # he has sent it
                harness.wait_for(lambda: "go" in state, "the second writer", 60)
            elif len(moves) == 2 and when == "before":
                state["go"] = 1
                time.sleep(0.5)
        return None
    p.good(LOCKED, url)
    p.gate.arm(hold)
    first = p.popen("f = h5py.File(url, 'r+'); f['d1'][:] = 1; f.close()", url)
    state["pid"] = first.pid
    harness.wait_for(lambda: moves, "the last step", 60)
    p.good("f = h5py.File(url, 'r+'); f['d2'][:] = 2; f.close()", url)    # waits for the lock's end, and takes it
    state["go"] = 1
    time.sleep(0.3)
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    p.gate.arm(lambda *_: None)
    assert first.returncode == 0 and len(moves) >= 3 and len(set(moves)) >= 3, (first.returncode, moves, err)
    assert p.local("f = h5py.File(url); print(f['d1'][0], f['d2'][0])", p.root / name) == "1.0 2.0\n"
    assert p.beside(name) == [], p.beside(name)


def merges_behind_long_reads(p):
    """What is read and not kept takes no disk, and nothing of the budget for what is."""
    url = p.server.url + "/long.h5"
    p.local("""
        with h5py.File(url, "w") as f:
            f["a"] = np.zeros(1000); f["b"] = np.zeros(1000); f["long"] = np.zeros(700000)""", p.root / "long.h5")
    harness.age(p.root / "long.h5")
    one = p.popen("""
        f = h5py.File(url, "r+"); f["long"][:]; f["a"][:]; f["a"][5] = 5
        print("read", flush=True); sys.stdin.readline()
        f.close()""", url, overlay_budget_bytes=1000000)
    assert one.stdout.readline() == "read\n", one.stderr.read()
    p.good("f = h5py.File(url, 'r+'); f['b'][3] = 3; f.close()", url)
    _, err = one.communicate("\n", timeout=100)
    assert one.returncode == 0, err[-2000:]
    assert p.local("f = h5py.File(url); print(f['a'][5], f['b'][3])", p.root / "long.h5") == "5.0 3.0\n"


def check_lock(tap, p):
    name = "lock.h5"
    with tap.claim("locks: a last step that arrives while another has the lock, with his file in it, moves nothing"):
        late_move(p, name, "before")
    for n, what in enumerate(("empty", "without an owner"), 3):
        with tap.claim(f"locks: lock and turn that are {what}, as a server that was killed may leave them, are taken away"):
            for x in ("-lock", "-turn"):
                d = p.root / (name + ".xhdf5" + x)
                d.mkdir()
                if n == 4:
                    (d / "data-of1").write_bytes(b"of somebody")
                d.chmod(0o777)
            p.good(f"f = h5py.File(url, 'r+'); f['d1'][:] = {n}; f.close()", f"{p.gate.url}/{name}")
            assert p.local("f = h5py.File(url); print(f['d1'][0])", p.root / name) == f"{n}.0\n"
            if n == 3 or p.kind == "nginx":    # XRootD removes no directory with a file in it that nobody has told of
                assert p.beside(name) == [], p.beside(name)
    with tap.claim("locks: a server that hangs up in the middle of two handshakes is asked again"):
        one = p.popen("f = h5py.File(url, 'r+'); f['d1'][:] = 5; print('w', flush=True); sys.stdin.readline(); f.close()", p.gate.url + "/" + name)
        assert one.stdout.readline() == "w\n"
        p.gate.unwelcome = 2
        _, err = one.communicate("\n", timeout=60)
        assert one.returncode == 0 and p.gate.unwelcome == 0, (one.returncode, p.gate.unwelcome, err)
        assert p.local("f = h5py.File(url); print(f['d1'][0])", p.root / name) == "5.0\n"


def check_late(tap, p):
    with tap.claim("locks: a writer who is suspended before his last step, and comes back when another had his lock, loses nothing"):
        late_move(p, "late.h5", "behind")


def check_long(tap, p):
    """An upload that lasts for longer than a silent owner has his turn."""
    url, name = p.gate.url + "/long.h5", "long.h5"
    p.good("f = h5py.File(url, 'w'); f['d1'] = np.zeros(300000); f['d2'] = np.zeros(40); f.close()", url)
    with tap.claim("long: an upload of 14 s says that it is alive, and keeps its turn; who waits for it merges"):
        slow, busy = [], []

        def rule(n, method, path):
            if method == "PUT" and "/data-" in path and not slow.append(1) and len(slow) == 1:
                return ("slow", 14)
            # XRootD: the owner writes it just now. For longer than any retries last.
            return 423 if method == "GET" and path.endswith("-turn/owner") and not busy.append(1) and len(busy) <= 12 else None
        p.gate.arm(rule)
        first = p.popen("f = h5py.File(url, 'r+'); f['d1'][:] = 1; f.close()", url)
        harness.wait_for(lambda: slow, "the upload", 60)
        begun = time.monotonic()
        p.good("f = h5py.File(url, 'r+'); f['d2'][:] = 2; f.close()", url)
        waited = time.monotonic() - begun
        _, err = first.communicate(timeout=60)
        log, _ = p.gate.log, p.gate.arm(lambda *_: None)
        beats = [path for method, path, _ in log if method == "PUT" and path.endswith("-turn/owner")]
        assert first.returncode == 0 and waited > 10 and len(beats) >= 3, (first.returncode, waited, len(beats), err)
        assert len(slow) == 2 and len(busy) > 6, f"{len(slow)} uploads, {len(busy)} looks"
        assert not [path for method, path, _ in log if method == "DELETE" and "gone" in path]
        assert p.local("f = h5py.File(url); print(f['d1'][0], f['d2'][0])", p.root / name) == "1.0 2.0\n"
        assert p.beside(name) == [], p.beside(name)


# --- beside the file ------------------------------------------------------------------------------

READ = """
    with h5py.File(url) as f: print(f['d'][5], f['d'].attrs['x'], list(f))"""


def check_sidecar(tap, p):
    """What a publisher put beside a file that is then changed."""
    url, name = p.server.url + "/beside.h5", "beside.h5"
    with tap.claim("sidecar: of a file that is changed: its readers do without it, and get the new version's bytes"):
        p.good("""
            with h5py.File(url, "w") as f:
                f["d"] = np.zeros(4000000, "i1"); f["d"].attrs["x"] = 1
                for i in range(300): f.create_group("g%d" % i)""", url)
        publish = [TOOL, "publish", "--body", p.root / name]
        status, out, err = harness.run(publish, p.env())
        assert status == 0 and len(p.beside(name)) == 2, (out, err, p.beside(name))
        options = {"without_shadow": True, "writable": "off", "log": "all"}

        def read(sidecar="require"):    # which is waited for, however long it takes; "auto" reads without it then
            status, out, err = p.run(READ, url, sidecar=sidecar, **options)
            assert status == 0, err[-2000:]
            return out.split()[:2], re.findall(r"sidecar .*used=(\d)", err)
        got = read()
        assert got == (["0", "1"], ["1"]), got
        sidecars = {x: (p.root / (name + x)).read_bytes() for x in p.beside(name)}
        p.good("with h5py.File(url, 'r+') as f: f['d'][:] = 7; f['d'].attrs['x'] = 8", url, sidecar="auto")
        got = read("auto")
        assert got[0] == ["7", "8"] and "1" not in got[1], got
        assert {x: (p.root / (name + x)).read_bytes()
                for x in p.beside(name)} == sidecars, "the commit leaves them as they are"
        status, out, err = harness.run(publish, p.env())
        assert status == 0, (out, err)
        got = read()
        assert got == (["7", "8"], ["1"]), got


# --- faults ---------------------------------------------------------------------------------------

def check_recovering(tap, p):
    with tap.claim("recovering: killed in the upload: the old version is there, retry sends the new one and tidies up"):
        url, name = p.gate.url + "/killed.h5", "killed.h5"
        p.good(MAKE, url)
        before = p.bytes(name)
        state = {}

        def kill(n, method, path):
            if method == "PUT" and "/data-" in path and "pid" in state:
                os.kill(state.pop("pid"), signal.SIGKILL)
                return "half"
            return None
        p.gate.arm(kill)
        one = p.popen("sys.stdin.readline(); f = h5py.File(url, 'r+'); f['a'][:] = 7; f['n'] = 1; f.close()", url)
        state["pid"] = one.pid
        one.communicate("\n", timeout=60)
        assert one.returncode == -9 and p.bytes(name) == before
        p.gate.arm(lambda *_: None)
        [left] = p.left()
        assert left["state"] == "to be sent" and left["url"] == url, left
        mode = {x.name: oct(x.stat().st_mode & 0o777)
                for x in [p.overlay, *p.overlay.iterdir(), *p.overlay.glob("*/*")]}
        assert set(mode.values()) <= {"0o700", "0o600"}, mode
        p.tool("export", left["id"], p.work / "out.h5")
        assert p.local("f = h5py.File(url); print(f['a'][9], f['n'][()])", p.work / "out.h5") == "7 1\n"
        if p.kind == "nginx":    # it waits for a lock, too; one without an owner is taken away soonest
            (p.root / f"{name}.xhdf5-lock").mkdir()
            (p.root / f"{name}.xhdf5-lock" / "data-of1").write_bytes(b"of somebody")
            (p.root / f"{name}.xhdf5-lock").chmod(0o777)
        assert "sent to" in p.tool("retry", left["id"][:6])
        assert p.local("f = h5py.File(url); print(f['a'][9], f['n'][()])", p.root / name) == "7 1\n"
        p.valid(name)
        lock = [x for x in p.beside(name) if "turn" not in x]    # his turn is taken away by who comes next
        assert lock == [] and p.left() == [], (p.beside(name), p.left())
    with tap.claim("recovering: killed while it gives up its lock, behind the commit: nobody says that it was never closed"):
        for n, at in enumerate(("-lock/", "-turn/"), 1):
            p.gate.arm(lambda n, method, path: os.kill(one.pid, signal.SIGKILL) if method == "DELETE"
                       and at in path else None)
            one = p.popen("sys.stdin.readline(); f = h5py.File(url, 'r+'); f['a'][:] = int(mode); f.close()", url,
                          str(n))
            one.communicate("\n", timeout=60)
            p.gate.arm(lambda *_: None)
            assert one.returncode == -9
            assert p.local("print(h5py.File(url)['a'][9])", p.root / name) == f"{n}\n"
            assert [x["state"] for x in p.left()] in ([], ["to be sent"]), p.left()
            p.tool("retry", "--all")
            # Killed at the end of removing it, a directory without files may stay, until it is a minute old.
            assert p.left() == [] and list(p.overlay.glob("*/*")) == [], (p.left(), list(p.overlay.glob("**/*")))
            for x in p.beside(name):
                shutil.rmtree(p.root / (name + x))
    with tap.claim("recovering: what is left of an overlay whose removal was cut short is removed, and not shown; one in the making stays"):
        for files in (["alive", "base", "record"], ["alive"], [], ["alive.new"]):
            d = p.overlay / "0123456789abcdef"
            d.mkdir(mode=0o700)
            for x in files:
                (d / x).touch(mode=0o600)
            assert p.left() == [], (files, p.left())
            if "alive" in files:
                assert not d.exists(), files
            else:    # it may be anybody's who is about to make the files; not when it is old
                assert d.exists(), files
                os.utime(d, (1, 1))
                assert p.left() == [] and not d.exists(), files
    with tap.claim("recovering: killed before the file was closed: said, and only dropped"):
        one = p.popen("f = h5py.File(url, 'w'); f['a'] = 1; print('w', flush=True); sys.stdin.readline()",
                      p.server.url + "/never.h5")
        one.stdout.readline()
        assert p.left()[0]["state"] == "open in a program"
        one.kill()
        one.communicate()
        [left] = p.left()
        assert left["state"] == "never closed", left
        assert "never was whole" in p.tool("retry", left["id"], status=3)
        p.tool("drop", left["id"])
        assert p.left() == [] and not (p.root / "never.h5").exists()
    with tap.claim("recovering: a program that ends without closing loses nothing: sent, or kept and said"):
        # Its interpreter ends in its own way.
        alone = warm_python.ORDINARY_POPEN([H5PY, "-c", "import sys, h5py\nf = h5py.File(sys.argv[1], 'w'); f['a'] = 1",
                                            p.server.url + "/open.h5"], env=p.env(), stderr=subprocess.PIPE)
        said = alone.communicate(timeout=60)[1]
        assert alone.returncode == 0, said
        if (p.root / "open.h5").exists():
            p.valid("open.h5")
        else:
            p.tool("retry", "--all")
            p.valid("open.h5")
        assert p.left() == []
    with tap.claim("recovering: a child of fork that ends, or closes, sends nothing and spoils nothing"):
        p.good("""
            f = h5py.File(url, "w"); f["a"] = np.arange(10); f.flush()
            pid = os.fork()
            if pid == 0:
                f.close(); sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            import time
            f["b"] = 2; f.close()""", p.server.url + "/forked.h5")
        assert p.local("f = h5py.File(url); print(list(f), f['a'][9])", p.root / "forked.h5") == "['a', 'b'] 9\n"
        assert p.left() == []


def check_mirrored(tap, p):
    """The option endpoints, as a site's environment has it for its readers."""
    with tap.claim("mirrored: what is kept is sent, and exported, with what the file's own server has below it: a "
                   "mirror that lags is not asked"), contextlib.ExitStack() as stack:
        name, old = "mirrored.h5", pathlib.Path(tempfile.mkdtemp(prefix="xh-mirror-"))
        stack.callback(shutil.rmtree, old)
        old.chmod(0o755)
        own = f"{p.server.url}/{name}"
        p.good("with h5py.File(url, 'w') as f: f['a'] = np.zeros(1 << 25, 'u1'); f['b'] = np.zeros(9)", own)
        shutil.copyfile(p.root / name, old / name)
        mirror = stack.enter_context(harness.Server(p.kind, old))
        p.good("with h5py.File(url, 'r+') as f: f['a'][1 << 24:(1 << 24) + (1 << 16)] = 1", own)
        p.gate.arm(lambda n, method, path: 507 if method == "PUT" else None)
        p.bad("f = h5py.File(url, 'r+'); f['b'][0] = 7; f.close()", f"{p.gate.url}/{name}")
        p.gate.arm(lambda *_: None)
        [left] = p.left()
        (p.work / "cas.pem").write_bytes(b"".join(pathlib.Path(s.cacert).read_bytes() for s in (p.server, mirror)))
        both = {"endpoints": f"{p.gate.url} {mirror.url}", "ca_bundle": p.work / "cas.pem", "without_shadow": True}
        p.tool("export", left["id"], p.work / name, **both)
        p.tool("retry", left["id"], **both)
        asked = mirror.requests()[0]
        for path in (p.work / name, p.root / name):
            out = p.local("f = h5py.File(url); print(f['a'][:].sum(), f['b'][0])", path)
            assert out == "65536 7.0\n", (path, out)
        assert asked == 0, asked


FIRST = ("MKCOL", "PUT")    # of a commit; XRootD makes directories for what is put
FAULTS = ["cut", "deaf", "half", 401, 403, 500, 503, 507, "kill"]


def commits(p, code, url):
    """The requests of a commit, without fault: [(method, path)]."""
    p.gate.arm(lambda *_: None)
    p.good(code, url)
    first = next(i for i, (m, _, _) in enumerate(p.gate.log) if m in FIRST)
    return first, [(m, re.sub(r"[0-9a-f]{16}", "ID", path)) for m, path, _ in p.gate.log[first:]]


MADE = "sys.stdin.readline()\nf = h5py.File(url, 'w'); f['d'] = np.full(1000, {}.); f['n{}'] = 1\nprint('closing', flush=True)\nf.close()"
CHANGED = MADE.replace("'w'", "'r+'").replace("f['d'] = np.full(1000, {}.)", "f['d'][:] = {}")


def check_faults(tap, p, words):
    """Every request of a commit, every fault; once, and for good."""
    url, name = p.gate.url + "/fault.h5", "fault.h5"
    n = 1
    for how, code in (("changing", CHANGED), ("creating", MADE)):
        p.good("f = h5py.File(url, 'w'); f['d'] = np.zeros(1000); f.close()", url)
        _, steps = commits(p, "f = h5py.File(url, 'r+'); f['d'][0] = 1; f.close()" if how == "changing" else
                           "f = h5py.File(url, 'w'); f['d'] = 1; f.close()",
                           url if how == "changing" else p.gate.url + "/steps.h5")
        for i, (method, path) in enumerate(steps):
            for fault in FAULTS:
                for lasting in (0, 1):
                    claim = f"{how}, fault {fault} at step {i}, {method} {re.sub('/(fault|steps).h5', '', path)}{', for good' if lasting else ''}"
                    if (fault == "half" and method != "PUT") or (fault == "kill"
                                                                 and lasting) or (words and not any(w in claim
                                                                                                    for w in words)):
                        continue
                    n += 1
                    if how == "creating":
                        (p.root / name).unlink()
                    with tap.claim(claim):
                        one_fault(p, url, name, code.format(n, n), i, fault, lasting, n)


def one_fault(p, url, name, code, step, fault, lasting, n):
    before = p.bytes(name)
    state = {"at": None}
    one = p.popen(code, url, **HASTY)

    def rule(k, m, path):
        if state["at"] is None and m in FIRST:
            state["at"] = k
        if state["at"] is None or k < state["at"] + step or (k > state["at"] + step and not lasting):
            return None
        if fault == "kill":
            os.kill(one.pid, signal.SIGKILL)
            return "cut" if n % 2 else None
        return "cut" if fault == "half" and m != "PUT" else fault

    p.gate.arm(rule)
    _, err = one.communicate("\n", timeout=100)
    p.gate.arm(lambda *_: None)
    there = p.bytes(name) not in (before, None)
    if not (p.root / name).exists() and before:    # the gate parts what a server does in one go: the old file lies beside its name
        [aside] = [x for x in p.beside(name) if re.search(r"w\d+$", x)]
        assert p.bytes(name + aside) == before, "the old version is gone"

    def is_new():
        return p.local(f"f = h5py.File(url); print('n{n}' in f and f['d'][5] == {n})", p.root / name) == "True\n"
    assert not there or is_new(), "neither the old version nor the new one"
    if one.returncode == 0:
        assert there, "closed without an error, and it is not there"
    elif one.returncode == 1:
        assert "recover" in err and "OSError" in err or "Error" in err, err
    else:
        assert one.returncode == -9, (one.returncode, err[-1000:])
    left = p.left()
    # A commit that closes removes what is kept while it gives up its lock: who is killed then may have left something
    # or not.
    assert len(left) == (one.returncode != 0) or (one.returncode == -9 and there and not left), left
    if left:
        p.tool("retry", left[0]["id"])
    assert p.left() == []
    assert is_new(), "it did not get there by retry"
    p.valid(name)
    for x in p.beside(name):    # of killed ones: a lock or turn stays until somebody comes for it
        at = p.root / (name + x)
        shutil.rmtree(at) if at.is_dir() else at.unlink()


def main():
    kind = sys.argv[1]
    words = [w for w in sys.argv[2:] if not w.startswith("--")]
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        try:
            p = Place(kind, stack)
            tap.tidy = p.drop_all
        except harness.serve().Impossible as why:
            tap.skip(kind, why)
            return tap.done()
        if "--faults" in sys.argv:
            check_faults(tap, p, words)
        else:
            for check in (check_creating, check_guarded, check_full, check_changing, check_commit, check_merging,
                          check_lock, check_late, check_long, check_sidecar, check_recovering, check_mirrored):
                if not words or any(w in check.__name__ for w in words):
                    check(tap, p)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
