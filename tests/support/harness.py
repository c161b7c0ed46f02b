"""What every integration test needs: servers, the driver's environment, a shadow of its own.

Tests are called by meson with XHDF5_BUILD (the build directory) in the environment, and
print TAP. Nothing here waits by sleeping; every wait has a bound.
"""
import collections
import contextlib
import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import warm_python

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("XHDF5_BUILD", TOP / "build"))
H5PY = {v: pathlib.Path(f"/opt/h5py-{v}/bin/python") for v in ("3.14.0", "3.16.0")}
DATA_PYTHON = H5PY["3.14.0"]
FORKY = ["chroot", "/opt/forky", "python3"]     # HDF5 2.2
warm_python.use([[sys.executable], FORKY, *([p] for p in H5PY.values())])


def plugin_dir():
    """The directory for HDF5_PLUGIN_PATH: holds the plugin and nothing else that HDF5 would load."""
    return str(BUILD / "vfd" / "plugins")


@functools.cache
def libcurl():
    """The version of the libcurl that the plugin is linked with, as (8, 14)."""
    library = ctypes.CDLL(warm_python.LIBCURL)
    library.curl_version.restype = ctypes.c_char_p
    return tuple(map(int, re.match(rb"libcurl/(\d+)\.(\d+)", library.curl_version()).groups()))


