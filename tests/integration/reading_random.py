#!/usr/bin/env python3
"""Random files, random programs that read them, random options and servers: the bytes of the local file, or an error
where one may be.

Usage: reading_random.py [--from SEED] [--seeds N | --for SECONDS] [--says] [--only nginx|xrootd|liar|local] [--threads]

One seed makes a family of files (tests/support/random_files.py), how they are served, and one to four processes on one
shadow, each with a program of its own (tests/support/random_reads.py), of which one may be killed; and that up to three
times. --threads: some programs have three threads in h5py, too; seed 6029 then fails with h5py 3.14 in HDF5's
bookkeeping of VOL connectors, as it does without this driver where a local read takes long (docs/upstream.md). A
failure names its seed: --from SEED --seeds 1 is the same again, but for the order of events.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd/tool/xhdf5"
PYTHON = harness.DATA_PYTHON
BOUND_S = 150
HASTY = {"stall_timeout_ms": 400, "connect_timeout_ms": 2000}

# Faults of liar.py that a reader survives or reports; each strikes some of the requests, chosen by the seed.
FAULTS = ["truncate", "reset", "reset-head", "empty-reply", "partial", "no-length", "chunked", "chunked-cut",
          "extra-bytes", "twice", "http10", "close-after", "wrong-range", "no-content-range", "short-total",
          "wrong-total", "wrong-length", "no-range", "cut-200", "chunked-200", "multipart-lf", "multipart-overlap",
          "multipart-reversed", "multipart-joined", "multipart-out-of-range", "multipart-shifted",
          "multipart-missing-part", "multipart-unlabelled", "multipart-bad-boundary", "continue", "trailer-status",
          "garbage", "gzip-encoding", "login-206", "etag-change", "etag-change-ignored", "busy", "stall", "slow"]
LIAR = """
import pathlib, random, sys, urllib.parse
sys.path.insert(0, sys.argv[1])
root = pathlib.Path(sys.argv[2])
import liar
from lies import reply
kept = {}

@reply.fault("mixed", whole=True)
def mixed(r):
    "A directory's files; the argument is SEED.PERCENT.FAULT.FAULT: some requests meet one of the faults."
    seed, percent, *faults = r.arg.split(".")
    name = urllib.parse.unquote(r.path.split("/", 2)[2].partition("?")[0])
    if name not in kept:
        kept[name] = (root / name).read_bytes() if (root / name).is_file() else None
    if kept[name] is None:
        return r.send(reply.Reply(404, b"none"))
    r.data = kept[name]
    r.ranges = r.asked(len(r.data))
    dice = random.Random(f"{seed} {name} {r.n}")
    if r.command != "GET" or dice.random() * 100 >= int(percent):
        return reply.honest_reply(r)
    fault = dice.choice(faults)
    if fault == "busy":
        return r.send(reply.Reply(503, b"later"))
    r.arg = "100" if fault == "slow" else None
    reply.FAULTS[fault](r)

sys.argv[1:] = sys.argv[3:]
liar.main()
"""


class Liar:
    """liar.py with a directory's files, of which some requests meet a fault."""

    def __init__(self, root):
        self.root, self.kind, self.cacert = root, "liar", ""

    def __enter__(self):
        some = next(p for p in pathlib.Path(__file__).parent.iterdir() if p.is_file())
        self.process = subprocess.Popen([sys.executable, "-c", LIAR, SUPPORT, self.root, some], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        port = self.process.stdout.readline().split()[0].removeprefix("port=")
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *exc):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def options(rng):
    """Of the driver: small and odd ones rather than what is usual."""
    some = {}
    def maybe(p, name, *values):
        if rng.random() < p:
            some[name] = rng.choice(values)
    maybe(.2, "readahead", "off")
    maybe(.3, "readahead_bytes", 0, "64k", "1M", "3M", "16M")
    maybe(.3, "part_bytes", "64k", "100k", "1M")
    maybe(.3, "gap_bytes", 0, 1, 4096, "1M")
    maybe(.3, "head_bytes", "4k", 5000, "1M", "16M")
    maybe(.4, "whole_file_bytes", 0, "1M")
    maybe(.2, "multirange", "off")
    maybe(.1, "shadow", "off")
    maybe(.3, "shadow_budget_bytes", "64k", "300k", "2M", "8M")
    maybe(.2, "private_budget_bytes", "1M")
    maybe(.5, "stream_bytes", 0, 1, "100k", "1M")
    maybe(.3, "connections", 1, 2, 3)
    maybe(.2, "engine_threads", 1, 3)
    maybe(.2, "stats", "on")
    maybe(.1, "revalidate_ms", 1)
    return some


