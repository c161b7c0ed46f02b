#!/usr/bin/env python3
"""xhdf5 mount: programs that know nothing of the driver read files at URLs by path.

Usage: mount.py nginx|xrootd
"""
import concurrent.futures
import contextlib
import errno
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
from gate import Gate  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
DATASETS = 500
SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(3)
with h5py.File(sys.argv[1] + "/walk.h5", "w") as f:
    for i in range(int(sys.argv[2])):
        f.create_dataset(f"g{i % 10}/d{i}", data=rng.random(2000)).attrs["unit"] = "m"
with h5py.File(sys.argv[1] + "/gzip.h5", "w") as f:
    f.create_dataset("x", data=rng.integers(0, 50, (64, 1024, 256)).astype("i4"), chunks=(4, 256, 256),
                     compression="gzip", compression_opts=1)
with h5py.File(sys.argv[1] + "/images.h5", "w") as f:
    f["x"] = rng.integers(0, 1 << 16, (20, 2048, 1024)).astype("u2")
"""
READ = """
import h5py, sys
d = h5py.File(sys.argv[1], "r")["x"]
print(sum(int(d[i:i + 4].sum()) for i in range(0, len(d), 4)))
"""
MAPPED = "import numpy, sys; print(int(numpy.memmap(sys.argv[1], 'u1', 'r').sum()))"
WAIT_S = 20


def may_mount():
    return os.geteuid() == 0 and os.access("/dev/fuse", os.R_OK | os.W_OK)


class Mount:
    """One mount, in the foreground of a process of its own."""

    def __init__(self, env, *urls, before=()):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="xh-mount-"))
        self.said = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen([*before, TOOL, "mount", "--foreground", *urls, self.dir], env=env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.line = self.child.stdout.readline()
        assert self.line == f"{self.dir}: mounted\n", self.line + self.log()

    def __enter__(self):
        return self

    def __truediv__(self, name):
        return self.dir / name

    def log(self):
        self.said.seek(0)
        return self.said.read()

    def ends(self, code=0):
        assert self.child.wait(WAIT_S) == code, self.log()
        assert not os.path.ismount(self.dir)

    def __exit__(self, *exc):
        self.child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(WAIT_S)
        self.child.kill()
        subprocess.run(["umount", "-l", self.dir], stderr=subprocess.DEVNULL)
        self.dir.rmdir()


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def output(*words, want=0):
    """What a program without the driver prints."""
    status, out, err = harness.run(words, harness.clean_env(), timeout=60)
    assert status == want, (words, status, err)
    return out


def failure(function):
    """The number of the error with which |function| fails."""
    try:
        function()
    except OSError as e:
        return e.errno
    raise AssertionError("it worked")


def reads(tap, server, data, env):
    with tap.claim("programs without the driver read what the server has, by path"), \
            Mount(env, f"{server.url}/walk.h5", f"{server.url}/images.h5") as m:
        assert sorted(os.listdir(m.dir)) == ["images.h5", "walk.h5"]
        for name in ("walk.h5", "images.h5"):
            assert digest(m / name) == digest(data / name)
            there, here = os.stat(m / name), os.stat(data / name)
            assert (there.st_size, int(there.st_mtime)) == (here.st_size, int(here.st_mtime))
        for python in harness.H5PY.values():
            assert output(python, "-c", READ, m / "images.h5") == output(python, "-c", READ, data / "images.h5")
        dumps = [output("h5dump", at / "walk.h5").split("\n", 1)[1] for at in (m, data)]
        assert dumps[0] == dumps[1]
        assert output(harness.DATA_PYTHON, "-c", MAPPED, m / "walk.h5") == \
            output(harness.DATA_PYTHON, "-c", MAPPED, data / "walk.h5")
    with tap.claim("nothing can be written, and other names are not there"), Mount(env, f"{server.url}/walk.h5") as m:
        assert failure(lambda: open(m / "walk.h5", "r+b")) == errno.EROFS
        assert failure(lambda: open(m / "new.h5", "xb")) == errno.EROFS
        assert failure(lambda: os.unlink(m / "walk.h5")) == errno.EROFS
        assert failure(lambda: os.stat(m / "other.h5")) == errno.ENOENT
    with tap.claim("many threads read at once"), Mount(env, f"{server.url}/images.h5") as m:
        whole, step = (data / "images.h5").read_bytes(), 1234567
        with open(m / "images.h5", "rb") as f, concurrent.futures.ThreadPoolExecutor(16) as pool:
            parts = pool.map(lambda at: (at, os.pread(f.fileno(), step, at)), range(0, len(whole), step))
            assert all(part == whole[at:at + step] for at, part in parts)
    with tap.claim("several mounts at once, also of one file"), Mount(env, f"{server.url}/walk.h5") as a, \
            Mount(env, f"{server.url}/walk.h5") as b:
        assert digest(a / "walk.h5") == digest(b / "walk.h5") == digest(data / "walk.h5")
        a.child.send_signal(signal.SIGINT)
        a.ends()
        assert digest(b / "walk.h5") == digest(data / "walk.h5")


def directories(tap, kind, server, data, env):
    # XRootD lists names as they are: what looks like a code in one is taken for it.
    odd = "a b#c%41ü+&.h5" if kind == "nginx" else "a b#cü+&.h5"
    (data / "sub/deep").mkdir(parents=True)
    shutil.copy(data / "walk.h5", data / "sub/deep" / odd)
    shutil.copy(data / "walk.h5", data / "sub/walk.h5")
    harness.age(data / "sub")
    with tap.claim("a directory at the server is listed, and what lies below it is read by name"), \
            Mount(env, f"{server.url}/") as m:
        for at in ("", "sub", "sub/deep"):
            assert sorted(os.listdir(m / at)) == sorted(os.listdir(data / at)), (at, os.listdir(m / at))
        assert digest(m / "sub/deep" / odd) == digest(m / "sub/walk.h5") == digest(data / "walk.h5")
        assert failure(lambda: os.stat(m / "sub/missing.h5")) == errno.ENOENT
        assert failure(lambda: os.stat(m / "sub/walk.h5/x")) == errno.ENOTDIR
        assert [at for at, _, _ in os.walk(m.dir)] and os.stat(m / "sub").st_mode == 0o40555
    with tap.claim("below it names are found without a listing, too"), Mount(env, f"{server.url}/") as m:
        assert digest(m / "sub/deep" / odd) == digest(data / "walk.h5")
    with Gate(server) as gate:
        for method in ("PROPFIND", "GET") if kind == "nginx" else ("PROPFIND",):
            with tap.claim(f"a listing by {method} that comes slowly and without an end is an error in time"), \
                    Mount(env | {"XHDF5_STALL_TIMEOUT_MS": "500", "XHDF5_CONNECT_TIMEOUT_MS": "2000"},
                          f"{gate.url}/") as m:
                assert "walk.h5" in os.listdir(m.dir)
                gate.arm(lambda n, m, path: ("endless", 207 if m == "PROPFIND" else 200, 0.05) if m == method else None)
                assert failure(lambda: os.listdir(m / "sub")) == errno.ETIMEDOUT
                assert "bytes in" in m.log(), m.log()
                gate.arm(lambda *_: None)
                assert sorted(os.listdir(m / "sub")) == sorted(os.listdir(data / "sub"))
    if kind == "nginx":
        with tap.claim("where the server lists nothing, what was opened by name is shown"), \
                Mount(dict(env, BEARER_TOKEN=server.facts["token"]), f"{server.url}/private/") as m:
            assert os.listdir(m.dir) == []
            assert digest(m / "walk.h5") == digest(data / "walk.h5") and os.listdir(m.dir) == ["walk.h5"]
            assert "does not list" in m.log(), m.log()
    with tap.claim("a directory that is not there, or beside other URLs, is an error at the start"):
        for words, code in (([f"{server.url}/none/"], 3), ([f"{server.url}/", f"{server.url}/walk.h5"], 2)):
            status, _, err = harness.run([TOOL, "mount", *words, m.dir.parent], env)
            assert status == code and "directory" in err, (status, err)


def listed(at):
    """{name: (size, date)} of a directory, as ls -l asks for it."""
    return {e.name: (e.stat().st_size, int(e.stat().st_mtime)) for e in os.scandir(at)}


def sizes(tap, kind, server, data, env):
    many = data / "many"
    many.mkdir()
    for i in range(40):
        (many / f"{i:02}.h5").write_bytes(os.urandom(1000 + i))
        os.utime(many / f"{i:02}.h5", (1.6e9 + i, 1.6e9 + i))
    with Mount(env, f"{server.url}/many/") as m:
        with tap.claim("ls -l opens no file: what the listing does not tell, HEAD does, once a file"):
            before = server.requests()[0]
            assert listed(m.dir) == listed(many)
            sent = server.requests()[0] - before
            # XRootD tells it by PROPFIND; nginx refuses that, and lists names.
            assert sent == (1 if kind == "xrootd" else 42), sent
        with tap.claim("so listed, a file is read, and one that has changed meanwhile is the new one"):
            assert digest(m / "07.h5") == digest(many / "07.h5")
            assert listed(m.dir) == listed(many)
            replaced(data, "many/08.h5", b"new" * 1000)
            assert (m / "08.h5").read_bytes() == b"new" * 1000
            assert (m / "08.h5").stat().st_size == 3000
            assert digest(m / "09.h5") == digest(many / "09.h5")    # which the kernel keeps
            replaced(data, "many/09.h5", b"newer" * 1000)
            harness.wait_for(lambda: digest_or(m / "09.h5") == digest(many / "09.h5"), "the new version")
            time.sleep(6)   # until it is closed, and the listing would still tell its old size
            assert (m / "09.h5").stat().st_size == 5000
    shutil.rmtree(many)


class Page(http.server.BaseHTTPRequestHandler):
    """A directory of 40 files as a page of links. Behind the eighth, HEAD waits until four wait."""

    protocol_version = "HTTP/1.1"
    gate, heads, waiting, most = threading.Condition(), 0, 0, 0

    def do_GET(self):
        body = ("<title>Index of /</title>" + "".join(f'<a href="{i}.h5">' for i in range(40))).encode()
        self.answer(body)
        self.wfile.write(body)

    def do_HEAD(self):
        with Page.gate:
            Page.heads += 1
            Page.waiting += 1
            Page.most = max(Page.most, Page.waiting)
            Page.gate.notify_all()
            if Page.heads > 8:
                Page.gate.wait_for(lambda: Page.most >= 4, timeout=5)
            Page.waiting -= 1
        self.answer(bytes(1000))

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()

    def log_message(self, *args):
        pass


def at_once(tap, env):
    with tap.claim("of a directory many are asked at once, also where the server tells no date"), \
            http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        with Mount(env, f"http://127.0.0.1:{there.server_port}/") as m:
            assert listed(m.dir) == {f"{i}.h5": (1000, 0) for i in range(40)}
            assert Page.heads == 40 and 4 <= Page.most <= 8, (Page.heads, Page.most)
        there.shutdown()


def catalogue(tap, server, data, env):
    with tempfile.TemporaryDirectory() as place, tap.claim("a catalogue gives files names; a wrong line is told"):
        lines = pathlib.Path(place) / "catalogue.txt"
        lines.write_text(f"# two\n\none.h5 {server.url}/walk.h5\ntwo%20b.h5\t {server.url}/gzip.h5 \n")
        with Mount(env, lines) as m:
            assert sorted(os.listdir(m.dir)) == ["one.h5", "two b.h5"]
            assert digest(m / "one.h5") == digest(data / "walk.h5")
            assert digest(m / "two b.h5") == digest(data / "gzip.h5")
        for wrong in ("alone", "a/b https://host/x.h5", "../b https://host/x.h5", "x.h5 /etc/passwd",
                      f"one.h5 {server.url}/a\none.h5 {server.url}/b"):
            lines.write_text(wrong)
            status, _, err = harness.run([TOOL, "mount", lines, place], env)
            assert status == 2 and ", line " in err, (wrong, status, err)
        status, _, err = harness.run([TOOL, "mount", lines.with_name("none.txt"), place], env)
        assert status == 2 and 'none.txt" is no URL' in err, err
        assert "as a catalogue it cannot be read: No such file" in err, err


def counts(tap, server, data):
    """Requests, each way with a shadow of its own."""
    ways = {"the walk through %d datasets" % DATASETS: ["h5dump", "-H", "walk.h5"],
            "gzip": [harness.DATA_PYTHON, "-c", READ, "gzip.h5"],
            "images": [harness.DATA_PYTHON, "-c", READ, "images.h5"]}
    for what, (*words, name) in ways.items():
        with tap.claim(f"{what}: hardly more requests than over the driver"):
            sent = []
            for way in ("driver", "mount"):
                with harness.shadow_dir() as shadow, contextlib.ExitStack() as stack:
                    # With two connections nothing is dealt to many, as it is where a busy machine's server looks far.
                    env = harness.driver_env(server, shadow, connections=2)
                    before = server.requests()[0]
                    if way == "driver":
                        status, _, err = harness.run([*words, f"{server.url}/{name}"], env)
                        assert status == 0, err
                    else:
                        output(*words, stack.enter_context(Mount(env, f"{server.url}/{name}")) / name)
                    sent.append(server.requests()[0] - before)
            print(f"# {what}: {sent[0]} requests over the driver, {sent[1]} over the mount")
            assert sent[1] <= 1.5 * sent[0] + 6, sent


def replaced(data, name, content):
    new = data / f"{name}.new"
    new.write_bytes(content)
    harness.age(new)
    new.rename(data / name)


def changes(tap, server, data, env):
    old, new = os.urandom(48 << 20), os.urandom(40 << 20)   # more than is fetched ahead of the first read
    with tap.claim("a file that changes is read as another one once it is closed, and is no mixture before"):
        replaced(data, "changing.bin", old)
        with Mount(env, f"{server.url}/changing.bin") as m:
            path = m / "changing.bin"
            with open(path, "rb", buffering=0) as f:
                assert f.read(4096) == old[:4096]
                replaced(data, "changing.bin", new)
                harness.wait_for(lambda: digest_or(path) == hashlib.sha256(new).hexdigest(), "the new version")
                for at in range(0, len(old), 1 << 19):
                    with contextlib.suppress(OSError):
                        assert os.pread(f.fileno(), 1 << 19, at) == old[at:at + (1 << 19)]
                assert failure(lambda: os.pread(f.fileno(), 4096, len(old) - 4096)) == errno.ESTALE
            assert path.read_bytes() == new and path.stat().st_size == len(new)
            assert "changed" in m.log(), m.log()


def digest_or(path):
    """Its digest, or the number of the error."""
    try:
        return digest(path)
    except OSError as e:
        return e.errno


def fails(tap, kind, server, data, env):
    def start(*words, **more):
        return harness.run([TOOL, "mount", *words], dict(env, **more), timeout=60)

    place = pathlib.Path(tempfile.mkdtemp(prefix="xh-mount-"))
    with tap.claim("what is wrong at the start is an exit code and a sentence, and nothing is mounted"):
        status, _, err = start(f"{server.url}/missing.h5", place)
        assert status == 3 and "missing.h5" in err and "404" in err, err
        status, _, err = start(f"{server.url}/walk.h5", place / "nowhere")
        assert status == 3 and "nowhere: No such file" in err, err
        status, _, err = start(f"{server.url}/walk.h5", f"{server.url}/a/walk.h5", place)
        assert status == 2 and "same name" in err, err
        status, _, err = start(place)
        assert status == 2, err
        status, _, err = start(f"{server.url}/%2e%2e", place)
        assert status == 2 and "name of a file" in err, err
        assert not os.path.ismount(place)
    if kind == "nginx":
        with tap.claim("a wrong token is EACCES with its sentence"):
            status, _, err = start(f"{server.url}/private/walk.h5", place, BEARER_TOKEN="wrong")
            assert status == 3 and "token" in err, err
            with Mount(dict(env, BEARER_TOKEN="wrong"), f"{server.url}/walk.h5", f"{server.url}/private/gzip.h5") as m:
                assert failure(lambda: os.stat(m / "gzip.h5")) == errno.EACCES
                assert "token" in m.log() and "wrong" not in m.log(), m.log()
    with tap.claim("a file that is missing later is ENOENT"), \
            Mount(env, f"{server.url}/walk.h5", f"{server.url}/missing.h5") as m:
        assert failure(lambda: os.stat(m / "missing.h5")) == errno.ENOENT
        assert "missing.h5" in m.log() and digest(m / "walk.h5") == digest(data / "walk.h5")
    place.rmdir()


def background(tap, server, data, env):
    place = pathlib.Path(tempfile.mkdtemp(prefix="xh-mount-"))
    log = place.with_suffix(".log")

    def serving():
        words = subprocess.run(["pgrep", "-f", f"mount .*{place}$"], capture_output=True, text=True).stdout.split()
        return [int(word) for word in words]

    with tap.claim("in the background: the command ends once DIR can be used; unmounting ends what serves it"):
        status, _, err = harness.run([TOOL, "mount", "--log", log, f"{server.url}/none.h5", place], env)
        assert status == 3 and "404" in err and not log.read_text(), (status, err)
        status, out, err = harness.run([TOOL, "mount", "--log", log, f"{server.url}/walk.h5", place], env)
        assert status == 0 and os.path.ismount(place) and not out + err, (status, out, err)
        assert digest(place / "walk.h5") == digest(data / "walk.h5") and len(serving()) == 1
        subprocess.run(["umount", place], check=True)
        harness.wait_for(lambda: not serving(), "its end")
    with tap.claim("where it is mounted already, an error says what is there and what to do, and nothing is mounted"):
        assert harness.run([TOOL, "mount", "-l", log, f"{server.url}/walk.h5", place], env)[0] == 0
        try:
            status, out, err = harness.run([TOOL, "mount", f"{server.url}/images.h5", place], env)
            assert status == 3 and re.search("/walk.h5 already.*fusermount3 -u", err), (status, out, err)
            assert os.listdir(place) == ["walk.h5"] and len(serving()) == 1
        finally:
            while os.path.ismount(place):
                subprocess.run(["umount", place], check=True)
        harness.wait_for(lambda: not serving(), "its end")
    with tap.claim("SIGTERM unmounts it"):
        assert harness.run([TOOL, "mount", "-l", log, f"{server.url}/walk.h5", place], env)[0] == 0
        os.kill(serving()[0], signal.SIGTERM)
        harness.wait_for(lambda: not serving() and not os.path.ismount(place), "its end")
    with tap.claim("kill -9 leaves nothing that hangs"):
        assert harness.run([TOOL, "mount", "-l", log, f"{server.url}/walk.h5", place], env)[0] == 0
        with open(place / "walk.h5", "rb", buffering=0) as f:
            os.kill(serving()[0], signal.SIGKILL)
            harness.wait_for(lambda: not serving(), "its end")
            assert failure(lambda: f.read(10)) in (errno.ENOTCONN, errno.ECONNABORTED)
        assert failure(lambda: os.listdir(place)) == errno.ENOTCONN
        status, _, err = harness.run([TOOL, "mount", f"{server.url}/walk.h5", place], env)
        assert status == 3 and "fusermount3 -u" in err, err
        subprocess.run(["umount", place], check=True)
    place.rmdir()
    log.unlink()


def waits(tap, server, env):
    """The server stops."""
    def begin(m):
        """A program that waits for a read."""
        reader = subprocess.Popen(["dd", f"if={m / 'images.h5'}", "bs=1M", "skip=20", "count=1", "of=/dev/null"],
                                  stderr=subprocess.DEVNULL)
        channel = pathlib.Path(f"/proc/{reader.pid}/wchan")
        harness.wait_for(lambda: reader.poll() is not None or re.search("fuse|wait_answer", channel.read_text()),
                         "a read that waits")
        assert reader.poll() is None
        return reader

    pids = harness.family(int(server.facts["pid"]))

    def stop(stack):
        """All of the server's threads, before it goes on here."""
        stack.callback(lambda: [os.kill(pid, signal.SIGCONT) for pid in pids])
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        states = [task / "stat" for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        harness.wait_for(lambda: all(s.read_text().rsplit(")", 1)[1].split()[0] == "T" for s in states), "its stop")

    with Mount(env, f"{server.url}/images.h5") as m, contextlib.ExitStack() as stack:
        os.stat(m / "images.h5")
        stop(stack)
        with tap.claim("a program that waits for a read can be killed"):
            reader = begin(m)
            reader.kill()
            assert reader.wait(WAIT_S) == -signal.SIGKILL
        with tap.claim("so it can by a signal that it does not handle"):
            reader = begin(m)
            reader.terminate()
            assert reader.wait(WAIT_S) == -signal.SIGTERM
        with tap.claim("unmounting while a read waits ends both"):
            reader = begin(m)
            m.child.terminate()
            m.ends()
            assert reader.wait(WAIT_S) == 1
    with tap.claim("a server that is gone is an error with a sentence"), \
            Mount(dict(env, XHDF5_RETRIES="0", XHDF5_STALL_TIMEOUT_MS="1000"), f"{server.url}/images.h5") as m, \
            contextlib.ExitStack() as stack, open(m / "images.h5", "rb") as f:
        stop(stack)
        assert failure(lambda: os.pread(f.fileno(), 4096, 30 << 20)) == errno.ETIMEDOUT
        assert "images.h5" in m.log(), m.log()


def unprivileged(tap, server, data, env):
    claim = "a user without rights mounts in a namespace of their own"
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*own, "true"], stderr=subprocess.DEVNULL).returncode:
        tap.skip(claim, "no user namespaces here")
        return
    with tap.claim(claim):
        script = '"$1" mount -l /dev/null "$2/walk.h5" "$3" && sha256sum "$3/walk.h5" && umount "$3"'
        with tempfile.TemporaryDirectory() as place:
            status, out, err = harness.run([*own, "sh", "-c", script, "sh", TOOL, server.url, place], env)
            assert status == 0 and out.split()[0] == digest(data / "walk.h5"), (status, out, err)


