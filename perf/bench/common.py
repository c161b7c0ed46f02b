"""What the bench's programs share: their arguments' forms, where its cache is, what was measured with, drawing."""
import argparse
import os
import pathlib
import platform
import subprocess
import sys

PERF = pathlib.Path(__file__).resolve().parents[1]


def numbers(text):
    return [float(n) for n in text.split(",")]


def count(text):
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError(f"{n} is not at least 1")
    return n


def names(text):
    return text.split(",") if text else []


def build_of(program):
    """The build directory, which containers/box names."""
    if "XHDF5_BUILD" not in os.environ:
        sys.exit(f"{program}: XHDF5_BUILD must name the build directory; containers/box bench does it")
    return pathlib.Path(os.environ["XHDF5_BUILD"]).resolve()


def cache_of():
    build = pathlib.Path(os.environ.get("XHDF5_BUILD", PERF.parent / "build")).resolve()
    return pathlib.Path(os.environ.get("XHDF5_BENCH_CACHE", build.parent / "bench"))


def python_of(cache):
    """A Python that has h5py."""
    return next((p for p in (cache / "venv/bin/python", pathlib.Path("/opt/h5py-3.16.0/bin/python")) if p.exists()),
                pathlib.Path(sys.executable))


def first_line(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip().splitlines()[0] if done.returncode == 0 else "unknown"
    except (OSError, IndexError, subprocess.TimeoutExpired) as why:
        return f"unknown ({why})"


def versions(python):
    return {"commit": first_line("git", "-C", str(PERF), "describe", "--always", "--dirty"),
            "kernel": platform.release(), "cpus": os.cpu_count(),
            "nginx": first_line("nginx", "-v"), "xrootd": first_line("xrootd", "-v"), "curl": first_line("curl", "-V"),
            "h5py": first_line(str(python), "-c", "import h5py; print(h5py.version.info.split()[3:8])"),
            "hdf5": first_line("dpkg-query", "-W", "libhdf5-dev"), "congestion": first_line(
                "cat", "/proc/sys/net/ipv4/tcp_congestion_control")}


def draw(out):
    """The plots of the result in |out|."""
    python = cache_of() / "venv" / "bin" / "python"
    done = subprocess.run([python if python.exists() else sys.executable, PERF / "bench" / "plots.py", out],
                          capture_output=True, text=True)
    print(done.stdout, end="")
    if done.returncode:
        print(f"no plots: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
