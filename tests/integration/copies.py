#!/usr/bin/env python3
"""How often a byte is copied between the socket and the reader's buffer. The bounds hold however loaded the machine is
and however the bytes come: they follow from the sizes of the buffers.

Usage: copies.py READ_IMAGES COUNTED_COPIES nginx|xrootd
"""
import collections
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import mkdata  # noqa: E402

IMAGES = 12         # of 8 MiB: more than what goes to the shadow

# To the reader's buffer, straight or by the stage; and what is left of a record before it is whole.
DRIVER_MOST = 2.1
# One out of OpenSSL's buffer. Before each record it moves what it holds behind it to the beginning, which is one record
# at most where there is room for two.
TLS_MOST = 2.1


def copied(file):
    """{library: bytes} by what the preloaded counter wrote; and what was received."""
    by = collections.Counter()
    for line in file.read_text().splitlines():
        where, _, n = line.rsplit(" ", 2)
        by[pathlib.Path(where).name.partition(".")[0]] += int(n)
    return by


def sums(said):
    return re.findall(r"(?:bytes|sum)=\S+", said)


def main():
    program, counter, kind = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory() as work, harness.shadow_dir() as shadow:
        work = pathlib.Path(work)
        data = work / "data"
        data.mkdir()
        mkdata.images(data / "images.h5", IMAGES, 2048)
        _, want, _ = harness.run([program, data / "images.h5", "images"], harness.clean_env())
        with harness.Server(kind, data) as server:
            env = harness.driver_env(server, shadow) | {"LD_PRELOAD": counter, "COUNTED_COPIES": str(work / "copied")}
            _, said, errors = harness.run([program, f"{server.url}/images.h5", "images"], env)
        tap.ok(said and sums(said) == sums(want), "the bytes are right", f"{said}, {want}: {errors}")
        by, size = copied(work / "copied"), IMAGES * 2048 * 2048 * 2
        why = ", ".join(f"{name} {n / size:.2f}" for name, n in by.most_common(6))
        tap.ok(by["recv"] >= size, "all bytes were received where the counter sees it", why)
        tap.ok(by["libhdf5_vfd_xhdf5"] >= size // 2 and by["libssl"] >= size // 2, "the counter sees the copies", why)
        tap.ok(by["libhdf5_vfd_xhdf5"] <= DRIVER_MOST * size, "the driver copies a byte at most twice", why)
        tap.ok(by["libssl"] <= TLS_MOST * size, "TLS copies a byte at most twice", why)
        tap.ok(by["libcurl"] <= 0.1 * size, "libcurl copies no byte", why)
        print(f"# copies a byte: {why}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
