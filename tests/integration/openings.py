#!/usr/bin/env python3
"""Many processes that open one URL at once: one asks the server for all who may be asked for.

Usage: openings.py

The server holds its first answer (tests/support/liar.py, "held") until all others are seen to wait for their turn; what
it was asked stands in its log.

Then what one opening and one small read ask of a real server: by its own log, but for XRootD's connections, which the
driver counts.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

PROCESSES = 12
# Stays until the look for a sidecar is over, by the driver's own trace: what closes before that does not know of it.
SMALL_READ = """
import sys, time, h5py
with h5py.File(sys.argv[1]) as f:
    f["x"][30_000_000:30_012_288]
    while len(sys.argv) > 2 and b" sidecar used=" not in open("/proc/self/fd/2", "rb").read():
        time.sleep(0.05)
"""
LARGE_FILE = """
import sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("x", shape=64_000_000, dtype="u1", data=None)
    f["x"][63_999_999] = 1
"""
# Of a server that is not known, then of one where the process before read another file: most requests, connections,
# and the replies from 400 on: one, that there is no sidecar. XRootD's date is a request, and what came before the date
# is asked for again (docs/origin.md). What a server does not answer soon the driver asks again: its log tells, and each
# such request comes on top. So does the head by itself where the answer about the sidecar comes after the date.
LIMITS = {"nginx": ((4, 3, 1), (2, 2, 0)), "xrootd": ((4, 2, 1), (3, 2, 0))}
WAIT_S = 60    # for what comes soon, on a loaded machine
GAVE_UP = " got=0"    # of a turn, in the log
HELD = {"stall_timeout_ms": 100000}


class Readers:
    """Processes that read one file through one shadow, each with an environment of its own."""

    def __init__(self, url, envs):
        self.errors = [tempfile.TemporaryFile("w+") for _ in envs]
        self.all = [subprocess.Popen([str(faults.READ_IMAGES), url, "images"], env=env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=err, text=True)
                    for env, err in zip(envs, self.errors)]

    def said(self):
        """What each has written to standard error so far."""
        return [os.pread(err.fileno(), 1 << 24, 0).decode(errors="replace") for err in self.errors]

    def ends(self):
        """[(sum or None, standard error)]"""
        outs = [p.communicate(timeout=WAIT_S)[0] for p in self.all]
        return [(faults.Bench.sum_in(out), err) for out, err in zip(outs, self.said())]

    def wait_no_more(self):
        """How many have ended, or waited for so long that they ask themselves."""
        return sum(p.poll() is not None or GAVE_UP in err for p, err in zip(self.all, self.said()))


def waiting(env):
    """How many processes wait for a turn: each has a lock of its own on the file "turns" meanwhile."""
    found = [p.stat() for p in pathlib.Path(env["XHDF5_SHADOW_DIR"]).rglob("turns")]
    names = [f"{os.major(s.st_dev):02x}:{os.minor(s.st_dev):02x}:{s.st_ino}" for s in found]
    locks = pathlib.Path("/proc/locks").read_text().splitlines()
    return sum(f" {name} " in line and " READ " in line for line in locks for name in names)


def held(liar, path, env, n):
    """One process that is held by the server in its first request, and |n| more: they wait for it, or waited too long."""
    first = Readers(liar.base + path, [env])
    harness.wait_for(lambda: liar.requests().get(path), "the first request", WAIT_S)
    more = Readers(liar.base + path, [env] * n)
    harness.wait_for(lambda: waiting(env) + more.wait_no_more() >= n, "the others", WAIT_S)
    return first, more


def release(liar, path, n=""):
    urllib.request.urlopen(f"{liar.http}/_release{n}{path}", timeout=20).close()


def openings(liar, path):
    """What was asked to open |path|: its first bytes, conditional or not."""
    return [r for r in liar.requests()[path] if re.match("bytes=0-", r["range"] or "")]


def asked_again(ends):
    """How often processes asked a second time as the answer did not come soon: a loaded machine is slow to answer."""
    return sum(err.count(" ask-again ") for _, err in ends)


def envs(bench, liar, *extras):
    shared = bench.env(liar.cacert, log="origin")
    return [{**shared, **extra} for extra in extras]


def one_asks_for_all(bench, liar):
    path = f"/held@1-2/{bench.name()}"      # what is held for two seconds is asked for again
    env = bench.env(liar.cacert, log="shadow,origin", **HELD)
    first, more = held(liar, path, env, PROCESSES - 1)
    release(liar, path)
    ends = first.ends() + more.ends()
    assert all(got == bench.sum for got, _ in ends), ends
    # The first one asked before the others came, so one of them asks again, for all of them. And a wait has a bound,
    # which a loaded machine may reach: a process that gave up asks for itself.
    gave_up = sum(GAVE_UP in err for _, err in ends)
    again = asked_again(ends)
    assert 1 <= len(openings(liar, path)) <= 2 + gave_up + again, (gave_up, again, openings(liar, path))


def who_reads_later_asks_himself(bench, liar):
    path = f"/ok/{bench.name()}"
    env, ends = bench.env(liar.cacert, log="origin"), []
    for _ in range(3):
        ends += Readers(liar.base + path, [env]).ends()
        assert ends[-1][0] == bench.sum, ends
    assert 3 <= len(openings(liar, path)) <= 3 + asked_again(ends), openings(liar, path)


def another_token_asks_himself(bench, liar):
    path = f"/late:700@1-2/{bench.name()}"
    ends = Readers(liar.base + path, envs(bench, liar, *[{"BEARER_TOKEN": t} for t in "AABB"])).ends()
    assert all(got == bench.sum for got, _ in ends), ends
    asked = openings(liar, path)
    assert 2 <= len(asked) <= 4 + asked_again(ends) and all(r["authorization"] for r in asked), asked


def a_refusal_is_not_waited_for_one_by_one(bench, liar):
    """All others ask at once: each is answered only when all have asked."""
    path = f"/held-404/{bench.name()}"
    first, more = held(liar, path, bench.env(liar.cacert, log="shadow", **HELD), PROCESSES - 1)
    release(liar, path, ":1")
    harness.wait_for(lambda: len(openings(liar, path)) >= PROCESSES, "all others' requests", WAIT_S)
    release(liar, path)
    ends = first.ends() + more.ends()
    assert all(got is None and "404" in err for got, err in ends), ends


def a_suspended_opener_is_not_waited_for(bench, liar):
    path = f"/held@1-1/{bench.name()}"
    env = bench.env(liar.cacert)
    first = Readers(liar.base + path, [env])
    harness.wait_for(lambda: liar.requests().get(path), "the first request", WAIT_S)
    first.all[0].send_signal(signal.SIGSTOP)
    try:
        ends = Readers(liar.base + path, [env] * 3).ends()
        assert all(got == bench.sum for got, _ in ends), ends
    finally:
        first.all[0].send_signal(signal.SIGCONT)
        release(liar, path)
    assert first.ends()[0][0] == bench.sum


def small_read(server, name, shadow, looks):
    """What one process asks for that opens the file |name| and reads 12 KiB: (requests, connections, refusals), and how
    many requests it sent again. |looks|: it looks for a sidecar, and stays until it knows that there is none."""
    log = pathlib.Path(server.facts["log"])
    begun, before = log.stat().st_size, server.requests()[0]
    env = harness.driver_env(server, shadow, log="stats,read,origin", sidecar="auto")
    with tempfile.TemporaryFile() as said:
        status = subprocess.run([str(faults.H5PY), "-c", SMALL_READ, f"{server.url}/{name}", *(["stay"] if looks else [])],
                                env=env, stdin=subprocess.DEVNULL, stderr=said, timeout=2 * WAIT_S).returncode
        said.seek(0)
        err = said.read().decode(errors="replace")
    assert status == 0, err
    sent = harness.counters(err)
    again = err.count(" ask-again ") + sent["hedged"] + sent["retries"] + err.count(" sidecar-late ")
    harness.wait_for(lambda: server.requests()[0] - before >= sent["requests"], "the log's last line", WAIT_S)
    with log.open("rb") as f:
        f.seek(begun)
        lines = f.read().decode(errors="replace")
    statuses = re.findall(r" status=(\d+) " if server.kind == "nginx" else r" Sending resp: (\d+) ", lines)
    print("#", server.kind, name, "requests:", len(statuses), "connections:", sent["connections"], "again:", again,
          " ".join(statuses))
    conns = set(re.findall(r" conn=(\d+) ", lines)) if server.kind == "nginx" else range(sent["connections"])
    return (len(statuses), len(conns), sum(s >= "400" for s in statuses)), again


def one_opening_asks_little(kind, directory, shadows):
    data = directory / f"data-{kind}"
    data.mkdir(mode=0o755)
    for name in ("one.h5", "two.h5"):
        status, out, err = harness.run([faults.H5PY, "-c", LARGE_FILE, data / name], harness.clean_env())
        assert status == 0, out + err
    shadow = pathlib.Path(tempfile.mkdtemp(dir=shadows))
    with harness.Server(kind, data) as server:
        for name, most in zip(("one.h5", "two.h5"), LIMITS[kind]):
            asked, again = small_read(server, name, shadow, most[2])
            assert all(a <= b + again for a, b in zip(asked, most)), (kind, name, asked, most, again)


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-openings-") as d, harness.shadow_dir() as shadows:
        directory = pathlib.Path(d)
        sample = directory / "sample.h5"
        status, out, err = harness.run([faults.H5PY, "-c", faults.SAMPLE, sample], harness.clean_env())
        assert status == 0, out + err
        bench = faults.Bench(directory, shadows, sample)
        with faults.Liar(sample) as plain, faults.Liar(sample, directory / "tls") as tls:
            for claim, test, liar in (
                    ("of many that open at once, one asks for all", one_asks_for_all, plain),
                    ("the same over TLS", one_asks_for_all, tls),
                    ("who opens later asks himself", who_reads_later_asks_himself, plain),
                    ("who has another token asks himself", another_token_asks_himself, tls),
                    ("a refusal is not waited for one by one", a_refusal_is_not_waited_for_one_by_one, plain),
                    ("a suspended opener is not waited for", a_suspended_opener_is_not_waited_for, plain)):
                with tap.claim(claim):
                    test(bench, liar)
        directory.chmod(0o755)
        for kind, limits in LIMITS.items():
            (a, b, _), (c, d, _) = limits
            with tap.claim(f"{kind}: one opening and one small read are {a} requests on {b} connections, "
                           f"{c} on {d} at a known server"):
                one_opening_asks_little(kind, directory, shadows)
    return tap.done()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
