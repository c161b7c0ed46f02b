#!/usr/bin/env python3
"""h5dump of every .h5 file that HDF5's source package ships: local against https, byte for byte.

Usage: h5dump_corpus.py nginx|xrootd … [--corpus DIR] [--only GLOB] [--in-turn]
       --in-turn: each file at one of the servers, which change places from day to day

The local run uses HDF5's own sec2 driver; the remote run the plugin. Standard output and exit
status must be the same; only the file's name is replaced, and the memory addresses that h5dump
prints for the targets of some references. Files of which less than all is compared stand in
exclusions.txt, each with its reason. Remote files of whose local run h5dump said nothing but the
dump are dumped some at a time: most of such a run's processor time is its start.
"""
import argparse
import concurrent.futures
import contextlib
import fnmatch
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402


DUMP_SECONDS = 200      # what takes longer hangs
AT_A_TIME = 12          # files of one remote run


def exclusions():
    rows = {}
    for line in (pathlib.Path(__file__).parent / "exclusions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, how, why = line.split("\t", 2)
            rows[name] = (how, why)
    return rows


def dump(targets, env, cwd, *flags):
    """(exit status, output, error output); h5dump may run for ever on some files, with any driver."""
    try:
        return harness.run(["h5dump", *flags, *targets], env, timeout=DUMP_SECONDS, cwd=cwd)
    except subprocess.TimeoutExpired:
        return "no end", "", f"h5dump ran for more than {DUMP_SECONDS} s"


def parts(out, targets):
    """What |out| has for each target: from the line that names it to the line that names the next one."""
    at = [out.find(f'HDF5 "{target}" {{\n') for target in targets]
    ends = [*at[1:], len(out)]
    if len(targets) == 1:
        return [out]
    return [out[a:b] if 0 <= a < b else "" for a, b in zip([min(at[0], 0), *at[1:]], ends)]


def without_addresses(text):
    return re.sub(r"\b(DATASET|GROUP|DATATYPE) \d{10,} \"", r'\1 ADDRESS "', text)


def differs(corpus, rels, said, server, shadow, flags):
    """For each of the files at |server| None when its dump is the local one, which |said| has; else what differs."""
    urls = [f"{server.url}/{rel}" for rel in rels]
    # Some name local files for their data; without the option these are refused, as named.py shows.
    status, out, err = dump(urls, harness.driver_env(server, shadow, local_sources="on"), corpus, *flags)
    for rel, url, part in zip(rels, urls, parts(out, urls)):
        if said[rel][0] == "no end":
            yield said[rel][2] + " from the local file"
            continue
        local = (said[rel][0], without_addresses(said[rel][1]))
        mine = (status, without_addresses(part).replace(url, str(corpus / rel)))
        if mine == local:
            yield None
            continue
        at = next((i for i, (a, b) in enumerate(zip(mine[1].splitlines(), local[1].splitlines())) if a != b), -1)
        detail = [f"exit status {status}, local {local[0]}; first differing line {at + 1}"]
        if at >= 0:
            detail += ["remote: " + mine[1].splitlines()[at][:200], "local:  " + local[1].splitlines()[at][:200]]
        yield "\n".join([*detail, "dumped together: " + " ".join(rels), err[-1500:]])


def base(name):
    return pathlib.PurePosixPath(name).name


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("servers", choices=["nginx", "xrootd"], nargs="+")
    ap.add_argument("--corpus", type=pathlib.Path, default=pathlib.Path("/opt/hdf5-corpus"))
    ap.add_argument("--only", default="*")
    ap.add_argument("--in-turn", action="store_true")
    args = ap.parse_args()
    tap = harness.Tap()
    files = sorted(p.relative_to(args.corpus).as_posix() for p in args.corpus.rglob("*.h5"))
    tap.ok(len(files) > 300, f"the corpus is there ({len(files)} files)", f"looked in {args.corpus}")
    left_out, corpus = exclusions(), args.corpus
    chosen = [f for f in files if fnmatch.fnmatch(f, args.only) and left_out.get(base(f), ("",))[0] != "nothing"]
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(3) as pool:
        places = [(stack.enter_context(harness.Server(kind, args.corpus)), stack.enter_context(harness.shadow_dir()))
                  for kind in args.servers]

        def flags_of(name):
            return ["-p", "-B", "-H"] if left_out.get(base(name), ("",))[0] == "headers" else []

        local = pool.map(lambda f: dump([str(corpus / f)], harness.clean_env(), corpus, *flags_of(f)), chosen)
        said = dict(zip(chosen, local))
        plain = [f for f in chosen if said[f][0] == 0 and not said[f][2] and not flags_of(f)]
        together = [plain[i:i + AT_A_TIME] for i in range(0, len(plain), AT_A_TIME)]
        together += [[f] for f in chosen if f not in plain]
        day = int(time.time()) // 86400
        runs = [(rels, *place) for i, rels in enumerate(together) for j, place in enumerate(places)
                if not args.in_turn or (i + j + day) % len(places) == 0]
        whys = {}
        for (rels, server, _), found in zip(runs, pool.map(
                lambda run: list(differs(corpus, run[0], said, *run[1:], flags_of(run[0][0]))), runs)):
            whys.update({(rel, server.kind): why for rel, why in zip(rels, found)})
        for name in chosen:
            how, reason = left_out.get(base(name), ("", ""))
            note = f" (headers only: {reason})" if how == "headers" else ""
            for kind in (k for k in args.servers if (name, k) in whys):
                tap.ok(whys[name, kind] is None, f"{name} reads the same from {kind}{note}", whys[name, kind])
    tap.ok({name for name, _ in whys} == set(chosen), "each of them was read", set(chosen) - {name for name, _ in whys})
    known = {base(f) for f in files}
    tap.ok(set(left_out) <= known, "every name in exclusions.txt is in the corpus", set(left_out) - known)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
