#!/usr/bin/env python3
"""The doctor's throughput over an emulated link, within 15 % of as many parallel curls. TAP. Needs root (docs/wanlink.md)."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOOL = harness.BUILD / "vfd" / "tool" / "xhdf5"
WAN = str(harness.TOP / "perf" / "wan")
RTT_MS, RATE_MBIT, SIZE = 20, 100, 60_000_000    # slow: the processors, whoever else wants them, are not the bound
NEAR = 0.15


def wan(*words, **more):
    return subprocess.run([WAN, *map(str, words)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, **more).stdout


def curls(n, url, cacert):
    """Bytes a second of |n| connections of curl, each with its part of the file; one process, as others may want the
    processors that many would need to start."""
    step, began = SIZE // n, time.monotonic()
    words = ["curl", "--parallel", "--parallel-immediate"]
    for i in range(n):
        words += ["--next"] if i else []
        words += ["-sf", "--http1.1", "--cacert", cacert, "-o", os.devnull]
        words += ["-r", f"{i * step}-{(i + 1) * step - 1}", url]
    assert subprocess.run([WAN, "client", *words], timeout=120).returncode == 0
    return step * n / (time.monotonic() - began)


def compare(tap, url, cacert, shadow):
    env = dict(harness.driver_env(None, shadow), XHDF5_CA_BUNDLE=cacert)
    env.update({k: v for k, v in os.environ.items() if k.startswith("XHDF5_WAN")})
    out = subprocess.run([WAN, "client", str(TOOL), "doctor", "--json", url], env=env, stdout=subprocess.PIPE,
                         text=True, timeout=120).stdout
    step = next(s for s in json.loads(out)["steps"] if s["step"] == "throughput")
    for n in (1, 4, 16):
        with tap.claim(f"the throughput of {n} connections is that of {n} curls"):
            theirs, ours = curls(n, url, cacert), step[f"connections_{n}"]
            print(f"# {n}: doctor {ours / 1e6:.1f} MB/s, curl {theirs / 1e6:.1f}")
            assert abs(ours / theirs - 1) < NEAR


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
