"""Many programs at once on several client hosts: started together, watched while they run, ended together.

What each program gets, bench_load tells in a file that it has mapped, block by block; of curl it is what it writes to
/dev/null, wchar in /proc/PID/io. (What a reader with a shadow writes there, is written too.)
"""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
STEP_S = 0.25               # between two looks at the programs: a gap is known as exactly
WARM_S = 10                 # connections are made and find their speed; not counted, or a quarter of the time
MORE_S = 240                # what a run is waited for whose faults come late, as the machine is slow
SLOW_LOOKS = 8              # of which one looks at connections and shadows too


def watch_first():
    """This process goes before all others, as the link does, so that it looks when it means to; its children do not."""
    with contextlib.suppress(OSError):      # what this session starts beside them, as a server anew
        pathlib.Path("/proc/self/autogroup").write_text("-20")
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def favour(pids):
    """These servers, which stand for another machine, are not to be one among a hundred who want the processors here."""
    for pid in with_children(pids):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(pid), -20)
        with contextlib.suppress(OSError):      # where the kernel shares them between sessions, that alone counts
            pathlib.Path(f"/proc/{pid}/autogroup").write_text("-20")


def cpu_and_rss(pid):
    """(seconds of processor, resident bytes) so far; (0, 0) of a process that is gone."""
    with contextlib.suppress(OSError, IndexError):
        f = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(f[11]) + int(f[12])) / TICK, int(f[21]) * PAGE
    return 0.0, 0


def idle_s():
    """Seconds that the machine's processors were idle, together."""
    f = pathlib.Path("/proc/stat").read_text().split()
    return (int(f[4]) + int(f[5])) / TICK


def cpu_of(pids):
    return sum(cpu_and_rss(pid)[0] for pid in pids)


