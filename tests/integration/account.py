#!/usr/bin/env python3
"""What stats=on prints when a file is closed: its seconds are the wall time, and its advice names what was made wrong.
And what trace= leaves: a time line that is JSON however the process ends. Prints TAP.

Usage: account.py READ_IMAGES
Real programs, C and h5py, at nginx, XRootD and, with the liar's pauses for round trips, over latency.
"""
import collections
import concurrent.futures
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

PYTHON = harness.H5PY["3.16.0"]
IMAGES, SIDE = 24, 724    # 25 MB of uint16, and as much in chunks
WRITE = """
import h5py, numpy as np, sys
images, side = int(sys.argv[2]), int(sys.argv[3])
data = np.random.default_rng(5).integers(0, 4000, (images, side, side), dtype="u2")
with h5py.File(sys.argv[1], "w") as f:
    f["images"] = data
"""
# Each line of standard input is a situation: JSON of its name, URL, options, and the code that reads |f|. Prints the
# wall times of each: from before it is opened to after it is closed, and from when it is open to when it is to be
# closed.
READER = """
import json, random, sys, threading, time
import xhdf5
for line in sys.stdin:
    name, url, options, code = json.loads(line)
    print("situation=" + name, file=sys.stderr, flush=True)
    begun = time.monotonic()
    with xhdf5.open(url, **options) as f:
        opened = time.monotonic()
        exec(code)
        closing = time.monotonic()
    print(name, time.monotonic() - begun, closing - opened, flush=True)
"""
# name: milliseconds before each reply (paced where connections are what counts), options, code
SITUATIONS = {
    "random": (20, {}, "[f['images'][i % 24, 30 * (i % 20)] for i in random.Random(1).sample(range(4000), 40)]"),
    "alone": (20, {"readahead": False}, "[f['images'][i] for i in range(12)]"),
    "computes": (20, {}, "for i in range(8): f['images'][i]; time.sleep(0.1)"),
    "one connection": (60, {"connections": 1}, "f['images'][()]"),
    "small": (5, {"shadow_budget_bytes": "4M"}, "[f['images'][()] for i in range(3)]"),
    "hinted": (20, {}, "xhdf5.prefetch(f['images']); [f['images'][i] for i in range(24)]"),
    "threads": (20, {}, "t = [threading.Thread(target=lambda k=k: [f['images'][i] for i in range(k, 24, 4)]) for k in range(4)]\n"
                "[x.start() for x in t]; [x.join() for x in t]"),
}


