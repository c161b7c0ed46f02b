#!/usr/bin/env python3
"""Counting a server's requests by its log (server/serve): what is new is counted once, and a log that was emptied anew.

usage: server_log.py nginx|xrootd
"""
import os
import pathlib
import ssl
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402


def main(kind):
    tap = harness.Tap()
    with tempfile.TemporaryDirectory() as root:
        pathlib.Path(root).chmod(0o755)
        (pathlib.Path(root) / "a").write_bytes(bytes(5000))
        with harness.Server(kind, root) as server:
            context = ssl.create_default_context(cafile=server.cacert)

            def ask(times):
                for _ in range(times):
                    urllib.request.urlopen(f"{server.url}/a", context=context).read()

            def counts(want):
                """A server logs a moment after the client has its last byte."""
                end = time.monotonic() + 10
                while server.requests()[0] < want and time.monotonic() < end:
                    time.sleep(0.02)
                return server.requests()

            with tap.claim("each request is counted once, with its bytes"):
                before = server.requests()[0]
                for asked in 3, 5:
                    ask(asked - (asked > 3) * 3)
                    requests, sent = counts(before + asked)
                    assert requests == before + asked, (requests, before, asked)
                    assert 5000 * asked <= sent <= 6000 * asked + 5000, sent
            with tap.claim("a log that was emptied is counted from its beginning, also once it is as long as it was"):
                os.truncate(server.facts["log"], 0)
                ask(1)
                assert counts(1)[0] == 1, server.requests()
                ask(11)
                assert counts(12)[0] == 12, server.requests()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
