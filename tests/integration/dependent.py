#!/usr/bin/env python3
"""Reads each of which depends on what the one before brought: values of variable length, one dataset of each of many
groups, the rows of a sparse matrix. What comes next is asked for before HDF5 does, and little else.

Usage: dependent.py nginx|xrootd

Counted in the server's own log, and in the driver's of what it foretold."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

GROUPS, SIGNALS, ROWS = 100, 25, 60

MAKE = f"""
import sys, h5py, numpy as np
rng = np.random.default_rng(1)
top = sys.argv[1]
with h5py.File(top + "/strings.h5", "w") as f:
    names = np.array(["the name of sample " + "." * (i % 40) + str(i) for i in range(40000)], dtype=object)
    f.create_dataset("names", data=names, dtype=h5py.string_dtype())
    f.create_dataset("chunked", data=names, dtype=h5py.string_dtype(), chunks=(5000,))
with h5py.File(top + "/entries.h5", "w") as f:
    for i in range({GROUPS}):
        for k in range({SIGNALS}):
            f[f"entry_{{i}}/data/signal_{{k}}"] = rng.random(1000)
for name, how in dict(plain=dict(), chunked=dict(maxshape=(None,)), gzip=dict(compression="gzip")).items():
    with h5py.File(top + "/matrix-" + name + ".h5", "w") as f:
        n = np.concatenate([[0], np.cumsum(rng.integers(100, 300, 5000))])
        f["indptr"] = n
        f.create_dataset("data", data=rng.random(n[-1], dtype="f4"), **how)
        f.create_dataset("indices", data=rng.integers(0, 2000, n[-1], dtype="i4" if how else "i8"), **how)
"""

READ = f"""
import hashlib, json, random, sys, h5py
what, target = sys.argv[1:]
random.seed(2)
said = hashlib.sha256()
with h5py.File(target) as f:
    if what == "slice":
        for name in ("names", "chunked"):
            for value in f[name][5000:25000]:
                said.update(value)
    elif what == "picked":
        for i in random.sample(range(40000), 30):
            said.update(f["names"][i])
    elif what == "signals":
        for i in range({GROUPS}):
            said.update(f[f"entry_{{i}}/data/signal_7"][()])
    else:
        n = f["indptr"][()]
        for i in random.sample(range(5000), {ROWS}):
            said.update(f["data"][n[i]:n[i + 1]])
            said.update(f["indices"][n[i]:n[i + 1]])
print(said.hexdigest())
"""


def read(what, target, env):
    status, out, err = harness.run([harness.H5PY["3.14.0"], "-c", READ, what, str(target)], env)
    if status:
        raise RuntimeError(err[-3000:])
    return out.strip(), err


def main():
    kind, = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-dependent-") as data:
        pathlib.Path(data).chmod(0o755)
        status, _, err = harness.run([harness.H5PY["3.14.0"], "-c", MAKE, data], harness.clean_env())
        if status:
            raise RuntimeError(err)
        # What is read, the file, the driver's word for it, how often it is said at least, most bytes by the file's.
        cases = [("slice", "strings.h5", "heap", 30, 0.9), ("picked", "strings.h5", "heap", 30, 0.9),
                 ("signals", "entries.h5", "walk", 1, 0.5)]
        cases += [("rows", f"matrix-{how}.h5", "twin", ROWS * 3 // 4, most)
                  for how, most in (("plain", 0.2), ("chunked", 0.9), ("gzip", 0.9))]
        with harness.Server(kind, data) as server:
            for what, name, word, least, most in cases:
                want, _ = read(what, f"{data}/{name}", harness.clean_env())
                with harness.shadow_dir() as shadow:
                    env = harness.driver_env(server, shadow, log="predict", whole_file_bytes="1M")
                    _, before = server.requests()
                    seen, log = read(what, f"{server.url}/{name}", env)
                    fetched = server.requests()[1] - before
                size, said = pathlib.Path(f"{data}/{name}").stat().st_size, log.count(f" predict {word} ")
                why = json.dumps(dict(fetched=fetched, size=size, said=said))
                tap.ok(seen == want, f"{what} of {name}: the values are right", why)
                tap.ok(said >= least, f"{what} of {name}: what comes next is asked for", why)
                tap.ok(fetched < most * size, f"{what} of {name}: the rest is left where it is", why)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
