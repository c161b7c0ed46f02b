#!/usr/bin/env python3
"""The ranks of one program and one file: the right bytes, and what the origin is asked, by its own log.

Usage: together.py nginx|xrootd RANKS MPIEXEC READ_TOGETHER READ_ALONE [brief]

brief: one MPI has been through all of it; another, whose start is slow, shows that it does the same.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / d) for d in ("support", "integration")]
import harness  # noqa: E402
import sources  # noqa: E402

MAKE = """
import sys, h5py, numpy as np
rng = np.random.default_rng(4)
rows = int(sys.argv[3])
data = rng.integers(0, 1 << 20, (rows, 2048), np.int32)
with h5py.File(sys.argv[1], "w", libver=sys.argv[2]) as f:
    f["contiguous"] = data
    f.create_dataset("small_chunks", data=data, chunks=(48, 256))
    f.create_dataset("large_chunks", data=data, chunks=(256, 1536))
    f.create_dataset("gzip", data=data, chunks=(32, 1024), compression=1, shuffle=True)
    f["rest"] = np.zeros((768 - rows, 4, 2048), np.int32)    # a file of less than 16 MiB would come whole
    for i in range(400):
        g = f.require_group(f"tree{i % 20}/branch{i % 3}")
        g[f"value{i}"] = np.arange(200) + i
        g[f"value{i}"].attrs["units"] = "mm"
"""
MAKE_LINKS = """
import sys, h5py
with h5py.File(sys.argv[1], "w") as f:
    f["missing"] = h5py.ExternalLink("missing.h5", "/x")
    f["refused"] = h5py.ExternalLink(sys.argv[2], "/x")
"""
ROWS, CHUNK_ROWS, CHUNKS_A_ROW = 384, 32, 2     # of /gzip
DATASETS = ("/contiguous", "/small_chunks", "/large_chunks", "/gzip")
SHARES = ("rows", "columns", "points", "uneven", "all", "none")
OWN_SHADOW = 'XHDF5_SHADOW_DIR="$XHDF5_SHADOW_DIR/${PMI_RANK-$OMPI_COMM_WORLD_RANK}"; mkdir -p -m 700 "$XHDF5_SHADOW_DIR"; exec "$@"'
LAST_FAILS = ('r=${PMI_RANK-$OMPI_COMM_WORLD_RANK} n=${PMI_SIZE-$OMPI_COMM_WORLD_SIZE}; '
              '[ $((r + 1)) -lt $n ] || export XHDF5_RETRIES=none; exec "$@"')


# A rank that waits sleeps between its looks: by default it spins, and takes the processor from the ranks it waits for.
SLEEPS = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1", "MPIR_CVAR_POLLS_BEFORE_YIELD": "10",
          "OMPI_MCA_mpi_yield_when_idle": "1"}


class Job:
    """A program's ranks, as it is started for each claim."""

    def __init__(self, mpiexec, program, ranks):
        self.program, self.ranks = program, ranks
        version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=True).stdout
        # Open MPI wants to be told that more ranks than cores, and root in a container, are meant.
        self.start = [mpiexec, *(["--oversubscribe", "--allow-run-as-root"] if "Open MPI" in version else [])]

    def run(self, env, *words, ranks=None, nodes=False, last_fails=False, status=0):
        """Standard output and error. |nodes|: every rank has a shadow of its own. |last_fails|: the last rank has an
        option that is none."""
        before = OWN_SHADOW if nodes else LAST_FAILS if last_fails else None
        argv = ["sh", "-c", before, "sh", self.program] if before else [self.program]
        env = dict(env, **SLEEPS, ASAN_OPTIONS="detect_leaks=0")    # MPIs leak of their own
        got, out, err = harness.run([*self.start, "-n", ranks or self.ranks, *argv, *words], env, timeout=200)
        if got != status:
            raise RuntimeError(f"exit status {got}\n{out[-2000:]}\n{err[-4000:]}")
        return out, err


