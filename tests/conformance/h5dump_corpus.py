#!/usr/bin/env python3
"""h5dump of every .h5 file that HDF5's source package ships: local against https, byte for byte.

Usage: h5dump_corpus.py nginx|xrootd … [--corpus DIR] [--only GLOB]

The local run uses HDF5's own sec2 driver; the remote run the plugin. Standard output and exit
status must be the same; only the file's name is replaced, and the memory addresses that h5dump
prints for the targets of some references. Files of which less than all is compared stand in
exclusions.txt, each with its reason.
"""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402


DUMP_SECONDS = 200      # what takes longer hangs


def exclusions():
    rows = {}
    for line in (pathlib.Path(__file__).parent / "exclusions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, how, why = line.split("\t", 2)
            rows[name] = (how, why)
    return rows


def dump(target, env, cwd, *flags):
    """(exit status, output, error output); h5dump may run for ever on some files, with any driver."""
    try:
        return harness.run(["h5dump", *flags, target], env, timeout=DUMP_SECONDS, cwd=cwd)
    except subprocess.TimeoutExpired:
        return "no end", "", f"h5dump ran for more than {DUMP_SECONDS} s"


def without_addresses(text):
    return re.sub(r"\b(DATASET|GROUP|DATATYPE) \d{10,} \"", r'\1 ADDRESS "', text)


def differs(corpus, rel, said, server, shadow, flags):
    """None when the dump of the file at |server| is the same as the local one, else what differs."""
    if said[0] == "no end":
        return said[2] + " from the local file"
    local = (said[0], without_addresses(said[1]))
    url = f"{server.url}/{rel}"
    # Some name local files for their data; without the option these are refused, as named.py shows.
    remote = dump(url, harness.driver_env(server, shadow, local_sources="on"), corpus, *flags)
    mine = (remote[0], without_addresses(remote[1]).replace(url, str(corpus / rel)))
    if mine == local:
        return None
    at = next((i for i, (a, b) in enumerate(zip(mine[1].splitlines(), local[1].splitlines())) if a != b), -1)
    detail = [f"exit status {remote[0]}, local {local[0]}; first differing line {at + 1}"]
    if at >= 0:
        detail += ["remote: " + mine[1].splitlines()[at][:200], "local:  " + local[1].splitlines()[at][:200]]
    return "\n".join(detail + [remote[2][-1500:]])


def compare(corpus, rel, places, flags):
    """[what differs at each of the |places|, (server, shadow), or None]"""
    said = dump(str(corpus / rel), harness.clean_env(), corpus, *flags)
    return [differs(corpus, rel, said, server, shadow, flags) for server, shadow in places]


def base(name):
    return pathlib.PurePosixPath(name).name


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("servers", choices=["nginx", "xrootd"], nargs="+")
    ap.add_argument("--corpus", type=pathlib.Path, default=pathlib.Path("/opt/hdf5-corpus"))
    ap.add_argument("--only", default="*")
    args = ap.parse_args()
    tap = harness.Tap()
    files = sorted(p.relative_to(args.corpus).as_posix() for p in args.corpus.rglob("*.h5"))
    tap.ok(len(files) > 300, f"the corpus is there ({len(files)} files)", f"looked in {args.corpus}")
    left_out = exclusions()
    chosen = [f for f in files if fnmatch.fnmatch(f, args.only) and left_out.get(base(f), ("",))[0] != "nothing"]
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(3) as pool:
        places = [(stack.enter_context(harness.Server(kind, args.corpus)), stack.enter_context(harness.shadow_dir()))
                  for kind in args.servers]

        def flags_of(name):
            return ["-p", "-B", "-H"] if left_out.get(base(name), ("",))[0] == "headers" else []

        results = pool.map(lambda f: compare(args.corpus, f, places, flags_of(f)), chosen)
        for name, whys in zip(chosen, results):
            how, reason = left_out.get(base(name), ("", ""))
            note = f" (headers only: {reason})" if how == "headers" else ""
            for kind, why in zip(args.servers, whys):
                tap.ok(why is None, f"{name} reads the same from {kind}{note}", why)
    known = {base(f) for f in files}
    tap.ok(set(left_out) <= known, "every name in exclusions.txt is in the corpus", set(left_out) - known)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
