#!/usr/bin/env python3
"""Many processes that open one URL at once: one asks the server for all who may be asked for.

Usage: openings.py

The server takes its time to answer the first requests (tests/support/liar.py, "late"), so that all are
there before it has; what it was asked stands in its log.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402

PROCESSES = 12
MANY = f"late:700@1-{2 * PROCESSES}"       # openings: the reading itself is not to wait


class Readers:
    """Processes that read one file through one shadow, each with an environment of its own."""

    def __init__(self, url, envs):
        self.began = time.monotonic()
        self.all = [subprocess.Popen([str(faults.READ_IMAGES), url, "images"], env=env, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for env in envs]

    def ends(self):
        """[(sum or None, standard error)], and the seconds that it took."""
        outs = [p.communicate(timeout=60) for p in self.all]
        return [(faults.Bench.sum_in(out), err) for out, err in outs], time.monotonic() - self.began


def openings(liar, path):
    """What was asked to open |path|: its first bytes, conditional or not. One byte only greets a server that seems far, as
    a busy machine may."""
    return [r for r in liar.requests()[path] if re.match("bytes=0-", r["range"] or "") and r["range"] != "bytes=0-0"]


def envs(bench, liar, *extras):
    shared = bench.env(liar.cacert)
    return [{**shared, **extra} for extra in extras]


def one_asks_for_all(bench, liar):
    path = f"/{MANY}/{bench.name()}"
    ends, _ = Readers(liar.base + path, envs(bench, liar, *[{}] * PROCESSES)).ends()
    assert all(got == bench.sum for got, _ in ends), ends
    asked = openings(liar, path)
    assert asked, "nobody asked"
    harness.timely(len(asked) <= 3, f"{len(asked)} of {PROCESSES} processes asked: some came late")


def who_reads_later_asks_himself(bench, liar):
    path = f"/ok/{bench.name()}"
    env = bench.env(liar.cacert)
    for _ in range(3):
        ends, _ = Readers(liar.base + path, [env]).ends()
        assert ends[0][0] == bench.sum, ends
    assert len(openings(liar, path)) == 3, openings(liar, path)


def another_token_asks_himself(bench, liar):
    path = f"/late:700@1-2/{bench.name()}"
    ends, _ = Readers(liar.base + path, envs(bench, liar, *[{"BEARER_TOKEN": t} for t in "AABB"])).ends()
    assert all(got == bench.sum for got, _ in ends), ends
    asked = openings(liar, path)
    assert 2 <= len(asked) <= 4 and all(r["authorization"] for r in asked), asked


def a_refusal_is_not_waited_for_one_by_one(bench, liar):
    url = f"{liar.base}/404/{bench.name()}"
    ends, seconds = Readers(url, envs(bench, liar, *[{}] * PROCESSES)).ends()
    assert all(got is None and "404" in err for got, err in ends), ends
    assert seconds < 10, seconds


def a_suspended_opener_is_not_waited_for(bench, liar):
    path = f"/late:1500@1-1/{bench.name()}"
    env = bench.env(liar.cacert)
    first = Readers(liar.base + path, [env])
    end = time.monotonic() + 20
    while path not in liar.requests() and time.monotonic() < end:
        time.sleep(0.01)
    first.all[0].send_signal(signal.SIGSTOP)
    try:
        ends, seconds = Readers(liar.base + path, [env] * 3).ends()
        assert all(got == bench.sum for got, _ in ends), ends
        assert seconds < 20, seconds
    finally:
        first.all[0].send_signal(signal.SIGCONT)
    assert first.ends()[0][0][0] == bench.sum


def main():
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-openings-") as d, harness.shadow_dir() as shadows:
        directory = pathlib.Path(d)
        sample = directory / "sample.h5"
        status, out, err = harness.run([faults.H5PY, "-c", faults.SAMPLE, sample], harness.clean_env())
        assert status == 0, out + err
        bench = faults.Bench(directory, shadows, sample)
        with faults.Liar(sample) as plain, faults.Liar(sample, directory / "tls") as tls:
            for claim, test, liar in (
                    ("of many that open at once, one asks for all", one_asks_for_all, plain),
                    ("the same over TLS", one_asks_for_all, tls),
                    ("who opens later asks himself", who_reads_later_asks_himself, plain),
                    ("who has another token asks himself", another_token_asks_himself, tls),
                    ("a refusal is not waited for one by one", a_refusal_is_not_waited_for_one_by_one, plain),
                    ("a suspended opener is not waited for", a_suspended_opener_is_not_waited_for, plain)):
                with tap.claim(claim):
                    harness.tried(lambda _: test(bench, liar))
    return tap.done()


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
