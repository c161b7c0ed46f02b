#!/usr/bin/env python3
"""Runs origin_read against a real server: every size of file, every way of asking. TAP.

Usage: origin_servers.py nginx|xrootd ORIGIN_READ
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

SIZES = {"empty": 0, "one": 1, "small": 30_000, "head": 65_536, "head1": 65_537, "mid": 3_000_000, "large": 80_000_000}
WAYS = {
    "by default": {},
    "over one connection and one thread": {"connections": 1, "engine_threads": 1},
    "with four threads": {"engine_threads": 4},
    "without multi-range": {"multirange": 0, "connections": 8},
    "with a tiny head": {"head_bytes": 4096},
    "revalidating all the time": {"revalidate_ms": 1},
}


def main():
    kind, program = sys.argv[1:]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-origin-") as data:
        pathlib.Path(data).chmod(0o755)
        dice = random.Random(1)
        for name, size in SIZES.items():
            pathlib.Path(data, name).write_bytes(dice.randbytes(size))
        with harness.Server(kind, data) as server:
            env = dict(harness.clean_env(), XHDF5_CA_BUNDLE=server.cacert, TSAN_OPTIONS="die_after_fork=0")

            def read(name, seed, rounds, **options):
                e = dict(env, **{f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
                return harness.run([program, f"{server.url}/{name}", f"{data}/{name}", seed, rounds], e, timeout=120)

            for name in SIZES:
                status, out, err = read(name, 1, 8)
                tap.ok(status == 0 and out.startswith("ok:"), f"{kind}: a file of {SIZES[name]} bytes is read right",
                       out + err)
            for way, options in WAYS.items():
                status, out, err = read("mid", 2, 5, **options)
                tap.ok(status == 0 and out.startswith("ok:"), f"{kind}: ranges are read right {way}", out + err)
            status, out, err = harness.run([program, "--open", f"{server.url}/no-such-file"], env)
            tap.ok(out.startswith("XH_E_NOENT 404"), f"{kind}: a missing file is XH_E_NOENT", out + err)
            logs = dict(env, XHDF5_LOG="origin")
            status, out, err = harness.run([program, "--open", f"{server.url}/mid/group"], logs)
            tap.ok(out.startswith("XH_E_NOENT") and "to=delayed" not in err,
                   f"{kind}: a path that goes through a file is XH_E_NOENT, at once", out + err)
            status, out, err = harness.run([program, "--open", f"{server.url}/mid"],
                                           dict(env, XHDF5_CA_BUNDLE="/no/such.pem"))
            tap.ok(out.startswith("XH_E_TLS") and "/no/such.pem" in out and "XHDF5_CA_BUNDLE" in out,
                   f"{kind}: a missing CA file is named with its variable", out + err)
            watch = subprocess.Popen([program, "--until-changed", f"{server.url}/mid"], text=True,
                                     env=dict(env, XHDF5_REVALIDATE_MS="20"), stdout=subprocess.PIPE)
            begun = watch.stdout.readline()
            os.utime(f"{data}/mid", (1_700_000_000, 1_700_000_000))
            try:
                said, _ = watch.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                watch.kill()
                said = "it never noticed"
            tap.ok(begun == "reading\n" and said.startswith("XH_E_CHANGED:"),
                   f"{kind}: a file that changes while it is read is XH_E_CHANGED", said)
    sys.exit(tap.done())


if __name__ == "__main__":
    main()