class Liar:
    """tests/support/liar.py serving |file|."""

    def __init__(self, file):
        self.process = subprocess.Popen([sys.executable, str(harness.TOP / "tests/support/liar.py"), file],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base = "http://127.0.0.1:" + re.search(r"port=(\d+)", self.process.stdout.readline())[1]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def accounts(errors):
    """[(seconds that it was open, [network, others, copying, HDF5 and application], advice)] in the order of closing."""
    return [(float(m[1]), [float(s) for s in re.findall(r" ([\d.]+) s \(", m[2])], m[3]) for m in
            re.finditer(r"xhdf5: \S+: open for ([\d.]+) s\n.*\n.*\n.*\n  time (.*)\n  advice    (.*)", errors)]


ROUNDED_S = 0.003     # four figures, to a millisecond each


def adds_up(account, around, between):
    """The file was open for longer than from when opening it had ended to when closing it began, and for less than from before to
    after. However much of that the machine did something else."""
    opened, parts, _ = account
    assert len(parts) == 4, parts
    assert abs(sum(parts) - opened) <= ROUNDED_S, (parts, opened)
    assert between - ROUNDED_S <= sum(parts) <= around + ROUNDED_S, (parts, around, between)


def seconds(out):
    return [float(re.search(word + r"=([\d.]+)", out)[1]) for word in ("seconds", "between")]


def run_situations(liar, shadow):
    """{name: (account, wall times, all that was said)}"""
    env = harness.driver_env(None, shadow, stats="on")
    env |= {"PYTHONPATH": str(harness.BUILD / "python"), "no_proxy": "*"}
    lines = []
    for name, (ms, options, code) in SITUATIONS.items():
        way = "paced" if options.get("connections") else "late"
        lines.append(json.dumps([name, f"{liar.base}/{way}:{ms}/{name.replace(' ', '-')}.h5", options, code]))
    done = subprocess.run([PYTHON, "-c", READER], env=env, input="\n".join(lines), capture_output=True, text=True,
                          timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    walls = {m[1]: (float(m[2]), float(m[3])) for m in re.finditer(r"(?m)^(.*) ([\d.]+) ([\d.]+)$", done.stdout)}
    told = {text.split("\n", 1)[0]: text for text in done.stderr.split("situation=")[1:]}
    return {name: (accounts(told[name])[0], walls[name], told[name]) for name in SITUATIONS}


def situations(tap, liar, shadow):
    """Which advice is given where, is told by the simulator: `sim --advice`."""
    found = run_situations(liar, shadow)
    for name, (account, walls, told) in found.items():
        with tap.claim(f"over latency, {name}: the seconds add up, and there is advice"):
            adds_up(account, *walls)
            assert len(account[2]) > 10, told


def c_adds_up(program, url, env):
    """One run of the C program. Returns its account."""
    status, out, err = harness.run([program, url, "images"], env)
    assert status == 0, err
    account, = accounts(err)
    adds_up(account, *seconds(out))
    return account


def c_and_h5py(tap, kind, program, server, shadow):
    url = f"{server.url}/images.h5"
    env = harness.driver_env(server, shadow, stats="on")
    with tap.claim(f"{kind}, h5py: the seconds add up"):
        line = json.dumps(["h5py", url, {}, "for i in range(8): f['images'][i]; time.sleep(0.1)"])
        done = subprocess.run([PYTHON, "-c", READER], env=env | {"PYTHONPATH": str(harness.BUILD / "python")},
                              input=line,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        adds_up(accounts(done.stderr)[0], *map(float, done.stdout.split()[1:]))
    with tap.claim(f"{kind}, a C program: the seconds add up"):
        c_adds_up(program, url, env)
    with tap.claim(f"{kind}, two processes at once: each one's seconds add up"), concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: c_adds_up(program, url, env), range(2)))


WRITER = """
import sys, time
import h5py, numpy as np, xhdf5
url, mode, commands = sys.argv[1], sys.argv[2], sys.argv[3]
data = np.random.default_rng(5).integers(0, 4000, (16, 724, 724), dtype="u2")
begun = time.monotonic()
with xhdf5.open(url, mode) as f:
    opened = time.monotonic()
    exec(commands)
    closing = time.monotonic()
print(f"between={closing - opened} seconds={time.monotonic() - begun}")
"""


def writing(tap, kind, directory, shadow):
    """What is written: on the account, in the counters, on the time line."""
    directory.joinpath(kind).mkdir(mode=0o777)
    directory.joinpath(kind).chmod(0o777)
    path = directory / f"{kind}.json"

    def write(mode, commands, env, under=()):
        path.unlink(missing_ok=True)
        status, out, err = harness.run([*under, PYTHON, "-c", WRITER, url, mode, commands], env)
        assert status == 0, err
        written = re.search(r"  written   ([\d.]+) MB by HDF5; ([\d.]+) MB sent to the server, (\d+) commits? in ([\d.]+) s", err)
        account, = accounts(re.sub("  written .*\n", "", err))
        adds_up(account, *seconds(out))
        return account, [float(w) for w in written.groups()] if written else None, out, err

    with harness.Server(kind, directory / kind, words=["--writable"]) as server:
        url = f"{server.url}/new.h5"
        env = harness.driver_env(server, shadow, stats="on", writable="on", overlay_dir=directory / f"overlay-{kind}")
        env |= {"PYTHONPATH": str(harness.BUILD / "python")}
        with tap.claim(f"{kind}, a file is made: the seconds add up, what was sent and the commit's time are told"):
            code = "f['images'] = data; s = xhdf5.stats(f); print(s['bytes_written'], s['commits'], s['bytes_sent'])"
            # The disk is slow: a commit's data, its record and their directory take 0.1 s each.
            slow = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
                    "-e", "inject=fsync,fdatasync:delay_enter=100000"]
            account, written, out, err = write("w", code, env, slow)
            size = directory.joinpath(kind, "new.h5").stat().st_size
            assert out.split()[1:3] == ["0", "0"] and 16e6 < int(out.split()[0]) <= size, out
            assert abs(written[1] - size / 1e6) < 0.1 and written[2] == 1 and 0 < written[3] <= account[0], (written, size)
            # A commit is waiting for the network, and copying, never the application's.
            assert account[1][0] + account[1][2] >= written[3] - ROUNDED_S, err
        with tap.claim(f"{kind}, a file is changed a little: it is sent whole, the seconds add up"):
            account, written, out, err = write("r+", "f['images'][3, 5] = 7; time.sleep(0.2)", env)
            size = directory.joinpath(kind, "new.h5").stat().st_size
            assert written[0] < 3 and abs(written[1] - size / 1e6) < 0.1 and written[2] == 1, err
            assert account[1][3] > 0.15, err
        with tap.claim(f"{kind}, a file is opened to be changed and is not: nothing is sent"):
            account, written, out, err = write("r+", "f['images'][3]", env)
            assert not written or written[1:3] == [0, 0], err
        with tap.claim(f"{kind}: writes, requests and the commit are on the time line"):
            write("w", "f['images'] = data", env | {"XHDF5_TRACE": str(path)})
            found = events(path)
            slices = {e["name"]: e for e in found if e["ph"] == "X"}
            assert {"open to write", "write data", "write metadata", "commit", "PUT", "MOVE",
                    "close"} <= set(slices), slices
            nested([e for e in found if e["ph"] == "X"
                    and e["name"] in ("commit", "close", "PUT", "MOVE", "write data")])
            put = max((e for e in found if e["name"] == "PUT"), key=lambda e: e["dur"])
            commit = slices["commit"]
            assert commit["ts"] <= put["ts"] and put["ts"] + put["dur"] <= commit["ts"] + commit["dur"], (put, commit)


