"""The laboratory: an emulated link, servers at its far end, and ways to run and account for a client.

A Lab is entered once. Its own process then lives at the client's end of the link, so that children
start there without a wrapper that would be timed with them. Everything ends with the Lab.
"""
import contextlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
SERVER_IP = "10.77.0.1"
TWIN_IP = "10.77.1.1"       # a second host, behind a link of its own


ASKED_NGINX = re.compile(r'\S+ conn=(?P<conn>\d+) req=\d+ status=(?P<status>\d+) sent=\d+ resumed="(?P<resumed>.)" '
                         r'range="(?P<range>[^"]*)" "(?P<method>\S+) ')
ASKED_XROOTD = re.compile(r" http_Protocol: Sending resp: (\d+) ")
TLS_XROOTD = " http_Protocol: Protocol matched. https: True"
WINDOWS = ("stock", "tuned", "half")
CONGESTIONS = ("cubic", "bbr", "reno") # the first one is Linux's own default, which a namespace may have only by root


class Failed(Exception):
    """A measurement that gave no figure. The text says why."""


class Skipped(Exception):
    """Something that cannot be measured here. The text says why."""


def load_serve():
    """server/serve as a module: its reader of the servers' logs is the one used here."""
    sys.path.append(str(TOP / "server"))
    loader = importlib.machinery.SourceFileLoader("serve", str(TOP / "server" / "serve"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("serve", loader))
    loader.exec_module(module)
    return module


def clean_env():
    """The environment without anything that steers HDF5, curl, tokens or the driver."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("HDF5_", "XHDF5_", "BEARER_", "X509_")) and "proxy" not in k.lower()
            and k not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")}


def run(argv, env, timeout, stderr=None):
    """Runs a command to its end; returns (facts, output, errors).

    facts: spawned (on the monotonic clock), wall, cpu (user and system, of it and of what it waited
    for), and of that user; slept and preempted (how often it gave a processor up, how often one was taken from it);
    faults (pages that it touched first); rss_bytes. Raises Failed for a bad exit or after |timeout| seconds, Skipped
    for exit 77."""
    with tempfile.TemporaryFile() as out, contextlib.ExitStack() as stack:
        err = stderr or stack.enter_context(tempfile.TemporaryFile())
        spawned = time.monotonic()
        child = subprocess.Popen([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 start_new_session=True)
        fd = os.pidfd_open(child.pid)
        try:
            ready, _, _ = select.select([fd], [], [], timeout)
            wall = time.monotonic() - spawned
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            os.close(fd)
        output, errors = text_of(out), text_of(err)
    why = "\n".join(line for line in (errors or output).splitlines() if " stats counters " not in line)[-600:]
    if not ready:
        raise Failed(f"not done after {timeout:g} s")
    if child.returncode == 77:
        raise Skipped(why)
    if child.returncode:
        raise Failed(f"exit {child.returncode}: {why}")
    return {"spawned": spawned, "wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "user": usage.ru_utime,
            "slept": usage.ru_nvcsw, "preempted": usage.ru_nivcsw, "faults": usage.ru_minflt,
            "rss_bytes": usage.ru_maxrss * 1024}, output, errors


def text_of(file):
    file.seek(0)
    return file.read().decode(errors="backslashreplace")


class Server:
    """A stock nginx or XRootD at the far end."""

    def __init__(self, kind, serve, root, directory, addr=SERVER_IP, variables=None, words=()):
        """|words|: more of server/serve's."""
        self.kind, self.serve, self.twin, self.opened = kind, serve, None, 0
        self.directory = directory
        words = [TOP / "perf" / "wan", "server", TOP / "server" / "serve", "start", kind, "--root", root,
                 "--addr", addr, "--run", directory, *words]
        env = os.environ | (variables or {})
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env)
        self.end = (pathlib.Path(env["XHDF5_WAN_DIR"]) / "server").read_text().split()[0]
        if done.returncode:
            raise (Skipped if done.returncode == 77 else Failed)(f"{kind}: {done.stderr.strip()}")
        self.state = json.loads((directory / "serve.json").read_text())
        self.url, self.cacert = self.state["url"], self.state["cacert"]
        self.port = int(re.search(r":(\d+)/", self.url)[1])
        # XRootD's own protocol has a port that only its log tells.
        said = re.search(r"Config Route all4: .*:(\d+)\s", pathlib.Path(self.state["log"]).read_text(errors="replace"))
        self.root_port = said and said[1]

    def url_of(self, path):
        return self.url + pathlib.Path(path).name

    def forget(self):
        """Empties the log, so that counting starts from here. Both servers append to it."""
        os.truncate(self.state["log"], 0)
        self.opened = self.accepted()

    def accepted(self):
        """TCP connections that this end of the link has accepted so far, by the kernel's own count."""
        names, values = (line.split() for line in pathlib.Path(f"/proc/{self.end}/net/snmp").read_text().splitlines()
                         if line.startswith("Tcp:"))
        return int(values[names.index("PassiveOpens")])

    def facts(self):
        """What a sample says of the server's side since forget(): requests and bytes by its log, connections by the
        kernel at its end (a log does not know of a connection without a request)."""
        requests, sent = self.counted()
        return {"server_requests": requests, "server_bytes": sent, "server_connections": self.accepted() - self.opened}

    def asked(self):
        """What the log has since forget(): (requests, TLS handshakes). nginx's names each request; its handshakes are
        those that began a session: one that is resumed costs neither a certificate nor its proof. XRootD's has the
        replies' statuses, and cannot tell those apart."""
        lines, sessions, handshakes = [], {}, 0
        for line in pathlib.Path(self.state["log"]).read_text(errors="replace").splitlines():
            if m := ASKED_NGINX.match(line):
                lines.append(f"{m['method']} {m['range'].removeprefix('bytes=')} {m['status']}")
                sessions.setdefault(m["conn"], m["resumed"] == "r")
            elif m := ASKED_XROOTD.search(line):
                lines.append(m[1])
            handshakes += TLS_XROOTD in line
        return lines, handshakes + sum(not resumed for resumed in sessions.values())

    def counted(self):
        """(requests, bytes) since forget(). A server logs a moment after the client has its last byte."""
        before, now, end = None, self.serve.count(self.state), time.monotonic() + 2
        while now != before and time.monotonic() < end:
            time.sleep(0.03)
            before, now = now, self.serve.count(self.state)
        return now

    def stop(self):
        subprocess.run([TOP / "server" / "serve", "stop", "--run", self.directory], capture_output=True)


