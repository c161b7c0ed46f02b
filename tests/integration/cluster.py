#!/usr/bin/env python3
"""Several data servers behind one that redirects, and the one that serves is killed.

Usage: cluster.py xrootd|nginx

xrootd: a redirector and three data servers, each an xrootd with its cmsd. nginx: one that redirects,
and two that serve. Two servers have the file. It is read by h5py, in a process that is told when.
xrootd, writable: a redirector and two data servers, of which one has the file; two programs write in turns.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

sys.path.insert(0, str(harness.TOP / "server"))
import throwaway_ca  # noqa: E402

H5PY = harness.H5PY["3.14.0"]
PARTS, PART_BYTES = 48, 1 << 20
SAMPLE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(7)
with h5py.File(sys.argv[1], "w") as f:
    for i in range(int(sys.argv[2])):
        f[f"part{i}"] = rng.integers(0, 255, int(sys.argv[3]), np.uint8)
    f["large"] = rng.integers(0, 255, 64 << 20, np.uint8)
"""
# Opens, reads what each line of its input names, and prints a line for each.
READER = """
import hashlib, json, sys, h5py
try:
    file = h5py.File(sys.argv[1], "r")
    print(json.dumps({"open": True}), flush=True)
except Exception as e:
    print(json.dumps({"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}), flush=True)
    sys.exit()
for line in sys.stdin:
    try:
        said = {"digest": [hashlib.sha256(file[name][...].tobytes()).hexdigest() for name in line.split()]}
    except Exception as e:
        said = {"kinds": [k.__name__ for k in type(e).__mro__], "text": str(e)}
    print(json.dumps(said), flush=True)
"""

# Writes at the URL and in the mode that each line of its input names, and prints a line for each.
WRITER = """
import json, sys, h5py
for line in sys.stdin:
    url, mode, value = line.split()
    try:
        with h5py.File(url, mode) as f:
            f.require_dataset("a", (100,), "i8")[int(value)] = int(value)
        print(json.dumps({}), flush=True)
    except Exception as e:
        print(json.dumps({"text": str(e)}), flush=True)
"""


class Reader:
    def __init__(self, url, env):
        self.process = subprocess.Popen([str(H5PY), "-c", READER, url], env=env, stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.opened = json.loads(self.process.stdout.readline())

    def begin(self, *names):
        self.process.stdin.write(" ".join(names) + "\n")
        self.process.stdin.flush()

    def end(self):
        return json.loads(self.process.stdout.readline())

    def close(self):
        out, err = self.process.communicate(timeout=100)
        return out + err


class Farm:
    """The servers, what has happened at each, and their deaths."""

    def __init__(self, kind, directory, stack):
        self.kind, self.started = kind, []
        stack.callback(self.end)
        self.roots = [directory / name for name in ("first", "second", "third")]
        for root in self.roots:
            root.mkdir()
        self.file = self.roots[0] / "f.h5"
        status, out, err = harness.run([H5PY, "-c", SAMPLE, self.file, PARTS, PART_BYTES], harness.clean_env())
        assert status == 0, err
        os.link(self.file, self.roots[1] / "f.h5")
        for root in self.roots[:2]:    # copies that were made without their date, of one size
            shutil.copyfile(self.file, root / "undated.h5")
            os.utime(root / "undated.h5", (1e9 + len(root.name), ) * 2)
        if kind == "xrootd":
            self.front = stack.enter_context(harness.Server("cluster", self.roots))
            self.pids = [int(pid) for pid in re.findall(r",(\d+)", self.front.facts["servers"])]
            self.ports = [int(port) for port in re.findall(r":(\d+)/,", self.front.facts["servers"])]
            self.cmsds = [int(pathlib.Path(self.front.run, f"server{n}", "cmsd.pid").read_text()) for n in (1, 2, 3)]
            self.logs = [pathlib.Path(self.front.run, f"server{n}", "xrootd.log") for n in (1, 2, 3)]
            self.front_log = pathlib.Path(self.front.run, "manager", "xrootd.log")
        else:
            ca = directory / "ca"
            ca.mkdir()
            throwaway_ca.make_ca(ca)
            servers = [stack.enter_context(harness.Server("nginx", root, words=["--ca", str(ca)]))
                       for root in self.roots[:2]]
            self.pids = [int(s.facts["pid"]) for s in servers]
            self.logs = [pathlib.Path(s.facts["log"]) for s in servers]
            self.ports = [int(s.url.rpartition(":")[2]) for s in servers]
            names = ",".join(s.url.removeprefix("https://") for s in servers)
            self.front = stack.enter_context(harness.Server("balancer", None,
                                                            words=["--servers", names, "--ca", str(ca)]))
            self.front_log = pathlib.Path(self.front.facts["log"])
        self.url = f"{self.front.url}/f.h5"

    @staticmethod
    def gets(log):
        """Answers with data, and redirects, in a server's log."""
        text = log.read_text(errors="replace")
        return (len(re.findall(r"Sending resp: 20[06] |status=20[06] .*\"GET ", text)),
                len(re.findall(r"Sending resp: 30[27] |status=302 ", text)))

    def served(self):
        return [self.gets(log)[0] for log in self.logs]

    def kill(self, number, with_cmsd=False):
        """With all that belongs to it (nginx: its workers); an xrootd's cmsd lives on unless its machine goes off."""
        pid = self.pids[number]
        pids = [pid, self.cmsds[number]] if with_cmsd else [pid]
        how = {p: (pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")[:-1], os.stat(f"/proc/{p}"),
                   os.readlink(f"/proc/{p}/cwd")) for p in pids}
        for p in pids:
            os.killpg(os.getpgid(p), signal.SIGKILL)
        self.dead = [(number, *how[p]) for p in pids]

    def restart(self):
        """What was killed last, as it was started; returns when the server answers."""
        for number, words, owner, cwd in self.dead:
            who = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
            if self.kind == "nginx":    # it tells itself in its title, and opens its certificate's key as root or as us
                words = [b"nginx", b"-e", b"error.log", b"-p", cwd.encode() + b"/", b"-c", b"nginx.conf"]
            else:    # -n has made it go one down from where it was started
                cwd = self.front.run
            process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True, **who)
            self.started.append(process)
            if words[0].endswith(b"cmsd"):
                self.cmsds[number] = process.pid
            else:
                self.pids[number] = process.pid
        harness.wait_port(self.ports[number])

    def end(self):
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def busy(before, after):
    """The server that the requests went to."""
    grown = [b - a for a, b in zip(before, after)]
    assert max(grown) > 0, f"no data server was asked: {before} {after}"
    return grown.index(max(grown))


