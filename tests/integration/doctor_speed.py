#!/usr/bin/env python3
"""The doctor's throughput over an emulated link: the link's, by any number of connections. TAP. Needs root
(docs/wanlink.md)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
WAN = str(harness.TOP / "perf" / "wan")
RTT_MS, RATE_MBIT, SIZE = 20, 100, 60_000_000    # slow: the processors, whoever else wants them, are not the bound
SEGMENT, HEADERS, RECORD, FRAME = 1448, 52, 16384, 22    # bytes: TCP's data, its and IP's headers; TLS likewise
LINK = RATE_MBIT * 1e6 / 8 * SEGMENT / (SEGMENT + HEADERS) * RECORD / (RECORD + FRAME)
NEAR = 0.15


def wan(*words, **more):
    return subprocess.run([WAN, *map(str, words)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, **more).stdout


def compare(tap, url, cacert, shadow):
    env = dict(harness.driver_env(None, shadow), XHDF5_CA_BUNDLE=cacert)
    env.update({k: v for k, v in os.environ.items() if k.startswith("XHDF5_WAN")})
    out = subprocess.run([WAN, "client", str(TOOL), "doctor", "--json", url], env=env, stdout=subprocess.PIPE,
                         text=True, timeout=120).stdout
    step = next(s for s in json.loads(out)["steps"] if s["step"] == "throughput")
    for n in (1, 4, 16):
        with tap.claim(f"the throughput of {n} connections is the link's"):
            ours = step[f"connections_{n}"]
            print(f"# {n}: doctor {ours / 1e6:.1f} MB/s, link {LINK / 1e6:.1f}")
            assert abs(ours / LINK - 1) < NEAR


def main():
    tap = harness.Tap()
    if harness.why_no_link():
        tap.skip("the doctor's throughput is curl's", harness.why_no_link())
        return tap.done()
    with tempfile.TemporaryDirectory(prefix="xh-speed-") as data, harness.shadow_dir() as shadow:
        os.chmod(data, 0o755)
        os.environ["XHDF5_WAN_DIR"] = f"{data}/wan"
        os.environ["XHDF5_WANLINK"] = str(harness.BUILD / "perf" / "wanlink")
        os.mkdir(f"{data}/files")
        with open(f"{data}/files/large.bin", "wb") as f:
            f.truncate(SIZE)
        wan("up", RTT_MS, RATE_MBIT)
        try:
            run = f"{data}/run"
            facts = dict(word.split("=", 1) for word in wan("server", harness.TOP / "server/serve", "start", "nginx",
                                                            "--root", f"{data}/files",
                                                            "--run", run, "--addr", "10.77.0.1").split() if "=" in word)
            compare(tap, facts["url"].rstrip("/") + "/large.bin", facts["cacert"], shadow)
            wan("server", harness.TOP / "server/serve", "stop", "--run", run)
        finally:
            wan("down")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
