#!/usr/bin/env python3
"""Every layout, filter, link and type: the same digests over https as from the local file.

Usage: layouts.py [--all]     with --all: each h5py at each server; else each h5py at one server, and each server with one h5py

tests/support/mkdata.py writes a file a layout; tests/support/dump.py reads everything in it
with h5py and prints a digest an object. Local digests come from the sec2 driver.
"""
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

SUPPORT = harness.TOP / "tests" / "support"


DUMP_ALL = """
import sys, traceback
sys.path.insert(0, sys.argv[1])
import hashlib, math, h5py, dump

class Dump(dump.Dump):
    # Of 140,000 chunks those that are written, and some of the others: all would be a third of the time.
    def digest_of(self, dataset):
        if not dataset.chunks or dataset.size < 100_000 * math.prod(dataset.chunks):
            return super().digest_of(dataset)
        digest = hashlib.sha256()
        for part in slice(20000), slice(260000, 280000), slice(524000, None):
            dump.feed(digest, dataset[part], dataset)
        return digest

for target in sys.argv[2:]:
    print("### " + target, flush=True)
    try:
        with h5py.File(target, "r") as f:
            Dump(f, False).object(f["/"], "/")
    except Exception:
        print(traceback.format_exc())
"""


# What must stand in a file that is there for the levels of its indexes.
CHUNKS = {
    "btree1": rb"TREE\x01\x00", "btree1_deep": rb"TREE\x01\x02", "btree2": b"BTHD.*BTLF", "btree2_deep": b"BTIN",
    "fixed": b"FAHD.*FADB", "fixed_paged": rb"FAHD...\n.[\x04-\xff]",     # pages of 1 << 10 of more entries
    "extensible": b"EAHD.*EAIB", "extensible_blocks": b"EASB.*EADB|EADB.*EASB",
    "extensible_paged": b"EASB.*EADB|EADB.*EASB",
}
PARTS = {f"chunks_{name}{how}.h5": part for name, part in CHUNKS.items() for how in ("", "_gzip")} | {
    "thousands_old.h5": rb"TREE\x00\x02", "thousands_new.h5": rb"BTHD.{8}\x02\x00.*FHIB|FHIB.*BTHD.{8}\x02\x00"}
PAGED_FROM = 131_056    # data blocks of an extensible array that begin there or later have pages


def what_is_missing(data):
    """Of PARTS, in the files in |data|."""
    for name, part in PARTS.items():
        content = (data / name).read_bytes()
        if not re.search(part, content, re.DOTALL):
            yield f"{name}: no {part}"
        blocks = [int.from_bytes(b, "little") for b in re.findall(b"EADB.{10}(.{4})", content, re.DOTALL)]
        if "paged" in name and blocks and not min(blocks) < PAGED_FROM <= max(blocks):
            yield f"{name}: data blocks from {min(blocks)} to {max(blocks)}"


def digests(python, place, rels, env):
    """{name: lines} of all files at |place|, read by one process."""
    status, out, err = harness.run([python, "-c", DUMP_ALL, SUPPORT, *(f"{place}/{r}" for r in rels)], env, timeout=500)
    if status:
        raise RuntimeError(f"exit status {status}\n{out[-500:]}\n{err[-2500:]}")
    parts = [p.split("\n", 1) for p in out.split("### ")[1:]]
    return {name.removeprefix(f"{place}/"): text.replace(name, "FILE") for name, text in parts}


def compare(tap, kind, version, rels, want, got):
    for r in rels:
        a, b = want[r], got[r]
        differ = [f"- {x}\n+ {y}" for x, y in zip(a.splitlines(), b.splitlines()) if x != y]
        tap.ok(a == b and "Traceback" not in a, f"{r} reads the same over https from {kind}, h5py {version}",
               "\n".join(differ[:10]) or a[-2000:])


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-layouts-") as data:
        pathlib.Path(data).chmod(0o755)
        status, out, err = harness.run(
            [harness.DATA_PYTHON, SUPPORT / "mkdata.py", "layouts", data], harness.clean_env(), timeout=300)
        tap.ok(status == 0, "the files of all layouts are made", out + err)
        rels = sorted(f.relative_to(data).as_posix() for f in pathlib.Path(data).rglob("*.h5"))
        tap.ok(len(rels) >= 30, f"there are many of them ({len(rels)})")
        missing = list(what_is_missing(pathlib.Path(data)))
        tap.ok(not missing, "each kind of index is there, and each of its levels", "\n".join(missing))
        with harness.Server("nginx", data) as nginx, harness.Server("xrootd", data) as xrootd:
            for i, (version, python) in enumerate(harness.H5PY.items()):
                want = digests(python, data, rels, harness.clean_env())
                for j, server in enumerate((nginx, xrootd)):
                    if i == j or "--all" in sys.argv:
                        with harness.shadow_dir() as shadow:
                            got = digests(python, server.url, rels, harness.driver_env(server, shadow))
                        compare(tap, server.kind, version, rels, want, got)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
