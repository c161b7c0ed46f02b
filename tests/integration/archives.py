#!/usr/bin/env python3
"""Archives that cannot be had here, imitated: what docs/archives.md says of them (tests/support/lies/archives.py). TAP.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import faults  # noqa: E402
import harness  # noqa: E402
import servers  # noqa: E402

PYTHON = harness.H5PY["3.16.0"]
SAMPLE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    for i in range(40):
        f[f"g{i % 4}/d{i}"] = np.arange(i, i + 1000)
    f["large"] = np.arange(12_000_000)
"""
# Small pieces here and there, and a stream.
READ = """
import sys, h5py
with h5py.File(sys.argv[1], "r") as f:
    small = sum(int(f[f"g{i % 4}/d{i}"][::100].sum()) for i in range(40))
    print(small, sum(int(f["large"][i:i + 500_000].sum()) for i in range(0, 12_000_000, 500_000)))
"""


class Test:
    def __init__(self, liar, file):
        self.liar, self.n = liar, 0
        self.right = harness.run([PYTHON, "-c", READ, file], harness.clean_env())[1]
        assert self.right

    def read(self, address, env={}, **options):
        """(what it printed, errors, {path: requests}) of a reader that knows nothing yet"""
        self.liar.reset()
        with harness.shadow_dir() as shadow:
            env = harness.driver_env(None, shadow, ca_bundle=self.liar.cacert, **options) | env
            status, out, err = harness.run([PYTHON, "-c", READ, self.liar.base + address], env)
        return out, err, self.liar.requests()

    def told(self, address, error, *words, env={}, never=()):
        out, err, _ = self.read(address, env)
        assert error in err and all(w in err for w in words) and not any(w in err for w in never), err[-1500:]


def dcache(tap, t):
    for how, address, env in (("in the URL", "/dcache/u.h5?authz=A", {}),
                              ("as a token", "/dcache/t.h5", {"BEARER_TOKEN": "A"})):
        with tap.claim(f"dCache, a macaroon {how}: read, though a ticket is one connection's, and no pool knows it"):
            out, err, seen = t.read(address, env)
            assert out == t.right, out + err[-2000:]
            pools = [r for path, rs in seen.items() if path.startswith("/dcache-pool/") for r in rs]
            assert pools and not any(r["authorization"] for r in pools), "the pool saw the token"
            doors = [r for path, rs in seen.items() if path.startswith("/dcache/") for r in rs]
            refused = sum(r["status"] != 206 for r in pools) + sum(r["status"] == 401 for r in doors)
            bytes_ = sum(r["status"] == 206 for r in pools)
            assert len(doors) + refused <= 1.5 * bytes_ + 10, \
                f"{len(doors)} at the door, {len(pools)} at the pool, of which {bytes_} brought something"
    with tap.claim("dCache, no macaroon: a refusal that says so"):
        t.told("/dcache/n.h5", "PermissionError", "401")
    with tap.claim("dCache, a pool by http: no credential and no byte goes there, and the error names it"):
        t.told("/redirect-http/p.h5", "OSError", "http://")


def quota(tap, t):
    with tap.claim("Zenodo, so many requests a minute: what is over them waits as long as it is told, and all comes"):
        out, err, seen = t.read("/quota:20/q.h5", connections=4)
        assert out == t.right, out + err[-2000:]
        [asked] = seen.values()
        refused = sum(r["status"] == 429 for r in asked)
        assert refused <= 12, f"{refused} of {len(asked)} were refused"


def addresses(tap, t):
    with tap.claim("THREDDS, the address of the OPeNDAP service: the error says which one is the file's"):
        t.told("/dodsC/x.h5", "OSError", "/fileServer/")
    with tap.claim("Globus, no token: the login's page is no file, and the error says that one is wanted"):
        t.told("/globus/x.h5", "PermissionError", "web page", "Globus Web App")
    with tap.claim("Globus, with a token: read; the login is not asked"):
        out, err, seen = t.read("/globus/y.h5", {"BEARER_TOKEN": "A"})
        assert out == t.right and not any("login" in path for path in seen), out + err[-2000:]
    with tap.claim("Dataverse, a key in the URL, 303 to a store: read; the store sees no key, and no trace shows it"):
        out, err, seen = t.read("/dataverse/x.h5?key=A", {"XHDF5_LOG": "all"})
        assert out == t.right, out + err[-2000:]
        assert "key=A" not in err and "=secret" not in err, "a key is shown"
        signed = [path for path in seen if path.startswith("/signed/")]
        assert signed and not any("key=A" in path for path in signed)


def table(tap):
    with tap.claim("each test that docs/archives.md names is there, and each of its cells"):
        there = {t["name"] for t in json.loads((harness.BUILD / "meson-info/intro-tests.json").read_text())}
        rows = re.findall(r"(?m)^\| .* \|$", (harness.TOP / "docs/archives.md").read_text())
        named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
        assert len(named) > 50, named
        for name in named:
            test, _, cell = name.partition(": ")
            assert test in there, f"no test {test}"
            assert not cell or cell in servers.CELLS[test.removeprefix("servers-")], f"{test} has no {cell}"


def main():
    tap = harness.Tap()
    table(tap)
    with tempfile.TemporaryDirectory(prefix="xh-archives-") as d:
        file = pathlib.Path(d, "x.h5")
        subprocess.run([str(PYTHON), "-c", SAMPLE, str(file)], check=True, env=harness.clean_env())
        with faults.Liar(file, pathlib.Path(d, "tls")) as liar:
            t = Test(liar, file)
            for part in (dcache, quota, addresses):
                part(tap, t)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