def with_children(pids):
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += [pid, *pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found


class Program:
    """One process of the crowd, which waits for the end of its standard input before it begins."""

    def __init__(self, host, argv, env, gate, tells):
        """|tells|: it keeps its progress in the file BENCH_PROGRESS."""
        self.host, self.out, self.err = host, tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.progress = None
        if tells:
            self.progress = tempfile.NamedTemporaryFile(buffering=0)
            self.progress.write(bytes(16))
            env = env | {"BENCH_PROGRESS": self.progress.name}
        self.child = subprocess.Popen([str(a) for a in argv], env=env, stdin=gate, stdout=self.out, stderr=self.err,
                                      start_new_session=True)
        self.io = open(f"/proc/{self.child.pid}/io", "rb", buffering=0)
        self.got, self.cpu, self.rss, self.rss_most, self.moved_at, self.gap, self.gap_from = 0, 0.0, 0, 0, 0.0, 0.0, 0.0
        self.got_warm = 0       # before what is counted

    def look(self, now):
        """Brings what is known of it up to date. Nothing changes once it has ended."""
        with contextlib.suppress(OSError):
            self.io.seek(0)
            got = int(self.io.read().split()[3])
            if self.progress:
                got = int.from_bytes(os.pread(self.progress.fileno(), 8, 0), sys.byteorder)
            if got != self.got:
                self.got, self.moved_at = got, now
            if now - self.moved_at > self.gap:
                self.gap, self.gap_from = now - self.moved_at, self.moved_at
        cpu, rss = cpu_and_rss(self.child.pid)
        if cpu or rss:
            self.cpu, self.rss, self.rss_most = cpu, rss, max(rss, self.rss_most)

    def tell_over(self):
        """Its time is over."""
        if self.progress:
            os.pwrite(self.progress.fileno(), (1).to_bytes(8, sys.byteorder), 8)

    def text(self, file):
        file.seek(0)
        return file.read().decode(errors="backslashreplace")

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        self.io.close()


def jain(values):
    """Jain's index of fairness: 1 where all are equal, 1/n where one has all."""
    squares = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


class Crowd:
    """Runs |jobs|, (host, argv, env) each, for |seconds| in |lab|; |servers| are those they read from; |tells| is Program's."""

    def __init__(self, lab, servers, jobs, seconds, tells):
        self.lab, self.servers, self.jobs, self.seconds, self.tells = lab, servers, jobs, seconds, tells
        self.hosts = 1 + max(host for host, _, _ in jobs)
        self.relays = [(pathlib.Path(leg["XHDF5_WAN_DIR"]) / "relay").read_text().strip()
                       for leg in lab.legs if (pathlib.Path(leg["XHDF5_WAN_DIR"]) / "relay").exists()]
        self.series = []

    def connections(self):
        """Established ones at the servers' ports."""
        ports = {f"{s.port:04X}" for s in self.servers}
        n = 0
        for table in ("tcp", "tcp6"):   # XRootD listens on the latter, for both
            with contextlib.suppress(OSError), open(f"/proc/{self.lab.holder(0, 'server')}/net/{table}") as f:
                for line in f:
                    words = line.split()
                    n += words[3] == "01" and words[1].rpartition(":")[2] in ports
        return n

    def shadows(self):
        """Bytes that each host's shadows take."""
        total = [0] * self.hosts
        for host in range(self.hosts):
            for f in self.shadow_of(host).glob("*"):
                with contextlib.suppress(OSError):
                    total[host] += f.stat().st_blocks * 512
        return total

    def shadow_of(self, host):
        return self.lab.shadow / str(host)

    def look(self, programs, now, slowly):
        """A line of the series."""
        for p in programs:
            p.look(now)
            p.got_warm = p.got if now < self.warm_s() else p.got_warm
        of = lambda host, what: sum(getattr(p, what) for p in programs if p.host == host)  # noqa: E731
        line = {"t": now, "got": sum(p.got for p in programs), "idle": idle_s(),
                "cpu": [of(h, "cpu") for h in range(self.hosts)], "rss": [of(h, "rss") for h in range(self.hosts)],
                "server_cpu": cpu_of(with_children([pid for s in self.servers for pid in s.state["pids"]])),
                "link_cpu": cpu_of(self.relays)}
        if slowly:
            line |= {"connections": self.connections(), "shadow": self.shadows()}
        self.series.append(line)

    def run(self, each_look=lambda t: None, patience=60, enough=lambda: True):
        """Returns the programs once all have ended, or were ended |patience| seconds after the time. |each_look| is
        called with the seconds since the beginning. The time is longer, by MORE_S at most, until there is |enough| and
        each has got something."""
        gate, opener = os.pipe()
        programs = []
        try:
            programs += [Program(host, argv, env, gate, self.tells) for host, argv, env in self.jobs]
            os.close(gate)
            gate = None
            time.sleep(1)           # they start up and come to their gate
            self.began = began = time.monotonic()
            self.look(programs, 0.0, True)
            os.close(opener)
            opener = None
            for n in range(1, int((self.seconds + MORE_S) / STEP_S) + 1):
                if n > self.seconds / STEP_S and enough() and all(p.got for p in programs):
                    break
                each_look(time.monotonic() - began)
                time.sleep(max(0.0, began + n * STEP_S - time.monotonic()))
                self.look(programs, time.monotonic() - began, n % SLOW_LOOKS == 0)
            self.ended_in_time = [p.child.poll() is not None for p in programs]
            for p in programs:
                p.tell_over()
            end = time.monotonic() + patience
            while any(p.child.poll() is None for p in programs) and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            for fd in (gate, opener):
                if fd is not None:
                    os.close(fd)
            self.status = [p.child.poll() for p in programs]
            for p in programs:
                p.end()
        return programs

    def warm_s(self):
        return min(self.seconds / 4, WARM_S)

    def facts(self, programs):
        """What the watching says of the whole run."""
        first, last = next(s for s in self.series if s["t"] >= self.warm_s()), self.series[-1]
        whole = last["got"] / last["t"]
        span = last["t"] - first["t"]
        per = lambda key: (last[key] - first[key]) / span  # noqa: E731
        seen = [s["connections"] for s in self.series if "connections" in s]
        ours = [sum(s["cpu"]) + s["server_cpu"] + s["link_cpu"] + s["idle"] for s in (first, last)]
        return {"seconds": span, "other_cpu": os.cpu_count() - (ours[1] - ours[0]) / span,
                "bytes": last["got"] - first["got"], "rate": per("got"), "rate_whole": whole,
                "client_cpu": [(b - a) / span for a, b in zip(first["cpu"], last["cpu"])],
                "server_cpu": per("server_cpu"), "link_cpu": per("link_cpu"), "idle": per("idle"),
                "rss_most": max(p.rss_most for p in programs), "rss_host": max(max(s["rss"]) for s in self.series),
                "shadow_host": max((max(s["shadow"]) for s in self.series if "shadow" in s), default=0),
                "connections": sum(seen[1:]) / max(1, len(seen) - 1), "connections_most": max(seen),
                "gap": max(p.gap for p in programs),
                "gaps": [[p.host, round(p.gap_from, 2), round(p.gap, 2)] for p in programs],
                "jain": jain([p.got - p.got_warm for p in programs]),
                "least": min(p.got for p in programs), "most": max(p.got for p in programs),
                "series": self.series}
