#!/usr/bin/env python3
"""xhdf5 doctor, stat, ls and get: what they say and fetch at real servers, and the doctor at servers that lie.

Usage: tool.py nginx|xrootd DYING_WRITES
       tool.py liar [--all]

--all (of liar): every fault; else those that once went wrong, or stand for a kind.
"""
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from gate import Gate  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
URL = "https://host/path/file.h5"     # in the documentation
STEPS = ["name", "connection", "TLS", "credentials", "redirects", "reply", "ranges", "version", "cache",
         "round trip", "throughput", "shadow", "sidecars", "opening", "metadata", "datasets"]
SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(3)
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("tiny", data=rng.integers(0, 9, 1 << 20), chunks=(512,), compression="gzip", maxshape=(None,))
    f.create_dataset("large", data=np.zeros((2048, 1024), "f4"), chunks=(1024, 512), shuffle=True, compression="gzip")
    f.create_dataset("names", data=[f"name {i}" for i in range(20000)])
    g = f.create_group("entry/data")
    g["soft"] = h5py.SoftLink("/tiny")
    g["abroad"] = h5py.ExternalLink("other.h5", "/x")
    g["\\u00e4\\nb"] = np.float64(1)
    g.attrs["unit"] = "m"
    f["type"] = np.dtype([("a", "<i4"), ("b", "S8")])
with h5py.File(sys.argv[2], "w", fs_strategy="page", fs_page_size=65536) as f:
    f["images"] = rng.integers(0, 1 << 16, (10, 1024, 1024)).astype("u2")
