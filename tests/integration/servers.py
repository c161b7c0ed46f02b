#!/usr/bin/env python3
"""The table of docs/archives.md at one stock server: what a reader does there, each with the right bytes. TAP.

Usage: servers.py apache [CELL …]       with cells: only these

Requests and bytes are those of the server's own log.
"""
import contextlib
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

PYTHON = harness.H5PY["3.16.0"]
IMAGES, SIDE, DATASETS = 24, 1024, 600
IMAGE_BYTES = SIDE * SIDE * 2

# Does one thing with the file and prints what it saw: the same of the local file is what is right.
READ = """
import hashlib, sys, h5py, numpy as np
what, path = sys.argv[1:]
def seen(*arrays):
    print(hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest())
with h5py.File(path, "r") as f:
    if what == "walk":
        found = []
        f.visititems(lambda name, o: found.append((name, sorted(o.attrs), None if not hasattr(o, "shape") else o[()].sum())))
        print(len(found), hashlib.sha256(repr(found).encode()).hexdigest())
    elif what == "open":
        seen(f["images"][3, 100, :3000])
    elif what == "stream":
        seen(*(f["images"][i] for i in range(len(f["images"]))))
    elif what == "random":      # one selection: small pieces, 2 MiB apart
        seen(f["images"][:, 500, 8:24])
"""


class At:
    """One server, with the files that it serves."""

    def __init__(self, kind, server, root):
        self.kind, self.server, self.root = kind, server, root

    def read(self, what, name, env={}, **options):
        """(exit status, what it printed, counters and errors, requests, bytes): by a reader that knows nothing yet"""
        with harness.shadow_dir() as shadow:
            before = self.server.requests()
            status, out, err = harness.run([PYTHON, "-c", READ, what, f"{self.server.url}/{name}"],
                                           harness.driver_env(self.server, shadow, log="stats", **options) | env)
            return status, out, err, *(b - a for a, b in zip(before, self.server.requests()))

    def right(self, what, name, most_requests, most_bytes, **options):
        want = harness.run([PYTHON, "-c", READ, what, self.root / name], harness.clean_env())[1]
        status, out, err, requests, sent = self.read(what, name, **options)
        assert status == 0 and want and out == want, f"{out}, not {want}{err[-3000:]}"
        assert requests <= most_requests and sent <= most_bytes, f"{requests} requests, {sent} bytes"


def opened(at):
    at.right("open", "images.h5", 4, 100_000)


def walked(at):
    size = (at.root / "tree.h5").stat().st_size
    at.right("walk", "tree.h5", DATASETS / 10, 1.5 * size, head_bytes=16384, whole_file_bytes=16384)


def streamed(at):
    at.right("stream", "images.h5", IMAGES, 1.1 * IMAGES * IMAGE_BYTES)


def scattered(at):
    at.right("random", "images.h5", 8, IMAGE_BYTES, head_bytes=16384)


def private(at):
    """By a token, by a name and a password; without either, or with wrong ones, it is a refusal."""
    host = re.match(r"https://([^:/]+)", at.server.url)[1]
    token = at.server.facts["token"]
    with tempfile.TemporaryDirectory() as d:
        def netrc(password):
            file = pathlib.Path(d, "netrc")
            file.write_text(f"machine {host} login reader password {password}\n")
            file.chmod(0o600)
            return {"XHDF5_NETRC": "on", "NETRC": str(file)}
        at.right("open", "private/images.h5", 5, 100_000, env={"BEARER_TOKEN": token})
        at.right("open", "private/images.h5", 5, 100_000, env=netrc(token))
        for env in ({}, {"BEARER_TOKEN": "wrong"}, netrc("wrong")):
            status, _, err, *_ = at.read("open", "private/images.h5", env)
            assert status and "PermissionError" in err, err[-2000:]
            assert token not in err


CELLS = {"open": opened, "walk": walked, "stream": streamed, "random": scattered, "private": private}


def main():
    kind, cells = sys.argv[1], sys.argv[2:] or CELLS
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-servers-")), "data")
        (root / "private").mkdir(parents=True)
        for path in (root.parent, root, root / "private"):
            path.chmod(0o755)
        for name, words in (("images", ("--n", IMAGES, "--side", SIDE)), ("tree", ("--datasets", DATASETS))):
            status, out, err = harness.run([PYTHON, harness.TOP / "tests/support/mkdata.py", name, root / f"{name}.h5",
                                            *words], harness.clean_env())
            assert status == 0, out + err
        (root / "private/images.h5").hardlink_to(root / "images.h5")
        try:
            server = stack.enter_context(harness.Server(kind, root))
        except harness.serve().Impossible as why:
            tap.skip(f"{kind}", why)
            return tap.done()
        at = At(kind, server, root)
        for cell in cells:
            with tap.claim(f"{kind}: {cell}"):
                CELLS[cell](at)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
