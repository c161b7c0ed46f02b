#!/usr/bin/env python3
"""The network's own failures, on an emulated link: a clear error within the stated time, or the read goes on. TAP.

Usage: network.py FAULT_READS [--long]
--long: a link that is dead for 30 s, with the options' defaults, and a server that asks for a long pause

Needs root for its network namespaces (docs/wanlink.md). Runs itself again at the link's client end, where the liar at
the server's end is 10.77.0.1 and another one stands on the loopback, for the file that is read afterwards.
"""
import concurrent.futures
import itertools
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import fault_table  # noqa: E402
import harness  # noqa: E402

WAN = str(harness.TOP / "perf" / "wan")
RTT_MS, RATE_MBIT = 20, 100
SERVER, CLIENT, ANOTHER = "10.77.0.1", "10.77.0.2", "10.77.0.3"
MOVING = "10.77.0.7"
NOBODY = "10.77.0.9"    # packets to it end in the server's namespace
HASTY = {"stall_timeout_ms": 1000, "connect_timeout_ms": 1000, "retries": 1}
END_S = 5    # of a process whose last read is over
NO_NAME, NO_CONNECTION, NO_ANSWER, NO_BYTE = (
    r"the server's name does not resolve", r"no connection to the server after 1 retries",
    r"no connection to the server within 1000 ms, after 1 retries", r"no byte for 1000 ms, after 1 retries")