def digests(file, names):
    out = harness.run([H5PY, "-c", "import sys, h5py, hashlib\nwith h5py.File(sys.argv[1]) as f:\n"
                       " [print(hashlib.sha256(f[n][...].tobytes()).hexdigest()) for n in sys.argv[2:]]", file, *names],
                      harness.clean_env())[1]
    return dict(zip(names, out.split()))


def write_in_turns(tap, directory, stack):
    """A redirector and two data servers, all writable: what changes a file is refused at the redirector, as it sends the requests of one
    commit to several data servers; at a data server's own URL it is as at any XRootD."""
    roots = [directory / name for name in ("w1", "w2")]
    for root in roots:
        root.mkdir()
        root.chmod(0o777)
    shutil.copyfile(directory / "first" / "f.h5", roots[0] / "f.h5")
    (roots[0] / "f.h5").chmod(0o666)
    front = stack.enter_context(harness.Server("cluster", roots, words=["--writable"]))
    data = re.findall(r"https://[^,]+(?=/,)", front.facts["servers"])[0]
    env = harness.driver_env(front, stack.enter_context(harness.shadow_dir()), writable="on",
                             overlay_dir=directory / "overlay2")
    writers = [stack.enter_context(subprocess.Popen([str(H5PY), "-c", WRITER], env=env, stdin=subprocess.PIPE,
                                                    stdout=subprocess.PIPE,
                                                    stderr=subprocess.DEVNULL, text=True)) for _ in range(2)]

    def write(number, url, mode):
        writer = writers[number % 2]
        writer.stdin.write(f"{url} {mode} {number}\n")
        writer.stdin.flush()
        return json.loads(writer.stdout.readline())

    def there():
        return [[(str(p.relative_to(root)), p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(root.rglob("*"))]
                for root in roots]

    def curl(*words):
        out = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", "--cacert",
                              front.cacert, *words],
                             capture_output=True, text=True, check=True).stdout
        return re.sub(r"^(30\d https://[^/]+).*", r"\1", out).split()
    before = there()
    # Without a body: the redirector closes the connection on one that it does not take.
    put = ["-X", "PUT", "-d", ""]
    with tap.claim("writing: the redirector sends what belongs to one commit to several data servers"):
        sent = [curl(*words) for n in range(10) for words in (["-X", "MKCOL", f"{front.url}/f.h5.d{n}/"],
                                                              [*put, f"{front.url}/f.h5.d{n}/data"])]
        assert {words[0] for words in sent} == {"307"} and len({words[1] for words in sent}) == 2, sent
    with tap.claim("writing: ten tries of two programs in turns at the redirector are refused when the file is opened; nothing is changed"):
        for number in range(10):
            url, mode = (("f.h5", "r+"), ("f.h5", "w"), ("new.h5", "w"), ("new.h5", "x"), ("f.h5", "a"))[number // 2]
            said = write(number, f"{front.url}/{url}", mode).get("text", "")
            assert "Files are written at one server alone" in said and "Unable" in said, (url, mode, said)
        assert there() == before, (there(), before)
        assert not list((directory / "overlay2").glob("*")), "something is left to be sent"
    with tap.claim("writing: ten commits of them in turns at the data server's own URL are all there, also by the redirector's"):
        for number in range(10):
            assert write(number, f"{data}/f.h5", "r+") == {}
        out = harness.run([H5PY, "-c", "import sys, h5py; print(h5py.File(sys.argv[1])['a'][:11].tolist())",
                           f"{front.url}/f.h5"], env)[1]
        assert out == f"{[*range(10), 0]}\n", out
        assert there()[1] == before[1] and len(there()[0]) == 1, there()
    for writer in writers:
        writer.stdin.close()


def main():
    kind = sys.argv[1]
    tap = harness.Tap()
    names = [f"part{i}" for i in range(PARTS)]
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-cluster-")))
        directory.chmod(0o755)
        farm = Farm(kind, directory, stack)
        want = digests(farm.file, [*names, "large"])

        def env(**options):
            return harness.driver_env(farm.front, stack.enter_context(harness.shadow_dir()), **options)

        with tap.claim("a file that no server has: FileNotFoundError, at once and the second time"):
            for _ in range(2):
                said = Reader(f"{farm.front.url}/none.h5", env()).opened
                assert "FileNotFoundError" in said.get("kinds", ()), said

        with tap.claim("the file is read right by the redirector's URL, and its answer is remembered"):
            before = farm.served()
            reader = Reader(farm.url, env(connections=4))
            assert reader.opened == {"open": True}, reader.opened
            reader.begin(*names)
            assert reader.end() == {"digest": [want[n] for n in names]}
            reader.close()
            got, (_, redirects) = sum(farm.served()) - sum(before), farm.gets(farm.front_log)
            assert got > 8 and redirects <= 8, f"{got} requests to data servers, {redirects} redirects"

        with tap.claim("a file behind one that redirects is not opened to be written: the error says what to do"):
            code = "import sys, h5py; h5py.File(sys.argv[1], 'r+')"
            status, _, err = harness.run([H5PY, "-c", code, farm.url],
                                         env(writable="on", overlay_dir=directory / "overlay"))
            assert status == 1 and "Files are written at one server alone" in err, err

        if kind == "xrootd":
            write_in_turns(tap, directory, stack)

        def survive(claim, first, then, when, within_s=100, **how):
            """Reads |first|, kills who served that, and reads |then|; |when| it has been begun, or before."""
            with tap.claim(claim):
                before = farm.served()
                reader = Reader(farm.url, env(connections=4, readahead="off"))
                assert reader.opened == {"open": True}, reader.opened
                reader.begin(*first)
                assert reader.end() == {"digest": [want[n] for n in first]}
                number, at = busy(before, farm.served()), time.monotonic()
                if when == "during":
                    begun = farm.served()[number]
                    reader.begin(*then)
                    harness.wait_for(lambda: farm.served()[number] > begun, "the read has begun")
                    farm.kill(number, **how)
                else:
                    farm.kill(number, **how)
                    reader.begin(*then)
                others = sum(farm.served()) - farm.served()[number]
                said = reader.end()
                assert said == {"digest": [want[n] for n in then]}, said
                took = time.monotonic() - at
                reader.close()
                assert sum(farm.served()) - farm.served()[number] > others, "no other server was asked"
                assert took < within_s, f"it took {took:.1f} s"
                print(f"# after {took:.1f} s")
            farm.restart()

        survive("the server that serves is killed between two reads: the next goes on at another, right",
                names[:8], names[8:], "before")
        survive("it is killed in the middle of a large read: that goes on at another, right", names[:2], ["large"],
                "during")
        if kind == "xrootd":
            with tap.claim("the other copy has another date: an error that says so, and no mixture"):
                before = farm.served()
                reader = Reader(f"{farm.front.url}/undated.h5", env(connections=4, readahead="off"))
                assert reader.opened == {"open": True}, reader.opened
                reader.begin(*names[:2])
                assert reader.end() == {"digest": [want[n] for n in names[:2]]}
                farm.kill(busy(before, farm.served()))
                for name in names[2:]:
                    reader.begin(name)
                    said = reader.end()
                    if "digest" not in said:
                        break
                assert re.search("changed", said.get("text", "")), said
                reader.close()
            farm.restart()
            survive("its whole machine goes off, with its cmsd: the read goes on at another, right", names[:8],
                    names[8:], "before", with_cmsd=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
