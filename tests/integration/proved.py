#!/usr/bin/env python3
"""Who may not read a file at its server does not get it from the shadow, however much of it is there. TAP.

Usage: proved.py nginx|xrootd

The user's first process reads a file whole, so that the shadow has all of it. Then the server's owner takes the right
to read it away (chmod 0: curl gets 403), or gives it back. XRootD answers PROPFIND all the same.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
TOGETHER = 4
SAMPLE = """
import sys, h5py, numpy as np
for path in sys.argv[1:]:
    with h5py.File(path, "w") as f:
        for name in "abc":
            f[name] = np.random.default_rng(7).integers(0, 1 << 60, 100000)
"""
READ = """
import hashlib, json, sys, h5py
try:
    with h5py.File(sys.argv[1], "r") as f:
        said = {"digest": hashlib.sha256(b"".join(f[n][...].tobytes() for n in "abc")).hexdigest()}
except OSError as e:
    said = {"error": type(e).__name__, "text": str(e)}
print(json.dumps(said))
"""


class Place:
    def __init__(self, server, root, shadow):
        self.server, self.root, self.shadow, self.n = server, root, shadow, 0

    def file(self, *directories):
        """A new file of a name of its own, in each of the directories (with the same date). Returns its URL's path."""
        self.n += 1
        name = f"f{self.n}.h5"
        for d in directories or (".",):
            (self.root / d).mkdir(exist_ok=True)
            subprocess.run(["cp", "-p", self.root / "sample.h5", self.root / d / name], check=True)
        return name

    def allow(self, path, yes):
        (self.root / path).chmod(0o644 if yes else 0)
        asked = ["curl", "-s", "--noproxy", "*", "--cacert", self.server.cacert, "-r0-0", "-o", "/dev/null", "-w",
                 "%{http_code}",
                 f"{self.server.url}/{path}"]
        status = subprocess.run(asked, stdout=subprocess.PIPE, text=True, timeout=30).stdout
        assert status == ("206" if yes else "403"), f"curl got {status}"

    def start(self, path, **options):
        env = harness.driver_env(self.server, self.shadow, **options)
        return subprocess.Popen([str(H5PY), "-c", READ, f"{self.server.url}/{path}"], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True)

    def ends(self, *readers):
        return [json.loads(r.communicate(timeout=60)[0]) for r in readers]

    def read(self, path, **options):
        return self.ends(self.start(path, **options))[0]


def right(place, said):
    assert said.get("digest") == place.digest, said


def refused(said):
    assert said.get("error") == "PermissionError" and "403" in said["text"], said


def claims(tap, place):
    with tap.claim("a new process of a user who may no longer read the file gets PermissionError, though the shadow has all of it"):
        path = place.file()
        right(place, place.read(path))
        place.allow(path, False)
        refused(place.read(path))
    with tap.claim("so do processes that open it together"):
        said = place.ends(*[place.start(path) for _ in range(TOGETHER)])
        for one in said:
            refused(one)
    with tap.claim("and each that has one connection only"):
        refused(place.read(path, connections=1))
    with tap.claim("once they may again, the shadow serves them: opening costs a request, two where PROPFIND tells the version"):
        place.allow(path, True)
        before = place.server.requests()
        right(place, place.read(path))
        after = place.server.requests()
        asked, came = (b - a for a, b in zip(before, after))
        assert asked <= 2 and came < 20000, (asked, came)
    with tap.claim("a file at several endpoints: what its own server refuses no other one gives"):
        path, both = place.file("one", "two"), {"endpoints": f"{place.server.url}/one,{place.server.url}/two"}
        right(place, place.read(f"one/{path}", **both))
        place.allow(f"one/{path}", False)
        refused(place.read(f"one/{path}", **both))
    with tap.claim("a metadata image beside the file does not help who may not read the file"):
        path = place.file()
        publish = harness.run([harness.BUILD / "vfd/tool/xhdf5", "publish", place.root / path], harness.clean_env())
        assert publish[0] == 0, publish
        right(place, place.read(path, sidecar="require"))
        place.allow(path, False)
        refused(place.read(path, sidecar="auto"))


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    with tempfile.TemporaryDirectory(prefix="xh-proved-") as d, harness.shadow_dir() as shadow:
        root = pathlib.Path(d)
        root.chmod(0o755)
        status, out, err = harness.run([H5PY, "-c", SAMPLE, root / "sample.h5"], harness.clean_env())
        assert status == 0, out + err
        with harness.Server(kind, root) as server:
            place = Place(server, root, shadow)
            local = subprocess.run([str(H5PY), "-c", READ, str(root / "sample.h5")], env=harness.clean_env(),
                                   capture_output=True)
            place.digest = json.loads(local.stdout)["digest"]
            claims(tap, place)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
