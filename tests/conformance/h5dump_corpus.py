#!/usr/bin/env python3
"""h5dump of every .h5 file that HDF5's source package ships: local against https, byte for byte.

Usage: h5dump_corpus.py nginx|xrootd [--corpus DIR] [--only GLOB]

The local run uses HDF5's own sec2 driver; the remote run the plugin. Standard output and exit
status must be the same; the name of the file is the only thing replaced. Files that cannot be
compared stand in exclusions.txt with their reason; one that no longer needs to be there fails
as well, so that the list stays true.
"""
import argparse
import concurrent.futures
import fnmatch
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402


def exclusions():
    rows = {}
    for line in (pathlib.Path(__file__).parent / "exclusions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, why = line.split("\t", 1)
            rows[name] = why
    return rows


def dump(target, env, cwd):
    status, out, err = harness.run(["h5dump", target], env, timeout=120, cwd=cwd)
    return status, out, err


def compare(corpus, rel, server, shadow):
    local_name = str(corpus / rel)
    url = f"{server.url}/{rel}"
    local = dump(local_name, harness.clean_env(), corpus)
    remote = dump(url, harness.driver_env(server, shadow), corpus)
    mine = (remote[0], remote[1].replace(url, local_name))
    if mine == local[:2]:
        return None
    at = next((i for i, (a, b) in enumerate(zip(mine[1].splitlines(), local[1].splitlines())) if a != b), -1)
    detail = [f"exit status {remote[0]}, local {local[0]}; first differing line {at + 1}"]
    if at >= 0:
        detail += ["remote: " + mine[1].splitlines()[at][:200], "local:  " + local[1].splitlines()[at][:200]]
    return "\n".join(detail + [remote[2][-1500:]])


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("server", choices=["nginx", "xrootd"])
    ap.add_argument("--corpus", type=pathlib.Path, default=pathlib.Path("/opt/hdf5-corpus"))
    ap.add_argument("--only", default="*")
    args = ap.parse_args()
    tap = harness.Tap()
    files = sorted(p.relative_to(args.corpus).as_posix() for p in args.corpus.rglob("*.h5"))
    tap.ok(len(files) > 300, f"the corpus is there ({len(files)} files)", f"looked in {args.corpus}")
    left_out = exclusions()
    chosen = [f for f in files if fnmatch.fnmatch(f, args.only)]
    with harness.Server(args.server, args.corpus) as server, harness.shadow_dir() as shadow, \
            concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = pool.map(lambda f: compare(args.corpus, f, server, shadow), chosen)
        for name, why in zip(chosen, results):
            excuse = left_out.get(pathlib.PurePosixPath(name).name)
            if excuse:
                tap.ok(why is not None, f"{name} differs as said: {excuse}",
                       "it is the same now: take it off exclusions.txt")
            else:
                tap.ok(why is None, f"{name} reads the same from {args.server}", why)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
