#!/usr/bin/env python3
"""Random changes of files at URLs, with faults, other writers and kills: what is at the server is what a local file
holds after the same changes, or what was written is kept.

Usage: writing_random.py nginx|apache|xrootd [--from SEED] [--seeds N | --for SECONDS] [--jobs N] [--says]

One seed makes one file, opens it some times in several modes, and changes it (tests/support/random_writes.py). A
failure names its seed: --from SEED --seeds 1 is the same again, but for the order of events; --says shows each step.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import traceback

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
import harness  # noqa: E402
from gate import Gate  # noqa: E402
from writing import HASTY, TOOL, Place  # noqa: E402

FAULTS = ["cut", "deaf", "half", 401, 403, 500, 503, 507]


class Bad(Exception):
    pass


class Worker:
    """A process that changes files."""

    def __init__(self, env, says=0):
        self.says = says
        self.child = subprocess.Popen([harness.H5PY["3.14.0"], SUPPORT / "random_writes.py"], env=env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=None if says else subprocess.DEVNULL)

    def __call__(self, do, **words):
        if self.says:
            print(f"  {self.child.pid} {do} {words}", flush=True)
        words = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in words.items()}
        self.child.stdin.write(json.dumps({"do": do} | words) + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise Bad(f"the process ended at {do} {words}: status {self.child.wait(30)}")
        answer = json.loads(line)
        if self.says:
            print(f"    -> {str(answer)[:1500]}", flush=True)
        if "raised" in answer:
            raise Bad(f"{do} {words}: {answer['raised']}")
        return answer

    def end(self, kill=0):
        if kill:
            self.child.kill()
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        self.child.wait(60)


class Story:
    """All of one seed."""

    def __init__(self, p, gate, seed, says):
        self.p, self.gate, self.seed, self.says = p, gate, seed, says
        self.rng = random.Random(f"story {seed}")
        self.name = f"f{seed}.h5"
        self.url = f"{gate.url}/{self.name}"
        self.dir = p.work / f"seed{seed}"
        self.dir.mkdir()
        self.local = self.dir / "local.h5"
        self.changes, self.kinds = 0, []
        self.workers, self.faults = [], 0

    @staticmethod
    def tidy(path):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def worker(self):
        rng = self.rng
        options = dict(HASTY, overlay_dir=self.dir / "overlay")
        if rng.random() < 0.2:
            options["readahead"] = "off"
        if rng.random() < 0.3:
            options["whole_file_bytes"] = 0
        if rng.random() < 0.3:
            options["head_bytes"] = 4096
        env = self.p.env(rng.random() < 0.3, **options)
        env["PLUGIN"] = str(harness.BUILD / "vfd" / "plugins" / "libhdf5_vfd_xhdf5.so")
        w = Worker(env, self.says)
        self.workers.append(w)
        return w

    def left(self):
        return json.loads(self.p.tool("list", "--json", overlay_dir=self.dir / "overlay"))

    def tool(self, *words, **how):
        return self.p.tool(*words, overlay_dir=self.dir / "overlay", **how)

    def how(self):
        """How the file is opened."""
        rng, how = self.rng, {}
        if rng.random() < 0.6:
            pairs = [["earliest", "v108"], ["v110", "v112"], ["earliest", "latest"]]
            how["libver"] = rng.choice(["latest", "v110", *pairs])
        if rng.random() < 0.2:
            how["rdcc_nbytes"] = rng.choice([0, 5000])
        if rng.random() < 0.1:
            how["alignment_threshold"], how["alignment_interval"] = 1000, 512
        if rng.random() < 0.2:
            how["meta_block_size"] = rng.choice([1, 300, 65536])
        return how

    def making(self):
        rng, how = self.rng, {}
        if rng.random() < 0.5:
            how["fs_strategy"] = rng.choice(["page", "page", "page", "fsm", "aggregate", "none"])
            if how["fs_strategy"] in ("page", "fsm"):
                how["fs_persist"] = rng.random() < 0.6
                how["fs_threshold"] = rng.choice([1, 1, 64])
            if how["fs_strategy"] == "page":
                how["fs_page_size"] = rng.choice([512, 4096, 16384])
        if rng.random() < 0.2 and "fs_page_size" not in how:
            how["userblock_size"] = rng.choice([512, 2048])
        if rng.random() < 0.2:
            how["track_order"] = True
        self.pages = how.get("fs_page_size")
        return how

    def open(self, w, mode, how):
        got = w("open", url=self.url, local=self.local, mode=mode, how=how)
        if not got["opened"] and not got["same"]:
            raise Bad(f"open {mode} {how}: {got}")
        return got["opened"]

    def change(self, w, n, what="all"):
        got = w("change", seed=self.rng.getrandbits(40), n=n, what=what, says=bool(self.says))
        self.changes += len(got["done"])
        if "bad" in got:
            raise Bad(got["bad"] + "\n" + "\n".join(got["done"][-30:]))
        return "changed" in got

    def check(self, w, there="local.h5"):
        """The file at the server against the local one, or what was noted of it."""
        want = self.dir / "want"
        if there == "local.h5":
            w("note_file", path=self.local, to=want)
        else:
            want = self.dir / there
        w("note_file", path=self.p.root / self.name, to=self.dir / "got")
        bad = w("compare", one=want, two=self.dir / "got")["bad"]
        if not bad and self.rng.random() < 0.5:
            w("note_file", path=self.url, to=self.dir / "got", how={"driver": None})
            bad = w("compare", one=want, two=self.dir / "got")["bad"]
            bad = bad and "read at the URL: " + bad
        if bad:
            raise Bad(bad)
        beside = [one for one in self.p.beside(self.name) if "-turn" not in one]
        if self.faults:    # then what could not be removed may stay
            for one in beside:
                self.tidy(self.p.root / (self.name + one))
        elif beside:
            raise Bad(f"beside the file: {beside}")

    # --- how a session ends

    def faulty(self, w):
        """Requests fail from some one on, once or for good, and `xhdf5 recover retry` sends what is kept."""
        rng = self.rng
        at, fault, once = rng.randrange(18), rng.choice(FAULTS), rng.random() < 0.5

        def rule(n, method, path):
            if self.name not in path:
                return None
            if once and method == "GET":
                return None
            rule.n += 1
            return fault if rule.n == at + 1 or (rule.n > at and not once and method != "GET") else None
        rule.n = 0
        if once and rng.random() < 0.3 and w("commit")["rc"] < 0:
            raise Bad("commit failed without a fault")
        self.gate.arm(rule)
        self.faults += 1
        self.kinds.append(f"fault {fault} at {at} {'once' if once else ''}")
        if rng.random() < 0.3:
            w("commit")
            if rng.random() < 0.5:
                self.gate.arm(lambda *_: None)
            if rng.random() < 0.5:
                self.change(w, 4)
        why = w("close")["why"]
        self.gate.arm(lambda *_: None)
        left = self.left()
        if not why and left:
            raise Bad(f"closed without an error, and kept: {left}")
        if why and not left:
            raise Bad(f"not sent, and not kept: {why}")
        for one in left:
            # The old version may be gone, where the new one is there and only the answer was lost.
            status, _, err = harness.run([TOOL, "recover", "export", one["id"], self.dir / "exported.h5"],
                                         self.p.env(overlay_dir=self.dir / "overlay"))
            if status == 0:
                w("note_file", path=self.dir / "exported.h5", to=self.dir / "exported")
                w("note_file", path=self.local, to=self.dir / "want")
                if bad := w("compare", one=self.dir / "want", two=self.dir / "exported")["bad"]:
                    raise Bad("exported: " + bad)
            elif "is gone from the server" not in err:
                raise Bad(f"export: {status} {err}")
            (self.dir / "exported.h5").unlink()
            self.tool("retry", one["id"])

    def killed(self, w):
        """Killed behind a flush: export makes a file of what was flushed, and the server has the old version."""
        self.kinds.append("killed")
        w("flush")
        w("note", to=self.dir / "flushed")
        w.end(kill=1)
        w = self.worker()
        left = self.left()
        if left and left[0]["state"] == "flushed":
            self.tool("export", left[0]["id"], self.dir / "exported.h5")
            try:
                w("note_file", path=self.dir / "exported.h5", to=self.dir / "got")
            except Bad as e:
                if "already open" not in str(e):
                    raise
                harness.run(["h5clear", "-s", self.dir / "exported.h5"], harness.clean_env())
                w("note_file", path=self.dir / "exported.h5", to=self.dir / "got")
            if bad := w("compare", one=self.dir / "flushed", two=self.dir / "got")["bad"]:
                raise Bad("flushed: " + bad)
            (self.dir / "exported.h5").unlink()
        for one in left:
            self.tool("drop", one["id"])
        shutil.copyfile(self.dir / "before.h5", self.local)
        return w

    def with_another(self, w, what):
        """Another process writes meanwhile, once or more: both changes are there, or it is a conflict, and the other's
        are."""
        rng, d, other = self.rng, self.dir, self.worker()
        shutil.copyfile(d / "before.h5", d / "other.h5")
        other("note_file", path=d / "before.h5", to=d / "base")
        for last in (*[False] * rng.choice([0, 0, 1, 2]), True):
            if not other("open", url=self.url, local=d / "other.h5", mode="r+", how={})["opened"]:
                raise Bad("the other cannot open the file")
            other("note", to=d / "there")
            if rng.random() < 0.9:
                self.change(other, rng.randint(1, 4), what if rng.random() < 0.9 else "all")
            if why := other("close")["why"]:
                raise Bad(f"the other's close: {why}")
            other("note_file", path=d / "other.h5", to=d / "theirs")
            why = w("close")["why"] if last else "conflict" if w("commit")["rc"] < 0 else ""
            w("note", to=d / "ours") if not last else other("note_file", path=self.local, to=d / "ours")
            merged = other("merge", base=d / "base", ours=d / "ours", theirs=d / "theirs", to=d / "merged")["merged"]
            self.kinds.append("conflict" if why else "merged" if merged else "not merged")
            if why and not last:
                w("close")
            left = self.left()
            if why:
                if not ("conflict" in why or "changed on the server while" in why) or len(left) != 1:
                    raise Bad(f"another: {why} {left}")
                self.tool("drop", left[0]["id"])
            elif left and last:
                raise Bad(f"merged, and kept: {left}")
            elif not merged:
                same = [not other("compare", one=d / one, two=d / two)["bad"] for one, two in
                        (("there", "theirs"), ("base", "ours"))]
                if not any(same):
                    raise Bad("no conflict, though both changed more than numbers")
                shutil.copyfile(d / ("ours" if same[0] else "theirs"), d / "merged")
            self.check(other, "theirs" if why else "merged")
            if why:
                break
            if not last:
                (d / "ours").replace(d / "base")
                shutil.copyfile(self.p.root / self.name, d / "other.h5")
                if self.change(w, rng.randint(1, 4), what):
                    w("close")    # what it read of others' changes, unlike theirs, is worth nothing
                    for one in self.left():
                        self.tool("drop", one["id"])
                    break
        shutil.copyfile(self.p.root / self.name, self.local)
        other.end()

    def run(self):
        rng, w = self.rng, self.worker()
        shared = rng.random() < 0.4
        how = self.how() | self.making()
        if self.open(w, rng.choice(["w", "x", "a"]), how):
            for n in range(rng.randint(2, 6)):
                if n:
                    mode = "r+" if shared else rng.choice(["r+", "r+", "r+", "a", "w", "r", "x"])
                    how = self.how()
                    if mode == "w":
                        how |= self.making()
                    if self.pages and rng.random() < 0.3:
                        how["page_buf_size"] = 16384 * 4
                    if self.local.exists():
                        shutil.copyfile(self.local, self.dir / "before.h5")
                    if rng.random() < 0.2:
                        w.end()
                        w = self.worker()
                    if not self.open(w, mode, how):    # HDF5 may have made the local file empty
                        shutil.copyfile(self.dir / "before.h5", self.local)
                        continue
                    self.kinds.append(mode)
                    if mode == "r":
                        if bad := w("same")["bad"]:
                            raise Bad("read: " + bad)
                        w("close")
                        continue
                else:
                    mode = "w"
                end = rng.choice(["close", "close", "fault", "fault", "killed", "another", "another", "discard"])
                if n == 0 or mode == "w":
                    end = rng.choice(["close", "fault"])
                elif shared:
                    end = "another"
                only = end == "another" and (shared or rng.random() < 0.6)
                what = "make" if n == 0 and shared else "data" if only else "all"
                for _ in range(rng.randint(1, 3)):
                    self.change(w, rng.randint(1, 4 if what == "data" else 25), what)
                    if end in ("close", "fault") and rng.random() < 0.4:
                        if w("commit")["rc"] < 0:
                            raise Bad("commit failed")
                        if rng.random() < 0.5:
                            if bad := w("same")["bad"]:
                                raise Bad("behind a commit: " + bad)
                if end == "fault":
                    self.faulty(w)
                elif end == "killed":
                    w = self.killed(w)
                elif end == "another":
                    self.with_another(w, what)
                elif end == "discard":
                    w("discard", how=0)
                    w("close")
                    shutil.copyfile(self.dir / "before.h5", self.local)
                    if self.left():
                        raise Bad("discarded, and kept")
                elif why := w("close")["why"]:
                    raise Bad(f"close: {why}")
                self.check(w)
        w.end()

    def clean(self):
        for w in self.workers:
            w.end(kill=1)
        shutil.rmtree(self.dir, ignore_errors=True)
        for one in self.p.root.glob(self.name + "*"):
            self.tidy(one)


def main():
    a = argparse.ArgumentParser(usage=__doc__)
    a.add_argument("kind")
    a.add_argument("--from", dest="first", type=int, default=1)
    a.add_argument("--seeds", type=int, default=20)
    a.add_argument("--for", dest="seconds", type=float)
    a.add_argument("--jobs", type=int, default=3)
    a.add_argument("--says", action="store_true")
    o = a.parse_args()
    tap, changes, kinds = harness.Tap(), 0, []
    end = time.monotonic() + o.seconds if o.seconds else None
    with contextlib.ExitStack() as stack:
        p = Place(o.kind, stack)

        def one(seed):
            if end and time.monotonic() > end:
                return None
            with Gate(p.server) as gate:
                s = Story(p, gate, seed, o.says)
                bad = ""
                try:
                    s.run()
                except Exception:
                    bad = traceback.format_exc()
                s.clean()
            return seed, s.changes, s.kinds, bad
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for got in pool.map(one, range(o.first, o.first + (3000 if end else o.seeds))):
                if not got:
                    break
                changes += got[1]
                kinds += got[2]
                if got[3]:
                    tap.ok(False, f"{o.kind}: seed {got[0]} {got[2]}", got[3])
            pool.shutdown(cancel_futures=True)
    print("#", dict(collections.Counter(k.split()[0] for k in kinds)))
    tap.ok(tap.bad == 0, f"{changes} random changes at {o.kind}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
