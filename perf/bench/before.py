"""The driver as another commit builds it: a reader beside this build's, in the same rounds."""
import pathlib
import subprocess

from . import lab

BOUND = 1.03        # most of its time that this build may take: what the project calls "not slower"


def command(*argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    if done.returncode:
        raise lab.Failed(f"{' '.join(map(str, argv[:3]))} …: {(done.stdout + done.stderr)[-2000:].strip()}")
    return done.stdout.strip()


def built(commit, cache, say):
    """(name, build directory) of |commit|, which is built once and kept in |cache|."""
    top = pathlib.Path(__file__).resolve().parents[2]
    short = command("git", "-C", top, "rev-parse", "--short", f"{commit}^{{commit}}")
    source, build = cache / "before" / short / "source", cache / "before" / short / "build"
    if not (build / "vfd/plugins").exists():
        say(f"building {short}")
        source.mkdir(parents=True, exist_ok=True)
        command("sh", "-c", 'git -C "$1" archive "$2" | tar -x -C "$3"', "sh", top, short, source)
        if not (build / "build.ninja").exists():
            command("meson", "setup", "-Dtests=false", build, source)
        command("ninja", "-C", build)
    return f"of {short}", build
