#!/usr/bin/env python3
"""A walk through many small objects: few round trips' worth of requests, few bytes, the right answer.

Usage: walk.py nginx|xrootd WALK_TREE

Counted in the server's own log and the driver's counters; rounds are counted as the reads that had to
wait, each of which is at most one link of the chain of round trips. How many requests several processes make together
depends on who gets the processor when: P2-all of the bench counts them.
"""
import concurrent.futures
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

DATASETS = 2000
TOGETHER = 8
HEAD_BYTES = 16384    # small: else all of a file as small as these would come at once


def make(path, what, *words):
    status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "tests/support/mkdata.py", what, path,
                                    "--datasets", str(DATASETS), *words], harness.clean_env(), timeout=300)
    if status:
        raise RuntimeError(out + err)
    return pathlib.Path(path).stat().st_size


def walk(program, target, env):
    """(what was seen, counters, reads that waited)"""
    status, out, err = harness.run([program, target], env, timeout=200)
    if status:
        raise RuntimeError(err[-3000:])
    return out.rsplit(" ms=", 1)[0], harness.counters(err), len(re.findall(r" read read ", err))


def together(program, url, server):
    """What processes see that walk the same file at once, and the bytes that came for each."""
    with harness.shadow_dir() as shadow, concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        env = harness.driver_env(server, shadow, log="stats", head_bytes=HEAD_BYTES, whole_file_bytes="1M")
        each = list(pool.map(lambda _: walk(program, url, env), range(TOGETHER)))
    return {seen for seen, *_ in each}, [counted["bytes_fetched"] for _, counted, _ in each]


def main():
    kind, program = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-walk-") as data:
        pathlib.Path(data).chmod(0o755)
        sizes = {}
        for libver in ("earliest", "latest"):
            for what in ("tree", "spread"):
                name = f"{what}-{libver}.h5"
                sizes[name] = make(f"{data}/{name}", what, "--libver", libver)
        with harness.Server(kind, data) as server:
            for name, size in sizes.items():
                want = walk(program, f"{data}/{name}", harness.clean_env())[0]
                url = f"{server.url}/{name}"
                with harness.shadow_dir() as shadow:
                    env = harness.driver_env(server, shadow, log="read,stats", head_bytes=HEAD_BYTES,
                                             whole_file_bytes="1M")
                    before = server.requests()
                    seen, counted, waits = walk(program, url, env)
                    requests, fetched = (b - a for a, b in zip(before, server.requests()))
                    alone = counted["bytes_fetched"]
                    why = f"{requests} requests, {fetched} bytes of {size}, {waits} waits, {counted}"
                    tap.ok(seen == want, f"{name}: a walk sees all objects and attributes", f"{seen}\n{want}")
                    tap.ok(requests <= DATASETS / 10 and waits <= DATASETS / 25,
                           f"{name}: tens of objects come with one request", why)
                    limit = size / 2 if name.startswith("spread") else 1.3 * size
                    tap.ok(fetched < limit, f"{name}: what lies between is mostly left where it is", why)
                    before = server.requests()
                    seen, counted, waits = walk(program, url, env)
                    requests, fetched = (b - a for a, b in zip(before, server.requests()))
                    tap.ok(seen == want and requests <= 2 and fetched < 10000,
                           f"{name}: the next process walks with at most two requests",
                           f"{requests} requests, {fetched} bytes")
                if name.startswith("tree" if kind == "nginx" else "spread"):
                    with tap.claim(f"{name}: {TOGETHER} that walk at once see all, and next to nothing comes twice"):
                        seen, fetched = together(program, url, server)
                        print("#", alone, fetched)
                        assert seen == {want}, (seen, want)
                        assert sum(fetched) <= 1.2 * alone + TOGETHER * HEAD_BYTES, (alone, fetched)
            with harness.shadow_dir() as shadow:
                env = harness.driver_env(server, shadow, readahead="off")
                want = walk(program, f"{data}/tree-earliest.h5", harness.clean_env())[0]
                tap.ok(walk(program, f"{server.url}/tree-earliest.h5", env)[0] == want,
                       "with prediction switched off a walk still sees all")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
