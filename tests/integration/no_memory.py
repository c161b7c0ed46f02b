#!/usr/bin/env python3
"""Each allocation that the plugin makes while it opens and reads a file fails in turn. TAP.

Usage: no_memory.py READ_IMAGES FAILING_MALLOC [STRIDE]

What a read may come to: the right bytes, or an error that says so; never a crash, a hang or a wrong byte. With STRIDE
only every STRIDE'th allocation, from another one each day.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

AT_ONCE = 4
BOUND_S = 60
MAKE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    x = np.random.default_rng(3).integers(0, 500, (40, 64, 256), np.uint16)
    f.create_dataset("chunked", data=x, chunks=(1, 32, 128), compression="gzip", compression_opts=1)
    f.create_dataset("plain", data=x)
"""


class Runs:
    def __init__(self, server, program, preload, shadows):
        self.server, self.shadows = server, shadows
        self.program, self.preload = pathlib.Path(program).resolve(), pathlib.Path(preload).resolve()

    def run(self, dataset, options, at, on, shadow):
        """(exit status, stdout, stderr, allocations)"""
        with tempfile.NamedTemporaryFile(prefix="xh-count-") as count:
            env = harness.driver_env(self.server, shadow)
            env.update({f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
            env.update(LD_PRELOAD=str(self.preload), FAILING_MALLOC_AT=str(at), FAILING_MALLOC_ON=str(int(on)),
                       FAILING_MALLOC_COUNT=count.name)
            try:
                rc, out, err = harness.run([self.program, f"{self.server.url}/a.h5", dataset], env, BOUND_S)
            except subprocess.TimeoutExpired:
                return None, "", "hung", 0
            return rc, out, err, int(pathlib.Path(count.name).read_text() or 0)

    def one(self, job):
        dataset, options, at, on = job
        with tempfile.TemporaryDirectory(dir=self.shadows) as shadow:
            os.chmod(shadow, 0o700)
            return job, self.run(dataset, options, at, on, shadow)


def total(out):
    found = re.search(r"sum=(\w+)", out)
    return found and found[1]


def wrong(result, right):
    """What is wrong with a run, or None."""
    rc, out, err, _ = result
    if rc == 0:
        return None if total(out) == right else f"wrong bytes: {out}"
    if rc != 1:
        return f"exit status {rc}: {err[-600:]}"
    return None if re.search(r"memory|allocate", err) else f"an error that does not say why: {err[-1500:]}"


def main(tap, program, preload, stride=1):
    first = 1 + int(time.time()) // 86400 % stride
    with tempfile.TemporaryDirectory(prefix="xh-nomem-") as root, harness.shadow_dir() as shadows:
        harness.run([harness.DATA_PYTHON, "-c", MAKE, f"{root}/a.h5"], harness.clean_env())
        os.chmod(root, 0o755)
        with harness.Server("nginx", root) as server:
            runs = Runs(server, program, preload, shadows)
            for dataset, options in (("chunked", {"head_bytes": 16384, "whole_file_bytes": 1048576}),
                                     ("plain", {"head_bytes": 16384, "whole_file_bytes": 1048576}),
                                     ("chunked", {"head_bytes": 16384, "whole_file_bytes": 1048576, "shadow": "off",
                                                  "readahead": "off"})):
                name = dataset + "".join(f", {k}={v}" for k,
                                         v in options.items() if k not in ("head_bytes", "whole_file_bytes"))
                _, (rc, out, err, count) = runs.one((dataset, options, 0, False))
                right = total(out)
                if not tap.ok(rc == 0 and right and count > 20, f"{name}: {count} allocations", err):
                    continue
                for on in (False, True):
                    jobs = [(dataset, options, at, on)
                            for at in range(first, count + 1, stride if not on else 2 * stride)]
                    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                        done = list(pool.map(runs.one, jobs))
                    bad = [(job[2], why) for job, result in done if (why := wrong(result, right))]
                    fine = sum(result[0] == 0 for _, result in done)
                    tap.ok(not bad, f"{name}: {'all from the n-th on' if on else 'the n-th alone'} refused, for {len(jobs)} n"
                           f": {fine} read all the same, {len(jobs) - fine - len(bad)} say why not, {len(bad)} wrong",
                           "\n".join(f"allocation {at}: {why}" for at, why in bad[:6]))


if __name__ == "__main__":
    t = harness.Tap()
    main(t, sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
    sys.exit(t.done())