def wan(*words):
    subprocess.run([WAN, *map(str, words)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


class Liar:
    """tests/support/liar.py on |sample|; |before|: what to run it under."""

    def __init__(self, sample, host, *words, before=()):
        self.process = subprocess.Popen([*before, sys.executable, str(harness.TOP / "tests/support/liar.py"),
                                         str(sample),
                                         "--host", host, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True)
        self.facts = dict(re.findall(r"(\w+)=(\S+)", self.process.stdout.readline()))
        self.base = f"{'https' if words else 'http'}://{host}:{self.facts['port']}"

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Lab:
    """What the claims read: a file at the far server, with TLS and without, and one on the loopback."""

    def __init__(self, program, directory, shadows):
        self.program, self.directory, self.shadows, self.numbers = program, directory, shadows, itertools.count()
        self.sample = directory / "sample.h5"
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", fault_table.SAMPLE, self.sample],
                                       harness.clean_env())
        assert status == 0, out + err
        self.far = Liar(self.sample, SERVER, before=(WAN, "server"))
        self.far_tls = Liar(self.sample, SERVER, "--tls", str(directory / "tls"), before=(WAN, "server"))
        self.near = Liar(self.sample, "127.0.0.1")
        self.anywhere = Liar(self.sample, "0.0.0.0", before=(WAN, "server"))

    def close(self):
        for liar in (self.far, self.far_tls, self.near, self.anywhere):
            liar.close()

    def begin(self, kind, url, options, before=()):
        number = next(self.numbers)
        shadow = self.shadows / str(number)
        shadow.mkdir(mode=0o700)
        env = dict(harness.driver_env(None, shadow, **options), XHDF5_CA_BUNDLE=self.far_tls.facts["cacert"],
                   no_proxy="*")
        del env["HDF5_DRIVER"]    # it is linked
        return subprocess.Popen([*before, str(self.program), kind, url, f"{self.near.base}/ok/after-{number}",
                                 str(self.sample)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def end(process):
        """(how it ended, its text, seconds of the read by its own clock). Its end comes soon."""
        line = process.stdout.readline()
        over = time.monotonic()
        out = line + process.stdout.read()
        process.stdin.close()
        process.wait()
        took = time.monotonic() - over
        found = re.match(r"(\w+) ms=(\d+) after=(\w+) ", out)
        assert found and found[3] == "right", out
        assert took < END_S, f"it ended {took:.1f} s after its last read"
        return found[1], out, int(found[2]) / 1000


def fails(lab, tells, url, before=()):
    """An error that |tells|, within the time that docs/faults.md states."""
    end, text, seconds = lab.end(lab.begin("head", url, HASTY, before))
    assert end == "error" and re.search(tells, text), text
    assert seconds < fault_table.stated_s(HASTY), f"{seconds:.1f} s"


def silent_names(lab):
    """A name server that does not answer: known to this process alone, in a mount namespace of its own."""
    file = lab.directory / "resolv.conf"
    file.write_text(f"nameserver {NOBODY}\n")
    fails(lab, NO_ANSWER, "http://no-such-host.invalid/x.h5",
          before=("unshare", "--mount", "sh", "-c", f"mount --bind {file} /etc/resolv.conf && exec \"$@\"", "sh"))


def named(file):
    """What gives a process |file| for /etc/hosts."""
    return "unshare", "--mount", "sh", "-c", f"mount --bind {file} /etc/hosts && exec \"$@\"", "sh"


def first_of_two(lab):
    """A name has two addresses, and nobody is at the first one."""
    file = lab.directory / "two"
    file.write_text(f"{NOBODY} two.test\n{SERVER} two.test\n")
    end, text, seconds = lab.end(lab.begin("head", f"http://two.test:{lab.anywhere.facts['port']}/ok/two", HASTY,
                                           named(file)))
    assert end == "right", text
    assert seconds < fault_table.stated_s(HASTY), f"{seconds:.1f} s"


def moves(lab):
    """A server gets another address, and so does its name, while a file is read."""
    file = lab.directory / "moves"
    file.write_text(f"{MOVING} moves.test\n")
    wan("server", "ip", "addr", "add", MOVING, "dev", "lo")
    reader = lab.begin("ahead", f"http://moves.test:{lab.anywhere.facts['port']}/ok/moves",
                       {"readahead_bytes": 1 << 20}, named(file))
    assert reader.stdout.readline() == "now\n"
    wan("server", "ip", "addr", "del", MOVING, "dev", "lo")
    file.write_text(f"{SERVER} moves.test\n")
    reader.stdin.write("\n")
    reader.stdin.flush()
    end, text, seconds = lab.end(reader)
    assert end == "right", text
    assert seconds < 15, f"{seconds:.1f} s"    # libcurl keeps what it has looked up for 60 s, a connection may take 15


def address(verb, ip):
    subprocess.run(["ip", "addr", verb, ip, "peer", SERVER, "dev", "wan0"], check=True)


def dead_for(lab, dead_s, options, dies=lambda: wan("set", RTT_MS, RATE_MBIT, 100), lives=lambda: None):
    """Two readers on a link that |dies| before they go on, and |lives| again: {kind: (whether it waited for that, how
    it ended)}. The link is slow, so that not all was fetched ahead."""
    wan("set", RTT_MS, RATE_MBIT)
    bounds = {"ahead": {"readahead_bytes": 1 << 20}, "early": {"stream_bytes": 1 << 20}}
    readers = {}
    for kind, more in bounds.items():    # one after the other: the stream would come while the first one starts
        readers[kind] = lab.begin(kind, f"{lab.far.base}/ok/{kind}", {**options, **more})
        assert readers[kind].stdout.readline() == "now\n"
    dies()
    for process in readers.values():
        process.stdin.write("\n")
        process.stdin.flush()
    time.sleep(dead_s)
    waits = {kind: not select.select([process.stdout], [], [], 0)[0] for kind, process in readers.items()}
    lives()
    wan("set", RTT_MS, 0)
    return {kind: (waits[kind], *lab.end(process)) for kind, process in readers.items()}


def goes_on(waited, how, text, _):
    assert how == "right", text
    assert waited, "nothing was missing while the link was dead"


WRITE = """
import h5py, sys
with h5py.File(sys.argv[1], "w") as f:
    f["data"] = b"a" * (16 << 20)
"""


def sends(lab):
    """The machine's address changes while a new file is sent: what the connection had is lost. It is sent anew."""
    root = lab.directory / "root"
    (root / "out").mkdir(parents=True)
    for directory in lab.directory, root, root / "out":
        directory.chmod(0o777)
    with harness.Server("nginx", root, addr=SERVER, words=["--writable"], before=(WAN, "server")) as server:
        shadow = lab.shadows / str(next(lab.numbers))
        shadow.mkdir(mode=0o700)
        env = harness.driver_env(server, shadow, writable="on", overlay_dir=shadow, log="origin",
                                 stall_timeout_ms=2000, connect_timeout_ms=2000) | {"no_proxy": "*"}
        wan("set", RTT_MS, 33)    # 16 MiB take four seconds
        writer = subprocess.Popen([harness.DATA_PYTHON, "-c", WRITE, f"{server.url}/out/new.h5"], env=env,
                                  stderr=subprocess.PIPE, text=True)
        for line in writer.stderr:
            if 'owner" method=PUT status=201' in line:    # beside the file itself
                break
        address("del", CLIENT)
        address("add", ANOTHER)
        try:
            wan("set", RTT_MS, 0)
            said = writer.stderr.read()
            assert writer.wait() == 0, said[-2000:]
            assert (root / "out" / "new.h5").stat().st_size > 16 << 20
        finally:
            address("del", ANOTHER)
            address("add", CLIENT)


def paused(lab, asked_s, most_s):
    """The server asks for a pause when the file is opened: it is asked again after that, or |most_s|, and not before."""
    end, text, seconds = lab.end(lab.begin("head", f"{lab.near.base}/503:{asked_s}@1~0-8/pause{asked_s}", {}))
    least = min(asked_s, most_s)
    assert end == "right" and least <= seconds < least + 60, (seconds, text)


def inside(program, is_long):
    tap = harness.Tap()
    subprocess.run(["ip", "route", "add", NOBODY, "dev", "wan0"], check=True)
    with tempfile.TemporaryDirectory(prefix="xh-network-") as d, harness.shadow_dir() as shadows:
        lab = Lab(program, pathlib.Path(d), shadows)
        if is_long:
            ends = dead_for(lab, 30, {})
            for kind in ends:
                with tap.claim(f"a link that is dead for 30 s, {kind}: with the options' defaults the read goes on"):
                    goes_on(*ends[kind])
            with tap.claim("a server that asks for a day's pause is asked again after two minutes"):
                paused(lab, 86400, 120)
            lab.close()
            return tap.done()
        ends = dead_for(lab, 2, {"stall_timeout_ms": 1000, "connect_timeout_ms": 1000, "retries": 5})
        for kind in ends:
            with tap.claim(f"a link that is dead for 2 s, {kind}: the read goes on with the right bytes"):
                goes_on(*ends[kind])
        wan("server", "ip", "route", "add", ANOTHER, "dev", "wan0")
        with tap.claim("the machine gets another address while a new file is sent: it is sent anew, and is there"):
            sends(lab)
        # Connections fail at once; those that there were are silent for ever.
        ends = dead_for(lab, 5, {}, lambda: address("del", CLIENT), lambda: address("add", ANOTHER))
        for kind in ends:
            with tap.claim(f"the machine has no address for 5 s, and then another one, {kind}: the read goes on soon"):
                goes_on(*ends[kind])
                assert ends[kind][-1] < 25, f"{ends[kind][-1]} s"    # stall_timeout_ms is 30 s
        subprocess.run(["ip", "route", "add", NOBODY, "dev", "wan0"], check=True)    # it went with the address
        wan("set", RTT_MS, 0, 0, 1300)
        at_once = {
            "a name that does not resolve": (fails, lab, NO_NAME, "http://no-such-host.invalid/x.h5"),
            "a name server that is silent": (silent_names, lab),
            "no route": (fails, lab, NO_CONNECTION + r" \(.*: Network is unreachable\)", "http://10.99.0.1/x.h5"),
            "a port where nobody listens": (fails, lab, NO_CONNECTION + r" \(.*: Connection refused\)",
                                            f"http://{SERVER}:9/x.h5"),
            "a host that is not there": (fails, lab, NO_ANSWER, f"http://{NOBODY}/x.h5"),
            "a link that drops packets of full size, http": (fails, lab, NO_BYTE, f"{lab.far.base}/ok/hole"),
            "a link that drops packets of full size, https": (fails, lab, NO_ANSWER, f"{lab.far_tls.base}/ok/hole"),
        }
        if harness.libcurl() < (7, 87):    # it waits for the resolver: docs/origin.md
            del at_once["a name server that is silent"]
        with concurrent.futures.ThreadPoolExecutor(len(at_once) + 1) as pool:
            ends = {what: pool.submit(*call) for what, call in at_once.items()}
            pause = pool.submit(paused, lab, 4, 30)
        with tap.claim("a server that asks for a pause of 4 s is asked again after 4 s"):
            pause.result()
        wan("set", RTT_MS, 0)
        with tap.claim("the first of a name's two addresses is nobody's: the file is read, by the second one"):
            first_of_two(lab)
        subprocess.run(["ip", "route", "add", MOVING, "dev", "wan0"], check=True)
        with tap.claim("a server moves, and its name leads to its new address: the read goes on there soon"):
            moves(lab)
        for what, end in ends.items():
            with tap.claim(f"{what}: a clear error within the stated time, and the next file is read"):
                end.result()
        lab.close()
    return tap.done()


def main():
    program, is_long = sys.argv[1], "--long" in sys.argv
    if "--inside" in sys.argv:
        return inside(program, is_long)
    if harness.why_no_link():
        print(f"1..0 # SKIP {harness.why_no_link()}")
        return 0
    env = dict(os.environ, XHDF5_WAN_DIR=f"/run/xhdf5-network-{os.getpid()}",
               XHDF5_WANLINK=str(harness.BUILD / "perf" / "wanlink"), XHDF5_WAN_LINK="relay")
    os.environ.update(env)
    wan("up", RTT_MS, 0)
    try:
        return subprocess.run([WAN, "client", sys.executable, *sys.argv, "--inside"],
                              stdin=subprocess.DEVNULL).returncode
    finally:
        wan("down")


if __name__ == "__main__":
    sys.exit(main())
