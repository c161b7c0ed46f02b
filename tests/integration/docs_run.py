#!/usr/bin/env python3
"""Runs the commands that the documentation shows, against real servers, and compares what they print. Prints TAP.

usage: docs_run.py [--show] DOC.md …      (--show: what each block printed)

Every block of sh, python or c in those files has a comment on the line before it, which the reader does not see:
  <!-- run -->            it runs and succeeds; a c block is saved as the file that its first line names
  <!-- run: fails -->     it ends with an error
  <!-- not run: WHY -->   it is left alone
and a block of text behind <!-- prints --> has the lines that the block before it printed, in order, among others; … is
anything. Blocks of one file run one after another in one directory, with the variables that those before exported.
https://data.example.org is an nginx with /private, https://store.example.org an XRootD, /opt/xhdf5/plugins the plugin's directory,
docs/examples the examples.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

TOKEN = "a-token-of-the-docs"
MAKE = """
import h5py, numpy as np, os, sys
rng = np.random.default_rng(3)
frames = rng.poisson(3, (60, 256, 256)).astype("u2")
frames[7::20, 100:104, 50:54] += 500
with h5py.File("run.h5", "w") as f:
    f.create_dataset("entry/data/data", data=frames, chunks=(1, 256, 256), compression="gzip", compression_opts=1)
    f["entry/instrument/detector/pixel_mask"] = (rng.random((256, 256)) < 0.001).astype("u1")
    f["images"] = frames
"""
BLOCK = re.compile(r"(?m)^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.S)


class Book:
    """One file's blocks, run in one directory."""

    def __init__(self, doc, work, env, words):
        self.doc, self.work, self.env, self.words = doc, work, env, words
        self.said = ""

    def real(self, text):
        for name, value in self.words.items():
            text = text.replace(name, value)
        return text

    def run(self, kind, text, fails):
        text = self.real(text)
        if kind == "c":
            (self.work / re.search(r"(\w+\.c)\b", text)[1]).write_text(text)
            return
        if kind == "python":
            (self.work / "block.py").write_text(text)
            text = "python3 block.py"
        script = f"set -e; [ ! -e .env ] || . ./.env; trap 'export -p >.env' EXIT\n{text}"
        done = subprocess.run(["bash", "-c", script], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        self.said = done.stdout.decode(errors="backslashreplace")
        assert (done.returncode != 0) == fails, f"exit status {done.returncode}\n{text}\n{self.said[-3000:]}"

    def printed(self, text):
        """The lines of |text| are in what was said, in order; a line that begins with spaces may be indented otherwise."""
        at = 0
        for line in filter(str.strip, text.splitlines()):
            pattern = ".*".join(re.escape(part) for part in self.real(line).strip().split("…"))
            m = re.compile(pattern.replace(r"\ ", r"\s+")).search(self.said, at)
            assert m, f"not printed: {line}\n{self.said[-3000:]}"
            at = m.end()


def blocks(tap, doc, work, env, words, show):
    book = Book(doc, work, env, words)
    text = doc.read_text()
    for m in BLOCK.finditer(text):
        kind, mark, line = m["kind"], m["mark"] or "", text.count("\n", 0, m.start()) + 1
        claim = f"{doc.name}:{line}"
        if mark.startswith("not run: "):
            continue
        if kind == "text" and mark == "prints":
            with tap.claim(f"{claim} is what was printed"):
                book.printed(m["text"])
        elif kind in ("sh", "python", "c"):
            with tap.claim(f"{claim} runs" if mark == "run" else f"{claim} fails as it says"):
                assert mark in ("run", "run: fails"), f"no mark before this block: {mark!r}"
                book.run(kind, m["text"], mark == "run: fails")
            if show:
                print("\n".join("# " + line for line in book.said.splitlines()), flush=True)


def main():
    tap = harness.Tap()
    words = sys.argv[1:]
    show = "--show" in words
    docs = [harness.TOP / w for w in words if w != "--show"]
    with tempfile.TemporaryDirectory(prefix="xh-docs-", dir="/var/tmp") as d, harness.shadow_dir() as shadow:
        data = pathlib.Path(d) / "data"
        (data / "private").mkdir(parents=True)
        data.chmod(0o777)
        os.chmod(d, 0o755)
        status, _, err = harness.run([harness.DATA_PYTHON, "-c", MAKE], harness.clean_env(), cwd=data)
        assert status == 0, err
        os.link(data / "run.h5", data / "private" / "run.h5")
        with harness.Server("nginx", data, words=["--token", TOKEN,
                                                  "--writable"]) as nginx, harness.Server("xrootd", data) as xrootd:
            certificates = pathlib.Path(d) / "ca.pem"
            certificates.write_text(pathlib.Path(nginx.cacert).read_text() + pathlib.Path(xrootd.cacert).read_text())
            for doc in docs:
                work = pathlib.Path(d) / doc.stem
                work.mkdir()
                here = shadow / doc.stem
                here.mkdir(mode=0o700)
                env = harness.clean_env() | {
                    "XHDF5_CA_BUNDLE": str(certificates), "XHDF5_SHADOW_DIR": str(here), "HOME": str(work),
                    "SITE_TOKEN": TOKEN,
                    "XDG_RUNTIME_DIR": str(work), "PYTHONPATH": str(harness.BUILD / "python"), "no_proxy": "*",
                    "PATH": f"{harness.BUILD}/vfd/tool:{harness.H5PY['3.16.0'].parent}:{os.environ['PATH']}",
                    "PKG_CONFIG_PATH": str(harness.BUILD / "meson-uninstalled"),
                    "LD_LIBRARY_PATH": str(harness.BUILD / "vfd")}
                names = {"https://data.example.org": nginx.url, "https://store.example.org": xrootd.url,
                         "/opt/xhdf5/plugins": harness.plugin_dir(),
                         "docs/examples": str(harness.TOP / "docs/examples"),
                         " /data/run.h5": f" {data}/run.h5", "PYTHONPATH=server": f"PYTHONPATH={harness.TOP}/server",
                         **{f"server/{w}": str(harness.TOP / "server" / w) for w in ("serve", "issue_token")}}
                blocks(tap, doc, work, env, names, show)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
