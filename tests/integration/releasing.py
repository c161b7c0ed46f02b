#!/usr/bin/env python3
"""The version stands in meson.build alone, and all follows; what is not ready is not released. TAP."""
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

READY = harness.TOP / "containers/release-ready"
MESON = "project('x', 'c',\n  version: '1.2.3',\n)\n"
DATED = "# Changes\n\n## 1.2.3, 7 December 2026\n\n- New.\n\n## 1.2.2, 1 May 2026\n"


class Checkout:
    """One that may be released, to be spoiled."""

    def __init__(self, directory):
        self.at = pathlib.Path(directory)
        self.git("init", "--quiet")
        (self.at / "meson.build").write_text(MESON)
        self.changes(DATED)

    def git(self, *words):
        own = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"]
        subprocess.run(["git", "-C", self.at, *own, *words], check=True, env=harness.clean_env())

    def changes(self, text):
        (self.at / "CHANGELOG.md").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "c")

    def asked(self):
        """(exit status, version, reasons)"""
        status, out, err = harness.run([READY, self.at], harness.clean_env())
        return status, out.strip(), err.splitlines()


def refuses(tap):
    def claim(what, spoil, *reasons):
        with tap.claim(what), tempfile.TemporaryDirectory(prefix="xh-ready-") as d:
            checkout = Checkout(d)
            spoil(checkout)
            status, version, said = checkout.asked()
            assert version == "1.2.3" and status == bool(reasons), (status, version, said)
            assert len(said) == len(reasons) and all(re.search(r, s) for r, s in zip(reasons, said)), said

    def undated(c):
        c.changes(DATED.replace("7 December 2026", "unreleased"))

    def dirty(c):
        (c.at / "more").write_text("")

    def tagged_before(c):
        c.git("tag", "v1.2.3")
        c.changes(DATED + "\n")

    def all_at_once(c):
        undated(c)
        c.git("tag", "--annotate", "--message", "t", "v2.0.0")
        dirty(c)
    claim("what is dated, committed and not tagged may be released", lambda c: None)
    claim("so may what has its tag", lambda c: c.git("tag", "--annotate", "--message", "t", "v1.2.3"))
    claim("a section without a date is refused", undated, "begins with '## 1.2.3, unreleased'")
    claim("so is one of another version", lambda c: c.changes(DATED.replace("1.2.3", "1.2.4")), "## 1.2.4")
    claim("and what is not committed", dirty, "1 files, more")
    claim("and a tag of this version that is another commit's", tagged_before, "the tag v1.2.3 is of")
    claim("and a tag of another version; all reasons are told", all_at_once, "unreleased", "1 files", "tagged v2.0.0")


def follows(tap):
    version = re.search(r"^  version: '(.+)',$", (harness.TOP / "meson.build").read_text(), re.M)[1]
    with tap.claim("the tool, the Python package and the User-Agent have meson.build's version"):
        tool = str(harness.BUILD / "vfd/tool/xhdf5")
        assert harness.run([tool, "--version"], harness.clean_env())[1] == f"xhdf5 {version}\n"
        code = "import xhdf5._tables; print(xhdf5._tables.VERSION, xhdf5.__version__)"
        env = harness.clean_env() | {"PYTHONPATH": str(harness.BUILD / "python")}
        got = harness.run([harness.H5PY["3.16.0"], "-c", code], env)
        assert got[1] == f"{version} {version}\n", got
        agents = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                agents.append(self.headers["User-Agent"])
                self.send_error(404)
            do_HEAD = do_PROPFIND = do_GET

            def log_message(self, *words):
                pass
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            harness.run([tool, "stat", f"http://127.0.0.1:{server.server_port}/x.h5"], harness.clean_env())
            server.shutdown()
        assert set(agents) == {f"xhdf5/{version}"}, agents
    with tap.claim("so have CHANGELOG.md, and whatever names a version in README and docs"):
        assert (harness.TOP / "CHANGELOG.md").read_text().startswith(f"# Changes\n\n## {version}, ")
        for page in [harness.TOP / "README.md", *(harness.TOP / "docs").rglob("*.md")]:
            named = set(re.findall(r"\bxhdf5[-/](\d+\.\d+(?:\.\d+)*)\b", page.read_text()))
            assert named <= {version}, (page, named)


ROOT = set(""".ci .clang-format .clang-tidy .editorconfig .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE README.md
    SECURITY.md cache containers docs meson.build meson_options.txt perf pyproject.toml python server tests vfd""".split())


def belongs(tap):
    with tap.claim("nothing is in the source archive's first folder that does not belong there"):
        status, out, err = harness.run(["git", "-C", harness.TOP, "ls-files"], dict(os.environ))
        if status:
            return      # an unpacked archive
        found = {name.split("/")[0] for name in out.splitlines()}
        assert found == ROOT, found ^ ROOT


def main():
    tap = harness.Tap()
    refuses(tap)
    follows(tap)
    belongs(tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