def by_fusermount(tap, server, data, env):
    """As nobody, in a mount namespace with a device that all may open, as it is on most systems."""
    claim = "a user without rights mounts by fusermount3"
    extras, device = harness.TOP / "containers/extras", harness.BUILD / "mount-test-fuse"
    if not shutil.which("fusermount3") and extras.exists():
        harness.run([extras, "mount"], dict(os.environ))
    program = shutil.which("fusermount3")
    if not program:
        tap.skip(claim, "no fusermount3 here: containers/extras could not fetch it")
        return
    ours = device.with_name("mount-test-bin")
    ours.mkdir(exist_ok=True)
    shutil.copy(program, ours)
    (ours / "fusermount3").chmod(0o4755)    # as its package installs it
    device.unlink(missing_ok=True)
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(10, 229))
        device.chmod(0o666)
    except OSError as e:
        tap.skip(claim, f"no device: {e}")
        return
    # libfuse starts the one of /usr/bin, whatever PATH says.
    own = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /dev/fuse && mount --bind "$1" "$2" && shift 2 && exec '
           'setpriv --reuid=65534 --regid=65534 --clear-groups "$@"', device, ours / "fusermount3",
           pathlib.Path(program).resolve()]
    script = '"$1" mount -l /dev/null "$2/walk.h5" "$3" && sha256sum "$3/walk.h5" && fusermount3 -u "$3"'
    with tap.claim(claim), tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory() as shadow:
        for at in (place, shadow):
            os.chown(at, 65534, 65534)
        status, out, err = harness.run([*own, "sh", "-c", script, "sh", TOOL, server.url, place],
                                       dict(env, XHDF5_SHADOW_DIR=shadow))
        assert status == 0 and out.split()[0] == digest(data / "walk.h5"), (status, out, err)
    device.unlink()
    shutil.rmtree(ours)


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    if not may_mount():
        print("1..0 # SKIP no right to mount, or no /dev/fuse")
        return 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, harness.shadow_dir() as shadow:
        data = pathlib.Path(directory)
        data.chmod(0o755)
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", SAMPLE, data, DATASETS], harness.clean_env())
        assert status == 0, err
        (data / "private").mkdir()
        for name in ("walk.h5", "gzip.h5"):
            shutil.copy(data / name, data / "private")
        with harness.Server(kind, data) as server:
            env = harness.driver_env(server, shadow)
            del env["HDF5_DRIVER"], env["HDF5_PLUGIN_PATH"]
            reads(tap, server, data, env)
            directories(tap, kind, server, data, env)
            sizes(tap, kind, server, data, env)
            if kind == "nginx":
                at_once(tap, env)
            catalogue(tap, server, data, env)
            counts(tap, server, data)
            changes(tap, server, data, env)
            fails(tap, kind, server, data, env)
            background(tap, server, data, env)
            unprivileged(tap, server, data, env)
            if kind == "nginx":
                by_fusermount(tap, server, data, env)
            with harness.shadow_dir() as fresh:
                waits(tap, server, dict(env, XHDF5_SHADOW_DIR=str(fresh)))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
