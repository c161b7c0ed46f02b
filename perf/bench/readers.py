"""xhdf5 and the local file as readers of a workload: a cold process, then where asked a warm one."""
import collections
import concurrent.futures
import json
import shutil
import subprocess
import time

from . import lab

BESIDE = 2      # curl's connections, while the local file is read

CLIENT_PY = lab.pathlib.Path(__file__).resolve().parent / "client.py"


def argv_of(client, build, python, file, words, via=None):
    """The command of a client: C, or h5py."""
    start = [build / "perf" / "bench_client"] if client == "C" else \
        [python, CLIENT_PY, *(["--via", via] if via else [])]
    return [*start, file, *words]


def measured(workload, client, argv, env, timeout, stderr=None):
    """Runs a client once; returns the sample. |client| says whose sums these are."""
    facts, out, err = lab.run(argv, env, timeout, stderr)
    said = json.loads(out.splitlines()[-1])
    t0 = facts["spawned"] if workload.span == "start" else said["init"]
    t1 = said["read"] if workload.span == "start" else said["end"]
    return facts | {"seconds": t1 - t0, "began": t0, "ended": t1, "bytes": said["bytes"],
                    "operations": said["operations"], "sum": said["sum"], "client": client,
                    "rss_bytes": said["rss_bytes"],
                    "start_up": said["init"] - facts["spawned"], "opening": said["open"] - said["init"],
                    "reading": said["read"] - said["open"], "closing": said["end"] - said["read"],
                    "counters": lab.counters(err)}


def named(other):
    return f" {other[0]}" if other else ""


def plugin_of(other):
    return {"HDF5_PLUGIN_PATH": str(other[1] / "vfd" / "plugins")} if other else {}


class Ours:
    """xhdf5 with one set of options, by one client; from |both| servers, or from one. |other|: (name, build directory) of
    another build's plugin."""

    def __init__(self, place, python, client, variant="", both=False, other=None):
        self.lab, self.python, self.client, self.both, self.other = place, python, client, both, other
        self.variant, _, options = variant.partition(":")
        self.options = dict(pair.split("=", 1) for pair in options.split(",") if pair)
        self.name = f"xhdf5 {client}" + (f" {self.variant}" if self.variant else "") + " both" * both + named(other)

    def measure(self, workload, server, path, words, timeout, check=False, trace=None):
        """[(workload's name, sample)]: cold, and with a warm shadow. |trace| is a file for trace lines."""
        samples = []
        env = self.lab.driver_env(**self.options, **({"log": "vfd,plan,predict,origin"} if trace else {})) | \
            plugin_of(self.other)
        if check:
            env["BENCH_CHECK"] = "all"
        if self.both:
            env["XHDF5_ENDPOINTS"] = f"{server.url} {server.twin.url}"
        argv = argv_of(self.client, self.lab.build, self.python, server.url_of(path), words)
        self.lab.forget_shadow()
        if workload.known:      # its remembered ways, by a small file there
            measured(workload, self.client, argv_of(self.client, self.lab.build, self.python,
                                                    server.url_of(self.lab.small_file),
                                                    ["walk"]), env, timeout)
            server.counted()    # until the last of it is in the log
        for name in [workload.name] + [workload.name + "-warm"] * workload.warm:
            server.forget()
            sample = measured(workload, self.client, argv, env, timeout, trace)
            sample |= server.facts()
            if workload.logged:
                sample["asked"], sample["handshakes"] = server.asked()
            samples.append((name, sample))
        return samples


class Local:
    """The same client on the same file in the page cache: what has to be done in any case."""

    def __init__(self, place, python, client):
        self.lab, self.python, self.client = place, python, client
        self.name = f"local {client}"

    def measure(self, workload, server, path, words, timeout, check=False, trace=None):
        env = lab.clean_env() | ({"BENCH_CHECK": "all"} if check else {})
        argv = argv_of(self.client, self.lab.build, self.python, path, words)
        return [(workload.name, measured(workload, self.client, argv, env, timeout))]


def together(workload, client, argv, env, timeout, n):
    """Runs |n| clients, at once or each some time after the one before; returns one sample of all: from the first one's
    begin to the last one's end."""
    def one(i):
        time.sleep(i * workload.apart)
        return measured(workload, client, argv, env | ({"BENCH_PART": f"{i}/{n}"} if workload.share else {}), timeout)
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        each = list(pool.map(one, range(n)))
    begin, end = min(s["began"] for s in each), max(s["ended"] for s in each)
    total = {k: sum(s[k] for s in each) for k in ("cpu", "bytes", "operations")}
    counters = collections.Counter()
    for s in each:
        counters.update(s["counters"])
    return total | {"seconds": end - begin, "sum": " ".join(s["sum"] for s in each), "client": f"{client} x{n}",
                    "rss_bytes": max(s["rss_bytes"] for s in each), "each": [s["seconds"] for s in each],
                    "counters": dict(counters)}


class Many:
    """Several xhdf5 processes at once, cold: one node's shadow; or several that read the local file."""

    def __init__(self, place, python, n, local=False, other=None):
        self.lab, self.python, self.n, self.local, self.other = place, python, n, local, other
        self.name = f"{'local' if local else 'xhdf5'} C x{n}" + named(other)

    def measure(self, workload, server, path, words, timeout, check=False, trace=None):
        env = lab.clean_env() if self.local else self.lab.driver_env() | plugin_of(self.other)
        if check:
            env["BENCH_CHECK"] = "all"
        file = path if self.local else server.url_of(path)
        self.lab.forget_shadow()
        server.forget()
        sample = together(workload, "C", argv_of("C", self.lab.build, self.python, file, words), env, timeout, self.n)
        sample |= server.facts()
        return [(workload.name, sample)]


class Ranks:
    """The ranks of an MPI program that read by the driver for collective access: the URL, cold, or the local file."""

    def __init__(self, place, n, how, local=False, other=None):
        self.lab, self.n, self.how, self.local, self.other = place, n, how, local, other
        self.name = f"{'local' if local else 'xhdf5'} {how} x{n}" + named(other)

    def measure(self, workload, server, path, words, timeout, check=False, trace=None):
        build = self.other[1] if self.other else self.lab.build     # the client is linked with its build's driver
        client = build / "perf" / "bench_client_mpi"
        mpiexec = shutil.which("mpiexec.mpich") or shutil.which("mpiexec")
        if not client.exists() or not mpiexec:
            raise lab.Skipped("no plugin for collective access was built, or there is no mpiexec")
        self.lab.forget_shadow()
        server.forget()
        argv = [mpiexec, "-n", self.n, client, path if self.local else server.url_of(path), *words, self.how]
        sample = measured(workload, f"MPI x{self.n}", argv, self.lab.driver_env(), timeout)
        sample |= server.facts()
        return [(workload.name, sample)]


class Beside:
    """A |local| reader of the file while curl fetches it over the link: what this machine's cores leave of the local
    speed to whoever unpacks what is being moved."""

    def __init__(self, local, raw):
        self.local, self.raw, self.name = local, raw, f"{local.name} beside curl"

    def measure(self, *words, **options):
        moving = subprocess.Popen([str(w) for w in self.raw.command(BESIDE, "parallel")], env=lab.clean_env(),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return self.local.measure(*words, **options)
        finally:
            moving.kill()
            moving.wait()