@functools.cache
def serve():
    """server/serve as a module: asked in this process, it need not start each time."""
    sys.path.append(str(TOP / "server"))
    loader = importlib.machinery.SourceFileLoader("serve", str(TOP / "server" / "serve"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("serve", loader))
    loader.exec_module(module)
    return module


def age(*places):
    """Makes the files there, or below, a day older if they are of this hour. A server's date and size prove nothing of
    a file that was changed just now, so processes would not share what they read of it."""
    newest = time.time() - 3600
    for place in map(pathlib.Path, places):
        for path in [place, *place.rglob("*")]:
            at = path.stat().st_mtime if path.is_file() else 0
            if at > newest:
                os.utime(path, (at - 86400, at - 86400))


class Server:
    """A real nginx or XRootD on loopback with TLS and a throw-away CA."""

    def __init__(self, kind, root, addr=None, words=(), before=()):
        """|words|: more of server/serve's. |root|: a directory, a list of them, or None. |before|: what to start it under."""
        self.kind, self.roots = kind, [] if root is None else root if isinstance(root, list) else [root]
        self.run = tempfile.mkdtemp(prefix=f"xh-{kind}-")
        self.words = [*words, "--addr", addr] if addr else list(words)
        self.before = before

    def _start(self, *words):
        words = ["start", self.kind, *words, "--run", self.run, *self.words]
        if not self.before:
            return serve().start(serve().arguments().parse_args(words))
        r = subprocess.run([*self.before, str(TOP / "server" / "serve"), *words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if r.returncode:
            raise RuntimeError(f"server/serve {' '.join(words)}: {r.stdout}")
        return dict(re.findall(r"(\w+)=(\S+)", r.stdout))

    def __enter__(self):
        for root in self.roots:
            age(root)
        roots = [word for root in self.roots for word in ("--root", str(root))]
        self.facts = self._start(*roots)
        self.url = self.facts["url"].rstrip("/")
        self.cacert = self.facts["cacert"]
        return self

    def requests(self):
        """(requests, bytes) so far, from the server's own log."""
        return serve().requests(self.run)

    def stop(self):
        """Its processes end; its address remains its own for `start_again`."""
        serve().stop(self.run)
        os.mkdir(self.run)

    def start_again(self):
        """At the same address. With a CA of the test's own (--ca) the reader trusts it as before."""
        port = re.search(r":(\d+)/?$", self.facts["url"])[1]
        self.words += ["--port", port] * ("--port" not in self.words)
        self.__enter__()

    def __exit__(self, *exc):
        with contextlib.suppress(Exception):
            serve().stop(self.run)
        shutil.rmtree(self.run, ignore_errors=True)


def why_no_link():
    """Why perf/wan cannot make a link here; None: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "/dev/net/tun is missing"
    return None


def free_port():
    return serve().free_port("127.0.0.1")


def wait_for(true, what, seconds=20):
    """Returns once |true|() holds."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


def wait_port(port):
    """Returns once somebody listens there."""
    def listens():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
            return True
        return False
    wait_for(listens, f"port {port}")


def clean_env():
    """This process's environment without anything that steers HDF5, tokens or the driver."""
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(("HDF5_", "XHDF5_", "BEARER_", "X509_"))
            and k not in ("EARTHDATA_TOKEN", "NETRC", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")}
    keep["XHDF5_BUILD"] = str(BUILD)
    return keep


def driver_env(server=None, shadow=None, **options):
    """Environment that switches the driver on. |shadow| is a directory of the test's own."""
    env = clean_env()
    env["HDF5_DRIVER"] = "xhdf5"
    env["HDF5_PLUGIN_PATH"] = plugin_dir()
    env["XHDF5_SIDECAR"] = "off"    # many count requests; sidecar.py has those that look beside files
    if server:
        env["XHDF5_CA_BUNDLE"] = server.cacert
    if shadow:
        env["XHDF5_SHADOW_DIR"] = str(shadow)
    env.update({f"XHDF5_{k.upper()}": str(v) for k, v in options.items()})
    return env


def counters(log):
    """The driver's counters, summed over the files that were closed, from trace lines of the component stats; those
    that are 0 it does not print."""
    found = collections.Counter()
    for words in re.findall(r" stats counters (.*)", log):
        found.update({k: int(v) for k, v in re.findall(r"(\w+)=(\d+) ", words)})
    return found


@contextlib.contextmanager
def shadow_dir():
    """A fresh 0700 directory on tmpfs for one test's shadows."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    d = tempfile.mkdtemp(prefix="xh-test-", dir=base)
    try:
        yield pathlib.Path(d)
    finally:
        shutil.rmtree(d, ignore_errors=True)


def family(pid):
    """A process and all that come from it, parents first."""
    found = [pid]
    for parent in found:
        for file in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, file.read_text().split())
    return found


def where_it_hangs(pid):
    """What a process and those that come from it are doing: their commands, and where gdb is, each thread's stack."""
    said = []
    for one in family(pid):
        with contextlib.suppress(OSError):
            command = pathlib.Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ")
            said.append(f"process {one}: {command.decode(errors='backslashreplace')[:500]}")
            for task in pathlib.Path(f"/proc/{one}/task").iterdir():
                name, state = (task / "stat").read_text().split("(", 1)[1].rsplit(") ", 1)
                said.append(f"  {task.name} {name} {state[0]}, waits in {(task / 'wchan').read_text()}")
        if shutil.which("gdb"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                shown = subprocess.run(["gdb", "-p", str(one), "-batch", "-ex", "thread apply all backtrace 25"],
                                       capture_output=True, text=True, errors="replace", timeout=60)
                said += [line for line in shown.stdout.splitlines() if line.startswith(("#", "Thread"))]
    return "\n".join(said)


def run(argv, env, timeout=120, cwd=None, text=None):
    """Runs a command; returns (exit status, stdout, stderr) as text that survives any bytes. |text|: its input.
    Of one that does not end within |timeout| seconds it prints where it hangs, and raises subprocess.TimeoutExpired."""
    stdin = subprocess.DEVNULL if text is None else subprocess.PIPE
    with subprocess.Popen([str(a) for a in argv], env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=cwd) as child:
        try:
            out, err = child.communicate(None if text is None else text.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            for line in where_it_hangs(child.pid).splitlines():
                print(f"# {line}", flush=True)
            for one in family(child.pid):   # not those that would keep its output open
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)
            raise
        except BaseException:
            child.kill()
            raise
    return child.returncode, out.decode(errors="backslashreplace"), err.decode(errors="backslashreplace")


class Tap:
    """Prints TAP and remembers whether all went well: `sys.exit(tap.done())` at the end."""

    def __init__(self):
        self.n = self.bad = 0
        self.tidy = lambda: None    # called behind a claim that failed: what it left must not fail the next ones

    def ok(self, good, claim, why=""):
        self.n += 1
        self.bad += not good
        print(f"{'ok' if good else 'not ok'} {self.n} - {claim}")
        if not good:
            for line in str(why).splitlines()[-40:]:
                print(f"# {line}")
        sys.stdout.flush()
        return good

    def skip(self, claim, why):
        self.n += 1
        print(f"ok {self.n} - {claim} # SKIP {why}", flush=True)

    @contextlib.contextmanager
    def claim(self, text):
        """`with tap.claim("…"):` is ok unless the body raises."""
        import traceback
        try:
            yield
        except Exception:  # a failed claim is reported, the next one still runs
            self.ok(False, text, traceback.format_exc())
            self.tidy()
        else:
            self.ok(True, text)

    def done(self):
        print(f"1..{self.n}")
        return 1 if self.bad else 0