def local_shadow(tap, images):
    with tap.claim("a local file with local_shadow: what HDF5 asked and what the file system did"), \
            tempfile.TemporaryDirectory(prefix="xh-account-", dir="/var/tmp") as d:    # not on tmpfs
        shutil.copy(images, d)
        nfs = {"LD_PRELOAD": str(harness.BUILD / "tests" / "integration" / "dying_writes.so"), "DYING_NFS": "1"}
        env = harness.driver_env(None, None, stats="on", local_shadow="on") | nfs
        code = "import h5py, sys\nwith h5py.File(sys.argv[1]) as f:\n for i in range(24): f['images'][i, 3]"
        status, _, err = harness.run([PYTHON, "-c", code, f"{d}/images.h5"], env)
        told = re.search(r"xhdf5: \S+images.h5: local_shadow, open for ([\d.]+) s\n  reads     (\d+) by HDF5; (\d+) of the file system.*\n"
                         r"  writes    0 by HDF5; 0 .*\n  time      memory and file system ([\d.]+) s .*, HDF5 and application ([\d.]+) s", err)
        assert status == 0 and told and int(told[2]) >= 24, err
        assert abs(float(told[4]) + float(told[5]) - float(told[1])) < 0.003, err


# ---- the time line

def events(path):
    """The events of a time line. At most its last line may be torn."""
    lines = path.read_text().splitlines()
    assert lines[0] == "[", lines[0][:100]
    found, torn = [], 0
    for line in lines[1:]:
        try:
            found.append(json.loads(line.rstrip(",")))
        except ValueError:
            torn += 1
    assert torn == 0 or (torn == 1 and not lines[-1].endswith("},")), path.read_text()[-500:]
    return found


