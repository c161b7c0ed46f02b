#!/usr/bin/env python3
"""h5py's own test suite passes with HDF5_DRIVER=xhdf5 as it does without.

Runs the suite of the h5py of each given interpreter with the driver, then those of its tests that did
not pass without it, and compares test by test. A test whose outcome differs must be in the table "Known
differences" of docs/driver.md, and a test of that table must not pass. Prints both counts.

usage: h5py_suite.py --plugins DIR --doc FILE [--tmp DIR] [--env NAME=VALUE]... PYTHON...

--tmp says where the files lie (a file system that everybody can enter), --env what else is set with the driver.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

NOBODY = 65534
# A plugin of pytest: leaves the tests whose names are in the file "only", if there is one, and writes down all that
# there are.
CHOICE = """
import os
from _pytest.junitxml import mangle_test_address
def pytest_collection_modifyitems(items):
    names = {}
    for item in items:
        *place, name = mangle_test_address(item.nodeid)
        names[item] = ".".join(place) + "::" + name
    with open("all", "w") as out:
        out.writelines(name + "\\n" for name in names.values())
    if os.path.exists("only"):
        only = set(open("only").read().splitlines())
        items[:] = [item for item in items if names[item] in only]
"""
ROW = re.compile(r"^\| `([\w.:\[\]-]+)` \| ([\d., ]+) \|")


def known_differences(doc, version):
    """Tests that the manual's table lists for this version of h5py."""
    listed = set()
    with open(doc, encoding="utf-8") as text:
        for line in text:
            row = ROW.match(line)
            if row and version in [v.strip() for v in row.group(2).split(",")]:
                listed.add(row.group(1))
    return listed


def outcome(case):
    """One word for a junit test case."""
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            return child.tag
    return "passed"


def become_nobody():
    """Permissions mean nothing to root: h5py tests them."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def can_become_nobody():
    if os.geteuid() != 0:
        return False
    try:
        subprocess.run(["true"], preexec_fn=become_nobody, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def run_suite(python, extra_env, tmp, only=None):
    """Runs the suite, or the tests |only|, in a directory of its own. Returns {test: outcome}, the names of all tests, and what it
    printed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HDF5_", "XHDF5_"))}
    env.update(extra_env)
    with tempfile.TemporaryDirectory(dir=tmp) as work:
        env["TMPDIR"] = env["HOME"] = env["PYTHONPATH"] = work
        for name, text in ({"choice.py": CHOICE} | ({} if only is None else {"only": "\n".join(only)})).items():
            with open(os.path.join(work, name), "w", encoding="utf-8") as out:
                out.write(text)
        drop = can_become_nobody()
        if drop:
            os.chown(work, NOBODY, NOBODY)
        xml = os.path.join(work, "result.xml")
        done = subprocess.run(
            # Nothing is told of a failed assertion but that it failed: no time goes into rewriting them.
            [python, "-m", "pytest", "--pyargs", "h5py", "-q", "-p", "no:cacheprovider", "-p", "choice",
             "--assert=plain", f"--junitxml={xml}"],
            cwd=work, env=env, preexec_fn=become_nobody if drop else None, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(xml):
            sys.exit(f"{python}: the suite did not run to its end (exit {done.returncode}):\n{done.stdout[-3000:]}")
        outcomes = {}
        for case in ET.parse(xml).getroot().iter("testcase"):
            outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome(case)
        with open(os.path.join(work, "all"), encoding="utf-8") as names:
            return outcomes, set(names.read().splitlines()), done.stdout


def counts(outcomes):
    by_kind = collections.Counter(outcomes.values())
    return ", ".join(f"{by_kind[k]} {k}" for k in ("passed", "failure", "error", "skipped") if by_kind[k])


def check(python, plugins, doc, tmp, extra_env):
    """Compares one h5py's two runs. Returns the number of complaints."""
    version = subprocess.run([python, "-c", "import h5py; print(h5py.__version__)"],
                             capture_output=True, text=True, check=True).stdout.strip()
    driven, chosen, log = run_suite(python, {"HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": plugins} | extra_env, tmp)
    again = {t for t in chosen | driven.keys() if driven.get(t) != "passed"}
    plain, there, _ = run_suite(python, {}, tmp, again)
    print(f"h5py {version} with the driver:          {counts(driven)}")
    print(f"h5py {version} without it, what is left: {counts(plain)}")
    differing = {t for t in again if plain.get(t) != driven.get(t)} | (there ^ chosen)
    for test in sorted(there ^ chosen):
        print(f"  {test}: is there only {'with' if test in chosen else 'without'} the driver")
    listed = known_differences(doc, version)
    for test in sorted(differing):
        mark = "listed" if test in listed else "NOT LISTED"
        print(f"  {test}: {plain.get(test)} without, {driven.get(test)} with: {mark}")
    stale = {t for t in listed - differing if driven.get(t) == "passed"}
    for test in sorted(stale):
        print(f"  {test}: listed, but passes")
    if differing - listed:
        print(log[-6000:])
    return len(differing - listed) + len(stale)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--plugins", required=True)
    args.add_argument("--doc", required=True)
    args.add_argument("--tmp")
    args.add_argument("--env", action="append", default=[])
    args.add_argument("python", nargs="+")
    args = args.parse_args()
    here = [p for p in args.python if os.path.exists(p)]
    if not here:
        print(f"no h5py to test with: {' '.join(args.python)}")
        sys.exit(77)
    sys.exit(1 if sum(check(p, args.plugins, args.doc, args.tmp, dict(e.split("=", 1) for e in args.env)) for p in here)
             else 0)


if __name__ == "__main__":
    main()