class Lab:
    def __init__(self, build, root, kinds, say, twins=False, clients=1, caps=(), files=()):
        """|clients|: so many client hosts, each behind a leg of its own to the same server host. |caps|: each server
        also as one that sends no more than so many MB/s on a connection. |files|: what the kind s3 has to have."""
        self.build, self.root, self.kinds, self.say, self.twins = pathlib.Path(build), root, kinds, say, twins
        self.servers, self.skipped, self.clients, self.caps, self.capped = {}, {}, clients, [c for c in caps if c], {}
        self.files, self.home = files, None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.work = pathlib.Path(tempfile.mkdtemp(prefix="xh-bench.", dir="/var/tmp"))
            stack.callback(shutil.rmtree, self.work, ignore_errors=True)
            self.work.chmod(0o755)
            self.shadow = pathlib.Path(f"/dev/shm/xh-bench.{os.getpid()}")
            stack.callback(shutil.rmtree, self.shadow, ignore_errors=True)
            os.environ["XHDF5_WAN_DIR"] = f"/run/xhdf5-bench.{os.getpid()}"
            os.environ["XHDF5_WANLINK"] = str(self.build / "perf" / "wanlink")
            self.windows = os.environ.get("XHDF5_WAN_TCP", "stock")
            self.wan("up", "0", "0")
            stack.callback(self.wan, "down")
            first = os.environ["XHDF5_WAN_DIR"]
            self.twin = {"XHDF5_WAN_DIR": first + ".twin", "XHDF5_WAN_BESIDE": first} if self.twins else None
            if self.twin:
                self.wan("up", "0", "0", variables=self.twin)
                stack.callback(self.wan, "down", variables=self.twin)
            self.legs = [{"XHDF5_WAN_DIR": first}]
            for n in range(2, self.clients + 1):
                self.legs.append({"XHDF5_WAN_DIR": f"{first}.{n}", "XHDF5_WAN_ALSO": first, "XHDF5_WAN_NUMBER": str(n)})
                self.wan("up", "0", "0", variables=self.legs[-1])
                stack.callback(self.wan, "down", variables=self.legs[-1])
            self.serve = serve = load_serve()
            for kind in self.kinds:
                try:
                    self.servers[kind] = self.start(kind)
                except Skipped as why:
                    self.skipped[kind] = str(why)
                    continue
                stack.callback(self.servers[kind].stop)
                if self.twin:
                    twin = Server(kind, serve, self.root, self.work / f"{kind}-twin", TWIN_IP, self.twin)
                    self.servers[kind].twin = twin
                    stack.callback(twin.stop)
                for cap in self.caps if kind != "s3" else ():
                    self.capped[kind, cap] = capped = self.start_capped(kind, cap)
                    stack.callback(capped.stop)
            if self.kinds and not self.servers:
                raise Failed(f"no server runs here: {self.skipped}")
            self.cacert = self.work / "ca.pem"
            self.cacert.write_text("".join(pathlib.Path(s.cacert).read_text() for s in [
                *self.servers.values(), *(one.twin for one in self.servers.values() if one.twin),
                *self.capped.values()]))
            self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
            try:
                os.setns(self.home, os.CLONE_NEWNET)
            except PermissionError:  # a user's box shares the machine's network, and could not come back to it
                os.close(self.home)
                os.unshare(os.CLONE_NEWNET)
                self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
            with open(f"/proc/{self.holder(0, 'client')}/ns/net") as there:
                os.setns(there.fileno(), os.CLONE_NEWNET)
            stack.callback(os.setns, self.home, os.CLONE_NEWNET)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exc):
        self.stack.close()
        os.close(self.home)

    def wan(self, *words, variables=None):
        # From where this began: what the machine's root may set, it may set there alone.
        home = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.home}", "--"] if self.home else []
        done = subprocess.run([*home, str(TOP / "perf" / "wan"), *words], capture_output=True, text=True,
                              env=os.environ | (variables or {}))
        if done.returncode:
            raise Failed(f"wan {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def start(self, kind):
        if kind == "s3":
            from . import s3
            return s3.Gateway(self.work / kind, self.files)
        return Server(kind, self.serve, self.root, self.work / kind)

    def start_capped(self, kind, cap):
        """A server that sends |cap| MB/s on each connection at most: nginx by its limit_rate, which counts whole
        seconds of each request; XRootD, which has no such limit, by TCP's own pacing of the sockets that it accepts."""
        name, rate = f"{kind}-{cap:g}", int(cap * 1e6)
        if kind == "nginx":
            return Server(kind, self.serve, self.root, self.work / name, words=["--limit-rate", str(rate)])
        pace = {"LD_PRELOAD": str(self.build / "perf" / "libbench_pace.so"), "BENCH_PACE_BYTES": str(rate)}
        return Server(kind, self.serve, self.root, self.work / name, variables=pace)

    def server(self, kind, cap):
        """The server of |kind|, or the one that is limited to |cap| MB/s a connection."""
        return self.capped[kind, cap] if cap else self.servers[kind]

    def set_tcp(self, windows, congestion):
        """The windows of both ends, and the server's congestion control, of connections made from now on."""
        for variables in [*self.legs, self.twin] if self.twin else self.legs:
            self.wan("windows", windows, variables=variables)
            if congestion:
                self.wan("congestion", congestion, variables=variables)
        self.windows = windows

    def set_link(self, rtt_ms, rate_mbit, loss_percent):
        for variables in [*self.legs, self.twin] if self.twin else self.legs:
            self.wan("set", f"{rtt_ms:g}", f"{rate_mbit:g}", f"{loss_percent:g}", variables=variables)

    def holder(self, leg, end):
        """The process that keeps the namespace of a leg's end: client or server."""
        return (pathlib.Path(self.legs[leg]["XHDF5_WAN_DIR"]) / end).read_text().split()[0]

    def at(self, leg):
        """The words before a command that start it at that client host. Its process is the command's in the end."""
        return ["nsenter", f"--net=/proc/{self.holder(leg, 'client')}/ns/net", "--"]

    def link(self):
        """What the link says of itself: its kind, parameters and counters, and TCP's settings."""
        text = self.wan("status")
        return {"tcp": self.windows, "status": text.splitlines(),
                "connect_ms": self.connect_ms()}

    def connect_ms(self):
        """The shortest of five TCP connects: the round trip as a program sees it."""
        port, times = next(iter(self.servers.values())).port, []
        for _ in range(5):
            start = time.monotonic()
            socket.create_connection((SERVER_IP, port), timeout=30).close()
            times.append(time.monotonic() - start)
        return 1e3 * min(times)

    def forget_shadow(self):
        shutil.rmtree(self.shadow, ignore_errors=True)

    def driver_env(self, **options):
        """The environment that switches xhdf5 on, with options of its own; those here go before the usual ones."""
        env = clean_env()
        env |= {"HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": str(self.build / "vfd" / "plugins"),
                "XHDF5_CA_BUNDLE": str(self.cacert), "XHDF5_SHADOW_DIR": str(self.shadow), "XHDF5_LOG": "stats"}
        return env | {f"XHDF5_{k.upper()}": str(v) for k, v in options.items()}


def counters(errors):
    """The driver's counters from its standard error, summed over files."""
    total = {}
    for words in re.findall(r" stats counters (.*)", errors):
        if re.search(r"\.xh(meta|body)$", words):
            continue                    # they are in those of the file beside which they lie
        for name, value in re.findall(r"(\w+)=(\d+) ", words):
            total[name] = total.get(name, 0) + int(value)
    return total