def nested(found):
    """Slices of one track lie in each other or beside each other, as those who draw them expect."""
    tracks = collections.defaultdict(list)
    for e in found:
        if e["ph"] == "X":
            tracks[e["pid"], e["tid"]].append((e["ts"], -e["dur"], e["name"]))
    for track in tracks.values():
        ends = []
        for start, minus, name in sorted(track):
            while ends and ends[-1][0] <= start + 0.01:
                ends.pop()
            assert not ends or start - minus <= ends[-1][0] + 0.01, (name, ends[-1])
            ends.append((start - minus, name))


def time_line(tap, program, server, shadow, directory):
    url, path = f"{server.url}/images.h5", directory / "trace.json"
    env = harness.driver_env(server, shadow / "one", log="stats", trace=path)
    (shadow / "one").mkdir(mode=0o700)
    with tap.claim("the time line has every read and every request, on its thread and on its connection"):
        status, out, err = harness.run([program, url, "images"], env)
        assert status == 0, err
        found, counted = events(path), harness.counters(err)
        assert json.loads(path.read_text().rstrip().rstrip(",") + "]") == found
        nested(found)
        names = collections.Counter(e["name"] for e in found)
        assert names["read data"] + names["read metadata"] == counted["reads"], (names, counted)
        requests = [e for e in found if "queued_us" in e["args"]]
        assert len(requests) == counted["requests"], (len(requests), counted)
        assert {"head", "stream", "ahead"} & {e["name"] for e in requests}, names
        tracks = {e["tid"] for e in found if e["name"] == "thread_name"}
        assert {e["tid"] for e in requests} == tracks and len(tracks) <= counted["connections"], (tracks, counted)
        assert all(e["args"]["bytes"] and e["args"]["served_by"] for e in found if e["name"].startswith("read "))
    env = harness.driver_env(server, shadow, trace=path)
    with tap.claim("processes that run at once have one time line; a later one begins it anew"):
        first = subprocess.Popen([PYTHON, "-c", "import h5py, sys; f = h5py.File(sys.argv[1]); print(1, flush=True); input()", url],
                                 env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first.stdout.readline()
        second = subprocess.run([program, url, "images", "0", "1"], env=env, capture_output=True, timeout=60)
        first.communicate("\n", timeout=60)
        pids = {e["pid"] for e in events(path)}
        assert second.returncode == 0 and len(pids) == 2 and first.pid in pids, (pids, first.pid)
        harness.run([program, url, "images", "0", "1"], env | {"XHDF5_TRACE": f"{directory}/%p-%h.json"})
        named = re.compile(r"(\d+)-.+\.json")
        mine, = (p for p in directory.iterdir() if named.fullmatch(p.name))
        assert {e["pid"] for e in events(mine)} == {int(named.fullmatch(mine.name)[1])}
    with tap.claim("what the program said that it would read is drawn as such"):
        code = "import sys, xhdf5\nwith xhdf5.open(sys.argv[1]) as f:\n    xhdf5.prefetch(f['images'], 9)\n    f['images'][9]"
        status, _, err = harness.run([PYTHON, "-c", code, url], harness.driver_env(server, trace=path)
                                     | {"XHDF5_SHADOW": "off", "PYTHONPATH": str(harness.BUILD / "python")})
        assert status == 0 and any(e["name"] == "hint" for e in events(path)), err
    with tap.claim("a process that is killed, aborts, or forks and leaves without a word leaves a good time line"):
        for end in "os.kill(os.getpid(), 9)", "os.abort()", "os._exit(1)", "os.fork() or (f['images'][20].sum(), f.close(), os._exit(0)); os.wait()":
            code = f"import h5py, os, sys\nf = h5py.File(sys.argv[1])\nfor i in range(8): f['images'][i].sum()\n{end}"
            child = subprocess.run([PYTHON, "-c", code, url], env=env, capture_output=True, timeout=60, cwd=directory)
            found = events(path)
            assert any(e["name"] == "open" for e in found), (end, child.stderr)
            assert "fork" not in end or len({e["pid"] for e in found}) == 2, found
    with tap.claim("a time line that cannot be written is told of, and costs nothing else: neither where a FIFO has "
                   "its name, nor where it may be no longer file"):
        (directory / "fifo.json").unlink(missing_ok=True)
        os.mkfifo(directory / "fifo.json")
        for name, why in ("no/such.json", "No such file"), ("fifo.json", "No such device"):
            status, out, err = harness.run([program, url, "images", "0", "1"],
                                           env | {"XHDF5_TRACE": str(directory / name)}, timeout=30)
            assert status == 0 and re.search(rf"xhdf5: the trace \S+ cannot be written: {why}", err), err
        status, out, err = harness.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", program, url, "images"], env)
        assert status == 0 and path.stat().st_size <= 1024, (status, err)
    with tap.claim("a lock on a time line's file, which each user may take who may read it, delays nobody"):
        with path.open() as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            status, out, err = harness.run([program, url, "images", "0", "1"], env, timeout=30)
        assert status == 0, err


RENEWED = """
import h5py, sys
for line in sys.stdin:
    try:
        with h5py.File(sys.argv[1]) as f:
            print(f["images"].shape[0] > 0, flush=True)
    except OSError as e:
        print(str(e).replace("\\n", " "), flush=True)
"""


def renewed_cas(root, shadow):
    """A site changes its CA, and the file of CAs of this machine is replaced, while a process runs that has read it."""
    with tempfile.TemporaryDirectory(prefix="xh-cas-") as d:
        old, new, bundle = (pathlib.Path(d) / name for name in ("old", "new", "bundle.pem"))
        for ca in old, new:
            ca.mkdir()
            harness.serve().throwaway_ca.make_ca(ca)
        bundle.write_bytes((old / "ca.pem").read_bytes())
        with harness.Server("nginx", root, words=["--ca", str(old)]) as server:
            child = subprocess.Popen([PYTHON, "-c", RENEWED, f"{server.url}/images.h5"],
                                     env=harness.driver_env(server, shadow, ca_bundle=bundle), stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)

            def opens():
                child.stdin.write("\n")
                child.stdin.flush()
                return child.stdout.readline().strip()
            try:
                assert opens() == "True"
                server.stop()
                server.words[1] = str(new)
                server.start_again()
                said = opens()
                assert "certificate was not accepted" in said, said
                os.replace(shutil.copy(new / "ca.pem", old / "next.pem"), bundle)
                said = opens()
                assert said == "True", said
                server.stop()    # its connections end
                server.start_again()
                bundle.write_bytes((old / "ca.pem").read_bytes())
                said = opens()
                assert "certificate was not accepted" in said, f"a CA that was taken away is trusted: {said}"
            finally:
                child.communicate()


def main():
    tap = harness.Tap()
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="xh-account-") as d, harness.shadow_dir() as shadow:
        directory = pathlib.Path(d)
        directory.chmod(0o755)
        path = directory / "images.h5"
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", WRITE, path, IMAGES, SIDE], harness.clean_env())
        assert status == 0, err
        liar = Liar(path)
        situations(tap, liar, shadow)
        with tap.claim("over latency, a C program without reading ahead: the seconds add up"):
            env = harness.driver_env(None, shadow, stats="on", readahead="off") | {"no_proxy": "*"}

            account = c_adds_up(program, f"{liar.base}/late:60/c.h5", env)
            assert account[1][0] >= IMAGES * 0.06 - ROUNDED_S, account    # each of its images waits for a reply
        liar.close()
        with harness.Server("nginx", d) as server:
            c_and_h5py(tap, "nginx", program, server, shadow)
            time_line(tap, program, server, shadow, directory)
            with tap.claim("a shadow directory that cannot be used is told of once, and the account does not speak of a shadow"):
                code = "import h5py, sys\nfor i in 1, 2:\n    with h5py.File(sys.argv[1]) as f: f['images'][0], f['images'][0]"
                status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5"],
                                               harness.driver_env(server, "/proc/nowhere", stats="on"))
                assert status == 0 and err.count("the shadow directory /proc/nowhere cannot be used: No such file") == 1, err
                assert err.count("from this process's pages (the shadow's directory cannot be used)") == 2, err
            with tap.claim("a component that the option log misspells is told of, once"):
                status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5"],
                                               harness.driver_env(server, shadow, log="stats,orign,debug"))
                assert status == 0 and err.count('"orign", which is no component') == 1, err
                assert " stats counters " in err, err
            with tap.claim("with stats=on wrong options are told of where a program drops the reason, wherever they stand"):
                for wrong in ({"HDF5_DRIVER_CONFIG": "retries=many"}, {"XHDF5_RETRIES": "many"}):
                    for first in False, True:
                        env = harness.driver_env(server, shadow, stats="on")
                        env = wrong | env if first else env | wrong
                        status, out, err = harness.run(["h5ls", f"{server.url}/images.h5"], env)
                        assert status != 0 and "images.h5: not opened: " in err and "retries" in err.lower(), out + err
                        env.pop("XHDF5_STATS")
                        assert "not opened" not in harness.run(["h5ls", f"{server.url}/images.h5"], env)[2]
            with tap.claim("with too few files left the shadow's directory is not blamed, nor the server or its CA: "
                           "the texts name the limit"):
                code = ("import h5py, os, resource, sys\nh5py.File(sys.argv[3]).close()\n"   # loads the plugin
                        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
                        "held = []\ntry:\n    while 1: held.append(os.open('/dev/null', 0))\nexcept OSError: pass\n"
                        "for fd in held[:int(sys.argv[2])]: os.close(fd)\n"
                        "try: h5py.File(sys.argv[1])\nexcept OSError as e: print(e)")
                for left in range(10):
                    status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5", str(left), path],
                                                   harness.driver_env(server, shadow, retries=0))
                    assert status == 0 and "chmod" not in err, err
                    assert not out or "ulimit -n" in out, (left, out)
                    assert not err or "ulimit -n" in err, (left, err)
                    assert left or "ulimit -n" in out, out
            with tap.claim("a program that closes all descriptors reads on; what gets their numbers is not written to, "
                           "and not closed"):
                code = ("import h5py, os, socket, subprocess, sys, time\n"
                        "f = h5py.File(sys.argv[1])\nd, kind, moment = f['images'], sys.argv[2], sys.argv[3]\n"
                        "f['images'][:int(sys.argv[4])]\n"
                        "pid = 0 if moment != 'forked' else os.fork()\n"
                        "if moment == 'forked' and pid == 0: time.sleep(30); os._exit(0)\n"
                        "os.closerange(3, 65536)\n"
                        "own = [fd for _ in range(60 if moment == 'idle' else 10) for fd in (\n"
                        "    [os.open(sys.argv[5], os.O_RDWR | os.O_CREAT)] if kind == 'file' else\n"
                        "    [s.detach() for s in socket.socketpair()])] if kind != 'nothing' else []\n"
                        "begun = time.monotonic()\nprint(d[:].sum(), file=sys.stderr)\n"
                        "took = time.monotonic() - begun\n"
                        "f.close()\nif pid: os.kill(pid, 9)\n"
                        "for fd in own:\n"
                        "    if kind == 'file': assert os.fstat(fd).st_size == 0, fd\n"
                        "    else:\n"
                        "        own = socket.socket(fileno=os.dup(fd))\n"
                        "        try: raise SystemExit(f'{fd} got {own.recv(1, socket.MSG_DONTWAIT)}')\n"
                        "        except BlockingIOError: pass\n"
                        "assert took < 20, took\n")
                sums = set()
                for kind in "nothing", "file", "sockets":
                    # where something is under way, curl may take such a number for its own meanwhile
                    for moment, images in ("idle", 0), ("busy", 12), ("forked", 12):
                        for shadow_is in "on", "off":
                            with harness.shadow_dir() as own:
                                env = harness.driver_env(server, own) | {"XHDF5_SHADOW": shadow_is}
                                status, out, err = harness.run(
                                    [PYTHON, "-c", code, f"{server.url}/images.h5", kind, moment, str(images),
                                     str(directory / "own")], env)
                            assert status == 0, (kind, moment, images, shadow_is, out + err)
                            sums.add(err.split()[-1])
                assert len(sums) == 1, sums
            with tap.claim("a process with too many files open is told, once, that what it reads of further ones is "
                           "not kept, wherever the shadow is"):
                code = ("import h5py, resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
                        "many = [h5py.File(f'{sys.argv[1]}?n={i}') for i in range(40)]\n"
                        "assert len({f['images'][3].sum() for f in many}) == 1")
                status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5"],
                                               harness.driver_env(server))
                assert status == 0 and err.count("\n") == 1 and "ulimit -n" in err and "not kept" in err, out + err
            with tap.claim("so is one that may write no files as long as the caches of what it reads; the disk cache "
                           "is not blamed either"):
                code = ("import h5py, resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
                        "print(len({h5py.File(f'{sys.argv[1]}?n={i}')['images'][3].sum() for i in range(4)}))")
                with tempfile.TemporaryDirectory(dir="/var/tmp") as disk:
                    for options in {}, {"disk_cache_dir": disk}:
                        status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5"],
                                                       harness.driver_env(server, **options))
                        lines = err.splitlines()
                        assert status == 0 and out == "1\n" and len(lines) == 1 + len(options), out + err
                        assert all("ulimit -f" in line and "chmod" not in line for line in lines), err
            with tap.claim("CAs that were read before, and cannot be read while a further connection is made, are "
                           "tried again: their file is being replaced, or the process has too many files open"):
                code = ("import h5py, os, sys, threading\nf, ca = h5py.File(sys.argv[1]), sys.argv[2]\n"
                        "if os.fork() == 0:\n"     # with connections of its own
                        "    os.rename(ca, ca + '.old')\n"
                        "    threading.Timer(0.3, os.rename, (ca + '.old', ca)).start()\n"
                        "    print(f['images'][:].sum(), flush=True)\n    os._exit(0)\n"
                        "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))")
                ca = shutil.copy(server.cacert, directory / "replaced.pem")
                with harness.shadow_dir() as own:
                    status, out, err = harness.run([PYTHON, "-c", code, f"{server.url}/images.h5", ca],
                                                   harness.driver_env(server, own, ca_bundle=ca))
                assert status == 0 and out, err
            with tap.claim("where no thread can be started, the error names the limits"):
                code = ("import h5py, resource, sys\n"
                        "pages = int(open('/proc/self/statm').read().split()[0])\n"
                        "most = pages * resource.getpagesize() + (512 << 20)\n"
                        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
                        "try: h5py.File(sys.argv[1])\nexcept OSError as e: print(e)")
                argv = ["sh", "-c", 'ulimit -s 1048576; exec "$@"', "sh", PYTHON, "-c", code]   # a thread's stack, KiB
                env = harness.driver_env(server, shadow) | {"OPENBLAS_NUM_THREADS": "1"}
                status, out, err = harness.run([*argv, f"{server.url}/images.h5"], env)
                assert status == 0 and "no thread for transfers" in out and "ulimit -u" in out, out + err
        with tap.claim("a file of CAs that is replaced while a program runs counts from then on: new ones are trusted, "
                       "and old ones are not"):
            renewed_cas(d, shadow)
        with harness.Server("xrootd", d) as server:
            c_and_h5py(tap, "xrootd", program, server, shadow)
        for kind in "nginx", "xrootd":
            writing(tap, kind, directory, shadow)
        local_shadow(tap, path)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