def main():
    kind, ranks, mpiexec, program, alone, *brief = sys.argv[1:]
    ranks = int(ranks)
    tap = harness.Tap()
    job, plain = Job(mpiexec, program, ranks), Job(mpiexec, alone, ranks)
    with tempfile.TemporaryDirectory(prefix="xh-mpi-") as data:
        pathlib.Path(data).chmod(0o755)
        for libver in ("earliest", "latest"):
            status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE, f"{data}/{libver}.h5", libver, ROWS],
                                           harness.clean_env())
            assert status == 0, err
        local = f"{data}/earliest.h5"
        with harness.Server(kind, data) as server:
            url = f"{server.url}/earliest.h5"
            collective(tap, job, server, data, brief)
            if brief:
                return tap.done()
            costs(tap, job, server, url, local)
            image(tap, job, server, data)
            independent(tap, plain, server, url, local)
            failures(tap, job, server, local)
    return tap.done()


def cost(server, action):
    """(requests, bytes) that |action| took of the origin."""
    before = server.requests()
    action()
    after = server.requests()
    return after[0] - before[0], after[1] - before[1]


def cost_of(server, action):
    """The same of a run with log=stats, without requests that were sent again; and how many these were. On a busy
    machine a reply may be so late that it is asked for a second time."""
    seen = []
    requests, size = cost(server, lambda: seen.append(action()))
    again = sum(int(n) for n in re.findall(r"\b(?:hedged|retries)=(\d+)", seen[0][1]))
    return requests - again, size, again


