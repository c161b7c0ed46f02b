#!/usr/bin/env python3
"""Many writers of one file, each of its own dataset, who close it in random order while one of them is killed: all others' data
is there, nobody else's is touched, and the file is whole, after every round.

Usage: writing_many.py nginx|xrootd [--writers N] [--rounds N] [--elements N] [--rtt MS] [--hosts N] [--teams N]
    --rtt: over emulated links (root); --hosts: so many client hosts, in turns
    --teams: so many files side by side, each with writers of its own, that have the rounds among them

The datasets are preallocated, contiguous and close together. Each round has processes of its own, that open the file, write, say so
and close it when they are told; each is forked by a process of its host that has imported h5py and opened nothing. One is killed: while it
waits for its turn, or behind a random request of its commit. After each round
  - what the killed one left is sent by `xhdf5 recover retry` if it had begun to be sent, and dropped otherwise
  - every byte of the file at the server is the one that it must be: the new value where one was written, else what it was
  - h5dump reads all of it; a walk finds every object, and each dataset's bytes in the file and apart from all others'
  - a program reads all through the driver
  - nothing is kept on this machine, and beside the file only what the killed one left
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
WAN = str(harness.TOP / "perf" / "wan")
LONG = 7200    # seconds: this may be suspended for a while

# Forks a process for each message: its code, words and environment; the socket that comes with it becomes 0, 1 and 2.
# Its parent, which waits for it, tells the socket how it ended. It ends by exit(3): with the exit handlers of all
# libraries, and without Python's taking itself apart, which is a quarter of all that these tests cost.
NURSERY = r"""
import ctypes, gc, json, os, signal, socket, sys
import h5py, numpy as np
libc = ctypes.CDLL(None)
gc.collect()
gc.freeze()
up = socket.socket(fileno=0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)    # nobody waits for those that wait
while True:
    message, fds, _, _ = socket.recv_fds(up, 65536, 1)
    if not message:
        os._exit(0)
    order = json.loads(message)
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if os.fork():
            pid, status = os.wait()
            os.write(fds[0], b"\nended %d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for i in 0, 1, 2:
            os.dup2(fds[0], i)
        os.close(fds[0])
        up.detach()
        os.environ.update(order["env"])
        sys.stdin = open(0, closefd=False)
        print("pid", os.getpid(), flush=True)
        sys.argv[1:] = order["words"]
        exec(compile(order["code"], "order", "exec"))
        sys.stdout.flush()
        libc.exit(0)
    os.close(fds[0])
"""
MAKE = """
with h5py.File(sys.argv[1], "w") as f:
    for i in range(int(sys.argv[2])):
        f.create_dataset("d%d" % i, data=np.zeros(int(sys.argv[3]) + i, "i8")).attrs["number"] = i
"""
WRITE = """
f = h5py.File(sys.argv[1], "r+")
f["d" + sys.argv[2]][:] = int(sys.argv[3])
print("\\nwritten", flush=True)
sys.stdin.readline()
f.close()
print("\\nclosed", flush=True)
"""
# Prints each dataset's value, place and length. Without |words| of another file: also a walk through all that there is.
WALK = """
places, size = [], os.path.getsize(sys.argv[1]) if sys.argv[1][0] == "/" else None
with h5py.File(sys.argv[1], "r") as f:
    names = []
    f.visititems(lambda name, x: names.append(name))
    assert sorted(names) == sorted("d%d" % i for i in range(int(sys.argv[2]))), names
    for i in range(int(sys.argv[2])):
        d = f["d%d" % i]
        assert d.attrs["number"] == i and d.shape == (int(sys.argv[3]) + i,) and d.dtype == "i8", (i, d)
        x, at, n = d[:], d.id.get_offset(), d.id.get_storage_size()
        assert n == 8 * len(x) and (x == x[0]).all(), (i, set(x.tolist()))
        places.append((at, n))
        print("has", i, int(x[0]), at, n)
    assert size is None or f.id.get_filesize() == size, "the file's end"
end = 0
for at, n in sorted(places):
    assert at >= end and (size is None or at + n <= size), (at, n)
    end = at + n
print("walked", flush=True)
"""


class Hosts:
    """Where programs run: words before them. Without links: here."""

    def __init__(self, args, stack):
        self.server, self.clients, self.addr = [], [[]], None
        if args.rtt is None:
            return
        first = None
        self.clients, self.addr = [], "10.77.0.1"
        for i in range(args.hosts):
            state = tempfile.mkdtemp(prefix="xh-wan-")
            stack.callback(shutil.rmtree, state, ignore_errors=True)
            words = ["env", f"XHDF5_WAN_DIR={state}/wan", f"XHDF5_WANLINK={harness.BUILD}/perf/wanlink",
                     "XHDF5_WAN_LINK=relay"]
            if first:
                words += [f"XHDF5_WAN_ALSO={first}/wan", f"XHDF5_WAN_NUMBER={i + 1}"]
            first = first or state
            subprocess.run([*words, WAN, "up", str(args.rtt), "0"], check=True, stdout=subprocess.DEVNULL)
            stack.callback(subprocess.run, [*words, WAN, "down"], stdout=subprocess.DEVNULL)
            self.server = self.server or [*words, WAN, "server"]
            self.clients.append([*words, WAN, "client"])

    def at(self, i):
        return self.clients[i % len(self.clients)]


class Process:
    """One that a nursery has forked. |text|: all that it has said so far, its trace too."""

    def __init__(self, nursery, code, words, env):
        self.sock, theirs = socket.socketpair()
        with theirs:
            message = json.dumps({"code": code, "words": [str(w) for w in words], "env": env}).encode()
            socket.send_fds(nursery, [message], [theirs.fileno()])
        self.text, self.status = "", None

    def fileno(self):
        return self.sock.fileno()

    def hear(self):
        """Takes what it says. Returns whether there may be more."""
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionResetError:    # it was killed before it read what it was told: all that it said was taken
            data = b""
        self.text += data.decode(errors="replace")
        if not data:
            found = re.findall(r"^ended (-?\d+)$", self.text, re.M)
            self.status = int(found[-1]) if found else "lost"
        return bool(data)

    def tell(self):
        with contextlib.suppress(OSError):    # it was killed
            self.sock.send(b"\n")

    def pid(self):
        return int(re.search(r"^pid (\d+)$", self.text, re.M)[1])

    def said(self, word):
        return re.search(rf"^{word}$", self.text, re.M) is not None


def hear_all(processes, until, tick=lambda: 1):
    """Hears them until |until|(), or until all have ended; |tick|() comes between, and returns for how long to listen at most."""
    end = time.monotonic() + LONG
    with selectors.DefaultSelector() as s:
        for p in processes:
            if p.status is None:
                s.register(p, selectors.EVENT_READ)
        while not until() and s.get_map():
            assert time.monotonic() < end, "not for two hours"
            for key, _ in s.select(tick()):
                if not key.fileobj.hear():
                    s.unregister(key.fileobj)


class Murder:
    """When the victim dies: while it waits for its turn, or behind an answer of its commit and up to two round trips more."""

    STEPS = [None, None, r"", r'"" method=(?:HEAD|PROPFIND) ', r"method=MKCOL ", r'/owner" method=PUT ',
             r'/data-\w+" method=PUT ', r'n\d+/" method=MOVE ',
             r'-lock/data-\w+" method=(?:HEAD|PROPFIND) ', r'-lock/data-\w+" method=MOVE ',
             r'-lock/(?:owner)?" method=DELETE ']

    def __init__(self, victim, wait_most, rtt_ms):
        self.victim, self.done, self.rtt_ms = victim, "", rtt_ms
        self.step = random.choice(self.STEPS)
        self.at = time.monotonic() + random.random() * wait_most if self.step is None else None

    def tick(self):
        """Kills it if it is time. Returns seconds until that should be asked again."""
        now = time.monotonic()
        if self.done or self.victim.status is not None:
            return 1
        _, turn, commit = self.victim.text.partition(" lock=.xhdf5-turn/ ")
        if self.at is None and turn and re.search(self.step, commit):
            self.at = now + random.choice([0, random.random() * self.rtt_ms / 500])
        if self.at is not None and (now >= self.at or (self.step is None and turn)):
            os.kill(self.victim.pid(), signal.SIGKILL)
            asked = re.findall(r' origin dav .* name="(?:\.xhdf5-(?:\w{16}(.)\d+|(\w+))(/[a-z]*)[-\w]*)?" method=(\w+)',
                               commit)
            self.done = "waiting" if not turn else "behind " + (" ".join(w for w in reversed(asked[-1]) if w) if asked
                                                                else "its turn")
        return 1 if self.at is None else max(0, min(1, self.at - now))


class Team:
    """Writers of one file, and what it must hold."""

    def __init__(self, args, hosts, server, shadow, number, root, stack):
        self.args, self.hosts, self.name = args, hosts, f"many{number}.h5"
        self.path, self.url = root / self.name, f"{server.url}/{self.name}"
        self.overlay = pathlib.Path(tempfile.mkdtemp(prefix="xh-overlay-"))
        stack.callback(shutil.rmtree, self.overlay, ignore_errors=True)
        self.env = harness.driver_env(server, shadow, writable="on", overlay_dir=self.overlay)
        self.was, self.ends = [0] * args.writers, collections.Counter()
        at = [dict(self.env, XHDF5_SHADOW_DIR=f"{shadow}/{i % len(hosts.clients)}") for i in range(args.hosts)]
        self.nurseries = [self.nursery(hosts.at(i), env, stack) for i, env in enumerate(at)]
        self.local = self.nursery([], harness.clean_env(), stack)

    @staticmethod
    def nursery(words, env, stack):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        p = subprocess.Popen([*words, H5PY, "-c", NURSERY], env=env, stdin=theirs)
        theirs.close()
        stack.callback(p.wait)
        stack.callback(ours.close)
        return ours

    def alone(self, nursery, code, *words, **env):
        """Runs one. Returns what it says."""
        p = Process(nursery, code, words, env)
        hear_all([p], lambda: False)
        assert p.status == 0, p.text[-3000:]
        return p.text

    def make(self):
        self.alone(self.nurseries[0], MAKE, self.url, self.args.writers, self.args.elements, XHDF5_SHADOW="off")
        self.first = self.path.read_bytes()
        self.places = [(int(at), int(n)) for _, _, at, n in self.walk(self.local, self.path)]

    def walk(self, nursery, path, **env):
        text = self.alone(nursery, WALK, path, self.args.writers, self.args.elements, **env)
        return re.findall(r"^has (\d+) (-?\d+) (\d+) (\d+)$", text, re.M)

    def recover(self, *words, at=0):
        status, out, err = harness.run([*self.hosts.at(at), TOOL, "recover", *words], self.env, timeout=LONG)
        assert status == 0, (words, out, err)
        return out

    def round(self, number):
        """Returns how the killed one ended; raises AssertionError."""
        n = self.args.writers
        writers = [Process(self.nurseries[i % len(self.nurseries)], WRITE, [self.url, i, number],
                           {"XHDF5_LOG": "vfd,origin"})
                   for i in range(n)]
        try:
            hear_all(writers, lambda: all(p.status is not None or p.said("written") for p in writers))
            bad = [(i, p.text[-3000:]) for i, p in enumerate(writers) if not p.said("written")]
            assert not bad, bad[0]
            order = random.sample(range(n), n)
            victim = random.randrange(n)
            murder = Murder(writers[victim], min(n, 20), self.args.rtt or 1)
            for i in order:
                writers[i].tell()
            hear_all(writers, lambda: False, murder.tick)
            for i, p in enumerate(writers):
                if i == victim:
                    assert p.status == -9 or (p.status == 0 and p.said("closed")), (i, p.status, p.text[-3000:])
                else:
                    assert p.status == 0 and p.said("closed"), f"writer {i} of round {number}: {p.status} {p.text[-6000:]}"
                    self.was[i] = number
            self.judge(victim, writers[victim], number)
        except AssertionError:
            trace = pathlib.Path(tempfile.gettempdir(), f"writing-many-{self.name}-{number}.trace")
            trace.write_text("".join(f"==== {i}\n{p.text}" for i, p in enumerate(writers)))
            print(f"# traces: {trace}", flush=True)
            raise
        finally:
            for p in writers:
                p.sock.close()
        end = murder.done if writers[victim].status == -9 else "behind its end"
        self.ends[end] += 1
        return end

    def judge(self, victim, process, number):
        left = json.loads(self.recover("list", "--json"))
        assert len(left) <= (process.status == -9), left
        for one in left:
            if one["state"] == "to be sent":
                self.recover("retry", one["id"], at=victim)
                self.was[victim] = number
            else:
                # H5Fclose flushes before it sends: killed in between, it is a file that was not closed.
                assert one["state"] in ("never closed", "flushed"), one
                self.recover("drop", one["id"])
        if not left:    # killed behind all
            self.was[victim] = number
        # Who is killed at the end of removing what is sent leaves a directory without its lock: it goes when it is a
        # minute old.
        kept = list(self.overlay.glob("*/data")) + list(self.overlay.glob("*/alive*"))
        assert not kept, kept
        self.judge_file()
        self.judge_beside(process)

    def judge_file(self):
        wanted = bytearray(self.first)
        for (at, n), value in zip(self.places, self.was):
            wanted[at:at + n] = value.to_bytes(8, "little") * (n // 8)
        has = self.path.read_bytes()
        wrong = [i for i, (at, n) in enumerate(self.places) if has[at:at + n] != wanted[at:at + n]]
        assert not wrong, f"datasets {wrong} hold {[set(has[self.places[i][0]:][:self.places[i][1]]) for i in wrong]}, not {[self.was[i] for i in wrong]}"
        assert has == bytes(wanted), "other bytes than the datasets'"
        status, _, err = harness.run(["h5dump", self.path], harness.clean_env(), timeout=LONG)
        assert status == 0, err
        for nursery, path, env in ((self.local, self.path, {}),
                                   (random.choice(self.nurseries), self.url, {"XHDF5_SHADOW": "off"})):
            values = [int(value) for _, value, _, _ in self.walk(nursery, path, **env)]
            assert values == self.was, (path, values, self.was)

    def judge_beside(self, process):
        """Of the killed one alone; what is not the lock or the turn is removed here, as its owner will not come back."""
        found = re.search(r" edit .* id=(\w{16}) ", process.text)
        for d in self.path.parent.glob(self.name + ".xhdf5-*"):
            own = found and found[1] in d.name
            if d.name.endswith(("-lock", "-turn")):
                inside = os.listdir(d)    # empty: XRootD was asked to remove the owner's file, and not yet the directory
                own = not inside or ("owner" in inside and found and found[1] in (d / "owner").read_text())
            assert own and process.status == -9, f"{d.name} was left: {os.listdir(d) if d.is_dir() else 'a file'}"
            if d.is_file():    # the version before its own: killed behind the last step, before it was removed
                assert self.path.exists(), f"{d.name} was left, and nothing under the file's name"
                d.unlink()
            elif not d.name.endswith(("-lock", "-turn")):
                shutil.rmtree(d)


def run_team(team, tap, lock, rounds):
    """Rounds, until there are no more or one fails."""
    for number in rounds:
        begun, wrong, end = time.monotonic(), "", ""
        try:
            end = team.round(number)
        except Exception as e:  # reported, and the end
            wrong = f"{type(e).__name__}: {e}"
        with lock:
            tap.ok(not wrong, f"{team.name}, round {number} of {team.args.writers} writers, one killed {end}", wrong)
            print(f"# {time.strftime('%H:%M:%S')} {time.monotonic() - begun:.1f} s", flush=True)
        if wrong:
            return


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=["nginx", "xrootd"])
    p.add_argument("--writers", type=int, default=8)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--elements", type=int, default=700)
    p.add_argument("--rtt", type=float)
    p.add_argument("--hosts", type=int, default=3)
    p.add_argument("--teams", type=int, default=1)
    args = p.parse_args()
    tap, lock = harness.Tap(), threading.Lock()
    if args.rtt is not None and (why := harness.why_no_link()):
        tap.skip("many writers over links", why)
        return tap.done()
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(tempfile.mkdtemp(prefix="xh-many-"))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o777)
        hosts = Hosts(args, stack)
        server = stack.enter_context(harness.Server(args.kind, root, addr=hosts.addr,
                                                    words=["--writable", "--no-count"], before=hosts.server))
        shadow = stack.enter_context(harness.shadow_dir())
        for i in range(len(hosts.clients)):
            (shadow / str(i)).mkdir(mode=0o700)
        teams = [Team(args, hosts, server, shadow, i, root, stack) for i in range(args.teams)]
        with tap.claim("the files are made"):
            for team in teams:
                team.make()
        with concurrent.futures.ThreadPoolExecutor(len(teams)) as pool:
            share = [range(1 + i, args.rounds + 1, len(teams)) for i in range(len(teams))]
            list(pool.map(run_team, teams, [tap] * len(teams), [lock] * len(teams), share))
        for end, n in sorted(sum((t.ends for t in teams), collections.Counter()).items()):
            print(f"# {n} killed {end}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
