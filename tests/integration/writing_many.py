#!/usr/bin/env python3
"""Many writers of one file, each of its own dataset, who close it in random order while one of them is killed: all others' data
is there, nobody else's is touched, and the file is whole, after every round.

Usage: writing_many.py nginx|xrootd [--writers N] [--rounds N] [--elements N] [--rtt MS] [--hosts N]
    --rtt: over emulated links (root); --hosts: so many client hosts, in turns

The datasets are preallocated, contiguous and close together. Who was killed has either written or not; his overlay is dropped.
"""
import argparse
import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
WAN = str(harness.TOP / "perf" / "wan")
MAKE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    for i in range(int(sys.argv[2])):
        f.create_dataset("d%d" % i, data=np.zeros(int(sys.argv[3]) + i, "i8"))
"""
WRITE = """
import sys, h5py
f = h5py.File(sys.argv[1], "r+")
f["d" + sys.argv[2]][:] = int(sys.argv[3])
print("written", flush=True)
sys.stdin.readline()
f.close()
print("closed", flush=True)
"""
CHECK = """
import sys, h5py
with h5py.File(sys.argv[1], "r") as f:
    for i in range(int(sys.argv[2])):
        d = f["d%d" % i][:]
        print(int(d[0]) if (d == d[0]).all() else "mixed")
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
            words = ["env", f"XHDF5_WAN_DIR={state}/wan", f"XHDF5_WANLINK={harness.BUILD}/perf/wanlink", "XHDF5_WAN_LINK=relay"]
            if first:
                words += [f"XHDF5_WAN_ALSO={first}/wan", f"XHDF5_WAN_NUMBER={i + 1}"]
            first = first or state
            subprocess.run([*words, WAN, "up", str(args.rtt), "0"], check=True, stdout=subprocess.DEVNULL)
            stack.callback(subprocess.run, [*words, WAN, "down"], stdout=subprocess.DEVNULL)
            self.server = self.server or [*words, WAN, "server"]
            self.clients.append([*words, WAN, "client"])

    def at(self, i):
        return self.clients[i % len(self.clients)]


def one_round(args, hosts, env, url, root, was, number):
    """Returns what is wrong, or None. |was|: what each dataset holds; is brought up to date."""
    n = args.writers
    shadows = [dict(env, XHDF5_SHADOW_DIR=f"{env['XHDF5_SHADOW_DIR']}/{i % len(hosts.clients)}") for i in range(n)]
    programs = [subprocess.Popen([*hosts.at(i), H5PY, "-c", WRITE, url, str(i), str(number)], env=shadows[i], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(n)]
    for i, p in enumerate(programs):
        if p.stdout.readline() != "written\n":
            return f"writer {i}: {p.stderr.read()[-2000:]}"
    order = random.sample(range(n), n)
    victim = order[random.randrange(n)]
    for i in order:
        programs[i].stdin.write("\n")
        programs[i].stdin.flush()
    time.sleep(random.random() * args.kill_within)    # not a wait: the time of the murder
    # With a link the program is a grandchild: nsenter has become it, and env before that.
    programs[victim].kill()
    closed = []
    for i, p in enumerate(programs):
        out, err = p.communicate(timeout=900)
        if p.returncode == 0 and "closed" in out:
            closed.append(i)
        elif i != victim:
            return f"writer {i} of round {number}: {p.returncode} {err[-2000:]}"
    status, out, err = harness.run([*hosts.at(0), H5PY, "-c", CHECK, url, str(n)], dict(env, XHDF5_SHADOW="off"), timeout=300)
    if status:
        return err[-2000:]
    has = out.split()
    for i in range(n):
        allowed = {str(number)} if i in closed else {str(was[i]), str(number)} if i == victim else {str(was[i])}
        if has[i] not in allowed:
            return f"round {number}, victim {victim}: dataset {i} holds {has[i]}, not {allowed}"
        was[i] = int(has[i])
    status, _, err = harness.run(["h5dump", root / "many.h5"], harness.clean_env(), timeout=300)
    return err if status else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=["nginx", "xrootd"])
    p.add_argument("--writers", type=int, default=8)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--elements", type=int, default=700)
    p.add_argument("--rtt", type=float)
    p.add_argument("--hosts", type=int, default=3)
    p.add_argument("--kill-within", type=float, metavar="SECONDS", help="default: a second for each writer, at most 20")
    args = p.parse_args()
    args.kill_within = args.kill_within or min(args.writers, 20)
    tap = harness.Tap()
    if args.rtt is not None and (why := harness.why_no_link()):
        tap.skip("many writers over links", why)
        return tap.done()
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(tempfile.mkdtemp(prefix="xh-many-"))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o777)
        overlay = tempfile.mkdtemp(prefix="xh-overlay-")
        stack.callback(shutil.rmtree, overlay, ignore_errors=True)
        hosts = Hosts(args, stack)
        server = stack.enter_context(harness.Server(args.kind, root, addr=hosts.addr, words=["--writable", "--no-count"], before=hosts.server))
        shadow = stack.enter_context(harness.shadow_dir())
        for i in range(len(hosts.clients)):
            (shadow / str(i)).mkdir(mode=0o700)
        env = harness.driver_env(server, shadow, writable="on", overlay_dir=overlay)
        url, was = server.url + "/many.h5", [0] * args.writers
        with tap.claim("the file is made"):
            status, _, err = harness.run([*hosts.at(0), H5PY, "-c", MAKE, url, str(args.writers), str(args.elements)],
                                         dict(env, XHDF5_SHADOW="off"))
            assert status == 0, err
        for number in range(1, args.rounds + 1):
            begun = time.monotonic()
            wrong = one_round(args, hosts, env, url, root, was, number)
            tap.ok(not wrong, f"round {number} of {args.writers} writers, one killed: {was.count(number)} have written", wrong or "")
            print(f"# {time.monotonic() - begun:.1f} s", flush=True)
            if wrong:
                break
        for one in os.listdir(overlay):    # the victims': never sent again, as their datasets belong to others now
            harness.run([TOOL, "recover", "drop", one], env)
        with tap.claim("nothing is kept any more"):
            assert os.listdir(overlay) == []
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