def collective(tap, job, server, data, brief):
    runs = [("earliest", words) for words in ((), ("metadata",), ("independent",), ("noselection",), ("int64",))]
    runs += [("latest", words) for words in ((), ("metadata",))]
    if brief:
        runs = [("earliest", ("metadata",)), ("earliest", ("noselection",))]
    for i, (libver, words) in enumerate(runs):
        url, local = f"{server.url}/{libver}.h5", f"{data}/{libver}.h5"
        first = i % len(DATASETS)    # each of them is the first that is read, in a run
        names = DATASETS[first:] + DATASETS[:first]
        claim = f"{libver} {' '.join([*words, *names])}: every rank gets its bytes, whatever its share"
        with tap.claim(claim), harness.shadow_dir() as shadow:
            out, _ = job.run(harness.driver_env(server, shadow), url, local, *words,
                             *(word for name in names for word in (name, *SHARES)))
            for name in names:
                modes = dict(re.findall(rf"^{name} (\w+) mode=(\d+)", out, re.MULTILINE))
                assert set(modes) == set(SHARES), f"{name}: {out}"
                if words in ((), ("metadata",)):
                    assert modes[SHARES[-1]] != "0", f"HDF5 did not read {name} collectively: {out}"
    url, local = f"{server.url}/earliest.h5", f"{data}/earliest.h5"
    with tap.claim("a collective read of compressed chunks is one vectored read a rank"), harness.shadow_dir() as shadow:
        _, err = job.run(harness.driver_env(server, shadow, log="vfd"), url, local, "metadata", "/gzip", "rows")
        pieces = [int(n) for n in re.findall(r"read kind=raw pieces=(\d+)", err)]
        starts = [ROWS * r // job.ranks for r in range(job.ranks + 1)]
        want = [CHUNKS_A_ROW * (-(-end // CHUNK_ROWS) - start // CHUNK_ROWS) for start, end in zip(starts, starts[1:])]
        assert sorted(pieces) == sorted(want), f"{pieces}, not {want}"
    with tap.claim("local files are read collectively too"):
        job.run(harness.driver_env(), local, local, "metadata", "/gzip", "rows", "/small_chunks", "columns")


def costs(tap, job, server, url, local):
    """What N ranks cost is what one costs, on one node and on N.

    Without guesses the requests are the same ones. How many pages a guess takes hangs on when a reply comes, so a walk
    with guesses by one rank alone takes 12 to 16 requests: of those the bytes are claimed.
    """
    for words, what, options in ((("open",), "opening", {"readahead": "off"}),  # which goes on as long as the program
                                 (("metadata", "walk"), "a walk without guesses", {"readahead": "off"}),
                                 (("metadata", "walk"), "a walk through all metadata", {}),
                                 (("metadata", "walk", "/gzip", "rows", "/contiguous", "rows"),
                                  "reading all of two data sets", {})):
        with harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow, log="stats", **options)
            one = cost_of(server, lambda: job.run(env, url, local, *words, ranks=1))
        for nodes in (False, True):
            where = "on nodes of their own" if nodes else "on one node"
            with tap.claim(f"{what} by {job.ranks} ranks {where} costs what one rank costs"), \
                    harness.shadow_dir() as shadow:
                env = harness.driver_env(server, shadow, log="stats", **options)
                many = cost_of(server, lambda: job.run(env, url, local, *words, nodes=nodes))
                print(f"# {what} {where}: {many[0]} requests, {many[1]} bytes; one rank {one[0]}, {one[1]}")
                if options:     # what is sent again has bytes of its own
                    assert many[0] == one[0], f"{many}, one rank {one}"
                    assert many[1] == one[1] or many[2] or one[2], f"{many}, one rank {one}"
                elif "rows" not in words:
                    assert many[1] <= 1.1 * one[1] + 20000, f"{many}, one rank {one}"
                else:   # a page that two shares have, and an index, each node fetches for itself
                    assert many[1] <= 1.1 * one[1] + (job.ranks * 200_000 if nodes else 0), f"{many}, one rank {one}"
    with harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        job.run(env, url, local, "metadata", "walk", ranks=1)
        with tap.claim(f"{job.ranks} ranks open a file that the node knows with at most two requests"):
            many = cost(server, lambda: job.run(env, url, local, "metadata", "walk"))
            assert many[0] <= 2 and many[1] < 20000, f"{many}"


def image(tap, job, server, data):
    """A metadata image beside the file: rank 0 finds it, and all read it."""
    local = pathlib.Path(data, "imaged.h5")
    shutil.copyfile(f"{data}/latest.h5", local)
    harness.age(local)      # ranks share nothing of a file that was changed just now
    url = f"{server.url}/imaged.h5"
    status, _, err = harness.run([harness.BUILD / "vfd/tool/xhdf5", "publish", local], harness.clean_env())
    assert status == 0, err
    harness.age(f"{local}.xhmeta")
    size = pathlib.Path(f"{local}.xhmeta").stat().st_size
    for nodes in (False, True):
        where = "on nodes of their own" if nodes else "on one node"
        with tap.claim(f"{job.ranks} ranks {where} walk through the image that rank 0 found"), harness.shadow_dir() as shadow:
            env = harness.driver_env(server, shadow, log="stats", sidecar="require")
            seen = []
            many = cost(server, lambda: seen.append(job.run(env, url, local, "walk", nodes=nodes)[1]))
            imaged = [int(n) for n in re.findall(r" bytes_sidecar=(\d+)", seen[0])]
            print(f"# {where}: {many[0]} requests, {many[1]} bytes, the image {size}; out of it {imaged}")
            assert sum(n > 10000 for n in imaged) == job.ranks, imaged
            assert many[1] <= (job.ranks if nodes else 1) * (size + 40_000) + 40_000, f"{many}, the image {size}"


def independent(tap, plain, server, url, local):
    """The plain plugin: each rank opens and reads all on its own."""
    want = re.search(r"sum=(\w+)", plain.run(harness.clean_env(), local, "gzip", ranks=1)[0])[1]
    with harness.shadow_dir() as shadow:
        one = cost(server, lambda: plain.run(harness.driver_env(server, shadow), url, "gzip", ranks=1))
    with tap.claim(f"the plain plugin: {plain.ranks} ranks that read all cost what one rank costs, and their opening"), \
            harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        many = cost(server, lambda: same(plain.run(env, url, "gzip")[0], want, plain.ranks))
        print(f"# independent: {many[0]} requests, {many[1]} bytes; one rank {one[0]}, {one[1]}")
        # Each opens for itself, at once with the others: up to a head and some greetings each.
        assert many[1] <= 1.15 * one[1] + plain.ranks * 25_000, f"{many}, one rank {one}"
        assert many[0] <= 2 * one[0] + 8 * plain.ranks, f"{many}, one rank {one}"
    with tap.claim(f"the plain plugin: {plain.ranks} ranks that open what the node knows ask twice each at most"), \
            harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        plain.run(env, url, "gzip", ranks=1)
        many = cost(server, lambda: same(plain.run(env, url, "gzip")[0], want, plain.ranks))
        assert many[0] <= 2 * plain.ranks, f"{many}"


    with tap.claim("the plugin for collective access, loaded without a communicator, is the plain one"), \
            harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        env.update(HDF5_DRIVER="xhdf5_mpi", HDF5_PLUGIN_PATH=os.environ["XHDF5_MPI_PLUGINS"])
        same(plain.run(env, url, "gzip")[0], want, plain.ranks)
        sums = set()    # a serial HDF5 too
        for target, settings in ((local, harness.clean_env()), (url, env)):
            status, out, err = harness.run([harness.DATA_PYTHON, harness.TOP / "perf/read_images.py", target, "gzip"],
                                           settings)
            assert status == 0, err[-2000:]
            sums.add(re.search(r"sum=(\w+)", out)[1])
        assert len(sums) == 1, sums


def same(out, want, ranks):
    sums = re.findall(r"sum=(\w+)", out)
    assert sums == [want] * ranks, sums


def failures(tap, job, server, local):
    with tap.claim("a file that is not there fails in all ranks, with rank 0's reason"), harness.shadow_dir() as shadow:
        env = harness.driver_env(server, shadow)
        out, _ = job.run(env, f"{server.url}/missing.h5", local, "open", status=3)
        assert f"failed alike in {job.ranks}: " in out and "404" in out, out
    with tap.claim("a file that another rank alone cannot open fails in all ranks, and nobody shows the URL's login or "
                   "signature"), harness.shadow_dir() as shadow:
        url = f"{server.url}/earliest.h5?X-Amz-Signature=secret".replace("://", "://me:secret@")
        out, err = job.run(harness.driver_env(server, shadow), url, local, "open", last_fails=True, status=3)
        others = int(job.ranks) - 1     # rank 0 shows its error, and how many have the same
        assert re.search(rf"^failed alike in {others}: .*/earliest\.h5: another process of the communicator cannot open "
                         rf"it: rank {others}: .*retries", out, re.M), out
        assert "secret" not in out + err, out + err[-2000:]
    with tap.claim("a link's target that does not open fails in all ranks, and one of them says why"), harness.shadow_dir() as shadow:
        refused = f"https://127.0.0.1:{harness.free_port()}/x.h5"
        links = os.path.join(os.path.dirname(local), "links.h5")
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", MAKE_LINKS, links, refused], harness.clean_env())
        assert status == 0, err
        out, err = job.run(harness.driver_env(server, shadow, retries=0), f"{server.url}/links.h5", local,
                           "broken=/missing", "broken=/refused")
        assert f"/missing not followed in {job.ranks}" in out and f"/refused not followed in {job.ranks}" in out, out
        said = [line for line in err.splitlines() if line.startswith("xhdf5: ")]
        assert len(said) == 2 and f"{server.url}/missing.h5" in said[0] and "404" in said[0] and refused in said[1], (
            said, err[-500:])
    with tap.claim("names with %b at a server that has a file for each name come to an end in all ranks, and a line "
                   "says why"), harness.shadow_dir() as shadow:
        source, endless = (os.path.join(os.path.dirname(local), n) for n in ("source.h5", "endless.h5"))
        bench = sources.Bench(pathlib.Path(shadow))
        bench.make(source, None)
        bench.finish()
        liar = sources.Liar(source)
        try:
            bench.make(endless, {"all": f"{liar.base}/ok/part-%b.h5"})
            bench.finish()
            env = harness.driver_env(server, shadow) | {"no_proxy": "*"}
            out, err = job.run(env, f"{server.url}/endless.h5", local, "length=/all")
        finally:
            liar.close()
        said = [line for line in err.splitlines() if line.startswith("xhdf5: ")]
        assert "/all length=1530\n" in out and len(said) == 1 and "would never end" in said[0], (out, said, err[-500:])
    with tap.claim("without a shadow it works as well"):
        job.run(harness.driver_env(server, shadow="/proc/nowhere"), f"{server.url}/earliest.h5", local, "metadata",
                "/gzip", "rows", "/small_chunks", "columns")


if __name__ == "__main__":
    sys.exit(main())
