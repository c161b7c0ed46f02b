#!/usr/bin/env python3
"""A reply that straggles is asked for again, over real sockets; and a program may end while both stand still. TAP.

Usage: stragglers.py ORIGIN_READ

How soon, how often, and in which ways replies straggle is told by the simulator: tests/sim/stragglers.c. Here the
straggler's reply stands still in its midst until the client has gone, however long that takes: what would wait for it
would never end.
"""
import contextlib
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import origin_liar  # noqa: E402

STRAGGLER = 27    # which request straggles: by then the server is known, and others are under way
ENDS_S = 100      # a loaded machine
STUCK_S = 2       # a reply that is silent for so long is given up
SOON_S = 1        # a request may be on its way to a dead connection when another one is given up
PATIENT = {"retries": 0, "stall_timeout_ms": 60000}


class Server(origin_liar.Server):
    """Answers honestly, but for one reply of each way, and with "both" for the one that is asked for in its place; with
    "dead" for all over connections that there are by then."""

    def __init__(self):
        super().__init__()
        self.straggler = {}    # way: the last byte that the straggler was asked for
        self.asked = {}        # way: how often something that ends there was asked for
        self.met = {}          # way: the connections of its requests, until the straggler
        self.given_up = 0      # when the client closed a dead one that was silent for so long that others are doubted
        self.doubtful = 0      # requests over dead ones, a while after that

    def lie(self, s, way, n, asked, data, ranges, multi, path):
        with self.lock:
            if n == STRAGGLER:
                self.straggler[way] = ranges[-1][1]
            mine = ranges[-1][1] == self.straggler.get(way)
            if mine:
                self.asked[way] = self.asked.get(way, 0) + 1
            met = self.met.setdefault(way, [])
            if n <= STRAGGLER:
                met.append(s)
            dead = way == "dead" and n > STRAGGLER and s in met
            self.doubtful += dead and self.given_up and time.monotonic() - self.given_up > SOON_S
            stands = n == STRAGGLER or dead or (way.startswith("both") and mine and self.asked[way] == 2)
        if not stands:
            return super().lie(s, "honest", n, asked, data, ranges, multi, path)
        pieces = Pieces()
        super().lie(pieces, "honest", n, asked, data, ranges, multi, path)
        s.sendall(pieces.bytes[:len(pieces.bytes) // 2])
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            while s.recv(65536):    # until the client has gone
                pass
        with self.lock:
            if dead and not self.given_up and time.monotonic() - begun >= STUCK_S:
                self.given_up = time.monotonic()
        return False


class Pieces:
    """Takes what would be sent."""

    bytes = b""

    def sendall(self, data):
        self.bytes += data


def run(program, server, way, local, *words, **options):
    """Reads all of the file in many transfers at once, twice."""
    env = dict(harness.clean_env(), no_proxy="*", **{f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
    url = f"http://127.0.0.1:{server.port}/{way}/x"
    status, out, err = harness.run([program, "--parts", url, local, *words], env, timeout=ENDS_S)
    assert status == 0, f"status {status}: {out}{err}"
    return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", out)}


def main():
    program, server, tap = sys.argv[1], Server(), harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-stragglers-") as directory:
        local = os.path.join(directory, "data")
        pathlib.Path(local).write_bytes(origin_liar.DATA)
        for way, words in (("one", ("1", "100000")), ("one-of-parts", ("40", "1250"))):
            with tap.claim(f"{way}: what straggles is asked for again, and the bytes are right"):
                facts = run(program, server, way, local, *words, **PATIENT)
                assert facts["hedged"] >= 1, facts
        with tap.claim("dead: all connections die without a word, and what idled is not used: the bytes are right"):
            facts = run(program, server, "dead", local, "1", "100000", **PATIENT)
            assert facts["hedged"] + facts["retries"] >= 1, facts
            assert not server.doubtful, (server.doubtful, facts)
        for how in ("close", "cancel", "exit"):
            with tap.claim(f"{how} while both stand still: each transfer ends once, and nothing waits for the server"):
                run(program, server, f"both-{how}", local, "1", "100000", how, **PATIENT)
    sys.exit(tap.done())


if __name__ == "__main__":
    main()