def make(seed, content, place):
    place.mkdir(parents=True)
    status, out, err = harness.run([PYTHON, SUPPORT / "random_files.py", seed, place, content], harness.clean_env())
    if status:
        raise RuntimeError(f"the files of seed {seed} are not made: {err[-1500:]}")


class Run:
    """All of one seed."""

    def __init__(self, seed, servers, top, says, threads):
        self.seed, self.servers, self.says, self.threads = seed, servers, says, threads
        self.rng = random.Random(f"run {seed}")
        self.name = f"seed{seed}"
        self.kept = top / "kept" / self.name
        self.www = top / "www" / self.name
        self.reads = self.failed = self.killed = 0
        self.bad, self.story = [], []

    def files(self):
        rng = self.rng
        make(self.seed, 0, self.kept / "a")
        self.locals = [self.kept / "a" / "main.h5"]
        self.server = rng.choice(list(self.servers))
        self.replaces = None
        shutil.copytree(self.kept / "a", self.www)
        if self.server == "nginx" and rng.random() < 0.35:
            make(self.seed, 1, self.kept / "made")
            shutil.copytree(self.kept / "a", self.kept / "b")
            shutil.copyfile(self.kept / "made" / "main.h5", self.kept / "b" / "main.h5")
            self.locals.append(self.kept / "b" / "main.h5")
            self.replaces = (str(self.www / "next"), str(self.www / "main.h5"))
            shutil.copyfile(self.locals[1], self.replaces[0])
        harness.age(self.www)
        if self.replaces:
            at = self.locals[0].stat().st_mtime - 86400 + rng.choice((7200, 80000))
            os.utime(self.replaces[0], (at, at))
            if rng.random() < 0.3:
                os.utime(self.replaces[0])
        if rng.random() < 0.4 and self.server != "liar":
            how = ["publish", *rng.choice(([], ["--body"], ["--body=lz4"]))]
            status, out, err = harness.run([TOOL, *how, self.www], harness.clean_env())
            self.sidecar = rng.choice(("auto", "auto", "body") if len(how) > 1 else ("auto",))
            self.story.append(" ".join(how) + f": {status}")
        else:
            self.sidecar = rng.choice(("off", "auto"))

    def target(self):
        server = self.servers[self.server]
        if self.server == "local":
            return str(self.www / "main.h5"), harness.driver_env(None, None)
        if self.server != "liar":
            return f"{server.url}/{self.name}/main.h5", harness.driver_env(server)
        rng = self.rng
        percent = rng.choice((2, 5, 15, 40))
        faults = rng.sample(FAULTS, rng.randint(1, 6))
        self.faulty = True
        mixed = f"mixed:{self.seed}.{percent}.{'.'.join(faults)}"
        return f"{server.url}/{mixed}/{self.name}/main.h5", harness.driver_env(None)

    def round(self, number, shadow, disk):
        rng = self.rng
        self.faulty = self.server == "liar"
        url, env = self.target()
        chosen = options(rng)
        chosen["sidecar"] = self.sidecar
        chosen["shadow_dir"] = shadow
        if disk:
            chosen["disk_cache_dir"] = disk
            if rng.random() < 0.5:
                chosen["disk_cache_bytes"] = rng.choice(("300k", "4M"))
        if self.server == "local":
            chosen |= {"local_shadow": "on"}
        if self.faulty:
            chosen |= HASTY | {"retries": rng.choice((0, 1, 3))}
        offline = self.last and self.server in ("nginx", "xrootd") and number and rng.random() < 0.3
        if offline:
            chosen["offline"] = "on"
        many = rng.choice((1, 1, 2, 3, 4))
        kill = many > 1 and rng.random() < 0.4 or (disk and rng.random() < 0.3)
        replaced = self.replaces and number == 0 or self.replaces and not os.path.exists(self.replaces[0])
        for name, value in chosen.items():
            env[f"XHDF5_{name.upper()}"] = str(value)
        env |= {"BEARER_TOKEN_FILE": os.devnull, "XDG_RUNTIME_DIR": str(self.kept)}
        self.story.append(f"round {number}: {url} {chosen} readers={many} kill={bool(kill)}")
        readers = []
        for i in range(many):
            how = {"seed": f"{self.seed} {number} {i}", "ops": rng.choice((20, 60, 120)), "url": url, "says": self.says,
                   "locals": [str(p) for p in self.locals], "faulty": bool(self.faulty or offline or replaced),
                   "replaces": self.replaces if number == 0 and i == 0 else None,
                   "forks": rng.random() < 0.4, "threads": rng.random() < 0.4 and self.threads}
            log = tempfile.TemporaryFile()
            python = rng.choice([str(p) for p in harness.H5PY.values()])
            readers.append((subprocess.Popen([python, str(SUPPORT / "random_reads.py"), json.dumps(how)], env=env,
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log), log, python, how))
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.3)
        if kill:
            time.sleep(rng.random() * 1.5)
            readers[0][0].kill()
            self.killed += 1
        end = time.monotonic() + BOUND_S
        for i, (process, log, python, how) in enumerate(readers):
            try:
                process.wait(max(1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.bad.append(f"reader {i} hangs\n{harness.where_it_hangs(process.pid)}")
                process.kill()
                process.wait()
            log.seek(0)
            said = log.read().decode(errors="backslashreplace")
            if self.says:
                print(said)
            if process.returncode < 0 and not (kill and i == 0) and self.crashes_anyway(python, how):
                self.story.append(f"round {number}, reader {i}: crashes without the driver, too")
            elif process.returncode not in (0, 1) and not (kill and i == 0):
                self.bad.append(f"reader {i} ended with {process.returncode}\n{said[-3000:]}")
            for line in said.splitlines():
                if line.startswith("DIFFERENT"):
                    self.bad.append(f"round {number}, reader {i}: {line}")
                if line.startswith("reads="):
                    counts = dict(w.split("=") for w in line.split())
                    self.reads += int(counts["reads"])
                    self.failed += int(counts["failed"])
            if process.returncode == 1 and "DIFFERENT" not in said:
                self.bad.append(f"reader {i}:\n{said[-3000:]}")

    def crashes_anyway(self, python, how):
        """Whether the program crashes with HDF5's own driver and the local file, too: it is HDF5's fault then."""
        how = dict(how, url=how["locals"][0], replaces=None)
        return subprocess.run([python, str(SUPPORT / "random_reads.py"), json.dumps(how)], env=harness.clean_env(),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND_S).returncode < 0

    def run(self):
        self.files()
        with contextlib.ExitStack() as stack:
            shadow = stack.enter_context(harness.shadow_dir())
            disk = None
            if self.rng.random() < 0.35:
                disk = stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-disk-"))
            rounds = self.rng.randint(1, 3)
            for number in range(rounds):
                self.last = number == rounds - 1
                self.round(number, shadow, disk)
                if disk and self.rng.random() < 0.5:      # as after a restart
                    shutil.rmtree(shadow, ignore_errors=True)
                    os.makedirs(shadow, mode=0o700)
                if self.bad:
                    break
        shutil.rmtree(self.kept)
        shutil.rmtree(self.www)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--from", type=int, default=1, dest="first", metavar="SEED")
    p.add_argument("--seeds", type=int, default=10)
    p.add_argument("--for", type=float, dest="seconds", metavar="SECONDS")
    p.add_argument("--says", action="store_true")
    p.add_argument("--only")
    p.add_argument("--threads", action="store_true")
    args = p.parse_args()
    tap = harness.Tap()
    begun, seed, total = time.monotonic(), args.first, [0, 0, 0, 0]
    with tempfile.TemporaryDirectory(prefix="xh-random-") as top, contextlib.ExitStack() as stack:
        top = pathlib.Path(top)
        top.chmod(0o755)
        (top / "www").mkdir(mode=0o755)
        servers = {"nginx": harness.Server("nginx", top / "www"), "xrootd": harness.Server("xrootd", top / "www"),
                   "liar": Liar(top / "www"), "local": None}
        if args.only:
            servers = {args.only: servers[args.only]}
        for one in servers.values():
            if one:
                stack.enter_context(one)
        while (time.monotonic() - begun < args.seconds) if args.seconds else seed < args.first + args.seeds:
            run = Run(seed, servers, top, args.says, args.threads)
            try:
                run.run()
            except Exception:
                run.bad.append(traceback.format_exc())
            if run.bad or not args.seconds:
                tap.ok(not run.bad, f"seed {seed}: {run.reads} reads bring what the local file has, or fail where they "
                                    f"may ({run.failed})", "\n".join(run.story + run.bad)[:6000])
            if args.says:
                print("\n".join(run.story))
            for i, n in enumerate((1, run.reads, run.failed, run.killed)):
                total[i] += n
            seed += 1
    tap.ok(total[1] > 0, "{} seeds, {} reads, of which {} failed; {} readers were killed".format(*total))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