"""


class Bench:
    """The tool at one server, in a directory of its own."""

    def __init__(self, base, data, env, directory):
        self.base, self.data, self.env, self.directory = base, data, env, pathlib.Path(directory)

    def url(self, name):
        return f"{self.base}/{name}"

    def tool(self, *words, want=0, limit=None, before=(), **env):
        """(standard output, standard error). |limit|: no file may grow larger. |before|: a program that runs it."""
        def bound():
            if limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        r = subprocess.run([*map(str, before), str(TOOL), *map(str, words)], env=dict(self.env, **env),
                           stdin=subprocess.DEVNULL, cwd=self.directory, capture_output=True, timeout=60,
                           preexec_fn=bound)
        out, err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        assert r.returncode in (want if isinstance(want, tuple) else (want,)), f"exit code {r.returncode}, not {want}: {out}{err}"
        return out, err

    def doctor(self, name, *words, want=0, **env):
        """{step: its object}; several datasets: the last."""
        out = json.loads(self.tool("doctor", self.url(name), "--json", *words, want=want, **env)[0])
        return {s["step"]: s for s in out["steps"]}, out

    def parts(self, name):
        return sorted(self.directory.glob(f"{name}.part-*"))


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def untried_behind(steps, failed):
    """Of |failed| it is said that it failed, and of all behind it that they were not tried."""
    assert steps[failed]["state"] == "failed" and steps[failed]["advice"], steps[failed]
    for name in STEPS[STEPS.index(failed) + 1:]:
        assert steps[name]["state"] == "not tried", steps[name]


def examines(tap, b, kind):
    with tap.claim("doctor tells of each step what there is"):
        s, all_of_it = b.doctor("sample.h5", want=1)
        assert [step["step"] for step in all_of_it["steps"]
                if step["step"] not in ("dataset", "source")] == [*STEPS, "sources"]
        assert s["source"]["url"] == b.url("other.h5") and s["source"]["status"] == 404 and s["sources"]["named"] == 1, s
        assert s["TLS"]["protocol"].startswith("TLSv1.") and "throw-away" in s["TLS"]["issuer"] and s["TLS"]["resumed"] in ("yes", "no")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", s["TLS"]["until"])
        assert s["credentials"]["token"] == "none" and s["redirects"]["hops"] == 0
        assert s["reply"]["size"] == os.path.getsize(f"{b.data}/sample.h5") and kind in s["reply"]["server"].lower()
        assert s["ranges"]["ranges_in_one_request"] == {"nginx": 400, "xrootd": 2000}[kind], s["ranges"]
        assert s["version"]["proof"] == {"nginx": "etag", "xrootd": "propfind"}[kind]
        assert 0 < s["round trip"]["ms"] < 100 and s["opening"]["superblock"] == 0
        assert s["metadata"]["datasets"] == 4 and s["metadata"]["groups"] == 3 and s["metadata"]["places"] > 1
        told = {d["path"]: d["text"] for d in all_of_it["steps"] if d["step"] == "dataset"}
        assert set(told) == {"/tiny", "/large", "/names"} and "one by one" in told["/tiny"] and "cache" in told["/large"], told
        assert s["datasets"]["flawed"] == 3
        advice, = (d["advice"] for d in all_of_it["steps"] if d.get("path") == "/tiny")
        assert "h5repack -l /tiny:CHUNK=65536 old.h5 new.h5" in advice, advice
    with tap.claim("of a file that is laid out well it says so, with 0"):
        s, out = b.doctor("images.h5", "--quick")
        assert s["opening"]["page_bytes"] == 65536 and "nothing is in the way" in out["verdict"]
        assert s["throughput"]["state"] == "not tried"
        text = b.tool("doctor", b.url("images.h5"), "--quick")[0]
        assert text.count("  ok  ") == len(STEPS) - 2 and "nothing is in the way" in text, text


# Words before a command that runs it with a file system of 1 MiB at $1, which is full.
FULL = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c",
        'set -e; mount -t tmpfs -o size=1m,mode=700 none "$1"; head -c 9m /dev/zero >"$1/other" 2>/dev/null || :\n'
        'cd "$2"; shift 2; exec "$@"', "sh"]


def mounts_are_denied(directory):
    r = subprocess.run([*FULL, directory, directory, "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (r.stderr.strip() or "mounts are not permitted") if r.returncode else None


def where_it_stays(tap, b):
    """The directories of the shadow and of the disk cache, which nothing else of the doctor shows."""
    good, bad, full = (b.directory / name for name in ("own", "open", "full"))
    for d, mode in (good, 0o700), (bad, 0o777), (full, 0o700):
        d.mkdir()
        d.chmod(mode)
    with tap.claim("doctor tells of the shadow's directory how full it is, and of one that cannot be used why, and "
                   "what helps"):
        s = b.doctor("images.h5", "--quick")[0]["shadow"]
        assert s["state"] == "ok" and "that it may take" in s["text"] and " free" in s["text"], s
        assert "off" in b.doctor("images.h5", "--quick", XHDF5_SHADOW="off")[0]["shadow"]["text"]
        for name, why in (bad, "open to others"), ("/proc/nothing/here", "No such file"):
            s = b.doctor("images.h5", "--quick", want=1, XHDF5_SHADOW_DIR=str(name))[0]["shadow"]
            assert s["state"] == "note" and f"{name} cannot be used: " in s["text"] and why in s["text"], s
            assert "XHDF5_SHADOW_DIR" in s["advice"], s
    with tap.claim("so it does of the disk cache's"):
        for name, why in (bad, "open to others"), (b.directory / "own/x/y", "No such file"):
            s = b.doctor("images.h5", "--quick", want=1, XHDF5_DISK_CACHE_DIR=str(name))[0]["disk cache"]
            assert s["state"] == "note" and why in s["text"] and "XHDF5_DISK_CACHE_DIR" in s["advice"], s
    claim = "doctor, cache warm and get name a full file system as the cause, and get leaves nothing there"
    if denied := mounts_are_denied(full):
        return tap.skip(claim, denied)
    with tap.claim(claim):
        words = dict(before=[*FULL, full, b.directory], XHDF5_SHADOW_DIR=str(full))
        s = b.doctor("images.h5", "--quick", want=1, **words)[0]["shadow"]
        assert s["state"] == "note" and "No space left" in s["text"] and "make room" in s["advice"], s
        _, err = b.tool("cache", "warm", b.url("images.h5"), want=3, **words)
        assert f"{full} cannot be used: No space left" in err and "make room" in err, err
        script = '"$@"; code=$?; ls full >&2; exit $code'
        words["before"] += ["sh", "-c", script, "sh"]
        _, err = b.tool("get", b.url("images.h5"), "-o", "full/x.h5", want=3, **words)
        assert "there is room for 0 B" in err and ".part-" not in err, err


def beside(tap, b, kind):
    def sidecars(want):
        s = b.doctor("published.h5", "--quick", want=want, XHDF5_SIDECAR="auto")[0]["sidecars"]
        return s["state"], s.get("metadata_image"), s.get("compressed_body")

    path = pathlib.Path(b.data) / "published.h5"
    with tap.claim("doctor tells what lies beside the file, and whether it is of this version"):
        status, _, err = harness.run([harness.DATA_PYTHON, "-c",
                                      "import h5py, sys; f = h5py.File(sys.argv[1], 'w', fs_strategy='page', "
                                      "fs_page_size=65536); f['x'] = range(1 << 20)", path], harness.clean_env())
        assert status == 0, err
        assert sidecars(0) == ("ok", "none", "none")
        b.tool("publish", "--body", path)
        assert sidecars(0) == ("ok", "good", "good"), sidecars(0)
        os.utime(path, (1e9, 1e9))
        assert sidecars(1) == ("note", "of another version", "of another version"), sidecars(1)
        pathlib.Path(f"{path}.xhbody").write_text("nothing of the kind")
        assert sidecars(1)[2] == "damaged"
    with tap.claim("doctor --writing tells whether the server takes changes, and changes nothing"):
        s = b.doctor("published.h5", "--quick", "--writing", want=1)[0]
        assert s["writing"]["writable"] == "no" and s["writing"]["advice"], s["writing"]
        with harness.Server(kind, b.data, words=["--writable"]) as server:
            there, b.base = b.base, server.url
            names = sorted(os.listdir(b.data))
            s = b.doctor("published.h5", "--quick", "--writing", XHDF5_CA_BUNDLE=server.cacert)[0]
            b.base = there
            assert s["writing"]["writable"] == "yes" and s["writing"]["state"] == "ok", s["writing"]
            assert sorted(os.listdir(b.data)) == names
        assert "writing" not in b.doctor("published.h5", "--quick")[0]


def fails(tap, b):
    with tap.claim("each step that fails says what to do, and what comes behind is not tried"):
        untried_behind(b.doctor("nothing.h5", want=3)[0], "reply")
        there, b.base = b.base, "https://nowhere.invalid"
        untried_behind(b.doctor("x.h5", want=3)[0], "name")
        b.base = f"https://127.0.0.1:{harness.free_port()}"
        untried_behind(b.doctor("x.h5", want=3)[0], "connection")
        b.base = there
        s = b.doctor("sample.h5", want=3, XHDF5_CA_BUNDLE="/etc/ssl/certs/ca-certificates.crt")[0]
        untried_behind(s, "TLS")
        assert "throw-away" in s["TLS"]["issuer"], s["TLS"]
        s = b.doctor("sample.h5", want=3, XHDF5_CA_BUNDLE="/nowhere.pem")[0]
        untried_behind(s, "TLS")
        assert "/nowhere.pem" in s["TLS"]["text"] and "XHDF5_CA_BUNDLE" in s["TLS"]["advice"], s["TLS"]
        open_to_all = b.directory / "netrc"
        open_to_all.write_text("machine 127.0.0.1 login x password y\n")
        open_to_all.chmod(0o644)
        s = b.doctor("sample.h5", want=3, NETRC=str(open_to_all), XHDF5_NETRC="on")[0]
        untried_behind(s, "credentials")
        assert str(open_to_all) in s["credentials"]["text"], s["credentials"]
        s = b.doctor("text.h5", want=3)[0]
        assert s["reply"]["state"] == "ok" and "no HDF5 file" in s["opening"]["advice"], s["opening"]
        untried_behind(s, "opening")
        data = pathlib.Path(b.data)
        data.joinpath("torn.h5").write_bytes(data.joinpath("sample.h5").read_bytes()[:-4096])
        s = b.doctor("torn.h5", "--quick", want=3)[0]
        assert "upload" in s["opening"]["advice"], s["opening"]
    with tap.claim("to people it names the steps that were not tried in one line"):
        out = b.tool("doctor", b.url("nothing.h5"), "--quick", want=3)[0]
        assert re.search(r"\n   -  not tried    ranges, version, .*metadata,\s+datasets\n\nIt cannot be read",
                         out) and out.count("   -  ") == 1, out
    with tap.claim("a token is said to be found, and where, never what it is"):
        secret = "secret-of-the-test"
        (b.directory / "token").write_text(secret)
        os.chmod(b.directory / "token", 0o600)
        for env in ({"BEARER_TOKEN": secret}, {"BEARER_TOKEN_FILE": str(b.directory / "token")}):
            out, err = b.tool("doctor", b.url("images.h5") + "?x=" + secret, "--quick", **env)
            assert secret not in out + err and list(env)[0] in out, out


def looks(tap, b):
    with tap.claim("stat counts what there is"):
        s = json.loads(b.tool("stat", b.url("sample.h5"), "--json")[0])
        assert s["size"] == os.path.getsize(f"{b.data}/sample.h5") and s["superblock"] == 0 and s["page_bytes"] == 0
        assert (s["groups"], s["datasets"], s["types"], s["attributes"], s["unread"]) == (3, 4, 1, 1, 0), s
        assert 1000 < s["metadata_bytes"] < s["size"] / 2 and s["version"], s
        out, _ = b.tool("stat", b.url("images.h5"))
        assert "pages of 64.0 KiB" in out and "1 group, 1 dataset," in out, out
        assert "size " in b.tool("stat", b.url("text.h5"), want=3)[0]
    with tap.claim("ls lists objects and links with shapes, types, layouts, chunks and filters"):
        o = {e["path"]: e for e in json.loads(b.tool("ls", b.url("sample.h5"), "--json")[0])}
        assert set(o) == {"/", "/entry", "/entry/data", "/entry/data/soft", "/entry/data/abroad",
                          "/entry/data/\u00e4\nb", "/tiny", "/large",
                          "/names", "/type"}, set(o)
        assert o["/tiny"] == {"path": "/tiny", "kind": "dataset", "shape": [1 << 20], "max_shape": [None],
                              "type": "int64",
                              "layout": "chunked", "chunk": [512], "filters": "gzip-4"}, o["/tiny"]
        assert o["/large"]["type"] == "float32" and o["/large"]["filters"] == "shuffle gzip-4" and o["/names"]["type"] == "string"
        assert o["/entry/data/soft"]["target"] == "/tiny" and o["/entry/data/abroad"]["target"] == "other.h5: /x"
        assert o["/type"]["kind"] == "type" and o["/entry/data/\u00e4\nb"]["shape"] == []
    with tap.claim("of what HDF5 cannot read its version and the reason are told: a newer one may have written it"):
        status, _, err = harness.run([harness.H5PY["3.16.0"], "-c",    # HDF5 2.0
                                      "import h5py, sys\nwith h5py.File(sys.argv[1], 'w', libver='latest') as f:\n"
                                      "    f.create_dataset('d', data=range(9), chunks=(9,), compression='gzip')",
                                      f"{b.data}/newer.h5"], harness.clean_env())
        assert status == 0, err
        why = "HDF5 1.14.5 cannot read it: bad version number for layout message"
        out, _ = b.tool("ls", b.url("newer.h5"))
        assert f"/d  ({why})" in out, out
        d = json.loads(b.tool("doctor", b.url("newer.h5"), "--quick", "--json", want=1)[0])
        assert any(why in step["text"] for step in d["steps"] if step["step"].startswith("dataset")), d["steps"]
    with tap.claim("ls shows where a link leads without the user name and the query of a URL"):
        status, _, err = harness.run([harness.DATA_PYTHON, "-c",
                                      "import h5py, sys\nwith h5py.File(sys.argv[1], 'w') as f:\n"
                                      "    f['a'] = h5py.ExternalLink('https://me:secret@host/x.h5?sig=secret', '/y')",
                                      f"{b.data}/linked.h5"], harness.clean_env())
        assert status == 0, err
        out, err = b.tool("ls", b.url("linked.h5"))
        assert "/a -> https://host/x.h5: /y" in out and "secret" not in out + err, out + err
        assert "secret" not in b.tool("ls", b.url("linked.h5"), "--json")[0]
    with tap.claim("ls of a path lists that alone, and control characters of names stay away from the terminal"):
        out, _ = b.tool("ls", b.url("sample.h5"), "entry/data")
        assert [line.split()[1] for line in out.splitlines()] == ["/entry/data", "/entry/data/abroad",
                                                                  "/entry/data/soft", "/entry/data/\u00e4?b"], out
        assert "[2048, 1024] float32, chunked [1024, 512], shuffle gzip-4" in b.tool("ls", b.url("sample.h5"),
                                                                                     "/large")[0]
        assert "/nothing" in b.tool("ls", b.url("sample.h5"), "/nothing", want=3)[1]


def sick_disk(tap, b):
    """The kernel tells once that what was written is not on the disk."""
    sick = ["strace", "-f", "-o", b.directory / "trace", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1"]
    for what, limit in ("the sync at the end", None), ("a write, and the sync behind it", 17_000_000):
        with tap.claim(f"a disk fails at {what}: nothing of the part is kept, and the same command begins anew"):
            err = b.tool("get", b.url("images.h5"), "-o", "sick.h5", want=3, limit=limit, before=sick)[1]
            assert "INJECTED" in (b.directory / "trace").read_text() and "nothing of it is kept" in err, err
            assert not b.parts("sick.h5") and not (b.directory / "sick.h5").exists(), os.listdir(b.directory)
            assert "already" not in b.tool("get", b.url("images.h5"), "-o", "sick.h5")[1]
            assert digest(b.directory / "sick.h5") == digest(f"{b.data}/images.h5")
            (b.directory / "sick.h5").unlink()


def poor_file_systems(tap, b):
    """Some have no locks (Lustre without the option flock, some FUSE), some no hard links and no RENAME_NOREPLACE."""
    def lacking(*calls):
        return ["strace", "-f", "-o", b.directory / "trace", "-e", "trace=" + ",".join(names for names, _ in calls),
                *(word for names, error in calls for word in ("-e", f"inject={names}:error={error}"))]
    without_locks = lacking(("flock", "ENOSYS"))
    with tap.claim("on a file system without locks a file comes; a part that is there is left alone, and the error "
                   "says what to do"):
        b.tool("get", b.url("images.h5"), "-o", "free.h5", before=without_locks)
        assert digest(b.directory / "free.h5") == digest(f"{b.data}/images.h5") and not b.parts("free.h5")
        b.tool("get", b.url("images.h5"), "-o", "free2.h5", want=3, limit=1_000_000, before=without_locks)
        [part] = b.parts("free2.h5")
        size = part.stat().st_size
        err = b.tool("get", b.url("images.h5"), "-o", "free2.h5", want=3, before=without_locks)[1]
        assert "no locks" in err and "remove it" in err and part.stat().st_size == size, err
        part.unlink()
        b.tool("get", b.url("images.h5"), "-o", "free2.h5", before=without_locks)
        assert digest(b.directory / "free2.h5") == digest(f"{b.data}/images.h5")
    with tap.claim("a file is published there; what another publisher may be at work on is left alone, with 3"):
        out = b.tool("publish", b.directory / "free.h5", before=without_locks)[0]
        assert "of metadata" in out and (b.directory / "free.h5.xhmeta").exists(), out
        b.tool("publish", "--remove", b.directory / "free.h5")
        (b.directory / ".free.h5.xhmeta.part").write_text("another's")
        err = b.tool("publish", b.directory / "free.h5", want=3, before=without_locks)[1]
        assert "no locks" in err and (b.directory / ".free.h5.xhmeta.part").read_text() == "another's", err
    with tap.claim("one without hard links and RENAME_NOREPLACE gives a file its name, too"):
        b.tool("get", b.url("images.h5"), "-o", "named.h5",
               before=lacking(("renameat2", "EINVAL"), ("?link,linkat", "EPERM")))
        assert "INJECTED" in (b.directory / "trace").read_text() and not b.parts("named.h5")
        assert digest(b.directory / "named.h5") == digest(f"{b.data}/images.h5")
    for left in *b.directory.glob("free*"), *b.directory.glob(".free*"), b.directory / "named.h5":
        left.unlink()


def fetches(tap, b, server):
    size, here = os.path.getsize(f"{b.data}/images.h5"), b.directory / "images.h5"
    with tap.claim("get brings the file, by its own name, and once"):
        before = server.requests()[1]
        out, err = b.tool("get", b.url("images.h5") + "?ticket=1")
        assert digest(here) == digest(f"{b.data}/images.h5") and not b.parts("images.h5"), os.listdir(b.directory)
        assert size <= server.requests()[1] - before < 1.1 * size + 200000
        assert "version" in out and "of 20.1 MiB" in err and "ticket" not in out + err, out + err
    with tap.claim("a file that is there stays, unless --force says otherwise"):
        here.write_text("mine")
        assert "--force" in b.tool("get", b.url("images.h5"), want=3)[1] and here.read_text() == "mine"
        b.tool("get", b.url("images.h5"), "--force")
        assert digest(here) == digest(f"{b.data}/images.h5")
        here.unlink()
    with tap.claim("a name that is no regular file's is refused before anything is fetched, with --force, too"):
        (b.directory / "dir").mkdir()
        os.mkfifo(b.directory / "fifo")
        os.symlink("fifo", b.directory / "to-fifo")
        os.symlink("nowhere", b.directory / "to-nothing")
        before = server.requests()[1]
        for name, words, why in [("dir", [], "directory"), ("dir", ["--force"], "directory"),
                                 ("dir/", ["-f"], "directory"), ("fifo", [], "no regular file"),
                                 ("fifo", ["--force"], "no regular file"), ("to-fifo", ["--force"], "no regular file"),
                                 ("/dev/null", [], "no regular file"), ("to-nothing", [], "--force")]:
            assert why in b.tool("get", b.url("images.h5"), "-o", name, *words, want=3)[1], name
        assert "names no file" in b.tool("get", b.url("images.h5"), "-o", "", want=2)[1]
        assert server.requests()[1] == before and stat.S_ISFIFO(os.stat(b.directory / "to-fifo").st_mode)
        for name in "dir", "fifo", "to-nothing":
            assert not b.parts(name)
    with tap.claim("to standard output comes the same"):
        r = subprocess.run([TOOL, "get", b.url("images.h5"), "-o", "-"], env=b.env, capture_output=True, timeout=60)
        assert hashlib.sha256(r.stdout).hexdigest() == digest(f"{b.data}/images.h5")
    with tap.claim("what was interrupted goes on where it ended, and the name appears when it is whole"):
        b.tool("get", b.url("images.h5"), "-o", "part.h5", want=3, limit=17_000_000)
        (part,) = b.parts("part.h5")
        assert part.stat().st_size == 17_000_000 and not (b.directory / "part.h5").exists()
        before = server.requests()[1]
        assert "are there already" in b.tool("get", b.url("images.h5"), "-o", "part.h5")[1]
        assert server.requests()[1] - before < (size - 17_000_000) * 1.1 + 300000
        assert digest(b.directory / "part.h5") == digest(f"{b.data}/images.h5") and not b.parts("part.h5")
    with tap.claim("a part that has another name, too, is somebody's file: that stays as it is"):
        b.tool("get", b.url("images.h5"), "-o", "linked.h5", want=3, limit=1_000_000)
        (part,), mine = b.parts("linked.h5"), b.directory / "mine"
        for text in b"mine", b"mine" * size:    # shorter, and longer, than the file
            part.unlink(missing_ok=True)
            mine.unlink(missing_ok=True)
            mine.write_bytes(text)
            os.link(mine, part)
            b.tool("get", b.url("images.h5"), "-o", "linked.h5", "--force")
            assert mine.read_bytes() == text and digest(b.directory / "linked.h5") == digest(f"{b.data}/images.h5")
    with tap.claim("on a file system that has one owner for all files (CIFS, sshfs) a file comes, and one that was "
                   "interrupted begins anew"):
        env = {"LD_PRELOAD": os.path.abspath(sys.argv[2]), "DYING_OWNER": "4711"}
        b.tool("get", b.url("images.h5"), "-o", "owned.h5", want=3, limit=1_000_000, **env)
        b.tool("get", b.url("images.h5"), "-o", "owned.h5", **env)
        assert digest(b.directory / "owned.h5") == digest(f"{b.data}/images.h5") and not b.parts("owned.h5")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode:
        tap.skip("a disk that fails", "strace cannot trace here")
    else:
        sick_disk(tap, b)
        poor_file_systems(tap, b)
    with tap.claim("of another version nothing is used"):
        b.tool("get", b.url("images.h5"), "-o", "new.h5", want=3, limit=17_000_000)
        other = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        pathlib.Path(f"{b.data}/next").write_bytes(other)
        os.utime(f"{b.data}/next", (1_700_000_000, 1_700_000_000))
        os.replace(f"{b.data}/next", f"{b.data}/images.h5")
        assert "already" not in b.tool("get", b.url("images.h5"), "-o", "new.h5")[1]
        assert (b.directory / "new.h5").read_bytes() == other and not b.parts("new.h5")
    with tap.claim("one that is being fetched is left to whoever does, with 3"):
        b.tool("get", b.url("images.h5"), "-o", "two.h5", want=3, limit=1_000_000)
        with open(b.parts("two.h5")[0]) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert "another xhdf5 get" in b.tool("get", b.url("images.h5"), "-o", "two.h5", want=3)[1]
    with tap.claim("what cannot be fetched leaves no file, with 3; a command line without sense is told so with 2"):
        b.tool("get", b.url("nothing.h5"), want=3)
        assert not list(b.directory.glob("nothing*"))
        for words in (["get"], ["get", "x.h5"], ["get", b.base + "/"], ["stat"], ["doctor", "--jsn", b.base],
                      ["ls", b.base, "a", "b"],
                      ["doctor", "https://"], ["doctor", "https:///x"]):
            b.tool(*words, want=2)


def slow_whole(tap, b, server):
    """A server that sends no parts of files, and hardly anything of the whole."""
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + bytes(1 << 16)
    with Gate(server) as gate:
        for what, status, each_s, told in (
                ("endless", 200, 0.05, "bytes in"), ("headers", 200, 0.05, "bytes in"),
                ("headers", 200, 0, "headers"), ("endless", 403, 0, "status 403")):
            with tap.claim(f"in one piece, {status} and {'a body' if what == 'endless' else what} without an end, "
                           f"{'a piece each 50 ms' if each_s else 'at once'}: it fails with 3, and keeps nothing"):
                gate.arm(lambda n, method, path: (what, status, each_s) if n else ("give", whole))
                _, err = b.tool("get", f"{gate.url}/file.h5", "-o", "slow.h5", want=3, XHDF5_STALL_TIMEOUT_MS="500",
                                XHDF5_CONNECT_TIMEOUT_MS="2000", XHDF5_RETRIES="0")
                assert "in one piece" in err and told in err, err
                assert not list(b.directory.glob("slow.h5*"))


def nothing_in_it(tap, b, server):
    (pathlib.Path(b.data) / "empty.h5").touch()
    harness.age(pathlib.Path(b.data) / "empty.h5")
    with tap.claim("doctor: a file of 0 bytes is told as such"):
        assert "file is empty" in b.tool("doctor", b.url("empty.h5"), want=3)[0]
    with Gate(server) as gate:
        gate.arm(lambda *_: ("give", b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n"
                                     b"Content-Length: 0\r\n\r\n"))
        with tap.claim("doctor: so is one that is told by 416 and \"bytes */0\""):
            assert "the file is empty, it has 0 bytes" in b.tool("doctor", f"{gate.url}/empty.h5", want=3)[0]


def documented(tap, b):
    text = (harness.TOP / "docs/tool.md").read_text()
    lines = [line.split("#")[0].split() for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
             for line in block.splitlines()]
    with tap.claim(f"the {len(lines)} commands of docs/tool.md do what they say"):
        assert len(lines) >= 9 and all(words[0] == "xhdf5" for words in lines), lines
        for words in lines:
            b.tool(*[b.url("file.h5") if word == URL else word for word in words[1:]],
                   want=(0, 1) if words[1] == "doctor" else 0,     # 1: there is advice, which a busy machine may get
                   XHDF5_DISK_CACHE_DIR=str(b.directory / "disk"))


def at_server(tap, kind):
    with tempfile.TemporaryDirectory(prefix="xh-tool-") as data, tempfile.TemporaryDirectory() as directory:
        os.chmod(data, 0o755)
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", SAMPLE, f"{data}/sample.h5", f"{data}/images.h5"],
                                       harness.clean_env())
        assert status == 0, out + err
        with open(f"{data}/text.h5", "w") as f:
            f.write("no HDF5 file\n" * 1000)
        status, out, err = harness.run([harness.DATA_PYTHON, "-c",
                                        "import sys, h5py; h5py.File(sys.argv[1], 'w')['entry/data'] = range(99)",
                                        f"{data}/file.h5"], harness.clean_env())
        assert status == 0, out + err
        with harness.Server(kind, data) as server, harness.shadow_dir() as shadow:
            b = Bench(server.url, data, harness.driver_env(server, shadow, retries=1), directory)
            examines(tap, b, kind)
            where_it_stays(tap, b)
            if kind == "nginx":  # what does not depend on the server
                fails(tap, b)
                looks(tap, b)
                documented(tap, b)
                slow_whole(tap, b, server)
            fetches(tap, b, server)
            beside(tap, b, kind)
            nothing_in_it(tap, b, server)


# fault: (step that fails, or None: it can be read; a word)
LIES = {
    "ok": (None, ""), "stall-head": ("reply", "within the time"), "trickle-head": ("reply", ""),
    "endless-header": ("reply", ""),
    "huge-header": ("reply", ""), "garbage": ("reply", ""), "endless-continue": ("reply", ""),
    "empty-reply": ("reply", ""),
    "endless-200": ("opening", "does not do range requests"), "endless-error": ("reply", "500"),
    "no-range": (None, "are read whole"), "chunked-200": (None, "are read whole"),
    "wrong-range": ("reply", ""),
    "gzip-encoding": ("reply", "compressed"), "no-validator": (None, "names no version"),
    "token-echo": ("reply", "401"), "503": ("reply", "busy"),
    "redirect-loop": ("redirects", "loop"), "redirect-nowhere": ("redirects", "Location"),
    "redirect-far": ("redirects", ""), "redirect-near": ("reply", "link-local"),
    "endless-body@9-": (None, ""), "stall@9-": (None, ""), "close-after": (None, "closes"),
    "late:60@9-~0-1": (None, "the server spends itself"), "late:60@17-~0-1": (None, ""),
}
UNSAID = {"late:60@17-~0-1": "the server spends itself"}   # three of the five requests that are timed, not all
HANGS = ("stall", "trickle", "endless", "slow")     # are given little time; the others enough on any machine
TLS_LIES = {"redirect-http": ("redirects", "http"), "cert-expired": ("TLS", "expired"), "cert-host": ("TLS", "")}


def lied_to(liar, fault, expected, env):
    """Runs the doctor; returns what is wrong, or None."""
    env = dict(env, XHDF5_SIDECAR="auto", XHDF5_STALL_TIMEOUT_MS="500" if fault.startswith(HANGS) else "10000")
    status, out, err = harness.run([TOOL, "doctor", "--json", f"{liar}/{fault}/x.h5"], env, timeout=200)
    try:
        report = json.loads(out)
        states = {s["step"]: s["state"] for s in report["steps"]}
        failed = next((name for name in states if states[name] == "failed"), None)
        assert status in (0, 1, 3) and (status == 3) == (failed is not None), f"exit code {status}, failed: {failed}"
        if expected and not (expected[0] is None and failed in ("opening", "round trip")):
            assert failed == expected[0] and expected[1] in out, f"{failed} failed"
        assert UNSAID.get(fault, "\0") not in out
    except Exception as e:
        return f"{fault}: {e!r}\n{out[-3000:]}{err}"
    return None


@contextlib.contextmanager
def lying(sample, *words):
    p = subprocess.Popen([sys.executable, str(harness.TOP / "tests/support/liar.py"), str(sample), *words],
                         stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    facts = dict(re.findall(r"(\w+)=(\S+)", p.stdout.readline()))
    try:
        yield facts
    finally:
        p.stdin.close()
        p.wait(10)


def changes_meanwhile(tap, base, big, env, directory):
    """get of a file that is written over while it is fetched, told by each of the proofs that servers give."""
    data = pathlib.Path(big).read_bytes()
    versions = (data, data.translate(bytes(range(255, -1, -1))))
    env = dict(env, XHDF5_CONNECTIONS="2", XHDF5_PART_BYTES="64k", XHDF5_READAHEAD="off")
    # From the first request behind the opening. At XRootD the first one of these has the head, too, so the second is
    # meant; and on a loaded machine the head may be asked for twice.
    for fault in ("etag-change@2-", "etag-change-ignored@2-", "no-etag:2", "xrootd-late:4"):
        with tap.claim(f"get of a file that changes meanwhile ({fault}) fails with 3, and mixes nothing; then it comes whole"):
            to = pathlib.Path(directory) / f"{fault.split(':')[0].split('@')[0]}.bin"
            words = [TOOL, "get", f"{base}/{fault}/big.bin", "-o"]
            status, out, err = harness.run([*words, to], env, timeout=60)
            assert status == 3 and "changed" in err and not to.exists(), (status, out, err)
            assert not list(to.parent.glob(f"{to.name}.part-*")), os.listdir(to.parent)
            status, out, err = harness.run([*words, to], env, timeout=60)
            assert status == 0 and to.read_bytes() == versions[1], (status, out, err)
    with tap.claim("to standard output as well: the exit code says that it is of two versions"):
        r = subprocess.run([TOOL, "get", f"{base}/xrootd-late:4/other.bin", "-o", "-"], env=env, capture_output=True,
                           timeout=60)
        assert r.returncode == 3 and b"changed" in r.stderr and r.stdout not in versions, r.stderr


def at_liars(tap, everything):
    with tempfile.TemporaryDirectory(prefix="xh-tool-") as data, harness.shadow_dir() as shadow:
        sample = pathlib.Path(data) / "sample.h5"
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", SAMPLE, sample, f"{data}/images.h5"],
                                       harness.clean_env())
        assert status == 0, out + err
        env = harness.driver_env(None, shadow, connect_timeout_ms=5000, retries=1)
        lies = dict(LIES)
        if everything:
            listed = harness.run([sys.executable, harness.TOP / "tests/support/liar.py", "--help"], env)[1]
            names = re.findall(r"^  ([a-z0-9-]+) ", listed.split("faults:")[1], re.M)
            assert len(names) > 60, names
            lies |= {f"{name}{at}": LIES.get(name + at) for name in names
                     for at in ("", "@2-", "@12-") if name != "refuse"}
        big = pathlib.Path(data) / "big.bin"
        big.write_bytes(bytes(range(256)) * 24 * 4096)  # a second piece comes later than the first
        with lying(big) as liar:
            changes_meanwhile(tap, f"http://127.0.0.1:{liar['port']}", big, env, data)
        with lying(sample) as plain, lying(sample, "--tls",
                                           f"{data}/tls") as tls, concurrent.futures.ThreadPoolExecutor(6) as pool:
            jobs = {fault: pool.submit(lied_to, f"http://127.0.0.1:{plain['port']}", fault, expected, env)
                    for fault, expected in lies.items() if not fault.startswith(("cert-", "tls-"))}
            secure = dict(env, XHDF5_CA_BUNDLE=tls["cacert"])
            for fault, expected in TLS_LIES.items():
                if fault.startswith("cert-"):   # changes a whole server: one of its own
                    got = harness.run(["curl", "-s", "--cacert", tls["cacert"],
                                       f"https://127.0.0.1:{tls['port']}/_port:tls"], env)[1]
                    harness.run(["curl", "-s", "--cacert", tls["cacert"], f"https://127.0.0.1:{got}/{fault}/x"], env)
                    jobs[fault] = pool.submit(lied_to, f"https://127.0.0.1:{got}", "ok", expected, secure)
                else:
                    jobs[fault] = pool.submit(lied_to, f"https://127.0.0.1:{tls['port']}", fault, expected, secure)
            for fault, job in jobs.items():
                wrong = job.result()
                tap.ok(wrong is None, f"doctor comes to an end with {fault}, and says what is wrong", wrong)


def main():
    tap = harness.Tap()
    if sys.argv[1] == "liar":
        at_liars(tap, "--all" in sys.argv)
    else:
        at_server(tap, sys.argv[1])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
