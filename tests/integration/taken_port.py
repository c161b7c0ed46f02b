#!/usr/bin/env python3
"""A server whose port another program took, between its choice and its binding, comes up at another one. Prints TAP."""
import os
import pathlib
import socket
import sys
import tempfile
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness

# The words of those that do not serve a directory.
WORDS = dict.fromkeys(("nginx-cache", "squid-cache", "xcache"), ["--origin", "127.0.0.1:1"]) | {
    "squid-proxy": [], "balancer": ["--servers", "127.0.0.1:1"]}


def starts_elsewhere(kind, top):
    serve = harness.serve()
    (top / "data").mkdir()
    args = serve.arguments().parse_args(["start", kind, *WORDS.get(kind, ["--root", str(top / "data")]),
                                         "--run", str(top / "run")])
    with socket.socket() as other:
        other.bind((args.addr, 0))
        if kind == "squid-proxy":   # which shows no certificate: the other program must not be taken for it
            other.listen()
        taken = other.getsockname()[1]
        first = iter([taken])
        with unittest.mock.patch.object(serve, "free_port",
                                        lambda addr, free=serve.free_port: next(first, 0) or free(addr)):
            state = serve.start(args)
        serve.stop(args.run)
    assert next(first, None) is None, "the taken port was not tried"
    assert not state["url"].endswith(f":{taken}/"), state


def main():
    tap = harness.Tap()
    with tap.claim("a port that was looked for is none of those that the kernel gives to others meanwhile"):
        low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        got = [harness.free_port() for _ in range(20)]
        assert not any(low <= port <= high for port in got), got
    for kind in harness.serve().KINDS:
        with tempfile.TemporaryDirectory(prefix="xh-taken-") as top, tap.claim(kind):
            os.chmod(top, 0o755)
            try:
                starts_elsewhere(kind, pathlib.Path(top))
            except harness.serve().Impossible as why:
                tap.skip(kind, why)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
