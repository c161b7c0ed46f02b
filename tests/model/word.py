#!/usr/bin/env python3
"""Runs word.pml through spin: as it is, where no run may be wrong, and with each of its faults, which must be found.

usage: word.py [--all] [--only NAME]

Prints a line for each, and "N passed, N failed". --all: larger ones too. What spin found is printed with --only.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "word.pml"
WAKES = "-DDEATHS=0 -DWAKES_ONLY"
# What is run without a fault: some seconds each.
WHOLE = {
    "two processes, a death": "-DOPS=2",
    "three processes": "-DACTORS=3 -DOPS=1 -DDEATHS=0",
    "a unit of two pages, a death": "-DPAGES=2 -DOPS=1",
    "two threads of a process": "-DTHREADS -DOPS=2 -DDEATHS=0",
    "no time-outs": f"-DOPS=2 {WAKES}",
    "three processes, no time-outs": f"-DACTORS=3 -DOPS=1 {WAKES}",
}
# And with --all: a minute, and up to 2 GB. Three processes with a death take more than 9 GB: not tried to the end.
LARGE = {
    "two processes, three things each": "-DOPS=3 -DDEATHS=0",
    "a unit of two pages, two things each": "-DPAGES=2 -DOPS=2 -DDEATHS=0",
    "two processes, two deaths": "-DOPS=2 -DDEATHS=2",
}
# A fault that only other settings than the first show.
FAULTS = {"NO_NEIGHBOUR": "-DPAGES=2 -DOPS=2", "NOT_WOKEN": f"-DOPS=2 {WAKES}",
          "CHANGE_TORN": "-DOPS=2 -DDEATHS=0"}


def run(flags, large):
    """Returns spin's verdict: the number of errors, of states, what was wrong, and the way there."""
    with tempfile.TemporaryDirectory() as work:
        def call(*command):
            return subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        said = call("spin", "-a", *flags, str(MODEL))
        # Some seconds of search are not worth those of a compiler that optimizes.
        built = call("gcc", "-w", "-O2" if large else "-O0", "-DSAFETY", "-DMEMLIM=4000", "-o", "pan", "pan.c")
        if said.returncode or built.returncode:
            return None, None, said.stdout + said.stderr + built.stderr, ""
        out = call("./pan", "-m500000").stdout
        errors, states = re.search(r"errors: (\d+)", out), re.search(r"(\d+) states, stored", out)
        wrong = re.search(r"pan:\d+: (.*)", out)
        # Out of memory or too deep: that is no proof.
        cut = re.search(r"max search depth too small|out of memory|Search not completed", out)
        if not errors or not states or (cut and not int(errors[1])):
            return None, None, out[-1000:], ""
        way = call("spin", "-k", "word.pml.trail", "-p", *flags, str(MODEL)).stdout if int(errors[1]) else ""
        return int(errors[1]), int(states[1]), wrong[1] if wrong else "", way


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    o = parser.parse_args()
    faults = re.findall(r"^#define (\w+) +[1-9]\d* +/\*", MODEL.read_text().partition("#ifndef FAULT")[0], re.M)
    assert len(faults) > 10 and set(FAULTS) <= set(faults), faults
    todo = [(name, flags, None) for name, flags in {**WHOLE, **(LARGE if o.all else {})}.items()]
    todo += [(f, FAULTS.get(f, "-DOPS=2"), f) for f in faults]
    todo = [t for t in todo if o.only in (None, t[0])]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(lambda t: run(t[1].split() + ([f"-DFAULT={t[2]}"] if t[2] else []), t[0] in LARGE), todo)
        for (name, flags, fault), (errors, states, wrong, way) in zip(todo, done):
            good = errors is not None and (errors > 0) == bool(fault)
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAILED':6} {name}: {f'found: {wrong}' if fault and errors else wrong}"
                  f"{'' if wrong else 'never wrong'} (states: {states}; {flags})", flush=True)
            if o.only and way:
                print(way)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0 or not todo)


if __name__ == "__main__":
    main()
