#!/usr/bin/env python3
"""A reply that straggles is asked for again on another connection; a server slow for all is not. TAP.

Usage: stragglers.py ORIGIN_READ [WAY ...]

The path's first segment is the way in which replies straggle. origin_read demands a whole file in many
transfers at once, twice, and compares every byte.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402
import origin_liar  # noqa: E402

STALL_S = 6
STRAGGLER = 27    # which request straggles: by then the server is known, and others are under way
# Ranges a transfer, bytes a range: 30 transfers a round, of the long ones 20
ONE, MANY, LONG = ("1", "100000"), ("40", "1250"), ("1", "150000")

# way: (ranges, most milliseconds of a round or None, least and most requests hedged, options)
WAYS = {
    "honest": (ONE, 3000, 0, 0, {}),
    "stalls-in-body": (ONE, 3000, 1, 2, {"retries": 0}),
    "stalls-in-parts": (MANY, 3000, 1, 2, {"retries": 0}),
    "stalls-before-headers": (ONE, 3000, 1, 2, {"retries": 0}),
    "trickles": (LONG, 4000, 1, 2, {"retries": 0}),
    "goes-on-when-asked-again": (MANY, 3000, 1, 2, {"retries": 0}),
    "hedge-fails": (ONE, 5000, 1, 2, {"retries": 0}),
    "straggler-fails": (ONE, 5000, 1, 2, {"retries": 0}),
    "both-stall": (ONE, 5000, 1, 2, {"retries": 0}),
    "no-connection-left": (ONE, None, 0, 0, {"connections": 1}),
    "slow-for-all": (ONE, None, 0, 0, {}),
    "slow-rate-for-all": (ONE, None, 0, 0, {}),
}


class Server(origin_liar.Server):
    """Answers honestly but for how long it takes."""

    def __init__(self):
        super().__init__()
        self.straggler = {}    # way: (first byte, last byte) of the straggler's first range
        self.asked = {}        # way: how often something that ends there was asked for

    def lie(self, s, way, n, asked, data, ranges, multi, path):
        pieces = Pieces(s)
        with self.lock:
            if n == STRAGGLER:
                self.straggler[way] = ranges[-1][1]
            mine = ranges[-1][1] == self.straggler.get(way)
            if mine:
                self.asked[way] = self.asked.get(way, 0) + 1
            again = mine and self.asked[way] == 2
        straggles = n == STRAGGLER or (way.startswith("both-stall") and again)
        if again and way == "hedge-fails":
            return self.send(s, "503 Busy", {}, b"busy")
        if straggles and way == "stalls-before-headers":
            time.sleep(STALL_S)
        if way == "slow-for-all" and n > 1:
            time.sleep(0.25)
        if way == "straggler-fails" and again:
            time.sleep(2.5)
        keep = super().lie(pieces, "honest", n, asked, data, ranges, multi, path)
        reply = pieces.bytes
        half = len(reply) // 2
        if straggles and way.startswith(("stalls-in", "both-stall", "hedge-fails", "no-connection", "straggler-fails",
                                         "goes-on")):
            s.sendall(reply[:half])
            if way == "goes-on-when-asked-again":    # both bring the same bytes side by side
                self.until(lambda: self.asked.get(way, 0) > 1)
                for at in range(half, len(reply), 500):
                    s.sendall(reply[at:at + 500])
                    time.sleep(0.002)
                return keep
            if way == "straggler-fails":    # after it was asked for again, before that brings anything
                self.until(lambda: self.asked.get(way, 0) > 1)
                return False
            time.sleep(2 if way.startswith(("hedge-fails", "both-stall", "no-connection")) else STALL_S)
            s.sendall(reply[half:])
        elif straggles and way == "trickles":
            for at in range(0, len(reply), 500):
                s.sendall(reply[at:at + 500])
                time.sleep(0.05)
        elif again and way == "goes-on-when-asked-again":
            for at in range(0, len(reply), 500):
                s.sendall(reply[at:at + 500])
                time.sleep(0.002)
        elif way == "slow-rate-for-all":
            for at in range(0, len(reply), 5000):
                s.sendall(reply[at:at + 5000])
                time.sleep(0.03)
        else:
            s.sendall(reply)
        return keep

    @staticmethod
    def until(holds):
        end = time.monotonic() + STALL_S
        while not holds() and time.monotonic() < end:
            time.sleep(0.01)


class Pieces:
    """Takes what would be sent."""

    def __init__(self, s):
        self.bytes = b""

    def sendall(self, data):
        self.bytes += data


def run(program, server, way, local):
    (ranges, length), most_ms, least, most, options = WAYS[way]
    env = dict(harness.clean_env(), no_proxy="*", **{f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
    p = subprocess.run([program, "--parts", f"http://127.0.0.1:{server.port}/{way}/x", local, ranges, length],
                       env=env, timeout=60, capture_output=True, text=True)
    said = (p.stdout + p.stderr).strip()
    assert p.returncode == 0, f"status {p.returncode}: {said}"
    facts = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", said)}
    harness.timely(most_ms is None or facts["slowest_ms"] < most_ms, said)
    harness.timely(least <= facts["hedged"] <= most, said)
    assert facts["requests"] <= 3 + facts["transfers"] + facts["hedged"], said    # the opening takes up to three
    harness.timely(way not in ("hedge-fails", "both-stall") or server.asked[way] == 3, server.asked)    # once again a round
    return said


def ends(program, server, how, local):
    """A straggler and its hedge both stand still while the file is closed, or the process exits."""
    way = f"both-stall-{how}"
    env = dict(harness.clean_env(), no_proxy="*")
    begun = time.monotonic()
    p = subprocess.run([program, "--parts", f"http://127.0.0.1:{server.port}/{way}/x", local, *ONE, how], env=env,
                       timeout=60, capture_output=True, text=True)
    assert p.returncode == 0, f"status {p.returncode}: {p.stdout + p.stderr}"
    harness.timely(time.monotonic() - begun < 1.8, "it waited for the server")


def main():
    program, ways = sys.argv[1], sys.argv[2:] or list(WAYS)
    server, tap = Server(), harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-stragglers-") as directory:
        local = os.path.join(directory, "data")
        pathlib.Path(local).write_bytes(origin_liar.DATA)
        for way in ways:
            with tap.claim(f"{way}: the bytes are right, in time, and no more is asked than must be"):
                print("#", way, harness.tried(lambda n: run(program, Server() if n else server, way, local)), flush=True)
        for how in ("close", "cancel", "exit") if len(sys.argv) < 3 else ():
            with tap.claim(f"{how} while both stand still: each transfer ends once, at once"):
                harness.tried(lambda n: ends(program, Server() if n else server, how, local))
    sys.exit(tap.done())


if __name__ == "__main__":
    main()
