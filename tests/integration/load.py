#!/usr/bin/env python3
"""The stress test in small (perf/load): several hosts of several processes at once get right bytes and no error. Needs root and
/dev/net/tun, as the bench does.

Usage: load.py [--all]        --all: sixteen processes a host, each a file or a slab of one; and servers that are killed in turns
                              for two minutes rather than some seconds
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

RATE = "60"         # Mbit/s of all: little work, and blocks of a third of a second each for nine processes


def load(cache, *words):
    """One measurement of perf/load. Returns what load.json says of it."""
    out = pathlib.Path(cache) / "out"
    argv = [harness.TOP / "perf" / "load", *words, "--images", 8, "--no-plots", "--no-curl", "--out", out]
    status, said, err = harness.run(argv, dict(harness.clean_env(), XHDF5_BENCH_CACHE=str(cache)), timeout=400)
    assert (out / "load.json").exists(), err[-2000:]
    runs = json.loads((out / "load.json").read_text())["runs"]
    assert status == 0 and len(runs) == 1, said[-3000:] + err[-1000:]
    return runs[0]


def good(run, hosts, processes):
    assert run["hosts"] == hosts and run["processes"] == processes
    assert run["failed"] == 0 and run["wrong"] == 0, run["errors"]
    assert run["blocks_least"] > 0, "a process got nothing"
    assert run["opened"] >= hosts * processes, run["opened"]


def main():
    tap, more = harness.Tap(), "--all" in sys.argv
    why_not = harness.why_no_link()
    each, seconds = ("16", "20") if more else ("3", "5")
    with tempfile.TemporaryDirectory(prefix="xh-load-", dir="/var/tmp") as cache:
        os.chmod(cache, 0o755)
        for read in ("files", "slabs") if more else ("files",):
            claim = f"three hosts of {each} processes, {read}: each gets its bytes, no error"
            if why_not:
                tap.skip(claim, why_not)
                continue
            with tap.claim(claim):
                good(load(cache, "--processes", each, "--seconds", seconds, "--rtt", "10", "--rate", RATE, "--read",
                          read), 3, int(each))
        claim = "0.1 % loss, and two servers that are killed in turns: no wrong byte, no failed read"
        if why_not:
            tap.skip(claim, why_not)
        else:
            with tap.claim(claim):
                kills = 8 if more else 2
                times = ("--seconds", "120") if more else ("--seconds", "11", "--every", "3.5")
                times += ("--kills", kills)
                run = load(cache, "--faults", "--processes", each, *times, "--rtt", "10", "--rate", RATE)
                good(run, 3, int(each))
                assert run["killed"] >= kills and sum("back" in what for _, what in run["events"]) == run["killed"], run
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
